use redis_tests::{Rng, assert_contains};

use super::*;

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// Sorts the lines with a memory budget in bytes.
fn sorted(lines: &[(Vec<u8>, Range<usize>)], memory: usize, folder: &Path) -> Vec<Vec<u8>> {
    let mut sorter = Sorter::new(memory, folder, &Work::default());
    for (line, key) in lines {
        sorter.push_by(line, key.clone()).unwrap();
    }
    assert_eq!(sorter.lines(), lines.len() as u64);
    let mut found = Vec::new();
    let mut all = sorter.finish().unwrap();
    assert_eq!(all.lines(), lines.len() as u64);
    while let Some(line) = all.next().unwrap() {
        found.push(line.to_vec());
    }
    found
}

/// Sorts the lines with the standard library.
fn expected(lines: &[(Vec<u8>, Range<usize>)]) -> Vec<Vec<u8>> {
    let mut lines = lines.to_vec();
    lines.sort_by(|(a, a_key), (b, b_key)| {
        let keys = (&a[a_key.clone()], &b[b_key.clone()]);
        keys.0.cmp(keys.1).then(a.cmp(b))
    });
    lines.into_iter().map(|(line, _)| line).collect()
}

fn whole(lines: &[&str]) -> Vec<(Vec<u8>, Range<usize>)> {
    let line = |line: &&str| (line.as_bytes().to_vec(), 0..line.len());
    lines.iter().map(line).collect()
}

#[test]
fn lines_are_sorted_by_bytes_and_duplicates_are_kept() {
    let lines = whole(&[
        "b",
        "a",
        "",
        "a b",
        "a",
        "\u{e6}",
        "B",
        "a\0",
        "a\0\0",
        "a\0\0\0\0\0\0\0",
    ]);
    let found = sorted(&lines, 1 << 20, folder().path());
    assert_eq!(found, expected(&lines));
    assert_eq!(found.len(), 10);
    assert!(sorted(&[], 1 << 20, folder().path()).is_empty());
}

#[test]
fn result_equals_a_sort_in_memory_with_any_budget() {
    let mut rng = Rng::new("lines to sort");
    for round in 0..30 {
        let count = *rng.pick(&[1, 2, 30, 300, 3000]);
        // A small alphabet yields many equal lines; a long common prefix yields keys that begin with the same bytes.
        let alphabets: [&[u8]; 3] = [b"ab", b"\0\x01\xff", b"abcdefghijklmnop/."];
        let alphabet = *rng.pick(&alphabets);
        let begin = vec![b'h'; rng.below(30) as usize];
        let longest = *rng.pick(&[1, 8, 40, 600]);
        let mut lines = Vec::new();
        for _ in 0..count {
            let mut line = begin.clone();
            let length = rng.below(longest + 1);
            line.extend((0..length).map(|_| *rng.pick(alphabet)));
            let from = rng.below(line.len() as u64 + 1) as usize;
            let to = from + rng.below((line.len() - from) as u64 + 1) as usize;
            let key = if round % 2 == 0 {
                0..line.len()
            } else {
                from..to
            };
            lines.push((line, key));
            if rng.chance(20) {
                lines.push(rng.pick(&lines).clone());
            }
        }
        let expected = expected(&lines);
        let folder = folder();
        // Memory for one line per run, for some lines per run, and for all lines in one run.
        let least = if count > 300 { 10_000 } else { 0 };
        for memory in [least, 20_000, 1 << 30] {
            let found = sorted(&lines, memory, folder.path());
            assert!(found == expected, "{count} lines in {memory} bytes");
        }
        assert_eq!(folder.path().read_dir().unwrap().count(), 0);
    }
}

#[test]
fn two_threads_give_the_same_order() {
    let mut rng = Rng::new("many lines to sort");
    for hosts in [1, 3, 1000] {
        let lines: Vec<_> = (0..200_000)
            .map(|_| {
                let line = format!(
                    "{} http://www.host{}.dk/{}",
                    rng.below(9),
                    rng.below(hosts),
                    rng.below(50_000)
                );
                let key = 2..line.len();
                (line.into_bytes(), key)
            })
            .collect();
        assert!(sorted(&lines, 1 << 30, folder().path()) == expected(&lines));
    }
    let same = vec![(b"the same".to_vec(), 0..3); 60_000];
    assert!(sorted(&same, 1 << 30, folder().path()) == expected(&same));
}

#[test]
fn growing_common_prefixes_do_not_overflow_the_stack() {
    // Each line is a prefix of the previous one, so each pair differs in another piece of the
    // key.
    let lines = (0..3000).map(|n| (vec![b'a'; 3000 * 7 - n * 7], 0..3000 * 7 - n * 7));
    let lines: Vec<_> = lines.collect();
    let small = std::thread::Builder::new().stack_size(256 * 1024);
    let sorting = small.spawn(move || {
        let found = sorted(&lines, 1 << 30, folder().path());
        assert!(found.is_sorted() && found.len() == 3000);
    });
    sorting.unwrap().join().unwrap();
}

#[test]
fn long_lines_are_sorted_with_any_budget() {
    let lines = (0..6).map(|n| (vec![b'f' - n; 1 << 20], 0..1 << 20));
    let lines: Vec<_> = lines.collect();
    assert!(sorted(&lines, 1000, folder().path()) == expected(&lines));
}

#[test]
fn key_longer_than_its_line_is_cut() {
    let mut sorter = Sorter::new(1 << 20, folder().path(), &Work::default());
    sorter.push_by(b"bb", 1..9).unwrap();
    sorter.push_by(b"ca", 1..9).unwrap();
    sorter.push_by(b"z", 5..9).unwrap();
    let mut all = Vec::new();
    assert_eq!(sorter.finish().unwrap().write_to(&mut all).unwrap(), 8);
    assert_eq!(all, b"z\nca\nbb\n");
}

#[test]
fn missing_folder_is_reported() {
    let folder = folder();
    let gone = folder.path().join("gone");
    let mut sorter = Sorter::new(0, &gone, &Work::default());
    sorter.push(b"a").unwrap();
    let error = sorter.push(b"b").unwrap_err().to_string();
    assert!(
        error.contains("gone") && error.contains("temporary sort file"),
        "{error}"
    );
}

#[test]
fn cancelled_sort_stops() {
    let (folder, work) = (folder(), Work::default());
    let mut sorter = Sorter::new(1 << 20, folder.path(), &work);
    let mut lines = (0..100_000).map(|n: u32| n.to_be_bytes());
    for line in lines.by_ref().take(50_000) {
        sorter.push(&line).unwrap();
    }
    work.cancel();
    let stopped = lines.try_for_each(|line| sorter.push(&line));
    assert!(matches!(stopped, Err(Error::Cancelled)));
    assert!(matches!(sorter.finish().map(|_| ()), Err(Error::Cancelled)));

    let work = Work::default();
    let mut sorter = Sorter::new(1 << 20, folder.path(), &work);
    for line in 0..20_000_u32 {
        sorter.push(&line.to_be_bytes()).unwrap();
    }
    let all = sorter.finish().unwrap();
    work.cancel();
    assert!(matches!(
        all.write_to(&mut Vec::new()),
        Err(Error::Cancelled)
    ));
}

#[test]
fn write_error_is_reported() {
    let mut sorter = Sorter::new(1 << 20, folder().path(), &Work::default());
    sorter.push(b"line").unwrap();
    let mut full = &mut [0_u8; 3][..];
    let error = sorter.finish().unwrap().write_to(&mut full).unwrap_err();
    assert_contains(&error, "cannot write");
}
