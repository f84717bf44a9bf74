//! Captures of a crawler, and the different ways in which their digests are written.

use crate::corpus::sha256_of;

/// The outcome of a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The payload was stored.
    Response,
    /// The payload was known, and a revisit record was written.
    Revisit,
    /// A record that the crawler generated itself, such as extracted text, or that was fetched over
    /// another protocol.
    Other,
}

/// A record in a WARC file.
#[derive(Clone, Debug)]
pub struct Capture {
    /// Kind of the record.
    pub kind: Kind,
    /// Number of the payload. Equal numbers mean equal payloads.
    pub payload: u64,
    /// Date of 14 or 17 digits.
    pub date: String,
    /// The URL as requested.
    pub url: String,
    /// Size of the record in bytes.
    pub size: u64,
    /// Number of the record's WACZ file in the crawl.
    pub wacz: usize,
    /// The notations of the digest in the crawler and in the index.
    pub spellings: [u8; 2],
}

impl Capture {
    /// Returns the digest of the payload in the crawler's notation.
    pub fn hash(&self) -> String {
        spelled(self.payload, self.spellings[0])
    }

    /// Returns the digest in the notation of the WACZ file's index.
    pub fn hash_in_index(&self) -> String {
        spelled(self.payload, self.spellings[1])
    }
}

/// Returns the digest of a synthetic payload in one of four notations: SHA-1 for every fifth
/// payload, SHA-256 for the others. The first notation is the notation of the `document` profile.
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

/// Converts 20 bytes of hex digits to base32.
pub(super) fn base32(hex: &str) -> String {
    let digits = hex.as_bytes().chunks(5).map(|five| {
        let text = std::str::from_utf8(five).expect("hex digits are ASCII");
        u32::from_str_radix(text, 16).expect("hex digits")
    });
    // Five hex digits make four base32 digits.
    let four = digits.flat_map(|bits| [15, 10, 5, 0].map(|shift| bits >> shift & 31));
    let digit = |value| char::from(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"[value as usize]);
    four.map(digit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base32_follows_the_rfc() {
        // SHA-1 of the empty string.
        assert_eq!(
            base32("da39a3ee5e6b4b0d3255bfef95601890afd80709"),
            "3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ"
        );
    }
}
