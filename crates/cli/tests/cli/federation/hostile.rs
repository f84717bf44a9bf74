//! Sources on other servers that hang, drip, lie, answer with pages, or never end.

use std::io::Write as _;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use redis_tests::http::{Answer, Connection, ask};
use redis_tests::{Asked, Part, ScriptedHost, answer, memory_of, open_files_of, until};
use tempfile::TempDir;

use crate::serving::Stage;

/// The kinds of sources: name, what a configuration says of them, and how a query for them ends.
const KINDS: [&str; 4] = ["cdx", "timemap", "timegate", "upstream"];
/// Bytes that a source may answer with.
const BYTES: usize = 200_000;

/// A server with a group: a file, and a source of that kind at a URL.
struct Scene {
    stage: Stage,
    _dir: TempDir,
}

impl Scene {
    fn new(host: &ScriptedHost, timeout: f64) -> Scene {
        let dir = tempfile::tempdir().unwrap();
        let rows =
            "com,a)/ 20150101000000 {\"url\": \"http://a.com/\", \"filename\": \"good.warc.gz\"}\n";
        std::fs::write(dir.path().join("good.cdxj"), rows).unwrap();
        let mut config = "collections:\n".to_owned();
        for kind in KINDS {
            let url = host.url("");
            let source = match kind {
                "cdx" => format!(
                    "{{type: cdx, api_url: '{url}/cdx', max_bytes: {BYTES}, index_timeout: {timeout}}}"
                ),
                "upstream" => format!(
                    "{{type: upstream, url: '{url}/coll', max_bytes: {BYTES}, index_timeout: {timeout}}}"
                ),
                _ => format!(
                    "{{type: memento, timegate_url: '{url}/gate/{{url}}', timemap_url: '{url}/map/{{url}}', \
                     replay_url: '{url}/{{timestamp}}id_/{{url}}', max_bytes: {BYTES}, index_timeout: {timeout}}}"
                ),
            };
            config += &format!(
                "  {kind}:\n    index_group:\n      good: {}\n      bad: {source}\n    index_timeout: 60\n    \
                 resource: {}\n",
                dir.path().join("good.cdxj").display(),
                dir.path().display()
            );
        }
        Scene {
            stage: Stage::start(&config),
            _dir: dir,
        }
    }

    fn ask(&self, kind: &str) -> Answer {
        // Without this field there are no trailers.
        let fields = [("TE", "trailers")];
        ask(self.stage.address(), "GET", &target(kind), &fields, b"").unwrap()
    }
}

fn target(kind: &str) -> String {
    let closest = if kind == "timegate" {
        "&closest=20160101000000"
    } else {
        ""
    };
    format!("/{kind}/index?url=http://a.com/{closest}")
}

/// Sources of the rows of an answer, with their years.
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

/// What the answer says of the source, before its rows or after them.
fn errors(answer: &Answer) -> String {
    let both = [
        answer.field("source-errors"),
        answer.trailer("source-errors"),
    ];
    both.into_iter().flatten().collect()
}

/// An answer as a source of the kind that was asked should give it.
fn good(asked: &Asked) -> Vec<Part> {
    let links = |between: &str| {
        [2014, 2016]
            .map(|year| {
                format!("<http://h/{year}>; rel=\"memento\"; datetime=\"Fri, 01 Jan {year} 00:00:00 GMT\"")
            })
            .join(between)
    };
    match asked.target.split(['/', '?']).nth(1) {
        Some("gate") => answer(302, &[("Link", &links(", ")), ("Location", "/x")], ""),
        Some("map") => answer(200, &[], links(",\n")),
        _ => answer(
            200,
            &[],
            [2014, 2016]
                .map(|year| format!("com,a)/ {year} {{\"url\": \"http://a.com/\"}}\n"))
                .concat(),
        ),
    }
}

/// Asks a group of each kind with a source that answers so. The file's row is always there, within a time that is no
/// more than a few of its timeouts. What the answer says of the source is for the caller to look at.
fn each(
    timeout: f64,
    script: impl Fn(&Asked) -> Vec<Part> + Send + Sync + 'static,
    check: impl Fn(&str, &Answer),
) {
    let host = ScriptedHost::start(script);
    let scene = Scene::new(&host, timeout);
    for kind in KINDS {
        let begin = Instant::now();
        let answer = scene.ask(kind);
        assert!(begin.elapsed() < Duration::from_secs(30), "{kind}");
        assert!(
            rows(&answer).contains(&"good 2015".to_owned()),
            "{kind}: {}",
            answer.text()
        );
        check(kind, &answer);
    }
    // Nothing goes on that nobody waits for.
    let kept = || host.accepted() - host.gone();
    until(
        "connections are closed but for those that can be used again",
        || kept() <= 4,
    );
}

/// That nothing came of it but an error with this word.
fn says(word: &'static str) -> impl Fn(&str, &Answer) {
    move |kind, answer| {
        assert_eq!(rows(answer), ["good 2015"], "{kind}");
        let errors = errors(answer);
        assert!(
            errors.contains("bad") && errors.contains(word),
            "{kind}: {errors:?}"
        );
    }
}

#[test]
fn a_good_source_is_no_error() {
    each(20.0, good, |kind, answer| {
        assert_eq!(errors(answer), "", "{kind}");
        let mut rows = rows(answer);
        rows.sort();
        assert_eq!(rows, ["bad 2014", "bad 2016", "good 2015"], "{kind}");
    });
}

#[test]
fn a_hanging_source_is_left_out() {
    let deaf = ScriptedHost::deaf();
    let scene = Scene::new(&deaf, 0.3);
    for kind in KINDS {
        says("timeout")(kind, &scene.ask(kind));
    }
    each(0.3, |_| vec![Part::Silence], says("timeout"));
    let head = b"HTTP/1.1 200 X\r\nContent-Le".to_vec();
    each(
        0.3,
        move |_| vec![Part::Bytes(head.clone()), Part::Silence],
        says("timeout"),
    );
    // In the middle of a row, or of a header.
    let half = |asked: &Asked| {
        let mut parts = good(asked);
        if let Some(Part::Bytes(bytes)) = parts.first_mut() {
            let head = bytes
                .windows(4)
                .position(|four| four == b"\r\n\r\n")
                .unwrap();
            bytes.truncate(if asked.target.starts_with("/gate") {
                head
            } else {
                head + 20
            });
        }
        parts.push(Part::Silence);
        parts
    };
    each(0.3, half, says("timeout"));
}

#[test]
fn a_source_that_drips_is_left_out() {
    let drip = |asked: &Asked| match good(asked).remove(0) {
        Part::Bytes(bytes) => vec![Part::Drip(bytes, Duration::from_millis(20))],
        other => vec![other],
    };
    each(0.5, drip, says("timeout"));
}

#[test]
fn a_source_that_lies_about_its_length_is_told() {
    let lie = |asked: &Asked| match (good(asked).remove(0), asked.target.starts_with("/gate")) {
        (Part::Bytes(bytes), false) => {
            let text = String::from_utf8(bytes).unwrap();
            let text = text.replacen("Content-Length: ", "Content-Length: 1", 1);
            vec![Part::Bytes(text.into_bytes()), Part::Close]
        }
        _ => vec![
            Part::Bytes(b"HTTP/1.1 200 X\r\nContent-Length: x\r\n\r\n".to_vec()),
            Part::Close,
        ],
    };
    each(20.0, lie, |kind, answer| {
        let errors = errors(answer);
        assert!(
            errors.contains("bad"),
            "{kind}: {errors:?} {}",
            answer.text()
        );
    });
}

#[test]
fn a_source_that_gives_what_was_not_asked_for_gives_nothing() {
    let other = |asked: &Asked| match good(asked).remove(0) {
        Part::Bytes(bytes) => {
            let text = String::from_utf8(bytes).unwrap();
            let (head, body) = text.split_once("\r\n\r\n").unwrap();
            let original = "<http://b.com/>; rel=\"original\", ";
            match asked.target.split(['/', '?']).nth(1) {
                Some("gate") => vec![Part::Bytes(
                    text.replace("Link: ", &format!("Link: {original}"))
                        .into_bytes(),
                )],
                Some("map") => answer(200, &[], format!("{original}{body}")),
                // Keys that were asked for, URLs that were not.
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
fn rows_without_order_are_put_in_order() {
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
        assert_eq!(
            rows,
            ["bad 2014", "good 2015", "bad 2016", "bad 2018"],
            "{kind}"
        );
    });
}

#[test]
fn a_page_is_no_index() {
    let page = |_: &Asked| {
        answer(
            200,
            &[("Content-Type", "text/html")],
            "<!DOCTYPE html>\n<html><p>Hello</p></html>\n",
        )
    };
    each(20.0, page, says("bad"));
    each(20.0, |_| answer(503, &[], "later"), says("503"));
    each(
        20.0,
        |_| {
            vec![
                Part::Bytes(b"220 mail.example.com ESMTP\r\n".to_vec()),
                Part::Silence,
            ]
        },
        says("bad"),
    );
}

#[test]
fn a_source_without_end_is_cut_off() {
    let begin = b"HTTP/1.1 200 X\r\n\r\n".to_vec();
    let endless = |bytes: &'static [u8]| {
        let begin = begin.clone();
        move |asked: &Asked| {
            if asked.target.starts_with("/gate") {
                // Its body is of no interest: it is the header that has no end.
                vec![
                    Part::Bytes(b"HTTP/1.1 302 X\r\n".to_vec()),
                    Part::Endless(b"Link: <a>\r\n".to_vec()),
                ]
            } else {
                vec![Part::Bytes(begin.clone()), Part::Endless(bytes.to_vec())]
            }
        }
    };
    let only_bad = |kind: &str, answer: &Answer| {
        let errors = errors(answer);
        assert!(errors.contains("bad"), "{kind}: {errors:?}");
        assert!(answer.body.len() < 10 * BYTES, "{kind}");
    };
    // Without a line, without a row, without anything new.
    each(20.0, endless(b"aaaaaaaaaaaaaaaa"), only_bad);
    each(20.0, endless(b"<a>; rel=\"b\",\n"), only_bad);
    each(
        20.0,
        endless(b"com,a)/ 2016 {\"url\": \"http://a.com/\"}\n"),
        only_bad,
    );
    each(20.0, endless(b"[[[[[[[[[[["), only_bad);
    each(20.0, endless(b"\n"), only_bad);
}

#[test]
fn a_bomb_does_not_go_off() {
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
            if asked.target.starts_with("/gate") {
                answer(500, &[("Content-Encoding", "gzip")], &packed)
            } else {
                answer(200, &[("Content-Encoding", "gzip")], &packed)
            }
        };
        each(20.0, served, |kind, answer| {
            let errors = errors(answer);
            assert!(errors.contains("bad"), "{kind}: {errors:?}");
            assert!(answer.body.len() < 10 * BYTES, "{kind}");
        });
    }
}

#[test]
fn a_source_leads_to_no_private_address() {
    let inside =
        ScriptedHost::start(|_| answer(200, &[], "com,a)/ 2016 {\"url\": \"http://a.com/\"}\n"));
    let port = inside.port();
    for place in [
        "169.254.169.254",
        "[::1]",
        "10.0.0.1",
        "[::ffff:10.0.0.1]",
        "0",
    ] {
        let to = format!("http://{place}:{port}/latest");
        let redirect = move |_: &Asked| answer(302, &[("Location", &to)], "");
        each(20.0, redirect, says("bad"));
    }
    assert!(inside.asked().is_empty());
}

#[test]
fn rows_of_others_name_no_files_here() {
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
        assert!(
            !text.contains("passwd") && !text.contains("169.254"),
            "{kind}: {text}"
        );
        assert_eq!(
            text.matches("\"source\": \"good\"").count(),
            1,
            "{kind}: {text}"
        );
    });
}

#[test]
fn when_the_client_goes_nothing_goes_on() {
    let host = ScriptedHost::start(|_| vec![Part::Silence]);
    let scene = Scene::new(&host, 500.0);
    for (i, kind) in KINDS.into_iter().enumerate() {
        let mut client = TcpStream::connect(scene.stage.address()).unwrap();
        write!(client, "GET {} HTTP/1.1\r\nHost: a\r\n\r\n", target(kind)).unwrap();
        until("the source is asked", || host.asked().len() == i + 1);
        drop(client);
        until("the source is not waited for", || host.gone() == i + 1);
    }
}

#[test]
fn a_source_that_hangs_for_thousands_of_queries_costs_nothing() {
    let host = ScriptedHost::start(|_| vec![Part::Silence]);
    let scene = Scene::new(&host, 0.02);
    let pid = scene.stage.program().pid();
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
            (0..5).for_each(|_| _ = scope.spawn(|| client(times / 5)));
        });
    };
    many(500);
    let (files_before, memory_before) = (files(), memory());
    many(3000);
    assert!(
        files() <= files_before + 8,
        "{} open files, {files_before} before",
        files()
    );
    assert!(
        memory() < memory_before + 16_384,
        "{} KiB, {memory_before} before",
        memory()
    );
}
