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
    cache: Mutex<Cache>,
    failed: Mutex<VecDeque<Failed>>,
}

/// Texts of blocks, the one that was asked for last first. Each is there once.
#[derive(Debug, Default)]
struct Cache(VecDeque<(Which, Bytes)>);

impl Cache {
    fn get(&mut self, which: &Which) -> Option<Bytes> {
        let found = self.0.iter().position(|(other, _)| other == which)?;
        let (which, text) = self.0.remove(found)?;
        self.0.push_front((which, text.clone()));
        Some(text)
    }

    /// Evicts what was not asked for longest when there is too much. Another query may have unpacked the same block at
    /// the same time.
    fn put(&mut self, which: Which, text: Bytes) {
        self.0.retain(|(other, _)| *other != which);
        self.0.push_front((which, text));
        let mut size = 0;
        self.0.retain(|(_, text)| {
            size += text.len();
            size <= MAX_CACHED
        });
    }
}

/// A damaged block, since when that is known, and why.
type Failed = (Which, Instant, SourceError);

/// Maximum number of damaged blocks that are cached, and for how long.
const MAX_FAILURES: usize = 64;
const FAILURE_CACHED_FOR: Duration = Duration::from_secs(10);

/// Offset and length of a block, and the version of its file. What differs comes first: blocks are found by comparing.
type Which = (u64, u64, FileVersion);

impl Unpacked {
    /// Returns the text of a block, which is whole lines, and caches it with `cached`.
    ///
    /// # Errors
    /// When the block is damaged, or cannot be read.
    pub(crate) async fn text(
        &self,
        file: &Snapshot,
        block: &Block,
        cached: bool,
    ) -> Result<Bytes, SourceError> {
        let which = (block.offset, block.length, file.version());
        if let Some(text) = self.cached(&which) {
            spend(0).await;
            return Ok(text);
        }
        until_it_may_wait().await;
        // Another query may have unpacked it meanwhile.
        if let Some(text) = self.cached(&which) {
            return Ok(text);
        }
        if let Some(error) = self.failure(&which) {
            return Err(error);
        }
        let text = unpack(file, block).await;
        let text = text.inspect_err(|error| self.note(which, error))?;
        if cached {
            let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
            cache.put(which, text.clone());
        }
        Ok(text)
    }

    fn cached(&self, which: &Which) -> Option<Bytes> {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.get(which)
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

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::sorted::file::NamedFile;
    use crate::sorted::steps::wait;

    #[test]
    fn what_was_not_asked_for_longest_is_evicted_and_nothing_is_cached_twice() {
        let file = NamedFile::made(PathBuf::from("part"), Vec::new());
        let version = wait(file.snapshot()).unwrap().unwrap().version();
        let text = Bytes::from(vec![0; MAX_CACHED / 4]);
        let mut cache = Cache::default();
        for _ in 0..3 {
            for block in 0..4 {
                cache.put((block, 1, version), text.clone());
            }
        }
        assert_eq!(cache.0.len(), 4);
        assert!(cache.get(&(0, 1, version)).is_some());
        cache.put((4, 1, version), text.clone());
        let found = (0..5).map(|block| cache.get(&(block, 1, version)).is_some());
        assert_eq!(
            found.collect::<Vec<_>>(),
            [true, false, true, true, true],
            "the second was not asked for longest"
        );
        cache.put((5, 1, version), Bytes::from(vec![0; MAX_CACHED + 1]));
        assert!(
            cache.0.is_empty(),
            "one block above the limit is not cached"
        );
    }
}
