//! An entry that is being built. A draft becomes visible when it is complete and on the disk.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::super::combine::both;
use super::super::{Error, Work};
use super::lock::Lock;
use super::manifest::{FileSum, Input, Manifest, sum};
use super::seen::touch;
use super::{Form, is_absent, manifest_of, with_end};

/// A folder next to the entry, in which its files are created. If this value is dropped before the draft is
/// published, the folder is removed with its content.
#[derive(Debug)]
pub struct Draft {
    entry: PathBuf,
    form: Form,
    folder: PathBuf,
    names: Vec<String>,
    manifest: Manifest,
    published: bool,
}

impl Draft {
    /// Creates an empty draft. The caller holds the lock of the entry. Therefore, leftovers of previous builders can
    /// be removed.
    pub(super) fn new(entry: &Path, form: Form, manifest: Manifest) -> Result<Draft, Error> {
        let folder = temporary(entry);
        remove(&folder)?;
        remove(&gone(entry))?;
        fs::create_dir(&folder).map_err(Error::io(&folder, "create"))?;
        Ok(Draft {
            entry: entry.to_owned(),
            form,
            folder,
            names: Vec::new(),
            manifest,
            published: false,
        })
    }

    /// Returns the folder of the files. In this folder, callers can create the files of the entry
    /// by name, and scratch files, which are removed.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Adds a file that the caller writes, and returns its path. In an entry that is a single file, the file gets the
    /// name of the entry, and `name` is ignored.
    pub(crate) fn add(&mut self, name: &str) -> PathBuf {
        let name = match self.form {
            Form::Folder => name.to_owned(),
            Form::File => self.manifest.entry.clone(),
        };
        let path = self.folder.join(&name);
        if !self.names.contains(&name) {
            self.names.push(name);
        }
        path
    }

    /// Creates a file of the entry.
    ///
    /// # Errors
    /// Fails if the file cannot be created.
    pub fn create(&mut self, name: &str) -> Result<(PathBuf, File), Error> {
        let path = self.add(name);
        let file = File::create(&path).map_err(Error::io(&path, "create"))?;
        Ok((path, file))
    }

    /// Records a count in the manifest.
    pub fn count(&mut self, what: &str, number: u64) {
        self.manifest.counts.insert(what.to_owned(), number);
    }

    /// Adds a note for users to the manifest.
    pub fn note(&mut self, text: String) {
        self.manifest.notes.push(text);
    }

    /// Adds an input to the manifest.
    pub(crate) fn input(&mut self, input: Input) {
        self.manifest.inputs.push(input);
    }

    /// Syncs all files to the disk, and moves them to their final place, where they replace the
    /// previous entry.
    pub(super) fn publish(mut self, lock: &Lock, work: &Work) -> Result<Manifest, Error> {
        self.names.sort();
        let paths = || self.names.iter().map(|name| self.folder.join(name));
        // Sync and compute the checksums in parallel.
        let (synced, sums) = both(
            || paths().try_for_each(|path| sync(&path)),
            || {
                paths()
                    .map(|path| sum(&path, work))
                    .collect::<Result<Vec<_>, _>>()
            },
        );
        let sums = sums.and_then(|sums| synced.map(|()| sums))?;
        for (name, (size, xxh128)) in self.names.iter().zip(sums) {
            let name = name.clone();
            self.manifest.files.push(FileSum { name, size, xxh128 });
        }
        let (bytes, checksum) = self
            .manifest
            .to_bytes()
            .map_err(Error::io(&self.entry, "describe"))?;
        let manifest = self.folder.join(MANIFEST);
        write(&manifest, &bytes)?;
        if !lock.is_valid() {
            // By now, the folder may belong to another builder.
            self.published = true;
            return Err(Error::Damaged {
                entry: std::mem::take(&mut self.entry),
                what:
                    "its lock file was removed during the build; do not remove the lock files of entries in use"
                        .to_owned(),
            });
        }
        match self.form {
            Form::Folder => self.publish_folder()?,
            Form::File => self.publish_file(&manifest)?,
        }
        if let Some(parent) = self.entry.parent() {
            sync(parent)?;
        }
        self.published = true;
        let mut manifest = std::mem::take(&mut self.manifest);
        manifest.checksum = checksum;
        Ok(manifest)
    }

    fn publish_folder(&self) -> Result<(), Error> {
        self.scratch_is_gone()?;
        sync(&self.folder)?;
        // Exchanging the folders is atomic: at any time, one of them exists at the path. Readers of
        // the old folder can still open its files.
        match renameat_with(CWD, &self.folder, CWD, &self.entry, RenameFlags::EXCHANGE) {
            Ok(()) => {}
            Err(Errno::NOENT) => return self.move_folder(),
            // Some file systems do not support the exchange.
            Err(_) => return self.replace_folder(),
        }
        if let Some(parent) = self.entry.parent() {
            sync(parent)?;
        }
        // The replaced folder is useless; failing to remove it is not an error.
        let _ = remove(&self.folder);
        Ok(())
    }

    fn move_folder(&self) -> Result<(), Error> {
        fs::rename(&self.folder, &self.entry).map_err(Error::io(&self.entry, "publish"))
    }

    fn replace_folder(&self) -> Result<(), Error> {
        let gone = gone(&self.entry);
        match fs::rename(&self.entry, &gone) {
            Err(error) if !is_absent(&error) => {
                return Err(Error::io(&self.entry, "replace")(error));
            }
            _ => {}
        }
        self.move_folder()?;
        let _ = remove(&gone);
        Ok(())
    }

    /// Creates the mark first: if the builder dies before it writes the manifest, the mark shows
    /// that the file belongs to this cache. Renames the manifest last: a file without a manifest is
    /// not an entry.
    fn publish_file(&self, manifest: &Path) -> Result<(), Error> {
        touch(&self.entry);
        let rename =
            |from: &Path, to: &Path| fs::rename(from, to).map_err(Error::io(to, "publish"));
        if fs::metadata(&self.entry).is_ok_and(|there| there.is_dir()) {
            remove(&self.entry)?;
        }
        rename(&self.folder.join(&self.manifest.entry), &self.entry)?;
        rename(manifest, &manifest_of(&self.entry, Form::File))
    }

    fn scratch_is_gone(&self) -> Result<(), Error> {
        let unreadable = || Error::io(&self.folder, "list");
        for file in fs::read_dir(&self.folder).map_err(unreadable())? {
            let file = file.map_err(unreadable())?;
            let name = file.file_name();
            let is_ours = self.names.iter().any(|ours| name == ours.as_str()) || name == MANIFEST;
            if !is_ours {
                remove(&file.path())?;
            }
        }
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.published || self.form == Form::File {
            // Remove files by name first: listing a folder fails if too many files are open.
            let names = self.names.iter().map(String::as_str);
            for name in names.chain([MANIFEST]) {
                let _ = fs::remove_file(self.folder.join(name));
            }
            if fs::remove_dir(&self.folder).is_err() {
                let _ = remove(&self.folder);
            }
        }
    }
}

/// The name of the manifest in the folder of an entry.
pub(crate) const MANIFEST: &str = "manifest.json";

/// Returns the path of the draft of an entry: in the same folder, so that it can be renamed, and with a fixed name, so
/// that the next builder finds leftovers.
pub(super) fn temporary(entry: &Path) -> PathBuf {
    hidden(entry, ".draft")
}

/// Returns the path to which an entry is moved before it is removed.
pub(super) fn gone(entry: &Path) -> PathBuf {
    hidden(entry, ".gone")
}

fn hidden(entry: &Path, end: &str) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(entry.file_name().unwrap_or_default());
    with_end(&entry.with_file_name(name), end)
}

/// Removes a file, or a folder with its content, if it exists.
pub(super) fn remove(path: &Path) -> Result<(), Error> {
    let is_folder = match fs::symlink_metadata(path) {
        Ok(there) => there.is_dir(),
        Err(error) if is_absent(&error) => return Ok(()),
        Err(error) => return Err(Error::io(path, "remove")(error)),
    };
    let removed = if is_folder {
        fs::remove_dir_all(path)
    } else {
        fs::remove_file(path)
    };
    match removed {
        Err(error) if !is_absent(&error) => Err(Error::io(path, "remove")(error)),
        _ => Ok(()),
    }
}

/// Writes a file, and syncs it to the disk.
pub(super) fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let written = || -> io::Result<()> {
        let mut file = File::create(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    };
    written().map_err(Error::io(path, "write"))
}

/// Syncs a file or a folder to the disk.
pub(crate) fn sync(path: &Path) -> Result<(), Error> {
    let synced = File::open(path).and_then(|file| file.sync_all());
    synced.map_err(Error::io(path, "write"))
}
