//! Skips the verification of entries that are known to be unchanged since they were verified.
//!
//! All bytes of an entry are compared with its manifest when it is first opened. After that, the metadata of
//! its files (inode, size, times of the last change of content and of the inode) are stored in memory and in
//! `<entry>.seen`. The next process that opens the entry only compares these metadata. Any write changes
//! these times, and the change time of the inode cannot be set back. The modification time of the `.seen`
//! file is the time of the last use of the entry.

use std::fs::{self, File, Metadata};
use std::io::{self, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::{open_file, plain, with_end};

/// Interval within which two changes of a file may have the same time, on file systems that store
/// fractions of a second. The clock of these file systems advances in ticks of several
/// milliseconds.
const TICK: Duration = Duration::from_millis(50);
/// Interval within which two changes of a file may have the same time, on file systems that store whole
/// seconds.
const COARSE: Duration = Duration::from_secs(2);

/// The metadata of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stamp {
    dev: u64,
    ino: u64,
    size: u64,
    mtime: (i64, i64),
    ctime: (i64, i64),
}

impl Stamp {
    pub(crate) fn of(file: &Metadata) -> Stamp {
        Stamp {
            dev: file.dev(),
            ino: file.ino(),
            size: file.size(),
            mtime: (file.mtime(), file.mtime_nsec()),
            ctime: (file.ctime(), file.ctime_nsec()),
        }
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Returns whether the stamp belongs to this file, possibly with earlier content.
    pub(crate) fn is_of_same_file(&self, file: &Metadata) -> bool {
        (self.dev, self.ino) == (file.dev(), file.ino())
    }

    /// Returns whether the file could change later without changing the stamp. Such a change is
    /// possible if the last change was at about the time when the stamp was taken, between `asked`
    /// and `looked`. Times that are far off because the clock was set are safe: a later change
    /// would have a different time.
    fn may_hide_a_change(&self, asked: Duration, looked: Duration) -> bool {
        [self.ctime, self.mtime]
            .into_iter()
            .any(|(seconds, nanos)| {
                let nanos = u32::try_from(nanos).unwrap_or(0);
                let seconds = u64::try_from(seconds).unwrap_or(0);
                let margin = if nanos == 0 { COARSE } else { TICK };
                let changed =
                    Duration::from_secs(seconds).saturating_add(Duration::from_nanos(nanos.into()));
                changed.saturating_add(margin) >= asked && changed <= looked.saturating_add(margin)
            })
    }
}

/// The metadata of the files of an entry when all of their bytes were verified.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Seen {
    /// The checksum of the manifest.
    checksum: String,
    manifest: Stamp,
    files: Vec<Stamp>,
}

impl Seen {
    /// Takes the stamps of the files before they are verified; `None` if a file is missing.
    pub(crate) fn now(
        checksum: &str,
        manifest: Stamp,
        files: impl Iterator<Item = PathBuf>,
    ) -> Option<Seen> {
        let files: Option<_> = files
            .map(|path| fs::metadata(path).ok().map(|file| Stamp::of(&file)))
            .collect();
        Some(Seen {
            checksum: checksum.to_owned(),
            manifest,
            files: files?,
        })
    }

    /// Returns whether the manifest is unchanged.
    pub(crate) fn is_of(&self, manifest: &Stamp) -> bool {
        self.manifest == *manifest
    }

    /// Returns the stamps of the files.
    pub(crate) fn files(&self) -> &[Stamp] {
        &self.files
    }

    /// Returns whether every later change of the files also changes their stamps. `asked` is the time before
    /// the stamps were taken, `looked` the time after.
    pub(crate) fn is_telling(&self, asked: SystemTime, looked: SystemTime) -> bool {
        let since_1970 = |time: SystemTime| {
            let since = time.duration_since(SystemTime::UNIX_EPOCH);
            since.unwrap_or_default()
        };
        let (asked, looked) = (since_1970(asked), since_1970(looked));
        let mut all = self.files.iter().chain([&self.manifest]);
        // If the clock was set back between the two times, the stamps prove nothing.
        asked <= looked && !all.any(|stamp| stamp.may_hide_a_change(asked, looked))
    }

    /// Reads the stamps that this or another process has stored. The content is untrusted: it is
    /// only used if it equals the current stamps.
    pub(crate) fn read(entry: &Path) -> Option<Seen> {
        let file = open_file(&with_end(entry, ".seen")).ok()?;
        serde_json::from_reader(BufReader::new(file)).ok()
    }

    /// Stores the stamps for other processes, if possible. A truncated file is ignored by readers.
    pub(crate) fn write(&self, entry: &Path) {
        let path = with_end(entry, ".seen");
        let file = plain(File::options().create(true).write(true).truncate(true)).open(path);
        let json = serde_json::to_vec(self).map_err(io::Error::from);
        let _ = file.and_then(|mut file| file.write_all(&json?));
    }
}

/// Updates the time of last use of an entry.
pub(super) fn touch(entry: &Path) {
    let path = with_end(entry, ".seen");
    let file = plain(File::options().create(true).append(true)).open(path);
    let _ = file.and_then(|file: File| file.set_modified(SystemTime::now()));
}

/// Returns the time of last use of an entry. A time in the future, stored before the clock was set
/// back, counts as now. The time is then corrected, so that the entry can expire.
pub(crate) fn last_used(entry: &Path, manifest: &Path) -> Option<SystemTime> {
    let now = SystemTime::now();
    let time = |path: &Path| fs::metadata(path).and_then(|file| file.modified()).ok();
    let (seen, made) = (time(&with_end(entry, ".seen")), time(manifest));
    if seen.or(made)? > now {
        touch(entry);
        return Some(now);
    }
    let past = |time: &SystemTime| *time <= now;
    seen.filter(past).max(made.filter(past))
}
