//! Reading an index from the beginning to the end.

use std::path::Path;

use super::secondary::Secondary;
use crate::Error;

/// The blocks of an index as text, one after the other, each in the memory of the one before it.
///
/// Every byte of both files is checked: what comes out is what was written, or an error.
pub struct Blocks {
    secondary: Secondary,
    packed: Vec<u8>,
    text: Vec<u8>,
}

impl Blocks {
    /// The index of that stem in a folder.
    ///
    /// # Errors
    /// When there is none.
    pub fn open(folder: &Path, stem: &str) -> Result<Blocks, Error> {
        Ok(Blocks {
            secondary: Secondary::open(folder, stem, true)?,
            packed: Vec::new(),
            text: Vec::new(),
        })
    }

    /// The next block: whole lines, each with its end. `None` after the last one.
    ///
    /// # Errors
    /// [`Error::Damaged`], with the place, when both files do not fit, or a block is broken.
    #[allow(clippy::should_implement_trait)] // what comes is borrowed
    pub fn next(&mut self) -> Result<Option<&[u8]>, Error> {
        let Some(block) = self.secondary.next()? else {
            return Ok(None);
        };
        self.secondary
            .text(&block, &mut self.packed, &mut self.text)?;
        Ok(Some(&self.text))
    }
}
