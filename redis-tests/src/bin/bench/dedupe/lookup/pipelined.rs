//! D1 and D2: one hash per request, with many requests in progress.

use redis_tests::ok;

use super::{Runs, compare, draws};
use crate::Plan;
use crate::dedupe::corpus::Corpus;
use crate::dedupe::documented::LOOKUP_SCRIPT;
use crate::dedupe::scene::Scene;
use crate::load::{Batches, encode};
use crate::report::{Findings, Goal, note, say};
use crate::series::rate;
use crate::targets;

/// Number of requests in progress on each connection.
pub const DEPTH: usize = 32;
/// Name of the row for plain keys. A look-up reads two tables and checks permissions and
/// visibility.
const PLAIN: &str = "`LOOKUP` of one hash, pipeline depth 32, plain keys";
const PACKED: &str = "`LOOKUP` of one hash, pipeline depth 32, packed";
const RECORD: &str = "`LOOKUP … FORMAT RECORD` of one hash, pipeline depth 32, packed";

/// The peer of D1, `HGET`: arguments before the hash.
pub const HGET: &[&[u8]] = &[b"HGET", b"allhashes"];
/// `DEDUPE.LOOKUP`: arguments before the hash.
pub const LOOKUP: &[&[u8]] = &[b"DEDUPE.LOOKUP", b""];
/// `DEDUPE.LOOKUP` that returns the record as a single string, as the script does.
pub const LOOKUP_TEXT: &[&[u8]] = &[b"DEDUPE.LOOKUP", b"", b"FORMAT", b"RECORD"];

/// Creates `count` batches of requests. A request consists of `head` and a random hash of `limit`
/// hashes from `offset` on.
pub fn asking(corpus: &Corpus, head: &[&[u8]], count: u64, limit: u64, offset: u64) -> Batches {
    let mut draws = draws(corpus, limit);
    draws.offset = offset;
    Batches::new(count as usize, DEPTH, |out| {
        let hash = draws.hash();
        encode(out, &[head, &[&hash]].concat());
    })
}

/// Measures known and unknown hashes in both storages, with `HGET` and with Lua.
pub fn measure(plan: &Plan, scene: &Scene, corpus: &Corpus, hashes: u64) -> Findings {
    say("D1, D2: look-ups with a pipeline depth of 32");
    let script = ok!(scene.plain.wire(), "SCRIPT", "LOAD", LOOKUP_SCRIPT);
    let count = plan.scaled(20_000);
    let known = |head: &[&[u8]]| asking(corpus, head, count, hashes, 0);
    let unknown = |head: &[&[u8]]| asking(corpus, head, count, hashes, hashes);
    let [lookup, text, hget] = [LOOKUP, LOOKUP_TEXT, HGET].map(&known);
    let lua = known(&[b"EVALSHA", script.bytes(), b"0"]);
    let (lookup_missing, hget_missing) = (unknown(LOOKUP), unknown(HGET));
    let kinds = [
        (&scene.ours, &lookup),
        (&scene.plain, &hget),
        (&scene.packed, &lookup),
        (&scene.packed, &text),
        (&scene.plain, &lua),
        (&scene.ours, &lookup_missing),
        (&scene.plain, &hget_missing),
        (&scene.packed, &lookup_missing),
    ];
    let mut runs = [(); 8].map(|()| Runs::default());
    for rep in 1..=plan.reps {
        for (kind, ((server, batches), runs)) in kinds.iter().zip(&mut runs).enumerate() {
            let run = plan.saturate(server, batches, rep);
            let some = run.nils > 0;
            assert_eq!(
                some,
                kind > 4,
                "null replies to known hashes, or none to unknown"
            );
            runs.push(run);
        }
    }
    findings(&runs)
}

fn findings(
    [
        plain,
        hget,
        packed,
        text,
        lua,
        plain_none,
        hget_none,
        packed_none,
    ]: &[Runs; 8],
) -> Findings {
    let mut found = Findings::default();
    let one = "one plain `HGET`";
    let script = "both look-ups in Lua, `EVALSHA`";
    let missing = "`HGET` of an unknown field";
    compare(
        &mut found,
        redis_tests::rows![
            "D1", PLAIN, one, plain, hget, targets::LOOKUP_PLAIN;
            "D1", PACKED, one, packed, hget, targets::LOOKUP_PACKED;
            "D1", RECORD, one, text, hget, targets::LOOKUP_RECORD;
            "D1", "unknown hashes, plain keys", missing, plain_none, hget_none, Goal::Known;
            "D1", "unknown hashes, packed", missing, packed_none, hget_none, Goal::Known;
            "D2", PLAIN, script, plain, lua, targets::SCRIPT_PLAIN;
            "D2", PACKED, script, packed, lua, targets::SCRIPT_PACKED;
            "D2", RECORD, script, text, lua, targets::SCRIPT_RECORD;
        ],
    );
    let over = |ours: &Runs, theirs: &Runs| ours.rate.over(&theirs.rate).median();
    let shown = |runs: &Runs| runs.rate.shown(rate);
    note!(found, "plain.md";
        hget = hget.cpu(), plain = plain.cpu(), ratio = over(plain, hget),
        missing = shown(plain_none), hget_missing = shown(hget_none));
    note!(found, "packed.md";
        packed = packed.cpu(), ratio = over(packed, hget), text = over(text, hget), over_plain = over(packed, plain),
        missing = shown(packed_none), hget_missing = shown(hget_none));
    note!(found, "script.md";
        lua = lua.cpu(), plain = over(plain, lua), packed = over(packed, lua), text = over(text, lua));
    found
}
