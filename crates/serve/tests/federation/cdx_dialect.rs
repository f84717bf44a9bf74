//! Tests of `/<coll>/cdx`, in the dialect of the Internet Archive.

use redis_tests::http::Answer;
use redis_tests::{assert_contains, rows};
use tempfile::TempDir;

use crate::as_pywb::cluster;
use crate::serving::Stage;

/// Five captures of a page that changed once, and one capture of a page below it.
const LINES: &str = "\
com,example)/ 20140101000000 {\"url\": \"http://example.com/\", \"mime\": \"text/html\", \"status\": \"200\", \"digest\": \"sha1:AAA\", \"length\": \"10\", \"offset\": \"1\", \"filename\": \"a.warc.gz\"}
com,example)/ 20150101000000 {\"url\": \"http://example.com/\", \"mime\": \"warc/revisit\", \"status\": \"200\", \"digest\": \"sha1:AAA\", \"length\": \"5\", \"offset\": \"2\", \"filename\": \"a.warc.gz\"}
com,example)/ 20160101000000 {\"url\": \"http://example.com/\", \"mime\": \"text/html\", \"status\": \"404\", \"digest\": \"sha1:BBB\", \"length\": \"11\", \"offset\": \"3\", \"filename\": \"a.warc.gz\"}
com,example)/ 20170101000000 {\"url\": \"http://example.com/\", \"mime\": \"text/html\", \"status\": \"200\", \"digest\": \"sha1:BBB\", \"length\": \"12\", \"offset\": \"4\", \"filename\": \"b.warc.gz\"}
com,example)/ 20180101000000 {\"url\": \"http://example.com/\", \"mime\": \"warc/revisit\", \"status\": \"200\", \"digest\": \"sha1:BBB\", \"length\": \"6\", \"offset\": \"5\", \"filename\": \"b.warc.gz\"}
com,example)/a%20b 20150101000000 {\"url\": \"http://example.com/a b\", \"mime\": \"text/html; charset=utf-8\", \"status\": \"200\", \"digest\": \"CCC\", \"length\": \"7\", \"offset\": \"6\", \"filename\": \"a.warc.gz\"}
";

fn archive() -> (TempDir, Stage) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("index.cdxj"), LINES).unwrap();
    let stage = Stage::start(&format!(
        "collections: {{web: {}/index.cdxj}}\n",
        dir.path().display()
    ));
    (dir, stage)
}

fn ask(stage: &Stage, query: &str) -> String {
    let answer = stage.get(format!("/web/cdx?{query}"));
    assert_eq!(answer.status, 200, "{query}: {}", answer.text());
    answer.text()
}

#[test]
fn rows_are_seven_columns() {
    let (_dir, stage) = archive();
    let expected = "\
com,example)/ 20140101000000 http://example.com/ text/html 200 AAA 10
com,example)/ 20150101000000 http://example.com/ warc/revisit - AAA 5
";
    // The paths of an archive that is queried at its root, and of a collection.
    for path in [
        "/web/cdx",
        "/web/cdx/search/cdx",
        "/web/web/timemap/cdx",
        "/web/timemap/cdx",
        "/cdx/search/cdx",
        "/cdx",
    ] {
        let answer = stage.get(format!("{path}?url=example.com&limit=2&gzip=false"));
        assert_eq!(answer.status, 200, "{path}");
        assert_eq!(answer.media_type(), "text/plain", "{path}");
        assert_eq!(answer.text(), expected, "{path}");
    }
    let last = ask(&stage, "url=example.com/a%20b");
    let expected = "com,example)/a%20b 20150101000000 http://example.com/a%20b text/html;%20charset=utf-8 200 CCC 7\n";
    assert_eq!(last, expected);
    assert_eq!(ask(&stage, "url=example.org"), "");
}

#[test]
fn queries_mean_the_same_as_on_a_cdx_server() {
    let (_dir, stage) = archive();
    for (query, expected) in rows![
        "limit=-1", "2018";
        "limit=-1&filter=!mimetype:warc/revisit", "2017";
        "limit=-2&filter=statuscode:200", "2014 2017";
        "limit=-9&fastLatest=true", "2014 2015 2016 2017 2018";
        "limit=0", "";
        "limit=-1&to=2015", "2015";
        "limit=-1&collapse=digest", "2016";
        "filter=statuscode:2", "";
        "filter=statuscode:2..", "2014 2017";
        "filter=!statuscode:200", "2015 2016 2018";
        "filter=digest:AAA", "2014 2015";
        "filter=digest:sha1:AAA", "";
        "filter=~digest:A", "2014 2015";
        "filter=!~digest:A", "2016 2017 2018";
        "filter==statuscode:200", "2014 2017";
        "filter=!=statuscode:200", "2015 2016 2018";
        "filter==mimetype:warc/revisit", "2015 2018";
        "filter==mimetype:warc.revisit", "";
        "filter==4:404", "2016";
        "filter=original:http://example.com/&filter=4:404", "2016";
        "filter=filename:b.*", "2017 2018";
        "collapse=digest", "2014 2016";
        "collapse=timestamp:3", "2014";
        "collapse=digest&collapse=statuscode", "2014 2016";
        "collapse=statuscode&collapse=digest", "2014 2016";
        "collapse=statuscode", "2014 2015 2016 2017 2018";
        "collapse=timestamp:3&collapse=digest", "2014";
        "collapseToLast=digest", "2015 2018";
        "sort=regular&limit=1", "2014";
        "from=10101000000&to=20160000", "2014 2015";
        "from=20160000&to=20170200", "2016 2017";
        "sort=reverse&limit=2", "2018 2017";
        "from=2015&to=2016", "2015 2016";
        "matchType=prefix&filter=digest:C.*", "2015";
        "offset=3", "2017 2018";
        "closest=20160101&limit=1", "2016";
    ] {
        let text = ask(&stage, &format!("url=example.com&fl=timestamp&{query}"));
        let years: Vec<&str> = text.lines().map(|line| &line[..4]).collect();
        assert_eq!(years.join(" "), expected, "{query}");
    }
    let fields = ask(
        &stage,
        "url=example.com&fl=timestamp,digest,nothing,filename&limit=-1",
    );
    assert_eq!(fields, "20180101000000 BBB - b.warc.gz\n");
    let fields = ask(
        &stage,
        "url=example.com&fl=digest,digest&limit=-1&output=txt",
    );
    assert_eq!(fields, "BBB BBB\n");
}

#[test]
fn resume_key_is_omitted_at_the_end() {
    let (_dir, stage) = archive();
    for (more, expected) in rows![
        // waybackpy's query for the nearest capture.
        "sort=closest&closest=20160101&limit=1", "2016";
        "sort=reverse&limit=1", "2018";
        "page=0&pageSize=2", "2014 2015";
        "limit=-1", "2018";
    ] {
        let query = format!("url=example.com&fl=timestamp&{more}");
        let text = ask(&stage, &format!("{query}&showResumeKey=true"));
        let years: Vec<&str> = text.lines().map(|line| &line[..4]).collect();
        assert_eq!(years.join(" "), expected, "{more}");
        let refused = stage.get(format!("/web/cdx?{query}&resumeKey=x"));
        assert_eq!(refused.status, 400, "{more}");
        assert_contains(refused.text(), "resumeKey");
    }
    let index = stage.get("/web/index?url=example.com&limit=1&showResumeKey=true");
    assert_eq!((index.status, index.text().lines().count()), (200, 1));
    assert_eq!(index.field("ignored-parameters"), Some("showResumeKey"));
    let index = stage.get("/web/index?url=example.com&resumeKey=x");
    assert_eq!(index.status, 400);
    assert_contains(index.text(), "resumeKey");
}

#[test]
fn digests_use_the_form_of_web_archive_org() {
    const HEX: &str = "0e973b59f476007fd10f87f347c3956065516fc0";
    const BASE32: &str = "B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A";
    let dir = tempfile::tempdir().unwrap();
    let mut lines = String::new();
    for (year, digest) in [
        (2014, format!("sha1:{HEX}")),
        (2015, HEX.to_owned()),
        (2016, format!("sha1:{BASE32}")),
        (2017, BASE32.to_owned()),
        (2018, "sha256:ab".to_owned()),
    ] {
        lines += &format!(
            "com,example)/ {year} {{\"url\": \"http://example.com/\", \"digest\": \"{digest}\"}}\n"
        );
    }
    std::fs::write(dir.path().join("index.cdxj"), lines).unwrap();
    let stage = Stage::start(&format!(
        "collections: {{web: {}/index.cdxj}}\n",
        dir.path().display()
    ));
    let rows = ask(&stage, "url=example.com&fl=timestamp,digest");
    let expected = format!(
        "20140101000000 {BASE32}\n20150101000000 {BASE32}\n20160101000000 {BASE32}\n\
         20170101000000 {BASE32}\n20180101000000 ab\n"
    );
    assert_eq!(rows, expected);
    for (more, expected) in rows![
        format!("filter=digest:{BASE32}"), 4;
        format!("filter==digest:{BASE32}"), 4;
        format!("filter=!=digest:{BASE32}"), 1;
        format!("filter=digest:{HEX}"), 0;
        "collapse=digest".to_owned(), 2;
        "filter=timestamp:20150101000000".to_owned(), 1;
    ] {
        let rows = ask(&stage, &format!("url=example.com&{more}"));
        assert_eq!(rows.lines().count(), expected, "{more}");
    }
}

#[test]
fn json_is_an_array_of_arrays() {
    let (_dir, stage) = archive();
    let json = |query: &str| {
        let answer = stage.get(format!("/web/cdx?output=json&{query}"));
        assert_eq!(answer.media_type(), "application/json");
        serde_json::from_slice::<serde_json::Value>(&answer.body).unwrap()
    };
    let found = json("url=example.com&limit=1");
    let names = [
        "urlkey",
        "timestamp",
        "original",
        "mimetype",
        "statuscode",
        "digest",
        "length",
    ];
    let first = [
        "com,example)/",
        "20140101000000",
        "http://example.com/",
        "text/html",
        "200",
        "AAA",
        "10",
    ];
    assert_eq!(found, serde_json::json!([names, first]));
    let found = json("url=example.com&fl=digest&limit=-1");
    assert_eq!(found, serde_json::json!([["digest"], ["BBB"]]));
    assert_eq!(json("url=example.org"), serde_json::json!([]));
    let found = json("url=example.com&fl=digest&limit=1&showResumeKey=true");
    let rows = found.as_array().unwrap();
    assert_eq!(
        rows[..3],
        ["digest", "AAA", ""].map(|one| match one {
            "" => serde_json::json!([]),
            one => serde_json::json!([one]),
        })
    );
    assert_eq!(rows.len(), 4);
}

trait Rows {
    fn rows(&self) -> Vec<String>;
}

impl Rows for Answer {
    fn rows(&self) -> Vec<String> {
        self.text().lines().map(str::to_owned).collect()
    }
}

#[test]
fn answers_resume_where_the_last_one_ended() {
    let (_dir, stage) = archive();
    for more in [
        "matchType=prefix",
        "matchType=prefix&collapse=digest",
        "from=2015&filter=statuscode:-",
    ] {
        let query = format!("/web/cdx?url=example.com&{more}");
        let all = stage.get(&query).rows();
        for limit in 1..=all.len() {
            let (mut found, mut key) = (Vec::new(), String::new());
            loop {
                let answer = stage.get(format!("{query}&limit={limit}&showResumeKey=true{key}"));
                let rows = answer.rows();
                match rows.iter().position(String::is_empty) {
                    Some(end) => {
                        found.extend_from_slice(&rows[..end]);
                        key = format!("&resumeKey={}", rows[end + 1]);
                    }
                    None => {
                        found.extend(rows);
                        break;
                    }
                }
            }
            assert_eq!(found, all, "{more}, {limit} at a time");
        }
    }
}

#[test]
fn pages_are_numbered_and_end() {
    let (dir, stage) = archive();
    assert_eq!(ask(&stage, "url=example.com&showNumPages=true"), "1\n");
    assert_eq!(ask(&stage, "url=example.com&page=0").lines().count(), 5);
    assert_eq!(ask(&stage, "url=example.com&page=1"), "");
    let page = |n: u32| {
        ask(
            &stage,
            &format!("url=example.com&pageSize=2&page={n}&output=json"),
        )
    };
    assert_eq!([0, 2, 3].map(|n| page(n).lines().count()), [3, 2, 0]);
    // A page of blocks without matching rows is not the end.
    let folder = cluster(dir.path());
    let blocks = Stage::start(&format!("collections: {{web: {}}}\n", folder.display()));
    let page = |n: u32| {
        blocks.get(format!(
            "/web/cdx?url=*.example.com&pageSize=2&page={n}&output=json&filter=original:.*[14]"
        ))
    };
    assert_eq!([0, 1, 2].map(|n| page(n).text().lines().count()), [2, 1, 2]);
    assert_eq!((page(1).text(), page(3).status), ("[]\n".to_owned(), 400));
    for (query, why) in [
        ("", "url is missing"),
        ("url=a.com&limit=-x", "limit"),
        ("url=a.com&output=xml", "output=xml"),
        ("url=a.com&resumeKey=x", "resumeKey=x"),
    ] {
        let answer = stage.get(format!("/web/cdx?{query}"));
        assert_eq!(answer.status, 400, "{query}");
        assert!(answer.text().contains(why), "{query}: {}", answer.text());
    }
    let ignored = stage.get("/web/cdx?url=example.com&resolveRevisits=true&showDupeCount=true");
    assert_eq!(
        ignored.field("ignored-parameters"),
        Some("resolveRevisits, showDupeCount")
    );
}
