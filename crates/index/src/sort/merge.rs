//! Merges sorted runs.

use std::path::{Path, PathBuf};

use super::order::{Gathered, Line, order};
use super::run::{Reader, Run};
use crate::{Error, LoserTree};

/// A merge of runs and of the lines in memory.
pub(super) struct Merge {
    inputs: Inputs,
    tree: LoserTree,
    /// True once the first line was returned.
    begun: bool,
}

struct Inputs {
    readers: Vec<Reader>,
    /// The lines in memory, which are the input after the last reader, and the index of the next of
    /// them.
    gathered: Gathered,
    here: usize,
    folder: PathBuf,
}

impl Merge {
    pub(crate) fn of(runs: Vec<Run>, gathered: Gathered, folder: &Path) -> Result<Merge, Error> {
        let mut inputs = Inputs {
            readers: runs.into_iter().map(Reader::of).collect(),
            gathered,
            here: 0,
            folder: folder.to_owned(),
        };
        for reader in &mut inputs.readers {
            reader.advance(folder)?;
        }
        let tree = LoserTree::new(inputs.readers.len() + 1, |a, b| inputs.is_before(a, b));
        Ok(Merge {
            inputs,
            tree,
            begun: false,
        })
    }

    /// Advances to the next line and returns it with the range of its key; `None` at the end.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<Line<'_>>, Error> {
        let Merge {
            inputs,
            tree,
            begun,
        } = self;
        if std::mem::replace(begun, true) {
            inputs.advance(tree.winner())?;
            tree.replay(|a, b| inputs.is_before(a, b));
        }
        Ok(inputs.line(tree.winner()))
    }
}

impl Inputs {
    #[inline]
    fn advance(&mut self, which: usize) -> Result<(), Error> {
        match self.readers.get_mut(which) {
            Some(reader) => reader.advance(&self.folder),
            None => {
                self.here += 1;
                Ok(())
            }
        }
    }

    /// Returns the current line of an input, unless it has ended.
    #[inline]
    fn line(&self, which: usize) -> Option<Line<'_>> {
        match self.readers.get(which) {
            Some(reader) => reader.line(),
            None if self.here < self.gathered.len() => Some(self.gathered.line(self.here)),
            None => None,
        }
    }

    fn is_before(&self, a: usize, b: usize) -> bool {
        match (self.line(a), self.line(b)) {
            (Some((a, a_key)), Some((b, b_key))) => order(a, a_key, b, b_key).is_lt(),
            (a, _) => a.is_some(),
        }
    }
}
