//! C1: pages per second of one client that waits for each reply.

use std::time::{Duration, Instant};

use redis_tests::{Server, ok};

use super::commands::{self, Lease};
use super::hosts::Hosts;
use super::veidemann::{self, Harvester, Scripts, Worker};
use super::{Scene, queued};
use crate::Plan;
use crate::load::{Client, Feeder};
use crate::machine::cpu_seconds;
use crate::report::{Findings, note, table};
use crate::series::{Series, grouped, rate};
use crate::targets;
use crate::told::Spent;

/// Pause of a group after each page.
const PAUSE: Duration = Duration::from_millis(250);
/// Number of groups. With so few pages per second, a group is always due.
pub const GROUPS: u64 = 20_000;

/// Measures the page cycle with stored URIs.
pub fn measure(plan: &Plan, hosts: &Hosts) -> Findings {
    // Queue more URIs than the run fetches.
    let uris = plan.scaled(30).max(6);
    let (scene, packed_server) = (Scene::empty(), super::packed());
    let (mut ours, mut theirs, mut packed) = <(Run, Run, Run)>::default();
    let mut micros = Series::default();
    for _ in plan.repeat("C1: page cycle") {
        scene.clear();
        fill(&scene, hosts, GROUPS, uris);
        Spent::reset(&scene.ours);
        our_pages(&scene.ours, plan.span(), &mut ours);
        micros.push(Spent::since_reset(&scene.ours).each("chg.release"));
        their_pages(&scene.plain, plan.span(), &mut theirs);
        ok!(packed_server.wire(), "FLUSHALL", "SYNC");
        fill_ours(&packed_server, hosts, GROUPS, uris);
        our_pages(&packed_server, plan.span(), &mut packed);
    }
    let mut found = Findings::default();
    let trips = theirs.trips.median();
    let [our_rate, their_rate] = [&ours, &theirs].map(|run| run.rate.median());
    table! { found;
        "C1", "pages, one client, no pipeline: `RELEASE … DONE … NEXT`",
            format!("Veidemann's sequence, {trips:.0} round trips"),
            rate(our_rate), rate(their_rate), ours.rate.over(&theirs.rate), targets::PAGES;
        "C1", "pages of a packed frontier, one client, no pipeline",
            format!("Veidemann's sequence, {trips:.0} round trips"),
            rate(packed.rate.median()), rate(their_rate), packed.rate.over(&theirs.rate), targets::PAGES_PACKED;
    }
    note!(found, "cycle.md";
        groups = grouped(GROUPS), uris = uris, pause = PAUSE.as_millis(), trips = trips,
        trip = 1e6 / their_rate / trips, worker = veidemann::SWEEP_EVERY.as_millis(),
        ours = 1e6 / our_rate, server = micros.median(),
        their_cpu = theirs.cpu.median(), our_cpu = ours.cpu.median(),
        packed_cpu = packed.cpu.median());
    found
}

/// Results of one kind of client.
#[derive(Default)]
pub struct Run {
    /// Pages per second.
    rate: Series,
    /// CPU time of the server per page, in microseconds.
    cpu: Series,
    /// Round trips per page.
    trips: Series,
}

/// Queues the same number of URIs per group in both frontiers.
pub fn fill(scene: &Scene, hosts: &Hosts, groups: u64, uris: u64) {
    fill_ours(&scene.ours, hosts, groups, uris);
    fill_theirs(&scene.plain, hosts, groups, uris);
}

/// Queues URIs with Veidemann's scripts.
pub fn fill_theirs(server: &Server, hosts: &Hosts, groups: u64, uris: u64) {
    let scripts = Scripts::load(server);
    let mut feeder = Feeder::new(server);
    let now = veidemann::now_ms();
    for chg in 0..groups {
        for i in 0..uris {
            scripts.queue(&mut feeder, hosts, chg, i, now);
        }
    }
    feeder.finish();
    assert_eq!(queued(server), groups * uris);
}

/// Queues URIs with `CHG.*` commands.
pub fn fill_ours(server: &Server, hosts: &Hosts, groups: u64, uris: u64) {
    let mut feeder = Feeder::new(server);
    for chg in 0..groups {
        commands::keep(&mut feeder, hosts, chg, uris);
    }
    feeder.finish();
    assert_eq!(queued(server), groups * uris);
}

/// Fetches pages with `CHG.*` commands.
pub fn our_pages(server: &Server, span: Duration, run: &mut Run) {
    let before = queued(server);
    let mut client = Client::unix(server);
    let mut lease = Lease::of(client.line("CHG.NEXT '' BLOCK 5000"), 0).expect("a group is due");
    let pause = PAUSE.as_millis();
    let pages = run.pages(server, span, || {
        let Lease {
            chg,
            token,
            execution,
            ..
        } = &lease;
        let reply = client.line(&format!(
            "CHG.RELEASE '' {chg} {token} DELAY {pause} DONE {execution} NEXT BLOCK 5000"
        ));
        lease = Lease::of(reply, 1).expect("a group is due");
        1
    });
    let done = before - queued(server);
    assert_eq!(done, pages, "every page counts once");
}

/// Fetches pages with Veidemann's sequence of commands.
pub fn their_pages(server: &Server, span: Duration, run: &mut Run) {
    let before = queued(server);
    let worker = Worker::start(server);
    let mut harvester = Harvester::new(server);
    assert!(harvester.page(PAUSE), "a group is due");
    let pages = run.pages(server, span, || {
        let trips = harvester.trips();
        assert!(harvester.page(PAUSE), "a group is due");
        harvester.trips() - trips
    });
    worker.finish();
    assert_eq!(before - queued(server), pages + 1);
}

impl Run {
    /// Fetches pages for `span`. `page` fetches one page and returns the number of its round trips.
    /// Returns the number of pages.
    fn pages(&mut self, server: &Server, span: Duration, mut page: impl FnMut() -> u64) -> u64 {
        let cpu = cpu_seconds(server.pid());
        let start = Instant::now();
        let (mut pages, mut trips) = (0, 0);
        while start.elapsed() < span {
            trips += page();
            pages += 1;
        }
        let each = |figure: f64| figure / pages as f64;
        self.rate.push(1.0 / each(start.elapsed().as_secs_f64()));
        self.cpu.push(1e6 * each(cpu_seconds(server.pid()) - cpu));
        self.trips.push(each(trips as f64));
        pages
    }
}
