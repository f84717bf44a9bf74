//! Tests that changes of the table become changes of the space.

use redis_tests::{Rng, assert_contains, until};

use crate::tags_sync::stage::Stage;

#[test]
fn each_change_of_the_table_is_mirrored() {
    let stage = Stage::new(50);
    let mut sql = stage.sql();
    let mut sync = stage.follow("");
    sync.loaded_after(0);
    stage.settled(&mut sql);
    for change in [
        "UPDATE collection SET private = true WHERE id = 1",
        "UPDATE collection SET private = false WHERE id = 1",
        "UPDATE collection SET private = NULL WHERE id = 2",
        "UPDATE collection SET organization_id = 77 WHERE id = 3",
        "UPDATE collection SET organization_id = NULL, private = false WHERE id = 4",
        "UPDATE collection SET id = 1000 WHERE id = 5",
        "DELETE FROM collection WHERE id = 6",
        "INSERT INTO collection VALUES (2000, 1, false)",
        "UPDATE collection SET private = NOT private WHERE id BETWEEN 10 AND 20",
        "BEGIN; UPDATE collection SET private = NOT private WHERE id = 30; DELETE FROM collection WHERE id = 31;
         UPDATE collection SET private = NOT private WHERE id = 30; INSERT INTO collection VALUES (31, 5, true);
         UPDATE collection SET organization_id = 6 WHERE id = 31; COMMIT",
        "BEGIN; UPDATE collection SET private = NOT private; ROLLBACK",
        "UPDATE collection SET private = NOT private WHERE id = 32",
    ] {
        sql.batch_execute(change).unwrap();
        stage.settled(&mut sql);
    }
    assert!(sync.is_alive());
    assert_eq!(sync.loads(), 1, "no change needed a load");
    assert_eq!(sync.errors(), "");
    assert_contains(sync.out(), "coll:1 -> org:1 private\ncoll:1 -> org:1\n");
    assert!(sync.out().contains("coll:6 ->\n"));

    sync.signal("TERM");
    assert_eq!(sync.end().code(), Some(0));
}

#[test]
fn random_changes_are_mirrored() {
    let stage = Stage::new(40);
    let mut sql = stage.sql();
    let sync = stage.follow("--json");
    until("everything is loaded", || sync.out().contains("\"loaded\""));
    let mut random = Rng::new("random_changes_are_mirrored");
    for _ in 0..15 {
        let mut transaction = sql.transaction().unwrap();
        for _ in 0..=random.below(8) {
            let (id, org) = (random.below(60) as i32, random.below(5) as i32);
            let change = match random.below(6) {
                0 => "DELETE FROM collection WHERE id = $1 AND $2 >= 0",
                1 => "INSERT INTO collection VALUES ($1, $2, $2 % 2 = 0) ON CONFLICT DO NOTHING",
                2 => "UPDATE collection SET organization_id = $2 WHERE id = $1",
                3 => {
                    "UPDATE collection SET id = id + 1000 + $2 WHERE id = $1 AND NOT EXISTS
                      (SELECT FROM collection WHERE id = $1 + 1000 + $2)"
                }
                _ => "UPDATE collection SET private = NOT private WHERE id = $1 AND $2 >= 0",
            };
            transaction.execute(change, &[&id, &org]).unwrap();
        }
        if random.below(4) == 0 {
            transaction.rollback().unwrap();
        } else {
            transaction.commit().unwrap();
        }
        if random.below(3) == 0 {
            stage.settled(&mut sql);
        }
    }
    stage.settled(&mut sql);
    assert_eq!(sync.errors(), "");
}

#[test]
fn empty_payload_and_truncate_reload_everything() {
    let stage = Stage::new(20);
    let mut sql = stage.sql();
    let sync = stage.follow("--listen crawlspace_tags");
    sync.loaded_after(0);
    sql.batch_execute(
        "ALTER TABLE collection DISABLE TRIGGER ALL; UPDATE collection SET private = NOT private;
         ALTER TABLE collection ENABLE TRIGGER ALL; NOTIFY crawlspace_tags",
    )
    .unwrap();
    sync.loaded_after(1);
    stage.settled(&mut sql);
    sql.batch_execute(
        "BEGIN; TRUNCATE collection; INSERT INTO collection VALUES (7, 7, true); COMMIT",
    )
    .unwrap();
    sync.loaded_after(2);
    stage.settled(&mut sql);
    // Nothing is loaded for a row that was deleted and restored in one transaction.
    sql.batch_execute("NOTIFY crawlspace_tags, 'coll:7 coll:8\ncoll:9'")
        .unwrap();
    until("three ids are queried again", || {
        sync.out().contains("coll:8 ->\ncoll:9 ->\n")
    });
    assert_eq!(sync.loads(), 3);
}

#[test]
fn large_bursts_reload_everything() {
    let stage = Stage::new(12_000);
    let mut sql = stage.sql();
    let sync = stage.follow("");
    sync.loaded_after(0);
    sql.batch_execute("UPDATE collection SET private = NOT private")
        .unwrap();
    stage.settled(&mut sql);
    assert_eq!(sync.loads(), 2);
    assert!(!sync.out().contains("coll:12000 ->"));
}

#[test]
fn change_without_notification_is_found_in_time() {
    let stage = Stage::new(20);
    let mut sql = stage.sql();
    let sync = stage.follow("--every 1");
    sync.loaded_after(0);
    sql.batch_execute(
        "ALTER TABLE collection DISABLE TRIGGER ALL; UPDATE collection SET private = true",
    )
    .unwrap();
    stage.settled(&mut sql);
    assert_eq!(sync.errors(), "");
}

#[test]
fn invalid_row_blocks_no_other_change() {
    let stage = Stage::new(20);
    let mut sql = stage.sql();
    sql.batch_execute("ALTER TABLE collection ALTER organization_id TYPE text")
        .unwrap();
    let sync = stage.follow("");
    sync.loaded_after(0);
    sql.batch_execute(
        "BEGIN; UPDATE collection SET organization_id = 'a b' WHERE id = 4;
         UPDATE collection SET private = true WHERE id = 5; COMMIT",
    )
    .unwrap();
    until("the other change is written", || {
        stage.tags("coll:5") == "org:5 private"
    });
    let reason = "not written: id 'coll:4': its tag 'org:a b': a tag cannot contain a space";
    until("the invalid row is reported", || {
        sync.errors().contains(reason)
    });
    assert_eq!(stage.tags("coll:4"), "org:4");

    // A load is impossible now, but the mirror still follows changes.
    sql.batch_execute("NOTIFY crawlspace_tags").unwrap();
    until("the load is refused", || {
        sync.errors().contains("row 15 of the query")
    });
    sql.batch_execute("UPDATE collection SET private = true WHERE id = 7")
        .unwrap();
    until("the change is written", || {
        stage.tags("coll:7") == "org:7 private"
    });
    assert_eq!(sync.loads(), 1);
    sql.batch_execute("UPDATE collection SET organization_id = 'mended' WHERE id = 4")
        .unwrap();
    sync.loaded_after(1);
    assert_eq!(stage.tags("coll:4"), "org:mended");
}

#[test]
fn deleting_every_row_does_not_empty_the_space() {
    let stage = Stage::new(20);
    let mut sql = stage.sql();
    let sync = stage.follow("");
    sync.loaded_after(0);
    let before = stage.space();
    sql.batch_execute("DELETE FROM collection").unwrap();
    until("the empty source is refused", || {
        sync.errors().contains("--allow-empty")
    });
    assert_eq!(stage.space(), before);
    stage.fill(&mut sql, 1, 5);
    stage.settled(&mut sql);
    drop(sync);

    let sync = stage.follow("--allow-empty");
    sync.loaded_after(0);
    sql.batch_execute("DELETE FROM collection").unwrap();
    stage.settled(&mut sql);
}

#[test]
fn cycle_blocks_no_other_change() {
    let stage = Stage::new(0);
    let mut sql = stage.sql();
    sql.batch_execute(
        "CREATE TABLE carries (id text PRIMARY KEY, tags text);
         INSERT INTO carries VALUES ('a', 'b'), ('b', 'c'), ('d', 'e')",
    )
    .unwrap();
    let sync = stage.follow("--query 'SELECT id, tags FROM carries'");
    sync.loaded_after(0);
    // Reverse the chain a, b, c to c, b, a: no intermediate state may be a cycle.
    sql.batch_execute(
        "BEGIN; UPDATE carries SET tags = 'a' WHERE id = 'b'; DELETE FROM carries WHERE id = 'a';
         INSERT INTO carries VALUES ('c', 'b'); NOTIFY crawlspace_tags, 'a b c'; COMMIT",
    )
    .unwrap();
    until("all of it is written", || {
        (stage.tags("a"), stage.tags("b"), stage.tags("c"))
            == (String::new(), "a".into(), "b".into())
    });
    assert_eq!(sync.errors(), "");
    sql.batch_execute(
        "BEGIN; INSERT INTO carries VALUES ('a', 'c'); UPDATE carries SET tags = 'f' WHERE id = 'd';
         NOTIFY crawlspace_tags, 'a d'; COMMIT",
    )
    .unwrap();
    until("the other change is written", || stage.tags("d") == "f");
    until("the cycle is reported", || {
        sync.errors().contains("not written: id 'a': CYCLE")
    });
    assert_eq!(stage.tags("a"), "");
}
