//! Tests the output on a terminal.

use std::thread;

use redis_tests::{
    DedupeIndex, Options, Server, assert_contains, assert_starts, int, ok, on_terminal, rows, until,
};

use crate::operators::stage::{FRONTIER, INDEX, frontier, index};
use crate::tool::tool;

fn typed(server: &Server, prefix: &str, columns: u16, words: &str, typed: &str) -> (i32, String) {
    let url = server.url();
    let tool = tool(format!("{words} --redis {url} --prefix {prefix}"));
    on_terminal(tool, columns, typed)
}

#[test]
fn table_fits_its_terminal() {
    let server = Server::start();
    let mut c = index(&server);
    let long = "a-crawl-with-a-name-that-is-too-long-for-any-table-2026-05";
    ok!(c, "DEDUPE.WACZOPEN", INDEX, long, "w.wacz");
    for columns in [130, 80, 60, 40, 20] {
        let (status, shown) = typed(&server, INDEX, columns, "dedupe crawls", "");
        assert_eq!(status, 0, "{shown}");
        let plain = shown.replace("\x1b[1m", "").replace("\x1b[0m", "");
        for line in plain.lines() {
            let wide = line.chars().count();
            // A note below names the columns that did not fit.
            let note = line.starts_with('(');
            assert!(
                note || wide <= columns.into(),
                "{wide} of {columns} columns\n{plain}"
            );
        }
        assert_eq!(plain.contains(long), columns == 130, "{columns}\n{plain}");
        assert_eq!(
            plain.contains("(no room for: "),
            columns < 80,
            "{columns}\n{plain}"
        );
        assert_starts(&shown, "\x1b[1mcrawl");
    }
}

#[test]
fn only_the_answer_yes_removes_anything() {
    let server = Server::start();
    let mut c = index(&server);
    let crawls = format!("{INDEX}allcrawls");
    let remove = "dedupe remove 2026-02";
    // Ctrl-D also answers the question.
    for answer in ["n\n", "\n", "remove\n", "\x04"] {
        let (status, shown) = typed(&server, INDEX, 100, remove, answer);
        assert_eq!(status, 1, "{shown}");
        assert_contains(&shown, "Remove 1 crawl? [y/N] ");
        assert_contains(&shown, "nothing was changed");
        assert_eq!(ok!(c, "SCARD", &crawls), int(2));
    }
    let (status, shown) = typed(&server, INDEX, 100, remove, "y\n");
    assert_eq!(status, 0, "{shown}");
    assert_contains(&shown, "1 crawl removed");
    assert_eq!(ok!(c, "SCARD", &crawls), int(1));

    for (words, question) in rows![
        "dedupe cancel 2026-04", "Cancel 1 crawl? ";
        "dedupe retain --purge 2026-04", "Remove 1 crawl, and keep 1? ";
    ] {
        let (status, shown) = typed(&server, INDEX, 100, words, "no\n");
        assert_eq!(status, 1, "{shown}");
        assert_contains(&shown, question);
    }
    frontier(&server);
    let drop = "chg drop crawl-1";
    let (status, shown) = typed(&server, FRONTIER, 100, drop, "YES\n");
    assert!(status == 0 && shown.contains("Drop them all? "), "{shown}");
}

#[test]
fn progress_bar_shows_a_server_job() {
    let options = Options::new().plain().module_args(&["slice-us", "50"]);
    let (server, mut d) = DedupeIndex::on(options, INDEX);
    d.add("crawl", 0..30_000);
    let mut c = server.wire();
    let groups: Vec<String> = (0..20_000).map(|n| format!("host-{n} 0")).collect();
    for some in groups.chunks(1000) {
        c.ok_line(format!("CHG.ADD {FRONTIER} crawl {}", some.join(" ")));
    }
    for (line, prefix, words, shown) in rows![
        format!("DEDUPE.COMMIT {INDEX} crawl"), INDEX, "dedupe commit crawl", "commit crawl";
        format!("DEDUPE.PACK {INDEX}"), INDEX, "dedupe pack", "pack";
        format!("DEDUPE.REMOVE {INDEX} crawl"), INDEX, "dedupe remove --yes crawl", "remove crawl";
        format!("CHG.SWEEP {FRONTIER}"), FRONTIER, "chg sweep", "sweep";
        format!("CHG.PACK {FRONTIER}"), FRONTIER, "chg pack", "pack";
        format!("CHG.UNPACK {FRONTIER}"), FRONTIER, "chg unpack", "unpack";
    ] {
        let mut asker = server.wire();
        asker.send(&line.split(' ').collect::<Vec<_>>());
        let begun = |job: String| !job.ends_with(",total=0");
        until("the job is under way", || {
            server.info("job_0").is_some_and(begun)
        });
        // The server is paused until the bar has appeared.
        ok!(c, "CLIENT", "PAUSE", 60_000, "WRITE");
        ok!(c, "CONFIG", "RESETSTAT");
        let seen = thread::scope(|scope| {
            let tool = scope.spawn(|| typed(&server, prefix, 100, words, "").1);
            let mut asked = 0;
            until("the tool has looked several times", || {
                asked += 1;
                let stats = ok!(c, "INFO", "commandstats").text();
                let calls = stats.split_once("cmdstat_info:calls=");
                let calls = calls.map(|(_, rest)| rest.split(',').next().map(str::parse::<u32>));
                calls
                    .flatten()
                    .is_some_and(|calls| calls.expect("a number") > asked + 3)
            });
            ok!(c, "CLIENT", "UNPAUSE");
            tool.join().expect("it shows something")
        });
        assert!(!asker.recv().is_error());
        let mut lines = seen.split(['\r', '\n']).filter(|line| !line.is_empty());
        let bar = lines.find(|line| line.contains(shown));
        let bar = bar.unwrap_or_else(|| panic!("{words}: {seen:?}"));
        assert!(
            bar.contains(" %") && bar.contains("left"),
            "{words}: {seen:?}"
        );
        // The bar is cleared at the end.
        assert!(
            lines.next_back().is_some_and(|last| !last.contains("left")),
            "{seen:?}"
        );
    }
}
