//! What a queued URI takes.

use redis_tests::Server;

use super::Scene;
use super::commands;
use super::hosts::Hosts;
use super::veidemann::{Scripts, now_ms};
use crate::Plan;
use crate::load::Feeder;
use crate::report::{Findings, Goal, Row, say};
use crate::series::{Series, grouped};

/// Measures groups of several sizes, and groups whose URIs are kept elsewhere.
pub fn measure(plan: &Plan, hosts: &Hosts) -> Findings {
    let uris = plan.scaled(300_000);
    let mut found = Findings::default();
    for each in [1, 10, 1_000] {
        say(&format!("memory: {each} URIs a group"));
        let groups = uris / each;
        let [ours, theirs] = bytes(|scene| fill(scene, hosts, groups, each));
        let per_uri = |bytes: f64| bytes / (groups * each) as f64;
        found.rows.push(row(
            format!("memory per kept URI, {each} in each group"),
            per_uri(ours),
            per_uri(theirs),
        ));
    }
    say("memory: groups");
    let groups = plan.scaled(300_000);
    let [ours, theirs] = bytes(|scene| fill_groups(scene, hosts, groups));
    let per_group = |bytes: f64| bytes / groups as f64;
    found.rows.push(row(
        "memory per group, URIs kept elsewhere".into(),
        per_group(ours),
        per_group(theirs),
    ));
    let (execution, uri) = (hosts.execution(0).0.len(), hosts.uri(0, 0).len());
    found.note("Memory.", format!(
        "{} URIs of some {uri} bytes, with the group's own keys (hash, place in a queue). The plain layout keeps a URI \
         as a member `depth:time:uri` of a sorted set for each execution in each group, whose name holds the \
         execution's id ({execution} bytes) once more, beside a sorted set with the executions of the group. A group \
         alone is a hash of two fields and a member of a sorted set in both.",
        grouped(uris),
    ), &["make bench ONLY=uris", "redis-cli INFO memory | grep used_memory:    # before and after"]);
    found
}

fn row(what: String, ours: f64, theirs: f64) -> Row {
    let show = |bytes: f64| format!("{bytes:.0} B");
    Row {
        id: "",
        what,
        against: "sorted sets by plain commands".into(),
        ours: show(ours),
        theirs: show(theirs),
        result: Series(vec![theirs / ours]),
        goal: Goal::Known,
    }
}

/// Bytes that two new servers take more after they were filled.
fn bytes(fill: impl Fn(&Scene)) -> [f64; 2] {
    let scene = Scene::empty();
    let used = |server: &Server| server.info_number("used_memory") as f64;
    // Scripts and buffers that stay are not the data's.
    let _ = Scripts::load(&scene.plain);
    let before = [used(&scene.ours), used(&scene.plain)];
    fill(&scene);
    [
        used(&scene.ours) - before[0],
        used(&scene.plain) - before[1],
    ]
}

fn fill(scene: &Scene, hosts: &Hosts, groups: u64, each: u64) {
    let mut feeder = Feeder::new(&scene.ours);
    for chg in 0..groups {
        commands::keep(&mut feeder, hosts, chg, 0..each);
    }
    feeder.finish();
    let scripts = Scripts::load(&scene.plain);
    let mut feeder = Feeder::new(&scene.plain);
    let now = now_ms();
    for chg in 0..groups {
        for i in 0..each {
            scripts.queue(&mut feeder, hosts, chg, i, now);
        }
    }
    feeder.finish();
    for server in [&scene.ours, &scene.plain] {
        assert_eq!(super::queued(server), groups * each);
    }
}

fn fill_groups(scene: &Scene, hosts: &Hosts, groups: u64) {
    let at = now_ms() + 3_600_000;
    let mut feeder = Feeder::new(&scene.ours);
    commands::fill(
        &mut feeder,
        hosts,
        now_ms(),
        (0..groups).map(|n| (n, at + n % 1000)),
    );
    let scripts = Scripts::load(&scene.plain);
    let mut feeder = Feeder::new(&scene.plain);
    for n in 0..groups {
        let count = scripts.count(&hosts.chg(n), hosts.execution(0).0, at + n % 1000);
        let words: Vec<&[u8]> = count.iter().map(Vec::as_slice).collect();
        feeder.request(&words);
    }
    feeder.finish();
}
