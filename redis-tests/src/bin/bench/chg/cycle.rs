//! C1: pages by one client that waits for each reply.

use std::time::{Duration, Instant};

use super::commands::{self, Lease, PREFIX, leases};
use super::hosts::Hosts;
use super::veidemann::{self, Harvester, Scripts, Worker};
use super::{Scene, queued};
use crate::Plan;
use crate::load::{Connection, Feeder, encode};
use crate::machine::cpu_seconds;
use crate::report::{Findings, Goal, Row, say};
use crate::series::{Series, grouped, rate};
use crate::told::Spent;

/// How long a group rests after each page.
const PAUSE: Duration = Duration::from_millis(250);
/// Groups: so many that there is always one that is due.
const GROUPS: u64 = 20_000;

/// Measures the page cycle on kept URIs.
pub fn measure(plan: &Plan, hosts: &Hosts) -> Findings {
    // More than are fetched.
    let uris = plan.scaled(30).max(6);
    let scene = Scene::empty();
    let (mut ours, mut theirs) = <(Run, Run)>::default();
    let mut micros = Series::default();
    for rep in 1..=plan.reps {
        say(&format!("C1: page cycle ({rep}/{})", plan.reps));
        scene.clear();
        fill(&scene, hosts, uris);
        Spent::reset(&scene.ours);
        our_pages(&scene, plan.span(), &mut ours);
        let spent = Spent::since_reset(&scene.ours);
        micros
            .0
            .push(spent.micros(&["chg.release"]) / spent.calls("chg.release").max(1) as f64);
        their_pages(&scene, plan.span(), &mut theirs);
    }
    let mut found = Findings::default();
    found.rows.push(Row {
        id: "C1",
        what: "pages, one client, no pipeline: `RELEASE … DONE … NEXT`".into(),
        against: format!(
            "Veidemann's sequence, {:.0} round trips",
            theirs.trips.median()
        ),
        ours: rate(ours.rate.median()),
        theirs: rate(theirs.rate.median()),
        result: ours.rate.over(&theirs.rate),
        goal: Goal::AtLeast(10.0),
    });
    found.note("C1.", format!(
        "{} groups with {uris} kept URIs each, {} ms of rest after each page, one client that waits for each reply. \
         Veidemann's frontier takes a group, marks it busy, looks for the execution and its first URI, sets the deadline \
         anew, and after the fetch reads the group, removes the URI, reads the counts and releases by four commands: \
         {:.0} round trips of {:.1} µs each, beside a queue worker every {} ms. Ours is one, of {:.1} µs, in which \
         the server spends {:.1} µs on the command. The server used {:.0} µs of processor for one of their pages, {:.0} µs \
         for one of ours. The more a round trip costs, over a network for instance, the nearer the ratio comes to \
         {:.0}. In both the counts fell by exactly the pages done.",
        grouped(GROUPS), PAUSE.as_millis(), theirs.trips.median(),
        1e6 / theirs.rate.median() / theirs.trips.median(), veidemann::SWEEP_EVERY.as_millis(),
        1e6 / ours.rate.median(), micros.median(),
        theirs.cpu.median(), ours.cpu.median(), theirs.trips.median(),
    ), &["make bench ONLY=C1", "redis-cli CHG.RELEASE '' $group $token DELAY 250 DONE $execution NEXT BLOCK 5000"]);
    found
}

/// Figures of one kind.
#[derive(Default)]
struct Run {
    /// Pages a second.
    rate: Series,
    /// Microseconds of the server's processor for a page.
    cpu: Series,
    /// Round trips for a page.
    trips: Series,
}

fn fill(scene: &Scene, hosts: &Hosts, uris: u64) {
    let mut feeder = Feeder::new(&scene.ours);
    for chg in 0..GROUPS {
        commands::keep(&mut feeder, hosts, chg, 0..uris);
    }
    feeder.finish();
    let scripts = Scripts::load(&scene.plain);
    let mut feeder = Feeder::new(&scene.plain);
    let now = veidemann::now_ms();
    for chg in 0..GROUPS {
        for i in 0..uris {
            scripts.queue(&mut feeder, hosts, chg, i, now);
        }
    }
    feeder.finish();
    assert_eq!(queued(&scene.ours), GROUPS * uris);
    assert_eq!(queued(&scene.plain), GROUPS * uris);
}

fn our_pages(scene: &Scene, span: Duration, run: &mut Run) {
    let before = queued(&scene.ours);
    let mut connection = Connection::unix(&scene.ours);
    let mut request = Vec::new();
    encode(&mut request, &[b"CHG.NEXT", PREFIX, b"BLOCK", b"5000"]);
    connection.send(&request);
    let mut lease = Lease::default();
    leases(&mut connection, 1, 0, |got| {
        lease = got.expect("a group is due");
    });
    let pause = PAUSE.as_millis().to_string();
    let cpu = cpu_seconds(scene.ours.pid());
    let start = Instant::now();
    let mut pages = 0u64;
    while start.elapsed() < span {
        request.clear();
        let token = lease.token.to_string();
        encode(
            &mut request,
            &[
                b"CHG.RELEASE",
                PREFIX,
                lease.chg.as_bytes(),
                token.as_bytes(),
                b"DELAY",
                pause.as_bytes(),
                b"DONE",
                lease.execution.as_bytes(),
                b"NEXT",
                b"BLOCK",
                b"5000",
            ],
        );
        connection.send(&request);
        leases(&mut connection, 1, 1, |got| {
            lease = got.expect("a group is due");
        });
        pages += 1;
    }
    run.push(
        pages,
        pages,
        start.elapsed(),
        cpu_seconds(scene.ours.pid()) - cpu,
    );
    assert_eq!(
        before - queued(&scene.ours),
        pages,
        "every page counts once"
    );
}

fn their_pages(scene: &Scene, span: Duration, run: &mut Run) {
    let before = queued(&scene.plain);
    let worker = Worker::start(&scene.plain);
    let mut harvester = Harvester::new(&scene.plain);
    assert!(harvester.page(PAUSE), "a group is due");
    harvester.trips = 0;
    let cpu = cpu_seconds(scene.plain.pid());
    let start = Instant::now();
    let mut pages = 0u64;
    while start.elapsed() < span {
        assert!(harvester.page(PAUSE), "a group is due");
        pages += 1;
    }
    let elapsed = start.elapsed();
    run.push(
        pages,
        harvester.trips,
        elapsed,
        cpu_seconds(scene.plain.pid()) - cpu,
    );
    worker.finish();
    assert_eq!(before - queued(&scene.plain), pages + 1);
}

impl Run {
    fn push(&mut self, pages: u64, trips: u64, elapsed: Duration, cpu: f64) {
        let pages = pages as f64;
        self.rate.0.push(pages / elapsed.as_secs_f64());
        self.cpu.0.push(1e6 * cpu / pages);
        self.trips.0.push(trips as f64 / pages);
    }
}
