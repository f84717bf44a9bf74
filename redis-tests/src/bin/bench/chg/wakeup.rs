//! C4: delay between the due time of a group and its lease by a waiting client.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use redis_tests::{Server, ok};

use super::Scene;
use super::commands::Lease;
use super::hosts::Hosts;
use super::veidemann::{self, Scripts, Worker, now_ms};
use crate::Plan;
use crate::load::{Client, Feeder};
use crate::others::{Others, RATE, pages};
use crate::report::{Findings, note, table};
use crate::series::Series;
use crate::targets;

/// Number of waiting clients and of groups.
const CLIENTS: u64 = 8;

/// Measures a server without other load, and a server under the load of other clients.
pub fn measure(plan: &Plan, hosts: &Hosts) -> Findings {
    let (mut ours, mut loaded, mut theirs) = <(Lateness, Lateness, Lateness)>::default();
    let span = plan.span() * 2;
    for _ in plan.repeat("C4: wake-ups") {
        let Scene {
            ours: server,
            plain,
        } = Scene::empty();
        let mut wire = server.wire();
        for n in 0..CLIENTS {
            ok!(
                wire,
                "CHG.ADD",
                "",
                hosts.execution(0).0,
                hosts.chg(n),
                now_ms()
            );
        }
        ours.push(wait(hosts, span, |pauses| our_client(&server, pauses)));
        let others = Others::start(&server, pages(&server));
        loaded.push(wait(hosts, span, |pauses| our_client(&server, pauses)));
        others.finish();
        let due = (0..CLIENTS).map(|n| (n, now_ms()));
        Scripts::load(&plain).fill(&mut Feeder::new(&plain), hosts, due);
        let worker = Worker::start(&plain);
        theirs.push(wait(hosts, span, |pauses| their_client(&plain, pauses)));
        worker.finish();
    }
    let mut found = Findings::default();
    let against = "a worker that polls every 50 ms, `BRPOP`";
    let goal = targets::WAKEUP;
    table! { found;
        "C4", "`NEXT BLOCK`, from the due time to the lease: p50 / p99 / max; p99", against,
            ours.text(), theirs.text(), &ours.p99, goal;
        "C4", format!("the same while other clients send {RATE} requests per second"), against,
            loaded.text(), theirs.text(), &loaded.p99, goal;
    }
    note!(found, "wakeup.md"; clients = CLIENTS, wakeups = ours.all.0.len());
    found
}

/// Milliseconds between due times and leases.
#[derive(Default)]
struct Lateness {
    all: Series,
    /// 99th percentile of each repetition.
    p99: Series,
}

impl Lateness {
    fn push(&mut self, run: Series) {
        self.p99.push(run.quantile(0.99));
        self.all.0.extend(run.0);
    }

    fn text(&self) -> String {
        let [half, p99] = [0.5, 0.99].map(|q| self.all.quantile(q));
        format!("{half:.2} / {p99:.2} / {:.2} ms", self.all.high())
    }
}

/// Runs each client in a thread until `span` has passed.
fn wait<C>(hosts: &Hosts, span: Duration, client: C) -> Series
where
    C: Fn(&mut dyn Iterator<Item = u64>) -> Vec<f64> + Sync,
{
    let end = Instant::now() + span;
    let run = |number: u64| {
        let pause = |drawn| (Instant::now() < end).then(|| 5 + hosts.bits(drawn) % 56);
        client(&mut ((number << 32) + 1..).map_while(pause))
    };
    let run = &run;
    std::thread::scope(|scope| {
        let start = |number| scope.spawn(move || run(number));
        let threads: Vec<_> = (0..CLIENTS).map(start).collect();
        let waits = threads
            .into_iter()
            .map(|thread| thread.join().expect("a client is answered"));
        waits.flatten().collect()
    })
}

/// Returns the milliseconds since a due time.
fn since(due: u64) -> f64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0.0, |d| d.as_secs_f64() * 1e3) - due as f64
}

fn our_client(server: &Server, pauses: &mut dyn Iterator<Item = u64>) -> Vec<f64> {
    let mut client = Client::unix(server);
    let mut lease = Lease::of(client.line("CHG.NEXT '' BLOCK 0"), 0).expect("a lease");
    let mut waits = Vec::new();
    for pause in pauses {
        let Lease { chg, token, .. } = &lease;
        let reply = client.line(&format!(
            "CHG.RELEASE '' {chg} {token} DELAY {pause} NEXT BLOCK 0"
        ));
        lease = Lease::of(reply, 1).expect("a lease");
        waits.push(since(lease.due));
    }
    // Release the group immediately, so that the next run finds all groups.
    client.line(&format!(
        "CHG.RELEASE '' {} {} DELAY 0",
        lease.chg, lease.token
    ));
    waits
}

fn their_client(server: &Server, pauses: &mut dyn Iterator<Item = u64>) -> Vec<f64> {
    let busy = Scripts::load(server).busy;
    let mut client = Client::unix(server);
    let (mut chg, _) = veidemann::take(&mut client, &busy);
    let mut waits = Vec::new();
    for pause in pauses {
        let mut requests = Vec::new();
        for line in veidemann::release(&chg, now_ms() + pause) {
            crate::load::line(&mut requests, &line);
        }
        client.pipeline(&requests, 4, |_| ());
        let (taken, due) = veidemann::take(&mut client, &busy);
        waits.push(since(due));
        chg = taken;
    }
    waits
}
