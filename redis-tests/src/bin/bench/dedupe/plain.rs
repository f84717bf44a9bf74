//! D11: the plain commands of Browsertrix on a packed index, and their cost for other clients.

use redis_tests::{Options, Server, ok, until};

use super::corpus::Corpus;
use super::scene::{Scene, start_plain_storage};
use crate::Plan;
use crate::callgrind::{Callgrind, RUN, shown};
use crate::load::{Batches, Feeder, encode, line, saturate};
use crate::report::{Findings, Goal, note, say, table};
use crate::series::{Series, rate};
use crate::targets;

/// Number of requests in progress on each connection.
const DEPTH: usize = 32;
/// Number of turns per repetition for other clients.
const TURNS: usize = 10;
const SETTING: &str = "crawlspace.dedupe-plain-commands";

/// Commands of other clients: name, and the command up to the number of the key and after it.
const OTHERS: [(&str, &str, &str); 4] = [
    ("`GET`", "GET user:", ""),
    ("`SET`", "SET user:", " xxxxxxxxxxxxxxxx"),
    ("`HGET`", "HGET session:", " field"),
    ("`HGET` of counts", "HGET h:crawl-", ":counts totalUrls"),
];

/// Measures the two look-ups of a crawler, and commands of clients that use no index.
pub fn measure(plan: &Plan, scene: &Scene, corpus: &Corpus, hashes: u64) -> Findings {
    say("D11: plain look-ups on a packed index");
    let served = &scene.packed;
    serve(served, true);
    let crawls = corpus.crawls(hashes, 10, 0);
    let mut draw = 0;
    let batches = Batches::new(plan.scaled(20_000) as usize, DEPTH, |out| {
        // Each payload is looked up by two requests: its owner, then the record.
        let n = corpus.bits(draw / 2, 3) % hashes;
        let hash = corpus.hash(n);
        if draw % 2 == 0 {
            encode(out, &[b"HGET", b"allhashes", &hash[..]]);
        } else {
            let of = crawls.iter().find(|crawl| crawl.own.contains(&n));
            let key = format!("h:{}", of.expect("a crawl for each hash").id);
            encode(out, &[b"HGET", key.as_bytes(), &hash[..]]);
        }
        draw += 1;
    });
    let [mut packed, mut plain] = [Series::default(), Series::default()];
    for rep in 1..=plan.reps {
        for (server, rates) in [(served, &mut packed), (&scene.plain, &mut plain)] {
            let run = plan.saturate(server, &batches, rep);
            assert_eq!(run.nils, 0, "every hash is known");
            rates.push(run.rate);
        }
    }
    serve(served, false);
    let mut found = Findings::default();
    table! { found;
        "D11", "`HGET` of the owner and of the record, pipeline depth 32, packed", "the same on plain keys",
            packed.shown(rate), plain.shown(rate), packed.over(&plain), targets::PLAIN_COMMANDS;
    }
    note!(found, "plain.md");
    found
}

/// Switches the setting, and waits until it has an effect.
fn serve(server: &Server, on: bool) {
    ok!(
        server.wire(),
        "CONFIG",
        "SET",
        SETTING,
        if on { "yes" } else { "no" }
    );
    until("the setting has an effect", || {
        server.info_number("plain_commands") == i64::from(on)
    });
}

/// Creates a packed index with one hash.
fn pack(server: &Server) {
    let mut wire = server.wire();
    let hash = format!("sha256:{:064x}", 1);
    let date = "20260319102015";
    wire.expect_ok(&[
        "DEDUPE.ADD",
        "",
        "crawl",
        &hash,
        "0",
        date,
        "http://e/",
        "1",
    ]);
    wire.expect_ok(&["DEDUPE.COMMIT", "", "crawl"]);
    wire.expect_ok(&["DEDUPE.PACK", ""]);
}

/// Measures what the setting costs other clients.
pub fn others(plan: &Plan) -> Findings {
    let mut found = Findings::default();
    rates(plan, &mut found);
    instructions(plan, &mut found);
    note!(found, "plain_others.md"; run = RUN);
    found
}

/// Compares two servers that have a packed index, with and without the setting.
fn rates(plan: &Plan, found: &mut Findings) {
    say("D11: rates of other clients");
    let servers = [start_plain_storage(), start_plain_storage()];
    servers.iter().for_each(pack);
    let [served, quiet] = &servers;
    serve(served, true);
    for (name, before, after) in OTHERS {
        let mut number = 0u64;
        let batches = Batches::new(plan.scaled(5_000) as usize, DEPTH, |out| {
            number = number
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let key = (number >> 40) % 100_000;
            line(out, &format!("{before}{key:06}{after}"));
        });
        let [mut with, mut without] = [Series::default(), Series::default()];
        for rep in 0..plan.reps {
            let mut sums = [0.0; 2];
            for turn in 0..TURNS {
                let first = (rep * TURNS + turn) * batches.len() / (plan.reps * TURNS);
                for (server, sum) in [served, quiet].into_iter().zip(&mut sums) {
                    *sum += saturate(server, &batches, plan.span() / TURNS as u32, first).rate;
                }
            }
            with.push(sums[0] / TURNS as f64);
            without.push(sums[1] / TURNS as f64);
        }
        table! { found;
            "", format!("{name} of another client, pipeline depth 32, with `dedupe-plain-commands`"), "the same without it",
                with.shown(rate), without.shown(rate), with.over(&without), Goal::Known;
        }
    }
}

/// Counts the instructions of commands of other clients, with and without the setting.
fn instructions(plan: &Plan, found: &mut Findings) {
    say("D11: instructions of other clients");
    let callgrind = Callgrind::start(plan, Options::new());
    pack(&callgrind.server);
    let mut feeder = Feeder::new(&callgrind.server);
    for (_, before, after) in OTHERS {
        (0..RUN).for_each(|key| feeder.line(&format!("{before}{key:06}{after}")));
    }
    feeder.finish();
    let count = |on: bool| {
        serve(&callgrind.server, on);
        OTHERS.map(|(_, before, after)| {
            let mut key = 0;
            let batches = Batches::new(RUN / DEPTH, DEPTH, |out| {
                line(out, &format!("{before}{key:06}{after}"));
                key += 1;
            });
            callgrind.lowest(&batches, drop)
        })
    };
    let (without, with) = (count(false), count(true));
    for (((name, ..), with), without) in OTHERS.iter().zip(with).zip(without) {
        table! { found;
            "", format!("instructions of {name} of another client, with `dedupe-plain-commands`"), "the same without it",
                shown(with), shown(without), 100.0 * (with / without - 1.0), Goal::Told("%");
        }
    }
}
