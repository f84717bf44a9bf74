//! F5: a page with very many captures, and what others wait for meanwhile.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use redis_tests::http::{Connection, get};

use super::corpus::{CAPTURES, Corpus};
use super::serving::{Ours, Peer};
use crate::Plan;
use crate::report::{Findings, Goal, Row, say};
use crate::series::{Series, grouped, time};

/// Without a limit pywb gives so many rows.
const LIMIT: u64 = 100_000;
/// The others ask so often a second.
const RATE: u32 = 200;

/// What was measured of one of the two.
#[derive(Default)]
struct Figures {
    all: Series,
    ten: Series,
    idle: Series,
    meanwhile: Series,
}

/// Measures it.
pub fn measure(plan: &Plan, corpus: &Corpus, peer: Option<&Peer>) -> Findings {
    let ours = Ours::start(&corpus.path(""), &corpus.config());
    let theirs = peer.map(|peer| peer.start(&corpus.config()));
    let addresses = [
        Some(ours.address()),
        theirs.as_ref().map(|running| running.address()),
    ];
    let target = |limit: u64| {
        format!(
            "/busy/index?url=http://radio.example.org/live&closest=20000615120000&limit={limit}"
        )
    };
    let mut figures = [Figures::default(), Figures::default()];
    for rep in 1..=plan.reps {
        let mut rows = Vec::new();
        for (address, figures) in addresses.iter().zip(&mut figures) {
            let Some(address) = *address else { continue };
            say(&format!("F5: closest ({rep}/{})", plan.reps));
            let whole = timed(address, &target(LIMIT), &mut figures.all);
            let ten = timed(address, &target(10), &mut figures.ten);
            assert!(
                whole.starts_with(&ten[..]),
                "{address}: the first ten are the closest"
            );
            rows.push(whole);
            let others = corpus
                .singles
                .iter()
                .map(|url| format!("/local/index?url={url}"))
                .collect::<Vec<_>>();
            figures.idle.0.extend(waits(address, &others, || {
                std::thread::sleep(Duration::from_secs(1))
            }));
            figures
                .meanwhile
                .0
                .extend(waits(address, &others, || _ = get(address, &target(LIMIT))));
        }
        if let [ours, theirs] = &rows[..] {
            assert!(ours == theirs, "the same captures in the same order");
        }
    }
    findings(plan, &figures)
}

/// Asks, and adds the seconds until all of the answer is there. Gives the timestamps of its rows.
fn timed(address: SocketAddr, target: &str, seconds: &mut Series) -> Vec<String> {
    let start = Instant::now();
    let answer = get(address, target);
    seconds.0.push(start.elapsed().as_secs_f64());
    assert_eq!(answer.status, 200, "{}", answer.text());
    let text = answer.text();
    let second = |line: &str| line.split(' ').nth(1).unwrap_or_default().to_owned();
    text.lines().map(second).collect()
}

/// Milliseconds that other clients wait while something is done: each is due at its time, whether or not those
/// before it have been answered.
fn waits(address: SocketAddr, targets: &[String], something: impl FnOnce()) -> Vec<f64> {
    const CLIENTS: u32 = 8;
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let over = &over;
                scope.spawn(move || {
                    let mut connection = Connection::open(address).expect("the server accepts");
                    let interval = Duration::from_secs(1) / RATE * CLIENTS;
                    let mut due = Instant::now() + Duration::from_secs(1) / RATE * client;
                    let mut waits = Vec::new();
                    for target in targets.iter().cycle().skip(client as usize * 97) {
                        if over.load(Ordering::Relaxed) {
                            break;
                        }
                        std::thread::sleep(due.saturating_duration_since(Instant::now()));
                        let answer = connection.ask("GET", target, &[], b"").expect("an answer");
                        assert_eq!(answer.status, 200);
                        waits.push(due.elapsed().as_secs_f64() * 1e3);
                        due += interval;
                    }
                    waits
                })
            })
            .collect();
        something();
        over.store(true, Ordering::Relaxed);
        let waits = clients
            .into_iter()
            .map(|client| client.join().expect("the other clients are answered"));
        waits.flatten().collect()
    })
}

fn findings(plan: &Plan, [ours, theirs]: &[Figures; 2]) -> Findings {
    let mut found = Findings::default();
    let there = !theirs.all.0.is_empty();
    let told = |series: &Series| {
        if there {
            time(series.median())
        } else {
            String::new()
        }
    };
    let captures = grouped(plan.scaled(CAPTURES));
    let mut row = |what: String, figure: fn(&Figures) -> &Series, goal| {
        found.rows.push(Row {
            id: "F5",
            what,
            against: "pywb, 2 workers".into(),
            ours: time(figure(ours).median()),
            theirs: told(figure(theirs)),
            result: figure(theirs).over(figure(ours)),
            goal: if there { goal } else { Goal::Known },
        });
    };
    row(
        format!(
            "{captures} captures of one key, the {} `closest`",
            grouped(LIMIT.min(plan.scaled(CAPTURES)))
        ),
        |figures| &figures.all,
        Goal::AtLeast(50.0),
    );
    row(
        "the same, `limit=10`".into(),
        |figures| &figures.ten,
        Goal::Known,
    );
    let quantiles = |figures: &Figures| -> String {
        let of = |series: &Series| format!("{:.2}", series.quantile(0.99));
        if figures.idle.0.is_empty() {
            String::new()
        } else {
            format!("{} / {} ms", of(&figures.idle), of(&figures.meanwhile))
        }
    };
    found.rows.push(Row {
        id: "F5",
        what: format!("others meanwhile, {RATE} a second: p99 when idle / meanwhile"),
        against: "pywb, 2 workers".into(),
        ours: quantiles(ours),
        theirs: quantiles(theirs),
        result: Series(vec![
            ours.meanwhile.quantile(0.99) - ours.idle.quantile(0.99),
        ]),
        goal: Goal::AtMost(10.0, "ms"),
    });
    found.note(
        "F5.",
        format!(
            "The moment is near the first capture, which is kind to pywb: it sorts by inserting, and near one in the middle it \
             took 27 s where that was tried, while gunicorn ends a worker that says nothing for 30 s. With `limit=10` only ten \
             rows are to be written: {} here, {} there. The others ask for one row of another file.",
            time(ours.ten.median()),
            told(&theirs.ten),
        ),
        &["make bench ONLY=F5"],
    );
    found
}
