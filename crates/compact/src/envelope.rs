//! Format of the chunks in which a serialized value is saved to a file or sent to another server.
//!
//! | bytes | |
//! |---|---|
//! | 1 | version of the body |
//! | 4 | size of the body in bytes, little-endian |
//! | 8 | XXH3 of the body, little-endian, seeded with the checksum of the previous chunk, or with 0 |
//! | … | body |
//!
//! Reading rejects a chunk with a changed byte, a missing end or extra bytes. If each chunk is
//! seeded with the checksum of the previous one, reading also rejects a missing or repeated chunk,
//! and a chunk that belongs to a different value.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Size of the header before the body, in bytes.
pub const HEAD: usize = 13;

/// Settings for one kind of value.
#[derive(Clone, Copy, Debug)]
pub struct Envelope {
    /// Name of the value in error messages, such as *a tag space*.
    pub what: &'static str,
    /// The version of the chunks that are written. Chunks of other versions are rejected.
    pub version: u8,
}

/// A chunk with a valid version and length, whose checksum has not been verified.
#[derive(Clone, Copy, Debug)]
pub struct Opened<'a> {
    /// Body of the chunk.
    pub body: &'a [u8],
    /// Checksum stored in the chunk.
    pub sum: u64,
}

impl Opened<'_> {
    /// Returns true if the checksum matches the body. `before` is the checksum of the previous
    /// chunk, or 0.
    pub fn is_whole(&self, before: u64) -> bool {
        self.sum == xxh3_64_with_seed(self.body, before)
    }
}

impl Envelope {
    /// Clears the buffer and reserves the header. The caller then writes the body.
    pub fn begin(&self, chunk: &mut Vec<u8>) {
        chunk.clear();
        chunk.resize(HEAD, 0);
    }

    /// Fills in the header of a chunk whose body is complete. Returns the checksum of the chunk.
    ///
    /// # Panics
    /// Panics if the body has 4 GiB or more. No value is that large.
    pub fn seal(&self, chunk: &mut [u8], before: u64) -> u64 {
        let (head, body) = chunk.split_at_mut(HEAD);
        let len = u32::try_from(body.len()).expect("a body of less than 4 GiB");
        let sum = xxh3_64_with_seed(body, before);
        head[0] = self.version;
        head[1..5].copy_from_slice(&len.to_le_bytes());
        head[5..].copy_from_slice(&sum.to_le_bytes());
        sum
    }

    /// Returns an independent chunk with this body.
    pub fn sealed(&self, body: &[&[u8]]) -> Vec<u8> {
        let mut chunk =
            Vec::with_capacity(HEAD + body.iter().map(|part| part.len()).sum::<usize>());
        self.begin(&mut chunk);
        body.iter().for_each(|part| chunk.extend_from_slice(part));
        self.seal(&mut chunk, 0);
        chunk
    }

    /// Splits an untrusted chunk into its parts, without verifying the checksum.
    ///
    /// # Errors
    /// Fails when the version is not supported, or the length differs from the header.
    pub fn open<'a>(&self, chunk: &'a [u8]) -> Result<Opened<'a>, String> {
        let Envelope { what, version } = self;
        let of = *chunk
            .first()
            .ok_or_else(|| format!("a chunk of {what} is empty"))?;
        if of != *version {
            return Err(format!(
                "a chunk of {what} has version {of}; this module reads version {version}"
            ));
        }
        let parts = chunk.split_first_chunk::<HEAD>();
        let parts = parts.map(|([_, a, b, c, d, sum @ ..], body)| {
            (u32::from_le_bytes([*a, *b, *c, *d]) as usize, *sum, body)
        });
        match parts {
            Some((len, sum, body)) if len == body.len() => Ok(Opened {
                body,
                sum: u64::from_le_bytes(sum),
            }),
            Some((len, _, body)) if len < body.len() => {
                Err(format!("a chunk of {what} has extra bytes after its end"))
            }
            _ => Err(format!("a chunk of {what} is truncated")),
        }
    }

    /// Returns the body of an independent, untrusted chunk.
    ///
    /// # Errors
    /// Fails if [`Envelope::sealed`] did not write the chunk, or if the chunk was changed.
    pub fn body<'a>(&self, chunk: &'a [u8]) -> Result<&'a [u8], String> {
        let opened = self.open(chunk)?;
        if opened.is_whole(0) {
            Ok(opened.body)
        } else {
            Err(format!(
                "a chunk of {} is damaged: its checksum differs",
                self.what
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ENVELOPE: Envelope = Envelope {
        what: "a test",
        version: 3,
    };

    #[test]
    fn errors_describe_the_problem() {
        let chunk = ENVELOPE.sealed(&[b"body"]);
        let error = |chunk: &[u8]| ENVELOPE.body(chunk).unwrap_err();
        assert_eq!(error(b""), "a chunk of a test is empty");
        assert_eq!(error(&chunk[..HEAD]), "a chunk of a test is truncated");
        assert_eq!(error(&chunk[..5]), "a chunk of a test is truncated");
        let longer = [&chunk[..], b"x"].concat();
        assert_eq!(
            error(&longer),
            "a chunk of a test has extra bytes after its end"
        );
        let mut damaged = chunk.clone();
        damaged[HEAD] ^= 1;
        assert!(error(&damaged).ends_with("its checksum differs"));
        let before = Envelope {
            version: 2,
            ..ENVELOPE
        }
        .sealed(&[b"body"]);
        let old = "a chunk of a test has version 2; this module reads version 3";
        assert_eq!(error(&before), old);
    }

    #[test]
    fn chunk_must_follow_its_predecessor() {
        let (mut first, mut second) = (Vec::new(), Vec::new());
        ENVELOPE.begin(&mut first);
        let sum = ENVELOPE.seal(&mut first, 0);
        ENVELOPE.begin(&mut second);
        second.push(7);
        ENVELOPE.seal(&mut second, sum);
        let opened = ENVELOPE.open(&second).unwrap();
        assert!(opened.is_whole(ENVELOPE.open(&first).unwrap().sum));
        assert!(!opened.is_whole(0));
        assert_eq!(opened.body, [7]);
    }

    proptest! {
        #[test]
        fn any_changed_byte_is_refused(body in any::<Vec<u8>>(), at in any::<prop::sample::Index>(), flip in 1..=255u8) {
            let chunk = ENVELOPE.sealed(&[&body, b"!"]);
            prop_assert_eq!(ENVELOPE.body(&chunk), Ok(&[&body[..], b"!"].concat()[..]));
            let at = at.index(chunk.len());
            let mut bad = chunk.clone();
            bad[at] ^= flip;
            prop_assert!(ENVELOPE.body(&bad).is_err());
            prop_assert!(ENVELOPE.body(&chunk[..at]).is_err());
        }
    }
}
