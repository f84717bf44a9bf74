//! Tests that readers always see a true and complete state while the mirror works.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use redis_tests::{Wire, until};

use crate::tags_sync::stage::Stage;

/// A query that reads everything and then waits for a lock held by the test.
pub const GATED: &str = "SELECT 'coll:' || id, ARRAY['org:' || organization_id,
    CASE WHEN private IS NOT FALSE THEN 'private' END] FROM collection WHERE gate()";
pub const GATE: &str = "CREATE FUNCTION gate() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN
    IF current_setting('transaction_isolation') = 'repeatable read' THEN
        PERFORM pg_advisory_xact_lock_shared(42);
    END IF;
    RETURN true;
END $$";

/// Returns true if a query waits for that lock.
pub fn is_waiting(stage: &Stage) -> bool {
    let waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
    stage
        .sql()
        .query_one(waiting, &[])
        .unwrap()
        .get::<_, i64>(0)
        > 0
}

/// Number of collections in the archive. Every third one is private, and stays private.
const COLLECTIONS: u32 = 1500;
/// Collections from here on are toggled by the tests.
const TOGGLED: u32 = 1400;

fn file(collection: u32) -> String {
    format!("ARCHIVEIT-{collection}-2024.warc.gz")
}

/// Returns the names of the WARC files of all collections that pass as public.
fn public(wire: &mut Wire) -> Vec<String> {
    let files: Vec<String> = (1..=COLLECTIONS).map(file).collect();
    let mut words = "TAGS.FILTER tags WHERE"
        .split(' ')
        .map(str::to_owned)
        .collect::<Vec<_>>();
    words.push("coll:* & !private".to_owned());
    words.extend("FORMAT FILE LINES".split(' ').map(str::to_owned));
    words.extend(files);
    wire.expect_ok(&words).texts()
}

/// Sets an access rule like Archive-It's.
fn set_rule(stage: &Stage) {
    let rule = [
        "TAGS.RULESET",
        "tags",
        "coll",
        "filename",
        r"(?:^|/)ARCHIVEIT-(\d+)-",
        "coll:$1",
    ];
    stage.redis.wire().expect_ok(&rule);
}

/// Breaks the mirror's connection to Redis. The test uses the Unix socket.
fn cut_off(stage: &Stage) {
    let mut wire = stage.redis.wire();
    let clients = wire.ok_line("CLIENT LIST").text();
    let words = clients.split_whitespace();
    for address in words.filter_map(|word| word.strip_prefix("addr=127.0.0.1:")) {
        wire.line(&format!("CLIENT KILL ADDR 127.0.0.1:{address}"));
    }
}

#[test]
fn reader_sees_everything_public_and_nothing_private() {
    let mut stage = Stage::new(COLLECTIONS);
    let mut sql = stage.sql();
    let mut sync = stage.follow("");
    sync.loaded_after(0);
    set_rule(&stage);
    let expected: Vec<String> = (1..TOGGLED).filter(|n| n % 3 != 0).map(file).collect();

    let (done, looks) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut wire = stage.redis.wire();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let toggled: Vec<String> = (TOGGLED..=COLLECTIONS).map(file).collect();
            let private: Vec<String> = (1..=COLLECTIONS).filter(|n| n % 3 == 0).map(file).collect();
            while !done.load(Ordering::Relaxed) {
                let seen = public(&mut wire);
                let shown = seen.iter().find(|file| private.contains(file));
                assert_eq!(shown, None, "a private collection is shown");
                let steady: Vec<&String> =
                    seen.iter().filter(|file| !toggled.contains(file)).collect();
                assert!(steady.iter().copied().eq(&expected), "{} seen", seen.len());
                looks.fetch_add(1, Ordering::Relaxed);
            }
        });
        let toggle = format!(
            "UPDATE collection SET private = NOT private WHERE id >= {TOGGLED} AND id % 3 <> 0"
        );
        for round in 0..6 {
            let loads = sync.loads();
            sql.batch_execute("NOTIFY crawlspace_tags").unwrap();
            sql.batch_execute(&toggle).unwrap();
            sync.loaded_after(loads);
            sql.batch_execute(&toggle).unwrap();
            if round % 3 == 1 {
                stage.postgres.kill9();
                stage.postgres.restart();
                sql = stage.sql();
                sync.loaded_after(loads + 1);
            }
            if round % 3 == 2 {
                let loads = sync.loads();
                cut_off(&stage);
                sync.loaded_after(loads);
            }
        }
        until("the reader has read often enough", || {
            looks.load(Ordering::Relaxed) > 20 || reader.is_finished()
        });
        done.store(true, Ordering::Relaxed);
        reader.join().unwrap();
    });
    stage.settled(&mut sql);
    assert!(sync.is_alive());
}

#[test]
fn change_during_a_load_is_applied_at_once_and_kept() {
    let stage = Stage::new(COLLECTIONS);
    let mut sql = stage.sql();
    sql.batch_execute(GATE).unwrap();
    let sync = stage.follow(&format!("--query \"{GATED}\""));
    sync.loaded_after(0);
    let mut gate = stage.sql();
    gate.batch_execute("SELECT pg_advisory_lock(42)").unwrap();
    sql.batch_execute("NOTIFY crawlspace_tags").unwrap();
    until("the load is under way", || is_waiting(&stage));

    // The load has taken its snapshot, so the data that it loads are outdated.
    assert_eq!(stage.tags("coll:1"), "org:1");
    sql.batch_execute(
        "BEGIN; UPDATE collection SET private = true WHERE id = 1; DELETE FROM collection WHERE id = 2;
         UPDATE collection SET organization_id = 99 WHERE id = 4; COMMIT",
    )
    .unwrap();
    until("readers see the change before the load ends", || {
        stage.tags("coll:1") == "org:1 private"
    });
    assert_eq!(sync.loads(), 1);
    assert!(is_waiting(&stage));

    let (done, looks) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut wire = stage.redis.wire();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let tags = wire.line("TAGS.GET tags TAG coll:1").texts();
                assert_eq!(tags, ["org:1", "private"], "the load brought it back");
                looks.fetch_add(1, Ordering::Relaxed);
            }
        });
        until("the reader reads", || {
            looks.load(Ordering::Relaxed) > 0 || reader.is_finished()
        });
        gate.batch_execute("SELECT pg_advisory_unlock(42)").unwrap();
        sync.loaded_after(1);
        done.store(true, Ordering::Relaxed);
        reader.join().unwrap();
    });
    assert_eq!(stage.space(), stage.expected(&mut sql));
    assert_eq!(sync.errors(), "");
}

#[test]
fn changes_of_everything_during_a_load_are_loaded_afterwards() {
    let stage = Stage::new(30);
    let mut sql = stage.sql();
    sql.batch_execute(GATE).unwrap();
    sql.batch_execute("SELECT pg_advisory_lock(42)").unwrap();
    // During the first load, nothing may be written before the load is complete.
    let sync = stage.follow(&format!("--query \"{GATED}\""));
    until("the load is under way", || is_waiting(&stage));
    sql.batch_execute("DELETE FROM collection; NOTIFY crawlspace_tags")
        .unwrap();
    stage.fill(&mut sql, 1, 7);
    assert!(stage.space().is_empty());
    sql.batch_execute("SELECT pg_advisory_unlock(42)").unwrap();
    sync.loaded_after(1);
    stage.settled(&mut sql);
}

#[test]
fn changes_of_a_transaction_become_visible_together() {
    let stage = Stage::new(400);
    let mut sql = stage.sql();
    sql.batch_execute("UPDATE collection SET private = id % 2 = 0")
        .unwrap();
    let sync = stage.follow("");
    sync.loaded_after(0);
    set_rule(&stage);
    let files: Vec<String> = (1..=400).map(file).collect();
    let mut question: Vec<String> = ["TAGS.FILTER", "tags", "WHERE", "coll:* & !private"]
        .map(str::to_owned)
        .to_vec();
    question.extend(
        "FORMAT FILE RETURN COUNT LINES"
            .split(' ')
            .map(str::to_owned),
    );
    question.extend(files);

    let (done, looks) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut wire = stage.redis.wire();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                // At any time, half of the toggled collections are public.
                assert_eq!(wire.expect_ok(&question).int(), 200);
                looks.fetch_add(1, Ordering::Relaxed);
            }
        });
        for _ in 0..30 {
            // Update each row with its own statement, so that the server announces some changes before others.
            sql.batch_execute(
                "DO $$ DECLARE n int; BEGIN FOR n IN 1..400 LOOP
                 UPDATE collection SET private = NOT private WHERE id = n; END LOOP; END $$",
            )
            .unwrap();
        }
        let before = looks.load(Ordering::Relaxed);
        stage.settled(&mut sql);
        until("the reader has read", || {
            looks.load(Ordering::Relaxed) > before || reader.is_finished()
        });
        done.store(true, Ordering::Relaxed);
        reader.join().unwrap();
    });
    assert_eq!(sync.errors(), "");
    assert_eq!(sync.loads(), 1);
}
