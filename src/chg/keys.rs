//! The keys of a frontier: a table of their names, and of their roles for permissions and for
//! notifications of changes.

pub use crawlspace_compact::limits::chg::ID_BYTES;
use crawlspace_host::keyspace::{KeyType, Keyspace};
use crawlspace_host::names::{Endings, Lengths};
use crawlspace_host::once_keys;

/// The consequences when another client changes a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// Groups may have moved to another queue, or may be paused or resumed.
    Queue,
    /// The type of the key may have changed.
    Type,
    /// The next token may have to be a different number.
    Tokens,
    /// The storage of the frontier may have changed.
    Storage,
}

/// A key that exists once per frontier.
#[derive(Clone, Copy, Debug)]
pub struct Once {
    /// Name after the prefix.
    pub name: &'static str,
    /// Required type.
    pub kind: KeyType,
    /// True if plain clients also use the key. To run a command, a user needs permission for each
    /// such key.
    pub documented: bool,
    heard: Option<Heard>,
    bookkeeping: bool,
}

impl Once {
    const fn of(name: &'static str, kind: KeyType) -> Once {
        Once {
            name,
            kind,
            documented: false,
            heard: None,
            bookkeeping: false,
        }
    }

    /// Marks a key that plain clients also use.
    const fn documented(self) -> Once {
        Once {
            documented: true,
            ..self
        }
    }

    /// Sets the consequence of a change by another client.
    const fn heard(self, heard: Heard) -> Once {
        Once {
            heard: Some(heard),
            ..self
        }
    }

    /// Marks a key that every command may read, even if the user has no permission for the key.
    const fn bookkeeping(self) -> Once {
        Once {
            bookkeeping: true,
            ..self
        }
    }
}

once_keys! { Once:
    /// `chg_wait`: groups by due time.
    wait = Once::of("chg_wait", KeyType::SortedSet).documented().heard(Heard::Queue);
    /// `chg_busy`: groups by the deadline of the lease that expires first.
    busy = Once::of("chg_busy", KeyType::SortedSet).documented().heard(Heard::Queue);
    /// `chg_ready`: groups that are due, in the order in which they became ready.
    ready = Once::of("chg_ready", KeyType::List).documented().heard(Heard::Queue);
    /// `EIDC`: number of queued URIs by crawl execution.
    executions = Once::of("EIDC", KeyType::Hash).documented().heard(Heard::Type);
    /// `QCT`: number of all queued URIs.
    total = Once::of("QCT", KeyType::String).documented().heard(Heard::Type);
    /// `chg_idle`: groups without queued URIs, by the time of their deletion.
    idle = Once::of("chg_idle", KeyType::SortedSet).heard(Heard::Queue).bookkeeping();
    /// `chg_gated`: number of groups that wait behind shared gates.
    gated = Once::of("chg_gated", KeyType::String);
    /// `chg_token`: the upper end of the reserved range of tokens.
    token = Once::of("chg_token", KeyType::String).heard(Heard::Tokens);
    /// `chg_past`: deleted groups, by the token of their last release.
    past = Once::of("chg_past", KeyType::SortedSet).heard(Heard::Type);
    /// `chg_answers`: replies to the last releases of deleted groups.
    answers = Once::of("chg_answers", KeyType::Hash);
    /// `chg_paused`: pauses of executions and of the whole frontier.
    paused = Once::of("chg_paused", KeyType::Hash).heard(Heard::Queue).bookkeeping();
    /// `chg_dropped`: executions that were dropped while their leases were held, by the end of the
    /// last of these leases.
    dropped = Once::of("chg_dropped", KeyType::SortedSet).heard(Heard::Queue);
    /// `chg_later`: leases whose group was freed, by the deadline of their URIs. Only packed frontiers have
    /// such leases.
    later = Once::of("chg_later", KeyType::SortedSet);
    /// `chg_packed`: the whole frontier, if it is packed.
    packed = Once::of("chg_packed", KeyType::Native("packed frontier")).heard(Heard::Storage);
    /// `chg_expired`: reports of expired leases.
    expired = Once::of("chg_expired", KeyType::List).heard(Heard::Type);
}

/// A kind of key that exists per group, gate or execution.
#[derive(Clone, Copy, Debug)]
pub struct Each {
    /// Part of the name before the id.
    pub before: &'static [u8],
    bookkeeping: bool,
}

impl Each {
    const fn of(before: &'static [u8]) -> Each {
        let bookkeeping = false;
        Each {
            before,
            bookkeeping,
        }
    }

    /// Marks a key that every command may read, even if the user has no permission for the key.
    const fn bookkeeping(self) -> Each {
        Each {
            bookkeeping: true,
            ..self
        }
    }

    /// Returns the id in a key name without its prefix, if the key is of this kind.
    pub fn id(self, name: &[u8]) -> Option<&[u8]> {
        name.strip_prefix(self.before)
    }
}

/// The hash of a group. Plain clients also use this key.
pub const GROUP: Each = Each::of(GROUP_NAME);
const GROUP_NAME: &[u8; 4] = b"CHG:";
/// The URIs that the frontier stores for a group.
pub const URIS: Each = Each::of(b"chg_uris:").bookkeeping();
/// The hash of a shared gate.
pub const GATE: Each = Each::of(b"chg_gate:");
/// The list of groups that wait behind a shared gate.
pub const GATED: Each = Each::of(b"chg_gated:").bookkeeping();
/// The sequence numbers of an execution's writers, with their last replies.
pub const SEQUENCE: Each = Each::of(b"chg_seq:");
/// The groups that have URIs of an execution.
pub const OF: Each = Each::of(b"chg_of:").bookkeeping();

/// All kinds of keys per group, gate or execution.
const EACH: [Each; 6] = [GROUP, URIS, GATE, GATED, SEQUENCE, OF];

/// Prefix of the fields of a group that count the URIs of an execution. The id of the execution
/// follows.
pub const COUNTED: &[u8] = b"e:";

/// Returns true for a bookkeeping key, which every command may read even if the user has no
/// permission for it. `name` is the key's name after the prefix.
pub fn is_bookkeeping(name: &[u8]) -> bool {
    let once = |row: &Once| row.bookkeeping && row.name.as_bytes() == name;
    let each = |row: &Each| row.bookkeeping && row.id(name).is_some();
    ONCE.iter().any(once) || EACH.iter().any(each)
}

/// Endings of the keys that exist once per frontier and whose changes matter.
const ENDINGS: Endings = {
    let mut endings = Endings::new();
    let mut row = 0;
    while row < ONCE.len() {
        if ONCE[row].heard.is_some() {
            endings = endings.with(ONCE[row].name);
        }
        row += 1;
    }
    endings
};

/// Returns true if a key may belong to a cached frontier, whose prefix has one of these lengths.
/// Quickly rejects the keys of other applications, which are the majority on a shared server.
pub fn may_be_ours(key: &[u8], lengths: &Lengths) -> bool {
    let may_be_once = ENDINGS.may_end(key) && heard_once(key).next().is_some();
    may_be_once || lengths.any(key, GROUP_NAME)
}

/// Returns the possible prefixes of a key that exists once per frontier, each with the consequence of a change by
/// another client.
pub fn heard_once(key: &[u8]) -> impl Iterator<Item = (&[u8], Heard)> {
    let rows: &[Once] = if ENDINGS.may_end(key) { ONCE } else { &[] };
    rows.iter()
        .filter_map(|row| Some((key.strip_suffix(row.name.as_bytes())?, row.heard?)))
}

/// Returns the possible prefixes of a key that is the hash of a group, each with the id of the group. Considers only
/// prefixes of these `lengths`, up to `max_prefix` bytes.
pub fn possible_groups<'a>(
    key: &'a [u8],
    max_prefix: usize,
    lengths: &Lengths,
) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
    lengths
        .find(key, GROUP.before)
        .take_while(move |&at| at <= max_prefix)
        .map(|at| (&key[..at], &key[at + GROUP.before.len()..]))
}

/// Names of the fields of the hash of a group.
pub struct Fields<N> {
    /// `n`: due time.
    pub due: N,
    /// `c`: queued URIs.
    pub count: N,
    /// `s`: due time as the module wrote it, gate, last release, back-off.
    pub state: N,
    /// `l`: leases held, and the last release.
    pub leases: N,
    /// `o`: limits and holds.
    pub options: N,
    /// `x`: group of the lease that was granted with the last release.
    pub next: N,
}

impl<N> Fields<N> {
    /// Creates the names.
    pub fn new<K: Keyspace<Name = N>>(ks: &mut K) -> Fields<N> {
        Fields {
            due: ks.name(&[b"n"]),
            count: ks.name(&[b"c"]),
            state: ks.name(&[b"s"]),
            leases: ks.name(&[b"l"]),
            options: ks.name(&[b"o"]),
            next: ks.name(&[b"x"]),
        }
    }
}

/// The keys of one frontier.
pub struct Keys<K: Keyspace> {
    pub(super) prefix: Box<[u8]>,
    /// Names of the keys that exist once per frontier.
    pub once: Names<K::Name>,
    /// The shortest possible name of the hash of a group.
    pub any_group: K::Name,
    pub(super) fields: Fields<K::Name>,
}

impl<K: Keyspace> Keys<K> {
    /// Creates the keys with a prefix.
    pub(super) fn new(ks: &mut K, prefix: &[u8]) -> Keys<K> {
        Keys {
            prefix: prefix.into(),
            once: Names::of(|row| ks.name(&[prefix, row.name.as_bytes()])),
            any_group: ks.name(&[prefix, GROUP_NAME]),
            fields: Fields::new(ks),
        }
    }

    /// Returns the key of a group, or of another object that belongs to a group, gate or execution.
    pub fn key(&self, ks: &mut K, kind: Each, id: &[u8]) -> K::Name {
        ks.name(&[&self.prefix, kind.before, id])
    }

    /// Returns the key of the URIs that the frontier stores for a group.
    pub(super) fn uris_key(&self, ks: &mut K, id: &[u8]) -> K::Name {
        self.key(ks, URIS, id)
    }

    /// Returns the key of the sequence numbers of an execution.
    pub(super) fn sequence_key(&self, ks: &mut K, execution: &[u8]) -> K::Name {
        self.key(ks, SEQUENCE, execution)
    }

    /// Returns the key of the groups that have URIs of an execution.
    pub(super) fn groups_of(&self, ks: &mut K, execution: &[u8]) -> K::Name {
        self.key(ks, OF, execution)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_that_is_heard_of_is_known_by_its_name() {
        for row in ONCE {
            let key = ["p:", row.name].concat();
            let heard: Vec<_> = heard_once(key.as_bytes()).collect();
            let expected = row.heard.map(|heard| (&b"p:"[..], heard));
            assert_eq!(
                heard,
                expected.into_iter().collect::<Vec<_>>(),
                "{}",
                row.name
            );
            assert_eq!(
                may_be_ours(key.as_bytes(), &Lengths::new()),
                row.heard.is_some()
            );
        }
        let lengths = Lengths::new();
        lengths.note(b"p:".len());
        assert!(may_be_ours(b"p:CHG:a", &lengths));
        assert!(!may_be_ours(b"CHG:a", &lengths));
        let groups: Vec<_> = possible_groups(b"p:CHG:a:CHG:b", 2, &lengths).collect();
        assert_eq!(groups, [(&b"p:"[..], &b"a:CHG:b"[..])]);
    }

    #[test]
    fn only_book_keeping_may_be_read_by_everybody() {
        for name in [
            "chg_idle",
            "chg_paused",
            "chg_uris:host",
            "chg_gated:gate",
            "chg_of:crawl",
        ] {
            assert!(is_bookkeeping(name.as_bytes()), "{name}");
        }
        for name in [
            "chg_wait",
            "EIDC",
            "CHG:host",
            "CHG:chg_idle",
            "CHG:chg_uris:x",
            "chg_gated",
        ] {
            assert!(!is_bookkeeping(name.as_bytes()), "{name}");
        }
    }
}
