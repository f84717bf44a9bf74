//! Atomic replacement of a file.

use std::fs::{self, File, Permissions};
use std::io::{self, BufWriter};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use tempfile::{Builder, NamedTempFile};

/// Permissions of a new file, before the umask is applied.
const USUAL: u32 = 0o666;

/// A temporary file in the folder of the file that it will replace. If the value is dropped before the
/// commit, the temporary file is removed.
#[derive(Debug)]
pub struct Replacement {
    file: NamedTempFile,
    path: PathBuf,
}

impl Replacement {
    /// Creates a temporary file that will replace the file at a path. The new file gets the permissions of
    /// an existing file; if the path is a symbolic link, its target is replaced.
    ///
    /// # Errors
    /// Fails if the folder is not writable.
    pub fn of(path: &Path) -> io::Result<Replacement> {
        let (path, old) = match fs::canonicalize(path) {
            Ok(path) => (path.clone(), Some(fs::metadata(&path)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => (path.to_owned(), None),
            Err(error) => return Err(error),
        };
        let file = Builder::new()
            .prefix(".crawlspace-")
            .permissions(Permissions::from_mode(USUAL))
            .tempfile_in(folder(&path))?;
        if let Some(old) = old {
            // Without the privilege to change the owner, the file belongs to the current user. The owner is set first,
            // because changing it clears some permissions.
            let _ = fchown(file.as_file(), Some(old.uid()), Some(old.gid()));
            file.as_file().set_permissions(old.permissions())?;
        }
        Ok(Replacement { file, path })
    }

    /// Returns a writer to the temporary file.
    ///
    /// # Errors
    /// Fails if there are too many open files.
    pub fn writer(&self) -> io::Result<BufWriter<File>> {
        Ok(BufWriter::with_capacity(
            256 * 1024,
            self.file.as_file().try_clone()?,
        ))
    }

    /// Returns the path of the temporary file.
    pub(super) fn path(&self) -> &Path {
        self.file.path()
    }

    /// Syncs the file to the disk, and moves it to its final path. Flush the writer first.
    ///
    /// # Errors
    /// Fails if the disk is full or the folder is not writable; in this case, an existing file is
    /// kept.
    pub fn commit(self) -> io::Result<()> {
        self.file.as_file().sync_all()?;
        self.file.persist(&self.path).map_err(|error| error.error)?;
        // Sync the folder, so that the new name survives a power failure.
        File::open(folder(&self.path))?.sync_all()
    }
}

fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}
