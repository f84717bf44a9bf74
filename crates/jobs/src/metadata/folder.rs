//! Scans folders for metadata files.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::super::{Error, Work};
use super::name::Name;

/// Passes the metadata files in a folder and its subfolders to `add`. Symbolic links are followed; each folder is
/// scanned once, however many links lead to it.
///
/// # Errors
/// Fails if a folder cannot be read, because it might contain the wanted file.
pub(super) fn scan(root: &Path, work: &Work, add: &mut dyn FnMut(PathBuf)) -> Result<(), Error> {
    let mut seen = HashSet::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        work.check()?;
        match look_into(&folder, &mut seen, &mut folders, add) {
            // The file was deleted in the meantime.
            Err(error) if error.kind() == io::ErrorKind::NotFound && folder != root => {}
            outcome => outcome.map_err(Error::io(&folder, "read the folder"))?,
        }
    }
    Ok(())
}

fn look_into(
    folder: &Path,
    seen: &mut HashSet<(u64, u64)>,
    folders: &mut Vec<PathBuf>,
    add: &mut dyn FnMut(PathBuf),
) -> io::Result<()> {
    let about = fs::metadata(folder)?;
    if !seen.insert((about.dev(), about.ino())) {
        return Ok(());
    }
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let mut kind = entry.file_type()?;
        if kind.is_symlink() {
            match fs::metadata(entry.path()) {
                Ok(about) => kind = about.file_type(),
                Err(error) if leads_nowhere(&error) => {}
                Err(error) => return Err(error),
            }
        }
        if kind.is_dir() {
            folders.push(entry.path());
        } else if Name::parse(&entry.file_name().to_string_lossy()).is_some() {
            // Dangling links are passed as well: reading them reports the error.
            add(entry.path());
        }
    }
    Ok(())
}

/// Returns whether a link has no target, or refers to itself.
fn leads_nowhere(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    ) || error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error())
}
