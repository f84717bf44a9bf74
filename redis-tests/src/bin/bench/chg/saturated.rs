//! C5: pages per second of a server that many workers keep busy.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use redis_tests::{Server, ok};

use super::commands::Lease;
use super::cycle::{fill, fill_ours};
use super::hosts::Hosts;
use super::veidemann::{Harvester, Worker};
use super::{Scene, queued};
use crate::Plan;
use crate::load::{Client, Pieces, Throughput, Watch};
use crate::report::{Findings, note, table};
use crate::series::{Series, grouped, rate};
use crate::targets;

/// Number of workers. Each worker has its own connection, on which it waits for its next page.
pub const WORKERS: usize = 64;
/// Pause of a group after each page.
const PAUSE: Duration = Duration::from_millis(100);
/// Number of groups. The number is so high that a group is always due.
const GROUPS: u64 = 40_000;

/// Measures pages per second.
pub fn measure(plan: &Plan, hosts: &Hosts) -> Findings {
    // Queue more URIs than the run fetches.
    let uris = plan.scaled(20).max(5);
    let (scene, packed_server) = (Scene::empty(), super::packed());
    let mut rates = [(); 4].map(|()| Series::default());
    let mut busy = [(); 4].map(|()| Series::default());
    for _ in plan.repeat("C5: 64 workers") {
        scene.clear();
        fill(&scene, hosts, GROUPS, uris);
        let ours = our_pages(&scene.ours, plan.span());
        let veidemann = harvest(&scene.plain, plan.span());
        scene.clear();
        fill(&scene, hosts, GROUPS, uris);
        let atomic = pages(&scene.plain, plan.span(), &Atomic::load(&scene.plain));
        ok!(packed_server.wire(), "FLUSHALL", "SYNC");
        fill_ours(&packed_server, hosts, GROUPS, uris);
        let packed = our_pages(&packed_server, plan.span());
        for (number, run) in [ours, atomic, veidemann, packed].into_iter().enumerate() {
            rates[number].push(run.rate);
            busy[number].push(run.busy);
        }
    }
    let [ours, atomic, theirs, packed] = &rates;
    let [our_busy, atomic_busy, their_busy, packed_busy] = busy.map(|busy| 100.0 * busy.median());
    let shown = |rates: &Series, busy: f64| format!("{} (busy {busy:.0} %)", rates.shown(rate));
    let micros = |rates: &Series, busy: f64| 1e4 * busy / rates.median();
    let what = format!("pages, {WORKERS} connections: `RELEASE … DONE … NEXT`");
    let mut found = Findings::default();
    table! { found;
        "C5", &what, "one atomic Lua script for release and lease", shown(ours, our_busy),
            shown(atomic, atomic_busy), ours.over(atomic), targets::SATURATED_SCRIPT;
        "C5", what, "Veidemann's sequence", shown(ours, our_busy), shown(theirs, their_busy),
            ours.over(theirs), targets::SATURATED_SEQUENCE;
        "C5", format!("pages of a packed frontier, {WORKERS} connections"), "one atomic Lua script for release and lease",
            shown(packed, packed_busy), shown(atomic, atomic_busy), packed.over(atomic),
            targets::SATURATED_PACKED;
        "C5", format!("pages of a packed frontier, {WORKERS} connections"), "Veidemann's sequence",
            shown(packed, packed_busy), shown(theirs, their_busy), packed.over(theirs),
            targets::SATURATED_PACKED_SEQUENCE;
    }
    note!(found, "saturated.md"; workers = WORKERS, groups = grouped(GROUPS), uris = uris,
        pause = PAUSE.as_millis(), page = micros(ours, our_busy), packed = micros(packed, packed_busy),
        atomic = micros(atomic, atomic_busy));
    found
}

/// Fetches pages with `CHG.*` commands for `span`.
pub fn our_pages(server: &Server, span: Duration) -> Throughput {
    pages(server, span, &Ours)
}

/// Builds the requests of one page cycle, and parses the replies.
trait Pages {
    /// Returns the command that leases the first group.
    fn first(&self) -> String;
    /// Parses the lease in the reply to [`first`](Pages::first).
    fn lease(&self, reply: Pieces) -> Option<Lease>;
    /// Returns the command that ends a page and leases the next group.
    fn next(&self, lease: &Lease, draw: f64) -> String;
    /// Parses the lease in the reply to [`next`](Pages::next).
    fn next_lease(&self, reply: Pieces) -> Option<Lease>;
}

struct Ours;

impl Pages for Ours {
    fn first(&self) -> String {
        "CHG.NEXT ''".to_owned()
    }

    fn lease(&self, reply: Pieces) -> Option<Lease> {
        Lease::of(reply, 0)
    }

    fn next(&self, lease: &Lease, _: f64) -> String {
        let Lease {
            chg,
            token,
            execution,
            ..
        } = lease;
        let pause = PAUSE.as_millis();
        format!("CHG.RELEASE '' {chg} {token} DELAY {pause} DONE {execution} NEXT")
    }

    fn next_lease(&self, reply: Pieces) -> Option<Lease> {
        Lease::of(reply, 1)
    }
}

/// The documented keys, updated by one script.
struct Atomic {
    next: String,
    page: String,
}

impl Atomic {
    fn load(server: &Server) -> Atomic {
        let load = |script: &str| ok!(server.wire(), "SCRIPT", "LOAD", script).text();
        Atomic {
            next: load(include_str!("atomic/next.lua")),
            page: load(include_str!("atomic/page.lua")),
        }
    }
}

impl Pages for Atomic {
    fn first(&self) -> String {
        let next = &self.next;
        format!("EVALSHA {next} 4 chg_ready chg_wait chg_busy chg_token CHG: 600000")
    }

    /// The first lease has no URI. The next call of the script completes the lease in the same way.
    fn lease(&self, reply: Pieces) -> Option<Lease> {
        Lease::of(reply, 0)
    }

    fn next(&self, lease: &Lease, draw: f64) -> String {
        let Lease { chg, token, .. } = lease;
        let (execution, uri) = lease.execution.split_once(' ').unwrap_or(("-", "-"));
        format!(
            "EVALSHA {} 9 CHG:{chg} UEID:{chg}:{execution} UCHG:{chg} chg_busy chg_wait chg_ready EIDC QCT chg_token \
             {chg} {token} {} {uri} {execution} 600000 {draw}",
            self.page,
            PAUSE.as_millis()
        )
    }

    fn next_lease(&self, reply: Pieces) -> Option<Lease> {
        let [chg, execution, uri] = <[String; 3]>::try_from(reply.texts).ok()?;
        Some(Lease {
            chg,
            token: reply.ints[1],
            due: 0,
            execution: format!("{execution} {uri}"),
        })
    }
}

/// Fetches pages for `span` with all workers. Each connection has one request in progress.
fn pages(server: &Server, span: Duration, how: &impl Pages) -> Throughput {
    let before = queued(server);
    let worker = |_| {
        let mut client = Client::unix(server);
        let lease = how.lease(client.line(&how.first()));
        (client, lease.expect("a group is due"))
    };
    let mut workers: VecDeque<(Client, Lease)> = (0..WORKERS).map(worker).collect();
    let mut draws = 0u64;
    let mut draw = || {
        draws = draws.wrapping_add(0x9e37_79b9_7f4a_7c15);
        (draws >> 11) as f64 / (1u64 << 53) as f64
    };
    let watch = Watch::start(server);
    for (client, lease) in &mut workers {
        client.send(&how.next(lease, draw()));
    }
    let mut pages = 0;
    while let Some((mut client, mut lease)) = workers.pop_front() {
        lease = how
            .next_lease(client.read())
            .unwrap_or_else(|| panic!("no group is due after {:?}", lease.chg));
        pages += 1;
        if watch.elapsed() < span {
            client.send(&how.next(&lease, draw()));
            workers.push_back((client, lease));
        }
    }
    let run = watch.stop(pages, 0);
    let done = before - queued(server);
    assert!(
        done + WORKERS as u64 >= pages as u64,
        "every page counts once: {done} of {pages}"
    );
    run
}

/// Fetches pages with Veidemann's sequence of commands.
fn harvest(server: &Server, span: Duration) -> Throughput {
    let worker = Worker::start(server);
    let watch = Watch::start(server);
    let harvest = |_| {
        let mut harvester = Harvester::new(server);
        let (start, mut pages) = (Instant::now(), 0);
        while start.elapsed() < span {
            assert!(harvester.page(PAUSE), "a group is due");
            pages += 1;
        }
        pages
    };
    let pages = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..WORKERS)
            .map(|number| scope.spawn(move || harvest(number)))
            .collect();
        let pages = threads
            .into_iter()
            .map(|thread| thread.join().expect("a worker is answered"));
        pages.sum()
    });
    let run = watch.stop(pages, 0);
    worker.finish();
    run
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chg::veidemann::{Scripts, now_ms};
    use crate::load::Feeder;
    use redis_tests::Options;

    #[test]
    fn the_script_does_every_page_once() {
        let hosts = Hosts { seed: 1 };
        let server = Options::new().no_module().start();
        let scripts = Scripts::load(&server);
        let mut feeder = Feeder::new(&server);
        for chg in 0..200 {
            for i in 0..5 {
                scripts.queue(&mut feeder, &hosts, chg, i, now_ms());
            }
        }
        feeder.finish();
        let how = Atomic::load(&server);
        let mut client = Client::unix(&server);
        let mut lease = how
            .lease(client.line(&how.first()))
            .expect("a group is due");
        for done in 0..100 {
            lease = how
                .next_lease(client.line(&how.next(&lease, 0.5)))
                .expect("a group is due");
            assert_eq!(queued(&server), 1_000 - done);
        }
        assert_eq!(ok!(server.wire(), "ZCARD", "chg_busy").int(), 1);
    }
}
