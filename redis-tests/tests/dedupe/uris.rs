//! The stored URIs of a frontier are a native value of the module. Tests that persistence,
//! replication and copies neither lose nor change any of them.

use redis_tests::{Options, Rng, Server, Wire, cmd, err, int, ok, simple, until};

const KEYS: [&str; 3] = ["chg_uris:a", "{f}:chg_uris:b", "b\r\n\0:chg_uris:c"];
const EXECUTIONS: [&str; 3] = ["crawl-1", "crawl 2", "\u{e9}\r\n"];

fn uri(n: u64) -> String {
    let path = "x".repeat((n % 97) as usize);
    format!("https://www.example.org/section-{}/{path}/{n}", n % 11)
}

/// Adds URIs `from..from + n` of one execution.
fn add(c: &mut Wire, key: &str, from: u64, n: u64) {
    let commands = (from..from + n).map(|n| {
        let numbers = [0, n % 50, n % 4, 0].map(|n: u64| n.to_string());
        let [weight, due, depth, attempts] = numbers;
        let words = ["crawlspace.uris", key, "ADD", "crawl-1"].map(str::to_owned);
        let mut words = words.to_vec();
        words.extend([weight, due, depth, attempts, uri(n)]);
        words
    });
    for reply in c.pipeline(commands) {
        assert_eq!(reply, simple("OK"));
    }
}

/// Makes changes of every kind.
fn changes(c: &mut Wire, rng: &mut Rng, steps: u64) {
    for step in 0..steps {
        let key = *rng.pick(&KEYS);
        let execution = *rng.pick(&EXECUTIONS);
        let text = |n: u64| n.to_string();
        let uri = uri(rng.below(steps));
        let (due, now, token) = (text(rng.below(90)), text(rng.below(100)), text(step));
        let lease = text(step.saturating_sub(rng.below(30)));
        let (weight, depth, tried) = (text(rng.below(9)), text(rng.below(5)), text(rng.below(2)));
        let words: Vec<&str> = match rng.below(100) {
            0..=59 => vec!["ADD", execution, &weight, &due, &depth, &tried, &uri],
            60..=74 => vec!["TAKE", &token, execution, &now],
            75..=82 => vec!["DONE", &lease],
            83..=87 => vec!["RETURN", &lease, &due, &tried],
            88..=91 => vec!["RETURN", &lease, "-", &tried],
            92..=98 => vec!["REMOVE", execution, &uri],
            _ => vec!["DROP", execution, &depth],
        };
        let mut command = vec!["crawlspace.uris", key];
        command.extend(words);
        assert_eq!(c.expect_ok(&command), simple("OK"), "{command:?}");
    }
}

fn dumps(server: &Server) -> Vec<Vec<u8>> {
    let mut c = server.wire();
    KEYS.map(|key| ok!(c, "DUMP", key).bytes().to_vec())
        .to_vec()
}

fn rewrite_aof(server: &Server) {
    ok!(server.wire(), "BGREWRITEAOF");
    server.until_rewritten();
}

fn the_same_everywhere(preamble: bool) {
    let mut rng = Rng::new("the_same_everywhere");
    let mut server = Options::new().aof_unsynced(preamble).start();
    let replica = Options::new().replica_of(&server).start();
    changes(&mut server.wire(), &mut rng, 3000);
    // Add enough URIs for several chunks of the encoded value.
    add(&mut server.wire(), KEYS[0], 1_000_000, 30_000);
    let (digest, dumped) = (server.digest(), dumps(&server));
    let same = |other: &Server, what: &str| {
        assert_eq!(other.digest(), digest, "{what}");
        assert_eq!(dumps(other), dumped, "{what}");
    };
    server.wait_for_replica_offset(&replica);
    same(&replica, "replica");
    server.restart();
    same(&server, "replayed append-only file");
    rewrite_aof(&server);
    server.restart();
    same(&server, "rewritten append-only file");
    ok!(server.wire(), "DEBUG", "RELOAD");
    same(&server, "RDB reload");
    let late = Options::new().replica_of(&server).start();
    server.wait_for_replica_offset(&late);
    same(&late, "replica that came late");

    // A loaded value behaves like one that was never saved.
    changes(&mut server.wire(), &mut rng, 500);
    server.wait_for_replica_offset(&late);
    assert_eq!(server.digest(), late.digest());
    assert_eq!(dumps(&server), dumps(&late));
}

#[test]
fn append_only_files_with_preamble_and_replicas_hold_the_same() {
    the_same_everywhere(true);
}

#[test]
fn append_only_files_without_preamble_and_replicas_hold_the_same() {
    the_same_everywhere(false);
}

#[test]
fn a_restart_from_rdb_changes_nothing() {
    let mut server = Options::new().rdb().start();
    changes(&mut server.wire(), &mut Rng::new("rdb"), 2000);
    let (digest, dumped) = (server.digest(), dumps(&server));
    server.shutdown();
    server.restart();
    assert_eq!(server.digest(), digest);
    assert_eq!(dumps(&server), dumped);
}

#[test]
fn a_value_can_be_copied_dumped_and_restored() {
    let server = Server::start();
    let mut c = server.wire();
    add(&mut c, "a", 0, 5000);
    ok!(c, "crawlspace.uris", "a", "TAKE", 7, "crawl-1", 40);
    assert_eq!(ok!(c, "COPY", "a", "b"), int(1));
    let payload = ok!(c, "DUMP", "a");
    ok!(c, "RESTORE", "c", 0, payload.bytes());
    ok!(c, "RENAME", "c", "d");
    for copy in ["b", "d"] {
        assert_eq!(ok!(c, "DUMP", copy), payload, "{copy}");
        let digests = ok!(c, "DEBUG", "DIGEST-VALUE", "a", copy).texts();
        assert_eq!(digests[0], digests[1], "{copy}");
    }
    // The copies must be independent.
    ok!(c, "crawlspace.uris", "b", "DONE", 7);
    assert_eq!(ok!(c, "DUMP", "a"), payload);
    assert_ne!(ok!(c, "DUMP", "b"), payload);
    let digests = ok!(c, "DEBUG", "DIGEST-VALUE", "a", "b").texts();
    assert_ne!(digests[0], digests[1]);
    assert_eq!(ok!(c, "TYPE", "a"), simple("crawluris"));
}

/// Computes the checksum of a payload (CRC-64/Jones, as Redis does).
fn crc64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |crc, &byte| {
        (0..8).fold(crc ^ u64::from(byte), |crc: u64, _| {
            let low = crc & 1;
            crc >> 1 ^ (0x95ac_9329_ac4b_c9b5 & low.wrapping_neg())
        })
    })
}

#[test]
fn a_damaged_payload_is_refused_and_the_server_lives() {
    assert_eq!(crc64(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
    let server = Server::start();
    let mut rng = Rng::new("damaged payload");
    let mut c = server.wire();
    let mut restored = 0;
    for compression in ["yes", "no"] {
        ok!(c, "CONFIG", "SET", "rdbcompression", compression);
        ok!(c, "DEL", "a");
        add(&mut c, "a", 0, 60);
        ok!(c, "crawlspace.uris", "a", "TAKE", 7, "crawl-1", 40);
        let payload = ok!(c, "DUMP", "a").bytes().to_vec();
        let (body, _) = payload.split_at(payload.len() - 8);
        for _ in 0..3000 {
            let mut bytes = body.to_vec();
            // The last two bytes are the version of the format.
            let reach = bytes.len() as u64 - 2;
            match rng.below(3) {
                0 => {
                    let cut = rng.below(reach) as usize;
                    let version = bytes.split_off(bytes.len() - 2);
                    bytes.truncate(cut);
                    bytes.extend(version);
                }
                1 => bytes[rng.below(reach) as usize] ^= 1 << rng.below(8),
                _ => {
                    for _ in 0..1 + rng.below(4) {
                        bytes[rng.below(reach.min(80)) as usize] = rng.bits() as u8;
                    }
                }
            }
            if bytes == body {
                continue;
            }
            let sum = crc64(&bytes);
            bytes.extend(sum.to_le_bytes());
            let reply = cmd!(c, "RESTORE", "b", 0, bytes, "REPLACE");
            if !reply.is_error() {
                // The changed first byte makes it a value of another type, or the changed byte is
                // not read.
                restored += 1;
                ok!(c, "DEL", "b");
            }
        }
    }
    assert!(restored < 600, "{restored} of 6000 were restored");
    assert_eq!(server.info_number("panics"), 0);
    ok!(c, "crawlspace.uris", "a", "DONE", 7);
}

#[test]
fn memory_is_counted_and_given_back() {
    let server = Server::start();
    let mut c = server.wire();
    let usage = |c: &mut Wire| ok!(c, "MEMORY", "USAGE", "a").int();
    add(&mut c, "a", 0, 1);
    let one = usage(&mut c);
    assert!((100..1500).contains(&one), "{one}");
    let before = server.info_number("used_memory");
    add(&mut c, "a", 1, 200_000);
    let many = usage(&mut c);
    let used = server.info_number("used_memory") - before;
    assert!(
        (many - used).abs() < used / 8,
        "reported {many} bytes, measured {used} bytes"
    );
    assert!(many / 200_000 < 150, "{many} bytes");
    assert_eq!(ok!(c, "COPY", "a", "b"), int(1));
    assert_eq!(ok!(c, "UNLINK", "a"), int(1));
    ok!(c, "FLUSHALL", "ASYNC");
    until("memory is given back", || {
        server.info_number("used_memory") - before < used / 20
    });
    assert_eq!(server.info_number("panics"), 0);
}

#[test]
fn other_types_are_refused() {
    let server = Server::start();
    let mut c = server.wire();
    ok!(c, "RPUSH", "list", "x");
    let error = err!(c, "crawlspace.uris", "list", "DONE", 1);
    assert!(error.starts_with("WRONGTYPE "), "{error}");
    let error = err!(c, "crawlspace.uris", "list", "ADD", "e", 0, 0, 0, 0, "u");
    assert!(error.starts_with("WRONGTYPE "), "{error}");
    add(&mut c, "a", 0, 1);
    assert!(err!(c, "RPUSH", "a", "x").starts_with("WRONGTYPE "));
    assert!(err!(c, "HGET", "a", "x").starts_with("WRONGTYPE "));
}

#[test]
fn invalid_manual_calls_change_nothing() {
    let server = Server::start();
    let mut c = server.wire();
    let long = "x".repeat((64 << 10) + 1);
    let calls: [&[&str]; 16] = [
        &["crawlspace.uris"],
        &["crawlspace.uris", "a"],
        &["crawlspace.uris", "a", "SING"],
        &["crawlspace.uris", "a", "add", "e", "0", "0", "0", "0", "u"],
        &["crawlspace.uris", "a", "ADD", "e", "0", "0", "0", "u"],
        &["crawlspace.uris", "a", "ADD", "", "0", "0", "0", "0", "u"],
        &["crawlspace.uris", "a", "ADD", "e", "0", "0", "0", "0", ""],
        &[
            "crawlspace.uris",
            "a",
            "ADD",
            "e",
            "0",
            "0",
            "0",
            "0",
            &long,
        ],
        &[
            "crawlspace.uris",
            "a",
            "ADD",
            "e",
            "1000001",
            "0",
            "0",
            "0",
            "u",
        ],
        &["crawlspace.uris", "a", "ADD", "e", "0", "-1", "0", "0", "u"],
        &[
            "crawlspace.uris",
            "a",
            "ADD",
            "e",
            "0",
            "0",
            "4294967296",
            "0",
            "u",
        ],
        &["crawlspace.uris", "a", "RETURN", "1", "-", "2"],
        &["crawlspace.uris", "a", "TAKE", "x", "e", "1"],
        &["crawlspace.uris", "a", "LOAD", ""],
        &["crawlspace.uris", "a", "LOAD", "\u{1}23456789abc"],
        &["crawlspace.uris", "a", "DROP", "e", "9223372036854775808"],
    ];
    for call in calls {
        let error = c.expect_error(call);
        assert!(error.starts_with("ERR "), "{error}");
    }
    for call in [
        "DONE 1",
        "RETURN 1 - 0",
        "TAKE 1 e 1",
        "DROP e 9",
        "REMOVE e u",
    ] {
        let mut words = vec!["crawlspace.uris", "a"];
        words.extend(call.split(' '));
        assert_eq!(c.expect_ok(&words), simple("OK"));
    }
    assert_eq!(ok!(c, "DBSIZE"), int(0));
}

#[test]
fn the_key_is_deleted_with_its_last_uri_here_and_on_replicas() {
    let server = Server::start();
    let replica = Options::new().replica_of(&server).start();
    let mut c = server.wire();
    ok!(c, "CONFIG", "SET", "notify-keyspace-events", "KEAd");
    let mut events = server.wire();
    ok!(events, "SUBSCRIBE", "__keyspace@0__:a");
    add(&mut c, "a", 0, 1);
    ok!(c, "crawlspace.uris", "a", "TAKE", 1, "crawl-1", 100);
    ok!(c, "crawlspace.uris", "a", "TAKE", 2, "crawl-1", 100);
    assert_eq!(ok!(c, "EXISTS", "a"), int(1), "a lease keeps it");
    ok!(c, "crawlspace.uris", "a", "DONE", 1);
    assert_eq!(ok!(c, "EXISTS", "a"), int(0));
    let heard: Vec<String> = (0..4).map(|_| events.recv().items()[2].text()).collect();
    let uris = "crawlspace.uris";
    assert_eq!(heard, [uris, uris, uris, "del"]);
    server.wait_for_replica_offset(&replica);
    assert_eq!(ok!(replica.wire(), "DBSIZE"), int(0));
}

#[test]
fn a_watched_key_that_changes_ends_the_transaction() {
    let server = Server::start();
    let (mut c, mut other) = (server.wire(), server.wire());
    add(&mut c, "a", 0, 2);
    ok!(c, "WATCH", "a");
    add(&mut other, "a", 2, 1);
    ok!(c, "MULTI");
    ok!(c, "PING");
    assert!(ok!(c, "EXEC").is_nil());
    ok!(c, "MULTI");
    ok!(c, "crawlspace.uris", "a", "TAKE", 1, "crawl-1", 100);
    ok!(c, "crawlspace.uris", "a", "DONE", 1);
    assert_eq!(ok!(c, "EXEC").items().len(), 2);
}

#[test]
fn only_users_with_write_access_may_change_the_key() {
    let server = Server::start();
    let mut c = server.wire();
    let command = ["ADD", "e", "0", "0", "0", "0", "u"];
    let keys = ok!(c, "COMMAND", "GETKEYS", "crawlspace.uris", "k", "DONE", 1);
    assert_eq!(keys.texts(), ["k"]);
    ok!(c, "ACL", "SETUSER", "u", "on", "nopass", "~mine:*", "+@all");
    ok!(
        c,
        "ACL",
        "SETUSER",
        "plain",
        "on",
        "nopass",
        "~*",
        "+@all",
        "-crawlspace.uris"
    );
    let mut user = server.wire();
    ok!(user, "AUTH", "u", "x");
    let mut words = vec!["crawlspace.uris", "other"];
    words.extend(command);
    assert!(user.expect_error(&words).starts_with("NOPERM "));
    words[1] = "mine:a";
    assert_eq!(user.expect_ok(&words), simple("OK"));
    ok!(user, "AUTH", "plain", "x");
    assert!(user.expect_error(&words).starts_with("NOPERM "));
}
