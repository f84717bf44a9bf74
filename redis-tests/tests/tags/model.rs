//! Random histories of a tag space against a naive model of it, which has its own evaluator of
//! expressions and of the three dialects and no regex engine: every reply is compared.
//!
//! A failing history is printed with its seed and cut down to the commands that it takes.
//! `TAGS_MODEL_SECONDS` says how long to go on (8), `SEED` with which history to begin.

// Without the star one of several texts would be taken for one of several `str`.
#![allow(clippy::explicit_auto_deref)]

mod author;
mod capture;
mod command;
mod expression;
mod filter;
mod pattern;
mod self_test;
mod space;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use redis_tests::{Options, Reply, Rng, Server, Wire, cmd, ok, until};

use command::{Command, Verdict};
use pattern::Bytes;
use space::Space;

const KEY: &str = "m";
const STEPS: usize = 400;

/// A space on a server, and what the model makes of it.
struct Stage {
    wire: Wire,
    model: Space,
    log: Vec<String>,
}

impl Stage {
    fn new(server: &Server) -> Stage {
        let mut wire = server.wire();
        ok!(wire, "FLUSHALL");
        Stage {
            wire,
            model: Space::default(),
            log: Vec::new(),
        }
    }

    fn run(&mut self, command: &Command) -> Verdict {
        let words = command.words(KEY);
        let reply = match command {
            Command::Scan(_, prefix) => {
                let prefix = prefix
                    .iter()
                    .flat_map(|p| [b"PREFIX".to_vec(), p.clone()])
                    .collect();
                self.walk(&words, None, prefix)
            }
            Command::List(..) => self.walk(&words, Some("CURSOR"), Vec::new()),
            Command::Dump => self.dump(&words),
            _ => self.wire.call(&words),
        };
        self.log
            .push(format!("{}\n      -> {reply:?}", shown(&words)));
        let model = &mut self.model;
        let judged = catch_unwind(AssertUnwindSafe(|| command.follow(model, &reply)));
        judged.unwrap_or_else(|panic| {
            let text = panic.downcast::<String>();
            Err(format!(
                "panic: {}",
                text.map_or("?".to_owned(), |text| *text)
            ))
        })
    }

    /// All pages of a walk in one array.
    fn walk(&mut self, words: &[Bytes], before: Option<&str>, after: Vec<Bytes>) -> Reply {
        let mut cursor = b"0".to_vec();
        let mut all = Vec::new();
        for _ in 0..10_000 {
            let mut page = words.to_vec();
            page.extend(before.map(|word| word.as_bytes().to_vec()));
            page.push(cursor);
            page.extend(after.clone());
            page.extend(["COUNT", "2"].map(|word| word.as_bytes().to_vec()));
            let reply = self.wire.call(&page);
            if reply.is_error() {
                return reply;
            }
            all.extend(reply.items()[1].items().to_vec());
            cursor = reply.items()[0].bytes().to_vec();
            if cursor == b"0" {
                return Reply::Array(all);
            }
        }
        panic!("a walk without end: {}", shown(words));
    }

    /// A copy by way of a dump has the same digest, and takes the space's place.
    fn dump(&mut self, words: &[Bytes]) -> Reply {
        let dump = self.wire.call(words);
        let Reply::Bulk(bytes) = &dump else {
            return dump;
        };
        ok!(self.wire, "RESTORE", "copy", 0, bytes);
        let digests = ok!(self.wire, "DEBUG", "DIGEST-VALUE", KEY, "copy").texts();
        assert_eq!(digests[0], digests[1], "a restored dump");
        ok!(self.wire, "RENAME", "copy", KEY);
        Reply::Nil
    }
}

fn shown(words: &[Bytes]) -> String {
    let words = words.iter().map(|word| match word.len() {
        0 => "''".to_owned(),
        _ if word.contains(&b' ') => format!("'{}'", word.escape_ascii()),
        _ => word.escape_ascii().to_string(),
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Plays a history again. What was wrong, and the log.
fn play(server: &Server, commands: &[Command]) -> Option<(String, String)> {
    let mut stage = Stage::new(server);
    for command in commands {
        if let Err(what) = stage.run(command) {
            return Some((what, stage.log.join("\n")));
        }
    }
    None
}

/// What a verdict is about: its first words.
fn kind(what: &str) -> String {
    what.chars()
        .filter(|c| c.is_alphabetic())
        .take(12)
        .collect()
}

/// Leaves out of a failing history what it does not take to fail in the same way.
fn shrink(server: &Server, mut commands: Vec<Command>, what: &str) -> Vec<Command> {
    let same = |played: Option<(String, String)>| played.is_some_and(|p| kind(&p.0) == kind(what));
    let until = Instant::now() + Duration::from_secs(20);
    let mut size = commands.len() / 2;
    while size > 0 && Instant::now() < until {
        let mut at = 0;
        while at < commands.len() && Instant::now() < until {
            let mut fewer = commands.clone();
            fewer.drain(at..(at + size).min(commands.len()));
            if same(play(server, &fewer)) {
                commands = fewer;
            } else {
                at += size;
            }
        }
        size /= 2;
    }
    // And of the last batch the lines.
    if let Some(Command::Filter(call)) = commands.last().cloned() {
        let mut call = call;
        let mut at = 0;
        while at < call.lines.len() && Instant::now() < until {
            let mut fewer = call.clone();
            fewer.lines.remove(at);
            let last = commands.len() - 1;
            let mut tried = commands.clone();
            tried[last] = Command::Filter(fewer.clone());
            if same(play(server, &tried)) {
                (commands, call) = (tried, fewer);
            } else {
                at += 1;
            }
        }
    }
    commands
}

/// Plays a random history, and fails with what it takes to fail again.
fn random_history(server: &Server, rng: &mut Rng, steps: usize) {
    let mut stage = Stage::new(server);
    let mut commands = Vec::new();
    for id in 0..steps {
        let command = author::command(rng, &stage.model);
        commands.push(command.clone());
        if let Err(what) = stage.run(&command) {
            let long = stage.log.last().cloned().unwrap_or_default();
            let few = shrink(server, commands, &what);
            let (short_what, short) = play(server, &few).unwrap_or_default();
            panic!(
                "command {id}: {what}\n--- {long}\n--- {} commands suffice: {short_what}\n{short}\n",
                few.len()
            );
        }
    }
}

/// Batches above `bytes` run beside the server.
fn histories(test: &str, options: Options, bytes: i64, share: u64) {
    let server = options.start();
    ok!(
        server.wire(),
        "CONFIG",
        "SET",
        "crawlspace.tags-inline-bytes",
        bytes
    );
    let replica = Options::new().replica_of(&server).start();
    let mut rng = Rng::new(test);
    let seconds = std::env::var("TAGS_MODEL_SECONDS").ok();
    let seconds: u64 = seconds.map_or(8, |text| text.parse().expect("a number of seconds"));
    let until = Instant::now() + Duration::from_millis(seconds * 1000 / share);
    let mut histories = 0;
    while Instant::now() < until {
        random_history(&server, &mut rng, STEPS);
        histories += 1;
        if histories % 4 == 0 {
            server.wait_for_replica_offset(&replica);
            assert_eq!(replica.digest(), server.digest(), "the replica");
        }
    }
    eprintln!("{histories} histories of {STEPS} commands");
    assert_eq!(server.info_number("panics"), 0);
    assert!(!cmd!(server.wire(), "DEBUG", "RELOAD").is_error());
}

#[test]
fn random_histories_match_the_model() {
    histories(
        "random_histories_match_the_model",
        Options::new(),
        262_144,
        1,
    );
}

#[test]
fn random_histories_with_batches_beside_the_server_match_the_model() {
    histories(
        "random_histories_with_batches_beside_the_server",
        Options::new(),
        1024,
        2,
    );
}

#[test]
fn random_histories_are_the_same_after_a_restart() {
    let mut server = Options::new().aof_unsynced(false).start();
    let mut rng = Rng::new("random_histories_are_the_same_after_a_restart");
    for round in 0..8 {
        random_history(&server, &mut rng, 150);
        let digest = server.digest();
        if round % 2 == 0 {
            ok!(server.wire(), "BGREWRITEAOF");
            until("the append-only file is rewritten", || {
                server.info_number("aof_rewrite_in_progress") == 0
                    && server.info_number("aof_rewrite_scheduled") == 0
            });
        }
        server.restart();
        assert_eq!(server.digest(), digest, "round {round}");
    }
}
