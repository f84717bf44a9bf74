//! Reads and verifies stored records.
//!
//! A record that fits into memory is verified as a whole before any byte is sent. A larger record is verified while it
//! is streamed: its last bytes are held back until everything is known to be correct, so that a damaged record never
//! arrives completely.

mod block;
mod compose;
pub(super) mod header;
mod settle;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt};

use self::block::Block;
pub(super) use self::compose::compose;
use self::header::{Fields, check_length};
use self::settle::{Digests, HttpHead, Lengths, Part, Refused, Settled, Stated};
use super::digest::{self, Digest};
use super::input::Input;
use super::record::{LoadError, Record, urn};
use crawlspace_index::timestamp::Timestamp;
use crawlspace_warc::arc::Line;
use crawlspace_warc::chunked::unchunked;
use crawlspace_warc::http::{self, Head};
use crawlspace_warc::{AsyncReader, Deviation, Deviations, END, Header, LOOK, SLACK};

/// Maximum size of a block that is verified in memory, in bytes.
const MAX_IN_MEMORY: u64 = 1 << 20;
/// Maximum declared size of a block, in bytes; a larger one is an error.
const MAX_BLOCK: u64 = 1 << 50;
/// Size of a read, in bytes.
const STEP: usize = 64 * 1024;

/// A record whose header has been read.
pub(super) struct Stored {
    header: Header,
    /// Decompressed bytes from the start of the record.
    bytes: Vec<u8>,
    /// Offset of the block in `bytes`.
    block: usize,
    content_length: u64,
    /// Size of the HTTP header at the start of the block, in bytes.
    http_head: usize,
    /// Source of the remaining bytes; `None` if the whole record is in memory and verified.
    rest: Option<AsyncReader<Input>>,
    is_arc: bool,
    /// Digests that still have to be verified.
    checks: Stated,
    /// Payload digest that the record's header states, even if it cannot be verified.
    stated: Option<Digest>,
    deviations: Deviations,
    /// Result of an earlier check of the same record.
    settled: Option<Settled>,
}

/// The block of a record after its HTTP header.
pub(super) struct Payload {
    /// Size of the payload, in bytes.
    pub length: u64,
    /// Payload bytes that were already read.
    pub first: Bytes,
    /// The rest; `None` if `first` is the whole payload.
    pub rest: Option<Block>,
}

impl Stored {
    /// Reads the header of the record at the start of the input, and verifies the whole record if it is small. A
    /// missing record id is derived from `id`.
    ///
    /// # Errors
    /// Fails if the part that was read is not a valid record.
    pub(super) async fn read(input: Input, id: &[u8]) -> Result<Stored, LoadError> {
        let mut reader = AsyncReader::new(input);
        let mut bytes = Vec::with_capacity(STEP / 4);
        let (mut header, block) = reader.header(&mut bytes).await?;
        check_length(&header)?;
        let kind = header.kind().to_vec();
        if header.get("WARC-Type") != Some(&kind) {
            header.set("WARC-Type", &kind);
        }
        let content_length = header.content_length();
        if content_length > MAX_BLOCK {
            let what =
                format!("the record states a size of {content_length} bytes, which is too large");
            return Err(LoadError::Record(what));
        }
        if header.get("WARC-Record-ID").is_none_or(<[u8]>::is_empty) {
            let date = header.get("WARC-Date").unwrap_or_default();
            let made = made_id(&[id, date, header.get("WARC-Target-URI").unwrap_or_default()]);
            header.set("WARC-Record-ID", made.as_bytes());
        }
        let mut stored = Stored {
            header,
            bytes,
            block,
            content_length,
            http_head: 0,
            is_arc: reader.is_arc(),
            rest: Some(reader),
            checks: Stated::default(),
            stated: None,
            deviations: Deviations::default(),
            settled: None,
        };
        let stated = stored.header.get("WARC-Payload-Digest");
        stored.stated = stated.and_then(Digest::parse);
        stored.begin().await?;
        Ok(stored)
    }

    /// Returns the record's header.
    pub(super) fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the HTTP header at the start of the block, which may be empty.
    pub(super) fn http_head(&self) -> &[u8] {
        let end = self.block + self.http_head;
        &self.bytes[self.block..end]
    }

    /// Returns whether the whole record has been verified.
    pub(super) fn is_checked(&self) -> bool {
        self.rest.is_none()
    }

    /// Returns the size of the block, in bytes.
    pub(super) fn content_length(&self) -> u64 {
        self.content_length
    }

    /// Returns the deviations from the standard found so far.
    pub(super) fn deviations(&self) -> Deviations {
        self.deviations
    }

    /// Returns whether the block should start with an HTTP header, according to the record's type and URL.
    fn is_http(&self) -> bool {
        is_web(&self.header) && matches!(self.header.kind(), b"response" | b"revisit" | b"request")
    }

    /// Returns whether a block that starts with these bytes may have an HTTP header. HTTP/0.9 responses have none.
    fn may_have_head(&self, block: &[u8]) -> bool {
        self.header.kind() == b"request" || http::may_be_response(block)
    }

    async fn begin(&mut self) -> Result<(), LoadError> {
        let Some(mut rest) = self.rest.take() else {
            return Ok(());
        };
        let is_whole = self.content_length <= MAX_IN_MEMORY;
        let is_http = self.is_http();
        // The bytes after the block show whether the block really ends there.
        let wanted = match is_whole {
            true => self.content_length as usize + LOOK,
            false if is_http => http::MAX_HEAD,
            false => 0,
        };
        self.bytes
            .reserve((self.block + wanted).saturating_sub(self.bytes.len()));
        let mut looked = 0;
        loop {
            let block = &self.bytes[self.block..];
            let within = block
                .get(..self.content_length.min(block.len() as u64) as usize)
                .unwrap_or_default();
            if is_http && self.may_have_head(within) && self.http_head == 0 && looked < within.len()
            {
                self.http_head = http::end_of_head(within).unwrap_or(0);
                looked = within.len();
            }
            let missing = wanted.saturating_sub(block.len());
            if missing == 0 || !is_whole && self.http_head > 0 {
                break;
            }
            if self.bytes.len() > STEP {
                // Gives other tasks a chance to run.
                tokio::task::yield_now().await;
            }
            if rest.read(&mut self.bytes, missing.min(STEP)).await? == 0 {
                break;
            }
        }
        let block = self.bytes.get(self.block..).unwrap_or_default();
        if is_whole && is_http && self.http_head == 0 && self.may_have_head(block) {
            // Without a blank line, the whole block is the header, as in other programs that check
            // WARC files. This also holds after the length is corrected.
            self.http_head = block.len().min(self.content_length as usize + SLACK);
        }
        if self.is_arc {
            self.settle_arc();
        }
        self.checks = self.stated();
        self.deviations = rest.deviations();
        if !is_whole {
            self.rest = Some(rest);
            return Ok(());
        }
        let stated = self.content_length as usize;
        let (block, tail) = self.bytes[self.block..]
            .split_at_checked(stated)
            .unwrap_or((&self.bytes[self.block..], &[]));
        let missing = (stated - block.len()) as u64;
        let lengths = if missing > SLACK as u64 {
            return Err(rest.cut_off().into());
        } else if missing > 0 {
            self.deviations.add(Deviation::Length);
            Lengths::of_missing(
                self.content_length,
                block,
                missing,
                rest.is_whole_member(),
                HttpHead::of(self.http_head()),
                rest.closing(),
            )
        } else {
            let ending = rest.end(&mut tail.to_vec()).await?;
            self.deviations.merge(rest.deviations());
            let http_head = || HttpHead::of(self.http_head());
            Lengths::of(self.content_length, block, ending, http_head)
        };
        let settled = self.settle_whole(lengths, &rest)?;
        self.apply(settled);
        self.bytes.truncate(self.block + settled.length as usize);
        self.http_head = self.http_head.min(settled.length as usize);
        if self.is_arc {
            self.add_digests();
        }
        Ok(())
    }

    /// Verifies a block in memory.
    fn settle_whole(
        &self,
        lengths: Lengths,
        rest: &AsyncReader<Input>,
    ) -> Result<Settled, LoadError> {
        // A revisit record states the digests of its original.
        let none = Stated::default();
        let is_revisit = self.header.kind() == b"revisit";
        let stated = if is_revisit { &none } else { &self.checks };
        let settled = stated.settle(
            lengths,
            &InMemory {
                block: &self.bytes[self.block..],
                http_head: self.http_head,
            },
        );
        settled.map_err(|refused| refused_by(refused, rest))
    }

    /// Corrects the header according to the result of a check.
    fn apply(&mut self, settled: Settled) {
        if settled.length != self.content_length {
            self.deviations.add(Deviation::Length);
            self.content_length = settled.length;
            self.header.set_content_length(settled.length);
        }
        self.deviations.merge(settled.deviations);
        for name in settled.wrong.into_iter().flatten() {
            self.header.remove(name);
        }
    }

    /// Sets the fields of an ARC record's header that depend on the content of its block.
    fn settle_arc(&mut self) {
        let (line, block) = self.bytes.split_at_checked(self.block).unwrap_or_default();
        if self.header.moment().is_none()
            && let Ok(line) = Line::parse(line)
            && let Some(date) = Timestamp::earliest(line.date)
        {
            // A line whose number is incomplete still has a valid date.
            self.header.set("WARC-Date", date.iso().as_bytes());
        }
        if http::is_response(block) {
            let media_type = b"application/http; msgtype=response";
            return self.header.set("Content-Type", media_type);
        }
        self.http_head = 0;
        if is_web(&self.header) {
            // A block without an HTTP header is a resource (ISO 28500, chapter 6.4).
            self.header.set("WARC-Type", b"resource");
        }
    }

    /// Returns the digests that the header states. Digests that cannot be verified are removed from the header.
    fn stated(&mut self) -> Stated {
        let mut checks = Stated::default();
        let is_segment = self.header.get("WARC-Segment-Number").is_some();
        // For a large chunked payload it is unknown in advance whether its digest includes the chunk framing.
        let is_unsure = self.content_length > MAX_IN_MEMORY
            && (Head::of(self.http_head()).is_chunked() || self.is_http() && self.http_head == 0);
        for (name, is_payload) in [("WARC-Block-Digest", false), ("WARC-Payload-Digest", true)] {
            let Some(text) = self.header.get(name) else {
                continue;
            };
            match Digest::parse(text).filter(|_| !(is_payload && is_unsure)) {
                None => self.header.remove(name),
                Some(_) if is_payload && is_segment => {}
                Some(digest) => {
                    if !digest.is_well_put(text) {
                        self.header.set(name, digest.text().as_bytes());
                    }
                    if is_payload {
                        checks.payload = Some(digest)
                    } else {
                        checks.block = Some(digest)
                    }
                }
            }
        }
        checks
    }

    /// Adds the digests that ARC records lack.
    fn add_digests(&mut self) {
        let block = &self.bytes[self.block..];
        let sha1 = |bytes: &[u8]| digest::of(digest::Algorithm::Sha1, bytes).text();
        let (of_block, of_payload) = (sha1(block), sha1(&block[self.http_head..]));
        self.header.set("WARC-Block-Digest", of_block.as_bytes());
        self.header
            .set("WARC-Payload-Digest", of_payload.as_bytes());
    }

    /// Returns the payload digest that the header states.
    pub(super) fn stated_digest(&self) -> Option<&Digest> {
        self.stated.as_ref()
    }

    /// Returns the digest of the payload as stored, if the payload is in memory.
    pub(super) fn payload_digest(&self, algorithm: digest::Algorithm) -> Option<Digest> {
        let payload = self.bytes.get(self.block + self.http_head..)?;
        self.is_checked().then(|| digest::of(algorithm, payload))
    }

    /// Reads and verifies the rest, and returns the result.
    ///
    /// # Errors
    /// Fails if the record is damaged.
    pub(super) async fn check(self) -> Result<Option<Settled>, LoadError> {
        let mut rest = self.into_parts().1;
        let Some(block) = &mut rest.rest else {
            return Ok(None);
        };
        block.settle_length();
        while block.next().await?.is_some() {}
        Ok(block.settled())
    }

    /// Applies the result of an earlier check of the same record.
    pub(super) fn checked(mut self, settled: Option<Settled>) -> Stored {
        if let Some(settled) = settled {
            self.apply(settled);
            self.settled = Some(settled);
        }
        self
    }

    /// Splits the record into its header and its payload, which may be empty.
    pub(super) fn into_parts(self) -> (Header, Payload) {
        let (header, _, payload) = self.split();
        (header, payload)
    }

    fn split(mut self) -> (Header, Bytes, Payload) {
        let length = self.content_length.saturating_sub(self.http_head as u64);
        let all = Bytes::from(std::mem::take(&mut self.bytes));
        let payload_at = (self.block + self.http_head).min(all.len());
        let http_head = all.slice(self.block.min(payload_at)..payload_at);
        let here = all.slice(payload_at..);
        let Some(rest) = self.rest else {
            let payload = Payload {
                length,
                first: here,
                rest: None,
            };
            return (self.header, http_head, payload);
        };
        let block = Block::new(rest, &http_head, here, length, self.checks, self.settled);
        let payload = Payload {
            length,
            first: Bytes::new(),
            rest: Some(block),
        };
        (self.header, http_head, payload)
    }

    /// Returns the record as stored.
    ///
    /// # Errors
    /// Fails if the header lacks a mandatory field.
    pub(super) fn into_record(mut self) -> Result<Record, LoadError> {
        let missing = |what: &str| LoadError::Record(format!("the record has no valid {what}"));
        if self.header.kind().is_empty() {
            return Err(missing("WARC-Type"));
        }
        let target_uri = self
            .header
            .uri()
            .ok_or_else(|| missing("WARC-Target-URI"))?;
        let date = self.header.moment().ok_or_else(|| missing("WARC-Date"))?;
        if self.is_checked() && !self.header.is_changed() {
            // The whole record is in one buffer already.
            self.bytes.extend_from_slice(END);
            let head = Bytes::from(self.bytes);
            return Ok(Record {
                length: head.len() as u64,
                head,
                body: stream::empty().boxed(),
                target_uri,
                date,
                source: None,
            });
        }
        let (mut header, http_head, payload) = self.split();
        Ok(compose(&mut header, &http_head, payload, target_uri, date))
    }
}

/// A block in memory, and the bytes after it.
struct InMemory<'a> {
    block: &'a [u8],
    http_head: usize,
}

impl Digests for InMemory<'_> {
    fn has(&self, length: u64, digest: &Digest, part: Part) -> bool {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let Some(block) = self.block.get(..length) else {
            return false;
        };
        let is_of = |bytes: &[u8]| digest::of(digest.algorithm, bytes) == *digest;
        let payload = block.get(self.http_head..).unwrap_or_default();
        match part {
            Part::Block => is_of(block),
            Part::Payload => is_of(payload),
            Part::OtherPayload => {
                let interim = http::interim_heads(block);
                let end = http::end_of_head(&block[interim..]).filter(|_| interim > 0);
                let (head, payload) =
                    block.split_at(end.map_or(self.http_head.min(length), |end| interim + end));
                let is_chunked = Head::of(&head[interim..]).is_chunked();
                let plain = is_chunked.then(|| unchunked(payload)).flatten();
                interim > 0 && is_of(payload) || plain.is_some_and(|plain| is_of(&plain))
            }
        }
    }
}

fn refused_by(refused: Refused<'_>, rest: &AsyncReader<Input>) -> LoadError {
    match refused {
        Refused::CutOff => rest.cut_off().into(),
        Refused::Wrong(name, stated) => block::wrong(name, stated),
    }
}

/// Returns whether a record's URL has the scheme `http` or `https`.
fn is_web(header: &Header) -> bool {
    header.target_uri().is_some_and(http::is_web)
}

/// Returns a record id that is derived from these parts, so that equal parts give equal ids.
pub(super) fn made_id(parts: &[&[u8]]) -> String {
    let joined = parts.join(&b"\n"[..]);
    let digest = digest::of(digest::Algorithm::Sha1, &joined).value;
    let bits = digest.first_chunk().copied().map(u128::from_be_bytes);
    urn(bits.unwrap_or_default(), 5)
}

#[cfg(test)]
mod tests;
