//! A space as bytes, for RDB files, append-only files and other servers.
//!
//! A space is several chunks, each of which stands for itself: whoever loads all of them in order into
//! an empty space gets an equal one. A chunk is:
//!
//! | bytes | |
//! |---|---|
//! | 1 | version: 1 |
//! | 8 | XXH3 of what follows, lowest byte first |
//! | 1 | what follows: `I` a part of the index, `R` a rule, `P` access points |
//! | rest | for `I` as described in [`super::index`]; for `R` and `P` texts |
//!
//! A text is its length in four bytes, lowest first, and its bytes. A rule is its name, field, regular
//! expression and templates; points are name and expression in turn.
//!
//! What is read is checked before anything is done with it, because it may come from a broken file, or
//! from anybody who may run `RESTORE`.

use xxhash_rust::xxh3::xxh3_64;

use super::point::Point;
use super::rule::Rule;
use super::space::Space;

const VERSION: u8 = 1;
const INDEX: u8 = b'I';
const RULE: u8 = b'R';
const POINTS: u8 = b'P';

/// How many bytes of points a chunk has, more or less.
const CHUNK_BYTES: usize = 1 << 18;

impl Space {
    /// Gives the space in chunks.
    pub fn save(&self, chunk: &mut dyn FnMut(&[u8])) {
        for rule in self.rules().iter() {
            let mut body = Vec::new();
            put(&mut body, rule.name());
            put(&mut body, rule.field().name());
            put(&mut body, rule.regex());
            for template in rule.templates() {
                put(&mut body, template);
            }
            chunk(&sealed(RULE, &body));
        }
        let mut body = Vec::new();
        for point in self.points().iter() {
            put(&mut body, point.name());
            put(&mut body, point.text());
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

    /// Adds what a chunk holds.
    ///
    /// # Errors
    /// What is wrong with the chunk. The space is as far as it was loaded.
    pub fn load_chunk(&mut self, chunk: &[u8]) -> Result<(), String> {
        let (Some(&version), Some(sum), Some(&kind), Some(body)) = (
            chunk.first(),
            chunk.get(1..9),
            chunk.get(9),
            chunk.get(10..),
        ) else {
            return Err("a chunk of a tag space is truncated".to_string());
        };
        if version != VERSION {
            return Err(format!(
                "a chunk of a tag space is of version {version}; this module reads version {VERSION}"
            ));
        }
        if sum != xxh3_64(&chunk[9..]).to_le_bytes() {
            return Err("a chunk of a tag space is damaged: its checksum differs".to_string());
        }
        match kind {
            INDEX => self.load_index(body),
            RULE => match texts(body)?[..] {
                [name, field, regex, ref templates @ ..] => {
                    let rule = Rule::new(name, field, regex, templates);
                    let set = rule.and_then(|rule| self.set_rule(rule));
                    set.map_err(|error| format!("invalid rule: {error}"))
                }
                _ => Err("a rule is truncated".to_string()),
            },
            POINTS => {
                let texts = texts(body)?;
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

    /// Tells all that is in it, in any order, equal for equal spaces.
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
    let mut chunk = Vec::with_capacity(body.len() + 10);
    chunk.extend_from_slice(&[VERSION, 0, 0, 0, 0, 0, 0, 0, 0, kind]);
    chunk.extend_from_slice(body);
    let sum = xxh3_64(&chunk[9..]).to_le_bytes();
    chunk[1..9].copy_from_slice(&sum);
    chunk
}

fn put(body: &mut Vec<u8>, text: &[u8]) {
    // Rules, points and their names are held far below four gibibytes.
    body.extend_from_slice(&(text.len() as u32).to_le_bytes());
    body.extend_from_slice(text);
}

fn texts(mut body: &[u8]) -> Result<Vec<&[u8]>, String> {
    let mut texts = Vec::new();
    while let Some((len, rest)) = body.split_first_chunk::<4>() {
        let len = u32::from_le_bytes(*len) as usize;
        let (Some(text), Some(after)) = (rest.get(..len), rest.get(len..)) else {
            return Err("a text is truncated".to_string());
        };
        texts.push(text);
        body = after;
    }
    if body.is_empty() {
        Ok(texts)
    } else {
        Err("a text is truncated".to_string())
    }
}
