//! Decoder of the chunks that [`super::encoding`] describes.
//!
//! All input is checked before it is used, because it may come from a damaged file or from any
//! client with permission to run `RESTORE`.

use std::borrow::Cow;
use std::collections::HashSet;

use super::change::{EdgeChange, check_id, check_tag};
use super::edges::Edges;
use super::encoding::STAGED;
use super::record::{Parts, TIMESTAMPS};
use super::{ID_BYTES, Index, MAX_TAGS, TAG_BYTES, TagId, Tagged};
use crawlspace_compact::number::{Malformed, Reader};

/// Maximum number of tags that a chunk may add to existing ids. Each resulting set must be built;
/// without this limit, a few bytes could require a large number of large sets.
const MAX_MERGED: usize = 1 << 22;

impl Index {
    /// Adds the contents of a chunk. The closure of any tag may change.
    ///
    /// # Errors
    /// If the chunk is malformed or cannot be applied, returns a description of the problem and
    /// leaves the index unchanged.
    pub fn load_chunk(&mut self, chunk: &[u8]) -> Result<(), String> {
        let chunk =
            Chunk::read(chunk).map_err(|Malformed(what)| format!("a chunk of tags {what}"))?;
        self.check_room(chunk.tags.len() + chunk.ids as usize)
            .map_err(|error| error.to_string())?;
        let at = chunk.kind as usize;
        let begun = self.staged[at].is_some();
        let edges = if !chunk.staged {
            &mut self.in_place[at]
        } else {
            self.staged[at].get_or_insert_with(|| Edges::new(chunk.kind))
        };
        let loaded = chunk.load(EdgeChange::new(&mut self.names, edges));
        if loaded.is_err() && chunk.staged && !begun {
            self.staged[at] = None;
        }
        self.settle(chunk.ids as u32);
        loaded
    }
}

/// A chunk that has been checked.
struct Chunk<'a> {
    kind: Tagged,
    staged: bool,
    tags: Vec<&'a [u8]>,
    /// The concatenated tags of all sets. `ends` contains the position at which each set ends.
    members: Vec<u32>,
    ends: Vec<usize>,
    files: Vec<&'a [u8]>,
    ids: u64,
    bytes: &'a [u8],
    /// Reader that starts at the first id.
    rest: Reader<'a>,
}

impl<'a> Chunk<'a> {
    fn read(bytes: &'a [u8]) -> Result<Chunk<'a>, Malformed> {
        let mut reader = Reader::new(bytes);
        let head = reader.byte()?;
        let staged = head & STAGED != 0;
        let kind = *Tagged::ALL
            .get(usize::from(head & !STAGED))
            .ok_or(Malformed("is of an unknown kind"))?;
        let tags = texts(&mut reader, TAG_BYTES)?;
        if tags.iter().any(|tag| check_tag(tag).is_err()) {
            return Err(Malformed("has an invalid tag"));
        }
        let (mut members, mut ends) = (Vec::new(), Vec::new());
        for _ in 0..reader.number_to(u32::MAX.into())? {
            let len = reader.number_to(MAX_TAGS as u64)?;
            let mut next = 0;
            for _ in 0..len {
                let tag = next + reader.number_to(u32::MAX.into())?;
                if tag >= tags.len() as u64 {
                    return Err(Malformed("has an unknown tag"));
                }
                members.push(tag as u32);
                next = tag + 1;
            }
            if len == 0 {
                return Err(Malformed("has an empty set of tags"));
            }
            ends.push(members.len());
        }
        let files = match kind {
            Tagged::Record => texts(&mut reader, ID_BYTES)?,
            _ => Vec::new(),
        };
        let ids = reader.number_to(u32::MAX.into())?;
        if ids == 0 && !staged {
            return Err(Malformed("has no ids"));
        }
        let rest = reader;
        let chunk = Chunk {
            kind,
            staged,
            tags,
            members,
            ends,
            files,
            ids,
            bytes,
            rest,
        };
        for _ in 0..ids {
            chunk.id(&mut reader)?;
        }
        reader.end()?;
        Ok(chunk)
    }

    /// Reads an id and the number of its set.
    fn id(&self, reader: &mut Reader<'a>) -> Result<(Cow<'a, [u8]>, usize), Malformed> {
        let set = reader.number_to(u32::MAX.into())? as usize;
        if set >= self.ends.len() {
            return Err(Malformed("has an unknown set of tags"));
        }
        let file = match self.kind {
            Tagged::Record => reader.number_to(self.files.len() as u64)?,
            _ => 0,
        };
        if file == 0 {
            let id = reader.text(ID_BYTES)?;
            let in_parts = self.kind == Tagged::Record && Parts::of(id).is_some();
            if in_parts || check_id(self.kind, id).is_err() {
                return Err(Malformed("has an invalid id"));
            }
            return Ok((id.into(), set));
        }
        let parts = Parts {
            timestamp: reader.number_to(TIMESTAMPS - 1)?,
            offset: reader.number_to(i64::MAX as u64)?,
            urlkey: reader.text(ID_BYTES)?,
            filename: self.files[file as usize - 1],
        };
        let mut id = Vec::with_capacity(parts.urlkey.len() + parts.filename.len() + 40);
        parts.join(&mut id);
        if id.len() > ID_BYTES || Parts::of(&id) != Some(parts) {
            return Err(Malformed("has an invalid id"));
        }
        Ok((id.into(), set))
    }

    fn load(&self, mut change: EdgeChange<'_>) -> Result<(), String> {
        let numbers: Vec<TagId> = self
            .tags
            .iter()
            .map(|tag| change.names.number(tag))
            .collect();
        // For each set, its tags in the order of their numbers in the index, and the number of the
        // set in the index.
        let mut sets: Vec<(Vec<TagId>, u32)> = Vec::new();
        let mut start = 0;
        for &end in &self.ends {
            let tags = self.members[start..end].iter();
            let mut tags: Vec<_> = tags.map(|&tag| numbers[tag as usize]).collect();
            tags.sort_unstable();
            let set = change.edges.hold(change.names, &tags);
            sets.push((tags, set));
            start = end;
        }
        let loaded = self.load_ids(&mut change, &sets);
        for &(_, set) in &sets {
            change.edges.release(change.names, set);
        }
        match loaded {
            Ok(()) => {
                change.keep();
            }
            Err(_) => change.undo(|at| self.id_at(at)),
        }
        loaded
    }

    fn load_ids(
        &self,
        change: &mut EdgeChange<'_>,
        sets: &[(Vec<TagId>, u32)],
    ) -> Result<(), String> {
        let mut reader = self.rest;
        let mut merged = 0;
        let mut ids = Vec::new();
        for _ in 0..self.ids {
            let at = reader.at();
            let Ok((id, set)) = self.id(&mut reader) else {
                break;
            };
            let (tags, set) = &sets[set];
            let old = change.note(at, &id);
            if old == 0 {
                change.edges.place(change.names, &id, *set);
            } else if old != *set {
                merged += tags.len() + change.edges.set(old).len();
                if merged > MAX_MERGED {
                    return Err(
                        "a chunk of tags adds too many tags to ids that already have tags"
                            .to_string(),
                    );
                }
                let added = change.merge_numbers(&id, tags);
                added.map_err(|error| error.to_string())?;
            }
            if self.kind == Tagged::Tag {
                ids.push(id);
            }
        }
        let ids = ids.iter().map(|id| &**id).collect();
        change.check_cycles(ids).map_err(|error| error.to_string())
    }

    /// Returns the id at a position where an id was read before.
    fn id_at(&self, at: usize) -> Cow<'a, [u8]> {
        match self.id(&mut Reader::from(self.bytes, at)) {
            Ok((id, _)) => id,
            Err(Malformed(_)) => Cow::Borrowed(b""),
        }
    }
}

/// Reads a count, and then that number of distinct strings.
fn texts<'a>(reader: &mut Reader<'a>, longest: usize) -> Result<Vec<&'a [u8]>, Malformed> {
    let mut seen = HashSet::new();
    let mut texts = Vec::new();
    for _ in 0..reader.number_to(u32::MAX.into())? {
        let text = reader.text(longest)?;
        if !seen.insert(text) {
            return Err(Malformed("contains a string twice"));
        }
        texts.push(text);
    }
    Ok(texts)
}
