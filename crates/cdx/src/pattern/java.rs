//! Translation of Java regular expressions, as used by OutbackCDX and the Internet Archive's server, to the
//! engine's syntax. Constructs that can be matched in linear time are translated; all others are rejected
//! rather than misread.

use super::BadPattern;

/// A translated pattern in the engine's syntax.
#[derive(Debug)]
pub(super) struct Translated {
    pub text: String,
    /// Pairs of offsets, in the translated text and in the given pattern, at which each part begins.
    parts: Vec<(usize, usize)>,
}

impl Translated {
    /// Maps an offset in the translated text to the offset of the containing part in the given pattern.
    pub(super) fn origin(&self, at: usize) -> usize {
        let next = self.parts.partition_point(|(of_text, _)| *of_text <= at);
        next.checked_sub(1).map_or(at, |last| self.parts[last].1)
    }
}

/// POSIX classes of Java, all ASCII; the engine knows them by the same names in lower case.
const CLASSES: [&str; 13] = [
    "Lower", "Upper", "ASCII", "Alpha", "Digit", "Alnum", "Punct", "Graph", "Print", "Blank",
    "Cntrl", "XDigit", "Space",
];

/// Translates a pattern from Java's syntax to the engine's.
///
/// # Errors
/// Fails with the first construct that has no counterpart, and its offset.
pub(super) fn translate(given: &[u8]) -> Result<Translated, BadPattern> {
    let mut reader = Reader {
        given,
        at: 0,
        nested: 0,
        class_begins: false,
        last: Last::Other,
        counts: false,
        repeats: Repeats::No,
        into: Translated {
            text: String::with_capacity(given.len()),
            parts: Vec::new(),
        },
    };
    while reader.at < given.len() {
        reader.part()?;
    }
    Ok(reader.into)
}

struct Reader<'a> {
    given: &'a [u8],
    at: usize,
    /// Number of open classes.
    nested: usize,
    /// True if the next character is the first one of a class; a closing bracket is then literal.
    class_begins: bool,
    /// Last item in a class, after which a dash may mean a range.
    last: Last,
    /// True if a brace of a counted repetition is open outside of classes.
    counts: bool,
    /// Kind of the last item: a quantifier that the next sign can change, or another item.
    repeats: Repeats,
    into: Translated,
}

/// Last item in a class.
#[derive(Clone, Copy, Default, PartialEq)]
enum Last {
    /// A character that can start a range.
    Character,
    /// The dash of a range.
    Dash,
    /// An item that cannot start a range: a class, the end of a range, or nothing.
    #[default]
    Other,
}

impl Last {
    /// Returns the state after one more character.
    fn and_character(self) -> Last {
        match self {
            Last::Dash => Last::Other,
            _ => Last::Character,
        }
    }
}

/// Kind of the last item: a quantifier or not.
#[derive(Clone, Copy, Default, PartialEq)]
enum Repeats {
    #[default]
    No,
    /// A greedy quantifier, which a following sign can make reluctant or possessive.
    Greedy,
    Reluctant,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a [u8] {
        &self.given[self.at..]
    }

    /// Consumes `taken` bytes, and writes `text` instead.
    fn put(&mut self, taken: usize, text: &str) {
        self.into.parts.push((self.into.text.len(), self.at));
        self.into.text.push_str(text);
        self.at += taken;
    }

    /// Copies a character unchanged; a byte that is invalid UTF-8 becomes an escape.
    fn keep(&mut self) {
        let first = &self.rest()[..self.rest().len().min(4)];
        let Some(chunk) = first.utf8_chunks().next() else {
            return;
        };
        match chunk.valid().chars().next() {
            Some(c) => self.put(c.len_utf8(), c.encode_utf8(&mut [0; 4])),
            None => {
                let byte = first[0];
                self.put(1, &format!("\\x{byte:02X}"));
            }
        }
    }

    fn wrong(&self, what: &str) -> BadPattern {
        BadPattern::Syntax {
            at: Some(self.at),
            what: what.into(),
        }
    }

    fn part(&mut self) -> Result<(), BadPattern> {
        let repeated = std::mem::take(&mut self.repeats);
        let begins = std::mem::take(&mut self.class_begins);
        let bytes = self.rest();
        if self.nested > 0 {
            return self.part_of_class(begins);
        }
        match bytes {
            [b'\\', ..] => return self.escape(),
            [b'[', b'^', ..] => {
                self.nested = 1;
                self.class_begins = true;
                self.put(2, "[^");
            }
            [b'[', ..] => {
                self.nested = 1;
                self.class_begins = true;
                self.keep();
            }
            [b'+', ..] if repeated == Repeats::Greedy => {
                return Err(self.wrong("a possessive quantifier is not supported"));
            }
            // After a quantifier, `?` makes it reluctant.
            [b'?', ..] if repeated == Repeats::Greedy => {
                self.repeats = Repeats::Reluctant;
                self.keep();
            }
            // Java reads `a{2}{3}` as `a{2}`, and rejects all other pairs of quantifiers.
            [b'*' | b'+' | b'?' | b'{', ..] if repeated != Repeats::No => {
                return Err(self.wrong("a quantifier after another quantifier is not supported"));
            }
            [b'*' | b'+' | b'?', ..] => {
                self.repeats = Repeats::Greedy;
                self.keep();
            }
            [brace @ (b'{' | b'}'), ..] => {
                if *brace == b'}' && self.counts {
                    self.repeats = Repeats::Greedy;
                }
                self.counts = *brace == b'{';
                self.keep();
            }
            [b'(', b'?', b'>', ..] => {
                return Err(self.wrong("an atomic group is not supported"));
            }
            [b'(', b'?', flags @ ..] => {
                let flags = flags
                    .iter()
                    .take_while(|b| b.is_ascii_alphabetic() || **b == b'-');
                if flags.clone().any(|flag| *flag == b'U') {
                    return Err(self.wrong("the flag U (Unicode classes) is not supported"));
                }
                self.put(2, "(?");
            }
            _ => self.keep(),
        }
        Ok(())
    }

    /// Translates one part of a class; `begins` is true for the first part.
    fn part_of_class(&mut self, begins: bool) -> Result<(), BadPattern> {
        let last = std::mem::take(&mut self.last);
        let bytes = self.rest();
        match bytes {
            // In Java, `\v` is the single character 0B only as the start of a range.
            [b'\\', b'v', b'-', end, ..] if *end != b']' => {
                return Err(self.wrong("a range from \\v is not supported"));
            }
            [b'\\', letter, ..] => {
                self.last = match letter {
                    b'd' | b'D' | b'w' | b'W' | b's' | b'S' | b'h' | b'H' | b'v' | b'V' | b'p'
                    | b'P' => Last::Other,
                    _ => last.and_character(),
                };
                return self.escape();
            }
            [b'\\'] => return self.escape(),
            [b'[', b'^', ..] => {
                self.nested += 1;
                self.class_begins = true;
                self.put(2, "[^");
            }
            [b'[', ..] => {
                self.nested += 1;
                self.class_begins = true;
                self.keep();
            }
            [b']', ..] if !begins => {
                self.nested -= 1;
                self.keep();
            }
            // Java ignores an intersection with an empty operand.
            [b'&', b'&', after @ ..] if last != Last::Dash => {
                if begins || matches!(after, [] | [b'&' | b']', ..]) {
                    return Err(self.wrong("an intersection with an empty class is not supported"));
                }
                self.put(2, "&&");
            }
            // The dash of a range. The end of the range may also be a dash.
            [b'-', end, ..] if last == Last::Character && !matches!(end, b'[' | b']') => {
                self.last = Last::Dash;
                self.keep();
            }
            // In the engine's syntax, `--`, `~~` and `[:` have special meanings.
            [sign @ (b'-' | b'~' | b':' | b'&'), ..] => {
                self.last = last.and_character();
                self.put(1, &format!("\\x{sign:02X}"));
            }
            _ => {
                self.last = last.and_character();
                self.keep();
            }
        }
        Ok(())
    }

    /// Translates an escape sequence.
    fn escape(&mut self) -> Result<(), BadPattern> {
        let in_class = self.nested > 0;
        match *self.rest() {
            [_, b'Q', ..] => self.quote(),
            [_, b'E', ..] => return Err(self.wrong("\\E without \\Q")),
            [_, b'h', ..] => self.put(2, "[\\x20\\t]"),
            [_, b'H', ..] => self.put(2, "[^\\x20\\t]"),
            [_, b'v', ..] => self.put(2, "[\\n\\x0B\\f\\r]"),
            [_, b'V', ..] => self.put(2, "[^\\n\\x0B\\f\\r]"),
            [_, b'R', ..] if in_class => return Err(self.wrong("\\R in a class")),
            [_, b'R', ..] => self.put(2, "(?:\\r\\n|[\\n\\x0B\\f\\r])"),
            [_, b'e', ..] => self.put(2, "\\x1B"),
            [_, b'c', control @ 0..=0x7f, ..] => {
                self.put(3, &format!("\\x{:02X}", control ^ 0x40));
            }
            // Replace `\x{…}`, so that the engine does not read the braces as a quantifier.
            [_, b'x', b'{', ref code @ ..] => {
                let digits = code.iter().take_while(|b| b.is_ascii_hexdigit());
                let digits: String = digits.map(|&digit| char::from(digit)).collect();
                if code.get(digits.len()) != Some(&b'}') {
                    return Err(self.wrong("\\x{ without a hexadecimal number and }"));
                }
                self.put(digits.len() + 4, &format!("\\x{{{digits}}}"));
            }
            [_, b'0', ..] => return self.octal(),
            [_, b'p' | b'P', ..] => return self.class(),
            // The engine reads `\<` and `\>` as boundaries, and does not allow every sign to be escaped.
            [_, sign @ 0..=0x7f, ..] if !sign.is_ascii_alphanumeric() => {
                self.put(2, &format!("\\x{sign:02X}"));
            }
            [_, letter @ 0..=0x7f, ..] => self.put(2, &format!("\\{}", letter as char)),
            // A non-ASCII character is literal, and a lone backslash is an error.
            [_, _, ..] => self.put(1, ""),
            _ => self.keep(),
        }
        Ok(())
    }

    /// Translates `\Q…\E`: literal characters, up to the end if there is no `\E`.
    fn quote(&mut self) {
        self.put(2, "");
        let len = memchr::memmem::find(self.rest(), b"\\E").unwrap_or(self.rest().len());
        let end = self.at + len;
        while self.at < end {
            match self.rest()[0] {
                byte @ 0..=0x7f => self.put(1, &format!("\\x{byte:02X}")),
                _ => self.keep(),
            }
        }
        if end < self.given.len() {
            self.put(2, "");
        }
    }

    /// Translates `\0` and one to three octal digits, up to 377.
    fn octal(&mut self) -> Result<(), BadPattern> {
        let digits = self.rest()[2..].iter();
        let digits: Vec<u32> = digits
            .take(3)
            .take_while(|b| (b'0'..=b'7').contains(*b))
            .map(|b| u32::from(b - b'0'))
            .collect();
        let most = if digits.first().is_some_and(|&first| first <= 3) {
            3
        } else {
            2
        };
        let digits = &digits[..digits.len().min(most)];
        if digits.is_empty() {
            return Err(self.wrong("\\0 without an octal number"));
        }
        let value = digits.iter().fold(0, |value, digit| value * 8 + digit);
        self.put(2 + digits.len(), &format!("\\x{value:02X}"));
        Ok(())
    }

    /// Translates `\p{Upper}` and `\P{Upper}`.
    fn class(&mut self) -> Result<(), BadPattern> {
        let rest = self.rest();
        let name = rest[2..].strip_prefix(b"{").and_then(|name| {
            let end = memchr::memchr(b'}', name)?;
            std::str::from_utf8(&name[..end]).ok()
        });
        let Some(name) = name.filter(|name| CLASSES.contains(name)) else {
            return Err(self.wrong(
                "the supported classes \\p{...} are those of ASCII: Lower, Upper, ASCII, Alpha, Digit, Alnum, Punct, \
                 Graph, Print, Blank, Cntrl, XDigit, Space",
            ));
        };
        let not = if rest.starts_with(b"\\P") { "^" } else { "" };
        let (taken, name) = (name.len() + 4, name.to_ascii_lowercase());
        let class = match self.nested {
            0 => format!("[[:{not}{name}:]]"),
            _ => format!("[:{not}{name}:]"),
        };
        self.put(taken, &class);
        Ok(())
    }
}
