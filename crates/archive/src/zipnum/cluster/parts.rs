//! Where the parts of a cluster are.

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::sorted::file::{FileVersion, NamedFile};
use crate::sorted::steps::until_it_may_wait;
use crate::source::SourceError;

/// Limit of a `.loc` file, in bytes. A larger one is an error.
const MAX_LOC: u64 = 16 << 20;
/// Interval at which a missing `.loc` file is looked for again.
const RECHECK: Duration = Duration::from_secs(1);
/// Maximum number of parts cached that no `.loc` file lists.
const MAX_CACHED: usize = 4096;

/// Maximum number of paths tried for a part.
pub(super) const MAX_PATHS: usize = 16;
/// Time for which a path where reading failed is tried after the others. In tests it does not end.
const AVOIDED_FOR: Duration = Duration::from_secs(if cfg!(test) { 3600 } else { 10 });

/// A file that should have a part.
#[derive(Debug)]
pub(crate) struct Part {
    file: NamedFile,
    /// When something failed there, if nothing has worked since.
    failed: Mutex<Option<Instant>>,
}

impl Part {
    fn new(path: PathBuf) -> Arc<Part> {
        Arc::new(Part {
            file: NamedFile::new(path),
            failed: Mutex::default(),
        })
    }

    pub(crate) fn file(&self) -> &NamedFile {
        &self.file
    }

    /// Notes whether a block could be had there.
    pub(crate) fn note(&self, worked: bool) {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        *failed = (!worked).then(Instant::now);
    }

    fn failed_lately(&self) -> bool {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.is_some_and(|since| since.elapsed() < AVOIDED_FOR)
    }
}

/// Where the parts of a cluster are.
#[derive(Debug)]
pub(crate) struct Parts {
    folder: PathBuf,
    loc: NamedFile,
    /// Where they are, if that does not change.
    fixed: Option<Arc<PartFiles>>,
    cache: Mutex<PartCache>,
}

#[derive(Debug, Default)]
struct PartCache {
    /// What the `.loc` file says, and which state of it that was.
    listed: Option<(FileVersion, Arc<PartFiles>)>,
    /// When there was none.
    missing: Option<Instant>,
    /// Parts in the folder.
    beside: HashMap<Box<str>, Arc<Part>>,
}

type PartFiles = HashMap<Box<str>, Vec<Arc<Part>>>;

impl Parts {
    pub(crate) fn new(index: &Path) -> Parts {
        Parts {
            folder: index.parent().unwrap_or(Path::new("")).to_owned(),
            loc: NamedFile::new(index.with_extension("loc")),
            fixed: None,
            cache: Mutex::default(),
        }
    }

    /// The only part of a cluster.
    pub(crate) fn only(index: &Path, name: &str, file: NamedFile) -> Parts {
        let part = Arc::new(Part {
            file,
            failed: Mutex::default(),
        });
        let files = PartFiles::from([(name.into(), vec![part])]);
        Parts {
            folder: PathBuf::new(),
            loc: NamedFile::new(index.to_owned()),
            fixed: Some(Arc::new(files)),
            cache: Mutex::default(),
        }
    }

    /// The files that have a part, of which any will do. Those where something failed lately come last.
    ///
    /// # Errors
    /// When nothing says where it is.
    pub(crate) async fn files(&self, part: &str) -> Result<Vec<Arc<Part>>, SourceError> {
        let listed = match &self.fixed {
            Some(files) => Some(Arc::clone(files)),
            None => self.listed().await?,
        };
        if let Some(files) = listed {
            return match files.get(part) {
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
                "is missing, and the part does not name a file in the folder",
            ));
        }
        let mut cache = self.cache();
        if cache.beside.len() >= MAX_CACHED {
            cache.beside.clear();
        }
        let new = || Part::new(self.folder.join(path));
        let file = cache.beside.entry(part.into()).or_insert_with(new);
        Ok(vec![Arc::clone(file)])
    }

    /// What the `.loc` file says, if there is one.
    async fn listed(&self) -> Result<Option<Arc<PartFiles>>, SourceError> {
        let missing = self.cache().missing;
        if missing.is_some_and(|since| since.elapsed() < RECHECK) {
            return Ok(None);
        }
        let Some(file) = self.loc.snapshot().await? else {
            let mut cache = self.cache();
            cache.missing = Some(Instant::now());
            cache.listed = None;
            return Ok(None);
        };
        if let Some((version, files)) = &self.cache().listed
            && *version == file.version()
        {
            return Ok(Some(Arc::clone(files)));
        }
        until_it_may_wait().await;
        let size = file.size();
        if size > MAX_LOC {
            let text = format!("{}: more than {MAX_LOC} bytes", self.loc.path().display());
            return Err(SourceError::TooLarge(text));
        }
        let mut text = Vec::new();
        while (text.len() as u64) < size {
            let left = usize::try_from(size - text.len() as u64).unwrap_or(0);
            if file.read(text.len() as u64, left, &mut text).await? == 0 {
                break;
            }
        }
        let files = Arc::new(self.read(&String::from_utf8_lossy(&text)));
        self.cache().listed = Some((file.version(), Arc::clone(&files)));
        Ok(Some(files))
    }

    fn read(&self, text: &str) -> PartFiles {
        let mut cut = 0_usize;
        let lines = text.lines().filter_map(|line| {
            let mut columns = line.trim_end().split('\t');
            let part = columns.next().filter(|part| !part.is_empty())?;
            // Those on other machines are not for this source.
            let paths = columns.filter(|path| !path.is_empty() && !path.contains("://"));
            let files = paths.map(|path| Part::new(self.folder.join(path)));
            let mut files: Vec<_> = files.take(MAX_PATHS + 1).collect();
            if files.len() > MAX_PATHS {
                files.truncate(MAX_PATHS);
                cut += 1;
            }
            Some((part.into(), files))
        });
        let files = lines.collect();
        if cut > 0 {
            let path = self.loc.path().display();
            tracing::warn!(%path, parts = cut, "a part has more than {MAX_PATHS} paths, of which the rest is left out");
        }
        files
    }

    fn lost(&self, part: &str, why: &str) -> SourceError {
        let loc = self.loc.path().display();
        SourceError::Io(format!("part {part:?} of a ZipNum cluster: {loc} {why}"))
    }

    fn cache(&self) -> MutexGuard<'_, PartCache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
