//! The reverse edges between tags: for each tag, the tags that carry it (its carriers).
//!
//! Most tags have few carriers or none, but a tag such as `private` may have a million.

use super::TagId;
use super::dictionary::hash_numbers;
use super::pages::Pages;
use crawlspace_compact::interner::{Handles, Interner};
use crawlspace_compact::linear::List as _;

#[derive(Clone, Default)]
pub struct Carriers {
    pages: Pages<Page>,
    /// Memory that the pages point to, in bytes.
    bytes: usize,
}

/// A page of lists. `None` if all lists are empty, which is common, because tags without carriers
/// often have adjacent numbers.
#[derive(Clone, Default)]
struct Page(Option<Box<[List; PAGE]>>);

const PAGE: usize = 16;

#[derive(Clone)]
enum List {
    Few(Vec<TagId>),
    Many(u32, Box<Interner<Pages<Handles>>>),
}

/// Maximum length of a list that is searched element by element.
const FEW: usize = 32;

impl Default for List {
    fn default() -> Self {
        List::Few(Vec::new())
    }
}

impl Carriers {
    /// Returns the number of carriers of a tag.
    pub fn count(&self, tag: TagId) -> usize {
        match self.list(tag) {
            None => 0,
            Some(List::Few(few)) => few.len(),
            Some(List::Many(len, _)) => *len as usize,
        }
    }

    /// Calls `each` with each carrier, until `each` returns false.
    pub fn each(&self, tag: TagId, mut each: impl FnMut(TagId) -> bool) {
        match self.list(tag) {
            None => {}
            Some(List::Few(few)) => {
                few.iter().all(|&carrier| each(carrier));
            }
            Some(List::Many(_, many)) => {
                let mut numbers = many.iter();
                numbers.all(|carrier| each(TagId(carrier)));
            }
        }
    }

    /// Records that `carrier` carries `tag`. `carrier` must not have carried `tag` before.
    pub fn insert(&mut self, tag: TagId, carrier: TagId) {
        while self.pages.len() <= tag.0 as usize / PAGE {
            self.pages.push(Page::default());
        }
        self.change(tag, |list| list.insert(carrier));
    }

    /// Records that `carrier` does not carry `tag` any more.
    pub fn remove(&mut self, tag: TagId, carrier: TagId) {
        self.change(tag, |list| list.remove(carrier));
    }

    pub fn memory(&self) -> usize {
        self.pages.memory() + self.bytes
    }

    pub fn pieces(&self) -> usize {
        2 * self.pages.len()
    }

    #[cfg(test)]
    pub fn verify(&self) {
        let pages = (0..self.pages.len()).filter_map(|at| self.pages.get(at)?.0.as_ref());
        let lists = |lists: &[List; PAGE]| lists.iter().map(List::memory).sum::<usize>();
        let bytes = pages.map(|page| size_of::<[List; PAGE]>() + lists(page));
        assert_eq!(self.bytes, bytes.sum::<usize>());
    }

    fn list(&self, tag: TagId) -> Option<&List> {
        let page = self.pages.get(tag.0 as usize / PAGE)?;
        page.0.as_ref().map(|lists| &lists[tag.0 as usize % PAGE])
    }

    fn change(&mut self, tag: TagId, change: impl FnOnce(&mut List)) {
        let Some(page) = self.pages.get_mut(tag.0 as usize / PAGE) else {
            return;
        };
        let lists = page.0.get_or_insert_with(|| {
            self.bytes += size_of::<[List; PAGE]>();
            Box::default()
        });
        let list = &mut lists[tag.0 as usize % PAGE];
        self.bytes -= list.memory();
        change(list);
        self.bytes += list.memory();
    }
}

impl List {
    fn insert(&mut self, carrier: TagId) {
        match self {
            List::Few(few) if few.len() < FEW => {
                if few.len() == few.capacity() {
                    few.reserve_exact(few.len().max(2));
                }
                few.push(carrier);
            }
            List::Few(few) => {
                let mut many = Interner::<Pages<Handles>>::default();
                for tag in few.iter().chain([&carrier]) {
                    many.insert(hash(*tag), tag.0);
                }
                *self = List::Many(FEW as u32 + 1, Box::new(many));
            }
            List::Many(len, many) => {
                many.insert(hash(carrier), carrier.0);
                *len += 1;
            }
        }
    }

    fn remove(&mut self, carrier: TagId) {
        match self {
            List::Few(few) => {
                if let Some(at) = few.iter().position(|&tag| tag == carrier) {
                    few.swap_remove(at);
                }
                if few.is_empty() {
                    *few = Vec::new();
                }
            }
            List::Many(len, many) => {
                many.remove(hash(carrier), carrier.0);
                *len -= 1;
                if (*len as usize) < FEW / 2 {
                    let few = many.iter().map(TagId).collect();
                    *self = List::Few(few);
                }
            }
        }
    }

    fn memory(&self) -> usize {
        match self {
            List::Few(few) if few.is_empty() => 0,
            // Use the length, because the capacity differs between copies.
            List::Few(few) => few.len().next_power_of_two().max(2) * size_of::<TagId>(),
            List::Many(_, many) => size_of::<Interner<Pages<Handles>>>() + many.memory(),
        }
    }
}

fn hash(tag: TagId) -> u64 {
    hash_numbers([tag.0].into_iter())
}
