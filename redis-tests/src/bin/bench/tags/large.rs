//! A million captures in one call, and the waiting times of other clients during the call.

use std::sync::Arc;

use redis_tests::{Options, Server, ok};

use super::corpus::{Archive, Capture};
use super::space::{self, ALL_PUBLIC, call, kept};
use crate::Plan;
use crate::load::{Batches, Connection, encode, line};
use crate::others::{Loaded, MEANWHILE, RATE};
use crate::report::{Findings, Goal, note, table};
use crate::series::{Series, grouped, time};
use crate::targets;

/// Number of consecutive calls. A longer run yields more samples of other clients.
const CALLS: u32 = 3;

/// Measures both reply formats, and a plain command that reads and writes as many bytes.
pub fn measure(plan: &Plan, archive: &Archive) -> Findings {
    let count = plan.scaled(1_000_000);
    let blob = archive.blob(count, Capture::cdx);
    let mut found = Findings::default();
    let many = grouped(count);
    let mut kept_bits = 0;
    let forms: [(&str, &str, &[&[u8]]); 2] = [
        ("BITS", "SET", &[b"SET", b"bench:blob", &blob]),
        ("LINES", "ECHO", &[b"ECHO", &blob]),
    ];
    for (form, peer, words) in forms {
        let ours = space::filter(&ALL_PUBLIC, form, &blob);
        let mut theirs = Vec::with_capacity(blob.len() + 100);
        encode(&mut theirs, words);
        let (mut loaded, mut floor) = <(Loaded, Loaded)>::default();
        for _ in plan.repeat(format!("{many} captures, RETURN {form}")) {
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
        let peer = format!("`{peer}` of the same bytes");
        table! { found;
            "", format!("{many} captures in a call, `RETURN {form}`"), &peer,
                loaded.seconds.shown(time), floor.seconds.shown(time), Series::default(), Goal::Known;
            "", MEANWHILE, peer, loaded.during(), floor.during(), loaded.above_idle(), targets::BATCH_OTHERS;
        }
    }
    note!(found, "large.md"; megabytes = blob.len() as f64 / 1e6, calls = CALLS, rate = RATE);
    found
}

/// Returns the average seconds per call, and the last reply.
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

/// Creates requests of other clients: a ping, and a read of a hash field.
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
        line(out, ["PING", "HGET bench:page title"][n % 2]);
    }))
}
