//! Resolves an expression to a clause: fills in groups and replaces access points with their
//! expressions.

use std::cell::Cell;

use crawlspace_cdx::Field;
use crawlspace_cdx::{Filter, Pattern};

use super::error::Error;
use super::expression::{Bounds, Clause, Expression, FieldTest, Test, compile, too_many};
use super::point::{Named, Points};
use super::template::Template;
use crawlspace_host::text::Shown;

/// Maximum nesting depth of access points.
const MAX_DEPTH: usize = 16;

/// Resolves expressions to clauses. Counts the size of the clauses and enforces the limits.
pub struct Resolver<'a> {
    points: &'a Points,
    most: Bounds,
    clauses: Cell<usize>,
    pattern_bytes: Cell<usize>,
}

/// Maps the number of a group in the name of an access point to its value.
type Values<'v> = dyn Fn(usize) -> Option<&'v [u8]> + 'v;

impl<'a> Resolver<'a> {
    /// Creates a resolver with these access points and limits.
    pub fn new(points: &'a Points, most: Bounds) -> Resolver<'a> {
        Resolver {
            points,
            most,
            clauses: Cell::new(0),
            pattern_bytes: Cell::new(0),
        }
    }

    /// Counts a filter in CDX server syntax against the limits, before the filter is compiled.
    ///
    /// # Errors
    /// `TOOBIG` if all regular expressions together exceed the limit.
    pub fn count_filter(&self, spec: &[u8]) -> Result<(), Error> {
        self.count_pattern(Filter::size(spec))
    }

    fn count_pattern(&self, bytes: usize) -> Result<(), Error> {
        let all = self.pattern_bytes.get().saturating_add(bytes);
        self.pattern_bytes.set(all);
        if all > self.most.pattern_bytes {
            return Err(Error::TooBig(format!(
                "all regexes together are larger than {} bytes of plain text; use tags instead of long or many regexes",
                self.most.pattern_bytes
            )));
        }
        Ok(())
    }

    /// Resolves an expression without groups.
    ///
    /// # Errors
    /// `NOPOINT`, `CYCLE`, `BADRE`, `TOOBIG`.
    pub fn expression(&self, expression: &Expression) -> Result<Clause, Error> {
        self.clause(expression, &|_| None, b"", &mut Vec::new())
    }

    /// Resolves the access point for this name.
    ///
    /// # Errors
    /// `NOPOINT`, `CYCLE`, `BADRE`, `TOOBIG`.
    pub fn point(&self, name: &[u8]) -> Result<Clause, Error> {
        self.point_within(name, &mut Vec::new())
    }

    fn point_within(&self, name: &[u8], within: &mut Vec<Box<[u8]>>) -> Result<Clause, Error> {
        if within.iter().any(|outer| **outer == *name) {
            return Err(Error::Cycle(name.into()));
        }
        if within.len() >= MAX_DEPTH {
            return Err(Error::TooBig(format!(
                "access points are nested more than {MAX_DEPTH} deep, at '{}'",
                Shown(name)
            )));
        }
        let Named { point, groups } = self.points.named(name)?;
        within.push(name.into());
        let value = |n: usize| {
            groups
                .get(n)
                .and_then(|range| range.clone())
                .map(|r| &name[r])
        };
        let clause = self.clause(point.expression(), &value, name, within)?;
        within.pop();
        Ok(Clause::Point(name.into(), Box::new(clause)))
    }

    fn clause(
        &self,
        expression: &Expression,
        values: &Values<'_>,
        of: &[u8],
        within: &mut Vec<Box<[u8]>>,
    ) -> Result<Clause, Error> {
        let text = |template: &Template| filled(template, values, of);
        self.count(1)?;
        Ok(match expression {
            Expression::Everything => Clause::Everything,
            Expression::Tag(tag) => Clause::Tag(text(tag)?),
            Expression::Prefix(prefix) => Clause::Prefix(text(prefix)?),
            Expression::OneOf(prefix, choices) => {
                self.count(choices.len())?;
                let choices: Result<_, _> = choices.iter().map(text).collect();
                Clause::OneOf(text(prefix)?, choices?)
            }
            Expression::Point(name) => self.point_within(&text(name)?, within)?,
            Expression::Field { field, test, value } => {
                let name = Field::named(field);
                match test {
                    Test::Matches => {
                        // Match strings from the reader's request literally, not as a pattern.
                        let quoted = |n: usize| values(n).map(escaped);
                        let pattern = filled(value, quoted, of)?;
                        self.count_pattern(Pattern::size(&pattern))?;
                        let compiled = compile(&pattern)?;
                        Clause::Field(FieldTest::matches(name, &pattern, compiled))
                    }
                    _ => Clause::Field(FieldTest::plain(name, *test, &text(value)?)),
                }
            }
            Expression::Not(inner) => {
                Clause::Not(Box::new(self.clause(inner, values, of, within)?))
            }
            Expression::All(parts) => Clause::All(self.clauses(parts, values, of, within)?),
            Expression::Any(parts) => Clause::Any(self.clauses(parts, values, of, within)?),
        })
    }

    fn clauses(
        &self,
        parts: &[Expression],
        values: &Values<'_>,
        of: &[u8],
        within: &mut Vec<Box<[u8]>>,
    ) -> Result<Vec<Clause>, Error> {
        parts
            .iter()
            .map(|part| self.clause(part, values, of, within))
            .collect()
    }

    fn count(&self, more: usize) -> Result<(), Error> {
        self.clauses.set(self.clauses.get() + more);
        if self.clauses.get() > self.most.parts {
            return Err(too_many(self.most.parts));
        }
        Ok(())
    }
}

/// Returns a regular expression that matches exactly these bytes. Escapes letters and digits, too,
/// because they would not be literal after `(?`, `\x{` or `{`.
fn escaped(bytes: &[u8]) -> Vec<u8> {
    let escape = |byte: &u8| format!("\\x{byte:02x}").into_bytes();
    bytes.iter().flat_map(escape).collect()
}

fn filled<V: AsRef<[u8]>>(
    template: &Template,
    values: impl Fn(usize) -> Option<V>,
    of: &[u8],
) -> Result<Box<[u8]>, Error> {
    let mut text = Vec::new();
    template.fill(values, &mut text).map_err(|group| {
        Error::NoPoint(format!(
            "access point '{}' gives no value for its group ${group}",
            Shown(of)
        ))
    })?;
    Ok(text.into())
}
