//! Tests a single load, and the preview of its changes.

use std::io::Write;

use redis_tests::{Reply, Server, assert_contains, assert_starts};
use serde_json::Value;

use crate::tags_sync::stage::{Space, Stage, crawlspace};

fn space(entries: &[(&str, &str)]) -> Space {
    let own = |&(id, tags): &(&str, &str)| (id.to_owned(), tags.to_owned());
    entries.iter().map(own).collect()
}

#[test]
fn everything_is_loaded_and_null_is_private() {
    let stage = Stage::new(4321);
    let mut sql = stage.sql();
    sql.batch_execute("UPDATE collection SET private = NULL WHERE id % 100 = 1; UPDATE collection SET organization_id = NULL WHERE id % 50 = 3")
        .unwrap();
    let output = stage.run("--once --json").exits(0);
    let told = output.object();
    assert_eq!(told["event"], "loaded");
    let expected = stage.expected(&mut sql);
    assert_eq!(told["ids"], expected.len());
    assert_eq!(stage.space(), expected);
    assert_eq!(stage.tags("coll:101"), "org:1 private");
    assert_eq!(stage.tags("coll:53"), "");
    assert_eq!(stage.tags("coll:153"), "private");

    // Loading again changes nothing.
    let output = stage.run("--once");
    let told = output.out;
    assert_starts(&told, "loaded 4 ");
    assert_contains(&told, " ids with ");
    assert_eq!(stage.space(), expected);
}

#[test]
fn column_may_mark_public_rows_with_their_own_tag() {
    let stage = Stage::new(0);
    stage
        .sql()
        .batch_execute(
            r#"CREATE SCHEMA "Archive";
            CREATE TABLE "Archive"."Coll ection" ("Id" text, "Org""" text, "visible?" boolean);
            INSERT INTO "Archive"."Coll ection" VALUES ('a', 'x', true), ('b', 'y', false), ('c', 'z', NULL)"#,
        )
        .unwrap();
    stage.run("--once --table 'Archive.Coll ection' --id Id --organization 'Org\"' --public visible? --public-tag public").exits(0);
    assert_eq!(
        stage.space(),
        space(&[
            ("coll:a", "org:x public"),
            ("coll:b", "org:y private"),
            ("coll:c", "org:z private")
        ])
    );
}

#[test]
fn query_may_return_text_arrays_or_several_rows_per_id() {
    let stage = Stage::new(0);
    let text = "SELECT * FROM (VALUES ('b', 'x  y'), ('a', NULL), ('b', ' z '), ('B', 'x')) v(a, a) -- end\n;";
    stage.run(&format!("--once --query \"{text}\"")).exits(0);
    assert_eq!(stage.space(), space(&[("b", "x y z"), ("B", "x")]));

    let array =
        "SELECT 7, ARRAY['x', NULL, 'é'] UNION ALL SELECT 8, NULL UNION ALL SELECT 7, ARRAY['w']";
    stage.run(&format!("--once --query \"{array}\"")).exits(0);
    assert_eq!(stage.space(), space(&[("7", "w x é")]));
}

#[test]
fn files_and_captures_are_mirrored_like_tags() {
    let stage = Stage::new(5);
    stage.run("--once").exits(0);
    let before = stage.space();
    let files = "SELECT 'A FILE-' || n || '.warc.gz', 'coll:' || n FROM generate_series(1, 3) n";
    stage
        .run(&format!("--once --kind file --query \"{files}\""))
        .exits(0);
    let expected = space(&[
        ("A FILE-1.warc.gz", "coll:1"),
        ("A FILE-2.warc.gz", "coll:2"),
        ("A FILE-3.warc.gz", "coll:3"),
    ]);
    assert_eq!(stage.space_of("FILE"), expected);
    assert_eq!(stage.space(), before);
}

#[test]
fn dry_run_prints_the_difference_and_changes_nothing() {
    let stage = Stage::new(30);
    let output = stage.run("--dry-run");
    assert!(output.status == 0);
    assert_eq!(stage.redis.wire().ok_line("DBSIZE"), Reply::Int(0));
    stage.run("--once").exits(0);

    let mut wire = stage.redis.wire();
    wire.line("TAGS.ADD tags TAG coll:100 org:1 private");
    wire.line("TAGS.ADD tags TAG coll:4 embargo");
    wire.line("TAGS.REM tags TAG coll:5 org:5");
    let before = stage.redis.snapshot();
    let output = stage.run("--dry-run");
    assert!(output.status == 0);
    assert_eq!(
        output.out,
        "- coll:100 org:1 private\n~ coll:4 embargo org:4 -> org:4\n+ coll:5 org:5\n\
         1 to add, 1 to remove, 1 to change, 28 unchanged\n"
    );
    let output = stage.run("--dry-run --json");
    let lines = output.out;
    let lines: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 4);
    assert_eq!(lines[0]["new"], Value::Null);
    assert_eq!(lines[1]["old"], "embargo org:4");
    assert_eq!(lines[3]["same"], 28);
    assert_eq!(stage.redis.snapshot(), before);
}

/// Runs the tool on a CSV file.
fn csv(redis: &Server, text: &str, more: &str) -> (bool, String) {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    let (url, path) = (redis.url(), file.path().to_str().unwrap().to_owned());
    let outcome = crawlspace(&format!("--redis {url} --key tags --csv {path} {more}"));
    (outcome.status == 0, outcome.out + &outcome.errors)
}

#[test]
fn file_is_loaded_without_a_database() {
    let redis = Server::start();
    let mut wire = redis.wire();
    wire.line("TAGS.ADD tags TAG old gone");
    let text =
        "id,tags\r\ncoll:1,org:7 private\r\n\"coll:2\",\"org:7\"\r\ncoll:3,\r\ncoll:1,org:8\r\n";
    let (done, said) = csv(&redis, text, "--dry-run");
    assert!(done);
    assert!(
        said.ends_with("2 to add, 1 to remove, 0 to change, 0 unchanged\n"),
        "{said}"
    );
    let (done, said) = csv(&redis, text, "");
    assert!(done, "{said}");
    assert_starts(&said, "loaded 2 ids with 4 tags");
    let tags = |id: &str| {
        let got = redis.wire().ok_line(format!("TAGS.GET tags TAG {id}"));
        got.texts().join(" ")
    };
    assert_eq!(tags("coll:1"), "org:7 org:8 private");
    assert_eq!(tags("coll:2"), "org:7");
    assert_eq!(tags("old"), "");

    let before = redis.snapshot();
    let (done, said) = csv(&redis, "coll:1,org:1\ncoll 2,org:1\n", "");
    assert!(!done);
    assert_contains(&said, "line 2: id 'coll 2': a tag cannot contain a space");
    let (done, said) = csv(&redis, "id,tags\n", "");
    assert!(!done);
    assert_contains(&said, "--allow-empty");
    assert_eq!(redis.snapshot(), before);
    let (done, _) = csv(&redis, "", "--allow-empty");
    assert!(done);
    assert_eq!(tags("coll:1"), "");
}

#[test]
fn large_file_is_loaded_completely() {
    let redis = Server::start();
    let mut text = String::new();
    for n in (0..25_000u32).chain(0..25_000) {
        text.push_str(&format!("coll:{n},org:{}\n", n % 7));
    }
    let (done, said) = csv(&redis, &text, "--json");
    assert!(done, "{said}");
    assert_contains(&said, "\"ids\":25000");
}
