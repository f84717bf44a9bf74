//! Declarative command grammars. A struct declares the arguments of a command; the parser, the
//! arity, the `COMMAND DOCS` entry and the error messages are derived from it.
//!
//! ```
//! use crawlspace_host::command;
//! use crawlspace_host::grammar::{Bytes, Flag, Integer, Many, parse};
//!
//! command! {
//!     prefix "shelf.put", "write";
//!     /// Puts books on a shelf.
//!     ///
//!     /// O(N) where N is the number of books
//!     pub struct Put<'a> {
//!         shelf: &'a [u8] = Bytes::new("shelf", 64),
//!         {
//!             at: Option<u64> = Integer::new("place", 1, 100).after("AT"),
//!             quietly: bool = Flag("QUIETLY"),
//!         }
//!         books: smallvec::SmallVec<[&'a [u8]; 2]> = Many(Bytes::new("book", 1000)),
//!     }
//! }
//!
//! let put: Put = parse(&[b"A", b"AT", b"5", b"Emma"], || 0).unwrap();
//! assert_eq!((put.shelf, put.at, put.quietly), (&b"A"[..], Some(5), false));
//! let error = parse::<Put>(&[b"A", b"AT", b"500", b"Emma"], || 0).err();
//! assert_eq!(error.unwrap(), "ERR AT '500' is out of range (1 to 100) (argument 4)");
//! ```

mod arg;
mod args;
mod combined;
mod shapes;

pub use arg::{Arg, ArgKind, Limits};
pub use args::{Args, Error};
pub use combined::{
    AnyOf, Before, Block, Counted, Many, Map, OneOf, Optional, Rest, Slot, block, take,
};
pub use shapes::{After, Bytes, BytesForm, Choice, Flag, Form, FormOf, Integer, Shape, Text};

/// Arguments that are read together as one value.
pub trait Grammar<'a>: Sized {
    /// Describes the arguments.
    fn args() -> Vec<Arg>;

    /// Returns true if these arguments are next. Used for optional arguments.
    fn begins(args: &Args<'a>) -> bool;

    /// Reads the arguments.
    ///
    /// # Errors
    /// An error text that names the missing, invalid or unexpected argument.
    fn read(args: &mut Args<'a>) -> Result<Self, Error>;
}

/// Name, flags and documentation of a command.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    /// Name in lower case.
    pub name: &'static str,
    /// Command flags of the server: `readonly` or `write`, `fast`, `deny-oom`, …
    pub flags: &'static str,
    /// The version that introduced the command.
    pub since: &'static str,
    /// Summary in one sentence.
    pub summary: &'static str,
    /// Time complexity.
    pub complexity: &'static str,
    /// True if the first argument is a key rather than a key prefix.
    pub takes_key: bool,
}

impl Spec {
    /// Returns true if the command has this flag.
    pub fn has_flag(&self, flag: &str) -> bool {
        self.flags.split(' ').any(|f| f == flag)
    }
}

/// A command with its documentation and its arguments.
pub trait Described {
    /// Name, flags and documentation.
    const SPEC: Spec;
    /// Arguments after the key or prefix.
    type Arguments<'a>: Grammar<'a>;

    /// Returns all arguments, beginning with the key or prefix.
    fn all_args() -> Vec<Arg> {
        let first = if Self::SPEC.takes_key {
            Arg::new("key", ArgKind::Key)
        } else {
            Arg::new("prefix", ArgKind::Prefix)
        };
        let mut all = vec![first];
        all.extend(Self::Arguments::args());
        all
    }
}

/// Returns the number of words of a call including the command's name; a negative number is a minimum.
pub fn arity(args: &[Arg]) -> i32 {
    let fewest = 1 + args.iter().map(Arg::fewest).sum::<usize>() as i32;
    if args.iter().any(Arg::varies) {
        -fewest
    } else {
        fewest
    }
}

/// Replaces each unnamed [`block`] by its parts.
pub fn flat<const N: usize>(args: [Arg; N]) -> Vec<Arg> {
    let mut flat = Vec::with_capacity(N);
    for arg in args {
        if arg.name.is_empty() {
            flat.extend(arg.parts);
        } else {
            flat.push(arg);
        }
    }
    flat
}

/// Reads all arguments after the key or prefix.
///
/// # Errors
/// An error text that names the missing, invalid or unexpected argument.
#[inline]
pub fn parse<'a, G: Grammar<'a>>(words: &'a [&'a [u8]], clock: fn() -> u64) -> Result<G, Error> {
    let mut args = Args::new(words, clock);
    let read = G::read(&mut args)?;
    args.end()?;
    Ok(read)
}

/// Declares a struct of arguments and its [`Grammar`](crate::grammar::Grammar): one field per
/// argument, with its type and its [`Shape`](crate::grammar::Shape), in the order of the call.
/// Fields in braces are options: each may be omitted, and they may be in any order. A `where`
/// clause validates combinations of arguments. With `impl` instead of `struct`, the macro declares
/// the grammar of an existing type.
#[macro_export]
macro_rules! grammar {
    (
        $(#[$meta:meta])* $vis:vis struct $name:ident $(<$lt:lifetime>)? {
            $($(#[$head_meta:meta])* $head:ident: $head_type:ty = $head_shape:expr,)*
            $({ $($(#[$option_meta:meta])* $option:ident: $option_type:ty = $option_shape:expr,)* }
            $($(#[$tail_meta:meta])* $tail:ident: $tail_type:ty = $tail_shape:expr,)*)?
        }
        $(where $check:path)?
    ) => {
        $(#[$meta])*
        $vis struct $name $(<$lt>)? {
            $($(#[$head_meta])* $vis $head: $head_type,)*
            $($($(#[$option_meta])* $vis $option: $option_type,)*
            $($(#[$tail_meta])* $vis $tail: $tail_type,)*)?
        }
        $crate::grammar! {
            impl $name $(<$lt>)? {
                $($head = $head_shape,)*
                $({ $($option = $option_shape,)* } $($tail = $tail_shape,)*)?
            }
            $(where $check)?
        }
    };
    // This module contains one shape per field, named like the field. The types of the shapes are inferred in a
    // function that is never called.
    (
        @shapes $($head:ident = $head_shape:expr,)*
        $({ $($option:ident = $option_shape:expr,)* } $($tail:ident = $tail_shape:expr,)*)?
    ) => {
        $(let $head = $head_shape;)*
        $($(let $option = $option_shape;)* $(let $tail = $tail_shape;)*)?
        let _typed = |_args: &mut $crate::grammar::Args<'a>| -> Result<Self, $crate::grammar::Error> {
            $(let $head = $crate::grammar::Shape::<'a>::read(&$head, _args)?;)*
            $($(let $option = {
                let mut slot = Default::default();
                $crate::grammar::take(&$option, &mut slot, _args)?;
                slot
            };)*
            $(let $tail = $crate::grammar::Shape::<'a>::read(&$tail, _args)?;)*)?
            Ok(Self { $($head,)* $($($option,)* $($tail,)*)? })
        };
    };
    (
        impl $name:ident $(<$lt:lifetime>)? {
            $($head:ident = $head_shape:expr,)*
            $({ $($option:ident = $option_shape:expr,)* } $($tail:ident = $tail_shape:expr,)*)?
        }
        $(where $check:path)?
    ) => {
        impl<'a> $crate::grammar::Grammar<'a> for $name $(<$lt>)? {
            fn args() -> Vec<$crate::grammar::Arg> {
                $crate::grammar!(@shapes $($head = $head_shape,)*
                    $({ $($option = $option_shape,)* } $($tail = $tail_shape,)*)?);
                $crate::grammar::flat([
                    $($crate::grammar::Shape::<'a>::arg(&$head),)*
                    $($($crate::grammar::Shape::<'a>::arg(&$option).optional(),)*
                    $($crate::grammar::Shape::<'a>::arg(&$tail),)*)?
                ])
            }

            #[allow(unused_variables, unreachable_code)]
            #[inline]
            fn begins(args: &$crate::grammar::Args<'a>) -> bool {
                $crate::grammar!(@shapes $($head = $head_shape,)*
                    $({ $($option = $option_shape,)* } $($tail = $tail_shape,)*)?);
                $(return $crate::grammar::Shape::<'a>::begins(&$head, args);)*
                args.left() > 0
            }

            #[allow(unused_imports, clippy::never_loop)]
            #[inline]
            fn read(
                _args: &mut $crate::grammar::Args<'a>,
            ) -> Result<Self, $crate::grammar::Error> {
                use $crate::grammar::{Shape, take};
                $(let $head = $head_shape.read(_args)?;)*
                $($(let mut $option = Default::default();)*
                loop {
                    $(if take(&$option_shape, &mut $option, _args)? {
                        continue;
                    })*
                    break;
                }
                $(let $tail = $tail_shape.read(_args)?;)*)?
                let read = Self { $($head,)* $($($option,)* $($tail,)*)? };
                $($check(&read).map_err(|why: $crate::grammar::Error| _args.wrong(&why))?;)?
                Ok(read)
            }
        }
    };
}

/// Declares a command: `key` or `prefix` (the kind of its first argument), its name, its flags, and
/// the version that introduced it, if that is not 0.1.0; then the struct of its arguments as in
/// [`grammar!`](macro@crate::grammar). The first paragraph of the struct's documentation is the
/// summary, the second one the complexity.
#[macro_export]
macro_rules! command {
    (
        $first:ident $name:literal, $flags:literal $(, since $since:literal)?;
        #[doc = $summary:literal] #[doc = $blank:literal] #[doc = $complexity:literal]
        $vis:vis struct $type:ident<'a> $($body:tt)*
    ) => {
        $crate::grammar! { #[doc = $summary] $vis struct $type<'a> $($body)* }
        impl $crate::grammar::Described for $type<'static> {
            const SPEC: $crate::grammar::Spec =
                $crate::command!(@spec $first $name, $flags $(, since $since)?; $summary, $complexity);
            type Arguments<'a> = $type<'a>;
        }
    };
    (
        $first:ident $name:literal, $flags:literal $(, since $since:literal)?;
        #[doc = $summary:literal] #[doc = $blank:literal] #[doc = $complexity:literal]
        $vis:vis struct $type:ident $($body:tt)*
    ) => {
        $crate::grammar! { #[doc = $summary] $vis struct $type $($body)* }
        impl $crate::grammar::Described for $type {
            const SPEC: $crate::grammar::Spec =
                $crate::command!(@spec $first $name, $flags $(, since $since)?; $summary, $complexity);
            type Arguments<'a> = $type;
        }
    };
    (@spec $first:ident $name:literal, $flags:literal; $($rest:tt)*) => {
        $crate::command!(@spec $first $name, $flags, since "0.1.0"; $($rest)*)
    };
    (
        @spec $first:ident $name:literal, $flags:literal, since $since:literal;
        $summary:literal, $complexity:literal
    ) => {
        $crate::grammar::Spec {
            name: $name,
            flags: $flags,
            since: $since,
            summary: $summary.trim_ascii(),
            complexity: $complexity.trim_ascii(),
            takes_key: matches!(stringify!($first).as_bytes(), b"key"),
        }
    };
}
