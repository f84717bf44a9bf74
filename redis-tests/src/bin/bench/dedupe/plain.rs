//! D11: the plain commands of Browsertrix on a packed index, and their cost for other clients.

use redis_tests::{Server, ok, until};

use super::corpus::Corpus;
use super::scene::{Scene, start_plain_storage};
use crate::Plan;
use crate::load::{Batches, encode, line, saturate};
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
    others(plan, &mut found);
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

/// Compares two servers that have a packed index, with and without the setting.
fn others(plan: &Plan, found: &mut Findings) {
    let servers = [start_plain_storage(), start_plain_storage()];
    for server in &servers {
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
