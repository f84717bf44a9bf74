//! Where records are: names of files to locations, and bytes from there.

mod path_index;
mod redis_index;
mod web;

use std::collections::HashMap;
use std::hash::Hash;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use url::Url;

use self::path_index::PathIndex;
use self::redis_index::RedisIndex;
use super::capture::{Extent, is_name};
use super::input::Input;
use super::open_files::OpenFiles;
use super::record::LoadError;
use super::stored::Stored;
use crate::config::Loader;
use crawlspace_archive::index::{Choice, Listings};
use crawlspace_archive::net::Net;
use crawlspace_archive::source::Limits;

/// Size up to which a record in a local file is read twice, in bytes: once to check it, and once to send it.
const MAX_CHECKED_FIRST: u64 = 64 << 20;
/// Maximum number of locations tried for a file.
const MAX_LOCATIONS: usize = 16;

/// Everything that loaders keep between requests.
pub(super) struct Archives {
    net: Arc<Net>,
    /// Where relative paths in hashes of Redis begin.
    folder: PathBuf,
    files: OpenFiles,
    path_indexes: Pool<PathBuf, PathIndex>,
    redis_indexes: Pool<String, RedisIndex>,
    packages: Pool<PathBuf, Listings>,
    limits: Limits,
}

/// Where a file is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum FileLocation {
    /// A file, in a folder that it must not leave, if one is given.
    File {
        path: PathBuf,
        root: Option<PathBuf>,
    },
    /// A part of a file.
    Part { path: PathBuf, part: Range<u64> },
    /// Something on a web server.
    Web(Url),
}

type Pool<K, V> = Mutex<HashMap<K, Arc<V>>>;

fn pooled<K: Hash + Eq + Clone, V>(all: &Pool<K, V>, key: &K, make: impl FnOnce() -> V) -> Arc<V> {
    let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
    match all.get(key) {
        Some(value) => Arc::clone(value),
        None => Arc::clone(all.entry(key.clone()).or_insert_with(|| Arc::new(make()))),
    }
}

impl Archives {
    /// With nothing open yet. Relative paths in hashes of Redis begin in `folder`.
    pub(super) fn new(net: &Arc<Net>, folder: &Path) -> Archives {
        Archives {
            net: Arc::clone(net),
            folder: folder.to_owned(),
            files: OpenFiles::default(),
            path_indexes: Pool::default(),
            redis_indexes: Pool::default(),
            packages: Pool::default(),
            limits: Limits {
                // A record may be of any size, and its client as slow as it is allowed to be.
                bytes: u64::MAX,
                total: std::time::Duration::from_secs(24 * 60 * 60),
                ..Limits::default()
            },
        }
    }

    /// Reads the record there, by this loader, which is not that of the live web. `accept` says why it is not the
    /// right one.
    ///
    /// # Errors
    /// When it is nowhere, or not valid, or not the right one; of more than one place, what was wrong at the last.
    pub(super) async fn load(
        &self,
        loader: &Loader,
        extent: &Extent,
        collection: &str,
        accept: &(dyn Fn(&Stored) -> Result<(), LoadError> + Sync),
    ) -> Result<Stored, LoadError> {
        let name = &extent.filename;
        if !is_name(name) {
            let what = format!("invalid file name {name:?}: a name below a folder is expected");
            return Err(LoadError::Unfit(what));
        }
        let places = self.places(loader, name, collection).await?;
        let mut failed = LoadError::Missing("the file is unknown to this loader".to_owned());
        for place in places.iter().take(MAX_LOCATIONS) {
            match self.read(place, extent, accept).await {
                Ok(stored) => return Ok(stored),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    async fn places(
        &self,
        loader: &Loader,
        name: &str,
        collection: &str,
    ) -> Result<Vec<FileLocation>, LoadError> {
        let named = |text: &str| text.replace("{coll}", collection);
        match loader {
            Loader::Live => Err(LoadError::Unfit("the row has no live_url".to_owned())),
            Loader::Folder(folder) => {
                let root = PathBuf::from(named(&folder.to_string_lossy()));
                let path = root.join(name);
                Ok(vec![FileLocation::File {
                    path,
                    root: Some(root),
                }])
            }
            Loader::Packages(path) => {
                let all = pooled(&self.packages, path, || {
                    Listings::new(path.clone(), Choice::Packages)
                });
                let listing = all.listing(&Arc::from(collection)).await;
                let listing = listing.map_err(|error| LoadError::Io(error.to_string()))?;
                let places = listing.packages.iter().filter_map(|package| {
                    Some(FileLocation::Part {
                        part: package.archive(name)?,
                        path: package.path().to_owned(),
                    })
                });
                Ok(places.collect())
            }
            Loader::Web(prefix) => {
                let url = web::below(&named(prefix), name)?;
                Ok(vec![FileLocation::Web(url)])
            }
            Loader::PathIndex(path) => {
                let index = pooled(&self.path_indexes, path, || PathIndex::new(path.clone()));
                let folder = path.parent().unwrap_or(Path::new("/"));
                let paths = index.paths(name).await?;
                paths
                    .iter()
                    .map(|path| FileLocation::of(path, folder))
                    .collect()
            }
            Loader::RedisIndex(url) => {
                let url = named(url);
                let index = pooled(&self.redis_indexes, &url, || RedisIndex::new(&url));
                let path = index.path(name).await?;
                path.iter()
                    .map(|path| FileLocation::of(path, &self.folder))
                    .collect()
            }
        }
    }

    async fn read(
        &self,
        place: &FileLocation,
        extent: &Extent,
        accept: &(dyn Fn(&Stored) -> Result<(), LoadError> + Sync),
    ) -> Result<Stored, LoadError> {
        let id = format!("{}\n{}", extent.filename, extent.offset);
        match place {
            FileLocation::Web(url) => {
                let input = web::part(&self.net, url, extent, &self.limits).await?;
                let stored = Stored::read(input, id.as_bytes()).await?;
                accept(&stored)?;
                Ok(stored)
            }
            FileLocation::File { path, root } => {
                let file = self.files.open(path, root.as_deref()).await?;
                let input = || Input::file(Arc::clone(&file), extent.offset, extent.length);
                self.read_file(input, id.as_bytes(), accept).await
            }
            FileLocation::Part { path, part } => {
                let file = self.files.open(path, None).await?;
                let at = part.start.saturating_add(extent.offset);
                let left = part.end.saturating_sub(at);
                if left == 0 {
                    let what = "the file ends before the record begins";
                    return Err(LoadError::Record(what.to_owned()));
                }
                let length = extent.length.unwrap_or(left).min(left);
                let input = || Input::file(Arc::clone(&file), at, Some(length));
                self.read_file(input, id.as_bytes(), accept).await
            }
        }
    }

    /// Reads a record of a local file: a small one is checked before.
    async fn read_file(
        &self,
        input: impl Fn() -> Input,
        id: &[u8],
        accept: &(dyn Fn(&Stored) -> Result<(), LoadError> + Sync),
    ) -> Result<Stored, LoadError> {
        let stored = Stored::read(input(), id).await?;
        accept(&stored)?;
        if stored.is_checked() || stored.content_length() > MAX_CHECKED_FIRST {
            return Ok(stored);
        }
        stored.check().await?;
        Stored::read(input(), id).await
    }
}

impl FileLocation {
    /// What the operator wrote: a URL, or a path, which is relative to a folder if it is not absolute.
    fn of(text: &str, folder: &Path) -> Result<FileLocation, LoadError> {
        if text.starts_with("http://") || text.starts_with("https://") {
            let url = Url::parse(text)
                .map_err(|error| LoadError::Missing(format!("invalid location: {error}")))?;
            return Ok(FileLocation::Web(url));
        }
        let path = text.strip_prefix("file://").unwrap_or(text);
        if path.is_empty() || path.contains('\0') || path.contains("://") {
            return Err(LoadError::Missing(
                "invalid location: neither a path nor an http or https URL".to_owned(),
            ));
        }
        Ok(FileLocation::File {
            path: folder.join(path),
            root: None,
        })
    }
}
