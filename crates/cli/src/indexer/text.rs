//! The lines of a package's indexes.

use super::failure::Failure;
use crawlspace_client::dedupe::feed::{CALL_BYTES, RECORDS};
use crawlspace_wacz::Wacz;

/// Maximum number of bytes of lines that an importer caches, all of its workers together.
const MAX_CACHED: usize = 64 << 20;

/// Size of lines whose records fit into one call with any URLs, in bytes.
const SMALL: usize = CALL_BYTES / 4;

/// The lines of a package, all of which have been read once. They are kept unless they are too many, because unpacking
/// them costs as much as anything else that is done with them.
pub(super) struct Text {
    /// Each with its length before it.
    lines: Option<Vec<u8>>,
    count: usize,
    limit: usize,
}

impl Text {
    /// An empty cache, in an importer of `workers` workers.
    pub(crate) fn new(workers: usize) -> Text {
        Text {
            lines: Some(Vec::new()),
            count: 0,
            limit: MAX_CACHED / workers.max(1),
        }
    }

    /// One more line.
    pub(crate) fn push(&mut self, line: &[u8]) {
        self.count += 1;
        if let Some(lines) = &mut self.lines {
            match u32::try_from(line.len()) {
                Ok(length) if lines.len() + line.len() < self.limit => {
                    lines.extend_from_slice(&length.to_le_bytes());
                    lines.extend_from_slice(line);
                }
                _ => self.lines = None,
            }
        }
    }

    /// Returns whether all records are in one call.
    pub(crate) fn is_small(&self) -> bool {
        let bytes = self.lines.as_ref().map(Vec::len);
        self.count <= RECORDS && bytes.is_some_and(|bytes| bytes <= SMALL)
    }

    /// All lines again, from memory or from the package.
    pub(crate) fn for_each_line(
        &self,
        wacz: &Wacz,
        mut each: impl FnMut(&[u8]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let Some(lines) = &self.lines else {
            return for_each_line(wacz, each);
        };
        let mut rest = &lines[..];
        while let Some((length, more)) = rest.split_first_chunk() {
            let (line, more) = more.split_at(u32::from_le_bytes(*length) as usize);
            each(line)?;
            rest = more;
        }
        Ok(())
    }
}

/// Every line of every index of a package.
pub(super) fn for_each_line(
    wacz: &Wacz,
    mut each: impl FnMut(&[u8]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    for index in wacz.indexes() {
        let mut lines = wacz.lines(index)?;
        while let Some(line) = lines.next()? {
            each(line)?;
        }
    }
    Ok(())
}
