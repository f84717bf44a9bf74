//! What somebody sees who sits before a terminal.

use redis_tests::{Server, assert_contains, assert_starts, int, ok, on_terminal, rows};

use crate::operators::stage::{FRONTIER, INDEX, frontier, index};
use crate::tool::tool;

fn typed(server: &Server, prefix: &str, columns: u16, words: &str, typed: &str) -> (i32, String) {
    let url = server.url();
    let tool = tool(format!("{words} --redis {url} --prefix {prefix}"));
    on_terminal(tool, columns, typed)
}

#[test]
fn a_table_is_no_wider_than_its_terminal() {
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
            // A note below says what there was no room for.
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
fn no_answer_but_yes_removes_anything() {
    let server = Server::start();
    let mut c = index(&server);
    let crawls = format!("{INDEX}allcrawls");
    let remove = "dedupe remove 2026-02";
    // Ctrl-D is an answer, too.
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
