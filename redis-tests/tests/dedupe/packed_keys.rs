//! A packed index among the other keys of a server: settings, plain commands, moves and deletions.

use redis_tests::{
    DATE, Options, Server, Wire, add, array, assert_consistent, bulk, change_storage, commit, err,
    int, is_packed, ok, owners, plain_hash, record_of, replies_of, set_key, sha256_of, small_index,
    storage_of,
};

const P: &str = "{coll-42}:";

fn key(name: &str) -> String {
    format!("{P}{name}")
}

/// New indexes are plain there until somebody packs them.
fn plain_server() -> Server {
    Options::new().plain().start()
}

fn packed_server() -> Server {
    Options::new().packed().start()
}

#[test]
fn changed_keys_are_notified_and_watched() {
    let server = plain_server();
    let (mut c, mut watcher, mut listener) = (server.wire(), server.wire(), server.wire());
    small_index(&mut c, P);
    ok!(c, "CONFIG", "SET", "notify-keyspace-events", "KA");
    ok!(listener, "PSUBSCRIBE", "__keyspace@0__:*");
    for name in ["DEDUPE.PACK", "DEDUPE.UNPACK"] {
        ok!(watcher, "WATCH", key("allhashes"));
        let replaced = [key("allhashes"), key("h:a"), key("holders")];
        ok!(c, name, P);
        ok!(c, "PUBLISH", "__keyspace@0__:end", "end");
        let mut notified = Vec::new();
        loop {
            let message = listener.recv();
            if message.items()[3] == bulk("end") {
                break;
            }
            notified.push(
                message.items()[2]
                    .text()
                    .split_once(':')
                    .unwrap()
                    .1
                    .to_owned(),
            );
        }
        for key in replaced {
            assert!(
                notified.contains(&key),
                "{name} said nothing of {key}: {notified:?}"
            );
        }
        ok!(watcher, "MULTI");
        ok!(watcher, "PING");
        assert!(
            ok!(watcher, "EXEC").is_nil(),
            "{name} did not disturb WATCH"
        );
        // Without a change nobody is disturbed.
        ok!(watcher, "WATCH", key("allhashes"), key("crawlspace"));
        ok!(c, name, P);
        ok!(watcher, "MULTI");
        ok!(watcher, "PING");
        assert!(
            !ok!(watcher, "EXEC").is_nil(),
            "{name} again disturbed WATCH"
        );
        ok!(c, "PUBLISH", "__keyspace@0__:end", "end");
        while listener.recv().items()[3] != bulk("end") {}
    }
}

#[test]
fn plain_commands_on_the_packed_key_are_refused_and_change_nothing() {
    let server = packed_server();
    let mut c = server.wire();
    small_index(&mut c, P);
    let (merged, h) = (key("allhashes"), sha256_of(1));
    let before = server.digest();
    let commands: [&[&str]; 17] = [
        &["HGET", &merged, &h],
        &["HSET", &merged, &h, "b"],
        &["HSETNX", &merged, &h, "b"],
        &["HDEL", &merged, &h],
        &["HGETALL", &merged],
        &["HKEYS", &merged],
        &["HLEN", &merged],
        &["HEXISTS", &merged, &h],
        &["HMGET", &merged, &h],
        &["HSCAN", &merged, "0"],
        &["HINCRBY", &merged, &h, "1"],
        &["GET", &merged],
        &["APPEND", &merged, "x"],
        &["SADD", &merged, "x"],
        &["LPUSH", &merged, "x"],
        &["ZADD", &merged, "1", "x"],
        &["XADD", &merged, "*", "f", "v"],
    ];
    for words in commands {
        let line = c.expect_error(words);
        assert!(line.starts_with("WRONGTYPE "), "{words:?}: {line}");
    }
    assert_eq!(server.digest(), before);
    assert_eq!(owners(&mut c, P, [1]), ["a"]);
    assert_consistent(&mut c, P);
}

#[test]
fn a_packed_index_follows_its_keys() {
    let server = packed_server();
    let (mut c, mut one) = (server.wire(), server.wire());
    ok!(one, "SELECT", 1);
    small_index(&mut c, P);
    let (merged, expected) = (key("allhashes"), replies_of(&mut c, P));
    ok!(c, "RENAME", merged, "elsewhere");
    assert_eq!(owners(&mut c, P, [1, 25]), ["-", "-"]);
    ok!(c, "RENAME", "elsewhere", merged);
    assert_eq!(replies_of(&mut c, P), expected, "after RENAME");
    ok!(c, "COPY", merged, "copy");
    ok!(c, "DEL", merged);
    assert_eq!(owners(&mut c, P, [1]), ["-"]);
    ok!(c, "RENAME", "copy", merged);
    assert_eq!(replies_of(&mut c, P), expected, "after COPY");
    let names = server.snapshot().names();
    for name in &names {
        assert_eq!(ok!(c, "MOVE", name, 1), int(1));
        // Valkey 8.1 leaves the client in the other database.
        ok!(c, "SELECT", 0);
    }
    assert_eq!(owners(&mut c, P, [1]), ["-"]);
    assert_eq!(replies_of(&mut one, P), expected, "after MOVE");
    small_index(&mut c, P);
    add(&mut c, P, "more", 200..210);
    commit(&mut c, P, "more");
    ok!(c, "SWAPDB", 0, 1);
    assert_eq!(replies_of(&mut c, P), expected, "after SWAPDB");
    assert_eq!(owners(&mut one, P, [1, 205]), ["a", "more"]);
    ok!(c, "DEBUG", "RELOAD");
    assert_eq!(replies_of(&mut c, P), expected, "after a reload");
    ok!(c, "FLUSHDB");
    assert_eq!(owners(&mut c, P, [1]), ["-"]);
    assert_eq!(owners(&mut one, P, [1, 205]), ["a", "more"]);
    small_index(&mut c, P);
    assert_eq!(replies_of(&mut c, P), expected, "anew");
    // All keys under another prefix are another index.
    for name in server.snapshot().names() {
        let other = name.replacen("coll-42", "coll-43", 1);
        ok!(c, "RENAME", name, other);
    }
    assert_eq!(owners(&mut c, P, [1]), ["-"]);
    assert_eq!(
        replies_of(&mut c, "{coll-43}:"),
        expected,
        "under another prefix"
    );
    assert_consistent(&mut c, "{coll-43}:");
    assert_consistent(&mut one, P);
}

#[test]
fn the_storage_of_new_indexes_is_a_setting() {
    let setting = "crawlspace.dedupe-storage";
    let server = plain_server();
    let mut c = server.wire();
    let get = |c: &mut Wire| ok!(c, "CONFIG", "GET", setting).pairs()[0].1.text();
    assert_eq!(get(&mut c), "plain");
    small_index(&mut c, "plain:");
    ok!(c, "CONFIG", "SET", setting, "packed");
    assert_eq!(get(&mut c), "packed");
    small_index(&mut c, P);
    assert_eq!(ok!(c, "TYPE", key("allhashes")).text(), "crawlpack");
    assert!(is_packed(&mut c, P));
    // One that is there stays as it is.
    assert!(!is_packed(&mut c, "plain:"));
    add(&mut c, "plain:", "c", 100..110);
    commit(&mut c, "plain:", "c");
    assert_eq!(ok!(c, "TYPE", "plain:allhashes").text(), "hash");
    for bad in ["", "Packed value", "plain ", "0", "zip"] {
        err!(c, "CONFIG", "SET", setting, bad);
        assert_eq!(get(&mut c), "packed");
    }
    ok!(c, "CONFIG", "SET", setting, "plain");
    assert!(is_packed(&mut c, P));
    small_index(&mut c, "q:");
    assert_eq!(replies_of(&mut c, P), replies_of(&mut c, "q:"));
    let packed = packed_server();
    // An empty index that was unpacked remembers it.
    let mut c = packed.wire();
    ok!(c, "DEDUPE.UNPACK", P);
    small_index(&mut c, P);
    assert_eq!(ok!(c, "TYPE", key("allhashes")).text(), "hash");
    assert_eq!(get(&mut packed.wire()), "packed");
    assert_eq!(
        ok!(packed.wire(), "DEDUPE.STATS", "q:").field("storage"),
        bulk("packed")
    );
    let file = Options::new()
        .plain()
        .args(&["--crawlspace.dedupe-storage", "packed"]);
    assert_eq!(get(&mut file.start().wire()), "packed");
}

#[test]
fn bad_module_argument_is_refused() {
    let server = Options::new()
        .no_module()
        .args(&["--enable-module-command", "yes"])
        .start();
    let mut c = server.wire();
    let module = redis_tests::module_path();
    let module = module.to_string_lossy();
    for words in [
        &["dedupe-storage", "zip"][..],
        &["dedupe-storage"],
        &["dedupe-storage", ""],
    ] {
        let load = [&["MODULE", "LOAD", &module], words].concat();
        c.expect_error(&load);
    }
    assert!(server.log().contains("dedupe-storage"), "{}", server.log());
}

#[test]
fn an_empty_index_remembers_that_it_is_packed() {
    let server = plain_server();
    let mut c = server.wire();
    assert_eq!(
        change_storage(&mut c, "DEDUPE.PACK", P),
        ("packed".into(), 0, 0)
    );
    assert_eq!(ok!(c, "EXISTS", key("allhashes")), int(0));
    assert_eq!(storage_of(&mut c, P), "packed");
    assert_consistent(&mut c, P);
    ok!(c, "DEBUG", "RELOAD");
    assert_eq!(storage_of(&mut c, P), "packed");
    small_index(&mut c, P);
    assert_eq!(ok!(c, "TYPE", key("allhashes")).text(), "crawlpack");
    assert_consistent(&mut c, P);
    assert_eq!(
        change_storage(&mut c, "DEDUPE.UNPACK", "{new}:"),
        ("plain".into(), 0, 0)
    );
    add(&mut c, "{open}:", "a", 0..3);
    assert_eq!(
        change_storage(&mut c, "DEDUPE.PACK", "{open}:"),
        ("packed".into(), 0, 0)
    );
    assert_eq!(commit(&mut c, "{open}:", "a"), (3, 0));
    assert_eq!(ok!(c, "TYPE", "{open}:allhashes").text(), "crawlpack");
    assert_eq!(owners(&mut c, "{open}:", 0..4), ["a", "a", "a", "-"]);
}

#[test]
fn an_index_that_was_emptied_goes_on_packed() {
    let server = packed_server();
    let mut c = server.wire();
    for round in 0..3 {
        add(&mut c, P, "a", 0..200);
        add(&mut c, P, "b", 100..300);
        commit(&mut c, P, "a");
        commit(&mut c, P, "b");
        assert_eq!(ok!(c, "DEDUPE.REMOVE", P, "a").ints(), [1, 100, 100]);
        assert_eq!(ok!(c, "DEDUPE.REMOVE", P, "b").ints(), [1, 200, 0]);
        assert_eq!(
            ok!(c, "EXISTS", key("allhashes"), key("moving")),
            int(0),
            "round {round}"
        );
        assert_eq!(owners(&mut c, P, [1, 250]), ["-", "-"]);
        assert_eq!(storage_of(&mut c, P), "packed");
        assert_consistent(&mut c, P);
        if round == 1 {
            ok!(c, "DEBUG", "RELOAD");
        }
    }
    assert_eq!(server.info_number("panics"), 0);
}

#[test]
fn the_profile_of_browsertrix_is_packed_too() {
    let server = packed_server();
    let mut c = server.wire();
    ok!(c, "DEDUPE.PROFILE", P, "browsertrix");
    small_index(&mut c, P);
    assert_eq!(ok!(c, "TYPE", key("alldupes")).text(), "crawlpack");
    assert_eq!(ok!(c, "EXISTS", key("allhashes")), int(0));
    let hash = sha256_of(1);
    let bare = hash.strip_prefix("sha256:").unwrap();
    let found = ok!(c, "DEDUPE.LOOKUP", P, hash, bare, bare.to_uppercase());
    assert_eq!(
        found,
        array([record_of("a", 1), record_of("a", 1), record_of("a", 1)])
    );
    assert_eq!(set_key(&mut c, &key("u:duperef")), ["a 0"]);
    assert_eq!(plain_hash(&mut c, P, "alldupes")[bare], "a");
    let line = err!(c, "DEDUPE.PROFILE", P, "document");
    assert!(line.starts_with("HASCRAWLS "), "{line}");
    ok!(c, "DEDUPE.UNPACK", P);
    assert_eq!(ok!(c, "HGET", key("alldupes"), bare), bulk("a"));
    assert_consistent(&mut c, P);
}

#[test]
fn records_of_an_open_crawl_are_plain_until_its_commit() {
    let server = packed_server();
    let mut c = server.wire();
    add(&mut c, P, "a", 0..3);
    let stored = ok!(c, "HGET", key("h:a"), sha256_of(1));
    assert_eq!(
        stored,
        bulk(format!("0 {DATE} http://example.com/page/1 1001"))
    );
    commit(&mut c, P, "a");
    assert_eq!(ok!(c, "EXISTS", key("h:a"), key("holders")), int(0));
    // A plain client goes on with the crawl, as the documents say.
    ok!(c, "SADD", key("uncommittedcrawls"), "a");
    ok!(
        c,
        "HSET",
        key("h:a"),
        sha256_of(7),
        format!("0 {DATE} http://e.com/ 7")
    );
    ok!(c, "HINCRBY", key("h:a:counts"), "totalUrls", 1);
    assert_eq!(owners(&mut c, P, [1, 7]), ["a", "-"]);
    assert_eq!(commit(&mut c, P, "a"), (1, 0));
    assert_eq!(owners(&mut c, P, [1, 7]), ["a", "a"]);
    assert_eq!(ok!(c, "EXISTS", key("h:a")), int(0));
    assert_eq!(plain_hash(&mut c, P, "h:a").len(), 4);
    assert_consistent(&mut c, P);
}

#[test]
fn arguments_are_checked() {
    let server = plain_server();
    let mut c = server.wire();
    small_index(&mut c, P);
    for name in ["DEDUPE.PACK", "DEDUPE.UNPACK"] {
        assert!(err!(c, name).contains("wrong number of arguments"));
        assert!(err!(c, name, P, "more").contains("wrong number of arguments"));
        err!(c, name, vec![b'x'; 10 << 20]);
    }
    ok!(c, "HSET", key("crawlspace"), "format", "999");
    for name in ["DEDUPE.PACK", "DEDUPE.UNPACK"] {
        assert!(err!(c, name, P).starts_with("BADFORMAT "));
    }
    ok!(c, "HSET", key("crawlspace"), "format", "1");
    for (wrong, words) in [
        ("allhashes", &["SET", "x"][..]),
        ("allcrawls", &["SET", "x"]),
        ("h:a", &["RPUSH", "x"]),
        ("holders", &["SET", "x"]),
    ] {
        ok!(c, "RENAME", key(wrong), "kept");
        ok!(c, words[0], key(wrong), words[1]);
        let spoiled = server.snapshot();
        let line = err!(c, "DEDUPE.PACK", P);
        let names = line.starts_with("WRONGTYPE ") && line.contains(&key(wrong));
        assert!(names, "{wrong}: {line}");
        server.snapshot().assert_same(&spoiled, "refused PACK");
        ok!(c, "RENAME", "kept", key(wrong));
    }
    assert_consistent(&mut c, P);
}
