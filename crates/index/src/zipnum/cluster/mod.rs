//! ZipNum clusters: CDXJ in gzip members of some thousand lines each, and a secondary index of the
//! members. The secondary index (`*.idx`, `*.summary`) is a sorted text file with a line for each
//! member (a block):
//!
//! ```text
//! com,example)/ 20160101000000<TAB>cdx-00000.gz<TAB>1234<TAB>234567<TAB>17
//! ```
//!
//! A line begins with the first line of the block, without its JSON. The next columns are the part,
//! which is the name of a file, the offset and length of the block in this file, and, optionally,
//! the number of the line. The paths of the parts are in a file next to the secondary index with
//! the extension `.loc`, in lines of `part<TAB>path[<TAB>path …]`; a path may be a URL. Without a
//! `.loc` file, the parts are in the folder of the index. All of these files may be on a web server
//! or in an object store.

pub(crate) mod block;
mod blocks;
mod parts;
mod unpack;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) use self::blocks::Blocks;
use self::parts::Parts;
use self::unpack::Unpacked;
use crate::sorted::file::NamedFile;
use crate::source::SourceError;
use crawlspace_fetch::Net;
use crawlspace_wacz::Location;

/// A secondary index with the files that belong to it.
#[derive(Debug)]
pub(crate) struct Cluster {
    index: PathBuf,
    parts: Parts,
    unpacked: Unpacked,
    /// True if the secondary index is inexact, as in packages: its keys may differ from those of the
    /// first lines of the blocks, and lines may be repeated.
    hinted: bool,
    /// The part that contains the blocks whose index lines name no part.
    part: Box<str>,
    /// True if the part was listed together with the index. If the part is missing later, both have changed.
    listed: bool,
}

impl Cluster {
    /// Creates the cluster of a secondary index. Without `net`, parts on servers cannot be read.
    pub(crate) fn new(index: &Location, net: Option<&Arc<Net>>) -> Cluster {
        Cluster {
            index: match index {
                Location::File(path) => path.clone(),
                url => PathBuf::from(url.to_string()),
            },
            parts: Parts::new(index, net),
            unpacked: Unpacked::default(),
            hinted: false,
            part: Box::default(),
            listed: false,
        }
    }

    /// Treats the secondary index as a hint. Lines that do not name a file refer to `part`.
    pub(crate) fn hinted(mut self, part: Option<&str>) -> Cluster {
        self.hinted = true;
        self.part = part.unwrap_or_default().into();
        self
    }

    /// Returns the part that contains the blocks whose index lines name no part; empty if unknown.
    pub(crate) fn part(&self) -> &str {
        &self.part
    }

    /// Returns whether the secondary index is only a hint.
    pub(crate) fn is_hinted(&self) -> bool {
        self.hinted
    }

    /// Returns whether the whole cluster is in one local file, which was listed with the index.
    pub(crate) fn is_part_of_file(&self) -> bool {
        self.listed && self.parts.is_local()
    }

    /// Returns the error of a missing part.
    fn lost(&self, path: &Path) -> SourceError {
        let what = format!("{}: the file does not exist", path.display());
        if self.listed {
            SourceError::Changed(what)
        } else {
            SourceError::Io(what)
        }
    }

    /// Creates the cluster of a secondary index whose only part is in the file `part`.
    pub(crate) fn of_part(index: &Path, name: &str, part: NamedFile) -> Cluster {
        Cluster {
            index: index.to_owned(),
            parts: Parts::only(index, name, part),
            unpacked: Unpacked::default(),
            hinted: true,
            part: name.into(),
            listed: true,
        }
    }
}

/// Returns whether a path is a secondary index, judging by its name.
pub(crate) fn is_secondary(path: &Path) -> bool {
    let end = path.extension().and_then(OsStr::to_str);
    matches!(end, Some("idx" | "summary"))
}
