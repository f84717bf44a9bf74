//! Detection of files that belong to another subcommand.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Kinds of files that are imported by different subcommands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileKind {
    Warc,
    Wacz,
    /// A manifest, or any other file.
    Other,
}

impl FileKind {
    /// Returns the kind of a file by its first bytes, or by its name if it cannot be read.
    pub(crate) fn of(path: &Path) -> FileKind {
        let mut head = Vec::new();
        // Opening a pipe would wait for a writer.
        let file = path.is_file().then(|| File::open(path));
        let read = file.and_then(|file| file.ok()?.take(5).read_to_end(&mut head).ok());
        let name = path.to_string_lossy().to_ascii_lowercase();
        let is_warc = [".warc", ".warc.gz", ".arc", ".arc.gz"];
        let is_named_warc = is_warc.iter().any(|end| name.ends_with(end));
        match read {
            Some(_) if head.starts_with(b"PK") => FileKind::Wacz,
            Some(_) if head == b"WARC/" => FileKind::Warc,
            Some(_) if head.starts_with(b"\x1f\x8b") && is_named_warc => FileKind::Warc,
            Some(_) => FileKind::Other,
            None if is_named_warc => FileKind::Warc,
            None => FileKind::Other,
        }
    }
}
