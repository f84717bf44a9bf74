//! Parses the arguments of a command from `COMMAND DOCS`, and finds the argument for each word of a
//! call.

use crate::wire::{Reply, Wire};

/// The kind of an argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The key, or the prefix of keys.
    Key,
    /// Arbitrary bytes.
    Text,
    /// An integer.
    Integer,
    /// A literal word.
    Word,
    /// One of several parts.
    OneOf,
    /// All parts, in order.
    Block,
}

/// An argument of a command, as `COMMAND DOCS` describes it.
#[derive(Clone, Debug)]
pub struct Argument {
    /// Number of the argument within its command, counting parts, in the order of `COMMAND DOCS`.
    pub id: usize,
    /// Its name.
    pub name: String,
    /// Kind of the words of the argument.
    pub kind: Kind,
    /// The word before the value. In an argument of [`Kind::Word`], this is the word itself.
    pub token: Option<String>,
    /// True if the argument is optional.
    pub optional: bool,
    /// True if the argument may be repeated.
    pub multiple: bool,
    /// Parts of a [`Kind::OneOf`] or [`Kind::Block`].
    pub parts: Vec<Argument>,
}

impl Argument {
    fn of(docs: &Reply, next: &mut usize) -> Argument {
        let id = *next;
        *next += 1;
        let kind = match docs.field("type").text().as_str() {
            "key" => Kind::Key,
            "string" => Kind::Text,
            "integer" => Kind::Integer,
            "pure-token" => Kind::Word,
            "oneof" => Kind::OneOf,
            "block" => Kind::Block,
            other => panic!("an argument of type {other}: {docs:?}"),
        };
        let flags = docs.find("flags").map(|flags| flags.texts());
        let has = |flag| flags.iter().flatten().any(|f| f == flag);
        let parts = docs.find("arguments");
        Argument {
            id,
            name: docs.field("name").text(),
            kind,
            token: docs.find("token").map(|token| token.text()),
            optional: has("optional"),
            multiple: has("multiple"),
            parts: parts.map_or_else(Vec::new, |parts| Argument::all(&parts, next)),
        }
    }

    fn all(docs: &Reply, next: &mut usize) -> Vec<Argument> {
        let arguments = docs.items().iter();
        arguments.map(|docs| Argument::of(docs, next)).collect()
    }

    /// Returns this argument and all of its parts, recursively.
    pub fn flat(&self) -> Vec<&Argument> {
        let parts = self.parts.iter().flat_map(Argument::flat);
        std::iter::once(self).chain(parts).collect()
    }
}

/// The argument to which a word of a call belongs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Slot {
    /// The number of the [`Argument`].
    pub id: usize,
    /// The argument's name.
    pub name: String,
    /// Kind of the word: [`Kind::Word`] for all tokens, including tokens before a value.
    pub kind: Kind,
    /// The token before a value, or the word itself if it is a token.
    pub token: Option<String>,
}

impl Slot {
    /// Returns true if the word is a value of one of these arguments. `arguments` contains names or
    /// tokens, separated by spaces.
    pub(super) fn is_one_of(&self, arguments: &str) -> bool {
        let mut arguments = arguments.split(' ');
        let token = self.token.as_deref().unwrap_or(&self.name);
        self.kind != Kind::Word
            && arguments.any(|a| {
                [&self.name, token]
                    .iter()
                    .any(|n| n.eq_ignore_ascii_case(a))
            })
    }
}

/// A command, as the server describes it.
#[derive(Clone, Debug)]
pub struct Grammar {
    /// Its name in lower case: `dedupe.add`.
    pub name: String,
    /// Number of words of the shortest call. The number is negative if longer calls are allowed.
    pub arity: i64,
    /// Flags of the server: `write`, `readonly`, `denyoom`, …
    pub flags: Vec<String>,
    /// Its arguments. The first argument is the key or prefix.
    pub arguments: Vec<Argument>,
}

impl Grammar {
    /// Returns all commands of the module whose names begin with `family`, for example `dedupe.`.
    pub fn all(c: &mut Wire, family: &str) -> Vec<Grammar> {
        let listed = c.expect_ok(&["COMMAND", "LIST", "FILTERBY", "MODULE", "crawlspace"]);
        let mut names = listed.texts();
        names.retain(|name| name.starts_with(family));
        names.sort();
        names.iter().map(|name| Grammar::of(c, name)).collect()
    }

    /// Returns one command.
    ///
    /// # Panics
    /// Panics if the server does not know the command.
    pub fn of(c: &mut Wire, name: &str) -> Grammar {
        let info = c.expect_ok(&["COMMAND", "INFO", name]).items()[0].clone();
        assert!(!info.is_nil(), "no command {name}");
        let docs = c.expect_ok(&["COMMAND", "DOCS", name]).field(name);
        Grammar {
            name: name.to_owned(),
            arity: info.items()[1].int(),
            flags: info.items()[2].texts(),
            arguments: Argument::all(&docs.field("arguments"), &mut 0),
        }
    }

    /// Returns true if the command has this flag.
    pub fn has(&self, flag: &str) -> bool {
        self.flags.iter().any(|f| f == flag)
    }

    /// Returns true if the command writes.
    pub fn writes(&self) -> bool {
        self.has("write")
    }

    /// Returns all arguments, including their parts.
    pub fn flat(&self) -> Vec<&Argument> {
        self.arguments.iter().flat_map(Argument::flat).collect()
    }

    /// Returns every literal word.
    pub fn tokens(&self) -> Vec<&str> {
        let tokens = self.flat().into_iter();
        tokens.filter_map(|a| a.token.as_deref()).collect()
    }

    /// Returns the argument of each word of a call, without the command's name; `None` if the call
    /// does not follow the grammar. A word that is a token of the command is never a value.
    pub fn read(&self, words: &[impl AsRef<[u8]>]) -> Option<Vec<Slot>> {
        self.read_with(self.tokens(), words)
    }

    /// Returns true if a call follows the grammar in any way, even if a value equals a token.
    pub fn allows(&self, words: &[impl AsRef<[u8]>]) -> bool {
        self.read_with(Vec::new(), words).is_some()
    }

    fn read_with(&self, tokens: Vec<&str>, words: &[impl AsRef<[u8]>]) -> Option<Vec<Slot>> {
        let words: Vec<&[u8]> = words.iter().skip(1).map(AsRef::as_ref).collect();
        let reading = Reading {
            tokens,
            words: &words,
        };
        let ways = reading.sequence(&self.arguments, vec![Vec::new()]);
        ways.into_iter().find(|way| way.len() == words.len())
    }
}

/// A call that is being parsed. Each possible parse of the first words of the call assigns an
/// argument to every word.
struct Reading<'a> {
    tokens: Vec<&'a str>,
    words: &'a [&'a [u8]],
}

impl Reading<'_> {
    /// Returns every parse that continues with these arguments.
    fn sequence(&self, arguments: &[Argument], ways: Vec<Vec<Slot>>) -> Vec<Vec<Slot>> {
        arguments.iter().fold(ways, |ways, argument| {
            let more = ways.iter().flat_map(|way| self.argument(argument, way));
            more.collect()
        })
    }

    fn argument(&self, argument: &Argument, way: &[Slot]) -> Vec<Vec<Slot>> {
        let mut ways = Vec::new();
        let mut longest = match (&argument.token, argument.kind) {
            (Some(token), kind) if kind != Kind::Word => self.word(argument, token, way),
            _ => vec![way.to_vec()],
        };
        loop {
            let once = longest.iter().flat_map(|way| self.once(argument, way));
            longest = once.collect();
            if longest.is_empty() {
                break;
            }
            ways.splice(0..0, longest.clone());
            if !argument.multiple {
                break;
            }
        }
        if argument.optional {
            ways.push(way.to_vec());
        }
        ways
    }

    fn once(&self, argument: &Argument, way: &[Slot]) -> Vec<Vec<Slot>> {
        match argument.kind {
            Kind::Block => self.sequence(&argument.parts, vec![way.to_vec()]),
            Kind::OneOf => {
                let parts = argument.parts.iter();
                parts.flat_map(|part| self.argument(part, way)).collect()
            }
            Kind::Word => {
                let token = argument.token.as_ref().expect("a word has a token");
                self.word(argument, token, way)
            }
            Kind::Key | Kind::Text | Kind::Integer => self.value(argument, way),
        }
    }

    fn word(&self, argument: &Argument, token: &str, way: &[Slot]) -> Vec<Vec<Slot>> {
        let word = self.words.get(way.len());
        let is_it = word.is_some_and(|word| word.eq_ignore_ascii_case(token.as_bytes()));
        self.next(is_it, argument, Kind::Word, way)
    }

    fn value(&self, argument: &Argument, way: &[Slot]) -> Vec<Vec<Slot>> {
        let fits = self.words.get(way.len()).is_some_and(|word| {
            let is_token = || self.tokens.iter().any(|token| token.as_bytes() == *word);
            match argument.kind {
                Kind::Integer => is_integer(word),
                Kind::Key => true,
                _ => !is_token(),
            }
        });
        self.next(fits, argument, argument.kind, way)
    }

    fn next(&self, fits: bool, argument: &Argument, kind: Kind, way: &[Slot]) -> Vec<Vec<Slot>> {
        if !fits {
            return Vec::new();
        }
        let slot = Slot {
            id: argument.id,
            name: argument.name.clone(),
            kind,
            token: argument.token.clone(),
        };
        vec![[way, &[slot]].concat()]
    }
}

/// Returns true if a word is an integer as the server accepts it, without a plus.
pub fn is_integer(word: &[u8]) -> bool {
    let text = std::str::from_utf8(word).unwrap_or_default();
    !text.starts_with('+') && text.parse::<i64>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn argument(id: usize, name: &str, kind: Kind) -> Argument {
        Argument {
            id,
            name: name.to_owned(),
            kind,
            token: None,
            optional: false,
            multiple: false,
            parts: Vec::new(),
        }
    }

    /// Returns the grammar of `SET key [LIMIT n] {ALL | id…}`.
    fn grammar() -> Grammar {
        let limit = Argument {
            token: Some("LIMIT".to_owned()),
            optional: true,
            ..argument(1, "n", Kind::Integer)
        };
        let all = Argument {
            token: Some("ALL".to_owned()),
            ..argument(3, "all", Kind::Word)
        };
        let id = Argument {
            multiple: true,
            ..argument(4, "id", Kind::Text)
        };
        let what = Argument {
            parts: vec![all, id],
            ..argument(2, "what", Kind::OneOf)
        };
        Grammar {
            name: "set".to_owned(),
            arity: -3,
            flags: vec!["write".to_owned()],
            arguments: vec![argument(0, "key", Kind::Key), limit, what],
        }
    }

    fn read(line: &str) -> Option<Vec<(String, Kind)>> {
        let words: Vec<&str> = line.split(' ').collect();
        let slots = grammar().read(&words)?.into_iter();
        Some(slots.map(|slot| (slot.name, slot.kind)).collect())
    }

    #[test]
    fn every_word_gets_its_argument() {
        let named = |slots: &[(&str, Kind)]| {
            let slots = slots.iter();
            Some(slots.map(|(n, k)| ((*n).to_owned(), *k)).collect())
        };
        let key = ("key", Kind::Key);
        let all = ("all", Kind::Word);
        let limit = [("n", Kind::Word), ("n", Kind::Integer)];
        assert_eq!(read("SET k all"), named(&[key, all]));
        assert_eq!(
            read("SET k LIMIT 5 ALL"),
            named(&[key, limit[0], limit[1], all])
        );
        let ids = [key, ("id", Kind::Text), ("id", Kind::Text)];
        assert_eq!(read("SET k a b"), named(&ids));
    }

    #[test]
    fn calls_that_violate_the_grammar_are_not_parsed() {
        for line in rows![
            "SET k"; "SET k ALL a"; "SET k LIMIT x a"; "SET k a LIMIT 5"; "SET k LIMIT 5";
        ] {
            assert_eq!(read(line), None, "{line}");
        }
        assert!(grammar().allows(&["SET", "k", "ALL", "a"]));
        assert!(!grammar().allows(&["SET", "k"]));
    }
}
