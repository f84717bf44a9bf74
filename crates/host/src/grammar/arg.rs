//! How an argument is described to the server and to people.

use std::fmt;

/// Kind of an argument in the command's documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgKind {
    /// Any bytes.
    Text,
    /// An integer.
    Integer,
    /// The key prefix.
    Prefix,
    /// The key.
    Key,
    /// A word that stands for itself.
    Word,
    /// One of the parts.
    OneOf,
    /// The parts together.
    Block,
}

/// Which values of an argument are valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limits {
    /// Any.
    Any,
    /// Number of bytes, at least and at most.
    Bytes(usize, usize),
    /// Integers from here to there.
    Range(u64, u64),
    /// Those of a form that this value has.
    Like(&'static str),
}

/// An argument in the command's documentation.
#[derive(Clone, Debug)]
pub struct Arg {
    /// Its name.
    pub name: String,
    /// What stands for it.
    pub kind: ArgKind,
    /// Which values are valid.
    pub limits: Limits,
    /// The word before it, or of a word the word itself.
    pub token: Option<&'static str>,
    /// Whether it may be left out.
    pub optional: bool,
    /// Whether it may stand several times.
    pub multiple: bool,
    /// What a block, or one of several, is made of.
    pub parts: Vec<Arg>,
}

impl Arg {
    /// An argument of this kind, which must stand once.
    pub fn new(name: &str, kind: ArgKind) -> Arg {
        Arg {
            name: name.to_owned(),
            kind,
            limits: Limits::Any,
            token: None,
            optional: false,
            multiple: false,
            parts: Vec::new(),
        }
    }

    /// Values with these limits.
    pub fn value(name: &str, kind: ArgKind, limits: Limits) -> Arg {
        let new = Arg::new(name, kind);
        Arg { limits, ..new }
    }

    /// A word that stands for itself. Its name is the word in lower case.
    pub fn word(word: &'static str) -> Arg {
        Arg::new(&word.to_lowercase(), ArgKind::Word).after(word)
    }

    /// Parts together, or one of them.
    pub fn of_parts(name: &str, kind: ArgKind, parts: Vec<Arg>) -> Arg {
        let new = Arg::new(name, kind);
        Arg { parts, ..new }
    }

    /// This argument after a keyword.
    pub fn after(self, word: &'static str) -> Arg {
        let token = Some(word);
        Arg { token, ..self }
    }

    /// This argument, which may be left out.
    pub fn optional(self) -> Arg {
        let optional = true;
        Arg { optional, ..self }
    }

    /// This argument, one or more times.
    pub fn multiple(self) -> Arg {
        let multiple = true;
        Arg { multiple, ..self }
    }

    /// The fewest words that stand for it.
    pub fn fewest(&self) -> usize {
        let parts = self.parts.iter().map(Arg::fewest);
        match self.kind {
            _ if self.optional => 0,
            ArgKind::Word => 1,
            ArgKind::Block => usize::from(self.token.is_some()) + parts.sum::<usize>(),
            ArgKind::OneOf => usize::from(self.token.is_some()) + parts.min().unwrap_or(0),
            _ => 1 + usize::from(self.token.is_some()),
        }
    }

    /// Whether more words may stand for it, too.
    pub fn varies(&self) -> bool {
        self.optional || self.multiple || self.parts.iter().any(Arg::varies)
    }

    /// The keywords that it may begin with.
    pub fn openers(&self) -> Vec<&'static str> {
        match (self.token, self.kind) {
            (Some(token), _) => vec![token],
            (None, ArgKind::OneOf) => self.parts.iter().flat_map(Arg::openers).collect(),
            (None, ArgKind::Block) => self.parts.first().map_or(Vec::new(), Arg::openers),
            (None, _) => Vec::new(),
        }
    }
}

/// Shows the syntax: `[SEQ writer n] chg at [chg at ...]`.
impl fmt::Display for Arg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let once = match self.kind {
            ArgKind::Word => String::new(),
            ArgKind::OneOf => joined(&self.parts, " | "),
            ArgKind::Block => joined(&self.parts, " "),
            _ => self.name.clone(),
        };
        let token = self.token.map(str::to_owned);
        let words = [token, (!once.is_empty()).then_some(once.clone())];
        let mut syntax = words.into_iter().flatten().collect::<Vec<_>>().join(" ");
        if self.multiple {
            syntax = format!("{syntax} [{once} ...]");
        }
        if self.optional {
            syntax = format!("[{syntax}]");
        }
        f.write_str(&syntax)
    }
}

fn joined(args: &[Arg], between: &str) -> String {
    let args: Vec<String> = args.iter().map(Arg::to_string).collect();
    args.join(between)
}
