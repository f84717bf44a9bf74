//! Scans the folders of the caches.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::super::cache::{last_used, manifest_of, owner, read_manifest, with_end};
use super::super::{Error, Form, IndexKind, Manifest, Unreadable};

/// Suffix of the names of entries.
const ENTRY: &str = "-cache";
/// Suffixes of the hidden names of entries that are being built or removed.
const LEFT: [&str; 2] = [".draft", ".gone"];

/// A cache of a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layer {
    /// The name of the folder of the cache.
    pub folder: &'static str,
    /// The form of the entries of the cache.
    pub form: Form,
    /// The kind of the indexes in the cache; `None` for raw data.
    pub kind: Option<IndexKind>,
}

/// The caches of a folder: raw data, indexes, and clients' copies of indexes.
pub const LAYERS: [Layer; 8] = [
    Layer::raw("crawllog"),
    Layer::raw("cdxdata"),
    Layer::of(IndexKind::Dedup, IndexKind::Dedup.folder()),
    Layer::of(IndexKind::Full, IndexKind::Full.folder()),
    Layer::of(IndexKind::Cdx, IndexKind::Cdx.folder()),
    Layer::of(IndexKind::Dedup, IndexKind::Dedup.client_folder()),
    Layer::of(IndexKind::Full, IndexKind::Full.client_folder()),
    Layer::of(IndexKind::Cdx, IndexKind::Cdx.client_folder()),
];

impl Layer {
    const fn raw(folder: &'static str) -> Layer {
        Layer {
            folder,
            form: Form::File,
            kind: None,
        }
    }

    const fn of(kind: IndexKind, folder: &'static str) -> Layer {
        Layer {
            folder,
            form: kind.form(),
            kind: Some(kind),
        }
    }
}

/// A file or folder with the name of an entry.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub layer: Layer,
    pub path: PathBuf,
}

/// The contents of the folders of the caches.
#[derive(Debug, Default)]
pub(super) struct Scan {
    /// Entries, sorted by name.
    pub items: Vec<Item>,
    /// Files and folders of entries that are being built or removed, or that a process left behind
    /// when it died. Each file or folder is listed with its entry.
    pub left: Vec<(PathBuf, Item)>,
    /// Names of entries that do not exist but have a lock file.
    pub locks: Vec<Item>,
}

/// Scans the caches of a folder; missing caches are empty. The folder itself must exist, because a missing one is
/// probably a mistyped path.
pub(super) fn scan(cache_dir: &Path) -> Result<Scan, Error> {
    fs::metadata(cache_dir).map_err(Error::io(cache_dir, "open"))?;
    let mut scan = Scan::default();
    for layer in LAYERS {
        let folder = cache_dir.join(layer.folder);
        let unreadable = || Error::io(&folder, "list");
        let files = match fs::read_dir(&folder) {
            Ok(files) => files,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(unreadable()(error)),
        };
        let mut names = Vec::new();
        for file in files {
            names.push(file.map_err(unreadable())?.file_name());
        }
        names.sort();
        for name in &names {
            let item = |name: &str| Item {
                layer,
                path: folder.join(name),
            };
            let Some(name) = name.to_str() else { continue };
            let is_there = |name: &str| {
                let name = OsStr::new(name);
                names
                    .binary_search_by(|other| other.as_os_str().cmp(name))
                    .is_ok()
            };
            if is_entry(name) {
                scan.items.push(item(name));
            } else if let Some(entry) = entry_left(name) {
                scan.left.push((folder.join(name), item(entry)));
            } else if let Some(entry) = entry_without_file(name, layer.form)
                && !is_there(entry)
            {
                scan.items.push(item(entry));
            } else if let Some(entry) = name.strip_suffix(".working")
                && is_entry(entry)
                && !is_there(entry)
                && !is_there(&format!("{entry}.manifest.json"))
            {
                scan.locks.push(item(entry));
            }
        }
    }
    Ok(scan)
}

fn is_entry(name: &str) -> bool {
    name.ends_with(ENTRY) && !name.starts_with('.')
}

/// Returns the entry to which a file or folder belongs that is being built or removed, or a file that describes a
/// builder.
fn entry_left(name: &str) -> Option<&str> {
    if let Some(entry) = name.strip_suffix(".owner") {
        return is_entry(entry).then_some(entry);
    }
    let name = name.strip_prefix('.')?;
    let entry = LEFT.iter().find_map(|end| name.strip_suffix(end))?;
    is_entry(entry).then_some(entry)
}

/// Returns the entry of a manifest that is next to it.
fn entry_without_file(name: &str, form: Form) -> Option<&str> {
    let entry = name.strip_suffix(".manifest.json")?;
    (form == Form::File && is_entry(entry)).then_some(entry)
}

impl Item {
    pub(crate) fn name(&self) -> String {
        let name = self.path.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    pub(crate) fn manifest_path(&self) -> PathBuf {
        manifest_of(&self.path, self.layer.form)
    }

    /// Returns the manifest, or the reason why it cannot be read. Returns `None` if there is no
    /// manifest.
    pub(crate) fn manifest(&self) -> Option<Result<Manifest, Unreadable>> {
        let manifest = read_manifest(&self.manifest_path())?;
        Some(manifest.and_then(|manifest| {
            manifest.must_be_of(self.layer.folder, &self.name())?;
            Ok(manifest)
        }))
    }

    /// Returns the defect of an entry that has lost its manifest but still has a mark. Returns `None` for
    /// foreign files, and for entries that are being built or removed, or are gone.
    pub(crate) fn lost_manifest(&self) -> Option<&'static str> {
        let is_marked = with_end(&self.path, ".seen").is_file();
        let is_lost =
            is_marked && owner(&self.path).is_none() && fs::symlink_metadata(&self.path).is_ok();
        is_lost.then_some("its manifest is missing")
    }

    /// Returns whether the entry or its manifest still exists: it may have been removed since the scan.
    pub(crate) fn is_there(&self) -> bool {
        fs::symlink_metadata(&self.path).is_ok() || self.manifest_path().exists()
    }

    pub(crate) fn last_used(&self) -> Option<SystemTime> {
        last_used(&self.path, &self.manifest_path())
    }

    /// Returns the size on the disk in bytes, including the manifest.
    pub(crate) fn size(&self) -> u64 {
        match self.layer.form {
            Form::File => disk_size(&self.path) + disk_size(&self.manifest_path()),
            Form::Folder => disk_size(&self.path),
        }
    }
}

/// Returns the size of a file, or of the files in a folder; 0 if the path does not exist.
pub(super) fn disk_size(path: &Path) -> u64 {
    match fs::symlink_metadata(path) {
        Ok(there) if there.is_dir() => {
            let files = fs::read_dir(path).into_iter().flatten().flatten();
            let sizes = files.filter_map(|file| file.metadata().ok());
            sizes.map(|file| file.size()).sum()
        }
        Ok(there) => there.size(),
        Err(_) => 0,
    }
}
