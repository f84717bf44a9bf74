//! Number of bytes that a page adds to the append-only file and to the replication stream, and the
//! CPU time of both.

use redis_tests::{Options, Server};

use super::cycle::{GROUPS, Run, fill_ours, fill_theirs, our_pages, their_pages};
use super::hosts::Hosts;
use super::{packed_options, queued, quiet, saturated};
use crate::Plan;
use crate::load::appended;
use crate::report::{Findings, Goal, note, say, table};
use crate::series::{Series, grouped};
use crate::targets;
use crate::told::Spent;

/// Measures pages with stored URIs and a replica that is in sync.
pub fn measure(plan: &Plan, hosts: &Hosts) -> Findings {
    let uris = plan.scaled(30).max(10);
    let fill = |server: &Server| fill_ours(server, hosts, GROUPS, uris);
    let span = plan.span();
    say("append-only file and replication stream of a page: Veidemann's sequence");
    let theirs = Logged::start(Options::new().no_module(), |server| {
        fill_theirs(server, hosts, GROUPS, uris);
    });
    let theirs = theirs.sizes(|server| their_pages(server, span, &mut Run::default()));
    let measured = |storage: &str, options: Options| {
        say(&format!(
            "append-only file and replication stream of a page: {storage}"
        ));
        let logged = Logged::start(options.clone(), fill);
        let sizes = logged.sizes(|server| our_pages(server, span, &mut Run::default()));
        let bare = quiet(options);
        fill(&bare);
        (sizes, Times::of(plan, storage, &bare, &logged.server))
    };
    let (plain, plain_times) = measured("plain keys", redis_tests::simulated());
    let (packed, packed_times) = measured("packed", packed_options());
    let mut found = Findings::default();
    for (what, at) in [
        ("append-only file per page", 0),
        ("replication stream per page", 1),
    ] {
        let [plain, packed, theirs] = [&plain, &packed, &theirs].map(|sizes| sizes.each[at]);
        let bytes = |bytes: f64| format!("{bytes:.0} B");
        table! { found;
            "", what, "Veidemann's sequence", bytes(plain), bytes(theirs), theirs / plain, Goal::Known;
            "log", format!("{what}, packed"), "plain keys", bytes(packed), bytes(plain), packed,
                targets::LOGGED_BYTES;
        }
    }
    for (storage, times, goal) in [
        ("plain keys", &plain_times, Goal::Told("%")),
        ("packed", &packed_times, targets::LOGGED_TIME),
    ] {
        let micros = |micros: &Series| micros.shown(|micros| format!("{micros:.2} µs"));
        let [bare, logged] = &times.processor;
        table! { found;
            "log", format!("processor time per page with file and replica, {storage}"), "without file and replica",
                micros(logged), micros(bare), added(bare, logged), goal;
        }
    }
    let commands = |times: &Times| added(&times.commands[0], &times.commands[1]).median();
    note!(found, "log.md";
        pages = grouped(packed.pages), uri = hosts.uri(0, 0).len(), workers = saturated::WORKERS,
        plain = plain.each[1], packed = packed.each[1], theirs = theirs.each[1],
        plain_commands = commands(&plain_times), packed_commands = commands(&packed_times));
    found
}

/// Server options that prevent rewrites of the file and pings to the replica.
const RECORDED: [&str; 4] = [
    "--auto-aof-rewrite-percentage",
    "0",
    "--repl-ping-replica-period",
    "3600",
];

/// A server that writes an append-only file and has a replica.
struct Logged {
    server: Server,
    _replica: Server,
}

impl Logged {
    /// Starts both servers and fills the first one.
    fn start(options: Options, fill: impl FnOnce(&Server)) -> Logged {
        let server = quiet(options.clone().aof_unsynced(true).args(&RECORDED));
        fill(&server);
        let replica = options.replica_of(&server).start();
        server.wait_for_replica_offset(&replica);
        Logged {
            server,
            _replica: replica,
        }
    }

    /// Fetches pages. Returns the number of bytes that the pages add to the file and to the stream.
    fn sizes(&self, fetch: impl FnOnce(&Server)) -> Sizes {
        let server = &self.server;
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
        Sizes {
            pages,
            each: [0, 1].map(|at| (after[at] - before[at]) as f64 / pages as f64),
        }
    }
}

/// Number of bytes that pages add.
struct Sizes {
    pages: u64,
    /// Bytes per page in the append-only file and in the replication stream.
    each: [f64; 2],
}

/// Microseconds per page, on a server without a log and on a server that writes a log.
#[derive(Default)]
struct Times {
    /// CPU time of the server.
    processor: [Series; 2],
    /// Time in commands.
    commands: [Series; 2],
}

impl Times {
    /// Keeps the two servers busy, one after the other, and measures each of them.
    fn of(plan: &Plan, storage: &str, bare: &Server, logged: &Server) -> Times {
        let mut times = Times::default();
        say(&format!("processor time of a page with a log: {storage}"));
        for _ in 0..plan.reps {
            // Make many short runs in turn and take the fastest, because other programs can only
            // add time.
            let mut fastest = [[f64::INFINITY; 2]; 2];
            for _ in 0..8 {
                for (server, fastest) in [bare, logged].into_iter().zip(&mut fastest) {
                    Spent::reset(server);
                    let run = saturated::our_pages(server, plan.span() / 8);
                    let command = Spent::since_reset(server).each("chg.release");
                    fastest[0] = fastest[0].min(1e6 * run.busy / run.rate);
                    fastest[1] = fastest[1].min(command);
                }
            }
            for (number, [processor, command]) in fastest.into_iter().enumerate() {
                times.processor[number].push(processor);
                times.commands[number].push(command);
            }
        }
        times
    }
}

/// Returns by how many percent the second figure exceeds the first one.
fn added(bare: &Series, logged: &Series) -> Series {
    let ratios = logged.over(bare).0.into_iter();
    ratios.map(|ratio| 100.0 * (ratio - 1.0)).collect()
}
