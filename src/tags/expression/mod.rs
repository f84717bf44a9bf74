//! Expressions over tags and fields: `coll:* & !private & status=200`.
//!
//! | | |
//! |---|---|
//! | `a \| b`, `a & b`, `!a`, `( )` | or, and, not; `!` binds tightest, `\|` loosest |
//! | `tag` | the capture has this tag |
//! | `prefix*` | the capture has a tag with this prefix |
//! | `coll:{1\|2\|3}` | the capture has one of `coll:1`, `coll:2`, `coll:3` |
//! | `@point` | the capture satisfies the access point of this name |
//! | `field=text` `field*=text` `field~regex` | the field equals, contains, or is matched somewhere by this |
//! | `*` | every capture |
//!
//! [`Expression::parse`] parses an expression. The expression of an access point may refer to
//! capture groups of the access point's name. Resolving an expression fills in the groups, expands
//! the access points, and returns a [`Clause`].

mod bounds;
mod clause;
mod parse;

use super::error::Error;
use super::template::{Groups, Template};
pub use crawlspace_compact::limits::tags::EXPRESSION_BYTES;

pub use bounds::{Bounds, MAX_CLAUSES, limits};
pub(super) use bounds::{compile, too_many};
pub use clause::{Clause, FieldTest};

/// A parsed expression, before groups and access points are resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expression {
    /// `*`: every capture.
    Everything,
    /// Captures with this tag.
    Tag(Template),
    /// Captures that have a tag with this prefix.
    Prefix(Template),
    /// Captures with one of several tags. Contains the common prefix of the tags, and the rest of
    /// each tag.
    OneOf(Template, Vec<Template>),
    /// Captures that satisfy an access point.
    Point(Template),
    /// A test of a field.
    Field {
        /// Name of the field.
        field: Vec<u8>,
        /// The kind of test.
        test: Test,
        /// The string or regular expression with which the field is compared.
        value: Template,
    },
    /// Negation: `!`.
    Not(Box<Expression>),
    /// Conjunction of all parts: `&`.
    All(Vec<Expression>),
    /// Disjunction of the parts: `|`.
    Any(Vec<Expression>),
}

/// The kinds of tests of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Test {
    /// `=`: the field equals the string.
    Equals,
    /// `*=`: the field contains the string.
    Contains,
    /// `~`: the regular expression matches somewhere in the field.
    Matches,
}

impl Test {
    /// Returns the operator as written in expressions.
    pub fn sign(self) -> &'static str {
        match self {
            Test::Equals => "=",
            Test::Contains => "*=",
            Test::Matches => "~",
        }
    }
}

impl Expression {
    /// Parses an expression in which `$` has no special meaning.
    ///
    /// # Errors
    /// `SYNTAX`, with the byte offset; `TOOBIG`; `BADFIELD`.
    pub fn parse(text: &[u8]) -> Result<Expression, Error> {
        parse::parse(text, None)
    }

    /// Parses the expression of an access point. `groups` are the capture groups of its name.
    ///
    /// # Errors
    /// `SYNTAX`, with the byte offset; `TOOBIG`; `BADFIELD`.
    pub fn parse_point(text: &[u8], groups: &Groups) -> Result<Expression, Error> {
        parse::parse(text, Some(groups))
    }

    /// Refuses invalid regular expressions. Skips regular expressions that refer to groups, because
    /// they can be checked only after the groups are filled in.
    ///
    /// # Errors
    /// `BADRE`, with a description of the problem.
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

    /// Refuses an expression that has more parts than a condition may have. Does not count parts
    /// that come from access points.
    ///
    /// # Errors
    ///
    /// `TOOBIG`.
    pub fn check_parts(&self) -> Result<(), Error> {
        if self.parts() > MAX_CLAUSES {
            Err(too_many(MAX_CLAUSES))
        } else {
            Ok(())
        }
    }

    /// Returns the number of parts of the resulting condition, excluding parts that come from
    /// access points.
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

    /// Calls `each` with the name of each access point that the expression references by a name
    /// without groups.
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
