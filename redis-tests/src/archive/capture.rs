//! Captures of a crawler, and the spellings of their digests.

use crate::corpus::sha256_of;

/// The outcome of a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The payload was stored.
    Response,
    /// The payload was known, and a revisit record was written.
    Revisit,
    /// Something that the crawler made itself, such as text extracted of a page, or that came by another protocol.
    Other,
}

/// A record in a WARC file.
#[derive(Clone, Debug)]
pub struct Capture {
    /// Kind of the record.
    pub kind: Kind,
    /// Number of the payload: the same number is the same payload.
    pub payload: u64,
    /// Date of 14 or 17 digits.
    pub date: String,
    /// URL as it was asked for.
    pub url: String,
    /// Bytes of the record.
    pub size: u64,
    /// Number of its WACZ file in the crawl.
    pub wacz: usize,
    /// Which spellings of the digest the crawler and the index use.
    pub spellings: [u8; 2],
}

impl Capture {
    /// The digest of the payload as the crawler says it.
    pub fn hash(&self) -> String {
        spelled(self.payload, self.spellings[0])
    }

    /// The hash as the index of the WACZ file spells it.
    pub fn hash_in_index(&self) -> String {
        spelled(self.payload, self.spellings[1])
    }
}

/// The digest of a made-up payload: SHA-1 of every fifth one, SHA-256 of the others, in one of four spellings. The
/// first one is that of the `document` profile.
fn spelled(payload: u64, spelling: u8) -> String {
    let written = sha256_of(payload);
    let hex = &written["sha256:".len()..];
    if !payload.is_multiple_of(5) {
        return match spelling % 4 {
            0 => written,
            1 => format!("sha-256:{hex}"),
            2 => hex.to_owned(),
            _ => hex.to_ascii_uppercase(),
        };
    }
    let hex = &hex[..40];
    match spelling % 4 {
        0 => format!("sha1:{}", base32(hex)),
        1 => base32(hex),
        2 => format!("sha1:{hex}"),
        _ => hex.to_owned(),
    }
}

/// Hex digits of 20 bytes as base32.
pub(super) fn base32(hex: &str) -> String {
    let digits = hex.as_bytes().chunks(5).map(|five| {
        let text = std::str::from_utf8(five).expect("hex digits are ASCII");
        u32::from_str_radix(text, 16).expect("hex digits")
    });
    // Five hex digits are four of base32.
    let four = digits.flat_map(|bits| [15, 10, 5, 0].map(|shift| bits >> shift & 31));
    let digit = |value| char::from(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"[value as usize]);
    four.map(digit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base32_is_that_of_the_rfc() {
        // SHA-1 of nothing.
        assert_eq!(
            base32("da39a3ee5e6b4b0d3255bfef95601890afd80709"),
            "3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ"
        );
    }
}
