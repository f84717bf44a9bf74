//! Who may build an entry: a lock that the kernel keeps, and takes back when its holder dies.
//!
//! The lock file stands beside the entry as `<entry>.working`, as in NetarchiveSuite. It is never written to, and stays
//! as long as the entry: somebody may be about to lock it. Its locks are those of open file descriptions (`fcntl(2)`, *Open
//! file description locks*): they exclude other threads as well as other processes, and also processes that lock
//! with `fcntl` as Java's `FileChannel.lock` does.

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

/// How long to wait before the lock is tried again, at first and at most.
const POLL: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));

/// An entry that nobody else builds or removes as long as this lives.
#[derive(Debug)]
pub(crate) struct Lock {
    file: File,
    path: PathBuf,
    owner: PathBuf,
}

/// What a builder says of itself, in `<entry>.owner`. It counts only while the lock is held.
#[derive(Serialize, Deserialize)]
struct Owner {
    pid: u32,
    host: String,
    since: u64,
}

impl Lock {
    /// Takes the lock of an entry if nobody has it.
    ///
    /// # Errors
    /// When there can be no lock file.
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
        // Who removes lock files against all advice may have done so before it was locked.
        Ok(lock.is_valid().then_some(lock))
    }

    /// Whether it is that of the file which is there: when somebody has removed that, others lock another one.
    pub(crate) fn is_valid(&self) -> bool {
        match (self.file.metadata(), fs::metadata(&self.path)) {
            (Ok(held), Ok(there)) => (held.dev(), held.ino()) == (there.dev(), there.ino()),
            _ => false,
        }
    }

    /// Waits until the lock can be taken. Between two attempts `instead` is asked for what one waits for; when it has
    /// it, nothing has to be locked.
    ///
    /// # Errors
    /// [`Error::Busy`] when it takes longer than `wait`; [`Error::Cancelled`]; those of `instead`.
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
                    owner: owner(entry).unwrap_or_else(|| "somebody unknown".to_owned()),
                    waited,
                });
            };
            thread::sleep(pause.min(left));
            pause = (pause * 2).min(POLL.1);
        }
    }

    /// Says who has it, for those who wait.
    pub(crate) fn sign(&self) {
        let host = nix_host();
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let owner = Owner {
            pid: std::process::id(),
            host,
            since: since.map_or(0, |since| since.as_secs()),
        };
        // Nobody needs it but people, so that a full disk is no reason not to build.
        let file = plain(File::options().create(true).write(true).truncate(true)).open(&self.owner);
        let json = serde_json::to_vec(&owner).map_err(io::Error::from);
        let _ = file.and_then(|mut file| file.write_all(&json?));
    }
}

impl Lock {
    /// Removes the lock file, of an entry that is gone. Who waits for this one tries again: see [`Lock::is_valid`].
    ///
    /// # Errors
    /// When it cannot be removed.
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

/// Takes back what was locked of a file. Closing it would do, but for a child process that was forked and has it open,
/// too, until it runs its program.
pub(super) fn unlock(file: &File) {
    let _ = fcntl(file.as_fd(), FcntlArg::F_OFD_SETLK(&region(libc::F_UNLCK)));
}

/// How waiting for a lock ended.
pub(crate) enum Acquired<T> {
    /// With the lock.
    Locked(Lock),
    /// With what one waited for.
    Instead(T),
}

/// What is locked of a file by anybody; none when nothing is.
fn held(path: &Path) -> Option<libc::flock> {
    let file = plain(File::options().read(true)).open(path).ok()?;
    let mut held = region(libc::F_WRLCK);
    fcntl(file.as_fd(), FcntlArg::F_OFD_GETLK(&mut held)).ok()?;
    (i32::from(held.l_type) != libc::F_UNLCK).then_some(held)
}

/// Whether somebody uses the entry whose manifest this is.
pub(crate) fn is_in_use(manifest: &Path) -> bool {
    held(manifest).is_some()
}

/// Who has the lock of an entry; none when nobody has it.
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
        None => "a process that did not say which it is".to_owned(),
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

/// Which others a lock excludes.
#[derive(Clone, Copy)]
pub(super) enum Mode {
    /// Those that are exclusive.
    Shared,
    /// All.
    Exclusive,
}

/// Locks a file as a whole; false when another lock is in the way.
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

/// All of a file. For these locks the process id has to be 0.
fn region(kind: libc::c_int) -> libc::flock {
    libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    }
}
