//! Tests of access control by a tag space.

use std::net::TcpListener;

use crawlspace_index::row::Row;
use crawlspace_serve::access::{Access, AccessError};
use redis_tests::archive::collection::sha1_base32;
use redis_tests::http::{Answer, ask};
use redis_tests::{Relay, Server, TagSpace, assert_contains, assert_lacks, rows, until};
use tempfile::TempDir;

use crate::serving::Stage;
use crate::shelf::{HTTP, Shelf, iso};

fn line(time: usize, collection: usize) -> String {
    format!(
        "com,example)/ {time} {{\"url\": \"http://example.com/\", \"mime\": \"text/html\", \"status\": \"200\", \
         \"digest\": \"A\", \"length\": \"1\", \"offset\": \"0\", \"filename\": \"ARCHIVEIT-{collection}-a.warc.gz\"}}"
    )
}

fn row(line: &str) -> Row {
    Row::new(bytes::Bytes::copy_from_slice(line.as_bytes())).unwrap()
}

/// Creates the collections 1 and 2, of which the second is private.
fn space(server: &Server) -> TagSpace {
    let mut space = TagSpace::of(server);
    space.ok("RULESET coll filename '(?:^|/)ARCHIVEIT-(\\d+)-' coll:$1");
    space.ok("POINTSET public 'coll:* & !private'");
    space.ok("POINTSET all coll:*");
    space.ok("ADD TAG coll:2 private");
    space
}

fn tags_of(server: &Server) -> String {
    format!("redis://127.0.0.1:{}/0/tags", server.port())
}

/// Creates captures of collections 1, 2 and 1, and one that no rule covers.
fn archive(tags: &str) -> (TempDir, Stage) {
    let dir = tempfile::tempdir().unwrap();
    let lines = [
        line(20140101000000, 1),
        line(20150101000000, 2),
        line(20160101000000, 1),
        line(20170101000000, 1).replace("ARCHIVEIT", "OTHER"),
    ];
    let file = dir.path().join("index.cdxj");
    std::fs::write(&file, lines.join("\n") + "\n").unwrap();
    let file = file.display();
    let stage = Stage::start(&format!(
        "collections:\n  tagged: {{index: {file}, tags: '{tags}'}}\n  \
         public: {{index: {file}, tags: '{tags}', access_point: public}}\n  plain: {file}\n"
    ));
    (dir, stage)
}

/// Returns the years of the rows.
fn years(answer: &Answer) -> Vec<String> {
    assert_eq!(answer.status, 200, "{}", answer.text());
    let text = answer.text();
    let year = |line: &str| line.split(' ').nth(1).unwrap()[..4].to_owned();
    text.lines().map(year).collect()
}

fn index(stage: &Stage, place: &str, more: &str) -> Answer {
    stage.get(format!("/{place}/index?url=example.com{more}"))
}

fn message(answer: &Answer, status: u16) -> String {
    assert_eq!(answer.status, status, "{}", answer.text());
    let value: serde_json::Value = serde_json::from_str(&answer.text()).unwrap();
    value["message"].as_str().unwrap().to_owned()
}

#[test]
fn access_point_shows_permitted_captures() {
    let server = Server::start();
    let mut space = space(&server);
    let (_dir, stage) = archive(&tags_of(&server));
    for (place, more, expected) in [
        ("tagged/ap/public", "", &["2014", "2016"][..]),
        ("tagged/ap/all", "", &["2014", "2015", "2016"]),
        ("public", "", &["2014", "2016"]),
        ("public/ap/all", "", &["2014", "2015", "2016"]),
        ("tagged", "", &["2014", "2015", "2016", "2017"]),
        ("tagged", "&filter=tag.coll:2", &["2015"]),
        ("tagged", "&filter=!tag.coll:2", &["2014", "2016", "2017"]),
        ("public", "&filter=tag.coll:2", &[]),
        ("public", "&limit=1&sort=reverse", &["2016"]),
        ("public", "&closest=2015", &["2016", "2014"]),
        ("public", "&collapse=digest", &["2014"]),
        ("plain", "", &["2014", "2015", "2016", "2017"]),
    ] {
        let mut found = years(&index(&stage, place, more));
        if more.contains("closest") {
            found.sort();
            found.reverse();
        }
        assert_eq!(found, expected, "{place}{more}");
    }

    // Changes in the tag space take effect at once.
    space.ok("REM TAG coll:2 private");
    let expected = ["2014", "2015", "2016"];
    assert_eq!(years(&index(&stage, "public", "")), expected);
    space.ok("ADD TAG coll:1 private");
    assert_eq!(years(&index(&stage, "public", "")), ["2015"]);
    let map = stage.get("/public/timemap/link/http://example.com/").text();
    assert_eq!(map.matches("datetime=").count(), 1, "{map}");
    let gate = stage.get("/public/timegate/http://example.com/");
    assert!(
        gate.field("location")
            .unwrap()
            .ends_with("/20150101000000id_/http://example.com/")
    );
}

#[test]
fn unknown_access_point_is_reported() {
    let server = Server::start();
    let mut space = space(&server);
    let (_dir, stage) = archive(&tags_of(&server));
    let nobody = message(&index(&stage, "tagged/ap/nobody", ""), 404);
    assert_contains(&nobody, "\"nobody\"");
    let nothing = "/tagged/ap/nobody/index?url=http://nothing.example/";
    message(&stage.get(nothing), 404);
    let no_tags = message(&index(&stage, "plain", "&filter=tag.coll:1"), 400);
    assert_contains(&no_tags, "tag.coll:1");
    for place in ["plain/ap/public", "plain/ap/nobody"] {
        assert!(
            matches!(index(&stage, place, "").status, 400 | 404),
            "{place}"
        );
    }
    space.ok("POINTDEL public");
    message(&index(&stage, "public", ""), 404);
    space.wire.line("DEL tags");
    message(&index(&stage, "public", ""), 404);
    assert_eq!(
        years(&index(&stage, "tagged", "&filter=!tag.coll:2")),
        Vec::<String>::new()
    );
}

#[test]
fn missing_reply_shows_nothing() {
    let mut server = Server::start();
    let mut space = space(&server);
    let (_dir, stage) = archive(&tags_of(&server));
    assert_eq!(years(&index(&stage, "public", "")).len(), 2);

    space.wire.line("RENAME tags elsewhere");
    space.wire.line("SET tags x");
    let wrong_type = message(&index(&stage, "public", ""), 503);
    assert_lacks(&wrong_type, "127.0.0.1");
    space.wire.line("RENAME elsewhere tags");
    assert_eq!(years(&index(&stage, "public", "")).len(), 2);

    server.shutdown();
    for place in ["public", "tagged/ap/all"] {
        message(&index(&stage, place, ""), 503);
    }
    for path in [
        "/public/timemap/link/http://example.com/",
        "/public/timegate/http://example.com/",
        "/public/2015id_/http://example.com/",
        "/public/timegate/2015id_/http://example.com/",
    ] {
        message(&stage.get(path), 503);
    }
    message(&index(&stage, "tagged", "&filter=!tag.coll:2"), 503);
    // The response must not reveal whether captures are hidden.
    let nothing = "/public/index?url=http://nothing.example/";
    message(&stage.get(nothing), 503);
    assert_eq!(years(&index(&stage, "tagged", "")).len(), 4);
}

#[test]
fn truncated_answer_is_not_taken_as_complete() {
    let server = Server::start();
    space(&server);
    let relay = Relay::to(&server);
    let dir = tempfile::tempdir().unwrap();
    let lines: Vec<String> = (0..20_000).map(|i| line(20140101000000 + i, 1)).collect();
    let file = dir.path().join("index.cdxj");
    std::fs::write(&file, lines.join("\n") + "\n").unwrap();
    let tags = format!("{}0/tags", relay.url());
    let stage = Stage::start(&format!(
        "collections:\n  public: {{index: {}, tags: '{tags}', access_point: public}}\n",
        file.display()
    ));
    assert_eq!(years(&index(&stage, "public", "")).len(), lines.len());
    relay.hold_after(2_000_000);
    let address = stage.address();
    let asking =
        std::thread::spawn(move || ask(address, "GET", "/public/index?url=example.com", &[], b""));
    until("the relay holds the tag query", || relay.holds());
    relay.refuse(true);
    relay.cut();
    let answer = asking.join().unwrap();
    assert!(answer.is_err(), "{:?}", answer.map(|answer| answer.status));
    message(&index(&stage, "public", ""), 503);
}

#[test]
fn server_without_the_module_shows_nothing() {
    let server = Server::with(redis_tests::Options::new().no_module());
    let (_dir, stage) = archive(&tags_of(&server));
    message(&index(&stage, "public", ""), 503);
}

#[tokio::test]
async fn large_batches_are_split() {
    let server = Server::start();
    space(&server);
    let access = Access::new(&tags_of(&server)).unwrap();
    let lines = (0..5003).map(|i| line(20140101000000 + i, i * i % 7));
    let lines: Vec<String> = lines.collect();
    let rows = lines.iter().map(|line| row(line)).collect();
    let passed = access.filter(Some("public"), &[], rows).await.unwrap();
    let expected: Vec<&String> = lines
        .iter()
        .filter(|line| !line.contains("ARCHIVEIT-2-"))
        .collect();
    assert_eq!(passed.len(), expected.len());
    for (row, line) in passed.iter().zip(expected) {
        assert_eq!(row.line(), line.as_bytes());
    }
}

#[tokio::test]
async fn unreadable_rows_are_omitted() {
    let server = Server::start();
    space(&server);
    let access = Access::new(&tags_of(&server)).unwrap();
    let (good, private) = (line(20140101000000, 1), line(20150101000000, 2));
    let no_json = "com,example)/ 20140101000000 {\"filename\": \"ARCHIVEIT-1-a\", }";
    let two = format!("{good}\n{good}").replacen('}', "", 1) + "}";
    for odd in [
        no_json,
        &two,
        "com,example)/ 20140101000000 {}",
        " CDX {}",
        "! 2 {}",
    ] {
        let Some(odd) = Row::new(bytes::Bytes::copy_from_slice(odd.as_bytes())) else {
            continue;
        };
        let rows = vec![odd.clone(), row(&private), odd, row(&good), row(&private)];
        let passed = access.filter(Some("public"), &[], rows).await.unwrap();
        assert_eq!(passed, [row(&good)]);
    }
    let nothing = access
        .filter(Some("public"), &[], Vec::new())
        .await
        .unwrap();
    assert!(nothing.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_connection_shows_nothing_until_it_is_replaced() {
    let mut server = Server::start();
    space(&server);
    let relay = Relay::to(&server);
    let access = Access::new(&format!("{}0/tags", relay.url())).unwrap();
    let rows = || vec![row(&line(20140101000000, 1)), row(&line(20150101000000, 2))];
    let passed = || access.filter(Some("public"), &[], rows());
    assert_eq!(passed().await.unwrap().len(), 1);
    relay.refuse(true);
    relay.cut();
    assert!(matches!(passed().await, Err(AccessError::Unavailable(_))));
    relay.refuse(false);
    assert_eq!(passed().await.unwrap().len(), 1);
    server.kill9();
    assert!(matches!(passed().await, Err(AccessError::Unavailable(_))));
}

#[tokio::test]
async fn tag_space_has_a_server_a_database_and_a_key() {
    for wrong in [
        "",
        "redis://h",
        "redis://h/0",
        "redis://h/0/",
        "redis://h/x/k",
        "redis:///0/k",
    ] {
        assert!(Access::new(wrong).is_err(), "{wrong}");
    }
    assert!(
        !Access::new("redis://u:secret@h/0")
            .map(|_| ())
            .unwrap_err()
            .contains("secret")
    );
    let closed = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let access = Access::new(&format!("redis://{closed}/0/a/b")).unwrap();
    let refused = access
        .filter(Some("p"), &[], vec![row(&line(2014, 1))])
        .await;
    assert!(matches!(refused, Err(AccessError::Unavailable(_))));
}

/// Tests a public revisit whose original is in a private collection.
#[test]
fn tags_hide_the_originals_of_revisits() {
    let server = Server::start();
    space(&server);
    let mut shelf = Shelf::new();
    let (private, open) = ("ARCHIVEIT-2-a.warc", "ARCHIVEIT-1-a.warc");
    let url = "http://example.com/";
    shelf.capture(private, url, "20160101000000", b"the payload");
    let digest = sha1_base32(b"the payload");
    let fields = rows![
        "WARC-Type", "revisit";
        "WARC-Record-ID", "<urn:uuid:00000000-0000-4000-8000-000000000001>";
        "WARC-Date", &iso("20180101000000");
        "WARC-Target-URI", url;
        "WARC-Refers-To-Target-URI", url;
        "WARC-Refers-To-Date", &iso("20160101000000");
        "WARC-Payload-Digest", &format!("sha1:{digest}");
        "WARC-Profile", "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest";
        "Content-Type", "application/http; msgtype=response";
    ];
    let slot = shelf.record(open, &fields, HTTP.as_bytes());
    let more = format!(", \"digest\": \"{digest}\", \"mime\": \"warc/revisit\"");
    shelf.line(url, "20180101000000", &slot, &more);
    let (file, warcs, tags) = (
        shelf.write_index("index.cdxj"),
        shelf.warcs(),
        tags_of(&server),
    );
    let common = format!("index: {file}, resource: {warcs}, tags: '{tags}'");
    let stage = Stage::start(&format!(
        "collections:\n  \
         all: {{{common}, access_point: all}}\n  \
         public: {{{common}, access_point: public}}\n  \
         lending: {{{common}, access_point: public, hidden_originals: lend}}\n"
    ));
    let record = |place: &str| stage.get(format!("/{place}/resource?url={url}&closest=2018"));
    let dates = |place: &str| years(&index(&stage, place, ""));
    assert_eq!(dates("all"), ["2016", "2018"]);
    assert_eq!(dates("public"), ["2018"]);
    let all = record("all");
    assert_eq!(all.status, 200, "{}", all.text());
    assert_contains(all.text(), iso("20160101000000"));
    assert_eq!(record("public").status, 404);
    let lent = record("lending");
    assert_eq!(lent.status, 200, "{}", lent.text());
    assert_contains(lent.text(), "the payload");
    assert_lacks(lent.text(), "WARC-Refers-To");
    assert_lacks(lent.text(), iso("20160101000000"));
}
