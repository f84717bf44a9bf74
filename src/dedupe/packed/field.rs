//! Hashes as binary fields: the digest and the number of its format, or the verbatim string if no
//! format fits.
//!
//! Decoding the number and the bytes returns the original string, and each string has exactly one
//! number. Therefore two fields are equal if and only if both their numbers and their bytes are
//! equal.

use smallvec::SmallVec;

use crawlspace_compact::digits::{Case, put_base32, put_hex, read_base32, read_hex};
use crawlspace_compact::keyed;

/// The encoding of a digest: hexadecimal in one case, or base32 without padding.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Digits {
    Hex(Case),
    Base32,
}

/// Kind of notation of a digest in a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notation {
    /// SHA-256 or MD5 in lower-case hexadecimal digits, or SHA-1 in base32, after its label.
    Labelled,
    /// Digits as in [`Notation::Labelled`], without a label.
    Bare,
    /// Any other string.
    Other,
}

/// A format: the label before the digits, the size of the digest in bytes, and the encoding.
struct Spelling(&'static [u8], usize, Digits);

/// Number of a field that is stored verbatim.
pub(super) const TEXT: u8 = 0;

/// The formats. The first has the number 1. Saved values contain these numbers, so formats may
/// only be appended, up to 15. A string that fits several formats, such as 32 digits from 2 to 7,
/// has the number of the first of them.
const SPELLINGS: [Spelling; 13] = [
    Spelling(b"sha256:", 32, Digits::Hex(Case::Lower)),
    Spelling(b"", 32, Digits::Hex(Case::Lower)),
    Spelling(b"sha1:", 20, Digits::Base32),
    Spelling(b"", 20, Digits::Base32),
    Spelling(b"md5:", 16, Digits::Hex(Case::Lower)),
    Spelling(b"", 16, Digits::Hex(Case::Lower)),
    Spelling(b"sha1:", 20, Digits::Hex(Case::Lower)),
    Spelling(b"", 20, Digits::Hex(Case::Lower)),
    Spelling(b"sha-256:", 32, Digits::Hex(Case::Lower)),
    Spelling(b"sha256:", 32, Digits::Hex(Case::Upper)),
    Spelling(b"", 32, Digits::Hex(Case::Upper)),
    Spelling(b"sha512:", 64, Digits::Hex(Case::Lower)),
    Spelling(b"", 64, Digits::Hex(Case::Lower)),
];

/// Maximum size of a digest, in bytes.
const DIGEST: usize = 64;

/// A parsed field.
pub(super) struct Field<'a> {
    kind: u8,
    len: u8,
    digest: [u8; DIGEST],
    text: &'a [u8],
}

/// The bytes of a field.
pub(super) type Text = SmallVec<[u8; 96]>;

impl<'a> Field<'a> {
    pub fn parse(text: &'a [u8]) -> Field<'a> {
        let mut field = Field::text(text);
        let candidates: &[u8] = match text.len() {
            71 => &[1, 10],
            64 => &[2, 11],
            37 => &[3],
            // If the digits are valid in both encodings, use the first format.
            32 => &[4, 6],
            36 => &[5],
            45 => &[7],
            40 => &[8],
            72 => &[9],
            135 => &[12],
            128 => &[13],
            _ => &[],
        };
        for &kind in candidates {
            let Spelling(label, len, digits) = SPELLINGS[usize::from(kind) - 1];
            let Some(value) = text.strip_prefix(label) else {
                continue;
            };
            let digest = &mut field.digest[..len];
            let fits = match digits {
                Digits::Hex(case) => read_hex(case, value, digest),
                Digits::Base32 => read_base32(Case::Upper, value, digest),
            };
            if fits {
                field.kind = kind;
                field.len = len as u8;
                break;
            }
        }
        field
    }

    /// Creates a field that is stored verbatim.
    pub fn text(text: &'a [u8]) -> Field<'a> {
        Field {
            kind: TEXT,
            len: 0,
            digest: [0; DIGEST],
            text,
        }
    }

    /// Returns the number of the format.
    pub fn kind(&self) -> u8 {
        self.kind
    }

    /// Returns the kind of notation of the digest.
    pub fn notation(&self) -> Notation {
        match self.kind {
            1 | 3 | 5 => Notation::Labelled,
            2 | 4 | 6 => Notation::Bare,
            _ => Notation::Other,
        }
    }

    /// Returns the digest, or the verbatim string.
    pub fn raw(&self) -> &[u8] {
        if self.kind == TEXT {
            self.text
        } else {
            &self.digest[..usize::from(self.len)]
        }
    }

    pub fn hash(&self) -> u64 {
        hash(self.kind, self.raw())
    }
}

/// Returns the digest size of a format in bytes, or `None` for a verbatim string, which may have
/// any length.
///
/// # Errors
/// Fails if there is no such format.
#[inline]
pub(super) fn digest_len(kind: u8) -> Result<Option<usize>, ()> {
    match LENGTHS.get(usize::from(kind)) {
        Some(0) => Ok(None),
        Some(&len) => Ok(Some(usize::from(len))),
        None => Err(()),
    }
}

/// Digest sizes in bytes by format number; 0 for verbatim strings.
const LENGTHS: [u8; 1 + SPELLINGS.len()] = {
    let mut lengths = [0; 1 + SPELLINGS.len()];
    let mut i = 0;
    while i < SPELLINGS.len() {
        lengths[i + 1] = SPELLINGS[i].1 as u8;
        i += 1;
    }
    lengths
};

/// Appends a digest in a format.
pub(super) fn write(kind: u8, raw: &[u8], out: &mut Text) {
    let Some(Spelling(label, _, digits)) = SPELLINGS.get(usize::from(kind).wrapping_sub(1)) else {
        out.extend_from_slice(raw);
        return;
    };
    out.extend_from_slice(label);
    match digits {
        Digits::Hex(case) => put_hex(*case, raw, out),
        Digits::Base32 => put_base32(raw, out),
    }
}

/// Returns true if the format is the first one that yields this string.
pub(super) fn is_first(kind: u8, raw: &[u8]) -> bool {
    match kind {
        1 | 2 => true,
        _ => {
            let mut text = Text::new();
            write(kind, raw, &mut text);
            Field::parse(&text).kind == kind
        }
    }
}

/// Returns the hash of a field. The hash function is keyed per process, so that clients cannot
/// cause collisions.
pub(super) fn hash(kind: u8, raw: &[u8]) -> u64 {
    keyed::hash_of(u64::from(kind) << 17, raw)
}

/// Combines the hash of a field with a crawl. Used for fields that many crawls have.
pub(super) fn hash_in(hash: u64, crawl: u32) -> u64 {
    let of_both = hash ^ (u64::from(crawl) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let product = u128::from(of_both) * 0xd6e8_feb8_6659_fd93_u128;
    (product >> 64) as u64 ^ product as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dedupe::digest::Digest;
    use crate::dedupe::profile::Profile;
    use proptest::prelude::*;

    fn text_of(field: &Field<'_>) -> Vec<u8> {
        let mut text = Text::new();
        write(field.kind(), field.raw(), &mut text);
        text.to_vec()
    }

    #[test]
    fn each_spelling_has_a_number() {
        for (i, Spelling(_, len, _)) in SPELLINGS.iter().enumerate() {
            let kind = i as u8 + 1;
            let raw: Vec<u8> = (0..*len).map(|i| (i * 37 + 11) as u8).collect();
            let mut text = Text::new();
            write(kind, &raw, &mut text);
            let field = Field::parse(&text);
            assert_eq!((field.kind(), field.raw()), (kind, &raw[..]));
            assert!(is_first(kind, &raw));
            assert_eq!(digest_len(kind), Ok(Some(*len)));
            // If a digit in any position is invalid, the field is stored verbatim.
            for at in 0..text.len() {
                for wrong in [b'g', b'`', b'@', b':', b'/', b'1' | 0x80, 0, b'!'] {
                    let mut text = text.clone();
                    text[at] = wrong;
                    let field = Field::parse(&text);
                    assert!(field.kind() == TEXT || text_of(&field) == text[..]);
                    assert_eq!(text_of(&field), text[..]);
                }
            }
        }
        assert_eq!(digest_len(TEXT), Ok(None));
        assert_eq!(digest_len(SPELLINGS.len() as u8 + 1), Err(()));
    }

    #[test]
    fn text_that_fits_two_spellings_has_one_number() {
        let digits = [b'2'; 32];
        let field = Field::parse(&digits);
        assert_eq!(field.kind(), 4);
        assert!(is_first(field.kind(), field.raw()));
        assert!(!is_first(6, &[0x22; 16]));
        assert!(!is_first(TEXT, &digits));
        assert!(!is_first(11, &[0x22; 32]));
        assert!(is_first(TEXT, b"sha256:short"));
    }

    proptest! {
        #[test]
        fn any_text_round_trips(text in prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..150),
            "(sha256:|sha1:|md5:|sha-256:)?[0-9a-fA-F]{32}([0-9a-fA-F]{32})?".prop_map(String::into_bytes),
            "(sha256:|sha1:|)?[0-9a-f]{64}".prop_map(String::into_bytes),
            "(sha1:)?[A-Z2-7]{32}".prop_map(String::into_bytes),
            "[2-7]{32}".prop_map(String::into_bytes),
        ]) {
            let field = Field::parse(&text);
            prop_assert_eq!(&text_of(&field), &text);
            prop_assert!(is_first(field.kind(), field.raw()));
            // A look-up by this field must return the same result as a look-up by the parsed hash.
            for (notation, profile) in [(Notation::Labelled, Profile::Document), (Notation::Bare, Profile::Browsertrix)] {
                if field.notation() == notation {
                    prop_assert!(Digest::is_written(&text, profile));
                    prop_assert!(Digest::parse(&text).is_ok());
                }
            }
        }

        #[test]
        fn hex_is_parsed(raw in proptest::collection::vec(any::<u8>(), 32)) {
            let text: String = raw.iter().map(|b| format!("{b:02x}")).collect();
            let field = Field::parse(text.as_bytes());
            prop_assert_eq!(field.raw(), &raw[..]);
            let text = text.to_uppercase();
            let field = Field::parse(text.as_bytes());
            prop_assert_eq!(field.raw(), &raw[..]);
        }
    }
}
