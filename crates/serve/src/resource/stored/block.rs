//! The block of a record that is too large for memory.

use bytes::Bytes;
use futures_util::stream::{self, Stream};

use super::STEP;
use crate::resource::digest::{Digest, Digester};
use crate::resource::input::Input;
use crate::resource::record::LoadError;
use crawlspace_warc::AsyncReader;

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
    rest: AsyncReader<Input>,
    /// What was read already.
    here: Bytes,
    /// How much of it is still to come.
    left: u64,
    digests: Vec<(&'static str, Digest, Digester)>,
    is_done: bool,
}

impl Block {
    /// The block of which `head` is the beginning, and `here` and `rest` are what follows: `length` bytes.
    pub(super) fn new(
        rest: AsyncReader<Input>,
        head: &[u8],
        here: Bytes,
        length: u64,
        checks: Checks,
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
            digests,
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
            return Err(self.rest.cut_off().into());
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
        self.rest.end(&mut tail.to_vec()).await?;
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

pub(super) fn wrong(name: &str, stated: &Digest) -> LoadError {
    LoadError::Record(format!(
        "the record is damaged: its {name} is not {}",
        stated.text()
    ))
}
