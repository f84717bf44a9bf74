//! Locks of entries for their builders. The kernel releases a lock when its holder dies.
//!
//! The lock file is `<entry>.working`, next to the entry, as in NetarchiveSuite. The lock file is never
//! written to. It exists as long as the entry, because a process may be about to lock it. The locks are open
//! file description locks (`fcntl(2)`, *Open file description locks*): they exclude other threads, other
//! processes, and programs that lock with `fcntl`, as Java's `FileChannel.lock` does.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use serde::{Deserialize, Serialize};

use super::super::{Error, Work};
use super::{is_absent, open_file, plain, with_end};

/// Initial and maximum pause before the lock is tried again.
const POLL: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));

/// The exclusive right to build or remove an entry, as long as this value exists.
#[derive(Debug)]
pub(crate) struct Lock {
    file: File,
    path: PathBuf,
    owner: PathBuf,
}

/// The process that builds an entry, as described in `<entry>.owner`. The file is only valid while the lock
/// is held.
#[derive(Serialize, Deserialize)]
struct Owner {
    pid: u32,
    host: String,
    since: u64,
}

impl Lock {
    /// Tries to take the lock of an entry; returns `None` if it is held.
    ///
    /// # Errors
    /// Fails if the lock file cannot be created or locked.
    pub(crate) fn try_acquire(entry: &Path) -> Result<Option<Lock>, Error> {
        let path = with_end(entry, ".working");
        let file = plain(
            File::options()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false),
        )
        .open(&path)
        .map_err(Error::io(&path, "open"))?;
        if !try_lock(&file, Mode::Exclusive).map_err(Error::io(&path, "lock"))? {
            return Ok(None);
        }
        let owner = with_end(entry, ".owner");
        let lock = Lock { file, path, owner };
        // The lock file may have been removed just before it was locked.
        Ok(lock.is_valid().then_some(lock))
    }

    /// Returns whether the lock file is still the file at its path. If the lock file was removed, other
    /// processes lock a new file.
    pub(crate) fn is_valid(&self) -> bool {
        match (self.file.metadata(), fs::metadata(&self.path)) {
            (Ok(held), Ok(there)) => (held.dev(), held.ino()) == (there.dev(), there.ino()),
            _ => false,
        }
    }

    /// Waits for the lock. Between attempts, calls `instead`, which returns the wanted result if another process has
    /// built it; in that case, the lock is not needed.
    ///
    /// # Errors
    /// [`Error::Busy`] if waiting takes longer than `wait`; [`Error::Cancelled`]; or an error of `instead`.
    pub(crate) fn acquire<T>(
        entry: &Path,
        wait: Duration,
        work: &Work,
        mut instead: impl FnMut() -> Result<Option<T>, Error>,
    ) -> Result<Acquired<T>, Error> {
        let begun = Instant::now();
        let mut pause = POLL.0;
        loop {
            if let Some(lock) = Lock::try_acquire(entry)? {
                return Ok(Acquired::Locked(lock));
            }
            if let Some(found) = instead()? {
                return Ok(Acquired::Instead(found));
            }
            work.check()?;
            let waited = begun.elapsed();
            let Some(left) = wait.checked_sub(waited).filter(|left| !left.is_zero()) else {
                return Err(Error::Busy {
                    entry: entry.to_owned(),
                    owner: owner(entry).unwrap_or_else(|| "an unknown process".to_owned()),
                    waited,
                });
            };
            thread::sleep(pause.min(left));
            pause = (pause * 2).min(POLL.1);
        }
    }

    /// Writes a description of the holder, for processes that wait.
    pub(crate) fn sign(&self) {
        let host = nix_host();
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let owner = Owner {
            pid: std::process::id(),
            host,
            since: since.map_or(0, |since| since.as_secs()),
        };
        // The description is only informational, so a full disk must not fail the build.
        let file = plain(File::options().create(true).write(true).truncate(true)).open(&self.owner);
        let json = serde_json::to_vec(&owner).map_err(io::Error::from);
        let _ = file.and_then(|mut file| file.write_all(&json?));
    }
}

impl Lock {
    /// Removes the lock file of an entry that is gone. Processes that wait for the lock try again: see
    /// [`Lock::is_valid`].
    ///
    /// # Errors
    /// Fails if the file cannot be removed.
    pub(crate) fn remove(self) -> Result<(), Error> {
        let _ = fs::remove_file(&self.owner);
        match fs::remove_file(&self.path) {
            Err(error) if !is_absent(&error) => Err(Error::io(&self.path, "remove")(error)),
            _ => Ok(()),
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if self.is_valid() {
            let _ = fs::remove_file(&self.owner);
        }
        unlock(&self.file);
    }
}

/// Releases the locks of a file. Closing the file is not enough: a child process that was just
/// forked has it open as well, until the child executes its program.
pub(super) fn unlock(file: &File) {
    let _ = fcntl(file.as_fd(), FcntlArg::F_OFD_SETLK(&region(libc::F_UNLCK)));
}

/// The result of waiting for a lock.
pub(crate) enum Acquired<T> {
    /// The lock.
    Locked(Lock),
    /// The result that made the lock unnecessary.
    Instead(T),
}

/// Returns a lock that is held on a file; `None` if the file is not locked.
fn held(path: &Path) -> Option<libc::flock> {
    let file = plain(File::options().read(true)).open(path).ok()?;
    let mut held = region(libc::F_WRLCK);
    fcntl(file.as_fd(), FcntlArg::F_OFD_GETLK(&mut held)).ok()?;
    (i32::from(held.l_type) != libc::F_UNLCK).then_some(held)
}

/// Returns whether a process uses the entry with this manifest.
pub(crate) fn is_in_use(manifest: &Path) -> bool {
    held(manifest).is_some()
}

/// Describes the holder of the lock of an entry; `None` if it is not locked.
pub(crate) fn owner(entry: &Path) -> Option<String> {
    let held = held(&with_end(entry, ".working"))?;
    if held.l_pid > 0 {
        let name = fs::read_to_string(format!("/proc/{}/comm", held.l_pid)).unwrap_or_default();
        return Some(match name.trim() {
            "" => format!("process {}", held.l_pid),
            name => format!("process {} ({name})", held.l_pid),
        });
    }
    let signed = open_file(&with_end(entry, ".owner")).ok();
    let owner: Option<Owner> = signed.and_then(|file| serde_json::from_reader(file).ok());
    Some(match owner {
        None => "an unidentified process".to_owned(),
        Some(owner) => {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            let seconds = now.map_or(0, |now| now.as_secs().saturating_sub(owner.since));
            let Owner { pid, host, .. } = owner;
            format!("process {pid} on {host}, for {seconds} s now")
        }
    })
}

fn nix_host() -> String {
    let host = rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned();
    if host.is_empty() {
        "this host".to_owned()
    } else {
        host
    }
}

/// The kinds of locks that a lock excludes.
#[derive(Clone, Copy)]
pub(super) enum Mode {
    /// Excludes exclusive locks only.
    Shared,
    /// Excludes all other locks.
    Exclusive,
}

/// Locks a whole file; returns false if another lock prevents it.
pub(super) fn try_lock(file: &File, mode: Mode) -> io::Result<bool> {
    let kind = match mode {
        Mode::Shared => libc::F_RDLCK,
        Mode::Exclusive => libc::F_WRLCK,
    };
    loop {
        return match fcntl(file.as_fd(), FcntlArg::F_OFD_SETLK(&region(kind))) {
            Ok(_) => Ok(true),
            Err(Errno::EAGAIN | Errno::EACCES) => Ok(false),
            Err(Errno::EINTR) => continue,
            Err(error) => Err(error.into()),
        };
    }
}

/// Returns the lock region of a whole file. Open file description locks require the process id 0.
fn region(kind: libc::c_int) -> libc::flock {
    libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    }
}
