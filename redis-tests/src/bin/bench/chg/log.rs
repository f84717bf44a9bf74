//! Bytes that a page adds to the append-only file and to the replication stream.

use redis_tests::{Options, Server};

use super::cycle::{GROUPS, Run, fill, our_pages, their_pages};
use super::hosts::Hosts;
use super::{Scene, queued, quiet};
use crate::Plan;
use crate::load::appended;
use crate::report::{Findings, Goal, note, say, table};

/// Measures pages on kept URIs with a replica that is in sync.
pub fn measure(plan: &Plan, hosts: &Hosts) -> Findings {
    say("append-only file and replication stream of a page");
    let start = |options: Options| quiet(options.aof_unsynced(true).args(&RECORDED));
    let scene = Scene {
        ours: start(redis_tests::simulated()),
        plain: start(Options::new().no_module()),
    };
    fill(&scene, hosts, GROUPS, plan.scaled(30).max(6));
    let span = plan.span();
    let ours = Sizes::of(&scene.ours, redis_tests::simulated(), |server| {
        our_pages(server, span, &mut Run::default());
    });
    let theirs = Sizes::of(&scene.plain, Options::new().no_module(), |server| {
        their_pages(server, span, &mut Run::default());
    });
    let mut found = Findings::default();
    for (what, ours, theirs) in [
        ("append-only file per page", ours.file, theirs.file),
        ("replication stream per page", ours.stream, theirs.stream),
    ] {
        table! { found;
            "", what, "Veidemann's sequence", format!("{ours:.0} B"), format!("{theirs:.0} B"), theirs / ours, Goal::Known;
        }
    }
    note!(found, "log.md";
        pages = crate::series::grouped(ours.pages), uri = hosts.uri(0, 0).len(), ours = ours.stream, theirs = theirs.stream);
    found
}

/// Server options that keep rewrites and replica pings out of the file and the stream.
const RECORDED: [&str; 4] = [
    "--auto-aof-rewrite-percentage",
    "0",
    "--repl-ping-replica-period",
    "3600",
];

/// Bytes per page.
struct Sizes {
    pages: u64,
    file: f64,
    stream: f64,
}

impl Sizes {
    fn of(server: &Server, options: Options, fetch: impl FnOnce(&Server)) -> Sizes {
        let replica = options.replica_of(server).start();
        server.wait_for_replica_offset(&replica);
        let seen = || {
            [
                appended(server),
                server.info_number("master_repl_offset") as u64,
                queued(server),
            ]
        };
        let before = seen();
        fetch(server);
        let after = seen();
        let pages = before[2] - after[2];
        let each = |at: usize| (after[at] - before[at]) as f64 / pages as f64;
        Sizes {
            pages,
            file: each(0),
            stream: each(1),
        }
    }
}
