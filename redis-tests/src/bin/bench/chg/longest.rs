//! The longest single execution of each command on a large packed frontier, by CPU time.

use std::time::Duration;

use redis_tests::{Server, ok};

use super::commands::Lease;
use super::hosts::Hosts;
use super::packed;
use super::veidemann::now_ms;
use crate::Plan;
use crate::load::{Client, Feeder, Pieces};
use crate::machine::{cpu_seconds, is_asleep};
use crate::report::{Findings, note, table};
use crate::series::{Series, grouped};
use crate::targets;

/// Measures the commands that are not jobs.
pub fn measure(plan: &Plan, hosts: &Hosts) -> Findings {
    let groups = plan.scaled(1_000_000);
    let calls = plan.scaled(10_000);
    let mut steps: Vec<Step> = Vec::new();
    for _ in plan.repeat("longest commands of a packed frontier") {
        let server = packed();
        fill(&server, hosts, groups);
        let run = Run::on(&server, hosts, groups, calls).all();
        steps.resize_with(run.len(), Step::default);
        for (step, (what, micros)) in steps.iter_mut().zip(run) {
            step.what = what;
            step.longest.push(micros.high() / 1e3);
            step.all.0.extend(micros.0);
        }
    }
    let longest = |step: &Step| step.longest.median();
    let slowest = steps
        .iter()
        .max_by(|one, other| longest(one).total_cmp(&longest(other)))
        .expect("commands were measured");
    let lines: Vec<String> = steps.iter().map(Step::line).collect();
    let mut found = Findings::default();
    let groups = grouped(groups);
    table! { found;
        "commands", format!("longest call of any command at {groups} groups, packed"), "–",
            format!("{:.2} ms, {}", longest(slowest), slowest.what), "", &slowest.longest, targets::COMMAND;
    }
    note!(found, "longest.md"; groups = groups, calls = grouped(calls), lines = lines.join("\n"));
    found
}

/// Results of one command.
#[derive(Default)]
struct Step {
    what: &'static str,
    /// Duration of the longest call in each repetition, in milliseconds.
    longest: Series,
    /// Duration of each call, in microseconds.
    all: Series,
}

impl Step {
    /// Formats the line of a table: calls, median, and longest call.
    fn line(&self) -> String {
        let (calls, median) = (grouped(self.all.0.len() as u64), self.all.median());
        let [low, high] = [self.longest.low(), self.longest.high()];
        format!(
            "| {} | {calls} | {median:.0} µs | {low:.2}–{high:.2} ms |",
            self.what
        )
    }
}

/// Queues groups with two stored URIs each. All groups are due.
fn fill(server: &Server, hosts: &Hosts, groups: u64) {
    let (execution, _) = hosts.execution(0);
    let mut feeder = Feeder::new(server);
    for first in (0..groups).step_by(50) {
        let tuples: Vec<[String; 4]> = (first..groups.min(first + 50))
            .flat_map(|chg| [hosts.tuple(chg, 0), hosts.tuple(chg, 1)])
            .collect();
        feeder.request_with(&format!("CHG.ADDURI '' {execution}"), tuples.as_flattened());
    }
    feeder.finish();
}

/// One repetition.
struct Run<'a> {
    server: &'a Server,
    client: Client,
    hosts: &'a Hosts,
    /// Number of groups in the frontier.
    groups: u64,
    /// Number of calls of each command.
    calls: u64,
    /// Duration of each call of each command in microseconds, in the order in which the commands
    /// ran.
    steps: Vec<(&'static str, Series)>,
}

impl<'a> Run<'a> {
    fn on(server: &'a Server, hosts: &'a Hosts, groups: u64, calls: u64) -> Run<'a> {
        Run {
            server,
            client: Client::unix(server),
            hosts,
            groups,
            calls,
            steps: Vec::new(),
        }
    }

    /// Measures a command. `line` builds the `n`-th call, and `see` gets its reply.
    fn step(
        &mut self,
        what: &'static str,
        calls: u64,
        mut line: impl FnMut(u64) -> String,
        mut see: impl FnMut(Pieces),
    ) {
        let mut micros = Series::default();
        for n in 0..calls {
            let line = line(n);
            let before = settled(self.server);
            let reply = self.client.line(&line);
            micros.push(1e6 * (settled(self.server) - before));
            see(reply);
        }
        self.steps.push((what, micros));
    }

    /// Measures all commands.
    fn all(mut self) -> Vec<(&'static str, Series)> {
        let (hosts, groups, calls) = (self.hosts, self.groups, self.calls);
        let (execution, _) = hosts.execution(0);
        let ignore = |_: Pieces| ();
        let drawn = |n: u64| hosts.bits(n ^ 0x5eed) % groups;
        let add = |chg: u64, i: u64| {
            let tuple = hosts.tuple(chg, i).join(" ");
            format!("CHG.ADDURI '' {execution} {tuple}")
        };
        self.step("`ADDURI`, new group", calls, |n| add(groups + n, 0), ignore);
        self.step("`ADDURI`, new URI", calls, |n| add(drawn(n), 2), ignore);
        self.step("`ADDURI`, known URI", calls, |n| add(drawn(n), 2), ignore);
        let hundred = |n: u64| {
            let uris = (0..100).map(|i| hosts.tuple(drawn(n * 100 + i), 3).join(" "));
            let uris: Vec<String> = uris.collect();
            format!("CHG.ADDURI '' {execution} {}", uris.join(" "))
        };
        self.step("`ADDURI` of 100 URIs", calls / 10, hundred, ignore);
        let count = |chg: u64| format!("CHG.ADD '' {execution} {} 0", hosts.chg(chg));
        self.step(
            "`ADD`, new group",
            calls,
            |n| count(groups + calls + n),
            ignore,
        );
        self.step("`ADD`, known group", calls, |n| count(drawn(n)), ignore);

        let mut leases: Vec<Lease> = Vec::new();
        let next = |_| "CHG.NEXT ''".to_owned();
        self.step("`NEXT`", calls, next, |reply| {
            leases.extend(Lease::of(reply, 0))
        });
        assert_eq!(leases.len() as u64, calls, "all groups are due");
        let of = |n: u64| (&leases[n as usize].chg, leases[n as usize].token);
        let extend = |n| {
            let (chg, token) = of(n);
            format!("CHG.EXTEND '' {chg} {token} 600000")
        };
        self.step("`EXTEND`", calls, extend, ignore);
        let half = calls / 2;
        let release = |n: u64| {
            let (chg, token) = of(n);
            format!("CHG.RELEASE '' {chg} {token} DELAY 60000 DONE {execution}")
        };
        self.step("`RELEASE … DONE`", half, release, ignore);
        let page = |n: u64| format!("{} NEXT", release(half + n));
        self.step("`RELEASE … DONE … NEXT`", half, page, ignore);

        let expiring = |_| "CHG.NEXT '' LEASE 5000 COUNT 100".to_owned();
        self.step("`NEXT COUNT 100`", calls / 100, expiring, ignore);
        std::thread::sleep(Duration::from_millis(5_100));
        self.step("`NEXT` after leases expired", calls / 100, next, ignore);
        self.step(
            "`EXPIRED`",
            calls / 100,
            |_| "CHG.EXPIRED ''".to_owned(),
            ignore,
        );

        let until = format!(" UNTIL {}", now_ms() + 3_600_000);
        let on = |n: u64, command: &str, more: &str| {
            format!("CHG.{command} '' {}{more}", hosts.chg(drawn(!n)))
        };
        self.step(
            "`LIMIT`",
            calls,
            |n| on(n, "LIMIT", " GAP 100 DELAY 500"),
            ignore,
        );
        self.step("`BLOCK`", calls, |n| on(n, "BLOCK", &until), ignore);
        self.step("`PAUSE` of a group", calls, |n| on(n, "PAUSE", ""), ignore);
        self.step(
            "`RESUME` of a group",
            calls,
            |n| on(n, "RESUME", ""),
            ignore,
        );
        self.step(
            "`GROUP`",
            calls,
            |n| on(n, "GROUP", "").replacen("''", "'' gate", 1),
            ignore,
        );
        self.step("`WHY`", calls, |n| on(n, "WHY", ""), ignore);
        self.step("`URIS`", calls, |n| on(n, "URIS", ""), ignore);
        let pages = calls / 10;
        self.step("`LIST`", pages, |_| "CHG.LIST ''".to_owned(), ignore);
        self.step("`INFO`", pages, |_| "CHG.INFO ''".to_owned(), ignore);
        let whole = ["PAUSE", "RESUME"];
        let both = |n: u64| format!("CHG.{} ''", whole[n as usize % 2]);
        self.step("`PAUSE` and `RESUME` of the frontier", pages, both, ignore);
        assert!(
            ok!(self.server.wire(), "CHG.CHECK", "")
                .field("groups")
                .int()
                > 0
        );
        self.steps
    }
}

/// Returns the CPU time of an idle server in seconds. Waits until the server sleeps, because the
/// kernel updates the CPU time of a running thread with a delay.
fn settled(server: &Server) -> f64 {
    while !is_asleep(server.pid()) {
        std::hint::spin_loop();
    }
    cpu_seconds(server.pid())
}
