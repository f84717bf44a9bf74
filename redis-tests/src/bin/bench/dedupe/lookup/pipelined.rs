//! D1 and D2: one hash a request, many requests under way.

use redis_tests::ok;

use super::{Runs, draws};
use crate::Plan;
use crate::dedupe::corpus::Corpus;
use crate::dedupe::scene::Scene;
use crate::dedupe::{PREFIX, documented};
use crate::load::{Batches, encode, saturate};
use crate::report::{Findings, Goal, say};
use crate::series::rate;

/// Requests under way on each connection.
const DEPTH: usize = 32;
/// A look-up on plain keys: two tables, ACL and visibility.
const PLAIN: &str = "`LOOKUP` of one hash, pipelined by 32, plain keys";
const PACKED: &str = "`LOOKUP` of one hash, pipelined by 32, packed";

/// The peer of D1: words before the hash.
pub const HGET: &[&[u8]] = &[b"HGET", b"allhashes"];
/// Ours: words before the hash.
pub const LOOKUP: &[&[u8]] = &[b"DEDUPE.LOOKUP", PREFIX];

/// `count` batches of requests that are `head` and a hash drawn from `limit` hashes, `offset` on.
pub fn asking(corpus: &Corpus, head: &[&[u8]], count: u64, limit: u64, offset: u64) -> Batches {
    let mut draws = draws(corpus, limit);
    draws.offset = offset;
    Batches::new(count as usize, DEPTH, |out| {
        let hash = draws.hash();
        encode(out, &[head, &[&hash]].concat());
    })
}

/// Measures known and unknown hashes on both storages, `HGET` and Lua.
pub fn measure(plan: &Plan, scene: &Scene, corpus: &Corpus, hashes: u64, found: &mut Findings) {
    say("D1, D2: look-ups pipelined by 32");
    let script = ok!(
        scene.plain.wire(),
        "SCRIPT",
        "LOAD",
        documented::LOOKUP_SCRIPT
    );
    let count = plan.scaled(20_000);
    let known = |head: &[&[u8]]| asking(corpus, head, count, hashes, 0);
    let unknown = |head: &[&[u8]]| asking(corpus, head, count, hashes, hashes);
    let (lookup, hget) = (known(LOOKUP), known(HGET));
    let lua = known(&[b"EVALSHA", script.bytes(), b"0"]);
    let (lookup_missing, hget_missing) = (unknown(LOOKUP), unknown(HGET));
    let kinds = [
        (&scene.ours, &lookup),
        (&scene.plain, &hget),
        (&scene.packed, &lookup),
        (&scene.plain, &lua),
        (&scene.ours, &lookup_missing),
        (&scene.plain, &hget_missing),
        (&scene.packed, &lookup_missing),
    ];
    let mut runs = [(); 7].map(|()| Runs::default());
    for rep in 0..plan.reps {
        for (kind, ((server, batches), runs)) in kinds.iter().zip(&mut runs).enumerate() {
            let first = rep * batches.len() / plan.reps;
            let run = saturate(server, batches, plan.span(), first);
            assert_eq!(
                run.nils > 0,
                kind > 3,
                "null replies to known hashes, or none to unknown"
            );
            runs.push(run);
        }
    }
    findings(&runs, found);
}

fn findings(runs: &[Runs; 7], found: &mut Findings) {
    let [
        plain,
        hget,
        packed,
        lua,
        plain_missing,
        hget_missing,
        packed_missing,
    ] = runs;
    let one = "one plain `HGET`";
    let script = "both look-ups in Lua, `EVALSHA`";
    let missing = "`HGET` of an unknown field";
    let rows = [
        plain.against(hget, "D1", PLAIN, one, Goal::AtLeast(0.45)),
        packed.against(hget, "D1", PACKED, one, Goal::AtLeast(1.1)),
        plain_missing.against(
            hget_missing,
            "D1",
            "unknown hashes, plain keys",
            missing,
            Goal::Known,
        ),
        packed_missing.against(
            hget_missing,
            "D1",
            "unknown hashes, packed",
            missing,
            Goal::Known,
        ),
        plain.against(lua, "D2", PLAIN, script, Goal::AtLeast(1.7)),
        packed.against(lua, "D2", PACKED, script, Goal::AtLeast(4.0)),
    ];
    found.rows.extend(rows);
    let ratio = |ours: &Runs| ours.rate.over(&hget.rate).median();
    found.note("D1, plain keys.", format!(
        "An `HGET` answered with the crawl's name is the least that Redis can do for a request; it takes {:.2} µs of \
         the server here. `LOOKUP` takes {:.2} µs: it spells the hash, finds it in `allhashes`, sees that the owner's \
         commit is finished, checks the caller's ACL for the keys, finds the record in `h:<crawl>`, and answers with \
         five fields in place of one. Two tables in place of one, with hashes drawn at random, are twice the cache \
         misses, and the reply is five times as long: that is why the goal is 0.45 and not 1; measured is {:.2}. An \
         unknown hash ends after the first table: {} against {} for an unknown `HGET`.",
        hget.cpu(), plain.cpu(), ratio(plain),
        rate(plain_missing.rate.median()), rate(hget_missing.rate.median()),
    ), &[
        "make bench ONLY=D1",
        "redis-benchmark -P 32 -c 8 -n 3000000 DEDUPE.LOOKUP '' $hash    # one hash, so all of it in the caches",
        "redis-benchmark -P 32 -c 8 -n 3000000 HGET allhashes $hash",
    ]);
    found.note("D1, packed.", format!(
        "A packed index needs {:.2} µs of the server for the same request and the same reply: one probe of one table \
         finds the record with its owner, the digest is compared in binary form, and the record is put together again \
         from a few dozen bytes. The memory of the probe is asked for first and that of the record next, and permissions \
         are looked at meanwhile. An `HGET` has little to do and waits for four places in memory, one after the other; a \
         look-up waits for two, and then has more to do: reading a request with one more word, the ACL's checks, decoding, \
         and a reply of five fields. So the ratio grows with the index (see below, at scale). It is {:.2} here, and {:.2} \
         of the rate on plain keys. Unknown hashes: {} against {} for an unknown `HGET`; nearly all are turned away by \
         their fingerprint, without a look at any record.",
        packed.cpu(), ratio(packed), packed.rate.over(&plain.rate).median(),
        rate(packed_missing.rate.median()), rate(hget_missing.rate.median()),
    ), &[
        "make bench ONLY=D1",
        "redis-cli DEDUPE.PACK ''",
        "redis-benchmark -P 32 -c 8 -n 3000000 DEDUPE.LOOKUP '' $hash    # one hash, so all of it in the caches",
    ]);
    found.note("D2.", format!(
        "A script is the way to do both look-ups in one round trip without a module. It takes {:.2} µs, of which the \
         two look-ups are the smaller part: the rest is entering Lua, two calls back into Redis through its command \
         table, and the conversion of values both ways. The record of the script is still one string that the client \
         has to take apart; ours comes in fields. Plain keys do {:.2} times as many, a packed index {:.2} times.",
        lua.cpu(), plain.rate.over(&lua.rate).median(), packed.rate.over(&lua.rate).median(),
    ), &[
        "make bench ONLY=D2",
        "redis-benchmark -P 32 -c 8 -n 1000000 EVAL \"local c = redis.call('HGET', 'allhashes', ARGV[1]) \
         return {c, redis.call('HGET', 'h:' .. c, ARGV[1])}\" 0 $hash",
    ]);
}
