//! D7: what the index takes in an RDB file, and how fast it is there again.

use std::time::Instant;

use redis_tests::{Server, ok};

use super::scene::{Footprint, Scene, rdb_bytes, reset};
use crate::Plan;
use crate::report::{Findings, Goal, Row, say};
use crate::series::{Series, time};

/// Times of the three servers.
#[derive(Default)]
pub struct Times {
    /// Seconds to write the file.
    save: [Series; 3],
    /// Seconds to load it, by the server's own account.
    load: [Series; 3],
}

/// Saves all three and starts them on their files again, several times; what they take then.
pub fn load(plan: &Plan, scene: &mut Scene) -> (Times, [Footprint; 3]) {
    let mut times = Times::default();
    for rep in 1..=plan.reps {
        say(&format!("D7: RDB files ({rep}/{})", plan.reps));
        for (server, save) in scene.servers().into_iter().zip(&mut times.save) {
            save.0.push(save_seconds(server));
        }
        let servers = [&mut scene.ours, &mut scene.packed, &mut scene.plain];
        for (server, load) in servers.into_iter().zip(&mut times.load) {
            // The log has milliseconds.
            load.0.push(reset(server).max(0.001));
        }
    }
    (times, scene.servers().map(Footprint::of))
}

/// Seconds that `SAVE` takes.
pub fn save_seconds(server: &Server) -> f64 {
    let start = Instant::now();
    ok!(server.wire(), "SAVE");
    start.elapsed().as_secs_f64()
}

/// Rows of the files as they are now.
pub fn findings(scene: &Scene, times: &Times, hashes: u64) -> Findings {
    let mut found = Findings::default();
    let [ours, packed, plain] = scene
        .servers()
        .map(|server| rdb_bytes(server) as f64 / hashes as f64);
    let mut row = |id, what: &str, mine: String, theirs: String, result, goal| {
        found.rows.push(Row {
            id,
            what: what.into(),
            against: "the documented layout by plain commands".into(),
            ours: mine,
            theirs,
            result,
            goal,
        });
    };
    let bytes = |bytes: f64| format!("{bytes:.1} B");
    let show = |series: &Series| time(series.median());
    let sizes = |mine: f64| Series(vec![plain / mine]);
    row(
        "D7",
        "RDB file per hash, packed",
        bytes(packed),
        bytes(plain),
        sizes(packed),
        Goal::AtLeast(3.0),
    );
    let [load_ours, load_packed, load_plain] = &times.load;
    row(
        "D7",
        "time to load it, packed",
        show(load_packed),
        show(load_plain),
        load_plain.over(load_packed),
        Goal::AtLeast(6.0),
    );
    let [_, save_packed, save_plain] = &times.save;
    row(
        "",
        "time to save it, packed",
        show(save_packed),
        show(save_plain),
        save_plain.over(save_packed),
        Goal::Known,
    );
    row(
        "",
        "RDB file per hash, plain keys",
        bytes(ours),
        bytes(plain),
        sizes(ours),
        Goal::Known,
    );
    row(
        "",
        "time to load it, plain keys",
        show(load_ours),
        show(load_plain),
        load_plain.over(load_ours),
        Goal::Known,
    );
    found.note("D7.", format!(
        "The file of a packed index holds what memory holds, digests in binary and URLs by symbol table, {packed:.1} B a \
         hash, in chunks of at most 1 MiB with a checksum each; the documented layout has every hash twice as text \
         ({plain:.0} B, with Redis's own compression). It is loaded in bulk: the table gets its size first, records are \
         checked and placed, and nothing is inserted one by one by a command: {} for {:.2} M hashes, {:.0} ns each, \
         against {}. Times to load are what the server's log says.",
        show(load_packed), hashes as f64 / 1e6, 1e9 * load_packed.median() / hashes as f64, show(load_plain),
    ), &[
        "make bench ONLY=D7",
        "time redis-cli SAVE; ls -l dump.rdb",
        "grep 'DB loaded from disk' redis.log    # after a restart",
    ]);
    found
}
