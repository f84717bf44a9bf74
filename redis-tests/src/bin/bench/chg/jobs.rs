//! D10: long-running frontier commands that no other row measures.

use redis_tests::ok;

use super::commands::{fill, keep};
use super::hosts::Hosts;
use super::ours;
use super::veidemann::now_ms;
use crate::Plan;
use crate::load::Feeder;
use crate::report::{Findings, note};
use crate::series::grouped;
use crate::slices::Slices;

/// Number of crawl executions of the group that has many.
const BUSY_EXECUTIONS: u64 = 20_000;

/// Measures the jobs.
pub fn measure(plan: &Plan, hosts: &Hosts) -> Findings {
    let groups = plan.scaled(1_000_000);
    let uris = groups / 10;
    // Three groups after the ones with counted URIs: one with many URIs, one with many executions,
    // and the target of moves.
    let [large, many, other] = [1, 2, 3].map(|n| hosts.chg(groups + n));
    let mut slices = Slices::default();
    for _ in plan.repeat("D10: jobs on a frontier") {
        let mut server = ours();
        let now = now_ms();
        let mut feeder = Feeder::new(&server);
        fill(
            &mut feeder,
            hosts,
            now,
            (0..groups).map(|n| (n, now + 3_600_000)),
        );
        keep(&mut feeder, hosts, groups + 1, uris);
        for n in 0..BUSY_EXECUTIONS {
            let uri = [
                many.clone(),
                "0".into(),
                "0".into(),
                hosts.uri(groups + 2, n),
            ];
            feeder.request_with(&format!("CHG.ADDURI '' execution-{n}"), &uri);
        }
        feeder.finish();
        let mut run = |what: &str, command: &str| slices.run(&mut server, what, command);
        run("`CHG.CHECK`", "CHG.CHECK ''");
        run("`CHG.REPAIR`", "CHG.REPAIR ''");
        let moves = format!("`CHG.MOVE` of {} URIs", grouped(uris));
        run(&moves, &format!("CHG.MOVE '' {large} {other}"));
        let moves = format!("`CHG.MOVE` of {} executions", grouped(BUSY_EXECUTIONS));
        run(&moves, &format!("CHG.MOVE '' {many} {other}"));
        run("`CHG.DROP GROUP`", &format!("CHG.DROP '' GROUP {other}"));
        let (execution, _) = hosts.execution(0);
        run(
            "`CHG.DROP` of an execution",
            &format!("CHG.DROP '' {execution}"),
        );
        let left = ok!(server.wire(), "ZCARD", "chg_wait").int();
        assert_eq!(left, 0, "nothing is queued any more");
    }
    let mut found = Findings::default();
    slices.rows(&mut found);
    note!(found, "jobs.md"; groups = grouped(groups), uris = grouped(uris), executions = grouped(BUSY_EXECUTIONS));
    found
}
