//! Tests refused loads, which leave everything unchanged.

use crate::tags_sync::stage::Stage;
use redis_tests::{assert_contains, rows};

#[test]
fn invalid_query_is_refused() {
    let stage = Stage::new(3);
    stage.run("--once").exits(0);
    let before = stage.redis.snapshot();
    for (query, reason) in rows![
        "SELECT 1", "the query returns 1 columns, not two";
        "SELECT 1, 'a', 'b'", "the query returns 3 columns, not two";
        "SELECT id, nothing FROM collection", "column \"nothing\" does not exist";
        "SELECT * FROM no_table", "relation \"no_table\" does not exist";
        "SELECT 1, 2", "are of type int4, not text or text[]";
        "SELECT 'a', '{}'::jsonb", "are of type jsonb";
        "SELECT 'a', 'b'; DROP TABLE collection", "multiple commands";
        "DELETE FROM collection RETURNING 'a', 'b'", "syntax error";
        "SELECT id::text, 'b' FROM collection WHERE id = $1", "parameters";
        "SELECT 'a', 1 / 0 || ''", "division by zero";
        "SELEKT", "syntax error";
    ] {
        for once in ["--once", ""] {
            let said = stage.refused(&format!("{once} --query \"{query}\""));
            assert!(said.contains(reason), "{query}: {said}");
        }
    }
    let said = stage.refused("--table no_table");
    assert_contains(&said, "relation \"no_table\" does not exist");
    let said = stage.refused("--private organization_id");
    assert_contains(&said, "must be type boolean");
    assert_eq!(stage.redis.snapshot(), before);
}

#[test]
fn invalid_row_is_reported_and_nothing_is_swapped_in() {
    let stage = Stage::new(3000);
    stage.run("--once").exits(0);
    let before = stage.redis.snapshot();
    let good = "SELECT 'a' || n, 'x' FROM generate_series(1, 2500) n";
    for (row, reason) in rows![
        "NULL, 'org:1'", "row 1 of the query: the id is NULL (its tags: 'org:1')";
        "'', 'x'", "row 1 of the query: the id is empty";
        "'z y', 'x'", "row 2501 of the query: id 'z y': a tag cannot contain a space";
        "repeat('z', 1025), 'x'", "a tag must have at most 1024 bytes";
        "'z', repeat('x', 1025)", "row 2501 of the query: id 'z': its tag 'xxx";
        "'a1', 'a1'", "CYCLE";
    ] {
        let query = format!("{good} UNION ALL SELECT {row}");
        let said = stage.refused(&format!("--query \"{query}\""));
        assert!(said.contains(reason), "{row}: {said}");
        assert_eq!(stage.redis.snapshot(), before, "{row}");
    }
    let said = stage.refused("--query \"SELECT 'a', ARRAY['b', 'c d']\"");
    assert_contains(&said, "id 'a': its tag 'c d': a tag cannot contain a space");
    assert_eq!(stage.redis.snapshot(), before);
}

#[test]
fn empty_source_does_not_empty_the_space() {
    let stage = Stage::new(20);
    let none = "SELECT 'a', 'b' WHERE false";
    // An empty space may stay empty.
    stage.run(&format!("--once --query \"{none}\"")).exits(0);
    stage.run("--once").exits(0);
    let before = stage.redis.snapshot();
    for once in ["--once", ""] {
        let said = stage.refused(&format!("{once} --query \"{none}\""));
        assert_contains(&said, "the space holds 20 ids");
        let said = stage.refused(&format!("{once} --query \"SELECT 'a', NULL::text\""));
        assert_contains(&said, "--allow-empty");
    }
    assert_eq!(stage.redis.snapshot(), before);
    stage
        .run(&format!("--once --query \"{none}\" --allow-empty"))
        .exits(0);
    assert!(stage.space().is_empty());
}

#[test]
fn access_denied_is_reported_without_the_password() {
    let stage = Stage::new(3);
    let url = stage.postgres.url_with("postgres", "wrong-se%20cret");
    let said = stage.refused(&format!("--postgres {url}"));
    assert_contains(&said, "password authentication failed");
    let url = format!("{}-that-is-none", stage.postgres.url());
    let said = stage.refused(&format!("--postgres {url}"));
    assert_contains(&said, "database \"postgres-that-is-none\" does not exist");
    let url = format!(
        "postgresql://postgres@127.0.0.1:{}/postgres",
        stage.postgres.port()
    );
    let said = stage.refused(&format!("--postgres {url}"));
    assert_contains(&said, "password");
    let said = stage.refused("--once --postgres postgresql://me:se%20cret@127.0.0.1:1/x");
    assert_contains(&said, "connecting to postgresql://127.0.0.1:1/x: ");
    assert_contains(&said, "refused");

    let wrong = stage.redis.url().replace("redis://", "redis://me:secret@");
    let said = stage.refused(&format!("--once --redis {wrong}"));
    assert_contains(&said, "connecting to redis://127.0.0.1");
    stage.redis.wire().line("SET tags x");
    for once in ["--once", ""] {
        let said = stage.refused(once);
        assert_contains(&said, "WRONGTYPE");
    }
}

#[test]
fn missing_module_is_reported() {
    let mut stage = Stage::new(3);
    stage
        .redis
        .restart_as(redis_tests::Options::new().no_module());
    let said = stage.refused("");
    assert_contains(&said, "has not loaded the Crawlspace module");
}

#[test]
fn invalid_command_line_is_refused() {
    let stage = Stage::new(0);
    for (arguments, reason) in [
        ("--query \"SELECT 1, ''\" --table x", "--table"),
        ("--private x --public y", "--public"),
        ("--once --wait", "--wait"),
        ("--every 0", "--every"),
        ("--csv - --wait", "--csv"),
        ("--csv - --query \"SELECT 1, ''\"", "--csv"),
    ] {
        assert_contains(stage.run(arguments).exits(2).errors, reason);
    }
}
