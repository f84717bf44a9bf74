//! Second part of `make demo`: several workers crawl several hosts politely.
//!
//! The demo's site is distributed over four host names on three servers. Independent workers lease hosts,
//! fetch pages, store new payloads, add the links that they find, and release the hosts. One worker dies
//! during the crawl, and one host is temporarily overloaded. The servers log their visits, and the logs must
//! prove that the crawl was polite. The exit status is 0 only if they do.

mod archive;
mod hosts;
mod http;
#[allow(dead_code)] // the first part of the demo uses the rest of these modules
#[path = "../demo/site.rs"]
mod site;
#[path = "../demo/stage.rs"]
mod stage;
#[allow(dead_code)]
#[path = "../demo/web.rs"]
mod web;
mod worker;

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crawlspace_client::dedupe::Index;
use crawlspace_client::frontier::Frontier;
use crawlspace_warc::{Reader, RecordType};
use redis_tests::{Server, rows};

use archive::Archive;
use hosts::{Hosts, SEED};
use stage::{Outcome, Shell, crawlspace_tool, indent, step};
use web::Visit;
use worker::{Crawl, LEASE, LEAST_PAUSE, Worker};

const EXECUTION: &[u8] = b"crawl-1";
const WORKERS: usize = 4;
/// The worker that dies, and the number of pages after which it dies.
const UNLUCKY: (usize, u32) = (2, 5);

fn main() -> ExitCode {
    match act() {
        Ok(true) => {
            println!("\nThe polite crawl is over. Every check passed.");
            ExitCode::SUCCESS
        }
        Ok(false) => {
            println!("\nThe polite crawl is over. Some checks FAILED, see above.");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("polite: {error}");
            ExitCode::FAILURE
        }
    }
}

fn act() -> Outcome<bool> {
    let folder = tempfile::Builder::new()
        .prefix("crawlspace-polite-")
        .tempdir()?;
    let shell = Shell::in_folder(&folder);
    let crawl = Crawl {
        execution: EXECUTION,
        hosts: Hosts::start()?,
        delays: Mutex::new(HashMap::new()),
    };

    step(
        1,
        "Four hosts on three servers, and the pauses that they ask for",
    );
    for (name, delay) in crawl.hosts.names() {
        let asks = match delay {
            0 => format!(
                "no pause, so the crawler pauses {} ms",
                LEAST_PAUSE.as_millis()
            ),
            ms => format!("a pause of {ms} ms"),
        };
        let beside = crawl.hosts.beside(name);
        let shared = match beside.iter().find(|other| **other != name) {
            Some(other) => format!("; shares a server with {other}"),
            None => String::new(),
        };
        println!("  {name:<17} asks for {asks}{shared}");
    }

    let unlucky = UNLUCKY.0 + 1;
    let what =
        format!("{WORKERS} workers crawl from {SEED}; number {unlucky} dies during the crawl");
    step(2, &what);
    let server = Server::start();
    let began = Instant::now();
    crawl_with_workers(&crawl, &server, folder.path())?;
    let took = began.elapsed();
    println!("  Done after {:.1} s.", took.as_secs_f64());
    let frontier = Frontier::open(&server.url(), "")?;
    let expired = frontier.expired(100)?;
    for report in &expired {
        let uri = String::from_utf8_lossy(report.uri.as_deref().unwrap_or_default());
        let ms = LEASE.as_millis();
        println!("  After {ms} ms, another worker got {uri} of the dead worker.");
    }

    step(3, "Requests in the logs of the servers");
    let mut promises = Promises { all_kept: true };
    println!(
        "  {:<17}{:>8} {:>12} {:>15} {:>10}",
        "host", "visits", "at a time", "smallest pause", "asked"
    );
    for (name, delay) in crawl.hosts.names() {
        let visits = crawl.hosts.visits(&crawl.hosts.beside(name));
        let asked = Duration::from_millis(delay).max(LEAST_PAUSE);
        let pause = smallest_pause(&visits).ok_or("a host has no visits")?;
        let here = visits.iter().filter(|visit| visit.host == name).count();
        println!(
            "  {name:<17}{here:>8} {:>12} {:>12} ms {:>7} ms",
            most_at_a_time(&visits),
            pause.as_millis(),
            asked.as_millis()
        );
    }
    for (name, delay) in crawl.hosts.names() {
        let visits = crawl.hosts.visits(&crawl.hosts.beside(name));
        let asked = Duration::from_millis(delay).max(LEAST_PAUSE);
        let is_alone = most_at_a_time(&visits) == 1;
        promises.keep(&format!("{name}: no two visits at the same time"), is_alone);
        // The server's clock has a resolution of milliseconds.
        let pause = smallest_pause(&visits).unwrap_or_default() + Duration::from_millis(1);
        let promise = format!("{name}: no pause shorter than {} ms", asked.as_millis());
        promises.keep(&promise, pause >= asked);
    }
    let names: Vec<&str> = crawl.hosts.names().map(|(name, _)| name).collect();
    let visits = crawl.hosts.visits(&names);
    let refusal = visits.iter().find(|visit| visit.status == 503);
    let left_alone = refusal.and_then(|refusal| {
        let is_later = |visit: &&Visit| visit.host == refusal.host && visit.begun > refusal.ended;
        let later = visits.iter().filter(is_later);
        later.map(|visit| visit.begun - refusal.ended).min()
    });
    let left_alone = left_alone.ok_or("no host was overloaded")?;
    let ms = left_alone.as_millis();
    let promise = format!("print.example returned 503, and got no request for {ms} ms");
    promises.keep(&promise, left_alone >= Duration::from_millis(1999));

    step(4, "Every page is fetched exactly once");
    let urls: BTreeSet<(&str, &str)> = visits.iter().map(|v| (&v.host[..], &v.path[..])).collect();
    let good = visits.iter().filter(|visit| visit.status == 200).count();
    let check = frontier.check()?;
    let margin = frontier.info()?.smallest_margin_ms;
    for (promise, kept) in rows![
        &*format!("each of the {} URLs was fetched once", urls.len()), good == urls.len();
        "the refused page was fetched later", good + 1 == visits.len();
        "the page of the dead worker was fetched later", expired.len() == 1;
        "CHG.CHECK finds no fault, and no URI is left", check.consistent && check.total == 0;
        "CHG.INFO reports no pause that was too short", margin.is_some_and(|ms| ms >= 0);
    ] {
        promises.keep(promise, kept);
    }

    let title = "Stored records: each payload once, and a small revisit record for each copy";
    step(5, title);
    let records = records(folder.path())?;
    let of = |wanted| records.iter().filter(|(kind, _)| *kind == wanted).count();
    let count = "zcat worker-*.warc.gz | grep -a '^WARC-Type: re[sv]' | sort | uniq -c";
    shell.show(count)?;
    let payloads: BTreeSet<&Vec<u8>> = records.iter().map(|(_, digest)| digest).collect();
    let (responses, revisits) = (of(RecordType::Response), of(RecordType::Revisit));
    println!("  {responses} responses and {revisits} revisits in {WORKERS} WARC files");
    let all = payloads.len();
    let known = Index::open(&server.url(), "")?.commit(EXECUTION)?.new;
    for (promise, kept) in rows![
        "a record for each URL", records.len() == urls.len();
        &*format!("a response for each of the {all} payloads"), responses == all;
        "DEDUPE.COMMIT makes the payloads visible to the next crawl", known == all as u64;
    ] {
        promises.keep(promise, kept);
    }

    step(6, "The frontier, as crawlspace chg info shows it");
    let info = format!("chg info --redis {}", server.url());
    println!("  $ crawlspace {info}");
    indent(&shell.quiet(&format!("{} {info}", crawlspace_tool()?.display()))?);
    Ok(promises.all_kept)
}

fn crawl_with_workers(crawl: &Crawl, server: &Server, folder: &Path) -> Outcome<()> {
    let mut workers = Vec::new();
    for number in 0..WORKERS {
        let file = folder.join(format!("worker-{}.warc.gz", number + 1));
        let index = Index::open(&server.url(), "")?;
        workers.push(Worker {
            crawl,
            frontier: Frontier::open(&server.url(), "")?,
            archive: Archive::create(&file, index, EXECUTION)?,
            found: server.conn(),
            dies_after: (number == UNLUCKY.0).then_some(UNLUCKY.1),
        });
    }
    workers[0].add(&[SEED.to_owned()], 1)?;
    std::thread::scope(|scope| {
        let running: Vec<_> = workers
            .iter_mut()
            // Errors are passed between threads as text.
            .map(|worker| scope.spawn(|| worker.run().map_err(|error| error.to_string())))
            .collect();
        for (number, worker) in running.into_iter().enumerate() {
            let fetched = worker.join().map_err(|_| "a worker panicked")??;
            println!("  Worker {} fetched {fetched} pages.", number + 1);
        }
        Ok(())
    })
}

/// Returns the shortest time between the end of a visit and the beginning of the next.
fn smallest_pause(visits: &[Visit]) -> Option<Duration> {
    let pause = |pair: &[Visit]| pair[1].begun.saturating_duration_since(pair[0].ended);
    visits.windows(2).map(pause).min()
}

/// Returns the maximum number of simultaneous visits.
fn most_at_a_time(visits: &[Visit]) -> usize {
    let with = |one: &Visit| {
        let is_there = |other: &&Visit| other.begun <= one.begun && one.begun <= other.ended;
        visits.iter().filter(is_there).count()
    };
    visits.iter().map(with).max().unwrap_or_default()
}

/// Returns type and payload digest of each capture in the WARC files.
fn records(folder: &Path) -> Outcome<Vec<(RecordType, Vec<u8>)>> {
    let mut records = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let mut warc: Reader<File> = Reader::open(&entry?.path())?;
        while let Some(record) = warc.next()? {
            let header = record.header();
            if let Some(digest) = header.payload_digest() {
                records.push((header.record_type(), digest.to_vec()));
            }
        }
    }
    Ok(records)
}

struct Promises {
    all_kept: bool,
}

impl Promises {
    fn keep(&mut self, what: &str, kept: bool) {
        println!("  {} {what}", if kept { "ok    " } else { "BROKEN" });
        self.all_kept &= kept;
    }
}
