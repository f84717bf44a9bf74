//! Parsing of filter specs.

use memchr::memmem::Finder;

use crawlspace_compact::limits::tags::TAG_BYTES;

use super::{Dialect, Filter, FilterError, Kind, Subject, Test};
use crate::{Anchor, Field, Format, Limits, Pattern};

pub(super) fn filter(spec: &[u8], dialect: Dialect, limits: Limits) -> Result<Filter, FilterError> {
    if spec.is_empty() {
        return Err(syntax(0, "an empty filter"));
    }
    if let Some(kind) = tags(spec)? {
        return Ok(Filter {
            negated: spec[0] == b'!',
            kind,
        });
    }
    match dialect {
        Dialect::Outback => outback(spec, limits),
        Dialect::Ia => ia(spec, limits),
        Dialect::Pywb => pywb(spec, limits),
    }
}

/// Returns true if all dialects read the spec as a test of tags.
pub(super) fn is_tag_test(spec: &[u8]) -> bool {
    let spec = spec.strip_prefix(b"!").unwrap_or(spec);
    spec.starts_with(b"tag:") || spec.starts_with(b"tag.")
}

/// Parses `tag.space:x|y` or `tag:t|u`, optionally after a `!`.
fn tags(spec: &[u8]) -> Result<Option<Kind>, FilterError> {
    let start = spec.iter().take_while(|b| b"!~=".contains(b)).count();
    let bare = &spec[start..];
    if !is_tag_test(bare) {
        return Ok(None);
    }
    if start > usize::from(spec[0] == b'!') {
        return Err(syntax(
            0,
            "a tag filter allows no operator except a single '!'",
        ));
    }
    let Some(colon) = memchr::memchr(b':', bare) else {
        return Err(syntax(spec.len(), "a tag filter needs a ':'"));
    };
    // Prefix of each value: for `tag.coll:`, it is `coll:`.
    let prefix = match &bare[3..=colon] {
        b":" => &b""[..],
        b".:" => return Err(syntax(start + 4, "a tag filter needs a name after 'tag.'")),
        [_, space @ ..] => space,
        [] => b"",
    };
    let mut at = start + colon + 1;
    let mut names = Vec::new();
    for value in bare[colon + 1..].split(|&b| b == b'|') {
        let name = [prefix, value].concat();
        if value.is_empty() {
            return Err(syntax(at, "an empty tag"));
        }
        if name.len() > TAG_BYTES || name.contains(&b' ') {
            const { assert!(TAG_BYTES == 1024, "the message names the limit") };
            return Err(syntax(at, "an invalid tag (no spaces, at most 1024 bytes)"));
        }
        names.push(name.into());
        at += value.len() + 1;
    }
    Ok(Some(Kind::Tags(names.into())))
}

/// Parses `[~][!]field:value`, the only syntax of OutbackCDX.
fn outback(spec: &[u8], limits: Limits) -> Result<Filter, FilterError> {
    let (contains, rest) = strip(spec, b'~');
    let (negated, rest) = strip(rest, b'!');
    let start = spec.len() - rest.len();
    if let [b'=' | b'~' | b'!', ..] = rest {
        return Err(syntax(
            start,
            "an operator that OUTBACK does not support (it has '!', '~' and '~!')",
        ));
    }
    let Some((name, value)) = split(rest) else {
        return Err(syntax(
            spec.len(),
            "a missing field and ':' (required by OUTBACK)",
        ));
    };
    let field = Field::named(name);
    if !field.is_plausible() {
        return Err(FilterError::BadField(name.into()));
    }
    let test = if contains {
        Test::contains(value)
    } else {
        Test::matches_java(value, limits)?
    };
    let of = Subject::Field(field, Dialect::Outback);
    let kind = Kind::Text { of, test };
    Ok(Filter { negated, kind })
}

/// Parses `[~][!][field:]value`; a field may be given by number. An invalid field name, for example one with
/// an operator in it, selects the whole line.
fn ia(spec: &[u8], limits: Limits) -> Result<Filter, FilterError> {
    let (contains, rest) = strip(spec, b'~');
    let (negated, rest) = strip(rest, b'!');
    let (of, value) = match split(rest) {
        Some((name, value)) => (Subject::of_ia(name)?, value),
        None => (Subject::Line, rest),
    };
    let test = if contains {
        Test::contains(value)
    } else {
        Test::matches_java(value, limits)?
    };
    let kind = Kind::Text { of, test };
    Ok(Filter { negated, kind })
}

/// Parses `[!][=|~][field:]value`; a field with an unknown name reads as empty, and a missing name selects
/// the whole line.
fn pywb(spec: &[u8], limits: Limits) -> Result<Filter, FilterError> {
    let (negated, rest) = strip(spec, b'!');
    let (equals, rest) = strip(rest, b'=');
    let (matches, rest) = if equals {
        (false, rest)
    } else {
        strip(rest, b'~')
    };
    let (of, value) = match split(rest) {
        Some((b"", value)) => (Subject::Line, value),
        Some((name, value)) => (Subject::Field(Field::named(name), Dialect::Pywb), value),
        None => (Subject::Line, rest),
    };
    let test = if equals {
        Test::Equals(value.into())
    } else if matches {
        Test::matches(value, Anchor::Start, limits)?
    } else {
        Test::contains(value)
    };
    let kind = Kind::Text { of, test };
    Ok(Filter { negated, kind })
}

impl Subject {
    /// Parses the subject of an IA spec. A number, optionally with a plus sign, selects a column.
    /// The number of a column that no line has is an error: if the whole line were tested instead,
    /// captures that a filter with `!` excludes would pass.
    fn of_ia(name: &[u8]) -> Result<Subject, FilterError> {
        let digits = name.strip_prefix(b"+").unwrap_or(name);
        if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
            return Ok(Subject::Field(Field::named(name), Dialect::Ia));
        }
        std::str::from_utf8(digits)
            .ok()
            .and_then(|digits| digits.parse().ok())
            .filter(|&number| number < Format::Auto.columns())
            .map(Subject::Column)
            .ok_or_else(|| FilterError::BadField(name.into()))
    }
}

impl Test {
    fn contains(value: &[u8]) -> Test {
        Test::Contains(Box::new(Finder::new(value).into_owned()))
    }

    /// Builds a test for Java's `matches`, which matches the whole text. A plain value, such as a
    /// media type, is compared as text instead. Crawlers send such a filter with every page, and
    /// compiling it would take longer than the rest of the request.
    fn matches_java(value: &[u8], limits: Limits) -> Result<Test, FilterError> {
        let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/-_:,;=%".contains(byte);
        if value.len() <= limits.pattern_bytes && value.iter().all(is_plain) {
            return Ok(Test::Equals(value.into()));
        }
        let pattern = Pattern::compile_java(value, Anchor::Whole, limits)?;
        Ok(Test::Matches(pattern))
    }

    fn matches(value: &[u8], anchor: Anchor, limits: Limits) -> Result<Test, FilterError> {
        Ok(Test::Matches(Pattern::compile(value, anchor, limits)?))
    }
}

fn strip(spec: &[u8], operator: u8) -> (bool, &[u8]) {
    match spec {
        [first, rest @ ..] if *first == operator => (true, rest),
        _ => (false, spec),
    }
}

/// Splits at the first colon.
fn split(spec: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = memchr::memchr(b':', spec)?;
    Some((&spec[..colon], &spec[colon + 1..]))
}

fn syntax(at: usize, what: &'static str) -> FilterError {
    FilterError::Syntax { at, what }
}
