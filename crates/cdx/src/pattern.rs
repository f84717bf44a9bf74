//! Regular expressions with limits. Matching takes time linear in the length of the text, and the sizes of
//! the pattern and of the compiled program are bounded. Regular expressions are only compiled in this module.

mod java;

use std::borrow::Cow;
use std::fmt;

use regex::bytes::{Regex, RegexBuilder};
use regex_syntax::hir::{Class, Hir, HirKind};

/// Maximum nesting of groups. The default of the parser is 250; typical patterns use 5.
const NESTING: u32 = 100;

/// Limits above which compiling takes milliseconds, which is too long for the main thread of the
/// server: on the number of alternatives, and on the program size in bytes, as estimated from the
/// pattern.
const HEAVY_ALTERNATIVES: usize = 1000;
const HEAVY_SIZE: usize = 8 * 1024;

/// Maximum size in bytes of a pattern that is parsed only to estimate its size.
const MAX_PARSED: usize = 64 * 1024;

/// Size limits of a pattern and its compiled program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum length of the pattern text in bytes.
    pub pattern_bytes: usize,
    /// Maximum size of the compiled program in bytes; the engine builds a few programs of at most this size.
    pub compiled_bytes: usize,
}

impl Default for Limits {
    /// 64 KiB of text and 16 MiB compiled: enough for 64 KiB of plain alternatives, even case-insensitive
    /// ones.
    fn default() -> Self {
        Limits {
            pattern_bytes: 64 * 1024,
            compiled_bytes: 16 * 1024 * 1024,
        }
    }
}

/// Required position of a match in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// Anywhere in the text.
    Anywhere,
    /// From the first byte; the match may end before the last byte.
    Start,
    /// The whole text, from the first byte to the last.
    Whole,
}

/// A compiled regular expression over bytes: `.` matches a byte, and `\d`, `\w` and `(?i)` are ASCII.
///
/// ```
/// use crawlspace_cdx::{Anchor, Limits, Pattern};
/// let either = Pattern::compile(b"a|b", Anchor::Whole, Limits::default()).unwrap();
/// assert!(either.is_match(b"b"));
/// assert!(!either.is_match(b"ba"));
/// ```
#[derive(Clone, Debug)]
pub struct Pattern {
    regex: Regex,
    weight: usize,
}

impl Pattern {
    /// Compiles the pattern. The anchor does not change the numbers and names of groups.
    ///
    /// # Errors
    /// Fails when the pattern is malformed or exceeds the limits.
    pub fn compile(text: &[u8], anchor: Anchor, limits: Limits) -> Result<Pattern, BadPattern> {
        check_length(text, limits)?;
        Pattern::of_text(&as_str(text), anchor, limits)
    }

    /// Compiles a pattern in Java syntax: `\Q…\E`, `\p{Upper}` and the other POSIX classes, `\h`, `\v`, `\R`,
    /// `\e`, `\cX`, `\0n`, all ASCII. Constructs that take more than linear time are rejected: possessive
    /// quantifiers, atomic groups, look-around, back-references.
    ///
    /// # Errors
    /// Fails when the pattern is malformed, unsupported or exceeds the limits.
    ///
    /// ```
    /// use crawlspace_cdx::{Anchor, Limits, Pattern};
    /// let java = |text: &[u8]| Pattern::compile_java(text, Anchor::Whole, Limits::default());
    /// assert!(java(br"\p{Upper}+\Q.gz\E").unwrap().is_match(b"ABC.gz"));
    /// assert!(java(b"a++b").is_err());
    /// ```
    pub fn compile_java(
        text: &[u8],
        anchor: Anchor,
        limits: Limits,
    ) -> Result<Pattern, BadPattern> {
        check_length(text, limits)?;
        let translated = java::translate(text)?;
        Pattern::of_text(&translated.text, anchor, limits).map_err(|error| match error {
            BadPattern::Syntax { at: Some(at), what } => BadPattern::Syntax {
                at: Some(translated.origin(at)),
                what,
            },
            other => other,
        })
    }

    fn of_text(text: &str, anchor: Anchor, limits: Limits) -> Result<Pattern, BadPattern> {
        // Parse the pattern on its own first: inside a group, `a)(b` would be well-formed.
        let parsed = parse(text)?;
        let regex = match anchor {
            Anchor::Anywhere => build(text, limits),
            Anchor::Start => grouped(text, "", limits),
            Anchor::Whole => grouped(text, r"\z", limits),
        }?;
        Ok(Pattern {
            regex,
            weight: weight(&parsed),
        })
    }

    /// Returns true if compiling the pattern may take milliseconds, so that callers can do so on another
    /// thread. The check takes microseconds for typical patterns, and returns `false` for invalid ones.
    ///
    /// ```
    /// use crawlspace_cdx::Pattern;
    /// assert!(!Pattern::is_heavy(br"(?:^|/)ARCHIVEIT-(\d+)-"));
    /// assert!(Pattern::is_heavy(&b"1068|".repeat(1001)));
    /// assert!(Pattern::is_heavy(br"((a{100}){100}){100}"));
    /// ```
    pub fn is_heavy(text: &[u8]) -> bool {
        if text.len() > HEAVY_SIZE {
            return true;
        }
        // A pattern has at most as many alternatives as bytes, and only counted repetitions make its program
        // much larger than the pattern.
        if text.len() > HEAVY_ALTERNATIVES
            && memchr::memchr_iter(b'|', text).count() > HEAVY_ALTERNATIVES
        {
            return true;
        }
        // Unicode classes are large, but only enabled by flags in the pattern.
        if memchr::memmem::find_iter(text, b"(?").any(|at| {
            let flags = text[at + 2..]
                .iter()
                .take_while(|b| b.is_ascii_alphabetic());
            flags.copied().any(|flag| flag == b'u')
        }) {
            return true;
        }
        memchr::memchr(b'{', text).is_some()
            && parse_either(text).is_ok_and(|pattern| size(&pattern) > HEAVY_SIZE)
    }

    /// Estimates the time to compile a pattern, as the number of bytes of plain text that take the same
    /// time to compile. The result is at most 128 KiB, because compiling stops at a limit. For an invalid
    /// pattern, the result is the length of the pattern.
    ///
    /// ```
    /// use crawlspace_cdx::Pattern;
    /// assert!(Pattern::size(br"(?:^|/)ARCHIVEIT-(\d+)-") < 40);
    /// assert!(Pattern::size(br"(a{100}){100}") > 10_000);
    /// ```
    pub fn size(text: &[u8]) -> usize {
        let size = match text.len() {
            ..=MAX_PARSED => parse_either(text).map_or(text.len(), |pattern| size(&pattern)),
            longer => longer,
        };
        size.min(2 * MAX_PARSED)
    }

    /// Returns the maximum number of positions in the pattern that a search tracks at once: the worst-case number of
    /// steps per byte of text. Values below 100 do not slow down a search noticeably.
    ///
    /// ```
    /// use crawlspace_cdx::{Anchor, Limits, Pattern};
    /// let weight = |text: &[u8]| Pattern::compile(text, Anchor::Anywhere, Limits::default()).unwrap().weight();
    /// assert!(weight(br"(?:^|/)ARCHIVEIT-(\d+)-") < 10);
    /// assert!(weight(b"1068|1069|1070") < 10);
    /// assert!(weight(b"a[ab]{3000}c") > 1000);
    /// ```
    pub fn weight(&self) -> usize {
        self.weight
    }

    /// Returns true if the text matches at the anchor of the pattern.
    pub fn is_match(&self, text: &[u8]) -> bool {
        self.regex.is_match(text)
    }

    /// Returns the engine's regex, which includes the anchor, for capture groups.
    pub fn regex(&self) -> &Regex {
        &self.regex
    }
}

fn check_length(text: &[u8], limits: Limits) -> Result<(), BadPattern> {
    if text.len() > limits.pattern_bytes {
        return Err(BadPattern::TooLong {
            bytes: text.len(),
            limit: limits.pattern_bytes,
        });
    }
    Ok(())
}

fn parse(text: &str) -> Result<Hir, BadPattern> {
    regex_syntax::ParserBuilder::new()
        .nest_limit(NESTING)
        .unicode(false)
        .utf8(false)
        .build()
        .parse(text)
        .map_err(BadPattern::syntax)
}

/// Parses a pattern in the engine's syntax or in Java's.
fn parse_either(text: &[u8]) -> Result<Hir, BadPattern> {
    parse(&as_str(text)).or_else(|_| parse(&java::translate(text)?.text))
}

/// Builds the pattern anchored at the start, and followed by `end`.
fn grouped(text: &str, end: &str, limits: Limits) -> Result<Regex, BadPattern> {
    let short = build(&format!(r"\A(?:{text}){end}"), limits);
    if !matches!(short, Err(BadPattern::Syntax { .. })) {
        return short;
    }
    // The pattern is well-formed on its own, but not in a group: in `(?x) a # comment`, the closing
    // bracket becomes part of the comment. A line feed ends the comment, and has no meaning where
    // comments are allowed.
    build(&format!("\\A(?:{text}\n){end}"), limits)
}

fn build(text: &str, limits: Limits) -> Result<Regex, BadPattern> {
    RegexBuilder::new(text)
        .unicode(false)
        // The added group adds one level of nesting.
        .nest_limit(NESTING + 2)
        .size_limit(limits.compiled_bytes)
        // Each thread has one cache for the lazy DFA. A full cache is cleared, so matching stays linear.
        .dfa_size_limit(2 * 1024 * 1024)
        .build()
        .map_err(|error| match error {
            regex::Error::CompiledTooBig(limit) => BadPattern::TooBig { limit },
            other => BadPattern::Syntax {
                at: None,
                what: one_line(&other.to_string()),
            },
        })
}

/// Converts a pattern to text for the engine; bytes that are invalid UTF-8 become escapes.
fn as_str(text: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(text) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 64);
    for chunk in text.utf8_chunks() {
        out.push_str(chunk.valid());
        for byte in chunk.invalid() {
            // If a backslash escapes this byte, remove the backslash: otherwise it would escape the backslash
            // of `\x`.
            let slashes = out.len() - out.trim_end_matches('\\').len();
            if slashes % 2 == 1 {
                out.pop();
            }
            out.push_str(&format!("\\x{byte:02X}"));
        }
    }
    Cow::Owned(out)
}

/// Estimates the size of the pattern in bytes of plain text.
fn size(pattern: &Hir) -> usize {
    let sum = |parts: &[Hir]| {
        parts
            .iter()
            .fold(1_usize, |sum, part| sum.saturating_add(size(part)))
    };
    match pattern.kind() {
        // Unicode classes are large and rare.
        HirKind::Class(Class::Unicode(class)) => 1 + 2 * class.ranges().len(),
        HirKind::Empty | HirKind::Look(_) | HirKind::Class(_) => 1,
        HirKind::Literal(text) => text.0.len(),
        HirKind::Capture(group) => size(&group.sub).saturating_add(2),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => sum(parts),
        HirKind::Repetition(repeated) => {
            let most = repeated.max.unwrap_or(repeated.min).max(1);
            size(&repeated.sub).saturating_mul(most as usize)
        }
    }
}

/// Computes [`Pattern::weight`]. Alternatives of plain text have a low weight, because few of them
/// are in progress at the same time.
fn weight(pattern: &Hir) -> usize {
    let literal = |part: &&Hir| !matches!(part.kind(), HirKind::Literal(_));
    let sum = |parts: &[Hir]| {
        parts
            .iter()
            .filter(literal)
            .map(weight)
            .fold(1, usize::saturating_add)
    };
    match pattern.kind() {
        HirKind::Empty | HirKind::Look(_) => 0,
        HirKind::Class(_) | HirKind::Literal(_) => 1,
        HirKind::Capture(group) => weight(&group.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => sum(parts),
        HirKind::Repetition(repeated) => {
            let most = repeated.max.unwrap_or(repeated.min).max(1);
            weight(&repeated.sub).max(1).saturating_mul(most as usize)
        }
    }
}

/// Returns the last sentence of a multi-line error message.
fn one_line(text: &str) -> Box<str> {
    let last = text.trim_end().rsplit('\n').next().unwrap_or("");
    last.strip_prefix("error: ").unwrap_or(last).into()
}

/// Error: a rejected pattern. [`Display`](fmt::Display) shows one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadPattern {
    /// Invalid or unsupported syntax of a regular expression.
    Syntax {
        /// Byte offset in the pattern, if known.
        at: Option<usize>,
        /// Description of the error.
        what: Box<str>,
    },
    /// The pattern text is too long.
    TooLong {
        /// Length in bytes.
        bytes: usize,
        /// Maximum length in bytes.
        limit: usize,
    },
    /// The compiled program is too large.
    TooBig {
        /// Maximum size in bytes.
        limit: usize,
    },
}

impl BadPattern {
    fn syntax(error: regex_syntax::Error) -> Self {
        let (at, what) = match &error {
            regex_syntax::Error::Parse(e) => (Some(e.span().start.offset), e.kind().to_string()),
            regex_syntax::Error::Translate(e) => {
                (Some(e.span().start.offset), e.kind().to_string())
            }
            other => (None, one_line(&other.to_string()).into()),
        };
        BadPattern::Syntax {
            at,
            what: what.into(),
        }
    }
}

const ADVICE: &str = "use a tag filter, such as tag.coll:1|2|3, instead of many alternatives";

impl fmt::Display for BadPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadPattern::Syntax { at: Some(at), what } => {
                write!(f, "{what} at byte {at} of the regex")
            }
            BadPattern::Syntax { at: None, what } => write!(f, "{what}"),
            BadPattern::TooLong { bytes, limit } => write!(
                f,
                "the regex has {bytes} bytes, the maximum is {limit}; {ADVICE}"
            ),
            BadPattern::TooBig { limit } => {
                write!(f, "the regex compiles to more than {limit} bytes; {ADVICE}")
            }
        }
    }
}

impl std::error::Error for BadPattern {}

#[cfg(test)]
mod tests;
