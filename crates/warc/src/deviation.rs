//! Deviations from the standard that do not keep a record from being read.

/// A deviation from ISO 28500 that is read all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deviation {
    /// The header has control characters, which become spaces, or lines that end with more than one CR.
    Header,
    /// The record has no `Content-Length`: it ends where its gzip member does.
    NoLength,
    /// `Content-Length` is off by a few bytes.
    Length,
    /// Two line ends do not follow the block, or more follows than these.
    Closing,
    /// `WARC-Block-Digest` is not that of the block.
    BlockDigest,
    /// `WARC-Payload-Digest` is not that of the payload.
    PayloadDigest,
}

impl Deviation {
    /// All of them.
    pub const ALL: [Deviation; 6] = [
        Deviation::Header,
        Deviation::NoLength,
        Deviation::Length,
        Deviation::Closing,
        Deviation::BlockDigest,
        Deviation::PayloadDigest,
    ];

    /// Returns its word in logs and metrics.
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

/// The deviations of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deviations(u8);

impl Deviations {
    /// Adds one.
    pub fn add(&mut self, deviation: Deviation) {
        self.0 |= 1 << deviation as u8;
    }

    /// Adds those of another record, or of another part of the same one.
    pub fn merge(&mut self, others: Deviations) {
        self.0 |= others.0;
    }

    /// Returns whether there are none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns each of them once.
    pub fn iter(self) -> impl Iterator<Item = Deviation> {
        let all = Deviation::ALL.into_iter();
        all.filter(move |one| self.0 & 1 << *one as u8 != 0)
    }
}

impl std::fmt::Display for Deviations {
    /// Their words, with commas between them.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let words: Vec<_> = self.iter().map(Deviation::word).collect();
        f.write_str(&words.join(", "))
    }
}
