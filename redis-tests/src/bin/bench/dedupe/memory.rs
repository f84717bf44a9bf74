//! D6: what the index takes in memory, all in.

use redis_tests::{Server, ok};

use super::scene::{Footprint, Scene};
use crate::report::{Findings, Goal, Row};
use crate::series::Series;

/// Rows of the three servers when they were empty, when they were filled, and when they had loaded
/// what they saved.
pub fn findings(scene: &Scene, moments: [[Footprint; 3]; 3], hashes: u64) -> Findings {
    let [empty, full, loaded] = moments;
    let grown =
        |now: [Footprint; 3]| [0, 1, 2].map(|server| now[server].since(empty[server], hashes));
    let [ours, packed, plain] = grown(full);
    let [_, packed_loaded, plain_loaded] = grown(loaded);
    let mut found = Findings::default();
    let mut row = |id, what: &str, mine: f64, theirs: f64, limit: Option<f64>| {
        let goal = limit.map_or(Goal::Known, |limit| Goal::AtMost(limit, "B"));
        found.rows.push(Row {
            id,
            what: what.into(),
            against: "the documented layout by plain commands".into(),
            ours: format!("{mine:.1} B"),
            theirs: format!("{theirs:.1} B"),
            result: Series(vec![limit.map_or(theirs / mine, |_| mine)]),
            goal,
        });
    };
    let limit = Some(80.0);
    row(
        "D6",
        "memory per hash, packed: growth of `used_memory`",
        packed.used,
        plain.used,
        limit,
    );
    row(
        "D6",
        "the same: growth of the process (resident)",
        packed.resident,
        plain.resident,
        limit,
    );
    row(
        "D6",
        "after a restart: `used_memory`",
        packed_loaded.used,
        plain_loaded.used,
        limit,
    );
    row(
        "D6",
        "after a restart: the process (resident)",
        packed_loaded.resident,
        plain_loaded.resident,
        limit,
    );
    row(
        "",
        "memory per hash, packed: how many times less",
        packed.used,
        plain.used,
        None,
    );
    row(
        "",
        "memory per hash, plain keys",
        ours.used,
        plain.used,
        None,
    );
    found.note("D6.", format!(
        "Growth of the server from before the first record was added to after the last commit, divided by the number of \
         hashes: nothing is estimated, nothing is left out, commit order, counts and buffers included; `used_memory` is what \
         the server asked its allocator for, resident memory what the process has of the machine after `MEMORY PURGE`, with \
         all that passed through plain keys on the way. {} The digest alone is 32 B. On plain keys the same index takes \
         {:.0} B with the module's own keys, {:.0} B in the documented layout: each hash stands twice as text, in `allhashes` \
         and in `h:<crawl>`, each time as an entry of a hash table with its own allocations.",
        parts(&scene.packed, packed_loaded.used, hashes), ours.used, plain.used,
    ), &[
        "make bench ONLY=D6",
        "redis-cli MEMORY USAGE allhashes",
        "cargo run --release --no-default-features --example packed_index    # the value alone, part by part",
        "redis-cli DEDUPE.STATS ''    # memory",
        "redis-cli MEMORY PURGE; redis-cli INFO memory | grep -E 'used_memory(_rss)?:'    # before and after",
    ]);
    found
}

/// How much of a server's growth, in bytes a hash, is the value and how much is the rest.
pub fn parts(server: &Server, grown: f64, hashes: u64) -> String {
    let usage = ok!(server.wire(), "MEMORY", "USAGE", "allhashes").int() as f64;
    let value = usage / hashes as f64;
    format!(
        "`MEMORY USAGE` of the value is {value:.1} B a hash, all other keys and the rest of the server's growth {:.1} B.",
        grown - value
    )
}
