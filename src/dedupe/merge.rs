//! Changes that commits and removals make to a single hash of the merged index.

use super::digest::Digest;
use super::error::Result;
use super::index::Index;
use super::index::numbers::Numbers;
use super::index::progress::CommitState;
use super::index::storage::Storage;
use super::keys::CrawlKey;
use super::store::Store;

/// Adds a new hash to the merged index, and its record if the index is packed. Returns false if the
/// hash already has an owner.
pub(super) fn merge_new<K: Store>(
    index: &mut Index<K>,
    ks: &mut K,
    crawl: &[u8],
    (field, record): (&[u8], &[u8]),
) -> Result<bool> {
    match index.places.storage() {
        _ if index.places.is_moving() => Ok(false),
        Storage::Packed => index
            .places
            .take(ks, &mut index.crawls, crawl, (field, record), true),
        Storage::Plain => Ok(ks.hash_set_new(&index.names().merged, field, crawl)?),
    }
}

/// Deletes records from the crawl's plain hash after they were copied into the packed index.
pub(super) fn drop_moved<K: Store>(
    index: &mut Index<K>,
    ks: &mut K,
    crawl: &[u8],
    moved: &mut Vec<Vec<u8>>,
) -> Result<()> {
    let records = index.crawls.key(ks, crawl, CrawlKey::Records);
    for field in moved.drain(..) {
        ks.hash_del(&records, &field)?;
    }
    Ok(())
}

/// Copies a crawl's record of a hash into the packed index. Returns the notation in which the plain
/// hash contains the hash, if it does.
pub(super) fn take_by_digest<K: Store>(
    index: &mut Index<K>,
    ks: &mut K,
    crawl: &[u8],
    digest: &Digest,
) -> Result<Option<Vec<u8>>> {
    let Some((spelling, value)) = index.plain_record(ks, crawl, digest)? else {
        return Ok(None);
    };
    index.places.take(
        ks,
        &mut index.crawls,
        crawl,
        (&spelling, value.as_ref()),
        false,
    )?;
    Ok(Some(spelling))
}

/// Adds a hash of a crawl to the merged index. `spelling` is the notation in the crawl's own
/// records, if known. Returns false if the crawl owned the hash already.
pub(super) fn merge<K: Store>(
    index: &mut Index<K>,
    ks: &mut K,
    crawl: &[u8],
    spelling: Option<&[u8]>,
    digest: &Digest,
    state: &mut CommitState,
) -> Result<bool> {
    let Some((spelling, owner)) = index.spelling.locate_owner(ks, &index.places, digest)? else {
        // The merged index must use the notation of the crawl's records. Otherwise the second
        // documented lookup, crawl → record, fails.
        let found;
        let spelling = match spelling {
            Some(spelling) => spelling,
            None => {
                found = index.spelling_in(ks, crawl, digest)?;
                found.as_deref().unwrap_or(digest.written(index.profile()))
            }
        };
        index.spelling.note_merged(digest, spelling);
        index.places.merged().set(ks, spelling, crawl)?;
        state.new += 1;
        return Ok(true);
    };
    if owner.as_ref() == crawl {
        return Ok(false); // an earlier slice counted the hash
    }
    let mut numbers = index.ledger.holders(ks, &index.places, digest)?;
    if numbers.contains(&state.number) {
        return Ok(true); // also counted by an earlier slice
    }
    let is_owner = |other: &[u8]| other == owner.as_ref() || other == crawl;
    let visible = index
        .committed_record(ks, owner.as_ref(), digest)?
        .is_some();
    if !visible {
        let owner = owner.as_ref();
        if !index.under_way.is_committing(ks, owner)? && !index.under_way.is_removing(ks, owner)? {
            // Another program added the hash, or removed the owner from `allcrawls` and may put it
            // back.
            index.mark_holders_untrusted(ks)?;
        }
        // The owner is not committed, or its record is gone. The next holder becomes the owner:
        // another committed crawl that holds the hash, or else this crawl.
        match index.next_holder(ks, digest, owner, &is_owner)? {
            Some((holder, _)) => {
                index.places.merged().set(ks, &spelling, &holder)?;
                drop_numbers_of(index, ks, digest, &mut numbers, &holder)?;
            }
            None => {
                index.places.merged().set(ks, &spelling, crawl)?;
                state.new += 1;
                return Ok(true);
            }
        }
    }
    numbers.push(state.number);
    index
        .ledger
        .set_holders(ks, &index.places, digest, &numbers)?;
    state.known += 1;
    Ok(true)
}

/// Deletes the commit numbers of a crawl from a list of holders.
fn drop_numbers_of<K: Store>(
    index: &mut Index<K>,
    ks: &mut K,
    digest: &Digest,
    numbers: &mut Numbers,
    crawl: &[u8],
) -> Result<()> {
    let own = index.crawls.baseline(ks, crawl).numbers(ks)?;
    numbers.retain(|n| !own.contains(n));
    index.ledger.set_holders(ks, &index.places, digest, numbers)
}

/// Removes a hash of a crawl from the merged index. The next holder becomes the owner; if there is
/// none, the hash is deleted. `numbers` are the commit numbers of the crawl. Crawls for which `excluded`
/// returns true do not become owners.
pub(super) fn withdraw<K: Store>(
    index: &mut Index<K>,
    ks: &mut K,
    crawl: &[u8],
    numbers: &[u64],
    field: &[u8],
    excluded: &dyn Fn(&[u8]) -> bool,
) -> Result<Withdrawn> {
    let digest = Digest::of_field(field);
    let mut holders = index.ledger.holders(ks, &index.places, &digest)?;
    let before = holders.len();
    holders.retain(|n| !numbers.contains(n));
    let owner = index.spelling.locate_owner(ks, &index.places, &digest)?;
    let Some((spelling, _)) = owner.filter(|(_, owner)| owner.as_ref() == crawl) else {
        if holders.len() != before {
            index
                .ledger
                .set_holders(ks, &index.places, &digest, &holders)?;
        }
        return Ok(Withdrawn::NotOwner);
    };
    let Some((heir, _)) = index.next_holder(ks, &digest, crawl, excluded)? else {
        index.places.merged().del(ks, &spelling)?;
        if before > 0 {
            index.ledger.set_holders(ks, &index.places, &digest, &[])?;
        }
        return Ok(Withdrawn::Dropped);
    };
    let heirs_spelling = index
        .spelling_in(ks, &heir, &digest)?
        .unwrap_or_else(|| spelling.clone());
    index.spelling.note_merged(&digest, &heirs_spelling);
    if heirs_spelling != spelling {
        index.places.merged().del(ks, &spelling)?;
    }
    index.places.merged().set(ks, &heirs_spelling, &heir)?;
    if before > 0 {
        drop_numbers_of(index, ks, &digest, &mut holders, &heir)?;
    }
    Ok(Withdrawn::Reowned)
}

/// The result of removing a crawl's hash from the merged index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Withdrawn {
    /// Another crawl owned the hash.
    NotOwner,
    /// The next holder is the owner now.
    Reowned,
    /// The hash had no other holder and was deleted.
    Dropped,
}
