//! `CHG.*` commands made of random words, between plain commands that spoil the keys: the server
//! lives, nothing panics, and the replica and the reloaded data stay equal.

use redis_tests::{
    Frontier, Lease, Reply, Rng, Server, T0, Wire, ok, random_step, simulated, until,
};

const COMMANDS: [&str; 22] = [
    "CHG.ADD",
    "CHG.ADDURI",
    "CHG.NEXT",
    "CHG.RELEASE",
    "CHG.RELEASE",
    "CHG.RELEASE",
    "CHG.EXTEND",
    "CHG.SWEEP",
    "CHG.EXPIRED",
    "CHG.BLOCK",
    "CHG.PAUSE",
    "CHG.RESUME",
    "CHG.LIMIT",
    "CHG.GROUP",
    "CHG.DROP",
    "CHG.MOVE",
    "CHG.WHY",
    "CHG.INFO",
    "CHG.LIST",
    "CHG.URIS",
    "CHG.CHECK",
    "CHG.REPAIR",
];

const KEYS: [&str; 21] = [
    "CHG:host-0",
    "CHG:host-1",
    "CHG:host-2",
    "chg_wait",
    "chg_busy",
    "chg_ready",
    "EIDC",
    "QCT",
    "chg_uris:host-0",
    "chg_uris:host-1",
    "chg_idle",
    "chg_token",
    "chg_past",
    "chg_paused",
    "chg_seq:crawl-0",
    "chg_expired",
    "chg_gate:shared",
    "chg_gated:shared",
    "CHG:",
    "crawlspace",
    "",
];

const WORDS: [&[u8]; 69] = [
    b"",
    b"0",
    b"1",
    b"2",
    b"3",
    b"-1",
    b"9",
    b"100",
    b"1000",
    b"60000",
    b"0.5",
    b"1e9",
    b"nan",
    b"9223372036854775807",
    b"-9223372036854775808",
    b"18446744073709551616",
    b"4000000000000",
    b"4000000000500",
    b"4000000000000000",
    b"host-0",
    b"host-0",
    b"host-1",
    b"host-2",
    b"host-3",
    b"crawl-0",
    b"crawl-0",
    b"crawl-1",
    b"crawl-2",
    b"shared",
    b"NOW",
    b"SEQ",
    b"WEIGHT",
    b"LEASE",
    b"COUNT",
    b"BLOCK",
    b"AT",
    b"DELAY",
    b"ELAPSED",
    b"FACTOR",
    b"MIN",
    b"MAX",
    b"CRAWLDELAY",
    b"RETRYAFTER",
    b"STATUS",
    b"DONE",
    b"RETRY",
    b"NEXT",
    b"LIMIT",
    b"UNTIL",
    b"EXECUTION",
    b"PARALLEL",
    b"GAP",
    b"BUDGET",
    b"GROUP",
    b"STATE",
    b"waiting",
    b"CURSOR",
    b"ready:9",
    b"busy:inf:x",
    b"0-1-2-3",
    b"429",
    b"503",
    b"http://e.com/",
    b"%s%n",
    b"\x00\xff",
    b"\xf0\x28\x8c\x28",
    b"all",
    b"e:crawl-0",
    b"n",
];

const FIELDS: [&[u8]; 14] = [
    b"n",
    b"c",
    b"s",
    b"l",
    b"x",
    b"o",
    b"e:crawl-0",
    b"e:crawl-1",
    b"all",
    b"crawl-0",
    b"w",
    b"",
    b"g",
    b"e:",
];

/// A random word; now and then the token of a lease that is out.
fn word(rng: &mut Rng, tokens: &[i64]) -> Vec<u8> {
    if !tokens.is_empty() && rng.chance(12) {
        return rng.pick(tokens).to_string().into_bytes();
    }
    rng.pick(&WORDS).to_vec()
}

/// A plain command that changes one of the frontier's keys in a way that nobody should.
fn spoil(rng: &mut Rng, tokens: &[i64]) -> Vec<Vec<u8>> {
    let key = format!("{{f}}:{}", rng.pick(&KEYS)).into_bytes();
    let other = format!("{{f}}:{}", rng.pick(&KEYS)).into_bytes();
    let (field, value) = (rng.pick(&FIELDS).to_vec(), word(rng, tokens));
    let score = rng.pick(&["0", "-inf", "inf", "4000000000100", "5.5"]);
    match rng.below(40) {
        0..=11 => vec![b"HSET".to_vec(), key, field, value],
        12..=17 => vec![b"HDEL".to_vec(), key, field],
        18..=23 => vec![b"ZADD".to_vec(), key, score.as_bytes().to_vec(), value],
        24..=26 => vec![b"ZREM".to_vec(), key, value],
        27..=30 => vec![b"RPUSH".to_vec(), key, value],
        31..=32 => vec![b"LPOP".to_vec(), key],
        33..=34 => vec![b"SET".to_vec(), key, value],
        35 => vec![b"RENAME".to_vec(), key, other],
        36 => vec![b"COPY".to_vec(), key, other, b"REPLACE".to_vec()],
        _ => vec![b"DEL".to_vec(), key],
    }
}

fn shown(words: &[Vec<u8>]) -> String {
    let words = words.iter().map(|w| format!("'{}'", w.escape_ascii()));
    words.collect::<Vec<_>>().join(" ")
}

fn panics(c: &mut Wire) -> i64 {
    let info = ok!(c, "INFO", "crawlspace").text();
    let line = info.lines().find_map(|l| l.split_once("panics:"));
    line.and_then(|(_, n)| n.trim().parse().ok())
        .expect("INFO has panics")
}

/// A call of random words. It never waits: `BLOCK` is refused beside `NOW`, and short without.
fn nonsense(f: &Frontier, rng: &mut Rng, tokens: &[i64]) -> Vec<Vec<u8>> {
    let name = rng.pick(&COMMANDS).strip_prefix("CHG.").expect("it has");
    let mut words = f.words(name);
    words.extend((0..rng.below(11)).map(|_| word(rng, tokens)));
    words
}

/// Runs one random command, and gives it as text.
fn run(f: &mut Frontier, rng: &mut Rng, held: &mut Vec<Lease>) -> String {
    let tokens: Vec<i64> = held.iter().map(|lease| lease.token).collect();
    let words = match rng.below(20) {
        0..=7 => return random_step(f, rng, held),
        8 => spoil(rng, &tokens),
        _ => nonsense(f, rng, &tokens),
    };
    let told = shown(&words);
    let reply = f.wire.call(&words);
    if let Reply::Error(line) = &reply {
        let line = String::from_utf8_lossy(line).into_owned();
        let code = line.split(' ').next().unwrap_or_default();
        assert!(
            !code.is_empty() && code.bytes().all(|b| b.is_ascii_uppercase()),
            "no code word: {told} said {line}"
        );
    }
    format!("{told} -> {reply:?}")
}

/// Whatever was spoiled: once the keys of a wrong type are gone, REPAIR mends the rest. True when
/// there was something to mend.
fn repair_mends(f: &mut Frontier, log: &str) -> bool {
    let before = f.call("CHECK");
    let spoiled = redis_tests::Snapshot::of(&mut f.wire);
    for _ in 0..2 * KEYS.len() {
        if let Reply::Error(line) = f.call("REPAIR") {
            delete_named(f, &line, log);
            continue;
        }
        // A key of a wrong type where a group should be is told of, and left to whoever put it there.
        let check = f.ok("CHECK");
        let problems = check.field("problems").texts();
        match problems.iter().find(|text| text.starts_with("WRONGTYPE ")) {
            Some(line) => delete_named(f, line.as_bytes(), log),
            None => break,
        }
    }
    let check = f.ok("CHECK");
    let left = check.field("problems-total").int();
    if left > 0 || check.field("consistent").int() == 0 {
        let mended = redis_tests::Snapshot::of(&mut f.wire).differences(&spoiled);
        panic!(
            "REPAIR left {check:?}\n--- of\n{spoiled:?}\n--- by\n{}\n---\n{log}",
            mended.join("\n")
        );
    }
    before.is_error() || before.field("problems-total").int() > 0
}

/// The frontier works, once keys of a wrong type are gone that no check looks at.
fn assert_goes_on(f: &mut Frontier, log: &str) {
    let now = f.time();
    let paused = f.key("chg_paused");
    ok!(f.wire, "DEL", paused);
    while let Reply::Error(error) = f.call(format!("ADD crawl after-all {now}")) {
        delete_named(f, &error, log);
    }
    for _ in 0..2000 {
        match f.call("NEXT") {
            Reply::Error(error) => delete_named(f, &error, log),
            leases => {
                if Lease::all(&leases).iter().any(|l| l.chg == "after-all") {
                    return;
                }
            }
        }
    }
    let (why, info) = (f.call("WHY after-all"), f.call("INFO"));
    panic!("a new group is never leased: {why:?}\n{info:?}\n{log}");
}

/// Deletes the key that this error says is of a wrong type.
fn delete_named(f: &mut Frontier, error: &[u8], log: &str) {
    let error = String::from_utf8_lossy(error).into_owned();
    let key = error
        .strip_prefix("WRONGTYPE key '")
        .and_then(|rest| rest.split_once('\''));
    let (key, _) = key.unwrap_or_else(|| panic!("{error}\n{log}"));
    ok!(f.wire, "DEL", key);
}

#[test]
fn random_commands_on_spoiled_keys_do_no_harm() {
    let mut rng = Rng::new("random_commands_on_spoiled_keys_do_no_harm");
    let mut server = simulated().aof_unsynced(false).start();
    let replica = simulated().replica_of(&server).start();
    let mut spoiled = 0;
    for _ in 0..30 {
        let mut f = Frontier::at(&server, T0);
        ok!(f.wire, "FLUSHALL");
        let (mut held, mut log) = (Vec::new(), Vec::new());
        for _ in 0..250 {
            log.push(run(&mut f, &mut rng, &mut held));
            let told = log.len().saturating_sub(30);
            assert_eq!(
                panics(&mut f.wire),
                0,
                "a panic after\n{}",
                log[told..].join("\n")
            );
        }
        let log = log.join("\n");
        server.wait_for_replica_offset(&replica);
        let (is, should) = (replica.snapshot(), server.snapshot());
        is.assert_same(&should, "the replica");
        spoiled += u64::from(repair_mends(&mut f, &log));
        assert_eq!(panics(&mut f.wire), 0, "a panic in REPAIR\n{log}");
        // And the frontier works.
        assert_goes_on(&mut f, &log);
    }
    assert!(spoiled > 10, "only {spoiled} of 30 frontiers were spoiled");
    let digest = server.digest();
    server.restart();
    assert_eq!(server.digest(), digest);
}

#[test]
fn random_waiters_and_random_commands_do_no_harm() {
    let mut rng = Rng::new("random_waiters_and_random_commands_do_no_harm");
    let mut server = Server::start();
    let mut f = Frontier::real(&server);
    let mut held = Vec::new();
    let mut waiters: Vec<Frontier> = Vec::new();
    for _ in 0..1500 {
        match rng.below(10) {
            0 => {
                let mut waiter = Frontier::real(&server);
                waiter.send(format!("NEXT LEASE {} BLOCK 0", 1 + rng.below(60)));
                waiters.push(waiter);
            }
            1 if !waiters.is_empty() => {
                let at = rng.below(waiters.len() as u64) as usize;
                waiters.swap_remove(at).wire.hang_up();
            }
            2 => {
                let words = spoil(&mut rng, &[]);
                f.wire.call(&words);
            }
            _ => {
                random_step(&mut f, &mut rng, &mut held);
            }
        }
    }
    assert!(server.is_alive());
    assert_eq!(panics(&mut f.wire), 0);
    for waiter in waiters {
        waiter.wire.hang_up();
    }
    until("nobody waits any more", || {
        server.info_number("blocked_clients") == 0
    });
    repair_mends(&mut f, "");
    assert_goes_on(&mut f, "");
}
