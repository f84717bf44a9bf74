//! Cache of keys read during binary searches of a file.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Minimum size of a block in bytes. A search ends with a linear scan of one block; most of the cost of a look-up is
/// copying the block from the page cache.
const MIN_BLOCK: u64 = 4 << 10;
/// Minimum size of a block of text in memory, in bytes. Searching text in memory copies nothing, so
/// smaller blocks are faster.
const MIN_BLOCK_IN_MEMORY: u64 = 512;
const MAX_BLOCK: u64 = 16 << 10;
/// Maximum number of cached nodes per file: the first nodes of a search, which most searches visit.
const MAX_NODES: usize = 1 << 18;
/// Memory limit of the cached nodes of all files, in bytes.
const MAX_MEMORY: usize = 128 << 20;
/// Maximum number of bytes cached of a line.
const MAX_KEY: usize = 192;

static USED: AtomicUsize = AtomicUsize::new(0);

/// Cache of the first lines of blocks that searches of a file have read.
///
/// Every search reads the block in the middle first, then the block in the middle of one half, and so on. These blocks
/// form a binary tree. The root has the number 1, and the children of node n have the numbers 2n and 2n + 1.
#[derive(Debug)]
pub(crate) struct Pivots {
    block: u64,
    blocks: u64,
    nodes: OnceLock<Box<[OnceLock<Pivot>]>>,
    used: AtomicUsize,
}

/// The first line that begins in the second half of the blocks of a node.
#[derive(Debug)]
pub(crate) enum Pivot {
    /// No line begins in the second half of the blocks.
    Nothing,
    Line {
        at: u64,
        begin: Box<[u8]>,
    },
}

impl Pivots {
    /// Creates the cache of a file of this size, in bytes.
    pub(crate) fn new(size: u64) -> Pivots {
        Pivots::of_blocks(size, MIN_BLOCK)
    }

    /// Creates the cache of text in memory, which is searched in smaller blocks.
    pub(crate) fn in_memory(size: u64) -> Pivots {
        Pivots::of_blocks(size, MIN_BLOCK_IN_MEMORY)
    }

    fn of_blocks(size: u64, least: u64) -> Pivots {
        let mut block = least;
        while block < MAX_BLOCK && size / block > MAX_NODES as u64 / 2 {
            block *= 2;
        }
        Pivots {
            block,
            blocks: size.div_ceil(block).max(1),
            nodes: OnceLock::new(),
            used: AtomicUsize::new(0),
        }
    }

    /// Returns the size of a block in bytes.
    pub(crate) fn block(&self) -> u64 {
        self.block
    }

    /// Returns the number of blocks.
    pub(crate) fn blocks(&self) -> u64 {
        self.blocks
    }

    pub(crate) fn get(&self, node: u64) -> Option<&Pivot> {
        let node = usize::try_from(node).ok()?;
        self.nodes.get()?.get(node)?.get()
    }

    pub(crate) fn put(&self, node: u64, found: Option<(u64, &[u8])>) {
        let Ok(node) = usize::try_from(node) else {
            return;
        };
        let nodes = self.nodes.get_or_init(|| {
            let nodes = self.blocks.saturating_mul(2).min(MAX_NODES as u64);
            let nodes = usize::try_from(nodes)
                .unwrap_or(MAX_NODES)
                .next_power_of_two();
            let most = MAX_MEMORY.saturating_sub(USED.load(Ordering::Relaxed)) / 4;
            let nodes = nodes.min(most / size_of::<OnceLock<Pivot>>());
            self.take(nodes * size_of::<OnceLock<Pivot>>());
            (0..nodes).map(|_| OnceLock::new()).collect()
        });
        let Some(node) = nodes.get(node) else {
            return;
        };
        let pivot = match found {
            None => Pivot::Nothing,
            Some((at, line)) => {
                let begin = line.get(..MAX_KEY).unwrap_or(line);
                if USED.load(Ordering::Relaxed) > MAX_MEMORY {
                    return;
                }
                self.take(begin.len());
                Pivot::Line {
                    at,
                    begin: begin.into(),
                }
            }
        };
        // `set` fails if another search has stored the same pivot first.
        let _ = node.set(pivot);
    }

    fn take(&self, bytes: usize) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
        USED.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl Drop for Pivots {
    fn drop(&mut self) {
        USED.fetch_sub(*self.used.get_mut(), Ordering::Relaxed);
    }
}
