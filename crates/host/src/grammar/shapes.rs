//! Shapes of single arguments; what is made of several is in [`super::combined`].

use super::{Arg, ArgKind, Args, Error, Limits, Map};
use crate::text::{Shown, parse_unsigned};

/// What stands for an argument: how it is read, and how it is described.
pub trait Shape<'a>: Sized {
    /// What it is read as.
    type Value;

    /// How it is described.
    fn arg(&self) -> Arg;

    /// Whether it stands next, when it may be left out. A shape with a keyword begins with that.
    fn begins(&self, args: &Args<'a>) -> bool {
        args.left() > 0
    }

    /// Reads it.
    ///
    /// # Errors
    /// When it is missing or invalid.
    fn read(&self, args: &mut Args<'a>) -> Result<Self::Value, Error>;

    /// This after a keyword.
    fn after(self, word: &'static str) -> After<Self> {
        After::new(word, self)
    }

    /// This as another value.
    fn map<T, F: Fn(Self::Value) -> T>(self, into: F) -> Map<Self, F> {
        Map::new(self, into)
    }
}

/// Any bytes.
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

/// A text of limited length.
#[derive(Clone, Copy)]
pub struct Bytes {
    name: &'static str,
    least: usize,
    most: usize,
}

impl Bytes {
    /// 1 to `most` bytes.
    pub const fn new(name: &'static str, most: usize) -> Bytes {
        Bytes {
            name,
            least: 1,
            most,
        }
    }

    /// Nothing is valid, too.
    pub const fn or_empty(self) -> Bytes {
        Bytes { least: 0, ..self }
    }
}

impl<'a> Shape<'a> for Bytes {
    type Value = &'a [u8];

    fn arg(&self) -> Arg {
        let limits = Limits::Bytes(self.least, self.most);
        Arg::value(self.name, ArgKind::Text, limits)
    }

    fn read(&self, args: &mut Args<'a>) -> Result<&'a [u8], Error> {
        args.bytes(self.name, self.least, self.most)
    }
}

/// An integer between two bounds.
#[derive(Clone, Copy)]
pub struct Integer {
    name: &'static str,
    /// How errors call it.
    called: &'static str,
    least: u64,
    most: u64,
}

impl Integer {
    /// From `least` to `most`.
    pub const fn new(name: &'static str, least: u64, most: u64) -> Integer {
        Integer {
            name,
            called: name,
            least,
            most,
        }
    }

    /// From `least` to the largest integer of the server.
    pub const fn from(name: &'static str, least: u64) -> Integer {
        Integer::new(name, least, i64::MAX as u64)
    }

    /// With this name in errors.
    pub const fn called(self, called: &'static str) -> Integer {
        Integer { called, ..self }
    }

    /// After a keyword, by which errors call it.
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
        args.unsigned(self.called, self.least, self.most)
    }
}

/// A value that a function reads out of the bytes, or says what is wrong with them.
#[derive(Clone, Copy)]
pub struct Form<F> {
    name: &'static str,
    kind: ArgKind,
    example: &'static str,
    parse: F,
}

/// A form of which the bytes themselves are the value.
pub type BytesForm = Form<fn(&[u8]) -> Result<&[u8], Error>>;

/// A form of values of this type.
pub type FormOf<T> = Form<fn(&[u8]) -> Result<T, Error>>;

impl<F> Form<F> {
    /// A text of this form, with an example of it.
    pub const fn text(name: &'static str, example: &'static str, parse: F) -> Form<F> {
        let kind = ArgKind::Text;
        Form {
            name,
            kind,
            example,
            parse,
        }
    }

    /// A number of this form, with an example of it.
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

/// One of several words, with what each means.
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
            let before = before.join(", ");
            args.wrong(&format!(
                "ERR invalid {name} '{word}': {before} or {last} is expected"
            ))
        })
    }
}

/// A word that stands or not.
#[derive(Clone, Copy)]
pub struct Flag(pub &'static str);

impl<'a> Shape<'a> for Flag {
    type Value = ();

    fn arg(&self) -> Arg {
        Arg::word(self.0)
    }

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

/// Something after a keyword.
#[derive(Clone, Copy)]
pub struct After<S> {
    word: &'static str,
    shape: S,
    /// The word alone may be a value that stands in this one's stead.
    may_be_value: bool,
}

impl<S> After<S> {
    /// A shape after this keyword.
    pub const fn new(word: &'static str, shape: S) -> After<S> {
        After {
            word,
            shape,
            may_be_value: false,
        }
    }

    /// Where a value may stand, too: a keyword that nothing follows is such a value.
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
