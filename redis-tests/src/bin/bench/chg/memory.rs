//! Memory per queued URI.

use redis_tests::{Options, Server};

use super::commands;
use super::cycle::{fill_ours, fill_theirs};
use super::hosts::Hosts;
use super::veidemann::{Scripts, now_ms};
use super::{ours, packed, quiet};
use crate::Plan;
use crate::load::Feeder;
use crate::report::{Findings, Goal, note, say, table};
use crate::series::grouped;

/// Measures groups of several sizes, with stored and with counted URIs.
pub fn measure(plan: &Plan, hosts: &Hosts) -> Findings {
    let uris = plan.scaled(300_000);
    let mut found = Findings::default();
    let mut row = |what: String, things: u64, [ours, theirs, packed]: [f64; 3]| {
        let show = |bytes: f64| format!("{:.0} B", bytes / things as f64);
        table! { found;
            "", &what, "sorted sets by plain commands", show(ours), show(theirs), theirs / ours, Goal::Known;
            "", format!("{what}, packed"), "the plain keys of the same frontier", show(packed), show(ours),
                ours / packed, Goal::Known;
        }
    };
    for each in [1, 10, 1_000] {
        say(&format!("memory: {each} URIs a group"));
        let groups = uris / each;
        let what = format!("memory per kept URI, {each} in each group");
        row(
            what,
            groups * each,
            bytes(
                |server| fill_ours(server, hosts, groups, each),
                |server| fill_theirs(server, hosts, groups, each),
            ),
        );
    }
    say("memory: groups");
    let what = "memory per group, URIs kept elsewhere";
    row(
        what.into(),
        uris,
        bytes(
            |server| {
                commands::fill(&mut Feeder::new(server), hosts, now_ms(), later(uris));
            },
            |server| Scripts::load(server).fill(&mut Feeder::new(server), hosts, later(uris)),
        ),
    );
    let (execution, uri) = (hosts.execution(0).0.len(), hosts.uri(0, 0).len());
    note!(found, "memory.md"; uris = grouped(uris), uri = uri, execution = execution);
    found
}

/// Fills new servers and returns their memory growth: with plain keys, with sorted sets, and
/// packed.
fn bytes(fill: impl Fn(&Server), fill_theirs: impl Fn(&Server)) -> [f64; 3] {
    let theirs = quiet(Options::new().no_module());
    // Load the scripts before the measurement, because scripts are not part of the data.
    let _ = Scripts::load(&theirs);
    [
        growth(&ours(), &fill),
        growth(&theirs, fill_theirs),
        growth(&packed(), &fill),
    ]
}

fn growth(server: &Server, fill: impl Fn(&Server)) -> f64 {
    let used = || server.info_number("used_memory") as f64;
    let before = used();
    fill(server);
    used() - before
}

/// Returns the numbers of groups and their due times, about an hour from now.
fn later(groups: u64) -> impl Iterator<Item = (u64, u64)> {
    let at = now_ms() + 3_600_000;
    (0..groups).map(move |n| (n, at + n % 1000))
}
