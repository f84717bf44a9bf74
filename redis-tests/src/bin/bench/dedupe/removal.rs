//! D8: removal of one of ten crawls, compared with rebuilding the index.

use std::time::Instant;

use redis_tests::{Server, ok};

use super::commit::requests;
use super::corpus::{Corpus, Crawl};
use super::documented::{self, REBUILD_SCRIPT, count, index_digest};
use super::scene::{Scene, hashes, reset};
use crate::Plan;
use crate::load::{Client, Connection};
use crate::others::{Long, MEANWHILE, RATE};
use crate::report::{Findings, note, say, table};
use crate::series::{Series, grouped, time};
use crate::targets;

/// Number of the crawl to remove.
const GONE: usize = 4;

/// Measures the removal of the fifth crawl of ten, which share 5 % of their hashes.
pub fn measure(plan: &Plan, corpus: &Corpus) -> Findings {
    say("D8: filling");
    let size = plan.scaled(1_000_000);
    let crawls = corpus.crawls(size, 10, 5);
    let gone = &crawls[GONE];
    let mut scene = Scene::empty();
    scene.fill(corpus, &crawls, 10);
    scene.save();

    let mut ours = <[Long; 2]>::default();
    let (mut lua, mut client) = (Series::default(), 0.0);
    let mut re_owned = 0;
    for rep in plan.repeat("D8: removal, Lua") {
        for (server, figures) in scene.storages().into_iter().zip(&mut ours) {
            reset(server);
            figures.alone(server, |server| {
                let (seconds, reply) = remove(server, gone);
                assert_eq!(reply[0], 1, "one crawl was removed");
                assert_eq!(
                    reply[1] + hashes(server),
                    size as i64,
                    "hashes dropped and left"
                );
                re_owned = reply[2];
                seconds
            });
        }
        scene.compare_storages(corpus, size);
        let result = Outcome::of(&scene.ours);
        reset(&mut scene.plain);
        lua.push(rebuild(&scene.plain, &crawls));
        let rebuilt = Outcome::of(&scene.plain);
        assert_eq!(result, rebuilt, "removal equals the script's rebuild");
        // The rebuild takes a minute and misses the goal by a factor of twenty, so one run is
        // enough.
        if rep == 1 {
            say("D8: client loop");
            reset(&mut scene.plain);
            client = client_loop(&scene.plain, &crawls);
            let rebuilt = Outcome::of(&scene.plain);
            assert_eq!(result, rebuilt, "removal equals the client's rebuild");
        }

        say(&format!("D8: under load ({rep}/{})", plan.reps));
        for (server, figures) in scene.storages().into_iter().zip(&mut ours) {
            reset(server);
            let asking = requests(corpus, size / 10 * GONE as u64, server);
            figures.loaded(server, asking, |server| remove(server, gone).0);
        }
    }
    findings(size, re_owned, &ours, &lua, client)
}

/// The index after a removal.
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
    let kept = [&crawls[..GONE], &crawls[GONE + 1..]];
    kept.into_iter()
        .flatten()
        .map(|crawl| &crawl.id[..])
        .collect()
}

/// Removes a crawl. Returns the seconds and the reply.
pub fn remove(server: &Server, crawl: &Crawl) -> (f64, Vec<i64>) {
    let mut wire = server.wire();
    let start = Instant::now();
    let reply = ok!(wire, "DEDUPE.REMOVE", "", crawl.id);
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
    let mut client = Client::over(Connection::tcp(server));
    let start = Instant::now();
    documented::purge(&mut client, &crawls[GONE].id, &kept(crawls));
    start.elapsed().as_secs_f64()
}

fn findings(size: u64, re_owned: i64, ours: &[Long; 2], lua: &Series, client: f64) -> Findings {
    let mut found = Findings::default();
    let script = "rebuild by one Lua script";
    for (storage, figures) in ["plain keys", "packed"].iter().zip(ours) {
        let what = format!("`REMOVE` of 1 crawl of 10, {storage}");
        let (alone, loaded) = (&figures.alone, &figures.loaded);
        let over_client: Series = alone.0.iter().map(|seconds| client / seconds).collect();
        table! { found;
            "D8", &what, "rebuild by the documented client loop, loopback TCP", alone.shown(time), time(client),
                over_client, targets::REMOVE_CLIENT;
            "D8", what, script, alone.shown(time), lua.shown(time), lua.over(alone), targets::REMOVE_SCRIPT;
            "D8", format!("longest slice, {storage}"), script, figures.slice(), lua.shown(time),
                &figures.slices, targets::REMOVE_SLICE;
            "D8", MEANWHILE.replace(':', &format!(", {storage}:")), "–", loaded.during(), "",
                loaded.above_idle(), targets::REMOVE_OTHERS;
        }
    }
    let [plain, packed] = ours;
    note!(found, "removal.md";
        gone = grouped(size / 10), size = grouped(size), re_owned = re_owned,
        plain = plain.alone.shown(time), packed = packed.alone.shown(time), rate = RATE,
        plain_idle = plain.loaded.idle(), plain_during = plain.loaded.during(),
        packed_idle = packed.loaded.idle(), packed_during = packed.loaded.during());
    found
}
