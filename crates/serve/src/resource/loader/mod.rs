//! Locates WARC files by name, and reads records from them.

mod path_index;
mod redis_index;
mod web;

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use url::Url;

use self::path_index::PathIndex;
use self::redis_index::RedisIndex;
use super::capture::{Extent, is_name};
use super::in_vain::InVain;
use super::input::Input;
use super::open_files::OpenFiles;
use super::record::LoadError;
use super::stored::Stored;
use crate::config::Loader;
use crate::packages::Packages;
use crawlspace_fetch::Net;
use crawlspace_fetch::file::RemoteVersion;
use crawlspace_index::source::{Limits, SourceError};
use crawlspace_index::{ArchivePart, Listing, Listings, Package};
use crawlspace_wacz::Location;

/// Maximum size of a local record that is read twice, in bytes: once to verify it, and once to send it.
const MAX_CHECKED_FIRST: u64 = 64 << 20;
/// Maximum number of locations tried for a file.
const MAX_LOCATIONS: usize = 16;
/// Maximum number of required packages outside the collection that are searched for one revisit.
const MAX_BESIDE: usize = 16;

/// State that loaders keep between requests.
pub(super) struct Archives {
    net: Arc<Net>,
    /// Base folder of relative paths in Redis hashes.
    folder: PathBuf,
    files: OpenFiles,
    path_indexes: Pool<PathBuf, PathIndex>,
    redis_indexes: Pool<String, RedisIndex>,
    packages: Arc<Packages>,
    limits: Limits,
    /// Cache of failed searches for originals.
    pub(super) in_vain: InVain,
}

/// Location of a WARC file.
#[derive(Clone, Debug)]
enum FileLocation {
    /// A local file, which must be below `root`, if one is given.
    File {
        path: PathBuf,
        root: Option<PathBuf>,
    },
    /// A byte range of a local file.
    Part { path: PathBuf, part: Range<u64> },
    /// A byte range of a remote file, in the version in which it was found.
    RemotePart {
        version: Arc<RemoteVersion>,
        part: Range<u64>,
    },
    /// A URL on a web server or in an object store.
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
    /// Creates empty state. Relative paths in Redis hashes are relative to `folder`.
    pub(super) fn new(net: &Arc<Net>, packages: Arc<Packages>, folder: &Path) -> Archives {
        Archives {
            net: Arc::clone(net),
            folder: folder.to_owned(),
            files: OpenFiles::default(),
            path_indexes: Pool::default(),
            redis_indexes: Pool::default(),
            packages,
            in_vain: InVain::default(),
            limits: Limits {
                // Records may have any size, and clients may be as slow as the server permits.
                bytes: u64::MAX,
                total: std::time::Duration::from_secs(24 * 60 * 60),
                ..Limits::default()
            },
        }
    }

    /// Reads the record of an extent with a loader other than the live web. `accept` returns an error for a wrong
    /// record.
    ///
    /// # Errors
    /// Fails if the record is not found, invalid, or refused by `accept`. If several locations were tried, this is the
    /// error of the last location.
    pub(super) async fn load(
        &self,
        loader: &Loader,
        extent: &Extent,
        collection: &str,
        accept: &(dyn Fn(&Stored) -> Result<(), LoadError> + Sync),
    ) -> Result<Stored, LoadError> {
        let name = &extent.filename;
        if !is_name(name) {
            let what = format!(
                "invalid file name {name:?}: it must be relative and stay below its folder"
            );
            return Err(LoadError::Unfit(what));
        }
        let places = self.places(loader, extent, collection).await?;
        let mut failed = LoadError::Missing("this loader does not list the file".to_owned());
        for place in places.iter().take(MAX_LOCATIONS) {
            match self.read(place, extent, accept).await {
                Ok(stored) => return Ok(stored),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    /// Lists packages that the loaders do not have and that may contain an original: packages required by the packages
    /// with the file, and packages named `others` next to them. Each is listed with its expected size, if known.
    pub(super) async fn beside(
        &self,
        loaders: &[Loader],
        filename: &str,
        others: &[&str],
        collection: &str,
    ) -> Vec<(Location, Option<u64>)> {
        let (mut there, mut wanted) = (HashSet::new(), Vec::<(Location, _)>::new());
        for loader in loaders {
            let Loader::Packages(location) = loader else {
                continue;
            };
            let Ok(listing) = self.listing(location, collection).await else {
                continue;
            };
            for package in listing.packages.iter() {
                there.insert(package.name());
                if !package.has(filename) {
                    continue;
                }
                let requires = package.requires().await.unwrap_or_else(|error| {
                    tracing::debug!(%error, "cannot read which other packages a package requires");
                    Arc::default()
                });
                let named = requires.iter().map(|one| (&*one.filename, one.size));
                for (name, size) in named.chain(others.iter().map(|name| (*name, None))) {
                    let at = package.location().join(name);
                    if let (true, Ok(at)) = (is_name(name), at) {
                        wanted.push((at, size));
                    }
                }
            }
        }
        wanted.retain(|(at, _)| !there.contains(&at.name()));
        wanted.truncate(MAX_BESIDE);
        wanted
    }

    async fn listing(&self, location: &Location, of: &str) -> Result<Arc<Listing>, SourceError> {
        self.packages.at(location).listing(&Arc::from(of)).await
    }

    /// Returns the packages at a location, which are opened on first use.
    pub(super) fn packages(&self, location: &Location) -> Arc<Listings> {
        self.packages.at(location)
    }

    async fn places(
        &self,
        loader: &Loader,
        extent: &Extent,
        collection: &str,
    ) -> Result<Vec<FileLocation>, LoadError> {
        let name = &*extent.filename;
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
            Loader::Packages(location) => {
                let listing = self.listing(location, collection).await?;
                let (mut places, mut failed) = (Vec::new(), None);
                let own = |package: &&Arc<Package>| package.number() == extent.package;
                let others = listing.packages.iter().filter(|package| !own(package));
                for package in listing.packages.iter().filter(own).chain(others) {
                    match package.archive(name).await {
                        Ok(None) => {}
                        Ok(Some(ArchivePart::File(path, part))) => {
                            places.push(FileLocation::Part { path, part });
                        }
                        Ok(Some(ArchivePart::Remote(version, part))) => {
                            places.push(FileLocation::RemotePart { version, part });
                        }
                        Err(error) => failed = Some(error.into()),
                    }
                    if places.len() >= MAX_LOCATIONS {
                        break;
                    }
                }
                match failed {
                    Some(error) if places.is_empty() => Err(error),
                    _ => Ok(places),
                }
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
            FileLocation::RemotePart { version, part } => {
                let (at, length) = within(part, extent)?;
                let input = Input::Net {
                    body: version.stream(at, length).await?,
                    skip: 0,
                    left: Some(length),
                };
                let stored = Stored::read(input, id.as_bytes()).await?;
                accept(&stored)?;
                Ok(stored)
            }
            FileLocation::Part { path, part } => {
                let file = self.files.open(path, None).await?;
                let (at, length) = within(part, extent)?;
                let input = || Input::file(Arc::clone(&file), at, Some(length));
                self.read_file(input, id.as_bytes(), accept).await
            }
        }
    }

    /// Reads a record of a local file. Small records are verified before they are sent.
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
        let settled = stored.check().await?;
        Ok(Stored::read(input(), id).await?.checked(settled))
    }
}

/// Returns the offset of a record in the file that contains its WARC file as a part, and its maximum length.
fn within(part: &Range<u64>, extent: &Extent) -> Result<(u64, u64), LoadError> {
    let at = part.start.saturating_add(extent.offset);
    let left = part.end.saturating_sub(at);
    if left == 0 {
        let what = "the file ends before the record begins";
        return Err(LoadError::Record(what.to_owned()));
    }
    Ok((at, extent.length.unwrap_or(left).min(left)))
}

impl FileLocation {
    /// Parses a location from a path index: a URL, or a path, which may be relative to `folder`.
    fn of(text: &str, folder: &Path) -> Result<FileLocation, LoadError> {
        if ["http://", "https://", "s3://"]
            .iter()
            .any(|scheme| text.starts_with(scheme))
        {
            let url = Url::parse(text)
                .map_err(|error| LoadError::Missing(format!("invalid location: {error}")))?;
            return Ok(FileLocation::Web(url));
        }
        let path = text.strip_prefix("file://").unwrap_or(text);
        if path.is_empty() || path.contains('\0') || path.contains("://") {
            return Err(LoadError::Missing(
                "invalid location: neither a path nor an http, https or s3 URL".to_owned(),
            ));
        }
        Ok(FileLocation::File {
            path: folder.join(path),
            root: None,
        })
    }
}
