//! Crawls whose hashes others see while they run.
//!
//! The field `visible <crawl>` of `crawlspace` says that a crawl is one of them, and its number in the
//! order in which they became so. Their hashes are not in the merged index: a look-up that finds no
//! committed holder goes through their records. So a commit, a cancel and a removal come out as those of
//! any other crawl, and a hash that one of them drops is the next one's at once.

pub use crawlspace_compact::limits::dedupe::MAX_VISIBLE;
use std::rc::Rc;

use crawlspace_host::text::{Shown, parse_unsigned};

use super::Index;
use crate::dedupe::counters;
use crate::dedupe::counts;
use crate::dedupe::error::{Error, Result};
use crate::dedupe::store::Store;

const MARK: &[u8] = b"visible ";

/// The crawls in their order, each after its number.
pub(super) struct Visible(Rc<Vec<(u64, Vec<u8>)>>);

impl Visible {
    /// Reads the marks of an index.
    pub fn read<K: Store>(ks: &mut K, meta: &K::Name) -> Result<Visible> {
        let fields = counts::fields(ks, meta)?;
        let marks = fields.iter().filter_map(|(field, number)| {
            let crawl = field.strip_prefix(MARK)?;
            Some((parse_unsigned(number)?, crawl.to_vec()))
        });
        let mut visible: Vec<(u64, Vec<u8>)> = marks.collect();
        visible.sort();
        visible.dedup();
        Ok(Visible(Rc::new(visible)))
    }
}

impl<K: Store> Index<K> {
    /// Crawls that others see while they run, in their order, each after its number.
    pub(crate) fn visible(&self) -> Rc<Vec<(u64, Vec<u8>)>> {
        Rc::clone(&self.visible.0)
    }

    /// Whether others see any crawl while it runs.
    pub(crate) fn has_visible(&self) -> bool {
        !self.visible.0.is_empty()
    }

    /// Whether others see the crawl while it runs.
    pub fn is_visible(&self, crawl: &[u8]) -> bool {
        self.visible.0.iter().any(|(_, visible)| visible == crawl)
    }

    /// Refuses one more of them when there are too many.
    ///
    /// # Errors
    /// `ERR` names the limit.
    pub(crate) fn check_visible(&mut self, ks: &mut K, crawl: &[u8]) -> Result<()> {
        let visible = self.visible();
        let mut others = 0;
        for (_, other) in visible.iter() {
            // Plain clients end crawls without knowing of marks.
            others += usize::from(other != crawl && self.is_uncommitted(ks, other)?);
        }
        if others < MAX_VISIBLE {
            return Ok(());
        }
        Err(Error::Argument(format!(
            "crawl '{}' cannot be visible: {MAX_VISIBLE} others are visible while they run, which is the limit of an index",
            Shown(crawl)
        )))
    }

    /// Lets others see the crawl from now on; false when they do already.
    pub(crate) fn show(&mut self, ks: &mut K, crawl: &[u8]) -> Result<bool> {
        if self.is_visible(crawl) {
            return Ok(false);
        }
        let visible = self.visible();
        for (_, other) in visible.iter() {
            if !self.is_uncommitted(ks, other)? {
                self.hide(ks, other)?;
            }
        }
        let number = self.next_of(ks, counters::VISIBLE)?;
        let mark = [MARK, crawl].concat();
        ks.hash_set(&self.names.meta, &mark, number.to_string().as_bytes())?;
        Rc::make_mut(&mut self.visible.0).push((number, crawl.to_vec()));
        Ok(true)
    }

    /// Takes the mark of a crawl that has ended away.
    pub(crate) fn hide(&mut self, ks: &mut K, crawl: &[u8]) -> Result<()> {
        if self.is_visible(crawl) {
            ks.hash_del(&self.names.meta, &[MARK, crawl].concat())?;
            Rc::make_mut(&mut self.visible.0).retain(|(_, other)| other != crawl);
        }
        Ok(())
    }
}
