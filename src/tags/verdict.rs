//! Caches that speed up testing many captures: the tags that each rule derives from a part of a
//! field, and the verdict of a condition on each tag.
//!
//! The caches identify tags by name, so they do not depend on the numbers in a space. A change of a
//! tag's edges invalidates only the verdicts on that tag and on its carriers. The next filter
//! computes these verdicts again.

use std::sync::Arc;

use crawlspace_cdx::{Field, Line};
use hashbrown::HashMap;
use smallvec::SmallVec;

use super::condition::{Condition, Mask};
use super::index::Tagged;
use super::names::{ids_of_record, names_of_file};
use super::rule::Rules;
use super::view::View;

/// Numbers of the tags that a rule derives from a part.
type Given = SmallVec<[u32; 2]>;

/// Numbers of the direct tags of a capture.
type Direct = SmallVec<[u32; 8]>;

/// Maximum number of cached conditions.
const MAX_CONDITIONS: usize = 8;

/// Maximum number of parts of a condition whose verdicts stay cached after a batch. The verdicts of
/// larger conditions are dropped to save memory.
const MAX_PARTS: usize = 1 << 14;

/// Minimum capacity of a cache, both in tags and in parts of fields. A cache that exceeds its
/// capacity is emptied.
const ROOM: usize = 1 << 16;

/// Maximum length of a cached part of a field, in bytes.
const PART_BYTES: usize = 256;

/// The cache of one thread for a space.
#[derive(Debug, Default)]
pub struct Cache {
    /// The version of the space up to which the cache is valid.
    pub(super) version: u64,
    names: Vec<Box<[u8]>>,
    by_name: HashMap<Box<[u8]>, u32>,
    rules: Option<Arc<Rules>>,
    /// The tags that each rule derives from parts of its field.
    given: Vec<Parts>,
    parts: usize,
    verdicts: Vec<(Arc<Condition>, Verdicts)>,
}

/// The tags that a rule derives from parts of its field. Short parts, such as collection numbers,
/// are stored in the table itself, so that the table fits into the CPU cache and a look-up follows
/// no pointer.
#[derive(Debug, Default)]
struct Parts {
    short: HashMap<u64, One>,
    long: HashMap<Box<[u8]>, One>,
    /// Lists of tags for the parts with no tag or with several tags.
    lists: Vec<Given>,
}

/// The tags of a part. An even value is twice the number of the only tag. An odd value is twice the
/// index of a list, plus one.
type One = u32;

impl Parts {
    #[inline]
    fn of(&self, part: &[u8], into: &mut Direct) -> bool {
        let found = match packed(part) {
            Some(part) => self.short.get(&part),
            None => self.long.get(part),
        };
        match found {
            None => return false,
            Some(one) if one % 2 == 0 => into.push(one / 2),
            Some(list) => into.extend_from_slice(&self.lists[*list as usize / 2]),
        }
        true
    }

    fn set(&mut self, part: &[u8], tags: Given) {
        let one = match tags[..] {
            [tag] => tag * 2,
            _ => {
                self.lists.push(tags);
                self.lists.len() as u32 * 2 - 1
            }
        };
        match packed(part) {
            Some(part) => self.short.insert(part, one),
            None => self.long.insert(part.into(), one),
        };
    }
}

/// Packs up to 7 bytes and their length into a number.
#[inline]
fn packed(part: &[u8]) -> Option<u64> {
    let len = part.len();
    let bytes = match (part.first_chunk(), part.last_chunk()) {
        // Read two words that may overlap, because copying a variable length is slower.
        (Some(&first), Some(&last)) if len <= 7 => {
            let [first, last] = [first, last].map(u32::from_le_bytes).map(u64::from);
            first | last << (8 * (len - 4))
        }
        (None, _) => part.iter().rev().fold(0, |all, &b| all << 8 | u64::from(b)),
        _ => return None,
    };
    Some(bytes | (len as u64) << 56)
}

/// The verdicts of a condition on tags.
#[derive(Debug)]
struct Verdicts {
    none: Verdict,
    /// Verdicts by tag number, each on a capture that has only this tag and the tags that this tag carries.
    alone: Vec<Verdict>,
    masks: Vec<Mask>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Unknown,
    Passes,
    Fails,
}

impl Verdicts {
    /// Initializes the answers for a tag with those that follow from the name of the tag.
    fn begin(&mut self, tag: usize, condition: &Condition, name: &[u8]) {
        if self.alone.len() <= tag {
            self.alone.resize(tag + 1, Verdict::Unknown);
            self.masks.resize(tag + 1, Mask::new());
        }
        self.masks[tag] = condition.mask(std::iter::once(name));
    }

    /// Adds the answers for a carried tag to the answers for its carrier.
    fn add(&mut self, carrier: usize, carried: usize) {
        let mask = std::mem::take(&mut self.masks[carried]);
        for (word, more) in self.masks[carrier].iter_mut().zip(&mask) {
            *word |= more;
        }
        self.masks[carried] = mask;
    }
}

impl Verdict {
    fn of(passes: bool) -> Verdict {
        if passes {
            Verdict::Passes
        } else {
            Verdict::Fails
        }
    }
}

impl Cache {
    /// Creates an empty cache that is valid up to this version.
    pub(super) fn of_version(version: u64) -> Cache {
        Cache {
            version,
            ..Cache::default()
        }
    }

    /// Ends the use of a condition for a batch. Drops a condition with many parts to save memory.
    pub fn end_use(&mut self, condition: &Arc<Condition>) {
        if condition.parts() > MAX_PARTS {
            self.verdicts.retain(|(of, _)| !Arc::ptr_eq(of, condition));
        }
    }

    /// Invalidates the verdicts on this tag.
    pub fn invalidate(&mut self, tag: &[u8]) {
        if let Some(&number) = self.by_name.get(tag) {
            for (_, verdicts) in &mut self.verdicts {
                if let Some(verdict) = verdicts.alone.get_mut(number as usize) {
                    *verdict = Verdict::Unknown;
                }
            }
        }
    }

    /// Invalidates all verdicts.
    pub fn invalidate_verdicts(&mut self) {
        self.verdicts.clear();
    }

    /// Returns the approximate memory use in bytes.
    pub fn bytes(&self) -> usize {
        let verdicts: usize = self.verdicts.iter().map(|(_, v)| v.alone.len() * 25).sum();
        // A name is stored twice and a part once, each with a length and a table slot.
        self.names.len() * 120 + self.parts * 80 + verdicts
    }

    /// Prepares the cache for the current state of a space.
    fn ready(&mut self, view: &View) {
        let same = self
            .rules
            .as_ref()
            .is_some_and(|rules| Arc::ptr_eq(rules, &view.rules));
        let room = ROOM.max(2 * view.index.tag_count() as usize);
        if !same || self.names.len() > room || self.parts > room {
            *self = Cache {
                rules: Some(view.rules.clone()),
                given: view.rules.iter().map(|_| Parts::default()).collect(),
                ..Cache::of_version(self.version)
            };
        }
    }

    fn number(&mut self, tag: &[u8]) -> u32 {
        if let Some(&number) = self.by_name.get(tag) {
            return number;
        }
        let number = self.names.len() as u32;
        self.names.push(tag.into());
        self.by_name.insert(tag.into(), number);
        number
    }
}

/// Tests captures against a condition.
pub struct Judge<'a> {
    view: &'a View,
    condition: &'a Arc<Condition>,
    cache: &'a mut Cache,
    verdicts: Verdicts,
    has_records: bool,
    has_files: bool,
    direct: Direct,
    record: Vec<u8>,
}

impl<'a> Judge<'a> {
    /// Creates a judge for one batch.
    pub fn new(view: &'a View, condition: &'a Arc<Condition>, cache: &'a mut Cache) -> Judge<'a> {
        cache.ready(view);
        let known = cache
            .verdicts
            .iter()
            .position(|(of, _)| Arc::ptr_eq(of, condition));
        let verdicts = match known {
            Some(at) => cache.verdicts.remove(at).1,
            None => Verdicts {
                none: Verdict::of(condition.tags_pass(&condition.no_tags())),
                alone: Vec::new(),
                masks: Vec::new(),
            },
        };
        Judge {
            has_records: view.index.counts(Tagged::Record).ids > 0,
            has_files: view.index.counts(Tagged::File).ids > 0,
            view,
            condition,
            cache,
            verdicts,
            direct: Direct::new(),
            record: Vec::new(),
        }
    }

    /// Returns true if a capture passes.
    pub fn passes(&mut self, line: &Line<'_>) -> bool {
        if !self.condition.asks_of_tags() {
            return self.verdicts.none == Verdict::Passes
                && (!self.condition.asks_of_line()
                    || self.condition.line_passes(&self.condition.no_tags(), line));
        }
        self.collect(line);
        let passes = match self.direct[..] {
            [] => self.verdicts.none == Verdict::Passes,
            [tag] => self.alone(tag) == Verdict::Passes,
            _ => self.condition.tags_pass(&self.mask()),
        };
        passes
            && (!self.condition.asks_of_line() || {
                let mask = self.mask();
                self.condition.line_passes(&mask, line)
            })
    }

    /// Collects the direct tags of a capture.
    fn collect(&mut self, line: &Line<'_>) {
        self.direct.clear();
        if self.has_records {
            self.record.clear();
            line.record_id(&mut self.record);
            let index = &self.view.index;
            for id in ids_of_record(&mut self.record) {
                for &tag in index.tags_of(Tagged::Record, id) {
                    self.direct.push(self.cache.number(index.name(tag)));
                }
            }
        }
        if self.has_files {
            let filename = line.filename();
            for name in names_of_file(&filename) {
                for &tag in self.view.index.tags_of(Tagged::File, name) {
                    let number = self.cache.number(self.view.index.name(tag));
                    self.direct.push(number);
                }
            }
        }
        for (n, rule) in self.view.rules.iter().enumerate() {
            let value = match rule.field() {
                Field::Filename => Some(line.filename()),
                field => line.field(field),
            };
            let Some(value) = value else { continue };
            // If the line has no such column, the value is `-` or empty, and the rule derives no
            // tags.
            if value.len() <= 1 && !line.has(rule.field()) {
                continue;
            }
            if let Some(part) = rule.part(&value)
                && !self.cache.given[n].of(part, &mut self.direct)
            {
                self.learn(n, part);
            }
        }
    }

    #[cold]
    fn learn(&mut self, rule: usize, part: &[u8]) {
        let mut tags = Given::new();
        if let Some(rule) = self.view.rules.iter().nth(rule) {
            rule.tags_of_part(part, &mut |tag| tags.push(self.cache.number(tag)));
        }
        self.direct.extend_from_slice(&tags);
        if part.len() <= PART_BYTES {
            self.cache.parts += 1;
            self.cache.given[rule].set(part, tags);
        }
    }

    fn alone(&mut self, tag: u32) -> Verdict {
        match self.verdicts.alone.get(tag as usize) {
            Some(&verdict) if verdict != Verdict::Unknown => verdict,
            _ => self.judge(tag),
        }
    }

    /// Computes the verdicts on a tag and on all tags that it carries. Computes each verdict only
    /// once, because chains of tags may be long and are often shared.
    #[cold]
    fn judge(&mut self, tag: u32) -> Verdict {
        let index = &self.view.index;
        // Tags on the current path, each with the number of its carried tags that were already
        // visited.
        let mut way = vec![(tag, 0)];
        while let Some((tag, looked_at)) = way.pop() {
            let at = tag as usize;
            let id = index.tag(&self.cache.names[at]);
            let carried = id.map_or(&[][..], |id| index.carried(id));
            if looked_at == 0 {
                self.verdicts
                    .begin(at, self.condition, &self.cache.names[at]);
            }
            let Some(&next) = carried.get(looked_at) else {
                let passes = self.condition.tags_pass(&self.verdicts.masks[at]);
                self.verdicts.alone[at] = Verdict::of(passes);
                if let Some(&(carrier, _)) = way.last() {
                    self.verdicts.add(carrier as usize, at);
                }
                continue;
            };
            way.push((tag, looked_at + 1));
            let next = self.cache.number(index.name(next));
            match self.verdicts.alone.get(next as usize) {
                Some(&known) if known != Verdict::Unknown => self.verdicts.add(at, next as usize),
                _ => way.push((next, 0)),
            }
        }
        self.verdicts.alone[tag as usize]
    }

    /// Returns true if a capture with only this tag, and the tags that it carries, passes the tests
    /// of tags.
    pub fn tag_passes(&mut self, tag: &[u8]) -> bool {
        let number = self.cache.number(tag);
        self.alone(number) == Verdict::Passes
    }

    /// Returns the answers for the capture whose tags were collected last.
    fn mask(&mut self) -> Mask {
        let mut all = self.condition.no_tags();
        for n in 0..self.direct.len() {
            let tag = self.direct[n];
            self.alone(tag);
            for (word, more) in all.iter_mut().zip(&self.verdicts.masks[tag as usize]) {
                *word |= more;
            }
        }
        all
    }
}

impl Drop for Judge<'_> {
    fn drop(&mut self) {
        if self.cache.verdicts.len() >= MAX_CONDITIONS {
            self.cache.verdicts.remove(0);
        }
        let none = self.verdicts.none;
        let verdicts = std::mem::replace(
            &mut self.verdicts,
            Verdicts {
                none,
                alone: Vec::new(),
                masks: Vec::new(),
            },
        );
        self.cache.verdicts.push((self.condition.clone(), verdicts));
    }
}
