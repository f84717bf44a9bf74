//! Tests of `/<coll>/api/records` for crawlers that use Doppelgänger's API.

use redis_tests::http::{Answer, ask};
use redis_tests::{DedupeIndex, Server, assert_contains, with};
use serde_json::{Value, json};

use crate::serving::{Setup, Stage};

const DIGEST: &str = "B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A";

fn start(server: &Server, crawl: &str) -> Stage {
    let url = server.url();
    Stage::start(&format!(
        "collections:\n  seen: {{index: {{type: dedupe, redis_url: '{}', prefix: 'x:'{crawl}}}}}\n  live: $live\n",
        url.trim_end_matches('/')
    ))
}

fn post(stage: &Stage, fields: &[(&str, &str)], records: &Value) -> Answer {
    let mut all = fields.to_vec();
    all.push(("Content-Type", "application/json; charset=utf-8"));
    post_with(stage, &all, records)
}

fn post_with(stage: &Stage, fields: &[(&str, &str)], records: &Value) -> Answer {
    let body = records.to_string();
    let target = "/seen/api/records";
    ask(stage.address(), "POST", target, fields, body.as_bytes()).unwrap()
}

fn found(stage: &Stage, target: &str) -> Value {
    let answer = stage.get(target);
    assert_eq!(answer.status, 200, "{target}: {}", answer.text());
    serde_json::from_slice(&answer.body).unwrap()
}

#[test]
fn records_are_known_to_their_crawl_and_after_the_commit_to_others() {
    let server = Server::start();
    let mut index = DedupeIndex::of(&server, "x:");
    let stage = start(&server, ", crawl: c1");
    // The URL is not escaped.
    let target = format!("/seen/api/records/{DIGEST}?uri=http://example.com/?a=b&c=d");
    let unknown = stage.get(&target);
    assert_eq!(unknown.status, 404);
    assert_contains(unknown.field("cache-control").unwrap(), "no-store");
    let record =
        json!({"id": DIGEST, "uri": "http://example.com/", "date": 20_240_131_235_959_u64});
    let added = post(&stage, &[], &json!([record]));
    assert_eq!(added.status, 201, "{}", added.text());
    // Adding a record again changes nothing, and one with an earlier date replaces it.
    assert_eq!(post(&stage, &[], &json!([record])).status, 201);
    for path in [
        target.as_str(),
        &format!("/api/records/sha1:{DIGEST}?uri=x"),
    ] {
        assert_eq!(found(&stage, path)["date"], record["date"], "{path}");
    }
    assert_eq!(found(&stage, &target), record);
    let earlier = json!({"id": DIGEST, "uri": "http://example.com/new", "date": "20230131235959"});
    assert_eq!(post(&stage, &[], &json!([earlier])).status, 201);
    assert_eq!(found(&stage, &target)["uri"], "http://example.com/new");
    let another = [("Crawlspace-Crawl", "c2")];
    let other = || ask(stage.address(), "GET", &target, &another, b"").unwrap();
    assert_eq!(other().status, 404);
    index.ok("COMMIT c1");
    assert_eq!(other().status, 200);
    let late = post(&stage, &[], &json!([record]));
    assert_eq!(late.status, 201, "{}", late.text());
}

#[test]
fn foreign_page_adds_no_records() {
    let server = Server::start();
    let url = server.url();
    let config = format!(
        "collections:\n  seen: {{index: {{type: dedupe, redis_url: '{}', prefix: 'x:', crawl: c1}}}}\n",
        url.trim_end_matches('/')
    );
    let public = "https://public.example";
    let stage = Stage::start_with(
        &config,
        with!(
            Setup,
            public_url: Some(format!("{public}/archive")),
            allow_origin: Some("https://reader.example".parse().unwrap())
        ),
    );
    let record =
        json!([{"id": DIGEST, "uri": "http://example.com/", "date": 20_240_131_235_959_u64}]);
    let json = ("Content-Type", "application/json");
    let text = ("Content-Type", "text/plain;charset=UTF-8");
    let foreign = ("Origin", "http://evil.example");
    for (fields, status, why) in [
        (&[text, foreign][..], 403, "another origin"),
        (&[json, foreign], 403, "another origin"),
        (&[json, ("Origin", "null")], 403, "another origin"),
        (
            &[json, ("Origin", "http://127.0.0.1:1")],
            403,
            "another origin",
        ),
        (
            &[json, ("Origin", "https://reader.example")],
            403,
            "another origin",
        ),
        (
            &[json, ("Sec-Fetch-Site", "cross-site")],
            403,
            "another origin",
        ),
        (
            &[json, ("Sec-Fetch-Site", "same-site")],
            403,
            "another origin",
        ),
        (&[text], 415, "Content-Type: application/json"),
        (&[], 415, "Content-Type: application/json"),
        (
            &[("Content-Type", "application/x-www-form-urlencoded")],
            415,
            "application/json",
        ),
    ] {
        let answer = post_with(&stage, fields, &record);
        assert_eq!(answer.status, status, "{fields:?}: {}", answer.text());
        assert_contains(answer.text(), why);
        assert_eq!(answer.field("connection"), Some("close"), "{fields:?}");
    }
    let target = format!("/seen/api/records/{DIGEST}");
    assert_eq!(stage.get(&target).status, 404);
    let own = stage.url();
    for fields in [
        &[json][..],
        &[json, ("Origin", &own), ("Sec-Fetch-Site", "same-origin")],
        &[json, ("Origin", public)],
    ] {
        let answer = post_with(&stage, fields, &record);
        assert_eq!(answer.status, 201, "{fields:?}: {}", answer.text());
    }
    assert_eq!(stage.get(&target).status, 200);
}

#[test]
fn invalid_records_are_refused() {
    let mut server = Server::start();
    let stage = start(&server, "");
    let good = json!({"id": DIGEST, "uri": "http://example.com/", "date": 20_240_131_235_959_u64});
    let crawl = [("Crawlspace-Crawl", "c")];
    for (fields, records, status, why) in [
        (&[][..], json!([good]), 400, "crawl"),
        (&crawl[..], json!({}), 400, "not an array"),
        (
            &crawl[..],
            json!([good, {"id": DIGEST}]),
            400,
            "record 1: date",
        ),
        (
            &crawl[..],
            json!([{"id": "short", "uri": "u", "date": 20_240_131_235_959_u64}]),
            400,
            "short",
        ),
        (
            &[("Crawlspace-Crawl", "c:counts")][..],
            json!([good]),
            400,
            "c:counts",
        ),
        (&crawl[..], json!([]), 201, "0"),
    ] {
        let answer = post(&stage, fields, &records);
        assert_eq!(answer.status, status, "{records}: {}", answer.text());
        assert_contains(answer.text(), why);
    }
    for (target, status, why) in [
        ("/seen/api/records/x", 400, "x"),
        ("/seen/api/records", 405, "POST"),
        ("/live/api/records/x", 404, "no dedupe index"),
        // The dedupe index has no URL index.
        ("/seen/index?url=example.com", 502, "bad answer"),
        ("/seen/cdx?url=example.com", 502, "bad answer"),
        ("/seen/resource?url=example.com", 502, "bad answer"),
    ] {
        let answer = stage.get(target);
        assert_eq!(answer.status, status, "{target}: {}", answer.text());
        assert_contains(answer.text(), why);
    }
    let target = format!("/seen/api/records/{DIGEST}");
    assert_eq!(stage.get(&target).status, 404);
    server.kill9();
    let answer = stage.get(&target);
    assert_eq!(answer.status, 503, "{}", answer.text());
    assert!(!answer.text().contains("127.0.0.1"), "{}", answer.text());
    server.restart();
    assert_eq!(stage.get(&target).status, 404);
}
