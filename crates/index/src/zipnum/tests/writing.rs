//! Tests of writing.

use super::*;
use crate::lines::MAX_LINE;
use redis_tests::{assert_contains, but};

#[test]
fn lines_read_back_in_blocks_of_the_right_size() {
    let mut rng = Rng::new("lines_read_back_in_blocks_of_the_right_size");
    for _ in 0..60 {
        let folder = tempfile::tempdir().unwrap();
        let options = options(&mut rng);
        let count = rng.below(300);
        let lines = lines(&mut rng, count);
        let stats = write(folder.path(), "url", &lines, options);
        let (found, counts) = read(folder.path(), "url").unwrap();
        assert!(found == lines);
        assert_sized(&counts, options);
        // Every block, including the last one, has at least half of the configured lines, unless the index
        // has a single block.
        assert!(counts.len() < 2 || counts.iter().all(|&count| count >= options.lines / 2));
        assert_eq!(stats.blocks, counts.len() as u64);
        assert_eq!(stats.copied, 0);
        let (gz, _) = files(folder.path(), "url");
        assert_eq!(stats.packed, fs::metadata(gz).unwrap().len());
        assert_eq!(names(folder.path()), ["url.cdxj.gz", "url.idx"]);
    }
}

#[test]
fn number_of_threads_changes_nothing() {
    let mut rng = Rng::new("number_of_threads_changes_nothing");
    // The lines take many batches.
    let lines = lines(&mut rng, 12_000);
    let written = |threads| {
        let folder = tempfile::tempdir().unwrap();
        let options = but!(Options::by_digest(), threads);
        write(folder.path(), "digest", &lines, options);
        assert!(read(folder.path(), "digest").unwrap().0 == lines);
        let (gz, idx) = files(folder.path(), "digest");
        (fs::read(gz).unwrap(), fs::read(idx).unwrap())
    };
    let one = written(0);
    for threads in [1, 2, 5] {
        assert!(written(threads) == one, "{threads} threads");
    }
}

#[test]
fn empty_index_is_two_empty_files() {
    let folder = tempfile::tempdir().unwrap();
    let stats = write(folder.path(), "url", &[], Options::by_url());
    assert_eq!(stats, Stats::default());
    let (gz, idx) = files(folder.path(), "url");
    assert_eq!(fs::metadata(gz).unwrap().len(), 0);
    assert_eq!(fs::metadata(idx).unwrap().len(), 0);
    assert!(read(folder.path(), "url").unwrap().0.is_empty());
}

#[test]
fn secondary_index_describes_the_blocks() {
    let folder = tempfile::tempdir().unwrap();
    let options = but!(Options::by_url(), lines: 2);
    write(folder.path(), "url", &numbered(0..5), options);
    let (gz, idx) = files(folder.path(), "url");
    let text = fs::read_to_string(idx).unwrap();
    let rows: Vec<Vec<&str>> = text
        .lines()
        .map(|line| line.split('\t').collect())
        .collect();
    let [first, second] = &rows[..] else {
        panic!("{text}");
    };
    let length: u64 = first[3].parse().unwrap();
    let rest = (fs::metadata(gz).unwrap().len() - length).to_string();
    let length = length.to_string();
    let key = |n| format!("org,example)/{n:08} 20260101000000");
    let expected = [&key(0)[..], "url.cdxj.gz", "0", &length, "1", "2"];
    assert_eq!(first[..], expected);
    let expected = [&key(2)[..], "url.cdxj.gz", &length, &rest, "2", "3"];
    assert_eq!(second[..], expected);
}

#[test]
fn invalid_or_unsorted_lines_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = Writer::create(folder.path(), "url", Options::by_url()).unwrap();
    writer.push(b"b 2020 {}").unwrap();
    writer.push(b"b 2020 {}").unwrap();
    for wrong in [
        &b"a 2020 {}"[..],
        b"",
        b"c",
        b"c 2020",
        b"c x {}",
        b"c  {}",
        b" 2020 {}",
        b"c\t 2020 {}",
        &[b"c 2020 {", &[b' '; MAX_LINE][..], b"}"].concat(),
        b"c 2020 {}\n",
        b"c 2020 {}\nd 2020 {}",
    ] {
        let error = writer.push(wrong).unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, Error::Lines { .. }), "{text}");
        assert_contains(&text, "url.idx: a line ");
    }
    writer.push(b"c 2020 {}").unwrap();
    assert_eq!(writer.finish().unwrap().lines, 3);
}

#[test]
fn long_lines_make_blocks_of_few_lines() {
    let folder = tempfile::tempdir().unwrap();
    let long = "x".repeat(300 << 10);
    let line = |n| format!("k{n:02} 2020 {{\"url\":\"{long}\"}}").into_bytes();
    let lines: Vec<_> = (0..20).map(line).collect();
    write(folder.path(), "url", &lines, Options::by_url());
    let (found, counts) = read(folder.path(), "url").unwrap();
    assert!(found == lines);
    assert_eq!(counts, [2; 10]);
}

#[test]
fn existing_files_are_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "url", &numbered(0..5), Options::by_url());
    let again = Writer::create(folder.path(), "url", Options::by_url());
    assert!(matches!(again, Err(Error::Io { .. })));
    assert_eq!(read(folder.path(), "url").unwrap().0, numbered(0..5));
}
