//! Decompresses blocks, and caches their text.

use std::collections::{HashMap, VecDeque};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::block::{Block, MAX_BLOCK, Unfit, inflate};
use crate::sorted::file::{FileVersion, Snapshot};
use crate::sorted::steps::{spend, until_it_may_wait};
use crate::source::SourceError;

/// Maximum total size of the cached text of all clusters, in bytes.
const MAX_CACHED: usize = 256 << 20;

/// The damaged blocks of a cluster. The text of blocks is cached for all clusters together.
#[derive(Debug, Default)]
pub(super) struct Unpacked {
    failed: Mutex<VecDeque<Failed>>,
}

/// A cache of the text of blocks, each with the number of its last use.
#[derive(Debug, Default)]
struct Cache {
    texts: HashMap<Which, (Bytes, u64)>,
    size: usize,
    uses: u64,
}

static CACHE: LazyLock<Mutex<Cache>> = LazyLock::new(Mutex::default);

fn cache() -> MutexGuard<'static, Cache> {
    CACHE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Cache {
    fn get(&mut self, which: &Which) -> Option<Bytes> {
        self.uses += 1;
        let (text, used) = self.texts.get_mut(which)?;
        *used = self.uses;
        Some(text.clone())
    }

    /// Adds the text of a block. If this makes the cache too large, evicts the least recently used
    /// blocks, a quarter of the cache at a time.
    fn put(&mut self, which: Which, text: Bytes) {
        if text.len() > MAX_CACHED / 4 {
            return;
        }
        self.uses += 1;
        self.size += text.len();
        if let Some((before, _)) = self.texts.insert(which, (text, self.uses)) {
            // Another query decompressed the same block at the same time.
            self.size -= before.len();
        }
        if self.size <= MAX_CACHED {
            return;
        }
        let mut oldest: Vec<(u64, Which)> = self
            .texts
            .iter()
            .map(|(which, (_, used))| (*used, *which))
            .collect();
        oldest.sort_unstable_by_key(|(used, _)| *used);
        for (_, which) in oldest {
            if self.size <= MAX_CACHED / 4 * 3 {
                break;
            }
            if let Some((text, _)) = self.texts.remove(&which) {
                self.size -= text.len();
            }
        }
    }
}

/// A damaged block, the time at which it was read, and the error.
type Failed = (Which, Instant, SourceError);

/// Maximum number of damaged blocks that are remembered, and the time for which each is remembered.
const MAX_FAILURES: usize = 64;
const FAILURE_CACHED_FOR: Duration = Duration::from_secs(10);

/// Offset and length of a block, and the version of its file. The offset is the first field because it
/// differs most often, which makes comparisons fast.
type Which = (u64, u64, FileVersion);

impl Unpacked {
    /// Returns the text of a block, which consists of whole lines, and caches it if `cached` is true.
    ///
    /// # Errors
    /// Fails if the block is damaged or cannot be read.
    pub(crate) async fn text(
        &self,
        file: &Snapshot,
        block: &Block,
        cached: bool,
    ) -> Result<Bytes, SourceError> {
        let which = (block.offset, block.length, file.version());
        let known = cache().get(&which);
        if let Some(text) = known {
            spend(0).await;
            return Ok(text);
        }
        until_it_may_wait().await;
        // Another query may have decompressed the block in the meantime.
        let known = cache().get(&which);
        if let Some(text) = known {
            return Ok(text);
        }
        if let Some(error) = self.failure(&which) {
            return Err(error);
        }
        let text = unpack(file, block).await;
        let text = text.inspect_err(|error| self.note(which, error))?;
        if cached {
            cache().put(which, text.clone());
        }
        Ok(text)
    }

    /// Returns the error of a block that was recently found to be damaged.
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
        let what = format!("it has {} bytes, the maximum is {MAX_BLOCK}", block.length);
        return Err(SourceError::TooLarge(at_block(&what)));
    };
    let mut packed = Vec::with_capacity(length);
    while packed.len() < length {
        let at = block.offset.saturating_add(packed.len() as u64);
        let left = length - packed.len();
        if file.read(at, left, &mut packed).await? == 0 {
            let what = format!("the file ends before the end of its {length} bytes");
            return Err(SourceError::Io(at_block(&what)));
        }
    }
    // Decompress on a thread that may block: the last read may have moved the work to a thread that
    // may not.
    until_it_may_wait().await;
    let mut text = Vec::with_capacity(length.saturating_mul(5));
    inflate(&packed, &mut text).map_err(|unfit| match unfit {
        Unfit::Broken(why) => SourceError::Io(at_block(&why)),
        Unfit::TooLarge => {
            let what = format!("it decompresses to more than {MAX_BLOCK} bytes");
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
    fn least_recently_used_texts_are_evicted_and_cached_once() {
        let file = NamedFile::made(PathBuf::from("part"), Vec::new());
        let version = wait(file.snapshot()).unwrap().unwrap().version();
        let text = Bytes::from(vec![0; MAX_CACHED / 8]);
        let mut cache = Cache::default();
        for _ in 0..3 {
            for block in 0..8 {
                cache.put((block, 1, version), text.clone());
            }
        }
        assert_eq!((cache.texts.len(), cache.size), (8, MAX_CACHED));
        assert!(cache.get(&(0, 1, version)).is_some());
        cache.put((8, 1, version), text.clone());
        let found = (0..9).map(|block| cache.get(&(block, 1, version)).is_some());
        let expected = [true, false, false, false, true, true, true, true, true];
        assert_eq!(found.collect::<Vec<_>>(), expected);
        cache.put((9, 1, version), Bytes::from(vec![0; MAX_CACHED / 4 + 1]));
        assert_eq!(
            cache.texts.len(),
            6,
            "a text that is too large is not cached"
        );
    }
}
