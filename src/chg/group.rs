//! The state of one crawl host group, and its representation in the hash `CHG:<id>`.
//!
//! `n` and `c` are the documented fields. The other fields are private to the module. They are
//! short, so that the server stores the hash of a group in its compact encoding (values of at most
//! 64 bytes):
//!
//! | field | holds |
//! |---|---|
//! | `s` | due time as written by this module, end of the pause, time of the last release, back-off steps, time of the last back-off step, 1 if the frontier may store URIs of the group; trailing zeros are omitted |
//! | `l` | number of leases that expired in a row; then, for each held lease, `H` token, start, deadline; then, for the last release, `R` token, due time in the reply, token of the lease that was granted with it |
//! | `o` | maximum number of concurrent fetches, gap, budget (`-` for none), end of the block, 1 if paused, delay (`-` for none), shared gate |

use smallvec::SmallVec;

use crawlspace_host::text::{parse_unsigned, push_number, push_numbers};

use super::Token;
use super::politeness::Backoff;
use super::time::Millis;

/// The id of a group.
pub type Id = SmallVec<[u8; 64]>;

/// The bytes of a field.
pub type Text = SmallVec<[u8; 64]>;

/// A lease: permission to fetch from a group, until it is released or expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// Token of the lease.
    pub token: Token,
    /// Time when the lease was granted.
    pub granted: Millis,
    /// Time when the lease expires.
    pub deadline: Millis,
}

/// The last release, kept so that a retry gets the same reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Released {
    /// Token of the released lease.
    pub token: Token,
    /// Due time in the reply.
    pub due: Millis,
    /// Token of the lease taken in the same step; 0 if there was none.
    pub next: Token,
}

/// Options that an operator or crawler set for a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Maximum number of concurrent fetches.
    pub parallel: u64,
    /// Minimum time from the start of one fetch to the start of the next.
    pub gap: Millis,
    /// Pause after a fetch, unless the release specifies a different pause; `None` if not set.
    pub delay: Option<Millis>,
    /// Number of URIs that the group still accepts; `None` if unlimited.
    pub budget: Option<u64>,
    /// Time until which the group is blocked. No fetch begins before this time.
    pub blocked: Millis,
    /// True if the group is paused: no fetch begins until it is resumed.
    pub paused: bool,
    /// The gate shared with other groups; empty if there is none.
    pub gate: Vec<u8>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            parallel: 1,
            gap: 0,
            delay: None,
            budget: None,
            blocked: 0,
            paused: false,
            gate: Vec::new(),
        }
    }
}

/// A group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// True if the frontier knows the group.
    pub known: bool,
    /// True if the module has written the state of the group; false if only plain clients have
    /// written to the group.
    pub ours: bool,
    /// `n`: due time.
    pub due: Millis,
    /// `c`: queued URIs, including those being fetched.
    pub uris: u64,
    /// The end of the politeness pause. No fetch begins before this time.
    pub gate: Millis,
    /// Time when the last fetch ended; 0 before the first.
    pub released: Millis,
    /// Back-off after failures of the host.
    pub backoff: Backoff,
    /// True if the frontier may store URIs of the group, instead of only counting them.
    pub keeps: bool,
    /// Number of leases that have expired in a row.
    pub expired: u64,
    /// Leases that are held. Expired leases remain in this list until a command ends them.
    pub holds: SmallVec<[Hold; 1]>,
    /// The last release.
    pub last: Option<Released>,
    /// Number of leased URIs minus the number of leases. The hash does not contain this number, because only packed
    /// frontiers lease several URIs together.
    pub away: u64,
    /// Options that were set for the group.
    pub options: Options,
}

/// Number of fields of a group, in the order of [`Group::read`].
pub const FIELDS: usize = 5;

/// Names of the fields of a group.
pub(super) const FIELD_NAMES: [&[u8]; FIELDS] = [b"n", b"c", b"s", b"l", b"o"];

/// Limits that a command sets; `None` leaves a limit unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of concurrent fetches.
    pub parallel: Option<u64>,
    /// Minimum time from the start of one fetch to the start of the next.
    pub gap: Option<Millis>,
    /// Pause after a fetch, unless the release specifies a different pause; `Some(None)` removes
    /// the setting.
    pub delay: Option<Option<Millis>>,
    /// Number of URIs that the group still accepts; `Some(None)` for no limit.
    pub budget: Option<Option<u64>>,
}

impl Group {
    /// Decodes the fields `n`, `c`, `s`, `l`, `o`. Never fails: plain clients may have written any
    /// bytes, and values that are not numbers are read as 0.
    pub fn read(fields: [Option<&[u8]>; FIELDS]) -> Group {
        let [due, uris, state, leases, options] = fields;
        let number = |field: Option<&[u8]>| field.and_then(parse_unsigned).unwrap_or(0);
        let mut group = Group {
            known: due.is_some() || uris.is_some() || options.is_some(),
            ours: state.is_some(),
            due: number(due),
            uris: number(uris),
            ..Group::default()
        };
        let mut written = 0;
        if let Some(state) = state {
            let mut numbers = state.split(|&b| b == b' ').map(|n| number(Some(n)));
            let mut next = || numbers.next().unwrap_or(0);
            written = next();
            group.gate = next();
            group.released = next();
            group.backoff.steps = u32::try_from(next()).unwrap_or(0);
            group.backoff.since = next();
            group.keeps = next() != 0;
        }
        if written != group.due {
            // A plain client set the due time, presumably at a release, so treat the due time as
            // the end of a pause.
            group.gate = group.gate.max(group.due);
        }
        group.read_leases(leases.unwrap_or_default());
        if let Some(options) = options {
            group.options = Options::read(options);
        }
        group
    }

    fn read_leases(&mut self, text: &[u8]) {
        let mut words = text.split(|&b| b == b' ');
        self.expired = words.next().and_then(parse_unsigned).unwrap_or(0);
        while let Some(kind) = words.next() {
            let mut next = || words.next().and_then(parse_unsigned).unwrap_or(0);
            let (token, first, second) = (next(), next(), next());
            match kind {
                b"H" => self.holds.push(Hold {
                    token,
                    granted: first,
                    deadline: second,
                }),
                b"R" => {
                    self.last = Some(Released {
                        token,
                        due: first,
                        next: second,
                    });
                }
                _ => return,
            }
        }
    }

    /// Encodes the fields; `None` for a field that must not be stored.
    pub fn write(&self) -> [Option<Text>; FIELDS] {
        let number = |n: u64| {
            let mut text = Text::new();
            push_number(&mut text, n);
            text
        };
        let state = [
            self.due,
            self.gate,
            self.released,
            u64::from(self.backoff.steps),
            self.backoff.since,
            u64::from(self.keeps),
        ];
        let used = state.iter().rposition(|&n| n != 0).map_or(1, |at| at + 1);
        let mut leases = number(self.expired);
        for hold in &self.holds {
            push_words(&mut leases, b'H', [hold.token, hold.granted, hold.deadline]);
        }
        if let Some(last) = self.last {
            push_words(&mut leases, b'R', [last.token, last.due, last.next]);
        }
        [
            Some(number(self.due)),
            // Plain clients may have written the largest possible number.
            Some(number(self.uris.min(i64::MAX as u64))),
            Some(join(&state[..used])),
            (leases[..] != b"0"[..]).then_some(leases),
            (self.options != Options::default()).then(|| self.options.write()),
        ]
    }

    /// Returns the lease with this token, if it is held and has not expired.
    pub fn hold(&self, token: Token, now: Millis) -> Option<Hold> {
        let held = self.holds.iter().find(|hold| hold.token == token);
        held.copied().filter(|hold| now < hold.deadline)
    }

    /// Returns the time at which the first lease expires.
    pub fn first_deadline(&self) -> Option<Millis> {
        self.holds.iter().map(|hold| hold.deadline).min()
    }

    /// Returns the time at which the last lease expires.
    pub fn last_deadline(&self) -> Option<Millis> {
        self.holds.iter().map(|hold| hold.deadline).max()
    }

    /// Returns true if the group can grant another lease, now or later.
    pub fn is_runnable(&self) -> bool {
        let out = self.holds.len() as u64;
        self.uris > out + self.away && out < self.options.parallel
    }

    /// Returns true if the group is in a queue as well as in `chg_busy`, because it allows further
    /// concurrent fetches. A plain client removes a group from the queue before it fetches from the
    /// group.
    pub fn stands_beside_leases(&self) -> bool {
        !self.holds.is_empty() && self.is_runnable()
    }

    /// Returns the time before which no fetch begins even if URIs are queued.
    pub fn closed_until(&self) -> Millis {
        self.gate.max(self.options.blocked)
    }

    /// Returns the time from which the group may be leased for an execution, ignoring its shared gate. A
    /// lease needs a due URI: one that becomes due at `queued` or, with `is_held`, the URI of a lease that
    /// ends. Because the number of leases is limited, another lease may have to end first. Returns `None` if
    /// no lease is possible until the group changes.
    pub(super) fn leasable_from(&self, queued: Option<Millis>, is_held: bool) -> Option<Millis> {
        if self.options.paused {
            return None;
        }
        let begun = self.holds.iter().map(|hold| hold.granted).max();
        let is_free = self.is_runnable();
        let free = queued.filter(|_| is_free);
        let free = free.map(|due| due.max(self.closed_until()).max(begun.unwrap_or(0)));
        let ends = self.first_deadline().filter(|_| is_held || !is_free);
        [free, ends].into_iter().flatten().min()
    }

    /// Returns true if no URI is queued and no lease is held. Such a group does not belong in any
    /// queue.
    pub fn is_idle(&self) -> bool {
        self.uris == 0 && self.holds.is_empty()
    }
}

impl Options {
    /// Decodes the field `o`.
    pub(super) fn read(text: &[u8]) -> Options {
        let mut words = text.splitn(7, |&b| b == b' ');
        let mut next = || words.next().unwrap_or_default();
        Options {
            parallel: parse_unsigned(next()).unwrap_or(1).max(1),
            gap: parse_unsigned(next()).unwrap_or(0),
            budget: parse_unsigned(next()),
            blocked: parse_unsigned(next()).unwrap_or(0),
            paused: next() == b"1",
            delay: parse_unsigned(next()),
            gate: next().to_vec(),
        }
    }

    /// Encodes the options as the field `o`.
    pub(super) fn write(&self) -> Text {
        let mut text = join(&[self.parallel, self.gap]);
        text.push(b' ');
        let optional = |text: &mut Text, n: Option<u64>| match n {
            Some(n) => push_number(text, n),
            None => text.push(b'-'),
        };
        optional(&mut text, self.budget);
        text.push(b' ');
        push_number(&mut text, self.blocked);
        text.extend_from_slice(if self.paused { b" 1 " } else { b" 0 " });
        optional(&mut text, self.delay);
        text.push(b' ');
        text.extend_from_slice(&self.gate);
        text
    }
}

fn join(numbers: &[u64]) -> Text {
    let mut text = Text::new();
    push_numbers(&mut text, numbers);
    text
}

fn push_words(text: &mut Text, kind: u8, numbers: [u64; 3]) {
    text.extend_from_slice(&[b' ', kind, b' ']);
    push_numbers(text, &numbers);
}

#[cfg(test)]
mod tests {
    use super::*;
    use smallvec::smallvec;

    fn reread(group: &Group) -> Group {
        let fields = group.write();
        let mut fields = fields.iter().map(|field| field.as_deref());
        Group::read(std::array::from_fn(|_| fields.next().flatten()))
    }

    #[test]
    fn what_is_written_is_read() {
        let bare = Group {
            known: true,
            ours: true,
            due: 5,
            uris: 1,
            ..Group::default()
        };
        assert_eq!(reread(&bare), bare);
        let full = Group {
            gate: 7,
            released: 3,
            backoff: Backoff { steps: 2, since: 3 },
            keeps: true,
            expired: 4,
            holds: smallvec![
                Hold {
                    token: 9,
                    granted: 1,
                    deadline: 20
                },
                Hold {
                    token: 11,
                    granted: 2,
                    deadline: 21
                },
            ],
            last: Some(Released {
                token: 8,
                due: 7,
                next: 9,
            }),
            options: Options {
                parallel: 2,
                gap: 10,
                delay: Some(7),
                budget: Some(0),
                blocked: 99,
                paused: true,
                gate: b"an operator \xff".to_vec(),
            },
            ..bare
        };
        assert_eq!(reread(&full), full);
    }

    #[test]
    fn a_group_of_plain_clients_is_held_to_its_due_time() {
        let group = Group::read([Some(b"100"), Some(b"2"), None, None, None]);
        assert_eq!((group.gate, group.uris, group.ours), (100, 2, false));
        // A plain client released the group after a release by the module.
        let group = Group::read([Some(b"100"), Some(b"2"), Some(b"50 50 40"), None, None]);
        assert_eq!((group.gate, group.ours), (100, true));
    }

    #[test]
    fn nonsense_in_a_field_is_no_group_and_no_panic() {
        for text in [
            &b""[..],
            b"x",
            b"- - -",
            b"1 H",
            b"0 Q 1",
            b"\xff\xff 1",
            b"-1",
        ] {
            let group = Group::read([Some(text); FIELDS]);
            assert!(group.options.parallel >= 1);
        }
    }

    #[test]
    fn a_usual_group_stays_in_the_compact_form() {
        let group = Group {
            due: 1_790_000_000_000,
            uris: 1_000_000,
            gate: 1_790_000_000_000,
            released: 1_790_000_000_000,
            holds: smallvec![Hold {
                token: 1_790_000_000_000_000,
                granted: 1_790_000_000_000,
                deadline: 1_790_000_600_000,
            }],
            ..Group::default()
        };
        assert!(group.write().iter().flatten().all(|text| text.len() <= 64));
    }
}
