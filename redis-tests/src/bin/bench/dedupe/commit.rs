//! D5: commit of a large crawl, with nobody else there and with other clients asking meanwhile.

use std::sync::Arc;
use std::time::{Duration, Instant};

use redis_tests::{ok, Reply, Server};

use super::corpus::{Corpus, Crawl};
use super::documented::{self, index_digest, COMMIT_SCRIPT};
use super::{reset, Scene, PREFIX};
use crate::load::{encode, Batches, Connection};
use crate::machine::{cpu_seconds, longest_stall};
use crate::others::{Loaded, RATE};
use crate::report::{say, Findings, Goal, Row};
use crate::series::{time, Series};
use crate::told::slice_longest;
use crate::Plan;

/// Measures the commit of half a million hashes into an index that has as many.
pub fn measure(plan: &Plan, corpus: &Corpus) -> Findings {
    say("D5: filling");
    let size = plan.scaled(500_000);
    let mut crawls = corpus.crawls(size, 5, 0);
    crawls.push(corpus.crawl(5, size..2 * size, 5));
    let crawl = &crawls[5];
    let known = crawl.shared.len() as u64;
    let mut scene = Scene::empty();
    scene.fill(corpus, &crawls, 5);
    scene.save();

    let stall = longest_stall(Duration::from_secs(2));
    let outcome = [size as i64, known as i64];
    let run = Run {
        crawl,
        outcome,
        hashes: 2 * size as i64,
    };
    let (mut ours, mut lua, mut client) = <(Series, Series, Series)>::default();
    let (mut ours_loaded, mut lua_loaded) = (Loaded::default(), Loaded::default());
    let (mut ours_cpu, mut lua_cpu) = <(Series, Series)>::default();
    let mut slices = Series::default();
    for rep in 1..=plan.reps {
        say(&format!(
            "D5: commit, Lua, client loop ({rep}/{})",
            plan.reps
        ));
        reset(&mut scene.ours);
        let cpu = cpu_seconds(scene.ours.pid());
        ours.0.push(run.commit(&scene.ours));
        ours_cpu.0.push(cpu_seconds(scene.ours.pid()) - cpu);
        slices.0.push(slice_longest(&scene.ours));
        let digest = index_digest(&scene.ours);
        reset(&mut scene.plain);
        let cpu = cpu_seconds(scene.plain.pid());
        lua.0.push(run.script(&scene.plain));
        lua_cpu.0.push(cpu_seconds(scene.plain.pid()) - cpu);
        assert_eq!(
            digest,
            index_digest(&scene.plain),
            "same index as the script's"
        );
        reset(&mut scene.plain);
        client.0.push(run.client_loop(&scene.plain));
        assert_eq!(
            digest,
            index_digest(&scene.plain),
            "same index as the client's"
        );

        say(&format!("D5: under load ({rep}/{})", plan.reps));
        reset(&mut scene.ours);
        let asking = requests(corpus, size, &scene.ours, Some(PREFIX));
        ours_loaded.measure(&scene.ours, asking, |server| run.commit(server));
        slices.0.push(slice_longest(&scene.ours));
        reset(&mut scene.plain);
        let asking = requests(corpus, size, &scene.plain, None);
        lua_loaded.measure(&scene.plain, asking, |server| run.script(server));
    }
    findings(
        size,
        &[ours, lua, client, slices, ours_cpu, lua_cpu],
        [&ours_loaded, &lua_loaded],
        stall,
    )
}

/// The commit that is measured and what must come of it.
struct Run<'a> {
    crawl: &'a Crawl,
    outcome: [i64; 2],
    hashes: i64,
}

impl Run<'_> {
    fn commit(&self, server: &Server) -> f64 {
        let mut wire = server.wire();
        let start = Instant::now();
        let reply = ok!(wire, "DEDUPE.COMMIT", PREFIX, self.crawl.id);
        let seconds = start.elapsed().as_secs_f64();
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
        let mut client = Connection::tcp(server);
        let start = Instant::now();
        let (new, known) = documented::commit(&mut client, &self.crawl.id);
        let seconds = start.elapsed().as_secs_f64();
        assert_eq!([new as i64, known as i64], self.outcome);
        seconds
    }

    fn check(&self, server: &Server, reply: &Reply) {
        assert_eq!(reply.ints(), self.outcome, "new and known hashes");
        let mut wire = server.wire();
        assert_eq!(ok!(wire, "HLEN", "allhashes").int(), self.hashes);
        assert_eq!(ok!(wire, "SISMEMBER", "allcrawls", self.crawl.id).int(), 1);
        assert_eq!(ok!(wire, "SCARD", "uncommittedcrawls").int(), 0);
    }
}

/// What others ask meanwhile: every second request is a look-up of a hash below `known`, the others
/// are a `GET`.
pub fn requests(
    corpus: &Corpus,
    known: u64,
    server: &Server,
    prefix: Option<&[u8]>,
) -> Arc<Batches> {
    ok!(server.wire(), "SET", "bench:page", "x".repeat(100));
    let mut number = 0;
    Arc::new(Batches::new(20_000, 1, |out| {
        number += 1;
        let hash = corpus.hash(corpus.bits(number, 3) % known);
        match prefix {
            _ if number % 2 == 0 => encode(out, &[b"GET", b"bench:page"]),
            Some(prefix) => encode(out, &[b"DEDUPE.LOOKUP", prefix, &hash]),
            None => encode(out, &[b"HGET", b"allhashes", &hash]),
        }
    }))
}

fn findings(
    size: u64,
    [ours, lua, client, slices, ours_cpu, lua_cpu]: &[Series; 6],
    [ours_loaded, lua_loaded]: [&Loaded; 2],
    stall: f64,
) -> Findings {
    let what = format!("`COMMIT` of {} k hashes", size / 1000);
    let against_lua = "one Lua script";
    let mut found = Findings::default();
    let mut row = |what: String, against: &str, mine: String, theirs: String, result, goal| {
        found.rows.push(Row {
            id: "D5",
            what,
            against: against.into(),
            ours: mine,
            theirs,
            result,
            goal,
        });
    };
    let show = |series: &Series| time(series.median());
    row(
        what.clone(),
        "the documented client loop, loopback TCP",
        show(ours),
        show(client),
        client.over(ours),
        Goal::AtLeast(12.0),
    );
    row(
        format!("{what}, nobody else asks"),
        against_lua,
        show(ours),
        show(lua),
        lua.over(ours),
        Goal::AtLeast(1.0),
    );
    row(
        "the same, processor time of the server".into(),
        against_lua,
        show(ours_cpu),
        show(lua_cpu),
        lua_cpu.over(ours_cpu),
        Goal::Known,
    );
    row(
        format!("{what}, others ask {RATE} times a second"),
        against_lua,
        show(&ours_loaded.seconds),
        show(&lua_loaded.seconds),
        lua_loaded.seconds.over(&ours_loaded.seconds),
        Goal::AtLeast(0.6),
    );
    row(
        "longest slice".into(),
        against_lua,
        time(slices.high() / 1e3),
        show(lua),
        slices.clone(),
        Goal::Never(1.0, "ms"),
    );
    row(
        "others meanwhile: p50 / p99 / p99.9; p99.9 above idle".into(),
        against_lua,
        Loaded::quantiles(&ours_loaded.during),
        Loaded::quantiles(&lua_loaded.during),
        ours_loaded.above_idle(),
        Goal::AtMost(3.0, "ms"),
    );
    found.note("D5, duration.", format!(
        "The crawl is committed into an index of as many hashes, of which it shares 5 %. The documented loop waits for \
         one reply for each hash ({:.0} µs each, over loopback; over a network several times that). The script saves \
         the round trips, but calls into Redis through its command table for each hash, holds all of them in Lua's \
         memory, and nobody else is served for {}. `COMMIT` takes {:.2} µs a hash; it \
         looks each one up and sets it by the low-level key interface, remembers further holders of known hashes, and \
         sends each slice to replicas and the append-only file as plain `HSET`. Every run starts from a server that has \
         just loaded the data from its RDB file.",
        1e6 * client.median() / size as f64, show(lua), 1e6 * ours.median() / size as f64,
    ));
    found.note("D5, others.", format!(
        "Other clients send {RATE} requests a second, half look-ups, half `GET`, when they are due and not when the last \
         one is answered, so that a pause is charged with all that came in it. Idle, they wait {} (half, 99 %, 99.9 % \
         of them); during `COMMIT` {}; during the script {}. Slices leave the server to others after every half \
         millisecond of work, and the more others ask the longer the job takes: {} in place of {}. The longest slice of \
         any repetition was {:.2} ms; a \
         thread that did nothing but look at the clock for two seconds before these runs was kept from it for up to {:.2} ms.",
        Loaded::quantiles(&ours_loaded.idle), Loaded::quantiles(&ours_loaded.during),
        Loaded::quantiles(&lua_loaded.during), show(&ours_loaded.seconds), show(ours), slices.high(), 1e3 * stall,
    ));
    found
}
