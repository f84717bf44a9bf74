//! Describes a command family for the tests of the matrix.

use crawlspace_compact::limits;
use std::collections::BTreeMap;

use super::grammar::{Grammar, Slot};
use crate::server::Options;
use crate::wire::{Reply, Wire};

/// The prefix that the matrix fills. The prefix has a hash tag, so that it is valid in a cluster.
/// A family with a single key uses it as the name of this key.
pub const PREFIX: &str = "{m}:";

/// Commands that run instead of the server's own commands. They take full keys, have no state of their own, and are
/// tested in comparison with the server's commands.
pub const STAND_INS: [&str; 6] = [
    "dedupe.hget",
    "dedupe.hlen",
    "dedupe.hscan",
    "dedupe.hsetnx",
    "dedupe.rename",
    "dedupe.renamenx",
];

/// A family of commands.
#[derive(Clone)]
pub struct Family {
    /// Name of the family: the first part of its commands, such as `DEDUPE`.
    pub name: &'static str,
    /// The storage of the keys if the family has two kinds of storage; otherwise empty.
    pub storage: &'static str,
    /// Sample calls, one per line, without the family's name and the prefix, quoted as in
    /// [`TagSpace`](crate::TagSpace) lines. `<…>` is a placeholder for a value that only the
    /// [`State`] knows. Each call succeeds on the state and has its arguments in the order of
    /// `COMMAND DOCS`. Together, the calls use every argument of every command.
    pub samples: &'static [&'static str],
    /// Refused calls, each with the code word of the error: calls with contradictory options, and
    /// calls that need another state.
    pub refused: &'static [(&'static str, &'static str)],
    /// Lines whose replies describe the whole state.
    pub reads: &'static [&'static str],
    /// Write commands that work even when the server is out of memory: they free memory, or the
    /// crawl could not continue without them.
    pub without_memory: &'static str,
    /// Names of keys that the commands may use, without the prefix. The names are separated like
    /// the arguments of a line.
    pub keys: &'static str,
    /// Key names without the prefix, each with a field. Tests write garbage to these fields, and to
    /// the fields that exist in the state.
    pub fields: &'static [(&'static str, &'static str)],
    /// Arguments of unlimited size, separated by spaces.
    pub unbounded: &'static str,
    /// Arguments that errors call neither by their name nor by their token, and the word that
    /// errors use. The word is empty if the server cannot know which argument the client meant.
    pub aliases: &'static [(&'static str, &'static str)],
    /// Samples that run in slices. If a late slice finds a key of another type, the command stops.
    /// After the test has deleted the key, the same command completes.
    pub resumed: &'static [&'static str],
    /// Invalid arguments: commands (empty for all), names or tokens of arguments, invalid values,
    /// and words, one of which the error must contain (empty if any error is valid). The elements
    /// are separated like the arguments of a line.
    pub invalid: &'static [[&'static str; 4]],
    /// Limits of arguments, as documented. The columns are: prefixes of samples (empty for all),
    /// names or tokens of arguments, values just within the limit, values just beyond the limit,
    /// and words that the error contains, such as the maximum. The elements are separated like the
    /// arguments of a line.
    pub limits: &'static [[&'static str; 5]],
    /// Words with a meaning for the family, for random calls. `<…>` and `x*257` have the same
    /// meaning as in other lists.
    pub words: &'static str,
    /// Names of arguments, and plausible values for random calls. Names and values are separated
    /// like the arguments of a line.
    pub values: &'static [(&'static str, &'static str)],
    /// Fails if the family's own check finds a problem in the state.
    pub assert_consistent: fn(&mut Wire, &State),
    pub(super) options: fn() -> Options,
    pub(super) fill: fn(&mut Wire, &str) -> State,
}

impl Family {
    /// Returns options for a server with the settings and the storage that the samples need.
    pub fn options(&self) -> Options {
        let options = (self.options)();
        match self.storage {
            "packed" => options.packed(),
            _ => options.plain(),
        }
    }

    /// Returns the family and its storage, for messages.
    pub fn title(&self) -> String {
        [self.name, self.storage].join(" ").trim_end().to_owned()
    }

    /// Fills an empty index with this prefix, so that every sample succeeds and all kinds of
    /// content exist.
    pub fn fill(&self, c: &mut Wire, prefix: &str) -> State {
        (self.fill)(c, prefix)
    }

    /// Empties the server and fills [`PREFIX`].
    pub fn refill(&self, c: &mut Wire) -> State {
        c.expect_ok(&["FLUSHALL"]);
        self.fill(c, PREFIX)
    }

    /// Returns the commands as this server describes them.
    pub fn grammars(&self, c: &mut Wire) -> BTreeMap<String, Grammar> {
        let all = Grammar::all(c, &format!("{}.", self.name.to_lowercase()));
        let named = all.into_iter();
        named
            .filter(|grammar| !STAND_INS.contains(&grammar.name.as_str()))
            .map(|grammar| (grammar.name.clone(), grammar))
            .collect()
    }

    /// Returns the command of a line as `COMMAND DOCS` names it: `dedupe.add`.
    pub fn command(&self, line: &str) -> String {
        let name = line.split(' ').next().unwrap_or_default();
        format!("{}.{name}", self.name).to_lowercase()
    }

    /// Returns the limits of an argument in a call of this sample.
    pub fn limits(&self, line: &str, slot: &Slot) -> Vec<&'static [&'static str; 5]> {
        let of_slot = self.limits.iter().filter(|[lines, arguments, ..]| {
            let lines = split(lines);
            let here = |start: &&str| line == *start || line.starts_with(&format!("{start} "));
            slot.is_one_of(arguments) && (lines.is_empty() || lines.iter().any(here))
        });
        of_slot.collect()
    }

    /// Returns the names that errors may use for an argument. An empty word means that any error is
    /// valid.
    pub fn names(&self, slot: &Slot) -> Vec<String> {
        let aliases = self.aliases.iter().filter(|(name, _)| *name == slot.name);
        let aliases = aliases.map(|(_, says)| (*says).to_owned());
        let own = std::iter::once(slot.name.clone()).chain(slot.token.clone());
        own.chain(aliases).collect()
    }

    /// Returns invalid values for a word of a call. For each value, the error must contain one of
    /// the words.
    pub fn invalid(&self, command: &str, slot: &Slot) -> Vec<(Vec<u8>, Vec<&'static str>)> {
        let command = command.rsplit('.').next().unwrap_or_default();
        let has = |list: &str, word: &str| list.split(' ').any(|w| w.eq_ignore_ascii_case(word));
        let of_slot = self.invalid.iter().filter(|[commands, arguments, ..]| {
            slot.is_one_of(arguments) && (commands.is_empty() || has(commands, command))
        });
        let values = of_slot.flat_map(|[.., values, says]| {
            split(values)
                .into_iter()
                .map(|value| (spelled(value), split(says)))
        });
        values.collect()
    }
}

/// Replaces `{NAME}` with the family's limit of this name, and `{NAME+1}` with the next larger
/// number.
///
/// # Panics
/// Panics if the family has no limit of that name.
pub fn with_limits(family: &str, text: &str) -> String {
    let of_family = match family {
        "DEDUPE" => limits::dedupe::ALL,
        "CHG" => limits::chg::ALL,
        _ => limits::tags::ALL,
    };
    let value = |name: &str| {
        let mut all = of_family.iter().chain(limits::every::ALL);
        let found = all.find(|(known, _)| *known == name);
        found.unwrap_or_else(|| panic!("no limit {name}")).1
    };
    let mut filled = String::new();
    let mut rest = text;
    // Other braces are part of regular expressions and hash tags.
    while let Some((before, after)) = rest.split_once('{') {
        filled += before;
        rest = after;
        match after.split_once('}') {
            Some((name, after)) if name.starts_with(|c: char| c.is_ascii_uppercase()) => {
                let number = match name.strip_suffix("+1") {
                    Some(name) => value(name) + 1,
                    None => value(name),
                };
                filled += &number.to_string();
                rest = after;
            }
            _ => filled.push('{'),
        }
    }
    filled += rest;
    filled
}

/// Expands `x*257` to 257 times x. Returns other values unchanged.
fn spelled(value: &str) -> Vec<u8> {
    match value.split_once('*').map(|(what, n)| (what, n.parse())) {
        Some((what, Ok(n))) if !what.is_empty() => what.repeat(n).into_bytes(),
        _ => value.as_bytes().to_vec(),
    }
}

/// Checks the form of an error line: a code word and a sentence, short, and ASCII. Returns the
/// defect, if there is one.
pub fn malformed(line: &[u8]) -> Option<&'static str> {
    let code = line.split(|b| *b == b' ').next().unwrap_or_default();
    let coded = !code.is_empty() && code.iter().all(u8::is_ascii_uppercase);
    if !coded || line.len() < code.len() + 5 {
        return Some("not a code word and a sentence");
    }
    (!line.is_ascii() || line.len() > 1000).then_some("not short ASCII")
}

/// A filled index, frontier or tag space.
#[derive(Clone)]
pub struct State {
    family: &'static str,
    /// The prefix, or the key of a family with a single key.
    pub prefix: String,
    /// The simulated time of calls that do not wait.
    pub now: Option<i64>,
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

    /// Returns the arguments of a call: `ADD <open> x` is `DEDUPE.ADD {m}: open x`. Commands of a
    /// family with simulated time get `NOW`, unless they block.
    ///
    /// # Panics
    /// Panics if the state does not have a `<…>` value of the line.
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

    /// Expands a word of the family's lists: `<…>` is a value of this state, `x*257` is 257 times
    /// x, `{…}` is a limit.
    pub fn word(&self, word: &str) -> Vec<u8> {
        if word.starts_with('<') {
            self.value(word)
        } else {
            spelled(&with_limits(self.family, word))
        }
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

    /// Runs lines and returns them with their replies.
    pub fn replies<'a>(&self, c: &mut Wire, lines: &[&'a str]) -> Vec<(&'a str, Reply)> {
        let lines = lines.iter();
        lines
            .map(|line| (*line, c.call(&self.words(line))))
            .collect()
    }
}

/// Splits a line into words. A word in single quotes ends at the next single quote.
pub fn split(line: &str) -> Vec<&str> {
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
