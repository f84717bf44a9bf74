//! C3: a million groups that are due at once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use redis_tests::{Server, ok};

use super::Scene;
use super::commands::{self, PREFIX, leases};
use super::hosts::Hosts;
use super::veidemann::{self, Scripts, now_ms};
use crate::Plan;
use crate::load::{Batches, Connection, Feeder, encode};
use crate::machine::longest_stall;
use crate::others::{Loaded, RATE};
use crate::report::{Findings, Goal, Row, say};
use crate::series::{Series, grouped, time};
use crate::told::{Spent, slice_longest};

const HOUR: u64 = 3_600_000;
/// Calls of `NEXT` that are counted.
const SAMPLE: u64 = 20_000;

/// Measures the sweep and, without it, `NEXT`.
pub fn measure(plan: &Plan, hosts: &Hosts) -> Findings {
    let groups = plan.scaled(1_000_000);
    let stall = longest_stall(Duration::from_secs(2));
    let (mut ours, mut theirs) = (Loaded::default(), Loaded::default());
    let (mut slices, mut usual, mut due, mut first) = <(Series, Series, Series, Series)>::default();
    let sample = SAMPLE.min(groups / 4);
    for rep in 1..=plan.reps {
        say(&format!("C3: NEXT without a sweep ({rep}/{})", plan.reps));
        // A new server each time: its longest slice so far is that of this sweep.
        let scene = Scene::empty();
        fill_ours(&scene.ours, hosts, groups, sample);
        usual.0.push(next(&scene.ours, sample).0);
        ok!(scene.ours.wire(), "FLUSHALL", "SYNC");
        fill_ours(&scene.ours, hosts, groups, groups);
        let (each, longest) = next(&scene.ours, sample);
        due.0.push(each);
        first.0.push(longest);

        say(&format!("C3: sweeps ({rep}/{})", plan.reps));
        ok!(scene.ours.wire(), "FLUSHALL", "SYNC");
        fill_ours(&scene.ours, hosts, groups, groups);
        let order = ids(&scene.ours, &["ZRANGE", "chg_wait", "0", "-1"]);
        ours.measure(&scene.ours, get(&scene.ours), |server| {
            our_sweep(server, groups)
        });
        slices.0.push(slice_longest(&scene.ours));
        assert!(
            order == ids(&scene.ours, &["LRANGE", "chg_ready", "0", "-1"]),
            "groups become ready in the order in which they were due"
        );
        fill_theirs(&scene.plain, hosts, groups);
        theirs.measure(&scene.plain, get(&scene.plain), |server| {
            their_sweep(server, groups)
        });
    }
    findings(
        groups,
        [&ours, &theirs],
        &[slices, usual, due, first],
        stall,
    )
}

/// A frontier where all but the first `due` groups come due in an hour.
fn fill_ours(server: &Server, hosts: &Hosts, groups: u64, due: u64) {
    let begin = now_ms() - HOUR;
    let at = |n: u64| {
        if n < due {
            begin + hosts.bits(!n) % (HOUR / 2)
        } else {
            begin + 3 * HOUR + hosts.bits(!n) % HOUR
        }
    };
    let mut feeder = Feeder::new(server);
    commands::fill(&mut feeder, hosts, begin, (0..groups).map(|n| (n, at(n))));
}

fn fill_theirs(server: &Server, hosts: &Hosts, groups: u64) {
    let scripts = Scripts::load(server);
    let begin = now_ms() - HOUR;
    let mut feeder = Feeder::new(server);
    for n in 0..groups {
        let at = begin + hosts.bits(!n) % (HOUR / 2);
        let count = scripts.count(&hosts.chg(n), hosts.execution(0).0, at);
        let words: Vec<&[u8]> = count.iter().map(Vec::as_slice).collect();
        feeder.request(&words);
    }
    feeder.finish();
}

fn ids(server: &Server, words: &[&str]) -> Vec<Vec<u8>> {
    let reply = server.wire().expect_ok(words);
    let ids = reply.items().iter();
    ids.map(|id| id.bytes().to_vec()).collect()
}

/// What others ask meanwhile: a string.
fn get(server: &Server) -> Arc<Batches> {
    ok!(server.wire(), "SET", "bench:page", "x".repeat(100));
    Arc::new(Batches::new(1_000, 1, |out| {
        encode(out, &[b"GET", b"bench:page"]);
    }))
}

/// Seconds that the sweep took.
fn our_sweep(server: &Server, groups: u64) -> f64 {
    let mut wire = server.wire();
    let start = Instant::now();
    let moved = ok!(wire, "CHG.SWEEP", PREFIX).ints();
    let seconds = start.elapsed().as_secs_f64();
    assert_eq!(moved, [groups as i64, 0]);
    seconds
}

fn their_sweep(server: &Server, groups: u64) -> f64 {
    let scripts = Scripts::load(server);
    let mut connection = Connection::unix(server);
    let start = Instant::now();
    let moved = veidemann::sweep(&mut connection, &scripts.sweep, b"chg_wait");
    let seconds = start.elapsed().as_secs_f64();
    assert_eq!(moved, groups);
    seconds
}

/// Microseconds of server time of each of `count` calls of `NEXT`, and the longest time that one
/// of the first hundred took its client, in milliseconds.
fn next(server: &Server, count: u64) -> (f64, f64) {
    Spent::reset(server);
    let mut connection = Connection::unix(server);
    let mut one = Vec::new();
    encode(&mut one, &[b"CHG.NEXT", PREFIX]);
    let mut taken = 0;
    let mut longest = Duration::ZERO;
    for _ in 0..100 {
        let start = Instant::now();
        connection.send(&one);
        leases(&mut connection, 1, 0, |lease| {
            taken += u64::from(lease.is_some())
        });
        longest = longest.max(start.elapsed());
    }
    let hundred = one.repeat(100);
    while taken < count {
        let before = taken;
        connection.send(&hundred);
        leases(&mut connection, 100, 0, |lease| {
            taken += u64::from(lease.is_some())
        });
        assert!(taken > before, "groups are due");
    }
    let spent = Spent::since_reset(server);
    let each = spent.micros(&["chg.next"]) / spent.calls("chg.next").max(1) as f64;
    (each, longest.as_secs_f64() * 1e3)
}

fn findings(
    groups: u64,
    [ours, theirs]: [&Loaded; 2],
    [slices, usual, due, first]: &[Series; 4],
    stall: f64,
) -> Findings {
    let mut found = Findings::default();
    let mut row = |what: String, against: &str, mine: String, other: String, result, goal| {
        found.rows.push(Row {
            id: "C3",
            what,
            against: against.into(),
            ours: mine,
            theirs: other,
            result,
            goal,
        });
    };
    let many = grouped(groups);
    let script = "the seed's script";
    row(
        format!("longest slice of `SWEEP`, {many} groups due at once"),
        script,
        time(slices.high() / 1e3),
        time(theirs.seconds.median()),
        slices.clone(),
        Goal::Never(1.0, "ms"),
    );
    row(
        "the whole sweep".into(),
        script,
        time(ours.seconds.median()),
        time(theirs.seconds.median()),
        theirs.seconds.over(&ours.seconds),
        Goal::Known,
    );
    row(
        "others meanwhile: p50 / p99 / p99.9; p99.9 above idle".into(),
        script,
        Loaded::quantiles(&ours.during),
        Loaded::quantiles(&theirs.during),
        ours.above_idle(),
        Goal::AtMost(3.0, "ms"),
    );
    row(
        format!("`NEXT` without a sweep, {many} groups due"),
        "few of as many groups due",
        format!("{:.2} µs", due.median()),
        format!("{:.2} µs", usual.median()),
        due.over(usual),
        Goal::AtMost(1.2, "×"),
    );
    found.note("C3.", format!(
        "The seed's worker moves all groups that are due in one script, and nobody is served for {}. `SWEEP` works in \
         slices, {} all in all, the longest of any repetition {:.2} ms of processor; another client that asks {RATE} \
         times a second waits {} (half, 99 %, 99.9 %) meanwhile, {} when nothing runs; under the script {}. A thread \
         that only looked at the clock was kept from it for up to {:.2} ms. Groups come into `chg_ready` in the order \
         in which they were due: all of them were compared. But nobody needs a sweep: `NEXT` takes the head of \
         `chg_wait` itself and never moves anything in bulk, {:.2} µs with {many} groups due and {:.2} µs with few; the \
         slowest of the first hundred calls took its client {:.2} ms.",
        time(theirs.seconds.median()), time(ours.seconds.median()), slices.high(),
        Loaded::quantiles(&ours.during), Loaded::quantiles(&ours.idle), Loaded::quantiles(&theirs.during),
        1e3 * stall, due.median(), usual.median(), first.high(),
    ), &["make bench ONLY=C3", "redis-cli CHG.SWEEP ''", "redis-cli INFO crawlspace | grep slice_longest"]);
    found
}
