//! A packed index and other keys: settings, plain commands, moves and deletions.

use redis_tests::{
    DATE, DedupeIndex, Options, Server, Wire, array, assert_contains, assert_error, bulk, err, int,
    ok, record_of, replies_of, rows, sha256_of, simple, small_index,
};

const P: &str = "{coll-42}:";

fn key(name: &str) -> String {
    format!("{P}{name}")
}

/// Starts a server with an index that is packed when it is committed.
fn packed() -> (Server, DedupeIndex) {
    DedupeIndex::on(Options::new().packed(), P)
}

/// Starts a server with an index that is plain until it is packed.
fn plain() -> (Server, DedupeIndex) {
    DedupeIndex::on(Options::new().plain(), P)
}

/// Checks the type of a key of the index, as the server reports it.
#[track_caller]
fn assert_type(c: &mut DedupeIndex, name: &str, kind: &str) {
    assert_eq!(c.plain(format!("TYPE {}{name}", c.prefix())), simple(kind));
}

/// Fails unless the index is packed and has a marker for plain clients.
#[track_caller]
fn assert_packed(c: &mut DedupeIndex, merged: &str) {
    assert_type(c, merged, "crawlmark");
    assert_type(c, "packedhashes", "crawlpack");
}

#[test]
fn changed_keys_are_notified_and_watched() {
    let (server, mut c) = plain();
    let (mut watcher, mut listener) = (c.another(), server.wire());
    small_index(&mut c, P);
    c.plain("CONFIG SET notify-keyspace-events KA");
    ok!(listener, "PSUBSCRIBE", "__keyspace@0__:*");
    let mut notified = |c: &mut DedupeIndex| {
        c.plain("PUBLISH __keyspace@0__:end end");
        let messages = std::iter::from_fn(|| {
            let message = listener.recv();
            let channel = message.items()[2].text();
            let (_, key) = channel.split_once(':').expect("a key");
            (message.items()[3] != bulk("end")).then(|| key.to_owned())
        });
        messages.collect::<Vec<_>>()
    };
    for name in ["PACK", "UNPACK"] {
        watcher.plain("WATCH {coll-42}:allhashes");
        c.ok(name);
        let told = notified(&mut c);
        for key in ["allhashes", "h:a", "holders"].map(key) {
            assert!(told.contains(&key), "{name}: nothing of {key}: {told:?}");
        }
        watcher.plain("MULTI");
        watcher.plain("PING");
        let executed = watcher.plain("EXEC");
        assert!(
            executed.is_nil(),
            "{name} did not make the transaction fail"
        );
        // Without a change, transactions that watch the keys succeed.
        watcher.plain("WATCH {coll-42}:allhashes {coll-42}:crawlspace");
        c.ok(name);
        watcher.plain("MULTI");
        watcher.plain("PING");
        let executed = watcher.plain("EXEC");
        assert!(!executed.is_nil(), "{name} again disturbed WATCH");
        notified(&mut c);
    }
}

#[test]
fn plain_commands_on_the_packed_key_are_refused_and_change_nothing() {
    let (server, mut c) = packed();
    small_index(&mut c, P);
    let (merged, h) = (key("allhashes"), sha256_of(1));
    let before = server.digest();
    for line in [
        format!("HGET {merged} {h}"),
        format!("HSET {merged} {h} b"),
        format!("HSETNX {merged} {h} b"),
        format!("HDEL {merged} {h}"),
        format!("HGETALL {merged}"),
        format!("HKEYS {merged}"),
        format!("HLEN {merged}"),
        format!("HEXISTS {merged} {h}"),
        format!("HMGET {merged} {h}"),
        format!("HSCAN {merged} 0"),
        format!("HINCRBY {merged} {h} 1"),
        format!("GET {merged}"),
        format!("APPEND {merged} x"),
        format!("SADD {merged} x"),
        format!("LPUSH {merged} x"),
        format!("ZADD {merged} 1 x"),
        format!("XADD {merged} * f v"),
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        assert_error(&c.wire().call(&words), "WRONGTYPE", &line);
    }
    assert_eq!(server.digest(), before);
    assert_eq!(c.owners([1]), ["a"]);
    c.assert_consistent();
}

#[test]
fn a_packed_index_follows_its_keys() {
    let (server, mut c) = packed();
    let mut one = c.another();
    one.plain("SELECT 1");
    small_index(&mut c, P);
    let (merged, expected) = (key("packedhashes"), replies_of(&mut c, P));
    c.plain(format!("RENAME {merged} elsewhere"));
    assert_eq!(c.owners([1, 25]), ["-", "-"]);
    c.plain(format!("RENAME elsewhere {merged}"));
    assert_eq!(replies_of(&mut c, P), expected, "after RENAME");
    c.plain(format!("COPY {merged} copy"));
    c.plain(format!("DEL {merged}"));
    assert_eq!(c.owners([1]), ["-"]);
    c.plain(format!("RENAME copy {merged}"));
    assert_eq!(replies_of(&mut c, P), expected, "after COPY");
    let names = server.snapshot().names();
    for name in &names {
        assert_eq!(c.plain(format!("MOVE {name} 1")), int(1));
        // Valkey 8.1 leaves the client in the other database.
        c.plain("SELECT 0");
    }
    assert_eq!(c.owners([1]), ["-"]);
    assert_eq!(replies_of(&mut one, P), expected, "after MOVE");
    small_index(&mut c, P);
    c.committed("more", 200..210);
    c.plain("SWAPDB 0 1");
    assert_eq!(replies_of(&mut c, P), expected, "after SWAPDB");
    assert_eq!(one.owners([1, 205]), ["a", "more"]);
    c.plain("DEBUG RELOAD");
    // Valkey 8.1 leaves the client in the database that was loaded last.
    c.plain("SELECT 0");
    assert_eq!(replies_of(&mut c, P), expected, "after a reload");
    c.plain("FLUSHDB");
    assert_eq!(c.owners([1]), ["-"]);
    assert_eq!(one.owners([1, 205]), ["a", "more"]);
    small_index(&mut c, P);
    assert_eq!(replies_of(&mut c, P), expected, "read again");
    // Keys with another prefix form another index.
    for name in server.snapshot().names() {
        let other = name.replacen("coll-42", "coll-43", 1);
        c.plain(format!("RENAME {name} {other}"));
    }
    assert_eq!(c.owners([1]), ["-"]);
    let mut other = DedupeIndex::of(&server, "{coll-43}:");
    assert_eq!(replies_of(&mut other, "{coll-43}:"), expected);
    other.assert_consistent();
    one.assert_consistent();
}

#[test]
fn the_storage_of_new_indexes_is_a_setting() {
    let setting = "crawlspace.dedupe-storage";
    let get = |c: &mut Wire| ok!(c, "CONFIG", "GET", setting).pairs()[0].1.text();
    let (server, mut c) = plain();
    let mut early = DedupeIndex::of(&server, "plain:");
    assert_eq!(get(&mut c), "plain");
    small_index(&mut early, "plain:");
    c.plain(format!("CONFIG SET {setting} packed"));
    assert_eq!(get(&mut c), "packed");
    small_index(&mut c, P);
    assert_packed(&mut c, "allhashes");
    assert_eq!(c.storage(), "packed");
    // An existing index keeps its storage.
    assert_eq!(early.storage(), "plain");
    early.committed("c", 100..110);
    assert_type(&mut early, "allhashes", "hash");
    for bad in ["", "Packed value", "plain ", "0", "zip"] {
        err!(c.wire(), "CONFIG", "SET", setting, bad);
        assert_eq!(get(&mut c), "packed");
    }
    c.plain(format!("CONFIG SET {setting} plain"));
    assert_eq!(c.storage(), "packed");
    small_index(&mut c, "q:");
    assert_eq!(replies_of(&mut c, P), replies_of(&mut c, "q:"));
    // An empty index that was unpacked remains plain.
    let (server, mut c) = packed();
    c.ok("UNPACK");
    small_index(&mut c, P);
    assert_type(&mut c, "allhashes", "hash");
    assert_eq!(get(&mut c), "packed");
    assert_eq!(DedupeIndex::of(&server, "q:").storage(), "packed");
    let line = ["--crawlspace.dedupe-storage", "packed"];
    let server = Options::new().plain().args(&line).start();
    assert_eq!(get(&mut server.wire()), "packed");
}

#[test]
fn bad_module_argument_is_refused() {
    let options = Options::new().no_module();
    let server = options.args(&["--enable-module-command", "yes"]).start();
    let module = redis_tests::module_path();
    let module = module.to_string_lossy();
    let mut c = server.wire();
    for value in [&["zip"][..], &[], &[""]] {
        let load = ["MODULE", "LOAD", &module, "dedupe-storage"];
        c.expect_error(&[&load, value].concat());
    }
    assert_contains(server.log(), "dedupe-storage");
}

#[test]
fn an_empty_index_remembers_that_it_is_packed() {
    let (server, mut c) = plain();
    assert_eq!(c.change("PACK"), ("packed".into(), 0, 0));
    assert_eq!(c.plain("EXISTS {coll-42}:allhashes"), int(0));
    assert_eq!(c.storage(), "packed");
    c.assert_consistent();
    c.plain("DEBUG RELOAD");
    assert_eq!(c.storage(), "packed");
    small_index(&mut c, P);
    assert_packed(&mut c, "allhashes");
    c.assert_consistent();
    let [mut new, mut open] = ["{new}:", "{open}:"].map(|p| DedupeIndex::of(&server, p));
    assert_eq!(new.change("UNPACK"), ("plain".into(), 0, 0));
    open.add("a", 0..3);
    assert_eq!(open.change("PACK"), ("packed".into(), 0, 0));
    assert_eq!(open.commit("a"), (3, 0));
    assert_packed(&mut open, "allhashes");
    assert_eq!(open.owners(0..4), ["a", "a", "a", "-"]);
}

#[test]
fn an_emptied_index_stays_packed() {
    let (server, mut c) = packed();
    for round in 0..3 {
        c.add("a", 0..200);
        c.add("b", 100..300);
        c.commit("a");
        c.commit("b");
        assert_eq!(c.ok("REMOVE a").ints(), [1, 100, 100]);
        assert_eq!(c.ok("REMOVE b").ints(), [1, 200, 0]);
        let left = c.plain("EXISTS {coll-42}:allhashes {coll-42}:packedhashes {coll-42}:moving");
        assert_eq!(left, int(0), "round {round}");
        assert_eq!(c.owners([1, 250]), ["-", "-"]);
        assert_eq!(c.storage(), "packed");
        c.assert_consistent();
        if round == 1 {
            c.plain("DEBUG RELOAD");
        }
    }
    assert_eq!(server.info_number("panics"), 0);
}

#[test]
fn the_profile_of_browsertrix_is_packed_too() {
    let (_server, mut c) = packed();
    c.ok("PROFILE browsertrix");
    small_index(&mut c, P);
    assert_packed(&mut c, "alldupes");
    assert_eq!(c.plain("EXISTS {coll-42}:allhashes"), int(0));
    let hash = sha256_of(1);
    let bare = hash.trim_start_matches("sha256:");
    let found = c.ok(format!("LOOKUP {hash} {bare} {}", bare.to_uppercase()));
    assert_eq!(found, array([(); 3].map(|()| record_of("a", 1))));
    assert_eq!(c.set("u:duperef"), ["a 0"]);
    assert_eq!(c.plain_hash("alldupes")[bare], "a");
    c.refused("PROFILE document", "HASCRAWLS");
    c.ok("UNPACK");
    assert_eq!(c.plain(format!("HGET {P}alldupes {bare}")), bulk("a"));
    c.assert_consistent();
}

#[test]
fn records_of_an_open_crawl_are_plain_until_its_commit() {
    let (_server, mut c) = packed();
    c.add("a", 0..3);
    let stored = c.plain("HGET {coll-42}:h:a #1");
    let record = format!("0 {DATE} http://example.com/page/1 1001");
    assert_eq!(stored, bulk(record));
    c.commit("a");
    assert_eq!(c.plain("EXISTS {coll-42}:h:a {coll-42}:holders"), int(0));
    // A plain client continues the crawl in the documented way.
    c.plain("SADD {coll-42}:uncommittedcrawls a");
    c.plain(format!("HSET {P}h:a #7 '0 {DATE} http://e.com/ 7'"));
    c.plain("HINCRBY {coll-42}:h:a:counts totalUrls 1");
    assert_eq!(c.owners([1, 7]), ["a", "-"]);
    assert_eq!(c.commit("a"), (1, 0));
    assert_eq!(c.owners([1, 7]), ["a", "a"]);
    assert_eq!(c.plain("EXISTS {coll-42}:h:a"), int(0));
    assert_eq!(c.plain_hash("h:a").len(), 4);
    c.assert_consistent();
}

#[test]
fn a_key_of_another_type_is_named_by_pack_and_stays() {
    let (server, mut c) = plain();
    small_index(&mut c, P);
    for (name, command) in rows![
        "allhashes", "SET";
        "allcrawls", "SET";
        "h:a", "RPUSH";
        "holders", "SET";
    ] {
        c.plain(format!("RENAME {P}{name} kept"));
        c.plain(format!("{command} {P}{name} x"));
        let spoiled = server.snapshot();
        c.refused("PACK", &format!("WRONGTYPE {P}{name}"));
        server.snapshot().assert_same(&spoiled, "refused PACK");
        c.plain(format!("RENAME kept {P}{name}"));
    }
    c.assert_consistent();
}
