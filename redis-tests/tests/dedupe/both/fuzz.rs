//! Commands made of random words, between plain commands that spoil the keys: the server lives,
//! nothing panics, and the replica and the reloaded data stay equal.

use redis_tests::{DATE, Options, Reply, Rng, Wire, ok, sha256_of};

const COMMANDS: [&str; 22] = [
    "DEDUPE.BEGIN",
    "DEDUPE.LOOKUP",
    "DEDUPE.CLAIM",
    "DEDUPE.UNCLAIM",
    "DEDUPE.ADD",
    "DEDUPE.REVISIT",
    "DEDUPE.WACZOPEN",
    "DEDUPE.WACZCLOSE",
    "DEDUPE.WACZLIST",
    "DEDUPE.COMMIT",
    "DEDUPE.CANCEL",
    "DEDUPE.RETAIN",
    "DEDUPE.REMOVE",
    "DEDUPE.REQUIRES",
    "DEDUPE.REQUIREDBY",
    "DEDUPE.STATS",
    "DEDUPE.CRAWLS",
    "DEDUPE.CHECK",
    "DEDUPE.REPAIR",
    "DEDUPE.PROFILE",
    "DEDUPE.PACK",
    "DEDUPE.UNPACK",
];

/// Keys of an index with two crawls, `a` and `b`.
const KEYS: [&str; 26] = [
    "h:a",
    "h:b",
    "h:a:counts",
    "c:a:wacz",
    "uncommittedcrawls",
    "allcrawls",
    "allhashes",
    "allcounts",
    "a:reqCrawls",
    "u:duperefs",
    "src:d",
    "crawlspace",
    "committing",
    "removing",
    "commits",
    "holders",
    "claims",
    "h:a:baseline",
    "h:a:added",
    "h:a:merging",
    "h:a:unstored",
    "h:a:deps",
    "h:a:refs",
    "h:a:seq",
    "alldupes",
    "moving",
];

fn word(rng: &mut Rng) -> Vec<u8> {
    let words: [&[u8]; 44] = [
        b"VISIBLE",
        b"ORIGINAL",
        b"RENAME",
        b"",
        b"a",
        b"b",
        b"a",
        b"b",
        b"c",
        b"u",
        b"0",
        b"1",
        b"2",
        b"-1",
        b"9223372036854775807",
        b"18446744073709551616",
        b"x",
        b"CRAWL",
        b"WITHWACZ",
        b"PX",
        b"BLOCK",
        b"TOKEN",
        b"SEQ",
        b"EARLIEST",
        b"REF",
        b"REFS",
        b"NOREF",
        b"PURGE",
        b"TRANSITIVE",
        b"FORMAT",
        b"RESP",
        b"JSON",
        b"UNCOMMITTED",
        b"COMMITTED",
        b"document",
        b"browsertrix",
        b"a 0",
        b"b 1",
        b"w.wacz",
        b"http://e.com/ \x00\xff",
        b"%s%n",
        b"{",
        b"\xf0\x28\x8c\x28",
        b"a:counts",
    ];
    match rng.below(8) {
        0 | 1 => sha256_of(rng.below(12)).into_bytes(),
        2 => DATE.as_bytes().to_vec(),
        _ => rng.pick(&words).to_vec(),
    }
}

/// A well-formed writing command, so that there is something to spoil.
fn sensible(rng: &mut Rng, p: &str) -> Vec<Vec<u8>> {
    let crawl = *rng.pick(&["a", "b"]);
    let hash = sha256_of(rng.below(12));
    let n = rng.below(900).to_string();
    let date = *rng.pick(&[DATE, "20200101000000", "2030-01-01T00:00:00+01:00"]);
    let words: Vec<&str> = match rng.below(18) {
        15 => vec!["DEDUPE.BEGIN", p, crawl, "VISIBLE"],
        16 => vec![
            "DEDUPE.REVISIT",
            p,
            crawl,
            "NOREF",
            &hash,
            &n,
            "ORIGINAL",
            "b",
            "1",
            "300",
        ],
        17 => vec![
            "DEDUPE.WACZCLOSE",
            p,
            crawl,
            "0",
            "v.wacz",
            "h",
            &n,
            "RENAME",
        ],
        13 => vec!["DEDUPE.PACK", p],
        14 => vec!["DEDUPE.UNPACK", p],
        12 => vec![
            "DEDUPE.ADD",
            p,
            crawl,
            "EARLIEST",
            &hash,
            "0",
            date,
            "http://e.com/",
            &n,
        ],
        0..=3 => vec![
            "DEDUPE.ADD",
            p,
            crawl,
            &hash,
            "0",
            DATE,
            "http://e.com/",
            &n,
        ],
        4 => vec!["DEDUPE.REVISIT", p, crawl, "REF", "u", &hash, &n],
        5 => vec!["DEDUPE.WACZOPEN", p, crawl, "w.wacz"],
        6 => vec!["DEDUPE.WACZCLOSE", p, crawl, "0", "w.wacz", "h", &n],
        7 => vec!["DEDUPE.CLAIM", p, crawl, &hash, "PX", "50"],
        8 => vec!["DEDUPE.CANCEL", p, crawl],
        9 => vec!["DEDUPE.REMOVE", p, crawl],
        _ => vec!["DEDUPE.COMMIT", p, crawl],
    };
    words.iter().map(|w| w.as_bytes().to_vec()).collect()
}

/// A plain command that changes one of the index's keys in a way that nobody should.
fn spoil(rng: &mut Rng, p: &str) -> Vec<Vec<u8>> {
    let key = format!("{p}{}", rng.pick(&KEYS)).into_bytes();
    let other = format!("{p}{}", rng.pick(&KEYS)).into_bytes();
    let (field, value) = (word(rng), word(rng));
    match rng.below(40) {
        0..=17 => vec![b"HSET".to_vec(), key, field, value],
        18..=25 => vec![b"HDEL".to_vec(), key, field],
        26..=29 => vec![b"SADD".to_vec(), key, value],
        30..=33 => vec![b"SREM".to_vec(), key, value],
        34 => vec![b"RPUSH".to_vec(), key, value],
        35 => vec![b"SET".to_vec(), key, value],
        36 => vec![b"RENAME".to_vec(), key, other],
        _ => vec![b"DEL".to_vec(), key],
    }
}

fn random_command(rng: &mut Rng) -> Vec<Vec<u8>> {
    let p = *rng.pick(&["p:", "p:", "p:", "q:"]);
    match rng.below(20) {
        0..=7 => sensible(rng, p),
        8 => spoil(rng, p),
        9 if rng.chance(20) => vec![b"FLUSHALL".to_vec()],
        _ => {
            let mut words = vec![
                rng.pick(&COMMANDS).as_bytes().to_vec(),
                p.as_bytes().to_vec(),
            ];
            words.extend((0..rng.below(9)).map(|_| word(rng)));
            words
        }
    }
}

/// A wait of this fuzzer would be one for ever: nobody else is there to end it.
fn would_wait(words: &[Vec<u8>]) -> bool {
    words[0] == b"DEDUPE.CLAIM" && words.iter().any(|w| w == b"BLOCK")
}

fn shown(words: &[Vec<u8>]) -> String {
    let words = words.iter().map(|w| format!("'{}'", w.escape_ascii()));
    words.collect::<Vec<_>>().join(" ")
}

fn run(c: &mut Wire, rng: &mut Rng, log: &mut Vec<String>) {
    let words = random_command(rng);
    if would_wait(&words) {
        return;
    }
    log.push(shown(&words));
    let reply = c.call(&words);
    let told = log.len().saturating_sub(30);
    if let Reply::Error(line) = reply {
        let line = String::from_utf8_lossy(&line).into_owned();
        let code = line.split(' ').next().unwrap_or_default();
        assert!(
            !code.is_empty() && code.bytes().all(|b| b.is_ascii_uppercase()),
            "no code word: {line}\n{}",
            log[told..].join("\n")
        );
    }
}

#[test]
fn random_commands_on_spoiled_keys_do_no_harm() {
    let mut rng = Rng::new("random_commands_on_spoiled_keys_do_no_harm");
    let mut server = Options::new().aof_unsynced(false).start();
    let replica = Options::new().replica_of(&server).start();
    let mut spoiled = 0;
    for _ in 0..40 {
        let mut c = server.wire();
        let mut log = Vec::new();
        ok!(c, "FLUSHALL");
        for _ in 0..250 {
            run(&mut c, &mut rng, &mut log);
            let panics = server_panics(&mut c);
            let told = log.len().saturating_sub(30);
            assert_eq!(panics, 0, "a panic after\n{}", log[told..].join("\n"));
        }
        server.wait_for_replica_offset(&replica);
        let (is, should) = (replica.snapshot(), server.snapshot());
        is.assert_same(&should, "the replica");
        for p in ["p:", "q:"] {
            spoiled += u64::from(repair_mends(&mut c, p, &log));
        }
        assert_eq!(
            server_panics(&mut c),
            0,
            "a panic in REPAIR\n{}",
            log.join("\n")
        );
    }
    assert!(spoiled > 10, "only {spoiled} of 80 indexes were spoiled");
    let digest = server.digest();
    server.restart();
    assert_eq!(server.digest(), digest);
}

/// Whatever was spoiled: once the keys of a wrong type are gone, REPAIR mends the rest, except for
/// records that nobody can read and jobs that are to be run again. True when there was something to
/// mend.
fn repair_mends(c: &mut Wire, p: &str, log: &[String]) -> bool {
    let before = c.call(&["DEDUPE.CHECK", p]);
    for _ in 0..KEYS.len() {
        let Reply::Error(line) = c.call(&["DEDUPE.REPAIR", p]) else {
            break;
        };
        let line = String::from_utf8_lossy(&line).into_owned();
        if line.starts_with("BADFORMAT ") {
            ok!(c, "HDEL", format!("{p}crawlspace"), "format");
            continue;
        }
        let key = line
            .strip_prefix("WRONGTYPE key '")
            .and_then(|rest| rest.split_once('\''));
        let (key, _) = key.unwrap_or_else(|| panic!("REPAIR said {line}\n{}", log.join("\n")));
        ok!(c, "DEL", key);
    }
    let check = ok!(c, "DEDUPE.CHECK", p);
    for finding in [
        "danglingOwners",
        "missingHashes",
        "countDrift",
        "leakedKeys",
        "staleHolders",
    ] {
        let n = check.field(finding).int();
        assert_eq!(n, 0, "REPAIR left {finding}: {check:?}\n{}", log.join("\n"));
    }
    before.is_error() || before.field("ok").int() == 0
}

fn server_panics(c: &mut Wire) -> i64 {
    let info = ok!(c, "INFO", "crawlspace").text();
    let line = info.lines().find_map(|l| l.split_once("panics:"));
    line.and_then(|(_, n)| n.trim().parse().ok())
        .expect("INFO has panics")
}
