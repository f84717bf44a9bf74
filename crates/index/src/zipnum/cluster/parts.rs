//! Locates the parts of a cluster.

use std::collections::HashMap;
use std::path::{Component, Path};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use url::Url;

use crate::sorted::file::{FileVersion, NamedFile};
use crate::sorted::steps::until_it_may_wait;
use crate::source::SourceError;
use crawlspace_fetch::Net;
use crawlspace_wacz::Location;

/// Maximum size of a `.loc` file in bytes. A larger file is an error.
const MAX_LOC: u64 = 16 << 20;
/// Interval between look-ups of a missing `.loc` file: local, and on a server.
const RECHECK: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(30)];
/// Maximum number of cached parts that are not listed in a `.loc` file.
const MAX_CACHED: usize = 4096;

/// Maximum number of paths that are tried for a part.
pub(super) const MAX_PATHS: usize = 16;
/// Time after a failed read for which a path is tried last. In tests, the time is long enough not
/// to expire.
const AVOIDED_FOR: Duration = Duration::from_secs(if cfg!(test) { 3600 } else { 10 });

/// A file that is expected to contain a part.
#[derive(Debug)]
pub(crate) struct Part {
    file: NamedFile,
    /// Time of the last failure, unless a later read succeeded.
    failed: Mutex<Option<Instant>>,
}

impl Part {
    fn new(file: NamedFile) -> Arc<Part> {
        Arc::new(Part {
            file,
            failed: Mutex::default(),
        })
    }

    pub(crate) fn file(&self) -> &NamedFile {
        &self.file
    }

    /// Records whether a block could be read from this file.
    pub(crate) fn note(&self, worked: bool) {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        *failed = (!worked).then(Instant::now);
    }

    fn failed_lately(&self) -> bool {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.is_some_and(|since| since.elapsed() < AVOIDED_FOR)
    }
}

/// The locations of the parts of a cluster.
#[derive(Debug)]
pub(crate) struct Parts {
    /// Location of the secondary index. By default, the parts are in the same folder.
    index: Location,
    loc: NamedFile,
    net: Option<Arc<Net>>,
    /// The files of a cluster whose files never change.
    fixed: Option<Arc<PartFiles>>,
    cache: Mutex<PartCache>,
}

#[derive(Debug, Default)]
struct PartCache {
    /// The files listed in the `.loc` file, and the version of it that was read.
    listed: Option<(FileVersion, Arc<PartFiles>)>,
    /// Time at which the `.loc` file was found missing.
    missing: Option<Instant>,
    /// Parts in the folder of the secondary index.
    beside: HashMap<Box<str>, Arc<Part>>,
}

type PartFiles = HashMap<Box<str>, Vec<Arc<Part>>>;

impl Parts {
    pub(crate) fn new(index: &Location, net: Option<&Arc<Net>>) -> Parts {
        let loc = match (index, net) {
            (Location::File(path), _) => NamedFile::new(path.with_extension("loc")),
            (Location::Url(url), Some(net)) => {
                let name = Path::new(url.path()).with_extension("loc");
                let name = name.file_name().unwrap_or_default().to_string_lossy();
                NamedFile::optional(net.file(&beside(url, &name)))
            }
            (Location::Url(_), None) => {
                NamedFile::broken(Path::new("").to_owned(), NO_NET.to_owned())
            }
        };
        Parts {
            index: index.clone(),
            loc,
            net: net.cloned(),
            fixed: None,
            cache: Mutex::default(),
        }
    }

    /// Creates the locations of a cluster with a single part.
    pub(crate) fn only(index: &Path, name: &str, file: NamedFile) -> Parts {
        let files = PartFiles::from([(name.into(), vec![Part::new(file)])]);
        Parts {
            index: index.into(),
            loc: NamedFile::new(index.to_owned()),
            net: None,
            fixed: Some(Arc::new(files)),
            cache: Mutex::default(),
        }
    }

    /// Returns whether all fixed parts of the cluster are local files.
    pub(crate) fn is_local(&self) -> bool {
        let mut parts = self.fixed.iter().flat_map(|files| files.values().flatten());
        parts.all(|part| !part.file().is_remote())
    }

    /// Returns the files that contain a part, as alternatives. Files where a read failed recently come last.
    ///
    /// # Errors
    /// Fails if the location of the part is unknown.
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
                _ => Err(self.lost(part, "has no readable path for it")),
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
        let file = match &self.index {
            Location::File(index) => NamedFile::new(index.with_file_name("").join(path)),
            Location::Url(index) => self.remote(&beside(index, part)),
        };
        let file = cache
            .beside
            .entry(part.into())
            .or_insert_with(|| Part::new(file));
        Ok(vec![Arc::clone(file)])
    }

    /// Returns the files listed in the `.loc` file, if there is one.
    async fn listed(&self) -> Result<Option<Arc<PartFiles>>, SourceError> {
        let missing = self.cache().missing;
        let recheck = RECHECK[usize::from(matches!(self.index, Location::Url(_)))];
        if missing.is_some_and(|since| since.elapsed() < recheck) {
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
            let paths = columns.filter(|path| !path.is_empty());
            // Skip URLs that this source cannot read.
            let files = paths.filter_map(|path| match self.index.join(path).ok()? {
                Location::File(path) => Some(Part::new(NamedFile::new(path))),
                Location::Url(url) => self.net.as_ref().map(|_| Part::new(self.remote(&url))),
            });
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
            tracing::warn!(%path, parts = cut, "a part has more than {MAX_PATHS} paths; the others are skipped");
        }
        files
    }

    fn remote(&self, url: &Url) -> NamedFile {
        match &self.net {
            Some(net) => NamedFile::remote(net.file(url)),
            None => NamedFile::broken(Path::new("").to_owned(), NO_NET.to_owned()),
        }
    }

    fn lost(&self, part: &str, why: &str) -> SourceError {
        let loc = self.loc.path().display();
        SourceError::Io(format!("part {part:?} of a ZipNum cluster: {loc} {why}"))
    }

    fn cache(&self) -> MutexGuard<'_, PartCache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The error of files on servers in a source that only reads local files.
const NO_NET: &str = "files on servers are not supported here";

/// Returns the URL of a file with this name in the folder of another URL.
fn beside(url: &Url, name: &str) -> Url {
    let mut beside = url.clone();
    beside.set_query(None);
    if let Ok(mut path) = beside.path_segments_mut() {
        path.pop().extend(name.split('/'));
    }
    beside
}
