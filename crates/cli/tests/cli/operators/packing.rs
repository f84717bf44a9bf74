//! Tests `crawlspace chg pack` and `unpack`, and the tool's output for frontiers in both storage formats and during a
//! conversion.

use std::os::unix::process::ExitStatusExt;

use redis_tests::{
    Options, Program, Server, Wire, assert_contains, assert_lacks, assert_starts, bulk, err, int,
    ok, outcome, rows, until,
};
use serde_json::{Value, json};

use crate::operators::chg::chg;
use crate::operators::monitoring::{figures, of};
use crate::operators::stage::{FRONTIER, crawlspace, frontier};
use crate::tool::tool;

/// Number of groups whose conversion takes long enough for a test to interrupt it.
const MANY: u32 = 20_000;

fn slow_and_durable() -> Options {
    let options = Options::new().plain().aof_unsynced(true);
    options.module_args(&["slice-us", "50"])
}

/// Adds many groups with a counted URI each.
fn fill(server: &Server) -> Wire {
    let mut c = server.wire();
    let groups: Vec<String> = (0..MANY).map(|n| format!("host-{n} 0")).collect();
    for some in groups.chunks(1000) {
        c.ok_line(format!("CHG.ADD {FRONTIER} crawl {}", some.join(" ")));
    }
    c
}

fn storage(server: &Server) -> Value {
    chg(server, "info --json").object()["storage"].clone()
}

/// Waits until the frontier is in this storage format.
fn until_stored(c: &mut Wire, storage: &str) {
    until("the frontier is in that storage", || {
        ok!(c, "CHG.INFO", FRONTIER).field("storage") == bulk(storage)
    });
}

/// Starts the tool, and waits until the frontier is being converted.
fn start(server: &Server, words: &str, moving: &str) -> Program {
    let url = server.url();
    let tool = tool(format!("chg {words} --redis {url} --prefix {FRONTIER}"));
    let program = Program::start(tool);
    until_stored(&mut server.wire(), moving);
    program
}

/// Returns the value of a metric of the frontier.
fn metric(server: &Server, name: &str) -> f64 {
    let seen = outcome(tool(format!("exporter --once --redis {}", server.url()))).exits(0);
    let frontier = format!(",db=\"0\",frontier=\"{FRONTIER}\"");
    of(&figures(&seen.out), server, name, &frontier)
}

/// Returns the line of the frontier in `crawlspace top`.
fn top(server: &Server) -> String {
    let words = format!("top --once --interval 20ms --redis {}", server.url());
    let seen = outcome(tool(words)).exits(0);
    let line = seen.out.lines().find(|line| line.starts_with(FRONTIER));
    line.unwrap_or_else(|| panic!("{seen:?}")).to_owned()
}

#[test]
fn frontier_is_packed_and_unpacked() {
    let server = Options::new().plain().start();
    let mut c = frontier(&server);
    ok!(c, "CHG.PAUSE", FRONTIER, "b.example");
    let shown = |server: &Server| {
        let words = ["why b.example", "groups", "uris a.example --json", "check"];
        words.map(|words| chg(server, words).exits(0).out)
    };
    let plain = shown(&server);
    assert_lacks(chg(&server, "info").out, "storage");
    assert!(top(&server).ends_with("  plain"), "{}", top(&server));
    assert_eq!(metric(&server, "frontier_packed"), 0.0);

    let packed = chg(&server, "pack").exits(0);
    assert_eq!(packed.errors, "");
    let expected = "The frontier is packed.\n  groups                   3  were moved\n";
    assert_eq!(packed.out, expected);
    assert_eq!(shown(&server), plain);
    let info = chg(&server, "info").out;
    assert!(info.ends_with("  storage               packed\n"), "{info}");
    assert_eq!(storage(&server), "packed");
    assert!(top(&server).ends_with("  packed"), "{}", top(&server));
    assert_eq!(metric(&server, "frontier_packed"), 1.0);
    assert_eq!(metric(&server, "frontier_moving"), 0.0);
    let refused = err!(c, "HGET", format!("{FRONTIER}EIDC"), "crawl-1");
    assert_starts(&refused, "WRONGTYPE");
    let again = chg(&server, "pack --json").object();
    assert_eq!(again, json!({"storage": "packed", "groups": 0}));

    let back = chg(&server, "unpack --json").exits(0).object();
    assert_eq!(back, json!({"storage": "plain", "groups": 3}));
    assert_eq!(shown(&server), plain);
    assert_eq!(
        ok!(c, "HGET", format!("{FRONTIER}EIDC"), "crawl-1"),
        bulk("3")
    );
    let again = chg(&server, "unpack").exits(0);
    assert_starts(&again.out, "The frontier is in plain keys.\n");
    for wrong in ["pack a.example", "pack --yes", "unpack --create"] {
        let refused = chg(&server, wrong).exits(2);
        assert_eq!(refused.out, "", "{wrong}");
    }
}

#[test]
fn missing_frontier_is_created_only_on_request() {
    for server in [
        Options::new().plain().start(),
        Options::new().packed().start(),
    ] {
        let mut c = server.wire();
        ok!(c, "CHG.ADD", "other:", "crawl", "host", 0);
        let before = ok!(c, "DBSIZE");
        for words in ["pack", "unpack", "info", "check"] {
            let refused = chg(&server, words).exits(1);
            assert_eq!(refused.out, "", "{words}");
            let reason = "no frontier has the prefix '{web}:'; frontiers used since the server started: 'other:'\n";
            assert_contains(&refused.errors, reason);
        }
        assert_eq!(ok!(c, "DBSIZE"), before);

        let created = chg(&server, "pack --create --json").exits(0);
        assert_eq!(created.object(), json!({"storage": "packed", "groups": 0}));
        assert_eq!(storage(&server), "packed");
        chg(&server, "check").exits(0);
        chg(&server, "pack --create").exits(0);
        chg(&server, "unpack").exits(0);
        assert_eq!(ok!(c, "DBSIZE"), before);
    }
}

#[test]
fn drained_frontier_still_exists_after_a_restart() {
    let mut server = Options::new().plain().aof_unsynced(true).start();
    let mut c = server.wire();
    ok!(c, "CHG.ADD", FRONTIER, "crawl", "host", 0);
    let lease = ok!(c, "CHG.NEXT", FRONTIER);
    let token = lease.items()[0].items()[1].int();
    ok!(
        c,
        "CHG.RELEASE",
        FRONTIER,
        "host",
        token,
        "DELAY",
        0,
        "DONE",
        "crawl"
    );
    server.restart();
    chg(&server, "info").exits(0);
    chg(&server, "pack").exits(0);
    assert_eq!(storage(&server), "packed");
}

#[test]
fn server_finishes_a_move_that_ctrl_c_interrupts() {
    let server = slow_and_durable().start();
    let mut c = fill(&server);
    let mut packing = start(&server, "pack", "packing");
    // Pause the job until the tool has ended.
    ok!(c, "CLIENT", "PAUSE", 60_000, "WRITE");
    packing.interrupt();
    assert_eq!(packing.end().status.signal(), Some(2));
    assert_eq!(storage(&server), "packing");
    ok!(c, "CLIENT", "UNPAUSE");
    until_stored(&mut c, "packed");
    chg(&server, "check").exits(0);
}

#[test]
fn move_resumes_when_the_server_restarts() {
    let mut server = slow_and_durable().start();
    fill(&server);
    for (words, moving, to) in rows!["pack", "packing", "packed"; "unpack", "unpacking", "plain";] {
        let tool = start(&server, &format!("{words} --json"), moving);
        server.kill9();
        server.restart();
        let ended = tool.end();
        assert!(ended.status.success(), "{ended:?}");
        let moved: Value = serde_json::from_str(&ended.out).expect("JSON");
        assert_eq!(moved["storage"], to);
        assert_eq!(storage(&server), to);
        chg(&server, "check").exits(0);
    }
    let queued = ok!(server.wire(), "GET", format!("{FRONTIER}QCT"));
    assert_eq!(queued, bulk(MANY.to_string()));
}

#[test]
fn interrupted_move_is_shown_and_resumed_or_turned_around() {
    let mut server = slow_and_durable().start();
    fill(&server);
    for (words, moving, then, to) in rows![
        "pack", "packing", "pack", "packed";
        "unpack", "unpacking", "pack", "packed";
        "unpack", "unpacking", "unpack", "plain";
    ] {
        let mut tool = start(&server, words, moving);
        server.kill9();
        tool.interrupt();
        tool.end();
        server.restart();
        let info = chg(&server, "info").exits(0).out;
        let note = format!("{moving}  running or interrupted; chg {words} resumes it\n");
        assert!(info.ends_with(&note), "{info}");
        let why = chg(&server, "why host-7").exits(0);
        assert_starts(&why.out, "host-7: waiting\n");
        chg(&server, "check").exits(0);
        assert_eq!(chg(&server, "groups").exits(0).out.lines().count(), 101);
        assert!(
            top(&server).ends_with(&format!("  {moving}")),
            "{}",
            top(&server)
        );
        assert_eq!(metric(&server, "frontier_moving"), 1.0);
        chg(&server, then).exits(0);
        assert_eq!(storage(&server), to);
        assert_eq!(metric(&server, "frontier_moving"), 0.0);
    }
}

#[test]
fn obstacles_are_reported_and_nothing_is_moved() {
    let server = Options::new().plain().start();
    let mut c = frontier(&server);
    let key = |name: &str| format!("{FRONTIER}{name}");
    ok!(c, "RENAME", key("EIDC"), key("other"));
    ok!(c, "SET", key("EIDC"), "of another program");
    let refused = chg(&server, "pack").exits(1);
    assert_contains(
        &refused.errors,
        "WRONGTYPE key '{web}:EIDC' does not hold a hash",
    );
    ok!(c, "RENAME", key("other"), key("EIDC"));
    chg(&server, "pack").exits(0);

    let blocked = key("chg_answers");
    ok!(c, "HSET", &blocked, "a", "b");
    let refused = chg(&server, "unpack --json").exits(1);
    assert_eq!(refused.out, "");
    let reason = "crawlspace: CHG.UNPACK: MIXED key '{web}:chg_answers' ";
    assert_starts(&refused.errors, reason);
    assert_eq!(storage(&server), "packed");
    assert_eq!(ok!(c, "DEL", &blocked), int(1));
    chg(&server, "unpack").exits(0);
}

#[test]
fn crawl_is_dropped_from_a_packed_frontier() {
    let server = Options::new().packed().start();
    frontier(&server);
    let refused = chg(&server, "drop crawl-1").exits(2);
    let unknown = "crawl crawl-1: the number of its URIs is not known, because the frontier is not in plain keys\n";
    assert_starts(&refused.errors, unknown);
    let dropped = chg(&server, "drop crawl-1 --yes").exits(0);
    assert_eq!(dropped.out, "crawl crawl-1: 3 URIs of 2 groups dropped\n");
    let emptied = crawlspace(&server, FRONTIER, "chg drop --group c.example --yes").exits(0);
    assert_contains(&emptied.errors, "group c.example: 1 URI queued\n");
}
