//! The keys of a frontier: one table of what each is called, and of what it is to readers and listeners.

pub use crawlspace_compact::limits::chg::ID_BYTES;
use crawlspace_host::keyspace::{KeyType, Keyspace};
use crawlspace_host::names::{Endings, Lengths};
use crawlspace_host::once_keys;

/// What it means that others changed a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// Groups may have come to stand in another queue, or be paused.
    Queue,
    /// The key may hold another type.
    Type,
    /// Tokens may have to be minted from elsewhere on.
    Tokens,
}

/// A key that a frontier has once.
#[derive(Clone, Copy, Debug)]
pub struct Once {
    /// Its name behind the prefix.
    pub name: &'static str,
    /// The type that it must have.
    pub kind: KeyType,
    /// Plain clients use it, too: who runs a command needs permission for it.
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

    /// Plain clients use it, too.
    const fn documented(self) -> Once {
        Once {
            documented: true,
            ..self
        }
    }

    /// A change by others means this.
    const fn heard(self, heard: Heard) -> Once {
        Once {
            heard: Some(heard),
            ..self
        }
    }

    /// Every user who may run a command may have it read.
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
    /// `chg_busy`: groups by the deadline of their first lease to run out.
    busy = Once::of("chg_busy", KeyType::SortedSet).documented().heard(Heard::Queue);
    /// `chg_ready`: groups that are due, longest-ready first.
    ready = Once::of("chg_ready", KeyType::List).documented().heard(Heard::Queue);
    /// `EIDC`: crawl execution -> queued URIs.
    executions = Once::of("EIDC", KeyType::Hash).documented().heard(Heard::Type);
    /// `QCT`: all queued URIs.
    total = Once::of("QCT", KeyType::String).documented().heard(Heard::Type);
    /// `chg_idle`: groups with nothing queued, by the time when they are deleted.
    idle = Once::of("chg_idle", KeyType::SortedSet).heard(Heard::Queue).bookkeeping();
    /// `chg_gated`: how many groups stand behind shared gates.
    gated = Once::of("chg_gated", KeyType::String);
    /// `chg_token`: the token minted last.
    token = Once::of("chg_token", KeyType::String).heard(Heard::Tokens);
    /// `chg_past`: deleted groups, by the token of their last release.
    past = Once::of("chg_past", KeyType::SortedSet).heard(Heard::Type);
    /// `chg_answers`: replies to these releases.
    answers = Once::of("chg_answers", KeyType::Hash);
    /// `chg_paused`: what is paused beside single groups.
    paused = Once::of("chg_paused", KeyType::Hash).heard(Heard::Queue).bookkeeping();
    /// `chg_dropped`: executions that were dropped while leases were held, by the end of the last one.
    dropped = Once::of("chg_dropped", KeyType::SortedSet).heard(Heard::Queue);
    /// `chg_expired`: reports of leases that ran out.
    expired = Once::of("chg_expired", KeyType::List).heard(Heard::Type);
}

/// A key that a frontier has for each group, gate or execution.
#[derive(Clone, Copy, Debug)]
pub struct Each {
    /// What stands before the id in its name.
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

    /// Every user who may run a command may have it read.
    const fn bookkeeping(self) -> Each {
        Each {
            bookkeeping: true,
            ..self
        }
    }

    /// The id in a name behind the prefix, if it is such a key.
    pub fn id(self, name: &[u8]) -> Option<&[u8]> {
        name.strip_prefix(self.before)
    }
}

/// The hash of a group. Plain clients use it, too.
pub const GROUP: Each = Each::of(GROUP_NAME);
const GROUP_NAME: &[u8; 4] = b"CHG:";
/// The URIs that are kept for a group.
pub const URIS: Each = Each::of(b"chg_uris:").bookkeeping();
/// The hash of a shared gate.
pub const GATE: Each = Each::of(b"chg_gate:");
/// The list of groups that wait behind a shared gate.
pub const GATED: Each = Each::of(b"chg_gated:").bookkeeping();
/// The numbered commands of an execution.
pub const SEQUENCE: Each = Each::of(b"chg_seq:");
/// The groups that have URIs of an execution.
pub const OF: Each = Each::of(b"chg_of:").bookkeeping();

/// All of them.
const EACH: [Each; 6] = [GROUP, URIS, GATE, GATED, SEQUENCE, OF];

/// What stands before an execution in the field of a group that counts its URIs.
pub const COUNTED: &[u8] = b"e:";

/// Whether a key is book-keeping that any user of a command may have read, by its name behind the prefix.
pub fn is_bookkeeping(name: &[u8]) -> bool {
    let once = |row: &Once| row.bookkeeping && row.name.as_bytes() == name;
    let each = |row: &Each| row.bookkeeping && row.id(name).is_some();
    ONCE.iter().any(once) || EACH.iter().any(each)
}

/// How keys end that exist once and are heard of.
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

/// Whether a key may be one that something is cached of, of a frontier with a prefix of one of these lengths. Nearly all
/// keys of a server that has other data are none, which shows at once.
pub fn may_be_ours(key: &[u8], lengths: &Lengths) -> bool {
    let may_be_once = ENDINGS.may_end(key) && heard_once(key).next().is_some();
    may_be_once || lengths.any(key, GROUP_NAME)
}

/// The prefixes that a key may have if it exists once, each with what it means that others changed it.
pub fn heard_once(key: &[u8]) -> impl Iterator<Item = (&[u8], Heard)> {
    let rows: &[Once] = if ENDINGS.may_end(key) { ONCE } else { &[] };
    rows.iter()
        .filter_map(|row| Some((key.strip_suffix(row.name.as_bytes())?, row.heard?)))
}

/// The prefixes of at most `max_prefix` bytes, and of one of these `lengths`, that a key may have if it is the hash of a
/// group, each with the group's id.
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
    /// `s`: due time as this module wrote it, gate, last release, back-off.
    pub state: N,
    /// `l`: leases held, and the release that was last.
    pub leases: N,
    /// `o`: limits and holds.
    pub options: N,
    /// `x`: group of the lease that the last release took.
    pub next: N,
}

impl<N> Fields<N> {
    /// The names, made ready.
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
    /// Names of the keys that exist once.
    pub once: Names<K::Name>,
    /// The shortest name that the hash of a group could have.
    pub any_group: K::Name,
    pub(super) fields: Fields<K::Name>,
}

impl<K: Keyspace> Keys<K> {
    /// The keys behind a prefix.
    pub(super) fn new(ks: &mut K, prefix: &[u8]) -> Keys<K> {
        Keys {
            prefix: prefix.into(),
            once: Names::of(|row| ks.name(&[prefix, row.name.as_bytes()])),
            any_group: ks.name(&[prefix, GROUP_NAME]),
            fields: Fields::new(ks),
        }
    }

    /// The key of a group, or of something that belongs to a group, gate or execution.
    pub fn key(&self, ks: &mut K, kind: Each, id: &[u8]) -> K::Name {
        ks.name(&[&self.prefix, kind.before, id])
    }

    /// The key of the URIs that are kept for a group.
    pub(super) fn uris_key(&self, ks: &mut K, id: &[u8]) -> K::Name {
        self.key(ks, URIS, id)
    }

    /// The key of the numbered commands of an execution.
    pub(super) fn sequence_key(&self, ks: &mut K, execution: &[u8]) -> K::Name {
        self.key(ks, SEQUENCE, execution)
    }

    /// The key of the groups that have URIs of an execution.
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
