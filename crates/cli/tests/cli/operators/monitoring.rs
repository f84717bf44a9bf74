//! Tests `crawlspace exporter` and `crawlspace top`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use redis_tests::http::get;
use redis_tests::{
    DATE, Options, Outcome, Program, Server, assert_contains, assert_lacks, ok, outcome, sha256_of,
};

use crate::documents::metrics;
use crate::operators::stage::{FRONTIER, INDEX, crawlspace, frontier, index};
use crate::tool::tool;

fn exporter(words: &str) -> Outcome {
    outcome(tool(format!("exporter {words}")))
}

/// Parses values by name and labels; every name must have a help text and a type, as the format
/// requires.
pub fn figures(text: &str) -> BTreeMap<String, f64> {
    let (mut figures, mut typed) = (BTreeMap::new(), BTreeSet::new());
    let mut helped = "";
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            helped = help.split_once(' ').expect("a name and a meaning").0;
        } else if let Some(typing) = line.strip_prefix("# TYPE ") {
            let (name, kind) = typing.split_once(' ').expect("a name and a kind");
            assert_eq!(name, helped);
            assert!(["counter", "gauge"].contains(&kind), "{line}");
            assert_eq!(name.ends_with("_total"), kind == "counter", "{line}");
            assert!(typed.insert(name), "{name} twice");
        } else {
            let (series, value) = line.rsplit_once(' ').expect("a value");
            let (name, _) = series.split_once('{').expect("labels");
            assert_eq!(name, helped, "{line}");
            assert!(name.starts_with("crawlspace_"), "{line}");
            let value = value.parse().expect("a number");
            assert!(figures.insert(series.to_owned(), value).is_none(), "{line}");
        }
    }
    figures
}

/// Returns the value of a series of this server.
pub fn of(figures: &BTreeMap<String, f64>, server: &Server, name: &str, labels: &str) -> f64 {
    let series = format!(
        "crawlspace_{name}{{server=\"127.0.0.1:{}\"{labels}}}",
        server.port()
    );
    let value = figures.get(&series);
    *value.unwrap_or_else(|| panic!("no {series} in {figures:#?}"))
}

#[test]
fn exporter_reports_servers_indexes_frontiers_and_tag_spaces() {
    let server = Server::start();
    index(&server);
    let mut c = frontier(&server);
    ok!(c, "CHG.NEXT", FRONTIER);
    ok!(c, "TAGS.ADD", "archive", "RECORD", "r1", "public");
    ok!(c, "SELECT", "3");
    ok!(
        c,
        "DEDUPE.ADD",
        "odd,\"=\u{e9}:",
        "crawl",
        "sha1:B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A",
        0,
        DATE,
        "https://example.com/",
        5
    );
    ok!(c, "DEDUPE.LOOKUP", INDEX, sha256_of(77));
    let gone = "redis://127.0.0.1:1/";
    let seen = exporter(&format!("--once --redis {} --redis {gone}", server.url()));
    assert_eq!(seen.status, 1, "{seen:?}");
    assert_contains(&seen.errors, "127.0.0.1:1: ");
    metrics::must_be_listed("crawlspace exporter", &seen.out);
    let figures = figures(&seen.out);
    let value = |name: &str, labels: &str| of(&figures, &server, name, labels);
    assert_eq!(figures["crawlspace_up{server=\"127.0.0.1:1\"}"], 0.0);
    assert_eq!(value("up", ""), 1.0);
    assert!(value("scrape_duration_seconds", "") < 5.0);
    assert_eq!(
        (value("lookups_total", ""), value("hits_total", "")),
        (1.0, 0.0)
    );
    assert_eq!(
        (
            value("server_master", ""),
            value("server_persistence_ok", "")
        ),
        (1.0, 1.0)
    );
    assert!(value("server_memory_bytes", "") > 1e5);
    let index = format!(",db=\"0\",index=\"{INDEX}\"");
    assert_eq!(value("index_hashes", &index), 5.0);
    assert_eq!(value("index_saved_bytes", &index), 8900.0);
    assert!(value("index_memory_bytes", &index) > 100.0);
    let state = |of: &str, state: &str| format!("{of},state=\"{state}\"");
    assert_eq!(value("index_crawls", &state(&index, "committed")), 2.0);
    assert_eq!(value("index_crawls", &state(&index, "uncommitted")), 1.0);
    let odd = ",db=\"3\",index=\"odd,\\\"=\u{e9}:\",state=\"uncommitted\"";
    assert_eq!(value("index_crawls", odd), 1.0);
    let frontier = format!(",db=\"0\",frontier=\"{FRONTIER}\"");
    assert_eq!(value("frontier_groups", &state(&frontier, "busy")), 1.0);
    assert_eq!(value("frontier_due_groups", &frontier), 2.0);
    assert_eq!(value("frontier_uris", &frontier), 4.0);
    assert_eq!(value("frontier_leases_total", &frontier), 1.0);
    let space = ",db=\"0\",space=\"archive\"";
    assert_eq!(value("space_tags", space), 1.0);
    assert_eq!(value("space_ids", &format!("{space},kind=\"record\"")), 1.0);
    assert_eq!(value("not_exported", ",kind=\"index\""), 0.0);
}

#[test]
fn missing_module_is_reported() {
    let server = Options::new().no_module().start();
    let url = server.url();
    let seen = exporter(&format!("--once --redis {url}"));
    assert_eq!(seen.status, 1, "{seen:?}");
    assert_eq!(of(&figures(&seen.out), &server, "up", ""), 0.0);
    let reason = "the server has not loaded the Crawlspace module: start it with --loadmodule";
    assert_contains(&seen.errors, reason);
    let words = format!("top --once --interval 20ms --redis {url}");
    for json in ["", " --json"] {
        let seen = outcome(tool(format!("{words}{json}")));
        assert_eq!((seen.status, &seen.out[..]), (1, ""), "{seen:?}");
        assert_contains(&seen.errors, reason);
    }
}

#[test]
fn mistyped_prefix_is_an_error_and_creates_nothing() {
    let server = Server::start();
    index(&server);
    let mut c = frontier(&server);
    ok!(c, "TAGS.ADD", "archive", "RECORD", "r1", "public");
    ok!(c, "SELECT", "3");
    ok!(c, "CHG.ADD", "other:", "crawl", "host", 0);
    for (words, reason) in [
        (
            "dedupe stats",
            "no index has the prefix '{mistyped}:'; indexes used since the server started: '{coll-42}:'\n",
        ),
        (
            "dedupe stats --json",
            "no index has the prefix '{mistyped}:'",
        ),
        ("dedupe crawls", "no index has the prefix '{mistyped}:'"),
        ("dedupe check", "no index has the prefix '{mistyped}:'"),
        (
            "chg info",
            "no frontier has the prefix '{mistyped}:'; frontiers used since the server started: '{web}:', 'other:' in db 3\n",
        ),
        ("chg groups", "no frontier has the prefix '{mistyped}:'"),
        ("chg check", "no frontier has the prefix '{mistyped}:'"),
    ] {
        let seen = crawlspace(&server, "{mistyped}:", words);
        assert_eq!((seen.status, &seen.out[..]), (1, ""), "{words}: {seen:?}");
        assert_contains(&seen.errors, reason);
    }
    let url = server.url();
    let seen = outcome(tool(format!("tags info --key mistyped --redis {url}")));
    assert_eq!((seen.status, &seen.out[..]), (1, ""), "{seen:?}");
    let reason = "no tag space has the key 'mistyped'; tag spaces used since the server started: 'archive'\n";
    assert_contains(&seen.errors, reason);
    let forgotten = crawlspace(&server, "", "dedupe stats");
    assert_contains(&forgotten.errors, "no index has the prefix ''; indexes");

    // INFO also names data sets without contents, but the limit applies only to data sets with contents.
    assert_contains(ok!(c, "INFO", "crawlspace").text(), "mistyped");
    for n in 0..20 {
        ok!(c, "DEDUPE.STATS", format!("a{n}:"));
    }
    for limit in [1, 20] {
        let seen = exporter(&format!("--once --limit {limit} --redis {url}"));
        assert_eq!(seen.status, 0, "{seen:?}");
        assert_lacks(&seen.out, "mistyped");
        let figures = figures(&seen.out);
        let of_index = format!(",db=\"0\",index=\"{INDEX}\"");
        assert_eq!(of(&figures, &server, "index_hashes", &of_index), 5.0);
        let left = of(&figures, &server, "not_exported", ",kind=\"frontier\"");
        assert_eq!(left, if limit == 1 { 1.0 } else { 0.0 });
    }
    let top = outcome(tool(format!("top --once --interval 20ms --redis {url}")));
    assert_eq!(top.status, 0, "{top:?}");
    assert_lacks(&top.out, "mistyped");
    // A data set named on the command line always has metrics.
    let asked = exporter(&format!("--once --index {{mistyped}}: --redis {url}"));
    assert_contains(&asked.out, "index=\"{mistyped}:\"");
}

#[test]
fn number_of_series_is_limited() {
    let server = Server::start();
    let mut c = server.wire();
    for n in 0..70 {
        ok!(c, "CHG.ADD", format!("f{n:02}:"), "crawl", "host", 0);
    }
    for limit in [0, 2, 100] {
        let words = format!(
            "--once --limit {limit} --frontier f69: --redis {}",
            server.url()
        );
        let seen = exporter(&words);
        assert_eq!(seen.status, 0, "{seen:?}");
        let figures = figures(&seen.out);
        let names = figures
            .keys()
            .filter(|name| name.starts_with("crawlspace_frontier_uris{"));
        // Data sets named on the command line come first. The server lists at most 64 data sets.
        let expected = [0, 2, 65][[0, 2, 100].iter().position(|l| *l == limit).unwrap()];
        assert_eq!(names.count(), expected);
        let others = of(&figures, &server, "not_exported", ",kind=\"frontier\"");
        assert_eq!(others, 70.0 - expected as f64);
        let asked = seen.out.contains("frontier_uris{") && seen.out.contains("\"f69:\"");
        assert_eq!(asked, limit > 0);
    }
}

#[test]
fn scrape_takes_few_fast_commands() {
    const LIMIT: u64 = 20;
    let server = Server::start();
    let mut c = server.wire();
    for n in 0..LIMIT {
        let index = format!("{{coll-{n}}}:");
        for crawl in 0..40 {
            for (hash, crawl) in [(2 * crawl, "a"), (2 * crawl + 1, "b")]
                .map(|(hash, of)| (hash, format!("{of}-{crawl}")))
            {
                let hash = sha256_of(hash);
                c.ok_line(format!(
                    "DEDUPE.ADD {index} {crawl} {hash} 0 {DATE} https://example.com/ 5000"
                ));
                c.ok_line(format!("DEDUPE.REVISIT {index} {crawl} {hash} 600"));
            }
            ok!(c, "DEDUPE.COMMIT", &index, format!("a-{crawl}"));
        }
        let frontier = format!("{{web-{n}}}:");
        for host in 0..10 {
            ok!(
                c,
                "CHG.ADDURI",
                &frontier,
                "crawl",
                format!("h{host}"),
                0,
                0,
                format!("https://h{host}/")
            );
        }
        ok!(c, "CHG.NEXT", &frontier);
        ok!(c, "TAGS.ADD", format!("space-{n}"), "RECORD", "r", "public");
    }
    ok!(c, "CONFIG", "RESETSTAT");
    let seen = exporter(&format!("--once --limit {LIMIT} --redis {}", server.url()));
    assert_eq!(seen.status, 0, "{seen:?}");
    let mut calls = server.calls();
    let stats = format!("{calls:?}");
    calls.remove("config|resetstat");
    for (name, times) in [
        ("info", 1),
        ("dedupe.stats", LIMIT),
        ("chg.info", LIMIT),
        ("tags.info", LIMIT),
    ] {
        assert_eq!(calls.remove(name), Some(times), "{name}: {stats}");
    }
    // The remaining commands are fast: they return the memory of keys and the number of expiring leases.
    assert!(calls.values().sum::<u64>() <= 30 * LIMIT, "{stats}");
    for name in ["scan", "keys", "dedupe.crawls"] {
        assert!(!calls.contains_key(name), "{name}: {stats}");
    }
}

#[test]
fn exporter_answers_over_http_and_reconnects() {
    let mut server = Server::start();
    frontier(&server);
    let mut exporter = Program::start(tool(format!(
        "exporter --listen 127.0.0.1:0 --redis {}",
        server.url()
    )));
    let address = exporter.address();
    let up = |server: &Server| {
        let answer = get(address, "/metrics");
        assert_eq!(answer.status, 200);
        assert_contains(
            answer.field("content-type").expect("a media type"),
            "version=0.0.4",
        );
        of(&figures(&answer.text()), server, "up", "")
    };
    assert_eq!(up(&server), 1.0);
    server.kill9();
    assert_eq!(up(&server), 0.0);
    server.restart();
    assert_eq!(up(&server), 1.0);
    assert_eq!(get(address, "/").status, 404);
    // Requests for a foreign host name are refused.
    for (name, expected) in [("evil.example", "421"), ("localhost:9921", "200")] {
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        let request = format!("GET /metrics HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n");
        std::io::Write::write_all(&mut stream, request.as_bytes()).unwrap();
        let answer = std::io::read_to_string(stream).unwrap();
        assert_eq!(answer.split(' ').nth(1), Some(expected), "{answer}");
    }
    exporter.signal(15);
    assert!(exporter.end().status.success());
}

#[test]
fn half_open_clients_delay_no_scrape() {
    let server = Server::start();
    let mut exporter = Program::start(tool(format!(
        "exporter --listen 127.0.0.1:0 --redis {}",
        server.url()
    )));
    let address = exporter.address();
    let half_open: Vec<TcpStream> = (0..200)
        .map(|n| {
            let mut client = TcpStream::connect(address).expect("a connection");
            if n % 2 == 0 {
                // The exporter may have closed the connection already.
                let _ = client.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n");
            }
            client
        })
        .collect();
    let begun = Instant::now();
    assert_eq!(get(address, "/metrics").status, 200);
    assert!(begun.elapsed() < Duration::from_secs(4), "{begun:?}");
    drop(half_open);
}

#[test]
fn top_shows_due_groups_and_expiring_leases() {
    let server = Options::new().start();
    index(&server);
    let mut c = frontier(&server);
    let words = format!("top --once --interval 20ms --redis {}", server.url());
    let seen = outcome(tool(&words));
    assert_eq!(seen.status, 0, "{seen:?}");
    assert_contains(&seen.out, "no running jobs");
    assert!(!seen.out.contains("leases that expire first"), "{seen:?}");
    ok!(c, "CHG.NEXT", FRONTIER);
    let seen = outcome(tool(&words));
    assert_contains(&seen.out, "leases that expire first: a.example in 10.0 min");
    for head in ["frontier", "index"] {
        assert!(
            seen.out.lines().any(|line| line.starts_with(head)),
            "{seen:?}"
        );
    }
    let seen = outcome(tool(format!("{words} --json")));
    let view: serde_json::Value = serde_json::from_str(&seen.out).expect("JSON");
    let frontier = &view["frontiers"][0];
    assert_eq!(frontier["prefix"], FRONTIER);
    assert_eq!(
        (&frontier["groups-busy"], &frontier["due"]),
        (&1.into(), &2.into())
    );
    assert_eq!(frontier["expiring"][0]["chg"], "a.example");
    assert_eq!(view["indexes"][0]["hashes"], 5);
    let seen = outcome(tool("top --once --redis redis://127.0.0.1:1/"));
    assert_eq!((seen.status, &seen.out[..]), (1, ""));
}

#[test]
fn top_ends_on_q() {
    let server = Server::start();
    frontier(&server);
    let live = tool(format!("top --interval 20ms --redis {}", server.url()));
    let (status, shown) = redis_tests::on_terminal(live, 60, "q");
    assert_eq!(status, 0, "{shown}");
    // The program leaves the alternate screen at the end.
    assert_contains(&shown, "\x1b[?1049h");
    assert_contains(&shown, "\x1b[?1049l");
    assert_contains(&shown, "no running jobs");
    assert_contains(&shown, "(q: quit)");
}
