//! Iteration over the contents of the index.

use std::fmt;

use super::edges::{Edges, walk};
use super::{Index, TagId, Tagged};

impl Index {
    /// Visits about `count` ids of a kind, starting at `cursor`. Returns the next cursor; 0 at the
    /// end. Ids that exist during the whole scan are returned at least once.
    pub fn scan(
        &self,
        kind: Tagged,
        cursor: u64,
        count: usize,
        each: &mut dyn FnMut(&[u8], &[TagId]),
    ) -> u64 {
        self.of(kind).scan(&self.names, cursor, count.max(1), each)
    }

    /// Visits the tags that occur in edges of the active copy. Cursors work as in [`Index::scan`].
    pub fn tags(&self, cursor: u64, count: usize, each: &mut dyn FnMut(TagId, &[u8])) -> u64 {
        let end = self.names.tags.highest().saturating_add(1);
        walk(end, cursor, count.max(1), |tag| {
            let occurs = self.in_place.iter().any(|edges| edges.uses(tag));
            if occurs {
                each(tag, self.name(tag));
            }
            occurs
        })
    }

    /// Calls `each` with the parts of each edge, for a digest that does not depend on the order of
    /// the edges. Equal indexes have equal edges here.
    pub fn elements(&self, each: &mut dyn FnMut(&[&[u8]])) {
        for (kind, staged, edges) in self.all() {
            let kind = kind.name().as_bytes();
            let place: &[u8] = if staged { b"staged" } else { b"in place" };
            if staged && edges.counts().ids == 0 {
                each(&[kind, place]);
            }
            let mut joined = Vec::new();
            edges.each(&self.names, &mut |id, set| {
                let id = id.bytes(&mut joined);
                for tag in edges.set(set) {
                    each(&[kind, place, id, self.name(*tag)]);
                }
            });
        }
    }

    /// Iterates over all copies: the active copies, then the staged copies.
    pub(super) fn all(&self) -> impl Iterator<Item = (Tagged, bool, &Edges)> {
        let in_place = Tagged::ALL.into_iter().zip(&self.in_place);
        let staged = Tagged::ALL.into_iter().zip(&self.staged);
        let staged = staged.filter_map(|(kind, edges)| Some((kind, true, edges.as_ref()?)));
        in_place
            .map(|(kind, edges)| (kind, false, edges))
            .chain(staged)
    }
}

/// Compares contents. Takes time linear in the number of edges.
impl PartialEq for Index {
    fn eq(&self, other: &Index) -> bool {
        let figures =
            |index: &Index| Tagged::ALL.map(|kind| (index.counts(kind), index.staged(kind)));
        if figures(self) != figures(other) {
            return false;
        }
        // The counts are equal, so it suffices to check that one index contains the other.
        self.all()
            .zip(other.all())
            .all(|((_, _, own), (_, _, others))| {
                let (mut same, mut joined) = (true, Vec::new());
                own.each(&self.names, &mut |id, set| {
                    if !same {
                        return;
                    }
                    let id = id.bytes(&mut joined);
                    let theirs = others.set(others.set_of(&other.names, id));
                    let mine = own.set(set);
                    same = mine.len() == theirs.len()
                        && mine.iter().all(|tag| {
                            let tag = other.tag(self.name(*tag));
                            tag.is_some_and(|tag| theirs.binary_search(&tag).is_ok())
                        });
                });
                same
            })
    }
}

impl Eq for Index {}

impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut list = f.debug_list();
        self.elements(&mut |parts| {
            let parts: Vec<_> = parts
                .iter()
                .map(|part| part.escape_ascii().to_string())
                .collect();
            list.entry(&parts.join(" | "));
        });
        list.finish()
    }
}
