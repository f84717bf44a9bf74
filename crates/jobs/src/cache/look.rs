//! Opens an entry and checks that it is intact.

use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use nix::libc;

use super::super::{Error, Id, Work};
use super::entry::Held;
use super::manifest::sum;
use super::seen::{self, Seen};
use super::{Entry, FileBasedCache, Form, Manifest, file_of, manifest_of};

/// Minimum interval between updates of the time of last use.
const MARKED: Duration = Duration::from_secs(30);
/// Maximum number of entries whose state is cached.
const MAX_CACHED: usize = 20_000;

/// The state of an entry when it was last opened.
#[derive(Clone, Debug)]
pub(super) struct CachedEntry {
    pub manifest: Arc<Manifest>,
    pub seen: Seen,
    marked: Instant,
}

impl<I: Id> FileBasedCache<I> {
    /// Opens an entry, if it exists and is intact.
    pub(super) fn look(
        &self,
        name: &str,
        path: &Path,
        work: &Work,
    ) -> Result<Option<Entry>, Error> {
        let at = manifest_of(path, self.form);
        while let Some(mut held) = Held::open(&at)? {
            match self.examine(name, path, &mut held, work) {
                Ok(manifest) => {
                    let entry = Entry::new(path.to_owned(), self.form, manifest, held.file);
                    return Ok(Some(entry));
                }
                // The entry was replaced in the meantime: try the new entry.
                Err(Error::Damaged { .. }) if !held.is_at(&at)? => {}
                // An unreadable sector is treated like a wrong checksum.
                Err(Error::Io { error, .. }) if error.raw_os_error() == Some(libc::EIO) => {
                    return Err(Error::Damaged {
                        entry: path.to_owned(),
                        what: error.to_string(),
                    });
                }
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Checks whether an entry is intact.
    fn examine(
        &self,
        name: &str,
        path: &Path,
        held: &mut Held,
        work: &Work,
    ) -> Result<Arc<Manifest>, Error> {
        let at = manifest_of(path, self.form);
        let damaged = |what: String| Error::Damaged {
            entry: path.to_owned(),
            what,
        };
        let known = self.cached(name);
        let manifest = match &known {
            Some(known) if known.seen.is_of(&held.stamp) => Arc::clone(&known.manifest),
            _ => Arc::new(
                Manifest::parse(&held.read(&at)?).map_err(|wrong| damaged(wrong.to_string()))?,
            ),
        };
        let is_ours = manifest.must_be_of(&self.name, name);
        is_ours.map_err(|wrong| damaged(wrong.to_string()))?;
        let files = manifest.files.iter();
        let paths = files.map(|file| file_of(path, self.form, &file.name));
        let asked = SystemTime::now();
        let Some(seen) = Seen::now(&manifest.checksum, held.stamp, paths) else {
            return Err(damaged("one of its files is missing".to_owned()));
        };
        let looked = SystemTime::now();
        let marked = match known {
            Some(known) if known.seen == seen => known.marked,
            _ => {
                if Seen::read(path).as_ref() != Some(&seen) {
                    whole(path, self.form, &manifest, &seen, work)?;
                    if !seen.is_telling(asked, looked) {
                        seen::touch(path);
                        return Ok(manifest);
                    }
                    seen.write(path);
                }
                seen::touch(path);
                let marked = Instant::now();
                self.cache_seen(name, &manifest, seen.clone(), marked);
                marked
            }
        };
        if marked.elapsed() >= MARKED {
            seen::touch(path);
            self.cache_seen(name, &manifest, seen, Instant::now());
        }
        Ok(manifest)
    }

    pub(super) fn cached(&self, name: &str) -> Option<CachedEntry> {
        let known = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(name).cloned()
    }

    fn cache_seen(&self, name: &str, manifest: &Arc<Manifest>, seen: Seen, marked: Instant) {
        let mut known = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_CACHED {
            known.clear();
        }
        let manifest = Arc::clone(manifest);
        let one = CachedEntry {
            manifest,
            seen,
            marked,
        };
        known.insert(name.to_owned(), one);
    }
}

/// Compares all bytes of an entry with the checksums of its manifest.
fn whole(
    path: &Path,
    form: Form,
    manifest: &Manifest,
    seen: &Seen,
    work: &Work,
) -> Result<(), Error> {
    for (file, stamp) in manifest.files.iter().zip(seen.files()) {
        let damaged = |what: String| Error::Damaged {
            entry: path.to_owned(),
            what: format!("{} is damaged: {what}", file.name),
        };
        if stamp.size() != file.size {
            let size = stamp.size();
            return Err(damaged(format!(
                "it has {size} bytes instead of {}",
                file.size
            )));
        }
        let (_, found) = sum(&file_of(path, form, &file.name), work)?;
        if found != file.xxh128 {
            return Err(damaged(format!(
                "its checksum is {found} instead of {}",
                file.xxh128
            )));
        }
    }
    Ok(())
}
