//! Where the parts of a cluster are.

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::sorted::handle::{Entry, Version};
use crate::sorted::work::{Halt, Work};
use crate::source::SourceError;

/// Limit of a `.loc` file, in bytes. A larger one is an error.
const LARGEST: u64 = 16 << 20;
/// Interval at which a missing `.loc` file is looked for again.
const LOOK: Duration = Duration::from_secs(1);
/// Maximum number of parts remembered that no `.loc` file lists.
const MAX_REMEMBERED: usize = 4096;

/// Maximum number of places tried for a part.
pub(super) const MOST: usize = 16;
/// A place where something failed is tried after the others for so long. Tests see no end of it.
const SHUNNED: Duration = Duration::from_secs(if cfg!(test) { 3600 } else { 10 });

/// A file that should have a part.
#[derive(Debug)]
pub(crate) struct Part {
    file: Entry,
    /// When something failed there, if nothing has worked since.
    failed: Mutex<Option<Instant>>,
}

impl Part {
    fn new(path: PathBuf) -> Arc<Part> {
        Arc::new(Part {
            file: Entry::new(path),
            failed: Mutex::default(),
        })
    }

    pub(crate) fn file(&self) -> &Entry {
        &self.file
    }

    /// Notes whether a block could be had there.
    pub(crate) fn note(&self, worked: bool) {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        *failed = (!worked).then(Instant::now);
    }

    fn failed_lately(&self) -> bool {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.is_some_and(|since| since.elapsed() < SHUNNED)
    }
}

/// Where the parts of a cluster are.
#[derive(Debug)]
pub(crate) struct Parts {
    folder: PathBuf,
    places: Entry,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// What the `.loc` file says, and which state of it that was.
    said: Option<(Version, Arc<Places>)>,
    /// When there was none.
    missing: Option<Instant>,
    /// Parts in the folder.
    beside: HashMap<Box<str>, Arc<Part>>,
}

type Places = HashMap<Box<str>, Vec<Arc<Part>>>;

impl Parts {
    pub(crate) fn new(index: &Path) -> Parts {
        Parts {
            folder: index.parent().unwrap_or(Path::new("")).to_owned(),
            places: Entry::new(index.with_extension("loc")),
            known: Mutex::default(),
        }
    }

    /// The files that have a part, of which any will do. Those where something failed lately come last.
    ///
    /// # Errors
    /// When nothing says where it is.
    pub(crate) fn files(&self, part: &str, work: &mut Work) -> Result<Vec<Arc<Part>>, Halt> {
        if let Some(places) = self.places(work)? {
            return match places.get(part) {
                Some(files) if !files.is_empty() => {
                    let mut files = files.clone();
                    files.sort_by_cached_key(|file| file.failed_lately());
                    Ok(files)
                }
                _ => Err(self.lost(part, "has no path for it on this machine")),
            };
        }
        let path = Path::new(part);
        let inside = path
            .components()
            .all(|component| matches!(component, Component::Normal(_)));
        if !inside || part.contains('\0') {
            return Err(self.lost(
                part,
                "is not there, and it is no name of a file in the folder",
            ));
        }
        let mut known = self.known();
        if known.beside.len() >= MAX_REMEMBERED {
            known.beside.clear();
        }
        let new = || Part::new(self.folder.join(path));
        let file = known.beside.entry(part.into()).or_insert_with(new);
        Ok(vec![Arc::clone(file)])
    }

    /// What the `.loc` file says, if there is one.
    fn places(&self, work: &mut Work) -> Result<Option<Arc<Places>>, Halt> {
        let missing = self.known().missing;
        if missing.is_some_and(|since| since.elapsed() < LOOK) {
            return Ok(None);
        }
        let Some(file) = self.places.snapshot(work)? else {
            let mut known = self.known();
            known.missing = Some(Instant::now());
            known.said = None;
            return Ok(None);
        };
        if let Some((version, places)) = &self.known().said
            && *version == file.version()
        {
            return Ok(Some(Arc::clone(places)));
        }
        if !work.may_wait() {
            return Err(Halt::Wait);
        }
        let size = file.size();
        if size > LARGEST {
            let text = format!(
                "{}: more than {LARGEST} bytes",
                self.places.path().display()
            );
            return Err(Halt::Failed(SourceError::TooLarge(text)));
        }
        let mut text = Vec::new();
        while (text.len() as u64) < size {
            let left = usize::try_from(size - text.len() as u64).unwrap_or(0);
            if file.read(work, text.len() as u64, left, &mut text)? == 0 {
                break;
            }
        }
        let places = Arc::new(self.read(&String::from_utf8_lossy(&text)));
        self.known().said = Some((file.version(), Arc::clone(&places)));
        Ok(Some(places))
    }

    fn read(&self, text: &str) -> Places {
        let mut cut = 0_usize;
        let lines = text.lines().filter_map(|line| {
            let mut columns = line.trim_end().split('\t');
            let part = columns.next().filter(|part| !part.is_empty())?;
            // Those on other machines are not for this source.
            let paths = columns.filter(|path| !path.is_empty() && !path.contains("://"));
            let files = paths.map(|path| Part::new(self.folder.join(path)));
            let mut files: Vec<_> = files.take(MOST + 1).collect();
            if files.len() > MOST {
                files.truncate(MOST);
                cut += 1;
            }
            Some((part.into(), files))
        });
        let places = lines.collect();
        if cut > 0 {
            let path = self.places.path().display();
            tracing::warn!(%path, parts = cut, "a part has more than {MOST} places, of which the rest is left out");
        }
        places
    }

    fn lost(&self, part: &str, why: &str) -> Halt {
        let places = self.places.path().display();
        Halt::Failed(SourceError::Io(format!(
            "part {part:?} of a ZipNum cluster: {places} {why}"
        )))
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
