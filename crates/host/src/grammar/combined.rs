//! Shapes that combine other shapes: several arguments, optional arguments, options in any order.

use std::marker::PhantomData;

use smallvec::{Array, SmallVec};

use super::{After, Arg, ArgKind, Args, Error, Grammar, Integer, Shape};

/// A shape whose value is converted by a function.
#[derive(Clone, Copy)]
pub struct Map<S, F>(S, F);

impl<S, F> Map<S, F> {
    /// Converts the value of a shape with `into`.
    pub const fn new(shape: S, into: F) -> Map<S, F> {
        Map(shape, into)
    }
}

impl<'a, T, S: Shape<'a>, F: Fn(S::Value) -> T> Shape<'a> for Map<S, F> {
    type Value = T;

    fn arg(&self) -> Arg {
        self.0.arg()
    }

    #[inline]
    fn begins(&self, args: &Args<'a>) -> bool {
        self.0.begins(args)
    }

    #[inline]
    fn read(&self, args: &mut Args<'a>) -> Result<T, Error> {
        self.0.read(args).map(&self.1)
    }
}

/// Alternatives: reads the first shape that matches the next argument. A shape without keyword must
/// be the last.
#[derive(Clone, Copy)]
pub struct OneOf<T>(pub &'static str, pub T);

macro_rules! one_of {
    ($($part:ident $n:tt)+) => {
        impl<'a, V, $($part: Shape<'a, Value = V>),+> Shape<'a> for OneOf<($($part,)+)> {
            type Value = V;

            fn arg(&self) -> Arg {
                Arg::of_parts(self.0, ArgKind::OneOf, vec![$(self.1.$n.arg()),+])
            }

            #[inline]
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
one_of!(A 0 B 1 C 2 D 3);

/// A shape that may be omitted.
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

/// A shape that occurs one or more times, up to the last argument. Up to `N` values are stored
/// without an allocation.
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

/// A keyword, a number, and that many values, which are the last arguments: `ITEMS n item [item ...]`.
/// The number tells how many values follow, so a value may be any word, even a keyword.
#[derive(Clone, Copy)]
pub struct Counted<S, const N: usize = 1> {
    /// Name of the group of arguments; if it is empty, the arguments are documented individually.
    pub name: &'static str,
    /// The keyword.
    pub word: &'static str,
    /// Maximum number of values.
    pub most: u64,
    /// Shape of a value.
    pub shape: S,
}

impl<S, const N: usize> Counted<S, N> {
    fn number(&self) -> After<Integer> {
        Integer::new("n", 1, self.most).after(self.word)
    }
}

impl<'a, S: Shape<'a>, const N: usize> Shape<'a> for Counted<S, N>
where
    [S::Value; N]: Array<Item = S::Value>,
{
    type Value = SmallVec<[S::Value; N]>;

    fn arg(&self) -> Arg {
        let parts = vec![self.number().arg(), self.shape.arg().multiple()];
        Arg::of_parts(self.name, ArgKind::Block, parts)
    }

    #[inline]
    fn begins(&self, args: &Args<'a>) -> bool {
        args.is(self.word)
    }

    fn read(&self, args: &mut Args<'a>) -> Result<Self::Value, Error> {
        let n = self.number().read(args)?;
        let words = n as usize * self.shape.arg().fewest();
        if args.left() != words {
            let (word, left) = (self.word, args.left());
            let end = if words == 1 { "" } else { "s" };
            return Err(args.wrong(&format!(
                "ERR {word} {n} needs exactly {words} argument{end} after it (got {left})"
            )));
        }
        (0..n).map(|_| self.shape.read(args)).collect()
    }
}

/// The remaining arguments (at least one), without parsing them.
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

/// Several arguments that form one value of a type with a [`Grammar`].
pub struct Block<T>(&'static str, PhantomData<fn() -> T>);

/// Creates a block of arguments. If the name of the block is empty, the documentation describes its
/// arguments individually.
pub const fn block<T>(name: &'static str) -> Block<T> {
    Block(name, PhantomData)
}

impl<'a, T: Grammar<'a>> Shape<'a> for Block<T> {
    type Value = T;

    fn arg(&self) -> Arg {
        Arg::of_parts(self.0, ArgKind::Block, T::args())
    }

    #[inline]
    fn begins(&self, args: &Args<'a>) -> bool {
        T::begins(args)
    }

    #[inline]
    fn read(&self, args: &mut Args<'a>) -> Result<T, Error> {
        T::read(args)
    }
}

/// Options with a common name, of which at least one is required.
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

/// An optional argument before blocks of a fixed number of words. The blocks extend to the last
/// argument, and any word can begin a block. Therefore, the number of remaining words determines
/// whether the optional argument is present.
#[derive(Clone, Copy)]
pub struct Before<S, B> {
    /// The optional shape.
    pub shape: S,
    /// Number of words of the optional shape.
    pub length: usize,
    /// Number of words of a block.
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

/// Storage for the value of an option until all options are read.
pub trait Slot<V>: Default {
    /// Returns true if the option was already read and must not be repeated.
    fn is_set(&self) -> bool;
    /// Stores a value.
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

/// An option that may be repeated.
impl<V> Slot<Vec<V>> for Vec<V> {
    fn is_set(&self) -> bool {
        false
    }

    fn set(&mut self, more: Vec<V>) {
        self.extend(more);
    }
}

/// Reads an option into its slot if the option is the next argument. Refuses a repeated option.
///
/// This function is always inlined, so that the comparison with the keyword of an option that is not the next argument
/// takes a few instructions.
///
/// # Errors
/// Fails if the option is invalid or repeated.
#[inline(always)]
pub fn take<'a, S: Shape<'a>, T: Slot<S::Value>>(
    option: &S,
    slot: &mut T,
    args: &mut Args<'a>,
) -> Result<bool, Error> {
    if option.begins(args) {
        take_next(option, slot, args)
    } else {
        Ok(false)
    }
}

/// Reads an option that is the next argument.
fn take_next<'a, S: Shape<'a>, T: Slot<S::Value>>(
    option: &S,
    slot: &mut T,
    args: &mut Args<'a>,
) -> Result<bool, Error> {
    if slot.is_set() {
        return args.again(&option.arg()).map_or(Ok(false), Err);
    }
    slot.set(option.read(args)?);
    Ok(true)
}
