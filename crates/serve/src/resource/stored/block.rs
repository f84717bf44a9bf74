//! The block of a record that is too large for memory.

use bytes::Bytes;
use futures_util::stream::{self, Stream};

use super::{END, LOOK, STEP};
use crate::resource::digest::{Digest, Digester};
use crate::resource::record::LoadError;
use crate::resource::unpack::Unpacked;

/// Digests that have to come out.
#[derive(Clone, Debug, Default)]
pub(super) struct Checks {
    /// The digest of the whole block.
    pub block: Option<Digest>,
    /// The digest of what follows the HTTP header.
    pub payload: Option<Digest>,
}

/// What follows the HTTP header, piece by piece.
pub(in crate::resource) struct Block {
    rest: Unpacked,
    /// What was read already.
    here: Bytes,
    /// How much of it is still to come.
    left: u64,
    content_length: u64,
    digests: Vec<(&'static str, Digest, Digester)>,
    is_arc: bool,
    is_done: bool,
}

impl Block {
    /// The block of which `head` is the beginning, and `here` and `rest` are what follows: `length` bytes.
    pub(super) fn new(
        rest: Unpacked,
        head: &[u8],
        here: Bytes,
        length: u64,
        checks: Checks,
        is_arc: bool,
    ) -> Block {
        let mut digests = Vec::new();
        if let Some(stated) = checks.block {
            let mut digester = Digester::new(stated.algorithm);
            digester.update(head);
            digests.push(("WARC-Block-Digest", stated, digester));
        }
        if let Some(stated) = checks.payload {
            let digester = Digester::new(stated.algorithm);
            digests.push(("WARC-Payload-Digest", stated, digester));
        }
        Block {
            rest,
            here,
            left: length,
            content_length: length.saturating_add(head.len() as u64),
            digests,
            is_arc,
            is_done: false,
        }
    }

    /// The next piece; none at the end. The last one comes when everything is known to be right.
    ///
    /// # Errors
    /// When it cannot be read, or is not right.
    pub(in crate::resource) async fn next(&mut self) -> Result<Option<Bytes>, LoadError> {
        if self.is_done {
            return Ok(None);
        }
        let mut piece = std::mem::take(&mut self.here);
        if piece.is_empty() {
            piece = self.more().await?;
            // Files that are in memory are read without a pause, in which others could go on.
            tokio::task::yield_now().await;
        }
        if piece.is_empty() && self.left > 0 {
            return Err(cut_off(&self.rest, self.content_length));
        }
        let size = usize::try_from(self.left)
            .unwrap_or(usize::MAX)
            .min(piece.len());
        let tail = piece.split_off(size);
        self.left -= size as u64;
        for (_, _, digester) in &mut self.digests {
            digester.update(&piece);
        }
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
        let mut tail = tail.to_vec();
        while tail.len() < LOOK && self.rest.read(&mut tail, LOOK).await? > 0 {}
        check_end(&tail, self.is_arc, self.content_length)?;
        for (name, stated, digester) in self.digests.drain(..) {
            if digester.finish() != stated {
                return Err(wrong(name, &stated));
            }
        }
        Ok(())
    }

    /// All pieces.
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

/// Whether what follows a block, as far as it was looked at, shows that it ends there.
pub(super) fn check_end(tail: &[u8], is_arc: bool, content_length: u64) -> Result<(), LoadError> {
    let line_ends = tail
        .iter()
        .take(END.len())
        .take_while(|byte| matches!(byte, b'\r' | b'\n'))
        .count();
    let after = tail.get(line_ends..).unwrap_or_default();
    let next = b"WARC/";
    let right = match is_arc {
        true => tail.is_empty() || line_ends > 0,
        // An index may count the line ends out of the record's length, and the last record of a file may lack them.
        false if after.is_empty() => true,
        false => line_ends >= 2 && after.iter().zip(next).all(|(a, b)| a == b),
    };
    right.then_some(()).ok_or_else(|| {
        let what =
            format!("the record does not end after the {content_length} bytes that it says it has");
        LoadError::Record(what)
    })
}

pub(super) fn cut_off(rest: &Unpacked, content_length: u64) -> LoadError {
    LoadError::Record(if rest.is_packed() {
        format!(
            "the gzip member ends before the {content_length} bytes that the record says it has"
        )
    } else {
        "the record is cut off".to_owned()
    })
}

pub(super) fn wrong(name: &str, stated: &Digest) -> LoadError {
    LoadError::Record(format!(
        "the record is damaged: its {name} is not {}",
        stated.text()
    ))
}
