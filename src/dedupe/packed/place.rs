//! Positions of records, which chunks assign and the table stores.

/// The position of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecordSlot {
    /// Number of the chunk, below 2^24.
    pub chunk: u32,
    pub offset: u16,
}

/// Access to the records. The table stores only their positions.
pub(super) trait Records {
    /// Returns the hash under which the table stores the record.
    fn hash(&self, place: RecordSlot) -> u64;
    /// Prefetches the memory of a record.
    fn prefetch(&self, place: RecordSlot);
}

/// Maximum size in bytes of a chunk with several records, as limited by the offset in a [`RecordSlot`].
pub(super) const CHUNK: usize = 1 << 16;
