//! Tests of malformed and hostile requests.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use redis_tests::http::{Connection, ask};
use redis_tests::{assert_contains, rows, with};

use crate::index_api::archive;
use crate::serving::{Setup, Stage};

/// Sends these bytes, and returns everything received until the server closes the connection.
fn answer_to(stage: &Stage, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(stage.address()).unwrap();
    // The server may refuse the request before all of it is sent.
    let _ = stream.write_all(request);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or("none")
}

#[test]
fn invalid_request_ends_only_its_connection() {
    let (_dir, stage) = archive();
    let mut good = Connection::open(stage.address()).unwrap();
    let huge = format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(300_000));
    let url = "x".repeat(300_000);
    let long = format!("GET /both/index?url={url} HTTP/1.1\r\n\r\n");
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(5_000));
    for (request, statuses) in rows![
        &b"\x16\x03\x01\x02\x00\x01\r\n\r\n"[..], &["400"][..];
        b"hello\r\n\r\n", &["400"];
        b"GET nonsense HTTP/1.1\r\nConnection: close\r\n\r\n", &["400"];
        b"GET /both/index?url=a.com HTTP/1.1\r\nConnection: close\r\n\r\n", &["400"];
        b"GET /both/index?url=a.com HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\nConnection: close\r\n\r\n",
            &["400"];
        b"GET /both/index?url=a.com HTTP/1.0\r\n\r\n", &["200"];
        b"GET /both/index HTTP/7.3\r\n\r\n", &["400"];
        huge.as_bytes(), &["431", "400"];
        long.as_bytes(), &["414", "431", "400"];
        many.as_bytes(), &["431", "400"];
    ] {
        let answer = answer_to(&stage, request);
        let shown = String::from_utf8_lossy(&request[..request.len().min(40)]).into_owned();
        assert!(statuses.contains(&status(&answer)), "{shown}: {answer}");
        let there = good.ask("GET", "/both/index?url=example.com", &[], b"");
        let there = there.unwrap();
        assert_eq!(there.status, 200);
    }
}

#[test]
fn index_is_read_only() {
    let (_dir, stage) = archive();
    let mut connection = Connection::open(stage.address()).unwrap();
    let head = connection.ask("HEAD", "/both/index?url=example.com", &[], b"");
    let head = head.unwrap();
    assert_eq!((head.status, head.body.len()), (200, 0));
    for method in ["PUT", "DELETE", "PATCH"] {
        let refused = connection.ask(method, "/both/index?url=example.com", &[], b"");
        let refused = refused.unwrap();
        assert_eq!(refused.status, 405);
        assert_eq!(refused.field("allow"), Some("GET, HEAD"));
    }
}

#[test]
fn request_to_another_host_is_misdirected() {
    let live = "collections:\n  live: $live\n";
    let hosts = "hosts: [archive.example, 'other.example:8443']\ncollections:\n  live: $live\n";
    let url = "https://public.example/archive";
    let public = || with!(Setup, public_url: Some(url.to_owned()));
    let all = ([0, 0, 0, 0], 0).into();
    let stages = [
        Stage::start(live),
        Stage::start_with(live, public()),
        Stage::start_with(hosts, public()),
        Stage::start_at(live, all),
        Stage::start_at(hosts, all),
    ];
    let status = |address, target: &str, host: &str| {
        let port = std::net::SocketAddr::port(&address);
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        write!(
            stream,
            "GET {target} HTTP/1.{host}Connection: close\r\n\r\n"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        if status(&answer) == "421" {
            assert_contains(&answer, "hosts in the configuration");
        }
        answer.split(' ').nth(1) == Some("421")
    };
    for (host, refused) in [
        ("0\r\n", [false; 5]),
        (
            "1\r\nHost: localhost:8080\r\n",
            [false, false, true, false, true],
        ),
        (
            "1\r\nHost: 127.0.0.1\r\n",
            [false, false, true, false, true],
        ),
        (
            "1\r\nHost: public.example\r\n",
            [true, false, false, false, true],
        ),
        (
            "1\r\nHost: archive.example:1\r\n",
            [true, true, false, false, false],
        ),
        (
            "1\r\nHost: other.example:8443\r\n",
            [true, true, false, false, false],
        ),
        (
            "1\r\nHost: other.example:8444\r\n",
            [true, true, true, false, true],
        ),
        (
            "1\r\nHost: evil.example\r\n",
            [true, true, true, false, true],
        ),
    ] {
        for (stage, refused) in stages.iter().zip(refused) {
            for target in [
                "/",
                "/live/index?url=a.com",
                "/_indexes/full?jobs=1",
                "/nothing",
            ] {
                let found = status(stage.address(), target, host);
                assert_eq!(found, refused, "{target} {host}");
            }
        }
    }
    // The operator's address is a loopback address, which monitoring programs use as host.
    for stage in [&stages[0], &stages[2], &stages[3]] {
        for target in ["/_status", "/_metrics"] {
            let operator = stage.operator();
            assert!(!status(operator, target, "1\r\nHost: 127.0.0.1\r\n"));
            assert!(status(operator, target, "1\r\nHost: evil.example\r\n"));
        }
    }
}

#[test]
fn foreign_page_cannot_make_the_server_send_posts() {
    let config = "collections:\n  live: $live\n";
    let reader = "https://reader.example";
    let (closed, open) = (Stage::start(config), Stage::start_for(reader, config));
    let status = |stage: &Stage, origin: &str| {
        let fields = [("Origin", origin), ("Content-Type", "text/plain")];
        // The guard refuses to fetch from this address.
        let target = "/live/resource?url=http://169.254.0.1/";
        ask(stage.address(), "POST", target, &fields, b"a=b")
            .unwrap()
            .status
    };
    for (stage, origin, refused) in [
        (&closed, "http://evil.example", true),
        (&closed, reader, true),
        (&closed, &closed.url(), false),
        (&open, "http://evil.example", true),
        (&open, reader, false),
    ] {
        assert_eq!(status(stage, origin) == 403, refused, "{origin}");
    }
}

#[test]
fn unusual_queries_get_an_answer() {
    let (_dir, stage) = archive();
    let mut connection = Connection::open(stage.address()).unwrap();
    let mut rng = redis_tests::Rng::new("unusual_queries_get_an_answer");
    let pieces = "url= http:// example.com %00 %ff % * *. & = : / ? # [ ] @ closest= from= to= limit= sort= filter= \
        collapse= fl= output= page= 99999999999999999999 -1 2016 %0d%0a %F0%9F%98%80 .. %2e%2e ~ ! (( { } \
        matchType= domain prefix host xn-- 1.2.3.4 [::1] sources= ap/ a.b.c.d urn: dns: json link text \
        status:";
    let pieces: Vec<&str> = pieces.split(' ').collect();
    for _ in 0..3_000 {
        let count = rng.below(12);
        let query: String = (0..count).map(|_| *rng.pick(&pieces)).collect();
        let url = ["url=example.com&", ""][rng.below(2) as usize];
        let target = format!("/both/index?{url}{query}").replace('#', "");
        let answer = connection.ask("GET", &target, &[], b"").unwrap();
        let (status, text) = (answer.status, answer.text());
        assert!(matches!(status, 200 | 400), "{target}: {status} {text}");
    }
}

#[test]
fn oversized_heads_and_bodies_are_refused_at_once() {
    let stage = Stage::start("collections:\n  live: $live\n");
    let status = |request: &str| {
        let mut stream = TcpStream::connect(stage.address()).unwrap();
        // The request may be refused before all of it is sent.
        _ = stream.write_all(request.as_bytes());
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).unwrap();
        line.split(' ').nth(1).unwrap_or_default().to_owned()
    };
    let head = |size: usize| {
        let field = "x".repeat(1000);
        let fields = (0..size / 1000).map(|n| format!("A{n}: {field}\r\n"));
        let fields: String = fields.collect();
        format!("GET /live/index?url=a.com HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n")
    };
    assert_eq!(status(&head(50_000)), "200");
    for size in [140_000, 300_000] {
        assert_eq!(status(&head(size)), "431", "{size}");
    }
    for path in [
        "resource?url=a.com",
        "resource-post?url=a.com",
        "resource/postreq?url=a.com",
    ] {
        for length in ["67108865", "4611686018427387904"] {
            let request = format!(
                "POST /live/{path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\nx"
            );
            assert_eq!(status(&request), "413", "{path} {length}");
        }
    }
}

#[test]
fn servers_that_query_each_other_detect_the_cycle() {
    // Each collection is its own source, the smallest possible cycle, so the address must be known
    // in advance.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = port.local_addr().unwrap();
    drop(port);
    let config = format!(
        "collections:\n  up: upstream+http://{address}/up\n  cdx:\n    index:\n      type: cdx\n      \
         api_url: http://{address}/cdx/index\n      replay_url: http://{address}/{{timestamp}}/{{url}}\n  live: $live\n"
    );
    let stage = Stage::start_at(&config, address);
    let mut connection = Connection::open(stage.address()).unwrap();
    for collection in ["up", "cdx"] {
        let target = format!("/{collection}/index?url=example.com");
        let answer = connection.ask("GET", &target, &[], b"").unwrap();
        assert_eq!(answer.status, 502);
        let errors = answer.field("source-errors").unwrap();
        assert_contains(errors, "508");
    }
    let again = format!("http://{address}/live/id_/");
    let target = format!("/live/id_/{again}{again}http://example.com/");
    let answer = connection.ask("GET", &target, &[], b"").unwrap();
    assert_eq!(answer.status, 508, "{}", answer.text());
}
