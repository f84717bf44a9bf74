//! What all requests together keep in memory, so that many large ones at a time do not take all that there is.
//!
//! It counts rows that are kept until all of them are there, to be sorted, originals cached for revisits, and bodies
//! of requests while they are looked up by, each with what the allocator and growing lists take beside it. Rows that
//! go on as they come take a batch or two for each source, whatever there is of them.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crawlspace_index::row::Row;
use crawlspace_index::source::Batch;

/// What a row takes besides its line, in bytes: lists grow by doubling, and sorting takes room beside them.
const ROW: usize = 2 * size_of::<Row>();
/// What the allocator takes for each piece of memory, in bytes: a header, and what it rounds up.
pub(crate) const PIECE: usize = 24;
/// Default maximum number of bytes that all requests of a process keep.
pub const MEMORY: u64 = 1 << 30;
/// All requests of this process.
static ALL: Memory = Memory::new(MEMORY);

/// Number of bytes kept, and its limit.
#[derive(Debug)]
struct Memory {
    kept: AtomicU64,
    most: AtomicU64,
}

impl Memory {
    const fn new(most: u64) -> Memory {
        Memory {
            kept: AtomicU64::new(0),
            most: AtomicU64::new(most),
        }
    }
}

/// Sets the limit of what all requests of this process together keep, in bytes. The default is 1 GiB. An eighth of it
/// is left for the gaps that the allocator keeps between pieces.
pub fn limit(bytes: u64) {
    ALL.most.store(bytes - bytes / 8, Relaxed);
}

/// All requests together would exceed the [limit].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// Bytes that one request keeps. They are given back when the reservation is dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    bytes: u64,
    memory: &'static Memory,
}

impl Default for Reservation {
    fn default() -> Reservation {
        Reservation {
            bytes: 0,
            memory: &ALL,
        }
    }
}

impl Reservation {
    /// Counts further rows, and copies them into memory of their own: a batch of which few rows are left would be kept
    /// as a whole otherwise.
    ///
    /// # Errors
    /// When there is no room for them. They do not count then.
    pub(crate) fn rows(&mut self, rows: &[Row]) -> Result<Batch, Full> {
        let lines: usize = rows.iter().map(Row::size).sum();
        self.bytes(lines + rows.len() * ROW + PIECE)?;
        Ok(Row::detached(rows))
    }

    /// Counts further bytes.
    ///
    /// # Errors
    /// When there is no room for them. They do not count then.
    pub(crate) fn bytes(&mut self, more: usize) -> Result<(), Full> {
        let more = more as u64;
        let kept = self.memory.kept.fetch_add(more, Relaxed) + more;
        if kept > self.memory.most.load(Relaxed) {
            self.memory.kept.fetch_sub(more, Relaxed);
            return Err(Full);
        }
        self.bytes += more;
        Ok(())
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.memory.kept.fetch_sub(self.bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_back_is_there_for_others() {
        static SMALL: Memory = Memory::new(100);
        let new = || Reservation {
            bytes: 0,
            memory: &SMALL,
        };
        let (mut one, mut other) = (new(), new());
        assert_eq!(one.bytes(60), Ok(()));
        assert_eq!(other.bytes(50), Err(Full));
        assert_eq!(other.bytes(40), Ok(()));
        assert_eq!(one.bytes(1), Err(Full));
        drop(other);
        assert_eq!(one.bytes(1), Ok(()));
        drop(one);
        assert_eq!(SMALL.kept.load(Relaxed), 0);
    }
}
