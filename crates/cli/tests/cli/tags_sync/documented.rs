//! Runs the examples of docs/guide/tags-sync.md.

use std::path::Path;

use redis_tests::{Server, until};

use crate::tags_sync::postgres::Postgres;
use crate::tags_sync::stage::{Stage, crawlspace};

/// Returns the fenced blocks of a language.
fn blocks(language: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/tags-sync.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (mut blocks, mut inside) = (Vec::new(), None);
    for line in text.lines() {
        match (&mut inside, line.strip_prefix("```")) {
            (None, Some(named)) => inside = Some((named.to_owned(), String::new())),
            (Some(_), Some(_)) => blocks.extend(inside.take()),
            (Some((_, block)), None) => block.extend([line, "\n"]),
            (None, None) => {}
        }
    }
    blocks.retain(|(named, _)| named == language);
    blocks.into_iter().map(|(_, block)| block).collect()
}

#[test]
fn sql_of_the_guide_works_unchanged() {
    let sql = blocks("sql");
    let [table, query, organizations, role] = &sql[..] else {
        panic!("{} blocks of SQL", sql.len());
    };
    let shown = blocks("");
    let [difference, followed, csv] = &shown[..] else {
        panic!("{} blocks of output", shown.len());
    };
    let stage = Stage {
        postgres: Postgres::start(),
        redis: Server::start(),
    };
    let mut client = stage.sql();
    client.batch_execute(table).unwrap();
    client
        .batch_execute("INSERT INTO collection VALUES (1068, 77, false), (1069, 77, true)")
        .unwrap();
    client.batch_execute(role).unwrap();
    client
        .batch_execute("ALTER ROLE mirror PASSWORD 'p'")
        .unwrap();
    let url = stage.postgres.url_with("mirror", "p");
    let output = stage.run(&format!("--postgres {url} --dry-run"));
    assert_eq!(&output.out, difference);

    let printed = crawlspace("--print-sql").out;
    client.batch_execute(&printed).unwrap();
    let index = printed.lines().find_map(|line| {
        let comment = line.strip_prefix("-- ")?;
        comment.starts_with("CREATE INDEX").then_some(comment)
    });
    client
        .batch_execute(index.expect("the index is named"))
        .unwrap();
    let sync = stage.follow(&format!("--postgres {url}"));
    sync.loaded_after(0);
    client
        .batch_execute(
            "INSERT INTO collection VALUES (2950, 12, false);
             UPDATE collection SET private = true WHERE id = 1068; DELETE FROM collection WHERE id = 2950",
        )
        .unwrap();
    let told: Vec<&str> = followed.lines().skip(1).collect();
    until("the changes are reported", || {
        let out = sync.out();
        told.iter()
            .all(|line| out.lines().any(|told| told == *line))
    });
    drop(sync);

    client
        .batch_execute(
            "CREATE TABLE organization (id int PRIMARY KEY, suspended boolean);
             INSERT INTO organization VALUES (77, false);
             ALTER TABLE collection ADD embargo_until timestamptz;
             UPDATE collection SET private = false;
             UPDATE collection SET embargo_until = now() + '1 day' WHERE id = 1069",
        )
        .unwrap();
    client.batch_execute(organizations).unwrap();
    let sync = stage.follow(&format!("--query \"{query}\""));
    sync.loaded_after(0);
    assert_eq!(stage.tags("coll:1068"), "org:77");
    assert_eq!(stage.tags("coll:1069"), "embargo org:77");
    client
        .batch_execute("UPDATE organization SET suspended = true")
        .unwrap();
    until("both of its collections are private", || {
        stage.tags("coll:1068") == "org:77 private"
            && stage.tags("coll:1069") == "embargo org:77 private"
    });
    drop(sync);

    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("collections.csv");
    std::fs::write(&file, csv).unwrap();
    stage.run(&format!("--csv {}", file.display())).exits(0);
    assert_eq!(stage.tags("coll:1068"), "org:77");
    assert_eq!(stage.tags("coll:1069"), "org:77 private");
}
