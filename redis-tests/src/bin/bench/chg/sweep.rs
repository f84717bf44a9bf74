//! C3: a million groups that become due at the same time.

use std::time::{Duration, Instant};

use redis_tests::{Server, ok};

use super::Scene;
use super::commands::{self, Lease};
use super::hosts::Hosts;
use super::veidemann::{self, Scripts, now_ms};
use crate::Plan;
use crate::load::{Client, Feeder, line};
use crate::machine::longest_stall;
use crate::others::{Long, MEANWHILE, RATE, pages};
use crate::report::{Findings, Goal, note, say, table};
use crate::series::{Series, grouped, time};
use crate::targets;
use crate::told::Spent;

const HOUR: u64 = 3_600_000;
/// Number of measured calls of `NEXT`.
const SAMPLE: u64 = 20_000;

/// Measures the sweep, and calls of `NEXT` without a previous sweep.
pub fn measure(plan: &Plan, hosts: &Hosts) -> Findings {
    let groups = plan.scaled(1_000_000);
    let stall = longest_stall(Duration::from_secs(2));
    let (mut ours, mut theirs) = <(Long, Long)>::default();
    let (mut usual, mut due, mut first) = <(Series, Series, Series)>::default();
    let sample = SAMPLE.min(groups / 4);
    for rep in plan.repeat("C3: NEXT without a sweep") {
        // Start a new server for each repetition, so that its longest slice belongs to this sweep.
        let scene = Scene::empty();
        fill_ours(&scene.ours, hosts, groups, sample);
        usual.push(next(&scene.ours, sample).0);
        fill_ours(&scene.ours, hosts, groups, groups);
        let (each, longest) = next(&scene.ours, sample);
        due.push(each);
        first.push(longest);

        say(&format!("C3: sweeps ({rep}/{})", plan.reps));
        fill_ours(&scene.ours, hosts, groups, groups);
        let order = scene.ours.wire().line("ZRANGE chg_wait 0 -1");
        ours.loaded(&scene.ours, pages(&scene.ours), |server| {
            our_sweep(server, groups)
        });
        let ready = scene.ours.wire().line("LRANGE chg_ready 0 -1");
        assert!(
            order == ready,
            "groups become ready in the order in which they were due"
        );
        let begin = now_ms() - HOUR;
        let waiting = (0..groups).map(|n| (n, begin + hosts.bits(!n) % (HOUR / 2)));
        Scripts::load(&scene.plain).fill(&mut Feeder::new(&scene.plain), hosts, waiting);
        theirs.loaded(&scene.plain, pages(&scene.plain), |server| {
            their_sweep(server, groups)
        });
    }
    findings(groups, [&ours, &theirs], [&usual, &due, &first], stall)
}

/// Fills a frontier. The first `due` groups are due now, and the other groups are due in an hour.
fn fill_ours(server: &Server, hosts: &Hosts, groups: u64, due: u64) {
    ok!(server.wire(), "FLUSHALL", "SYNC");
    let begin = now_ms() - HOUR;
    let at = |n: u64| {
        let (later, span) = if n < due {
            (0, HOUR / 2)
        } else {
            (3 * HOUR, HOUR)
        };
        begin + later + hosts.bits(!n) % span
    };
    let mut feeder = Feeder::new(server);
    commands::fill(&mut feeder, hosts, begin, (0..groups).map(|n| (n, at(n))));
}

/// Returns the duration of the sweep in seconds.
fn our_sweep(server: &Server, groups: u64) -> f64 {
    let mut wire = server.wire();
    let start = Instant::now();
    let moved = ok!(wire, "CHG.SWEEP", "").ints();
    let seconds = start.elapsed().as_secs_f64();
    assert_eq!(moved, [groups as i64, 0]);
    seconds
}

fn their_sweep(server: &Server, groups: u64) -> f64 {
    let scripts = Scripts::load(server);
    let mut client = Client::unix(server);
    let start = Instant::now();
    let moved = veidemann::sweep(&mut client, &scripts.sweep, "chg_wait");
    let seconds = start.elapsed().as_secs_f64();
    assert_eq!(moved, groups as i64);
    seconds
}

/// Returns the server time per call for `count` calls of `NEXT` in microseconds, and the longest
/// client-side wait among the first hundred calls in milliseconds.
fn next(server: &Server, count: u64) -> (f64, f64) {
    Spent::reset(server);
    let mut client = Client::unix(server);
    let mut taken = 0;
    let mut longest = Duration::ZERO;
    for _ in 0..100 {
        let start = Instant::now();
        let lease = Lease::of(client.line("CHG.NEXT ''"), 0);
        longest = longest.max(start.elapsed());
        taken += u64::from(lease.is_some());
    }
    let mut one = Vec::new();
    line(&mut one, "CHG.NEXT ''");
    let hundred = one.repeat(100);
    while taken < count {
        let before = taken;
        client.pipeline(&hundred, 100, |reply| {
            taken += u64::from(Lease::of(reply, 0).is_some())
        });
        assert!(taken > before, "groups are due");
    }
    let spent = Spent::since_reset(server);
    (spent.each("chg.next"), longest.as_secs_f64() * 1e3)
}

fn findings(
    groups: u64,
    [ours, theirs]: [&Long; 2],
    [usual, due, first]: [&Series; 3],
    stall: f64,
) -> Findings {
    let mut found = Findings::default();
    let groups = grouped(groups);
    let script = "Veidemann's script";
    let micros = |micros: f64| format!("{micros:.2} µs");
    let [our_time, their_time] = [ours, theirs].map(|long| long.loaded.seconds.shown(time));
    let [our_wait, their_wait] = [ours, theirs].map(|long| long.loaded.during());
    table! { found;
        "C3", format!("longest slice of `SWEEP`, {groups} groups due at once"), script,
            ours.slice(), &their_time, &ours.slices, targets::SWEEP_SLICE;
        "C3", "the whole sweep", script, &our_time, &their_time,
            theirs.loaded.seconds.over(&ours.loaded.seconds), Goal::Known;
        "C3", MEANWHILE, script, &our_wait, &their_wait, ours.loaded.above_idle(), targets::SWEEP_OTHERS;
        "C3", format!("`NEXT` without a sweep, {groups} groups due"), "the same number of groups, few of them due",
            due.shown(micros), usual.shown(micros), due.over(usual), targets::WITHOUT_SWEEP;
    }
    note!(found, "sweep.md";
        script = their_time, sweep = our_time, slice = ours.slices.high(), rate = RATE,
        during = our_wait, idle = ours.loaded.idle(), under_script = their_wait, stall = 1e3 * stall,
        due = due.median(), usual = usual.median(), groups = groups, first = first.high());
    found
}
