//! D8: removal of one crawl of ten, against building the index anew.

use std::time::Instant;

use redis_tests::{Server, ok};

use super::PREFIX;
use super::commit::requests;
use super::corpus::{Corpus, Crawl};
use super::documented::{self, REBUILD_SCRIPT, count, index_digest};
use super::scene::{Scene, hashes, reset};
use crate::Plan;
use crate::load::Connection;
use crate::others::{Loaded, RATE};
use crate::report::{Findings, Goal, Row, say};
use crate::series::{Series, grouped, time};
use crate::told::slice_longest;

/// Number of the crawl that goes.
const GONE: usize = 4;

/// What was measured on one storage.
#[derive(Default)]
struct Figures {
    /// Seconds when nobody else asks.
    alone: Series,
    /// With others asking.
    loaded: Loaded,
    /// Milliseconds of the longest slice, in each run.
    slices: Series,
}

/// What was measured of the peers: seconds.
#[derive(Default)]
struct Rebuilds {
    lua: Series,
    client: Series,
}

/// Measures the removal of the fifth crawl of ten, which share 5 % of their hashes.
pub fn measure(plan: &Plan, corpus: &Corpus) -> Findings {
    say("D8: filling");
    let size = plan.scaled(1_000_000);
    let crawls = corpus.crawls(size, 10, 5);
    let mut scene = Scene::empty();
    scene.fill(corpus, &crawls, 10);
    scene.save();
    let first_crawls = size / 10 * GONE as u64;

    let (mut plain, mut packed) = <(Figures, Figures)>::default();
    let mut rebuilds = Rebuilds::default();
    let mut re_owned = 0;
    for rep in 1..=plan.reps {
        say(&format!("D8: removal, Lua ({rep}/{})", plan.reps));
        for (server, figures) in [
            (&mut scene.ours, &mut plain),
            (&mut scene.packed, &mut packed),
        ] {
            reset(server);
            let (seconds, reply) = remove(server, &crawls[GONE]);
            figures.alone.0.push(seconds);
            figures.slices.0.push(slice_longest(server));
            assert_eq!(reply[0], 1, "one crawl went");
            let left = hashes(server);
            assert_eq!(reply[1] + left, size as i64, "hashes dropped and left");
            re_owned = reply[2];
        }
        scene.compare_storages(corpus, size);
        let result = Outcome::of(&scene.ours);
        reset(&mut scene.plain);
        rebuilds.lua.0.push(rebuild(&scene.plain, &crawls));
        assert_eq!(
            result,
            Outcome::of(&scene.plain),
            "removal equals the script's rebuild"
        );
        // A minute long, and twenty times over the goal: once will do.
        if rep == 1 {
            say("D8: client loop");
            reset(&mut scene.plain);
            rebuilds.client.0.push(client_loop(&scene.plain, &crawls));
            assert_eq!(
                result,
                Outcome::of(&scene.plain),
                "removal equals the client's rebuild"
            );
        }

        say(&format!("D8: under load ({rep}/{})", plan.reps));
        for (server, figures) in [
            (&mut scene.ours, &mut plain),
            (&mut scene.packed, &mut packed),
        ] {
            reset(server);
            let asking = requests(corpus, first_crawls, server, Some(PREFIX));
            let gone = &crawls[GONE];
            let long = |server: &Server| remove(server, gone).0;
            figures.loaded.measure(server, asking, long);
            figures.slices.0.push(slice_longest(server));
        }
    }
    findings(size, re_owned, &plain, &packed, &rebuilds)
}

/// What the index is afterwards.
#[derive(Debug, PartialEq)]
struct Outcome {
    hashes: i64,
    digest: String,
    total_urls: i64,
    crawls: i64,
}

impl Outcome {
    fn of(server: &Server) -> Outcome {
        let mut wire = server.wire();
        Outcome {
            hashes: hashes(server),
            digest: index_digest(server),
            total_urls: count(server, "totalUrls"),
            crawls: ok!(wire, "SCARD", "allcrawls").int(),
        }
    }
}

fn kept(crawls: &[Crawl]) -> Vec<&str> {
    let kept = crawls
        .iter()
        .enumerate()
        .filter(|(number, _)| *number != GONE);
    kept.map(|(_, crawl)| crawl.id.as_str()).collect()
}

/// Removes a crawl: seconds, and the reply.
pub fn remove(server: &Server, crawl: &Crawl) -> (f64, Vec<i64>) {
    let mut wire = server.wire();
    let start = Instant::now();
    let reply = ok!(wire, "DEDUPE.REMOVE", PREFIX, crawl.id);
    (start.elapsed().as_secs_f64(), reply.ints())
}

fn rebuild(server: &Server, crawls: &[Crawl]) -> f64 {
    let mut words = vec!["EVAL", REBUILD_SCRIPT, "0", &crawls[GONE].id];
    words.extend(kept(crawls));
    let mut wire = server.wire();
    let start = Instant::now();
    wire.expect_ok(&words);
    start.elapsed().as_secs_f64()
}

fn client_loop(server: &Server, crawls: &[Crawl]) -> f64 {
    let mut client = Connection::tcp(server);
    let start = Instant::now();
    documented::purge(&mut client, &crawls[GONE].id, &kept(crawls));
    start.elapsed().as_secs_f64()
}

fn findings(
    size: u64,
    re_owned: i64,
    plain: &Figures,
    packed: &Figures,
    rebuilds: &Rebuilds,
) -> Findings {
    let mut found = Findings::default();
    let mut row = |what: String, against: &str, mine: String, theirs: String, result, goal| {
        found.rows.push(Row {
            id: "D8",
            what,
            against: against.into(),
            ours: mine,
            theirs,
            result,
            goal,
        });
    };
    let show = |series: &Series| time(series.median());
    let (client, lua) = (rebuilds.client.median(), &rebuilds.lua);
    for (storage, figures) in [("plain keys", plain), ("packed", packed)] {
        let ours = &figures.alone;
        row(
            format!("`REMOVE` of 1 crawl of 10, {storage}"),
            "rebuild by the documented client loop, loopback TCP",
            show(ours),
            time(client),
            ours.0.iter().map(|seconds| client / seconds).collect(),
            Goal::AtLeast(40.0),
        );
        row(
            format!("`REMOVE` of 1 crawl of 10, {storage}"),
            "rebuild by one Lua script",
            show(ours),
            show(lua),
            lua.over(ours),
            Goal::AtLeast(4.0),
        );
        row(
            format!("longest slice, {storage}"),
            "rebuild by one Lua script",
            time(figures.slices.high() / 1e3),
            show(lua),
            figures.slices.clone(),
            Goal::Never(1.0, "ms"),
        );
        row(
            format!("others meanwhile, {storage}: p50 / p99 / p99.9; p99.9 above idle"),
            "–",
            Loaded::quantiles(&figures.loaded.during),
            String::new(),
            figures.loaded.above_idle(),
            Goal::AtMost(3.0, "ms"),
        );
    }
    found.note("D8.", format!(
        "A rebuild reads and writes every hash of the crawls that stay; a removal touches those of the crawl that goes, \
         {} of {} here, of which {re_owned} go to the next crawl that holds them and the rest leave the index. So \
         the ratio grows with the number of crawls. {} on plain keys and {} packed. Between its `DEL allhashes` and its \
         end the documented rebuild answers \"unknown\" for hashes that it knows, and a crawler stores them again; during \
         `REMOVE` other clients looked up hashes of crawls that stay, {RATE} requests a second with `GET` among them, and \
         none was missing. They waited {} idle and {} meanwhile, packed {} and {}. The result was compared with both \
         rebuilds: the same hashes, owners and counts; the client's, which takes a minute, was made once.",
        grouped(size / 10), grouped(size), show(&plain.alone), show(&packed.alone),
        Loaded::quantiles(&plain.loaded.idle), Loaded::quantiles(&plain.loaded.during),
        Loaded::quantiles(&packed.loaded.idle), Loaded::quantiles(&packed.loaded.during),
    ), &[
        "make bench ONLY=D8",
        "time redis-cli DEDUPE.REMOVE '' $crawl",
        "redis-cli INFO crawlspace | grep slice_longest",
    ]);
    found
}
