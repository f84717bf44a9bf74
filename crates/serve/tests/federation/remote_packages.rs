//! Tests of WACZ files on web servers: indexes and records read by ranges, lists of packages, and nested packages.

use std::fs::{File, read};
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

use crawlspace_wacz::Index;
use redis_tests::archive as zip;
use redis_tests::{FileHost, Manners, assert_contains, but, until};
use serde_json::json;

use crate::packages::{FIELDS, TIMES, config, pack, same, shelf, until_captures};
use crate::serving::Stage;
use crate::shelf::Shelf;

/// Creates two packages of a shelf's files in its folder. Returns the path of its index, and the packages.
fn packed(shelf: &mut Shelf) -> (String, Vec<u8>, Vec<u8>) {
    let index = shelf.write_index("index.cdxj");
    let make = |file: &str, how: Index| {
        let path = shelf.path().join(file).with_extension("wacz");
        pack(shelf, &index, file, how, &path);
        read(path).unwrap()
    };
    let north = make("north.warc.gz", Index::Blocks(2));
    let south = make("south.warc.gz", Index::Plain);
    (index, north, south)
}

fn tagged(etag: &str) -> Manners {
    but!(Manners::default(), etag: Some(format!("\"{etag}\"")))
}

fn list(entries: &[(&str, &str)]) -> Vec<u8> {
    let entries = entries.iter();
    let entries: Vec<_> = entries
        .map(|(path, hash)| json!({"name": "x", "path": path, "hash": hash}))
        .collect();
    json!({"resources": entries}).to_string().into_bytes()
}

#[test]
fn remote_packages_answer_like_their_content() {
    let mut shelf = shelf();
    let (index, north, south) = packed(&mut shelf);
    let host = FileHost::start();
    host.put("/a/north.wacz", &north, tagged("n"));
    host.put("/south.wacz?signed=1", &south, tagged("s"));
    let elsewhere = host.url("/south.wacz?signed=1");
    let packages = list(&[("a/north.wacz", "sha256:1"), (&elsewhere, "sha256:2")]);
    host.put("/collection.json", &packages, tagged("l"));
    // A local list names packages on the server, and a list on the server names the packages next to it.
    let here = shelf.path().join("here.json");
    let north_there = host.url("/a/north.wacz");
    std::fs::write(&here, list(&[(&north_there, ""), (&elsewhere, "")])).unwrap();
    for at in [host.url("/collection.json"), here.display().to_string()] {
        let stage = Stage::start(&config(&index, &shelf, &at));
        same(&stage, FIELDS);
        let row = stage
            .get("/w/index?url=http://example.com/0&limit=1")
            .text();
        assert_contains(row, "\"source_type\": \"wacz\"");
    }
    // A URL that ends in .wacz needs no further configuration.
    let stage = Stage::start(&format!("collections: {{w: {north_there}}}\n"));
    until_captures(&stage, "the package is read", 1);
    let asked = host.requests();
    let ranged = asked.iter().filter(|one| one.path.contains(".wacz"));
    assert!(ranged.clone().all(|one| one.status == 206));
}

#[test]
fn failing_or_hanging_list_entry_is_missing_and_the_others_answer() {
    let mut shelf = shelf();
    let (index, north, south) = packed(&mut shelf);
    let host = FileHost::start();
    let silent = but!(tagged("s"), silent_after: Some(10));
    host.put("/north.wacz", &north, tagged("n"));
    host.put("/south.wacz", &south, tagged("s"));
    host.put("/hangs.wacz", &north, silent);
    host.put("/empty.wacz", b"", tagged("e"));
    let said = r#"{"w":"incomplete, parts cannot be read"}"#;
    for (wrong, why) in [
        ("hangs.wacz", "timeout"),
        ("none.wacz", "HTTP status 404"),
        ("empty.wacz", "empty.wacz"),
    ] {
        let list = list(&[(wrong, ""), ("north.wacz", ""), ("south.wacz", "")]);
        host.put("/list.json", &list, tagged(wrong));
        let stage = Stage::start(&config(&index, &shelf, &host.url("/list.json")));
        for page in 0..3 {
            let answer = stage.get(format!("/w/index?url=http://example.com/{page}"));
            assert_eq!(answer.status, 200, "{wrong}: {}", answer.text());
            let rows = if page == 0 {
                TIMES.len() + 1
            } else {
                TIMES.len()
            };
            assert_eq!(answer.text().lines().count(), rows, "{wrong}");
            assert_eq!(answer.field("source-errors"), Some(said), "{wrong}");
            assert_eq!(answer.field("cache-control"), Some("no-store"), "{wrong}");
        }
        let status = redis_tests::http::get(stage.operator(), "/_status").text();
        assert_contains(&status, wrong);
        assert_contains(&status, why);
    }
    // A package that hangs after it was opened delays the other packages by only a part of the timeout.
    let list = list(&[("south.wacz", ""), ("north.wacz", "")]);
    host.put("/list.json", &list, tagged("l"));
    let stage = Stage::start(&config(&index, &shelf, &host.url("/list.json")));
    until_captures(&stage, "both packages are open", TIMES.len());
    host.put(
        "/north.wacz",
        &north,
        but!(tagged("n"), silent_after: Some(10)),
    );
    let answer = stage.get("/w/index?url=http://example.com/3");
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(answer.text().lines().count() >= TIMES.len() - 1);
}

#[test]
fn nested_packages_are_read_in_place() {
    let mut shelf = shelf();
    let (index, north, south) = packed(&mut shelf);
    let host = FileHost::start();
    host.put("/south.wacz", &south, tagged("s"));
    let about = |paths: &[&str]| {
        let resources: Vec<_> = paths.iter().map(|path| json!({"path": path})).collect();
        json!({"profile": "multi-wacz-package", "resources": resources}).to_string()
    };
    let both = about(&["north.wacz", "south.wacz"]);
    let whole = zip::store(&[
        ("datapackage.json", both.as_bytes()),
        ("north.wacz", &north),
        ("south.wacz", &south),
    ]);
    let half = zip::store(&[
        ("datapackage.json", both.as_bytes()),
        ("north.wacz", &north),
    ]);
    host.put("/whole.wacz", &whole, tagged("w"));
    host.put("/half.wacz", &half, tagged("h"));
    host.put(
        "/multi.json",
        list(&[("north.wacz", ""), ("south.wacz", "")]).as_slice(),
        tagged("m"),
    );
    host.put("/north.wacz", &north, tagged("n"));
    let here = shelf.path().join("whole.wacz");
    std::fs::write(&here, &whole).unwrap();
    for at in [
        here.display().to_string(),
        host.url("/whole.wacz"),
        host.url("/half.wacz"),
        host.url("/multi.json"),
    ] {
        let stage = Stage::start(&config(&index, &shelf, &at));
        same(&stage, FIELDS);
    }
}

/// Writes a sparse package of ten gigabytes: the hole is an empty WARC file between a WARC file with records and the
/// indexes.
fn sparse(path: &Path, members: &[(&str, &[u8])]) {
    const HOLE: u64 = 10 << 30;
    let mut file = File::create(path).unwrap();
    let (mut directory, mut count) = (Vec::new(), 0_u64);
    let mut put = |name: &str, size: u64, bytes: &[u8]| {
        let header = file.stream_position().unwrap();
        let mut crc = flate2::Crc::new();
        crc.update(bytes);
        // Names are UTF-8, members are stored without time, and sizes are in the zip64 field.
        let mut head = Vec::from(*b"\x2d\0\0\x08\0\0\0\0\x21\0");
        head.extend(crc.sum().to_le_bytes());
        head.extend([0xff; 8]);
        head.extend((name.len() as u16).to_le_bytes());
        let sizes = [size.to_le_bytes(), size.to_le_bytes()].concat();
        let local = [&b"\x01\0\x10\0"[..], &sizes].concat();
        let central = [&b"\x01\0\x18\0"[..], &sizes, &header.to_le_bytes()].concat();
        let length = |extra: &[u8]| (extra.len() as u16).to_le_bytes();
        let all = [
            b"PK\x03\x04",
            &head[..],
            &length(&local),
            name.as_bytes(),
            &local,
            bytes,
        ];
        file.write_all(&all.concat()).unwrap();
        file.seek(SeekFrom::Current((size - bytes.len() as u64) as i64))
            .unwrap();
        directory.extend(b"PK\x01\x02\x2d\0");
        directory.extend(&head);
        directory.extend(length(&central));
        directory.extend([0; 10]);
        directory.extend([0xff; 4]);
        directory.extend(name.as_bytes());
        directory.extend(central);
        count += 1;
    };
    let (first, rest) = members.split_first().unwrap();
    put(first.0, first.1.len() as u64, first.1);
    put("archive/hole.warc.gz", HOLE, b"");
    for (name, bytes) in rest {
        put(name, bytes.len() as u64, bytes);
    }
    let start = file.stream_position().unwrap();
    let mut end = directory.clone();
    let here = start + directory.len() as u64;
    end.extend(b"PK\x06\x06");
    end.extend(44_u64.to_le_bytes());
    end.extend(b"\x2d\0\x2d\0\0\0\0\0\0\0\0\0");
    for number in [count, count, directory.len() as u64, start] {
        end.extend(number.to_le_bytes());
    }
    end.extend(b"PK\x06\x07\0\0\0\0");
    end.extend(here.to_le_bytes());
    end.extend(1_u32.to_le_bytes());
    end.extend(b"PK\x05\x06\0\0\0\0");
    end.extend([0xff; 12]);
    end.extend([0; 2]);
    file.write_all(&end).unwrap();
}

#[test]
fn first_capture_of_a_10_gb_package_takes_few_requests() {
    let mut shelf = shelf();
    for page in 0..30_000 {
        let url = format!("http://many.example/{page}");
        let slot = crate::shelf::Slot {
            file: "south.warc.gz".to_owned(),
            offset: page,
            length: 10,
        };
        shelf.line(&url, "20160101000000", &slot, "");
    }
    let index = shelf.write_index("index.cdxj");
    let whole = shelf.path().join("south.wacz");
    pack(&shelf, &index, "south.warc.gz", Index::Blocks(1024), &whole);
    let of = |name: &str| zip::member(&whole, name);
    let large = shelf.path().join("large.wacz");
    sparse(
        &large,
        &[
            ("archive/south.warc.gz", &of("archive/south.warc.gz")),
            ("indexes/index.cdx.gz", &of("indexes/index.cdx.gz")),
            ("indexes/index.idx", &of("indexes/index.idx")),
            ("datapackage.json", &of("datapackage.json")),
        ],
    );
    let host = FileHost::start();
    host.put_file("/large.wacz", &large, tagged("large"));
    let at = host.url("/large.wacz");
    let stage = Stage::start(&config(&index, &shelf, &at));
    let target = "/w/resource?url=http://example.com/2&closest=20160101000000";
    let answer = stage.get(target);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let expected = stage.get(target.replace("/w/", "/c/"));
    assert!(answer.body == expected.body);
    let (requests, sent) = (host.take_requests(), host.sent());
    let shown: Vec<_> = requests
        .iter()
        .map(|one| (&one.fields["range"], one.sent.1))
        .collect();
    let bytes: u64 = requests.iter().map(|one| one.sent.1).sum();
    assert!(
        requests.len() <= 10 && bytes <= 3 << 20,
        "{bytes} {sent}: {shown:?}"
    );
    // The next record takes a single request.
    let answer = stage.get("/w/resource?url=http://example.com/1&closest=20160101000000");
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(host.take_requests().len(), 1);
    // An index query needs no additional request.
    let rows = stage.get("/w/index?url=http://example.com/3");
    assert_eq!(rows.text().lines().count(), 2);
    assert_eq!(host.requests().len(), 0);
}

#[test]
fn changed_or_removed_remote_package_is_noticed() {
    let mut shelf = shelf();
    let (index, north, south) = packed(&mut shelf);
    let host = FileHost::start();
    let put = |bytes: &[u8], etag| host.put("/a.wacz", bytes, tagged(etag));
    put(&south, "1");
    let stage = Stage::start(&config(&index, &shelf, &host.url("/a.wacz")));
    until_captures(&stage, "the package is read", 2);
    put(&north, "2");
    // Reading a record reveals the change, after which cached data of the old package is discarded.
    until("the new package is read", || {
        stage.get("/w/resource?url=http://example.com/1&closest=2018");
        let rows = stage.get("/w/index?url=http://example.com/1").text();
        rows.lines().count() == 1
    });
    let record = stage.get("/w/resource?url=http://example.com/1");
    assert_eq!(record.status, 200, "{}", record.text());
    host.remove("/a.wacz");
    until("the removed package is noticed", || {
        stage.get("/w/resource?url=http://example.com/1");
        let answer = stage.get("/w/index?url=http://example.com/1");
        answer.status == 502
    });
    let status = redis_tests::http::get(stage.operator(), "/_status").text();
    assert_contains(status, "HTTP status 404");
    put(&south, "3");
    until_captures(&stage, "the package is available again", 2);
}

#[test]
fn same_package_at_another_url_is_not_read_again() {
    let mut shelf = shelf();
    let (index, _, south) = packed(&mut shelf);
    let host = FileHost::start();
    let at = |number: u32| format!("/south.wacz?signature={number}");
    host.put(&at(1), &south, tagged("s"));
    let entries = |number| list(&[(&host.url(&at(number)), "sha256:0")]);
    host.put("/collection.json", &entries(1), tagged("1"));
    let stage = Stage::start(&config(&index, &shelf, &host.url("/collection.json")));
    until_captures(&stage, "the package is read", 2);
    // The first URL has expired, and the list has a new one.
    host.remove(&at(1));
    host.put(&at(2), &south, tagged("s"));
    host.put("/collection.json", &entries(2), tagged("2"));
    until("records are read at the new URL", || {
        let record = stage.get("/w/resource?url=http://example.com/1&closest=2018");
        record.status == 200
    });
    until_captures(&stage, "the package is read", 2);
}

#[test]
fn server_errors_are_reported_and_forbidden_urls_not_fetched() {
    let mut shelf = shelf();
    let (index, north, _) = packed(&mut shelf);
    let host = FileHost::start();
    let large = vec![0; 17 << 20];
    host.put("/whole.wacz", &large, but!(tagged("w"), ranges: false));
    host.put("/damaged.wacz", &north[..north.len() - 40], tagged("d"));
    host.put(
        "/silent.wacz",
        &north,
        but!(tagged("s"), silent_after: Some(10)),
    );
    let files = list(&[("file:///etc/passwd", ""), ("s3://bucket/a.wacz", "")]);
    host.put("/files.json", &files, tagged("f"));
    host.put("/no.json", b"{}", tagged("n"));
    for (path, why) in [
        ("/whole.wacz", "sends the whole file"),
        ("/damaged.wacz", "not a WACZ file"),
        ("/none.wacz", "HTTP status 404"),
        ("/files.json", "may refer to"),
        ("/no.json", "no list"),
    ] {
        let stage = Stage::start(&config(&index, &shelf, &host.url(path)));
        let answer = stage.get("/w/index?url=http://example.com/1");
        let is_empty = answer.status == 200 && answer.text().is_empty();
        assert!(
            answer.status == 502 || is_empty && path == "/files.json",
            "{path}"
        );
        let status = redis_tests::http::get(stage.operator(), "/_status").text();
        assert_contains(status, why);
    }
    let stage = Stage::start(&config(&index, &shelf, &host.url("/silent.wacz")));
    let answer = stage.get("/w/index?url=http://example.com/1");
    assert_eq!(answer.status, 504, "{}", answer.text());
    // The guard checks all addresses, including the addresses in lists.
    let listed = shelf.path().join("listed.json");
    std::fs::write(&listed, list(&[(&host.url("/a.wacz"), "")])).unwrap();
    host.take_requests();
    for at in [host.url("/a.wacz"), listed.display().to_string()] {
        let stage = Stage::start_guarded(&config(&index, &shelf, &at));
        assert_eq!(stage.get("/w/index?url=http://example.com/1").status, 502);
        let status = redis_tests::http::get(stage.operator(), "/_status").text();
        assert_contains(status, "not a public address");
    }
    assert_eq!(host.requests().len(), 0);
}
