//! Digests in WARC headers: `sha1:B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A`.

use data_encoding::{BASE32, BASE32_NOPAD, BASE64, BASE64URL, HEXLOWER_PERMISSIVE};
use sha1::Sha1;
use sha2::{Digest as _, Sha256, Sha512};

/// Supported digest algorithms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// SHA-1, used by most archives.
    Sha1,
    /// SHA-256.
    Sha256,
    /// SHA-512.
    Sha512,
}

/// A parsed or computed digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digest {
    /// Algorithm of the digest.
    pub algorithm: Algorithm,
    /// Bytes of the digest.
    pub value: Vec<u8>,
}

impl Algorithm {
    fn named(name: &[u8]) -> Option<Algorithm> {
        match name.to_ascii_lowercase().as_slice() {
            b"sha1" | b"sha-1" => Some(Algorithm::Sha1),
            b"sha256" | b"sha-256" => Some(Algorithm::Sha256),
            b"sha512" | b"sha-512" => Some(Algorithm::Sha512),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Algorithm::Sha1 => "sha1",
            Algorithm::Sha256 => "sha256",
            Algorithm::Sha512 => "sha512",
        }
    }

    fn size(self) -> usize {
        match self {
            Algorithm::Sha1 => 20,
            Algorithm::Sha256 => 32,
            Algorithm::Sha512 => 64,
        }
    }
}

impl Digest {
    /// Parses a digest in base32, hexadecimal or base64. A digest without an algorithm label, as in CDX
    /// files, is SHA-1, or SHA-256 if it has 64 characters. Returns `None` if the digest is invalid, or
    /// if its algorithm is not supported.
    pub fn parse(text: &[u8]) -> Option<Digest> {
        let colon = memchr::memchr(b':', text);
        let (algorithm, value) =
            match colon.and_then(|at| Some((text.get(..at)?, text.get(at + 1..)?))) {
                Some((name, value)) => (Algorithm::named(name)?, value),
                // Only the length identifies SHA-256: warcio for JavaScript omits the label.
                None if text.len() == Algorithm::Sha256.size() * 2 => (Algorithm::Sha256, text),
                None => (Algorithm::Sha1, text),
            };
        let size = algorithm.size();
        // The length identifies the encoding.
        let hexadecimal = size * 2;
        let bare = value
            .iter()
            .rposition(|&byte| byte != b'=')
            .map_or(0, |last| last + 1);
        let decoded = if value.len() == hexadecimal {
            HEXLOWER_PERMISSIVE.decode(value).ok()
        } else if bare == (size * 8).div_ceil(5) {
            let upper = value.get(..bare)?.to_ascii_uppercase();
            BASE32_NOPAD.decode(&upper).ok()
        } else {
            BASE64
                .decode(value)
                .or_else(|_| BASE64URL.decode(value))
                .ok()
        };
        let value = decoded.filter(|value| value.len() == size)?;
        Some(Digest { algorithm, value })
    }

    /// Returns the digest in the format of WARC headers, in base32.
    pub fn text(&self) -> String {
        format!("{}:{}", self.algorithm.name(), BASE32.encode(&self.value))
    }

    /// Returns true if this is the digest of empty input.
    pub fn is_of_nothing(&self) -> bool {
        *self == of(self.algorithm, b"")
    }

    /// Returns true if `text` is this digest in a format that all WARC validators understand.
    pub fn is_well_put(&self, text: &[u8]) -> bool {
        let name = self.algorithm.name().as_bytes();
        let Some(value) = text
            .strip_prefix(name)
            .and_then(|text| text.strip_prefix(b":"))
        else {
            return false;
        };
        // Letter case only matters in base32.
        value.len() != BASE32.encode_len(self.value.len())
            || value == BASE32.encode(&self.value).as_bytes()
    }
}

/// Returns true if `text` is the digest of empty input, in any encoding. Some tools write this digest for
/// records whose payload they have not read, so it does not identify the payload.
pub fn is_of_nothing(text: &[u8]) -> bool {
    /// MD5 digest of empty input. This digest is recognized, although MD5 is not a supported
    /// algorithm.
    const MD5: &[u8] = b"d41d8cd98f00b204e9800998ecf8427e";
    let is_known = Digest::parse(text).is_some_and(|digest| digest.is_of_nothing());
    let value = text.rsplit(|byte| *byte == b':').next();
    is_known || value.is_some_and(|value| value.eq_ignore_ascii_case(MD5))
}

/// An incremental digest computation.
#[derive(Clone)]
pub enum Digester {
    /// SHA-1.
    Sha1(Sha1),
    /// SHA-256.
    Sha256(Sha256),
    /// SHA-512.
    Sha512(Box<Sha512>),
}

impl Digester {
    /// Creates a digester for empty input.
    pub fn new(algorithm: Algorithm) -> Digester {
        match algorithm {
            Algorithm::Sha1 => Digester::Sha1(Sha1::new()),
            Algorithm::Sha256 => Digester::Sha256(Sha256::new()),
            Algorithm::Sha512 => Digester::Sha512(Box::default()),
        }
    }

    /// Adds the next bytes of the input.
    pub fn update(&mut self, bytes: &[u8]) {
        match self {
            Digester::Sha1(digester) => digester.update(bytes),
            Digester::Sha256(digester) => digester.update(bytes),
            Digester::Sha512(digester) => digester.update(bytes),
        }
    }

    /// Returns the digest of all bytes added.
    pub fn finish(self) -> Digest {
        let (algorithm, value) = match self {
            Digester::Sha1(digester) => (Algorithm::Sha1, digester.finalize().to_vec()),
            Digester::Sha256(digester) => (Algorithm::Sha256, digester.finalize().to_vec()),
            Digester::Sha512(digester) => (Algorithm::Sha512, digester.finalize().to_vec()),
        };
        Digest { algorithm, value }
    }
}

/// Returns the digest of these bytes.
pub fn of(algorithm: Algorithm, bytes: &[u8]) -> Digest {
    let mut digester = Digester::new(algorithm);
    digester.update(bytes);
    digester.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_of_empty_content_are_known_in_every_form() {
        for text in [
            "sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ",
            "3i42h3s6nnfq2msvx7xzkyayscx5qbyj",
            "sha1:da39a3ee5e6b4b0d3255bfef95601890afd80709",
            "sha-256:E3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855",
            "md5:D41D8CD98F00B204E9800998ECF8427E",
            "d41d8cd98f00b204e9800998ecf8427e",
        ] {
            assert!(is_of_nothing(text.as_bytes()), "{text}");
        }
        for text in ["", "-", "sha1:", "sha1:B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A"] {
            assert!(!is_of_nothing(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn all_forms_are_the_same_digest() {
        let digest = of(Algorithm::Sha1, b"");
        assert_eq!(digest.text(), "sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ");
        for (text, well) in [
            ("sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ", true),
            ("sha1:da39a3ee5e6b4b0d3255bfef95601890afd80709", true),
            ("sha1:DA39A3EE5E6B4B0D3255BFEF95601890AFD80709", true),
            ("sha1:2jmj7l5rSw0yVb/vlWAYkK/YBwk=", true),
            ("sha1:2jmj7l5rSw0yVb_vlWAYkK_YBwk=", true),
            ("sha1:3i42h3s6nnfq2msvx7xzkyayscx5qbyj", false),
            ("SHA-1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ", false),
            ("3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ", false),
        ] {
            assert_eq!(
                Digest::parse(text.as_bytes()).as_ref(),
                Some(&digest),
                "{text}"
            );
            assert_eq!(digest.is_well_put(text.as_bytes()), well, "{text}");
        }
        for algorithm in [Algorithm::Sha256, Algorithm::Sha512] {
            let digest = of(algorithm, b"abc");
            let text = digest.text();
            assert_eq!(Digest::parse(text.as_bytes()).as_ref(), Some(&digest));
            assert!(digest.is_well_put(text.as_bytes()));
            let bare = text.trim_end_matches('=');
            assert_eq!(Digest::parse(bare.as_bytes()).as_ref(), Some(&digest));
            let hexadecimal = HEXLOWER_PERMISSIVE.encode(&digest.value);
            let nameless = Digest::parse(hexadecimal.as_bytes());
            assert_eq!(nameless.is_some(), algorithm == Algorithm::Sha256);
        }
        for none in [
            "",
            "-",
            "sha1:",
            "md5:d41d8cd98f00b204e9800998ecf8427e",
            "sha1:====",
            "sha1:é",
        ] {
            assert_eq!(Digest::parse(none.as_bytes()), None, "{none}");
        }
    }
}
