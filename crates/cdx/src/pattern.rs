//! The one place that compiles regular expressions, within limits: the engine is linear in the text, and
//! neither the pattern nor what it compiles to may grow without bound.

mod java;

use std::borrow::Cow;
use std::fmt;

use regex::bytes::{Regex, RegexBuilder};
use regex_syntax::hir::{Class, Hir, HirKind};

/// How deep groups may nest. The parser's own default is 250; people write 5.
const NESTING: u32 = 100;

/// Above this many alternatives, or bytes of program as estimated from the pattern, compiling takes
/// milliseconds: too long for the thread that serves everybody.
const HEAVY_ALTERNATIVES: usize = 1000;
const HEAVY_SIZE: usize = 8 * 1024;

/// A pattern of more bytes is not read only to see how large it is.
const MAX_PARSED: usize = 64 * 1024;

/// How large a pattern and what it compiles to may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the pattern's text.
    pub pattern_bytes: usize,
    /// Bytes of the compiled program; the engine builds a few of this size at most.
    pub compiled_bytes: usize,
}

impl Default for Limits {
    /// 64 KiB of text, 16 MiB compiled: enough for 64 KiB of plain alternatives, also in both cases.
    fn default() -> Self {
        Limits {
            pattern_bytes: 64 * 1024,
            compiled_bytes: 16 * 1024 * 1024,
        }
    }
}

/// Where in the text a pattern has to match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// Anywhere.
    Anywhere,
    /// From the first byte on, not necessarily to the last.
    Start,
    /// From the first byte to the last.
    Whole,
}

/// A compiled regular expression over bytes, in which `.` is a byte and `\d`, `\w`, `(?i)` are ASCII's.
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
    /// Compiles the pattern. Its groups keep their numbers and names, whatever the anchor.
    ///
    /// # Errors
    /// When it is malformed, or larger than the limits.
    pub fn compile(text: &[u8], anchor: Anchor, limits: Limits) -> Result<Pattern, BadPattern> {
        check_length(text, limits)?;
        Pattern::of_text(&as_str(text), anchor, limits)
    }

    /// Compiles a pattern in Java's spelling: `\Q…\E`, `\p{Upper}` and the other POSIX classes, `\h`, `\v`, `\R`,
    /// `\e`, `\cX`, `\0n`, all of ASCII. What takes more than linear time is an error: possessive quantifiers,
    /// atomic groups, look-around, back-references.
    ///
    /// # Errors
    /// When it is malformed, not supported, or larger than the limits.
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
        // By itself first: put into a group, `a)(b` would be well-formed.
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

    /// Whether compiling it may take milliseconds, so that the caller may want to do so on another
    /// thread. Costs microseconds for what people write, and is `false` for what does not compile.
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
        // No text has more alternatives than bytes, nor grows but by repetitions that are counted.
        if text.len() > HEAVY_ALTERNATIVES
            && memchr::memchr_iter(b'|', text).count() > HEAVY_ALTERNATIVES
        {
            return true;
        }
        // Classes of Unicode are large, which nobody gets who does not ask.
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

    /// How large a pattern is to compile: roughly the bytes of plain text that take as long. No pattern comes to
    /// more than 128 KiB, because compiling ends at a limit. What does not compile comes to its length.
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

    /// How many places of the pattern a search may have to keep in mind at once, in the worst case: that many
    /// steps it may take for a byte of the text. Below a hundred nobody notices.
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

    /// Whether it matches, as its anchor demands.
    pub fn is_match(&self, text: &[u8]) -> bool {
        self.regex.is_match(text)
    }

    /// The engine's own, for captures; anchored already.
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

/// Reads a pattern that is in the engine's spelling or in Java's.
fn parse_either(text: &[u8]) -> Result<Hir, BadPattern> {
    parse(&as_str(text)).or_else(|_| parse(&java::translate(text)?.text))
}

/// Anchored at the start, and followed by `end`.
fn grouped(text: &str, end: &str, limits: Limits) -> Result<Regex, BadPattern> {
    let short = build(&format!(r"\A(?:{text}){end}"), limits);
    if !matches!(short, Err(BadPattern::Syntax { .. })) {
        return short;
    }
    // Well-formed by itself, but not in a group: `(?x) a # comment` has swallowed the bracket. A line
    // feed ends the comment, and is blank where comments are.
    build(&format!("\\A(?:{text}\n){end}"), limits)
}

fn build(text: &str, limits: Limits) -> Result<Regex, BadPattern> {
    RegexBuilder::new(text)
        .unicode(false)
        // The group around it is one level more.
        .nest_limit(NESTING + 2)
        .size_limit(limits.compiled_bytes)
        // The lazy DFA's cache, one for each thread: when it is full it begins anew, still linear.
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

/// The engine takes patterns as text; a byte that is none becomes its escape.
fn as_str(text: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(text) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 64);
    for chunk in text.utf8_chunks() {
        out.push_str(chunk.valid());
        for byte in chunk.invalid() {
            // A backslash before it would turn the escape into text.
            let slashes = out.len() - out.trim_end_matches('\\').len();
            if slashes % 2 == 1 {
                out.pop();
            }
            out.push_str(&format!("\\x{byte:02X}"));
        }
    }
    Cow::Owned(out)
}

/// Roughly how many bytes of plain text the pattern is as large as.
fn size(pattern: &Hir) -> usize {
    let sum = |parts: &[Hir]| {
        parts
            .iter()
            .fold(1_usize, |sum, part| sum.saturating_add(size(part)))
    };
    match pattern.kind() {
        // Classes of Unicode are large, and seldom asked for.
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

/// See [`Pattern::weight`]. Of plain texts side by side few are begun at a time.
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

/// The last sentence of an error that was drawn over several lines.
fn one_line(text: &str) -> Box<str> {
    let last = text.trim_end().rsplit('\n').next().unwrap_or("");
    last.strip_prefix("error: ").unwrap_or(last).into()
}

/// Why a pattern is refused. [`Display`](fmt::Display) gives one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadPattern {
    /// It is not a regular expression, or one of another kind of engine.
    Syntax {
        /// The offset in the pattern, where known.
        at: Option<usize>,
        /// What is wrong there.
        what: Box<str>,
    },
    /// Its text is too long.
    TooLong {
        /// How long it is.
        bytes: usize,
        /// How long it may be.
        limit: usize,
    },
    /// What it compiles to is too large.
    TooBig {
        /// How large that may be, in bytes.
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

const ADVICE: &str = "use a tag filter, such as tag.coll:1|2|3, in place of many alternatives";

impl fmt::Display for BadPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadPattern::Syntax { at: Some(at), what } => {
                write!(f, "{what} at byte {at} of the regex")
            }
            BadPattern::Syntax { at: None, what } => write!(f, "{what}"),
            BadPattern::TooLong { bytes, limit } => write!(
                f,
                "a regex of {bytes} bytes, the maximum is {limit}; {ADVICE}"
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
