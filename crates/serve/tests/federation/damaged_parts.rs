//! Tests of sources with unreadable parts.

use std::fmt::Write as _;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use redis_tests::http::{Answer, get};
use redis_tests::{assert_contains, rows, until};

use crate::makers::asking::{Found, found, scanned};
use crate::makers::corpus::{Corpus, many, odd};
use crate::makers::maker::{MAKERS, Maker, Row};
use crate::serving::Stage;

const INCOMPLETE: &str = "incomplete, parts cannot be read";

/// Releases of Browsertrix Crawler, wacz and js-wacz in [`MAKERS`].
const BROWSERTRIX: &Maker = &MAKERS[5];
const WACZ: &Maker = &MAKERS[0];
const JS_WACZ: &Maker = &MAKERS[2];

/// Asserts the rows, and that the response names the source as incomplete and is not cacheable.
#[track_caller]
fn assert_incomplete(answer: &Answer, source: &str, expected: &[Found]) {
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(found(&answer.text()) == expected, "{}", answer.text());
    let said = format!("{{\"{source}\":\"{INCOMPLETE}\"}}");
    assert_eq!(answer.field("source-errors"), Some(&*said));
    assert_eq!(answer.field("cache-control"), Some("no-store"));
}

/// Changes a byte in the middle of a part of a file.
fn damage(bytes: &mut [u8], part: &[u8]) {
    let at = memchr::memmem::find(bytes, part).unwrap();
    bytes[at + part.len() / 2] ^= 0x55;
}

#[test]
fn unreadable_packages_omit_no_row_of_others() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("packages");
    std::fs::create_dir(&folder).unwrap();
    let corpus = odd("data.warc.gz");
    let (first, second) = corpus.rows.split_at(90);
    let package = |maker: &Maker, rows: &[Row]| maker.package(rows, &corpus.files());
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.join(name), bytes).unwrap();
    write("first.wacz", &package(BROWSERTRIX, first));
    write("second.wacz", &package(WACZ, second));
    let mut other = Corpus::default();
    let keys = [
        "http://example.com/other",
        "com,example)/other",
        "com,example)/other",
    ];
    other.capture("data.warc.gz", keys, "20160101000000", "other");
    let whole = package(JS_WACZ, &other.rows);
    let mut changed = whole.clone();
    damage(&mut changed, b"com,example)/other 2016");
    let bare = redis_tests::archive::store(&[
        ("archive/data.warc.gz", &corpus.warcs["data.warc.gz"]),
        ("datapackage.json", b"{}"),
    ]);
    let html = "<!doctype html><title>403 Forbidden</title>\n".repeat(40);
    let bad: [(&str, &[u8]); 5] = rows![
        "bare.wacz", &bare; "changed.wacz", &changed; "empty.wacz", b"";
        "half.wacz", &whole[..whole.len() / 2]; "page.wacz", html.as_bytes();
    ];
    for (name, bytes) in bad {
        write(name, bytes);
    }
    // Each damaged package is also a collection of its own.
    let mut config = format!("collections:\n  all: wacz+{}\n", folder.display());
    for (name, _) in bad {
        let stem = name.trim_end_matches(".wacz");
        let _ = writeln!(config, "  {stem}: {}", folder.join(name).display());
    }
    let stage = Stage::start(&config);
    let host = "http://example.com/&matchType=domain";
    let expected = scanned(&corpus.rows);
    let is_below =
        |row: &&Found| row.0.starts_with("com,example)") || row.0.starts_with("com,example,");
    let expected: Vec<Found> = expected.iter().filter(is_below).cloned().collect();
    let page = scanned(&corpus.rows[..3]);
    assert_eq!(page[0].2, "http://example.com/");
    for _ in 0..2 {
        let answer = stage.get(format!("/all/index?output=json&url={host}"));
        assert_incomplete(&answer, "all", &expected);
        let answer = stage.get("/all/index?output=json&url=http://example.com/");
        assert_incomplete(&answer, "all", &page);
    }
    let answer = stage.get("/all/resource?url=http://example.com/&closest=20160101000000");
    assert_eq!(answer.status, 200, "{}", answer.text());
    for (name, _) in bad {
        let stem = name.trim_end_matches(".wacz");
        let answer = stage.get(format!("/{stem}/index?url=http://example.com/other"));
        assert_eq!(answer.status, 502, "{name}: {}", answer.text());
    }
    let status = get(stage.operator(), "/_status").text();
    for (name, _) in bad {
        assert_contains(&status, folder.join(name).display().to_string());
    }
    assert_contains(&status, "and 4 more parts cannot be read");
    // Repaired packages are available again.
    for (name, _) in bad {
        std::fs::remove_file(folder.join(name)).unwrap();
    }
    write("half.wacz", &whole);
    until("the repaired packages are read", || {
        let answer = stage.get("/all/index?url=http://example.com/other");
        answer.field("source-errors").is_none() && answer.text().lines().count() == 1
    });
}

/// Damages a block of a maker's index, and returns the lines of the other blocks.
fn with_damaged_block(maker: &Maker, rows: &[Row], number: usize, to: &mut [u8]) -> Vec<Row> {
    let files = maker.index(&maker.lines(rows), "index");
    let idx = String::from_utf8(files[1].1.clone()).unwrap();
    let block = idx
        .lines()
        .filter(|line| !line.starts_with('!'))
        .nth(number)
        .unwrap();
    let (_, about) = block.split_once(" {").unwrap();
    let about: serde_json::Value = serde_json::from_str(&format!("{{{about}")).unwrap();
    let [offset, length] = ["offset", "length"].map(|name| about[name].as_u64().unwrap() as usize);
    damage(to, &files[0].1[offset..offset + length]);
    let mut rows = rows.to_vec();
    rows.sort_by_cached_key(|row| (row.keys[maker.family as usize].clone(), row.time.clone()));
    rows.drain(number * maker.block..(number + 1) * maker.block);
    rows
}

#[test]
fn damaged_block_omits_no_line_of_other_blocks() {
    let dir = tempfile::tempdir().unwrap();
    let rows = many(3000);
    let mut config = "collections:\n".to_owned();
    for (name, maker) in [("wacz", WACZ), ("browsertrix", BROWSERTRIX)] {
        let path = dir.path().join(format!("{name}.wacz"));
        let mut package = maker.package(&rows, &[("data.warc.gz", b"")]);
        with_damaged_block(maker, &rows, 1, &mut package);
        std::fs::write(&path, package).unwrap();
        let _ = writeln!(config, "  {name}: {}", path.display());
    }
    let stage = Stage::start(&config);
    for (name, maker) in [("wacz", WACZ), ("browsertrix", BROWSERTRIX)] {
        let mut package = maker.package(&rows, &[("data.warc.gz", b"")]);
        let left = with_damaged_block(maker, &rows, 1, &mut package);
        let expected = scanned(&left);
        for order in ["", "&sort=reverse"] {
            let target = format!("/{name}/index?output=json&url=http://example.com/*{order}");
            let mut expected = expected.clone();
            if !order.is_empty() {
                expected.reverse();
            }
            assert_incomplete(&stage.get(target), name, &expected);
        }
        let (first, last) = (&expected[0].2, &expected[expected.len() - 1].2);
        let there = [first, last].map(|url| {
            let answer = stage.get(format!("/{name}/index?output=json&url={url}"));
            assert_eq!(answer.status, 200, "{}", answer.text());
            assert!(answer.field("source-errors").is_none(), "{name}: {url}");
            found(&answer.text()).len()
        });
        assert!(there.iter().all(|rows| *rows > 0), "{name}: {there:?}");
        let lost = |row: &&Row| !left.iter().any(|one| one.urlkey == row.urlkey);
        let lost = rows.iter().find(lost).unwrap();
        let answer = stage.get(format!("/{name}/index?url={}", lost.url));
        assert_eq!(answer.status, 502, "{name}: {}", answer.text());
    }
}

/// Starts a server with a folder of packages and a folder of CDX files, each alone and followed by another
/// source.
fn before_another(folder: &Path, dir: &Path) -> Stage {
    let other = dir.join("other.cdxj");
    std::fs::write(
        &other,
        "com,example)/ 2016 {\"url\": \"http://example.com/\"}\n",
    )
    .unwrap();
    let (folder, other) = (folder.display(), other.display());
    let mut config = "collections:\n".to_owned();
    for (kind, location) in [
        ("wacz", format!("wacz+{folder}")),
        ("cdx", format!("{folder}")),
    ] {
        let _ = writeln!(
            config,
            "  {kind}: {location}\n  {kind}_seq:\n    sequence:\n      - {{index_group: {{near: {location}}}}}\n      \
             - {{index_group: {{far: {other}}}}}"
        );
    }
    Stage::start(&config)
}

/// Returns whether the folder is a failed source in all collections.
fn is_failed(stage: &Stage) -> bool {
    let ask = |collection: &str| stage.get(format!("/{collection}/index?url=http://example.com/"));
    ["wacz", "cdx"].iter().all(|kind| {
        let alone = ask(kind);
        let sequence = ask(&format!("{kind}_seq"));
        assert_eq!(sequence.status, 200, "{}", sequence.text());
        if alone.status != 502 {
            return false;
        }
        let said = alone.field("source-errors").unwrap();
        assert_eq!(said, format!("{{\"{kind}\":\"unreadable\"}}"));
        let said = sequence.field("source-errors");
        assert_eq!(said, Some("{\"near\":\"unreadable\"}"));
        assert_contains(sequence.text(), "\"source\": \"far\"");
        true
    })
}

#[test]
fn missing_or_unreadable_folder_fails_and_the_next_step_answers() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("folder");
    let corpus = odd("data.warc.gz");
    let fill = || {
        std::fs::create_dir(&folder).unwrap();
        let package = WACZ.package(&corpus.rows, &corpus.files());
        std::fs::write(folder.join("a.wacz"), package).unwrap();
        let lines = BROWSERTRIX.lines(&corpus.rows).join("\n") + "\n";
        std::fs::write(folder.join("a.cdxj"), lines).unwrap();
    };
    // The folder is missing when the server starts, then appears, and disappears again.
    let stage = before_another(&folder, dir.path());
    assert!(is_failed(&stage));
    fill();
    until("the folder is found", || {
        ["wacz", "cdx"].iter().all(|kind| {
            let answer = stage.get(format!("/{kind}_seq/index?url=http://example.com/"));
            answer.field("source-errors").is_none() && answer.text().lines().count() == 3
        })
    });
    std::fs::remove_dir_all(&folder).unwrap();
    until("the missing folder is noticed", || is_failed(&stage));
    if rustix::process::geteuid().is_root() {
        return;
    }
    fill();
    let closed = |mode| std::fs::set_permissions(&folder, Permissions::from_mode(mode));
    closed(0).unwrap();
    let stage = before_another(&folder, dir.path());
    let failed = is_failed(&stage);
    closed(0o700).unwrap();
    assert!(failed);
}
