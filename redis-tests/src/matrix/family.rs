//! What the tests of the matrix know of a family.

use std::collections::BTreeMap;

use super::grammar::{Grammar, Kind, Slot};
use super::{chg, dedupe, tags};
use crate::server::Options;
use crate::wire::{Reply, Wire};

/// The prefix that the matrix fills: with a hash tag, so that it is valid in a cluster. Of a family that
/// has everything under one key it is that key.
pub const PREFIX: &str = "{m}:";

/// Values that an argument must not have.
#[derive(Clone, Debug)]
pub struct Invalid {
    /// Commands, without the family's name and parted by spaces; all when it is empty.
    pub commands: &'static str,
    /// Names of arguments as `COMMAND DOCS` has them, or the tokens before them, parted by spaces.
    pub arguments: &'static str,
    /// The values. `x*257` is 257 times the letter x.
    pub values: &'static [&'static str],
    /// Words of which the error must contain one; any error will do when there are none.
    pub says: &'static [&'static str],
}

/// A family of commands.
#[derive(Clone)]
pub struct Family {
    /// The family's name, with which its commands begin: `DEDUPE`.
    pub name: &'static str,
    /// How its keys are stored, when there are two ways; else empty.
    pub storage: &'static str,
    /// A call a line, without the family's name and the prefix; quoted as lines of
    /// [`TagSpace`](crate::TagSpace), and `<…>` is what only the [`State`] has. Each succeeds on it, has
    /// its arguments in the order of `COMMAND DOCS`, and together they have every argument of every command.
    pub samples: &'static [&'static str],
    /// Lines that the state refuses, with the code word of the error: for what no state takes beside the
    /// other samples.
    pub refused: &'static [(&'static str, &'static str)],
    /// Lines whose replies describe the whole state.
    pub reads: &'static [&'static str],
    /// Commands that write and yet work when there is no memory left: they free some, or the crawl
    /// stands still without them.
    pub without_memory: &'static str,
    /// Names of keys, without the prefix, that its commands may use.
    pub keys: &'static [&'static str],
    /// What arguments must not be.
    pub invalid: &'static [Invalid],
    /// Words that mean something to the family, for random calls.
    pub words: &'static [&'static str],
    pub(super) options: fn() -> Options,
    pub(super) fill: fn(&mut Wire, &str) -> State,
}

impl Family {
    /// A server for it: with the settings and the storage that the samples need.
    pub fn options(&self) -> Options {
        let options = (self.options)();
        match self.storage {
            "packed" => options.packed(),
            "plain" => options.plain(),
            _ => options,
        }
    }

    /// The family and its storage, for messages.
    pub fn title(&self) -> String {
        [self.name, self.storage].join(" ").trim_end().to_owned()
    }

    /// Fills an empty index under this prefix, so that every sample succeeds and every kind of content is
    /// there.
    pub fn fill(&self, c: &mut Wire, prefix: &str) -> State {
        (self.fill)(c, prefix)
    }

    /// Empties the server, and fills [`PREFIX`].
    pub fn refill(&self, c: &mut Wire) -> State {
        c.expect_ok(&["FLUSHALL"]);
        self.fill(c, PREFIX)
    }

    /// Its commands, as this server describes them.
    pub fn grammars(&self, c: &mut Wire) -> BTreeMap<String, Grammar> {
        let all = Grammar::all(c, &format!("{}.", self.name.to_lowercase()));
        let named = all.into_iter();
        named
            .map(|grammar| (grammar.name.clone(), grammar))
            .collect()
    }

    /// The command of a line as `COMMAND DOCS` names it: `dedupe.add`.
    pub fn command(&self, line: &str) -> String {
        let name = line.split(' ').next().unwrap_or_default();
        format!("{}.{name}", self.name).to_lowercase()
    }

    /// Values that a word of a call must not have, with what the error says of them.
    pub fn invalid(&self, command: &str, slot: &Slot) -> Vec<(Vec<u8>, &'static [&'static str])> {
        let command = command.rsplit('.').next().unwrap_or_default();
        let has = |list: &str, word: &str| list.split(' ').any(|w| w.eq_ignore_ascii_case(word));
        let token = slot.token.as_deref().unwrap_or_default();
        let of_slot = self.invalid.iter().filter(|rule| {
            let named = has(rule.arguments, &slot.name) || has(rule.arguments, token);
            let word = slot.kind == Kind::Word;
            !word && named && (rule.commands.is_empty() || has(rule.commands, command))
        });
        let values = of_slot.flat_map(|rule| rule.values.iter().map(|value| (value, rule.says)));
        values.map(|(value, says)| (spelled(value), says)).collect()
    }
}

/// `x*257` is 257 times x, everything else is itself.
fn spelled(value: &str) -> Vec<u8> {
    match value.split_once('*').map(|(what, n)| (what, n.parse())) {
        Some((what, Ok(n))) if !what.is_empty() => what.repeat(n).into_bytes(),
        _ => value.as_bytes().to_vec(),
    }
}

/// A filled index, frontier or tag space.
#[derive(Clone)]
pub struct State {
    family: &'static str,
    /// Its prefix, or its key.
    pub prefix: String,
    /// The simulated time of calls that do not wait.
    now: Option<i64>,
    values: BTreeMap<&'static str, String>,
}

impl State {
    pub(super) fn new(family: &'static str, prefix: &str, now: Option<i64>) -> State {
        State {
            family,
            prefix: prefix.to_owned(),
            now,
            values: BTreeMap::new(),
        }
    }

    pub(super) fn with(mut self, name: &'static str, value: impl ToString) -> State {
        self.values.insert(name, value.to_string());
        self
    }

    /// The words of a call: `ADD <open> x` is `DEDUPE.ADD {m}: open x`. A command of a family with
    /// simulated time gets its `NOW`, unless it waits.
    ///
    /// # Panics
    /// When the line names what the state does not have.
    pub fn words(&self, line: &str) -> Vec<Vec<u8>> {
        let mut words: Vec<Vec<u8>> = split(line).iter().map(|word| self.value(word)).collect();
        words[0].splice(0..0, format!("{}.", self.family).into_bytes());
        words.insert(1, self.prefix.clone().into_bytes());
        let waits = words.iter().any(|word| word == b"BLOCK");
        if let Some(now) = self.now.filter(|_| !waits) {
            words.splice(2..2, [b"NOW".to_vec(), now.to_string().into_bytes()]);
        }
        words
    }

    fn value(&self, word: &str) -> Vec<u8> {
        let name = word.strip_prefix('<').and_then(|w| w.strip_suffix('>'));
        match name {
            None => word.as_bytes().to_vec(),
            Some(name) => {
                let value = self.values.get(name);
                let value = value.unwrap_or_else(|| panic!("the state has no <{name}>"));
                value.clone().into_bytes()
            }
        }
    }

    /// Lines and their replies.
    pub fn replies<'a>(&self, c: &mut Wire, lines: &[&'a str]) -> Vec<(&'a str, Reply)> {
        let lines = lines.iter();
        lines
            .map(|line| (*line, c.call(&self.words(line))))
            .collect()
    }
}

/// The words of a line. A word in single quotes ends at the next one.
pub(crate) fn split(line: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = line.trim_start_matches(' ');
    while !rest.is_empty() {
        let (word, after) = match rest.strip_prefix('\'') {
            Some(quoted) => quoted.split_once('\'').expect("the quote is closed"),
            None => rest.split_once(' ').unwrap_or((rest, "")),
        };
        words.push(word);
        rest = after.trim_start_matches(' ');
    }
    words
}

/// All families; `DEDUPE` with each storage.
pub fn families() -> Vec<Family> {
    vec![
        dedupe::family("plain"),
        dedupe::family("packed"),
        chg::family(),
        tags::family(),
    ]
}
