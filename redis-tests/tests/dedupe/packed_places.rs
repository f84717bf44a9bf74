//! A look-up of one hash notes where the packed value is in memory, and does not open its key again.
//! A look-up of several hashes always opens it. Both must give the same reply after any change of
//! the key.

use redis_tests::{DedupeIndex, Options, Reply, Rng, Server, Word, rounds, small_index, until};

const P: &str = "p:";

/// Fails unless look-ups of one hash and of several hashes agree, in both formats.
#[track_caller]
fn compare(c: &mut DedupeIndex, when: &str) {
    for n in [0, 15, 25, 34, 36, 99] {
        // The second round uses the address that the first round has cached.
        for _ in 0..2 {
            let opened = c.call(format!("LOOKUP #{n} #{n}"));
            let noted = c.call(format!("LOOKUP #{n}"));
            let texts = c.call(format!("LOOKUP FORMAT record #{n} #{n}"));
            let text = c.call(format!("LOOKUP format RECORD #{n}"));
            if opened.is_error() {
                for other in [noted, texts, text] {
                    assert_eq!(other, opened, "hash {n} {when}");
                }
                continue;
            }
            let one = |reply: &Reply| reply.items()[0].clone();
            assert_eq!(one(&noted), one(&opened), "hash {n} {when}");
            assert_eq!(one(&text), one(&texts), "the text of hash {n} {when}");
            assert_eq!(one(&text).is_nil(), one(&opened).is_nil());
            if !one(&text).is_nil() {
                let fields = one(&opened);
                let fields = fields.items().iter().map(|field| match field {
                    Reply::Int(number) => number.to_string(),
                    text => text.text(),
                });
                let fields: Vec<String> = fields.collect();
                assert_eq!(one(&text).text(), fields.join(" "), "hash {n} {when}");
            }
        }
    }
}

/// Builds the index, and stores a packed value with other records under another key.
fn build(c: &mut DedupeIndex) {
    c.plain("FLUSHALL");
    small_index(c, "other:");
    c.plain("RENAME other:packedhashes spare");
    c.committed("a", 0..12);
    c.committed("b", 10..35);
    c.add("open", 33..40);
}

const STEPS: &[&str] = &[
    "PEXPIRE k 100000",
    "PERSIST k",
    "RENAME k away",
    "RENAME away k",
    "COPY spare k REPLACE",
    "COPY k away REPLACE",
    "SET k text",
    "SET k text KEEPTTL",
    "DEL k",
    "UNLINK k",
    "UNLINK spare",
    "MOVE k 1",
    "SWAPDB 0 1",
    "DEBUG RELOAD",
    "FLUSHDB",
    "FLUSHDB ASYNC",
    "FLUSHALL ASYNC",
    "MEMORY PURGE",
    "HSET p:crawlspace storage plain",
    "DEL p:crawlspace",
    "SREM p:allcrawls a",
    "SADD p:allcrawls a",
    "DEL p:allhashes",
];

const CALLS: &[&str] = &[
    "PACK",
    "UNPACK",
    "REMOVE a",
    "REMOVE b",
    "COMMIT open",
    "COMMIT a",
    "ADD a @0..12",
    "REPAIR",
    "CANCEL open",
];

/// Returns the time of the server in microseconds.
fn clock_us(c: &mut DedupeIndex) -> u64 {
    let time = c.plain("TIME").texts();
    let number = |text: &String| text.parse::<u64>().expect("a number");
    number(&time[0]) * 1_000_000 + number(&time[1])
}

/// Changes the key in one step.
fn step(c: &mut DedupeIndex, rng: &mut Rng) -> String {
    match rng.below(10) {
        0 => {
            let call = rng.pick(CALLS);
            // A call of a crawl that was removed fails.
            c.call(call);
            (*call).to_owned()
        }
        1 => {
            let dump = c
                .wire()
                .call(&["DUMP", *rng.pick(&["spare", "p:packedhashes"])]);
            if let Reply::Bulk(dump) = dump {
                let ttl = *rng.pick(&["0", "100000"]);
                let words = ["RESTORE".word(), "p:packedhashes".word(), ttl.word(), dump];
                c.wire()
                    .expect_ok(&[&words[..], &["REPLACE".word()]].concat());
            }
            "RESTORE".to_owned()
        }
        2 => {
            c.plain("PEXPIRE p:packedhashes 1");
            // A command that reads the key would delete it.
            let before = clock_us(c);
            until("the key expires", || clock_us(c) > before + 2000);
            "PEXPIRE".to_owned()
        }
        3 => {
            let script = "redis.call('LOOKUP', KEYS[1], ARGV[1]) redis.call('UNLINK', KEYS[2]) return redis.call('LOOKUP', KEYS[1], ARGV[1])";
            let script = script.replace("LOOKUP", "DEDUPE.LOOKUP");
            let words = ["EVAL", &script, "2", P, "p:packedhashes"];
            let words: Vec<Vec<u8>> = words.iter().map(|word| word.word()).collect();
            let hash = c.words("LOOKUP #11").pop().expect("a hash");
            c.wire().call(&[&words[..], &[hash]].concat());
            "EVAL".to_owned()
        }
        _ => {
            let step = rng.pick(STEPS);
            let words = step.replace(" k", " p:packedhashes");
            let words: Vec<&str> = words.split(' ').collect();
            // A step on a missing key may fail.
            c.wire().call(&words);
            if *step == "MOVE k 1" || *step == "DEBUG RELOAD" {
                // Valkey 8.1 leaves the client in another database.
                c.plain("SELECT 0");
            }
            (*step).to_owned()
        }
    }
}

fn servers(options: Options) -> (Server, Server, DedupeIndex, DedupeIndex) {
    let (server, c) = DedupeIndex::on(options, P);
    let replica = Options::new().plain().replica_of(&server).start();
    let mut r = DedupeIndex::of(&replica, P);
    // Expired keys are only found by commands that read them.
    for wire in [&mut server.wire(), r.wire()] {
        wire.expect_ok(&["DEBUG", "SET-ACTIVE-EXPIRE", "0"]);
    }
    (server, replica, c, r)
}

#[test]
fn a_noted_place_is_never_used_after_the_value_left_its_key() {
    let mut rng = Rng::new("a_noted_place_is_never_used_after_the_value_left_its_key");
    let (server, replica, mut c, mut r) = servers(Options::new().packed());
    let mut found = 0;
    for round in 0..rounds("CRAWLSPACE_PLACES", 60) {
        build(&mut c);
        compare(&mut c, "at first");
        let mut steps = Vec::new();
        for _ in 0..1 + rng.below(8) {
            steps.push(step(&mut c, &mut rng));
            compare(&mut c, &format!("in round {round} after {steps:?}"));
            found += u64::from(!c.call("LOOKUP #11").is_error());
        }
        if round % 6 == 5 {
            server.wait_for_replica_offset(&replica);
            compare(
                &mut r,
                &format!("on the replica in round {round} after {steps:?}"),
            );
        }
    }
    assert!(found > 0);
}

#[test]
fn a_replica_hides_an_expired_value_before_its_master_deletes_it() {
    let (server, replica, mut c, mut r) = servers(Options::new().packed());
    build(&mut c);
    server.wait_for_replica_offset(&replica);
    compare(&mut r, "at first");
    assert_eq!(r.owners([11]), ["a"]);
    c.plain("PEXPIRE p:packedhashes 1");
    server.wait_for_replica_offset(&replica);
    until("the value expires", || r.owners([11]) == ["-"]);
    assert_eq!(
        r.plain("DBSIZE"),
        c.plain("DBSIZE"),
        "no server has deleted the key"
    );
}

#[test]
fn a_full_synchronization_replaces_a_noted_value() {
    let (server, replica, mut c, mut r) = servers(Options::new().packed());
    build(&mut c);
    server.wait_for_replica_offset(&replica);
    compare(&mut r, "at first");
    r.plain("REPLICAOF NO ONE");
    compare(&mut r, "as a master");
    r.committed("mine", 90..100);
    assert_eq!(r.owners([11]), ["a"]);
    assert_eq!(r.owners([99]), ["mine"]);
    c.ok("REMOVE a");
    r.plain(format!("REPLICAOF 127.0.0.1 {}", server.port()));
    until("the replica is synchronized", || {
        replica.info("master_link_status").as_deref() == Some("up")
    });
    server.wait_for_replica_offset(&replica);
    assert_eq!(r.owners([11]), ["b"]);
    assert_eq!(r.owners([99]), ["-"]);
    compare(&mut r, "after the synchronization");
}

#[test]
fn a_key_that_is_looked_up_does_not_become_idle() {
    let options = Options::new().packed();
    // Every use of a key adds one to its frequency.
    let policy = ["--maxmemory-policy", "allkeys-lfu", "--lfu-log-factor", "0"];
    let (_server, mut c) = DedupeIndex::on(options.args(&policy), P);
    build(&mut c);
    c.owners([11]);
    let before = c.plain("OBJECT FREQ p:packedhashes").int();
    for _ in 0..2_000 {
        c.owners([11]);
    }
    assert!(c.plain("OBJECT FREQ p:packedhashes").int() > before);
}
