//! Shapes of single arguments. [`super::combined`] contains shapes of several arguments.

use super::{Arg, ArgKind, Args, Error, Limits, Map};
use crate::text::{Shown, parse_unsigned};

/// The shape of an argument: how it is parsed and documented.
pub trait Shape<'a>: Sized {
    /// Type of the parsed value.
    type Value;

    /// Describes the argument.
    fn arg(&self) -> Arg;

    /// Returns true if this argument is next. Used for optional arguments. A shape with a keyword
    /// begins with the keyword.
    fn begins(&self, args: &Args<'a>) -> bool {
        args.left() > 0
    }

    /// Reads the argument.
    ///
    /// # Errors
    /// Fails if the argument is missing or invalid.
    fn read(&self, args: &mut Args<'a>) -> Result<Self::Value, Error>;

    /// Puts a keyword before this shape.
    fn after(self, word: &'static str) -> After<Self> {
        After::new(word, self)
    }

    /// Converts the value with `into`.
    fn map<T, F: Fn(Self::Value) -> T>(self, into: F) -> Map<Self, F> {
        Map::new(self, into)
    }
}

/// Any bytes, of any length.
#[derive(Clone, Copy)]
pub struct Text(pub &'static str);

impl<'a> Shape<'a> for Text {
    type Value = &'a [u8];

    fn arg(&self) -> Arg {
        Arg::new(self.0, ArgKind::Text)
    }

    fn read(&self, args: &mut Args<'a>) -> Result<&'a [u8], Error> {
        args.next(self.0)
    }
}

/// Bytes of limited length.
#[derive(Clone, Copy)]
pub struct Bytes {
    name: &'static str,
    /// Name used in errors.
    called: &'static str,
    least: usize,
    most: usize,
}

impl Bytes {
    /// Accepts 1 to `most` bytes.
    pub const fn new(name: &'static str, most: usize) -> Bytes {
        Bytes {
            name,
            called: name,
            least: 1,
            most,
        }
    }

    /// Also accepts the empty string.
    pub const fn or_empty(self) -> Bytes {
        Bytes { least: 0, ..self }
    }

    /// Puts a keyword before the bytes. Error messages refer to the bytes by the keyword.
    pub fn after(self, word: &'static str) -> After<Bytes> {
        let called = word;
        After::new(word, Bytes { called, ..self })
    }
}

impl<'a> Shape<'a> for Bytes {
    type Value = &'a [u8];

    fn arg(&self) -> Arg {
        let limits = Limits::Bytes(self.least, self.most);
        Arg::value(self.name, ArgKind::Text, limits)
    }

    fn read(&self, args: &mut Args<'a>) -> Result<&'a [u8], Error> {
        args.bytes(self.called, self.least, self.most)
    }
}

/// An integer within limits.
#[derive(Clone, Copy)]
pub struct Integer {
    name: &'static str,
    /// Name used in errors.
    called: &'static str,
    least: u64,
    most: u64,
    /// Text that errors append to the range.
    note: &'static str,
}

impl Integer {
    /// Accepts integers from `least` to `most`.
    pub const fn new(name: &'static str, least: u64, most: u64) -> Integer {
        Integer {
            name,
            called: name,
            least,
            most,
            note: "",
        }
    }

    /// Accepts integers from `least` to the server's largest integer.
    pub const fn from(name: &'static str, least: u64) -> Integer {
        Integer::new(name, least, i64::MAX as u64)
    }

    /// Sets the name used in errors.
    pub const fn called(self, called: &'static str) -> Integer {
        Integer { called, ..self }
    }

    /// Sets the note that errors append to the range.
    pub const fn noting(self, note: &'static str) -> Integer {
        Integer { note, ..self }
    }

    /// Puts a keyword before the integer. Errors use the keyword as the name of the integer.
    pub fn after(self, word: &'static str) -> After<Integer> {
        Shape::after(self.called(word), word)
    }
}

impl<'a> Shape<'a> for Integer {
    type Value = u64;

    fn arg(&self) -> Arg {
        let limits = Limits::Range(self.least, self.most);
        Arg::value(self.name, ArgKind::Integer, limits)
    }

    fn begins(&self, args: &Args<'a>) -> bool {
        args.peek().and_then(parse_unsigned).is_some()
    }

    fn read(&self, args: &mut Args<'a>) -> Result<u64, Error> {
        args.unsigned(self.called, self.least, self.most, self.note)
    }
}

/// A value that a function parses from bytes. For invalid bytes, the function returns an error
/// message.
#[derive(Clone, Copy)]
pub struct Form<F> {
    name: &'static str,
    kind: ArgKind,
    example: &'static str,
    parse: F,
}

/// A form that returns the bytes themselves.
pub type BytesForm = Form<fn(&[u8]) -> Result<&[u8], Error>>;

/// A form that returns a value of this type.
pub type FormOf<T> = Form<fn(&[u8]) -> Result<T, Error>>;

impl<F> Form<F> {
    /// Creates a form that is documented as text, with an example.
    pub const fn text(name: &'static str, example: &'static str, parse: F) -> Form<F> {
        let kind = ArgKind::Text;
        Form {
            name,
            kind,
            example,
            parse,
        }
    }

    /// Creates a form that is documented as a number, with an example.
    pub const fn number(name: &'static str, example: &'static str, parse: F) -> Form<F> {
        let kind = ArgKind::Integer;
        Form {
            name,
            kind,
            example,
            parse,
        }
    }
}

impl<'a, T, F: Fn(&'a [u8]) -> Result<T, Error>> Shape<'a> for Form<F> {
    type Value = T;

    fn arg(&self) -> Arg {
        Arg::value(self.name, self.kind, Limits::Like(self.example))
    }

    #[inline]
    fn read(&self, args: &mut Args<'a>) -> Result<T, Error> {
        let bytes = args.next(self.name)?;
        (self.parse)(bytes).map_err(|why| args.wrong(&why))
    }
}

/// A choice between several words, each with its value.
#[derive(Clone, Copy)]
pub struct Choice<T: 'static>(pub &'static str, pub &'static [(&'static str, T)]);

impl<T: Copy> Choice<T> {
    fn find(&self, word: &[u8]) -> Option<T> {
        let is = |(known, _): &&(&str, T)| word.eq_ignore_ascii_case(known.as_bytes());
        self.1.iter().find(is).map(|(_, meaning)| *meaning)
    }
}

impl<'a, T: Copy> Shape<'a> for Choice<T> {
    type Value = T;

    fn arg(&self) -> Arg {
        let words = self.1.iter().map(|(word, _)| Arg::word(word)).collect();
        Arg::of_parts(self.0, ArgKind::OneOf, words)
    }

    fn read(&self, args: &mut Args<'a>) -> Result<T, Error> {
        let word = args.next(self.0)?;
        self.find(word).ok_or_else(|| {
            let (last, before) = self.1.split_last().expect("there are words");
            let before: Vec<&str> = before.iter().map(|(word, _)| *word).collect();
            let (name, word, last) = (self.0, Shown(word), last.0);
            let known = match &before.join(", ")[..] {
                "" => last.to_owned(),
                before => format!("{before} or {last}"),
            };
            args.wrong(&format!("ERR invalid {name} '{word}': {known} is expected"))
        })
    }
}

/// A keyword that is present or absent.
#[derive(Clone, Copy)]
pub struct Flag(pub &'static str);

impl<'a> Shape<'a> for Flag {
    type Value = ();

    fn arg(&self) -> Arg {
        Arg::word(self.0)
    }

    #[inline]
    fn begins(&self, args: &Args<'a>) -> bool {
        args.is(self.0)
    }

    fn read(&self, args: &mut Args<'a>) -> Result<(), Error> {
        if args.keyword(self.0) {
            Ok(())
        } else {
            Err(args.expected(self.0))
        }
    }
}

/// A shape after a keyword.
#[derive(Clone, Copy)]
pub struct After<S> {
    word: &'static str,
    shape: S,
    /// True if a keyword that is the last argument is read as a plain value.
    may_be_value: bool,
}

impl<S> After<S> {
    /// Puts a keyword before a shape.
    #[inline]
    pub const fn new(word: &'static str, shape: S) -> After<S> {
        After {
            word,
            shape,
            may_be_value: false,
        }
    }

    /// Reads the keyword as a plain value if it is the last argument. Use this at positions where
    /// both a keyword and a value are valid.
    pub fn or_value(self) -> After<S> {
        let may_be_value = true;
        After {
            may_be_value,
            ..self
        }
    }
}

impl<'a, S: Shape<'a>> Shape<'a> for After<S> {
    type Value = S::Value;

    fn arg(&self) -> Arg {
        self.shape.arg().after(self.word)
    }

    #[inline(always)]
    fn begins(&self, args: &Args<'a>) -> bool {
        args.is(self.word) && !(self.may_be_value && args.left() == 1)
    }

    #[inline]
    fn read(&self, args: &mut Args<'a>) -> Result<S::Value, Error> {
        if args.keyword(self.word) {
            self.shape.read(args)
        } else {
            Err(args.expected(&self.arg().to_string()))
        }
    }
}
