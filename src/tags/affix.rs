//! Searches for the most common kind of rule without a regular expression: a run of bytes of one
//! class between two fixed strings, such as `(?:^|/)ARCHIVEIT-(\d+)-`.
//!
//! A search with the regular expression and its groups takes five times as long, and deriving tags
//! from fields takes most of the time that is spent on a capture.

use memchr::memmem::Finder;
use regex_syntax::hir::{Class, Hir, HirKind, Look};

/// A fixed string, a run of bytes of one class, another fixed string, and the positions at which
/// the first string may begin.
#[derive(Debug)]
pub struct Affix {
    before: Finder<'static>,
    begins: Begins,
    in_run: Box<[bool; 256]>,
    least: usize,
    after: Box<[u8]>,
}

/// Positions at which `before` may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begins {
    /// Anywhere in the field.
    Anywhere,
    /// Only at the start of the field.
    AtStart,
    /// The start of the field, or the position directly after this byte.
    AtStartOrAfter(u8),
}

impl Affix {
    /// Converts a regular expression of this kind whose only group is the run. Returns `None` for
    /// all other regular expressions.
    ///
    /// The run must be greedy, with a minimum length and no maximum length, and `after` must begin
    /// with a byte that cannot occur in a run; therefore, at most one match exists at each
    /// position. `before` must contain a byte that cannot occur in a run; therefore, each byte is
    /// examined at most as many times as `before` has bytes.
    pub fn of(pattern: &[u8]) -> Option<Affix> {
        let hir = regex_syntax::ParserBuilder::new()
            .unicode(false)
            .utf8(false)
            .build()
            .parse(std::str::from_utf8(pattern).ok()?)
            .ok()?;
        let HirKind::Concat(parts) = hir.kind() else {
            return None;
        };
        let (begins, parts) = match parts.first().map(begins) {
            Some(Some(begins)) => (begins, &parts[1..]),
            _ => (Begins::Anywhere, &parts[..]),
        };
        let (before, run, after) = match parts {
            [before, run] => (literal(before)?, run, &b""[..]),
            [before, run, after] => (literal(before)?, run, literal(after)?),
            _ => return None,
        };
        let HirKind::Capture(run) = run.kind() else {
            return None;
        };
        let HirKind::Repetition(run) = run.sub.kind() else {
            return None;
        };
        if !run.greedy || run.max.is_some() {
            return None;
        }
        let in_run = class(&run.sub)?;
        let ends_there = after.first().is_none_or(|&b| !in_run[usize::from(b)]);
        let stands_out = before.iter().any(|&b| !in_run[usize::from(b)]);
        if !ends_there || !stands_out {
            return None;
        }
        Some(Affix {
            before: Finder::new(before).into_owned(),
            begins,
            in_run,
            least: run.min as usize,
            after: after.into(),
        })
    }

    /// Returns the run of the first match.
    #[inline]
    pub fn find<'v>(&self, value: &'v [u8]) -> Option<&'v [u8]> {
        let before = self.before.needle();
        // Try the start of the field first: `before` is usually there, even if the rule allows it
        // anywhere, and a search takes three times as long as this comparison.
        if let Some(rest) = value.strip_prefix(before)
            && let Some(run) = self.run(rest)
        {
            return Some(run);
        }
        let mut from = 0;
        while let Some(found) = self.before.find(&value[from..]) {
            let at = from + found;
            let begins = match self.begins {
                Begins::Anywhere => true,
                Begins::AtStart if at > 0 => return None,
                Begins::AtStart => true,
                Begins::AtStartOrAfter(byte) => at == 0 || value[at - 1] == byte,
            };
            if begins && let Some(run) = self.run(&value[at + before.len()..]) {
                return Some(run);
            }
            from = at + 1;
        }
        None
    }

    /// Returns the run at the start of `rest` if `after` follows the run.
    #[inline]
    fn run<'v>(&self, rest: &'v [u8]) -> Option<&'v [u8]> {
        let run = rest
            .iter()
            .position(|&b| !self.in_run[usize::from(b)])
            .unwrap_or(rest.len());
        let fits = run >= self.least && rest[run..].starts_with(&self.after);
        fits.then_some(&rest[..run])
    }
}

fn literal(hir: &Hir) -> Option<&[u8]> {
    match hir.kind() {
        HirKind::Literal(literal) => Some(&literal.0),
        _ => None,
    }
}

/// Returns the positions at which this part of the pattern allows a match to begin. Returns `None`
/// if the part does not test a position.
fn begins(hir: &Hir) -> Option<Begins> {
    match hir.kind() {
        HirKind::Look(Look::Start) => Some(Begins::AtStart),
        HirKind::Capture(_) => None,
        HirKind::Alternation(parts) => match &parts[..] {
            [a, b] => {
                let (look, byte) = match (a.kind(), literal(b)) {
                    (HirKind::Look(look), Some([byte])) => (look, *byte),
                    _ => match (b.kind(), literal(a)) {
                        (HirKind::Look(look), Some([byte])) => (look, *byte),
                        _ => return None,
                    },
                };
                (*look == Look::Start).then_some(Begins::AtStartOrAfter(byte))
            }
            _ => None,
        },
        _ => None,
    }
}

fn class(hir: &Hir) -> Option<Box<[bool; 256]>> {
    let mut in_class = Box::new([false; 256]);
    match hir.kind() {
        HirKind::Class(Class::Bytes(class)) => {
            for range in class.ranges() {
                for byte in range.start()..=range.end() {
                    in_class[usize::from(byte)] = true;
                }
            }
        }
        HirKind::Literal(literal) if literal.0.len() == 1 => {
            in_class[usize::from(literal.0[0])] = true;
        }
        _ => return None,
    }
    Some(in_class)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PATTERNS: [&str; 12] = [
        r"(?:^|/)ARCHIVEIT-(\d+)-",
        r"(?:/|^)A-(\d+)-",
        r"^a/([0-9]+)",
        r"a-([ab]*)c",
        r"/aa-(b+)",
        r"-([^-]*)-b",
        r"A(\d{2,})-",
        r"a/(\w+)/",
        r"(?:^|-)ab/(a+)b",
        r"(?:^|a)/(a+)b",
        r"1-(1*)1-",
        r"(?i-u)a-(\d+)",
    ];

    #[test]
    fn usual_rules_are_prefixes_or_suffixes() {
        for pattern in &PATTERNS[..8] {
            assert!(Affix::of(pattern.as_bytes()).is_some(), "{pattern}");
        }
        for other in [
            r"a(\d+)(b)",
            r"(\d+)",
            r"a-(\d+?)b",
            r"1(1+)",
            r"a(b|c)",
            r"-(a+)a",
            r"a-(\d+)$",
        ] {
            assert!(Affix::of(other.as_bytes()).is_none(), "{other}");
        }
    }

    proptest! {
        #[test]
        fn match_equals_that_of_the_regular_expression(
            value in "[-/abcA1ARCHIVEIT]{0,24}",
            number in 0..PATTERNS.len(),
            archive_it in any::<bool>(),
        ) {
            let value = if archive_it { value.replace('A', "ARCHIVEIT-1") } else { value };
            let pattern = PATTERNS[number];
            if let Some(affix) = Affix::of(pattern.as_bytes()) {
                let regex = regex::bytes::RegexBuilder::new(pattern).unicode(false).build().unwrap();
                let expected = regex
                    .captures(value.as_bytes())
                    .map(|groups| groups.get(1).unwrap().as_bytes());
                prop_assert_eq!(affix.find(value.as_bytes()), expected);
            }
        }
    }
}
