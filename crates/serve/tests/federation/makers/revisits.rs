//! Tests of revisits whose originals are in packages of any maker.

use std::fmt::Write as _;

use crawlspace_cdx::surt::urlkey;
use redis_tests::archive::collection::sha1_base32;
use redis_tests::rows;

use super::asking::{Client, encoded};
use super::corpus::Corpus;
use super::maker::{MAKERS, Maker};
use crate::resource::record;
use crate::serving::Stage;
use crate::shelf::{HTTP, iso};

/// URL, timestamp and payload of an original.
type Original<'a> = (&'a str, &'a str, &'a str);

/// Adds a revisit as Browsertrix Crawler writes it.
fn revisit(corpus: &mut Corpus, url: &str, time: &str, of: Original<'_>, container: Option<&str>) {
    let (original, date, payload) = of;
    let digest = sha1_base32(payload.as_bytes());
    // Dates have milliseconds.
    let (own, date) = (iso(time), iso(date).replace('Z', ".250Z"));
    let stated = format!("sha1:{digest}");
    let mut fields = rows![
        "WARC-Type", "revisit";
        "WARC-Record-ID", "<urn:uuid:00000000-0000-4000-8000-000000000001>";
        "WARC-Date", &*own;
        "WARC-Target-URI", url;
        "WARC-Profile", "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest";
        "WARC-Refers-To-Target-URI", original;
        "WARC-Refers-To-Date", &*date;
        "WARC-Payload-Digest", &*stated;
        "Content-Type", "application/http; msgtype=response";
    ]
    .to_vec();
    fields.extend(container.map(|name| ("WARC-Refers-To-Container", name)));
    let place = corpus.record("data.warc.gz", &fields, HTTP.as_bytes());
    let [js, surt] = keys(url);
    corpus.row("data.warc.gz", [url, &js, &surt], time, &digest, place);
    let row = corpus.rows.last_mut().unwrap();
    row.mime = "warc/revisit".to_owned();
}

/// Returns the keys of a URL whose path ends in a slash, which only warcio.js keeps.
fn keys(url: &str) -> [String; 2] {
    let surt = urlkey(url).unwrap();
    [format!("{surt}/"), surt]
}

#[test]
fn revisits_find_originals_in_packages_of_every_tool() {
    const PAGE: &str = "http://example.com/page/";
    const API: &str = "http://example.com/api/";
    const THEN: &str = "20160101000000";
    let now = |n: usize| format!("201801010000{n:02}");
    let dir = tempfile::tempdir().unwrap();
    let makers: Vec<&Maker> = MAKERS.iter().filter(|maker| !maker.loose).collect();
    let mut config = "collections:\n".to_owned();
    let mut names = Vec::new();
    let posted = format!("{API}?__wb_method=POST&c=x&list=1&list.2_=2");
    for (n, maker) in makers.iter().enumerate() {
        let mut originals = Corpus::default();
        let [js, surt] = keys(PAGE);
        // Captures of the same URL with other payloads surround the original.
        for (time, text) in [
            ("20150101000000", "older"),
            (THEN, "a page"),
            ("20170101000000", "newer"),
        ] {
            originals.capture("data.warc.gz", [PAGE, &js, &surt], time, text);
        }
        let js = "com,example)/api/?__wb_method=post&c=x&list.2_=2&list=1";
        let surt = "com,example)/api?__wb_method=post&c=x&list=1&list.2_=2";
        originals.capture("data.warc.gz", [API, js, surt], THEN, "an answer");
        let row = originals.rows.last_mut().unwrap();
        row.method = "POST".to_owned();
        row.bodies = ["c=x&list=1&list.2_=2"; 2].map(str::to_owned);
        let beside = format!("originals-{n}.wacz");
        let container = format!("file://{beside}");
        for (m, other) in makers.iter().enumerate() {
            let mut revisits = Corpus::default();
            for (at, of) in [
                (0, (PAGE, THEN, "a page")),
                (1, (API, THEN, "an answer")),
                (2, (&*posted, THEN, "an answer")),
            ] {
                let url = format!("http://example.com/again/{at}/");
                for (second, container) in [(at, None), (at + 10, Some(&*container))] {
                    revisit(&mut revisits, &url, &now(second), of, container);
                }
            }
            // One folder contains both packages; the other folder contains only the package with
            // the revisits.
            let both = dir.path().join(format!("both-{n}-{m}"));
            let apart = dir.path().join(format!("apart-{n}-{m}"));
            for folder in [&both, &apart] {
                std::fs::create_dir(folder).unwrap();
                let package = maker.package(&originals.rows, &originals.files());
                std::fs::write(folder.join(&beside), package).unwrap();
                let package = other.package(&revisits.rows, &revisits.files());
                std::fs::write(folder.join("revisits.wacz"), package).unwrap();
            }
            let _ = writeln!(config, "  both-{n}-{m}: wacz+{}", both.display());
            let _ = writeln!(config, "  apart-{n}-{m}: {}/revisits.wacz", apart.display());
            names.push((format!("{n}-{m}"), maker.name, other.name));
        }
    }
    let stage = Stage::start(&config);
    let mut wrong = Vec::new();
    for (name, maker, other) in &names {
        for (folder, seconds) in [("both", [0, 10]), ("apart", [10, 10])] {
            let mut client = Client::new(&stage, &format!("{folder}-{name}"));
            for (at, payload) in ["a page", "an answer", "an answer"].iter().enumerate() {
                for second in seconds {
                    let url = encoded(&format!("http://example.com/again/{at}/"));
                    let time = now(at + second);
                    let target = format!("resource?url={url}&closest={time}&from={time}&to={time}");
                    let answer = client.send("GET", &target, "", "");
                    if answer.status != 200 || !record(&answer).1.ends_with(payload.as_bytes()) {
                        let status = answer.status;
                        wrong.push(format!(
                            "{folder}: {maker}, {other}: {at} {second}: {status} {}",
                            answer.text()
                        ));
                    }
                }
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
