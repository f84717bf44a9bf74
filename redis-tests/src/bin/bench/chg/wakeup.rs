//! C4: how late a client gets a group that has come due.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use redis_tests::{Server, ok};

use super::Scene;
use super::commands::{PREFIX, leases};
use super::hosts::Hosts;
use super::veidemann::{self, Scripts, Worker, now_ms};
use crate::Plan;
use crate::load::{Batches, Connection, encode};
use crate::others::{Others, RATE};
use crate::report::{Findings, Goal, Row, say};
use crate::series::Series;

/// Clients that wait, with as many groups between them.
const CLIENTS: u64 = 8;

/// Measures with nobody else there, and with others asking.
pub fn measure(plan: &Plan, hosts: &Hosts) -> Findings {
    let (mut ours, mut loaded, mut theirs) = <(Lateness, Lateness, Lateness)>::default();
    let span = plan.span() * 2;
    for rep in 1..=plan.reps {
        say(&format!("C4: wake-ups ({rep}/{})", plan.reps));
        let scene = Scene::empty();
        fill_ours(&scene.ours, hosts);
        ours.push(wait(hosts, span, |pauses| our_client(&scene.ours, pauses)));
        ok!(scene.ours.wire(), "SET", "bench:page", "x".repeat(100));
        let asking = Batches::new(1_000, 1, |out| encode(out, &[b"GET", b"bench:page"]));
        let others = Others::start(&scene.ours, Arc::new(asking));
        loaded.push(wait(hosts, span, |pauses| our_client(&scene.ours, pauses)));
        others.finish();
        fill_theirs(&scene.plain, hosts);
        let worker = Worker::start(&scene.plain);
        theirs.push(wait(hosts, span, |pauses| {
            their_client(&scene.plain, pauses)
        }));
        worker.finish();
    }
    let mut found = Findings::default();
    let quiet = "`NEXT BLOCK`, from the due time to the lease: p50 / p99 / max; p99";
    let busy = format!("the same while others ask {RATE} times a second");
    for (what, mine) in [(quiet.to_owned(), &ours), (busy, &loaded)] {
        found.rows.push(Row {
            id: "C4",
            what,
            against: "a worker that polls every 50 ms, `BRPOP`".into(),
            ours: mine.text(),
            theirs: theirs.text(),
            result: mine.p99.clone(),
            goal: Goal::AtMost(2.0, "ms"),
        });
    }
    found.note("C4.", format!(
        "{CLIENTS} clients each release a group for 5 to 60 ms and wait for the next one, {} wake-ups in all. Counted \
         is the time from the due time, a whole millisecond, to the lease in the client's hands, by the machine's one \
         clock. The server sets one timer to the moment when the next group comes due, so nothing is polled and an idle \
         frontier costs nothing. A worker that looks every 50 ms is late by half of that on average, whatever the machine \
         does, and its clients need another round trip to mark the group busy.",
        ours.all.0.len(),
    ), &["make bench ONLY=C4", "redis-cli CHG.NEXT '' BLOCK 5000"]);
    found
}

/// Milliseconds from due times to leases.
#[derive(Default)]
struct Lateness {
    all: Series,
    /// Of each repetition.
    p99: Series,
}

impl Lateness {
    fn push(&mut self, run: Series) {
        self.p99.0.push(run.quantile(0.99));
        self.all.0.extend(run.0);
    }

    fn text(&self) -> String {
        let [half, p99] = [0.5, 0.99].map(|q| self.all.quantile(q));
        format!("{half:.2} / {p99:.2} / {:.2} ms", self.all.high())
    }
}

/// As many groups as clients, due now.
fn fill_ours(server: &Server, hosts: &Hosts) {
    let mut wire = server.wire();
    let (execution, _) = hosts.execution(0);
    for n in 0..CLIENTS {
        ok!(wire, "CHG.ADD", PREFIX, execution, hosts.chg(n), now_ms());
    }
}

/// Fills the peer's frontier with these hosts.
fn fill_theirs(server: &Server, hosts: &Hosts) {
    let mut wire = server.wire();
    let scripts = Scripts::load(server);
    let (execution, _) = hosts.execution(0);
    for n in 0..CLIENTS {
        wire.expect_ok(&scripts.count(&hosts.chg(n), execution, now_ms()));
    }
}

/// Pauses until a moment.
struct Pauses {
    hosts: Hosts,
    drawn: u64,
    end: Instant,
}

impl Iterator for Pauses {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.drawn += 1;
        (Instant::now() < self.end).then(|| 5 + self.hosts.bits(self.drawn) % 56)
    }
}

/// Runs the clients, each in a thread.
fn wait(hosts: &Hosts, span: Duration, client: impl Fn(Pauses) -> Vec<f64> + Sync) -> Series {
    let end = Instant::now() + span;
    std::thread::scope(|scope| {
        let client = &client;
        let threads: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let pauses = Pauses {
                    hosts: *hosts,
                    drawn: number << 32,
                    end,
                };
                scope.spawn(move || client(pauses))
            })
            .collect();
        let waits = threads
            .into_iter()
            .flat_map(|thread| thread.join().expect("a client is answered"));
        waits.collect()
    })
}

/// Milliseconds that have passed since a due time.
fn since(due: u64) -> f64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0.0, |d| d.as_secs_f64() * 1e3) - due as f64
}

fn our_client(server: &Server, pauses: Pauses) -> Vec<f64> {
    let mut connection = Connection::unix(server);
    let mut request = Vec::new();
    encode(&mut request, &[b"CHG.NEXT", PREFIX, b"BLOCK", b"0"]);
    connection.send(&request);
    let mut lease = None;
    leases(&mut connection, 1, 0, |got| lease = got);
    let mut waits = Vec::new();
    for pause in pauses {
        let held = lease.take().expect("a lease");
        let token = held.token.to_string();
        request.clear();
        encode(
            &mut request,
            &[
                b"CHG.RELEASE",
                PREFIX,
                held.chg.as_bytes(),
                token.as_bytes(),
                b"DELAY",
                pause.to_string().as_bytes(),
                b"NEXT",
                b"BLOCK",
                b"0",
            ],
        );
        connection.send(&request);
        leases(&mut connection, 1, 1, |got| lease = got);
        let due = lease.as_ref().map_or(0, |lease| lease.due);
        waits.push(since(due));
    }
    // Given back at once, so that the next run finds all groups.
    if let Some(held) = lease {
        let mut wire = server.wire();
        ok!(
            wire,
            "CHG.RELEASE",
            PREFIX,
            held.chg,
            held.token,
            "DELAY",
            "0"
        );
    }
    waits
}

fn their_client(server: &Server, pauses: Pauses) -> Vec<f64> {
    let busy = Scripts::load(server).busy;
    let mut connection = Connection::unix(server);
    let mut request = Vec::new();
    let (mut chg, _) = veidemann::take(&mut connection, &busy, &mut request);
    let mut waits = Vec::new();
    for pause in pauses {
        let requests = veidemann::release_requests(&chg, now_ms() + pause);
        connection.send(&requests.concat());
        connection.read(4, |_| ());
        let (taken, due) = veidemann::take(&mut connection, &busy, &mut request);
        waits.push(since(due));
        chg = taken;
    }
    waits
}
