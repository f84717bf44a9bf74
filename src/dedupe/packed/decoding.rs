//! What reads chunks, as [`super::encoding`] gives them.
//!
//! What is read is checked before anything is done with it, because it may come from a broken file, or
//! from anybody who may run `RESTORE`.

use super::encoding::{seal, Kind, HEAD, SEAL, VERSION};
use super::{Packed, Part};

/// What is wrong with a chunk, in a word or two.
type Wrong = &'static str;

/// A value whose chunks are not all here yet.
#[derive(Clone, Default)]
pub(super) struct Loading {
    /// Number of the next chunk.
    next: u32,
    /// Checksum of the chunk before it.
    seal: u64,
    /// What the first chunk announced.
    announced: Counts,
}

/// How much of everything there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    crawls: u64,
    owners: u64,
    records: u64,
    holders: u64,
}

impl Counts {
    fn of(packed: &Packed) -> Counts {
        Counts {
            crawls: packed.crawls().len() as u64,
            owners: packed.len(Part::Owners),
            records: packed.all_records(),
            holders: packed.len(Part::Holders),
        }
    }

    fn within(&self, most: &Counts) -> bool {
        self.crawls <= most.crawls
            && self.owners <= most.owners
            && self.records <= most.records
            && self.holders <= most.holders
    }
}

impl Packed {
    /// Adds what a chunk holds. It may come from anybody who may run `RESTORE`.
    ///
    /// # Errors
    /// What is wrong with it; the value must not be used then.
    pub fn load(&mut self, chunk: &[u8], _version: i32) -> Result<(), String> {
        let of_version = *chunk.first().ok_or("a chunk is empty")?;
        if of_version != VERSION {
            return Err(format!(
                "a chunk is of version {of_version}; this module reads version {VERSION}"
            ));
        }
        let (number, kind, body, sum) = self.opened(chunk)?;
        let wrong = |what| format!("chunk {number} of a packed index {what}");
        if kind == Kind::Begin {
            self.begin(body).map_err(wrong)?;
        } else {
            self.go_on(kind, body).map_err(wrong)?;
        }
        if let Some(loading) = &mut self.loading {
            loading.next = number.wrapping_add(1);
            loading.seal = sum;
        }
        Ok(())
    }

    /// Whether all chunks have come that the first one began.
    ///
    /// # Errors
    /// That some have not.
    pub fn loaded(&self) -> Result<(), String> {
        match &self.loading {
            None => Ok(()),
            Some(loading) => Err(format!("its chunks end before chunk {}", loading.next)),
        }
    }

    /// The parts of a chunk that is whole and the one that must come now.
    fn opened<'a>(&self, chunk: &'a [u8]) -> Result<(u32, Kind, &'a [u8], u64), String> {
        if chunk.len() < HEAD + SEAL {
            return Err("a chunk is cut off".to_string());
        }
        let (sealed, sum) = chunk.split_at(chunk.len() - SEAL);
        let sum = u64::from_le_bytes(sum.try_into().map_err(|_| "a chunk is cut off")?);
        let (head, body) = sealed.split_at(HEAD);
        let number = u32::from_le_bytes([head[2], head[3], head[4], head[5]]);
        let (expected, before) = match &self.loading {
            Some(loading) => (loading.next, loading.seal),
            None => (0, 0),
        };
        if number != expected {
            return Err(format!(
                "chunk {number} of a packed index comes where chunk {expected} should"
            ));
        }
        if seal(sealed, before) != sum {
            return Err(format!(
                "chunk {number} of a packed index is damaged, or of another value than those before it"
            ));
        }
        let kind = Kind::ALL.into_iter().find(|kind| *kind as u8 == head[1]);
        let kind = kind.ok_or_else(|| format!("chunk {number} is of no known kind"))?;
        if (kind == Kind::Begin) != (number == 0) {
            return Err(format!("chunk {number} is of a kind that cannot be there"));
        }
        Ok((number, kind, body, sum))
    }

    fn begin(&mut self, body: &[u8]) -> Result<(), Wrong> {
        if !self.is_empty() {
            return Err("begins a value where there is one");
        }
        let mut reader = Reader { rest: body };
        let announced = Counts {
            crawls: reader.number()?,
            owners: reader.number()?,
            records: reader.number()?,
            holders: reader.number()?,
        };
        reader.end()?;
        self.loading = Some(Box::new(Loading {
            announced,
            ..Loading::default()
        }));
        Ok(())
    }

    fn go_on(&mut self, kind: Kind, body: &[u8]) -> Result<(), Wrong> {
        let announced = self.loading.as_ref().ok_or("has none before it")?.announced;
        let mut reader = Reader { rest: body };
        let part = match kind {
            Kind::Owners => Part::Owners,
            Kind::Records => Part::Records(reader.bytes()?),
            Kind::Holders => Part::Holders,
            Kind::Begin | Kind::End => {
                reader.end()?;
                if Counts::of(self) != announced {
                    return Err("ends a value that has not what was announced");
                }
                self.loading = None;
                return Ok(());
            }
        };
        while !reader.rest.is_empty() {
            let (field, value) = (reader.bytes()?, reader.bytes()?);
            if !self.set(part, field, value) {
                return Err("has a field for the second time");
            }
        }
        if !Counts::of(self).within(&announced) {
            return Err("has more than was announced");
        }
        Ok(())
    }
}

/// Reads the parts of a chunk in turn.
struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn number(&mut self) -> Result<u64, Wrong> {
        const WRONG: Wrong = "has a malformed number";
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.rest.split_first().ok_or(WRONG)?;
            self.rest = rest;
            let bits = u64::from(byte & 0x7f);
            // Bits beyond the 64th, or a last byte that says nothing.
            if (bits << shift) >> shift != bits || (byte == 0 && shift > 0) {
                return Err(WRONG);
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(WRONG)
    }

    fn bytes(&mut self) -> Result<&'a [u8], Wrong> {
        let len = usize::try_from(self.number()?).map_err(|_| "is cut off inside")?;
        let (bytes, rest) = self.rest.split_at_checked(len).ok_or("is cut off inside")?;
        self.rest = rest;
        Ok(bytes)
    }

    fn end(&self) -> Result<(), Wrong> {
        match self.rest {
            [] => Ok(()),
            _ => Err("has bytes behind its end"),
        }
    }
}

#[cfg(test)]
mod tests;
