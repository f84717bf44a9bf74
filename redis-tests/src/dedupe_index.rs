//! A test connection to an index: one `DEDUPE.*` command per line.
//!
//! ```no_run
//! use redis_tests::{DedupeIndex, Server};
//! let server = Server::start();
//! let mut d = DedupeIndex::of(&server, "{coll-42}:");
//! assert_eq!(d.ok("ADD crawl @0..20").int(), 20);
//! assert_eq!(d.commit("crawl"), (20, 0));
//! assert_eq!(d.owners([7, 99]), ["crawl", "-"]);
//! assert!(d.err("COMMIT nobody").starts_with("NOCRAWL "));
//! ```

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;

use crate::corpus::{sha256_of, words_of};
use crate::crawler;
use crate::dataset::Snapshot;
use crate::packing::moved;
use crate::server::{Options, Server};
use crate::storage::{is_packed, plain_hash, plain_view};
use crate::wait::until;
use crate::wire::{Reply, Wire, Word, int, runs_lines};

/// A connection that uses one index. It dereferences to [`Wire`] for plain commands.
pub struct DedupeIndex {
    wire: Wire,
    prefix: String,
    /// The unix socket of the server, for further connections.
    socket: Option<PathBuf>,
}

impl Deref for DedupeIndex {
    type Target = Wire;

    fn deref(&self) -> &Wire {
        &self.wire
    }
}

impl DerefMut for DedupeIndex {
    fn deref_mut(&mut self) -> &mut Wire {
        &mut self.wire
    }
}

impl DedupeIndex {
    /// Connects to the index with this prefix.
    pub fn of(server: &Server, prefix: &str) -> DedupeIndex {
        let socket = Some(server.unix_path());
        DedupeIndex {
            socket,
            ..DedupeIndex::over(server.wire(), prefix)
        }
    }

    /// Creates a handle for the index with this prefix over an existing connection. The handle
    /// cannot open more connections.
    pub fn over(wire: Wire, prefix: &str) -> DedupeIndex {
        DedupeIndex {
            wire,
            prefix: prefix.to_owned(),
            socket: None,
        }
    }

    /// Starts a server and connects to its index with this prefix.
    pub fn start(prefix: &str) -> (Server, DedupeIndex) {
        DedupeIndex::on(Options::new(), prefix)
    }

    /// Starts a server whose jobs run in the shortest possible slices.
    pub fn in_slices(prefix: &str) -> (Server, DedupeIndex) {
        DedupeIndex::on(Options::new().module_args(&["slice-us", "50"]), prefix)
    }

    /// Starts a server with these options.
    pub fn on(options: Options, prefix: &str) -> (Server, DedupeIndex) {
        let server = options.start();
        let index = DedupeIndex::of(&server, prefix);
        (server, index)
    }

    /// Starts a server with these options, and a replica without persistence.
    pub fn replicated(options: Options, prefix: &str) -> (Server, Server, DedupeIndex) {
        let (server, index) = DedupeIndex::on(options, prefix);
        let replica = Options::new().replica_of(&server).start();
        (server, replica, index)
    }

    /// Opens another connection to the same index.
    pub fn another(&self) -> DedupeIndex {
        let socket = self.socket.as_ref().expect("its server is known");
        let wire = Wire::unix(socket).expect("the server accepts connections");
        DedupeIndex {
            socket: Some(socket.clone()),
            ..DedupeIndex::over(wire, &self.prefix)
        }
    }

    /// Returns the connection, to send commands as separate arguments.
    pub fn wire(&mut self) -> &mut Wire {
        &mut self.wire
    }

    /// Returns the prefix.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Returns the full name of a key of this index.
    pub fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// Parses a line into the arguments of a command: `ADD a 'b c'` is `DEDUPE.ADD <prefix> a "b
    /// c"`. `#7` is the hash of synthetic record 7 and `@7` the five arguments of that record;
    /// `#0..9` and `@0..9` are records 0 to 8. An argument in single quotes ends at the next single
    /// quote.
    ///
    /// # Panics
    /// Panics if a quote is not closed, or a range has no end.
    pub fn words(&self, line: impl AsRef<str>) -> Vec<Vec<u8>> {
        let mut words = words(line.as_ref());
        words[0].splice(0..0, *b"DEDUPE.");
        words.insert(1, self.prefix.word());
        words
    }

    runs_lines!();

    /// Runs a line as a plain command, without adding `DEDUPE.` and the prefix. The same
    /// abbreviations work. The command must succeed.
    #[track_caller]
    pub fn plain(&mut self, line: impl AsRef<str>) -> Reply {
        let words = words(line.as_ref());
        self.wire.expect_ok(&words)
    }

    /// Runs a line as [`DedupeIndex::plain`] does, and returns the reply, which may be an error.
    pub fn plain_call(&mut self, line: impl AsRef<str>) -> Reply {
        let words = words(line.as_ref());
        self.wire.call(&words)
    }

    /// Fails unless the reply to a line has these values in these fields, for example
    /// `ok 0 missingHashes 7` for `CHECK`.
    #[track_caller]
    pub fn tells(&mut self, line: impl AsRef<str>, fields: &str) {
        let reply = self.ok(line.as_ref());
        let words: Vec<&str> = fields.split(' ').collect();
        for pair in words.chunks_exact(2) {
            let value = match reply.field(pair[0]) {
                Reply::Int(n) => n.to_string(),
                Reply::Nil => "nil".to_owned(),
                value => value.text(),
            };
            assert_eq!(
                value,
                pair[1],
                "{} of {}: {reply:?}",
                pair[0],
                line.as_ref()
            );
        }
    }

    /// Sends a line over a new connection. Returns the connection, which will receive the reply.
    pub fn sent(&self, line: impl AsRef<str>) -> Wire {
        let mut other = self.another();
        other.send(line);
        other.wire
    }

    /// Sends a line that starts a job over a new connection, and waits until the job is running.
    #[track_caller]
    pub fn begun(&mut self, line: &str) -> Wire {
        let mut asker = self.sent(line);
        let (name, crawl) = line.split_once(' ').unwrap_or((line, ""));
        let jobs = self.key(if name == "COMMIT" {
            "committing"
        } else {
            "removing"
        });
        until("the job is under way", || match name {
            "PACK" | "UNPACK" => {
                assert!(!asker.has_reply(), "{line} ended too early for this test");
                self.storage().ends_with("ing")
            }
            _ => self.wire.expect_ok(&["HEXISTS", &jobs, crawl]) == int(1),
        });
        asker
    }

    /// Sends a claim over a new connection, and waits until the client is blocked.
    pub fn blocked(&mut self, line: impl AsRef<str>) -> Wire {
        let pending = |d: &mut DedupeIndex| {
            let info = d.wire.expect_ok(&["INFO", "crawlspace"]).text();
            let lines = info
                .lines()
                .find_map(|line| line.rsplit_once("claims_pending:"));
            lines
                .map(|(_, count)| count.parse::<i64>().expect("a number"))
                .expect("INFO has it")
        };
        let before = pending(self);
        let waiter = self.sent(line);
        until("the claim is blocked", || pending(self) > before);
        waiter
    }

    /// Runs `ADD` with these synthetic records, and then `COMMIT`. Returns the numbers of new and
    /// of known hashes.
    #[track_caller]
    pub fn committed(&mut self, crawl: &str, numbers: impl IntoIterator<Item = u64>) -> (i64, i64) {
        self.add(crawl, numbers);
        self.commit(crawl)
    }

    /// Runs `COMMIT` and returns the numbers of new and of known hashes.
    #[track_caller]
    pub fn commit(&mut self, crawl: &str) -> (i64, i64) {
        crawler::commit(&mut self.wire, &self.prefix, crawl)
    }

    /// Runs `ADD` with these synthetic records, a few hundred per command. Returns the number of
    /// new records.
    #[track_caller]
    pub fn add(&mut self, crawl: &str, numbers: impl IntoIterator<Item = u64>) -> i64 {
        let numbers: Vec<u64> = numbers.into_iter().collect();
        let adds = numbers.chunks(200).map(|chunk| {
            let mut words = vec!["DEDUPE.ADD".word(), self.prefix.word(), crawl.word()];
            words.extend(chunk.iter().copied().flat_map(words_of));
            words
        });
        self.wire.pipeline(adds).iter().map(Reply::int).sum()
    }

    /// Adds a WACZ file of 100 bytes to a crawl: opens and closes it.
    #[track_caller]
    pub fn wacz(&mut self, crawl: &str, name: &str) {
        let index = self.ok(format!("WACZOPEN '{crawl}' '{name}'")).int();
        self.ok(format!(
            "WACZCLOSE '{crawl}' {index} '{name}' sha256:ab 100"
        ));
    }

    /// Runs `PACK` or `UNPACK`. Returns the storage, and the numbers of moved fields of the merged
    /// index and of moved records.
    #[track_caller]
    pub fn change(&mut self, name: &str) -> (String, i64, i64) {
        moved(&self.ok(name))
    }

    /// Returns the storage: `plain` or `packed`, or `packing` or `unpacking` during a conversion.
    #[track_caller]
    pub fn storage(&mut self) -> String {
        self.ok("STATS").field("storage").text()
    }

    /// Returns the number of hashes that have an owner, including the hashes that running commits
    /// have merged.
    #[track_caller]
    pub fn indexed(&mut self) -> i64 {
        self.ok("STATS").field("hashes").int()
    }

    /// Runs `LOOKUP` with these synthetic hashes and returns the owner of each, or `-`.
    #[track_caller]
    pub fn owners(&mut self, numbers: impl IntoIterator<Item = u64>) -> Vec<String> {
        crawler::owners(&mut self.wire, &self.prefix, numbers)
    }

    /// Returns the fields of a hash of this index as text.
    #[track_caller]
    pub fn hash(&mut self, name: &str) -> BTreeMap<String, String> {
        let key = self.key(name);
        crawler::hash_key(&mut self.wire, &key)
    }

    /// Returns the fields of a hash as in plain storage, even if the index is packed.
    #[track_caller]
    pub fn plain_hash(&mut self, name: &str) -> BTreeMap<String, String> {
        plain_hash(&mut self.wire, &self.prefix, name)
    }

    /// Returns all keys of the index as in plain storage, without the fields that contain the
    /// storage.
    #[track_caller]
    pub fn plain_view(&mut self) -> Snapshot {
        plain_view(&mut self.wire, &self.prefix).without_storage()
    }

    /// Changes the keys as a plain client does. If the index is packed, unpacks it first and packs
    /// it again afterwards.
    pub fn plainly<T>(&mut self, change: impl FnOnce(&mut DedupeIndex) -> T) -> T {
        let packed = is_packed(&mut self.wire, &self.prefix);
        if packed {
            self.ok("UNPACK");
        }
        let done = change(self);
        if packed {
            self.ok("PACK");
        }
        done
    }

    /// Returns the fields of a counts key as numbers, without fields that are 0 or not integers.
    #[track_caller]
    pub fn counts(&mut self, name: &str) -> BTreeMap<String, i64> {
        let key = self.key(name);
        crawler::counts(&mut self.wire, &key)
    }

    /// Returns the members of a set, sorted.
    #[track_caller]
    pub fn set(&mut self, name: &str) -> Vec<String> {
        let key = self.key(name);
        crawler::set_key(&mut self.wire, &key)
    }

    /// Checks with `CHECK` that the index is consistent. If not, fails with the findings.
    #[track_caller]
    pub fn assert_consistent(&mut self) {
        crawler::assert_consistent(&mut self.wire, &self.prefix);
    }
}

/// Splits a line into arguments and expands synthetic hashes and records.
fn words(line: &str) -> Vec<Vec<u8>> {
    let mut words: Vec<Vec<u8>> = Vec::new();
    let mut rest = line.trim_start_matches(' ');
    while !rest.is_empty() {
        if let Some(quoted) = rest.strip_prefix('\'') {
            let (word, after) = quoted.split_once('\'').expect("the quote is closed");
            words.push(word.word());
            rest = after.trim_start_matches(' ');
            continue;
        }
        let (word, after) = rest.split_once(' ').unwrap_or((rest, ""));
        rest = after.trim_start_matches(' ');
        match numbers(word) {
            Some(('#', numbers)) => words.extend(numbers.map(|n| sha256_of(n).word())),
            Some((_, numbers)) => words.extend(numbers.flat_map(words_of)),
            None => words.push(word.word()),
        }
    }
    words
}

/// Parses an abbreviation such as `#7` or `@0..9` into its sign and its range of numbers.
fn numbers(word: &str) -> Option<(char, std::ops::Range<u64>)> {
    let sign = word.chars().next().filter(|sign| "#@".contains(*sign))?;
    let (from, to) = word[1..].split_once("..").unwrap_or((&word[1..], ""));
    let from = from.parse().ok()?;
    let to = match to {
        "" => from + 1,
        to => to.parse().ok()?,
    };
    Some((sign, from..to))
}
