//! Visible crawls: running crawls whose hashes other crawls can already look up.
//!
//! The field `visible <crawl>` of `crawlspace` marks such a crawl, and contains its number in the
//! order in which crawls became visible. The hashes of visible crawls are not in the merged index:
//! a lookup that finds no committed holder searches the records of these crawls. Therefore, they
//! can be committed, canceled and removed like any other crawl. If a visible crawl drops a hash,
//! lookups immediately find the next visible crawl that has it.

pub use crawlspace_compact::limits::dedupe::MAX_VISIBLE;
use std::rc::Rc;

use crawlspace_host::text::{Shown, parse_unsigned};

use super::counters;
use super::crawls::Crawls;
use crate::dedupe::counts;
use crate::dedupe::error::{Error, Result};
use crate::dedupe::store::Store;

const MARK: &[u8] = b"visible ";

/// The visible crawls in order, each with its number.
pub struct Visible<K: Store> {
    /// Name of the key with the marks.
    meta: K::Name,
    crawls: Rc<Vec<(u64, Vec<u8>)>>,
}

impl<K: Store> Visible<K> {
    /// Reads the marks of an index.
    pub(super) fn read(ks: &mut K, meta: &K::Name) -> Result<Visible<K>> {
        let fields = counts::fields(ks, meta)?;
        let marks = fields.iter().filter_map(|(field, number)| {
            let crawl = field.strip_prefix(MARK)?;
            Some((parse_unsigned(number)?, crawl.to_vec()))
        });
        let mut visible: Vec<(u64, Vec<u8>)> = marks.collect();
        visible.sort();
        visible.dedup();
        Ok(Visible {
            meta: meta.clone(),
            crawls: Rc::new(visible),
        })
    }

    /// Returns the visible crawls in order, each with its number.
    pub(crate) fn crawls(&self) -> Rc<Vec<(u64, Vec<u8>)>> {
        Rc::clone(&self.crawls)
    }

    /// Returns true if no crawl is visible.
    pub(crate) fn is_empty(&self) -> bool {
        self.crawls.is_empty()
    }

    /// Returns true if the crawl is visible.
    pub(crate) fn has(&self, crawl: &[u8]) -> bool {
        self.crawls.iter().any(|(_, visible)| visible == crawl)
    }

    /// Refuses to make another crawl visible if the limit is reached.
    ///
    /// # Errors
    /// `ERR` names the limit.
    pub(crate) fn check_room(
        &self,
        ks: &mut K,
        crawls: &mut Crawls<K>,
        crawl: &[u8],
    ) -> Result<()> {
        let mut others = 0;
        for (_, other) in self.crawls.iter() {
            // Plain clients end crawls without deleting these marks, so do not count the marks of
            // crawls that are not running.
            others += usize::from(other != crawl && crawls.is_uncommitted(ks, other)?);
        }
        if others < MAX_VISIBLE {
            return Ok(());
        }
        Err(Error::Argument(format!(
            "crawl '{}' cannot be visible: {MAX_VISIBLE} other crawls are visible, which is the maximum of an index; commit or cancel one of them first",
            Shown(crawl)
        )))
    }

    /// Makes a crawl visible. Returns false if it is visible already.
    pub(crate) fn add(&mut self, ks: &mut K, crawls: &mut Crawls<K>, crawl: &[u8]) -> Result<bool> {
        if self.has(crawl) {
            return Ok(false);
        }
        for (_, other) in self.crawls().iter() {
            if !crawls.is_uncommitted(ks, other)? {
                self.remove(ks, other)?;
            }
        }
        let number = counters::next(ks, &self.meta, counters::VISIBLE)?;
        let mark = [MARK, crawl].concat();
        ks.hash_set(&self.meta, &mark, number.to_string().as_bytes())?;
        Rc::make_mut(&mut self.crawls).push((number, crawl.to_vec()));
        Ok(true)
    }

    /// Deletes the mark of a crawl that has ended.
    pub(crate) fn remove(&mut self, ks: &mut K, crawl: &[u8]) -> Result<()> {
        if self.has(crawl) {
            ks.hash_del(&self.meta, &[MARK, crawl].concat())?;
            Rc::make_mut(&mut self.crawls).retain(|(_, other)| other != crawl);
        }
        Ok(())
    }
}
