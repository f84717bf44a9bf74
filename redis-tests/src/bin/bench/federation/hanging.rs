//! F4: a query to a group with one source that does not answer.

use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use redis_tests::http::{Connection, get};

use super::corpus::{Corpus, PREFIX_ROWS};
use super::serving::Ours;
use crate::Plan;
use crate::report::{Findings, note, say, table};
use crate::series::{Series, grouped};
use crate::targets;

/// The value of `index_timeout`, in milliseconds.
const TIMEOUT: f64 = 300.0;
/// Number of groups that are each queried once on an idle server.
const ALONE: usize = 20;
/// Number of concurrent requests in the second measurement.
const CLIENTS: usize = 32;

/// Measures the delay.
pub fn measure(plan: &Plan, corpus: &Corpus) -> Findings {
    say("F4: a source hangs");
    let queries = plan.scaled(10_000) as usize;
    // This source accepts connections but never answers. The server skips sources that fail
    // repeatedly for a while, so the configuration contains many sources that have not failed yet.
    let silent = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let address = silent.local_addr().expect("a bound port");
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        for stream in silent.incoming().flatten() {
            kept.push(stream);
            // Drop the oldest connections, which the other side has closed.
            if kept.len() > 4 * CLIENTS {
                kept.drain(..CLIENTS);
            }
        }
    });
    let groups = ALONE + queries / 4;
    let dir = corpus.path("");
    let mut config = String::from("collections:\n");
    for group in 0..groups {
        // The group has a timeout of a minute and the silent source a short one, so that only the
        // silent source can time out, even on a loaded machine.
        config.push_str(&format!(
            "  g{group}:\n    index_timeout: 60\n    resource: {0}/warcs/\n    index_group:\n      local: {0}/set.cdxj\n\
             \x20     silent: {{type: cdx, api_url: 'http://{address}/{group}?url={{url}}', \
             replay_url: 'http://{address}/{{timestamp}}id_/{{url}}', index_timeout: {1}}}\n",
            dir.display(),
            TIMEOUT / 1e3,
        ));
    }
    let ours = Ours::start(&dir, &config);
    let page = &corpus.prefixes[0];
    let target = |group: usize| format!("/g{group}/index?url={page}*");
    let mut late = Series::default();
    for group in 0..ALONE {
        let mut connection = Connection::open(ours.address()).expect("the server accepts");
        let start = Instant::now();
        let sent = connection.send("GET", &target(group), &[("Connection", "close")], b"");
        sent.expect("a request goes out");
        connection.first_byte().expect("an answer comes");
        late.push(start.elapsed().as_secs_f64() * 1e3 - TIMEOUT);
    }
    // The response must contain all rows of the other source. The number of these rows is known.
    let ask = |group: usize| {
        let answer = get(ours.address(), &target(group));
        assert_eq!(
            answer.text().lines().count() as u64,
            PREFIX_ROWS,
            "all rows of the other"
        );
        answer
    };
    let answer = ask(ALONE);
    let errors = answer.field("source-errors");
    assert!(
        errors.is_some_and(|named| named.contains("silent")),
        "{answer:?}"
    );

    let (mut memory, mut files) = (Vec::new(), Vec::new());
    for quarter in 1..=4 {
        say(&format!(
            "F4: queries with a source that hangs ({quarter}/4)"
        ));
        let next = AtomicUsize::new(0);
        let client = || {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= queries / 4 {
                    return;
                }
                ask(ALONE + number);
            }
        };
        std::thread::scope(|scope| (0..CLIENTS).for_each(|_| _ = scope.spawn(client)));
        memory.push(ours.resident() as f64 / 1e6);
        files.push(ours.open_files().to_string());
    }
    let mut found = Findings::default();
    let queries = grouped(queries as u64);
    let megabytes = |bytes: f64| format!("{bytes:.1} MB");
    let shown: Vec<String> = memory.iter().map(|mb| format!("{mb:.1}")).collect();
    table! { found;
        "F4", format!("first byte after the timeout ({TIMEOUT:.0} ms), one source of a group hangs"), "–",
            late.shown(|ms| format!("{ms:.1} ms")), "", &late, targets::HANGING;
        "F4", format!("memory after {queries} such queries"), "after half of them",
            megabytes(memory[3]), megabytes(memory[1]), memory[3] - memory[1], targets::HANGING_MEMORY;
    }
    note!(found, "hanging.md";
        alone = ALONE, queries = queries, clients = CLIENTS, memory = shown.join(", "), files = files.join(", "));
    found
}
