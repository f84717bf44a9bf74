//! An index on the stage: one `DEDUPE.*` command a line.
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

use crate::corpus::sha256_of;
use crate::crawler::{self, words_of};
use crate::server::Server;
use crate::wire::{Reply, Wire, Word, runs_lines};

/// A connection that works on one index. It is a [`Wire`], too, for plain commands.
pub struct DedupeIndex {
    wire: Wire,
    prefix: String,
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
    /// The index with this prefix.
    pub fn of(server: &Server, prefix: &str) -> DedupeIndex {
        DedupeIndex::over(server.wire(), prefix)
    }

    /// The index with this prefix, over this connection.
    pub fn over(wire: Wire, prefix: &str) -> DedupeIndex {
        let prefix = prefix.to_owned();
        DedupeIndex { wire, prefix }
    }

    /// The connection, for commands that go as words.
    pub fn wire(&mut self) -> &mut Wire {
        &mut self.wire
    }

    /// Its prefix.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// A key of this index.
    pub fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// The words of a line: `ADD a 'b c'` is `DEDUPE.ADD <prefix> a "b c"`. `#7` is the hash of the
    /// seventh made-up record, `@7` the five words of that record, `#0..9` and `@0..9` are nine of them.
    /// A word in single quotes ends at the next one.
    ///
    /// # Panics
    /// When a quote is not closed, or a range has no end.
    pub fn words(&self, line: impl AsRef<str>) -> Vec<Vec<u8>> {
        let mut words: Vec<Vec<u8>> = Vec::new();
        let mut rest = line.as_ref().trim_start_matches(' ');
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
        words[0].splice(0..0, *b"DEDUPE.");
        words.insert(1, self.prefix.word());
        words
    }

    runs_lines!();

    /// `COMMIT`: new and already-known hashes.
    #[track_caller]
    pub fn commit(&mut self, crawl: &str) -> (i64, i64) {
        crawler::commit(&mut self.wire, &self.prefix, crawl)
    }

    /// `ADD` of these made-up records; how many were new.
    #[track_caller]
    pub fn add(&mut self, crawl: &str, numbers: impl IntoIterator<Item = u64>) -> i64 {
        crawler::add(&mut self.wire, &self.prefix, crawl, numbers)
    }

    /// `LOOKUP` of these made-up hashes: the owner of each, or `-`.
    #[track_caller]
    pub fn owners(&mut self, numbers: impl IntoIterator<Item = u64>) -> Vec<String> {
        crawler::owners(&mut self.wire, &self.prefix, numbers)
    }

    /// A hash of it as text.
    #[track_caller]
    pub fn hash(&mut self, name: &str) -> BTreeMap<String, String> {
        let key = self.key(name);
        crawler::hash_key(&mut self.wire, &key)
    }

    /// A counts key of it as numbers, without fields that are 0 or no whole numbers.
    #[track_caller]
    pub fn counts(&mut self, name: &str) -> BTreeMap<String, i64> {
        let key = self.key(name);
        crawler::counts(&mut self.wire, &key)
    }

    /// Members of a set of it, sorted.
    #[track_caller]
    pub fn set(&mut self, name: &str) -> Vec<String> {
        let key = self.key(name);
        crawler::set_key(&mut self.wire, &key)
    }

    /// Fails with the findings unless `CHECK` finds the index consistent.
    #[track_caller]
    pub fn assert_consistent(&mut self) {
        crawler::assert_consistent(&mut self.wire, &self.prefix);
    }
}

/// The numbers that a word like `#7` or `@0..9` stands for.
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
