//! The `filter=` parameter of CDX servers. The meaning of a spec depends on the server, so the dialect is
//! explicit.
//!
//! | spec | OUTBACK | IA | PYWB |
//! |---|---|---|---|
//! | `f:x` | regex, full match | regex, full match | contains |
//! | `~f:x` | contains | contains | regex from the start |
//! | `=f:x` | error | whole line | equals |
//! | `!f:x` | not regex | not regex | not contains |
//! | `!=f:x` | error | not whole line | not equals |
//! | `!~f:x` | error | not whole line | not regex from the start |
//! | `~!f:x` | not contains | not contains | field `!f` (always empty) |
//! | no field | error | whole line | whole line |
//! | unknown field | error | whole line | empty value |
//! | field by number | error | the column, from 0 | empty value |
//!
//! If IA reads the whole line, the regex is still the text after the first colon: IA reads `=f` as the name of an
//! unknown field.

mod parse;

use std::borrow::Cow;
use std::fmt;

use memchr::memmem::Finder;

use crate::{BadPattern, Field, Format, Limits, Line, Pattern, UnknownField};

/// Dialect of filter specs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// OutbackCDX.
    Outback,
    /// The Internet Archive's wayback-cdx-server.
    Ia,
    /// pywb.
    Pywb,
}

impl Dialect {
    /// Parses the name of a dialect, case-insensitively.
    ///
    /// ```
    /// use crawlspace_cdx::Dialect;
    /// assert_eq!(Dialect::parse(b"pywb"), Some(Dialect::Pywb));
    /// assert_eq!(Dialect::parse(b"solr"), None);
    /// ```
    pub fn parse(word: &[u8]) -> Option<Dialect> {
        [Dialect::Outback, Dialect::Ia, Dialect::Pywb]
            .into_iter()
            .find(|dialect| dialect.name().as_bytes().eq_ignore_ascii_case(word))
    }

    /// Returns the name of the dialect, in capitals.
    pub fn name(self) -> &'static str {
        match self {
            Dialect::Outback => "OUTBACK",
            Dialect::Ia => "IA",
            Dialect::Pywb => "PYWB",
        }
    }
}

/// A filter: a test of a field, of the whole line, or of tags.
///
/// ```
/// use crawlspace_cdx::{Dialect, Filter, Format, Limits, Line, Read};
/// let public = Filter::parse(b"!tag:private", Dialect::Ia, Limits::default()).unwrap();
/// let Ok(Read::Capture(line)) = Line::read(b"a.warc.gz", Format::File) else { panic!() };
/// assert!(public.passes(&line, &mut |_tag| false).unwrap());
/// assert!(!public.passes(&line, &mut |tag| tag == b"private").unwrap());
/// ```
#[derive(Clone, Debug)]
pub struct Filter {
    negated: bool,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    /// Passes if the capture has any of these tags.
    Tags(Box<[Box<[u8]>]>),
    Text {
        of: Subject,
        test: Test,
    },
}

/// The part of a line that a filter tests.
#[derive(Clone, Debug)]
enum Subject {
    Line,
    Field(Field, Dialect),
    /// A column by number, starting at 0.
    Column(usize),
}

#[derive(Clone, Debug)]
enum Test {
    Matches(Pattern),
    Contains(Box<Finder<'static>>),
    Equals(Box<[u8]>),
}

impl Filter {
    /// Parses a spec. `tag.coll:x|y` and `tag:t|u` test tags in every dialect.
    ///
    /// # Errors
    ///
    /// [`FilterError::BadField`] for an invalid field name, in dialects that reject such names. A name
    /// that only CDXJ lines can have is accepted here; [`Filter::passes`] and [`Filter::check`] reject it
    /// later if the lines are not CDXJ.
    pub fn parse(spec: &[u8], dialect: Dialect, limits: Limits) -> Result<Filter, FilterError> {
        parse::filter(spec, dialect, limits)
    }

    /// Returns true if [`Filter::parse`] may take milliseconds; see [`Pattern::is_heavy`]. Always returns
    /// false for tests of tags.
    ///
    /// ```
    /// use crawlspace_cdx::Filter;
    /// assert!(Filter::is_heavy(&[b"filename:", &b"1068|".repeat(1001)[..]].concat()));
    /// assert!(!Filter::is_heavy(&[b"tag.coll:", &b"1068|".repeat(1001)[..]].concat()));
    /// ```
    pub fn is_heavy(spec: &[u8]) -> bool {
        !parse::is_tag_test(spec) && Pattern::is_heavy(spec)
    }

    /// Returns an upper bound of the compiled size of a spec, whether or not the spec is a regular
    /// expression; see [`Pattern::size`]. Returns 0 for tests of tags.
    pub fn size(spec: &[u8]) -> usize {
        if parse::is_tag_test(spec) {
            0
        } else {
            // Measure only the pattern: the field name is short, and the spec including the name may not be a
            // valid pattern.
            Pattern::size(memchr::memchr(b':', spec).map_or(spec, |at| &spec[at + 1..]))
        }
    }

    /// Returns true if the line passes. `has_tag` is called only for tags of [`Filter::tag_test`], and only
    /// until the result is known.
    ///
    /// # Errors
    /// Fails when the line does not have the field or column.
    pub fn passes(
        &self,
        line: &Line<'_>,
        has_tag: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<bool, UnknownField> {
        let found = match &self.kind {
            Kind::Tags(tags) => tags.iter().any(|tag| has_tag(tag)),
            Kind::Text { of, test } => test.holds(&of.of(line)?),
        };
        Ok(found != self.negated)
    }

    /// Returns true if a value of the filter's [`field`](Filter::field) or [`column`](Filter::column) passes.
    /// Returns `None` if the filter reads whole lines or tags.
    ///
    /// ```
    /// use crawlspace_cdx::{Dialect, Filter, Limits};
    /// let new = Filter::parse(b"!mimetype:warc/revisit", Dialect::Ia, Limits::default()).unwrap();
    /// assert_eq!(new.accepts(b"text/html"), Some(true));
    /// assert_eq!(new.accepts(b"warc/revisit"), Some(false));
    /// ```
    pub fn accepts(&self, value: &[u8]) -> Option<bool> {
        match &self.kind {
            Kind::Text {
                of: Subject::Field(..) | Subject::Column(_),
                test,
            } => Some(test.holds(value) != self.negated),
            _ => None,
        }
    }

    /// Returns the negation flag and the tags of a test of tags. The test matches if the capture has
    /// any of the tags. Returns `None` for other tests.
    ///
    /// ```
    /// use crawlspace_cdx::{Dialect, Filter, Limits};
    /// let some = Filter::parse(b"!tag.coll:7|8", Dialect::Pywb, Limits::default()).unwrap();
    /// let (negated, tags) = some.tag_test().unwrap();
    /// assert!(negated);
    /// assert_eq!(tags, [b"coll:7"[..].into(), b"coll:8"[..].into()]);
    /// ```
    pub fn tag_test(&self) -> Option<(bool, &[Box<[u8]>])> {
        match &self.kind {
            Kind::Tags(tags) => Some((self.negated, tags)),
            Kind::Text { .. } => None,
        }
    }

    /// Returns the weight of the filter's regular expression, or 0 if the filter has none; see
    /// [`Pattern::weight`].
    pub fn weight(&self) -> usize {
        match &self.kind {
            Kind::Text {
                test: Test::Matches(pattern),
                ..
            } => pattern.weight(),
            _ => 0,
        }
    }

    /// Returns the field that the filter reads, if any.
    pub fn field(&self) -> Option<&Field> {
        match &self.kind {
            Kind::Text {
                of: Subject::Field(field, _),
                ..
            } => Some(field),
            _ => None,
        }
    }

    /// Returns the number of the column that the filter reads, starting at 0, if it reads a column by number.
    ///
    /// ```
    /// use crawlspace_cdx::{Dialect, Filter, Limits};
    /// let found = Filter::parse(b"!4:404", Dialect::Ia, Limits::default()).unwrap();
    /// assert_eq!(found.column(), Some(4));
    /// ```
    pub fn column(&self) -> Option<usize> {
        match self.kind {
            Kind::Text {
                of: Subject::Column(number),
                ..
            } => Some(number),
            _ => None,
        }
    }

    /// Checks that lines of this format can be filtered. Fails if [`Filter::passes`] would fail for every
    /// line of the format: if the filter reads a JSON field and the lines are not CDXJ, or if it reads a
    /// column that lines of the format never have.
    ///
    /// # Errors
    /// Fails with the field or column that lines of this format do not have.
    pub fn check(&self, format: Format) -> Result<(), UnknownField> {
        let Kind::Text { of, .. } = &self.kind else {
            return Ok(());
        };
        match of {
            Subject::Field(Field::Other(name), Dialect::Outback) if !format.may_have_json() => {
                Err(UnknownField(name.clone()))
            }
            Subject::Column(number) if *number >= format.columns() => {
                Err(UnknownField::column(*number))
            }
            _ => Ok(()),
        }
    }
}

impl Subject {
    fn of<'a>(&self, line: &Line<'a>) -> Result<Cow<'a, [u8]>, UnknownField> {
        let (field, dialect) = match self {
            Subject::Line => return Ok(Cow::Borrowed(line.raw())),
            Subject::Field(field, dialect) => (field, dialect),
            Subject::Column(number) => {
                let column = line.column(*number);
                return column.ok_or_else(|| UnknownField::column(*number));
            }
        };
        // The name and the format decide whether a field is known, not the fields of this line: any
        // plausible name may be the name of a JSON field.
        let may_be = field.is_plausible() && line.format() == Format::Cdxj;
        if *dialect == Dialect::Ia && !field.is_standard() && !may_be {
            return Ok(Cow::Borrowed(line.raw()));
        }
        match (line.field(field), dialect) {
            (Some(value), _) => Ok(value),
            (None, Dialect::Pywb) => Ok(Cow::Borrowed(b"")),
            (None, _) => Err(UnknownField(field.name().into())),
        }
    }
}

impl Test {
    fn holds(&self, text: &[u8]) -> bool {
        match self {
            Test::Matches(pattern) => pattern.is_match(text),
            Test::Contains(finder) => finder.find(text).is_some(),
            Test::Equals(wanted) => **wanted == *text,
        }
    }
}

/// Error of parsing a filter spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilterError {
    /// Invalid syntax in this dialect.
    Syntax {
        /// Byte offset in the spec.
        at: usize,
        /// Description of the error.
        what: &'static str,
    },
    /// A field name that no line can have.
    BadField(
        /// Name of the field.
        Box<[u8]>,
    ),
    /// An invalid or too large regular expression.
    BadPattern(BadPattern),
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FilterError::Syntax { at, what } => write!(f, "{what} at byte {at}"),
            FilterError::BadField(name) => {
                write!(f, "no field '{}'", name.escape_ascii())
            }
            FilterError::BadPattern(bad) => bad.fmt(f),
        }
    }
}

impl std::error::Error for FilterError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            FilterError::BadPattern(bad) => Some(bad),
            _ => None,
        }
    }
}

impl From<BadPattern> for FilterError {
    fn from(bad: BadPattern) -> Self {
        FilterError::BadPattern(bad)
    }
}

#[cfg(test)]
mod tests;
