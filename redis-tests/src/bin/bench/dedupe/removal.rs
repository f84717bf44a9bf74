//! D8: removal of one crawl of ten, against building the index anew.

use std::time::Instant;

use redis_tests::{ok, Server};

use super::commit::requests;
use super::corpus::{Corpus, Crawl};
use super::documented::{self, count, index_digest, REBUILD_SCRIPT};
use super::{reset, Scene, PREFIX};
use crate::load::Connection;
use crate::others::{Loaded, RATE};
use crate::report::{say, Findings, Goal, Row};
use crate::series::{grouped, time, Series};
use crate::told::slice_longest;
use crate::Plan;

/// Number of the crawl that goes.
const GONE: usize = 4;

/// Measures the removal of the fifth crawl of ten, which share 5 % of their hashes.
pub fn measure(plan: &Plan, corpus: &Corpus) -> Findings {
    say("D8: filling");
    let hashes = plan.scaled(1_000_000);
    let crawls = corpus.crawls(hashes, 10, 5);
    let mut scene = Scene::empty();
    scene.fill(corpus, &crawls, 10);
    scene.save();
    let first_crawls = hashes / 10 * GONE as u64;

    let (mut ours, mut lua, mut client) = <(Series, Series, Series)>::default();
    let mut loaded = Loaded::default();
    let mut slices = Series::default();
    let mut re_owned = 0;
    for rep in 1..=plan.reps {
        say(&format!(
            "D8: removal, Lua, client loop ({rep}/{})",
            plan.reps
        ));
        reset(&mut scene.ours);
        let (seconds, reply) = remove(&scene.ours, &crawls);
        ours.0.push(seconds);
        slices.0.push(slice_longest(&scene.ours));
        re_owned = reply[2];
        let result = Result::of(&scene.ours);
        assert_eq!(reply[0], 1, "one crawl went");
        assert_eq!(
            reply[1] + result.hashes,
            hashes as i64,
            "hashes dropped and left"
        );
        reset(&mut scene.plain);
        lua.0.push(rebuild(&scene.plain, &crawls));
        assert_eq!(
            result,
            Result::of(&scene.plain),
            "removal equals the script's rebuild"
        );
        reset(&mut scene.plain);
        client.0.push(client_loop(&scene.plain, &crawls));
        assert_eq!(
            result,
            Result::of(&scene.plain),
            "removal equals the client's rebuild"
        );

        say(&format!("D8: under load ({rep}/{})", plan.reps));
        reset(&mut scene.ours);
        let asking = requests(corpus, first_crawls, &scene.ours, Some(PREFIX));
        loaded.measure(&scene.ours, asking, |server| remove(server, &crawls).0);
        slices.0.push(slice_longest(&scene.ours));
    }
    findings(hashes, re_owned, &[ours, lua, client, slices], &loaded)
}

/// What the index is afterwards.
#[derive(Debug, PartialEq)]
struct Result {
    hashes: i64,
    digest: String,
    total_urls: i64,
    crawls: i64,
}

impl Result {
    fn of(server: &Server) -> Result {
        let mut wire = server.wire();
        Result {
            hashes: ok!(wire, "HLEN", "allhashes").int(),
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

fn remove(server: &Server, crawls: &[Crawl]) -> (f64, Vec<i64>) {
    let mut wire = server.wire();
    let start = Instant::now();
    let reply = ok!(wire, "DEDUPE.REMOVE", PREFIX, crawls[GONE].id);
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
    hashes: u64,
    re_owned: i64,
    [ours, lua, client, slices]: &[Series; 4],
    loaded: &Loaded,
) -> Findings {
    let mut found = Findings::default();
    let mut row = |what: &str, against: &str, theirs: String, mine: String, result, goal| {
        found.rows.push(Row {
            id: "D8",
            what: what.into(),
            against: against.into(),
            ours: mine,
            theirs,
            result,
            goal,
        });
    };
    let show = |series: &Series| time(series.median());
    let what = "`REMOVE` of 1 crawl of 10";
    row(
        what,
        "rebuild by the documented client loop, loopback TCP",
        show(client),
        show(ours),
        client.over(ours),
        Goal::AtLeast(40.0),
    );
    row(
        what,
        "rebuild by one Lua script",
        show(lua),
        show(ours),
        lua.over(ours),
        Goal::AtLeast(4.0),
    );
    row(
        "longest slice",
        "rebuild by one Lua script",
        show(lua),
        time(slices.high() / 1e3),
        slices.clone(),
        Goal::Never(1.0, "ms"),
    );
    row(
        "others meanwhile: p50 / p99 / p99.9; p99.9 above idle",
        "–",
        String::new(),
        Loaded::quantiles(&loaded.during),
        loaded.above_idle(),
        Goal::AtMost(3.0, "ms"),
    );
    found.note("D8.", format!(
        "A rebuild reads and writes every hash of the crawls that stay; a removal touches those of the crawl that goes, \
         {} of {} here, of which {re_owned} go to the next crawl that holds them and the rest leave the index. So \
         the ratio grows with the number of crawls. Between its `DEL allhashes` and its end the documented rebuild \
         answers \"unknown\" for hashes that it knows, and a crawler stores them again; during `REMOVE` other clients \
         looked up hashes of crawls that stay, {RATE} requests a second with `GET` among them, and none was missing. They \
         waited {} idle and {} meanwhile. The result was compared with both rebuilds: the same hashes, owners and counts.",
        grouped(hashes / 10), grouped(hashes), Loaded::quantiles(&loaded.idle), Loaded::quantiles(&loaded.during),
    ));
    found
}
