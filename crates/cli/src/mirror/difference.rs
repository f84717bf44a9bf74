//! Differences between a source and its tag space.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Error;
use super::row::Row;
use crawlspace_client::tags::{Kind, TagSpace};
use crawlspace_client::{as_optional_text, as_text};

/// Differences between a source and the space. Both are held in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// Ids with different tags, sorted.
    pub changes: Vec<TagChange>,
    /// Number of ids with equal tags.
    pub same: u64,
}

/// An id with different tags in source and space.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TagChange {
    /// The id.
    #[serde(serialize_with = "as_text")]
    pub id: Vec<u8>,
    /// Tags in the space, separated by spaces; `None` if the space does not have the id.
    #[serde(serialize_with = "as_optional_text")]
    pub old: Option<Vec<u8>>,
    /// Tags in the source; `None` if the source does not have the id.
    #[serde(serialize_with = "as_optional_text")]
    pub new: Option<Vec<u8>>,
}

/// Rows of a source, by id.
#[derive(Default)]
pub(super) struct Rows(BTreeMap<Vec<u8>, Row>);

impl Rows {
    pub(crate) fn take(&mut self, row: Row) {
        if row.tags.is_empty() {
            return;
        }
        match self.0.get_mut(&row.id) {
            Some(known) => known.unite(row),
            None => {
                self.0.insert(row.id.clone(), row);
            }
        }
    }

    /// Compares the rows with the space.
    pub(crate) fn compare(self, space: &TagSpace, kind: Kind) -> Result<Difference, Error> {
        // A scan may return an id twice.
        let mut there = BTreeMap::new();
        let mut cursor = 0;
        loop {
            let page = space.scan(kind, cursor, b"", Some(1000))?;
            there.extend(page.items);
            cursor = page.next;
            if cursor == 0 {
                break;
            }
        }
        Ok(self.against(there))
    }

    fn against(self, mut there: BTreeMap<Vec<u8>, Vec<u8>>) -> Difference {
        let mut difference = Difference::default();
        for (id, row) in self.0 {
            let (old, new) = (there.remove(&id), Some(row.joined()));
            if old == new {
                difference.same += 1;
            } else {
                difference.changes.push(TagChange { id, old, new });
            }
        }
        let gone = there.into_iter().map(|(id, old)| TagChange {
            id,
            old: Some(old),
            new: None,
        });
        difference.changes.extend(gone);
        difference.changes.sort_by(|a, b| a.id.cmp(&b.id));
        difference
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_added_removed_changed_or_unchanged() {
        let mut rows = Rows::default();
        for (id, tags) in [("a", "x"), ("b", "y"), ("a", "w"), ("c", "z"), ("none", "")] {
            rows.take(Row::of_text(Kind::Tag, id.as_bytes(), tags.as_bytes()).unwrap());
        }
        let there = [("b", "y"), ("c", "v z"), ("d", "u")];
        let there = there.map(|(id, tags)| (id.as_bytes().to_vec(), tags.as_bytes().to_vec()));
        let difference = rows.against(there.into_iter().collect());
        assert_eq!(difference.same, 1);
        let changes: Vec<_> = difference
            .changes
            .iter()
            .map(|TagChange { id, old, new }| {
                let text = |tags: &Option<Vec<u8>>| {
                    let tags = tags.as_deref().unwrap_or(b"-");
                    String::from_utf8_lossy(tags).into_owned()
                };
                let id = String::from_utf8_lossy(id);
                format!("{id}: {} -> {}", text(old), text(new))
            })
            .collect();
        assert_eq!(changes, ["a: - -> w x", "c: v z -> z", "d: u -> -"]);
    }
}
