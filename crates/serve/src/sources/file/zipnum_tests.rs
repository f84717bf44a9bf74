//! Tests of clusters against a naive reader of their uncompressed lines, and of invalid clusters.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::StreamExt;
use redis_tests::{Rng, assert_contains, but, rows};

use super::super::file::FileSource;
use super::super::file::tests::{
    ask, assert_same, identity, lookup, query, random_lookup, runtime, text,
};
use crate::source::{Blocks, Lookup, Source};
use crate::sources::Identity;
use crawlspace_index::row::Row;
use crawlspace_index::sorted::Order;
use crawlspace_index::sorted::line::{Shape, trimmed};
use crawlspace_index::source::SourceError;
use crawlspace_index::{Choice, Listings};

fn packed(text: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(text).unwrap();
    packed.finish().unwrap()
}

/// Creates a cluster of these lines in a folder, in parts of a few blocks. Returns the path of its
/// secondary index.
fn cluster(folder: &Path, lines: &[&[u8]], rng: &mut Rng) -> PathBuf {
    fs::create_dir_all(folder.join("parts")).unwrap();
    let (of, told, numbered) = (*rng.pick(&[1, 7, 100]), rng.chance(50), rng.chance(50));
    let (mut index, mut places, mut part) = (Vec::new(), String::new(), Vec::new());
    let mut name = String::from("part-0.gz");
    for (number, some) in lines.chunks(of).enumerate() {
        let mut text = some.join(&b'\n');
        if rng.chance(80) {
            text.push(b'\n');
        }
        let block = packed(&text);
        index.extend_from_slice(Shape::of(some[0]).unwrap().both(some[0]));
        write!(index, "\t{name}\t{}\t{}", part.len(), block.len()).unwrap();
        if numbered {
            write!(index, "\t{}", number + 1).unwrap();
        }
        index.push(b'\n');
        part.extend_from_slice(&block);
        if rng.chance(5) {
            places.push_str(&write_part(folder, &name, told, &part));
            name = format!("part-{}.gz", number + 1);
            part.clear();
        }
    }
    places.push_str(&write_part(folder, &name, told, &part));
    let path = folder.join("cluster.idx");
    if told {
        fs::write(path.with_extension("loc"), places).unwrap();
    }
    fs::write(&path, index).unwrap();
    path
}

fn write_part(folder: &Path, name: &str, told: bool, part: &[u8]) -> String {
    let place = if told {
        folder.join("parts")
    } else {
        folder.to_owned()
    };
    fs::write(place.join(name), part).unwrap();
    format!("{name}\thttp://example.org/{name}\tnone/{name}\tparts/{name}\n")
}

/// Creates a source of a secondary index, or of a folder of clusters.
fn clusters(path: PathBuf, identity: Identity) -> FileSource {
    FileSource::of(Arc::new(Listings::new(path, Choice::Clusters)), identity)
}

#[test]
fn clusters_equal_a_naive_reader() {
    let mut rng = Rng::new("clusters_equal_a_naive_reader");
    for round in 0..20 {
        let folder = tempfile::tempdir().unwrap();
        let mut all = text(&mut rng);
        let lines = all.split(|&byte| byte == b'\n').map(trimmed);
        let lines: Vec<&[u8]> = lines.filter(|line| Shape::of(line).is_some()).collect();
        let index = cluster(folder.path(), &lines, &mut rng);
        all = lines.join(&b'\n');
        let source = match round % 4 {
            0 => clusters(index, identity()),
            1 => clusters(folder.path().to_owned(), identity()),
            2 => FileSource::new(folder.path().to_owned(), identity()),
            _ => FileSource::new(index, identity()),
        };
        for _ in 0..25 {
            let lookup = random_lookup(&mut rng);
            assert_same(&source, &[all.clone()], &lookup);
            match source.blocks() {
                Some(blocks) => assert_paged(&source, blocks, &lookup, 1 + rng.below(4)),
                None => assert!(round % 4 > 1),
            }
        }
    }
}

/// Asserts that all pages in sequence are the whole answer.
fn assert_paged(source: &FileSource, blocks: &dyn Blocks, lookup: &Arc<Lookup>, size: u64) {
    let lookup = Arc::new(but!((**lookup).clone(), order: Order::Ascending));
    let expected = ask(source, &lookup).0;
    runtime().block_on(async {
        let count = blocks.count(Arc::clone(&lookup)).await.unwrap();
        let mut rows = Vec::new();
        let mut index = Vec::new();
        for page in 0..count.div_ceil(size) {
            let some = page * size..(page + 1) * size;
            let of = blocks
                .rows_of(Arc::clone(&lookup), some.clone())
                .await
                .unwrap();
            rows.extend(of.batches.map(Result::unwrap).concat().await);
            let of = blocks.index_of(Arc::clone(&lookup), some).await.unwrap();
            index.extend(of.batches.map(Result::unwrap).concat().await);
        }
        assert!(
            rows == expected,
            "{lookup:?}: {count} blocks, {size} a page"
        );
        assert_eq!(index.len() as u64, count);
        // A minute with a `Z` sorts after its seconds.
        let begin = |row: &Row| {
            let digits = row.timestamp();
            (
                row.urlkey().to_vec(),
                digits[..digits.len().min(12)].to_vec(),
            )
        };
        assert!(index.is_sorted_by_key(begin));
        for row in index {
            let text: serde_json::Value = serde_json::from_slice(row.json()).unwrap();
            assert!(
                text["part"].is_string() && text["length"].as_u64() > Some(0),
                "{text}"
            );
        }
    });
}

/// Returns the error of a cluster with this secondary index and this part.
fn problem(index: &[u8], part: &[u8]) -> SourceError {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.idx"), index).unwrap();
    fs::write(folder.path().join("p.gz"), part).unwrap();
    problem_of(&clusters(folder.path().join("a.idx"), identity()))
}

fn problem_of(source: &FileSource) -> SourceError {
    let all = lookup(query("http://a.com/", Default::default()), Order::Ascending);
    runtime().block_on(async {
        let mut rows = source.rows(all).await.unwrap();
        let error = loop {
            match rows.batches.next().await.unwrap() {
                Ok(rows) => assert!(rows.is_empty()),
                Err(error) => break error,
            }
        };
        assert!(rows.batches.next().await.is_none());
        error
    })
}

/// Creates a cluster with one block per line, whose `.loc` file lists these locations.
fn placed(lines: &[&str], places: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let (mut index, mut at) = (String::new(), 0);
    for line in lines {
        let length = packed(line.as_bytes()).len();
        let begin = line.split(" {").next().unwrap();
        index += &format!("{begin}\tp\t{at}\t{length}\n");
        at += length;
    }
    fs::write(folder.path().join("a.idx"), index).unwrap();
    fs::write(folder.path().join("a.loc"), format!("p\t{places}\n")).unwrap();
    folder
}

#[test]
fn useful_number_of_locations_of_a_part_is_tried() {
    let line = "com,a)/ 2016 {}\n";
    let source = |before: usize| {
        let places = vec!["none"; before].join("\t") + "\tgood";
        let folder = placed(&[line], &places);
        fs::write(folder.path().join("good"), packed(line.as_bytes())).unwrap();
        let source = clusters(folder.path().join("a.idx"), identity());
        (folder, source)
    };
    let all = lookup(query("http://a.com/", Default::default()), Order::Ascending);
    let (_folder, few) = source(15);
    assert_eq!(ask(&few, &all).0.len(), 1);
    for more in [16, 400] {
        let (_folder, many) = source(more);
        let error = problem_of(&many).to_string();
        assert_contains(&error, "none: the file does not exist");
    }
}

#[test]
fn failed_location_is_tried_last() {
    // Each block has the same compressed size as its counterpart.
    let lines = [
        "com,a)/ 2016 {\"n\": \"1\"}\n",
        "com,b)/ 2016 {\"n\": \"1\"}\n",
    ];
    let part = |n: &str| -> Vec<u8> {
        let lines = lines.map(|line| line.replace("\"1\"", &format!("\"{n}\"")));
        lines.map(|line| packed(line.as_bytes())).concat()
    };
    let folder = placed(&lines, "first\tsecond");
    let put = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes).unwrap();
    put("second", &part("2"));
    let source = clusters(folder.path().join("a.idx"), identity());
    let row = |url: &str| {
        let all = lookup(query(url, Default::default()), Order::Ascending);
        let (rows, ordered) = ask(&source, &all);
        assert_eq!((rows.len(), ordered), (1, true));
        rows[0].field("n")
    };
    assert_eq!(row("http://a.com/"), "2");
    // The file exists now, but the source does not try its location.
    put("first", &part("1"));
    assert_eq!(row("http://b.com/"), "2");
    fs::remove_file(folder.path().join("second")).unwrap();
    put("other", b"x");
    assert_eq!(row("http://b.com/"), "1");
}

#[test]
fn damaged_block_is_reported() {
    let mut damaged = packed(&b"com,a)/ 2016 {}\n".repeat(100));
    let length = damaged.len();
    damaged[length / 2] ^= 0x55;
    let line = |offset: u64, length: u64| format!("com,a)/ 2016\tp.gz\t{offset}\t{length}\n");
    for (index, part, expected) in rows![
        line(0, length as u64), damaged.clone(), "p.gz: block at byte 0: ";
        line(3, 9), b"123no gzip at all".to_vec(), "p.gz: block at byte 3: ";
        line(5, 9), b"123".to_vec(), "p.gz: block at byte 5: the file ends before";
        line(u64::MAX, 9), b"123".to_vec(), "block at byte 18446744073709551615: ";
        line(0, u64::MAX), b"123".to_vec(), "the maximum is";
        line(0, 1 << 40), b"123".to_vec(), "the maximum is";
        line(0, 9).replace("p.gz", "q.gz"), Vec::new(), "q.gz: the file does not exist";
        line(0, 9).replace("p.gz", "../q.gz"), Vec::new(), "does not name a file in the folder";
        line(0, 9).replace("p.gz", "/etc/passwd"), Vec::new(), "does not name a file in the folder";
    ] {
        let error = problem(index.as_bytes(), &part).to_string();
        assert_contains(&error, expected);
    }
}

#[test]
fn endless_block_is_cut_off() {
    let bomb = packed(&vec![b' '; 33 << 20]);
    let index = format!("com,a)/ 2016\tp.gz\t0\t{}\n", bomb.len());
    let error = problem(index.as_bytes(), &bomb);
    assert!(matches!(error, SourceError::TooLarge(_)), "{error:?}");
}

#[test]
fn invalid_lines_of_a_secondary_index_are_skipped() {
    let folder = tempfile::tempdir().unwrap();
    let block = packed(b"com,a)/ 2016 {}\ncom,a)/ 2017 {}\n");
    fs::write(folder.path().join("p.gz"), &block).unwrap();
    let good = format!("com,a)/ 2016\tp.gz\t0\t{}", block.len());
    let rubbish = "\n\n!meta 0 {\"format\": \"x\"}\ncom,a)/ 2016\tp.gz\t-1\t5\ncom,a)/\t\t\t\n\u{0}\tp\tq\tr\n";
    fs::write(
        folder.path().join("a.idx"),
        format!("{rubbish}{good}\n{rubbish}"),
    )
    .unwrap();
    let source = clusters(folder.path().to_owned(), identity());
    for order in [Order::Ascending, Order::Descending] {
        let all = lookup(query("http://a.com/", Default::default()), order);
        assert_eq!(ask(&source, &all).0.len(), 2, "{order:?}");
    }
}
