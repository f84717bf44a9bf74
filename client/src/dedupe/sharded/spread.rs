//! Assigns hashes to shards. The assignment determines where existing indexes store their data, so
//! it can never change.

use crawlspace_compact::digits::{Case, read_base32, read_hex};

const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

/// Returns the shard of a hash. The shard depends only on the decoded bits, so all encodings of a
/// hash map to the same shard.
pub(super) fn shard_of(hash: &[u8], shards: usize) -> usize {
    let label = hash.iter().rposition(|&byte| byte == b':');
    let value = label.map_or(hash, |colon| &hash[colon + 1..]);
    // In an index with the Browsertrix profile, only the value matters, not the label.
    let bits = match bits_of(hash).or_else(|| bits_of(value)) {
        Some(bits) => spread(&bits),
        None if value.is_empty() => spread(hash),
        None => spread(value),
    };
    ((u128::from(bits) * shards as u128) >> 64) as usize
}

/// FNV-1a, followed by a mixing step that makes every bit depend on all others.
fn spread(bytes: &[u8]) -> u64 {
    let mut bits = bytes.iter().fold(FNV_OFFSET, |bits, &byte| {
        (bits ^ u64::from(byte)).wrapping_mul(FNV_PRIME)
    });
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}

const LABELS: [(&[u8], usize); 5] = [
    (b"sha256:", 32),
    (b"sha-256:", 32),
    (b"sha1:", 20),
    (b"sha-1:", 20),
    (b"md5:", 16),
];

/// Decodes a digest as the module does. Returns `None` for a hash of another kind.
fn bits_of(hash: &[u8]) -> Option<Vec<u8>> {
    for (label, bytes) in LABELS {
        if let Some((head, value)) = hash.split_at_checked(label.len())
            && head.eq_ignore_ascii_case(label)
        {
            return if value.len() == bytes * 2 {
                unhex(value)
            } else {
                unbase32(value, bytes)
            };
        }
    }
    match hash.len() {
        64 | 40 => unhex(hash),
        32 => unbase32_of_a_cdx(hash).or_else(|| unhex(hash)),
        _ => None,
    }
}

/// Decodes a base32 SHA-1 in upper case without a label, as in CDX files. Some hexadecimal MD5
/// values have the same form, and are also read as base32.
fn unbase32_of_a_cdx(hash: &[u8]) -> Option<Vec<u8>> {
    let capitals = |byte: &u8| byte.is_ascii_uppercase() || (b'2'..=b'7').contains(byte);
    hash.iter().all(capitals).then(|| unbase32(hash, 20))?
}

fn unhex(text: &[u8]) -> Option<Vec<u8>> {
    let mut raw = vec![0; text.len() / 2];
    read_hex(Case::Any, text, &mut raw).then_some(raw)
}

/// Decodes base32 in either case, padded or not, to exactly this number of bytes. Fails if bits are
/// left over.
fn unbase32(text: &[u8], bytes: usize) -> Option<Vec<u8>> {
    let mut raw = vec![0; bytes];
    read_base32(Case::Any, text, &mut raw).then_some(raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SHA-256, SHA-1 and MD5 of the empty input.
    const SHA256: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    const SHA1: &str = "da39a3ee5e6b4b0d3255bfef95601890afd80709";
    const SHA1_BASE32: &str = "3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ";
    const MD5: &str = "d41d8cd98f00b204e9800998ecf8427e";
    const MANY: usize = 1 << 20;

    fn shard(hash: &str) -> usize {
        shard_of(hash.as_bytes(), MANY)
    }

    #[test]
    fn all_spellings_of_a_hash_map_to_one_shard() {
        for (label, value) in [("sha256", SHA256), ("sha1", SHA1), ("md5", MD5)] {
            let first = shard(&format!("{label}:{value}"));
            for spelling in [
                value.to_owned(),
                value.to_uppercase(),
                format!("{}:{value}", label.to_uppercase()),
                format!("urn:{label}:{value}"),
                format!("other:{value}"),
            ] {
                assert_eq!(shard(&spelling), first, "{spelling}");
            }
        }
        for spelling in [
            format!("sha-256:{SHA256}"),
            format!("SHA-256:{}", SHA256.to_uppercase()),
        ] {
            assert_eq!(shard(&spelling), shard(SHA256), "{spelling}");
        }
        for spelling in [
            SHA1_BASE32.to_owned(),
            format!("sha1:{SHA1_BASE32}"),
            format!("sha-1:{}", SHA1_BASE32.to_lowercase()),
        ] {
            assert_eq!(shard(&spelling), shard(SHA1), "{spelling}");
        }
        assert_eq!(
            shard("blake3:0123456789abcdef0"),
            shard("0123456789abcdef0")
        );
    }

    #[test]
    fn hashes_stay_in_their_shard() {
        // If these shards changed, clients would not find the data of existing indexes.
        assert_eq!(shard(SHA256), 13_929);
        assert_eq!(shard(SHA1), 225_077);
        assert_eq!(shard(MD5), 922_797);
        assert_eq!(shard("something else entirely"), 3643);
        assert_eq!(shard("colon at the end:"), 892_654);
    }

    #[test]
    fn shards_are_filled_evenly() {
        let mut filled = [0; 16];
        for n in 0..16_000_u32 {
            // Hashes whose bits are far from random.
            let hash = format!("sha256:{n:064x}");
            filled[shard_of(hash.as_bytes(), 16)] += 1;
        }
        assert!(
            filled.iter().all(|count| (850..1150).contains(count)),
            "{filled:?}"
        );
    }
}
