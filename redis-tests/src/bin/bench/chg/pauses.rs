//! Measures the time to pause an execution that has many due groups, all of which are queued before a group of
//! another execution.

use std::time::Instant;

use redis_tests::ok;

use super::commands::{Lease, fill};
use super::hosts::Hosts;
use super::ours;
use super::veidemann::now_ms;
use crate::Plan;
use crate::load::{Client, Feeder};
use crate::report::{Findings, note, table};
use crate::series::{Series, grouped, time};
use crate::targets;
use crate::told::Spent;

/// Measures the pause, the first `NEXT` after it, and a `NEXT` after one of the paused groups has
/// left the queue.
pub fn measure(plan: &Plan, hosts: &Hosts) -> Findings {
    let groups = plan.scaled(100_000);
    let (mut whole, mut first, mut later) = <(Series, Series, Series)>::default();
    for _ in plan.repeat("NEXT after a pause") {
        let server = ours();
        let now = now_ms();
        let due = (0..groups).map(|n| (n, now - groups + n));
        fill(&mut Feeder::new(&server), hosts, now - groups, due);
        ok!(
            server.wire(),
            "CHG.ADD",
            "",
            "free",
            "free-1",
            now,
            "free-2",
            now
        );
        let (execution, _) = hosts.execution(0);
        let start = Instant::now();
        ok!(server.wire(), "CHG.PAUSE", "", "EXECUTION", &execution);
        whole.push(start.elapsed().as_secs_f64());
        first.push(next(&server, "free-1"));
        ok!(
            server.wire(),
            "CHG.DROP",
            "",
            "GROUP",
            hosts.chg(groups / 2)
        );
        later.push(next(&server, "free-2"));
    }
    let mut found = Findings::default();
    let groups = grouped(groups);
    let (pause, after) = (whole.shown(time), first.shown(|us| format!("{us:.0} µs")));
    table! { found;
        "pauses", format!("first `NEXT` after a pause, {groups} paused groups in front"), "–", after, "", first,
            targets::AFTER_PAUSE;
    }
    note!(found, "pauses.md"; groups = groups, pause = pause, later = later.median());
    found
}

/// Returns the server time in microseconds of a `NEXT` that must lease this group.
fn next(server: &redis_tests::Server, chg: &str) -> f64 {
    let mut client = Client::unix(server);
    Spent::reset(server);
    let lease = Lease::of(client.line("CHG.NEXT ''"), 0);
    assert_eq!(lease.expect("a group is due").chg, chg);
    Spent::since_reset(server).micros(&["chg.next"])
}
