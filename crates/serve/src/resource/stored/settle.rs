//! Determines where a block ends, and which digests of its record are correct.
//!
//! Real files have lengths that are off by a few bytes, swapped digests, and digests of content
//! that a tool rewrote later. A record that states digests is served if at least one of them is
//! correct, and refused otherwise.

use crate::resource::digest::Digest;
use crawlspace_warc::http::Head;
use crawlspace_warc::{Deviation, Deviations, END, Ending, decimal};

/// Digests that a record states and that can be verified.
#[derive(Clone, Debug, Default)]
pub(super) struct Stated {
    /// Digest of the whole block.
    pub block: Option<Digest>,
    /// Digest of the block after the HTTP header.
    pub payload: Option<Digest>,
}

/// Possible lengths of a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lengths {
    /// The most likely length.
    pub first: u64,
    /// An alternative length.
    pub other: Option<u64>,
    /// Requires a correct digest as proof that nothing is missing.
    pub needs_proof: bool,
}

/// Facts about the HTTP header of a block.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HttpHead {
    /// Size of the header, in bytes; 0 if the block has no header.
    pub size: u64,
    /// `Content-Length` of the header.
    body: Option<u64>,
    /// Set if the body is chunked, so that its last chunk marks its end.
    is_chunked: bool,
}

/// Result of the check of a block.
#[derive(Clone, Copy, Debug)]
pub(in crate::resource) struct Settled {
    /// Size of the block, in bytes.
    pub length: u64,
    /// Deviations of the block from its record's header.
    pub deviations: Deviations,
    /// Incorrect header fields, which are removed.
    pub wrong: [Option<&'static str>; 2],
}

/// The part of a block that a digest covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The whole block.
    Block,
    /// The block after the HTTP header.
    Payload,
    /// The payload as some tools define it: with the chunked coding removed, which ISO 28500 does not count as part of
    /// the payload, or after the last of several HTTP headers.
    OtherPayload,
}

/// Digests of the first `length` bytes of a block.
pub(super) trait Digests {
    /// Returns whether a part of the block has this digest.
    fn has(&self, length: u64, digest: &Digest, part: Part) -> bool;
}

/// The reason why a record is refused.
#[derive(Debug)]
pub(super) enum Refused<'s> {
    /// The record may be truncated.
    CutOff,
    /// This digest does not match, and no other digest does.
    Wrong(&'static str, &'s Digest),
}

impl HttpHead {
    /// Parses an HTTP header.
    pub(super) fn of(bytes: &[u8]) -> HttpHead {
        let head = Head::of(bytes);
        HttpHead {
            size: bytes.len() as u64,
            body: head.get("Content-Length").and_then(decimal),
            is_chunked: head.is_chunked(),
        }
    }

    /// Orders two lengths by likelihood: the first one, unless only the second one agrees with `Content-Length`.
    fn likelier(self, first: u64, second: u64) -> (u64, u64) {
        let says = |length| self.body.is_some() && self.says_that_it_is(length);
        if says(second) && !says(first) {
            (second, first)
        } else {
            (first, second)
        }
    }

    /// Returns whether the HTTP header matches a block of that length.
    fn says_that_it_is(self, length: u64) -> bool {
        self.is_chunked || self.body.is_some_and(|body| self.size + body == length)
    }
}

impl Lengths {
    /// Returns the length of a block whose length matches its record header.
    pub(super) fn stated(length: u64) -> Lengths {
        Lengths {
            first: length,
            other: None,
            needs_proof: false,
        }
    }

    /// Returns the possible lengths of a block that is shorter than its record says, and ends with `end`. `closing` are
    /// the bytes that end a record of its kind; `is_whole` means that the record is known to be complete.
    pub(super) fn of_missing(
        stated: u64,
        end: &[u8],
        missing: u64,
        is_whole: bool,
        http_head: HttpHead,
        closing: &[u8],
    ) -> Lengths {
        let read = stated - missing;
        let closed = if end.ends_with(closing) {
            closing.len() as u64
        } else {
            0
        };
        let shorter = read.saturating_sub(closed).max(http_head.size).min(read);
        let (first, other) = http_head.likelier(shorter, read);
        Lengths {
            first,
            other: Some(other),
            needs_proof: !is_whole,
        }
    }

    /// Returns the possible lengths of a complete block that ends with `end`. `ending` describes the bytes after it.
    /// The HTTP header is only parsed in case of doubt.
    pub(super) fn of(
        stated: u64,
        end: &[u8],
        ending: Ending,
        http_head: impl FnOnce() -> HttpHead,
    ) -> Lengths {
        if ending == Ending::default() && end.ends_with(b"\n") {
            // Some programs count the line break that ends an ARC record as part of its block.
            let (first, other) = http_head().likelier(stated, stated.saturating_sub(1));
            return Lengths {
                other: Some(other),
                ..Lengths::stated(first)
            };
        }
        if ending.longer == 0 && ending.within == 0 {
            return Lengths {
                needs_proof: ending.is_doubtful,
                ..Lengths::stated(stated)
            };
        }
        let http_head = http_head();
        if ending.longer > 0 {
            let longer = stated + ending.longer as u64;
            let says = |length| http_head.body.is_some() && http_head.says_that_it_is(length);
            let is_stated = says(stated) || ending.may_be_padding && !says(longer);
            let (first, other) = if is_stated {
                (stated, longer)
            } else {
                (longer, stated)
            };
            return Lengths {
                other: Some(other),
                ..Lengths::stated(first)
            };
        }
        let shorter = stated.saturating_sub(ending.within as u64);
        let is_within = END
            .get(..ending.within)
            .is_some_and(|line_ends| end.ends_with(line_ends));
        if shorter < http_head.size || !is_within {
            // The final line break may belong to the block or end the record. Only a digest can decide this.
            let line_end = if end.ends_with(b"\r\n") {
                2
            } else {
                u64::from(end.ends_with(b"\n"))
            };
            let other = stated
                .checked_sub(line_end)
                .filter(|other| line_end > 0 && *other >= http_head.size);
            return Lengths {
                other,
                ..Lengths::stated(stated)
            };
        }
        // The record ends with the mandatory line breaks, but the block's length includes some of them.
        let (first, other) = if http_head.says_that_it_is(stated) {
            (stated, shorter)
        } else {
            (shorter, stated)
        };
        Lengths {
            other: Some(other),
            ..Lengths::stated(first)
        }
    }
}

impl Stated {
    /// Finds the length for which a stated digest is correct.
    ///
    /// # Errors
    /// Fails if digests are stated and none is correct, or if proof is needed and no digest is
    /// stated.
    pub(super) fn settle(
        &self,
        lengths: Lengths,
        digests: &impl Digests,
    ) -> Result<Settled, Refused<'_>> {
        let mut refused = None;
        for length in [Some(lengths.first), lengths.other].into_iter().flatten() {
            let mut deviations = Deviations::default();
            let mut wrong = [None; 2];
            let (mut is_proven, mut contradiction) = (false, None);
            let (of_block, of_payload) = (Deviation::BlockDigest, Deviation::PayloadDigest);
            let fields = [
                ("WARC-Block-Digest", &self.block, of_block, Part::Block),
                (
                    "WARC-Payload-Digest",
                    &self.payload,
                    of_payload,
                    Part::Payload,
                ),
            ];
            for ((name, stated, deviation, own), wrong) in fields.into_iter().zip(&mut wrong) {
                let Some(stated) = stated else {
                    continue;
                };
                let is_of = |part| digests.has(length, stated, part);
                if is_of(own) {
                    is_proven = true;
                    continue;
                }
                *wrong = Some(name);
                if own == Part::Payload && is_of(Part::OtherPayload) {
                    // Most tools compute the payload digest in this way.
                    is_proven = true;
                    continue;
                }
                deviations.add(deviation);
                let is_of_another = [Part::Block, Part::Payload, Part::OtherPayload]
                    .into_iter()
                    .any(is_of);
                is_proven |= is_of_another;
                // Tools state the digest of an empty payload for records without a payload.
                if !is_of_another && !stated.is_of_nothing() {
                    contradiction = contradiction.or(Some((name, stated)));
                }
            }
            match contradiction {
                Some((name, stated)) if !is_proven => {
                    refused.get_or_insert(Refused::Wrong(name, stated));
                }
                None if !is_proven && lengths.needs_proof => {
                    refused.get_or_insert(Refused::CutOff);
                }
                _ => {
                    return Ok(Settled {
                        length,
                        deviations,
                        wrong,
                    });
                }
            }
        }
        Err(refused.unwrap_or(Refused::CutOff))
    }
}
