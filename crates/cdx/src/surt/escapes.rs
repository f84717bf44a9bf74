//! Percent-encoding: decodes repeatedly until no escapes are left, then encodes where required.

use std::borrow::Cow;

use memchr::memchr;

/// Decodes escapes, including escapes that result from decoding other escapes. Invalid escapes are
/// kept.
///
/// Escapes do not overlap, so they can be decoded in any order: one pass from the left suffices if every
/// decoded byte is checked again together with the two bytes before it.
pub(super) fn undone(text: &[u8]) -> Cow<'_, [u8]> {
    let Some(first) = memchr(b'%', text) else {
        return Cow::Borrowed(text);
    };
    let (clean, rest) = text.split_at(first);
    let mut out = Vec::with_capacity(text.len());
    out.extend_from_slice(clean);
    for byte in rest {
        out.push(*byte);
        while let [.., b'%', high, low] = out[..] {
            let (Some(high), Some(low)) = (digit(high), digit(low)) else {
                break;
            };
            out.truncate(out.len() - 3);
            out.push(high << 4 | low);
        }
    }
    Cow::Owned(out)
}

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

/// Returns true if a byte must be escaped in a key: all bytes except printable ASCII, and also `#` and
/// `%`, which would be misread.
#[inline]
pub(super) fn must(byte: u8) -> bool {
    !(0x21..=0x7e).contains(&byte) | (byte == b'#') | (byte == b'%')
}

/// Appends the text in lower case, with escapes where required.
pub(super) fn push_lower(text: &[u8], key: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    if !text.iter().fold(false, |any, byte| any | must(*byte)) {
        return key.extend(text.iter().map(u8::to_ascii_lowercase));
    }
    key.reserve(text.len());
    for byte in text {
        if must(*byte) {
            let [high, low] = [byte >> 4, byte & 15].map(|half| HEX[usize::from(half)]);
            key.extend_from_slice(&[b'%', high, low]);
        } else {
            key.push(byte.to_ascii_lowercase());
        }
    }
}
