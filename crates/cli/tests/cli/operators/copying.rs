//! Tests `crawlspace dedupe copy`, `export` and `import`.

use crawlspace_client::dedupe::{Sharded, Storage};
use redis_tests::{
    Cluster, Crawl, DATE, DedupeIndex, Options, PlainHost, Program, Server, Snapshot, Wire,
    assert_contains, assert_starts, fill_crawl, ok, outcome, plain_view, sha256_of, until,
};
use serde_json::{Value, json};

use crate::operators::stage::crawlspace;
use crate::tool::{FULL_OUTPUT, limited, script, tool};

const P: &str = "{coll-42}:";

/// Writes an index as plain clients do: overlapping committed crawls of `each` hashes, an uncommitted crawl, a crawl
/// in none of the sets, and the keys of WACZ files and of an import.
fn plain_index(c: &mut Wire, crawls: u64, each: u64) {
    for number in 0..crawls {
        let id = format!("crawl-{number}");
        // A tenth of the hashes are those of the previous crawl.
        let first = number * (each - each / 10);
        let crawl = Crawl::of(P, &id, first..first + each);
        fill_crawl(c, &crawl);
        let owned: Vec<Vec<Vec<u8>>> = crawl
            .all()
            .map(|hash| {
                let words = ["HSETNX", &format!("{P}allhashes"), &hash, &id];
                words.map(|word| word.as_bytes().to_vec()).to_vec()
            })
            .collect();
        c.pipeline(owned);
        ok!(
            c,
            "SMOVE",
            format!("{P}uncommittedcrawls"),
            format!("{P}allcrawls"),
            &id
        );
        ok!(c, "HINCRBY", format!("{P}allcounts"), "totalUrls", each);
        let wacz = json!({"filename": format!("{id}.wacz"), "hash": sha256_of(number), "size": 5})
            .to_string();
        ok!(
            c,
            "RPUSH",
            format!("{P}c:{id}:wacz"),
            &wacz,
            r#"{"filename":"\u00e9"}"#
        );
        ok!(c, "SADD", format!("{P}src:d"), format!("{id}.wacz"));
        ok!(c, "SADD", format!("{P}{id}:reqCrawls"), "crawl-0");
        ok!(
            c,
            "SADD",
            format!("{P}5c0a-{number}:duperefs"),
            "crawl-0 0",
            b"\xff 1"
        );
    }
    fill_crawl(c, &Crawl::of(P, "running", 7..40));
    ok!(
        c,
        "HSET",
        format!("{P}h:unlisted"),
        sha256_of(5),
        format!("0 {DATE} http://e/ 7")
    );
    ok!(
        c,
        "HSET",
        format!("{P}rev:{}:c", sha256_of(1)),
        "crawl-0",
        3
    );
    ok!(
        c,
        "SET",
        format!("{P}last_update_ts"),
        "2026-03-19T10:20:15.123Z"
    );
    ok!(c, "RPUSH", format!("{P}src:q"), "{}", "{}");
    // Keys of other programs.
    ok!(c, "SET", "{coll-4}:h:other", "x");
    ok!(c, "SET", format!("{P}other"), "x");
}

/// Returns the keys that are copied, as in plain storage.
fn copied_keys(server: &Server) -> Snapshot {
    let own = [
        ":baseline",
        ":added",
        ":seq",
        "crawlspace",
        "commits",
        "holders",
        "other",
    ];
    let mut c = server.wire();
    let has_module = !c.call(&["DEDUPE.STATS", P]).is_error();
    let keys = if has_module {
        plain_view(&mut c, P)
    } else {
        Snapshot::of_keys(&mut c, |key| key.starts_with(P.as_bytes()))
    };
    keys.without(|key| {
        let key = String::from_utf8_lossy(key);
        own.iter().any(|end| key.ends_with(end))
    })
}

fn copy(from: &str, to: &Server, more: &str) -> redis_tests::Outcome {
    crawlspace(to, P, &format!("dedupe copy --from {from} --json {more}"))
}

fn without_time(mut summary: Value) -> Value {
    summary
        .as_object_mut()
        .expect("an object")
        .remove("seconds");
    summary
}

#[test]
fn index_of_a_server_without_the_module_is_copied_by_plain_commands() {
    let source = Options::new().no_module().start();
    plain_index(&mut source.wire(), 3, 2_500);
    let host = PlainHost::before(&source);
    for packed in [false, true] {
        let target = Options::new().plain().start();
        let more = if packed { "--packed" } else { "" };
        let done = copy(&host.url(), &target, more).exits(0);
        let storage = if packed { "packed" } else { "plain" };
        let expected = json!({
            "profile": "document", "storage": storage, "crawls": 5, "alreadyCopied": 0,
            "records": 7534, "interruptions": 0,
        });
        assert_eq!(without_time(done.object()), expected);
        copied_keys(&target).assert_same(&copied_keys(&source), storage);
        let mut c = DedupeIndex::of(&target, P);
        assert_eq!(
            c.owners([0, 2249, 2250, 2499, 2500]),
            ["crawl-0", "crawl-0", "crawl-0", "crawl-0", "crawl-1"]
        );
        // A second copy finds nothing to do.
        let again = without_time(copy(&host.url(), &target, more).exits(0).object());
        assert_eq!(again["alreadyCopied"], 5);
        copied_keys(&target).assert_same(&copied_keys(&source), storage);
    }
    let refused: Vec<String> = host
        .refused()
        .into_iter()
        .filter(|name| name != "CLUSTER")
        .collect();
    assert_eq!(refused, [""; 0]);
}

#[test]
fn copy_continues_with_changes_of_the_source() {
    let source = Options::new().no_module().start();
    let mut c = source.wire();
    plain_index(&mut c, 2, 1_500);
    let target = Options::new().plain().start();
    copy(&source.url(), &target, "--packed").exits(0);
    // The running crawl was committed, and there is a new one.
    ok!(
        c,
        "SMOVE",
        format!("{P}uncommittedcrawls"),
        format!("{P}allcrawls"),
        "running"
    );
    ok!(
        c,
        "HSETNX",
        format!("{P}allhashes"),
        sha256_of(99_999),
        "running"
    );
    ok!(
        c,
        "HSET",
        format!("{P}h:running"),
        sha256_of(99_999),
        format!("0 {DATE} http://e/ 7")
    );
    fill_crawl(&mut c, &Crawl::of(P, "new", 0..3));
    let again = without_time(copy(&source.url(), &target, "--packed").exits(0).object());
    assert_eq!(again["alreadyCopied"], 3);
    copied_keys(&target).assert_same(&copied_keys(&source), "after the second copy");
}

#[test]
fn second_copy_removes_what_the_source_has_lost() {
    let source = Options::new().no_module().start();
    let mut c = source.wire();
    plain_index(&mut c, 3, 100);
    let key = |name: &str| format!("{P}{name}");
    let revisits = [2, 3].map(|n| key(&format!("rev:{}:s", sha256_of(n))));
    for revisit in &revisits {
        ok!(c, "HSET", revisit, "crawl-0", 3, "crawl-1", 5);
    }
    for set in ["src:qset", "canceledcrawls"] {
        ok!(c, "SADD", key(set), "a", "b");
    }
    let targets = [("plain", ""), ("packed", "--packed")].map(|(storage, more)| {
        let target = Options::new().plain().start();
        copy(&source.url(), &target, more).exits(0);
        copied_keys(&target).assert_same(&copied_keys(&source), storage);
        (target, storage, more)
    });
    // The first part is gone completely, the second one in part.
    ok!(
        c,
        "DEL",
        key("src:q"),
        key("canceledcrawls"),
        key("last_update_ts"),
        key("c:crawl-0:wacz"),
        key("crawl-0:reqCrawls"),
        key("5c0a-0:duperefs"),
        key(&format!("rev:{}:c", sha256_of(1))),
        &revisits[0]
    );
    ok!(c, "HDEL", &revisits[1], "crawl-0");
    ok!(c, "SREM", key("src:qset"), "a");
    ok!(c, "SREM", key("src:d"), "crawl-1.wacz");
    ok!(c, "LPOP", key("c:crawl-1:wacz"));
    ok!(c, "SREM", key("5c0a-1:duperefs"), "crawl-0 0");
    ok!(c, "HSET", key("h:crawl-1:counts"), "dupeUrls", 1);
    ok!(c, "HDEL", key("h:crawl-1:counts"), "totalUrls");
    ok!(c, "SREM", key("uncommittedcrawls"), "running");
    for (target, storage, more) in &targets {
        for _ in 0..2 {
            copy(&source.url(), target, more).exits(0);
            copied_keys(target).assert_same(&copied_keys(&source), storage);
        }
    }
    // Records are never deleted.
    let refused = |why: &str| {
        for (target, _, more) in &targets {
            assert_contains(&copy(&source.url(), target, more).exits(1).errors, why);
        }
    };
    let record = ok!(c, "HGET", key("h:crawl-1"), sha256_of(120)).text();
    ok!(c, "HDEL", key("h:crawl-1"), sha256_of(120));
    refused("the target has records or a commit of the crawl 'crawl-1'");
    ok!(c, "HSET", key("h:crawl-1"), sha256_of(120), record);
    ok!(
        c,
        "SMOVE",
        key("allcrawls"),
        key("uncommittedcrawls"),
        "crawl-1"
    );
    refused("the target has records or a commit of the crawl 'crawl-1'");
    ok!(
        c,
        "SMOVE",
        key("uncommittedcrawls"),
        key("allcrawls"),
        "crawl-1"
    );
    ok!(c, "DEL", key("h:unlisted"));
    refused("the target has the crawl 'unlisted', which the source does not have");
    // A crawl that began again under the same id has other records.
    ok!(c, "DEL", key("h:running"));
    fill_crawl(&mut c, &Crawl::of(P, "running", 500..600));
    for (target, storage, more) in &targets {
        ok!(target.wire(), "DEDUPE.CANCEL", P, "unlisted");
        let again = copy(&source.url(), target, more).exits(1);
        assert_contains(&again.errors, "records or a commit of the crawl 'running'");
        ok!(target.wire(), "DEDUPE.CANCEL", P, "running");
        copy(&source.url(), target, more).exits(0);
        copied_keys(target).assert_same(&copied_keys(&source), storage);
    }
}

#[test]
fn interrupted_copy_of_more_records_of_a_packed_crawl_continues() {
    let source = Options::new().no_module().start();
    let mut c = source.wire();
    plain_index(&mut c, 2, 300);
    let target = Options::new().plain().start();
    copy(&source.url(), &target, "--packed").exits(0);
    let records = format!("{P}h:crawl-0");
    let record = |n: u64| [sha256_of(n), format!("0 {DATE} http://e/ 7")];
    let more: Vec<String> = (5_000..5_100).flat_map(record).collect();
    c.expect_ok(&[&["HSET".to_owned(), records.clone()], &more[..]].concat());
    // A copy that was killed had written some of the old records again, but had not packed them.
    let page = ok!(c, "HSCAN", &records, 0, "COUNT", 200).items()[1].texts();
    assert!(page.len() >= 2 * 100, "a part as large as the new one");
    target
        .wire()
        .expect_ok(&[&["HSET".to_owned(), records], &page[..]].concat());
    copy(&source.url(), &target, "--packed").exits(0);
    copied_keys(&target).assert_same(&copied_keys(&source), "after the second copy");
}

#[test]
fn copy_is_refused_if_it_would_mix_indexes() {
    let source = Options::new().no_module().start();
    let target = Options::new().plain().start();
    let refused = |why: &str| {
        let refused = copy(&source.url(), &target, "").exits(1);
        assert_eq!(refused.out, "");
        assert_contains(&refused.errors, why);
    };
    refused("the source has no dedupe index with the prefix '{coll-42}:'");
    let mut c = source.wire();
    plain_index(&mut c, 1, 10);
    ok!(target.wire(), "DEDUPE.BEGIN", P, "mine");
    refused("the target has the crawl 'mine', which the source does not have");
    ok!(target.wire(), "DEDUPE.CANCEL", P, "mine");
    ok!(c, "HSET", format!("{P}alldupes"), "a", "b");
    refused("both keys of a merged index");
    ok!(c, "DEL", format!("{P}alldupes"));
    ok!(c, "SADD", format!("{P}to-remove-crawls"), "x");
    refused("Browsertrix is purging the source");
    assert_eq!(ok!(target.wire(), "DEDUPE.CRAWLS", P).items(), []);

    // The target needs the module.
    let refused = copy(&source.url(), &source, "").exits(1);
    assert_starts(&refused.errors, "crawlspace: ");
}

#[test]
fn profile_is_that_of_the_source() {
    let source = Options::new().no_module().start();
    let mut c = source.wire();
    let bare = sha256_of(1).trim_start_matches("sha256:").to_owned();
    ok!(
        c,
        "HSET",
        format!("{P}h:a"),
        &bare,
        format!("0 {DATE} http://e/ 7")
    );
    ok!(c, "SADD", format!("{P}uncommittedcrawls"), "a");
    ok!(c, "SADD", format!("{P}5c0a:duperef"), "a 0");
    let target = Options::new().plain().start();
    let done = copy(&source.url(), &target, "").exits(0).object();
    assert_eq!(done["profile"], "browsertrix");
    ok!(
        c,
        "SMOVE",
        format!("{P}uncommittedcrawls"),
        format!("{P}allcrawls"),
        "a"
    );
    ok!(c, "HSET", format!("{P}alldupes"), &bare, "a");
    copy(&source.url(), &target, "").exits(0);
    copied_keys(&target).assert_same(&copied_keys(&source), "Browsertrix");
    let found = ok!(target.wire(), "DEDUPE.LOOKUP", P, &bare);
    assert_eq!(found.items()[0].items()[0].text(), "a");
}

/// Adds crawls with `DEDUPE` commands, whose owners depend on the order of commits and not of ids.
fn owned_index(server: &Server) -> DedupeIndex {
    let mut c = DedupeIndex::of(server, P);
    for (crawl, numbers) in [("z", 0..1_200), ("a", 1_000..2_200), ("m", 1_100..2_300)] {
        c.wacz(crawl, &format!("{crawl}.wacz"));
        c.committed(crawl, numbers);
    }
    c.ok("REVISIT m REF 5c0a #5 100 #1150 100");
    c.commit("m");
    c.add("running", 3_000..3_010);
    c
}

fn exported(server: &Server, to: &std::path::Path) -> Value {
    let out = to.display();
    crawlspace(server, P, &format!("dedupe export --json --out {out}"))
        .exits(0)
        .object()
}

#[test]
fn export_and_import_give_an_equal_index() {
    let folder = tempfile::tempdir().unwrap();
    let source = Options::new().plain().start();
    let mut c = owned_index(&source);
    let file = folder.path().join("index.cdxj");
    assert_eq!(
        exported(&source, &file),
        json!({"crawls": 4, "records": 3_610})
    );
    let lines = std::fs::read_to_string(&file).unwrap();
    let row = lines
        .lines()
        .find(|line| line.contains(&sha256_of(1300)[..]) && line.contains(r#""crawl":"a""#));
    let row = row.expect("the record is exported");
    assert_starts(row, "com,example)/");
    assert_contains(row, r#","owned":true}"#);
    // The lines may be sorted.
    let mut sorted: Vec<&str> = lines.lines().collect();
    sorted.sort_unstable();
    let sorted_file = folder.path().join("sorted.cdxj");
    std::fs::write(&sorted_file, sorted.join("\n")).unwrap();
    let plain_keys = copied_keys(&source);
    for (file, more) in [
        (&file, ""),
        (&file, "--packed"),
        (&sorted_file, ""),
        (&sorted_file, "--packed"),
    ] {
        let target = Options::new().plain().start();
        let words = format!("dedupe import --json {more} {}", file.display());
        for _ in 0..2 {
            let done = crawlspace(&target, P, &words).exits(0).object();
            assert_eq!(
                (&done["crawls"], &done["records"], &done["badLines"]),
                (&json!(4), &json!(3_610), &json!(0))
            );
        }
        copied_keys(&target).assert_same(&plain_keys, &words);
        let mut copy = DedupeIndex::of(&target, P);
        copy.assert_consistent();
        // The order of commits decides who inherits a hash.
        assert_eq!(copy.ok("REMOVE z").ints(), [1, 1_000, 200], "{words}");
        assert_eq!(
            copy.owners([1_000, 1_150, 2_250]),
            ["a", "a", "m"],
            "{words}"
        );
    }
    assert_eq!(c.ok("REMOVE z").ints(), [1, 1_000, 200]);
}

#[test]
fn failed_export_keeps_the_old_file() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let source = Options::new().plain().start();
    owned_index(&source);
    let file = dir.join("index.cdxj");
    exported(&source, &file);
    let old = std::fs::read(&file).unwrap();
    let url = source.url();
    let words = format!("dedupe export --redis {url} --prefix {P} --out");
    for (out, text) in [
        ("index.cdxj", "crawlspace: index.cdxj: cannot write: "),
        ("new.cdxj", "crawlspace: new.cdxj: cannot write: "),
        (
            "none/new.cdxj",
            "crawlspace: none/new.cdxj: cannot create: ",
        ),
    ] {
        let failed = outcome(limited(format!("{words} {out}"), dir)).exits(1);
        assert_starts(&failed.errors, text);
    }
    assert!(std::fs::read(&file).unwrap() == old);
    let names = std::fs::read_dir(dir).unwrap();
    let names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["index.cdxj"]);
    let full = format!("crawlspace dedupe export --redis {url} --prefix {P} > /dev/full");
    let full = outcome(script(&full, dir)).exits(1);
    assert_eq!(full.errors, format!("crawlspace: {FULL_OUTPUT}\n"));
    // A pipe is not replaced.
    let piped = format!(
        "mkfifo pipe; cat pipe > piped.cdxj & crawlspace {words} pipe; [ -p pipe ] || kill $!; wait $!"
    );
    outcome(script(&piped, dir)).exits(0);
    assert_eq!(lines_of(&dir.join("piped.cdxj")), lines_of(&file));
}

#[test]
fn sharded_index_is_imported_exported_and_copied() {
    let folder = tempfile::tempdir().unwrap();
    let source = Options::new().plain().start();
    owned_index(&source);
    let file = folder.path().join("index.cdxj");
    exported(&source, &file);
    let plain_keys = copied_keys(&source);
    let cluster = Cluster::start(2);
    let url = cluster.url();
    let run = |words: &str| outcome(tool(format!("dedupe {words} --redis {url} --json")));
    let lines = file.display();
    let from = format!("--from {} --from-prefix {P}", source.url());
    for (name, words) in [
        ("plain", format!("import {lines}")),
        ("packed", format!("import --packed {lines}")),
        ("copied", format!("copy {from}")),
    ] {
        let missing = run(&format!("{words} --sharded {name}")).exits(1);
        assert_contains(&missing.errors, "pass --shards N to create it");
        for shards in ["--shards 3", ""] {
            let done = run(&format!("{words} --sharded {name} {shards}")).exits(0);
            let done = done.object();
            assert_eq!(
                (&done["crawls"], &done["records"]),
                (&json!(4), &json!(3_610)),
                "{name}"
            );
        }
        run(&format!("check --sharded {name}")).exits(0);
        let index = Sharded::open(&url, name, 3).unwrap();
        let stats = index.stats().unwrap();
        assert_eq!(stats.storage == Storage::Packed, name == "packed");
        let shards = index.shards().iter();
        let hashes: Vec<u64> = shards.map(|shard| shard.stats().unwrap().hashes).collect();
        assert!(hashes.iter().all(|&n| n > 500), "{hashes:?}");
        // An export is one index again.
        let back = folder.path().join(name);
        let out = back.display();
        let words = format!("export --sharded {name} --out {out}");
        assert_eq!(
            run(&words).exits(0).object(),
            json!({"crawls": 4, "records": 3_610})
        );
        let target = Options::new().plain().start();
        crawlspace(&target, P, &format!("dedupe import {out}")).exits(0);
        copied_keys(&target).assert_same(&plain_keys, name);
        // The order of commits decides who inherits a hash.
        index.remove(&[b"z"]).unwrap();
        let hashes = [1_000, 1_150, 2_250].map(sha256_of);
        let hashes = hashes.each_ref().map(|hash| hash.as_bytes());
        let found = index.lookup(None, &hashes).unwrap();
        let owners = found.into_iter().map(|found| found.unwrap().crawl);
        assert_eq!(owners.collect::<Vec<_>>(), [b"a", b"a", b"m"], "{name}");
    }
    let out = folder.path().join("nothing");
    let unknown = format!("export --sharded nothing --out {}", out.display());
    let unknown = run(&unknown).exits(1);
    assert_contains(&unknown.errors, "no sharded index with the name 'nothing'");
    let unnamed = run(&format!("copy --from {} --sharded copied", source.url())).exits(1);
    assert_contains(&unnamed.errors, "--from-prefix");
}

#[test]
fn unusual_records_survive_an_export() {
    let folder = tempfile::tempdir().unwrap();
    let source = Options::new().no_module().start();
    let mut c = source.wire();
    let records: [(&[u8], &[u8]); 6] = [
        (
            b"sha256:0000000000000000",
            b"0 20260319102015 http://e/ with space 7",
        ),
        (b"0000000000000001", b"0 2026-03-19T10:20:15.5Z http://e/ 7"),
        (b"0000000000000002", b"0 20260319102015123 urn:x 7"),
        (b"0000000000000003", b"nonsense"),
        (b"0000000000000\xff4", b"0 20260319102015 http://e/\xff 7"),
        (b"0000000000000005", b"x y http://e/ z"),
    ];
    for (hash, record) in records {
        c.expect_ok(&[
            b"HSET".as_slice(),
            format!("{P}h:a\u{e9}").as_bytes(),
            hash,
            record,
        ]);
        c.expect_ok(&[
            b"HSET".as_slice(),
            format!("{P}allhashes").as_bytes(),
            hash,
            "a\u{e9}".as_bytes(),
        ]);
    }
    ok!(c, "SADD", format!("{P}allcrawls"), "a\u{e9}");
    let file = folder.path().join("index.cdxj");
    exported(&source, &file);
    let target = Options::new().plain().start();
    crawlspace(&target, P, &format!("dedupe import {}", file.display())).exits(0);
    copied_keys(&target).assert_same(&copied_keys(&source), "imported");
}

#[test]
fn bad_lines_are_reported_with_their_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("index.cdxj");
    let good = r#"com,e)/ 20260319102015 {"url":"http://e/","digest":"sha256:0000000000000000","length":"7","crawl":"a","waczIndex":"0","owned":true}"#;
    let lines = [
        r#"!index {"format":1,"profile":"document"}"#,
        r#"!crawl {"crawl":"a","committed":true,"uncommitted":false,"order":1}"#,
        good,
        "",
        "nonsense",
        r#"com,e)/ 20260319102015 {"url":"http://e/"}"#,
        &good.replace(r#""7""#, r#""seven""#),
        &good.replace(r#""crawl":"a""#, r#""crawl":"b""#),
        &good
            .replace("sha256:", "")
            .replace("0000000000000000", "00"),
        "!other {}",
        r#"!crawl {"crawl":"late","committed":true,"uncommitted":false,"order":2}"#,
        r#"!end {"lines":10}"#,
    ];
    std::fs::write(&file, lines.join("\n")).unwrap();
    let target = Options::new().plain().start();
    let done = crawlspace(
        &target,
        P,
        &format!("dedupe import --json {}", file.display()),
    )
    .exits(1);
    let numbers: Vec<u64> = done.object()["examples"]
        .as_array()
        .unwrap()
        .iter()
        .map(|bad| bad["line"].as_u64().unwrap())
        .collect();
    assert_eq!(numbers, [5, 6, 7, 8, 9, 10, 11]);
    assert_contains(
        &done.errors,
        "index.cdxj:7: length is not a number: \"seven\"",
    );
    assert_contains(
        &done.errors,
        "index.cdxj:8: no line !crawl describes the crawl 'b'",
    );
    assert_eq!(done.object()["records"], 1);
    let found = ok!(target.wire(), "DEDUPE.LOOKUP", P, "sha256:0000000000000000");
    assert_eq!(found.items()[0].items()[0].text(), "a");
}

#[test]
fn import_of_an_incomplete_export_makes_no_crawl_visible() {
    let folder = tempfile::tempdir().unwrap();
    let source = Options::new().plain().start();
    owned_index(&source);
    let whole = folder.path().join("whole.cdxj");
    exported(&source, &whole);
    let text = std::fs::read_to_string(&whole).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let (end, others) = lines.split_last().unwrap();
    let count = others.len();
    assert_eq!(*end, format!("!end {{\"lines\":{count}}}"));
    let mut sorted = lines.clone();
    sorted.sort_unstable();
    let headers = sorted.iter().filter(|line| line.starts_with('!')).count();
    let no_end = "its last line, !end, is missing";
    let missing = |missing| format!("{missing} of its {count} lines are missing");
    let file = folder.path().join("part.cdxj");
    let words = format!("dedupe import {}", file.display());
    let target = Options::new().plain().start();
    for (part, why) in [
        (String::new(), no_end),
        (lines[..1].join("\n"), no_end),
        (lines[..headers].join("\n"), no_end),
        (others.join("\n"), no_end),
        (format!("{}\n", lines[..count / 2].join("\n")), no_end),
        (text[..text.len() - 3].to_owned(), no_end),
        // In a sorted file, the line with the number of lines is not the last one.
        (sorted[..headers].join("\n"), &missing(count + 1 - headers)),
        (sorted[..count].join("\n"), &missing(1)),
        // Blank lines do not replace missing ones.
        (
            format!("{}\n\n{end}", others[..count - 2].join("\n\n")),
            &missing(2),
        ),
    ] {
        std::fs::write(&file, part).unwrap();
        let failed = crawlspace(&target, P, &words).exits(1);
        assert_contains(&failed.errors, format!("the export is incomplete: {why}; "));
        for set in ["allcrawls", "uncommittedcrawls"] {
            assert_eq!(
                ok!(target.wire(), "SCARD", format!("{P}{set}")).int(),
                0,
                "{why}"
            );
        }
    }
    let key = format!("{P}h:z");
    assert!(ok!(target.wire(), "HLEN", key).int() > 0);
    for number in (0..2_300).step_by(50) {
        let found = ok!(target.wire(), "DEDUPE.LOOKUP", P, sha256_of(number));
        assert!(found.items()[0].is_nil(), "{number}");
    }
    // The complete export continues.
    crawlspace(&target, P, &format!("dedupe import {}", whole.display())).exits(0);
    copied_keys(&target).assert_same(&copied_keys(&source), "imported");
    DedupeIndex::of(&target, P).assert_consistent();
}

/// Returns the lines of an export, in any order.
fn lines_of(file: &std::path::Path) -> Vec<String> {
    let text = std::fs::read_to_string(file).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

#[test]
fn packed_index_is_exported_and_copied_as_a_plain_one() {
    let folder = tempfile::tempdir().unwrap();
    let [plain_file, packed_file] = ["plain", "packed"].map(|name| folder.path().join(name));
    let source = Options::new().plain().start();
    let mut c = owned_index(&source);
    let exports = exported(&source, &plain_file);
    let keys = copied_keys(&source);
    c.ok("PACK");
    assert_eq!(exported(&source, &packed_file), exports);
    assert_eq!(lines_of(&packed_file), lines_of(&plain_file));
    for more in ["", "--packed"] {
        let target = Options::new().plain().start();
        let done = copy(&source.url(), &target, more).exits(0).object();
        assert_eq!(done["records"], 3_610, "{more}");
        copied_keys(&target).assert_same(&keys, more);
        DedupeIndex::of(&target, P).assert_consistent();
    }
}

mod peers {
    use redis_tests::packages::sized;

    use super::*;

    /// Breaks connections to the source, kills the tool, and restarts the target, in the middle of a copy.
    #[test]
    fn interrupted_copies_give_an_equal_index() {
        let source = Options::new().no_module().start();
        let (crawls, each) = (24, sized(2_500, 45_000));
        plain_index(&mut source.wire(), crawls, each);
        let host = PlainHost::before(&source);
        for packed in [false, true] {
            let target = Options::new().plain().aof_unsynced(true).start();
            // One crawl is copied between two breaks.
            let pages = i64::try_from(each.next_power_of_two() / 1000 + 1).expect("small");
            host.break_every(pages + pages / 3 + 1);
            let breaks = host.breaks();
            let more = if packed { "--packed" } else { "" };
            let (url, to) = (host.url(), target.url());
            let words = format!("dedupe copy --from {url} --redis {to} --prefix {P} {more}");
            let mut killed = 0;
            while killed < 5 {
                let before = host.breaks();
                let program = Program::start(tool(&words));
                until("the copy was interrupted", || host.breaks() > before);
                drop(program);
                killed += 1;
            }
            let rest = copy(&url, &target, more).exits(0).object();
            assert!(rest["interruptions"].as_u64() >= Some(1), "{rest}");
            host.break_every(i64::MAX);
            let what = format!("after {} breaks and {killed} kills, {more}", host.breaks());
            copied_keys(&target).assert_same(&copied_keys(&source), &what);
            let again = copy(&url, &target, more).exits(0).object();
            assert_eq!(again["alreadyCopied"], crawls + 2, "{what}");
            assert!(host.breaks() - breaks >= 10, "{what}");
        }
    }
}
