//! What lies in the folders of the caches.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::super::cache::{last_used, manifest_of, owner, read_manifest, with_end};
use super::super::{Error, Form, IndexKind, Manifest, Unreadable};

/// What the names of entries end with.
const ENTRY: &str = "-cache";
/// What is put behind the name of an entry, with a dot before it, for what is in the making or about to go.
const LEFT: [&str; 2] = [".draft", ".gone"];

/// One of the caches of a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layer {
    /// The name of its folder.
    pub folder: &'static str,
    /// Whether its entries are files or folders.
    pub form: Form,
    /// Which kind of indexes it has; none of raw data.
    pub kind: Option<IndexKind>,
}

/// All of them: raw data, indexes, and what clients have of these.
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

/// Something that has the name of an entry.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub layer: Layer,
    pub path: PathBuf,
}

/// What is in the folder of a cache.
#[derive(Debug, Default)]
pub(super) struct Scan {
    /// In the order of names.
    pub items: Vec<Item>,
    /// What was in the making, or about to go, when somebody died; or is now. Each with its entry.
    pub left: Vec<(PathBuf, Item)>,
    /// Entries that are not there and have lock files.
    pub locks: Vec<Item>,
}

/// Looks through the folders of the caches; those that are not there are empty. The folder that they are in has to be
/// there: another one was meant if it is not.
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

/// The entry that something in the making, or about to go, belongs to, or what a builder said of itself.
fn entry_left(name: &str) -> Option<&str> {
    if let Some(entry) = name.strip_suffix(".owner") {
        return is_entry(entry).then_some(entry);
    }
    let name = name.strip_prefix('.')?;
    let entry = LEFT.iter().find_map(|end| name.strip_suffix(end))?;
    is_entry(entry).then_some(entry)
}

/// The entry of a manifest that stands beside it.
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

    /// Its manifest, and what is wrong with it if it cannot be read. None of what is not ours.
    pub(crate) fn manifest(&self) -> Option<Result<Manifest, Unreadable>> {
        let manifest = read_manifest(&self.manifest_path())?;
        Some(manifest.and_then(|manifest| {
            manifest.must_be_of(self.layer.folder, &self.name())?;
            Ok(manifest)
        }))
    }

    /// What is wrong with an entry of ours that has no manifest any more: its mark still stands beside it. None of what
    /// is not ours, is in the making or on its way out, or went meanwhile.
    pub(crate) fn lost_manifest(&self) -> Option<&'static str> {
        let is_marked = with_end(&self.path, ".seen").is_file();
        let is_lost =
            is_marked && owner(&self.path).is_none() && fs::symlink_metadata(&self.path).is_ok();
        is_lost.then_some("its manifest is missing")
    }

    /// Returns whether any of it is there: it may have been removed since the scan.
    pub(crate) fn is_there(&self) -> bool {
        fs::symlink_metadata(&self.path).is_ok() || self.manifest_path().exists()
    }

    pub(crate) fn last_used(&self) -> Option<SystemTime> {
        last_used(&self.path, &self.manifest_path())
    }

    /// What it takes on the disk, in bytes, its manifest included.
    pub(crate) fn size(&self) -> u64 {
        match self.layer.form {
            Form::File => disk_size(&self.path) + disk_size(&self.manifest_path()),
            Form::Folder => disk_size(&self.path),
        }
    }
}

/// The size of a file, or of the files in a folder. What is gone has none.
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
