//! Tests the detection of index members, and the reading of their lines.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use crawlspace_wacz::{Options, Problem, Wacz};
use redis_tests::{but, with};

use crate::zipped::{Ending, Part, gzip, zip, zip_with};
use crate::{all_lines, index_names, open, read, saved};

const LINES: &[u8] = b"com,example)/ 20260319102015 {\"url\": \"http://example.com/\"}\r\ncom,example)/a 20260319102016 {}\n\nlast";

fn lines() -> Vec<String> {
    let text = std::str::from_utf8(LINES).unwrap();
    text.split('\n')
        .map(|line| line.trim_end().to_owned())
        .collect()
}

#[test]
fn lines_do_not_depend_on_the_compression_of_the_index() {
    let blocks = [
        gzip(&LINES[..70]),
        gzip(&LINES[70..80]),
        gzip(b""),
        gzip(&LINES[80..]),
    ]
    .concat();
    let gzipped = gzip(LINES);
    for part in [
        Part::stored("indexes/index.cdx", LINES),
        Part::deflated("indexes/index.cdxj", LINES),
        Part::stored("indexes/index.cdx.gz", &gzipped),
        Part::deflated("indexes/index.cdx.gz", &gzipped),
        Part::stored("indexes/index.cdxj.gz", &blocks),
        // The name does not determine the format.
        Part::stored("indexes/index.cdx", &blocks),
        Part::stored("indexes/INDEX.CDXJ.GZ", LINES),
        but!(Part::deflated("indexes/index.cdx", LINES), descriptor: true),
        but!(Part::deflated("indexes/index.cdx", LINES), zip64: true),
        but!(Part::stored("indexes/index.cdx", LINES), zip64: true, descriptor: true),
    ] {
        for zip64 in [false, true] {
            let parts = [
                Part::stored("archive/data.warc.gz", &[7; 9999]),
                part.clone(),
            ];
            let ending = with!(Ending, zip64, comment: b"made by hand".to_vec());
            assert_eq!(read(&zip_with(&parts, &ending)).unwrap(), lines());
        }
    }
}

#[test]
fn index_can_be_read_repeatedly_and_concurrently() {
    let folder = tempfile::tempdir().unwrap();
    let file = zip(&[
        Part::deflated("indexes/a.cdx", LINES),
        Part::stored("indexes/b.cdx", b"b 2026 x"),
    ]);
    let wacz = open(&saved(folder.path(), "a.wacz", &file)).unwrap();
    assert_eq!(all_lines(&wacz).unwrap(), all_lines(&wacz).unwrap());
    let [a, b] = wacz.indexes() else { panic!() };
    let (mut first, mut second) = (wacz.lines(a).unwrap(), wacz.lines(b).unwrap());
    drop(wacz);
    assert_eq!(second.next().unwrap().unwrap(), b"b 2026 x");
    assert_eq!(first.next().unwrap().unwrap(), lines()[0].as_bytes());
    assert_eq!((first.number(), first.member()), (1, "indexes/a.cdx"));
    assert!(second.next().unwrap().is_none());
    assert!(second.next().unwrap().is_none());
}

#[test]
fn indexes_are_found_in_their_folder_or_anywhere() {
    let folder = tempfile::tempdir().unwrap();
    let names = |names: &[&str]| {
        let parts: Vec<Part> = names.iter().map(|name| Part::stored(name, b"x")).collect();
        let wacz = open(&saved(folder.path(), "a.wacz", &zip(&parts))).unwrap();
        index_names(&wacz)
            .iter()
            .map(|name| name.to_string())
            .collect::<Vec<String>>()
    };
    assert_eq!(
        names(&[
            "index.cdx",
            "indexes/a.cdxj",
            "indexes/b/c.cdx.gz",
            "indexes/index.idx",
            "indexes/x.txt",
            "archive/d.cdx"
        ]),
        ["indexes/a.cdxj", "indexes/b/c.cdx.gz"]
    );
    assert_eq!(
        names(&[
            "archive/d.cdx",
            "top.cdxj.gz",
            "indexes/",
            "indexes/index.idx"
        ]),
        ["archive/d.cdx", "top.cdxj.gz"]
    );
    assert_eq!(
        names(&["archive/data.warc.gz", "pages/pages.jsonl"]),
        [""; 0]
    );
    // An index in two forms is a single index.
    assert_eq!(
        names(&[
            "indexes/index.cdx",
            "indexes/index.cdx.gz",
            "indexes/index.idx"
        ]),
        ["indexes/index.cdx.gz"]
    );
    assert_eq!(
        names(&[
            "indexes/i.cdx.gz",
            "indexes/a.cdx",
            "indexes/i.cdxj",
            "indexes/i.cdx"
        ]),
        ["indexes/i.cdxj", "indexes/a.cdx"]
    );
}

#[test]
fn members_may_start_after_any_number_of_bytes() {
    const GAP: u64 = 5 << 30;
    let folder = tempfile::tempdir().unwrap();
    let name = "archive/data.warc.gz";
    let warc = but!(Part::stored(name, b""), zip64: true, compressed: GAP, size: GAP);
    let header = 30 + name.len() + 20;
    let place = Some(header as u64 + GAP);
    let index = but!(Part::deflated("indexes/index.cdx", LINES), zip64: true, place);
    let parts = [warc, index];
    let start = zip_with(&parts, &with!(Ending, zip64: true));
    let start = start
        .windows(4)
        .position(|bytes| bytes == b"PK\x01\x02")
        .unwrap() as u64
        + GAP;
    let file = zip_with(
        &parts,
        &with!(Ending, zip64: true, start: Some(start), gap: GAP),
    );
    // The WARC file is a hole in a sparse file.
    let path = saved(folder.path(), "a.wacz", &file[..header]);
    let out = std::fs::File::options().write(true).open(&path).unwrap();
    out.write_all_at(&file[header..], header as u64 + GAP)
        .unwrap();
    let wacz = open(&path).unwrap();
    assert!(wacz.size() > GAP);
    assert_eq!(all_lines(&wacz).unwrap(), lines());
}

#[test]
fn special_file_is_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe.wacz");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    for path in [pipe.as_path(), folder.path(), Path::new("/dev/zero")] {
        let error = open(path).unwrap_err();
        assert!(matches!(error.problem, Problem::NotZip(_)), "{error}");
    }
}

#[test]
fn digest_covers_the_whole_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = saved(
        folder.path(),
        "a.wacz",
        &zip(&[Part::stored("a", &vec![b'a'; 700_000])]),
    );
    let wacz = open(&path).unwrap();
    let sum = Command::new("sha256sum").arg(&path).output().unwrap();
    let sum = String::from_utf8(sum.stdout).unwrap();
    let mut told = Vec::new();
    let digest = wacz.digest(|count| told.push(count)).unwrap();
    assert_eq!(digest, format!("sha256:{}", sum.split(' ').next().unwrap()));
    assert_eq!(told.last(), Some(&wacz.size()));
    assert!(told.len() > 1);
}

#[test]
fn datapackage_is_text_within_a_limit() {
    let folder = tempfile::tempdir().unwrap();
    let file = zip(&[Part::deflated(
        "datapackage.json",
        b"{\"profile\": \"data-package\"}",
    )]);
    let path = saved(folder.path(), "a.wacz", &file);
    let expected = "{\"profile\": \"data-package\"}";
    assert_eq!(open(&path).unwrap().datapackage().unwrap(), expected);
    let options = with!(Options, datapackage: 26);
    let error = Wacz::open(&path.as_path().into(), &options)
        .unwrap()
        .datapackage()
        .unwrap_err();
    assert!(
        matches!(
            error.problem,
            Problem::TooLarge {
                option: "datapackage",
                ..
            }
        ),
        "{error}"
    );
    let path = saved(folder.path(), "b.wacz", &zip(&[Part::stored("a", b"b")]));
    let error = open(&path).unwrap().datapackage().unwrap_err();
    assert!(
        matches!(error.problem, Problem::Missing("datapackage.json")),
        "{error}"
    );
}
