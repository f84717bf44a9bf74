//! Tests of `/<coll>-index` and `/collinfo.json`, the paths of Common Crawl's index server.

use redis_tests::http::ask;
use redis_tests::{assert_contains, assert_starts};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::as_pywb::cluster;
use crate::serving::Stage;

const LINES: &str = "\
com,example)/ 20240101000000 {\"url\": \"http://example.com/\", \"mime\": \"text/html\", \"status\": 200, \"digest\": \"B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A\", \"length\": \"10\", \"offset\": \"1\", \"filename\": \"a.warc.gz\"}
com,example)/ 20240201000000 {\"url\": \"http://example.com/\", \"mime\": \"text/html\", \"status\": \"404\", \"digest\": \"B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A\", \"length\": \"11\", \"offset\": \"2\", \"filename\": \"a.warc.gz\"}
";

fn crawls() -> (TempDir, Stage) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("index.cdxj"), LINES).unwrap();
    let index = dir.path().join("index.cdxj");
    let index = index.display();
    let blocks = cluster(dir.path());
    let blocks = blocks.display();
    let stage = Stage::start(&format!(
        "collections:\n  CC-MAIN-2024-10: {index}\n  CC-MAIN-2024-18: {blocks}\n  web: {index}\n  web-index: {index}\n"
    ));
    (dir, stage)
}

#[test]
fn crawl_is_queried_at_its_own_address() {
    let (_dir, stage) = crawls();
    for (query, media) in [
        ("url=example.com", "text/x-cdxj"),
        ("url=example.com&output=json", "text/x-ndjson"),
        (
            "url=example.com&output=json&showNumPages=true",
            "text/x-ndjson",
        ),
        ("url=example.org&showNumPages=true", "application/json"),
        (
            "url=example.com&output=json&filter==status:404&fl=url,timestamp",
            "text/x-ndjson",
        ),
    ] {
        let answer = stage.get(format!("/CC-MAIN-2024-10-index?{query}"));
        let same = stage.get(format!("/CC-MAIN-2024-10/index?{query}"));
        assert_eq!(
            (answer.status, answer.media_type()),
            (200, media),
            "{query}"
        );
        assert_eq!(answer.text(), same.text(), "{query}");
        assert!(!answer.text().is_empty(), "{query}");
    }
    let rows = stage.get("/CC-MAIN-2024-10-index?url=example.com&output=json&limit=1");
    let row: Value = serde_json::from_slice(&rows.body).unwrap();
    assert_eq!(
        (&row["status"], &row["urlkey"]),
        (&json!("200"), &json!("com,example)/"))
    );
    assert_eq!(stage.get("/CC-MAIN-2024-10-index").status, 400);
    assert_eq!(
        stage.get("/CC-MAIN-2024-99-index?url=example.com").status,
        404
    );
    assert_eq!(
        stage.get("/CC-MAIN-2024-10-index/x?url=example.com").status,
        404
    );
}

#[test]
fn queries_without_rows_are_404_and_pages_after_the_last_400() {
    let (_dir, stage) = crawls();
    for (target, status, message) in [
        (
            "/CC-MAIN-2024-10-index?url=example.org",
            404,
            "No Captures found for: http://example.org",
        ),
        (
            "/CC-MAIN-2024-10-index?url=example.org&page=0",
            404,
            "No Captures found for",
        ),
        (
            "/CC-MAIN-2024-10-index?url=example.com&pageSize=1&page=2",
            400,
            "page=2",
        ),
        (
            "/CC-MAIN-2024-18-index?url=*.example.com&pageSize=2&page=1&filter=~url:.*[14]",
            404,
            "No Captures",
        ),
        (
            "/CC-MAIN-2024-18-index?url=*.example.com&pageSize=2&page=3",
            400,
            "page=3",
        ),
    ] {
        let answer = stage.get(target);
        assert_eq!(
            (answer.status, answer.media_type()),
            (status, "application/json"),
            "{target}"
        );
        let answer: Value = serde_json::from_slice(&answer.body).unwrap();
        assert_starts(answer["message"].as_str().unwrap(), message);
    }
    // The standard path returns 200 and an empty body, as pywb does.
    let answer = stage.get("/CC-MAIN-2024-10/index?url=example.org");
    assert_eq!((answer.status, answer.text()), (200, String::new()));
}

#[test]
fn crawls_are_listed_with_their_addresses() {
    let (_dir, stage) = crawls();
    let answer = stage.get("/collinfo.json");
    assert_eq!(
        (answer.status, answer.media_type()),
        (200, "application/json")
    );
    let crawl = |name: &str, index: &str| {
        let host = stage.address();
        json!({
            "id": name,
            "name": name,
            "timegate": format!("http://{host}/{name}/timegate/"),
            "cdx-api": format!("http://{host}/{index}"),
        })
    };
    let listed: Value = serde_json::from_slice(&answer.body).unwrap();
    let expected = json!([
        crawl("CC-MAIN-2024-10", "CC-MAIN-2024-10-index"),
        crawl("CC-MAIN-2024-18", "CC-MAIN-2024-18-index"),
        // The usual path belongs to another collection.
        crawl("web", "web/index"),
        crawl("web-index", "web-index-index"),
    ]);
    assert_eq!(listed, expected);
    let posted = ask(stage.address(), "POST", "/collinfo.json", &[], b"").unwrap();
    assert_eq!(posted.status, 405);
    // The collection `web-index` answers at this path, in the response format of OutbackCDX.
    let columns = stage.get("/web-index?url=example.com&limit=1").text();
    assert_contains(
        columns,
        "com,example)/ 20240101000000 http://example.com/ text/html 200",
    );
}
