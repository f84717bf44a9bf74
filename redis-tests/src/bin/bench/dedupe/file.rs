//! D7: size of the index in an RDB file, and time to load it.

use std::time::Instant;

use redis_tests::{Server, ok};

use super::scene::{DOCUMENTED, Footprint, Scene, rdb_bytes, reset};
use crate::Plan;
use crate::report::{Findings, Goal, note, table};
use crate::series::{Series, time};
use crate::targets;

/// Times of the three servers.
#[derive(Default)]
pub struct Times {
    /// Seconds to write the file.
    save: [Series; 3],
    /// Seconds to load the file, as reported by the server.
    load: [Series; 3],
}

/// Saves all three servers and restarts them from their files several times. Returns the times, and
/// the memory after the restarts.
pub fn load(plan: &Plan, scene: &mut Scene) -> (Times, [Footprint; 3]) {
    let mut times = Times::default();
    for _ in plan.repeat("D7: RDB files") {
        for (server, save) in scene.servers().into_iter().zip(&mut times.save) {
            save.push(save_seconds(server));
        }
        let servers = [&mut scene.ours, &mut scene.packed, &mut scene.plain];
        for (server, load) in servers.into_iter().zip(&mut times.load) {
            // The resolution of the log is one millisecond.
            load.push(reset(server).max(0.001));
        }
    }
    (times, scene.servers().map(Footprint::of))
}

/// Runs `SAVE` and returns its duration in seconds.
pub fn save_seconds(server: &Server) -> f64 {
    let start = Instant::now();
    ok!(server.wire(), "SAVE");
    start.elapsed().as_secs_f64()
}

/// Returns the rows about the current files.
pub fn findings(scene: &Scene, times: &Times, hashes: u64) -> Findings {
    let mut found = Findings::default();
    let sizes = scene
        .servers()
        .map(|server| rdb_bytes(server) as f64 / hashes as f64);
    let bytes = |bytes: f64| format!("{bytes:.1} B");
    let [ours, packed, plain] = sizes;
    let [load_ours, load, load_plain] = &times.load;
    let [_, save, save_plain] = &times.save;
    table! { found;
        "D7", "RDB file per hash, packed", DOCUMENTED, bytes(packed), bytes(plain), plain / packed, targets::FILE;
        "D7", "time to load it, packed", DOCUMENTED, load.shown(time), load_plain.shown(time),
            load_plain.over(load), targets::LOAD;
        "", "time to save it, packed", DOCUMENTED, save.shown(time), save_plain.shown(time),
            save_plain.over(save), Goal::Known;
        "", "RDB file per hash, plain keys", DOCUMENTED, bytes(ours), bytes(plain), plain / ours, Goal::Known;
        "", "time to load it, plain keys", DOCUMENTED, load_ours.shown(time), load_plain.shown(time),
            load_plain.over(load_ours), Goal::Known;
    }
    note!(found, "file.md";
        packed = packed, plain = plain, load = load.shown(time), millions = hashes as f64 / 1e6,
        nanos = 1e9 * load.median() / hashes as f64, load_plain = load_plain.shown(time));
    found
}
