//! Blocks as text.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::block::{Block, MAX_BLOCK, Unfit, inflate};
use crate::sorted::file::{FileVersion, Snapshot};
use crate::sorted::steps::{spend, until_it_may_wait};
use crate::source::SourceError;

/// Limit of unpacked text that is cached of a cluster, in bytes.
const MAX_CACHED: usize = 16 << 20;

/// Blocks that were unpacked lately.
#[derive(Debug, Default)]
pub(super) struct Unpacked {
    kept: Mutex<VecDeque<(Which, Bytes)>>,
    failed: Mutex<VecDeque<Failed>>,
}

/// A damaged block, since when that is known, and why.
type Failed = (Which, Instant, SourceError);

/// Maximum number of damaged blocks that are cached, and for how long.
const MAX_FAILURES: usize = 64;
const FAILURE_CACHED_FOR: Duration = Duration::from_secs(10);

/// Offset and length of a block, and the version of its file. What differs comes first: blocks are found by comparing.
type Which = (u64, u64, FileVersion);

impl Unpacked {
    /// The text of a block, which is whole lines.
    ///
    /// # Errors
    /// When the block is damaged, or cannot be read.
    pub(crate) async fn text(&self, file: &Snapshot, block: &Block) -> Result<Bytes, SourceError> {
        let which = (block.offset, block.length, file.version());
        let kept = {
            let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.iter()
                .find(|(other, _)| *other == which)
                .map(|(_, text)| text.clone())
        };
        if let Some(text) = kept {
            spend(0).await;
            return Ok(text);
        }
        until_it_may_wait().await;
        if let Some(error) = self.failure(&which) {
            return Err(error);
        }
        let text = unpack(file, block).await;
        let text = text.inspect_err(|error| self.note(which, error))?;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_front((which, text.clone()));
        let mut size = 0;
        kept.retain(|(_, text)| {
            size += text.len();
            size <= MAX_CACHED
        });
        Ok(text)
    }

    /// Why there is no such block, if that was found out just now.
    fn failure(&self, which: &Which) -> Option<SourceError> {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.retain(|(_, since, _)| since.elapsed() < FAILURE_CACHED_FOR);
        let found = failed.iter().find(|(other, ..)| other == which);
        found.map(|(.., error)| error.clone())
    }

    fn note(&self, which: Which, error: &SourceError) {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.push_front((which, Instant::now(), error.clone()));
        failed.truncate(MAX_FAILURES);
    }
}

async fn unpack(file: &Snapshot, block: &Block) -> Result<Bytes, SourceError> {
    let at_block = |what: &str| {
        let (file, at) = (file.path().display(), block.offset);
        format!("{file}: block at byte {at}: {what}")
    };
    let Some(length) = usize::try_from(block.length)
        .ok()
        .filter(|_| block.length <= MAX_BLOCK)
    else {
        let what = format!("{} bytes, which is more than {MAX_BLOCK}", block.length);
        return Err(SourceError::TooLarge(at_block(&what)));
    };
    let mut packed = Vec::with_capacity(length);
    while packed.len() < length {
        let at = block.offset.saturating_add(packed.len() as u64);
        let left = length - packed.len();
        if file.read(at, left, &mut packed).await? == 0 {
            let what = format!("the file ends before its {length} bytes do");
            return Err(SourceError::Io(at_block(&what)));
        }
    }
    // The last read may have been on another thread.
    until_it_may_wait().await;
    let mut text = Vec::with_capacity(length.saturating_mul(5));
    inflate(&packed, &mut text).map_err(|unfit| match unfit {
        Unfit::Broken(why) => SourceError::Io(at_block(&why)),
        Unfit::TooLarge => {
            let what = format!("unpacked it has more than {MAX_BLOCK} bytes");
            SourceError::TooLarge(at_block(&what))
        }
    })?;
    if !text.is_empty() && !text.ends_with(b"\n") {
        text.push(b'\n');
    }
    Ok(text.into())
}
