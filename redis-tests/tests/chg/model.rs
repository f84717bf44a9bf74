//! Random histories of a politeness frontier against a model of it: after every command the reply
//! and the plain keys are what the specification says.
//!
//! A failing history is printed with its seed and its last commands (`CHG_MODEL_LINES`, 30), and
//! cut down to the commands that it takes. `CHG_MODEL_SECONDS` says how long to go on (10), `SEED`
//! with which history to begin.

mod add;
mod command;
mod expiry;
mod frontier_model;
mod group;
mod history;
mod holds;
mod next;
mod release;
mod replies;
mod self_test;
mod settle;
mod shown;
mod why;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use redis_tests::{Options, Reply, Rng, Server, T0, Wire, ok};

use command::Command;
use frontier_model::{Model, Verdict};
use history::{Author, GATES, Step, Taste, is_in_the_middle};
use shown::Shown;

const P: &str = "{m}:";
const STEPS: usize = 1500;
const ATTEMPTS: i64 = 3;

fn options() -> Options {
    let attempts = ATTEMPTS.to_string();
    let args = ["chg-simulated-time", "yes", "chg-attempts", &attempts];
    Options::new().module_args(&args)
}

/// A frontier on a server, and what the model makes of it.
struct Stage {
    wire: Wire,
    model: Model,
    log: Vec<String>,
}

impl Stage {
    fn new(server: &Server) -> Stage {
        let mut wire = server.wire();
        ok!(wire, "FLUSHALL");
        let mut model = Model::new(ATTEMPTS);
        model.now = T0;
        Stage {
            wire,
            model,
            log: Vec::new(),
        }
    }

    /// Runs a step. A step whose lease was never granted is left out.
    fn run(&mut self, step: &Step) -> Verdict {
        let token = |token| self.model.number(token);
        let Some(words) = step.command.words(P, step.now, token) else {
            return Ok(());
        };
        let line: Vec<String> = words.iter().map(|w| shown_word(w)).collect();
        let mut reply = self.wire.call(&words);
        if matches!(step.command, Command::Check) && reply.is_error() {
            reply = self.wire.call(&words);
        }
        self.log.push(format!(
            "{:4}  {}\n      -> {reply:?}",
            step.id,
            line.join(" ")
        ));
        let (model, wire) = (&mut self.model, &mut self.wire);
        let judged = catch_unwind(AssertUnwindSafe(|| {
            model.follow(step.id, step.now, &step.command, &reply)?;
            model.settle(&Shown::of(wire, P, &GATES))
        }));
        let judged = judged.unwrap_or_else(|panic| {
            let text = panic.downcast::<String>();
            Err(format!(
                "panic: {}",
                text.map_or("?".to_owned(), |text| *text)
            ))
        });
        if judged.is_err() {
            let shown = Shown::of(&mut self.wire, P, &GATES);
            self.log.push(format!("{shown:#?}"));
        }
        judged
    }

    /// What `CHECK` says, when it can say something.
    fn check(&mut self, id: usize) -> Verdict {
        if is_in_the_middle(&self.model) {
            return Ok(());
        }
        self.run(&Step {
            id,
            now: self.model.now,
            command: Command::Check,
        })
    }

    fn log(&self) -> String {
        let lines = std::env::var("CHG_MODEL_LINES")
            .ok()
            .and_then(|n| n.parse().ok());
        let from = self.log.len().saturating_sub(lines.unwrap_or(30));
        self.log[from..].join("\n")
    }
}

fn shown_word(word: &[u8]) -> String {
    match word.len() {
        0 => "''".to_owned(),
        1..=60 if !word.contains(&b' ') => word.escape_ascii().to_string(),
        1..=60 => format!("'{}'", word.escape_ascii()),
        n => format!("<{n} bytes>"),
    }
}

/// Plays a history again. What was wrong, and the log.
fn play(server: &Server, steps: &[Step]) -> Option<(String, String)> {
    let mut stage = Stage::new(server);
    for (n, step) in steps.iter().enumerate() {
        let last = n + 1 == steps.len();
        let verdict = stage
            .run(step)
            .and_then(|()| if last { stage.check(step.id) } else { Ok(()) });
        if let Err(what) = verdict {
            return Some((what, stage.log()));
        }
    }
    None
}

/// What a verdict is about: its words without names and numbers.
fn kind(what: &str) -> String {
    let plain = what.split('"').step_by(2).flat_map(str::chars);
    plain.filter(|c| c.is_alphabetic()).take(30).collect()
}

/// Leaves out of a failing history what it does not take to fail in the same way.
fn shrink(server: &Server, mut steps: Vec<Step>, what: &str) -> Vec<Step> {
    let same = |played: Option<(String, String)>| played.is_some_and(|p| kind(&p.0) == kind(what));
    let until = Instant::now() + Duration::from_secs(20);
    let mut size = steps.len() / 2;
    while size > 0 && Instant::now() < until {
        let (mut at, mut shrunk) = (0, false);
        while at < steps.len() && Instant::now() < until {
            let mut fewer = steps.clone();
            fewer.drain(at..(at + size).min(steps.len()));
            if same(play(server, &fewer)) {
                steps = fewer;
                shrunk = true;
            } else {
                at += size;
            }
        }
        if !shrunk || size > 1 {
            size /= 2;
        }
    }
    steps
}

/// Plays a random history, of so many steps, and fails with what it takes to fail again.
fn random_history(server: &Server, rng: &mut Rng, count: usize) -> Stage {
    let mut stage = Stage::new(server);
    let taste = Taste::any(rng);
    let mut author = Author::default();
    let mut steps = Vec::new();
    for id in 0..count {
        let step = author.step(id, &stage.model, &taste, rng);
        let verdict = stage.run(&step);
        steps.push(step);
        let verdict = verdict.and_then(|()| match id % 25 {
            24 => stage.check(id),
            _ => Ok(()),
        });
        if let Err(what) = verdict {
            let long = stage.log();
            let few = shrink(server, steps, &what);
            let (short_what, short) = play(server, &few).unwrap_or_default();
            panic!(
                "step {id}: {what}\n{taste:?}\n--- the last of the history\n{long}\n\
                 --- {} steps suffice: {short_what}\n{short}",
                few.len()
            );
        }
    }
    stage
}

#[test]
fn random_histories_match_the_model() {
    let server = options().start();
    let mut rng = Rng::new("random_histories_match_the_model");
    let seconds = std::env::var("CHG_MODEL_SECONDS").ok();
    let seconds = seconds.map_or(10, |text| text.parse().expect("a number of seconds"));
    let until = Instant::now() + Duration::from_secs(seconds);
    let mut histories = 0;
    while Instant::now() < until {
        random_history(&server, &mut rng, STEPS);
        histories += 1;
    }
    eprintln!("{histories} histories of {STEPS} commands");
    assert_eq!(server.info_number("panics"), 0);
}

#[test]
fn replica_of_a_random_history_has_the_same_data() {
    let server = options().start();
    let replica = options().replica_of(&server).start();
    let mut rng = Rng::new("replica_of_a_random_history_has_the_same_data");
    for _ in 0..4 {
        random_history(&server, &mut rng, 300);
        server.wait_for_replica_offset(&replica);
        let (ours, theirs) = (server.snapshot(), replica.snapshot());
        theirs.assert_same(&ours, "the replica");
        assert_eq!(server.digest(), replica.digest());
    }
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
        // Exact after every whole round, and never two picks off.
        for (execution, weight) in weights {
            let off = picks.get(execution).unwrap_or(&0) * 8 - round * weight;
            let most = if round % 8 == 0 { 0 } else { 15 };
            assert!(off.abs() <= most, "{execution} in round {round}: {picks:?}");
        }
    }
    assert_eq!(f.ok("NEXT"), Reply::Nil);
}
