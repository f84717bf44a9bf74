//! Tests of pywb as a source, and as a client.

use redis_tests::archive::collection::Capture;
use redis_tests::http::{ask, get};
use redis_tests::pywb::App;
use redis_tests::{assert_contains, assert_starts, rows};

use crate::pywb::answer::{Line, lines};
use crate::pywb::data::{Data, pywb};
use crate::pywb::record::{Checked, Record, gunzipped, payload_of};
use crate::serving::Stage;

/// Returns a few captures of every kind: pages, revisits, redirects, errors, codings.
pub fn samples(captures: &[Capture]) -> Vec<&Capture> {
    let kind = |capture: &Capture| {
        let encoding = capture.encoding.len()
            + usize::from(capture.encoding.contains(&"Content-Encoding: gzip"));
        let arc = capture.place.file.contains(".arc");
        (
            capture.is_revisit(),
            capture.status,
            capture.mime,
            encoding,
            arc,
        )
    };
    let mut seen = Vec::new();
    let mut samples = Vec::new();
    for capture in captures.iter().filter(|capture| capture.posted.is_none()) {
        let times = seen.iter().filter(|one| **one == kind(capture)).count();
        if times < 2 {
            seen.push(kind(capture));
            samples.push(capture);
        }
    }
    assert!(samples.len() > 20);
    samples
}

/// Escapes a URL for a query parameter.
pub fn encoded(url: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/:".contains(&byte);
    url.bytes()
        .map(|byte| {
            if plain(byte) {
                char::from(byte).to_string()
            } else {
                format!("%{byte:02X}")
            }
        })
        .collect()
}

#[test]
fn records_equal_those_of_pywb() {
    let Some(pywb) = pywb() else { return };
    let data = Data::new("records_equal_those_of_pywb");
    let theirs = pywb.start(App::WarcServer, &data.config(), 1);
    let ours = Stage::start(&data.config());
    let mut checked = Checked::new(&pywb);
    for capture in samples(&data.north.captures) {
        for collection in ["north", "both"] {
            let (url, time) = (&capture.url, &capture.timestamp);
            let path = format!("/{collection}/resource?url={}&closest={time}", encoded(url));
            let answer = ours.get(&path);
            let record = checked.record(&answer);
            let other = get(theirs.address(), &path);
            assert_eq!(record.payload, payload_of(capture), "{path}");
            assert_eq!(&record.target, url, "{path}");
            for name in [
                "memento-datetime",
                "warcserver-source-coll",
                "warc-target-uri",
            ] {
                assert_eq!(answer.field(name), other.field(name), "{path}: {name}");
            }
            let original = format!("<{url}>; rel=\"original\"");
            assert_contains(answer.field("link").unwrap_or_default(), &original);
            // pywb's record need not be valid.
            let other = Record::read_leniently(&other.body);
            assert_eq!(record.payload, other.payload, "{path}");
            assert_eq!(record.target, other.target, "{path}");
            assert_eq!(record.date, other.date, "{path}");
            assert_eq!(
                record.head.lines().next(),
                other.head.lines().next(),
                "{path}"
            );
        }
    }
    // Without a timestamp, both servers return the record of the first row.
    for more in ["", "&sort=reverse", "&from=2018", "&filter=%3Dstatus:200"] {
        let path = format!("/north/resource?url=http://example.com/{more}");
        let (answer, other) = (ours.get(&path), get(theirs.address(), &path));
        checked.record(&answer);
        for name in ["memento-datetime", "warc-target-uri"] {
            assert_eq!(answer.field(name), other.field(name), "{path}: {name}");
        }
    }
    checked.are_valid();
    let nothing = ours.get("/north/resource?url=http://nothing.example.net/");
    assert_eq!(nothing.status, 404);
    assert_eq!(nothing.media_type(), "application/json");
}

#[test]
fn relative_top_level_archives_start_at_the_configuration() {
    let Some(pywb) = pywb() else { return };
    let data = Data::new("relative_top_level_archives_start_at_the_configuration");
    // The folder of each configuration is next to the data folder.
    let name = data.path().file_name().unwrap().to_string_lossy();
    let config = format!(
        "archive_paths: ../{name}/warcs/north/\ncollections:\n  north:\n    index_paths: {}/north.cdxj\n",
        data.path().display()
    );
    let theirs = pywb.start(App::WarcServer, &config, 1);
    let ours = Stage::start(&config);
    for capture in samples(&data.north.captures).into_iter().take(9) {
        let (url, time) = (&capture.url, &capture.timestamp);
        let path = format!("/north/resource?url={}&closest={time}", encoded(url));
        for address in [ours.address(), theirs.address()] {
            let record = Record::read_leniently(&get(address, &path).body);
            assert_eq!(record.payload, payload_of(capture), "{path}");
        }
    }
}

/// The posted form is part of the lookup.
#[test]
fn captures_of_posted_forms_are_found_by_their_body() {
    let Some(pywb) = pywb() else { return };
    let data = Data::new("captures_of_posted_forms_are_found_by_their_body");
    let theirs = pywb.start(App::WarcServer, &data.config(), 1);
    let ours = Stage::start(&data.config());
    let posted = data
        .north
        .captures
        .iter()
        .filter(|capture| capture.posted.is_some());
    let mut count = 0;
    let mut checked = Checked::new(&pywb);
    for capture in posted.step_by(9) {
        let form = capture.posted.as_deref().unwrap();
        let (url, time) = (&capture.url, &capture.timestamp);
        let path = format!("/north/resource?url={}&closest={time}", encoded(url));
        let fields = [("Content-Type", "application/x-www-form-urlencoded")];
        let host = url.split('/').nth(2).unwrap();
        let message = format!(
            "POST /api/items HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/x-www-form-urlencoded\r\n\
             Content-Length: {}\r\n\r\n{form}",
            form.len()
        );
        let other = ask(theirs.address(), "POST", &path, &fields, form.as_bytes()).unwrap();
        // pywb ignores the form when it looks up the original of a revisit, and accepts similar
        // URLs.
        if !capture.is_revisit() {
            let other = Record::read_leniently(&other.body);
            assert_eq!(other.payload, payload_of(capture), "{path} {form}");
        }
        for (path, fields, body) in rows![
            path.clone(), &fields[..], form;
            path.replace("/resource?", "/resource/postreq?"), &[], &message;
            path.replace("/resource?", "/resource-post?"), &[], &message;
        ] {
            let answer = ask(ours.address(), "POST", &path, fields, body.as_bytes()).unwrap();
            let record = checked.record(&answer);
            assert_eq!(record.payload, payload_of(capture), "{path} {form}");
        }
        count += 1;
    }
    assert!(count > 3);
    checked.are_valid();
}

#[test]
fn pywb_is_a_source_of_rows_and_records() {
    let Some(pywb) = pywb() else { return };
    let data = Data::new("pywb_is_a_source_of_rows_and_records");
    let config = format!(
        "framed_replay: false\ncdx_api_endpoint: '-cdx'\n{}",
        data.config()
    );
    let theirs = pywb.start(App::Wayback, &config, 1);
    let base = theirs.url();
    let ours = Stage::start(&format!(
        // Long timeouts, so that a busy machine causes no failures.
        "collections:\n\
         \x20 short: {{index: cdx+{base}/north-cdx, index_timeout: 60}}\n\
         \x20 long:\n    index:\n      type: cdx\n      api_url: {base}/north-cdx\n      dialect: pywb\n\
         \x20     replay_url: {base}/north/{{timestamp}}id_/{{url}}\n    resource: $live\n    index_timeout: 60\n\
         \x20 memento: {{index: memento+{base}/north/, index_timeout: 60}}\n\
         \x20 many:\n    index_timeout: 60\n    index_group:\n      north: cdx+{base}/north-cdx\n\
         \x20     south: memento+{base}/south/\n"
    ));
    let times = |collection: &str, query: &str| -> Vec<String> {
        let answer = ours.get(format!("/{collection}/index?{query}"));
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.field("source-errors"), None, "{answer:?}");
        let times = lines(&answer).into_iter().map(|line| match line {
            Line::Row(_, time, object) => {
                let live = object["live_url"].as_str().unwrap();
                assert_starts(live, &base);
                assert_contains(live, format!("/{time}id_/"));
                assert_eq!(object.get("filename"), None);
                time
            }
            other => panic!("{other:?}"),
        });
        times.collect()
    };
    let of = |captures: &[Capture], key: &str| -> Vec<String> {
        let of_key = captures.iter().filter(|capture| capture.key == key);
        of_key.map(|capture| capture.timestamp.clone()).collect()
    };
    let page = "url=http://example.com/";
    let expected = of(&data.north.captures, "com,example)/");
    for collection in ["short", "long", "memento"] {
        assert_eq!(times(collection, page), expected, "{collection}");
    }
    let mut together = [expected.clone(), of(&data.south.captures, "com,example)/")].concat();
    together.sort();
    assert_eq!(times("many", page), together);
    let closest = times("short", &format!("{page}&closest=20180601120000&limit=4"));
    let hours = [
        "20180601115900",
        "20180601120100",
        "20180601110000",
        "20180601130000",
    ];
    assert_eq!(closest, hours);
    let closest = times("memento", &format!("{page}&closest=20180601120100&limit=1"));
    assert_eq!(closest, ["20180601120100"]);
    let errors = times("long", "url=http://example.com/*&filter=%3Dstatus:404");
    let missing = data
        .north
        .captures
        .iter()
        .filter(|c| c.status == 404 && c.key.starts_with("com,example)/"));
    assert_eq!(errors.len(), missing.count());

    let mut checked = Checked::new(&pywb);
    for capture in samples(&data.north.captures) {
        let (url, time) = (&capture.url, &capture.timestamp);
        for collection in ["short", "memento"] {
            let path = format!("/{collection}/resource?url={}&closest={time}", encoded(url));
            let answer = ours.get(&path);
            let record = checked.record(&answer);
            assert_eq!(&record.target, url, "{path}");
            assert_eq!(
                record.date.replace(['-', ':', 'T', 'Z'], ""),
                *time,
                "{path}"
            );
            assert_eq!(
                record.payload,
                payload_of(capture),
                "{path}\n{}",
                record.head
            );
            let status = format!(" {} ", capture.status);
            assert!(
                record.head.lines().next().unwrap().contains(&status),
                "{path} {}",
                record.head
            );
        }
    }
    checked.are_valid();
}

#[test]
fn pywb_replays_our_captures() {
    let Some(pywb) = pywb() else { return };
    let data = Data::new("pywb_replays_our_captures");
    let ours = Stage::start(&data.config());
    let base = ours.url();
    let config = format!(
        "framed_replay: false\n{}\
         \x20 rows:\n    index:\n      type: cdx\n\
         \x20     api_url: {base}/both/index?url={{url}}&closest={{closest}}&sort=closest\n\
         \x20     replay_url: {base}/both/resource?url={{url}}&closest={{timestamp}}\n\
         \x20 mementos:\n    index:\n      type: memento\n\
         \x20     timegate_url: {base}/both/timegate/{{url}}\n\
         \x20     timemap_url: {base}/both/timemap/link/{{url}}\n\
         \x20     replay_url: {base}/both/resource?url={{url}}&closest={{timestamp}}\n",
        data.config()
    );
    let theirs = pywb.start(App::Wayback, &config, 1);
    for capture in samples(&data.north.captures) {
        let (url, time) = (&capture.url, &capture.timestamp);
        if url.contains('?') {
            continue; // URL templates of pywb do not escape their values
        }
        for collection in ["rows", "mementos"] {
            let path = format!("/{collection}/{time}id_/{url}");
            let answer = get(theirs.address(), &path);
            assert_eq!(answer.status, capture.status, "{path}: {}", answer.text());
            let local = get(theirs.address(), &format!("/both/{time}id_/{url}"));
            for name in [
                "content-type",
                "content-encoding",
                "location",
                "memento-datetime",
            ] {
                assert_eq!(answer.field(name), local.field(name), "{path}: {name}");
            }
            assert!(answer.body == local.body, "{path}: {}", answer.text());
            if capture.encoding.is_empty() {
                assert!(answer.body == capture.payload, "{path}: {}", answer.text());
            }
        }
        if capture.status == 200 && capture.mime == "text/html" {
            let path = format!("/rows/{time}/{url}");
            let page = get(theirs.address(), &path);
            let text = match page.field("content-encoding") {
                None => page.text(),
                Some(_) => String::from_utf8_lossy(&gunzipped(&page.body)).into_owned(),
            };
            assert!(text.contains("<title>"), "{path}: {text}");
            let link = format!("/rows/{time}/http://example.com/about\"");
            assert!(
                text.contains(&link),
                "{path}: links lead into the archive: {text}"
            );
        }
    }
    let map = get(theirs.address(), "/rows/timemap/link/http://example.com/").text();
    let here = |captures: &[Capture]| captures.iter().filter(|c| c.key == "com,example)/").count();
    let expected = here(&data.north.captures) + here(&data.south.captures);
    assert_eq!(map.matches("datetime=").count(), expected, "{map}");
}
