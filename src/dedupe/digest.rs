//! Payload digests in all encodings that crawlers and CDX files use.

use crawlspace_compact::limits::dedupe::{MAX_HASH_BYTES, MIN_HASH_BYTES};
use smallvec::SmallVec;

use super::error::Error;
use super::profile::Profile;
use crawlspace_compact::digits::{Case, put_base32, put_hex, read_base32, read_hex};

/// Minimum and maximum length of a hash argument, in bytes.
pub const HASH_BYTES: std::ops::RangeInclusive<usize> = MIN_HASH_BYTES..=MAX_HASH_BYTES;

type Text = SmallVec<[u8; 96]>;

/// The supported algorithms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Algorithm {
    Sha256,
    Sha1,
    Md5,
}

/// A payload digest, independent of its encoding and prefix.
///
/// All notations of a hash yield equal digests: `sha256:9F86…`, `sha-256:9f86…` and bare `9f86…`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digest {
    /// `None` for an unknown kind of hash, which is kept unchanged.
    algorithm: Option<Algorithm>,
    /// The hash in the notation of the `document` profile.
    text: Text,
}

/// Decodes hexadecimal digits of either case. Returns `None` for anything else.
fn unhex(text: &[u8]) -> Option<SmallVec<[u8; 32]>> {
    let mut raw = SmallVec::from_elem(0, text.len() / 2);
    read_hex(Case::Any, text, &mut raw).then_some(raw)
}

/// Decodes the base32 encoding of `bytes` bytes, with or without padding, in either case. Returns
/// `None` for anything else.
fn unbase32(text: &[u8], bytes: usize) -> Option<SmallVec<[u8; 32]>> {
    let mut raw = SmallVec::from_elem(0, bytes);
    read_base32(Case::Any, text, &mut raw).then_some(raw)
}

fn strip_prefix_ignoring_case<'a>(text: &'a [u8], prefix: &[u8]) -> Option<&'a [u8]> {
    let (head, tail) = text.split_at_checked(prefix.len())?;
    head.eq_ignore_ascii_case(prefix).then_some(tail)
}

impl Algorithm {
    fn bytes(self) -> usize {
        match self {
            Algorithm::Sha256 => 32,
            Algorithm::Sha1 => 20,
            Algorithm::Md5 => 16,
        }
    }

    /// Returns the labels of the algorithm. The module writes the first label.
    fn labels(self) -> &'static [&'static [u8]] {
        match self {
            Algorithm::Sha256 => &[b"sha256:", b"sha-256:"],
            Algorithm::Sha1 => &[b"sha1:", b"sha-1:"],
            Algorithm::Md5 => &[b"md5:"],
        }
    }

    fn value(self, text: &[u8]) -> Option<SmallVec<[u8; 32]>> {
        if text.len() == self.bytes() * 2 {
            return unhex(text);
        }
        unbase32(text, self.bytes())
    }

    /// Writes the value in its canonical encoding, without the label.
    fn write_value(self, raw: &[u8], out: &mut Text) {
        match self {
            Algorithm::Sha1 => put_base32(raw, out),
            Algorithm::Sha256 | Algorithm::Md5 => put_hex(Case::Lower, raw, out),
        }
    }
}

fn recognise(text: &[u8]) -> Option<(Algorithm, SmallVec<[u8; 32]>)> {
    for algorithm in [Algorithm::Sha256, Algorithm::Sha1, Algorithm::Md5] {
        for label in algorithm.labels() {
            if let Some(value) = strip_prefix_ignoring_case(text, label) {
                return Some((algorithm, algorithm.value(value)?));
            }
        }
    }
    match text.len() {
        64 => Some((Algorithm::Sha256, unhex(text)?)),
        40 => Some((Algorithm::Sha1, unhex(text)?)),
        // CDX files write SHA-1 as 32 characters of base32. A few upper-case hexadecimal MD5 values
        // look the same; they are read as SHA-1.
        32 if text.iter().all(|c| matches!(c, b'A'..=b'Z' | b'2'..=b'7')) => {
            Some((Algorithm::Sha1, unbase32(text, 20)?))
        }
        32 => Some((Algorithm::Md5, unhex(text)?)),
        _ => None,
    }
}

/// Returns true if a field is `sha256:` and 64 lower-case hex digits. This is the most common notation, and also the
/// one that the module writes. The loop has no early return, so that it is vectorized.
fn is_written_sha256(field: &[u8]) -> bool {
    field.len() == 71
        && field.starts_with(b"sha256:")
        && field[7..].iter().fold(true, |ok, c| {
            ok & (c.is_ascii_digit() | (b'a'..=b'f').contains(c))
        })
}

impl Digest {
    /// Parses a hash argument in any notation.
    ///
    /// # Errors
    /// `BADHASH` if it is shorter than 16 or longer than 256 bytes, or contains control bytes.
    pub fn parse(text: &[u8]) -> Result<Digest, Error> {
        if let Some(digest) = Digest::of_written_sha256(text) {
            return Ok(digest);
        }
        let controls = || text.iter().any(|&b| b < 0x20 || b == 0x7f);
        if !HASH_BYTES.contains(&text.len()) || controls() {
            return Err(Error::BadHash(text.to_vec()));
        }
        Ok(Digest::of_field(text))
    }

    /// Returns the digest if the field is in the most common notation, and `None` otherwise.
    #[inline]
    fn of_written_sha256(field: &[u8]) -> Option<Digest> {
        is_written_sha256(field).then(|| Digest {
            algorithm: Some(Algorithm::Sha256),
            text: Text::from_slice(field),
        })
    }

    /// Returns true if a field is in the notation that `profile` writes. The most common kind of hash
    /// is checked without parsing.
    pub fn is_written(field: &[u8], profile: Profile) -> bool {
        match profile {
            Profile::Document if is_written_sha256(field) => true,
            _ => Digest::of_field(field).written(profile) == field,
        }
    }

    /// Returns the digest of a field in a hash with a documented name. Any bytes are valid, because
    /// other programs write these fields.
    pub fn of_field(field: &[u8]) -> Digest {
        if let Some(digest) = Digest::of_written_sha256(field) {
            return digest;
        }
        match recognise(field) {
            Some((algorithm, raw)) => {
                let mut text = Text::from_slice(algorithm.labels()[0]);
                algorithm.write_value(&raw, &mut text);
                Digest {
                    algorithm: Some(algorithm),
                    text,
                }
            }
            None => Digest {
                algorithm: None,
                text: Text::from_slice(field),
            },
        }
    }

    /// Returns the notation of this hash in the module's own keys, which does not depend on the
    /// profile.
    pub fn canonical(&self) -> &[u8] {
        &self.text
    }

    /// Returns the field name of this hash in `profile`.
    pub fn written(&self, profile: Profile) -> &[u8] {
        match profile {
            Profile::Document => &self.text,
            Profile::Browsertrix => match memchr::memrchr(b':', &self.text) {
                Some(colon) if colon + 1 < self.text.len() => &self.text[colon + 1..],
                _ => &self.text,
            },
        }
    }

    /// Calls `each` with the other field names of this hash that a plain client may have written,
    /// until it returns true.
    pub fn other_spellings(&self, profile: Profile, mut each: impl FnMut(&[u8]) -> bool) {
        let written = self.written(profile);
        let Some((algorithm, raw)) = self.algorithm.and_then(|algorithm| {
            let value = &self.text[algorithm.labels()[0].len()..];
            Some((algorithm, algorithm.value(value)?))
        }) else {
            if written != &self.text[..] {
                each(&self.text);
            }
            return;
        };
        let mut values: SmallVec<[Text; 4]> = SmallVec::new();
        let mut hexed = Text::new();
        put_hex(Case::Lower, &raw, &mut hexed);
        values.push(Text::from_iter(hexed.iter().map(u8::to_ascii_uppercase)));
        values.push(hexed);
        let mut base = Text::new();
        put_base32(&raw, &mut base);
        values.push(Text::from_iter(base.iter().map(u8::to_ascii_lowercase)));
        values.push(base);
        let mut spelling = Text::new();
        for label in algorithm.labels().iter().copied().chain([&b""[..]]) {
            for value in values.iter().rev() {
                spelling.clear();
                spelling.extend_from_slice(label);
                spelling.extend_from_slice(value);
                // A value without a label may also be a hash of a different or an unknown
                // algorithm.
                if label.is_empty() && Digest::of_field(&spelling) != *self {
                    continue;
                }
                if spelling[..] != *written && each(&spelling) {
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SHA256_EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    const SHA1_EMPTY_HEX: &str = "da39a3ee5e6b4b0d3255bfef95601890afd80709";
    const SHA1_EMPTY_BASE32: &str = "3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ";
    const MD5_EMPTY: &str = "d41d8cd98f00b204e9800998ecf8427e";

    fn written(text: &str, profile: Profile) -> String {
        let digest = Digest::parse(text.as_bytes()).unwrap();
        String::from_utf8(digest.written(profile).to_vec()).unwrap()
    }

    #[test]
    fn all_spellings_mean_the_same_hash() {
        let sha256 = format!("sha256:{SHA256_EMPTY}");
        for spelling in [
            sha256.clone(),
            format!("sha-256:{SHA256_EMPTY}"),
            SHA256_EMPTY.to_string(),
            SHA256_EMPTY.to_uppercase(),
            format!("SHA256:{}", SHA256_EMPTY.to_uppercase()),
        ] {
            assert_eq!(written(&spelling, Profile::Document), sha256, "{spelling}");
            assert_eq!(written(&spelling, Profile::Browsertrix), SHA256_EMPTY);
        }
        let sha1 = format!("sha1:{SHA1_EMPTY_BASE32}");
        for spelling in [
            sha1.clone(),
            SHA1_EMPTY_BASE32.to_string(),
            SHA1_EMPTY_HEX.to_string(),
            format!("sha1:{}", SHA1_EMPTY_HEX.to_uppercase()),
            format!("sha1:{}", SHA1_EMPTY_BASE32.to_lowercase()),
        ] {
            assert_eq!(written(&spelling, Profile::Document), sha1, "{spelling}");
        }
        assert_eq!(
            written(MD5_EMPTY, Profile::Document),
            format!("md5:{MD5_EMPTY}")
        );
    }

    #[test]
    fn unknown_hashes_are_kept_as_given() {
        assert_eq!(
            written("blake3:Zabcdefgh", Profile::Document),
            "blake3:Zabcdefgh"
        );
        assert_eq!(
            written("blake3:Zabcdefgh", Profile::Browsertrix),
            "Zabcdefgh"
        );
        let cut = "sha256:123456789abcdef";
        assert_eq!(written(cut, Profile::Document), cut);
        assert_eq!(
            written("no-value-after-it:", Profile::Browsertrix),
            "no-value-after-it:"
        );
    }

    #[test]
    fn malformed_hashes_are_refused() {
        for bad in [
            &b""[..],
            b"sha256:abc",
            &[b'a'; 257],
            b"sha256:0123456789\nabcdef",
        ] {
            assert!(matches!(Digest::parse(bad), Err(Error::BadHash(_))));
        }
        assert!(Digest::parse(&[b'a'; 16]).is_ok());
        assert!(Digest::parse(&[b'a'; 256]).is_ok());
        assert!(Digest::parse(b"custom:\xff\xfe\xfd and spaces").is_ok());
    }

    proptest! {
        #[test]
        fn spellings_read_back_as_the_same_digest(raw in proptest::collection::vec(any::<u8>(), 32), which in 0..3usize) {
            let (algorithm, size) = [(Algorithm::Sha256, 32), (Algorithm::Sha1, 20), (Algorithm::Md5, 16)][which];
            let mut text = Text::from_slice(algorithm.labels()[0]);
            algorithm.write_value(&raw[..size], &mut text);
            let digest = Digest::parse(&text).unwrap();
            prop_assert_eq!(digest.canonical(), &text[..]);
            for profile in [Profile::Document, Profile::Browsertrix] {
                let mut seen = vec![digest.written(profile).to_vec()];
                digest.other_spellings(profile, |spelling| {
                    seen.push(spelling.to_vec());
                    false
                });
                let distinct: std::collections::BTreeSet<_> = seen.iter().collect();
                prop_assert_eq!(distinct.len(), seen.len());
                for spelling in &seen {
                    // A base32 MD5 without a label can look like SHA-1.
                    prop_assert_eq!(&Digest::parse(spelling).unwrap(), &digest);
                }
            }
        }
    }
}
