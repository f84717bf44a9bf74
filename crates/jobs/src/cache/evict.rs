//! Entries that go, to make room or because they are damaged: never one that is in use, or being built.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::super::Error;
use super::draft::{gone, remove, temporary};
use super::lock::{Lock, Mode, try_lock};
use super::seen::last_used;
use super::{Form, is_absent, manifest_of, with_end};

/// What became of an entry that was to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eviction {
    /// It is gone.
    Gone,
    /// It is in use, or was used within the time of grace, so that a process may be about to open it.
    InUse,
    /// It is being built.
    BeingBuilt,
    /// It was not there.
    Absent,
}

/// Removes an entry unless it is in use, or was within the time of grace.
///
/// # Errors
/// When it cannot be removed.
pub(crate) fn evict(entry: &Path, form: Form, grace: Duration) -> Result<Eviction, Error> {
    // Whoever builds it meanwhile would find half of the old one.
    let Some(lock) = Lock::try_acquire(entry)? else {
        return Ok(Eviction::BeingBuilt);
    };
    let manifest = manifest_of(entry, form);
    let used = last_used(entry, &manifest);
    if !grace.is_zero() && used.is_some_and(|used| is_recent(used, grace)) {
        return Ok(Eviction::InUse);
    }
    let held = match File::options().read(true).write(true).open(&manifest) {
        Ok(file) => file,
        Err(error) if is_absent(&error) => {
            // Without a manifest it is no entry, and nobody opens it.
            let there = fs::symlink_metadata(entry).is_ok();
            remove(entry)?;
            remove_beside(entry)?;
            lock.remove()?;
            return Ok(if there {
                Eviction::Gone
            } else {
                Eviction::Absent
            });
        }
        Err(error) => return Err(Error::io(&manifest, "open")(error)),
    };
    if !try_lock(&held, Mode::Exclusive).map_err(Error::io(&manifest, "lock"))? {
        return Ok(Eviction::InUse);
    }
    // The manifest goes first: without it nobody takes what is left for an entry.
    let away = gone(entry);
    remove(&away)?;
    let rename = |from: &Path| fs::rename(from, &away).map_err(Error::io(from, "remove"));
    match form {
        Form::Folder => rename(entry)?,
        Form::File => {
            rename(&manifest)?;
            remove(entry)?;
        }
    }
    drop(held);
    remove_beside(entry)?;
    lock.remove()?;
    Ok(Eviction::Gone)
}

fn is_recent(used: SystemTime, grace: Duration) -> bool {
    SystemTime::now().duration_since(used).unwrap_or_default() < grace
}

/// Removes the files beside an entry that is gone, except its lock file.
fn remove_beside(entry: &Path) -> Result<(), Error> {
    remove(&gone(entry))?;
    remove(&temporary(entry))?;
    remove(&with_end(entry, ".seen"))
}

/// Removes the lock file of an entry that is not there, and its mark, unless it is new: a process that excludes others
/// with it may be about to lock it, and not look whether it is still there, as ours do.
///
/// # Errors
/// When they cannot be removed.
pub(crate) fn tidy(entry: &Path, grace: Duration) -> Result<(), Error> {
    let made = fs::metadata(with_end(entry, ".working")).and_then(|file| file.modified());
    if made.is_ok_and(|made| is_recent(made, grace)) {
        return Ok(());
    }
    match Lock::try_acquire(entry)? {
        Some(lock) if fs::symlink_metadata(entry).is_err() => {
            remove_beside(entry)?;
            lock.remove()
        }
        _ => Ok(()),
    }
}

/// Removes what a builder left who died, if nobody builds the entry now. Whether there was something.
///
/// # Errors
/// When it cannot be removed.
pub(crate) fn clean(entry: &Path) -> Result<bool, Error> {
    let left = [temporary(entry), gone(entry), with_end(entry, ".owner")];
    if !left.iter().any(|path| fs::symlink_metadata(path).is_ok()) {
        return Ok(false);
    }
    let Some(_lock) = Lock::try_acquire(entry)? else {
        return Ok(false);
    };
    for path in &left {
        remove(path)?;
    }
    Ok(true)
}
