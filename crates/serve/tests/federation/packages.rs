//! Tests of WACZ files: indexes and records are read from packages.

use std::collections::HashSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crawlspace_wacz::package::Required;
use crawlspace_wacz::{Index, Writer};
use redis_tests::packages::{left_out, python, run};
use redis_tests::{assert_contains, rows};

use crate::resource::record;
use crate::serving::Stage;
use crate::shelf::{Shelf, iso};

pub(super) const TIMES: [&str; 3] = ["20140101000000", "20160101000000", "20180101000000"];

/// Creates captures in two WARC files, and a revisit in the second one whose original is in the
/// first.
pub(super) fn shelf() -> Shelf {
    let mut shelf = Shelf::new();
    for (n, time) in TIMES.iter().enumerate() {
        for page in 0..4 {
            let url = format!("http://example.com/{page}");
            let payload = format!("{url} at {time}").repeat(page * 40 + 1);
            let file = if n == 0 {
                "north.warc.gz"
            } else {
                "south.warc.gz"
            };
            shelf.capture(file, &url, time, payload.as_bytes());
        }
    }
    let url = "http://example.com/0";
    let digest =
        redis_tests::archive::collection::sha1_base32(format!("{url} at {}", TIMES[0]).as_bytes());
    let time = "20190101000000";
    let fields = rows![
        "WARC-Type", "revisit";
        "WARC-Record-ID", "<urn:uuid:00000000-0000-4000-8000-000000000001>";
        "WARC-Date", &iso(time);
        "WARC-Target-URI", url;
        "WARC-Refers-To-Target-URI", url;
        "WARC-Refers-To-Date", &iso(TIMES[0]);
        "WARC-Payload-Digest", &format!("sha1:{digest}");
        "WARC-Profile", "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest";
        "Content-Type", "application/http; msgtype=response";
    ];
    let slot = shelf.record(
        "south.warc.gz",
        &fields,
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n",
    );
    let more = format!(", \"digest\": \"{digest}\", \"mime\": \"warc/revisit\"");
    shelf.line(url, time, &slot, &more);
    shelf
}

/// Creates a package of a WARC file and its index lines.
pub(super) fn pack(shelf: &Shelf, index: &str, file: &str, how: Index, to: &Path) {
    pack_with(shelf, index, file, how, to, &[]);
}

/// Creates a package that contains a WARC file and its index lines, and requires other packages.
pub(super) fn pack_with(
    shelf: &Shelf,
    index: &str,
    file: &str,
    how: Index,
    to: &Path,
    requires: &[Required],
) {
    let lines = std::fs::read_to_string(index).unwrap();
    let lines = lines.lines().filter(|line| line.contains(file));
    let mut wacz = Writer::create(to, "2026-03-19T10:20:15Z").unwrap();
    let warc = File::open(shelf.path().join("warcs").join(file)).unwrap();
    wacz.warc(file, warc).unwrap();
    wacz.index(how, lines).unwrap();
    wacz.requires(requires);
    wacz.finish().unwrap();
}

/// Returns a configuration with the WARC files as `c`, and the packages as `w`.
pub(super) fn config(index: &str, shelf: &Shelf, packages: &str) -> String {
    let warcs = shelf.warcs();
    format!("collections:\n  c: {{index: {index}, resource: {warcs}}}\n  w: wacz+{packages}\n")
}

/// Starts a server with the WARC files as `c`, and the folder of packages as `w`.
fn serve(index: &str, shelf: &Shelf, packages: &Path) -> Stage {
    Stage::start(&config(index, shelf, &packages.display().to_string()))
}

/// Asserts that both collections give the same answers.
pub(super) fn same(stage: &Stage, fields: &str) {
    for query in [
        "url=http://example.com/*",
        "url=http://example.com/0",
        "url=http://example.com/2&sort=reverse",
        "url=http://example.com/0&closest=20170101",
        "url=http://example.com/3&from=2015&limit=1",
        "url=http://example.com/9",
    ] {
        let ask = |collection: &str| {
            let target = format!("/{collection}/index?{query}&output=text&fl={fields}");
            let answer = stage.get(&target);
            assert_eq!(answer.status, 200, "{target}: {}", answer.text());
            assert_eq!(answer.field("source-errors"), None, "{target}");
            answer.text()
        };
        assert_eq!(ask("w"), ask("c"), "{query}");
    }
    for page in 0..4 {
        for time in [TIMES[0], TIMES[1], TIMES[2], "20190101000000"] {
            let ask = |collection: &str| {
                let target =
                    format!("/{collection}/resource?url=http://example.com/{page}&closest={time}");
                let answer = stage.get(&target);
                assert_eq!(answer.status, 200, "{target}: {}", answer.text());
                record(&answer)
            };
            assert_eq!(ask("w"), ask("c"), "{page} at {time}");
        }
    }
}

pub(super) const FIELDS: &str = "urlkey,timestamp,url,mime,digest,filename,offset,length";

#[test]
fn packages_answer_like_their_content() {
    let mut shelf = shelf();
    let index = shelf.write_index("index.cdxj");
    let folder = shelf.path().join("packages");
    std::fs::create_dir_all(folder.join("2026")).unwrap();
    pack(
        &shelf,
        &index,
        "north.warc.gz",
        Index::Blocks(2),
        &folder.join("north.wacz"),
    );
    pack(
        &shelf,
        &index,
        "south.warc.gz",
        Index::Plain,
        &folder.join("2026/south.wacz"),
    );
    let stage = serve(&index, &shelf, &folder);
    same(&stage, FIELDS);
    let row = stage
        .get("/w/index?url=http://example.com/0&limit=1")
        .text();
    assert_contains(row, "\"source_type\": \"wacz\"");
    // Pages consist of rows, since blocks of packages need not be in the order of urlkeys.
    let north = folder.join("north.wacz");
    let stage = Stage::start(&format!("collections: {{w: {}}}\n", north.display()));
    let pages = stage.get("/w/cdx?url=http://example.com/*&showNumPages=true&pageSize=1");
    assert_eq!(pages.text(), "4\n");
}

/// Waits until the collection has this number of captures of the page, and fails with `program`
/// otherwise.
pub(super) fn until_captures(stage: &Stage, program: &str, count: usize) {
    redis_tests::until(program, || {
        let rows = stage.get("/w/index?url=http://example.com/1").text();
        rows.lines().count() == count
    });
}

#[test]
fn packages_are_added_removed_and_reported_when_damaged() {
    let mut shelf = shelf();
    let index = shelf.write_index("index.cdxj");
    let folder = shelf.path().join("packages");
    std::fs::create_dir_all(&folder).unwrap();
    let (north, south) = (folder.join("north.wacz"), folder.join("south.wacz"));
    pack(&shelf, &index, "north.warc.gz", Index::Blocks(1024), &north);
    let stage = serve(&index, &shelf, &folder);
    until_captures(&stage, "the first package is found", 1);
    pack(&shelf, &index, "south.warc.gz", Index::Blocks(2), &south);
    until_captures(&stage, "the second package is found", 3);
    std::fs::remove_file(&north).unwrap();
    until_captures(&stage, "a removed package is not read", 2);
    // Replaces the package by another one.
    pack(&shelf, &index, "north.warc.gz", Index::Plain, &south);
    until_captures(&stage, "a replaced package is read again", 1);
    for damaged in ["PK no zip", ""] {
        std::fs::write(&north, damaged).unwrap();
        redis_tests::until("the damaged package is reported", || {
            let answer = stage.get("/w/index?url=http://example.com/1");
            assert_eq!(answer.status, 200, "{}", answer.text());
            assert_eq!(
                answer.text().lines().count(),
                1,
                "rows of the others are there"
            );
            let said = answer.field("source-errors");
            said.is_some_and(|said| {
                assert_eq!(answer.field("cache-control"), Some("no-store"));
                said == r#"{"w":"incomplete, parts cannot be read"}"#
            })
        });
    }
}

#[test]
fn replaced_package_is_used_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.wacz");
    let mut stage = None;
    for round in 0..10 {
        let mut shelf = Shelf::new();
        let payload = |page: usize| format!("round {round}, page {page}. ").repeat(20 * round + 1);
        for page in 0..4 {
            let url = format!("http://example.com/{page}");
            shelf.capture("a.warc.gz", &url, TIMES[0], payload(page).as_bytes());
        }
        let index = shelf.write_index("index.cdxj");
        let form = [Index::Plain, Index::Blocks(2)][round % 2];
        pack(&shelf, &index, "a.warc.gz", form, &path);
        let stage = stage.get_or_insert_with(|| {
            Stage::start(&format!("collections: {{w: {}}}\n", path.display()))
        });
        for page in 0..4 {
            let answer = stage.get(format!("/w/{}id_/http://example.com/{page}", TIMES[0]));
            let body = answer.text();
            assert_eq!(
                (answer.status, &*body),
                (200, &*payload(page)),
                "{round} {page}"
            );
        }
    }
}

#[test]
fn intact_packages_answer_while_others_change() {
    const ANSWERS: usize = 400;
    let mut shelf = shelf();
    let index = shelf.write_index("index.cdxj");
    let folder = shelf.path().join("packages");
    std::fs::create_dir_all(&folder).unwrap();
    let stable = ["north", "south"].map(|name| folder.join(name).with_extension("wacz"));
    pack(
        &shelf,
        &index,
        "north.warc.gz",
        Index::Blocks(2),
        &stable[0],
    );
    pack(&shelf, &index, "south.warc.gz", Index::Plain, &stable[1]);
    let whole = std::fs::read(&stable[0]).unwrap();
    let stage = serve(&index, &shelf, &folder);
    until_captures(&stage, "the packages are found", TIMES.len());
    let (asked, ended) = (AtomicUsize::new(0), AtomicBool::new(false));
    // Ends the other thread even if an assertion fails.
    struct End<'a>(&'a AtomicBool);
    impl Drop for End<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let rounds = std::thread::scope(|scope| {
        let changes = scope.spawn(|| {
            let (mut rounds, mut replaced) = (0, 0);
            while !ended.load(Ordering::Relaxed) {
                let path = |n: usize| folder.join(format!("other-{n}.wacz"));
                // Copy a package slowly, in four steps, until it is complete.
                for quarter in 1..=4 {
                    std::fs::write(path(0), &whole[..whole.len() * quarter / 4]).unwrap();
                    std::thread::yield_now();
                }
                // Replace a damaged package at once.
                std::fs::write(path(1), &whole[..whole.len() / 2]).unwrap();
                std::fs::copy(&stable[1], path(2)).unwrap();
                std::fs::rename(path(2), path(1)).unwrap();
                // Replace a stable package by an identical one, once in 16 queries.
                let asked = asked.load(Ordering::Relaxed);
                if asked != replaced {
                    replaced = asked;
                    std::fs::write(folder.join("new"), &whole).unwrap();
                    std::fs::rename(folder.join("new"), &stable[0]).unwrap();
                }
                std::fs::remove_file(path(0)).unwrap();
                std::fs::remove_file(path(1)).unwrap();
                rounds += 1;
            }
            rounds
        });
        let end = End(&ended);
        for n in 0..ANSWERS {
            let page = n % 4;
            asked.store(n / 16, Ordering::Relaxed);
            let answer = stage.get(format!("/w/index?url=http://example.com/{page}"));
            assert_eq!(answer.status, 200, "{}", answer.text());
            let times: HashSet<String> = answer
                .text()
                .lines()
                .filter_map(|row| Some(row.split(' ').nth(1)?.to_owned()))
                .collect();
            assert!(
                TIMES.iter().all(|time| times.contains(*time)),
                "{}",
                answer.text()
            );
            let time = TIMES[n % 3];
            let record = stage.get(format!(
                "/w/resource?url=http://example.com/{page}&closest={time}"
            ));
            assert_eq!(record.status, 200, "{page} at {time}: {}", record.text());
        }
        drop(end);
        changes.join().unwrap()
    });
    assert!(rounds > 0);
}

#[test]
fn packages_of_the_reference_tools_are_read() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("py-wacz");
    let python = match python(&folder, &["wacz==0.6.*", "setuptools<81"]) {
        Ok(python) => python,
        Err(reason) => return left_out("wacz", &reason),
    };
    let mut shelf = shelf();
    let index = shelf.write_index("index.cdxj");
    let packages = shelf.path().join("packages");
    std::fs::create_dir_all(&packages).unwrap();
    let warc = |name: &str| -> PathBuf { shelf.path().join("warcs").join(name) };
    let mut create = Command::new(python.with_file_name("wacz"));
    create
        .args(["create", "-o"])
        .arg(packages.join("both.wacz"))
        .args([warc("north.warc.gz"), warc("south.warc.gz")]);
    run(&mut create).unwrap();
    let stage = serve(&index, &shelf, &packages);
    same(&stage, "urlkey,timestamp,url,filename,offset,length");
}
