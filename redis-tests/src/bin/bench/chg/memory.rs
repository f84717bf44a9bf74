//! Memory per queued URI.

use redis_tests::Server;

use super::Scene;
use super::commands;
use super::cycle::fill;
use super::hosts::Hosts;
use super::veidemann::{Scripts, now_ms};
use crate::Plan;
use crate::load::Feeder;
use crate::report::{Findings, Goal, note, say, table};
use crate::series::grouped;

/// Measures groups of several sizes, with kept and with counted URIs.
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
            bytes(|scene| fill(scene, hosts, groups, each)),
        );
    }
    say("memory: groups");
    let what = "memory per group, URIs kept elsewhere";
    row(
        what.into(),
        uris,
        bytes(|scene| fill_groups(scene, hosts, uris)),
    );
    let (execution, uri) = (hosts.execution(0).0.len(), hosts.uri(0, 0).len());
    note!(found, "memory.md"; uris = grouped(uris), uri = uri, execution = execution);
    found
}

/// Returns the memory growth of new servers after they were filled: with plain keys, with sorted sets, and packed.
fn bytes(fill: impl Fn(&Scene)) -> [f64; 3] {
    let [ours, theirs] = bytes_of(&Scene::empty(), &fill);
    let [packed, _] = bytes_of(&Scene::packed(), &fill);
    [ours, theirs, packed]
}

fn bytes_of(scene: &Scene, fill: impl Fn(&Scene)) -> [f64; 2] {
    let used = || {
        [&scene.ours, &scene.plain].map(|server: &Server| server.info_number("used_memory") as f64)
    };
    // Loads the scripts before the measurement, because they do not count as data.
    let _ = Scripts::load(&scene.plain);
    let before = used();
    fill(scene);
    let after = used();
    [after[0] - before[0], after[1] - before[1]]
}

fn fill_groups(scene: &Scene, hosts: &Hosts, groups: u64) {
    let at = now_ms() + 3_600_000;
    let groups = || (0..groups).map(|n| (n, at + n % 1000));
    commands::fill(&mut Feeder::new(&scene.ours), hosts, now_ms(), groups());
    Scripts::load(&scene.plain).fill(&mut Feeder::new(&scene.plain), hosts, groups());
}
