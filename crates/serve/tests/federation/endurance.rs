//! Test of ten thousand queries to groups with a source that never answers.

use std::fmt::Write as _;
use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};

use redis_tests::http::get;
use redis_tests::{memory_of, open_files_of, until, with};

use crate::serving::{Setup, Stage};

/// Four queries per group: fewer than the failures that open the circuit breaker (`FAILURES` in
/// `crates/serve/src/breaker.rs`), after which queries would no longer wait.
const GROUPS: usize = 2_500;
const QUERIES: usize = 4 * GROUPS;
const CLIENTS: usize = 32;

#[test]
fn ten_thousand_queries_with_a_hanging_source_leak_nothing() {
    let silent = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = silent.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        for stream in silent.incoming().flatten() {
            kept.push(stream);
            if kept.len() > 8 * CLIENTS {
                kept.drain(..CLIENTS); // the clients have closed the oldest connections already
            }
        }
    });
    let dir = tempfile::tempdir().unwrap();
    let rows: String = (0..50)
        .map(|n| format!("com,example)/ 2018060112{n:02}00 {{\"url\": \"http://example.com/\"}}\n"))
        .collect();
    std::fs::write(dir.path().join("index.cdxj"), &rows).unwrap();
    let mut config = String::from("collections:\n");
    for group in 0..GROUPS {
        // Only the silent source ever times out, regardless of the machine's load.
        let _ = writeln!(
            config,
            "  g{group}:\n    index_timeout: 60\n    resource: ./\n    index_group:\n      here: index.cdxj\n      silent: {{type: cdx, \
             api_url: 'http://{address}/{group}?url={{url}}', replay_url: 'http://{address}/{{timestamp}}id_/{{url}}', \
             index_timeout: 0.02}}",
        );
    }
    let stage = Stage::start_with(
        &config,
        with!(Setup, folder: Some(dir.path().to_owned()), is_apart: true),
    );
    let (server, pid) = (stage.address(), stage.pid());

    let ask = |from: usize, to: usize| {
        let next = AtomicUsize::new(from);
        std::thread::scope(|scope| {
            for _ in 0..CLIENTS {
                scope.spawn(|| {
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= to {
                            return;
                        }
                        let group = number % GROUPS;
                        let answer =
                            get(server, &format!("/g{group}/index?url=http://example.com/"));
                        assert_eq!(answer.text().lines().count(), 50, "{answer:?}");
                        let errors = answer.field("source-errors").unwrap_or_default();
                        assert_eq!(errors, "{\"silent\":\"timeout\"}", "{answer:?}");
                    }
                });
            }
        });
    };
    let (files, memory) = (|| open_files_of(pid), || memory_of(pid) >> 10);
    // Every group has been queried once, so one-time allocations are done: each group keeps its own file
    // open.
    ask(0, GROUPS);
    let (open, before) = (files(), memory());
    ask(GROUPS, QUERIES);
    let after = memory();
    // Only connections that are closing at this moment may remain.
    until("all connections are closed", || files() <= open + 2);
    assert!(
        after < before + 8 * 1024,
        "{before} KiB before, {after} KiB after"
    );
}
