//! Remembers for a while the jobs of a set that a server did not have. The file is `<entry>.partial`,
//! next to the path of the index of the whole set.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::cache::with_end;
use super::super::{JobSet, MissingJob};
use super::reasons;

/// Maximum size of the file in bytes.
const MAX_PARTIAL: u64 = 256 << 20;

/// The jobs of a set that a server had.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Partial {
    server: String,
    /// Seconds since 1970.
    at: u64,
    found: String,
    missing: Value,
}

impl Partial {
    /// Creates a record of the jobs that a server has now.
    pub(super) fn now(server: &str, found: &JobSet, missing: &[MissingJob]) -> Partial {
        Partial {
            server: server.to_owned(),
            at: seconds(),
            found: found.to_string(),
            missing: reasons::object(missing),
        }
    }

    /// Reads the record of a set and a server, regardless of its age.
    pub(super) fn read(entry: &Path, server: &str) -> Option<Partial> {
        let path = place(entry);
        if fs::metadata(&path).ok()?.len() > MAX_PARTIAL {
            return None;
        }
        let partial: Partial = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
        (partial.server == server).then_some(partial)
    }

    /// Returns whether the record is recent enough not to ask the server again. A time in the
    /// future, stored before the clock was set back, does not count as recent.
    pub(super) fn is_fresh(&self, retry: Duration) -> bool {
        let age = seconds().checked_sub(self.at);
        age.is_some_and(|age| Duration::from_secs(age) < retry)
    }

    /// Returns the jobs that were found, and the missing jobs of the set.
    pub(super) fn jobs(&self, asked: &JobSet) -> Option<(JobSet, Vec<MissingJob>)> {
        let found: JobSet = self.found.parse().ok()?;
        let missing = reasons::of(&asked.without(&found), &self.missing);
        found.is_subset(asked).then_some((found, missing))
    }

    /// Writes the record. If this fails, the next request asks the server again.
    pub(super) fn write(&self, entry: &Path) {
        let written = || -> std::io::Result<()> {
            let folder = entry.parent().unwrap_or(Path::new("."));
            let mut file = tempfile::NamedTempFile::new_in(folder)?;
            file.write_all(&serde_json::to_vec(self)?)?;
            file.persist(place(entry))?;
            Ok(())
        };
        if let Err(error) = written() {
            tracing::debug!(entry = %entry.display(), %error, "cannot cache the list of missing jobs");
        }
    }

    /// Removes the record, because there is an entry of the whole set.
    pub(super) fn remove(entry: &Path) {
        let _ = fs::remove_file(place(entry));
    }
}

fn place(entry: &Path) -> PathBuf {
    with_end(entry, ".partial")
}

fn seconds() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs())
}

#[cfg(test)]
mod tests {
    use super::super::super::{JobId, Missing};
    use super::*;

    #[test]
    fn missing_jobs_are_cached_per_server_for_a_while() {
        let folder = tempfile::tempdir().unwrap();
        let entry = folder.path().join("1-2-3-cache");
        assert_eq!(Partial::read(&entry, "http://a/"), None);
        let asked: JobSet = "1-3".parse().unwrap();
        let found: JobSet = "1,3".parse().unwrap();
        let missing = vec![MissingJob {
            job: JobId(2),
            why: Missing::NoJob,
        }];
        let mut partial = Partial::now("http://a/", &found, &missing);
        partial.write(&entry);
        assert_eq!(Partial::read(&entry, "http://a/").as_ref(), Some(&partial));
        assert_eq!(Partial::read(&entry, "http://b/"), None);
        assert_eq!(partial.jobs(&asked), Some((found, missing)));
        assert_eq!(partial.jobs(&"1,2".parse().unwrap()), None);

        let minute = Duration::from_secs(60);
        assert!(partial.is_fresh(minute));
        assert!(!partial.is_fresh(Duration::ZERO));
        partial.at -= 60;
        assert!(!partial.is_fresh(minute));
        partial.at += 6000;
        assert!(!partial.is_fresh(minute), "the clock was set back");

        Partial::remove(&entry);
        assert_eq!(Partial::read(&entry, "http://a/"), None);
        fs::write(place(&entry), "{}").unwrap();
        assert_eq!(Partial::read(&entry, "http://a/"), None);
    }
}
