//! Removes entries, to make room or because they are damaged, unless they are in use or being built.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::super::Error;
use super::draft::{gone, remove, temporary};
use super::lock::{Lock, Mode, try_lock};
use super::seen::last_used;
use super::{Form, is_absent, manifest_of, with_end};

/// The outcome of an eviction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eviction {
    /// The entry was removed.
    Gone,
    /// The entry is in use, or was used within the grace period, so a process may be about to open it.
    InUse,
    /// The entry is being built.
    BeingBuilt,
    /// The entry did not exist.
    Absent,
}

/// Removes an entry, unless it is in use or was used within the grace period.
///
/// # Errors
/// Fails if the entry cannot be removed.
pub(crate) fn evict(entry: &Path, form: Form, grace: Duration) -> Result<Eviction, Error> {
    // Take the lock, so that a builder does not find a partly removed entry.
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
            // Without a manifest this is not an entry, and no process opens it.
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
    // Remove the manifest first: without it, the remaining files do not count as an entry.
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

/// Removes the files next to an entry that is gone, except its lock file.
fn remove_beside(entry: &Path) -> Result<(), Error> {
    remove(&gone(entry))?;
    remove(&temporary(entry))?;
    remove(&with_end(entry, ".seen"))
}

/// Removes the lock file and the mark of a missing entry, unless the lock file is new: another program may be
/// about to lock it. Unlike this crate, that program may not check afterwards that the file still exists.
///
/// # Errors
/// Fails if the files cannot be removed.
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

/// Removes the leftovers of a builder that died, unless the entry is being built. Returns whether there were any.
///
/// # Errors
/// Fails if the files cannot be removed.
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
