//! Tests interoperation with Browsertrix's own importer: its queue entries, guards, counts and option names.

use std::collections::BTreeMap;
use std::fs;

use redis_tests::archive::{Crawl, Kind, Shape};
use redis_tests::{
    Options, Relay, Reply, Server, Wire, assert_contains, assert_starts, counts, int, ok, set_key,
    until,
};
use serde_json::{Value, json};

use crate::indexer::guards::larger;
use crate::indexer::stage::{
    COPY, LIVE, Outcome, Stage, assert_over, in_the_middle, killed, report, succeeded,
};

/// Assumed size of a revisit, in bytes.
const REVISIT: u64 = 1000;

/// Queues files like Browsertrix's importer: a manifest entry unchanged, with `url`.
fn queue(c: &mut Wire, stage: &Stage, names: impl Iterator<Item = usize>) {
    for n in names {
        let entry = &stage.folder.entries[n];
        let path = stage.folder.file(&entry.path);
        let item = match n % 2 {
            0 => json!({"name": entry.name, "path": path, "hash": entry.hash, "size": entry.size,
                "crawlId": entry.crawl, "url": path, "other": [1]}),
            _ => json!({"url": path, "name": entry.name, "crawlId": entry.crawl}),
        };
        ok!(c, "SADD", format!("{COPY}src:qset"), &entry.name);
        ok!(c, "LPUSH", format!("{COPY}src:q"), item.to_string());
    }
}

#[test]
fn packages_queued_by_browsertrix_are_imported_and_committed() {
    let stage = Stage::new("queued by Browsertrix");
    let mut c = stage.server.wire();
    queue(&mut c, &stage, 0..stage.folder.entries.len());
    stage.import().jobs(2).succeeds();
    stage.assert_once();
}

#[test]
fn packages_queued_by_browsertrix_are_committed_with_any_manifest() {
    let stage = Stage::new("queued and not listed");
    let mut c = stage.server.wire();
    let last = &stage.crawls[2].id;
    let is_last = |n: &usize| stage.folder.entries[*n].crawl == *last;
    let (listed, queued): (Vec<_>, Vec<_>) = (0..stage.folder.entries.len()).partition(is_last);
    queue(&mut c, &stage, queued.into_iter());
    let files = listed.iter().map(|&n| stage.folder.entries[n].clone());
    let files: Vec<_> = files.collect();
    let source = stage.folder.manifest_of("last.json", &files);
    stage.import_of(&source).succeeds();
    assert_over(&mut c, COPY);
    assert_eq!(set_key(&mut c, &format!("{COPY}allcrawls")).len(), 3);
    let uncommitted = set_key(&mut c, &format!("{COPY}uncommittedcrawls"));
    assert_eq!(uncommitted.len(), 0);
    let [live, copy] = stage.both();
    assert_eq!(copy.count("removedCrawls"), 2, "two crawls are unlisted");
    copy.without_removed()
        .assert_same(&live, "packages queued by both importers");
}

#[test]
fn invalid_queue_entries_are_reported_and_the_others_are_imported() {
    let stage = Stage::new("entries that cannot be read");
    let mut c = stage.server.wire();
    queue(&mut c, &stage, 0..stage.folder.entries.len());
    let bad = [
        r#"{"url": "/crawls/a.wacz"}"#,
        r#"{"name": 7, "path": "/crawls/b.wacz"}"#,
        r#"{"name": "lost.wacz"}"#,
        "[1]",
        "\"text\"",
        "7",
        "no JSON",
        "",
        "\u{e9}{",
    ];
    for (n, item) in bad.into_iter().enumerate() {
        let push = if n % 2 == 0 { "LPUSH" } else { "RPUSH" };
        ok!(c, push, format!("{COPY}src:q"), item);
    }
    let pending = format!("{COPY}pending:q");
    ok!(c, "LPUSH", pending, b"\xff\xfe".as_slice());
    let ended = stage.import().jobs(2).run();
    assert_eq!(ended.status.code(), Some(1), "{}", ended.errors);
    let report = report(&ended);
    assert_eq!(report["imported"], stage.folder.entries.len());
    let failed = report["failed"].as_array().expect("a list");
    assert_eq!(failed.len(), bad.len() + 1, "{failed:?}");
    for one in failed {
        let reason = one["reason"].as_str().expect("a text");
        assert_starts(reason, "its entry in src:q cannot be read: ");
    }
    let named = failed.iter().filter(|one| one["name"] == "lost.wacz");
    assert_eq!(named.count(), 1, "{failed:?}");
    for key in ["src:q", "pending:q", "pending:q:", "pending:q:lost.wacz"] {
        assert_eq!(ok!(c, "EXISTS", format!("{COPY}{key}")), int(0), "{key}");
    }
    stage.import().succeeds();
    stage.assert_once();
}

#[test]
fn our_queue_entries_tell_browsertrix_the_location_and_the_worker() {
    let stage = Stage::with("entries of ours", Options::new(), 3, larger());
    let relay = Relay::to(&stage.server);
    relay.hold_after(60_000);
    let import = stage.import_over(&relay, COPY);
    let mut import = import.with("--lease", "600").start();
    in_the_middle(&relay, &mut import);
    let mut c = stage.server.wire();
    let mut items = |queue: &str| -> Vec<Value> {
        let items = ok!(c, "LRANGE", format!("{COPY}{queue}"), 0, -1);
        let item = |item: &Reply| serde_json::from_slice(item.bytes()).expect("JSON");
        items.items().iter().map(item).collect()
    };
    let (queued, pending) = (items("src:q"), items("pending:q"));
    assert!(!queued.is_empty() && !pending.is_empty());
    for item in queued.iter().chain(&pending) {
        let url = item["url"].as_str().expect("a text");
        assert!(fs::exists(url).expect("a path"), "{item}");
    }
    for item in &pending {
        let id = item["id"].as_str().expect("a text");
        assert_eq!(ok!(c, "EXISTS", format!("{COPY}pending:q:{id}")), int(1));
    }
    killed(import, &relay);
}

/// Starts an import that waits for a package held by Browsertrix's importer, which removed it from the queue and keeps
/// a guard.
fn waiting(stage: &Stage, name: &str) -> redis_tests::Program {
    let mut c = stage.server.wire();
    ok!(c, "SET", format!("{COPY}pending:q:{name}"), "1", "EX", 300);
    let mut import = stage.import().start();
    until("the import waits or has ended", || {
        import.errors().contains("waiting for other indexers: 1") || import.ended().is_some()
    });
    assert!(import.ended().is_none());
    import
}

#[test]
fn package_processed_by_browsertrix_is_skipped() {
    let stage = Stage::new("left to Browsertrix");
    let name = &stage.folder.entries[1].name;
    let import = waiting(&stage, name);
    // Browsertrix's importer finishes, and its guard remains.
    ok!(stage.server.wire(), "SADD", format!("{COPY}src:d"), name);
    let report = succeeded(&import.end());
    let others = stage.folder.entries.len() as u64 - 1;
    assert_eq!(report["imported"], others);
}

#[test]
fn package_of_a_dead_browsertrix_importer_is_taken_over() {
    let stage = Stage::new("taken over from Browsertrix");
    let name = &stage.folder.entries[1].name;
    let import = waiting(&stage, name);
    let guard = format!("{COPY}pending:q:{name}");
    ok!(stage.server.wire(), "DEL", guard);
    succeeded(&import.end());
    stage.assert_once();
}

/// Starts a server whose two indexes have Browsertrix's key names.
fn browsertrix() -> Server {
    let server = Options::new().start();
    for prefix in [LIVE, COPY] {
        ok!(server.wire(), "DEDUPE.PROFILE", prefix, "browsertrix");
    }
    server
}

/// Computes the possible savings in bytes and records: all responses of a payload except the original.
fn redundant(c: &mut Wire, crawls: &[Crawl]) -> (i64, i64) {
    // A record that occurs twice counts once.
    let mut records: BTreeMap<(u64, &str, &str, &str), (String, u64)> = BTreeMap::new();
    for crawl in crawls {
        for capture in crawl.captures.iter().filter(|c| c.kind == Kind::Response) {
            let (date, url) = (&capture.date[..], &capture.url[..]);
            let key = (capture.payload, &crawl.id[..], date, url);
            records.insert(key, (capture.hash(), capture.size));
        }
    }
    let (mut size, mut urls) = (0, 0);
    for ((_, crawl, date, url), (hash, bytes)) in &records {
        let found = ok!(c, "DEDUPE.LOOKUP", COPY, hash);
        let original = found.items()[0].items();
        let is_original = original[0].text() == *crawl
            && original[2].text() == *date
            && original[3].text() == url.replace(' ', "%20");
        if !is_original && *bytes > REVISIT {
            size += (bytes - REVISIT) as i64;
            urls += 1;
        }
    }
    (size, urls)
}

fn counted(c: &mut Wire) -> (i64, i64) {
    let counts = counts(c, &format!("{COPY}allcounts"));
    let of = |field: &str| counts.get(field).copied().unwrap_or(0);
    (of("estimatedRedundantSize"), of("redundantUrls"))
}

#[test]
fn redundant_responses_are_counted_once_in_the_browsertrix_profile() {
    let mut stage = Stage::on(browsertrix(), "redundant", 3, larger());
    let mut c = stage.server.wire();
    let relay = Relay::to(&stage.server);
    let mut expected = None;
    for round in 0..3 {
        if round > 0 {
            // Cut the import off at a random point, and let two importers share the rest.
            relay.hold_after(20_000 + stage.rng.below(400_000));
            let mut first = stage.import_over(&relay, COPY).jobs(2).start();
            in_the_middle(&relay, &mut first);
            killed(first, &relay);
        }
        let import = stage.import().jobs(2);
        for one in [import.start(), import.start()] {
            succeeded(&one.end());
        }
        import.succeeds();
        let expected = *expected.get_or_insert_with(|| redundant(&mut c, &stage.crawls));
        assert!(expected.1 > 0, "{expected:?}");
        assert_eq!(counted(&mut c), expected, "round {round}");
        for key in ok!(c, "KEYS", format!("{COPY}*")).items() {
            ok!(c, "DEL", key.bytes());
        }
        ok!(c, "DEDUPE.PROFILE", COPY, "browsertrix");
    }
}

#[test]
fn redundant_responses_are_not_counted_in_the_document_profile() {
    let stage = Stage::new("documented counts");
    stage.import().succeeds();
    assert_eq!(counted(&mut stage.server.wire()), (0, 0));
}

#[test]
fn computed_file_hashes_use_the_spelling_of_the_profile() {
    let documents = Stage::new("spelled with its algorithm");
    let theirs = Stage::on(browsertrix(), "spelled bare", 1, Shape::default());
    for (stage, algorithm) in [(&documents, "sha256:"), (&theirs, "")] {
        let entry = &stage.folder.entries[0];
        let path = stage.folder.file(&entry.path);
        stage.import_of(&path).with("--crawl-id", "one").succeeds();
        let list = format!("LRANGE {COPY}c:one:wacz 0 -1");
        let list = stage.server.wire().ok_line(list);
        let written: Value = serde_json::from_slice(list.items()[0].bytes()).expect("JSON");
        let hash = entry.hash.replace("sha256:", algorithm);
        assert_eq!(written["hash"], hash);
    }
}

#[test]
fn browsertrix_options_are_accepted() {
    let stage = Stage::new("options of Browsertrix");
    let source = stage.folder.manifest();
    let import = stage.import().without("--source-url").without("--redis");
    let import = import.with("--sourceUrl", &source);
    let import = import.with("--redisDedupeUrl", &stage.server.url());
    let import = import.flag("--removing");
    import.succeeds();
    stage.assert_once();
    let one = &stage.folder.entries[0];
    let path = stage.folder.file(&one.path);
    let import = import.without("--removing").prefix("{one}:");
    let import = import.with("--sourceUrl", &path.to_string_lossy());
    import.with("--sourceCrawlId", "one").succeeds();
    let crawls = set_key(&mut stage.server.wire(), "{one}:allcrawls");
    assert_eq!(crawls, ["one"]);
}

#[test]
fn commit_and_cancel_are_repeatable() {
    let stage = Stage::new("committed and cancelled");
    let mut c = stage.server.wire();
    for crawl in ["good", "bad"] {
        let hash = format!("sha256:{crawl:0>64}").replace(['g', 'o'], "a");
        c.ok_line(format!(
            "DEDUPE.ADD {COPY} {crawl} {hash} 0 20260319102015 https://e/ 10"
        ));
    }
    let command = stage.import().without("--source-url").without("--lease");
    let commit_it = command.clone().with("--commitCrawlId", "good");
    let expected = json!({"crawl": "good", "new": 1, "known": 0});
    assert_eq!(commit_it.succeeds(), expected);
    commit_it.succeeds();
    let cancel_it = command.clone().with("--cancelCrawlId", "bad");
    let canceled = |n| json!({"crawl": "bad", "canceled": n, "setAside": false});
    assert_eq!(cancel_it.succeeds(), canceled(1));
    assert_eq!(cancel_it.succeeds(), canceled(0));
    assert_eq!(set_key(&mut c, &format!("{COPY}allcrawls")), ["good"]);
    assert_eq!(ok!(c, "EXISTS", format!("{COPY}h:bad")), int(0));

    // The command must succeed: a cluster would retry a failing job forever.
    let ended = command.clone().with("--commit-crawl-id", "none").run();
    let expected = json!({"crawl": "none", "new": 0, "known": 0});
    assert_eq!(succeeded(&ended), expected);
    assert_contains(&ended.errors, "NOCRAWL");
    // The options exclude each other.
    for wrong in [
        command.clone(),
        commit_it.with("--cancelCrawlId", "bad"),
        cancel_it.flag("--remove"),
        stage.import().with("--commitCrawlId", "good"),
    ] {
        assert_eq!(wrong.run().status.code(), Some(2));
    }
}

#[test]
fn canceled_committed_crawl_is_counted_as_removed_once() {
    let stage = Stage::new("canceled after its commit");
    stage.import().succeeds();
    let crawl = &stage.crawls[1].id;
    let size: u64 = stage.files_of(1).iter().map(|entry| entry.size).sum();
    let command = stage.import().without("--source-url").without("--lease");
    let cancel_it = command.with("--cancelCrawlId", crawl);
    for _ in 0..2 {
        let expected = json!({"crawl": crawl, "canceled": 0, "setAside": true});
        assert_eq!(cancel_it.succeeds(), expected);
        let copy = Outcome::of(&mut stage.server.wire(), COPY);
        let removed = ["removedCrawls", "removedCrawlSize"].map(|name| copy.count(name));
        assert_eq!(removed, [1, size as i64]);
    }
    let mut c = stage.server.wire();
    let canceled = format!("{COPY}canceledcrawls");
    assert_eq!(set_key(&mut c, &canceled), *std::slice::from_ref(crawl));
    // The next import removes the crawl, because its manifest does not list it.
    let rest = stage.files_that(|entry| entry.crawl != *crawl);
    let import = stage.import_of(stage.folder.manifest_of("rest.json", &rest));
    assert_eq!(import.flag("--remove").succeeds()["removedCrawls"], 1);
    assert_eq!(ok!(c, "EXISTS", canceled), int(0));
    ok!(c, "DEDUPE.REMOVE", LIVE, crawl);
    stage.assert_once();
}

#[test]
fn failed_packages_can_be_ignored() {
    let stage = Stage::new("failures ignored");
    let gone = &stage.folder.entries[0];
    let source = stage.folder.manifest();
    fs::remove_file(stage.folder.file(&gone.path)).expect("it was there");
    let ended = stage.import_of(&source).flag("--ignore-failed").run();
    let report = succeeded(&ended);
    assert_eq!(report["failed"][0]["name"], gone.name);
    assert_contains(&ended.errors, &gone.name);
    // `--ignore-failed` does not hide an unreadable manifest.
    let import = stage.import_of("/nothing/there.json");
    import.flag("--ignore-failed").fails();
}
