//! Calls made of random words, mixed with plain commands that damage the keys. The server must not
//! crash or panic, the replica and the reloaded data must be equal, and a repair must fix the
//! damage.
//!
//! `CRAWLSPACE_FUZZ_STEPS` sets the number of calls for each family, and `SEED` the random seed.

use std::collections::BTreeMap;

use redis_tests::matrix::{
    Argument, Family, Grammar, Kind, PREFIX, State, family, malformed, split,
};
use redis_tests::{
    Frontier, Lease, Reply, Rng, Server, Snapshot, Wire, ok, random_step, rounds, rows, simulated,
};

for_every_family!(random_calls_on_damaged_keys_do_no_harm);

/// Number of calls between two repairs.
const ROUND: u64 = 250;

/// The prefixes of the calls. Most calls use the prefix with data.
const PREFIXES: [&str; 4] = [PREFIX, PREFIX, PREFIX, "{m}q:"];

/// Names of keys that the family uses rarely or never.
const MORE_KEYS: [&str; 5] = ["", "crawlspace", "CHG:", "alldupes", "moving"];

/// Words without a meaning for any command.
const ODD: [&[u8]; 9] = rows![
    b""; b"9223372036854775807"; b"18446744073709551616"; b"%s%n"; b"{"; b"\x00\xff"; b"\xf0\x28\x8c\x28";
    b"http://e.com/ \x00\xff"; b"e:";
];

/// A client that sends random calls.
struct Player<'a> {
    family: &'a Family,
    grammars: BTreeMap<String, Grammar>,
    state: State,
    c: Wire,
    /// The frontier and its leases, for families that have one.
    frontier: Option<(Frontier, Vec<Lease>)>,
    log: Vec<String>,
}

impl<'a> Player<'a> {
    /// Creates a client of a server that was emptied and filled again.
    fn new(family: &'a Family, server: &Server) -> Player<'a> {
        let mut c = server.wire();
        let state = family.refill(&mut c);
        let frontier = (family.name == "CHG").then(|| {
            let mut f = Frontier::of(server, PREFIX);
            f.now = state.now;
            (f, Vec::new())
        });
        Player {
            family,
            grammars: family.grammars(&mut c),
            state,
            c,
            frontier,
            log: Vec::new(),
        }
    }

    /// Returns the last calls.
    fn told(&self) -> String {
        self.log[self.log.len().saturating_sub(30)..].join("\n")
    }

    /// Sends one call.
    fn step(&mut self, rng: &mut Rng) {
        let words = match rng.below(20) {
            0..=3 if self.frontier.is_some() => {
                let (f, held) = self.frontier.as_mut().expect("a frontier");
                return self.log.push(random_step(f, rng, held));
            }
            0..=7 => self.sensible(rng),
            8 => spoil(&mut self.c, rng, self.family, &self.state),
            9 if rng.chance(20) => return self.refill(),
            _ => self.nonsense(rng),
        };
        if waits(&words) {
            return;
        }
        let reply = self.c.call(&words);
        self.log.push(format!("{} -> {reply:?}", shown(&words)));
        if let Reply::Error(line) = &reply {
            let ours = words[0].contains(&b'.');
            let why = malformed(line).filter(|_| ours);
            assert_eq!(why, None, "{}", self.told());
            if rng.chance(10) {
                delete_named(&mut self.c, line);
            }
        }
    }

    /// Starts again with a new filled state.
    fn refill(&mut self) {
        self.state = self.family.refill(&mut self.c);
        self.log.push("filled again".to_owned());
        if let Some((f, held)) = &mut self.frontier {
            f.now = self.state.now;
            held.clear();
        }
    }

    fn begin(&self, rng: &mut Rng, name: &str) -> Vec<Vec<u8>> {
        let mut words = vec![
            name.as_bytes().to_vec(),
            rng.pick(&PREFIXES).as_bytes().to_vec(),
        ];
        if let Some(now) = self.frontier.as_ref().and_then(|(f, _)| f.now) {
            words.extend([b"NOW".to_vec(), now.to_string().into_bytes()]);
        }
        words
    }

    fn any_grammar(&self, rng: &mut Rng, wanted: impl Fn(&Grammar) -> bool) -> &Grammar {
        let all = self.grammars.values().filter(|grammar| wanted(grammar));
        let all: Vec<&Grammar> = all.collect();
        rng.pick::<&Grammar>(&all)
    }

    /// Returns a sample, or a call that follows the grammar.
    fn sensible(&self, rng: &mut Rng) -> Vec<Vec<u8>> {
        if rng.chance(30) {
            let mut state = self.state.clone();
            state.now = self.frontier.as_ref().and_then(|(f, _)| f.now);
            let mut sample = *rng.pick::<&str>(self.family.samples);
            let stays_plain = self.family.name == "CHG" && self.family.storage.is_empty();
            if sample == "PACK" && stays_plain && rng.below(10) > 0 {
                // Damage does not reach a packed frontier, so most frontiers stay plain.
                sample = "UNPACK";
            }
            return state.words(sample);
        }
        // Half of the calls add data, so that some data can be damaged.
        let grows = rng.chance(50);
        let grammar = self.any_grammar(rng, |grammar| {
            (!grows || grammar.has("denyoom")) && grammar.name != "chg.pack"
        });
        let mut words = self.begin(rng, &grammar.name);
        for argument in &grammar.arguments[1..] {
            if argument.name != "now" {
                self.derive(argument, rng, &mut words);
            }
        }
        words
    }

    fn derive(&self, argument: &Argument, rng: &mut Rng, words: &mut Vec<Vec<u8>>) {
        if argument.optional && rng.chance(60) {
            return;
        }
        words.extend(
            argument
                .token
                .iter()
                .map(|token| token.clone().into_bytes()),
        );
        let times = if argument.multiple {
            1 + rng.below(3)
        } else {
            1
        };
        for _ in 0..times {
            match argument.kind {
                Kind::Word => {}
                Kind::OneOf => self.derive(rng.pick(&argument.parts), rng, words),
                Kind::Block => argument
                    .parts
                    .iter()
                    .for_each(|part| self.derive(part, rng, words)),
                Kind::Key | Kind::Text | Kind::Integer => words.push(self.value(argument, rng)),
            }
        }
    }

    /// Returns a value for an argument: usually a plausible one, sometimes any word.
    fn value(&self, argument: &Argument, rng: &mut Rng) -> Vec<u8> {
        let has = |list: &str| split(list).iter().any(|name| *name == argument.name);
        let values = self.family.values.iter().find(|(names, _)| has(names));
        match values {
            Some((_, values)) if rng.chance(95) => {
                self.state.word(rng.pick::<&str>(&split(values)))
            }
            _ => self.word(rng),
        }
    }

    /// Returns a command with arguments that do not belong to it.
    fn nonsense(&self, rng: &mut Rng) -> Vec<Vec<u8>> {
        let name = self.any_grammar(rng, |_| true).name.clone();
        let mut words = self.begin(rng, &name);
        words.extend((0..rng.below(11)).map(|_| self.word(rng)));
        words
    }

    /// Returns a random word, sometimes the token of a current lease.
    fn word(&self, rng: &mut Rng) -> Vec<u8> {
        let leases = self.frontier.as_ref().map(|(_, held)| &held[..]);
        match leases.filter(|held| !held.is_empty()) {
            Some(held) if rng.chance(12) => rng.pick(held).token.to_string().into_bytes(),
            _ => word(rng, self.family, &self.state),
        }
    }
}

fn word(rng: &mut Rng, family: &Family, state: &State) -> Vec<u8> {
    if rng.chance(10) {
        return rng.pick(&ODD).to_vec();
    }
    state.word(rng.pick::<&str>(&split(family.words)))
}

/// Sends a plain command that changes one of the keys in an invalid way.
fn spoil(c: &mut Wire, rng: &mut Rng, family: &Family, state: &State) -> Vec<Vec<u8>> {
    let mut there = ok!(c, "KEYS", "*").texts();
    there.sort();
    let mut key = || {
        if !there.is_empty() && rng.chance(50) {
            return rng.pick(&there).clone().into_bytes();
        }
        let names = [split(family.keys), MORE_KEYS.to_vec()].concat();
        [*rng.pick(&PREFIXES), *rng.pick::<&str>(&names)]
            .concat()
            .into_bytes()
    };
    let (key, other) = (key(), key());
    let mut fields = Vec::new();
    if ok!(c, "TYPE", key).text() == "hash" {
        fields = ok!(c, "HKEYS", key).texts();
        fields.sort();
    }
    let value = word(rng, family, state);
    let field = if fields.is_empty() || rng.chance(30) {
        word(rng, family, state)
    } else {
        rng.pick(&fields).clone().into_bytes()
    };
    let score = rng.pick(&["0", "-inf", "inf", "4000000000100", "5.5"]);
    let w = |word: &str| word.as_bytes().to_vec();
    match rng.below(46) {
        0..=14 => vec![w("HSET"), key, field, value],
        15..=21 => vec![w("HDEL"), key, field],
        22..=24 => vec![w("SADD"), key, value],
        25..=27 => vec![w("SREM"), key, value],
        28..=32 => vec![w("ZADD"), key, w(score), value],
        33..=35 => vec![w("ZREM"), key, value],
        36..=38 => vec![w("RPUSH"), key, value],
        39 => vec![w("LPOP"), key],
        40 => vec![w("SET"), key, value],
        41 => vec![w("RENAME"), key, other],
        42 => vec![w("COPY"), key, other, w("REPLACE")],
        _ => vec![w("DEL"), key],
    }
}

/// Returns true if a call could block, because no other client would end the wait. (With simulated
/// time, commands refuse to block.)
fn waits(words: &[Vec<u8>]) -> bool {
    let has = |word: &[u8]| words.iter().any(|w| w.eq_ignore_ascii_case(word));
    has(b"BLOCK") && words.get(2).is_none_or(|word| word != b"NOW")
}

fn shown(words: &[Vec<u8>]) -> String {
    let words = words
        .iter()
        .map(|w| format!("'{}'", w[..w.len().min(100)].escape_ascii()));
    words.collect::<Vec<_>>().join(" ")
}

/// Deletes the key that a WRONGTYPE or MIXED error names. Returns true if the error names one.
fn delete_named(c: &mut Wire, error: &[u8]) -> bool {
    let mixed = || error.strip_prefix(b"MIXED key '");
    let shown = error.strip_prefix(b"WRONGTYPE key '").or_else(mixed);
    shown.is_some_and(|shown| c.expect_ok(&[b"DEL".to_vec(), named(shown)]).int() == 1)
}

/// Returns the name in an error up to the next quote, unescaped.
fn named(mut shown: &[u8]) -> Vec<u8> {
    let mut name = Vec::new();
    loop {
        shown = match shown {
            [b'\\', b'x', high, low, rest @ ..] => {
                let digits = [*high, *low];
                let digits = std::str::from_utf8(&digits).expect("two digits");
                name.push(u8::from_str_radix(digits, 16).expect("hexadecimal digits"));
                rest
            }
            [b'\\', byte, rest @ ..] => {
                name.push(*byte);
                rest
            }
            [b'\'', ..] | [] => return name,
            [byte, rest @ ..] => {
                name.push(*byte);
                rest
            }
        };
    }
}

fn panics(server: &Server) -> i64 {
    server.info_number("panics")
}

fn random_calls_on_damaged_keys_do_no_harm(family: &Family) {
    let mut rng = Rng::new(&format!("random calls of {}", family.title()));
    let mut server = family.options().aof_unsynced(false).start();
    let replica = family.options().replica_of(&server).start();
    // The number of calls for each family.
    let rounds = rounds("CRAWLSPACE_FUZZ_STEPS", 7500).div_ceil(ROUND);
    let mut spoiled = 0;
    for _ in 0..rounds {
        let mut player = Player::new(family, &server);
        for _ in 0..ROUND {
            player.step(&mut rng);
            assert_eq!(panics(&server), 0, "a panic after\n{}", player.told());
        }
        server.wait_for_replica_offset(&replica);
        let (is, should) = (replica.snapshot(), server.snapshot());
        is.assert_same(&should, "the replica");
        if family.name != "TAGS" {
            let now = player.frontier.as_ref().and_then(|(f, _)| f.now);
            let log = player.log.join("\n");
            for prefix in &PREFIXES[2..] {
                let mut state = player.state.clone();
                state.prefix = (*prefix).to_owned();
                state.now = now;
                spoiled += u64::from(repair_mends(family, &mut player.c, &state, &log));
                assert_eq!(panics(&server), 0, "a panic in REPAIR\n{log}");
            }
        }
    }
    // Plain commands cannot damage the content of a packed frontier.
    let resists = family.name == "TAGS" || family.title() == "CHG packed";
    let enough = resists || 8 * spoiled > rounds;
    assert!(enough, "only {spoiled} of {} were spoiled", 2 * rounds);
    let digest = server.digest();
    server.restart();
    assert_eq!(server.digest(), digest);
}

/// Deletes keys of a wrong type, and checks that `REPAIR` then fixes all damage, except for
/// unreadable records and interrupted jobs. Returns true if there was damage.
fn repair_mends(family: &Family, c: &mut Wire, state: &State, log: &str) -> bool {
    let before = c.call(&state.words("CHECK"));
    let spoiled = Snapshot::of(c);
    for _ in 0..1000 {
        if let Reply::Error(line) = c.call(&state.words("REPAIR")) {
            if line.starts_with(b"BADFORMAT ") {
                ok!(c, "HDEL", format!("{}crawlspace", state.prefix), "format");
            } else if !delete_named(c, &line) {
                panic!("REPAIR replied {}\n{log}", line.escape_ascii());
            }
            continue;
        }
        // If a key of a wrong type has the name of a group, it is reported and not changed.
        let problems = ok_line(c, state, "CHECK").find("problems");
        let problems = problems
            .map(|problems| problems.texts())
            .unwrap_or_default();
        let wrong = problems.iter().find(|text| text.starts_with("WRONGTYPE "));
        match wrong {
            Some(line) => assert!(delete_named(c, line.as_bytes()), "{line}\n{log}"),
            None => break,
        }
    }
    let check = ok_line(c, state, "CHECK");
    let number = |name: &&str| check.find(name).map_or(0, |n| n.int());
    let findings = rows![
        "danglingOwners"; "missingHashes"; "countDrift"; "leakedKeys"; "staleHolders"; "problems-total";
    ];
    let inconsistent = family.name == "CHG" && number(&"consistent") == 0;
    if inconsistent || findings.iter().map(number).sum::<i64>() > 0 {
        let mended = Snapshot::of(c).differences(&spoiled).join("\n");
        panic!("REPAIR left {check:?}\n--- of\n{spoiled:?}\n--- by\n{mended}\n---\n{log}");
    }
    if family.name == "CHG" {
        let mut f = Frontier::over(c.handle(), &state.prefix);
        f.now = state.now;
        assert_goes_on(&mut f, log);
    }
    let is_whole = |check: &Reply| match family.name {
        "CHG" => check.field("problems-total").int() == 0,
        _ => check.field("ok").int() == 1,
    };
    before.is_error() || !is_whole(&before)
}

fn ok_line(c: &mut Wire, state: &State, line: &str) -> Reply {
    c.expect_ok(&state.words(line))
}

/// Deletes keys of a wrong type that `CHECK` ignores, and checks that the frontier then works.
fn assert_goes_on(f: &mut Frontier, log: &str) {
    let now = f.time();
    let paused = f.key("chg_paused");
    ok!(f.wire, "DEL", paused);
    // A packed frontier has no such key.
    f.call("RESUME");
    let delete = |f: &mut Frontier, error: &[u8]| {
        assert!(
            delete_named(&mut f.wire, error),
            "{}\n{log}",
            error.escape_ascii()
        );
    };
    while let Reply::Error(error) = f.call(format!("ADD after-all after-all {now}")) {
        delete(f, &error);
    }
    for _ in 0..2000 {
        match f.call("NEXT") {
            Reply::Error(error) => delete(f, &error),
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

#[test]
fn random_waiters_and_random_commands_do_no_harm() {
    let mut rng = Rng::new("random_waiters_and_random_commands_do_no_harm");
    let chg = family("CHG", "");
    // A frontier with waiting clients needs the server's clock, so build the state on another
    // server and use only its words.
    let state = chg.refill(&mut simulated().start().wire());
    let mut server = Server::start();
    let mut f = Frontier::of(&server, PREFIX);
    let mut held = Vec::new();
    let mut waiters: Vec<Frontier> = Vec::new();
    for _ in 0..1500 {
        match rng.below(10) {
            0 => {
                let mut waiter = Frontier::of(&server, PREFIX);
                waiter.send(format!("NEXT LEASE {} BLOCK 0", 1 + rng.below(60)));
                waiters.push(waiter);
            }
            1 if !waiters.is_empty() => {
                let at = rng.below(waiters.len() as u64) as usize;
                waiters.swap_remove(at).wire.hang_up();
            }
            2 => {
                let words = spoil(&mut f.wire, &mut rng, &chg, &state);
                f.wire.call(&words);
            }
            _ => {
                random_step(&mut f, &mut rng, &mut held);
            }
        }
    }
    assert!(server.is_alive());
    assert_eq!(panics(&server), 0);
    for waiter in waiters {
        waiter.wire.hang_up();
    }
    server.until_blocked(0);
    let mut real = state;
    real.now = None;
    repair_mends(&chg, &mut f.wire, &real, "");
}
