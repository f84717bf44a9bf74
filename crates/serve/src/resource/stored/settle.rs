//! Where a block ends, and which of the digests are right that its record states.
//!
//! Real files have lengths that are off by a few bytes, digests that stand in each other's place, and digests of what a
//! tool rewrote later. What one right digest proves is served; what contradicts all of them is not.

use crate::resource::digest::Digest;
use crawlspace_warc::http::Head;
use crawlspace_warc::{Deviation, Deviations, END, Ending, decimal};

/// The digests that a record states, as far as they can be checked.
#[derive(Clone, Debug, Default)]
pub(super) struct Stated {
    /// The digest of the whole block.
    pub block: Option<Digest>,
    /// The digest of what follows the HTTP header.
    pub payload: Option<Digest>,
}

/// The lengths that a block may have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lengths {
    /// The likeliest one.
    pub first: u64,
    /// Another one.
    pub other: Option<u64>,
    /// Only a digest tells that nothing is missing.
    pub needs_proof: bool,
}

/// What is known of the HTTP header that a block begins with.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HttpHead {
    /// Its size in bytes; 0 when there is none.
    pub size: u64,
    /// The length that it says the body has.
    body: Option<u64>,
    /// The body says where it ends.
    is_chunked: bool,
}

/// What is known of a block whose record is read.
#[derive(Clone, Copy, Debug)]
pub(in crate::resource) struct Settled {
    /// Its size in bytes.
    pub length: u64,
    /// How it deviates from what its record states.
    pub deviations: Deviations,
    /// Fields that are not right, and are left out.
    pub wrong: [Option<&'static str>; 2],
}

/// What of a block a digest is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// All of it.
    Block,
    /// What follows the HTTP header.
    Payload,
    /// The payload as others have it: without its chunks, which ISO 28500 counts as no part of it, or what follows the last of
    /// several HTTP headers.
    OtherPayload,
}

/// Digests of the first `length` bytes of a block.
pub(super) trait Digests {
    /// Returns whether a part has this digest.
    fn has(&self, length: u64, digest: &Digest, part: Part) -> bool;
}

/// Why a record is not served.
#[derive(Debug)]
pub(super) enum Refused<'s> {
    /// It may be cut off.
    CutOff,
    /// This field contradicts what is stored, and no other one agrees with it.
    Wrong(&'static str, &'s Digest),
}

impl HttpHead {
    /// Reads what it says of the body.
    pub(super) fn of(bytes: &[u8]) -> HttpHead {
        let head = Head::of(bytes);
        HttpHead {
            size: bytes.len() as u64,
            body: head.get("Content-Length").and_then(decimal),
            is_chunked: head.is_chunked(),
        }
    }

    /// Returns two lengths, of which the first one is likelier unless it says that the block has the second one.
    fn likelier(self, first: u64, second: u64) -> (u64, u64) {
        let says = |length| self.body.is_some() && self.says_that_it_is(length);
        if says(second) && !says(first) {
            (second, first)
        } else {
            (first, second)
        }
    }

    /// Returns whether a block of that length is what it says.
    fn says_that_it_is(self, length: u64) -> bool {
        self.is_chunked || self.body.is_some_and(|body| self.size + body == length)
    }
}

impl Lengths {
    /// A block that ends where its record says.
    pub(super) fn stated(length: u64) -> Lengths {
        Lengths {
            first: length,
            other: None,
            needs_proof: false,
        }
    }

    /// A block that is some bytes shorter than its record says, of which `end` is the end. `closing` is what closes a
    /// record of its kind; `is_whole` tells that nothing of the record is missing.
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

    /// A block that is there, at least its end. `ending` is what follows it. The HTTP header is asked for where that leaves
    /// a doubt.
    pub(super) fn of(
        stated: u64,
        end: &[u8],
        ending: Ending,
        http_head: impl FnOnce() -> HttpHead,
    ) -> Lengths {
        if ending == Ending::default() && end.ends_with(b"\n") {
            // Some makers of ARC files count the line end that closes a record to its block.
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
            // One line end may close it and be counted to the block, which only a digest shows.
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
        // The record ends with the line ends that it must have, but a part of them is counted to the block.
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
    /// Finds the length by which a stated digest is right.
    ///
    /// # Errors
    /// When digests are stated and none is right, or none is stated where only a digest shows that nothing is missing.
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
                    // Most tools take it so.
                    is_proven = true;
                    continue;
                }
                deviations.add(deviation);
                let is_of_another = [Part::Block, Part::Payload, Part::OtherPayload]
                    .into_iter()
                    .any(is_of);
                is_proven |= is_of_another;
                // Tools that have no payload to take a digest of state that of nothing.
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
