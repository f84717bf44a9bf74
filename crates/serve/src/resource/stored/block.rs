//! Streams the block of a record if the block is too large for memory.

use bytes::Bytes;
use futures_util::stream::{self, Stream};

use super::settle::{Digests, HttpHead, Lengths, Part, Settled, Stated};
use super::{STEP, refused_by};
use crate::resource::digest::{Algorithm, Digest, Digester};
use crate::resource::input::Input;
use crate::resource::record::LoadError;
use crawlspace_warc::{AsyncReader, END, SLACK};

/// Number of bytes held back at the end of a block until its real length is known.
const KEPT: usize = SLACK + END.len();

/// A stream of the block after its HTTP header.
pub(in crate::resource) struct Block {
    rest: AsyncReader<Input>,
    /// Bytes that were already read.
    here: Bytes,
    /// Number of bytes still to come.
    left: u64,
    stated: Stated,
    tally: Tally,
    http_head: HttpHead,
    /// The block's length may be corrected at its end, since no length was announced to the client.
    is_open: bool,
    settled: Option<Settled>,
    is_done: bool,
}

/// Digests of a block, updated while it is streamed.
#[derive(Default)]
struct Tally {
    /// Digests of all bytes except those in `last`.
    digesters: Vec<(Algorithm, Part, Digester)>,
    /// Number of bytes included in the digests.
    length: u64,
    /// The last bytes of the block, and finally the bytes after it.
    last: Vec<u8>,
}

impl Tally {
    fn new(http_head: &[u8], stated: &Stated) -> Tally {
        let mut tally = Tally::default();
        for stated in [&stated.block, &stated.payload].into_iter().flatten() {
            let algorithm = stated.algorithm;
            for part in [Part::Block, Part::Payload] {
                let mut digesters = tally.digesters.iter();
                if !digesters.any(|(known, of, _)| (*known, *of) == (algorithm, part)) {
                    tally
                        .digesters
                        .push((algorithm, part, Digester::new(algorithm)));
                }
            }
        }
        for (_, part, digester) in &mut tally.digesters {
            if *part == Part::Block {
                digester.update(http_head);
            }
        }
        tally.length = http_head.len() as u64;
        tally
    }

    fn update(&mut self, piece: &[u8]) {
        let mut count = |bytes: &[u8]| {
            self.length += bytes.len() as u64;
            let digesters = self.digesters.iter_mut();
            digesters.for_each(|(.., digester)| digester.update(bytes));
        };
        let sure = (self.last.len() + piece.len()).saturating_sub(KEPT);
        let of_last = sure.min(self.last.len());
        let of_piece = sure - of_last;
        count(&self.last[..of_last]);
        count(&piece[..of_piece]);
        self.last.drain(..of_last);
        self.last.extend_from_slice(&piece[of_piece..]);
    }
}

impl Digests for Tally {
    fn has(&self, length: u64, digest: &Digest, part: Part) -> bool {
        let wanted = (digest.algorithm, part);
        let more = length.checked_sub(self.length).map(usize::try_from);
        let more = more.and_then(|more| self.last.get(..more.ok()?));
        let mut digesters = self.digesters.iter();
        let digester = digesters.find(|(algorithm, part, _)| (*algorithm, *part) == wanted);
        let (Some(more), Some((.., digester))) = (more, digester) else {
            return false;
        };
        let mut digester = digester.clone();
        digester.update(more);
        digester.finish() == *digest
    }
}

impl Block {
    /// Creates a stream of a block of `length` bytes that starts with `head` and continues with `here` and
    /// `rest`.
    pub(super) fn new(
        rest: AsyncReader<Input>,
        head: &[u8],
        here: Bytes,
        length: u64,
        stated: Stated,
        settled: Option<Settled>,
    ) -> Block {
        Block {
            rest,
            here,
            left: length,
            tally: Tally::new(head, &stated),
            http_head: HttpHead::of(head),
            stated,
            is_open: false,
            settled,
            is_done: false,
        }
    }

    /// Allows correcting the block's length.
    pub(super) fn settle_length(&mut self) {
        self.is_open = true;
    }

    /// Returns the result of the check, which is made at the end of the block.
    pub(super) fn settled(&self) -> Option<Settled> {
        self.settled
    }

    /// Returns the next piece, or `None` at the end. The last piece is only returned if everything was
    /// verified.
    ///
    /// # Errors
    /// Fails if the block cannot be read, or is damaged.
    pub(in crate::resource) async fn next(&mut self) -> Result<Option<Bytes>, LoadError> {
        if self.is_done {
            return Ok(None);
        }
        let mut piece = std::mem::take(&mut self.here);
        if piece.is_empty() {
            piece = self.more().await?;
            // Cached files are read without waiting, so other tasks need a chance to run.
            tokio::task::yield_now().await;
        }
        if piece.is_empty() && self.left > 0 {
            if self.is_open && self.left <= SLACK as u64 {
                self.finish(Bytes::new()).await?;
                return Ok(None);
            }
            return Err(self.rest.cut_off().into());
        }
        let size = usize::try_from(self.left)
            .unwrap_or(usize::MAX)
            .min(piece.len());
        let tail = piece.split_off(size);
        self.left -= size as u64;
        self.tally.update(&piece);
        if self.left == 0 {
            self.finish(tail).await?;
        }
        Ok(Some(piece))
    }

    async fn more(&mut self) -> Result<Bytes, LoadError> {
        let mut bytes = Vec::new();
        self.rest.read(&mut bytes, STEP).await?;
        Ok(bytes.into())
    }

    async fn finish(&mut self, tail: Bytes) -> Result<(), LoadError> {
        self.is_done = true;
        let read = self.tally.length + self.tally.last.len() as u64;
        let lengths = if let Some(settled) = self.settled {
            Lengths::stated(settled.length)
        } else if self.left > 0 {
            let (last, head) = (&self.tally.last, self.http_head);
            let (is_whole, closing) = (self.rest.is_whole_member(), self.rest.closing());
            Lengths::of_missing(read + self.left, last, self.left, is_whole, head, closing)
        } else {
            let mut tail = tail.to_vec();
            let ending = self.rest.end(&mut tail).await?;
            if self.is_open {
                let lengths = Lengths::of(read, &self.tally.last, ending, || self.http_head);
                self.tally.last.extend_from_slice(&tail);
                lengths
            } else {
                Lengths {
                    needs_proof: ending.longer > 0 || ending.is_doubtful,
                    ..Lengths::stated(read)
                }
            }
        };
        let settled = self.stated.settle(lengths, &self.tally);
        let mut settled = settled.map_err(|refused| refused_by(refused, &self.rest))?;
        settled.deviations.merge(self.rest.deviations());
        self.settled = Some(settled);
        Ok(())
    }

    /// Returns all pieces as a stream.
    pub(super) fn pieces(self) -> impl Stream<Item = Result<Bytes, LoadError>> + Send {
        stream::unfold(Some(self), |block| async {
            let mut block = block?;
            match block.next().await {
                Ok(None) => None,
                Ok(Some(piece)) => Some((Ok(piece), Some(block))),
                Err(error) => Some((Err(error), None)),
            }
        })
    }
}

pub(super) fn wrong(name: &str, stated: &Digest) -> LoadError {
    LoadError::Record(format!(
        "the record is damaged: its {name} is not {}",
        stated.text()
    ))
}
