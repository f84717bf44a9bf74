//! Tests of a chain of Crawlspace servers with a web server at its end.

use redis_tests::http::{Answer, Connection};
use redis_tests::{FileHost, Manners, with};

use crate::resource::{check, field, record, target};
use crate::serving::Stage;

/// Starts a server that fetches from the live web, a second one that queries the first, and a third
/// that queries the second.
fn chain() -> [Stage; 3] {
    let first = Stage::start("collections:\n  live: $live\n");
    let second = Stage::start_apart(&format!(
        "collections:\n  near: upstream+{}/live\n",
        first.url()
    ));
    let third = Stage::start_apart(&format!(
        "collections:\n  far: upstream+{}/near\n",
        second.url()
    ));
    [first, second, third]
}

/// Returns the response to a request that is posted as a message.
fn posted(stage: &Stage, collection: &str, url: &str, message: &str) -> Answer {
    let url: String = url::form_urlencoded::byte_serialize(url.as_bytes()).collect();
    let target = format!("/{collection}/resource-post?url={url}");
    let mut connection = Connection::open(stage.address()).unwrap();
    connection
        .ask("POST", &target, &[], message.as_bytes())
        .unwrap()
}

#[test]
fn record_passes_through_a_chain_of_servers() {
    let [first, second, third] = chain();
    let web = FileHost::start();
    let large = "text ".repeat(500_000);
    for (path, text, chunked) in [
        ("/small", "hello", false),
        ("/chunked", "hello", true),
        ("/large", &large, true),
    ] {
        let manners = with!(Manners, chunked, content_type: Some("text/plain".to_owned()));
        web.put(path, text.as_bytes(), manners);
    }
    let folder = tempfile::tempdir().unwrap();
    let mut records = Vec::new();
    for (path, payload) in [
        ("/small", "hello"),
        ("/chunked", "hello"),
        ("/large", &large),
    ] {
        let url = web.url(path);
        for (stage, collection) in [(&first, "live"), (&second, "near"), (&third, "far")] {
            let answer = stage.get(target(collection, &url, "2026"));
            let (head, block) = record(&answer);
            assert_eq!(field(&head, "WARC-Target-URI"), url);
            assert_eq!(answer.field("warc-target-uri"), Some(&url[..]));
            assert!(block.ends_with(payload.as_bytes()), "{collection}: {path}");
            records.extend_from_slice(&answer.body);

            let answer = posted(stage, collection, &url, "GET / HTTP/1.1\nAccept: x/y\n\n");
            let (_, block) = record(&answer);
            assert!(block.ends_with(payload.as_bytes()), "{collection}: {path}");
            records.extend_from_slice(&answer.body);

            let answer = posted(stage, collection, &url, "HEAD /\n\n");
            let (_, block) = record(&answer);
            assert!(
                block.starts_with(b"HTTP/1.1 200") && block.ends_with(b"\r\n\r\n"),
                "{collection}: {path}"
            );
            records.extend_from_slice(&answer.body);
        }
    }
    check(&records, folder.path());
    // The web server received each request with the method of the last client.
    let methods: Vec<String> = web
        .requests()
        .into_iter()
        .map(|request| request.method)
        .collect();
    assert_eq!(methods.len(), 27);
    assert_eq!(methods.iter().filter(|method| *method == "HEAD").count(), 9);
}

#[test]
fn missing_capture_is_reported_by_every_server() {
    let stages = chain();
    // A port without a listener.
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let url = format!("http://{free}/");
    for (stage, collection) in stages.iter().zip(["live", "near", "far"]) {
        let answer = stage.get(target(collection, &url, "2026"));
        assert_eq!(answer.status, 404, "{collection}: {}", answer.text());
        assert_eq!(answer.media_type(), "application/json");
    }
}
