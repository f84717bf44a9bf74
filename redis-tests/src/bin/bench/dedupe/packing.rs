//! `PACK` and `UNPACK` of an index with others asking meanwhile.

use std::time::Instant;

use redis_tests::{Server, ok};

use super::PREFIX;
use super::commit::requests;
use super::corpus::{Corpus, Crawl};
use super::scene::{Footprint, add, reset, start_plain_storage};
use crate::Plan;
use crate::others::{Loaded, RATE};
use crate::report::{Findings, Goal, Row, say};
use crate::series::{Series, grouped, time};
use crate::told::slice_longest;

/// What was measured of one direction.
#[derive(Default)]
struct Figures {
    /// Seconds when nobody else asks.
    alone: Series,
    /// With others asking.
    loaded: Loaded,
    /// Milliseconds of the longest slice, in each run.
    slices: Series,
}

/// Measures both directions on the corpus.
pub fn measure(plan: &Plan, corpus: &Corpus) -> Findings {
    say("PACK: filling");
    let size = plan.scaled(1_000_000);
    let crawls = corpus.crawls(size, 10, 5);
    let mut server = start_plain_storage();
    add(&server, corpus, &crawls, crawls.len());
    ok!(server.wire(), "SAVE");
    let before = digests(&server, &crawls);
    let [mut pack, mut unpack] = [(); 2].map(|()| Figures::default());
    let mut used = [0.0; 3];
    for rep in 1..=plan.reps {
        say(&format!("PACK and UNPACK ({rep}/{})", plan.reps));
        reset(&mut server);
        used[0] = Footprint::of(&server).used;
        pack.alone.0.push(change(&server, "DEDUPE.PACK", size));
        pack.slices.0.push(slice_longest(&server));
        used[1] = Footprint::of(&server).used;
        start_anew(&mut server);
        unpack.alone.0.push(change(&server, "DEDUPE.UNPACK", size));
        unpack.slices.0.push(slice_longest(&server));
        used[2] = Footprint::of(&server).used;
        assert_eq!(
            before,
            digests(&server, &crawls),
            "UNPACK gives the plain keys back as they were"
        );
        say(&format!("PACK and UNPACK under load ({rep}/{})", plan.reps));
        for (command, figures) in [("DEDUPE.PACK", &mut pack), ("DEDUPE.UNPACK", &mut unpack)] {
            start_anew(&mut server);
            let asking = requests(corpus, size, &server, Some(PREFIX));
            let long = |server: &Server| change(server, command, size);
            figures.loaded.measure(&server, asking, long);
            figures.slices.0.push(slice_longest(&server));
        }
        ok!(server.wire(), "SAVE");
    }
    findings(size, &pack, &unpack, used)
}

/// Starts the server again with the data that it has: it forgets its longest slice so far.
fn start_anew(server: &mut Server) {
    ok!(server.wire(), "SAVE");
    reset(server);
}

/// Seconds that a change of the storage takes.
fn change(server: &Server, command: &str, hashes: u64) -> f64 {
    let mut wire = server.wire();
    let start = Instant::now();
    let reply = ok!(wire, command, PREFIX);
    let seconds = start.elapsed().as_secs_f64();
    assert_eq!(reply.field("hashes").int(), hashes as i64, "all were moved");
    seconds
}

/// Digests of the merged index, of its further holders, and of every crawl's records.
fn digests(server: &Server, crawls: &[Crawl]) -> Vec<String> {
    let mut keys = vec!["allhashes".to_owned(), "holders".into()];
    keys.extend(crawls.iter().map(|crawl| format!("h:{}", crawl.id)));
    let mut wire = server.wire();
    let digest = |key| ok!(wire, "DEBUG", "DIGEST-VALUE", key).items()[0].text();
    keys.into_iter().map(digest).collect()
}

fn findings(size: u64, pack: &Figures, unpack: &Figures, used: [f64; 3]) -> Findings {
    let mut found = Findings::default();
    let mut row = |what: String, mine: String, result, goal| {
        found.rows.push(Row {
            id: "",
            what,
            against: "–".into(),
            ours: mine,
            theirs: String::new(),
            result,
            goal,
        });
    };
    for (command, figures) in [("PACK", pack), ("UNPACK", unpack)] {
        row(
            format!("`{command}` of {} hashes, nobody else asks", grouped(size)),
            time(figures.alone.median()),
            figures.alone.clone(),
            Goal::Told("s"),
        );
        row(
            format!("`{command}`, others ask {RATE} times a second"),
            time(figures.loaded.seconds.median()),
            figures.loaded.seconds.clone(),
            Goal::Told("s"),
        );
        row(
            format!("longest slice of `{command}`"),
            time(figures.slices.high() / 1e3),
            figures.slices.clone(),
            Goal::Never(1.0, "ms"),
        );
        row(
            format!("others meanwhile, `{command}`: p50 / p99 / p99.9; p99.9 above idle"),
            Loaded::quantiles(&figures.loaded.during),
            figures.loaded.above_idle(),
            Goal::AtMost(3.0, "ms"),
        );
    }
    let each = |figures: &Figures| 1e6 * figures.alone.median() / size as f64;
    let megabytes = used.map(|bytes| bytes / 1e6);
    found.note("PACK, UNPACK.", format!(
        "An index of {} hashes in 10 crawls that share 5 % changes its storage in place: {:.2} µs a hash to pack it, {:.2} µs \
         to unpack it, in slices, with look-ups of all hashes going on, each of which found its record. The server used \
         {:.0} MB before, {:.0} MB packed, and {:.0} MB after `UNPACK`, which gave back `allhashes`, `holders` and every \
         crawl's records with the digests that they had. Others waited {} when nothing ran, {} during `PACK`, {} during \
         `UNPACK`.",
        grouped(size), each(pack), each(unpack), megabytes[0], megabytes[1], megabytes[2],
        Loaded::quantiles(&pack.loaded.idle), Loaded::quantiles(&pack.loaded.during),
        Loaded::quantiles(&unpack.loaded.during),
    ), &[
        "make bench ONLY=packing",
        "time redis-cli DEDUPE.PACK ''",
        "time redis-cli DEDUPE.UNPACK ''",
        "redis-cli INFO crawlspace | grep slice_longest",
    ]);
    found
}
