//! The log of changes of a packed frontier, for replicas and append-only files. Saved files consist of
//! the same entries.
//!
//! A log is a sequence of entries. Each entry is a byte for its kind, followed by its operands. Numbers
//! are varints ([`crawlspace_compact::number`]); other byte strings are preceded by their length. Three
//! kinds of operands are shorter:
//!
//! - the id of a group and the name of an execution are written in full once per log, and afterwards as a
//!   position in the list of the most recent names;
//! - the execution of the lease that began or ended last is written as a single zero byte;
//! - a time is written as the difference from the previous time, and a token as a time and its
//!   remaining digits.

use smallvec::SmallVec;

use crawlspace_compact::number::{Malformed, Reader, put, put_bytes};

use super::super::Token;
use super::super::time::{Millis, unzigzag, zigzag};
use super::super::uris;
use super::super::uris::{End, Op};

/// Number of recent names to which entries can refer.
const NAMES: usize = 8;

/// Initial capacity of a log, in bytes: enough for most commands.
const CAPACITY: usize = 256;

/// The name of an execution.
pub(super) type ExecutionName = SmallVec<[u8; 64]>;

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
    /// A group is removed from `chg_ready`: position.
    Take,
    /// A field of a hash is set: key, field, value.
    Set,
    /// A field of a hash is deleted: key, field.
    Unset,
    /// A member of a sorted set: key, member, score.
    Score,
    /// A member is removed from a sorted set: key, member.
    Unscore,
    /// An element is appended to a list: key, element.
    Append,
    /// An element is removed from a list: key, position.
    Remove,
    /// A number: key, number.
    Number,
    /// A key is deleted: key.
    Delete,
    /// A part of the URIs of a group, as in the file of a plain frontier: id, chunk.
    Load,
    /// An element moves to the other storage during a conversion: see [`super::element`].
    Move,
    /// A storage conversion begins or ends: number.
    Moving,
    /// A symbol table (only in files): number, table. The last table is the table for new groups.
    Table,
    /// An execution (only in files): number, name, number of queued URIs. A number that is not in use has no name.
    Execution,
    /// The end of the executions (only in files).
    Named,
    /// A group in the same form as in memory (only in files): block.
    Block,
    /// A part of the URIs of a group that are not in its block (only in files): id, encoding, flags, chunk.
    Stock,
    /// The end of a file.
    End,
    /// The secret key with which group ids are hashed: number.
    Seed,
    /// An execution is assigned to a space: execution, its number in the space, name of the space,
    /// shape, secret.
    Join,
    /// An execution is removed from its space: execution.
    Leave,
    /// The time, in units of ten minutes, of the changes of known URLs that follow.
    Clock,
    /// Known URLs: name of the space, records.
    Known,
    /// A URL is forgotten: name of the space, fingerprint.
    Unknown,
    /// The additional data of a queued or leased URL: name of the space, fingerprint, stored form
    /// of the URI and the payload.
    Extra,
    /// A group's limit of done URLs: execution, group, number (0 removes the limit).
    Limit,
    /// Counts of an execution in groups with a hash: execution, hash, number of URLs in each state.
    Tally,
    /// The texts of URLs that are neither queued nor leased (only in files): name of the space, texts.
    Text,
    /// The text of a URL that is neither queued nor leased: name of the space, fingerprint, group, key (empty
    /// if there is none), URI.
    Ended,
}

impl Kind {
    const ALL: [Kind; 33] = [
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
        Kind::Move,
        Kind::Moving,
        Kind::Table,
        Kind::Execution,
        Kind::Named,
        Kind::Block,
        Kind::Stock,
        Kind::End,
        Kind::Seed,
        Kind::Join,
        Kind::Leave,
        Kind::Clock,
        Kind::Known,
        Kind::Unknown,
        Kind::Extra,
        Kind::Limit,
        Kind::Tally,
        Kind::Text,
        Kind::Ended,
    ];
}

/// A log that is being written.
#[derive(Clone, Debug, Default)]
pub(super) struct Log {
    pub bytes: Vec<u8>,
    /// The names to which entries can refer, as ranges of the log, most recent first.
    names: SmallVec<[(u32, u32); NAMES]>,
    /// The last time.
    clock: Millis,
    /// The execution of the lease that began or ended last.
    leased: ExecutionName,
    /// True if the log has no reader. No entries are written then.
    pub is_off: bool,
    /// True once an entry was begun.
    pub begun: bool,
}

impl Log {
    /// Begins an entry.
    #[inline]
    pub fn begin(&mut self, kind: Kind) -> &mut Log {
        self.begun = true;
        if !self.is_off {
            if self.bytes.capacity() == 0 {
                self.bytes.reserve(CAPACITY);
            }
            self.bytes.push(kind as u8);
        }
        self
    }

    /// Appends the id of a group or the name of an execution.
    pub fn name(&mut self, name: &[u8]) -> &mut Log {
        if self.is_off {
            return self;
        }
        let known = |&(from, to): &(u32, u32)| self.bytes[from as usize..to as usize] == *name;
        match self.names.iter().position(known) {
            Some(at) => put(&mut self.bytes, (at as u64) << 1 | 1),
            None => {
                put(&mut self.bytes, (name.len() as u64) << 1);
                let from = self.bytes.len() as u32;
                self.bytes.extend_from_slice(name);
                self.names.truncate(NAMES - 1);
                self.names.insert(0, (from, self.bytes.len() as u32));
            }
        }
        self
    }

    /// Returns true if these bytes can be the id of a group or the name of an execution.
    pub fn is_name(bytes: &[u8]) -> bool {
        (1..=uris::EXECUTION_BYTES).contains(&bytes.len())
    }

    /// Appends the name of an execution.
    pub fn execution(&mut self, name: &[u8]) -> &mut Log {
        if self.leased.is_empty() || self.leased[..] != *name {
            return self.name(name);
        }
        self.number(0)
    }

    /// Records the execution of a lease that begins or ends.
    pub fn lease_of(&mut self, execution: &[u8]) {
        if !self.is_off {
            self.leased.clear();
            self.leased.extend_from_slice(execution);
        }
    }

    /// Appends a time.
    pub fn time(&mut self, time: Millis) -> &mut Log {
        if !self.is_off {
            put(&mut self.bytes, zigzag(time, self.clock));
            self.clock = time;
        }
        self
    }

    /// Appends a token.
    fn token(&mut self, token: Token) -> &mut Log {
        self.time(token / 1000).number(token % 1000)
    }

    /// Returns the last time.
    pub fn clock(&self) -> Millis {
        self.clock
    }

    /// Appends other bytes.
    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Log {
        if !self.is_off {
            put_bytes(&mut self.bytes, bytes);
        }
        self
    }

    /// Appends bytes of fixed length.
    pub fn raw(&mut self, bytes: &[u8]) -> &mut Log {
        if !self.is_off {
            self.bytes.extend_from_slice(bytes);
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
                self.number(0)
                    .execution(execution)
                    .number(weight.unwrap_or(0));
                self.time(due)
                    .number(depth.into())
                    .number(attempts.into())
                    .bytes(uri)
            }
            Op::Take {
                token,
                execution,
                now,
            } => self.number(1).token(token).execution(execution).time(now),
            Op::Done { token, end } if end == End::default() => self.number(2).token(token),
            Op::Done { token, end } => self.number(7).token(token).number(end.to_number()),
            Op::Return { token, due, failed } => {
                let flags = flag(failed) | flag(due.is_some()) << 1;
                self.number(3).token(token).number(flags);
                match due {
                    Some(due) => self.time(due),
                    None => self,
                }
            }
            Op::Drop { execution, limit } => self.number(4).execution(execution).number(limit),
            Op::Remove { execution, uri } => self.number(5).execution(execution).bytes(uri),
            Op::End {
                execution,
                uri,
                end,
            } => {
                self.number(8).execution(execution);
                self.number(end.to_number()).bytes(uri)
            }
            Op::Reschedule {
                execution,
                uri,
                due,
            } => {
                self.number(9).execution(execution);
                self.time(due).bytes(uri)
            }
            Op::Load { chunk } => self.number(6).bytes(chunk),
        }
    }

    /// Returns the bytes of the log; the next entry begins a new log.
    pub fn take(&mut self) -> Vec<u8> {
        self.names.clear();
        self.leased.clear();
        self.clock = 0;
        std::mem::take(&mut self.bytes)
    }
}

/// Reads a log, which may be malformed.
pub(super) struct Entries<'a> {
    pub from: Reader<'a>,
    names: SmallVec<[&'a [u8]; NAMES]>,
    clock: Millis,
    /// The execution of the lease that began or ended last; empty if there is none.
    pub leased: ExecutionName,
}

const UNKNOWN: Malformed = Malformed("has an entry of unknown kind");
const NO_NAME: Malformed = Malformed("refers to a name that it does not contain");

/// Maximum time and token.
const INTEGER: u64 = i64::MAX as u64;

impl<'a> Entries<'a> {
    /// Creates a reader.
    pub fn new(log: &'a [u8]) -> Entries<'a> {
        Entries {
            from: Reader::new(log),
            names: SmallVec::new(),
            clock: 0,
            leased: SmallVec::new(),
        }
    }

    /// Reads the kind of the next entry. Returns `None` at the end.
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
        self.name_of(head)
    }

    fn name_of(&mut self, head: u64) -> Result<&'a [u8], Malformed> {
        if head & 1 == 1 {
            return self.names.get((head >> 1) as usize).copied().ok_or(NO_NAME);
        }
        let name = self.from.take((head >> 1) as usize)?;
        if !Log::is_name(name) {
            return Err(Malformed("has a name of invalid length"));
        }
        self.names.truncate(NAMES - 1);
        self.names.insert(0, name);
        Ok(name)
    }

    /// Reads the name of an execution; `leased` is [`Entries::leased`].
    pub fn execution<'l>(&mut self, leased: &'l [u8]) -> Result<&'l [u8], Malformed>
    where
        'a: 'l,
    {
        match self.from.number()? {
            0 if leased.is_empty() => Err(NO_NAME),
            0 => Ok(leased),
            head => self.name_of(head),
        }
    }

    /// Reads a time.
    pub fn time(&mut self) -> Result<Millis, Malformed> {
        self.clock = unzigzag(self.from.number()?, self.clock);
        if self.clock <= INTEGER {
            Ok(self.clock)
        } else {
            Err(Malformed::NUMBER)
        }
    }

    /// Returns the last time.
    pub fn clock(&self) -> Millis {
        self.clock
    }

    fn token(&mut self) -> Result<Token, Malformed> {
        let time = self.time()?;
        let token = time.checked_mul(1000);
        let token = token.and_then(|token| token.checked_add(self.from.number_to(999).ok()?));
        token
            .filter(|&token| token <= INTEGER)
            .ok_or(Malformed::NUMBER)
    }

    /// Reads a change of URIs; `leased` is [`Entries::leased`].
    pub fn change<'l>(&mut self, leased: &'l [u8]) -> Result<Op<'l>, Malformed>
    where
        'a: 'l,
    {
        let to_u32 = |n: u64| u32::try_from(n).map_err(|_| Malformed::NUMBER);
        Ok(match self.from.number()? {
            0 => Op::Add {
                execution: self.execution(leased)?,
                weight: match self.from.number_to(uris::MAX_WEIGHT)? {
                    0 => None,
                    weight => Some(weight),
                },
                due: self.time()?,
                depth: to_u32(self.from.number()?)?,
                attempts: to_u32(self.from.number()?)?,
                uri: self.from.text(uris::URI_BYTES)?,
            },
            1 => Op::Take {
                token: self.token()?,
                execution: self.execution(leased)?,
                now: self.time()?,
            },
            2 => Op::done(self.token()?),
            7 => Op::Done {
                token: self.token()?,
                end: End::from_number(self.from.number()?).ok_or(Malformed::NUMBER)?,
            },
            3 => {
                let token = self.token()?;
                let flags = self.from.number_to(3)?;
                Op::Return {
                    token,
                    failed: flags & 1 != 0,
                    due: match flags & 2 {
                        0 => None,
                        _ => Some(self.time()?),
                    },
                }
            }
            4 => Op::Drop {
                execution: self.execution(leased)?,
                limit: self.from.number_to(INTEGER)?,
            },
            5 => Op::Remove {
                execution: self.execution(leased)?,
                uri: self.from.text(uris::URI_BYTES)?,
            },
            8 => Op::End {
                execution: self.execution(leased)?,
                end: End::from_number(self.from.number()?).ok_or(Malformed::NUMBER)?,
                uri: self.from.text(uris::URI_BYTES)?,
            },
            9 => Op::Reschedule {
                execution: self.execution(leased)?,
                due: self.time()?,
                uri: self.from.text(uris::URI_BYTES)?,
            },
            _ => return Err(UNKNOWN),
        })
    }
}
