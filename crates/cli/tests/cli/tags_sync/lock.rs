//! Tests the lock of a space, and its release.

use redis_tests::{assert_contains, until};

use crate::tags_sync::stage::Stage;

#[test]
fn second_mirror_of_a_space_is_refused_or_waits() {
    let stage = Stage::new(20);
    let mut sql = stage.sql();
    let mut first = stage.follow("");
    first.loaded_after(0);
    for once in ["--once", ""] {
        let said = stage.refused(once);
        assert_contains(
            &said,
            "another mirror already updates the tags of the space 'tags'",
        );
        assert_contains(&said, "process ");
    }
    // A mirror with another key or another kind updates another space, which has its own lock.
    stage.run("--once --key other").exits(0);
    stage.run("--once --kind file").exits(0);

    let mut second = stage.follow("--wait");
    until("the second mirror reports that it waits", || {
        second.errors().contains("waiting until it ends")
    });
    assert_eq!(second.loads(), 0);
    first.signal("INT");
    assert_eq!(first.end().code(), Some(0));
    second.loaded_after(0);
    sql.batch_execute("UPDATE collection SET private = NOT private")
        .unwrap();
    stage.settled(&mut sql);
    assert!(second.is_alive());
}

#[test]
fn waiting_mirror_ends_on_a_signal() {
    let stage = Stage::new(2);
    let first = stage.follow("");
    first.loaded_after(0);
    let mut second = stage.follow("--wait");
    until("the second mirror reports that it waits", || {
        second.errors().contains("waiting until it ends")
    });
    second.signal("TERM");
    assert_eq!(second.end().code(), Some(0));
}

#[test]
fn interrupted_load_leaves_nothing_behind() {
    let stage = Stage::new(3000);
    let mut sql = stage.sql();
    stage.run("--once").exits(0);
    let before = stage.redis.snapshot();
    // The query waits for a lock, which this test holds.
    sql.batch_execute(crate::tags_sync::readers::GATE).unwrap();
    sql.batch_execute("SELECT pg_advisory_lock(42)").unwrap();
    let mut sync = stage.follow(&format!("--query \"{}\"", crate::tags_sync::readers::GATED));
    until("the load is under way", || {
        crate::tags_sync::readers::is_waiting(&stage)
    });
    sync.signal("TERM");
    assert_eq!(sync.end().code(), Some(0));
    assert_eq!(stage.redis.snapshot(), before);
    until("the query of the mirror has ended", || {
        !crate::tags_sync::readers::is_waiting(&stage)
    });
}

#[test]
fn mirror_needs_few_permissions() {
    let stage = Stage::new(20);
    let mut sql = stage.sql();
    sql.batch_execute(
        "CREATE ROLE mirror LOGIN PASSWORD 'p'; GRANT SELECT ON collection TO mirror",
    )
    .unwrap();
    let user = "ACL SETUSER mirror on >p ~tags -@all +tags.load +tags.swap +tags.info +tags.scan +watch +unwatch +multi +exec";
    stage.redis.wire().line(user);
    let postgres = stage.postgres.url_with("mirror", "p");
    let redis = stage.redis.url().replace("redis://", "redis://mirror:p@");
    let arguments = format!("--postgres {postgres} --redis {redis}");
    let sync = stage.follow(&arguments);
    sync.loaded_after(0);
    sql.batch_execute("UPDATE collection SET private = NOT private; NOTIFY crawlspace_tags")
        .unwrap();
    stage.settled(&mut sql);
    assert_eq!(sync.errors(), "");
    stage.run(&format!("{arguments} --dry-run")).exits(0);
}
