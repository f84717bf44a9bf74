//! Clauses: expressions with all groups filled in and all access points expanded.

use crawlspace_cdx::Field;
use crawlspace_cdx::Filter;
use crawlspace_cdx::Line;
use crawlspace_cdx::Pattern;
use memchr::memmem::Finder;

use super::Test;

/// A part of a condition.
#[derive(Debug)]
pub enum Clause {
    /// Every capture.
    Everything,
    /// Captures with this tag.
    Tag(Box<[u8]>),
    /// Captures with a tag that begins with this prefix.
    Prefix(Box<[u8]>),
    /// Captures with one of these tags. Contains the common prefix of the tags, and the rest of
    /// each tag.
    OneOf(Box<[u8]>, Vec<Box<[u8]>>),
    /// Captures that satisfy an access point. Contains the name and the expression of the access
    /// point.
    Point(Box<[u8]>, Box<Clause>),
    /// Captures with a field that passes the test.
    Field(FieldTest),
    /// Captures that pass a filter in the syntax of a CDX server.
    Filter(Box<[u8]>, Filter),
    /// Captures that do not satisfy the clause: `!`.
    Not(Box<Clause>),
    /// Captures that satisfy all clauses: `&`.
    All(Vec<Clause>),
    /// Captures that satisfy any of the clauses: `|`.
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
    /// Creates a test that checks whether a field equals or contains a string.
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

    /// Creates a test with a regular expression. `value` is the source of the regular expression.
    pub fn matches(field: Field, value: &[u8], pattern: Pattern) -> FieldTest {
        FieldTest {
            field,
            test: Test::Matches,
            value: value.into(),
            how: How::Matches(pattern),
        }
    }

    /// Returns the field.
    pub fn field(&self) -> &Field {
        &self.field
    }

    /// Returns the weight of the regular expression, or 0 if there is none.
    pub fn weight(&self) -> usize {
        match &self.how {
            How::Matches(pattern) => pattern.weight(),
            How::Equals | How::Contains(_) => 0,
        }
    }

    /// Returns true if a line passes. A line without the field does not pass.
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

/// Writes a string, quoted if necessary, so that the parser of expressions reads the same string.
fn write_text(text: &[u8], out: &mut Vec<u8>) {
    let plain = |b: &u8| b.is_ascii_alphanumeric() || b":._-/,+;%#?<>[]^".contains(b);
    if !text.is_empty() && text.iter().all(plain) {
        out.extend_from_slice(text);
        return;
    }
    out.push(b'"');
    for &byte in text {
        if byte == b'"' || byte == b'\\' {
            out.push(b'\\');
        }
        out.push(byte);
    }
    out.push(b'"');
}

impl Clause {
    /// Returns the clause as an equivalent expression. A filter is written as its spec.
    pub fn written(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write(&mut out);
        out
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Clause::Everything => out.push(b'*'),
            Clause::Tag(tag) => write_text(tag, out),
            Clause::Prefix(prefix) => {
                write_text(prefix, out);
                out.push(b'*');
            }
            Clause::OneOf(prefix, choices) => {
                if !prefix.is_empty() {
                    write_text(prefix, out);
                }
                out.push(b'{');
                for (at, choice) in choices.iter().enumerate() {
                    if at > 0 {
                        out.push(b'|');
                    }
                    write_text(choice, out);
                }
                out.push(b'}');
            }
            Clause::Point(name, _) => {
                out.push(b'@');
                write_text(name, out);
            }
            Clause::Field(test) => {
                write_text(test.field.name(), out);
                out.extend_from_slice(test.test.sign().as_bytes());
                write_text(&test.value, out);
            }
            Clause::Filter(spec, _) => {
                out.extend_from_slice(b"FILTER ");
                out.extend_from_slice(spec);
            }
            Clause::Not(inner) => {
                out.push(b'!');
                inner.write_within(out);
            }
            Clause::All(parts) => write_several(parts, b" & ", out),
            Clause::Any(parts) => write_several(parts, b" | ", out),
        }
    }

    /// Writes the clause as part of another clause, in parentheses if necessary.
    fn write_within(&self, out: &mut Vec<u8>) {
        if let Clause::All(_) | Clause::Any(_) = self {
            out.push(b'(');
            self.write(out);
            out.push(b')');
        } else {
            self.write(out);
        }
    }
}

fn write_several(parts: &[Clause], sign: &[u8], out: &mut Vec<u8>) {
    for (at, part) in parts.iter().enumerate() {
        if at > 0 {
            out.extend_from_slice(sign);
        }
        part.write_within(out);
    }
}
