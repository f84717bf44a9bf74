//! Tests that a tag space is unchanged after a restart, on a replica, in a copy and in a dump.

use crate::stage;
use redis_tests::{
    Options, Reply, Rng, Server, TagSpace, array, bulk, cmd, int, ok, rows, simple, until,
};

/// Fills a tag space with all kinds of content, including unusual bytes.
fn fill(s: &mut TagSpace) {
    s.ok("ADD TAG coll:1 org:1");
    s.ok("ADD TAG coll:2 org:1 private");
    s.ok_with(
        "ADD FILE",
        &[&b"d/\xff\x00.warc"[..], b"\xfe\x01", b"coll:2"],
    );
    let files: Vec<String> = (0..500)
        .flat_map(|n| [format!("f{n}"), format!("coll:{} own", n % 7)])
        .collect();
    s.ok_with("LOAD FILE MERGE", &files);
    let records: Vec<String> = (0..300)
        .flat_map(|n| [format!("com,a)/{n} 2020 f{n} {n}"), format!("r{}", n % 3)])
        .collect();
    s.ok_with("LOAD RECORD MERGE", &records);
    s.ok("RULESET coll filename '(?:^|/)ARCHIVEIT-(\\d+)-' coll:$1");
    s.ok("RULESET json collection (?P<c>.+) coll:${c} json");
    s.ok_with("RULESET", &[&b"\xff"[..], b"url", b"\\xff", b"\xfe"]);
    s.ok("POINTSET all 'coll:* & !private'");
    s.ok("POINTSET org-(\\d+) org:$1");
    s.ok("POINTSET deep '@org-1 & filename~\"^f\"'");
    s.ok("LOAD FILE STAGE staged coll:9 other coll:8");
    s.ok("LOAD TAG STAGE coll:9 org:9");
    s.ok("LOAD RECORD STAGE");
}

/// Returns all replies about the space.
fn told(s: &mut TagSpace) -> Vec<Reply> {
    let mut replies: Vec<Reply> = rows![
        "RULES"; "POINTS"; "INFO"; "GET FILE f8 ALL"; "GET RECORD 'com,a)/8 2020 f8 8' ALL";
    ]
    .map(|line| s.ok(line))
    .to_vec();
    for (name, value) in replies[2].pairs() {
        // The memory figure may differ.
        if name != bulk("memory") {
            replies.push(value);
        }
    }
    replies.remove(2);
    let files: Vec<String> = (0..500)
        .map(|n| format!("x/f{n}"))
        .chain(["ARCHIVEIT-2-".into(), "ARCHIVEIT-1-".into()])
        .collect();
    for arguments in rows![
        "POINT all"; "POINT org-1"; "POINT deep"; "WHERE 'own & !org:1'"; "RETURN TAGS";
    ] {
        let line = format!("FILTER {arguments} FORMAT FILE LINES");
        replies.push(s.ok_with(&line, &files));
    }
    replies.push(s.ok_with("GET FILE", &[b"d/\xff\x00.warc"]));
    replies
}

/// Checks that staged tags can be swapped in.
fn goes_on(s: &mut TagSpace) {
    assert_eq!(s.ok("SWAP FILE EXPECT 2"), int(2));
    assert_eq!(s.ok("SWAP TAG"), int(1));
    assert_eq!(s.ok("SWAP RECORD"), int(0));
    assert_eq!(s.tags("FILE staged ALL"), ["coll:9", "org:9"]);
    assert_eq!(s.figure("record-ids"), 0);
    assert_eq!(
        s.kept("POINT org-9 FORMAT FILE", &["staged", "other"]),
        ["staged"]
    );
    s.ok("ADD TAG coll:8 org:9");
    assert_eq!(
        s.kept("POINT org-9 FORMAT FILE", &["staged", "other"]),
        ["staged", "other"]
    );
}

fn restart_keeps_everything(options: Options, how: impl Fn(&mut Server)) {
    let mut server = options.start();
    let mut s = TagSpace::of(&server);
    fill(&mut s);
    // Add content and delete it again.
    s.ok("ADD FILE gone t");
    s.ok("REM FILE gone t");
    s.ok("RULESET gone filename x t");
    s.ok("RULEDEL gone");
    s.ok("POINTSET gone x");
    s.ok("POINTDEL gone");
    let (before, digest) = (told(&mut s), server.digest());
    how(&mut server);
    assert_eq!(server.digest(), digest);
    let mut s = TagSpace::of(&server);
    assert_eq!(told(&mut s), before);
    goes_on(&mut s);
    assert_eq!(server.info_number("panics"), 0);
}

#[test]
fn restart_keeps_everything_however_the_data_were_kept() {
    restart_keeps_everything(Options::new().rdb(), |server| {
        server.shutdown();
        server.restart();
    });
    restart_keeps_everything(Options::new(), |server| {
        ok!(server.wire(), "DEBUG", "RELOAD");
    });
    let files = [false, true].map(|preamble| Options::new().aof_unsynced(preamble));
    restart_keeps_everything(files[0].clone(), Server::restart);
    for options in files {
        restart_keeps_everything(options, Server::restart_rewritten);
    }
}

#[test]
fn big_space_survives_a_rewritten_append_only_file() {
    let mut server = Options::new().aof_unsynced(false).start();
    let mut s = TagSpace::of(&server);
    let long = "l".repeat(10_000);
    for call in 0..10 {
        let pairs: Vec<String> = (0..2_000)
            .flat_map(|n| {
                [
                    format!("com,a)/{} 20200101000000 f{call} {n}", n * 7919),
                    format!("coll:{n} own{call}"),
                ]
            })
            .collect();
        s.ok_with("LOAD RECORD MERGE", &pairs);
        s.ok_with("LOAD FILE STAGE", &pairs);
        s.ok_with("ADD FILE", &[&format!("{long}{call}"), "t"]);
    }
    let digest = server.digest();
    server.restart_rewritten();
    assert_eq!(server.digest(), digest);
    let mut s = TagSpace::of(&server);
    assert_eq!(s.figure("record-edges"), 40_000);
    assert_eq!(s.ok("SWAP FILE EXPECT 20000"), int(20_000));
}

#[test]
fn copy_and_dump_are_equal_and_independent() {
    let (server, mut s) = stage(TagSpace::of);
    fill(&mut s);
    let (before, digest) = (told(&mut s), s.digest());
    ok!(s.wire, "COPY", "tags", "copy");
    let payload = ok!(s.wire, "DUMP", "tags").bytes().to_vec();
    ok!(s.wire, "RESTORE", "restored", 0, payload);
    ok!(s.wire, "COPY", "tags", "tags", "DB", 5);
    // Valkey 8.1 leaves the client in the other database.
    ok!(s.wire, "SELECT", 0);
    ok!(s.wire, "RENAME", "tags", "renamed");
    for key in ["copy", "restored", "renamed"] {
        let mut other = TagSpace::over(server.wire(), key);
        assert_eq!(other.digest(), digest, "{key}");
        assert_eq!(told(&mut other), before, "{key}");
        goes_on(&mut other);
        assert_ne!(other.digest(), digest, "{key}");
    }
    let mut elsewhere = server.wire();
    ok!(elsewhere, "SELECT", 5);
    let mut elsewhere = TagSpace::over(elsewhere, "tags");
    assert_eq!(elsewhere.digest(), digest);
    assert_eq!(told(&mut elsewhere), before);
    ok!(elsewhere.wire, "SWAPDB", 5, 0);
    assert_eq!(
        told(&mut s),
        before,
        "after SWAPDB, the space is in database 0"
    );
}

#[test]
fn digest_does_not_depend_on_the_history_of_a_space() {
    let server = Server::start();
    let mut rng = Rng::new("digest_does_not_depend_on_the_history_of_a_space");
    let mut edges: Vec<(&str, String, String)> = (0..400)
        .map(|n| {
            let kind = ["FILE", "RECORD", "TAG"][n % 3];
            let (id, tag) = (format!("{}", n % 37), format!("z{}", n % 11));
            (kind, id, tag)
        })
        .collect();
    let mut digests = Vec::new();
    for round in 0..6 {
        let mut s = TagSpace::over(server.wire(), &format!("round-{round}"));
        s.ok("RULESET r filename x t");
        s.ok("POINTSET p t");
        rng.shuffle(&mut edges);
        for (kind, id, tag) in &edges {
            if rng.chance(20) {
                s.ok(format!("ADD {kind} {id} passing{}", rng.below(9)));
            }
            s.ok(format!("ADD {kind} {id} {tag}"));
        }
        for kind in ["FILE", "RECORD", "TAG"] {
            for id in 0..37 {
                let passing: Vec<String> = (0..9).map(|n| format!("passing{n}")).collect();
                s.ok_with(&format!("REM {kind} {id}"), &passing);
            }
        }
        digests.push(s.digest());
    }
    digests.dedup();
    assert_eq!(digests.len(), 1, "{digests:?}");
    // Every change must result in another digest.
    let mut s = TagSpace::over(server.wire(), "round-0");
    let mut seen = digests;
    for line in rows![
        "ADD FILE n t"; "ADD RECORD n t"; "ADD TAG n t"; "RULESET r filename x u"; "RULESET s filename x u";
        "POINTSET p u"; "POINTSET q u"; "LOAD FILE STAGE"; "LOAD RECORD STAGE"; "LOAD FILE STAGE a b";
        "SWAP FILE"; "SWAP RECORD";
    ] {
        s.ok(line);
        let digest = s.digest();
        assert!(!seen.contains(&digest), "{line}");
        seen.push(digest);
    }
}

#[test]
fn memory_usage_grows_with_the_contents() {
    let (_server, mut s) = stage(TagSpace::of);
    s.ok("ADD FILE f t");
    let usage = |s: &mut TagSpace| ok!(s.wire, "MEMORY", "USAGE", "tags").int();
    let mut before = usage(&mut s);
    let pairs = |n: usize| -> Vec<String> {
        (0..n)
            .flat_map(|n| [format!("file-number-{n}"), format!("t{}", n % 100)])
            .collect()
    };
    for line in ["LOAD FILE MERGE", "LOAD RECORD MERGE", "LOAD FILE STAGE"] {
        s.ok_with(line, &pairs(20_000));
        let now = usage(&mut s);
        assert!(now > before + 20_000 * 16, "{line}: {before}, then {now}");
        before = now;
    }
    let figure = s.figure("memory");
    assert!(
        figure > before / 2 && figure < before * 2,
        "{figure}, {before}"
    );
    // Memory decreases when the staged copy is discarded.
    s.ok("SWAP FILE DISCARD");
    s.ok("LOAD FILE REPLACE");
    s.ok("LOAD RECORD REPLACE a b");
    let now = usage(&mut s);
    assert!(now < before / 4, "{before}, then {now}");
}

#[test]
fn memory_of_ids_is_as_documented() {
    let guide = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guide/tags.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    let (_server, mut s) = stage(TagSpace::of);
    let file = |n: usize| format!("ARCHIVEIT-{:05}-20190220120000-{n:07}.warc.gz", n % 10_000);
    let record = |n: usize, name: String| {
        let id = format!(
            "org,example)/a/pages/{n:06} 20190220120000 {name} {}",
            1_000_000 + n
        );
        assert_eq!(id.len(), 97);
        id
    };
    assert_eq!(file(1).len(), 46);
    let collection = |n: usize| {
        let private = if n.is_multiple_of(3) { " private" } else { "" };
        (
            format!("coll:{}", 1000 + n),
            format!("org:{}{private}", n % 1000),
        )
    };
    let of_file = |n: usize| (file(n), format!("coll:{}", n % 1000));
    let tagged = |n: usize| (record(n, file(n / 1000)), format!("coll:{}", n % 1000));
    let alone = |n: usize| (record(n, file(n)), format!("coll:{}", n % 1000));
    type Id<'a> = &'a dyn Fn(usize) -> (String, String);
    let rows: [(&str, &str, usize, Id); 4] = [
        (
            "a collection with its organization",
            "TAG",
            10_000,
            &collection,
        ),
        (
            "a tagged file with a name of 46 bytes",
            "FILE",
            50_000,
            &of_file,
        ),
        (
            "a tagged record with an id of 97 bytes, if a file has",
            "RECORD",
            50_000,
            &tagged,
        ),
        (
            "a tagged record with an id of 97 bytes, if it is the only",
            "RECORD",
            50_000,
            &alone,
        ),
    ];
    for (row, kind, n, id) in rows {
        ok!(s.wire, "FLUSHALL", "SYNC");
        // Make the server allocate the memory that it allocates only once.
        s.ok("ADD TAG a b");
        let before = server_memory(&mut s);
        let line = format!("LOAD {kind} MERGE");
        let ids: Vec<String> = (0..n).flat_map(|n| <[String; 2]>::from(id(n))).collect();
        for some in ids.chunks(2000) {
            s.ok_with(&line, some);
        }
        let each = (server_memory(&mut s) - before) as f64 / n as f64;
        let said = guide.lines().find(|line| line.contains(row)).expect(row);
        let said = said
            .trim_end_matches(" |")
            .rsplit(' ')
            .next()
            .expect("a figure");
        let said: f64 = said.parse().expect("a number");
        assert!(
            (each - said).abs() < said / 8.0,
            "{row}: {said} in the guide, {each} here"
        );
    }
}

/// Returns the bytes that the server has requested from its allocator.
fn server_memory(s: &mut TagSpace) -> i64 {
    let info = ok!(s.wire, "INFO", "memory").text();
    let used = info
        .lines()
        .find_map(|line| line.strip_prefix("used_memory:"));
    used.expect("a figure").trim().parse().expect("a number")
}

#[test]
fn big_space_is_freed_without_a_pause() {
    let (server, mut s) = stage(TagSpace::of);
    for call in 0..10 {
        let pairs: Vec<String> = (0..20_000)
            .flat_map(|n| [format!("file-number-{call}-{n}"), format!("t{n}")])
            .collect();
        s.ok_with("LOAD FILE MERGE", &pairs);
    }
    let before = server.info_number("used_memory");
    ok!(s.wire, "UNLINK", "tags");
    assert!(!s.exists());
    until("its memory is given back", || {
        server.info_number("used_memory") < before / 2
    });
    until("the server reports a background free", || {
        server.info_number("lazyfreed_objects") > 0
    });
    ok!(s.wire, "FLUSHALL", "ASYNC");
}

#[test]
fn internal_chunks_of_the_append_only_file_are_not_for_clients() {
    let server = Server::start();
    let mut c = server.wire();
    for words in rows![
        &["crawlspace.tags"][..]; &["crawlspace.tags", "k"]; &["crawlspace.tags", "k", "0"];
        &["crawlspace.tags", "k", "0", "garbage"]; &["crawlspace.tags", "k", "1", ""];
    ] {
        assert!(c.call(words).is_error(), "{words:?}");
    }
    assert_eq!(ok!(c, "DBSIZE"), int(0));
    let script = "return redis.call('crawlspace.tags', 'k', '0', 'x')";
    assert!(cmd!(c, "EVAL", script, 0).is_error());
    assert_eq!(ok!(c, "KEYS", "*"), array([]));
}

#[test]
fn expiry_and_type_are_those_of_a_key() {
    let (_server, mut s) = stage(TagSpace::of);
    s.ok("ADD FILE f t");
    let kind = ok!(s.wire, "TYPE", "tags").text();
    assert!(!["none", "string", "hash"].contains(&&kind[..]), "{kind}");
    ok!(s.wire, "PEXPIRE", "tags", 600_000);
    s.ok("ADD FILE g t");
    s.ok("LOAD FILE REPLACE h t");
    assert!(
        ok!(s.wire, "PTTL", "tags").int() > 0,
        "changes keep the time to live"
    );
    assert_eq!(
        ok!(s.wire, "SCAN", 0, "TYPE", kind).items()[1],
        array([bulk("tags")])
    );
}

#[test]
fn caching_clients_are_notified_of_changes_only() {
    let (server, mut s) = stage(TagSpace::of);
    fill(&mut s);
    let mut caching = TagSpace::over(server.wire3(), "tags");
    ok!(caching.wire, "CLIENT", "TRACKING", "ON");
    for read in rows![
        "GET FILE f8 ALL"; "RULES"; "POINTS org-1"; "FILTER POINT org-1 FORMAT FILE LINES f8";
        "EXPLAIN POINT org-1 FORMAT FILE LINES f8"; "LIST *"; "SCAN RECORD 0"; "INFO";
    ] {
        caching.ok(read);
        caching.wire.pushes();
        caching.ok(read);
        assert_eq!(
            caching.wire.pushes(),
            [],
            "{read} must not invalidate the key"
        );
    }
    caching.ok("GET FILE f8");
    s.ok("ADD FILE f8 another");
    let told = caching.wire.pushes();
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0].items()[1], array([bulk("tags")]));
}

#[test]
fn last_change_of_a_space_is_followed_by_its_deletion() {
    let (server, mut s) = stage(TagSpace::of);
    ok!(s.wire, "CONFIG", "SET", "notify-keyspace-events", "KA");
    s.ok("POINTSET p x");
    let mut listener = server.wire3();
    listener.send(&["SUBSCRIBE", "__keyspace@0__:tags"]);
    listener.pushes();
    s.ok("POINTDEL p");
    let events = listener.pushes();
    let events: Vec<String> = events.iter().map(|e| e.items()[2].text()).collect();
    assert!(!s.exists());
    assert_eq!(events, ["tags.pointdel", "del"]);
}

#[test]
fn error_in_a_transaction_does_not_stop_the_rest_of_it() {
    let (_server, mut s) = stage(TagSpace::of);
    s.ok("ADD FILE h x");
    ok!(s.wire, "MULTI");
    s.ok("POINTSET new x");
    s.ok("POINTSET bad (");
    let replies = ok!(s.wire, "EXEC");
    assert_eq!(replies.items()[0], simple("OK"));
    assert!(replies.items()[1].is_error());
    assert_eq!(s.kept("POINT new FORMAT FILE", &["h"]), ["h"]);
}
