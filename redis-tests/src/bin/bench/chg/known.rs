//! K1: memory of known URLs, and time to discover URLs, compared with scrapy-redis's set of fingerprints.

use std::time::Duration;

use redis_tests::{Options, Server, ok};

use super::hosts::Hosts;
use super::{packed_options, quiet};
use crate::Plan;
use crate::dedupe::{Footprint, rdb_bytes};
use crate::load::Feeder;
use crate::report::{Findings, Goal, note, say, table};
use crate::series::{Series, grouped};
use crate::targets;
use crate::told::Spent;

/// Number of URLs in a call.
const CALL: u64 = 100;
/// Number of URLs of a group.
const GROUP: u64 = 1000;
/// Number of URLs in each timed part.
const TIMED: u64 = 20_000;
/// Number of leases that are timed.
const LEASES: u64 = 5_000;

/// The kind of commands that the measurement sends.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// `CHG.DISCOVER` and `CHG.SETTLE`.
    Ours,
    /// `CHG.ADDURI`.
    Added,
    /// `SADD` of the SHA-1 of each URL.
    Set,
}

/// A server with URLs, which are numbered from 0 on.
struct Crawl<'a> {
    /// The kind of commands that add the first URLs.
    kind: Kind,
    server: Server,
    feeder: Feeder,
    hosts: &'a Hosts,
}

impl<'a> Crawl<'a> {
    fn start(kind: Kind, hosts: &'a Hosts) -> Crawl<'a> {
        let server = quiet(match kind {
            Kind::Set => Options::new().no_module(),
            _ => packed_options(),
        });
        let feeder = Feeder::new(&server);
        Crawl {
            kind,
            server,
            feeder,
            hosts,
        }
    }

    /// Adds URLs, and marks them as done.
    fn done(&mut self, urls: std::ops::Range<u64>) {
        if self.kind != Kind::Ours {
            return self.discover(self.kind, urls);
        }
        let mut items = Vec::new();
        for n in urls {
            let (chg, i) = (n / GROUP, n % GROUP);
            items.extend([
                self.hosts.chg(chg),
                self.hosts.uri(chg, i),
                "NEVER".to_owned(),
            ]);
            if items.len() as u64 == 3 * CALL {
                let head = format!("CHG.SETTLE '' crawl ITEMS {CALL}");
                self.feeder.request_with(&head, &items);
                items.clear();
            }
        }
        self.feeder.finish();
    }

    /// Discovers URLs.
    fn discover(&mut self, kind: Kind, urls: std::ops::Range<u64>) {
        let mut words: Vec<String> = Vec::new();
        for n in urls {
            let (chg, i) = (n / GROUP, n % GROUP);
            match kind {
                Kind::Set => {
                    let digest = sha1_smol::Sha1::from(self.hosts.uri(chg, i)).digest();
                    words.push(digest.to_string());
                }
                _ => words.extend(self.hosts.tuple(chg, i)),
            }
            if (n + 1).is_multiple_of(CALL) {
                let head = match kind {
                    Kind::Ours => format!("CHG.DISCOVER '' crawl URI ITEMS {CALL}"),
                    Kind::Added => "CHG.ADDURI '' other".to_owned(),
                    Kind::Set => "SADD dupefilter".to_owned(),
                };
                self.feeder.request_with(&head, &words);
                words.clear();
            }
        }
        self.feeder.finish();
    }

    /// Returns the server time per URL in microseconds, for the fastest of `parts` runs.
    fn time(&mut self, kind: Kind, first: u64, parts: u64, is_again: bool) -> f64 {
        let command = match kind {
            Kind::Ours => "chg.discover",
            Kind::Added => "chg.adduri",
            Kind::Set => "sadd",
        };
        let mut fastest = f64::INFINITY;
        for part in 0..parts {
            let from = first + if is_again { 0 } else { part * TIMED };
            Spent::reset(&self.server);
            self.discover(kind, from..from + TIMED);
            let spent = Spent::since_reset(&self.server);
            fastest = fastest.min(spent.micros(&[command]) / TIMED as f64);
        }
        fastest
    }
}

/// Returns the bytes that a done URL takes in memory and in the RDB file.
fn footprint(crawl: &mut Crawl<'_>, urls: u64) -> (f64, f64) {
    say(&format!("K1: {} known URLs", grouped(urls)));
    let before = Footprint::of(&crawl.server);
    crawl.done(0..urls);
    let grown = Footprint::of(&crawl.server).since(before, urls);
    let mut patient = crawl.server.wire().within(Duration::from_secs(900));
    ok!(patient, "SAVE");
    let file = rdb_bytes(&crawl.server) as f64 / urls as f64;
    (grown.resident, file)
}

/// Adds the rows about memory.
fn footprints(found: &mut Findings, urls: u64, ours: (f64, f64), theirs: (f64, f64)) {
    let bytes = |bytes: f64| format!("{bytes:.1} B");
    table! { found;
        "K1", format!("memory of a done URL, {} of them", grouped(urls)), "`SADD` of fingerprints",
            bytes(ours.0), bytes(theirs.0), ours.0, targets::KNOWN_MEMORY;
        "K1", format!("RDB file per done URL, {} of them", grouped(urls)), "`SADD` of fingerprints",
            bytes(ours.1), bytes(theirs.1), ours.1, targets::KNOWN_FILE;
    }
}

/// Measures only the memory.
pub fn memory(hosts: &Hosts, urls: u64) -> Findings {
    let [ours, theirs] =
        [Kind::Ours, Kind::Set].map(|kind| footprint(&mut Crawl::start(kind, hosts), urls));
    let mut found = Findings::default();
    footprints(&mut found, urls, ours, theirs);
    found
}

/// Measures the memory and the times.
pub fn measure(plan: &Plan, hosts: &Hosts) -> Findings {
    let urls = plan.scaled(10_000_000) / CALL * CALL;
    let mut memory = Vec::new();
    let [
        mut new,
        mut done,
        mut queued,
        mut added,
        mut added_again,
        mut set,
        mut set_again,
    ] = std::array::from_fn(|_| Series::default());
    for kind in [Kind::Ours, Kind::Set] {
        let mut crawl = Crawl::start(kind, hosts);
        memory.push(footprint(&mut crawl, urls));
        for rep in 0..plan.reps as u64 {
            let first = urls + 2 * rep * 5 * TIMED;
            match kind {
                Kind::Ours => {
                    new.push(crawl.time(kind, first, 5, false));
                    queued.push(crawl.time(kind, first, 5, true));
                    done.push(crawl.time(kind, 0, 5, true));
                    // URIs of an execution that does not remember its URLs.
                    let first = first + 5 * TIMED;
                    added.push(crawl.time(Kind::Added, first, 5, false));
                    added_again.push(crawl.time(Kind::Added, first, 5, true));
                }
                _ => {
                    set.push(crawl.time(kind, first, 5, false));
                    set_again.push(crawl.time(kind, first, 5, true));
                }
            }
        }
    }
    let micros = |micros: &Series| micros.shown(|micros| format!("{micros:.2} µs"));
    let mut found = Findings::default();
    footprints(&mut found, urls, memory[0], memory[1]);
    table! { found;
        "K1", "`DISCOVER` of 100 URLs that are done, per URL", "`SADD` of known fingerprints", micros(&done),
            micros(&set_again), done.clone(), targets::KNOWN_TIME;
        "K1", "`DISCOVER` of 100 URLs that are queued, per URL", "`ADDURI` of the same", micros(&queued),
            micros(&added_again), queued.over(&added_again), Goal::Known;
        "K1", "`DISCOVER` of 100 new URLs, per URL", "`ADDURI` of new URIs", micros(&new), micros(&added),
            new.over(&added), targets::NEW_TIME;
    }
    let behind = plan.scaled(100_000);
    let next = plan.repeat("K1: NEXT … EXECUTION");
    let next: Series = next.map(|_| next_of_execution(hosts, behind)).collect();
    table! { found;
        "K1", format!("`NEXT … EXECUTION` behind {} due groups of other executions", grouped(behind)), "–",
            micros(&next), "", next, targets::NEXT_EXECUTION;
    }
    note!(found, "known.md"; urls = grouped(urls), set = set.median(), new = new.median());
    found
}

/// Returns the duration of a lease in microseconds, for an execution whose groups became due after `behind` groups of
/// another execution.
fn next_of_execution(hosts: &Hosts, behind: u64) -> f64 {
    let server = quiet(packed_options());
    let mut feeder = Feeder::new(&server);
    for (execution, groups) in [("others", 0..behind), ("own", behind..behind + LEASES)] {
        for chg in groups {
            feeder.request_with(&format!("CHG.ADDURI '' {execution}"), &hosts.tuple(chg, 0));
        }
    }
    feeder.finish();
    Spent::reset(&server);
    for _ in 0..LEASES {
        feeder.line("CHG.NEXT '' EXECUTION own");
    }
    feeder.finish();
    let spent = Spent::since_reset(&server);
    assert_eq!(server.info_number("crawlspace_chg_leases"), LEASES as i64);
    spent.micros(&["chg.next"]) / LEASES as f64
}
