//! Descriptions of arguments for `COMMAND DOCS` and error messages.

use std::fmt;

/// The kind of an argument in the documentation of its command.
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
    /// A literal word.
    Word,
    /// Exactly one of the parts.
    OneOf,
    /// Parts that occur together, in order.
    Block,
}

/// Valid values of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limits {
    /// Any value.
    Any,
    /// Minimum and maximum number of bytes.
    Bytes(usize, usize),
    /// Smallest and largest integer.
    Range(u64, u64),
    /// Values in the format of this example.
    Like(&'static str),
}

/// An argument, as the documentation of its command describes it.
#[derive(Clone, Debug)]
pub struct Arg {
    /// Name of the argument.
    pub name: String,
    /// Kind of the value.
    pub kind: ArgKind,
    /// Valid values.
    pub limits: Limits,
    /// Keyword before the argument; for a word, the word itself.
    pub token: Option<&'static str>,
    /// True if the argument may be omitted.
    pub optional: bool,
    /// True if the argument may be repeated.
    pub multiple: bool,
    /// Parts of a block or of alternatives.
    pub parts: Vec<Arg>,
}

impl Arg {
    /// Creates a required argument of this kind that occurs once.
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

    /// Creates an argument for values with these limits.
    pub fn value(name: &str, kind: ArgKind, limits: Limits) -> Arg {
        let new = Arg::new(name, kind);
        Arg { limits, ..new }
    }

    /// Creates a literal word, whose name is the word in lower case.
    pub fn word(word: &'static str) -> Arg {
        Arg::new(&word.to_lowercase(), ArgKind::Word).after(word)
    }

    /// Creates a block of parts, or alternatives.
    pub fn of_parts(name: &str, kind: ArgKind, parts: Vec<Arg>) -> Arg {
        let new = Arg::new(name, kind);
        Arg { parts, ..new }
    }

    /// Puts the argument after a keyword.
    pub fn after(self, word: &'static str) -> Arg {
        let token = Some(word);
        Arg { token, ..self }
    }

    /// Makes the argument optional.
    pub fn optional(self) -> Arg {
        let optional = true;
        Arg { optional, ..self }
    }

    /// Lets the argument occur one or more times.
    pub fn multiple(self) -> Arg {
        let multiple = true;
        Arg { multiple, ..self }
    }

    /// Returns the minimum number of words of the argument.
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

    /// Returns true if the number of words varies.
    pub fn varies(&self) -> bool {
        self.optional || self.multiple || self.parts.iter().any(Arg::varies)
    }

    /// Returns the keywords with which the argument can begin.
    pub fn openers(&self) -> Vec<&'static str> {
        match (self.token, self.kind) {
            (Some(token), _) => vec![token],
            (None, ArgKind::OneOf) => self.parts.iter().flat_map(Arg::openers).collect(),
            (None, ArgKind::Block) => self.parts.first().map_or(Vec::new(), Arg::openers),
            (None, _) => Vec::new(),
        }
    }
}

/// Displays the syntax: `[SEQ writer n] chg at [chg at ...]`.
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
