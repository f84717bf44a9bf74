//! Index lines of a package.

use super::failure::Failure;
use crawlspace_client::dedupe::feed::{CALL_BYTES, RECORDS};
use crawlspace_wacz::Wacz;

/// Maximum size of the lines that an importer caches, in bytes, across all its workers.
const MAX_CACHED: usize = 64 << 20;

/// Maximum size of lines, in bytes, whose records fit in one call with any URLs.
const SMALL: usize = CALL_BYTES / 4;

/// Lines of a package, read once. They are cached unless there are too many, because decompressing them costs as much
/// as all other work on them.
pub(super) struct Text {
    /// Lines, each preceded by its length.
    lines: Option<Vec<u8>>,
    count: usize,
    limit: usize,
}

impl Text {
    /// Creates an empty cache, for an importer with `workers` workers.
    pub(crate) fn new(workers: usize) -> Text {
        Text {
            lines: Some(Vec::new()),
            count: 0,
            limit: MAX_CACHED / workers.max(1),
        }
    }

    /// Appends a line.
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

    /// Returns true if all records fit in one call.
    pub(crate) fn is_small(&self) -> bool {
        let bytes = self.lines.as_ref().map(Vec::len);
        self.count <= RECORDS && bytes.is_some_and(|bytes| bytes <= SMALL)
    }

    /// Iterates over all lines again, from memory or from the package.
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

/// Iterates over every line of every index of a package.
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
