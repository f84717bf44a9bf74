//! Blocks as text.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::inflate::{MAX_BLOCK, Unfit, inflate};
use super::line::Block;
use crate::sorted::file::{FileVersion, Snapshot};
use crate::sorted::steps::{Budget, Halt};
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

type Which = (FileVersion, u64, u64);

impl Unpacked {
    /// The text of a block, which is whole lines.
    ///
    /// # Errors
    /// [`Halt::Wait`] when reading may wait; [`Halt::Failed`] when the block is damaged.
    pub(crate) fn text(
        &self,
        file: &Snapshot,
        block: &Block,
        budget: &mut Budget,
    ) -> Result<Bytes, Halt> {
        let which = (file.version(), block.offset, block.length);
        let kept = {
            let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.iter()
                .find(|(other, _)| *other == which)
                .map(|(_, text)| text.clone())
        };
        if let Some(text) = kept {
            budget.spend(text.len())?;
            return Ok(text);
        }
        if !budget.may_wait() {
            return Err(Halt::Wait);
        }
        if let Some(error) = self.failure(&which) {
            return Err(Halt::Failed(error));
        }
        let text = unpack(file, block, budget).inspect_err(|halt| self.note(which, halt))?;
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

    fn note(&self, which: Which, halt: &Halt) {
        let Halt::Failed(error) = halt else { return };
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.push_front((which, Instant::now(), error.clone()));
        failed.truncate(MAX_FAILURES);
    }
}

fn unpack(file: &Snapshot, block: &Block, budget: &mut Budget) -> Result<Bytes, Halt> {
    let Some(length) = usize::try_from(block.length)
        .ok()
        .filter(|_| block.length <= MAX_BLOCK)
    else {
        let what = format!("{} bytes, which is more than {MAX_BLOCK}", block.length);
        return Err(Halt::Failed(SourceError::TooLarge(at_block(
            file.path(),
            block,
            &what,
        ))));
    };
    let mut packed = Vec::with_capacity(length);
    while packed.len() < length {
        let at = block.offset.saturating_add(packed.len() as u64);
        let left = length - packed.len();
        if file.read(budget, at, left, &mut packed)? == 0 {
            let what = format!("the file ends before its {length} bytes do");
            return Err(broken(file.path(), block, &what));
        }
    }
    let mut text = Vec::with_capacity(length.saturating_mul(5));
    match inflate(&packed, &mut text) {
        Ok(()) => {}
        Err(Unfit::Broken(why)) => return Err(broken(file.path(), block, &why)),
        Err(Unfit::TooLarge) => {
            let what = format!("unpacked it has more than {MAX_BLOCK} bytes");
            return Err(Halt::Failed(SourceError::TooLarge(at_block(
                file.path(),
                block,
                &what,
            ))));
        }
    }
    if !text.is_empty() && !text.ends_with(b"\n") {
        text.push(b'\n');
    }
    Ok(text.into())
}

fn at_block(file: &Path, block: &Block, what: &str) -> String {
    format!("{}: block at byte {}: {what}", file.display(), block.offset)
}

fn broken(file: &Path, block: &Block, what: &str) -> Halt {
    Halt::Failed(SourceError::Io(at_block(file, block, what)))
}
