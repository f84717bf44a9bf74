//! Places of records, as the table has them and chunks give them.

/// Where a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecordSlot {
    /// Number of the chunk, below 2^24.
    pub chunk: u32,
    pub offset: u16,
}

/// What the table does not know: the records.
pub(super) trait Records {
    /// The hash by which a record is in the table.
    fn hash(&self, place: RecordSlot) -> u64;
    /// Asks for the memory of a record.
    fn prefetch(&self, place: RecordSlot);
}

/// Maximum number of bytes of a chunk that holds several records: what the offset in a [`RecordSlot`] can tell.
pub(super) const CHUNK: usize = 1 << 16;
