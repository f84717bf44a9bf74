//! Deviations from the standard that readers tolerate.

/// A deviation from ISO 28500 that readers tolerate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deviation {
    /// The header contains control characters, which are replaced by spaces, or lines that end with
    /// more than one CR.
    Header,
    /// The record has no `Content-Length`: it ends where its gzip member ends.
    NoLength,
    /// `Content-Length` is wrong by a few bytes.
    Length,
    /// The block is not followed by exactly two line ends.
    Closing,
    /// `WARC-Block-Digest` does not match the block.
    BlockDigest,
    /// `WARC-Payload-Digest` does not match the payload.
    PayloadDigest,
}

impl Deviation {
    /// List of all deviations.
    pub const ALL: [Deviation; 6] = [
        Deviation::Header,
        Deviation::NoLength,
        Deviation::Length,
        Deviation::Closing,
        Deviation::BlockDigest,
        Deviation::PayloadDigest,
    ];

    /// Returns the name of the deviation in logs and metrics.
    pub fn word(self) -> &'static str {
        match self {
            Deviation::Header => "header",
            Deviation::NoLength => "no-length",
            Deviation::Length => "length",
            Deviation::Closing => "closing",
            Deviation::BlockDigest => "block-digest",
            Deviation::PayloadDigest => "payload-digest",
        }
    }
}

/// A set of deviations of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deviations(u8);

impl Deviations {
    /// Adds a deviation.
    pub fn add(&mut self, deviation: Deviation) {
        self.0 |= 1 << deviation as u8;
    }

    /// Adds the deviations of another record, or of another part of the same record.
    pub fn merge(&mut self, others: Deviations) {
        self.0 |= others.0;
    }

    /// Returns true if there are no deviations.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns each deviation once.
    pub fn iter(self) -> impl Iterator<Item = Deviation> {
        let all = Deviation::ALL.into_iter();
        all.filter(move |one| self.0 & 1 << *one as u8 != 0)
    }
}

impl std::fmt::Display for Deviations {
    /// Writes the names of the deviations, separated by commas.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let words: Vec<_> = self.iter().map(Deviation::word).collect();
        f.write_str(&words.join(", "))
    }
}
