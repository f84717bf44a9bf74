//! Tests that both storages of an index return the same replies and contain the same data.
//!
//! The test sends random commands to two servers. One uses plain keys; the other packs and unpacks
//! its index at random times while other clients continue. Jobs take many slices.

mod commands;

use commands::{CRAWLS, PLAIN, command, plain_command, spoiled};
use redis_tests::history::{self, Log, Stage, Verdict};
use redis_tests::{
    Crawl, Options, Reply, Rng, Server, Wire, Word, bulk, cmd, int, is_packed, must, nil, ok,
    plain_view, plainly, sha256_of, words_of,
};

/// Prefixes of the indexes. The rounds use them in turn.
const PREFIXES: [&str; 3] = ["{coll-42}:", "", "p\r\n\0:"];

/// The two servers, and a client of each.
struct Sides {
    plain: Wire,
    packed: Wire,
    /// Connection that converts the storage. It may be waiting for its reply.
    changer: Wire,
    is_changing: bool,
    p: Vec<u8>,
    /// Number of completed `PACK` commands.
    packed_times: u64,
}

impl Sides {
    fn new(plain: &Server, packed: &Server, p: &str, resp3: bool) -> Sides {
        let wire = |server: &Server| if resp3 { server.wire3() } else { server.wire() };
        let mut sides = Sides {
            plain: wire(plain),
            packed: wire(packed),
            changer: packed.wire(),
            is_changing: false,
            p: p.word(),
            packed_times: 0,
        };
        ok!(sides.plain, "FLUSHALL");
        ok!(sides.packed, "FLUSHALL");
        sides
    }

    /// Sends the same command to both servers and compares the replies.
    fn both(&mut self, words: &[Vec<u8>], log: &mut Log) -> Result<Reply, String> {
        if is_check(words) {
            return self.both_check(words, log);
        }
        let (plain, packed) = (log.call(&mut self.plain, words), self.packed.call(words));
        equal(words, &plain, &packed)?;
        Ok(plain)
    }

    /// Runs `CHECK` or `REPAIR` on both servers. They iterate over keys and fields in slices, and
    /// may see one of these twice if a table of the server shrinks or the storage is converted. In
    /// this case, sends the command again.
    fn both_check(&mut self, words: &[Vec<u8>], log: &mut Log) -> Result<Reply, String> {
        self.end_change()?;
        let mut compared = Ok(());
        for _ in 0..5 {
            let (plain, packed) = (log.call(&mut self.plain, words), self.packed.call(words));
            compared = equal(words, &plain, &packed);
            if compared.is_ok() {
                return Ok(plain);
            }
        }
        Err(compared.expect_err("five times"))
    }

    /// Starts packing or unpacking, without waiting for the end.
    fn begin_change(&mut self, name: &str, log: &mut Log) -> Verdict {
        self.end_change()?;
        let words = [name.word(), self.p.clone()];
        self.changer.send(&words);
        log.note(&words, &nil());
        self.is_changing = true;
        Ok(())
    }

    fn end_change(&mut self) -> Verdict {
        if std::mem::take(&mut self.is_changing) {
            let reply = self.changer.recv();
            must!(!reply.is_error(), "the change of storage replied {reply:?}");
        }
        Ok(())
    }

    /// Checks that both servers have the same keys, byte for byte, after the packed index was
    /// unpacked.
    fn assert_same_keys(&mut self) {
        self.end_change().expect("the storage changed");
        // Claims contain their deadlines.
        let view = |c: &mut Wire| {
            let view = plain_view(c, &self.p).without_storage();
            view.without(|key| key.ends_with(b"claims"))
        };
        let (plain, packed) = (view(&mut self.plain), view(&mut self.packed));
        packed.assert_same(&plain, "plain and packed");
    }

    /// Runs two commands in a transaction.
    fn transaction(&mut self, all: &[Vec<Vec<u8>>; 2], log: &mut Log) -> Verdict {
        let mut replies = [&mut self.plain, &mut self.packed].map(|c| {
            ok!(c, "MULTI");
            for words in all {
                let queued = c.call(words);
                log.note(words, &queued);
            }
            cmd!(c, "EXEC")
        });
        let [Reply::Array(plain), Reply::Array(packed)] = &mut replies else {
            return equal(&all[0], &replies[0], &replies[1]);
        };
        let mut pairs = all.iter().zip(plain).zip(packed);
        pairs.try_for_each(|((words, plain), packed)| equal(words, plain, packed))
    }

    /// Runs a plain client's write to a crawl that is not committed, or that is continued.
    fn plain_step(&mut self, crawl: usize, words: &[Vec<u8>], log: &mut Log) -> Verdict {
        let key = |set: &str| [&self.p[..], set.as_bytes()].concat();
        let (all, open) = (key("allcrawls"), key("uncommittedcrawls"));
        let committed = ok!(self.plain, "SISMEMBER", all, PLAIN[crawl]).int() == 1;
        // A plain client must not change a committed record.
        if committed && ok!(self.plain, "HEXISTS", words[1], words[2]).int() == 1 {
            return Ok(());
        }
        self.both(&["SADD".word(), open, PLAIN[crawl].to_vec()], log)?;
        self.both(words, log).map(drop)
    }
}

/// A step on both servers.
#[derive(Clone)]
enum Step {
    /// Converts the storage of the packed index during the following steps.
    Change(&'static str),
    Call(Vec<Vec<u8>>),
    Script(Vec<Vec<u8>>),
    Transaction([Vec<Vec<u8>>; 2]),
    /// A plain client's command for one of its crawls.
    Plain(usize, Vec<Vec<u8>>),
}

impl Stage for Sides {
    type Step = Step;

    fn draw(&mut self, rng: &mut Rng) -> Step {
        if rng.chance(6) {
            let names = ["DEDUPE.PACK", "DEDUPE.UNPACK", "DEDUPE.PACK"];
            return Step::Change(names[rng.below(3) as usize]);
        }
        if rng.chance(8) {
            let crawl = rng.below(PLAIN.len() as u64) as usize;
            return Step::Plain(crawl, plain_command(rng, &self.p, crawl));
        }
        let mut words = command(rng, &self.p);
        if rng.chance(12) {
            words = spoiled(rng, words);
        }
        let more = command(rng, &self.p);
        match rng.below(20) {
            _ if is_check(&words) || is_check(&more) => Step::Call(words),
            0 => Step::Transaction([words, more]),
            1 if words.len() > 1 => Step::Script(words),
            _ => Step::Call(words),
        }
    }

    fn run(&mut self, step: &Step, log: &mut Log) -> Verdict {
        match step {
            Step::Change(name) => self.begin_change(name, log),
            Step::Call(words) => self.both(words, log).map(drop),
            Step::Plain(crawl, words) => self.plain_step(*crawl, words, log),
            Step::Transaction(all) => self.transaction(all, log),
            Step::Script(words) => {
                let script = "return redis.call(ARGV[1], KEYS[1], unpack(ARGV, 2))";
                let mut eval = vec!["EVAL".word(), script.word(), "1".word()];
                eval.extend([words[1].clone(), words[0].clone()]);
                eval.extend_from_slice(&words[2..]);
                let (plain, packed) = (log.call(&mut self.plain, &eval), self.packed.call(&eval));
                equal(words, &plain, &packed)
            }
        }
    }

    fn check(&mut self, _: &mut Log) -> Verdict {
        self.assert_same_keys();
        self.packed_times += u64::from(is_packed(&mut self.packed, &self.p));
        Ok(())
    }
}

fn is_check(words: &[Vec<u8>]) -> bool {
    [&b"DEDUPE.CHECK"[..], b"DEDUPE.REPAIR"].contains(&&words[0][..])
}

fn equal(words: &[Vec<u8>], plain: &Reply, packed: &Reply) -> Verdict {
    let (one, other) = (comparable(words, plain), comparable(words, packed));
    must!(one == other, "plain says {one:?}\npacked says {other:?}");
    Ok(())
}

/// Removes the parts of a reply that may differ: arbitrary order, times, memory, and the storage
/// itself.
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

/// Sorts the entries of the JSON of `DEDUPE.REQUIRES`, whose order is arbitrary.
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

/// Starts both servers with the shortest possible slices.
fn servers() -> (Server, Server) {
    let short = ["slice-us", "50"];
    let plain = Options::new().plain().module_args(&short).start();
    (plain, Options::new().packed().module_args(&short).start())
}

/// Adds enough crawls for a storage conversion of many slices.
fn fill(sides: &mut Sides, p: &str) {
    for (id, first, hashes) in [("large", 1000, 3000), ("large too", 3000, 2000)] {
        add_to_both(sides, p, id, (first, hashes));
        let commit = ["DEDUPE.COMMIT", p, id].map(Word::word);
        sides.both(&commit, &mut Log::default()).expect("the same");
    }
}

fn add_to_both(sides: &mut Sides, prefix: &str, id: &str, (first, hashes): (u64, u64)) {
    for c in [&mut sides.plain, &mut sides.packed] {
        Crawl::of(prefix, id, first..first + hashes).add(c);
    }
}

/// Damages both indexes as a plain client might, before one of them is packed.
fn damage(sides: &mut Sides, rng: &mut Rng) {
    let p = sides.p.clone();
    let merged = [&p[..], b"allhashes"].concat();
    let mut commands: Vec<Vec<Vec<u8>>> = Vec::new();
    for _ in 0..rng.below(20) {
        let n = rng.below(commands::HASHES);
        let owners: [&[u8]; 4] = [b"nobody", b"large", CRAWLS[0], b""];
        let owner = *rng.pick(&owners);
        // Each hash has only one notation, because `REPAIR` keeps the first of two notations that
        // it finds.
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

fn same_replies(test: &str, is_damaged: bool) {
    let (plain, packed) = servers();
    let mut packed_times = 0;
    let begin = |rng: &mut Rng| {
        let p = *rng.pick(&PREFIXES);
        let mut sides = Sides::new(&plain, &packed, p, rng.chance(50));
        fill(&mut sides, p);
        if is_damaged {
            damage(&mut sides, rng);
        }
        sides
    };
    history::play(test, (1320, 220), begin, |mut sides| {
        packed_times += sides.packed_times;
        let log = &mut Log::default();
        for name in ["CHECK", "REPAIR", "CHECK"] {
            let words = [format!("DEDUPE.{name}").word(), sides.p.clone()];
            let reply = sides.both(&words, log).expect("the same");
            assert!(!reply.is_error(), "{reply:?}");
        }
        sides.assert_same_keys();
    });
    assert!(packed_times > 5, "packed only {packed_times} times");
    for server in [&plain, &packed] {
        assert_eq!(server.info_number("panics"), 0);
    }
}

#[test]
fn both_storages_give_the_same_replies_to_random_commands() {
    same_replies("dedupe_storages", false);
}

#[test]
fn both_storages_give_the_same_replies_on_a_damaged_index() {
    same_replies("dedupe_damaged_storages", true);
}

#[test]
fn recorded_histories_are_the_same_on_both_storages() {
    let (plain, packed) = servers();
    for found in history::found("dedupe_") {
        let mut sides = Sides::new(&plain, &packed, PREFIXES[0], false);
        let mut changes = ["DEDUPE.PACK", "DEDUPE.UNPACK"].into_iter().cycle();
        found.replay(|words| {
            let log = &mut Log::default();
            sides.begin_change(changes.next().expect("for ever"), log)?;
            sides.both(words, log)
        });
        sides.assert_same_keys();
    }
}

#[test]
fn jobs_in_many_slices_give_the_same_replies_while_others_go_on() {
    let (plain, packed) = servers();
    let mut rng = Rng::new("jobs_in_many_slices_give_the_same_replies_while_others_go_on");
    let p = PREFIXES[0];
    let mut sides = Sides::new(&plain, &packed, p, false);
    fill(&mut sides, p);
    let (mut one, mut other) = (plain.wire(), packed.wire());
    let log = &mut Log::default();
    for round in 0..6 {
        let id = format!("job {round}");
        // Either half of the hashes are already in the index, or all are new.
        let first = 1000 + 5000 * rng.below(2) + 500 * round;
        add_to_both(&mut sides, p, &id, (first, 6000));
        let change = *rng.pick(&["DEDUPE.PACK", "DEDUPE.UNPACK"]);
        sides.begin_change(change, log).expect("it begins");
        for name in ["DEDUPE.COMMIT", "DEDUPE.REMOVE"] {
            if name == "DEDUPE.REMOVE" && round % 2 == 0 {
                continue;
            }
            one.send(&[name, p, &id]);
            other.send(&[name, p, &id]);
            // Use commands that the running job does not affect.
            while !(one.has_reply() && other.has_reply()) {
                let any = |rng: &mut Rng, most| sha256_of(1000 + rng.below(most)).word();
                let (name, rest) = match rng.below(4) {
                    0 => ("ADD", words_of(1_000_000 + rng.below(50)).to_vec()),
                    1 => ("REVISIT", vec![any(&mut rng, 100), rng.below(900).word()]),
                    2 => ("STATS", vec![]),
                    _ => ("LOOKUP", (0..50).map(|_| any(&mut rng, 2000)).collect()),
                };
                let mut words = vec![format!("DEDUPE.{name}").word(), p.word()];
                match name {
                    "STATS" => words.push("large".word()),
                    "LOOKUP" => {}
                    _ => words.push("meanwhile".word()),
                }
                words.extend(rest);
                sides.both(&words, log).expect("the same meanwhile");
            }
            let words = [name, p, &id].map(Word::word);
            equal(&words, &one.recv(), &other.recv()).expect("the same");
        }
    }
    let commit = ["DEDUPE.COMMIT", p, "meanwhile"].map(Word::word);
    sides.both(&commit, log).expect("the same");
    sides.assert_same_keys();
    let check = ["DEDUPE.CHECK", p].map(Word::word);
    let check = sides.both(&check, log).expect("the same");
    assert_eq!(check.field("ok"), int(1), "{check:?}");
}
