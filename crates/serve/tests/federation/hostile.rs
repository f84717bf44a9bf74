//! Tests of remote sources that hang, send slowly, lie, answer with HTML pages, or never end.

use std::io::Write as _;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use redis_tests::http::{Answer, Connection, ask};
use redis_tests::{Asked, Part, ScriptedHost, answer, memory_of, once, open_files_of, then, until};
use tempfile::TempDir;

use crate::serving::Stage;

/// Kinds of sources.
const KINDS: [&str; 4] = ["cdx", "timemap", "timegate", "upstream"];
/// Maximum number of bytes of a source's answer.
const BYTES: usize = 200_000;

/// A server with a collection for each kind of source: a group of a file and a source of that kind
/// at a URL.
struct Scene {
    stage: Stage,
    _dir: TempDir,
}

impl Scene {
    fn new(host: &ScriptedHost, timeout: f64) -> Scene {
        Scene::with(host, timeout, Stage::start)
    }

    fn with(host: &ScriptedHost, timeout: f64, start: fn(&str) -> Stage) -> Scene {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("good.cdxj");
        let row =
            "com,a)/ 20150101000000 {\"url\": \"http://a.com/\", \"filename\": \"good.warc.gz\"}\n";
        std::fs::write(&file, row).unwrap();
        let mut config = "collections:\n".to_owned();
        for kind in KINDS {
            let url = host.url("");
            let source = match kind {
                "cdx" => format!("type: cdx, api_url: '{url}/cdx'"),
                "upstream" => format!("type: upstream, url: '{url}/coll'"),
                _ => format!(
                    "type: memento, timegate_url: '{url}/gate/{{url}}', timemap_url: '{url}/map/{{url}}', \
                     replay_url: '{url}/{{timestamp}}id_/{{url}}'"
                ),
            };
            let (file, folder) = (file.display(), dir.path().display());
            config += &format!(
                "  {kind}:\n    index_group:\n      good: {file}\n      \
                 bad: {{{source}, max_bytes: {BYTES}, index_timeout: {timeout}}}\n    \
                 index_timeout: 60\n    resource: {folder}\n"
            );
        }
        Scene {
            stage: start(&config),
            _dir: dir,
        }
    }

    fn ask(&self, kind: &str) -> Answer {
        // The server only sends trailers to clients that send `TE: trailers`.
        let fields = [("TE", "trailers")];
        ask(self.stage.address(), "GET", &target(kind), &fields, b"").unwrap()
    }
}

fn target(kind: &str) -> String {
    let closest = match kind {
        "timegate" => "&closest=20160101000000",
        _ => "",
    };
    format!("/{kind}/index?url=http://a.com/{closest}")
}

/// Returns source and year of each row of an answer.
fn rows(answer: &Answer) -> Vec<String> {
    assert_eq!(answer.status, 200, "{}", answer.text());
    let row = |line: &str| {
        let (rest, json) = line.split_once(" {").unwrap();
        let json: serde_json::Value = serde_json::from_str(&format!("{{{json}")).unwrap();
        let time = rest.rsplit(' ').next().unwrap();
        format!("{} {}", json["source"].as_str().unwrap(), &time[..4])
    };
    answer.text().lines().map(row).collect()
}

/// Returns what the answer reports about the source, in its header or trailer.
fn errors(answer: &Answer) -> String {
    let field = answer.field("source-errors").into_iter();
    field.chain(answer.trailer("source-errors")).collect()
}

/// Returns a correct answer for the kind of source that was requested.
fn good(asked: &Asked) -> Vec<Part> {
    let link = |year| {
        format!("<http://h/{year}>; rel=\"memento\"; datetime=\"Fri, 01 Jan {year} 00:00:00 GMT\"")
    };
    let row = |year| format!("com,a)/ {year} {{\"url\": \"http://a.com/\"}}\n");
    let links = |between: &str| [2014, 2016].map(link).join(between);
    match asked.target.split(['/', '?']).nth(1) {
        Some("gate") => answer(302, &[("Link", &links(", ")), ("Location", "/x")], ""),
        Some("map") => answer(200, &[], links(",\n")),
        _ => answer(200, &[], [2014, 2016].map(row).concat()),
    }
}

/// Calls `ask` for all kinds concurrently, since most of the time is spent waiting.
fn at_once(ask: impl Fn(&str) + Sync) {
    std::thread::scope(|scope| {
        for kind in KINDS {
            let ask = &ask;
            scope.spawn(move || ask(kind));
        }
    });
}

/// Queries a group of each kind whose source answers by `script`. The row of the file must always
/// arrive within a few timeouts. `check` tests the report about the source.
fn each(
    timeout: f64,
    script: impl Fn(&Asked) -> Vec<Part> + Send + Sync + 'static,
    check: impl Fn(&str, &Answer) + Sync,
) {
    let host = ScriptedHost::start(script);
    let scene = Scene::new(&host, timeout);
    at_once(|kind| {
        let begin = Instant::now();
        let answer = scene.ask(kind);
        assert!(begin.elapsed() < Duration::from_secs(30), "{kind}");
        let rows = rows(&answer);
        assert!(rows.contains(&"good 2015".to_owned()), "{kind}: {rows:?}");
        check(kind, &answer);
    });
    // No work continues after its client has disconnected.
    let kept = || host.accepted() - host.gone();
    until("all connections except good ones are closed", || {
        kept() <= 4
    });
}

/// Returns a check that the source has no rows, and an error with this word.
fn says(word: &'static str) -> impl Fn(&str, &Answer) + Sync {
    move |kind, answer| {
        assert_eq!(rows(answer), ["good 2015"], "{kind}");
        let errors = errors(answer);
        let is_said = errors.contains("bad") && errors.contains(word);
        assert!(is_said, "{kind}: {errors:?}");
    }
}

#[test]
fn good_source_causes_no_error() {
    each(20.0, good, |kind, answer| {
        assert_eq!(errors(answer), "", "{kind}");
        let mut rows = rows(answer);
        rows.sort();
        assert_eq!(rows, ["bad 2014", "bad 2016", "good 2015"], "{kind}");
    });
}

#[test]
fn hanging_source_is_omitted() {
    let deaf = ScriptedHost::deaf();
    let scene = Scene::new(&deaf, 0.3);
    at_once(|kind| says("timeout")(kind, &scene.ask(kind)));
    each(0.3, |_| vec![Part::Silence], says("timeout"));
    let half = |_: &Asked| then("HTTP/1.1 200 X\r\nContent-Le", Part::Silence);
    each(0.3, half, says("timeout"));
    // Stops in the middle of a row or of a header.
    let half = |asked: &Asked| {
        let mut parts = good(asked);
        if let Some(Part::Bytes(bytes)) = parts.first_mut() {
            let head = bytes.windows(4).position(|four| four == b"\r\n\r\n");
            let is_gate = asked.target.starts_with("/gate");
            bytes.truncate(head.unwrap() + if is_gate { 0 } else { 20 });
        }
        parts.push(Part::Silence);
        parts
    };
    each(0.3, half, says("timeout"));
}

#[test]
fn dripping_source_is_omitted() {
    let drip = |asked: &Asked| match good(asked).remove(0) {
        Part::Bytes(bytes) => vec![Part::Drip(bytes, Duration::from_millis(20))],
        other => vec![other],
    };
    each(0.5, drip, says("timeout"));
}

#[test]
fn wrong_content_length_is_reported() {
    let lie = |asked: &Asked| match (good(asked).remove(0), asked.target.starts_with("/gate")) {
        (Part::Bytes(bytes), false) => {
            let text = String::from_utf8(bytes).unwrap();
            let text = text.replacen("Content-Length: ", "Content-Length: 1", 1);
            once(text)
        }
        _ => once("HTTP/1.1 200 X\r\nContent-Length: x\r\n\r\n"),
    };
    each(20.0, lie, |kind, answer| {
        let (errors, text) = (errors(answer), answer.text());
        assert!(errors.contains("bad"), "{kind}: {errors:?} {text}");
    });
}

#[test]
fn unrequested_rows_are_dropped() {
    let other = |asked: &Asked| match good(asked).remove(0) {
        Part::Bytes(bytes) => {
            let text = String::from_utf8(bytes).unwrap();
            let (head, body) = text.split_once("\r\n\r\n").unwrap();
            let original = "<http://b.com/>; rel=\"original\", ";
            match asked.target.split(['/', '?']).nth(1) {
                Some("gate") => {
                    let text = text.replace("Link: ", &format!("Link: {original}"));
                    vec![Part::Bytes(text.into_bytes())]
                }
                Some("map") => answer(200, &[], format!("{original}{body}")),
                // The keys match the query, but the URLs do not.
                _ => {
                    assert!(head.contains("200"));
                    answer(200, &[], body.replace("http://a.com/", "http://b.com/"))
                }
            }
        }
        other => vec![other],
    };
    each(20.0, other, |kind, answer| {
        assert_eq!(rows(answer), ["good 2015"], "{kind}");
        assert_eq!(errors(answer), "", "{kind}");
    });
}

#[test]
fn unsorted_rows_are_sorted() {
    let mixed = |asked: &Asked| match asked.target.split(['/', '?']).nth(1) {
        Some("gate" | "map") => {
            let link = |year| {
                format!("<h>; rel=\"memento\"; datetime=\"Fri, 01 Jan {year} 00:00:00 GMT\"")
            };
            let links = [2016, 2014, 2018, 2016].map(link).join(", ");
            match asked.method.as_str() {
                "HEAD" => answer(302, &[("Link", &links), ("Location", "/x")], ""),
                _ => answer(200, &[], links),
            }
        }
        _ => {
            let row = |year| format!("com,a)/ {year}0101000000 {{\"url\": \"http://a.com/\"}}\n");
            answer(200, &[], [2016, 2014, 2018, 2016].map(row).concat())
        }
    };
    each(20.0, mixed, |kind, answer| {
        assert_eq!(errors(answer), "", "{kind}");
        let mut rows = rows(answer);
        if kind == "timegate" {
            assert_eq!(rows[0], "bad 2016");
            rows.sort_by_key(|row| row[row.len() - 4..].to_owned());
        }
        rows.dedup();
        let expected = ["bad 2014", "good 2015", "bad 2016", "bad 2018"];
        assert_eq!(rows, expected, "{kind}");
    });
}

#[test]
fn html_page_is_no_index() {
    let html = "<!DOCTYPE html>\n<html><p>Hello</p></html>\n";
    let page = move |_: &Asked| answer(200, &[("Content-Type", "text/html")], html);
    each(20.0, page, says("bad"));
    each(20.0, |_| answer(503, &[], "later"), says("503"));
    let greeting = |_: &Asked| then("220 mail.example.com ESMTP\r\n", Part::Silence);
    each(20.0, greeting, says("bad"));
}

#[test]
fn endless_source_is_cut_off() {
    let endless = |bytes: &'static [u8]| {
        move |asked: &Asked| {
            if asked.target.starts_with("/gate") {
                // The header never ends, so the response has no body.
                return then("HTTP/1.1 302 X\r\n", Part::Endless("Link: <a>\r\n".into()));
            }
            then("HTTP/1.1 200 X\r\n\r\n", Part::Endless(bytes.into()))
        }
    };
    let only_bad = |kind: &str, answer: &Answer| {
        let errors = errors(answer);
        assert!(errors.contains("bad"), "{kind}: {errors:?}");
        assert!(answer.body.len() < 10 * BYTES, "{kind}");
    };
    // The source sends responses of three kinds: without lines, without rows, and with known rows only.
    for bytes in [
        &b"aaaaaaaaaaaaaaaa"[..],
        b"<a>; rel=\"b\",\n",
        b"com,a)/ 2016 {\"url\": \"http://a.com/\"}\n",
        b"[[[[[[[[[[[",
        b"\n",
    ] {
        each(20.0, endless(bytes), only_bad);
    }
}

#[test]
fn decompression_bomb_is_cut_off() {
    let bomb = |text: &[u8]| {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        let many = text.repeat(1000);
        for _ in 0..(32 << 20) / many.len() {
            packed.write_all(&many).unwrap();
        }
        packed.finish().unwrap()
    };
    for text in [
        &b"com,a)/ 2016 {\"url\": \"http://a.com/\"}\n"[..],
        b"<a>; rel=\"b\",\n",
        b"x",
    ] {
        let packed = bomb(text);
        assert!(packed.len() < BYTES);
        let served = move |asked: &Asked| {
            let is_gate = asked.target.starts_with("/gate");
            let status = if is_gate { 500 } else { 200 };
            answer(status, &[("Content-Encoding", "gzip")], &packed)
        };
        each(20.0, served, |kind, answer| {
            let errors = errors(answer);
            assert!(errors.contains("bad"), "{kind}: {errors:?}");
            assert!(answer.body.len() < 10 * BYTES, "{kind}");
        });
    }
}

#[test]
fn source_cannot_redirect_to_a_private_address() {
    let row = "com,a)/ 2016 {\"url\": \"http://a.com/\"}\n";
    let inside = ScriptedHost::start(move |_| answer(200, &[], row));
    let port = inside.port();
    for place in "169.254.169.254 [::1] 10.0.0.1 [::ffff:10.0.0.1] 0".split(' ') {
        let to = format!("http://{place}:{port}/latest");
        let redirect = move |_: &Asked| answer(302, &[("Location", &to)], "");
        each(20.0, redirect, says("bad"));
    }
    assert!(inside.asked().is_empty());
}

#[test]
fn remote_rows_cannot_name_local_files() {
    let evil = |asked: &Asked| match asked.target.split(['/', '?']).nth(1) {
        Some("gate" | "map") => good(asked),
        _ => answer(
            200,
            &[],
            concat!(
                r#"com,a)/ 2014 {"url": "http://a.com/", "filename": "../../etc/passwd", "offset": "0", "length": "1", "source": "good", "source_type": "file"}"#,
                "\n",
                r#"com,a)/ 2016 {"url": "http://a.com/", "filename": "file:///etc/passwd", "live_url": "file:///etc/passwd", "upstream_url": "http://169.254.169.254/"}"#,
                "\n",
            ),
        ),
    };
    each(20.0, evil, |kind, answer| {
        assert_eq!(errors(answer), "", "{kind}");
        let text = answer.text();
        let leads_inside = text.contains("passwd") || text.contains("169.254");
        assert!(!leads_inside, "{kind}: {text}");
        let good = text.matches("\"source\": \"good\"").count();
        assert_eq!(good, 1, "{kind}: {text}");
    });
}

#[test]
fn client_disconnect_cancels_everything() {
    let host = ScriptedHost::start(|_| vec![Part::Silence]);
    let scene = Scene::new(&host, 500.0);
    for (i, kind) in KINDS.into_iter().enumerate() {
        let mut client = TcpStream::connect(scene.stage.address()).unwrap();
        write!(
            client,
            "GET {} HTTP/1.1\r\nHost: localhost\r\n\r\n",
            target(kind)
        )
        .unwrap();
        until("the source is queried", || host.asked().len() == i + 1);
        drop(client);
        until("the request to the source is dropped", || {
            host.gone() == i + 1
        });
    }
}

#[test]
fn hanging_source_costs_nothing_over_thousands_of_queries() {
    let host = ScriptedHost::start(|_| vec![Part::Silence]);
    let scene = Scene::with(&host, 0.02, Stage::start_apart);
    let pid = scene.stage.pid();
    let (files, memory) = (|| open_files_of(pid), || memory_of(pid) >> 10);
    let client = |times: usize| {
        let mut connection = Connection::open(scene.stage.address()).unwrap();
        for i in 0..times {
            let target = target(KINDS[i % KINDS.len()]);
            let answer = connection.ask("GET", &target, &[], b"").unwrap();
            assert_eq!(rows(&answer), ["good 2015"]);
            assert!(errors(&answer).contains("bad"));
        }
    };
    let many = |times: usize| {
        std::thread::scope(|scope| {
            (0..20).for_each(|_| _ = scope.spawn(|| client(times / 20)));
        });
    };
    many(500);
    let (files_before, memory_before) = (files(), memory());
    many(3000);
    let (files, memory) = (files(), memory());
    assert!(files <= files_before + 8, "{files}, {files_before} before");
    assert!(
        memory < memory_before + 16_384,
        "{memory} KiB, {memory_before} before"
    );
}
