//! Tests of the locations where records are found, and where they are not looked for.

use redis_tests::http::Answer;
use redis_tests::{FileHost, Manners, Options, Server, but, ok, rows, with};

use crate::disclosure::logged;
use crate::resource::{check, field, record, target};
use crate::serving::Stage;
use crate::shelf::{HTTP, Shelf};

const URL: &str = "http://example.com/";
const TIME: &str = "20160102030405";

/// Values of `length` in a row, and ways to omit it.
const LENGTHS: [&str; 6] = [
    "\"length\": \"KNOWN\", ",
    "\"length\": KNOWN, ",
    "",
    "\"length\": \"-\", ",
    "\"length\": 0, ",
    "\"length\": null, ",
];

/// Returns the payload of a record, whose block must start with [`HTTP`].
fn payload(answer: &Answer) -> String {
    let (_, block) = record(answer);
    let block = String::from_utf8(block).unwrap();
    let payload = block.strip_prefix(HTTP).expect("the HTTP header");
    payload.to_owned()
}

/// Returns the reasons in a response without a record.
fn reasons(answer: &Answer) -> Vec<String> {
    assert_eq!(answer.status, 404, "{}", answer.text());
    assert_eq!(answer.media_type(), "application/json");
    let json: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
    assert!(json["message"].is_string());
    let tried = json["tried"].as_array().unwrap();
    let reason = |tried: &serde_json::Value| tried["reason"].as_str().unwrap().to_owned();
    tried.iter().map(reason).collect()
}

#[test]
fn every_loader_finds_the_same_record() {
    let mut shelf = Shelf::new();
    for file in ["a.warc.gz", "sub/folder/b.warc"] {
        shelf.capture(file, "http://before.example/", TIME, b"before");
        let url = format!("{URL}{file}");
        let slot = shelf.response(file, &url, TIME, b"hello");
        // The length of a record need not be known.
        for (at, length) in LENGTHS.iter().enumerate() {
            let key = crawlspace_cdx::surt::urlkey(&url).unwrap();
            let offset = slot.offset;
            let length = length.replace("KNOWN", &slot.length.to_string());
            shelf.index.push_str(&format!(
                "{key} {TIME} {{\"url\": \"{url}\", \"filename\": \"{file}\", \"offset\": {offset}, {length}\"n\": {at}}}\n"
            ));
        }
        shelf.capture(file, "http://after.example/", TIME, b"after");
    }
    let index = shelf.write_index("index.cdxj");
    let warcs = shelf.warcs();
    let host = FileHost::start();
    let redis = Server::with(Options::new().no_module());
    let mut list = String::new();
    for file in ["sub/folder/b.warc", "a.warc.gz"] {
        let bytes = std::fs::read(shelf.path().join("warcs").join(file)).unwrap();
        host.put(&format!("/ranges/{file}"), &bytes, Manners::default());
        let whole = with!(Manners, ranges: false);
        host.put(&format!("/whole/{file}"), &bytes, whole);
        list.push_str(&format!("{file}\t/nowhere/{file}\t{warcs}/{file}\n"));
        let path = format!("{warcs}/{file}");
        ok!(redis.wire(), "HSET", "paths:redis", file, path);
    }
    let list_path = shelf.path().join("paths.txt");
    std::fs::write(&list_path, &list).unwrap();
    let loaders = rows![
        "folder", warcs.clone();
        "ranges", host.url("/ranges");
        "whole", host.url("/whole/");
        "list", list_path.display().to_string();
        "redis", format!("redis://127.0.0.1:{}/0/paths:{{coll}}", redis.port());
    ];
    let collection = |(name, loader): &(&str, String)| {
        format!("  {name}:\n    index: {index}\n    resource:\n      - \"{loader}\"\n")
    };
    let config: String = loaders.iter().map(collection).collect();
    let stage = Stage::start(&format!("collections:\n{config}"));
    let mut records = Vec::new();
    for (name, _) in &loaders {
        let lengths = |file| (0..LENGTHS.len()).map(move |at| (file, at));
        let files = ["a.warc.gz", "sub/folder/b.warc"].into_iter();
        for (file, at) in files.flat_map(lengths) {
            let asked = target(name, &format!("{URL}{file}"), TIME);
            let asked = format!("{asked}&filter=%3Dn:{at}");
            let answer = stage.get(&asked);
            assert_eq!(payload(&answer), "hello", "{name} {file} {}", LENGTHS[at]);
            records.extend_from_slice(&answer.body);
        }
    }
    check(&records, shelf.path());
    // A file that has moved is found at its new location.
    let [from, to] = ["warcs/a.warc.gz", "moved.gz"].map(|name| shelf.path().join(name));
    std::fs::rename(from, to).unwrap();
    let asked = target("list", &format!("{URL}a.warc.gz"), TIME);
    assert_eq!(stage.get(&asked).status, 404);
    std::fs::write(&list_path, "a.warc.gz\tmoved.gz\n").unwrap();
    assert_eq!(payload(&stage.get(&asked)), "hello");
}

#[test]
fn no_name_leads_outside_the_folder() {
    let mut shelf = Shelf::new();
    let slot = shelf.response("inside.warc.gz", URL, TIME, b"inside");
    let secret = shelf.path().join("secret.warc.gz");
    let inside = shelf.path().join("warcs/inside.warc.gz");
    std::fs::copy(&inside, &secret).unwrap();
    std::os::unix::fs::symlink(&secret, shelf.path().join("warcs/link.warc.gz")).unwrap();
    std::os::unix::fs::symlink(shelf.path(), shelf.path().join("warcs/up")).unwrap();
    let absolute = secret.to_str().unwrap();
    let names = [
        "../secret.warc.gz",
        "a/../../secret.warc.gz",
        "./../secret.warc.gz",
        "link.warc.gz",
        "up/secret.warc.gz",
        absolute,
        &format!("file://{absolute}"),
        "..\\secret.warc.gz",
        "inside.warc.gz\0",
        "%2e%2e/secret.warc.gz",
        "..",
        "",
    ];
    for (at, file) in names.into_iter().enumerate() {
        let slot = but!(slot.clone(), file: file.to_owned());
        shelf.line(&format!("{URL}{at}"), TIME, &slot, "");
    }
    let slot = slot.clone();
    shelf.line(URL, TIME, &slot, "");
    let stage = shelf.serve();
    assert_eq!(payload(&stage.get(target("c", URL, TIME))), "inside");
    for (at, name) in names.iter().enumerate() {
        let answer = stage.get(target("c", &format!("{URL}{at}"), TIME));
        let reasons = reasons(&answer);
        assert_eq!(reasons.len(), 1, "{name:?}: {reasons:?}");
        // The response must not reveal anything about local files.
        let folder = shelf.path().display().to_string();
        let text = answer.text();
        assert!(name.contains(&folder) || !text.contains(&folder), "{text}");
    }
}

#[test]
fn unsuitable_records_are_skipped() {
    let mut shelf = Shelf::new();
    let good = shelf.capture("good.warc.gz", URL, "20160101000000", b"good");
    let later = |second: u32| format!("2016010100000{second}");
    // Rows in order of their distance from the requested timestamp.
    let other_url = shelf.response("a.warc.gz", "http://example.com/other", &later(1), b"bad");
    let other_date = shelf.response("a.warc.gz", URL, "20150101000000", b"bad");
    let request = [
        ("WARC-Type", "request"),
        ("WARC-Record-ID", "<urn:uuid:x>"),
        ("WARC-Date", "2016-01-01T00:00:03Z"),
        ("WARC-Target-URI", URL),
    ];
    let request = shelf.record("a.warc.gz", &request, b"GET / HTTP/1.1\r\n\r\n");
    let damaged = rows![
        "WARC-Type", "response";
        "WARC-Record-ID", "<urn:uuid:y>";
        "WARC-Date", "2016-01-01T00:00:04Z";
        "WARC-Target-URI", URL;
        "WARC-Payload-Digest", "sha1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    ];
    let block = format!("{HTTP}bad");
    let damaged = shelf.record("a.warc.gz", &damaged, block.as_bytes());
    let missing = but!(good.clone(), file: "missing.warc.gz".to_owned());
    let beyond = but!(good.clone(), offset: 1 << 40);
    let within = but!(good.clone(), offset: good.offset + 1);
    let short = but!(good.clone(), length: 50);
    let first = [other_url, other_date, request, damaged];
    let others = [missing, beyond, within, short];
    for (second, slot) in first.iter().chain(&others).enumerate() {
        shelf.line(URL, &later(second as u32 + 1), slot, "");
    }
    let last = later(9);
    shelf.index += &format!("com,example)/ {last} {{\"url\": \"{URL}\"}}\n");
    let index = shelf.write_index("index.cdxj");
    let warcs = shelf.warcs();
    let stage = Stage::start(&format!(
        "collections:\n  c: {{index: {index}, resource: {warcs}}}\n  seq:\n    sequence:\n      \
         - {{index: {index}, resource: {warcs}/none}}\n      - {{index: {index}, resource: {warcs}}}\n"
    ));
    for collection in ["c", "seq"] {
        let answer = stage.get(target(collection, URL, &later(9)));
        assert_eq!(payload(&answer), "good");
        let expected = "2016-01-01T00:00:00Z";
        assert_eq!(field(&record(&answer).0, "WARC-Date"), expected);
    }
    let only_bad = target("c", URL, &later(9)) + "&from=20160101000001";
    let answer = stage.get(&only_bad);
    let reasons = reasons(&answer);
    let bad = "invalid record";
    let no_loader = "no loader for this row";
    let kinds = [no_loader, bad, bad, bad, "not found", bad, bad, bad, bad];
    assert_eq!(reasons, kinds);
    // The operator gets the detailed reason, with the file.
    let logged = logged(&stage, &answer, "a record cannot be loaded", kinds.len());
    let expected = rows![
        "", "neither live_url nor filename";
        "good.warc.gz", "truncated";
        "good.warc.gz", "neither a WARC record nor an ARC|gzip|is not a known WARC version|not valid";
        "good.warc.gz", "ends before";
        "missing.warc.gz", "does not exist";
        "a.warc.gz", "WARC-Payload-Digest";
        "a.warc.gz", "\"request\"";
        "a.warc.gz", "20150101000000";
        "a.warc.gz", "http://example.com/other";
    ];
    for (event, (file, part)) in logged.iter().zip(expected) {
        let error = event["error"].as_str().unwrap();
        let is_said = part.split('|').any(|part| error.contains(part));
        assert!(is_said, "{error:?} should say {part:?}");
        assert_eq!(event["file"].as_str().unwrap_or_default(), file, "{event}");
    }
    // The search tries only the first row.
    let limited = target("c", URL, &later(9)) + "&limit=1";
    assert_eq!(stage.get(&limited).status, 404);
}

#[test]
fn invalid_request_is_reported() {
    let mut shelf = Shelf::new();
    shelf.capture("a.warc.gz", URL, TIME, b"hello");
    let stage = shelf.serve();
    let none = stage.get(target("c", "http://none.example/", TIME));
    assert!(reasons(&none).is_empty());
    for (path, status) in [
        ("/c/resource", 400),
        ("/c/resource?url=", 400),
        (&*format!("/c/resource?url={URL}&closest=x"), 400),
        (&*format!("/c/resource?url={URL}&limit=x"), 400),
        (&*format!("/none/resource?url={URL}"), 404),
        (&*format!("/c/resource-post?url={URL}"), 405),
    ] {
        let answer = stage.get(path);
        assert_eq!(answer.status, status, "{path}: {}", answer.text());
        let json: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
        assert!(json["message"].is_string(), "{path}");
    }
}

#[test]
fn relative_paths_start_at_the_list_or_the_configuration() {
    let mut shelf = Shelf::new();
    shelf.capture("a.warc.gz", URL, TIME, b"hello");
    shelf.write_index("index.cdxj");
    let lists = shelf.path().join("lists");
    std::fs::create_dir(&lists).unwrap();
    let list = "a.warc.gz\t../warcs/a.warc.gz\n";
    std::fs::write(lists.join("paths.txt"), list).unwrap();
    let redis = Server::with(Options::new().no_module());
    redis.wire().ok_line("HSET paths a.warc.gz warcs/a.warc.gz");
    let config = format!(
        "collections:\n  list: {{index: ./index.cdxj, resource: lists/paths.txt}}\n  redis:\n    \
         index: ./index.cdxj\n    resource: redis://127.0.0.1:{}/0/paths\n",
        redis.port()
    );
    let stage = Stage::start_in(shelf.path(), &config);
    for collection in ["list", "redis"] {
        let answer = stage.get(target(collection, URL, TIME));
        assert_eq!(payload(&answer), "hello", "{collection}");
    }
}
