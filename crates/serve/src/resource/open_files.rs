//! Cache of open files, with a bounded number of idle file descriptors.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags};
use rustix::io::{Errno, ReadWriteFlags};

use super::record::LoadError;

/// Maximum number of files kept open while they are not read.
pub(crate) const MAX_IDLE: usize = 256;

/// Open files by path. A path that leads to a different file than before is opened again.
#[derive(Default)]
pub(super) struct OpenFiles {
    files: Mutex<HashMap<PathBuf, Arc<OpenFile>>>,
    clock: AtomicU64,
}

/// A file that is open for reading.
pub(super) struct OpenFile {
    file: File,
    identity: (u64, u64, u64),
    used: AtomicU64,
    /// The file system supports reads that fail instead of waiting for the disk (`RWF_NOWAIT`).
    says_when_it_waits: AtomicBool,
}

impl OpenFiles {
    /// Opens the regular file at that path. If `root` is given, the file must be in that folder after resolving
    /// symbolic links.
    ///
    /// # Errors
    /// Fails if the file does not exist, is outside the folder, is not a regular file, or cannot be
    /// read.
    pub(super) async fn open(
        &self,
        path: &Path,
        root: Option<&Path>,
    ) -> Result<Arc<OpenFile>, LoadError> {
        let now = self.clock.fetch_add(1, Ordering::Relaxed);
        if let Some(file) = self.lock().get(path).cloned()
            && identity(path).is_ok_and(|identity| identity == file.identity)
        {
            file.used.store(now, Ordering::Relaxed);
            return Ok(file);
        }
        let (wanted, within) = (path.to_owned(), root.map(Path::to_owned));
        let opened = tokio::task::spawn_blocking(move || open(&wanted, within.as_deref())).await;
        let file = match opened {
            Ok(Ok(file)) => Arc::new(file),
            Ok(Err(error)) => {
                self.lock().remove(path);
                return Err(error);
            }
            Err(_) => return Err(LoadError::Io("the server is shutting down".to_owned())),
        };
        file.used.store(now, Ordering::Relaxed);
        let mut files = self.lock();
        files.insert(path.to_owned(), Arc::clone(&file));
        if files.len() > MAX_IDLE {
            // Evicts a quarter of the files at once, so that evictions are rare.
            let mut uses: Vec<u64> = files
                .values()
                .map(|file| file.used.load(Ordering::Relaxed))
                .collect();
            let (_, oldest, _) = uses.select_nth_unstable(MAX_IDLE / 4);
            let oldest = *oldest;
            files.retain(|_, file| file.used.load(Ordering::Relaxed) > oldest);
        }
        Ok(file)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<PathBuf, Arc<OpenFile>>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the identity of the file at a path: major and minor device number, and inode.
fn identity(path: &Path) -> io::Result<(u64, u64, u64)> {
    // Cached attributes suffice: a network file system need not ask its server each time.
    let statx = rustix::fs::statx(
        rustix::fs::CWD,
        path,
        AtFlags::STATX_DONT_SYNC,
        StatxFlags::INO,
    )?;
    Ok((
        u64::from(statx.stx_dev_major),
        u64::from(statx.stx_dev_minor),
        statx.stx_ino,
    ))
}

fn open(path: &Path, root: Option<&Path>) -> Result<OpenFile, LoadError> {
    // Errors must not reveal local paths to clients.
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            LoadError::Missing("the file does not exist".to_owned())
        }
        _ => LoadError::Io(error.to_string()),
    };
    let real = path.canonicalize().map_err(failed)?;
    if let Some(root) = root {
        let root = root.canonicalize().map_err(failed)?;
        if !real.starts_with(&root) {
            return Err(LoadError::Missing("it is outside of its folder".to_owned()));
        }
    }
    // `NONBLOCK` avoids waiting when the path is a pipe.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let opened = rustix::fs::open(&real, flags, Mode::empty());
    let file = File::from(opened.map_err(|error| failed(error.into()))?);
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(LoadError::Missing("it is not a file".to_owned()));
    }
    Ok(OpenFile {
        file,
        identity: identity(&real).map_err(failed)?,
        used: AtomicU64::new(0),
        says_when_it_waits: AtomicBool::new(true),
    })
}

impl OpenFile {
    /// Reads up to `size` bytes at offset `at`; returns no bytes at the end of the file.
    ///
    /// # Errors
    /// Fails if the file cannot be read.
    pub(super) async fn read(self: &Arc<Self>, at: u64, size: usize) -> Result<Bytes, LoadError> {
        if i64::try_from(at.saturating_add(size as u64)).is_err() {
            // No file is that large, and the system returns an error for such an offset.
            return Ok(Bytes::new());
        }
        if self.says_when_it_waits.load(Ordering::Relaxed) {
            let mut buffer = vec![0; size];
            let mut slices = [IoSliceMut::new(&mut buffer)];
            let read =
                rustix::io::preadv2(self.file.as_fd(), &mut slices, at, ReadWriteFlags::NOWAIT);
            match read {
                Ok(n) => {
                    buffer.truncate(n);
                    return Ok(buffer.into());
                }
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {
                    self.says_when_it_waits.store(false, Ordering::Relaxed);
                }
                Err(error) => return Err(LoadError::Io(error.to_string())),
            }
        }
        let file = Arc::clone(self);
        let read = tokio::task::spawn_blocking(move || file.read_now(at, size)).await;
        match read {
            Ok(Ok(bytes)) => Ok(bytes),
            Ok(Err(error)) => Err(LoadError::Io(error.to_string())),
            Err(_) => Err(LoadError::Io("the server is shutting down".to_owned())),
        }
    }

    fn read_now(&self, at: u64, size: usize) -> io::Result<Bytes> {
        let mut buffer = vec![0; size];
        loop {
            match rustix::io::pread(self.file.as_fd(), &mut buffer[..], at) {
                Ok(n) => {
                    buffer.truncate(n);
                    return Ok(buffer.into());
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn text(files: &OpenFiles, path: &Path) -> String {
        let file = files.open(path, None).await.unwrap();
        String::from_utf8(file.read(0, 100).await.unwrap().to_vec()).unwrap()
    }

    #[tokio::test]
    async fn replaced_path_is_opened_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let files = OpenFiles::default();
        std::fs::write(&path, "first").unwrap();
        assert_eq!(text(&files, &path).await, "first");
        let other = folder.path().join("b");
        std::fs::write(&other, "second").unwrap();
        std::fs::rename(&other, &path).unwrap();
        assert_eq!(text(&files, &path).await, "second");
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(
            files.open(&path, None).await,
            Err(LoadError::Missing(_))
        ));
        assert!(files.lock().is_empty());
    }

    #[tokio::test]
    async fn number_of_open_files_is_limited() {
        let folder = tempfile::tempdir().unwrap();
        let files = OpenFiles::default();
        let path = |i: usize| folder.path().join(i.to_string());
        for i in 0..MAX_IDLE * 2 {
            std::fs::write(path(i), i.to_string()).unwrap();
            assert_eq!(text(&files, &path(i)).await, i.to_string());
            assert!(files.lock().len() <= MAX_IDLE);
            assert!(files.lock().contains_key(&path(i)));
        }
    }

    #[tokio::test]
    async fn only_files_within_the_root_are_opened() {
        let outer = tempfile::tempdir().unwrap();
        let root = outer.path().join("root");
        std::fs::create_dir_all(root.join("sub")).unwrap();
        std::fs::write(outer.path().join("secret"), "secret").unwrap();
        std::fs::write(root.join("sub/a"), "a").unwrap();
        let link = |to: &Path, name: &str| std::os::unix::fs::symlink(to, root.join(name)).unwrap();
        link(&outer.path().join("secret"), "out");
        link(outer.path(), "folder");
        link(Path::new("../secret"), "relative");
        link(Path::new("sub/a"), "within");
        link(&root.join("sub/a"), "absolute");
        link(Path::new("circle"), "circle");
        let fifo = root.join("fifo");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &fifo,
            rustix::fs::FileType::Fifo,
            Mode::RWXU,
            0,
        )
        .unwrap();
        let files = OpenFiles::default();
        for inside in ["sub/a", "within", "absolute"] {
            assert!(
                files.open(&root.join(inside), Some(&root)).await.is_ok(),
                "{inside}"
            );
        }
        for outside in [
            "out",
            "folder/secret",
            "relative",
            "circle",
            "sub",
            "fifo",
            "none",
            "sub/a/b",
        ] {
            assert!(
                files.open(&root.join(outside), Some(&root)).await.is_err(),
                "{outside}"
            );
        }
    }
}
