//! Expressions over tags and fields: `coll:* & !private & status=200`.
//!
//! | | |
//! |---|---|
//! | `a \| b`, `a & b`, `!a`, `( )` | or, and, not; `!` binds most, `\|` least |
//! | `tag` | the capture has this tag |
//! | `prefix*` | it has a tag that begins so |
//! | `coll:{1\|2\|3}` | it has one of `coll:1`, `coll:2`, `coll:3` |
//! | `@point` | what the access point of that name says |
//! | `field=text` `field*=text` `field~regex` | the field is this, holds this, matches this somewhere |
//! | `*` | every capture |
//!
//! [`Expression::parse`] reads one; an access point may have places for the groups of its name.
//! Resolving makes a [`Clause`] of it, in which those are filled in and other points put in their
//! place.

mod bounds;
mod clause;
mod parse;

use super::error::Error;
use super::template::{Groups, Template};
pub use crawlspace_compact::limits::tags::EXPRESSION_BYTES;

pub use bounds::{Bounds, MAX_CLAUSES, limits};
pub(super) use bounds::{compile, too_many};
pub use clause::{Clause, FieldTest};

/// An expression as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expression {
    /// `*`: every capture.
    Everything,
    /// A tag.
    Tag(Template),
    /// A tag that begins so.
    Prefix(Template),
    /// One of several tags: what they begin with, and how they go on.
    OneOf(Template, Vec<Template>),
    /// An access point.
    Point(Template),
    /// A test of a field.
    Field {
        /// Name of the field.
        field: Vec<u8>,
        /// How it is tested.
        test: Test,
        /// What it is held against.
        value: Template,
    },
    /// Not.
    Not(Box<Expression>),
    /// All of them hold: `&`.
    All(Vec<Expression>),
    /// Any of them holds: `|`.
    Any(Vec<Expression>),
}

/// How a field is tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Test {
    /// `=`: it is this.
    Equals,
    /// `*=`: this is in it.
    Contains,
    /// `~`: the regular expression matches somewhere.
    Matches,
}

impl Test {
    /// How it is written.
    pub fn sign(self) -> &'static str {
        match self {
            Test::Equals => "=",
            Test::Contains => "*=",
            Test::Matches => "~",
        }
    }
}

impl Expression {
    /// Reads an expression in which a `$` is a `$`.
    ///
    /// # Errors
    /// `SYNTAX`, with the byte; `TOOBIG`; `BADFIELD`.
    pub fn parse(text: &[u8]) -> Result<Expression, Error> {
        parse::parse(text, None)
    }

    /// Reads the expression of an access point whose name has these groups.
    ///
    /// # Errors
    /// `SYNTAX`, with the byte; `TOOBIG`; `BADFIELD`.
    pub fn parse_point(text: &[u8], groups: &Groups) -> Result<Expression, Error> {
        parse::parse(text, Some(groups))
    }

    /// Refuses regular expressions that cannot be. Those with places for groups are not known yet.
    ///
    /// # Errors
    /// `BADRE`, with what is wrong.
    pub fn check_patterns(&self) -> Result<(), Error> {
        match self {
            Expression::Field {
                test: Test::Matches,
                value,
                ..
            } => value
                .as_literal()
                .map_or(Ok(()), |pattern| compile(pattern).map(drop)),
            Expression::Not(inner) => inner.check_patterns(),
            Expression::All(parts) | Expression::Any(parts) => {
                parts.iter().try_for_each(Expression::check_patterns)
            }
            _ => Ok(()),
        }
    }

    /// Refuses an expression of more parts than a condition may have, whatever the points in it come to.
    ///
    /// # Errors
    /// `TOOBIG`.
    pub fn check_parts(&self) -> Result<(), Error> {
        if self.parts() > MAX_CLAUSES {
            Err(too_many(MAX_CLAUSES))
        } else {
            Ok(())
        }
    }

    /// How many parts a condition has of it, without those of the points in it.
    fn parts(&self) -> usize {
        match self {
            Expression::OneOf(_, choices) => 1 + choices.len(),
            Expression::Not(inner) => 1 + inner.parts(),
            Expression::All(parts) | Expression::Any(parts) => {
                1 + parts.iter().map(Expression::parts).sum::<usize>()
            }
            _ => 1,
        }
    }

    /// Names of the access points that it refers to without groups.
    pub fn points<'a>(&'a self, each: &mut dyn FnMut(&'a [u8])) {
        match self {
            Expression::Point(name) => {
                if let Some(name) = name.as_literal() {
                    each(name);
                }
            }
            Expression::Not(inner) => inner.points(each),
            Expression::All(parts) | Expression::Any(parts) => {
                for part in parts {
                    part.points(each);
                }
            }
            _ => {}
        }
    }
}
