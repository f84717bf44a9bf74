//! Random histories of a politeness frontier, compared with a model. After every command, the reply
//! and the plain keys must be correct according to the documentation. (See `redis_tests::history`
//! and `redis_tests::frontier_model`.)

mod author;
mod known;
mod races;

use std::collections::BTreeMap;

use redis_tests::frontier_model::FrontierModel;
use redis_tests::history::{self, Log, Stage, Verdict};
use redis_tests::{
    Options, Reply, Rng, Server, T0, Wire, Word, frontier_view, ok, packed_by_default,
};

use author::{Author, GATES, Step, Taste};

const P: &str = "{m}:";
const ATTEMPTS: i64 = 3;
/// Number of commands between two comparisons of the keys of a packed frontier.
const LOOK: u32 = 4;

fn options() -> Options {
    let attempts = ATTEMPTS.to_string();
    let args = ["chg-simulated-time", "yes", "chg-attempts", &attempts];
    Options::new().module_args(&args)
}

/// A frontier on a server, and the model of it.
struct Modeled {
    wire: Wire,
    model: FrontierModel,
    author: Author,
    looks: u32,
}

impl Modeled {
    fn new(server: &Server, taste: Taste) -> Modeled {
        let mut wire = server.wire();
        ok!(wire, "FLUSHALL");
        Modeled {
            wire,
            model: FrontierModel::new(P, ATTEMPTS),
            author: Author::new(taste),
            looks: 0,
        }
    }

    fn judge(&mut self, words: &[Vec<u8>], log: &mut Log) -> Result<Reply, String> {
        let reads_keys = [&b"LRANGE"[..], b"HGET", b"EXISTS"].contains(&&words[0][..]);
        let mut reply = if reads_keys {
            frontier_view(&mut self.wire, P, |wire| log.call(wire, words))
        } else {
            log.call(&mut self.wire, words)
        };
        if words[0] == b"CHG.CHECK" && reply.is_error() {
            // The previous check is still running.
            reply = log.call(&mut self.wire, words);
        }
        self.model.follow(words, &reply)?;
        // To look at the keys of a packed frontier, the test unpacks a copy of it.
        self.looks += 1;
        if !packed_by_default() || self.looks.is_multiple_of(LOOK) {
            self.model.is_shown_by(&mut self.wire, &GATES)?;
        }
        Ok(reply)
    }
}

impl Stage for Modeled {
    type Step = Step;

    fn draw(&mut self, rng: &mut Rng) -> Step {
        self.author.step(&self.model, rng)
    }

    fn run(&mut self, step: &Step, log: &mut Log) -> Verdict {
        let Some(words) = self.author.words(P, step) else {
            return Ok(());
        };
        let reply = self.judge(&words, log)?;
        self.author.note(step, &reply);
        Ok(())
    }

    fn check(&mut self, log: &mut Log) -> Verdict {
        if self.model.is_in_the_middle() {
            return Ok(());
        }
        let now = self.model.now().word();
        let words = ["CHG.CHECK".word(), P.word(), "NOW".word(), now];
        self.judge(&words, log).map(drop)
    }
}

#[test]
fn random_histories_match_the_model() {
    let server = options().start();
    let begin = |rng: &mut Rng| Modeled::new(&server, Taste::any(rng));
    history::play("chg_model", (24_000, 1500), begin, drop);
    assert_eq!(server.info_number("panics"), 0);
}

#[test]
fn model_detects_wrong_replies_and_wrong_keys() {
    let server = options().start();
    let mut rng = Rng::new("chg_model_wrong");
    let mut stage = Modeled::new(&server, Taste::any(&mut Rng::seeded(4)));
    let (mut replies, mut keys) = (0, 0);
    for _ in 0..1500 {
        let step = stage.draw(&mut rng);
        let Some(words) = stage.author.words(P, &step) else {
            continue;
        };
        // The documentation does not determine the token after a restart. For a map, only the
        // modeled fields are compared.
        let name = &words[0][..];
        if name == b"DEBUG" {
            continue;
        }
        let before = stage.model.clone();
        let reply = stage.judge(&words, &mut Log::default());
        let reply = reply.expect("the reply matches the model");
        stage.author.note(&step, &reply);
        let is_map = [&b"CHG.WHY"[..], b"CHG.INFO", b"CHG.REPAIR"].contains(&name);
        if name.starts_with(b"CHG.") && !is_map {
            let wrong = history::altered(&reply, &mut rng);
            let verdict = before.clone().follow(&words, &wrong);
            assert!(verdict.is_err(), "{words:?} {reply:?} {wrong:?}");
            replies += 1;
        }
        // If the command had no effect, the keys would differ from the model.
        let same = before.shown(&GATES) == stage.model.shown(&GATES);
        if !same {
            assert!(
                before.is_shown_by(&mut stage.wire, &GATES).is_err(),
                "{words:?}"
            );
            keys += 1;
        }
    }
    assert!(
        replies > 1000 && keys > 500,
        "{replies} replies, {keys} states"
    );
}

#[test]
fn recorded_histories_match_the_model() {
    let server = options().start();
    for found in history::found("chg_model") {
        let mut stage = Modeled::new(&server, Taste::any(&mut Rng::seeded(1)));
        found.replay(|words| stage.judge(words, &mut Log::default()));
    }
}

#[test]
fn replica_of_a_random_history_has_the_same_data() {
    let server = options().start();
    let replica = options().replica_of(&server).start();
    let begin = |rng: &mut Rng| Modeled::new(&server, Taste::any(rng));
    history::play("chg_model_replica", (1200, 300), begin, |_| {
        server.wait_for_replica_offset(&replica);
        let (ours, theirs) = (server.snapshot(), replica.snapshot());
        theirs.assert_same(&ours, "the replica");
        assert_eq!(server.digest(), replica.digest());
    });
}

#[test]
fn shares_are_as_the_weights_are() {
    let server = options().start();
    let mut f = redis_tests::Frontier::at(&server, T0);
    let weights = [("one", 1), ("two", 2), ("five", 5)];
    for (execution, weight) in weights {
        for n in 0..weight * 40 {
            f.ok(format!("ADDURI {execution} WEIGHT {weight} h {T0} 0 u{n}"));
        }
    }
    let mut picks: BTreeMap<String, i64> = BTreeMap::new();
    for round in 1..=8 * 40 {
        let lease = f.take("h");
        let execution = lease.execution.clone().expect("a kept URI");
        f.release(&lease, format!("AT 0 DONE {execution}"));
        *picks.entry(execution).or_insert(0) += 1;
        // Shares are exact after every full round, and the deviation is always less than two
        // leases.
        for (execution, weight) in weights {
            let off = picks.get(execution).unwrap_or(&0) * 8 - round * weight;
            let most = if round % 8 == 0 { 0 } else { 15 };
            assert!(off.abs() <= most, "{execution} in round {round}: {picks:?}");
        }
    }
    assert_eq!(f.ok("NEXT"), Reply::Nil);
}
