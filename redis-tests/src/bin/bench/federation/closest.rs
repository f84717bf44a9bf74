//! F5: a query for a page with very many captures, and the waiting times of other clients during
//! the query.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use redis_tests::http::{Connection, get};

use super::corpus::{CAPTURES, Corpus};
use super::serving::{Ours, Peer};
use crate::Plan;
use crate::report::{Findings, Goal, note, table};
use crate::series::{Series, grouped, time};
use crate::targets;

/// Number of rows that pywb returns without a limit.
const LIMIT: u64 = 100_000;
/// Requests per second of the other clients.
const RATE: u32 = 200;

/// Measurements of one server.
#[derive(Default)]
struct Figures {
    all: Series,
    ten: Series,
    idle: Series,
    meanwhile: Series,
}

/// Measures both servers.
pub fn measure(plan: &Plan, corpus: &Corpus, peer: Option<&Peer>) -> Findings {
    let ours = Ours::start(&corpus.path(""), &corpus.config());
    let theirs = peer.map(|peer| peer.start(&corpus.config()));
    let theirs = theirs.as_ref().map(|running| running.address());
    let target = |limit: u64| {
        format!(
            "/busy/index?url=http://radio.example.org/live&closest=20000615120000&limit={limit}"
        )
    };
    let others = corpus
        .singles
        .iter()
        .map(|url| format!("/local/index?url={url}"));
    let others: Vec<String> = others.collect();
    let mut figures = [Figures::default(), Figures::default()];
    for _ in plan.repeat("F5: closest") {
        let mut rows = Vec::new();
        for (address, figures) in [Some(ours.address()), theirs].into_iter().zip(&mut figures) {
            let Some(address) = address else { continue };
            let whole = timed(address, &target(LIMIT), &mut figures.all);
            let ten = timed(address, &target(10), &mut figures.ten);
            assert!(
                whole.starts_with(&ten[..]),
                "{address}: the first ten are the closest"
            );
            rows.push(whole);
            let second = || std::thread::sleep(Duration::from_secs(1));
            figures.idle.0.extend(waits(address, &others, second));
            let closest = || _ = get(address, &target(LIMIT));
            figures.meanwhile.0.extend(waits(address, &others, closest));
        }
        if let [ours, theirs] = &rows[..] {
            assert!(ours == theirs, "the same captures in the same order");
        }
    }
    findings(plan, &figures)
}

/// Sends a request and records the time in seconds until the whole response has arrived. Returns
/// the timestamps of the rows in the response.
fn timed(address: SocketAddr, target: &str, seconds: &mut Series) -> Vec<String> {
    let start = Instant::now();
    let answer = get(address, target);
    seconds.push(start.elapsed().as_secs_f64());
    assert_eq!(answer.status, 200, "{}", answer.text());
    let text = answer.text();
    let second = |line: &str| line.split(' ').nth(1).unwrap_or_default().to_owned();
    text.lines().map(second).collect()
}

/// Returns the milliseconds that other clients wait while `something` runs. The other clients send
/// requests on schedule, even if earlier requests have no response yet.
fn waits(address: SocketAddr, targets: &[String], something: impl FnOnce()) -> Vec<f64> {
    const CLIENTS: u32 = 8;
    let over = AtomicBool::new(false);
    let client = |number: u32| {
        let mut connection = Connection::open(address).expect("the server accepts");
        let interval = Duration::from_secs(1) / RATE;
        let mut due = Instant::now() + interval * number;
        let mut waits = Vec::new();
        for target in targets.iter().cycle().skip(number as usize * 97) {
            if over.load(Ordering::Relaxed) {
                break;
            }
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            let answer = connection.ask("GET", target, &[], b"").expect("an answer");
            assert_eq!(answer.status, 200);
            waits.push(due.elapsed().as_secs_f64() * 1e3);
            due += interval * CLIENTS;
        }
        waits
    };
    let client = &client;
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| scope.spawn(move || client(number)))
            .collect();
        something();
        over.store(true, Ordering::Relaxed);
        let waits = clients
            .into_iter()
            .map(|client| client.join().expect("the others are answered"));
        waits.flatten().collect()
    })
}

fn findings(plan: &Plan, [ours, theirs]: &[Figures; 2]) -> Findings {
    let mut found = Findings::default();
    let goal = if theirs.all.0.is_empty() {
        Goal::Known
    } else {
        targets::CLOSEST
    };
    let [captures, limit] =
        [CAPTURES, CAPTURES.min(LIMIT)].map(|n| grouped(n.min(plan.scaled(CAPTURES))));
    let against = "pywb, 2 workers";
    let quantiles = |figures: &Figures| {
        let idle = figures
            .idle
            .shown(|_| format!("{:.2} / ", figures.idle.quantile(0.99)));
        idle + &figures
            .meanwhile
            .shown(|_| format!("{:.2} ms", figures.meanwhile.quantile(0.99)))
    };
    table! { found;
        "F5", format!("{captures} captures of one key, the {limit} `closest`"), against,
            ours.all.shown(time), theirs.all.shown(time), theirs.all.over(&ours.all), goal;
        "F5", "the same, `limit=10`", against, ours.ten.shown(time), theirs.ten.shown(time),
            theirs.ten.over(&ours.ten), Goal::Known;
        "F5", format!("other clients, {RATE} requests per second: p99 idle / meanwhile"), against,
            quantiles(ours), quantiles(theirs),
            ours.meanwhile.quantile(0.99) - ours.idle.quantile(0.99), targets::CLOSEST_OTHERS;
    }
    note!(found, "closest.md"; ours = ours.ten.shown(time), theirs = theirs.ten.shown(time));
    found
}
