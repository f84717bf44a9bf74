//! Both storages of an index give the same replies to whatever is asked, and hold the same.
//!
//! The same random commands go to a server with plain keys and to one that packs its index, unpacks
//! it and packs it again at random moments while other clients go on. Jobs take many slices.

mod commands;

use commands::{CRAWLS, PLAIN, command, plain_command, spoiled};
use redis_tests::{
    Crawl, Options, Reply, Rng, Server, Wire, Word, bulk, is_packed, nil, ok, plain_view, plainly,
    sha256_of,
};

/// Prefixes of the indexes, one for each round in turn.
const PREFIXES: [&str; 3] = ["{coll-42}:", "", "p\r\n\0:"];

/// The two servers, and a client of each.
struct Sides {
    plain: Wire,
    packed: Wire,
    /// Who changes the storage, and whether a reply is still to come.
    changer: Wire,
    is_changing: bool,
    p: Vec<u8>,
    log: Vec<String>,
}

impl Sides {
    /// Sends the same words to both, and compares what they say.
    fn both(&mut self, words: &[Vec<u8>]) -> Reply {
        self.log.push(shown(words));
        let (plain, packed) = (self.plain.call(words), self.packed.call(words));
        self.assert_equal(words, &plain, &packed);
        plain
    }

    /// `CHECK` and `REPAIR` of both. They walk through keys and fields in slices, and a walk may meet
    /// one twice while a table of the server shrinks or the storage changes: then they are asked again.
    fn both_check(&mut self, words: &[Vec<u8>]) -> Reply {
        self.end_change();
        self.log.push(shown(words));
        for _ in 0..5 {
            let (plain, packed) = (self.plain.call(words), self.packed.call(words));
            if comparable(words, &plain) == comparable(words, &packed) {
                return plain;
            }
        }
        self.both(words)
    }

    fn assert_equal(&self, words: &[Vec<u8>], plain: &Reply, packed: &Reply) {
        let (one, other) = (comparable(words, plain), comparable(words, packed));
        let told = self.log.len().saturating_sub(40);
        assert!(
            one == other,
            "plain says {one:?}\npacked says {other:?}\nafter\n{}",
            self.log[told..].join("\n")
        );
    }

    /// Packs or unpacks the packed side, without waiting for the end of it.
    fn begin_change(&mut self, rng: &mut Rng) {
        self.end_change();
        let name = *rng.pick(&["DEDUPE.PACK", "DEDUPE.UNPACK", "DEDUPE.PACK"]);
        self.log.push(format!("({name} begins)"));
        self.changer.send(&[name.as_bytes(), &self.p]);
        self.is_changing = true;
    }

    fn end_change(&mut self) {
        if std::mem::take(&mut self.is_changing) {
            let reply = self.changer.recv();
            assert!(!reply.is_error(), "{reply:?}\n{}", self.log.join("\n"));
            self.log.push("(and ends)".to_owned());
        }
    }

    /// What the two hold is equal, byte for byte, when the packed one is unpacked.
    fn assert_same_keys(&mut self) {
        self.end_change();
        // Claims tell when they end.
        let view = |c: &mut Wire| {
            let view = plain_view(c, &self.p).without_storage();
            view.without(|key| key.ends_with(b"claims"))
        };
        let (plain, packed) = (view(&mut self.plain), view(&mut self.packed));
        let told = self.log.len().saturating_sub(40);
        packed.assert_same(&plain, &self.log[told..].join("\n"));
    }
}

fn shown(words: &[Vec<u8>]) -> String {
    let short = |word: &Vec<u8>| word[..word.len().min(80)].escape_ascii().to_string();
    let words: Vec<String> = words.iter().map(|w| format!("'{}'", short(w))).collect();
    words.join(" ")
}

/// A reply without what may differ: the order of what has none, times, memory, the storage itself.
fn comparable(words: &[Vec<u8>], reply: &Reply) -> Reply {
    let name = words[0].to_ascii_uppercase();
    let mut reply = reply.as_resp2();
    let Reply::Array(items) = &mut reply else {
        return without_order(&name, reply);
    };
    match name.as_slice() {
        b"DEDUPE.CLAIM" if items[0] == bulk("PENDING") => items[2] = nil(),
        b"DEDUPE.STATS" => {
            for pair in items.chunks_exact_mut(2) {
                if [bulk("memory"), bulk("storage")].contains(&pair[0]) {
                    pair[1] = nil();
                }
            }
        }
        b"DEDUPE.CRAWLS" => {
            let mut pairs: Vec<Vec<Reply>> = items.chunks(2).map(<[Reply]>::to_vec).collect();
            pairs.sort();
            *items = pairs.concat();
        }
        b"DEDUPE.REQUIRES" | b"DEDUPE.REQUIREDBY" => items.sort(),
        _ => {}
    }
    reply
}

/// `DEDUPE.REQUIRES` gives JSON, the entries in any order.
fn without_order(name: &[u8], reply: Reply) -> Reply {
    match &reply {
        Reply::Bulk(json) if name == b"DEDUPE.REQUIRES" => {
            let text = String::from_utf8_lossy(json).into_owned();
            let mut entries: Vec<&str> = text.trim_matches(['[', ']']).split("},{").collect();
            for entry in &mut entries {
                *entry = entry.trim_matches(['{', '}']);
            }
            entries.sort_unstable();
            bulk(entries.join("},{"))
        }
        _ => reply,
    }
}

/// A server for each side, with jobs in slices that are as short as they can be.
fn servers() -> (Server, Server) {
    let short = ["slice-us", "50"];
    let plain = Options::new().plain().module_args(&short).start();
    (plain, Options::new().packed().module_args(&short).start())
}

fn sides(plain: &Server, packed: &Server, p: &str, resp3: bool) -> Sides {
    let wire = |server: &Server| if resp3 { server.wire3() } else { server.wire() };
    let mut sides = Sides {
        plain: wire(plain),
        packed: wire(packed),
        changer: packed.wire(),
        is_changing: false,
        p: p.word(),
        log: Vec::new(),
    };
    ok!(sides.plain, "FLUSHALL");
    ok!(sides.packed, "FLUSHALL");
    sides
}

/// Crawls that keep a change of storage busy for many slices.
fn fill(sides: &mut Sides, p: &str) {
    for (id, first, hashes) in [("large", 1000, 3000), ("large too", 3000, 2000)] {
        for c in [&mut sides.plain, &mut sides.packed] {
            let crawl = Crawl {
                prefix: p,
                id,
                first,
                hashes,
            };
            crawl.add(c);
        }
        sides.both(&["DEDUPE.COMMIT", p, id].map(|w| w.word()));
    }
}

/// What a plain client has done to both before the index was packed.
fn damage(sides: &mut Sides, rng: &mut Rng) {
    let p = sides.p.clone();
    let merged = [&p[..], b"allhashes"].concat();
    let mut commands: Vec<Vec<Vec<u8>>> = Vec::new();
    for _ in 0..rng.below(20) {
        let n = rng.below(commands::HASHES);
        let owners: [&[u8]; 4] = [b"nobody", b"large", CRAWLS[0], b""];
        let owner = *rng.pick(&owners);
        // One spelling for each hash: of two, REPAIR keeps the one that it meets first.
        let field = commands::hash(&mut Rng::seeded(n), n);
        commands.push(vec!["HSET".word(), merged.clone(), field, owner.to_vec()]);
        let mut words = plain_command(rng, &p, 0);
        words[1] = [&p[..], b"h:large"].concat();
        commands.push(words);
    }
    for c in [&mut sides.plain, &mut sides.packed] {
        plainly(c, &p, |c| {
            for words in &commands {
                c.expect_ok(words);
            }
        });
    }
}

/// A plain client writes to a crawl that is not committed, or goes on with one that is.
fn plain_step(sides: &mut Sides, rng: &mut Rng) {
    let p = sides.p.clone();
    let crawl = rng.below(PLAIN.len() as u64) as usize;
    let key = |set: &str| [&p[..], set.as_bytes()].concat();
    let words = plain_command(rng, &p, crawl);
    let committed = ok!(sides.plain, "SISMEMBER", key("allcrawls"), PLAIN[crawl]).int() == 1;
    // A committed record is not for it to change.
    if committed && ok!(sides.plain, "HEXISTS", words[1], words[2]).int() == 1 {
        return;
    }
    let open = vec![
        "SADD".word(),
        key("uncommittedcrawls"),
        PLAIN[crawl].to_vec(),
    ];
    sides.both(&open);
    sides.both(&words);
}

/// One command, or some in a transaction or in a script, on both sides.
fn step(sides: &mut Sides, rng: &mut Rng) {
    if rng.chance(6) {
        sides.begin_change(rng);
    }
    let p = sides.p.clone();
    if rng.chance(8) {
        plain_step(sides, rng);
        return;
    }
    let mut words = command(rng, &p);
    if rng.chance(12) {
        words = spoiled(rng, words);
    }
    let checks = |words: &[Vec<u8>]| {
        let name = words[0].as_slice();
        [&b"DEDUPE.CHECK"[..], b"DEDUPE.REPAIR"].contains(&name)
    };
    if checks(&words) {
        sides.both_check(&words);
        return;
    }
    match rng.below(20) {
        0 => {
            let more = command(rng, &p);
            if checks(&more) {
                return;
            }
            let all = [words, more];
            for c in [&mut sides.plain, &mut sides.packed] {
                ok!(c, "MULTI");
                for words in &all {
                    c.call(words);
                }
            }
            sides.log.push("MULTI".to_owned());
            sides.log.extend(all.iter().map(|words| shown(words)));
            let (plain, packed) = (cmd(&mut sides.plain), cmd(&mut sides.packed));
            if let (Reply::Array(plain), Reply::Array(packed)) = (&plain, &packed) {
                for ((words, plain), packed) in all.iter().zip(plain).zip(packed) {
                    sides.assert_equal(words, plain, packed);
                }
            } else {
                sides.assert_equal(&all[0], &plain, &packed);
            }
        }
        1 if words.len() > 1 => {
            let script = "return redis.call(ARGV[1], KEYS[1], unpack(ARGV, 2))";
            let mut eval = vec!["EVAL".word(), script.word(), "1".word()];
            eval.extend([words[1].clone(), words[0].clone()]);
            eval.extend_from_slice(&words[2..]);
            sides.log.push(shown(&eval));
            let (plain, packed) = (sides.plain.call(&eval), sides.packed.call(&eval));
            sides.assert_equal(&words, &plain, &packed);
        }
        _ => drop(sides.both(&words)),
    }
}

fn cmd(c: &mut Wire) -> Reply {
    c.call(&["EXEC"])
}

fn same_replies(name: &str, is_damaged: bool) {
    let (plain, packed) = servers();
    let mut rng = Rng::new(name);
    let mut packed_steps = 0;
    for round in 0..6 {
        let p = PREFIXES[round % PREFIXES.len()];
        let mut sides = sides(&plain, &packed, p, round % 2 == 1);
        fill(&mut sides, p);
        if is_damaged {
            damage(&mut sides, &mut rng);
        }
        for i in 0..220 {
            step(&mut sides, &mut rng);
            if i % 40 == 39 {
                sides.assert_same_keys();
                packed_steps += u64::from(is_packed(&mut sides.packed, p));
            }
        }
        sides.assert_same_keys();
        let check = sides.both_check(&["DEDUPE.CHECK", p].map(|w| w.word()));
        if is_damaged {
            sides.both_check(&["DEDUPE.REPAIR", p].map(|w| w.word()));
            sides.both_check(&["DEDUPE.CHECK", p].map(|w| w.word()));
            sides.assert_same_keys();
        } else {
            assert!(!check.is_error(), "{check:?}");
        }
    }
    assert!(packed_steps > 5, "packed only {packed_steps} times");
    for server in [&plain, &packed] {
        assert_eq!(server.info_number("panics"), 0);
    }
}

#[test]
fn both_storages_give_the_same_replies_to_random_commands() {
    same_replies(
        "both_storages_give_the_same_replies_to_random_commands",
        false,
    );
}

#[test]
fn both_storages_give_the_same_replies_on_a_damaged_index() {
    same_replies(
        "both_storages_give_the_same_replies_on_a_damaged_index",
        true,
    );
}

#[test]
fn jobs_in_many_slices_give_the_same_replies_while_others_go_on() {
    let (plain, packed) = servers();
    let mut rng = Rng::new("jobs_in_many_slices_give_the_same_replies_while_others_go_on");
    let p = PREFIXES[0];
    let mut sides = sides(&plain, &packed, p, false);
    fill(&mut sides, p);
    let (mut one, mut other) = (plain.wire(), packed.wire());
    for round in 0..6 {
        let id = format!("job {round}");
        // Half of it is in the index already, or all of it is new.
        let first = 1000 + 5000 * rng.below(2) + 500 * round;
        for c in [&mut sides.plain, &mut sides.packed] {
            let crawl = Crawl {
                prefix: p,
                id: &id,
                first,
                hashes: 6000,
            };
            crawl.add(c);
        }
        sides.begin_change(&mut rng);
        for name in ["DEDUPE.COMMIT", "DEDUPE.REMOVE"] {
            if name == "DEDUPE.REMOVE" && round % 2 == 0 {
                continue;
            }
            one.send(&[name, p, &id]);
            other.send(&[name, p, &id]);
            // What the running job does not touch.
            while !(one.has_reply() && other.has_reply()) {
                let n = 1_000_000 + rng.below(50);
                let crawl = "meanwhile".word();
                let words = match rng.below(4) {
                    0 => {
                        let mut words = vec!["DEDUPE.ADD".word(), p.word(), crawl];
                        words.extend(redis_tests::words_of(n));
                        words
                    }
                    1 => vec![
                        "DEDUPE.REVISIT".word(),
                        p.word(),
                        crawl,
                        sha256_of(1000 + rng.below(100)).word(),
                        rng.below(900).word(),
                    ],
                    2 => vec!["DEDUPE.STATS".word(), p.word(), "large".word()],
                    _ => {
                        let mut words = vec!["DEDUPE.LOOKUP".word(), p.word()];
                        words.extend((0..50).map(|_| sha256_of(1000 + rng.below(2000)).word()));
                        words
                    }
                };
                sides.both(&words);
            }
            let words = [name, p, &id].map(|w| w.word());
            sides.assert_equal(&words, &one.recv(), &other.recv());
        }
    }
    sides.both(&["DEDUPE.COMMIT", p, "meanwhile"].map(|w| w.word()));
    sides.assert_same_keys();
    let check = sides.both_check(&["DEDUPE.CHECK", p].map(|w| w.word()));
    assert_eq!(check.field("ok"), redis_tests::int(1), "{check:?}");
}
