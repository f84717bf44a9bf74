//! Random histories: a generator draws one step after the other, and a stage runs each step and
//! compares the results. If a history fails, it is shortened to the steps that are necessary for
//! the failure.
//!
//! A `Stage` is a server and its model, or two servers that must give the same replies. To shorten
//! a failing history, the test runs it again without some consecutive steps, and then without
//! single steps. A step is left out for good if the history still fails in the same way. Shortening
//! takes at most `SHRINKING`. After that, the test prints the history and its seed, as lines for
//! redis-cli. If the environment variable `CORPUS` names `redis-tests/corpus`, the test also saves
//! the history in the subfolder `histories/`. The variable `HISTORY_STEPS` sets the number of steps
//! of a random test, and `SEED` the first seed.
//!
//! The folder `redis-tests/corpus/histories/` contains one file for each earlier failure: a line
//! that describes the failure, then commands in the notation of the documentation,
//! `> COMMAND args`, with the replies that matter. `found` reads these files.

use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::examples::{self, Live};
use crate::rng::Rng;
use crate::wire::{Reply, Wire};
use crate::words::line;

/// Maximum time to shorten a failing history.
const SHRINKING: Duration = Duration::from_secs(60);

/// Number of steps between calls of [`Stage::check`].
const CHECKED: usize = 25;

/// The result of a check.
pub type Verdict = Result<(), String>;

/// Returns from the function with an error unless the condition holds.
#[macro_export]
macro_rules! must {
    ($condition:expr, $($words:tt)+) => {
        if !$condition {
            return Err(format!($($words)+));
        }
    };
}

/// The system under test, which runs the steps of a history.
pub trait Stage {
    /// One step, usually one command.
    type Step: Clone;

    /// Draws the next step.
    fn draw(&mut self, rng: &mut Rng) -> Self::Step;

    /// Runs a step and compares the results. Does nothing if the step depends on a step that was
    /// left out.
    ///
    /// # Errors
    /// A description of the difference.
    fn run(&mut self, step: &Self::Step, log: &mut Log) -> Verdict;

    /// Compares state that is slow to read. Called at intervals and at the end.
    ///
    /// # Errors
    /// A description of the difference.
    fn check(&mut self, _log: &mut Log) -> Verdict {
        Ok(())
    }

    /// Returns simpler steps that may replace this one.
    fn smaller(_step: &Self::Step) -> Vec<Self::Step> {
        Vec::new()
    }
}

/// The commands that were sent during a history, and their replies.
#[derive(Default)]
pub struct Log(Vec<(Vec<Vec<u8>>, String)>);

impl Log {
    /// Sends a command. Records the command and its reply.
    pub fn call(&mut self, wire: &mut Wire, words: &[Vec<u8>]) -> Reply {
        let reply = wire.call(words);
        self.note(words, &reply);
        reply
    }

    /// Records a command and its reply.
    pub fn note(&mut self, words: &[Vec<u8>], reply: &Reply) {
        self.0.push((words.to_vec(), format!("{reply:?}")));
    }

    /// Returns the commands as lines for redis-cli.
    fn lines(&self) -> Vec<String> {
        let lines = self.0.iter().map(|(words, _)| line(words));
        lines.collect()
    }

    /// Returns the last replies.
    fn replies(&self) -> String {
        let mut text = String::new();
        for (words, reply) in &self.0[self.0.len().saturating_sub(4)..] {
            let line: String = line(words).chars().take(200).collect();
            let _ = writeln!(text, "{line}\n  -> {reply}");
        }
        text
    }
}

/// Plays random histories of `each` steps until `HISTORY_STEPS` steps have run (by default
/// `total`). Each history starts with the stage from `begin`. At the end, `after` gets the stage.
///
/// # Panics
/// Panics with the shortest failing history found.
pub fn play<S: Stage>(
    test: &str,
    (total, each): (usize, usize),
    begin: impl Fn(&mut Rng) -> S,
    mut after: impl FnMut(S),
) {
    let steps = std::env::var("HISTORY_STEPS").ok();
    let total = steps.map_or(total, |n| n.parse().expect("HISTORY_STEPS is a number"));
    let mut rng = Rng::new(test);
    for _ in 0..total.div_ceil(each) {
        after(history(test, rng.bits() >> 32, each, &begin));
    }
}

/// Plays one random history with this seed.
///
/// # Panics
/// Panics with the shortest failing history found.
pub fn history<S: Stage>(test: &str, seed: u64, count: usize, begin: &impl Fn(&mut Rng) -> S) -> S {
    let mut rng = Rng::seeded(seed);
    let mut stage = begin(&mut rng);
    let (mut steps, mut log) = (Vec::new(), Log::default());
    for id in 1..=count {
        steps.push(stage.draw(&mut rng));
        let mut verdict = judged(|| stage.run(&steps[id - 1], &mut log));
        if verdict.is_ok() && (id % CHECKED == 0 || id == count) {
            verdict = judged(|| stage.check(&mut log));
        }
        if let Err(what) = verdict {
            let begin = || begin(&mut Rng::seeded(seed));
            let (few, what, log) = shrunk(steps, what, log, &begin);
            fail(test, seed, (id, few), &what, &log);
        }
    }
    stage
}

/// Runs a step and turns a panic into an error.
fn judged(act: impl FnOnce() -> Verdict) -> Verdict {
    catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|panic| {
        let text = panic.downcast::<String>();
        let text = text.map_or_else(|_| "?".to_owned(), |text| *text);
        Err(format!("panic: {text}"))
    })
}

/// Runs a history again, including the final check. Returns the error and the sent commands.
fn again<S: Stage>(begin: &impl Fn() -> S, steps: &[S::Step]) -> Option<(String, Log)> {
    let (mut stage, mut log) = (begin(), Log::default());
    let mut verdict = steps
        .iter()
        .try_for_each(|step| judged(|| stage.run(step, &mut log)));
    if verdict.is_ok() {
        verdict = judged(|| stage.check(&mut log));
    }
    verdict.err().map(|what| (what, log))
}

/// Returns the kind of a verdict: its first words, without names and numbers.
fn kind(what: &str) -> String {
    let plain = what.split('"').step_by(2).flat_map(str::chars);
    plain.filter(|c| c.is_alphabetic()).take(45).collect()
}

/// Removes all steps of a failing history that are not necessary for the same failure.
fn shrunk<S: Stage>(
    mut steps: Vec<S::Step>,
    mut what: String,
    mut log: Log,
    begin: &impl Fn() -> S,
) -> (usize, String, Log) {
    let until = Instant::now() + SHRINKING;
    let mut try_with = |fewer: Vec<S::Step>, steps: &mut Vec<S::Step>| {
        let failed = again(begin, &fewer).filter(|failed| kind(&failed.0) == kind(&what));
        let fails = failed.is_some();
        if let Some(failed) = failed {
            (what, log) = failed;
            *steps = fewer;
        }
        fails
    };
    let mut size = steps.len().div_ceil(2);
    while size > 0 && Instant::now() < until {
        let (mut at, mut shorter) = (0, false);
        while at < steps.len() && Instant::now() < until {
            let mut fewer = steps.clone();
            fewer.drain(at..(at + size).min(steps.len()));
            if try_with(fewer, &mut steps) {
                shorter = true;
            } else {
                at += size;
            }
        }
        // Remove single steps until none can be removed.
        if !shorter || size > 1 {
            size /= 2;
        }
    }
    for at in 0..steps.len() {
        while Instant::now() < until {
            let smaller = S::smaller(&steps[at]);
            let found = smaller.into_iter().any(|step| {
                let mut other = steps.clone();
                other[at] = step;
                Instant::now() < until && try_with(other, &mut steps)
            });
            if !found {
                break;
            }
        }
    }
    (steps.len(), what, log)
}

/// Prints a failing history, and saves it in the folder of `CORPUS`.
fn fail(test: &str, seed: u64, (id, few): (usize, usize), what: &str, log: &Log) -> ! {
    let lines = log.lines();
    if let Ok(folder) = std::env::var("CORPUS") {
        let path = Path::new(&folder).join(format!("histories/{test}-{seed}.txt"));
        let first = what.lines().next().unwrap_or_default();
        let commands: String = lines.iter().map(|line| format!("> {line}\n")).collect();
        std::fs::write(&path, format!("{first}\n{commands}")).expect("the history can be saved");
        eprintln!("filed as {}", path.display());
    }
    panic!(
        "step {id} of the history with seed {seed}: {what}\n--- {few} steps suffice:\n{}\n\
         --- the last replies:\n{}",
        lines.join("\n"),
        log.replies()
    );
}

/// Returns a reply that differs slightly from this one. A model must notice the difference.
pub fn altered(reply: &Reply, rng: &mut Rng) -> Reply {
    match reply {
        Reply::Nil => Reply::Int(0),
        Reply::Int(n) => Reply::Int(n + if rng.chance(50) { 1 } else { -1 }),
        Reply::Bulk(text) => Reply::Bulk([text, &b"x"[..]].concat()),
        Reply::Array(items) if !items.is_empty() => {
            let at = rng.below(items.len() as u64) as usize;
            let mut items = items.clone();
            if rng.chance(20) {
                items.remove(at);
            } else {
                items[at] = altered(&items[at], rng);
            }
            Reply::Array(items)
        }
        Reply::Array(_) | Reply::Error(_) => Reply::Array(vec![Reply::Nil]),
        _ => Reply::Nil,
    }
}

/// A recorded history of an earlier failure.
pub struct Found {
    /// Name of the file.
    pub name: String,
    steps: Vec<examples::Step>,
}

impl Found {
    /// Runs the history with `run`, which returns the reply to a command, or an error.
    ///
    /// # Panics
    /// Panics if `run` returns an error, or if a reply differs from the reply in the file.
    pub fn replay(&self, mut run: impl FnMut(&[Vec<u8>]) -> Result<Reply, String>) {
        let mut now = Live::default();
        for step in &self.steps {
            let name = &self.name;
            let reply = run(&step.words(&now));
            let reply = reply.unwrap_or_else(|what| panic!("{name}:{} {what}", step.command));
            let expected = !step.expected.is_empty();
            let difference = expected
                .then(|| step.difference(&reply, &mut now))
                .flatten();
            assert_eq!(difference, None, "{name}");
        }
    }
}

/// Returns the recorded histories whose names begin with `test`.
///
/// # Panics
/// Panics if no history matches.
pub fn found(test: &str) -> Vec<Found> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/histories");
    let files = std::fs::read_dir(&folder).expect("the corpus exists");
    let mut found: Vec<Found> = files
        .map(|file| file.expect("it can be listed").path())
        .filter_map(|path| {
            let name = path.file_name()?.to_string_lossy().into_owned();
            let text = std::fs::read_to_string(&path).expect("the history is UTF-8");
            let (what, rest) = text.split_once('\n')?;
            assert!(
                !what.is_empty() && !what.starts_with('>'),
                "{name}: the first line must describe the failure"
            );
            let steps = examples::steps(&format!("```redis\n{rest}\n```"));
            name.starts_with(test).then_some(Found { name, steps })
        })
        .collect();
    assert!(
        !found.is_empty(),
        "no histories of {test} in {}",
        folder.display()
    );
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stage that fails when its sum exceeds 20. Only steps of 7 are added to the sum.
    struct Sum(u64);

    impl Stage for Sum {
        type Step = u64;

        fn draw(&mut self, rng: &mut Rng) -> u64 {
            1 + rng.below(9)
        }

        fn run(&mut self, step: &u64, log: &mut Log) -> Verdict {
            log.note(
                &[b"ADD".to_vec(), step.to_string().into_bytes()],
                &Reply::Nil,
            );
            self.0 += if *step >= 7 { 7 } else { 0 };
            must!(self.0 <= 20, "the sum is {}", self.0);
            Ok(())
        }

        fn smaller(step: &u64) -> Vec<u64> {
            (1..*step).collect()
        }
    }

    #[test]
    fn a_failing_history_is_shortened_to_the_needed_steps() {
        let failed = catch_unwind(|| history("sums", 5, 300, &|_: &mut Rng| Sum(0)));
        let text = failed.err().expect("it fails").downcast::<String>();
        let text = *text.expect("it panics with a message");
        assert!(
            text.contains("the history with seed 5: the sum is 21"),
            "{text}"
        );
        assert!(
            text.contains("3 steps suffice:\nADD 7\nADD 7\nADD 7\n---"),
            "{text}"
        );
    }

    #[test]
    fn a_history_without_failure_is_played_to_its_end() {
        let mut played = 0;
        play("sums", (6, 2), |_| Sum(0), |_| played += 1);
        assert!(played > 0);
    }
}
