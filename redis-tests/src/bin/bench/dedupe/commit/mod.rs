//! D5: commit of a large crawl, on an idle server and under the load of other clients.

mod rows;

use std::sync::Arc;
use std::time::{Duration, Instant};

use redis_tests::{Reply, Server, ok};

use super::corpus::{Corpus, Crawl};
use super::documented::{self, COMMIT_SCRIPT, index_digest};
use super::scene::{Scene, hashes, reset};
use crate::Plan;
use crate::load::{Batches, Client, Connection, encode, line};
use crate::machine::longest_stall;
use crate::others::Long;
use crate::report::{Findings, say};

/// All measurements.
#[derive(Default)]
struct Measured {
    /// Number of hashes of the crawl.
    size: u64,
    /// Commits on plain and on packed storage.
    ours: [Long; 2],
    lua: Long,
    /// Duration of the documented loop in seconds. The loop runs only once.
    client: f64,
    /// Longest time in seconds during which the operating system did not schedule the clock's
    /// thread.
    stall: f64,
}

/// Measures the commit of half a million hashes into an index with half a million hashes.
pub fn measure(plan: &Plan, corpus: &Corpus) -> Findings {
    say("D5: filling");
    let size = plan.scaled(500_000);
    let mut crawls = corpus.crawls(size, 5, 0);
    crawls.push(corpus.crawl(5, size..2 * size, 5));
    let crawl = &crawls[5];
    let mut scene = Scene::empty();
    scene.fill(corpus, &crawls, 5);
    scene.save();
    let run = Run {
        crawl,
        outcome: [size as i64, crawl.shared.len() as i64],
        hashes: 2 * size as i64,
    };
    let mut measured = Measured {
        size,
        stall: longest_stall(Duration::from_secs(2)),
        ..Measured::default()
    };
    for rep in plan.repeat("D5: commit, Lua, client loop") {
        measured.alone(&mut scene, &run);
        scene.compare_storages(corpus, 2 * size);
        say(&format!("D5: under load ({rep}/{})", plan.reps));
        measured.under_load(&mut scene, &run, corpus);
    }
    rows::findings(&measured)
}

impl Measured {
    fn alone(&mut self, scene: &mut Scene, run: &Run) {
        for (server, figures) in scene.storages().into_iter().zip(&mut self.ours) {
            reset(server);
            figures.alone(server, |server| run.commit(server));
        }
        let digest = index_digest(&scene.ours);
        reset(&mut scene.plain);
        self.lua.alone(&scene.plain, |server| run.script(server));
        assert_eq!(
            digest,
            index_digest(&scene.plain),
            "same index as the script's"
        );
        // The loop takes half a minute, which decides the comparison by far, so one run is enough.
        if self.client == 0.0 {
            reset(&mut scene.plain);
            self.client = run.client_loop(&scene.plain);
            assert_eq!(
                digest,
                index_digest(&scene.plain),
                "same index as the client's"
            );
        }
    }

    fn under_load(&mut self, scene: &mut Scene, run: &Run, corpus: &Corpus) {
        for (server, figures) in scene.storages().into_iter().zip(&mut self.ours) {
            reset(server);
            let asking = requests(corpus, self.size, server);
            figures.loaded(server, asking, |server| run.commit(server));
        }
        reset(&mut scene.plain);
        let asking = requests(corpus, self.size, &scene.plain);
        self.lua
            .loaded(&scene.plain, asking, |server| run.script(server));
    }
}

/// The commit to measure and its expected result.
struct Run<'a> {
    crawl: &'a Crawl,
    outcome: [i64; 2],
    hashes: i64,
}

impl Run<'_> {
    fn commit(&self, server: &Server) -> f64 {
        let (seconds, reply) = commit_one(server, self.crawl);
        self.check(server, &reply);
        seconds
    }

    fn script(&self, server: &Server) -> f64 {
        let mut wire = server.wire();
        let start = Instant::now();
        let reply = ok!(wire, "EVAL", COMMIT_SCRIPT, "0", self.crawl.id);
        let seconds = start.elapsed().as_secs_f64();
        self.check(server, &reply);
        seconds
    }

    fn client_loop(&self, server: &Server) -> f64 {
        let mut client = Client::over(Connection::tcp(server));
        let start = Instant::now();
        let (new, known) = documented::commit(&mut client, &self.crawl.id);
        let seconds = start.elapsed().as_secs_f64();
        assert_eq!([new, known], self.outcome);
        seconds
    }

    fn check(&self, server: &Server, reply: &Reply) {
        assert_eq!(reply.ints(), self.outcome, "new and known hashes");
        let mut wire = server.wire();
        assert_eq!(hashes(server), self.hashes);
        assert_eq!(ok!(wire, "SISMEMBER", "allcrawls", self.crawl.id).int(), 1);
        assert_eq!(ok!(wire, "SCARD", "uncommittedcrawls").int(), 0);
    }
}

/// Commits a crawl. Returns the seconds and the reply.
pub fn commit_one(server: &Server, crawl: &Crawl) -> (f64, Reply) {
    let mut wire = server.wire();
    let start = Instant::now();
    let reply = ok!(wire, "DEDUPE.COMMIT", "", crawl.id);
    (start.elapsed().as_secs_f64(), reply)
}

/// Creates requests of other clients for the duration of a commit: every second request looks up a
/// hash below `known` in the way that the server supports; the other requests are a `GET`.
pub fn requests(corpus: &Corpus, known: u64, server: &Server) -> Arc<Batches> {
    ok!(server.wire(), "SET", "bench:page", "x".repeat(100));
    let head: [&[u8]; 2] = match server.info("slices") {
        Some(_) => [b"DEDUPE.LOOKUP", b""],
        None => [b"HGET", b"allhashes"],
    };
    let mut number = 0;
    Arc::new(Batches::new(20_000, 1, |out| {
        number += 1;
        let hash = corpus.hash(corpus.bits(number, 3) % known);
        match number % 2 {
            0 => line(out, "GET bench:page"),
            _ => encode(out, &[head[0], head[1], &hash]),
        }
    }))
}
