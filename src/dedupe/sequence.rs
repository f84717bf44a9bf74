//! `SEQ writer n`: what makes a retry safe when the first reply was lost.

pub use crawlspace_compact::limits::dedupe::WRITER_BYTES;
use crawlspace_host::text::Shown;

use super::error::{Error, Result};
use super::index::Index;
use super::index::numbers::{parse_numbers, write_numbers};
use super::keys::CrawlKey;
use super::store::Store;

/// A numbered command of one writer of a crawl. Numbers of a writer only grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sequence<'a> {
    /// Who numbers: a worker's name, say.
    pub writer: &'a [u8],
    /// The number, 1 or more.
    pub n: u64,
}

/// Does something for a crawl, once a sequence number: a retry gets the reply that is kept.
///
/// # Errors
/// `STALE` when the writer has gone on to a higher number, and those of `act`.
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

/// The stored reply when this number was carried out before.
///
/// # Errors
/// `STALE` when the writer has gone on to a higher number: its reply is no longer kept.
fn replayed<K: Store>(
    index: &mut Index<K>,
    ks: &mut K,
    crawl: &[u8],
    seq: Sequence<'_>,
) -> Result<Option<u64>> {
    // What is left of a crawl that plain clients removed does not count for a new one.
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
            "sequence number {} of writer '{}' is older than its last, {n}; nothing was changed",
            seq.n,
            Shown(seq.writer)
        ))),
        _ => Ok(None),
    }
}
