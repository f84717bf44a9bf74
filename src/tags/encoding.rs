//! Serialization of a space for RDB files, append-only files and other servers.
//!
//! A space is saved as a sequence of chunks. Each chunk can be checked separately. Loading all
//! chunks in order into an empty space results in an equal space. In its
//! [`crawlspace_compact::envelope`], a chunk has this form:
//!
//! | bytes | |
//! |---|---|
//! | 1 | kind of the rest: `I` a part of the index, `R` a rule, `P` access points |
//! | rest | for `I` as described in [`super::index`]; for `R` and `P` texts |
//!
//! A string is encoded as its length (a varint) and its bytes. A rule is encoded as the strings of
//! its name, field, regular expression and templates; access points are encoded as alternating
//! names and expressions.
//!
//! All input is checked before it is used, because it may come from a damaged file or from any
//! client with permission to run `RESTORE`.

use crawlspace_compact::envelope::Envelope;
use crawlspace_compact::number::{Malformed, Reader, put_bytes};

use super::point::Point;
use super::rule::Rule;
use super::space::Space;

/// Envelope of each chunk.
pub const ENVELOPE: Envelope = Envelope {
    what: "a tag space",
    version: 2,
};
const INDEX: u8 = b'I';
const RULE: u8 = b'R';
const POINTS: u8 = b'P';

/// Approximate size of the access points in a chunk, in bytes.
const CHUNK_BYTES: usize = 1 << 18;

impl Space {
    /// Serializes the space and passes each chunk to `chunk`.
    pub fn save(&self, chunk: &mut dyn FnMut(&[u8])) {
        for rule in self.rules().iter() {
            let mut body = Vec::new();
            put_bytes(&mut body, rule.name());
            put_bytes(&mut body, rule.field().name());
            put_bytes(&mut body, rule.regex());
            for template in rule.templates() {
                put_bytes(&mut body, template);
            }
            chunk(&sealed(RULE, &body));
        }
        let mut body = Vec::new();
        for point in self.points().iter() {
            put_bytes(&mut body, point.name());
            put_bytes(&mut body, point.text());
            if body.len() >= CHUNK_BYTES {
                chunk(&sealed(POINTS, &body));
                body.clear();
            }
        }
        if !body.is_empty() {
            chunk(&sealed(POINTS, &body));
        }
        self.index().save(&mut |body| chunk(&sealed(INDEX, body)));
    }

    /// Adds the contents of a chunk to the space.
    ///
    /// # Errors
    /// If the chunk is malformed, returns a description of the problem. The contents of earlier
    /// chunks remain.
    pub fn load_chunk(&mut self, chunk: &[u8]) -> Result<(), String> {
        let mut body = Reader::new(ENVELOPE.body(chunk)?);
        let malformed = |Malformed(what)| format!("a chunk of a tag space {what}");
        match body.byte().map_err(malformed)? {
            INDEX => self.load_index(body.rest()),
            RULE => match texts(body).map_err(malformed)?[..] {
                [name, field, regex, ref templates @ ..] => {
                    let rule = Rule::new(name, field, regex, templates);
                    let set = rule.and_then(|rule| self.set_rule(rule));
                    set.map_err(|error| format!("invalid rule: {error}"))
                }
                _ => Err("a rule is truncated".to_string()),
            },
            POINTS => {
                let texts = texts(body).map_err(malformed)?;
                if texts.len() % 2 != 0 {
                    return Err("an access point is truncated".to_string());
                }
                for pair in texts.chunks_exact(2) {
                    let point = Point::new(pair[0], pair[1]);
                    let set = point.and_then(|point| self.restore_point(point));
                    set.map_err(|error| format!("invalid access point: {error}"))?;
                }
                Ok(())
            }
            _ => Err("a chunk of a tag space is of an unknown kind".to_string()),
        }
    }

    /// Passes each element of the space to `each`, in any order. Equal spaces have equal elements.
    pub fn elements(&self, each: &mut dyn FnMut(&[&[u8]])) {
        self.index().elements(each);
        for (n, rule) in self.rules().iter().enumerate() {
            let n = n.to_le_bytes();
            let mut parts: Vec<&[u8]> =
                vec![b"rule", &n, rule.name(), rule.field().name(), rule.regex()];
            parts.extend(rule.templates());
            each(&parts);
        }
        for (n, point) in self.points().iter().enumerate() {
            each(&[b"point", &n.to_le_bytes(), point.name(), point.text()]);
        }
    }
}

fn sealed(kind: u8, body: &[u8]) -> Vec<u8> {
    ENVELOPE.sealed(&[&[kind], body])
}

/// Splits a body into its strings.
fn texts(body: Reader<'_>) -> Result<Vec<&[u8]>, Malformed> {
    let (mut body, mut texts) = (body, Vec::new());
    while !body.is_empty() {
        texts.push(body.bytes()?);
    }
    Ok(texts)
}
