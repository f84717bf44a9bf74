//! Random histories of a tag space, compared with a simple model that has its own evaluator for
//! expressions and the three dialects, and no regex engine. Every reply is compared.
//!
//! (See `redis_tests::history`.)

// `rng.pick(&[…])` needs the explicit dereference for type inference.
#![allow(clippy::explicit_auto_deref)]

mod author;
mod capture;
mod command;
mod expression;
mod filter;
mod pattern;
mod self_test;
mod space;

use redis_tests::history::{self, Log};
use redis_tests::{Options, Reply, Rng, Server, Wire, cmd, ok};

use command::{Command, Verdict};
use pattern::Bytes;
use space::Space;

const KEY: &str = "m";

/// A tag space on a server, and the model of it.
struct Stage {
    wire: Wire,
    model: Space,
}

impl history::Stage for Stage {
    type Step = Command;

    fn draw(&mut self, rng: &mut Rng) -> Command {
        author::command(rng, &self.model)
    }

    fn run(&mut self, command: &Command, log: &mut Log) -> Verdict {
        let words = command.words(KEY);
        let reply = self.reply(command, &words);
        log.note(&words, &reply);
        command.follow(&mut self.model, &reply)
    }

    /// Returns copies of the batch that are one line shorter.
    fn smaller(command: &Command) -> Vec<Command> {
        let Command::Filter(call) = command else {
            return Vec::new();
        };
        let without = |at| {
            let mut fewer = call.clone();
            fewer.lines.remove(at);
            Command::Filter(fewer)
        };
        (0..call.lines.len()).map(without).collect()
    }
}

impl Stage {
    fn new(server: &Server) -> Stage {
        let mut wire = server.wire();
        ok!(wire, "FLUSHALL");
        let model = Space::default();
        Stage { wire, model }
    }

    /// Runs a command and returns its reply. For a listing, returns all pages together.
    fn reply(&mut self, command: &Command, words: &[Bytes]) -> Reply {
        match command {
            Command::Scan(_, prefix) => {
                let prefix = prefix.iter().flat_map(|p| [b"PREFIX".to_vec(), p.clone()]);
                self.walk(words, None, prefix.collect())
            }
            Command::List(..) => self.walk(words, Some("CURSOR"), Vec::new()),
            Command::Dump => self.dump(words),
            _ => self.wire.call(words),
        }
    }

    /// Returns all pages of a listing as one array.
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
        panic!("the listing returns too many pages");
    }

    /// Restores a dump as a copy, which must have the same digest, and replaces the space with the
    /// copy.
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

/// Runs histories in which batches above `bytes` run on background threads.
fn histories(test: &str, bytes: i64, steps: usize) {
    let server = Server::start();
    let bound = "crawlspace.tags-inline-bytes";
    ok!(server.wire(), "CONFIG", "SET", bound, bytes);
    let replica = Options::new().replica_of(&server).start();
    let mut histories = 0;
    history::play(
        test,
        (steps, 400),
        |_| Stage::new(&server),
        |_| {
            histories += 1;
            if histories % 4 == 0 {
                server.wait_for_replica_offset(&replica);
                assert_eq!(replica.digest(), server.digest(), "the replica");
            }
        },
    );
    assert_eq!(server.info_number("panics"), 0);
    assert!(!cmd!(server.wire(), "DEBUG", "RELOAD").is_error());
}

#[test]
fn random_histories_match_the_model() {
    histories("tags_model", 262_144, 16_000);
}

#[test]
fn random_histories_with_batches_beside_the_server_match_the_model() {
    histories("tags_model_beside", 1024, 8000);
}

#[test]
fn random_histories_are_the_same_after_a_restart() {
    let mut server = Options::new().aof_unsynced(false).start();
    let mut rng = Rng::new("tags_model_restarts");
    for round in 0..8 {
        let begin = |_: &mut Rng| Stage::new(&server);
        history::history("tags_model_restarts", rng.bits() >> 32, 150, &begin);
        let digest = server.digest();
        if round % 2 == 0 {
            server.restart_rewritten();
        } else {
            server.restart();
        }
        assert_eq!(server.digest(), digest, "round {round}");
    }
}

#[test]
fn wrong_replies_are_noticed() {
    let server = Server::start();
    let mut rng = Rng::new("tags_model_wrong");
    let mut stage = Stage::new(&server);
    let mut noticed = 0;
    for _ in 0..1500 {
        let command = history::Stage::draw(&mut stage, &mut rng);
        let before = stage.model.clone();
        let reply = stage.reply(&command, &command.words(KEY));
        let verdict = command.follow(&mut stage.model, &reply);
        verdict.expect("the reply matches the model");
        // The documentation does not determine some replies: replies about missing spaces,
        // statistics in maps, and repeated entries of a listing.
        use Command::{Dump, Explain, Info, List, PointOf, PointSet, Scan};
        let is_open = matches!(
            command,
            Dump | Explain(_) | Info | List(..) | PointOf(_) | PointSet(_) | Scan(..)
        );
        if is_open || !before.exists() || reply.is_error() {
            continue;
        }
        let wrong = history::altered(&reply, &mut rng);
        let verdict = command.follow(&mut before.clone(), &wrong);
        assert!(verdict.is_err(), "{command:?} {reply:?} {wrong:?}");
        noticed += 1;
    }
    assert!(noticed > 800, "{noticed} replies");
}

#[test]
fn recorded_histories_match_the_model() {
    let server = Server::start();
    for found in history::found("tags_model") {
        let mut stage = Stage::new(&server);
        found.replay(|words| Ok(stage.wire.call(words)));
    }
}
