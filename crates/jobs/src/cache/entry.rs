//! An intact entry that is in use.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::Error;
use super::lock::{Mode, try_lock, unlock};
use super::manifest::{MAX_MANIFEST, Manifest};
use super::seen::Stamp;
use super::{Form, is_absent, manifest_of, open_file};

/// An intact entry of a cache. While this value exists, the entry is not evicted: a shared lock on its manifest tells
/// all processes that it is in use. The kernel releases the lock when the process exits.
#[derive(Debug)]
pub struct Entry {
    path: PathBuf,
    form: Form,
    manifest: Arc<Manifest>,
    in_use: Option<File>,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.release();
    }
}

impl Entry {
    pub(super) fn new(path: PathBuf, form: Form, manifest: Arc<Manifest>, in_use: File) -> Entry {
        Entry {
            path,
            form,
            manifest,
            in_use: Some(in_use),
        }
    }

    /// Releases the lock, which closes its file. The entry may be evicted from now on.
    pub(crate) fn release(&mut self) {
        if let Some(file) = self.in_use.take() {
            unlock(&file);
        }
    }

    /// Returns whether the entry was removed, which can happen after [`release`](Entry::release).
    pub(crate) fn is_gone(&self) -> bool {
        fs::symlink_metadata(self.manifest_path()).is_err()
    }

    /// Returns the path of the entry: a folder or a file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Returns the path of the manifest.
    pub fn manifest_path(&self) -> PathBuf {
        manifest_of(&self.path, self.form)
    }

    /// Returns name, path and size in bytes of its files, without the manifest.
    pub fn files(&self) -> impl Iterator<Item = (&str, PathBuf, u64)> {
        self.manifest.files.iter().map(|file| {
            let path = file_of(&self.path, self.form, &file.name);
            (file.name.as_str(), path, file.size)
        })
    }
}

/// Returns the path of a file of an entry.
pub(crate) fn file_of(entry: &Path, form: Form, name: &str) -> PathBuf {
    match form {
        Form::Folder => entry.join(name),
        Form::File => entry.to_owned(),
    }
}

/// A manifest that is open but not read yet. The manifest is locked, so that the entry is not
/// removed.
pub(super) struct Held {
    pub file: File,
    pub stamp: Stamp,
}

/// Maximum number of attempts to open a manifest that is being replaced.
const TRIES: usize = 5;

impl Held {
    /// Opens and locks the manifest of an entry. Returns `None` if the manifest does not exist, or the
    /// entry is being removed.
    pub(crate) fn open(path: &Path) -> Result<Option<Held>, Error> {
        for _ in 0..TRIES {
            let file = match open_file(path) {
                Ok(file) => file,
                Err(error) if is_absent(&error) => return Ok(None),
                // Anything but a regular file counts as a missing manifest, so the entry is built
                // again.
                Err(error) if error.kind() == io::ErrorKind::InvalidData => return Ok(None),
                Err(error) => return Err(Error::io(path, "open")(error)),
            };
            if !try_lock(&file, Mode::Shared).map_err(Error::io(path, "lock"))? {
                return Ok(None);
            }
            let held = file.metadata().map_err(Error::io(path, "open"))?;
            let held = Held {
                stamp: Stamp::of(&held),
                file,
            };
            // The manifest may have been replaced before it was locked.
            if held.is_at(path)? {
                return Ok(Some(held));
            }
        }
        Ok(None)
    }

    /// Returns whether the open file is still the file at this path.
    pub(crate) fn is_at(&self, path: &Path) -> Result<bool, Error> {
        match fs::metadata(path) {
            Ok(there) => Ok(self.stamp.is_of_same_file(&there)),
            Err(error) if is_absent(&error) => Ok(false),
            Err(error) => Err(Error::io(path, "open")(error)),
        }
    }

    /// Reads the manifest.
    pub(crate) fn read(&mut self, path: &Path) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        let read = (&mut self.file).take(MAX_MANIFEST).read_to_end(&mut bytes);
        read.map_err(Error::io(path, "read"))?;
        Ok(bytes)
    }
}
