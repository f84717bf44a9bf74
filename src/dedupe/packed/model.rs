//! A model of a packed index that consists of plain maps.

use std::collections::BTreeMap;

use super::Part;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// The plain hashes that a packed index replaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Model {
    pub owners: Map,
    /// Records by crawl; crawls without records have no entry.
    pub records: BTreeMap<Vec<u8>, Map>,
    pub holders: Map,
}

impl Model {
    pub fn part(&self, part: Part<'_>) -> Option<&Map> {
        match part {
            Part::Owners => Some(&self.owners),
            Part::Records(crawl) => self.records.get(crawl),
            Part::Holders => Some(&self.holders),
        }
    }

    pub fn get(&self, part: Part<'_>, field: &[u8]) -> Option<&[u8]> {
        Some(self.part(part)?.get(field)?)
    }

    pub fn set(&mut self, part: Part<'_>, field: &[u8], value: &[u8]) -> bool {
        let part = match part {
            Part::Owners => &mut self.owners,
            Part::Records(crawl) => self.records.entry(crawl.to_vec()).or_default(),
            Part::Holders => &mut self.holders,
        };
        part.insert(field.to_vec(), value.to_vec()).is_none()
    }

    pub fn put_new(&mut self, crawl: &[u8], field: &[u8], record: &[u8]) -> bool {
        self.set(Part::Records(crawl), field, record);
        let is_new = !self.owners.contains_key(field);
        if is_new {
            self.owners.insert(field.to_vec(), crawl.to_vec());
        }
        is_new
    }

    pub fn del(&mut self, part: Part<'_>, field: &[u8]) -> bool {
        let crawl = match part {
            Part::Owners => return self.owners.remove(field).is_some(),
            Part::Holders => return self.holders.remove(field).is_some(),
            Part::Records(crawl) => crawl,
        };
        let Some(records) = self.records.get_mut(crawl) else {
            return false;
        };
        let was = records.remove(field).is_some();
        if records.is_empty() {
            self.records.remove(crawl);
        }
        was
    }
}
