//! Tests that written packages can be read back. `tools` tests written packages with the format's
//! own tools.

use std::io::Read;
use std::path::Path;

use crawlspace_wacz::package::Required;
use crawlspace_wacz::{Error, Index, Page, Problem, Wacz, Writer, package};
use redis_tests::Rng;
use serde_json::Value;

use crate::zipped::gzip;
use crate::{all_lines, index_names, open};

pub const CREATED: &str = "2026-03-19T10:20:15Z";

pub fn lines(n: usize) -> Vec<String> {
    let line = |i| {
        format!(
            "com,example)/{i:05} 20260319102015 {{\"url\": \"http://example.com/{i}\", \"filename\": \"data.warc.gz\"}}"
        )
    };
    (0..n).map(line).collect()
}

pub fn required(n: u64) -> Required {
    Required {
        filename: format!("crawl-{n}.wacz"),
        hash: Some(format!("sha256:{n:064x}")),
        size: Some(n * 1000),
        crawl: Some(format!("crawl-{n}")),
    }
}

/// Writes a package with a WARC file of random bytes.
pub fn write(
    path: &Path,
    index: Index,
    lines: &[String],
    requires: &[Required],
) -> Result<Vec<u8>, Error> {
    let mut rng = Rng::seeded(11);
    // The WARC file must be valid gzip, because tools decompress members whose name ends in `.gz`.
    let warc = gzip(&(0..300_000).map(|_| rng.bits() as u8).collect::<Vec<u8>>());
    let mut wacz = Writer::create(path, CREATED)?;
    wacz.title("A crawl “of” \u{1f310}");
    wacz.requires(requires);
    wacz.index(index, lines)?;
    wacz.warc("data.warc.gz", &warc[..])?;
    wacz.warc("Data.warc.gz", &gzip(b"little")[..])?;
    wacz.pages(&[
        Page {
            url: "http://example.com/0",
            date: CREATED,
            title: Some("The \"first\"\npage"),
        },
        Page {
            url: "http://example.com/1",
            date: CREATED,
            title: None,
        },
    ])?;
    wacz.finish()?;
    Ok(warc)
}

#[test]
fn written_package_reads_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.wacz");
    for (index, name) in [
        (Index::Plain, "indexes/index.cdxj"),
        (Index::Blocks(7), "indexes/index.cdx.gz"),
        (Index::Blocks(5000), "indexes/index.cdx.gz"),
    ] {
        for n in [0, 1, 7, 1000] {
            write(&path, index, &lines(n), &[required(1)]).unwrap();
            let wacz = open(&path).unwrap();
            assert_eq!(index_names(&wacz), [name]);
            assert_eq!(all_lines(&wacz).unwrap(), lines(n));
            assert_eq!(package::requires(&wacz).unwrap(), [required(1)]);
        }
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn other_zip_reader_finds_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.wacz");
    let warc = write(&path, Index::Blocks(100), &lines(1000), &[]).unwrap();
    let mut zip = zip::ZipArchive::new(std::fs::File::open(&path).unwrap()).unwrap();
    let mut member = |name: &str| {
        let mut bytes = Vec::new();
        zip.by_name(name).unwrap().read_to_end(&mut bytes).unwrap();
        bytes
    };
    assert_eq!(member("archive/data.warc.gz"), warc);
    let packed = member("indexes/index.cdx.gz");
    let blocks = String::from_utf8(member("indexes/index.idx")).unwrap();
    let mut blocks = blocks.lines();
    let expected = r#"!meta 0 {"format": "cdxj-gzip-1.0", "filename": "index.cdx.gz"}"#;
    assert_eq!(blocks.next().unwrap(), expected);
    for (block, first) in blocks.by_ref().zip(lines(1000).iter().step_by(100)) {
        let (key, json) = block.split_at(block.find(" {").unwrap());
        assert!(first.starts_with(key), "{block}");
        let json: Value = serde_json::from_str(json).unwrap();
        let number = |name: &str| json[name].as_u64().unwrap() as usize;
        let mut text = String::new();
        let packed = &packed[number("offset")..][..number("length")];
        flate2::read::GzDecoder::new(packed)
            .read_to_string(&mut text)
            .unwrap();
        assert!(text.starts_with(first));
        assert_eq!(text.lines().count(), 100);
    }
    assert!(blocks.next().is_none());
    let datapackage: Value = serde_json::from_slice(&member("datapackage.json")).unwrap();
    let named = datapackage["resources"].as_array().unwrap();
    let all = [
        "index.cdx.gz",
        "index.idx",
        "data.warc.gz",
        "archive-data.warc.gz",
        "pages.jsonl",
    ];
    assert_eq!(
        named
            .iter()
            .map(|one| one["name"].as_str().unwrap())
            .collect::<Vec<_>>(),
        all
    );
    assert_eq!(datapackage["created"], CREATED);
    assert!(datapackage.get("relation").is_none());
}

#[test]
fn invalid_package_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.wacz");
    let refused = |outcome: Result<(), Error>| {
        let error = outcome.expect_err("refused");
        assert!(matches!(error.problem, Problem::Refused(_)), "{error}");
        error.to_string()
    };
    let mut wacz = Writer::create(&path, CREATED).unwrap();
    wacz.warc("a.warc", &b"a"[..]).unwrap();
    assert!(refused(wacz.warc("a.warc", &b"a"[..])).contains("already"));
    for name in ["", "..", "a/b", "a\\b", "a\nb"] {
        refused(wacz.warc(name, &b"a"[..]));
    }
    for wrong in [
        &["b 1 {}", "a 1 {}"][..],
        &["one"],
        &["a b"],
        &["a 1 {}\n"],
        &[""],
    ] {
        for index in [Index::Plain, Index::Blocks(3)] {
            refused(Writer::create(&path, CREATED).unwrap().index(index, wrong));
        }
    }
    drop(wacz);
    assert_eq!(
        std::fs::read_dir(folder.path()).unwrap().count(),
        0,
        "nothing is left behind"
    );
    let nowhere = Writer::create(&folder.path().join("none").join("a.wacz"), CREATED).unwrap_err();
    assert!(matches!(nowhere.problem, Problem::Io(_)), "{nowhere}");
}

#[test]
fn refused_member_leaves_no_trace_in_the_package() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.wacz");
    let mut wacz = Writer::create(&path, CREATED).unwrap();
    let mut unsorted = lines(20_000);
    unsorted.swap(9000, 9001);
    for index in [Index::Plain, Index::Blocks(10)] {
        wacz.index(index, &unsorted).unwrap_err();
    }
    wacz.index(Index::Plain, lines(3)).unwrap();
    wacz.finish().unwrap();
    assert_eq!(all_lines(&open(&path).unwrap()).unwrap(), lines(3));
    assert!(std::fs::metadata(&path).unwrap().len() < 3000);
}

#[test]
fn unfinished_package_leaves_the_old_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.wacz");
    std::fs::write(&path, "old").unwrap();
    let mut wacz = Writer::create(&path, CREATED).unwrap();
    wacz.warc("a.warc", &b"a"[..]).unwrap();
    drop(wacz);
    assert_eq!(std::fs::read(&path).unwrap(), b"old");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    let wacz = Writer::create(&path, CREATED).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"old");
    wacz.finish().unwrap();
    assert!(Wacz::open(&path.as_path().into(), &Default::default()).is_ok());
}
