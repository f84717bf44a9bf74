//! Tests of responses to requests with a body.

use std::fmt::Write as _;

use super::asking::{Client, encoded};
use super::corpus::Corpus;
use super::maker::{MAKERS, Maker};
use super::put;
use crate::resource::record;
use crate::serving::Stage;

/// Returns requests with a body: method, URL, media type and body; key and field `requestBody` by warcio.js 2.4.11; the
/// same by cdxj-indexer 1.5.0; and the URL that ArchiveWeb.page stores, with its key.
pub fn requests() -> Vec<[String; 10]> {
    serde_json::from_str(include_str!("requests.json")).unwrap()
}

/// Returns the captures of the responses to these requests.
fn answers(maker: &Maker) -> Corpus {
    let mut corpus = Corpus::default();
    for (n, request) in requests().iter().enumerate() {
        let [
            method,
            url,
            _,
            body,
            js,
            js_body,
            surt,
            surt_body,
            href,
            href_key,
        ] = request;
        let time = format!("201601010000{n:02}");
        let payload = format!("answer to {method} {url} {body}");
        let mark = format!("__wb_method={method}&");
        let (stored, js, js_body) = if maker.precise {
            // ArchiveWeb.page stores a URL that contains the body.
            (href, href_key, href.split_once(&mark).unwrap().1)
        } else {
            (url, js, &**js_body)
        };
        corpus.capture("data.warc.gz", [stored, js, surt], &time, &payload);
        let row = corpus.rows.last_mut().unwrap();
        row.url.clone_from(url);
        row.method.clone_from(method);
        row.bodies = [js_body, surt_body].map(str::to_owned);
    }
    corpus
}

#[test]
fn responses_to_requests_with_a_body_are_found_in_every_index() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = "collections:\n".to_owned();
    for maker in &MAKERS {
        let (name, corpus) = (maker.slug(), answers(maker));
        let at = put(dir.path(), &name, maker, &corpus.rows, &corpus.files());
        let _ = writeln!(config, "  {name}: {at}");
    }
    let stage = Stage::start(&config);
    let mut wrong = Vec::new();
    for maker in &MAKERS {
        let mut client = Client::new(&stage, &maker.slug());
        for [method, url, media, body, ..] in &requests() {
            let expected = format!("answer to {method} {url} {body}");
            let target = format!("resource?url={}", encoded(url));
            let plain = client.send(method, &target, media, body);
            let message = format!(
                "{method} / HTTP/1.1\r\nContent-Type: {media}\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            );
            let target = target.replace("resource?", "resource-post?");
            let posted = client.send("POST", &target, "application/octet-stream", &message);
            for answer in [plain, posted] {
                if answer.status != 200 || !record(&answer).1.ends_with(expected.as_bytes()) {
                    let status = answer.status;
                    wrong.push(format!(
                        "{}: {method} {url} {media} {body}: {status}",
                        maker.name
                    ));
                }
            }
            if !body.is_empty() {
                let target = format!("resource?url={}", encoded(url));
                let other = client.send(method, &target, media, "another=1");
                let is_known = other.status == 200;
                assert!(!is_known || media == "text/plain", "{}: {url}", maker.name);
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} are wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
