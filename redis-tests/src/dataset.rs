//! The content of a database as sorted text.

use std::collections::BTreeMap;
use std::fmt;

use crate::wire::{Reply, Wire};

/// Every key of one database with its type and content. Members of sets and hashes are sorted.
///
/// Two snapshots are equal when the data sets are equal. The `Debug` form has one line per member,
/// so that a failed comparison is readable.
#[derive(Clone, PartialEq, Eq)]
pub struct Snapshot {
    keys: BTreeMap<Vec<u8>, (String, Vec<Vec<u8>>)>,
}

impl Snapshot {
    /// Reads the database that `wire` has selected.
    pub fn of(wire: &mut Wire) -> Snapshot {
        Snapshot::of_keys(wire, |_| true)
    }

    /// Reads the keys of the selected database for which `wanted` returns true.
    pub fn of_keys(wire: &mut Wire, wanted: impl Fn(&[u8]) -> bool) -> Snapshot {
        let names = wire.expect_ok(&["KEYS", "*"]);
        let names = names.items().iter().map(|key| key.bytes().to_vec());
        let names: Vec<Vec<u8>> = names.filter(|key| wanted(key)).collect();
        let kinds = wire.pipeline(names.iter().map(|key| vec![b"TYPE".as_slice(), key]));
        let mut keys = BTreeMap::new();
        for (key, kind) in names.into_iter().zip(kinds) {
            let kind = kind.text();
            if kind != "none" {
                let content = content(wire, &kind, &key);
                keys.insert(key, (kind, content));
            }
        }
        Snapshot { keys }
    }

    /// Returns the fields of a hash as text. The result is empty if the key does not exist.
    ///
    /// # Panics
    /// Panics if the key has another type.
    pub fn hash(&self, key: impl AsRef<[u8]>) -> BTreeMap<String, String> {
        let Some((kind, lines)) = self.keys.get(key.as_ref()) else {
            return BTreeMap::new();
        };
        assert_eq!(kind, "hash", "{}", key.as_ref().escape_ascii());
        let pair = |line: &Vec<u8>| {
            let line = String::from_utf8_lossy(line).into_owned();
            let (field, value) = line.split_once(" = ").expect("a field and its value");
            (field.to_owned(), value.to_owned())
        };
        lines.iter().map(pair).collect()
    }

    /// Removes the fields of the keys `<prefix>crawlspace` that contain the storage of an index and
    /// the form of its hashes.
    pub fn without_storage(mut self) -> Snapshot {
        let forgotten: [&[u8]; 2] = [b"storage = ", b"written = "];
        for (key, (_, lines)) in &mut self.keys {
            if key.ends_with(b"crawlspace") {
                lines.retain(|line| !forgotten.iter().any(|field| line.starts_with(field)));
            }
        }
        self.keys.retain(|_, (_, lines)| !lines.is_empty());
        self
    }

    /// Rewrites each line with `change`, which is called with the key and the line.
    pub fn map_lines(mut self, change: impl Fn(&[u8], &mut Vec<u8>)) -> Snapshot {
        for (key, (_, lines)) in &mut self.keys {
            lines.iter_mut().for_each(|line| change(key, line));
        }
        self
    }

    /// Removes the keys for which `drop` returns true.
    pub fn without(mut self, drop: impl Fn(&[u8]) -> bool) -> Snapshot {
        self.keys.retain(|key, _| !drop(key));
        self
    }

    /// Removes the keys `<prefix>crawlspace`. The counters in these keys (commits, claim tokens)
    /// only increase, so that no number is used twice, even after all other data of a crawl were
    /// deleted.
    pub fn without_counters(self) -> Snapshot {
        self.without(|key| key.ends_with(b"crawlspace"))
    }

    /// Returns only the keys with this prefix, with the prefix removed from their names.
    pub fn under(&self, prefix: &str) -> Snapshot {
        let keys = self.keys.iter().filter_map(|(key, value)| {
            let rest = key.strip_prefix(prefix.as_bytes())?;
            Some((rest.to_vec(), value.clone()))
        });
        Snapshot {
            keys: keys.collect(),
        }
    }

    /// Returns the names of all keys as text.
    pub fn names(&self) -> Vec<String> {
        let names = self.keys.keys().map(|k| k.escape_ascii().to_string());
        names.collect()
    }

    /// Returns the differences from `other`, one line each.
    pub fn differences(&self, other: &Snapshot) -> Vec<String> {
        let lines = |s: &Snapshot| -> Vec<String> {
            let text = format!("{s:?}");
            text.lines().map(str::to_owned).collect()
        };
        let (mine, theirs) = (lines(self), lines(other));
        let only = |a: &[String], b: &[String], sign: &str| -> Vec<String> {
            let b: std::collections::HashSet<&String> = b.iter().collect();
            let only = a.iter().filter(|line| !b.contains(line));
            only.map(|line| format!("{sign} {line}")).collect()
        };
        let mut out = only(&mine, &theirs, "-");
        out.extend(only(&theirs, &mine, "+"));
        out
    }

    /// Fails unless the two snapshots are equal. The failure message shows at most forty of the
    /// lines that differ.
    ///
    /// # Panics
    /// Panics if the snapshots differ.
    #[track_caller]
    pub fn assert_same(&self, other: &Snapshot, what: &str) {
        if self != other {
            let diff = self.differences(other);
            let shown = diff[..diff.len().min(40)].join("\n");
            panic!("{what}: {} lines differ\n{shown}", diff.len());
        }
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (key, (kind, content)) in &self.keys {
            for line in content {
                writeln!(f, "{} {kind} {}", key.escape_ascii(), line.escape_ascii())?;
            }
        }
        Ok(())
    }
}

fn content(wire: &mut Wire, kind: &str, key: &[u8]) -> Vec<Vec<u8>> {
    let mut read = |words: &[&[u8]]| wire.expect_ok(words);
    let member = |reply: &Reply| reply.bytes().to_vec();
    match kind {
        "string" => vec![member(&read(&[b"GET", key]))],
        "hash" => {
            let pairs = read(&[b"HGETALL", key]).pairs();
            let lines = pairs
                .iter()
                .map(|(f, v)| [f.bytes(), b" = ", v.bytes()].concat());
            sorted(lines.collect())
        }
        "set" => sorted(
            read(&[b"SMEMBERS", key])
                .items()
                .iter()
                .map(member)
                .collect(),
        ),
        "list" => {
            let items = read(&[b"LRANGE", key, b"0", b"-1"]);
            let lines = items.items().iter().enumerate();
            lines
                .map(|(i, item)| [format!("[{i}] ").as_bytes(), item.bytes()].concat())
                .collect()
        }
        "zset" => {
            let items = read(&[b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"]);
            vec![format!("{items:?}").into_bytes()]
        }
        _ => {
            let digest = read(&[b"DEBUG", b"DIGEST-VALUE", key]);
            vec![format!("{digest:?}").into_bytes()]
        }
    }
}

fn sorted(mut lines: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    lines.sort();
    lines
}
