//! Hexadecimal and base32 encoding (RFC 4648).
//!
//! Commands contain hashes in these encodings, so the functions convert many digits at a time,
//! without a branch per digit.

use crate::sink::Sink;

/// Accepted case of digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// Lower-case letters.
    Lower,
    /// Upper-case letters.
    Upper,
    /// Upper, lower and mixed case.
    Any,
}

const EACH: u64 = 0x0101_0101_0101_0101;

/// Converts eight values below 16 to hexadecimal digits. The case determines the distance between
/// `9` and the first letter.
#[inline]
fn spell(values: u64, case: Case) -> u64 {
    let letter = match case {
        Case::Upper => b'A' - b'0' - 10,
        Case::Lower | Case::Any => b'a' - b'0' - 10,
    };
    let is_letter = ((values + EACH * 6) >> 4) & EACH;
    values + EACH * 0x30 + is_letter * u64::from(letter)
}

/// Converts eight hexadecimal digits to bytes. If a digit is invalid, sets bits of `wrong`.
#[inline]
fn read_eight(case: Case, digits: [u8; 8], wrong: &mut u64) -> [u8; 4] {
    let mut word = u64::from_le_bytes(digits);
    if case == Case::Any {
        // Every digit has bit 5 or bit 6 set. Bytes that are not digits, but that the next step
        // would accept, have neither bit set.
        *wrong |= !(word | word << 1) & (EACH * 0x40);
        word |= EACH * 0x20;
    }
    let is_letter = (word >> 6) & EACH;
    let value = (word & (EACH * 0x0f)).wrapping_add(is_letter * 9);
    let value = value & (EACH * 0x0f);
    *wrong |= word ^ spell(value, case);
    let pairs = (value << 4 | value >> 8) & 0x00ff_00ff_00ff_00ff;
    let pairs = (pairs | pairs >> 8) & 0x0000_ffff_0000_ffff;
    ((pairs | pairs >> 16) as u32).to_le_bytes()
}

/// Decodes hexadecimal digits, two per byte. Returns false if a digit or the number of digits is
/// invalid.
#[inline]
pub fn read_hex(case: Case, text: &[u8], raw: &mut [u8]) -> bool {
    if text.len() != 2 * raw.len() {
        return false;
    }
    let mut wrong = 0;
    // Chunks of a fixed length are loaded and stored in one operation, without a call to `memcpy`.
    let (words, rest) = text.as_chunks();
    let (bytes, tail) = raw.as_chunks_mut();
    for (digits, bytes) in words.iter().zip(bytes) {
        *bytes = read_eight(case, *digits, &mut wrong);
    }
    if !rest.is_empty() {
        let mut digits = [b'0'; 8];
        digits[..rest.len()].copy_from_slice(rest);
        let bytes = read_eight(case, digits, &mut wrong);
        tail.copy_from_slice(&bytes[..tail.len()]);
    }
    wrong == 0
}

/// Converts four bytes to hexadecimal digits.
#[inline]
fn spell_four(case: Case, bytes: [u8; 4]) -> [u8; 8] {
    let value = u64::from(u32::from_le_bytes(bytes));
    let pairs = (value | value << 16) & 0x0000_ffff_0000_ffff;
    let pairs = (pairs | pairs << 8) & 0x00ff_00ff_00ff_00ff;
    let value = (pairs >> 4 | pairs << 8) & (EACH * 0x0f);
    spell(value, case).to_le_bytes()
}

/// Appends hexadecimal digits, two per byte. `Case::Any` writes lower case.
#[inline]
pub fn put_hex(case: Case, raw: &[u8], out: &mut impl Sink) {
    let (words, rest) = raw.as_chunks();
    for bytes in words {
        out.put_slice(&spell_four(case, *bytes));
    }
    if !rest.is_empty() {
        let mut bytes = [0; 4];
        bytes[..rest.len()].copy_from_slice(rest);
        out.put_slice(&spell_four(case, bytes)[..2 * rest.len()]);
    }
}

const BASE32: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// Returns a table that maps each base32 digit to its value, and all other bytes to 255.
const fn base32_values(any_case: bool) -> [u8; 256] {
    let mut values = [255; 256];
    let mut i = 0;
    while i < 32 {
        values[BASE32[i] as usize] = i as u8;
        if any_case {
            values[BASE32[i].to_ascii_lowercase() as usize] = i as u8;
        }
        i += 1;
    }
    values
}

static UPPER: [u8; 256] = base32_values(false);
static ANY: [u8; 256] = base32_values(true);

/// Returns the number of base32 digits that encode `bytes` bytes, without padding.
pub const fn base32_len(bytes: usize) -> usize {
    (bytes * 8).div_ceil(5)
}

/// Decodes base32 digits. Returns false on an invalid digit, a wrong number of digits, or nonzero
/// bits after the last byte. `Case::Any` accepts padding. `Case::Upper` rejects padding, so that
/// each value has exactly one encoding.
///
/// # Panics
/// Panics for `Case::Lower`, which no format uses.
#[inline]
pub fn read_base32(case: Case, text: &[u8], raw: &mut [u8]) -> bool {
    assert!(case != Case::Lower, "base32 is written in upper case");
    let Some((text, padding)) = text.split_at_checked(base32_len(raw.len())) else {
        return false;
    };
    let padded = text.len().next_multiple_of(8) - text.len();
    let may_be_padded = case == Case::Any && padding.len() == padded;
    if !(padding.is_empty() || may_be_padded && padding.iter().all(|&c| c == b'=')) {
        return false;
    }
    let values = if case == Case::Any { &ANY } else { &UPPER };
    let mut wrong = 0;
    for (digits, raw) in text.chunks(8).zip(raw.chunks_mut(5)) {
        let mut bits = 0_u64;
        for &digit in digits {
            let value = values[usize::from(digit)];
            wrong |= value;
            bits = bits << 5 | u64::from(value & 31);
        }
        let bytes = (bits << (64 - 5 * digits.len())).to_be_bytes();
        raw.copy_from_slice(&bytes[..raw.len()]);
        wrong |= if bytes[raw.len()..] == [0; 8][raw.len()..] {
            0
        } else {
            255
        };
    }
    wrong < 32
}

/// Appends base32 digits in upper case, without padding.
#[inline]
pub fn put_base32(raw: &[u8], out: &mut impl Sink) {
    for raw in raw.chunks(5) {
        let mut word = [0; 8];
        word[..raw.len()].copy_from_slice(raw);
        let bits = u64::from_be_bytes(word);
        let digit = |i: usize| BASE32[(bits >> (59 - 5 * i) & 31) as usize];
        out.put_slice(&std::array::from_fn::<u8, 8, _>(digit)[..base32_len(raw.len())]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hex(case: Case, raw: &[u8]) -> Vec<u8> {
        let mut text = Vec::new();
        put_hex(case, raw, &mut text);
        text
    }

    fn base32(raw: &[u8]) -> Vec<u8> {
        let mut text = Vec::new();
        put_base32(raw, &mut text);
        text
    }

    fn unhex(case: Case, text: &[u8]) -> Option<Vec<u8>> {
        let mut raw = vec![0; text.len() / 2];
        read_hex(case, text, &mut raw).then_some(raw)
    }

    fn unbase32(case: Case, text: &[u8], bytes: usize) -> Option<Vec<u8>> {
        let mut raw = vec![0; bytes];
        read_base32(case, text, &mut raw).then_some(raw)
    }

    #[test]
    fn known_texts() {
        // Test vectors of RFC 4648, section 10.
        for (raw, text) in [
            ("", ""),
            ("f", "MY"),
            ("fo", "MZXQ"),
            ("foo", "MZXW6"),
            ("foob", "MZXW6YQ"),
            ("fooba", "MZXW6YTB"),
            ("foobar", "MZXW6YTBOI"),
        ] {
            assert_eq!(base32(raw.as_bytes()), text.as_bytes());
        }
        assert_eq!(
            hex(Case::Lower, &[0, 0x9f, 0xe1, 0x2b, 0xac]),
            b"009fe12bac"
        );
        assert_eq!(unbase32(Case::Any, b"MZXW6===", 3), Some(b"foo".to_vec()));
        for bad in [
            &b"MZXW6=="[..],
            b"MZXW6====",
            b"MZXW7",
            b"MZXW",
            b"MZXW1",
            b"mzxw8",
        ] {
            assert_eq!(unbase32(Case::Any, bad, 3), None);
        }
        for other in [&b"MZXW6==="[..], b"mzxw6"] {
            assert_eq!(unbase32(Case::Upper, other, 3), None);
        }
    }

    #[test]
    fn every_invalid_byte_is_found_at_any_offset() {
        for len in 1..9 {
            for at in 0..2 * len {
                for byte in 0..=255 {
                    let mut text = vec![b'0'; 2 * len];
                    text[at] = byte;
                    let is = |case| unhex(case, &text).is_some();
                    assert_eq!(is(Case::Any), byte.is_ascii_hexdigit());
                    let in_case = byte.is_ascii_hexdigit() && !byte.is_ascii_uppercase();
                    assert_eq!(is(Case::Lower), in_case);
                    let in_case = byte.is_ascii_hexdigit() && !byte.is_ascii_lowercase();
                    assert_eq!(is(Case::Upper), in_case);
                }
            }
        }
        for at in 0..16 {
            for byte in 0..=255 {
                let mut text = [b'A'; 16];
                text[at] = byte;
                let is_digit = byte.is_ascii_alphabetic() || (b'2'..=b'7').contains(&byte);
                assert_eq!(unbase32(Case::Any, &text, 10).is_some(), is_digit);
                let is_digit = is_digit && !byte.is_ascii_lowercase();
                assert_eq!(unbase32(Case::Upper, &text, 10).is_some(), is_digit);
            }
        }
        assert_eq!(unhex(Case::Any, b"abc"), None);
    }

    proptest! {
        #[test]
        fn digits_read_back(raw in proptest::collection::vec(any::<u8>(), 0..70)) {
            let text: String = raw.iter().map(|byte| format!("{byte:02x}")).collect();
            prop_assert_eq!(hex(Case::Lower, &raw), text.as_bytes());
            let upper = text.to_uppercase();
            prop_assert_eq!(hex(Case::Upper, &raw), upper.as_bytes());
            for text in [text, upper] {
                prop_assert_eq!(unhex(Case::Any, text.as_bytes()), Some(raw.clone()));
            }
            let text = base32(&raw);
            prop_assert_eq!(unbase32(Case::Upper, &text, raw.len()), Some(raw.clone()));
            prop_assert_eq!(unbase32(Case::Any, &text.to_ascii_lowercase(), raw.len()), Some(raw));
        }
    }
}
