//! Tests of the queries that sources send, and of their handling of responses.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt};
use redis_tests::{Asked, Part, ScriptedHost, answer, assert_starts, once, rows, then};

use super::*;
use crate::config::Dialect;
use crate::query::Query;
use crate::source::{Lookup, Source};
use crate::sources::Identity;
use crawlspace_fetch::Net;
use crawlspace_fetch::Network;
use crawlspace_index::row::{Row, member};
use crawlspace_index::source::{Limits, SourceError};

fn net() -> Arc<Net> {
    let here = Network {
        address: "127.0.0.1".parse().unwrap(),
        bits: 32,
    };
    Net::new(&[here]).unwrap()
}

fn identity(kind: &'static str, live: bool) -> Identity {
    let mut members = String::new();
    member("source", "far", &mut members);
    member("source_type", kind, &mut members);
    Identity {
        name: "far".into(),
        kind,
        members: members.into(),
        limits: Limits {
            // An answer that takes longer than half of this timeout counts as large.
            first: Duration::from_secs(10),
            silence: Duration::from_secs(10),
            ..Limits::default()
        },
        live,
    }
}

fn lookup(parameters: &[(&str, &str)]) -> Arc<Lookup> {
    let query = Query::parse(parameters.iter().copied(), None).unwrap();
    let at_most = query.wanted().filter(|_| query.keeps_all());
    Arc::new(Lookup {
        order: query.order,
        at_most,
        query: Arc::new(query),
        collection: "coll".into(),
    })
}

/// Returns the rows, and whether the source reports that they are in order.
async fn ask(source: &dyn Source, lookup: &Arc<Lookup>) -> Result<(Vec<Row>, bool), SourceError> {
    let rows = source.rows(lookup.clone()).await?;
    let batches: Vec<_> = rows.batches.try_collect().await?;
    Ok((batches.concat(), rows.ordered))
}

fn run<T>(test: impl std::future::Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(test)
}

fn times(rows: &[Row]) -> Vec<String> {
    let time = |row: &Row| String::from_utf8_lossy(row.timestamp()).into_owned();
    rows.iter().map(time).collect()
}

fn cdx(api_url: &str, dialect: Option<Dialect>) -> CdxSource {
    CdxSource::new(net(), identity("cdx", false), api_url, None, dialect)
}

/// Queries the CDX server at a path.
fn ask_cdx(
    host: &ScriptedHost,
    path: &str,
    given: &[(&str, &str)],
) -> Result<(Vec<Row>, bool), SourceError> {
    run(ask(&cdx(&host.url(path), None), &lookup(given)))
}

fn line(time: u64) -> String {
    format!("com,a)/ {time} {{\"url\": \"http://a.com/\", \"status\": \"200\"}}\n")
}

/// Returns the parameters of a request except `url`.
fn parameters(asked: &Asked) -> String {
    let query = asked.target.split_once('?').map_or("", |(_, query)| query);
    let others = query.split('&').filter(|pair| !pair.starts_with("url="));
    others.collect::<Vec<_>>().join("&")
}

#[test]
fn cdx_server_gets_supported_parameters() {
    let host = ScriptedHost::start(|_| answer(200, &[], line(20160102030405)));
    let asked = |dialect, given: &[(&str, &str)]| {
        let api = host.url("/cdx?url={url}&closest={timestamp}&sort=closest&key=%20k");
        let mut all = vec![("url", "http://a.com/?b=c&d")];
        all.extend(given);
        let before = host.asked().len();
        let _ = run(ask(&cdx(&api, dialect), &lookup(&all)));
        let asked = host.asked()[before].clone();
        assert_eq!(asked.parameter("url"), "http://a.com/?b=c&d");
        parameters(&asked)
    };
    use Dialect::{Ia, Outback, Pywb};
    let plain = "key=%20k&matchType=exact";
    assert_eq!(asked(None, &[]), format!("{plain}&showResumeKey=true"));
    assert_eq!(asked(Some(Pywb), &[]), plain);
    assert_eq!(asked(Some(Outback), &[]), plain);
    let exact = "matchType=exact";
    let span = ["from=20160101000000", "to=20171231235959"].join("&");
    let (from, to, reverse) = (("from", "2016"), ("to", "2017"), ("sort", "reverse"));
    let (limit, status) = (("limit", "5"), ("filter", "=status:200"));
    let three = [status, ("filter", "=x:y"), ("filter", "!mime:html")];
    for (dialect, given, expected) in rows![
        None, &[from, to][..], format!("{exact}&{span}&showResumeKey=true");
        Some(Outback), &[("matchType", "host"), from], "matchType=host".into();
        Some(Ia), &[("matchType", "prefix"), from],
            "matchType=prefix&from=20160101000000&showResumeKey=true".into();
        // The limit is only sent if the server applies the same filters and order.
        None, &[limit], format!("{exact}&limit=5");
        Some(Pywb), &[limit, reverse], format!("{exact}&sort=reverse&limit=5");
        None, &[limit, reverse], exact.into();
        Some(Pywb), &[limit, status], format!("{exact}&filter=%3Dstatus%3A200");
        Some(Ia), &three,
            format!("{exact}&filter=statuscode%3A200&filter=~%21mimetype%3Ahtml&showResumeKey=true");
        None, &[status], format!("{exact}&showResumeKey=true");
    ] {
        assert_eq!(asked(dialect, given), format!("key=%20k&{expected}"));
    }
    let closest = asked(None, &[("closest", "20160102030405"), ("limit", "5")]);
    let expected = "closest=20160102030405&sort=closest&key=%20k&matchType=exact";
    assert_starts(&closest, expected);
}

#[test]
fn few_rows_are_sorted_as_requested() {
    let host = ScriptedHost::start(|asked| {
        let times = if asked.target.starts_with("/mixed") {
            vec![20170101000000, 20150101000000, 20160101000000]
        } else {
            vec![20150101000000, 20160101000000, 20170101000000]
        };
        answer(200, &[], times.into_iter().map(line).collect::<String>())
    });
    for path in ["/mixed", "/sorted"] {
        let source = cdx(&host.url(path), None);
        for (given, expected) in [
            (("sort", "default"), [2015, 2016, 2017]),
            (("sort", "reverse"), [2017, 2016, 2015]),
            (("closest", "20160301000000"), [2016, 2017, 2015]),
        ] {
            let lookup = lookup(&[("url", "a.com"), given]);
            let (rows, ordered) = run(ask(&source, &lookup)).unwrap();
            assert!(ordered);
            let expected = expected.map(|year| format!("{year}0101000000"));
            assert_eq!(times(&rows), expected, "{path} {given:?}");
        }
    }
}

#[test]
fn many_rows_are_streamed_and_must_be_sorted() {
    let first: u64 = 20160101000000;
    let host = ScriptedHost::start(move |asked| {
        let mut text = String::new();
        for i in 0..5001 {
            let time = first + i / 3600 * 10000 + i / 60 % 60 * 100 + i % 60;
            text += &line(time);
            match asked.target.get(..5) {
                Some("/late") if i == 4000 => text += &line(first),
                Some("/soon") if i == 100 => text += &line(first),
                _ => {}
            }
        }
        answer(200, &[], text)
    });
    let asked = |path: &str| ask_cdx(&host, path, &[("url", "a.com")]);
    let (rows, ordered) = asked("/good").unwrap();
    assert!(ordered && rows.len() == 5001);
    // Rows that are not in order must be sorted by the caller.
    let (rows, ordered) = asked("/soon").unwrap();
    assert!(!ordered && rows.len() == 5002);
    let error = asked("/late").unwrap_err();
    let is_order = matches!(&error, SourceError::Answer(why) if why.contains("order"));
    assert!(is_order, "{error}");
}

#[test]
fn truncated_answer_is_continued() {
    // The answer is continued with a key, in text and in JSON.
    for json in [false, true] {
        let host = ScriptedHost::start(move |asked| {
            let row = |time: u64, last: bool| {
                if json {
                    let comma = if last { "" } else { ",\n" };
                    format!(
                        "[\"com,a)/\", \"{time}\", \"http://a.com/\", \"text/html\", \"200\", \"A\", \"1\"]{comma}"
                    )
                } else {
                    line(time)
                }
            };
            let rows: Vec<u64> = match &*asked.parameter("resumeKey") {
                "" => vec![20160101000000, 20160101000001],
                "com,a)/ 20160101000001!" => vec![20160101000002, 20160101000003],
                "two" => vec![20160101000004],
                other => panic!("{other:?}"),
            };
            let key = match rows[0] {
                20160101000000 => Some("com%2Ca%29%2F+20160101000001%21"),
                20160101000002 => Some("two"),
                _ => None,
            };
            let last = rows.len() - 1;
            let rows = rows.into_iter().enumerate();
            let mut text: String = rows.map(|(i, time)| row(time, i == last)).collect();
            match (json, key) {
                (false, Some(key)) => text += &format!("\n{key}\n"),
                (true, Some(key)) => text += &format!(",\n[],\n[\"{key}\"]"),
                _ => {}
            }
            if json {
                text = format!(
                    "[[\"urlkey\",\"timestamp\",\"original\",\"mimetype\",\"statuscode\",\"digest\",\"length\"],\n{text}]"
                );
            }
            answer(200, &[], text)
        });
        for match_type in ["exact", "prefix"] {
            let given = [("url", "a.com"), ("matchType", match_type)];
            let (rows, _) = ask_cdx(&host, "/cdx", &given).unwrap();
            let expected = [0, 1, 2, 3, 4].map(|i| format!("2016010100000{i}"));
            assert_eq!(times(&rows), expected, "{match_type}, json {json}");
        }
        assert_eq!(host.asked().len(), 6);
    }
}

#[test]
fn full_page_is_continued_by_time() {
    // Three captures per second, and at most a thousand rows per response.
    let all = (0..2600).map(|i| 20160101000000 + i / 3 / 60 * 100 + i / 3 % 60);
    let all: Vec<u64> = all.collect();
    let served = all.clone();
    let host = ScriptedHost::start(move |asked| {
        let from = asked.parameter("from").parse().unwrap_or(0);
        let rows = served.iter().enumerate().filter(|(_, time)| **time >= from);
        let row = |(i, time)| {
            format!("com,a)/ {time} {{\"url\": \"http://a.com/\", \"digest\": \"{i}\"}}\n")
        };
        answer(200, &[], rows.take(1000).map(row).collect::<String>())
    });
    let (rows, ordered) = ask_cdx(&host, "/cdx", &[("url", "a.com")]).unwrap();
    assert!(ordered);
    let all: Vec<_> = all.iter().map(u64::to_string).collect();
    assert_eq!(times(&rows), all);
    assert_eq!(host.asked().len(), 3);
}

#[test]
fn repeating_server_is_not_asked_forever() {
    let host = ScriptedHost::start(|asked| {
        let lines = (0..1000).map(|i| line(20160101000000 + i / 60 * 100 + i % 60));
        let lines: String = lines.collect();
        if asked.target.starts_with("/key") {
            answer(200, &[], format!("{lines}\nagain\n"))
        } else {
            answer(200, &[], lines)
        }
    });
    let given = [("url", "a.com")];
    assert_eq!(ask_cdx(&host, "/time", &given).unwrap().0.len(), 1000);
    assert_eq!(host.asked().len(), 2);
    let key = ask_cdx(&host, "/key", &given).unwrap_err();
    let repeats = matches!(&key, SourceError::Answer(why) if why.contains("repeats"));
    assert!(repeats, "{key}");
    assert_eq!(host.asked().len(), 4);
}

#[test]
fn refused_request_is_retried_with_less() {
    let host = ScriptedHost::start(|asked| {
        if asked.parameter("from").is_empty() {
            answer(200, &[], line(20150101000000) + &line(20160101000000))
        } else {
            answer(400, &[], "from= is for exact matches")
        }
    });
    let given = [("url", "a.com/*"), ("from", "2016")];
    let (rows, _) = ask_cdx(&host, "/cdx", &given).unwrap();
    // The client itself applies the conditions that it did not send.
    assert_eq!(times(&rows), ["20160101000000"]);
    assert_eq!(parameters(&host.asked()[1]), "matchType=prefix");
    let host = ScriptedHost::start(|_| answer(400, &[], "no"));
    let refused = ask_cdx(&host, "/cdx", &given);
    assert_eq!(refused.unwrap_err(), SourceError::Status(400));
    assert_eq!(host.asked().len(), 2);
}

#[test]
fn answer_without_rows_is_empty_or_an_error() {
    let first = line(20160101000000);
    let host = ScriptedHost::start(move |asked| {
        let (status, text) = match asked.target.split('?').next().unwrap() {
            "/empty" => (200, String::new()),
            "/none" => (204, String::new()),
            "/array" => (200, "[]".into()),
            "/header" => (200, " CDX N b a m s k S\n".into()),
            "/others" => (200, "com,b)/ 2016 {\"url\": \"http://b.com/\"}\n".into()),
            "/said" => (
                404,
                r#"{"message": "No Captures found for: http://a.com/"}"#.into(),
            ),
            "/html" => {
                let html = [("Content-Type", "text/html")];
                return answer(200, &html, "\n <!doctype html><html>");
            }
            "/page" => (404, "<html>no captures".into()),
            "/gone" => (404, "not found".into()),
            "/message" => (200, r#"{"message": "closed today"}"#.into()),
            "/text" => (200, "Service is\nunavailable\n".into()),
            "/cut" => (200, format!("{first}com,a)/ 2016 {{\"url\": \"htt")),
            "/warning" => (200, format!("{first}warning: output may be incomplete\n")),
            "/json" => (200, r#"[["com,a)/", "2016"#.into()),
            _ => (503, String::new()),
        };
        answer(status, &[], text)
    });
    let asked = |path: &str| ask_cdx(&host, path, &[("url", "a.com")]);
    for path in ["/empty", "/none", "/array", "/header", "/others", "/said"] {
        assert_eq!(asked(path), Ok((Vec::new(), true)), "{path}");
    }
    for (path, word) in [
        ("/html", "HTML"),
        ("/page", "404"),
        ("/gone", "404"),
        ("/message", "closed today"),
        ("/text", "Service is"),
        ("/cut", "htt"),
        ("/warning", "incomplete"),
        ("/json", "incomplete"),
        ("/busy", "503"),
    ] {
        let error = asked(path).unwrap_err().to_string();
        assert!(error.contains(word), "{path}: {error}");
    }
}

/// JSON of a row with a replay URL, from a source of type TYPE.
const REPLAYED: &str = r#"{"url": "http://a.com/", "live_url": "http://h/20160101000000id_/http://a.com/", "load_url": "http://h/20160101000000id_/http://a.com/", "source": "far", "source_type": "TYPE"}"#;

#[test]
fn rows_refer_to_replay_or_files() {
    let line =
        r#"com,a)/ 2016 {"url": "http://a.com/", "filename": "a.warc", "offset": 1, "length": 2}"#;
    let host = ScriptedHost::start(move |_| answer(200, &[], line));
    let api = host.url("/cdx");
    let row = |live, replay| {
        let source = CdxSource::new(net(), identity("cdx", live), &api, replay, None);
        let (rows, _) = run(ask(&source, &lookup(&[("url", "a.com")]))).unwrap();
        String::from_utf8(rows[0].json().to_vec()).unwrap()
    };
    let replay = Some("http://h/{timestamp}id_/{url}");
    assert_eq!(row(true, replay), REPLAYED.replace("TYPE", "cdx"));
    let expected = r#"{"url": "http://a.com/", "length": "2", "offset": "1", "filename": "a.warc", "source": "far", "source_type": "cdx"}"#;
    for (live, replay) in [(false, replay), (true, None), (false, None)] {
        assert_eq!(row(live, replay), expected);
    }
}

#[test]
fn limits_are_respected() {
    let host = ScriptedHost::start(|_| {
        let lines = line(20160101000000).into_bytes();
        then("HTTP/1.1 200 X\r\n\r\n", Part::Endless(lines))
    });
    for (rows, bytes) in [(3000, u64::MAX), (u64::MAX, 1 << 20)] {
        let mut identity = identity("cdx", false);
        identity.limits.rows = rows;
        identity.limits.bytes = bytes;
        let source = CdxSource::new(net(), identity, &host.url("/cdx"), None, None);
        let error = run(ask(&source, &lookup(&[("url", "a.com")]))).unwrap_err();
        assert!(matches!(error, SourceError::TooLarge(_)), "{error}");
    }
}

fn memento(host: &ScriptedHost, gate: &str) -> MementoSource {
    let (gate, map) = (
        host.url(&format!("/{gate}/{{url}}")),
        host.url("/map/{url}"),
    );
    let replay = "http://h/{timestamp}id_/{url}";
    MementoSource::new(net(), identity("memento", true), &gate, &map, replay)
}

/// Queries a Memento archive with the TimeGate `/gate/`.
fn ask_memento(
    host: &ScriptedHost,
    given: &[(&str, &str)],
) -> Result<(Vec<Row>, bool), SourceError> {
    run(ask(&memento(host, "gate"), &lookup(given)))
}

fn mementos(years: &[u32]) -> String {
    let one = |year: &u32| {
        let date = format!("Fri, 01 Jan {year} 00:00:00 GMT");
        format!(",\n<http://h/{year}/http://a.com/>; rel=\"memento\"; datetime=\"{date}\"")
    };
    let all: String = years.iter().map(one).collect();
    format!("<http://a.com/>; rel=\"original\"{all}")
}

#[test]
fn timemap_names_all_captures() {
    let host = ScriptedHost::start(|asked| match asked.target.as_str() {
        "/map/http://a.com/" => answer(200, &[], mementos(&[2015, 2016, 2016, 2017])),
        "/map/http://none.com/" => answer(404, &[], "<html>"),
        "/map/http://page.com/" => answer(200, &[], "<!doctype html>\n<html><a href=\"x\">"),
        _ => answer(500, &[], ""),
    });
    let (rows, _) = ask_memento(&host, &[("url", "http://a.com/"), ("from", "2016")]).unwrap();
    assert_eq!(times(&rows), ["20160101000000", "20170101000000"]);
    let expected = REPLAYED.replace("TYPE", "memento");
    assert_eq!(rows[0].json(), expected.as_bytes());
    let asked = |url| ask_memento(&host, &[("url", url)]);
    assert_eq!(asked("http://none.com/"), Ok((Vec::new(), true)));
    let page = asked("http://page.com/");
    assert!(matches!(page, Err(SourceError::Answer(_))));
    assert_eq!(asked("http://c.com/"), Err(SourceError::Status(500)));
    let many = asked("http://a.com/*");
    assert!(matches!(many, Err(SourceError::Unsupported(_))));
}

#[test]
fn nested_timemaps_are_read_once_each() {
    let host = ScriptedHost::start(|asked| {
        let map = |name: &str, years: &str| {
            let until = years.replace("Jan 20", "Feb 20");
            format!(",\n<{name}>; rel=\"timemap\"; type=\"application/link-format\"{years}{until}")
        };
        let from = |year: u32| format!("; from=\"Fri, 01 Jan {year} 00:00:00 GMT\"");
        let text = match asked.target.as_str() {
            "/map/http://a.com/" => [
                mementos(&[]),
                ",\n</map/http://a.com/>; rel=\"self timemap\"".to_owned(),
                map("/map/1", &from(2015)),
                map("/map/2", &from(2016)),
                map("/map/9", &from(2019)),
                ",\n</json>; rel=\"timemap\"; type=\"application/json\"".to_owned(),
            ]
            .concat(),
            "/map/1" => mementos(&[2015]) + &map("/map/http://a.com/", "") + &map("/map/2", ""),
            "/map/2" => mementos(&[2016]) + &map("/map/1", "") + &map("/map/2", ""),
            // The archive sends an endless chain of TimeMaps.
            other => mementos(&[2017]) + &map(&format!("{other}x"), ""),
        };
        answer(200, &[], text)
    });
    let (rows, _) = ask_memento(&host, &[("url", "http://a.com/"), ("to", "2018")]).unwrap();
    assert_eq!(times(&rows), ["20150101000000", "20160101000000"]);
    assert_eq!(host.asked().len(), 3);
    ask_memento(&host, &[("url", "http://deep.com/")]).unwrap();
    assert!(host.asked().len() < 20);
}

#[test]
fn timegate_names_the_closest_capture() {
    let date = |year: u32| format!("Fri, 01 Jan {year} 00:00:00 GMT");
    let host = ScriptedHost::start(move |asked| {
        let links = mementos(&[2015, 2016, 2017, 2016]).replace('\n', "");
        match (asked.method.as_str(), asked.target.as_str()) {
            ("HEAD", "/gate/http://302.com/") => {
                answer(302, &[("Link", &links), ("Location", "/nowhere")], "")
            }
            ("HEAD", "/gate/http://200.com/") => answer(
                200,
                &[("Link", &links), ("Memento-Datetime", &date(2016))],
                "",
            ),
            ("HEAD", "/gate/http://far.com/") => {
                answer(307, &[("Location", "/gate/http://200.com/")], "")
            }
            ("HEAD", "/gate/http://bare.com/") => answer(302, &[("Location", "/memento")], ""),
            ("HEAD", "/memento") => answer(200, &[("Memento-Datetime", &date(2014))], ""),
            ("HEAD", "/gate/http://get.com/") => answer(405, &[], ""),
            ("GET", "/gate/http://get.com/") => {
                answer(302, &[("Link", &links), ("Location", "/x")], "")
            }
            ("HEAD", "/gate/http://none.com/") => answer(404, &[], ""),
            ("HEAD", "/gate/http://circle.com/") => {
                answer(302, &[("Location", "/gate/http://circle.com/")], "")
            }
            ("HEAD", "/gate/http://inside.com/") => {
                answer(302, &[("Location", "http://169.254.169.254/")], "")
            }
            ("HEAD", "/gate/http://page.com/") => answer(200, &[], ""),
            _ => answer(500, &[], ""),
        }
    });
    let asked = |name: &str| {
        let url = format!("http://{name}/");
        ask_memento(&host, &[("url", &url), ("closest", "20160301000000")])
    };
    // Links to mementos of another URL are ignored.
    assert_eq!(asked("302.com"), Ok((Vec::new(), true)));
    assert_eq!(times(&asked("bare.com").unwrap().0), ["20140101000000"]);
    assert_eq!(asked("none.com"), Ok((Vec::new(), true)));
    for (name, word) in [
        ("circle.com", "redirects more than 10 times"),
        ("page.com", "names no memento"),
        ("inside.com", "public"),
        ("c.com", "500"),
    ] {
        let error = asked(name).unwrap_err().to_string();
        assert!(error.contains(word), "{name}: {error}");
    }
}

#[test]
fn timegate_redirects_of_every_style_are_parsed() {
    let host = ScriptedHost::start(|asked| {
        let links = mementos(&[2015, 2016, 2017, 2016]).replace('\n', "");
        let date = "Fri, 01 Jan 2016 00:00:00 GMT";
        let expected = "Tue, 01 Mar 2016 00:00:00 GMT";
        assert_eq!(asked.fields["accept-datetime"], expected);
        let style = asked.target.split('/').nth(1).unwrap().to_owned();
        match (style.as_str(), asked.method.as_str()) {
            ("302", "HEAD") => answer(302, &[("Link", &links), ("Location", "/nowhere")], ""),
            ("200", "HEAD") => answer(200, &[("Link", &links), ("Memento-Datetime", date)], ""),
            ("far", "HEAD") => answer(307, &[("Location", "/200/")], ""),
            ("get", "GET") => answer(302, &[("Link", &links), ("Location", "/x")], ""),
            ("get", _) => answer(405, &[], ""),
            _ => answer(500, &[], ""),
        }
    });
    for style in ["302", "200", "far", "get"] {
        let lookup = lookup(&[("url", "http://a.com/"), ("closest", "20160301000000")]);
        let (rows, ordered) = run(ask(&memento(&host, style), &lookup)).unwrap();
        assert!(ordered);
        let expected = ["20160101000000", "20170101000000", "20150101000000"];
        assert_eq!(times(&rows), expected, "{style}");
    }
}

#[test]
fn live_web_has_one_capture_of_every_url() {
    let source = LiveSource::new(identity("live", true));
    let asked = |given: &[(&str, &str)]| run(ask(&source, &lookup(given))).unwrap().0;
    let rows = asked(&[("url", "http://A.com/b")]);
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].urlkey(), b"com,a)/b");
    // The URL is normalized like the requested URL.
    assert_eq!(rows[0].field("live_url"), "http://a.com/b");
    assert_eq!(rows[0].field("load_url"), "http://a.com/b");
    assert_eq!(rows[0].field("source_type"), "live");
    assert_eq!(rows[0].timestamp().len(), 14);
    let expected = "http://a.com/b";
    assert_eq!(asked(&[("url", "a.com/b")])[0].field("live_url"), expected);
    assert!(asked(&[("url", "ftp://a.com/")]).is_empty());
    assert!(asked(&[("url", "http://a.com/*")]).is_empty());
    assert!(asked(&[("url", "http://a.com/"), ("to", "2016")]).is_empty());
    let given = [
        ("url", "http://a.com/"),
        ("from", "2016"),
        ("closest", "2016"),
    ];
    assert_eq!(asked(&given).len(), 1);
}

#[test]
fn crawlspace_server_gets_all_parameters() {
    let lines = r#"com,a)/ 20160102030405 {"url": "http://a.com/", "source": "theirs", "source_type": "file", "filename": "../../etc/passwd", "offset": "0"}
com,a)/ 20170102030405 {"url": "http://a.com/", "source": "live", "source_type": "live", "live_url": "http://a.com/"}
"#;
    let host = ScriptedHost::start(move |_| answer(200, &[], lines));
    let source = UpstreamSource::new(net(), identity("upstream", true), &host.url("/many/"));
    let lookup = lookup(&[
        ("url", "http://a.com/"),
        ("closest", "20150102030405"),
        ("from", "2014"),
        ("filter", "!=status:404"),
        ("filter", "=source:far"),
    ]);
    let (rows, _) = run(ask(&source, &lookup)).unwrap();
    let asked = &host.asked()[0];
    assert_starts(&asked.target, "/many/index?url=");
    let expected =
        "matchType=exact&from=20140101000000&closest=20150102030405&filter=%21%3Dstatus%3A404";
    assert_eq!(parameters(asked), expected);
    let upstream = host.url("/many");
    let row = String::from_utf8(rows[0].json().to_vec()).unwrap();
    let expected = r#"{"url": "http://a.com/", "source": "far:theirs", "source_type": "upstream", "upstream_url": "UPSTREAM"}"#;
    assert_eq!(row, expected.replace("UPSTREAM", &upstream));
    assert_eq!(rows[1].field("live_url"), "http://a.com/");
}

#[test]
fn rows_before_a_failure_are_used() {
    let host = ScriptedHost::start(|asked| {
        let line = line(20160101000000);
        if asked.target.starts_with("/cut") {
            once(format!(
                "HTTP/1.1 200 X\r\nContent-Length: 1000\r\n\r\n{line}"
            ))
        } else {
            then(format!("HTTP/1.1 200 X\r\n\r\n{line}"), Part::Silence)
        }
    });
    for (path, word) in [("/cut", "connection lost"), ("/silent", "timeout")] {
        let mut identity = identity("cdx", false);
        identity.limits.first = Duration::from_secs(4);
        identity.limits.silence = Duration::from_millis(100);
        let source = CdxSource::new(net(), identity, &host.url(path), None, None);
        let (first, then) = run(async {
            let mut rows = source.rows(lookup(&[("url", "a.com")])).await.unwrap();
            assert!(rows.ordered);
            let first = rows.batches.next().await.unwrap();
            (first, rows.batches.next().await.unwrap())
        });
        assert_eq!(times(&first.unwrap()), ["20160101000000"], "{path}");
        assert!(then.unwrap_err().to_string().contains(word), "{path}");
    }
}
