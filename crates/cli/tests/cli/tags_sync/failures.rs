//! Tests servers that die, and a space to which another client writes.

use redis_tests::{Options, assert_contains, assert_lacks, until};

use crate::tags_sync::stage::Stage;

#[test]
fn changes_during_a_disconnection_are_found() {
    let mut stage = Stage::new(30);
    let mut sync = stage.follow("");
    sync.loaded_after(0);
    let before = stage.space();

    stage.postgres.kill9();
    until("the loss is noticed", || {
        sync.errors().contains("trying again")
    });
    assert_eq!(stage.space(), before);
    // The mirror must not receive notifications before the changes are made.
    sync.signal("STOP");
    stage.postgres.restart();
    let mut sql = stage.sql();
    sql.batch_execute(
        "UPDATE collection SET private = NOT private WHERE id < 10; DELETE FROM collection WHERE id = 20",
    )
    .unwrap();
    assert_eq!(stage.space(), before);
    sync.signal("CONT");
    sync.loaded_after(1);
    stage.settled(&mut sql);

    sql.batch_execute("UPDATE collection SET private = NOT private WHERE id = 11")
        .unwrap();
    stage.settled(&mut sql);
    assert_eq!(sync.loads(), 2);
    assert!(sync.is_alive());
    assert_lacks(sync.errors(), "cret");
}

#[test]
fn mirror_may_start_before_its_servers() {
    let mut stage = Stage::new(10);
    stage.postgres.kill9();
    stage.redis.kill9();
    let sync = stage.follow("");
    until("the mirror tries again", || {
        sync.errors()
            .matches("connecting to postgresql://127.0.0.1")
            .count()
            > 1
    });
    stage.postgres.restart();
    until("the mirror waits for Redis", || {
        sync.errors().contains("connecting to redis://127.0.0.1")
    });
    stage.redis.restart();
    sync.loaded_after(0);
    stage.settled(&mut stage.sql());
}

#[test]
fn server_that_restarts_empty_is_filled_again() {
    let mut stage = Stage::new(30);
    let mut sql = stage.sql();
    let sync = stage.follow("");
    sync.loaded_after(0);
    stage.redis.restart();
    // The mirror must notice the loss even though nothing changes in the database.
    sync.loaded_after(1);
    stage.settled(&mut sql);

    // A change while the server is down must not become the only content of the space.
    stage.redis.kill9();
    sql.batch_execute("UPDATE collection SET private = NOT private WHERE id = 1")
        .unwrap();
    stage.redis.restart();
    until("the space is complete or empty", || {
        let there = stage.space().len();
        assert!(there == 0 || there == 30, "{there} ids");
        there == 30
    });
    stage.settled(&mut sql);
}

#[test]
fn lost_space_is_filled_completely() {
    let stage = Stage::new(30);
    let mut sql = stage.sql();
    let sync = stage.follow("");
    sync.loaded_after(0);
    for (round, loss) in ["DEL tags", "FLUSHALL", "TAGS.LOAD tags TAG REPLACE"]
        .iter()
        .enumerate()
    {
        stage.redis.wire().line(loss);
        sql.batch_execute("UPDATE collection SET private = NOT private WHERE id = 1")
            .unwrap();
        until("the space is complete or empty", || {
            let there = stage.space().len();
            assert!(there == 0 || there == 30, "{there} ids");
            there == 30
        });
        sync.loaded_after(round + 1);
        stage.settled(&mut sql);
    }
    assert_contains(sync.errors(), "the space holds 0 ids with 0 tags");
}

#[test]
fn writes_of_other_clients_are_reverted() {
    let stage = Stage::new(30);
    let mut sql = stage.sql();
    let sync = stage.follow("");
    sync.loaded_after(0);
    stage.redis.wire().line("TAGS.ADD tags TAG coll:1 embargo");
    sync.loaded_after(1);
    stage.settled(&mut sql);
    // Rules, points, files and captures do not belong to the mirror.
    let mut wire = stage.redis.wire();
    wire.line("TAGS.ADD tags FILE a.warc.gz coll:1");
    wire.line("TAGS.POINTSET tags all coll:*&!private");
    sql.batch_execute("UPDATE collection SET private = NOT private WHERE id = 1")
        .unwrap();
    stage.settled(&mut sql);
    assert_eq!(sync.loads(), 2);
    assert_eq!(stage.space_of("FILE").len(), 1);
}

#[test]
fn lost_or_changed_staged_copy_is_not_swapped_in() {
    let mut stage = Stage::new(30);
    stage.redis.restart_as(Options::new().aof_unsynced(true));
    let mut sql = stage.sql();
    sql.batch_execute(crate::tags_sync::readers::GATE).unwrap();
    let sync = stage.follow(&format!("--query \"{}\"", crate::tags_sync::readers::GATED));
    sync.loaded_after(0);
    for vandal in [
        "TAGS.LOAD tags TAG STAGE coll:666 org:1",
        "TAGS.SWAP tags TAG DISCARD",
        "restart",
    ] {
        let loads = sync.loads();
        sql.batch_execute("SELECT pg_advisory_lock(42); NOTIFY crawlspace_tags")
            .unwrap();
        until("the load is under way", || {
            crate::tags_sync::readers::is_waiting(&stage)
        });
        match vandal {
            "restart" => stage.redis.restart(),
            line => drop(stage.redis.wire().line(line)),
        }
        sql.batch_execute("UPDATE collection SET private = NOT private WHERE id = 3; SELECT pg_advisory_unlock(42)")
            .unwrap();
        sync.loaded_after(loads);
        stage.settled(&mut sql);
    }
}

#[test]
fn temporarily_missing_table_leaves_the_space_unchanged() {
    let stage = Stage::new(30);
    let mut sql = stage.sql();
    let mut sync = stage.follow("");
    sync.loaded_after(0);
    let before = stage.space();
    sql.batch_execute("ALTER TABLE collection RENAME TO elsewhere; NOTIFY crawlspace_tags")
        .unwrap();
    until("the mirror reports the missing table", || {
        sync.errors()
            .contains("relation \"collection\" does not exist")
    });
    assert_eq!(stage.space(), before);
    sql.batch_execute(
        "ALTER TABLE elsewhere RENAME TO collection; UPDATE collection SET private = NOT private",
    )
    .unwrap();
    stage.settled(&mut sql);
    assert!(sync.is_alive());
}
