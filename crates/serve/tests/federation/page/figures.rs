//! Tests of `/_status` and `/_metrics`.

use std::collections::HashMap;

use redis_tests::http::get;
use redis_tests::{assert_contains, rows};
use serde_json::Value;

use super::hostile_archive;
use crate::serving::Stage;

fn status(stage: &Stage) -> Value {
    let answer = get(stage.operator(), "/_status");
    assert_eq!(answer.status, 200);
    assert_eq!(answer.media_type(), "application/json");
    assert_eq!(answer.field("cache-control"), Some("no-store"));
    serde_json::from_str(&answer.text()).unwrap()
}

/// Returns all samples by name and labels, and asserts that Prometheus can parse every line.
fn metrics(stage: &Stage) -> HashMap<String, f64> {
    let answer = get(stage.operator(), "/_metrics");
    assert_eq!(answer.status, 200);
    let expected = Some("text/plain; version=0.0.4; charset=utf-8");
    assert_eq!(answer.field("content-type"), expected);
    let text = answer.text();
    assert!(text.ends_with('\n'));
    let mut kinds = HashMap::new();
    let mut samples = HashMap::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(kinds.insert(name, kind).is_none(), "{name} is there twice");
            continue;
        }
        if line.starts_with("# HELP crawlspace_") {
            continue;
        }
        let (sample, value) = line.rsplit_once(' ').unwrap();
        let (name, labels) = sample.split_once('{').unwrap();
        assert!(labels == "}" || labels.ends_with("\"}"), "{line}");
        let family = ["_bucket", "_sum", "_count"]
            .iter()
            .find_map(|end| name.strip_suffix(end))
            .filter(|family| kinds.get(family) == Some(&"histogram"));
        assert!(kinds.contains_key(family.unwrap_or(name)), "{line}");
        assert!(name.starts_with("crawlspace_"), "{line}");
        let before = samples.insert(sample.to_owned(), value.parse().unwrap());
        assert!(before.is_none(), "{sample} is there twice");
    }
    samples
}

#[test]
fn requests_are_counted() {
    let (_dir, stage) = hostile_archive();
    for (target, times) in [
        ("/good/index?url=example.com", 3),
        ("/good/index", 2),
        ("/good/nothing", 1),
    ] {
        for _ in 0..times {
            stage.get(target);
        }
    }
    let status = status(&stage);
    let good = &status["collections"][0];
    assert_eq!(good["name"], "good");
    let expected = serde_json::json!({"index": {"2xx": 3, "4xx": 2}, "other": {"4xx": 1}});
    assert_eq!(good["requests"], expected);
    let source = &good["sources"][0];
    for (name, value) in [
        ("name", Value::from("good")),
        ("type", "file".into()),
        ("step", 1.into()),
        ("health", "ok".into()),
        ("requests", 3.into()),
        ("rows", 9.into()),
        ("errors", serde_json::json!({})),
        ("breaker", serde_json::json!({"state": "closed"})),
    ] {
        assert_eq!(source[name], value, "{source}");
    }
    assert!(
        source["latency_ms"]["mean"].as_f64().unwrap() > 0.0,
        "{source}"
    );
    assert!(
        source["latency_ms"]["p99"].as_f64().unwrap() > 0.0,
        "{source}"
    );

    let metrics = metrics(&stage);
    let labels = "collection=\"good\",step=\"1\",source=\"good\",type=\"file\"";
    for (sample, value) in rows![
        "crawlspace_requests_total{collection=\"good\",api=\"index\",status=\"2xx\"}".to_owned(),
            3.0;
        format!("crawlspace_source_requests_total{{{labels}}}"), 3.0;
        format!("crawlspace_source_rows_total{{{labels}}}"), 9.0;
        format!("crawlspace_source_healthy{{{labels}}}"), 1.0;
        format!("crawlspace_source_skipped{{{labels}}}"), 0.0;
        format!("crawlspace_source_errors_total{{{labels},error=\"timeout\"}}"), 0.0;
        format!("crawlspace_source_duration_seconds_bucket{{{labels},le=\"+Inf\"}}"), 3.0;
        format!("crawlspace_source_duration_seconds_count{{{labels}}}"), 3.0;
    ] {
        assert_eq!(metrics.get(&sample), Some(&value), "{sample}");
    }
}

#[test]
fn missing_or_failing_source_is_visible() {
    let (dir, stage) = hostile_archive();
    for page in 0..7 {
        let answer = stage.get(format!("/both/index?url=example.com/{page}"));
        assert_eq!(answer.status, 200);
        assert!(answer.field("source-errors").is_some());
    }
    let status = status(&stage);
    let dead = &status["collections"][1]["sources"][1];
    assert_eq!(dead["breaker"]["state"], "open", "{dead}");
    assert!(
        dead["breaker"]["seconds_left"].as_f64().unwrap() > 0.0,
        "{dead}"
    );
    assert_eq!(dead["errors"]["connection"], 5, "{dead}");
    assert_eq!(dead["errors"]["skipped"], 2, "{dead}");
    assert_eq!(dead["requests"], 5, "{dead}");
    let last = &dead["last_error"];
    assert_eq!(last["time"].as_str().unwrap().len(), 14, "{dead}");
    // The operator sees the address, but clients do not.
    let reason = last["reason"].as_str().unwrap();
    assert!(reason.contains("redis://127.0.0.1:"), "{dead}");
    let missing = &status["collections"][2]["sources"][0];
    let health = missing["health"].as_str().unwrap();
    assert_contains(health, "none.cdxj: No such file");

    let metrics = metrics(&stage);
    let labels = "collection=\"both\",step=\"1\",source=\"<i>&\\\"\",type=\"redis\"";
    assert_eq!(
        metrics[&format!("crawlspace_source_skipped{{{labels}}}")],
        1.0
    );
    let labels = "collection=\"missing\",step=\"1\",source=\"missing\",type=\"file\"";
    assert_eq!(
        metrics[&format!("crawlspace_source_healthy{{{labels}}}")],
        0.0
    );
    // Without requests, the source has only the series for alerts.
    let of_missing = metrics.keys().filter(|name| name.contains("\"missing\""));
    assert_eq!(of_missing.count(), 2, "{metrics:?}");

    std::fs::write(dir.path().join("none.cdxj"), "").unwrap();
    redis_tests::until("the new file is noticed", || {
        super::figures::status(&stage)["collections"][2]["sources"][0]["health"] == "ok"
    });
}
