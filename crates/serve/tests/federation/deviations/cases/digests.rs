//! Cases of digests that differ from the stored data, and of digests in every notation.

use crawlspace_warc::digest::{Algorithm, Digest, of};
use data_encoding::{BASE64, HEXLOWER};
use redis_tests::archive::collection::sha1_base32;

use super::records::{Case, HEAD, Indexed, PAGE, block, case, sha1, stating};

pub fn cases() -> Vec<Case> {
    let mut cases = digests_that_differ();
    cases.extend(digests_as_they_are_written());
    cases
}

fn digests_that_differ() -> Vec<Case> {
    let (of_block, of_page, of_other) = (sha1(&block()), sha1(PAGE), sha1(b"something else"));
    let nothing = sha1(b"");
    let swap = "found in use: the two fields are swapped";
    let recompress = "warcio recompress rewrites HTTP headers and keeps the digest of the block";
    let webrecorder = "a record of Webrecorder, in a report to Conifer";
    let cases = [
        (
            "both right",
            "ISO 28500:2017, 5.8 and 5.9",
            &of_block,
            &of_page,
            [true, true],
            true,
        ),
        (
            "block wrong",
            recompress,
            &of_other,
            &of_page,
            [false, true],
            true,
        ),
        (
            "payload wrong",
            "constructed: the counterpart of a wrong digest of the block",
            &of_block,
            &of_other,
            [true, false],
            true,
        ),
        ("swapped", swap, &of_page, &of_block, [false, false], true),
        (
            "both of the payload",
            webrecorder,
            &of_page,
            &of_page,
            [false, true],
            true,
        ),
        (
            "both of the block",
            webrecorder,
            &of_block,
            &of_block,
            [true, false],
            true,
        ),
        (
            "both wrong",
            "constructed: bytes that changed on a disk",
            &of_other,
            &of_other,
            [false, false],
            false,
        ),
        (
            "payload of nothing",
            "wacz create, in its indexes",
            &of_block,
            &nothing,
            [true, false],
            true,
        ),
        (
            "both of nothing",
            "Heritrix, of pages that were not modified",
            &nothing,
            &nothing,
            [false, false],
            true,
        ),
    ];
    let cases = cases
        .into_iter()
        .map(|(name, source, block, payload, states, is_right)| Case {
            fields: stating(block.clone(), payload.clone()),
            states,
            right: is_right.then(|| PAGE.to_vec()),
            ..case(format!("digests: {name}"), source)
        });
    cases.collect()
}

fn digests_as_they_are_written() -> Vec<Case> {
    let hello = b"hello\n";
    let [of_sha256, of_sha512] =
        [Algorithm::Sha256, Algorithm::Sha512].map(|algorithm| of(algorithm, hello));
    let hex = |digest: &Digest| HEXLOWER.encode(&digest.value);
    let of_sha1 = of(Algorithm::Sha1, hello);
    let cases = [
        (
            "small letters",
            "constructed: base 32 in small letters",
            sha1(hello).to_lowercase(),
            Some(&of_sha1),
        ),
        (
            "hexadecimal",
            "brozzler, reported to it",
            format!("sha1:{}", hex(&of_sha1)),
            Some(&of_sha1),
        ),
        (
            "hexadecimal capitals",
            "constructed: base 16 in capitals",
            format!("sha1:{}", hex(&of_sha1).to_uppercase()),
            Some(&of_sha1),
        ),
        (
            "base 64",
            "the National Library of Norway's gowarc reads it",
            format!("sha1:{}", BASE64.encode(&of_sha1.value)),
            Some(&of_sha1),
        ),
        (
            "without a name",
            "constructed: as CDX files have it",
            sha1_base32(hello),
            Some(&of_sha1),
        ),
        (
            "SHA-1",
            "JWAT takes the names of Java",
            sha1(hello).replace("sha1", "SHA-1"),
            Some(&of_sha1),
        ),
        (
            "SHA-256 hexadecimal",
            "Browsertrix Crawler",
            format!("sha256:{}", hex(&of_sha256)),
            Some(&of_sha256),
        ),
        (
            "sha-256",
            "warcio for JavaScript, in its first versions",
            format!("sha-256:{}", hex(&of_sha256)),
            Some(&of_sha256),
        ),
        (
            "SHA-256 in base 32, filled up",
            "StormCrawler",
            of_sha256.text(),
            Some(&of_sha256),
        ),
        (
            "SHA-256 in base 32, bare",
            "ISO 28500:2017, 4: no `=` in a token",
            of_sha256.text().replace('=', ""),
            Some(&of_sha256),
        ),
        (
            "SHA-512 hexadecimal",
            "ISO 28500:2017, 5.8: any algorithm",
            format!("sha512:{}", hex(&of_sha512)),
            Some(&of_sha512),
        ),
        (
            "MD5",
            "seen in files, reported to the IIPC",
            "md5:b1946ac92492d2347c6235b4d2611184".to_owned(),
            None,
        ),
        (
            "BLAKE3",
            "gowarc, as an option",
            format!("blake3:{}", hex(&of_sha256)),
            None,
        ),
        (
            "too short for any",
            "constructed: a placeholder",
            "blake3:00".to_owned(),
            None,
        ),
        (
            "that of an example",
            "the examples of ISO 28500:2017, 5.8, which are invalid",
            "sha1:3EF4GH5IJ6KL7MN8OPQAB2CD".to_owned(),
            None,
        ),
    ];
    let cases = cases.into_iter().map(|(name, source, digest, known)| Case {
        states: [false, known.is_some()],
        indexed: Some(match known {
            // The module normalizes these notations of SHA-1 and SHA-256; other digests are kept as written.
            Some(known) if !matches!(name, "base 64" | "SHA-512 hexadecimal") => {
                Indexed::As(known.text())
            }
            _ if digest.len() < 16 => Indexed::Skipped,
            _ => Indexed::As(digest.clone()),
        }),
        fields: vec![("WARC-Payload-Digest", digest)],
        block: [HEAD.as_bytes(), hello].concat(),
        right: Some(hello.to_vec()),
        ..case(format!("digest: {name}"), source)
    });
    cases.collect()
}
