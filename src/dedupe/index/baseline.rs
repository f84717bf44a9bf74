//! The baseline of a crawl in `h:<crawl>:baseline`: its counts and numbers as of its last commit.

use crawlspace_host::text::parse_unsigned;

use super::numbers::{Numbers, parse_numbers, write_numbers};
use crate::dedupe::counts;
use crate::dedupe::error::Result;
use crate::dedupe::store::Store;

/// Commit numbers of the crawl.
const COMMITS: &[u8] = b"commits";
/// Set if lists of holders may lack the crawl for some of its hashes.
const FOUND: &[u8] = b"found";
/// Number of records in the crawl after its last commit.
const SEEN: &[u8] = b"hashes";
/// Number of records that are in both the packed index and the plain hash.
const COPIED: &[u8] = b"copied";
/// Number of fields that plain clients had added when a command of the module continued the crawl.
const MORE: &[u8] = b"more";
/// Number of bytes that plain clients added to the crawl between its commits.
const UNCERTAIN: &[u8] = b"uncertain";
/// Number of WACZ files as of the last commit.
const FILES: &[u8] = b"wacz";

/// The baseline of a crawl.
pub struct Baseline<K: Store> {
    key: K::Name,
}

impl<K: Store> Baseline<K> {
    /// Creates the baseline at a key.
    pub(super) fn at(key: K::Name) -> Baseline<K> {
        Baseline { key }
    }

    /// Returns true if the crawl has a commit number.
    pub(crate) fn has_numbers(&self, ks: &mut K) -> Result<bool> {
        Ok(ks.hash_has(&self.key, COMMITS)?)
    }

    /// Returns the commit numbers of the crawl.
    pub(crate) fn numbers(&self, ks: &mut K) -> Result<Numbers> {
        let value = ks.hash_get(&self.key, COMMITS)?;
        Ok(value.map_or_else(Numbers::new, |value| parse_numbers(value.as_ref())))
    }

    /// Stores the commit numbers of the crawl.
    pub(crate) fn set_numbers(&self, ks: &mut K, numbers: &[u64]) -> Result<()> {
        ks.hash_set(&self.key, COMMITS, &write_numbers(numbers))?;
        Ok(())
    }

    /// Returns true if lists of holders may lack the crawl for some of its hashes.
    pub(crate) fn is_unrecorded(&self, ks: &mut K) -> Result<bool> {
        Ok(ks.hash_has(&self.key, FOUND)?)
    }

    /// Marks the crawl as possibly missing from the lists of holders. Returns false if it was
    /// marked already.
    pub(crate) fn mark_unrecorded(&self, ks: &mut K) -> Result<bool> {
        let is_new = !self.is_unrecorded(ks)?;
        if is_new {
            ks.hash_set(&self.key, FOUND, b"1")?;
        }
        Ok(is_new)
    }

    /// Returns the first commit number of the crawl if lists of holders may lack the crawl for some
    /// of its hashes. Returns `u64::MAX` if the crawl has no commit number.
    pub(crate) fn unrecorded_number(&self, ks: &mut K) -> Result<Option<u64>> {
        Ok(match self.numbers(ks)?.first() {
            None => Some(u64::MAX),
            Some(&number) => self.is_unrecorded(ks)?.then_some(number),
        })
    }

    /// Returns the number of records in the crawl after its last commit, if the module counted
    /// them.
    pub(crate) fn seen(&self, ks: &mut K) -> Result<Option<u64>> {
        let seen = ks.hash_get(&self.key, SEEN)?;
        Ok(seen.and_then(|n| parse_unsigned(n.as_ref())))
    }

    /// Stores the number of records in the crawl after its last commit. With 0, the next commit checks the whole
    /// crawl.
    pub(crate) fn set_seen(&self, ks: &mut K, seen: u64) -> Result<()> {
        ks.hash_set(&self.key, SEEN, seen.to_string().as_bytes())?;
        Ok(())
    }

    /// Returns the number of packed records of the crawl that its plain hash also contains.
    pub(crate) fn copied(&self, ks: &mut K) -> Result<u64> {
        let copied = ks.hash_get(&self.key, COPIED)?;
        Ok(copied.and_then(|n| parse_unsigned(n.as_ref())).unwrap_or(0))
    }

    /// Stores the number of records that are in both the packed index and the plain hash.
    pub(crate) fn set_copied(&self, ks: &mut K, copied: u64) -> Result<()> {
        if copied != self.copied(ks)? {
            match copied {
                0 => ks.hash_del(&self.key, COPIED)?,
                _ => ks.hash_set(&self.key, COPIED, copied.to_string().as_bytes())?,
            };
        }
        Ok(())
    }

    /// Returns the number of fields that plain clients had added when a command of the module
    /// continued the crawl.
    pub(crate) fn more(&self, ks: &mut K) -> i64 {
        counts::read(ks, &self.key, MORE).unwrap_or(0)
    }

    /// Stores the number of fields that plain clients had added when the crawl was continued.
    pub(crate) fn set_more(&self, ks: &mut K, more: i64) -> Result<()> {
        counts::set(ks, &self.key, MORE, more)
    }

    /// Deletes the count of fields that plain clients had added, after a commit has merged these
    /// fields.
    pub(crate) fn drop_more(&self, ks: &mut K) -> Result<()> {
        ks.hash_del(&self.key, MORE)?;
        Ok(())
    }

    /// Returns a count of the crawl as of its last commit.
    pub(crate) fn count(&self, ks: &mut K, name: &[u8]) -> Result<i64> {
        counts::read(ks, &self.key, &[b"baseline.", name].concat())
    }

    /// Stores a count of the crawl as of its last commit.
    pub(crate) fn set_count(&self, ks: &mut K, name: &[u8], n: i64) -> Result<()> {
        let field = [b"baseline.", name].concat();
        ks.hash_set(&self.key, &field, n.to_string().as_bytes())?;
        Ok(())
    }

    /// Returns the number of WACZ files of the crawl as of its last commit.
    pub(crate) fn files(&self, ks: &mut K) -> Result<i64> {
        counts::read(ks, &self.key, FILES)
    }

    /// Stores the number of WACZ files.
    pub(crate) fn set_files(&self, ks: &mut K, files: u64) -> Result<()> {
        ks.hash_set(&self.key, FILES, files.to_string().as_bytes())?;
        Ok(())
    }

    /// Returns the number of bytes that plain clients added to the crawl between its commits.
    pub(crate) fn uncertain_size(&self, ks: &mut K) -> Result<i64> {
        counts::read(ks, &self.key, UNCERTAIN)
    }

    /// Records that plain clients added `more` to a count of a committed crawl, and includes the
    /// addition in the crawl's baseline.
    pub(crate) fn note_uncertain(&self, ks: &mut K, name: &[u8], more: i64) -> Result<()> {
        if name == counts::TOTAL_CRAWL_SIZE && more > 0 {
            counts::add(ks, &self.key, UNCERTAIN, more)?;
        }
        Ok(())
    }
}
