//! Tests of requests by programs that know pywb, and of the responses that they rely on.

use std::path::{Path, PathBuf};

use redis_tests::http::Connection;
use redis_tests::{assert_contains, assert_lacks, rows};
use serde_json::{Value, json};

use crate::index_api::archive;
use crate::resource::{field, record};
use crate::serving::Stage;
use crate::shelf::Shelf;

fn json_of(stage: &Stage, target: &str) -> Value {
    let answer = stage.get(target);
    assert_eq!(answer.status, 200, "{target}");
    assert_eq!(answer.media_type(), "application/json", "{target}");
    serde_json::from_slice(&answer.body).unwrap()
}

#[test]
fn collections_and_sources_are_listed_as_json() {
    let (_dir, stage) = archive();
    let mut connection = Connection::open(stage.address()).unwrap();
    let mut at_root = |accept: &str| {
        let fields = [("Accept", accept)];
        let answer = connection.ask("GET", "/", &fields, b"").unwrap();
        assert_eq!(answer.field("vary"), Some("accept"));
        answer
    };
    let modes = json!({"modes": ["list_sources", "index", "resource"]});
    let all: Value = serde_json::from_slice(&at_root("application/json").body).unwrap();
    assert_eq!(all, json!({"/north": modes, "/both": modes, "/seq": modes}));
    for page in ["text/html,application/json", "*/*", "image/png"] {
        assert_eq!(at_root(page).media_type(), "text/html", "{page}");
    }
    for (target, sources) in rows![
        "/both/list_sources", json!({"north": "file", "south": "file"});
        "/both/list_sources?sources=!north", json!({"south": "file"});
        "/seq/list_sources", json!({"seq.1": "file", "seq.2": "file"});
    ] {
        let expected = json!({ "sources": sources });
        assert_eq!(json_of(&stage, target), expected, "{target}");
    }
    let refused = stage.get("/both/list_sources?sources=west");
    assert_eq!(refused.status, 400);
}

#[test]
fn rows_name_their_source_twice() {
    let (_dir, stage) = archive();
    let rows = stage.get("/both/index?url=example.com&output=json").text();
    for row in rows.lines() {
        let row: Value = serde_json::from_str(row).unwrap();
        assert_eq!(row["source-coll"], row["source"], "{row}");
    }
    let fields = stage.get("/both/index?url=example.com&fl=source-coll&output=text");
    assert_eq!(fields.text(), "north\nsouth\nnorth\n");
}

#[test]
fn missing_sources_are_named_in_both_headers() {
    let config = "collections:\n  x:\n    index_group: {dead: 'redis://127.0.0.1:1/0/key'}\n";
    let stage = Stage::start(config);
    for target in ["/x/index?url=a.com", "/x/resource?url=a.com"] {
        let answer = stage.get(target);
        let errors = answer.field("source-errors");
        assert!(errors.unwrap().contains("dead"), "{answer:?}");
        assert_eq!(answer.field("reserrors"), errors);
    }
}

/// Creates a folder with the index of a cluster of five blocks with one line each, and nothing
/// else.
pub fn cluster(folder: &Path) -> PathBuf {
    let folder = folder.join("cluster");
    std::fs::create_dir(&folder).unwrap();
    let line =
        |n: usize| format!("com,example)/{n} 2016 {{\"url\": \"http://example.com/{n}\"}}\n");
    let (mut part, mut index) = (Vec::new(), String::new());
    for n in 0..5 {
        use std::io::Write as _;
        let mut block = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        block.write_all(line(n).as_bytes()).unwrap();
        let block = block.finish().unwrap();
        let key = format!("com,example)/{n} 2016");
        let (offset, length) = (part.len(), block.len());
        index += &format!("{key}\tpart.gz\t{offset}\t{length}\t{}\n", n + 1);
        part.extend(block);
    }
    std::fs::write(folder.join("part.gz"), part).unwrap();
    std::fs::write(folder.join("cluster.idx"), index).unwrap();
    folder
}

#[test]
fn pages_are_counted_in_blocks_or_rows() {
    let (dir, stage) = archive();
    let pages = json_of(
        &stage,
        "/both/index?url=*.example.com&showNumPages=true&pageSize=2",
    );
    assert_eq!(
        pages,
        json!({"pages": 3, "pageSize": 2, "blocks": 5, "rows": 5})
    );
    let folder = cluster(dir.path());
    let stage = Stage::start(&format!("collections: {{x: {}}}\n", folder.display()));
    let pages = json_of(
        &stage,
        "/x/index?url=*.example.com&showNumPages=true&pageSize=2",
    );
    assert_eq!(pages, json!({"pages": 3, "pageSize": 2, "blocks": 5}));
    let page = stage.get("/x/index?url=*.example.com&page=1&pageSize=2&fl=url&output=text");
    assert_eq!(page.text(), "http://example.com/2\nhttp://example.com/3\n");
}

#[test]
fn resource_without_a_timestamp_returns_the_first_row() {
    let mut shelf = Shelf::new();
    for time in ["20140101000000", "20160101000000", "20180101000000"] {
        shelf.capture("a.warc.gz", "http://example.com/", time, time.as_bytes());
    }
    let stage = shelf.serve();
    for (more, date) in [
        ("", "2014"),
        ("&sort=default", "2014"),
        ("&sort=reverse", "2018"),
        ("&closest=20160601", "2016"),
        ("&closest=now", "2018"),
        ("&from=2015", "2016"),
    ] {
        let target = format!("/c/resource?url=http://example.com/{more}");
        let answer = stage.get(&target);
        let (head, _) = record(&answer);
        let found = field(&head, "WARC-Date");
        assert!(found.starts_with(date), "{more}: {head}");
        let row = answer.field("warcserver-cdx").unwrap();
        assert_contains(row, "\"source-coll\": \"c\"");
    }
}

#[test]
fn revisit_takes_the_status_of_its_original() {
    let dir = tempfile::tempdir().unwrap();
    let lines = "com,example)/ 20140101000000 http://example.com/ text/html 200 D - - 9 7 a.warc.gz\n\
                 com,example)/ 20150101000000 http://example.com/ warc/revisit - D - - 9 7 a.warc.gz\n\
                 com,example)/ 20160101000000 http://example.com/ warc/revisit - D - - 9 7 a.warc.gz\n";
    let file = dir.path().join("a.cdx");
    std::fs::write(&file, lines).unwrap();
    let stage = Stage::start(&format!("collections: {{x: {}}}\n", file.display()));
    let ask = |more: &str| {
        let target = format!("/x/index?url=example.com&fl=timestamp,status,mime&output=text{more}");
        stage.get(&target).text()
    };
    let expected = Some("20160101000000 - warc/revisit");
    assert_eq!(ask("").lines().last(), expected);
    let resolved = ask("&resolveRevisits=true&filter==status:200");
    let expected = Some("20160101000000 200 text/html");
    assert_eq!(resolved.lines().last(), expected);
    assert_eq!(resolved.lines().count(), 3);
    let collapsed = ask("&resolveRevisits=true&collapseTime=2");
    assert_eq!(collapsed, "20140101000000 200 text/html\n");
}

#[test]
fn ineffective_parameters_are_reported_and_misleading_ones_refused() {
    let (_dir, stage) = archive();
    let ask = |more: &str| stage.get(format!("/both/index?url=example.com{more}"));
    let plain = ask("");
    assert_eq!(plain.field("ignored-parameters"), None);
    let answer = ask("&colour=blue&fast%20Latest=1&colour=red");
    let expected = Some("colour, fast%20Latest");
    assert_eq!(answer.field("ignored-parameters"), expected);
    assert_eq!(answer.body, plain.body);
    let fuzzy = ask("&allowFuzzy=true");
    assert_eq!(fuzzy.field("ignored-parameters"), Some("allowFuzzy"));
    assert_eq!(ask("&allowFuzzy=0").field("ignored-parameters"), None);
    assert_eq!(ask("&resumeKey=x").status, 400);
    let record = stage.get("/both/resource?url=example.com&colour=blue");
    assert_eq!(record.status, 404);
    assert_eq!(record.field("ignored-parameters"), Some("colour"));
    let years = |more: &str| {
        let answer = ask(&format!("&fl=timestamp&output=text{more}"));
        let text = answer.text();
        let years = text.lines().map(|line| line[..4].to_owned());
        years.collect::<Vec<_>>()
    };
    assert_eq!(years("&offset=1"), ["2015", "2016"]);
    assert_eq!(years("&offset=1&limit=1"), ["2015"]);
    assert_eq!(years("&offset=1&sort=reverse"), ["2015", "2014"]);
    assert_eq!(years("&content_type=text/html&limit=1"), ["2014"]);
    assert!(years("&content_type=text/css").is_empty());
    let without = ask("&nosource=true").text();
    assert_contains(&without, "filename");
    assert_lacks(&without, "source");
}

#[test]
fn record_is_compressed_on_request() {
    use std::io::Read as _;
    let mut shelf = Shelf::new();
    let large = vec![b'x'; 3 << 20];
    let url = "http://example.com/small";
    shelf.capture("a.warc.gz", url, "20140101000000", b"small");
    let url = "http://example.com/large";
    shelf.capture("a.warc.gz", url, "20140101000000", &large);
    let stage = shelf.serve();
    for page in ["small", "large"] {
        let target = format!("/c/resource?url=http://example.com/{page}");
        let plain = stage.get(&target);
        let packed = stage.get(format!("{target}&compress=gzip"));
        assert_eq!(packed.field("content-encoding"), Some("gzip"));
        let expected = plain.field("memento-datetime");
        assert_eq!(packed.field("memento-datetime"), expected);
        let mut unpacked = Vec::new();
        let mut reader = flate2::read::GzDecoder::new(&packed.body[..]);
        reader.read_to_end(&mut unpacked).unwrap();
        assert!(unpacked == plain.body, "{page}");
    }
}

#[test]
fn fuzzy_match_replaces_a_missing_url_if_configured() {
    let mut shelf = Shelf::new();
    let captures = [
        "http://example.com/app.js",
        "http://example.com/data?callback=jQuery111_1397&q=1",
        "http://example.com/data?callback=jQuery111_1398&q=2",
        "http://example.com/new?id=7&_=1397",
        "http://example.com/",
    ];
    for url in captures {
        shelf.capture("a.warc.gz", url, "20140101000000", url.as_bytes());
    }
    let index = shelf.write_index("index.cdxj");
    let source = format!("{{index: {index}, resource: {}", shelf.warcs());
    let stage = Stage::start(&format!(
        "collections:\n  fuzzy: {source}, fuzzy: true}}\n  exact: {source}}}\n  \
         seq:\n    fuzzy: true\n    sequence: [{{index: /none}}, {source}}}]\n"
    ));
    let encoded =
        |url: &str| url::form_urlencoded::byte_serialize(url.as_bytes()).collect::<String>();
    for (asked, found) in rows![
        "http://example.com/app.js?_=1500", captures[0];
        "http://example.com/app.js?utm_source=a&cb=9", captures[0];
        "http://example.com/data?q=1&callback=jQuery99_2000", captures[1];
        "http://example.com/new?id=7&_=99", captures[3];
        "http://example.com/new?id=7", captures[3];
        "http://example.com/?fbclid=x", captures[4];
    ] {
        let url = encoded(asked);
        for collection in ["fuzzy", "seq"] {
            let answer = stage.get(format!("/{collection}/resource?url={url}&closest=now"));
            let (head, _) = record(&answer);
            assert_eq!(field(&head, "WARC-Target-URI"), found, "{asked}");
            let row = answer.field("warcserver-cdx").unwrap();
            assert_contains(row, "\"is_fuzzy\": \"1\"");
        }
        for missing in [
            format!("/exact/resource?url={url}"),
            format!("/fuzzy/resource?url={url}&allowFuzzy=0"),
        ] {
            assert_eq!(stage.get(&missing).status, 404, "{missing}");
        }
        let rows = |more: &str| stage.get(format!("/fuzzy/index?url={url}{more}")).text();
        assert_eq!(rows(""), "");
        assert!(rows("&allowFuzzy=true").contains(found), "{asked}");
    }
    for other in [
        "http://example.com/new?id=8",
        "http://example.com/app.js?v=2",
        "http://example.com/nothing",
    ] {
        let answer = stage.get(format!("/fuzzy/resource?url={}", encoded(other)));
        assert_eq!(answer.status, 404, "{other}");
    }
}
