//! Copies entries to folders outside of the cache.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::super::cache::{MANIFEST, read_manifest, sync};
use super::super::{Entry, Error, Work};

/// Copies the files of an entry, including its manifest, into a folder that appears atomically. Replaces an earlier
/// copy in that folder, but no other content. If the file system supports it, the copy shares the blocks of the entry.
///
/// # Errors
/// [`Error::Request`] if the folder has other content. Also fails if the copy cannot be written, or the work is
/// cancelled.
pub fn copy(entry: &Entry, to: &Path, work: &Work) -> Result<(), Error> {
    let to = &std::path::absolute(to).map_err(Error::io(to, "create"))?;
    let (Some(parent), Some(name)) = (to.parent(), to.file_name()) else {
        return Err(Error::Request(format!(
            "{} has no file name: choose another folder",
            to.display()
        )));
    };
    refuse_others(to)?;
    fs::create_dir_all(parent).map_err(Error::io(parent, "create"))?;
    let draft = tempfile_name(parent, &name.to_string_lossy());
    fs::create_dir(&draft).map_err(Error::io(&draft, "create"))?;
    let made = fill(entry, &draft, work).and_then(|()| put(&draft, to));
    // Remove the folder: it has an unfinished draft, or the previous copy, with which the draft was exchanged.
    let _ = fs::remove_dir_all(&draft);
    made?;
    sync(parent)
}

/// Refuses a folder that is neither empty nor a copy.
fn refuse_others(to: &Path) -> Result<(), Error> {
    let other = || {
        let to = to.display();
        Error::Request(format!(
            "{to} exists and is not a copy of an index; choose another folder"
        ))
    };
    let files = match fs::read_dir(to) {
        Ok(files) => files,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Err(other()),
        Err(error) => return Err(Error::io(to, "list")(error)),
    };
    let is_empty = files.count() == 0;
    let is_copy = matches!(read_manifest(&to.join(MANIFEST)), Some(Ok(_)));
    if is_empty || is_copy {
        Ok(())
    } else {
        Err(other())
    }
}

/// Returns a unique path in the same file system.
fn tempfile_name(parent: &Path, name: &str) -> PathBuf {
    parent.join(format!(".{name}.{}.draft", std::process::id()))
}

fn fill(entry: &Entry, draft: &Path, work: &Work) -> Result<(), Error> {
    let total = entry.files().map(|(.., size)| size).sum();
    work.begin("copying", total);
    let manifest = entry.manifest_path();
    let files = entry
        .files()
        .map(|(name, path, size)| (name.to_owned(), path, size));
    for (name, from, size) in files.chain([(MANIFEST.to_owned(), manifest, 0)]) {
        let to = draft.join(name);
        fs::copy(&from, &to).map_err(Error::io(&to, "write"))?;
        sync(&to)?;
        work.advance(size)?;
    }
    sync(draft)
}

/// Exchanges both folders atomically: a complete copy exists at any time.
fn put(draft: &Path, to: &Path) -> Result<(), Error> {
    let placed = match fs::symlink_metadata(to) {
        Ok(_) => renameat_with(CWD, draft, CWD, to, RenameFlags::EXCHANGE).map_err(io::Error::from),
        Err(_) => fs::rename(draft, to),
    };
    placed.map_err(Error::io(to, "write"))
}
