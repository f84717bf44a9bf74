//! Tests imports while crawlers write to the index themselves: their records are not counted again,
//! and no running crawl is removed.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use redis_tests::archive::Entry;
use redis_tests::{Snapshot, Wire, assert_contains, but, int, ok, set_key};
use serde_json::{Value, json};

use crate::indexer::stage::{COPY, LIVE, Outcome, Stage};

/// Returns the keys of an index that describe crawls and counts.
fn index(c: &mut Wire, p: &str) -> Snapshot {
    let is_progress = |key: &[u8]| key == b"last_update_ts" || key == b"allcounts";
    Snapshot::of_keys(c, |key| key.starts_with(p.as_bytes()))
        .under(p)
        .without(is_progress)
}

/// Adds a crawl that runs during the import: it has finished one file, and is not committed.
fn running(c: &mut Wire, p: &str, entry: &Entry) {
    let hash = redis_tests::sha256_of(1 << 41);
    let (crawl, name) = (&entry.crawl, &entry.name);
    assert_eq!(ok!(c, "DEDUPE.WACZOPEN", p, crawl, name), int(0));
    let (date, url) = ("20260319102015123", "https://example.org/");
    ok!(c, "DEDUPE.ADD", p, crawl, hash, 0, date, url, 5000);
    ok!(
        c,
        "DEDUPE.WACZCLOSE",
        p,
        crawl,
        0,
        name,
        &entry.hash,
        entry.size
    );
}

#[test]
fn records_added_by_crawlers_are_not_counted_again() {
    let stage = Stage::new("written by crawlers");
    let mut c = stage.server.wire();
    // Crawlers with --dedupeConcurrent never write `src:d`.
    ok!(c, "DEL", format!("{LIVE}src:d"));
    let before = Outcome::of(&mut c, LIVE);
    let import = stage.import().prefix(LIVE);
    for _ in 0..2 {
        let report = import.clone().jobs(2).succeeds();
        assert_eq!(report["alreadyInIndex"], stage.folder.entries.len());
        for none in ["imported", "alreadyImported", "lines"] {
            assert_eq!(report[none], 0, "{none}");
        }
        Outcome::of(&mut c, LIVE)
            .without_removed()
            .assert_same(&before, "an import into the live index");
    }
    let table = import.without("--json").run();
    assert_contains(&table.out, "already in the index");
}

#[test]
fn files_of_an_uncommitted_crawl_are_not_counted_again() {
    let stage = Stage::new("not committed");
    let mut c = stage.server.wire();
    let entry = &stage.folder.entries[0];
    let entry = but!(entry.clone(), crawl: "running".into());
    running(&mut c, COPY, &entry);
    let before = index(&mut c, COPY);
    let manifest = stage
        .folder
        .manifest_of("running.json", std::slice::from_ref(&entry));
    let report = stage.import_of(&manifest).succeeds();
    assert_eq!(report["alreadyInIndex"], 1);
    assert_eq!(report["imported"], 0);
    index(&mut c, COPY).assert_same(&before, "no record is added");
    assert_eq!(
        set_key(&mut c, &format!("{COPY}uncommittedcrawls")),
        ["running"]
    );

    // A file that the crawl has opened but not closed does not count as indexed.
    let second = &stage.folder.entries[1];
    let second = but!(second.clone(), crawl: "running".into());
    ok!(c, "DEDUPE.WACZOPEN", COPY, "running", &second.name);
    let manifest = stage.folder.manifest_of("both.json", &[entry, second]);
    let report = stage.import_of(&manifest).succeeds();
    let counts = ["alreadyInIndex", "imported"].map(|name| report[name].as_u64());
    assert_eq!(counts, [Some(1), Some(1)]);
}

#[test]
fn files_of_an_unlisted_crawl_are_not_counted_again() {
    // Create the state that a crawler with its own Redis leaves.
    let stage = Stage::new("in no set");
    let mut c = stage.server.wire();
    let entry = but!(stage.folder.entries[0].clone(), crawl: "unlisted".into());
    running(&mut c, COPY, &entry);
    ok!(c, "SREM", format!("{COPY}uncommittedcrawls"), "unlisted");
    let before = index(&mut c, COPY);
    let manifest = stage.folder.manifest_of("unlisted.json", &[entry]);
    let report = stage.import_of(&manifest).succeeds();
    assert_eq!(report["alreadyInIndex"], 1);
    index(&mut c, COPY).assert_same(&before, "no record is added");
}

#[test]
fn replaced_file_is_reported_and_not_counted_again() {
    let stage = Stage::new("replaced");
    let mut c = stage.server.wire();
    for keep_done in [true, false] {
        if !keep_done {
            ok!(c, "DEL", format!("{LIVE}src:d"));
        }
        let before = Outcome::of(&mut c, LIVE);
        let one = &stage.folder.entries[0];
        let other = format!("sha256:{:064}", 7);
        for entry in [
            but!(one.clone(), size: one.size + 1),
            but!(one.clone(), hash: other),
        ] {
            let entry = json!({"name": entry.name, "path": entry.path, "crawlId": entry.crawl,
                "hash": entry.hash, "size": entry.size});
            let mut list = vec![entry];
            let others = stage.folder.entries[1..].iter();
            list.extend(others.map(crate::indexer::stage::unsized_entry));
            let failed = stage
                .import_list("replaced.json", &list)
                .prefix(LIVE)
                .fails_some();
            assert_eq!(failed.keys().collect::<Vec<_>>(), [&one.name]);
            assert_contains(&failed[&one.name], "remove that crawl and import again");
            let after = Outcome::of(&mut c, LIVE).without_removed();
            after.assert_same(&before, "no record is counted");
        }
    }
}

#[test]
fn queued_entries_of_imported_files_are_dequeued() {
    let stage = Stage::new("queued and there");
    let mut c = stage.server.wire();
    ok!(c, "DEL", format!("{LIVE}src:d"));
    let before = Outcome::of(&mut c, LIVE);
    for entry in &stage.folder.entries {
        let path = stage.folder.file(&entry.path);
        let item = json!({"name": entry.name, "url": path, "crawlId": entry.crawl});
        ok!(c, "SADD", format!("{LIVE}src:qset"), &entry.name);
        ok!(c, "LPUSH", format!("{LIVE}src:q"), item.to_string());
    }
    let file = stage.folder.file(&stage.folder.entries[0].path);
    let crawl = &stage.folder.entries[0].crawl;
    let name = &stage.folder.entries[0].name;
    let one = json!({"name": name, "path": file, "crawlId": crawl});
    let report = stage
        .import_list("one.json", &[one])
        .prefix(LIVE)
        .succeeds();
    assert_eq!(report["imported"], 0);
    assert_eq!(ok!(c, "EXISTS", format!("{LIVE}src:q")), int(0));
    let after = Outcome::of(&mut c, LIVE).without_removed();
    after.assert_same(&before, "packages queued by other importers");
}

/// Imports everything except the crawls in `gone`, and removes the crawls that this import does not list.
fn removing(stage: &Stage, gone: &[&str]) -> Value {
    let rest = stage.files_that(|entry| !gone.contains(&&entry.crawl[..]));
    let import = stage.import_of(stage.folder.manifest_of("rest.json", &rest));
    import.flag("--remove").succeeds()
}

#[test]
fn running_crawl_is_not_removed() {
    let stage = Stage::new("runs");
    stage.import().succeeds();
    let mut c = stage.server.wire();
    let crawl = &stage.crawls[2].id;
    // A crawl with --dedupeConcurrent is in `allcrawls` from its start.
    let open = format!(r#"{{"filename":"{crawl} open.wacz"}}"#);
    let list = format!("{COPY}c:{crawl}:wacz");
    ok!(c, "RPUSH", &list, open);
    let before = index(&mut c, COPY);
    let import = stage.files_that(|entry| entry.crawl != *crawl);
    let source = stage.folder.manifest_of("rest.json", &import);
    for import in [
        stage.import_of(&source),
        stage.import_of(&source).flag("--remove"),
    ] {
        let report = import.succeeds();
        let left = report["leftInPlace"].as_array().expect("a list");
        assert_eq!(left.len(), 1, "{left:?}");
        assert_eq!(left[0]["crawl"], *crawl);
        assert_contains(left[0]["reason"].as_str().expect("a text"), "open.wacz");
        assert_eq!(report["unlistedCrawls"], 0);
        index(&mut c, COPY).assert_same(&before, "the running crawl is unchanged");
    }
    // A running crawl does not prove that the manifest is the right one.
    let empty = stage.import_list("empty.json", &[]).flag("--remove");
    assert_contains(empty.fails(), "empty");
    ok!(c, "RPOP", &list);
    assert_eq!(removing(&stage, &[crawl])["removedCrawls"], 1);
    ok!(c, "DEDUPE.REMOVE", LIVE, crawl);
    stage.assert_once();
}

#[test]
fn crawl_with_failed_files_does_not_count_as_running() {
    let stage = Stage::new("failed and gone");
    let mut c = stage.server.wire();
    let crawl = &stage.crawls[0].id;
    let mut files = stage.folder.entries.clone();
    let bad = but!(files[0].clone(), name: "bad.wacz".into(), path: "missing.wacz".into());
    files.insert(1, bad);
    let source = stage.folder.manifest_of("bad.json", &files);
    stage.import_of(&source).fails_some();
    let failed = format!("{COPY}src:f");
    assert_eq!(set_key(&mut c, &failed), ["bad.wacz"]);
    assert_eq!(removing(&stage, &[crawl])["removedCrawls"], 1);
    assert_eq!(ok!(c, "EXISTS", failed), int(0));
    ok!(c, "DEDUPE.REMOVE", LIVE, crawl);
    stage.assert_once();
}

#[test]
fn crawl_of_a_running_browsertrix_import_is_not_removed() {
    let stage = Stage::new("listed elsewhere");
    stage.import().succeeds();
    let mut c = stage.server.wire();
    let crawl = &stage.crawls[2].id;
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("a date");
    let run = format!("{COPY}noremove:{}", now.as_millis());
    ok!(c, "SADD", &run, crawl);
    let report = removing(&stage, &[crawl]);
    assert_eq!(report["removedCrawls"], 0);
    assert_eq!(report["leftInPlace"][0]["crawl"], *crawl);
    // While Browsertrix's purge runs, it is unknown which crawls it will restore.
    let [all, outgoing] = ["allcrawls", "to-remove-crawls"].map(|name| format!("{COPY}{name}"));
    ok!(c, "SMOVE", &all, &outgoing, crawl);
    let rest = stage.files_that(|entry| entry.crawl != *crawl);
    let import = stage.import_of(stage.folder.manifest_of("rest.json", &rest));
    assert_contains(import.flag("--remove").fails(), "import again");
    ok!(c, "SMOVE", &outgoing, &all, crawl);
    // A run that died a day ago does not keep any crawl.
    let day = now.as_millis() - 25 * 3600 * 1000;
    ok!(c, "RENAME", &run, format!("{COPY}noremove:{day}"));
    assert_eq!(removing(&stage, &[crawl])["removedCrawls"], 1);
}

#[test]
fn pending_browsertrix_revisits_are_counted_at_most_once() {
    let stage = Stage::new("waiting");
    let mut c = stage.server.wire();
    ok!(c, "DEDUPE.PROFILE", COPY, "browsertrix");
    // Browsertrix's importer added a crawl with two revisits of a payload that it had not seen.
    let first = stage.crawls[0].captures.iter();
    let original = first
        .filter(|capture| capture.kind == redis_tests::archive::Kind::Response)
        .max_by_key(|capture| capture.size)
        .expect("a response");
    let hash = original.hash();
    let bare = hash.rsplit(':').next().expect("a part").to_owned();
    let (count, bytes) = (2, 1200);
    let size = original.size as i64;
    ok!(c, "SADD", format!("{COPY}allcrawls"), "theirs");
    for counts in ["h:theirs:counts", "allcounts"] {
        for field in ["totalUrls", "dupeUrls"] {
            ok!(c, "HINCRBY", format!("{COPY}{counts}"), field, count);
        }
    }
    let wacz = r#"{"filename":"theirs.wacz","hash":"00","size":7}"#;
    ok!(c, "RPUSH", format!("{COPY}c:theirs:wacz"), wacz);
    ok!(c, "SADD", format!("{COPY}src:d"), "theirs.wacz");
    let waiting = [("c", count), ("s", bytes)].map(|(part, n)| {
        let key = format!("{COPY}rev:{bare}:{part}");
        ok!(c, "HSET", &key, "theirs", n);
        key
    });
    let entries = stage.folder.entries.iter();
    let mut list: Vec<Value> = entries.map(crate::indexer::stage::unsized_entry).collect();
    list.push(json!({"name": "theirs.wacz", "path": "theirs.wacz", "crawlId": "theirs"}));
    for _ in 0..2 {
        stage.import_list("theirs.json", &list).succeeds();
        let counts = format!("{COPY}h:theirs:counts");
        let counted = ok!(c, "HGET", &counts, "totalUrls");
        assert_eq!(counted.text(), count.to_string());
        let saved = ok!(c, "HGET", &counts, "conservedSize");
        let waits = ok!(c, "EXISTS", &waiting[0], &waiting[1]).int();
        // The commit of the original settles the revisits, which are then no longer set aside.
        match waits {
            0 => assert_eq!(saved.text(), (count * size - bytes).to_string()),
            _ => assert!(saved.is_nil() && waits == 2, "{saved:?} {waits}"),
        }
    }
}

/// Returns the commands by which the guide replaces what Browsertrix's importer added.
fn again(guide: &str) -> Vec<String> {
    let begin = guide.find("crawlspace dedupe remove").expect("a command");
    let end = guide[begin..].find("```").expect("an end") + begin;
    guide[begin..end].lines().map(str::to_owned).collect()
}

#[test]
fn crawl_imported_again_after_browsertrix_names_the_right_files() {
    let stage = Stage::new("imported by Browsertrix");
    stage.import().succeeds();
    let mut c = stage.server.wire();
    // Browsertrix's importer records every capture as being in the first file.
    for crawl in &stage.crawls {
        let key = format!("{COPY}h:{}", crawl.id);
        for (hash, record) in ok!(c, "HGETALL", &key).pairs() {
            let record = record.text();
            let (_, rest) = record.split_once(' ').expect("an index");
            ok!(c, "HSET", &key, hash.text(), format!("0 {rest}"));
        }
    }
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/import.md");
    let guide = fs::read_to_string(guide).expect("the guide");
    let crawls: Vec<String> = stage
        .crawls
        .iter()
        .map(|crawl| format!("'{}'", crawl.id))
        .collect();
    let tool = env!("CARGO_BIN_EXE_crawlspace");
    let url = stage.server.url();
    for line in again(&guide) {
        let line = line.replace("crawl-1 crawl-2", &crawls.join(" "));
        let line = line.replace("collection.json", &stage.folder.manifest());
        let line = line.replacen("crawlspace ", &format!("{tool} "), 1);
        let line = line.replace("'{coll-42}:'", &format!("'{COPY}'"));
        let mut shell = std::process::Command::new("sh");
        let ended = shell
            .args(["-c", &line])
            .env("CRAWLSPACE_REDIS", &url)
            .output();
        let ended = ended.expect("a shell");
        let errors = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success(), "{line}: {errors}");
    }
    stage.assert_once();
}
