//! Tests of failures caused by sources, and of failures caused by queries.

use std::fmt::Write as _;
use std::io::Write as _;

use redis_tests::{Asked, Part, ScriptedHost, answer, peak_memory_of, with};

use crate::serving::{Setup, Stage};

/// Response of the scripted CDX server, selected by the last part of the requested URL: a status, or another fault.
fn say(asked: &Asked) -> Vec<Part> {
    let target = percent_encoding::percent_decode_str(&asked.target).decode_utf8_lossy();
    let word = target.split("a.com/").nth(1).unwrap_or_default();
    let word = word.split('&').next().unwrap_or_default();
    match word.split('-').next().unwrap_or_default() {
        "hangs" => vec![Part::Silence],
        "huge" => answer(200, &[], "x".repeat(20_000)),
        "none" => answer(200, &[], ""),
        status => match status.parse() {
            Ok(status) => answer(status, &[], "no"),
            Err(_) => answer(
                200,
                &[],
                format!("com,a)/{word} 2016 {{\"url\": \"http://a.com/{word}\"}}\n"),
            ),
        },
    }
}

fn packed(text: &str) -> Vec<u8> {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(text.as_bytes()).unwrap();
    packed.finish().unwrap()
}

#[test]
fn failures_of_bad_queries_do_not_disable_a_source() {
    let dir = tempfile::tempdir().unwrap();
    // Two blocks, of which the first is damaged.
    let mut part = packed("com,a)/0 2016 {}\ncom,a)/m 2016 {}\n");
    let bad = part.len();
    part[bad / 2] ^= 0x55;
    let good = packed("com,a)/n 2016 {}\ncom,a)/other 2016 {\"url\": \"http://a.com/other\"}\n");
    part.extend_from_slice(&good);
    std::fs::write(dir.path().join("p.gz"), part).unwrap();
    let mut index = String::new();
    writeln!(index, "com,a)/0 2016\tp.gz\t0\t{bad}").unwrap();
    writeln!(index, "com,a)/n 2016\tp.gz\t{bad}\t{}", good.len()).unwrap();
    std::fs::write(dir.path().join("a.idx"), index).unwrap();
    let host = ScriptedHost::start(say);
    let stage = Stage::start(&format!(
        "collections:\n  zip: zipnum+{}/a.idx\n  cdx:\n    index:\n      type: cdx\n      \
         api_url: {}/cdx\n      max_bytes: 10000\n    \
         resource: {}\n",
        dir.path().display(),
        host.url(""),
        dir.path().display()
    ));
    let ask = |collection: &str, page: &str| {
        let target = format!("/{collection}/index?url=http://a.com/{page}");
        stage.get(&target)
    };
    for kind in ["400", "403", "404", "429", "huge"] {
        for n in 0..6 {
            let answer = ask("cdx", &format!("{kind}-{n}"));
            let told = answer.field("source-errors").unwrap_or_default().to_owned();
            let (status, reason) = match kind {
                "huge" => (400, "limit exceeded"),
                _ => (502, kind),
            };
            assert_eq!(answer.status, status, "{kind}: {}", answer.text());
            let names_limit = answer.text().contains("max_bytes, max_rows");
            assert_eq!(names_limit, kind == "huge", "{}", answer.text());
            assert!(told.contains(reason), "{kind}: {told}");
        }
        let other = ask("cdx", "other");
        assert_eq!((other.status, other.field("source-errors")), (200, None));
        assert_eq!(other.text().lines().count(), 1, "{kind}");
    }
    for n in 0..6 {
        let answer = ask("zip", &format!("{n}"));
        assert_eq!(answer.status, 502, "{}", answer.text());
        let told = answer.field("source-errors").unwrap();
        assert_eq!(told, "{\"zip\":\"unreadable\"}");
    }
    let other = ask("zip", "other");
    assert_eq!((other.status, other.text().lines().count()), (200, 1));
}

#[test]
fn memory_of_all_requests_is_limited() {
    let dir = tempfile::tempdir().unwrap();
    let fill = "x".repeat(200);
    let lines: String = (0..20_000)
        .map(|n| {
            format!(
                "com,a)/{n:06} 2016 {{\"url\": \"http://a.com/{n:06}\", \"fill\": \"{fill}\"}}\n"
            )
        })
        .collect();
    std::fs::write(dir.path().join("a.cdxj"), lines).unwrap();
    let config = format!("collections:\n  c: {}\n", dir.path().display());
    let stage = Stage::start_with(&config, with!(Setup, is_apart: true, memory: Some(1)));
    let ask = |query: &str| stage.get(format!("/c/index?url=a.com/{query}"));
    // Test queries that the source sorts, queries that are sorted afterwards, and a query without sorting.
    for query in ["*&closest=2017", "*&sort=reverse&resolveRevisits=true"] {
        for _ in 0..3 {
            let answer = ask(query);
            assert_eq!(answer.status, 503, "{query}: {}", answer.text());
            assert_eq!(answer.field("retry-after"), Some("10"));
        }
        let few = query.replace('*', "00001*");
        let answer = ask(&few);
        assert_eq!(answer.status, 200, "{few}");
        assert_eq!(answer.text().lines().count(), 10, "{few}");
    }
    assert_eq!(ask("*").text().lines().count(), 20_000);
    // Test bodies that are part of the lookup.
    for (size, status) in [(1000, 404), (1 << 20, 503), (1000, 404)] {
        let body = vec![b'x'; size];
        let target = "/c/resource?url=http://a.com/form";
        let answer = redis_tests::http::ask(stage.address(), "POST", target, &[], &body).unwrap();
        assert_eq!(answer.status, status, "{size}: {}", answer.text());
    }
}

#[test]
fn captures_of_one_second_take_no_memory() {
    const MAX_TAKEN: u64 = 24 << 20;
    let fill = "x".repeat(300);
    let line = |n: usize| {
        let json = format!("{{\"url\": \"http://a.com/\", \"digest\": \"{n:06}{fill}\"}}");
        format!("com,a)/ 20160101000000 {json}\n")
    };
    let lines: String = (0..150_001).map(line).collect();
    let host = ScriptedHost::start(move |_| answer(200, &[], &lines));
    let stage = Stage::start_apart(&format!(
        "collections:\n  c: {{index: {{type: cdx, api_url: '{}/cdx'}}, resource: /none}}\n",
        host.url("")
    ));
    let peak = || peak_memory_of(stage.pid());
    let before = peak();
    let answer = stage.get("/c/index?url=a.com");
    assert_eq!(answer.text().lines().count(), 150_001);
    let taken = peak() - before;
    assert!(taken < MAX_TAKEN, "{taken} bytes for {}", answer.body.len());
}

#[test]
fn failure_of_every_source_is_no_empty_answer() {
    let host = ScriptedHost::start(say);
    let url = host.url("");
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let cdx = |timeout: &str| {
        format!(
            "{{type: cdx, api_url: '{url}/cdx', replay_url: 'http://{free}/{{timestamp}}/{{url}}', index_timeout: {timeout}}}"
        )
    };
    let (quick, slow) = (cdx("0.3"), cdx("60"));
    let closed = format!("cdx+http://{free}/x-cdx");
    let stage = Stage::start(&format!(
        "collections:\n  one: {{index: {quick}, resource: $live}}\n  \
         two: {{index_group: {{a: {quick}, b: '{closed}'}}, resource: $live}}\n  \
         late: {{index_group: {{a: {quick}, b: {quick}}}, resource: $live}}\n  \
         some: {{index_group: {{a: {slow}, b: '{closed}'}}, resource: $live}}\n  \
         seq:\n    sequence:\n      - {{index: {quick}, resource: $live}}\n      \
         - {{index: '{closed}', resource: $live}}\n  \
         memento: memento+{url}/\n"
    ));
    let ask = |collection: &str, page: &str, status: u16| {
        for api in [
            "index?url=",
            "index?showNumPages=true&url=",
            "resource?url=",
            "timemap/link/",
            "timegate/",
        ] {
            let target = format!("/{collection}/{api}http://a.com/{page}");
            let answer = stage.get(&target);
            let expected = match (status, api.starts_with("index")) {
                // Requests for a single missing resource are answered with 404.
                (200, false) => 404,
                (status, _) => status,
            };
            assert_eq!(answer.status, expected, "{target}: {}", answer.text());
            assert_eq!(answer.field("cache-control"), Some("no-store"), "{target}");
            assert!(answer.field("source-errors").is_some(), "{target}");
        }
    };
    // Most of the time is spent waiting, so each collection gets its own thread.
    std::thread::scope(|scope| {
        scope.spawn(|| {
            ask("one", "hangs", 504);
            ask("one", "503", 502);
        });
        scope.spawn(|| ask("late", "hangs", 504));
        scope.spawn(|| ask("two", "hangs", 502));
        scope.spawn(|| ask("seq", "hangs", 502));
        scope.spawn(|| ask("some", "none", 200));
    });
    // An unsupported query is not a failure, and a missing resource may be cached.
    let answer = stage.get("/memento/index?url=a.com/*");
    assert_eq!((answer.status, answer.text()), (200, String::new()));
    assert!(answer.field("source-errors").is_some());
    let answer = stage.get("/one/resource?url=http://a.com/none");
    assert_eq!((answer.status, answer.field("cache-control")), (404, None));
    // If no loader supports the row, the response is different.
    let answer = stage.get("/some/resource?url=http://a.com/there");
    assert_eq!(answer.status, 404, "{}", answer.text());
    assert_eq!(answer.field("cache-control"), Some("no-store"));
}
