//! F4: one source of a group hangs.

use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use redis_tests::http::{Connection, get};

use super::corpus::Corpus;
use super::serving::Ours;
use crate::Plan;
use crate::report::{Findings, Goal, Row, say};
use crate::series::{Series, grouped};

/// `index_timeout`, in milliseconds.
const TIMEOUT: f64 = 300.0;
/// Groups that are asked once each while nothing else is.
const ALONE: usize = 20;
/// Requests under way at a time, afterwards.
const CLIENTS: usize = 32;

/// Measures it.
pub fn measure(plan: &Plan, corpus: &Corpus) -> Findings {
    say("F4: a source hangs");
    let queries = plan.scaled(10_000) as usize;
    // It takes connections, as far as the kernel keeps them, and says nothing. A source that goes on failing is
    // skipped for a while, so there are many that have not failed yet.
    let silent = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let address = silent.local_addr().expect("a bound port");
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        for stream in silent.incoming().flatten() {
            kept.push(stream);
            // Connections that the other side has closed are let go, the oldest first.
            if kept.len() > 4 * CLIENTS {
                kept.drain(..CLIENTS);
            }
        }
    });
    let groups = ALONE + queries / 4;
    let dir = corpus.path("");
    let mut config = String::from("collections:\n");
    for group in 0..groups {
        // Only one of the two is late, whatever else the machine has to do.
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
        connection
            .send("GET", &target(group), &[("Connection", "close")], b"")
            .expect("a request goes out");
        connection.first_byte().expect("an answer comes");
        late.0.push(start.elapsed().as_secs_f64() * 1e3 - TIMEOUT);
    }
    let answer = get(ours.address(), &target(ALONE));
    assert_eq!(
        answer.text().lines().count() as u64,
        super::corpus::PREFIX_ROWS,
        "all rows of the other"
    );
    assert!(
        answer
            .field("source-errors")
            .is_some_and(|named| named.contains("silent")),
        "{answer:?}"
    );

    let mut memory = Vec::new();
    let mut files = Vec::new();
    for quarter in 0..4 {
        say(&format!(
            "F4: queries with a source that hangs ({}/4)",
            quarter + 1
        ));
        let next = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..CLIENTS {
                scope.spawn(|| {
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= queries / 4 {
                            return;
                        }
                        let answer = get(ours.address(), &target(ALONE + number));
                        assert_eq!(
                            answer.text().lines().count() as u64,
                            super::corpus::PREFIX_ROWS
                        );
                    }
                });
            }
        });
        memory.push(ours.resident() as f64 / 1e6);
        files.push(ours.open_files());
    }
    let mut found = Findings::default();
    found.rows.push(Row {
        id: "F4",
        what: format!(
            "first byte after the timeout ({TIMEOUT:.0} ms), one source of a group hangs"
        ),
        against: "–".into(),
        ours: format!("{:.1} ms", late.median()),
        theirs: String::new(),
        result: late,
        goal: Goal::Never(50.0, "ms"),
    });
    let growth = memory[3] - memory[1];
    found.rows.push(Row {
        id: "F4",
        what: format!("memory after {} such queries", grouped(queries as u64)),
        against: "after half of them".into(),
        ours: format!("{:.1} MB", memory[3]),
        theirs: format!("{:.1} MB", memory[1]),
        result: Series(vec![growth]),
        goal: Goal::AtMost(2.0, "MB"),
    });
    let list = |figures: &[String]| figures.join(", ");
    found.note(
        "F4.",
        format!(
            "{ALONE} groups are asked once each, one after the other; all rows of the other source come, and the answer names \
             the one that hangs. Then {} queries by {CLIENTS} clients at once, each group four times: memory after each quarter \
             {} MB, files and sockets open {}.",
            grouped(queries as u64),
            list(&memory.iter().map(|mb| format!("{mb:.1}")).collect::<Vec<_>>()),
            list(&files.iter().map(usize::to_string).collect::<Vec<_>>()),
        ),
        &["make bench ONLY=F4"],
    );
    found
}
