//! Sequence numbers (`SEQ writer n`), which make it safe to send a command again if its reply was
//! lost.

pub use crawlspace_compact::limits::dedupe::WRITER_BYTES;
use crawlspace_host::text::Shown;

use super::error::{Error, Result};
use super::index::Index;
use super::index::numbers::{parse_numbers, write_numbers};
use super::keys::CrawlKey;
use super::store::Store;

/// A numbered command that a writer sends to a crawl. The numbers of a writer only increase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sequence<'a> {
    /// The writer, for example the name of a worker.
    pub writer: &'a [u8],
    /// The number, 1 or more.
    pub n: u64,
}

/// Runs `act` for a crawl once per sequence number. A retry gets the stored reply.
///
/// # Errors
/// `STALE` if the writer has used a higher number; the errors of `act`.
pub(super) fn once<K: Store>(
    index: &mut Index<K>,
    ks: &mut K,
    crawl: &[u8],
    seq: Option<Sequence<'_>>,
    act: impl FnOnce(&mut Index<K>, &mut K) -> Result<u64>,
) -> Result<u64> {
    let Some(seq) = seq else {
        return act(index, ks);
    };
    if let Some(reply) = replayed(index, ks, crawl, seq)? {
        return Ok(reply);
    }
    let reply = act(index, ks)?;
    let key = index.crawls.key(ks, crawl, CrawlKey::Seq);
    ks.hash_set(&key, seq.writer, &write_numbers(&[seq.n, reply]))?;
    Ok(reply)
}

/// Returns the stored reply if this number was executed before.
///
/// `STALE` if the writer has used a higher number, because only the reply to the writer's last
/// number is stored.
fn replayed<K: Store>(
    index: &mut Index<K>,
    ks: &mut K,
    crawl: &[u8],
    seq: Sequence<'_>,
) -> Result<Option<u64>> {
    // Ignore numbers of a removed crawl with this id. Plain clients do not delete them.
    if index.crawls.state(ks, crawl)?.is_none() {
        return Ok(None);
    }
    let key = index.crawls.key(ks, crawl, CrawlKey::Seq);
    let Some(value) = ks.hash_get(&key, seq.writer)? else {
        return Ok(None);
    };
    match parse_numbers(value.as_ref())[..] {
        [n, reply] if n == seq.n => Ok(Some(reply)),
        [n, _] if n > seq.n => Err(Error::Stale(format!(
            "sequence number {} of writer '{}' is lower than the writer's last number, {n}; nothing was changed",
            seq.n,
            Shown(seq.writer)
        ))),
        _ => Ok(None),
    }
}
