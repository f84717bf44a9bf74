//! Tests that write, merge, damage and search indexes.

mod damage;
mod look_ups;
mod merging;
mod writing;

use std::fs;
use std::path::Path;

use redis_tests::Rng;

use super::{Blocks, Options, Stats, Writer, files};
use crate::Error;

/// Returns a random line of an index; many lines are similar.
fn line(rng: &mut Rng) -> Vec<u8> {
    // Includes keys that are prefixes of others, continued by characters below and above a space.
    let ends = [
        "",
        "a",
        "a!",
        "a\u{1}",
        "b",
        "b?c=d",
        "\u{e9}",
        "long/".repeat(9).leak(),
    ];
    let host = rng.below(4);
    let end = rng.pick(&ends);
    let date = 20260101000000 + rng.below(5) * 1_000_000 + rng.below(3);
    let n = rng.below(6);
    format!("org,h{host})/{end} {date} {{\"url\":\"http://h{host}.org/{end}\",\"n\":\"{n}\"}}")
        .into_bytes()
}

/// Returns `count` sorted lines.
fn lines(rng: &mut Rng, count: u64) -> Vec<Vec<u8>> {
    let mut lines: Vec<_> = (0..count).map(|_| line(rng)).collect();
    lines.sort();
    lines
}

/// Returns lines with a key for each number, in the order of the numbers.
fn numbered(numbers: impl Iterator<Item = u64>) -> Vec<Vec<u8>> {
    let line = |n| format!("org,example)/{n:08} 20260101000000 {{\"n\":\"{n}\"}}").into_bytes();
    numbers.map(line).collect()
}

fn options(rng: &mut Rng) -> Options {
    Options {
        lines: 1 + rng.below(20) as usize,
        level: 1 + rng.below(3) as u32,
        threads: rng.below(3) as usize,
    }
}

fn write(folder: &Path, stem: &str, lines: &[Vec<u8>], options: Options) -> Stats {
    let mut writer = Writer::create(folder, stem, options).unwrap();
    for line in lines {
        writer.push(line).unwrap();
    }
    let stats = writer.finish().unwrap();
    assert_eq!(stats.lines, lines.len() as u64);
    stats
}

/// Returns all lines of an index, and the number of lines of each block.
fn read(folder: &Path, stem: &str) -> Result<(Vec<Vec<u8>>, Vec<usize>), Error> {
    let mut blocks = Blocks::open(folder, stem)?;
    let (mut lines, mut counts) = (Vec::new(), Vec::new());
    while let Some(text) = blocks.next()? {
        let before = lines.len();
        let text = text.strip_suffix(b"\n").expect("whole lines");
        lines.extend(text.split(|&byte| byte == b'\n').map(<[u8]>::to_vec));
        counts.push(lines.len() - before);
    }
    Ok((lines, counts))
}

/// Checks that blocks are neither too small nor too large; the last block may be small.
fn assert_sized(counts: &[usize], options: Options) {
    let (half, double) = (options.lines / 2, options.lines * 2);
    for (n, count) in counts.iter().enumerate() {
        assert!(*count <= double, "block {n} of {counts:?}, {options:?}");
        let last = n + 1 == counts.len();
        assert!(
            last || *count >= half,
            "block {n} of {counts:?}, {options:?}"
        );
    }
}

/// Returns the names of the files in a folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}
