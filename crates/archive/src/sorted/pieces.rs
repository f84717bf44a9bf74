//! Text that comes piece by piece.

use std::path::Path;

use crate::sorted::file::Snapshot;
use crate::sorted::steps::{Budget, Halt};
use crate::zipnum::cluster::Blocks;

/// Text, and a place in it.
#[derive(Debug)]
pub enum Pieces {
    /// Text of a plain file.
    File(Stretch),
    /// Text of the blocks of a ZipNum cluster.
    Blocks(Box<Blocks>),
}

/// A file up to some place in it.
#[derive(Debug)]
pub struct Stretch {
    file: Snapshot,
    at: u64,
    end: u64,
}

impl Pieces {
    /// A file from there on.
    pub(crate) fn of(file: Snapshot, at: u64) -> Pieces {
        let end = file.size();
        Pieces::File(Stretch {
            at: at.min(end),
            end,
            file,
        })
    }

    /// As if the file had no more than so many bytes.
    pub(crate) fn up_to(mut self, end: u64) -> Pieces {
        match &mut self {
            Pieces::File(stretch) => {
                stretch.end = stretch.end.min(end);
                stretch.at = stretch.at.min(stretch.end);
            }
            Pieces::Blocks(_) => {}
        }
        self
    }

    /// The file; of a cluster, its secondary index.
    pub(crate) fn path(&self) -> Option<&Path> {
        Some(match self {
            Pieces::File(stretch) => stretch.file.path(),
            Pieces::Blocks(blocks) => blocks.path(),
        })
    }

    /// Where in the file it is; 0 in what is no file.
    pub(crate) fn at(&self) -> u64 {
        match self {
            Pieces::File(stretch) => stretch.at,
            Pieces::Blocks(_) => 0,
        }
    }

    /// Appends what comes next, some `bytes` of it. False at the end.
    pub(crate) fn after(
        &mut self,
        budget: &mut Budget,
        bytes: usize,
        into: &mut Vec<u8>,
    ) -> Result<bool, Halt> {
        match self {
            Pieces::File(stretch) => stretch.after(budget, bytes, into),
            Pieces::Blocks(blocks) => blocks.text(budget, into),
        }
    }

    /// Appends what comes before, some `bytes` of it. False at the beginning.
    pub(crate) fn before(
        &mut self,
        budget: &mut Budget,
        bytes: usize,
        into: &mut Vec<u8>,
    ) -> Result<bool, Halt> {
        match self {
            Pieces::File(stretch) => stretch.before(budget, bytes, into),
            // They come in the direction in which they are read.
            Pieces::Blocks(blocks) => blocks.text(budget, into),
        }
    }
}

impl Stretch {
    fn after(
        &mut self,
        budget: &mut Budget,
        bytes: usize,
        into: &mut Vec<u8>,
    ) -> Result<bool, Halt> {
        let left = usize::try_from(self.end.saturating_sub(self.at)).unwrap_or(usize::MAX);
        if left == 0 {
            return Ok(false);
        }
        let read = self.file.read(budget, self.at, bytes.min(left), into)?;
        self.at += read as u64;
        Ok(read > 0)
    }

    fn before(
        &mut self,
        budget: &mut Budget,
        bytes: usize,
        into: &mut Vec<u8>,
    ) -> Result<bool, Halt> {
        let from = self.at.saturating_sub(bytes as u64);
        let begin = into.len();
        let mut at = from;
        while at < self.at {
            let left = usize::try_from(self.at - at).unwrap_or(usize::MAX);
            match self.file.read(budget, at, left, into) {
                // It has become shorter.
                Ok(0) => break,
                Ok(read) => at += read as u64,
                Err(halt) => {
                    into.truncate(begin);
                    return Err(halt);
                }
            }
        }
        self.at = from;
        Ok(into.len() > begin)
    }
}
