//! Tests of merging.

use redis_tests::but;
use std::path::PathBuf;

use super::super::merge::{merge, merge_all};
use super::*;
use crate::Work;

/// Distributes lines over `count` indexes.
fn split(rng: &mut Rng, lines: &[Vec<u8>], count: u64) -> Vec<Vec<Vec<u8>>> {
    let mut parts = vec![Vec::new(); count as usize];
    // Draw a part for every line, or for stretches of lines of increasing average length.
    let stretch = [1, 3, 30, 300][rng.below(4) as usize];
    let mut part = 0;
    for line in lines {
        if rng.below(stretch) == 0 {
            part = rng.below(count) as usize;
        }
        parts[part].push(line.clone());
    }
    parts
}

fn folders(
    within: &Path,
    parts: &[Vec<Vec<u8>>],
    mut options: impl FnMut() -> Options,
) -> Vec<PathBuf> {
    let folder = |(n, part): (usize, &Vec<Vec<u8>>)| {
        let folder = within.join(n.to_string());
        fs::create_dir(&folder).unwrap();
        write(&folder, "url", part, options());
        folder
    };
    parts.iter().enumerate().map(folder).collect()
}

fn merged(within: &Path, inputs: &[PathBuf], options: Options) -> (PathBuf, Stats) {
    let folder = tempfile::tempdir_in(within).unwrap().keep();
    let mut out = Writer::create(&folder, "url", options).unwrap();
    merge("url", inputs, &mut out, &Work::default()).unwrap();
    (folder, out.finish().unwrap())
}

#[test]
fn merge_equals_sorting_all_lines() {
    let mut rng = Rng::new("merge_equals_sorting_all_lines");
    for _ in 0..40 {
        let dir = tempfile::tempdir().unwrap();
        let count = rng.below(1000);
        let lines = lines(&mut rng, count);
        let parts = 1 + rng.below(40);
        let parts = split(&mut rng, &lines, parts);
        let all = options(&mut rng);
        let alike = rng.chance(70);
        let inputs = folders(dir.path(), &parts, || {
            if alike { all } else { options(&mut rng) }
        });
        let out = dir.path().join("out");
        fs::create_dir(&out).unwrap();
        let mut writer = Writer::create(&out, "url", all).unwrap();
        let work = Work::default();
        let inputs: Vec<_> = inputs
            .iter()
            .map(|path| (path.as_path(), "url".to_owned()))
            .collect();
        let at_once = if rng.chance(30) {
            2 + rng.below(5) as usize
        } else {
            1024
        };
        merge_all(inputs, at_once, &mut writer, &work).unwrap();
        let stats = writer.finish().unwrap();
        assert_eq!(stats.lines, count);
        assert_eq!(work.progress().done, count);
        let (found, counts) = read(&out, "url").unwrap();
        assert!(found == lines);
        assert_eq!(stats.blocks, counts.len() as u64);
        assert_sized(&counts, all);
        assert_eq!(names(&out), ["url.cdxj.gz", "url.idx"]);
    }
}

#[test]
fn blocks_without_new_lines_are_copied() {
    let dir = tempfile::tempdir().unwrap();
    let options = but!(Options::by_url(), lines: 10);
    let parts = [
        numbered(1000..2000),
        numbered(0..1000),
        numbered(3000..4000),
    ];
    let inputs = folders(dir.path(), &parts, || options);
    let (out, stats) = merged(dir.path(), &inputs, options);
    assert!(read(&out, "url").unwrap().0 == numbered((0..2000).chain(3000..4000)));
    // Only the block at whose end a line is inserted has to be decompressed.
    assert_eq!((stats.blocks, stats.copied), (300, 298));

    // The blocks are byte for byte the same.
    let block = |folder: &Path| {
        let (gz, idx) = files(folder, "url");
        let idx = fs::read_to_string(idx).unwrap();
        let line = idx
            .lines()
            .find(|line| line.starts_with("org,example)/00001500 "));
        let columns: Vec<_> = line.unwrap().split('\t').collect();
        let number = |n: usize| columns[n].parse::<usize>().unwrap();
        fs::read(gz).unwrap()[number(2)..][..number(3)].to_vec()
    };
    assert_eq!(block(&inputs[0]), block(&out));
}

#[test]
fn small_additions_leave_most_blocks_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    let options = but!(Options::by_digest(), lines: 16);
    let much = numbered((0..20_000).map(|n| n * 2));
    let little = numbered((0..20).map(|n| n * 1999 + 1));
    let inputs = folders(dir.path(), &[much.clone(), little.clone()], || options);
    let (out, stats) = merged(dir.path(), &inputs, options);
    let mut all = [much, little].concat();
    all.sort();
    assert!(read(&out, "url").unwrap().0 == all);
    assert_eq!(stats.blocks, 1250);
    assert!(stats.copied >= 1250 - 21, "{stats:?}");
}

#[test]
fn repeated_small_additions_keep_blocks_in_shape() {
    let mut rng = Rng::new("repeated_small_additions_keep_blocks_in_shape");
    let dir = tempfile::tempdir().unwrap();
    let options = but!(Options::by_digest(), lines: 8, threads: 0);
    let mut all = numbered((0..500).map(|n| n * 1000));
    let mut now = folders(dir.path(), &[all.clone()], || options).remove(0);
    for _ in 0..60 {
        let near = rng.below(500_000);
        let mut more: Vec<u64> = (0..rng.below(12)).map(|_| near + rng.below(3000)).collect();
        more.sort_unstable();
        let more = numbered(more.into_iter());
        let added = tempfile::tempdir_in(dir.path()).unwrap();
        write(added.path(), "url", &more, options);
        let inputs = [now.clone(), added.path().to_owned()];
        let (out, stats) = merged(dir.path(), &inputs, options);
        all.extend(more);
        all.sort();
        let (found, counts) = read(&out, "url").unwrap();
        assert!(found == all);
        assert_sized(&counts, options);
        assert!(stats.copied * 10 >= stats.blocks * 8, "{stats:?}");
        fs::remove_dir_all(&now).unwrap();
        now = out;
    }
}

#[test]
fn small_blocks_are_joined() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::by_digest();
    let parts: Vec<_> = (0..300).map(|n| numbered(n * 3..n * 3 + 3)).collect();
    let inputs = folders(dir.path(), &parts, || options);
    let (out, stats) = merged(dir.path(), &inputs, options);
    let (found, counts) = read(&out, "url").unwrap();
    assert!(found == numbered(0..900));
    assert_sized(&counts, options);
    assert_eq!((stats.blocks, stats.copied), (14, 0));
}

#[test]
fn empty_merge_gives_an_empty_index() {
    let dir = tempfile::tempdir().unwrap();
    let (out, stats) = merged(dir.path(), &[], Options::by_url());
    assert_eq!(stats, Stats::default());
    assert!(read(&out, "url").unwrap().0.is_empty());
    let inputs = folders(dir.path(), &[vec![], vec![]], Options::by_url);
    let (out, stats) = merged(dir.path(), &inputs, Options::by_url());
    assert_eq!(stats, Stats::default());
    assert!(read(&out, "url").unwrap().0.is_empty());
}

#[test]
fn cancelled_merge_ends() {
    let dir = tempfile::tempdir().unwrap();
    let inputs = folders(dir.path(), &[numbered(0..5000)], Options::by_url);
    let work = Work::default();
    work.cancel();
    let mut out = Writer::create(dir.path(), "url", Options::by_url()).unwrap();
    let error = merge("url", &inputs, &mut out, &work).unwrap_err();
    assert!(matches!(error, Error::Cancelled), "{error}");
}
