//! A field as bytes: the digest that it spells, if the spelling is one of those that can be told by a
//! number, else its text.
//!
//! The number and the bytes give the same text back, and each text has one number: two fields are equal
//! if both are.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::OnceLock;

use smallvec::SmallVec;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// How the digits of a digest are written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Digits {
    LowerHex,
    UpperHex,
    /// Upper case, no padding.
    Base32,
}

/// A spelling: what comes before the digits, how many bytes they stand for, and how they are written.
struct Spelling(&'static [u8], usize, Digits);

/// Number of a field that is kept as it is.
pub(super) const TEXT: u8 = 0;

/// By number from 1 on. Numbers are part of saved values: spellings may be added, up to 15. Text that
/// fits several, such as 32 digits from 2 to 7, has the number of the first.
const SPELLINGS: [Spelling; 13] = [
    Spelling(b"sha256:", 32, Digits::LowerHex),
    Spelling(b"", 32, Digits::LowerHex),
    Spelling(b"sha1:", 20, Digits::Base32),
    Spelling(b"", 20, Digits::Base32),
    Spelling(b"md5:", 16, Digits::LowerHex),
    Spelling(b"", 16, Digits::LowerHex),
    Spelling(b"sha1:", 20, Digits::LowerHex),
    Spelling(b"", 20, Digits::LowerHex),
    Spelling(b"sha-256:", 32, Digits::LowerHex),
    Spelling(b"sha256:", 32, Digits::UpperHex),
    Spelling(b"", 32, Digits::UpperHex),
    Spelling(b"sha512:", 64, Digits::LowerHex),
    Spelling(b"", 64, Digits::LowerHex),
];

/// Maximum number of bytes of a digest.
const DIGEST: usize = 64;

/// A field, taken apart.
pub(super) struct Field<'a> {
    kind: u8,
    len: u8,
    digest: [u8; DIGEST],
    text: &'a [u8],
}

/// The text of a field.
pub(super) type Text = SmallVec<[u8; 96]>;

impl<'a> Field<'a> {
    pub fn parse(text: &'a [u8]) -> Field<'a> {
        let mut field = Field::text(text);
        let candidates: &[u8] = match text.len() {
            71 => &[1, 10],
            64 => &[2, 11],
            37 => &[3],
            // Digits that are both hex and base32 come to the first of these.
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
                Digits::LowerHex => read_hex::<LOWER>(value, digest),
                Digits::UpperHex => read_hex::<UPPER>(value, digest),
                Digits::Base32 => read_base32(value, digest),
            };
            if fits {
                field.kind = kind;
                field.len = len as u8;
                break;
            }
        }
        field
    }

    /// One that is kept as it is.
    pub fn text(text: &'a [u8]) -> Field<'a> {
        Field {
            kind: TEXT,
            len: 0,
            digest: [0; DIGEST],
            text,
        }
    }

    /// Number of the spelling.
    pub fn kind(&self) -> u8 {
        self.kind
    }

    /// The digest, or the text.
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

/// The length of what a spelling's number stands for; `None` for text, which has any.
///
/// # Errors
/// When there is no such spelling.
#[inline]
pub(super) fn digest_len(kind: u8) -> Result<Option<usize>, ()> {
    match LENGTHS.get(usize::from(kind)) {
        Some(0) => Ok(None),
        Some(&len) => Ok(Some(usize::from(len))),
        None => Err(()),
    }
}

/// Lengths of digests by number; 0 for text.
const LENGTHS: [u8; 1 + SPELLINGS.len()] = {
    let mut lengths = [0; 1 + SPELLINGS.len()];
    let mut i = 0;
    while i < SPELLINGS.len() {
        lengths[i + 1] = SPELLINGS[i].1 as u8;
        i += 1;
    }
    lengths
};

/// Appends the text that a spelling's number and bytes stand for.
pub(super) fn write(kind: u8, raw: &[u8], out: &mut Text) {
    let Some(Spelling(label, _, digits)) = SPELLINGS.get(usize::from(kind).wrapping_sub(1)) else {
        out.extend_from_slice(raw);
        return;
    };
    out.extend_from_slice(label);
    match digits {
        Digits::LowerHex => write_hex::<LOWER>(raw, out),
        Digits::UpperHex => write_hex::<UPPER>(raw, out),
        Digits::Base32 => write_base32(raw, out),
    }
}

/// Whether no other number and bytes stand for the same text.
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

/// The hash of a field. Clients cannot choose fields of one hash, because each process hashes
/// differently.
pub(super) fn hash(kind: u8, raw: &[u8]) -> u64 {
    static SEED: OnceLock<u64> = OnceLock::new();
    let seed = *SEED.get_or_init(|| RandomState::new().build_hasher().finish());
    xxh3_64_with_seed(raw, seed ^ u64::from(kind) << 17)
}

/// The hash of a field in one of many crawls.
pub(super) fn hash_in(hash: u64, crawl: u32) -> u64 {
    let of_both = hash ^ (u64::from(crawl) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let product = u128::from(of_both) * 0xd6e8_feb8_6659_fd93_u128;
    (product >> 64) as u64 ^ product as u64
}

/// What is added to digits beyond 9.
const LOWER: u64 = (b'a' - b'0' - 10) as u64;
const UPPER: u64 = (b'A' - b'0' - 10) as u64;

const EACH: u64 = 0x0101_0101_0101_0101;

/// Reads hex digits of one case; false when there are others. Eight digits at a time, none of them
/// looked at alone: this is done for every field of every command.
fn read_hex<const LETTER: u64>(text: &[u8], raw: &mut [u8]) -> bool {
    let mut wrong = 0;
    for (digits, raw) in text.chunks_exact(8).zip(raw.chunks_exact_mut(4)) {
        let mut word = [0; 8];
        word.copy_from_slice(digits);
        let word = u64::from_le_bytes(word);
        let is_letter = (word >> 6) & EACH;
        let value = (word & (EACH * 0x0f)).wrapping_add(is_letter * 9);
        let value = value & (EACH * 0x0f);
        wrong |= word ^ spell::<LETTER>(value);
        let pairs = (value << 4 | value >> 8) & 0x00ff_00ff_00ff_00ff;
        let pairs = (pairs | pairs >> 8) & 0x0000_ffff_0000_ffff;
        let pairs = (pairs | pairs >> 16) as u32;
        raw.copy_from_slice(&pairs.to_le_bytes());
    }
    wrong == 0
}

/// The hex digits of eight values below 16.
fn spell<const LETTER: u64>(values: u64) -> u64 {
    let is_letter = ((values + EACH * 6) >> 4) & EACH;
    values + EACH * 0x30 + is_letter * LETTER
}

fn write_hex<const LETTER: u64>(raw: &[u8], out: &mut Text) {
    for raw in raw.chunks_exact(4) {
        let value = u64::from(u32::from_le_bytes([raw[0], raw[1], raw[2], raw[3]]));
        let pairs = (value | value << 16) & 0x0000_ffff_0000_ffff;
        let pairs = (pairs | pairs << 8) & 0x00ff_00ff_00ff_00ff;
        let value = (pairs >> 4 | pairs << 8) & (EACH * 0x0f);
        out.extend_from_slice(&spell::<LETTER>(value).to_le_bytes());
    }
}

const BASE32: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// Values of base32 digits; 255 for what is none.
const BASE32_VALUES: [u8; 256] = {
    let mut values = [255; 256];
    let mut i = 0;
    while i < 32 {
        values[BASE32[i] as usize] = i as u8;
        i += 1;
    }
    values
};

/// Reads base32 whose digits fill whole bytes; false when there is something else.
fn read_base32(text: &[u8], raw: &mut [u8]) -> bool {
    let mut wrong = 0;
    for (digits, raw) in text.chunks_exact(8).zip(raw.chunks_exact_mut(5)) {
        let mut bits = 0_u64;
        for &digit in digits {
            let value = BASE32_VALUES[usize::from(digit)];
            wrong |= value;
            bits = bits << 5 | u64::from(value & 31);
        }
        raw.copy_from_slice(&bits.to_be_bytes()[3..]);
    }
    wrong < 32
}

fn write_base32(raw: &[u8], out: &mut Text) {
    for raw in raw.chunks_exact(5) {
        let bits = raw.iter().fold(0_u64, |bits, &b| bits << 8 | u64::from(b));
        let digit = |i: u32| BASE32[(bits >> (35 - 5 * i) & 31) as usize];
        out.extend_from_slice(&std::array::from_fn::<u8, 8, _>(|i| digit(i as u32)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text_of(field: &Field<'_>) -> Vec<u8> {
        let mut text = Text::new();
        write(field.kind(), field.raw(), &mut text);
        text.to_vec()
    }

    #[test]
    fn each_spelling_is_told_by_its_number() {
        for (i, Spelling(_, len, _)) in SPELLINGS.iter().enumerate() {
            let kind = i as u8 + 1;
            let raw: Vec<u8> = (0..*len).map(|i| (i * 37 + 11) as u8).collect();
            let mut text = Text::new();
            write(kind, &raw, &mut text);
            let field = Field::parse(&text);
            assert_eq!((field.kind(), field.raw()), (kind, &raw[..]));
            assert!(is_first(kind, &raw));
            assert_eq!(digest_len(kind), Ok(Some(*len)));
            // A digit that is none makes it text, wherever it stands.
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
        fn any_text_comes_back(text in prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..150),
            "(sha256:|sha1:|md5:|sha-256:)?[0-9a-fA-F]{32}([0-9a-fA-F]{32})?".prop_map(String::into_bytes),
            "(sha256:|sha1:|)?[0-9a-f]{64}".prop_map(String::into_bytes),
            "(sha1:)?[A-Z2-7]{32}".prop_map(String::into_bytes),
            "[2-7]{32}".prop_map(String::into_bytes),
        ]) {
            let field = Field::parse(&text);
            prop_assert_eq!(&text_of(&field), &text);
            prop_assert!(is_first(field.kind(), field.raw()));
        }

        #[test]
        fn hex_is_read_as_it_should(raw in proptest::collection::vec(any::<u8>(), 32)) {
            let text: String = raw.iter().map(|b| format!("{b:02x}")).collect();
            let field = Field::parse(text.as_bytes());
            prop_assert_eq!(field.raw(), &raw[..]);
            let text = text.to_uppercase();
            let field = Field::parse(text.as_bytes());
            prop_assert_eq!(field.raw(), &raw[..]);
        }
    }
}
