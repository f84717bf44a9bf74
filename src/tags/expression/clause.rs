//! An expression with nothing left open: groups are filled in, points are in their place.

use std::fmt;

use crawlspace_cdx::Field;
use crawlspace_cdx::Filter;
use crawlspace_cdx::Line;
use crawlspace_cdx::Pattern;
use memchr::memmem::Finder;

use super::Test;
use crate::text::Shown;

/// A part of a condition.
#[derive(Debug)]
pub enum Clause {
    /// Every capture.
    Everything,
    /// Captures with this tag.
    Tag(Box<[u8]>),
    /// Captures with a tag that begins so.
    Prefix(Box<[u8]>),
    /// Captures with one of these tags: what they begin with, and how they go on.
    OneOf(Box<[u8]>, Vec<Box<[u8]>>),
    /// Captures that an access point shows.
    Point(Box<[u8]>, Box<Clause>),
    /// Captures with such a field.
    Field(FieldTest),
    /// Captures that pass a filter of the CDX servers.
    Filter(Box<[u8]>, Filter),
    /// Not.
    Not(Box<Clause>),
    /// And.
    All(Vec<Clause>),
    /// Or.
    Any(Vec<Clause>),
}

/// A test of a field.
#[derive(Debug)]
pub struct FieldTest {
    field: Field,
    test: Test,
    value: Box<[u8]>,
    how: How,
}

#[derive(Debug)]
enum How {
    Equals,
    Contains(Box<Finder<'static>>),
    Matches(Pattern),
}

impl FieldTest {
    /// A test for equality, or for something in the field.
    pub fn plain(field: Field, test: Test, value: &[u8]) -> FieldTest {
        let how = match test {
            Test::Contains => How::Contains(Box::new(Finder::new(value).into_owned())),
            Test::Equals | Test::Matches => How::Equals,
        };
        FieldTest {
            field,
            test,
            value: value.into(),
            how,
        }
    }

    /// A test by a regular expression that was written so.
    pub fn matches(field: Field, value: &[u8], pattern: Pattern) -> FieldTest {
        FieldTest {
            field,
            test: Test::Matches,
            value: value.into(),
            how: How::Matches(pattern),
        }
    }

    /// The field.
    pub fn field(&self) -> &Field {
        &self.field
    }

    /// Whether a line passes. One that has no such field does not.
    pub fn passes(&self, line: &Line<'_>) -> bool {
        let Some(value) = line.field(&self.field) else {
            return false;
        };
        match &self.how {
            How::Equals => *value == *self.value,
            How::Contains(finder) => finder.find(&value).is_some(),
            How::Matches(pattern) => pattern.is_match(&value),
        }
    }
}

/// Longest text of a clause that is shown as it is.
const SHOWN: usize = 60;

/// Shows a text of an expression as it would have to be written.
struct Written<'a>(&'a [u8]);

impl fmt::Display for Written<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = |b: &u8| b.is_ascii_alphanumeric() || b":._-/,+;%#?<>[]^".contains(b);
        if self.0.len() <= SHOWN && !self.0.is_empty() && self.0.iter().all(plain) {
            write!(f, "{}", Shown(self.0))
        } else {
            write!(f, "\"{}\"", Shown(self.0))
        }
    }
}

impl fmt::Display for Clause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let several = |f: &mut fmt::Formatter<'_>, parts: &[Clause], sign| {
            for (at, part) in parts.iter().enumerate() {
                if at > 0 {
                    write!(f, " {sign} ")?;
                }
                match part {
                    Clause::All(_) | Clause::Any(_) => write!(f, "({part})")?,
                    _ => part.fmt(f)?,
                }
            }
            Ok(())
        };
        match self {
            Clause::Everything => f.write_str("*"),
            Clause::Tag(tag) => Written(tag).fmt(f),
            Clause::Prefix(prefix) => write!(f, "{}*", Written(prefix)),
            Clause::OneOf(prefix, choices) => {
                if !prefix.is_empty() {
                    Written(prefix).fmt(f)?;
                }
                f.write_str("{")?;
                for (at, choice) in choices.iter().enumerate() {
                    if at > 0 {
                        f.write_str("|")?;
                    }
                    Written(choice).fmt(f)?;
                }
                f.write_str("}")
            }
            Clause::Point(name, _) => write!(f, "@{}", Written(name)),
            Clause::Field(test) => write!(
                f,
                "{}{}{}",
                Written(test.field.name()),
                test.test.sign(),
                Written(&test.value)
            ),
            Clause::Filter(spec, _) => write!(f, "FILTER {}", Shown(spec)),
            Clause::Not(inner) => match **inner {
                Clause::All(_) | Clause::Any(_) => write!(f, "!({inner})"),
                _ => write!(f, "!{inner}"),
            },
            Clause::All(parts) => several(f, parts, "&"),
            Clause::Any(parts) => several(f, parts, "|"),
        }
    }
}
