//! Elements of a frontier that move to the other storage during a storage conversion.
//!
//! For each moved element, the log contains an entry with the name of the element, and a replica moves the
//! same element of its own keys.

use crawlspace_compact::number::Malformed;
use crawlspace_host::keyspace::{Keyspace, Result};
use crawlspace_host::text::parse_unsigned;

use super::super::group::{FIELD_NAMES, FIELDS};
use super::super::keys::Names;
use super::super::store::Store;
use super::keys::{Packed, Value, number_text};
use super::log::{Entries, Kind, Log};
use super::moved::Moving;
use super::name::Name;

/// Prefix of the names of the documented keys during a storage conversion.
pub const MOVING: &[u8] = b"chg_moving:";

/// Maximum number of executions to which an element refers.
pub(super) const SOME: usize = 32;

/// An element of a frontier. Keys are given by their names after the prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element<'a> {
    /// A group with its URIs and its positions in the ordered queues.
    Group(&'a [u8]),
    /// A part of the URIs of a large packed group, which is prepared for the new storage.
    Part(&'a [u8]),
    /// Entries of a large packed group in the lists of some executions, starting at the execution with
    /// this number.
    Listed(&'a [u8], u64),
    /// The head of a list: key, maximum number of elements.
    Head(&'a [u8], u64),
    /// A field of a hash: key, field.
    Field(&'a [u8], &'a [u8]),
    /// A member of a sorted set: key, member.
    Member(&'a [u8], &'a [u8]),
    /// A number: key.
    Number(&'a [u8]),
}

impl<'a> Element<'a> {
    /// Appends an entry for the move of this element.
    pub(super) fn write(&self, log: &mut Log) {
        let log = log.begin(Kind::Move);
        match *self {
            Element::Group(id) => log.number(0).name(id),
            Element::Part(id) => log.number(1).name(id),
            Element::Listed(id, from) => log.number(2).name(id).number(from),
            Element::Head(key, n) => log.number(3).bytes(key).number(n),
            Element::Field(key, field) => log.number(4).bytes(key).bytes(field),
            Element::Member(key, member) => log.number(5).bytes(key).bytes(member),
            Element::Number(key) => log.number(6).bytes(key),
        };
    }

    /// Reads the rest of an entry.
    pub(super) fn read(entries: &mut Entries<'a>) -> std::result::Result<Element<'a>, Malformed> {
        Ok(match entries.from.number()? {
            0 => Element::Group(entries.name()?),
            1 => Element::Part(entries.name()?),
            2 => Element::Listed(entries.name()?, entries.from.number()?),
            3 => Element::Head(entries.from.bytes()?, entries.from.number()?),
            4 => Element::Field(entries.from.bytes()?, entries.from.bytes()?),
            5 => Element::Member(entries.from.bytes()?, entries.from.bytes()?),
            6 => Element::Number(entries.from.bytes()?),
            _ => return Err(Malformed("moves an unknown kind of element")),
        })
    }
}

/// Moves elements between a packed frontier and its plain keys.
pub trait Carrier {
    /// Moves an element in the direction of the conversion.
    fn bring(&mut self, packed: &mut Packed, element: &Element<'_>);
}

/// Names of the plain keys of a frontier during a storage conversion.
pub struct PlainNames<N> {
    pub(super) prefix: Box<[u8]>,
    /// The keys that exist once.
    pub(super) once: Names<N>,
    /// Fields of the hash of a group.
    pub(super) fields: [N; FIELDS],
}

impl<N> PlainNames<N> {
    /// Returns the names in a key space.
    pub fn new<K: Keyspace<Name = N>>(ks: &mut K, prefix: &[u8]) -> PlainNames<N> {
        let once = Names::of(|row| {
            let moving = if row.documented { MOVING } else { b"" };
            ks.name(&[prefix, moving, row.name.as_bytes()])
        });
        PlainNames {
            prefix: prefix.into(),
            once,
            fields: FIELD_NAMES.map(|field| ks.name(&[field])),
        }
    }
}

/// The plain keys of a frontier during a storage conversion.
pub struct Plain<'a, K: Store> {
    /// The key space.
    pub ks: &'a mut K,
    /// The names of the keys.
    pub names: &'a PlainNames<K::Name>,
}

impl<K: Store> Carrier for Plain<'_, K> {
    fn bring(&mut self, packed: &mut Packed, element: &Element<'_>) {
        // Ignore errors: the same error had the same effect on the master.
        let _ = self.try_to_bring(packed, element);
    }
}

impl<K: Store> Plain<'_, K> {
    /// Returns the name of a key of a group, gate or execution.
    pub(super) fn key(&mut self, before: &[u8], id: &[u8]) -> K::Name {
        self.ks.name(&[&self.names.prefix, before, id])
    }

    /// Returns the name of a key, given by its name after the prefix.
    pub(super) fn named(&mut self, key: &[u8]) -> K::Name {
        let prefix = &*self.names.prefix;
        if Name::new(&[prefix, key]).has_marker() {
            self.ks.name(&[prefix, MOVING, key])
        } else {
            self.ks.name(&[prefix, key])
        }
    }

    /// Moves an element as [`Plain::try_to_bring`] does, and logs the move.
    ///
    /// # Errors
    /// Any server error.
    pub fn bring_logged(&mut self, packed: &mut Packed, element: &Element<'_>) -> Result<u64> {
        let moved = self.try_to_bring(packed, element);
        if moved != Ok(0) || matches!(element, Element::Part(_) | Element::Listed(..)) {
            packed.log_move(element);
        }
        moved
    }

    /// Moves an element in the direction of the conversion, unless the target storage already contains the
    /// element. Returns the number of moved elements or, for [`Element::Listed`], the number to continue
    /// from (0 at the end). Logs nothing.
    ///
    /// # Errors
    /// Any server error.
    pub fn try_to_bring(&mut self, packed: &mut Packed, element: &Element<'_>) -> Result<u64> {
        let enters = match packed.moving() {
            Moving::No => return Ok(0),
            Moving::In => true,
            Moving::Out => false,
        };
        match *element {
            Element::Group(id) if packed.holds(id) == enters => Ok(0),
            Element::Group(id) if enters => self.pack(packed, id).map(u64::from),
            Element::Group(id) => self.unpack(packed, id).map(|()| 1),
            Element::Part(id) => Ok(u64::from(!packed.translate(id))),
            Element::Listed(id, from) => self.list(packed, id, from),
            Element::Head(key, n) => self.bring_head(packed, key, n, enters),
            Element::Field(key, field) if enters => self.field_enters(packed, key, field),
            Element::Field(key, field) => self.field_leaves(packed, key, field),
            Element::Member(key, member) if enters => {
                let name = self.named(key);
                let Some(score) = self.ks.zset_score(&name, member)? else {
                    return Ok(0);
                };
                packed.small.score(key, member, as_stored(score));
                self.ks.zset_del(&name, member)?;
                Ok(1)
            }
            Element::Member(key, member) => {
                let sorted = packed.small.sorted.get(key);
                let Some(score) = sorted.and_then(|sorted| sorted.score(member)) else {
                    return Ok(0);
                };
                let name = self.named(key);
                self.ks.zset_add(&name, member, score)?;
                packed.small.unscore(key, member);
                Ok(1)
            }
            Element::Number(key) if enters => {
                let name = self.named(key);
                if !self.ks.exists(&name) {
                    return Ok(0);
                }
                let n = self.ks.number(&name)?;
                packed.small.numbers.insert(key.into(), n);
                self.ks.delete(&name)?;
                Ok(1)
            }
            Element::Number(key) => {
                let Some(&n) = packed.small.numbers.get(key) else {
                    return Ok(0);
                };
                let name = self.named(key);
                self.ks.number_set(&name, n)?;
                packed.small.delete(key);
                Ok(1)
            }
        }
    }

    /// Moves elements at the head of a list.
    fn bring_head(
        &mut self,
        packed: &mut Packed,
        key: &[u8],
        most: u64,
        enters: bool,
    ) -> Result<u64> {
        let (name, is_ready) = (self.named(key), key == b"chg_ready");
        let mut moved = 0;
        while moved < most {
            if enters {
                let Some(element) = self.ks.list_take(&name, 0)? else {
                    break;
                };
                if is_ready {
                    packed.push_ready(element.as_ref());
                } else {
                    packed.small.append(key, element.as_ref());
                }
            } else {
                let head = if is_ready {
                    let head = packed.ready.at(0);
                    head.map(|(_, slot)| Value::from_slice(packed.groups.id(slot)))
                } else {
                    let list = packed.small.lists.get(key);
                    list.and_then(|list| list.get(0)).map(Value::from_slice)
                };
                let Some(head) = head else { break };
                self.ks.list_push(&name, &head)?;
                if is_ready {
                    packed.take_ready(0);
                } else {
                    packed.small.remove(key, 0);
                }
            }
            moved += 1;
        }
        Ok(moved)
    }

    fn field_enters(&mut self, packed: &mut Packed, key: &[u8], field: &[u8]) -> Result<u64> {
        let name = self.named(key);
        let Some(value) = self.ks.hash_get(&name, field)? else {
            return Ok(0);
        };
        if key == b"EIDC" {
            // A packed frontier computes the total from the counts.
            let n = parse_unsigned(value.as_ref()).unwrap_or(0);
            let room = i64::MAX as u64 - packed.executions.total();
            packed.executions.set_queued(field, n.min(room));
            self.ks
                .number_add(&self.names.once.total, -(n.min(room) as i64))?;
        } else {
            packed.small.set(key, field, value.as_ref());
        }
        self.ks.hash_del(&name, field)?;
        Ok(1)
    }

    fn field_leaves(&mut self, packed: &mut Packed, key: &[u8], field: &[u8]) -> Result<u64> {
        let name = self.named(key);
        if key == b"EIDC" {
            let Some(n) = packed.executions.queued(field) else {
                return Ok(0);
            };
            self.ks.hash_set(&name, field, &number_text(n))?;
            packed.executions.set_queued(field, 0);
            self.ks.number_add(&self.names.once.total, n as i64)?;
            return Ok(1);
        }
        let hash = packed.small.hashes.get(key);
        let Some(value) = hash.and_then(|hash| hash.get(field)) else {
            return Ok(0);
        };
        self.ks.hash_set(&name, field, value)?;
        packed.small.unset(key, field);
        Ok(1)
    }
}

/// Converts a score of a sorted set to the form that a packed frontier stores. Only plain clients write
/// scores in other forms.
pub(super) fn as_stored(score: f64) -> f64 {
    score.clamp(0.0, f64::MAX)
}
