//! Expressions as trees. They are written as text for the server, and evaluated here.

use redis_tests::Rng;

use crate::model::pattern::{Bytes, Fill, Node, Pattern};

/// Text whose parts may come from the name of a point.
#[derive(Clone, Debug)]
pub struct Text(pub Vec<Piece>);

#[derive(Clone, Debug)]
pub enum Piece {
    Bytes(Bytes),
    Fill(Fill),
}

impl Text {
    pub fn of(text: impl AsRef<[u8]>) -> Text {
        Text(vec![Piece::Bytes(text.as_ref().to_vec())])
    }

    pub fn filled(&self, fill: &dyn Fn(&Fill) -> Option<Bytes>) -> Option<Bytes> {
        let pieces = self.0.iter().map(|piece| match piece {
            Piece::Bytes(bytes) => Some(bytes.clone()),
            Piece::Fill(what) => fill(what),
        });
        pieces
            .collect::<Option<Vec<_>>>()
            .map(|pieces| pieces.concat())
    }

    /// Returns the text as written in a template or a point: `$` is doubled, and groups are `$1` or
    /// `${1}`.
    pub fn template(&self) -> Bytes {
        let mut out = Vec::new();
        for (n, piece) in self.0.iter().enumerate() {
            match piece {
                Piece::Bytes(bytes) => out.extend(doubled(bytes)),
                Piece::Fill(what) => {
                    let next = match self.0.get(n + 1) {
                        Some(Piece::Bytes(bytes)) => bytes.first().copied(),
                        _ => None,
                    };
                    out.extend(reference(what, next));
                }
            }
        }
        out
    }
}

fn doubled(bytes: &[u8]) -> Bytes {
    bytes
        .iter()
        .flat_map(|&b| if b == b'$' { vec![b, b] } else { vec![b] })
        .collect()
}

fn reference(what: &Fill, next: Option<u8>) -> Bytes {
    match what {
        Fill::Number(n) if next.is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_') => {
            format!("${{{n}}}")
        }
        Fill::Number(n) => format!("${n}"),
        Fill::Name(name) => format!("${{{name}}}"),
    }
    .into_bytes()
}

#[derive(Clone, Debug)]
pub enum Expression {
    Any,
    Tag(Text),
    Prefix(Text),
    OneOf(Text, Vec<Text>),
    Point(Text),
    Is(&'static str, Text),
    Has(&'static str, Text),
    Finds(&'static str, Pattern),
    Not(Box<Expression>),
    And(Vec<Expression>),
    Or(Vec<Expression>),
}
use Expression::*;

/// The kinds of parts that an expression may have.
pub struct Taste<'a> {
    pub tags: &'a [&'static str],
    pub points: &'a [&'static str],
    pub fields: &'a [&'static str],
    pub values: &'a [&'static str],
    /// Groups that may be inserted.
    pub fills: &'a [Fill],
}

impl Taste<'_> {
    fn text(&self, rng: &mut Rng, from: &[&'static str]) -> Text {
        let mut text = Text::of(*rng.pick(from));
        if !self.fills.is_empty() && rng.chance(40) {
            let Piece::Bytes(bytes) = &mut text.0[0] else {
                panic!("bytes come first")
            };
            let keep = rng.below(bytes.len() as u64 + 1) as usize;
            bytes.truncate(keep);
            text.0.push(Piece::Fill(rng.pick(self.fills).clone()));
            if rng.chance(20) {
                text.0
                    .push(Piece::Bytes(rng.pick(from).as_bytes().to_vec()));
            }
        }
        text
    }
}

impl Expression {
    pub fn random(rng: &mut Rng, taste: &Taste, depth: usize) -> Expression {
        let many = |rng: &mut Rng| -> Vec<Expression> {
            (0..2 + rng.below(2))
                .map(|_| Expression::random(rng, taste, depth - 1))
                .collect()
        };
        match rng.below(if depth == 0 { 12 } else { 20 }) {
            0 => Any,
            1..=4 => Tag(taste.text(rng, taste.tags)),
            5..=6 => {
                let mut text = taste.text(rng, taste.tags);
                if let [Piece::Bytes(bytes)] = &mut text.0[..] {
                    let keep = 1 + rng.below(bytes.len() as u64) as usize;
                    bytes.truncate(keep);
                }
                Prefix(text)
            }
            7 => {
                let prefix = Text::of(*rng.pick(&["", "c:", "o:"]));
                let values = ["1", "2", "12", "p", "x|y", "*"];
                OneOf(
                    prefix,
                    (0..1 + rng.below(3))
                        .map(|_| taste.text(rng, &values))
                        .collect(),
                )
            }
            8 if !taste.points.is_empty() => Point(taste.text(rng, taste.points)),
            9 if !taste.fields.is_empty() => {
                Is(*rng.pick(taste.fields), taste.text(rng, taste.values))
            }
            10 if !taste.fields.is_empty() => {
                Has(*rng.pick(taste.fields), taste.text(rng, taste.values))
            }
            11 if !taste.fields.is_empty() => {
                let mut pattern = Pattern::random(rng, b"ack-/x12.$");
                if !taste.fills.is_empty() && rng.chance(40) {
                    pattern.0.push(Node::Fill(rng.pick(taste.fills).clone()));
                }
                Finds(*rng.pick(taste.fields), pattern)
            }
            8..=11 => Tag(taste.text(rng, taste.tags)),
            12..=14 => Not(Box::new(Expression::random(rng, taste, depth - 1))),
            15..=16 => And(many(rng)),
            _ => Or(many(rng)),
        }
    }

    /// Calls `f` with every part.
    pub fn each<'a>(&'a self, f: &mut dyn FnMut(&'a Expression)) {
        f(self);
        match self {
            Not(inner) => inner.each(f),
            And(parts) | Or(parts) => parts.iter().for_each(|part| part.each(f)),
            _ => (),
        }
    }

    /// Formats the expression as text. In a point, `$` is doubled.
    pub fn write(&self, rng: &mut Rng, point: bool) -> Bytes {
        let mut writer = Writer { rng, point };
        writer.or(self)
    }
}

/// Bytes that end the unquoted value of a field test or are not allowed in it.
const VALUE: &[u8] = b"|&()\"'";

struct Writer<'a> {
    rng: &'a mut Rng,
    point: bool,
}

impl Writer<'_> {
    fn space(&mut self) -> &'static [u8] {
        *self.rng.pick(&[&b""[..], b" ", b" ", b"  ", b"\t", b"\n"])
    }

    fn joined(&mut self, parts: Vec<Bytes>, sign: u8) -> Bytes {
        let mut out = Vec::new();
        for (n, part) in parts.into_iter().enumerate() {
            if n > 0 {
                out.extend(self.space());
                out.push(sign);
                out.extend(self.space());
            }
            out.extend(part);
        }
        out
    }

    fn or(&mut self, e: &Expression) -> Bytes {
        match e {
            Or(parts) => {
                let parts = parts.iter().map(|part| self.and(part)).collect();
                self.joined(parts, b'|')
            }
            other => self.and(other),
        }
    }

    fn and(&mut self, e: &Expression) -> Bytes {
        match e {
            And(parts) => {
                let parts = parts.iter().map(|part| self.not(part)).collect();
                self.joined(parts, b'&')
            }
            other => self.not(other),
        }
    }

    fn not(&mut self, e: &Expression) -> Bytes {
        match e {
            Not(inner) => [b"!", self.space(), &self.not(inner)].concat(),
            And(_) | Or(_) => [b"(", self.space(), &self.or(e), self.space(), b")"].concat(),
            other if self.rng.chance(10) => [b"(", &self.atom(other)[..], b")"].concat(),
            other => self.atom(other),
        }
    }

    fn atom(&mut self, e: &Expression) -> Bytes {
        match e {
            Any => b"*".to_vec(),
            Tag(text) => self.text(text),
            Prefix(text) => [&self.text(text)[..], b"*"].concat(),
            OneOf(prefix, values) => {
                let values = values.iter().map(|value| self.text(value)).collect();
                let values = self.joined(values, b'|');
                let plain = prefix.filled(&|_| Some(b"g".to_vec())).expect("filled");
                let prefix = if plain.is_empty() {
                    Vec::new()
                } else {
                    self.text(prefix)
                };
                [&prefix[..], b"{", &values, b"}"].concat()
            }
            Point(name) => [b"@", &self.text(name)[..]].concat(),
            Is(field, value) => [field.as_bytes(), b"=", &self.value(value)].concat(),
            Has(field, value) => [field.as_bytes(), b"*=", &self.value(value)].concat(),
            Finds(field, pattern) => {
                // In a regex, a dollar sign belongs to the regex, even in a point.
                let pieces = pattern.0.iter().map(|node| match node {
                    Node::Fill(what) => reference(what, None),
                    other => Pattern(vec![other.clone()]).regex(),
                });
                let regex = pieces.collect::<Vec<_>>().concat();
                let written = self.quoted(&regex, &regex, VALUE);
                [field.as_bytes(), b"~", &written].concat()
            }
            Not(_) | And(_) | Or(_) => panic!("no atom"),
        }
    }

    fn text(&mut self, text: &Text) -> Bytes {
        self.written(text, b"|&!(){}\"'*~=@")
    }

    fn value(&mut self, text: &Text) -> Bytes {
        self.written(text, VALUE)
    }

    /// Formats text, with quotes only if it contains one of these bytes.
    fn written(&mut self, text: &Text, signs: &[u8]) -> Bytes {
        let bytes = if self.point {
            text.template()
        } else {
            text.filled(&|_| None).expect("nothing to fill in")
        };
        // The braces of `${1}` are not special characters here.
        let plain: Bytes = text.filled(&|_| Some(b"g".to_vec())).expect("filled");
        let braces = bytes.contains(&b'{') && signs.contains(&b'{');
        if braces {
            self.quoted(&bytes, b"", signs)
        } else {
            self.quoted(&bytes, &plain, signs)
        }
    }

    /// Formats bytes without quotes if `plain` is true and they contain none of these characters;
    /// otherwise with quotes.
    fn quoted(&mut self, bytes: &[u8], plain: &[u8], signs: &[u8]) -> Bytes {
        let is_sign = |b: &u8| signs.contains(b) || b.is_ascii_whitespace();
        if !plain.is_empty() && !plain.iter().any(is_sign) && self.rng.chance(70) {
            return bytes.to_vec();
        }
        let quote = *self.rng.pick(b"\"'");
        let mut out = vec![quote];
        for &byte in bytes {
            if byte == quote || byte == b'\\' {
                out.push(b'\\');
            }
            out.push(byte);
        }
        out.push(quote);
        out
    }
}
