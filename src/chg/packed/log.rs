//! The log of changes of a packed frontier, for replicas, append-only files and snapshots.
//!
//! A log is a sequence of entries, each a byte for its kind and then its operands. Numbers are varints
//! ([`crawlspace_compact::number`]), other bytes are preceded by their length. Ids of groups, and names of executions,
//! are written once per log and then by their position among the last ones.

use std::collections::VecDeque;

use crawlspace_compact::number::{Malformed, Reader, put, put_bytes};

use super::super::uris;
use super::super::uris::Op;

/// Number of names that entries can refer to.
const NAMES: usize = 8;

/// Kinds of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A group as a whole: id, record, counts by execution.
    Group,
    /// A change of the URIs of a group: id, change.
    Uris,
    /// The number of queued URIs of an execution: name, number.
    Queued,
    /// A group is appended to `chg_ready`: id.
    Push,
    /// A group leaves `chg_ready`: position.
    Take,
    /// A field of a hash is set: key, field, value.
    Set,
    /// A field of a hash is deleted: key, field.
    Unset,
    /// A member of a sorted set: key, member, score.
    Score,
    /// A member leaves a sorted set: key, member.
    Unscore,
    /// An element is appended to a list: key, element.
    Append,
    /// An element leaves a list: key, position.
    Remove,
    /// A number: key, number.
    Number,
    /// A key is deleted: key.
    Delete,
    /// A part of the URIs of a group, as in a file: id, chunk.
    Load,
    /// A group leaves for plain keys: id.
    Forget,
    /// A storage conversion begins or ends: number.
    Moving,
}

impl Kind {
    const ALL: [Kind; 16] = [
        Kind::Group,
        Kind::Uris,
        Kind::Queued,
        Kind::Push,
        Kind::Take,
        Kind::Set,
        Kind::Unset,
        Kind::Score,
        Kind::Unscore,
        Kind::Append,
        Kind::Remove,
        Kind::Number,
        Kind::Delete,
        Kind::Load,
        Kind::Forget,
        Kind::Moving,
    ];
}

/// A log that is being written.
#[derive(Clone, Debug, Default)]
pub(super) struct Log {
    pub bytes: Vec<u8>,
    names: VecDeque<Box<[u8]>>,
    /// The log has no reader, so nothing is written.
    pub is_off: bool,
    /// Set when an entry was begun.
    pub begun: bool,
}

impl Log {
    /// Begins an entry.
    pub fn begin(&mut self, kind: Kind) -> &mut Log {
        self.begun = true;
        if !self.is_off {
            self.bytes.push(kind as u8);
        }
        self
    }

    /// Appends the id of a group or the name of an execution.
    pub fn name(&mut self, name: &[u8]) -> &mut Log {
        if self.is_off {
            return self;
        }
        match self.names.iter().position(|known| **known == *name) {
            Some(at) => put(&mut self.bytes, (at as u64) << 1 | 1),
            None => {
                put(&mut self.bytes, (name.len() as u64) << 1);
                self.bytes.extend_from_slice(name);
                self.names.push_front(name.into());
                self.names.truncate(NAMES);
            }
        }
        self
    }

    /// Appends other bytes.
    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Log {
        if !self.is_off {
            put_bytes(&mut self.bytes, bytes);
        }
        self
    }

    /// Appends a number.
    pub fn number(&mut self, n: u64) -> &mut Log {
        if !self.is_off {
            put(&mut self.bytes, n);
        }
        self
    }

    /// Appends a change of URIs.
    pub fn change(&mut self, op: &Op<'_>) -> &mut Log {
        if self.is_off {
            return self;
        }
        let flag = u64::from;
        match *op {
            Op::Add {
                execution,
                weight,
                due,
                depth,
                attempts,
                uri,
            } => {
                self.number(0).name(execution).number(weight.unwrap_or(0));
                self.number(due)
                    .number(depth.into())
                    .number(attempts.into())
                    .bytes(uri)
            }
            Op::Take {
                token,
                execution,
                now,
            } => self.number(1).number(token).name(execution).number(now),
            Op::Done { token } => self.number(2).number(token),
            Op::Return { token, due, failed } => {
                self.number(3).number(token).number(flag(failed));
                self.number(due.map_or(0, |due| due + 1))
            }
            Op::Drop { execution, limit } => self.number(4).name(execution).number(limit),
            Op::Remove { execution, uri } => self.number(5).name(execution).bytes(uri),
            Op::Load { chunk } => self.number(6).bytes(chunk),
        }
    }

    /// Takes the bytes; the next entry begins another log.
    pub fn take(&mut self) -> Vec<u8> {
        self.names.clear();
        std::mem::take(&mut self.bytes)
    }
}

/// Reads a log, which may be malformed.
pub(super) struct Entries<'a> {
    pub from: Reader<'a>,
    names: VecDeque<&'a [u8]>,
}

const UNKNOWN: Malformed = Malformed("has an entry of unknown kind");
const NO_NAME: Malformed = Malformed("refers to a name that it does not have");

impl<'a> Entries<'a> {
    /// Creates a reader.
    pub fn new(log: &'a [u8]) -> Entries<'a> {
        Entries {
            from: Reader::new(log),
            names: VecDeque::new(),
        }
    }

    /// Reads the kind of the next entry; `None` at the end.
    pub fn kind(&mut self) -> Result<Option<Kind>, Malformed> {
        if self.from.is_empty() {
            return Ok(None);
        }
        let kind = Kind::ALL.get(usize::from(self.from.byte()?));
        kind.copied().map(Some).ok_or(UNKNOWN)
    }

    /// Reads the id of a group or the name of an execution.
    pub fn name(&mut self) -> Result<&'a [u8], Malformed> {
        let head = self.from.number()?;
        if head & 1 == 1 {
            return self.names.get((head >> 1) as usize).copied().ok_or(NO_NAME);
        }
        let len = head >> 1;
        if len == 0 || len > uris::EXECUTION_BYTES as u64 {
            return Err(Malformed("has a name of invalid length"));
        }
        let name = self.from.take(len as usize)?;
        self.names.push_front(name);
        self.names.truncate(NAMES);
        Ok(name)
    }

    /// Reads a change of URIs.
    pub fn change(&mut self) -> Result<Op<'a>, Malformed> {
        let to_u32 = |n: u64| u32::try_from(n).map_err(|_| Malformed::NUMBER);
        let integer = i64::MAX as u64;
        Ok(match self.from.number()? {
            0 => Op::Add {
                execution: self.name()?,
                weight: match self.from.number_to(uris::MAX_WEIGHT)? {
                    0 => None,
                    weight => Some(weight),
                },
                due: self.from.number_to(integer)?,
                depth: to_u32(self.from.number()?)?,
                attempts: to_u32(self.from.number()?)?,
                uri: self.from.text(uris::URI_BYTES)?,
            },
            1 => Op::Take {
                token: self.from.number_to(integer)?,
                execution: self.name()?,
                now: self.from.number_to(integer)?,
            },
            2 => Op::Done {
                token: self.from.number_to(integer)?,
            },
            3 => Op::Return {
                token: self.from.number_to(integer)?,
                failed: self.from.number_to(1)? == 1,
                due: self.from.number_to(integer)?.checked_sub(1),
            },
            4 => Op::Drop {
                execution: self.name()?,
                limit: self.from.number_to(integer)?,
            },
            5 => Op::Remove {
                execution: self.name()?,
                uri: self.from.text(uris::URI_BYTES)?,
            },
            _ => return Err(UNKNOWN),
        })
    }
}
