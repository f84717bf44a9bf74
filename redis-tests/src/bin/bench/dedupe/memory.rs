//! D6: memory of the index, including all overhead.

use redis_tests::{Server, ok};

use super::scene::{DOCUMENTED, Footprint, Scene};
use crate::report::{Findings, Goal, note, table};
use crate::targets;

/// Returns rows for the three servers at three moments: empty, filled, and restarted from their
/// files.
pub fn findings(scene: &Scene, moments: [[Footprint; 3]; 3], hashes: u64) -> Findings {
    let [empty, full, loaded] = moments;
    let grown =
        |now: [Footprint; 3]| [0, 1, 2].map(|server| now[server].since(empty[server], hashes));
    let [ours, packed, plain] = grown(full);
    let [_, packed_loaded, plain_loaded] = grown(loaded);
    let mut found = Findings::default();
    let limit = targets::MEMORY;
    for (id, what, mine, theirs, goal) in redis_tests::rows![
        "D6", "memory per hash, packed: growth of `used_memory`", packed.used, plain.used, limit;
        "D6", "the same: growth of the process (resident)", packed.resident, plain.resident, limit;
        "D6", "after a restart: `used_memory`", packed_loaded.used, plain_loaded.used, limit;
        "D6", "after a restart: the process (resident)", packed_loaded.resident, plain_loaded.resident, limit;
        "", "memory per hash, packed: ratio", packed.used, plain.used, Goal::Known;
        "", "memory per hash, plain keys", ours.used, plain.used, Goal::Known;
    ] {
        let result = if id == "D6" { mine } else { theirs / mine };
        let [ours, plain] = [mine, theirs].map(|bytes| format!("{bytes:.1} B"));
        table! { found; id, what, DOCUMENTED, ours, plain, result, goal; }
    }
    let parts = parts(&scene.packed, packed_loaded.used, hashes);
    note!(found, "memory.md"; parts = parts, ours = ours.used, plain = plain.used);
    found
}

/// Returns the memory growth of a server in bytes per hash: the part of the packed value, and the
/// rest.
pub fn parts(server: &Server, grown: f64, hashes: u64) -> String {
    let usage = ok!(server.wire(), "MEMORY", "USAGE", "packedhashes").int() as f64;
    let value = usage / hashes as f64;
    format!(
        "`MEMORY USAGE` of the value is {value:.1} B per hash; all other keys and the rest of the server's growth take {:.1} B.",
        grown - value
    )
}
