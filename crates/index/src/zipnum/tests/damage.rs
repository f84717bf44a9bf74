//! Tests of damaged indexes.

use redis_tests::{assert_contains, rows};
use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::super::merge;
use super::*;
use crate::Work;

const SMALL: Options = Options {
    lines: 4,
    level: 1,
    threads: 0,
};

/// Checks that a damaged index reads as written or fails, even after merging it with another index.
fn assert_told(folder: &Path, expected: &[Vec<u8>], other: &Path, what: &str) {
    match read(folder, "url") {
        Ok((found, _)) => assert!(found == expected, "{what}"),
        Err(Error::Damaged { .. }) => {}
        Err(error) => panic!("{what}: {error}"),
    }
    let out = tempfile::tempdir().unwrap();
    let mut writer = Writer::create(out.path(), "url", SMALL).unwrap();
    let inputs = [folder.to_owned(), other.to_owned()];
    let both = merge("url", &inputs, &mut writer, &Work::default());
    match both.and_then(|()| writer.finish()) {
        Ok(_) => match read(out.path(), "url") {
            Ok((found, _)) => {
                let mut all = [expected, &read(other, "url").unwrap().0].concat();
                all.sort();
                assert!(found == all, "{what}, merged");
            }
            Err(Error::Damaged { .. }) => {}
            Err(error) => panic!("{what}, merged: {error}"),
        },
        Err(Error::Damaged { .. } | Error::Lines { .. }) => {}
        Err(error) => panic!("{what}, merging: {error}"),
    }
}

#[test]
fn changed_or_missing_byte_is_reported_or_harmless() {
    let mut rng = Rng::new("changed_or_missing_byte_is_reported_or_harmless");
    let dir = tempfile::tempdir().unwrap();
    let (good, bad, other) = (
        dir.path().join("good"),
        dir.path().join("bad"),
        dir.path().join("other"),
    );
    for folder in [&good, &bad, &other] {
        fs::create_dir(folder).unwrap();
    }
    let expected = lines(&mut rng, 14);
    write(&good, "url", &expected, SMALL);
    write(&other, "url", &lines(&mut rng, 5), SMALL);
    let (gz, idx) = files(&good, "url");
    let (bad_gz, bad_idx) = files(&bad, "url");
    for (from, to, beside, its_copy) in [
        (&gz, &bad_gz, &idx, &bad_idx),
        (&idx, &bad_idx, &gz, &bad_gz),
    ] {
        fs::copy(beside, its_copy).unwrap();
        let bytes = fs::read(from).unwrap();
        for at in 0..bytes.len() {
            fs::write(to, &bytes[..at]).unwrap();
            let what = format!("{} without what is from byte {at} on", from.display());
            assert!(read(&bad, "url").is_err(), "{what}");
            assert_told(&bad, &expected, &other, &what);

            let mut changed = bytes.clone();
            changed[at] ^= 1 + rng.below(255) as u8;
            fs::write(to, &changed).unwrap();
            let what = format!("{} with byte {at} as {}", from.display(), changed[at]);
            assert_told(&bad, &expected, &other, &what);
        }
        let more = [&bytes[..], b"x"].concat();
        fs::write(to, more).unwrap();
        assert!(read(&bad, "url").is_err());
    }
}

/// Reads an index with this text as its secondary index, and returns the error.
fn said(text: &str, gz: &[u8]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let (path, idx) = files(folder.path(), "url");
    fs::write(path, gz).unwrap();
    fs::write(idx, text).unwrap();
    match read(folder.path(), "url") {
        Err(Error::Damaged { entry, what }) => {
            let name = entry.file_name().unwrap().to_str().unwrap();
            format!("{name}: {what}")
        }
        other => panic!("{text:?}: {other:?}"),
    }
}

fn member(text: &[u8]) -> Vec<u8> {
    let mut member = GzEncoder::new(Vec::new(), Compression::fast());
    member.write_all(text).unwrap();
    member.finish().unwrap()
}

#[test]
fn secondary_index_is_checked_against_its_file() {
    let gz = member(b"a 2020 {}\n");
    let length = gz.len();
    let line = |part: &str, offset: &str, length: &str, number: &str, lines: &str| {
        format!("a 2020\t{part}\t{offset}\t{length}\t{number}\t{lines}\n")
    };
    let length = length.to_string();
    let most = u64::MAX.to_string();
    for (text, expected) in rows![
        line("../url.cdxj.gz", "0", &length, "1", "1"),
            "url.idx: line at byte 0: the block is in \"../url.cdxj.gz\"";
        line("/etc/passwd", "0", &length, "1", "1"),
            "url.idx: line at byte 0: the block is in \"/etc/passwd\"";
        line("url.cdxj.gz", "0", &most, "1", "1"),
            "url.idx: line at byte 0: a block of 18446744073709551615 bytes at byte 0: ";
        line("url.cdxj.gz", &most, &length, "1", "1"), "bytes at byte 18446744073709551615: ";
        line("url.cdxj.gz", "0", "0", "1", "1"), "a block of 0 bytes";
        line("url.cdxj.gz", "0", &length, "2", "1"), "block number Some(2) ";
        line("url.cdxj.gz", "0", &length, "1", "0"), "with Some(0) lines";
        line("url.cdxj.gz", "0", &length, "1", "2"), "url.cdxj.gz: block at byte 0: it has 1 lines";
        line("url.cdxj.gz", "0", "9", "1", "1"), "url.cdxj.gz: block at byte 0: ";
        line("url.cdxj.gz", "0", &length, "1", "x"), "with None lines";
        line("url.cdxj.gz", "-1", &length, "1", "1"), "not a line of a secondary index";
        line("url.cdxj.gz", "0", &length, "1", "1").replace("a 2020", "a"),
            "does not begin with a key and a timestamp";
        line("url.cdxj.gz", "0", &length, "1", "1").replace("a 2020", "b 2020"),
            "its first line differs";
        line("url.cdxj.gz", "0", &length, "1", "1").trim_end().to_owned(), "the last line has no line feed";
        "x".repeat(3 << 20), "exceeds the maximum length of a line";
        String::new(), "url.idx: line at byte 0: the blocks end at byte 0, but url.cdxj.gz ends at byte ";
    ] {
        let told = said(&text, &gz);
        assert_contains(&told, expected);
    }
}

#[test]
fn block_that_takes_too_much_memory_is_refused() {
    let spaces = member(&[b' '; 1 << 20]).repeat(33);
    let gz = [&member(b"a 2020 {}")[..], &spaces, &member(b"\n")].concat();
    let idx = format!("a 2020\turl.cdxj.gz\t0\t{}\t1\t1\n", gz.len());
    let told = said(&idx, &gz);
    assert_contains(&told, "it decompresses to more than 33554432 bytes");
}

#[test]
fn blocks_out_of_order_are_reported() {
    let (first, second) = (member(b"b 2020 {}\n"), member(b"a 2020 {}\n"));
    let idx = format!(
        "b 2020\turl.cdxj.gz\t0\t{0}\t1\t1\na 2020\turl.cdxj.gz\t{0}\t{1}\t2\t1\n",
        first.len(),
        second.len()
    );
    let told = said(&idx, &[first, second].concat());
    assert_contains(&told, "sorts before the previous block");
}

#[test]
fn invalid_index_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(
        Blocks::open(folder.path(), "url"),
        Err(Error::Io { .. })
    ));
    let (gz, idx) = files(folder.path(), "url");
    fs::create_dir(gz).unwrap();
    fs::write(idx, "").unwrap();
    let error = Blocks::open(folder.path(), "url").err().unwrap();
    assert!(
        error
            .to_string()
            .ends_with("url.cdxj.gz: it is not a regular file"),
        "{error}"
    );
}
