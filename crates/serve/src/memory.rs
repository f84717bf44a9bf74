//! Memory limit of all requests together, so that many large requests at once cannot exhaust memory.
//!
//! The limit covers rows that are stored for sorting, cached originals of revisits, and request bodies that are part of
//! a lookup, each including the overhead of the allocator and of growing vectors. Streamed rows are not counted: they
//! take one or two batches per source, regardless of their number.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crawlspace_index::row::Row;
use crawlspace_index::source::Batch;

/// Overhead of a row besides its line, in bytes: vectors grow by doubling, and sorting needs a buffer.
const ROW: usize = 2 * size_of::<Row>();
/// Overhead of the allocator per allocation, in bytes: header and rounding.
pub(crate) const PIECE: usize = 24;
/// Default memory limit of all requests of a process, in bytes.
pub const MEMORY: u64 = 1 << 30;
/// Memory of all requests of this process.
static ALL: Memory = Memory::new(MEMORY);

/// Number of reserved bytes, and its limit.
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

/// Sets the memory limit of all requests of this process together, in bytes (default 1 GiB). An eighth of it is set
/// aside for fragmentation of the allocator.
pub fn limit(bytes: u64) {
    ALL.most.store(bytes - bytes / 8, Relaxed);
}

/// The memory [limit] of all requests would be exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// Memory reserved for one request, in bytes. Released when the reservation is dropped.
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
    /// Reserves memory for rows, and copies them into allocations of their own: otherwise a few remaining rows would
    /// keep their whole batch in memory.
    ///
    /// # Errors
    /// Fails if the limit would be exceeded. In that case, the rows are not counted.
    pub(crate) fn rows(&mut self, rows: &[Row]) -> Result<Batch, Full> {
        let lines: usize = rows.iter().map(Row::size).sum();
        self.bytes(lines + rows.len() * ROW + PIECE)?;
        Ok(Row::detached(rows))
    }

    /// Reserves further bytes.
    ///
    /// # Errors
    /// Fails if the limit would be exceeded. In that case, the bytes are not counted.
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
    fn released_memory_is_available_to_others() {
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
