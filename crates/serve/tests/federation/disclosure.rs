//! Tests of the information about failures that clients get, compared with the information for the operator.

use redis_tests::http::{Answer, Connection, get};
use redis_tests::{ScriptedHost, assert_contains, assert_lacks, until};
use serde_json::Value;

use crate::serving::Stage;

/// Waits for `count` log events with this message about the request of an answer, and returns them.
pub fn logged(stage: &Stage, answer: &Answer, message: &str, count: usize) -> Vec<Value> {
    let id = answer.field("x-request-id").unwrap();
    let events = || -> Vec<Value> {
        let log = stage.log();
        let events = log
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        events
            .filter(|event: &Value| event["message"] == message && event["span"]["id"] == id)
            .collect()
    };
    until("the log contains all events", || events().len() >= count);
    assert_eq!(events().len(), count);
    events()
}

#[test]
fn status_page_is_for_the_operator() {
    let stage = Stage::start("collections:\n  c: ./none.cdxj\n  live: $live\n");
    for target in ["/_status", "/_metrics"] {
        let answer = stage.get(target);
        assert_eq!(answer.status, 404, "{}", answer.text());
        assert_lacks(answer.text(), "127.0.0.1");
        assert_eq!(get(stage.operator(), target).status, 200);
        // The live web does not give access to the operator's address either, even if private
        // addresses are allowed.
        let operator = stage.operator();
        let through = stage.get(format!("/live/id_/http://{operator}{target}"));
        assert_eq!(through.status, 404, "{}", through.text());
    }
    // The operator's address serves nothing else.
    for target in ["/", "/c/index?url=a.com", "/_indexes/full?jobs=1"] {
        assert_eq!(get(stage.operator(), target).status, 404, "{target}");
    }
    let mut connection = Connection::open(stage.operator()).unwrap();
    let posted = connection.ask("POST", "/_status", &[], b"x").unwrap();
    assert_eq!(posted.status, 405);
    let page = stage.get("/").text();
    assert_lacks(&page, "_status");
    assert_lacks(&page, "none.cdxj");
}

#[test]
fn only_the_operator_learns_paths_and_addresses() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().display().to_string();
    std::fs::write(dir.path().join("p.gz"), "no gzip").unwrap();
    std::fs::write(dir.path().join("a.idx"), "com,a)/ 2016\tp.gz\t0\t7\n").unwrap();
    std::fs::write(
        dir.path().join("rows.cdxj"),
        "com,b)/ 20160101000000 {\"url\": \"http://b.com/\", \"filename\": \"none.warc\", \"offset\": \"0\"}\n",
    )
    .unwrap();
    let garbage = ScriptedHost::start(|_| redis_tests::answer(200, &[], "secret 10.1.2.3"));
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let stage = Stage::start(&format!(
        "collections:\n  c:\n    index_group:\n      damaged: zipnum+{path}/a.idx\n      \
         closed: cdx+http://{free}/x-cdx\n      private: cdx+http://10.255.0.1/x-cdx\n      \
         garbage: cdx+{}/x-cdx\n      database: redis://{free}/0/key\n      rows: {path}/rows.cdxj\n    \
         resource: {path}/warcs\n",
        garbage.url("")
    ));
    let secret = [
        &path[..],
        "10.",
        "127.0.0.1:1",
        &free.to_string(),
        "p.gz",
        "secret",
    ];
    let own = stage.address().to_string();
    let hidden = |answer: &Answer| {
        let text = format!(
            "{:?} {:?} {}",
            answer.fields,
            answer.trailers,
            answer.text()
        );
        let text = text.replace(&own, "");
        for secret in secret {
            assert!(!text.contains(secret), "{secret}: {text}");
        }
    };
    let expected = [
        ("damaged", "unreadable"),
        ("closed", "unreachable"),
        ("private", "refused by access rules"),
        ("garbage", "bad answer"),
        ("database", "unreachable"),
    ];
    for target in [
        "/c/index?url=a.com",
        "/c/resource?url=a.com",
        "/c/timegate/http://a.com/",
        "/c/timemap/link/http://a.com/",
    ] {
        let answer = stage.get(target);
        hidden(&answer);
        let errors: Value = serde_json::from_str(answer.field("source-errors").unwrap()).unwrap();
        for (name, reason) in expected {
            assert_eq!(errors[name], reason, "{target}: {errors}");
        }
        let events = logged(&stage, &answer, "a source has no answer", expected.len());
        let errors: Vec<String> = events
            .iter()
            .map(|event| event["error"].to_string())
            .collect();
        let errors = errors.join("\n");
        for whole in [
            &format!("{path}/p.gz")[..],
            "10.255.0.1",
            &free.to_string(),
            "secret",
        ] {
            assert!(errors.contains(whole), "{whole}: {errors}");
        }
    }
    let page = stage.get("/?coll=c&url=a.com");
    hidden(&page);
    assert_contains(page.text(), "unreachable");
    let answer = stage.get("/c/resource?url=b.com");
    hidden(&answer);
    assert_eq!(answer.status, 404);
    let events = logged(&stage, &answer, "a record cannot be loaded", 1);
    assert_eq!(events[0]["file"], "none.warc");
    assert_eq!(events[0]["loader"], format!("{path}/warcs"));
}
