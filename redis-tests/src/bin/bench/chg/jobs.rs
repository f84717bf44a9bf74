//! D10: long frontier commands that no other row measures, in both storages.

use std::time::Duration;

use redis_tests::{Server, ok};

use super::commands::{fill, keep};
use super::hosts::Hosts;
use super::veidemann::now_ms;
use super::{packed_options, quiet};
use crate::Plan;
use crate::load::Feeder;
use crate::report::{Findings, note, say};
use crate::series::grouped;
use crate::slices::Slices;

/// Number of crawl executions of the group with many executions.
const EXECUTIONS: u64 = 5_000;

/// Time limit for a job.
const TIMEOUT: Duration = Duration::from_secs(600);

/// Measures the jobs.
pub fn measure(plan: &Plan, hosts: &Hosts) -> Findings {
    let sizes = [plan.scaled(1_000_000), plan.scaled(EXECUTIONS)];
    let mut slices = Slices::default();
    for _ in plan.repeat("D10: jobs on a frontier") {
        // The rows for plain keys contain only the names of the commands.
        for (storage, options) in [
            ("", redis_tests::simulated()),
            (", packed", packed_options()),
        ] {
            let mut server = quiet(options.timeout(TIMEOUT));
            say(&format!("D10: jobs on a frontier{storage}"));
            run_all(&mut slices, &mut server, storage, hosts, sizes);
        }
    }
    let mut found = Findings::default();
    slices.rows(&mut found);
    note!(found, "jobs.md";
        groups = grouped(sizes[0]), uris = grouped(sizes[0] / 10), executions = grouped(sizes[1]));
    found
}

/// Fills a frontier and runs each job once.
fn run_all(
    slices: &mut Slices,
    server: &mut Server,
    storage: &str,
    hosts: &Hosts,
    sizes: [u64; 2],
) {
    let [groups, executions] = sizes;
    let uris = groups / 10;
    // After the groups with counted URIs come three groups: one with many URIs, one with many
    // executions, and the target of moves.
    let [large, many, other] = [1, 2, 3].map(|n| hosts.chg(groups + n));
    let now = now_ms();
    let mut feeder = Feeder::new(server);
    fill(
        &mut feeder,
        hosts,
        now,
        (0..groups).map(|n| (n, now + 3_600_000)),
    );
    keep(&mut feeder, hosts, groups + 1, uris);
    for n in 0..executions {
        let uri = [
            many.clone(),
            "0".into(),
            "0".into(),
            hosts.uri(groups + 2, n),
        ];
        feeder.request_with(&format!("CHG.ADDURI '' execution-{n}"), &uri);
    }
    feeder.finish();
    let mut run = |what: &str, command: &str| {
        slices.run(server, &format!("{what}{storage}"), command);
    };
    let (execution, _) = hosts.execution(0);
    run("`CHG.CHECK`", "CHG.CHECK ''");
    run("`CHG.REPAIR`", "CHG.REPAIR ''");
    let moves = format!("`CHG.MOVE` of {} URIs", grouped(uris));
    run(&moves, &format!("CHG.MOVE '' {large} {other}"));
    let moves = format!("`CHG.MOVE` of {} executions", grouped(executions));
    run(&moves, &format!("CHG.MOVE '' {many} {other}"));
    run("`CHG.DROP GROUP`", &format!("CHG.DROP '' GROUP {other}"));
    run(
        "`CHG.PAUSE` of an execution",
        &format!("CHG.PAUSE '' EXECUTION {execution}"),
    );
    run(
        "`CHG.RESUME` of an execution",
        &format!("CHG.RESUME '' EXECUTION {execution}"),
    );
    run(
        "`CHG.DROP` of an execution",
        &format!("CHG.DROP '' {execution}"),
    );
    let left = ok!(server.wire(), "CHG.INFO", "")
        .field("groups-waiting")
        .int();
    assert_eq!(left, 0, "nothing is queued any more");
    ok!(server.wire(), "FLUSHALL", "SYNC");
    // `CHG.ADD` runs at a simulated time, so that the frontier keeps due times in the past.
    let begin = now_ms() - 7_200_000;
    let due = (0..groups).map(|n| (n, begin + hosts.bits(!n) % 3_600_000));
    fill(&mut Feeder::new(server), hosts, begin, due);
    slices.run(
        server,
        &format!("`CHG.SWEEP` of all groups{storage}"),
        "CHG.SWEEP ''",
    );
    let ready = ok!(server.wire(), "CHG.INFO", "")
        .field("groups-ready")
        .int();
    assert_eq!(ready, groups as i64, "all groups were due");
}
