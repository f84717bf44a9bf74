//! ZipNum clusters: lines of CDXJ in gzip members of some thousand each, and a secondary index of the members.
//!
//! The secondary index (`*.idx`, `*.summary`) is sorted text of its own, with a line for each member (a block):
//!
//! ```text
//! com,example)/ 20160101000000<TAB>cdx-00000.gz<TAB>1234<TAB>234567<TAB>17
//! ```
//!
//! The first line in the block, without its JSON; the part, which is a file, and where in it the block is and how long;
//! the number of the line, which may be left out. Where the parts are says a file beside it of the same name with the
//! end `.loc`, with lines of `part<TAB>path[<TAB>path …]`, in which URLs are paths as well; without one they are in the
//! folder of the index. All of them may be on a web server or in a store.

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

/// What belongs to a secondary index.
#[derive(Debug)]
pub(crate) struct Cluster {
    index: PathBuf,
    parts: Parts,
    unpacked: Unpacked,
    /// The secondary index is a hint: makers of packages write other keys than that of the first line, or repeat lines.
    hinted: bool,
    /// The part of blocks whose lines name none.
    part: Box<str>,
    /// Its part was listed together with the index, so that a missing one means that both have changed.
    listed: bool,
}

impl Cluster {
    /// The cluster with that secondary index. Without a way to servers it has no parts there.
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

    /// Takes the secondary index for a hint. Lines of it that name no file are about `part`.
    pub(crate) fn hinted(mut self, part: Option<&str>) -> Cluster {
        self.hinted = true;
        self.part = part.unwrap_or_default().into();
        self
    }

    /// Returns the part of blocks whose lines name none; empty if that is not known.
    pub(crate) fn part(&self) -> &str {
        &self.part
    }

    /// Returns whether the secondary index is a hint.
    pub(crate) fn is_hinted(&self) -> bool {
        self.hinted
    }

    /// Returns whether all of it is in one file of this machine, which was listed with the index.
    pub(crate) fn is_part_of_file(&self) -> bool {
        self.listed && self.parts.is_local()
    }

    /// Returns the error of a part that is not there.
    fn lost(&self, path: &Path) -> SourceError {
        let what = format!("{}: there is no such file", path.display());
        if self.listed {
            SourceError::Changed(what)
        } else {
            SourceError::Io(what)
        }
    }

    /// The cluster of that secondary index, with its only part, a file that has it.
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

/// Whether that is a secondary index, by its name.
pub(crate) fn is_secondary(path: &Path) -> bool {
    let end = path.extension().and_then(OsStr::to_str);
    matches!(end, Some("idx" | "summary"))
}
