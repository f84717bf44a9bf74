//! Tests of `/<coll>/index` with local files.

use std::path::Path;

use redis_tests::http::Answer;
use redis_tests::{assert_contains, assert_starts, rows};
use tempfile::TempDir;

use crate::serving::Stage;

/// Creates captures of one page in two archives, and of a page below it.
pub fn archive() -> (TempDir, Stage) {
    let dir = tempfile::tempdir().unwrap();
    let line = |key: &str, time: &str, status: &str, file: &str| {
        format!(
            "{key} {time} {{\"url\": \"http://example.com/\", \"mime\": \"text/html\", \"status\": \"{status}\", \
             \"digest\": \"{file}{time}\", \"length\": \"10\", \"offset\": \"0\", \"filename\": \"{file}\"}}\n"
        )
    };
    let north = [
        line("com,example)/", "20140101000000", "200", "north.warc.gz"),
        line("com,example)/", "20160101000000", "404", "north.warc.gz"),
        line("com,example)/a", "20150101000000", "200", "north.warc.gz"),
    ];
    let south = [
        line("com,example)/", "20150101000000", "200", "south.warc.gz"),
        line("com,example)/b", "20150101000000", "301", "south.warc.gz"),
    ];
    for (name, lines) in [("north", north.concat()), ("south", south.concat())] {
        std::fs::create_dir(dir.path().join(name)).unwrap();
        std::fs::write(dir.path().join(name).join("index.cdxj"), lines).unwrap();
    }
    let stage = Stage::start(&config(dir.path()));
    (dir, stage)
}

fn config(folder: &Path) -> String {
    let folder = folder.display();
    format!(
        "collections:\n  north: {folder}/north\n  both:\n    index_group:\n      north: {folder}/north\n      \
         south: {folder}/south\n  seq:\n    sequence:\n      - index: {folder}/none\n      - index: {folder}/south\n"
    )
}

fn ask(stage: &Stage, target: &str) -> Answer {
    stage.get(target)
}

/// Returns year and source of each row.
fn rows(answer: &Answer) -> Vec<String> {
    assert_eq!(answer.status, 200, "{}", answer.text());
    let text = answer.text();
    let row = |line: &str| {
        let (key_and_time, json) = line.split_once(" {").unwrap();
        let json: serde_json::Value = serde_json::from_str(&format!("{{{json}")).unwrap();
        let year = &key_and_time.rsplit(' ').next().unwrap()[..4];
        assert_eq!(json["source_type"], "file");
        format!("{year} {}", json["source"].as_str().unwrap())
    };
    text.lines().map(row).collect()
}

#[test]
fn group_answers_as_one_archive() {
    let (_dir, stage) = archive();
    for (query, expected) in rows![
        "url=example.com", vec!["2014 north", "2015 south", "2016 north"];
        "url=http://www.example.com/&closest=2016", vec!["2016 north", "2015 south", "2014 north"];
        "url=example.com&closest=2015", vec!["2016 north", "2015 south", "2014 north"];
        "url=example.com&closest=2015&limit=2", vec!["2016 north", "2015 south"];
        "url=example.com&sort=reverse", vec!["2016 north", "2015 south", "2014 north"];
        "url=example.com&from=2015&to=2015", vec!["2015 south"];
        "url=example.com&filter==status:200", vec!["2014 north", "2015 south"];
        "url=example.com&filter=!status:200&limit=9", vec!["2016 north"];
        "url=example.com&sources=south", vec!["2015 south"];
        "url=example.com&sources=!south", vec!["2014 north", "2016 north"];
        "url=example.com/*&limit=4", vec!["2014 north", "2015 south", "2016 north", "2015 north"];
        "url=example.com&matchType=host&page=1&pageSize=3", vec!["2015 north", "2015 south"];
        "url=*.example.com&collapseTime=4&filter=source:north",
            vec!["2014 north", "2016 north", "2015 north"];
        "url=example.org", vec![];
    ] {
        let answer = ask(&stage, &format!("/both/index?{query}"));
        assert_eq!(rows(&answer), expected, "{query}");
        assert_eq!(answer.field("source-errors"), None);
    }
    let expected = ["2014 north", "2016 north"];
    assert_eq!(rows(&ask(&stage, "/north/index?url=example.com")), expected);
}

#[test]
fn sequence_continues_with_the_next_step() {
    let (_dir, stage) = archive();
    let expected = ["2015 seq.2"];
    assert_eq!(rows(&ask(&stage, "/seq/index?url=example.com")), expected);
    assert_eq!(rows(&ask(&stage, "/seq/index?url=example.org")), [""; 0]);
}

#[test]
fn each_output_has_its_media_type() {
    let (_dir, stage) = archive();
    for (output, media, beginning) in rows![
        "cdxj", "text/x-cdxj", "com,example)/ 20140101000000 {\"url\": \"http://example.com/\"";
        "json", "text/x-ndjson",
            "{\"urlkey\": \"com,example)/\", \"timestamp\": \"20140101000000\"";
        "text", "text/plain", "com,example)/ 20140101000000 http://example.com/ text/html 200";
    ] {
        let answer = ask(
            &stage,
            &format!("/north/index?url=example.com&output={output}"),
        );
        assert_eq!(answer.media_type(), media);
        assert_starts(answer.text(), beginning);
        let nothing = ask(
            &stage,
            &format!("/north/index?url=example.org&output={output}"),
        );
        assert_eq!((nothing.status, nothing.media_type()), (200, media));
        assert_eq!(nothing.text(), "");
    }
    let pages = ask(
        &stage,
        "/both/index?url=example.com/*&showNumPages=true&pageSize=2",
    );
    let pages: serde_json::Value = serde_json::from_str(&pages.text()).unwrap();
    assert_eq!(pages["pages"], 3);
    assert_eq!(pages["pageSize"], 2);
    for (output, media) in [("", "application/json"), ("&output=json", "text/x-ndjson")] {
        let query = format!("url=example.com/*&showNumPages=true{output}");
        let pages = ask(&stage, &format!("/both/index?{query}"));
        assert_eq!(pages.media_type(), media);
    }
}

#[test]
fn parameters_of_pywb_and_its_clients_are_accepted() {
    let (_dir, stage) = archive();
    let all = stage.get("/both/index?url=example.com").text();
    for more in [
        "limit=0",
        "sort=regular",
        "from=10101000000",
        "showResumeKey=true",
    ] {
        let answer = stage.get(format!("/both/index?url=example.com&{more}"));
        assert_eq!((answer.status, answer.text()), (200, all.clone()), "{more}");
    }
    let twice = stage.get("/both/index?url=example.com&output=txt&fl=timestamp,timestamp&limit=1");
    assert_eq!(twice.text(), "20140101000000 20140101000000\n");
    let none = stage.get("/both/index?url=example.com&to=20140100").text();
    assert_eq!(none, "");
}

#[test]
fn invalid_utf_8_is_replaced_in_every_output() {
    let dir = tempfile::tempdir().unwrap();
    let mut lines =
        b"com,example)/ 2014 {\"url\": \"http://example.com/\xe9\", \"status\": \"200\"}\n"
            .to_vec();
    // The row has a field that only the source may set.
    lines.extend(b"com,example)/ 2015 {\"url\": \"http://example.com/\xe9\", \"source\": \"x\"}\n");
    lines.extend(b"com,example)/ 20160101000000 http://example.com/\xe9 text/html 200 ABC - - 7 8 a.warc.gz\n");
    lines.extend(b"com,example)/\xe9 2017 {\"url\": \"http://example.com/\xe9\"}\n");
    lines.extend(b"com,example)/\xea 2018 {\"url\": \"http://example.com/\xea\"}\n");
    std::fs::write(dir.path().join("index.cdx"), lines).unwrap();
    let config = format!("collections: {{web: {}/index.cdx}}\n", dir.path().display());
    let stage = Stage::start(&config);
    let query = "url=example.com&matchType=prefix";
    for target in [
        format!("/web/index?{query}"),
        format!("/web/index?{query}&output=json"),
        format!("/web/index?{query}&output=text"),
        format!("/web/index?{query}&filter=url:example"),
        format!("/web/index?{query}&fl=url&output=json"),
        format!("/web/cdx?{query}"),
        format!("/web?{query}"),
    ] {
        let text = String::from_utf8(stage.get(&target).body).expect(&target);
        assert_eq!(text.lines().count(), 5, "{target}: {text}");
        for line in text.lines() {
            assert_contains(line, "http://example.com/\u{fffd}");
        }
    }
    let json = stage.get(format!("/web/index?{query}&output=json")).text();
    for line in json.lines() {
        serde_json::from_str::<serde_json::Value>(line).expect(line);
    }
    let table = stage.get(format!("/web/cdx?{query}&output=json"));
    let table: Vec<Vec<String>> = serde_json::from_slice(&table.body).unwrap();
    assert_eq!(table.len(), 6);
    // Resume keys work for urlkeys that are not UTF-8.
    let mut found = String::new();
    let mut key = String::new();
    loop {
        let page = stage.get(format!(
            "/web/cdx?{query}&limit=1&fl=timestamp&showResumeKey=true{key}"
        ));
        let text = page.text();
        let mut lines = text.lines();
        found.extend(lines.next().map(|line| &line[..4]));
        match lines.nth(1) {
            Some(next) => key = format!("&resumeKey={next}"),
            None => break,
        }
    }
    assert_eq!(found, "20142015201620172018");
}

#[test]
fn bad_parameters_and_unknown_collections_name_a_remedy() {
    let (_dir, stage) = archive();
    for (target, status, word) in [
        ("/both/index", 400, "url"),
        ("/both/index?url=", 400, "url"),
        ("/both/index?url=a.com&limit=many", 400, "limit"),
        ("/both/index?url=a.com&sources=west", 400, "west"),
        ("/both/index?url=a.com&filter=tag.coll:1", 400, "tag.coll"),
        ("/both/index?url=a.com&filter=~status:((", 400, "filter"),
        ("/nothing/index?url=a.com", 404, "nothing"),
        ("/both/ap/all/index?url=a.com", 404, "access point"),
        ("/both/elsewhere", 404, "index"),
        ("/both", 404, "index"),
    ] {
        let answer = ask(&stage, target);
        assert_eq!(answer.status, status, "{target}: {}", answer.text());
        assert_eq!(answer.media_type(), "application/json", "{target}");
        let json: serde_json::Value = serde_json::from_str(&answer.text()).unwrap();
        let message = json["message"].as_str().unwrap();
        assert!(message.contains(word), "{target}: {message}");
    }
}

#[test]
fn new_captures_are_found_without_a_restart() {
    let (dir, stage) = archive();
    let expected = ["2015 seq.2"];
    assert_eq!(rows(&ask(&stage, "/seq/index?url=example.com")), expected);
    std::fs::create_dir(dir.path().join("none")).unwrap();
    let line = "com,example)/ 20200101000000 {\"url\": \"http://example.com/\"}\n";
    std::fs::write(dir.path().join("none/new.cdxj"), line).unwrap();
    redis_tests::until("the new file is noticed", || {
        rows(&ask(&stage, "/seq/index?url=example.com")) == ["2020 seq.1"]
    });
}
