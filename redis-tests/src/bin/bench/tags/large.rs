//! A million captures in one call, and what others wait meanwhile.

use std::sync::Arc;

use redis_tests::{Options, Server, ok};

use super::corpus::{Archive, Capture};
use super::space::{self, call, kept};
use crate::Plan;
use crate::load::{Batches, Connection, encode};
use crate::others::{Loaded, RATE};
use crate::report::{Findings, Goal, Row, say};
use crate::series::{Series, grouped, time};

/// Calls one after the other: the longer it takes, the more others ask.
const CALLS: u32 = 3;

/// Measures both forms of the reply, and a plain command with as many bytes in and out.
pub fn measure(plan: &Plan, archive: &Archive) -> Findings {
    let count = plan.scaled(1_000_000);
    let blob = archive.blob(count, Capture::cdx);
    let mut found = Findings::default();
    let all = [&b"POINT"[..], b"all", b"FORMAT", b"CDX", b"RETURN"];
    let ask = |form: &'static [u8]| space::filter(&[&all[..], &[form]].concat(), &blob);
    let plain = |words: &[&[u8]]| {
        let mut out = Vec::with_capacity(blob.len() + 100);
        encode(&mut out, words);
        out
    };
    let mut kept_bits = 0;
    for (form, peer) in [("BITS", "SET"), ("LINES", "ECHO")] {
        let ours = ask(form.as_bytes());
        let theirs = match peer {
            "SET" => plain(&[b"SET", b"bench:blob", &blob]),
            _ => plain(&[b"ECHO", &blob]),
        };
        let (mut loaded, mut floor) = (Loaded::default(), Loaded::default());
        for rep in 1..=plan.reps {
            say(&format!(
                "{} captures, RETURN {form} ({rep}/{})",
                grouped(count),
                plan.reps
            ));
            let server = Options::new().start();
            space::fill(&server, archive);
            loaded.measure(&server, others(&server), |server| {
                let (seconds, reply) = calls(server, &ours);
                let kept = match form {
                    "BITS" => kept(&reply),
                    _ => reply.iter().filter(|&&byte| byte == b'\n').count() as u32,
                };
                assert!(kept > 0 && (kept_bits == 0 || kept == kept_bits));
                kept_bits = kept;
                seconds
            });
            let server = Options::new().no_module().start();
            floor.measure(&server, others(&server), |server| calls(server, &theirs).0);
        }
        let call = format!("{} captures in a call, `RETURN {form}`", grouped(count));
        let peer = format!("`{peer}` of the same bytes");
        found.rows.extend(rows(call, peer, &loaded, &floor));
    }
    found.note("A large batch.", format!(
        "{:.0} MB in one string, {CALLS} calls one after the other. It is filtered by a thread of its own on the space as it was \
         when the call came; the server goes on. Others send {RATE} requests a second, `PING` and `HGET` by turns, when they \
         are due and not when the last one is answered. What they wait for is the string itself: it has to come in, the \
         reply to go out, and memory to be given back. A plain command with as many bytes shows what that costs without any \
         filter. Who cares about others sends batches of some thousand lines.",
        blob.len() as f64 / 1e6,
    ), &["make bench ONLY=large"]);
    found
}

fn rows(call: String, peer: String, ours: &Loaded, theirs: &Loaded) -> [Row; 2] {
    let shown = |loaded: &Loaded| time(loaded.seconds.median());
    let during = |loaded: &Loaded| Loaded::quantiles(&loaded.during);
    [
        Row {
            id: "",
            what: call.clone(),
            against: peer.clone(),
            ours: shown(ours),
            theirs: shown(theirs),
            result: Series::default(),
            goal: Goal::Known,
        },
        Row {
            id: "",
            what: "others meanwhile: p50 / p99 / p99.9; p99.9 above idle".into(),
            against: peer,
            ours: during(ours),
            theirs: during(theirs),
            result: ours.above_idle(),
            goal: Goal::AtMost(3.0, "ms"),
        },
    ]
}

/// Seconds of one call, on average, and the last reply.
fn calls(server: &Server, request: &[u8]) -> (f64, Vec<u8>) {
    let mut connection = Connection::unix(server);
    let mut seconds = 0.0;
    let mut last = Vec::new();
    for _ in 0..CALLS {
        let (took, reply) = call(&mut connection, request);
        seconds += took;
        last = reply;
    }
    (seconds / f64::from(CALLS), last)
}

/// What others ask: whether the server is there, and a field of a hash.
fn others(server: &Server) -> Arc<Batches> {
    ok!(
        server.wire(),
        "HSET",
        "bench:page",
        "title",
        "x".repeat(100)
    );
    let mut n = 0;
    Arc::new(Batches::new(1_000, 1, |out| {
        n += 1;
        match n % 2 {
            0 => encode(out, &[b"PING"]),
            _ => encode(out, &[b"HGET", b"bench:page", b"title"]),
        }
    }))
}
