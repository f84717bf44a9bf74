//! Shapes that arguments have.

use std::marker::PhantomData;

use smallvec::{Array, SmallVec};

use super::{Arg, ArgKind, Args, Error, Grammar, Limits};
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
        Map(self, into)
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

/// Another value of what was read.
#[derive(Clone, Copy)]
pub struct Map<S, F>(S, F);

impl<'a, T, S: Shape<'a>, F: Fn(S::Value) -> T> Shape<'a> for Map<S, F> {
    type Value = T;

    fn arg(&self) -> Arg {
        self.0.arg()
    }

    fn begins(&self, args: &Args<'a>) -> bool {
        self.0.begins(args)
    }

    #[inline]
    fn read(&self, args: &mut Args<'a>) -> Result<T, Error> {
        self.0.read(args).map(&self.1)
    }
}

/// One of several: the first that begins with what stands next. One without keyword comes last.
#[derive(Clone, Copy)]
pub struct OneOf<T>(pub &'static str, pub T);

macro_rules! one_of {
    ($($part:ident $n:tt)+) => {
        impl<'a, V, $($part: Shape<'a, Value = V>),+> Shape<'a> for OneOf<($($part,)+)> {
            type Value = V;

            fn arg(&self) -> Arg {
                Arg::of_parts(self.0, ArgKind::OneOf, vec![$(self.1.$n.arg()),+])
            }

            fn begins(&self, args: &Args<'a>) -> bool {
                $(self.1.$n.begins(args))||+
            }

            fn read(&self, args: &mut Args<'a>) -> Result<V, Error> {
                $(if self.1.$n.begins(args) {
                    return self.1.$n.read(args);
                })+
                Err(args.expected(&self.arg().to_string()))
            }
        }
    };
}

one_of!(A 0 B 1);
one_of!(A 0 B 1 C 2);

/// Something that may be left out.
#[derive(Clone, Copy)]
pub struct Optional<S>(pub S);

impl<'a, S: Shape<'a>> Shape<'a> for Optional<S> {
    type Value = Option<S::Value>;

    fn arg(&self) -> Arg {
        self.0.arg().optional()
    }

    #[inline]
    fn read(&self, args: &mut Args<'a>) -> Result<Option<S::Value>, Error> {
        let begins = self.0.begins(args);
        begins.then(|| self.0.read(args)).transpose()
    }
}

/// Something one or more times, up to the end; so many of them take no allocation.
#[derive(Clone, Copy)]
pub struct Many<S, const N: usize = 1>(pub S);

impl<'a, S: Shape<'a>, const N: usize> Shape<'a> for Many<S, N>
where
    [S::Value; N]: Array<Item = S::Value>,
{
    type Value = SmallVec<[S::Value; N]>;

    fn arg(&self) -> Arg {
        self.0.arg().multiple()
    }

    #[inline]
    fn read(&self, args: &mut Args<'a>) -> Result<Self::Value, Error> {
        let mut all = SmallVec::new();
        loop {
            all.push(self.0.read(args)?);
            if args.left() == 0 {
                return Ok(all);
            }
        }
    }
}

/// All arguments that are left, one at least, as they are.
#[derive(Clone, Copy)]
pub struct Rest(pub &'static str);

impl<'a> Shape<'a> for Rest {
    type Value = &'a [&'a [u8]];

    fn arg(&self) -> Arg {
        Arg::new(self.0, ArgKind::Text).multiple()
    }

    fn read(&self, args: &mut Args<'a>) -> Result<Self::Value, Error> {
        match args.rest() {
            [] => args.next(self.0).map(|_| &[][..]),
            rest => Ok(rest),
        }
    }
}

/// Several arguments together, as a type with a [`Grammar`].
pub struct Block<T>(&'static str, PhantomData<fn() -> T>);

/// Several arguments together; without name they are described as if they stood by themselves.
pub const fn block<T>(name: &'static str) -> Block<T> {
    Block(name, PhantomData)
}

impl<'a, T: Grammar<'a>> Shape<'a> for Block<T> {
    type Value = T;

    fn arg(&self) -> Arg {
        Arg::of_parts(self.0, ArgKind::Block, T::args())
    }

    fn begins(&self, args: &Args<'a>) -> bool {
        T::begins(args)
    }

    #[inline]
    fn read(&self, args: &mut Args<'a>) -> Result<T, Error> {
        T::read(args)
    }
}

/// Options of which one at least must stand, by the name that they have together.
#[derive(Clone, Copy)]
pub struct AnyOf<S>(pub &'static str, pub S);

impl<'a, S: Shape<'a>> Shape<'a> for AnyOf<S> {
    type Value = S::Value;

    fn arg(&self) -> Arg {
        let parts = self.1.arg().parts.into_iter();
        let parts = parts.map(|part| Arg {
            optional: false,
            ..part
        });
        Arg::of_parts(self.0, ArgKind::OneOf, parts.collect()).multiple()
    }

    fn read(&self, args: &mut Args<'a>) -> Result<S::Value, Error> {
        let before = args.left();
        let read = self.1.read(args)?;
        if args.left() == before {
            return Err(args.expected(&self.arg().to_string()));
        }
        Ok(read)
    }
}

/// Something that may be left out before blocks of so many words, which go on to the end. Any word may begin a
/// block, so the number of words that are left says whether this stands.
#[derive(Clone, Copy)]
pub struct Before<S, B> {
    /// What may be left out.
    pub shape: S,
    /// How many words that has.
    pub length: usize,
    /// How many words a block has.
    pub words: usize,
    /// The block.
    pub block: B,
}

impl<'a, S: Shape<'a>, B: Shape<'a>> Shape<'a> for Before<S, B> {
    type Value = S::Value;

    fn arg(&self) -> Arg {
        self.shape.arg()
    }

    fn begins(&self, args: &Args<'a>) -> bool {
        !args.left().is_multiple_of(self.words)
    }

    fn read(&self, args: &mut Args<'a>) -> Result<S::Value, Error> {
        let left = args.left();
        if self.shape.begins(args) && left % self.words == self.length % self.words {
            return self.shape.read(args);
        }
        let (option, block) = (self.arg().optional(), self.block.arg().multiple());
        Err(args.expected(&format!("{option} {block}")))
    }
}

/// Where an option is kept until all of them are read.
pub trait Slot<V>: Default {
    /// Whether the option was read, and may not stand again.
    fn is_set(&self) -> bool;
    /// Keeps it.
    fn set(&mut self, value: V);
}

impl<V> Slot<V> for Option<V> {
    fn is_set(&self) -> bool {
        self.is_some()
    }

    fn set(&mut self, value: V) {
        *self = Some(value);
    }
}

impl Slot<()> for bool {
    fn is_set(&self) -> bool {
        *self
    }

    fn set(&mut self, (): ()) {
        *self = true;
    }
}

/// An option that may stand several times.
impl<V> Slot<Vec<V>> for Vec<V> {
    fn is_set(&self) -> bool {
        false
    }

    fn set(&mut self, more: Vec<V>) {
        self.extend(more);
    }
}

/// Reads an option into its slot, if it stands next. It may stand once.
///
/// # Errors
/// When it is invalid, or stands twice.
#[inline]
pub fn take<'a, S: Shape<'a>, T: Slot<S::Value>>(
    option: &S,
    slot: &mut T,
    args: &mut Args<'a>,
) -> Result<bool, Error> {
    if !option.begins(args) {
        return Ok(false);
    }
    if slot.is_set() {
        return args.again(&option.arg()).map_or(Ok(false), Err);
    }
    slot.set(option.read(args)?);
    Ok(true)
}
