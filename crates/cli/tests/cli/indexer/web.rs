//! Tests packages and manifests on web servers, good and bad ones.

use std::fs;

use redis_tests::archive::{Entry, Layout, Shape, store};
use redis_tests::{
    FileHost, Manners, Options, assert_contains, assert_lacks, but, ok, plain_hash, rows, with,
};
use serde_json::json;

use crate::indexer::stage::{COPY, Indexer, LIVE, Stage, assert_over};

/// Returns a shape of crawls in which no payload is stored twice, so that the order of files does
/// not matter.
fn plain() -> Shape {
    with!(Shape, plain: true, captures: 250)
}

/// Puts all files on a host, each with its own server behaviour, as `/coll/<number>.wacz`.
fn upload(stage: &Stage, host: &FileHost, manners: impl Fn(usize) -> Manners) {
    for (n, entry) in stage.folder.entries.iter().enumerate() {
        let bytes = fs::read(stage.folder.file(&entry.path)).expect("it is there");
        host.put(&format!("/coll/{n}.wacz"), &bytes, manners(n));
    }
}

/// Adds a manifest with hashes, because a hash cannot be computed from a part of a file.
fn manifest(stage: &Stage, host: &FileHost, path: impl Fn(usize, &Entry) -> String) -> Indexer {
    let entries = stage.folder.entries.iter().enumerate();
    let resources: Vec<_> = entries
        .map(|(n, e)| json!({"name": e.name, "path": path(n, e), "crawlId": e.crawl, "hash": e.hash}))
        .collect();
    let text = json!({"resources": resources}).to_string();
    host.put("/coll/all.json", text.as_bytes(), Manners::default());
    stage.import_of(host.url("/coll/all.json"))
}

fn relative(n: usize, _: &Entry) -> String {
    format!("{n}.wacz")
}

#[test]
fn remote_collection_is_imported_like_a_local_one() {
    let stage = Stage::with("web", Options::new(), 3, Shape::default());
    let host = FileHost::start();
    upload(&stage, &host, |_| Manners::default());
    manifest(&stage, &host, relative).jobs(3).succeeds();
    stage.assert_once();
    // A local manifest lists the packages by their own URLs.
    let entries = stage.folder.entries.iter().enumerate();
    let resources: Vec<_> = entries
        .map(|(n, e)| {
            let url = host.url(&format!("/coll/{n}.wacz"));
            json!({"name": e.name, "path": url, "crawlId": e.crawl, "hash": e.hash, "size": e.size})
        })
        .collect();
    let import = stage.import_list("urls.json", &resources);
    import.prefix("{urls}:").succeeds();
    stage.assert_once_in("{urls}:");
}

#[test]
fn imperfect_server_does_no_harm() {
    let stage = Stage::with("unwilling", Options::new(), 4, plain());
    let host = FileHost::start();
    let ways = [
        with!(Manners, ranges: false),
        with!(Manners, failing: Some((503, 2))),
        with!(Manners, cut: Some((5_000, 2))),
        with!(Manners, ranges: false, chunked: true),
        with!(Manners, shorter_ranges: Some(3_000)),
        with!(Manners, etag: Some("\"1\"".into())),
    ];
    upload(&stage, &host, |n| ways[n % ways.len()].clone());
    manifest(&stage, &host, relative).succeeds();
    stage.assert_once();
}

#[test]
fn only_the_index_of_a_large_file_is_fetched() {
    let stage = Stage::with("large", Options::new(), 1, but!(plain(), waczs: 1));
    let captures: Vec<_> = stage.crawls[0].captures.iter().collect();
    let indexes = Layout::CdxjGzip.members(&captures);
    let warc = vec![0x5a; 8 << 20];
    let mut members: Vec<(&str, &[u8])> = vec![("archive/data.warc.gz", &warc)];
    members.extend(indexes.iter().map(|(name, bytes)| (*name, &bytes[..])));
    members.push(("archive/more.warc.gz", &warc));
    let host = FileHost::start();
    host.put("/large.wacz", &store(&members), Manners::default());
    let (import, id) = (
        stage.import_of(host.url("/large.wacz")),
        &stage.crawls[0].id,
    );
    import.with("--crawl-id", id).succeeds();
    let sent = host.sent();
    assert!(sent < 1 << 20, "{sent} bytes were fetched");
    let mut c = stage.server.wire();
    let [live, copy] = [LIVE, COPY].map(|prefix| plain_hash(&mut c, prefix, &format!("h:{id}")));
    assert!(!live.is_empty());
    assert_eq!(copy, live);
    // The hash of the package is unknown, so its entry in the list of files has none.
    let list = ok!(c, "LINDEX", format!("{COPY}c:{id}:wacz"), 0);
    let entry: serde_json::Value = serde_json::from_slice(list.bytes()).expect("JSON");
    assert_eq!(entry["filename"], "large.wacz");
    assert_eq!(entry["hash"], serde_json::Value::Null, "{entry}");
    assert!(entry["size"].as_u64() > Some(16 << 20), "{entry}");
    assert_over(&mut c, COPY);
}

#[test]
fn unavailable_file_is_reported_and_the_others_are_imported() {
    let stage = Stage::with("bad web", Options::new(), 2, plain());
    let host = FileHost::start();
    let ways = rows![
        "gone", with!(Manners, failing: Some((404, u32::MAX)));
        "not allowed", with!(Manners, failing: Some((403, u32::MAX)));
        "another file each time", with!(Manners, total_lie: 7);
        "other bytes than asked for", with!(Manners, range_lie: 5);
        "round and round", with!(Manners, redirect: Some("/coll/1.wacz".into()));
    ];
    for (n, (what, bad)) in ways.into_iter().enumerate() {
        let prefix = format!("{{web-{n}}}:");
        let only_one = |n| {
            if n == 1 {
                bad.clone()
            } else {
                Manners::default()
            }
        };
        upload(&stage, &host, only_one);
        let import = manifest(&stage, &host, relative).prefix(&prefix);
        let failed = import.fails_some();
        println!("{what}: {failed:?}");
        let expected = [&stage.folder.entries[1].name];
        assert_eq!(failed.keys().collect::<Vec<_>>(), expected, "{what}");
        let done = ok!(stage.server.wire(), "SCARD", format!("{prefix}src:d")).int();
        assert_eq!(done as usize, stage.folder.entries.len() - 1, "{what}");
        upload(&stage, &host, |_| Manners::default());
        import.succeeds();
        stage.assert_once_in(&prefix);
    }
}

#[test]
fn remote_manifest_cannot_name_local_files() {
    let stage = Stage::with("elsewhere", Options::new(), 1, plain());
    let host = FileHost::start();
    upload(&stage, &host, |_| Manners::default());
    let here = stage.folder.file(&stage.folder.entries[0].path);
    let url = format!("file://{}", here.display()).replace(' ', "%20");
    for path in [here.to_string_lossy().into_owned(), url] {
        let import = manifest(&stage, &host, |n, e| {
            if n == 0 { path.clone() } else { relative(n, e) }
        });
        let failed = import.fails_some();
        let expected = [&stage.folder.entries[0].name];
        assert_eq!(failed.keys().collect::<Vec<_>>(), expected, "{path}");
    }
}

#[test]
fn unavailable_manifest_is_reported() {
    let stage = Stage::with("no manifest", Options::new(), 1, plain());
    let host = FileHost::start();
    host.put("/page.json", b"<html>Not found</html>", Manners::default());
    for path in ["/nothing.json", "/page.json"] {
        let errors = stage.import_of(host.url(path)).fails();
        assert_contains(&errors, path);
    }
    let keys = ok!(stage.server.wire(), "KEYS", format!("{COPY}*"));
    assert_eq!(keys.items(), []);
}

#[test]
fn secrets_in_urls_are_not_shown() {
    let stage = Stage::with("secrets", Options::new(), 1, plain());
    let host = FileHost::start();
    upload(&stage, &host, |_| Manners::default());
    let signed = |n: usize, _: &Entry| format!("missing/{n}.wacz?signature=s3cret");
    let ended = manifest(&stage, &host, signed).run();
    assert_eq!(ended.status.code(), Some(1));
    assert_lacks(&ended.errors, "s3cret");
    assert_lacks(&ended.out, "s3cret");
    let source = host.url("/nothing.json?signature=s3cret");
    let ended = stage.import_of(&source).run();
    assert_lacks(&ended.errors, "s3cret");

    // The importer sends the signatures to the server.
    let signed = |n: usize, e: &Entry| format!("{}?signature=s3cret", relative(n, e));
    for (n, entry) in stage.folder.entries.iter().enumerate() {
        let bytes = fs::read(stage.folder.file(&entry.path)).expect("it is there");
        let path = format!("/coll/{n}.wacz?signature=s3cret");
        host.put(&path, &bytes, Manners::default());
    }
    manifest(&stage, &host, signed).succeeds();
    stage.assert_once();
}
