//! A file that takes its place in one step, or does not.

use std::fs::{self, File, Permissions};
use std::io::{self, BufWriter};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use tempfile::{Builder, NamedTempFile};

/// What a new file may be used for, before the system takes away what its user does not want.
const USUAL: u32 = 0o666;

/// A file in the making, in the folder of the place that it will take. Dropped before that, it leaves nothing behind.
#[derive(Debug)]
pub(super) struct Replacement {
    file: NamedTempFile,
    path: PathBuf,
}

impl Replacement {
    /// For that path. If a file is there, its permissions are taken over, and if a link is, what it leads to is
    /// replaced.
    pub(super) fn of(path: &Path) -> io::Result<Replacement> {
        let (path, old) = match fs::canonicalize(path) {
            Ok(path) => (path.clone(), Some(fs::metadata(&path)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => (path.to_owned(), None),
            Err(error) => return Err(error),
        };
        let file = Builder::new()
            .prefix(".wacz-")
            .permissions(Permissions::from_mode(USUAL))
            .tempfile_in(folder(&path))?;
        if let Some(old) = old {
            // Only some may give files away; then it belongs to who replaced it. In this order, because a new owner
            // takes some permissions away.
            let _ = fchown(file.as_file(), Some(old.uid()), Some(old.gid()));
            file.as_file().set_permissions(old.permissions())?;
        }
        Ok(Replacement { file, path })
    }

    /// What writes to it.
    pub(super) fn writer(&self) -> io::Result<BufWriter<File>> {
        Ok(BufWriter::with_capacity(
            256 * 1024,
            self.file.as_file().try_clone()?,
        ))
    }

    /// Where it lies so far.
    pub(super) fn path(&self) -> &Path {
        self.file.path()
    }

    /// Puts it in its place, when all of it is on the disk.
    pub(super) fn commit(self) -> io::Result<()> {
        self.file.as_file().sync_all()?;
        self.file.persist(&self.path).map_err(|error| error.error)?;
        // Only now does the name outlast a power cut.
        File::open(folder(&self.path))?.sync_all()
    }
}

fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}
