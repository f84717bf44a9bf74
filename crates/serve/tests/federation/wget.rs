//! Test of crawls by wget.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::process::Command;

use crawlspace_warc::{Reader, RecordType};
use redis_tests::packages::left_out;
use redis_tests::{FileHost, Manners, with};

use crate::resource::{check, field, record, target};
use crate::serving::Stage;
use crate::shelf::{Shelf, Slot};

/// Adds the index lines of all captures in a file, and returns the number of revisits.
fn index(shelf: &mut Shelf, path: &Path) -> usize {
    let name = path.file_name().unwrap().to_str().unwrap().to_owned();
    let mut reader = Reader::new(&*name, BufReader::new(File::open(path).unwrap()));
    let mut revisits = 0;
    while let Some(record) = reader.next().unwrap() {
        let header = record.header().clone();
        let extent = record.finish().unwrap();
        let mime = match header.record_type() {
            RecordType::Response => "text/html",
            RecordType::Revisit => "warc/revisit",
            _ => continue,
        };
        revisits += usize::from(mime == "warc/revisit");
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let slot = Slot {
            file: name.clone(),
            offset: extent.offset,
            length: extent.size,
        };
        let digest = header.payload_digest().map(text).unwrap_or_default();
        let more = format!(", \"mime\": \"{mime}\", \"digest\": \"{digest}\"");
        let (url, time) = (header.target_uri().unwrap(), header.timestamp().unwrap());
        shelf.line(&text(url), &text(&time), &slot, &more);
    }
    revisits
}

#[test]
fn all_captures_of_wget_are_found() {
    let mut shelf = Shelf::new();
    let warcs = shelf.path().join("warcs");
    let host = FileHost::start();
    let pages: Vec<(String, String)> = (0..20)
        .map(|i| {
            (
                format!("/page-{i}.html"),
                format!("<title>Page {i}</title>{}", "text ".repeat(i * i)),
            )
        })
        .collect();
    for (i, (path, text)) in pages.iter().enumerate() {
        let manners = with!(Manners, content_type: Some("text/html".into()), chunked: i % 3 == 1);
        host.put(path, text.as_bytes(), manners);
    }
    let mut found = 0;
    // The second crawl fetches everything again, and uses the index of the first one for
    // deduplication.
    for options in [
        &["--warc-file=first", "--warc-cdx"][..],
        &["--warc-file=second", "--warc-dedup=first.cdx"],
        &["--warc-file=plain", "--no-warc-compression"],
    ] {
        let mut wget = Command::new("wget");
        wget.args(["--quiet", "--delete-after"]).args(options);
        wget.args(pages.iter().map(|(path, _)| host.url(path)))
            .current_dir(&warcs);
        match wget.status() {
            Ok(status) => assert!(status.success(), "{options:?}: {status}"),
            Err(why) => return left_out("wget", &why.to_string()),
        }
        let name = options[0].trim_start_matches("--warc-file=");
        let path = warcs.join(format!("{name}.warc"));
        let path = if path.exists() {
            path
        } else {
            warcs.join(format!("{name}.warc.gz"))
        };
        found += index(&mut shelf, &path);
        shelf.write_index(&format!("{name}.cdxj"));
    }
    assert!(found > 5, "{found} revisits");
    let config: String = ["first", "second", "plain"]
        .iter()
        .map(|name| {
            let folder = shelf.path().display();
            format!("  {name}:\n    index: {folder}/{name}.cdxj\n    resource: {folder}/warcs\n")
        })
        .collect();
    let stage = Stage::start(&format!("collections:\n{config}"));
    let mut records = Vec::new();
    for collection in ["first", "second", "plain"] {
        for (path, text) in &pages {
            let answer = stage.get(target(collection, &host.url(path), "now"));
            let (head, block) = record(&answer);
            assert_eq!(field(&head, "WARC-Type"), "response");
            let (http, mut payload) = String::from_utf8(block)
                .unwrap()
                .split_once("\r\n\r\n")
                .map(|(http, payload)| (http.to_ascii_lowercase(), payload.to_owned()))
                .unwrap();
            if http.contains("transfer-encoding: chunked") {
                // Every other line is the size of the next chunk.
                payload = payload.split("\r\n").skip(1).step_by(2).collect();
            }
            assert_eq!(payload, *text, "{collection}{path}: {head}{http}");
            records.extend_from_slice(&answer.body);
        }
    }
    check(&records, shelf.path());
}
