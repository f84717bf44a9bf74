//! `crawlspace chg …`.

use redis_tests::{int, ok, server_time, Server};
use serde_json::json;

use crate::stage::{crawlspace, frontier, Outcome, FRONTIER};

fn chg(server: &Server, words: &[&str]) -> Outcome {
    crawlspace(server, FRONTIER, &[&["chg"], words].concat())
}

#[test]
fn the_old_name_is_still_known() {
    let server = Server::start();
    frontier(&server);
    let new = chg(&server, &["info", "--json"]).object();
    let old = crawlspace(&server, FRONTIER, &["frontier", "info", "--json"]).object();
    assert_eq!((&new["uris"], &old["uris"]), (&json!(4), &json!(4)));
}

#[test]
fn groups_crawls_and_everything_are_held_and_let_go() {
    let server = Server::start();
    let mut c = frontier(&server);
    for (what, shown, told) in [
        (
            &["a.example"][..],
            "group a.example",
            json!({"state": "paused", "chg": "a.example"}),
        ),
        (
            &["--execution", "crawl-1"],
            "crawl crawl-1",
            json!({"state": "paused", "execution": "crawl-1"}),
        ),
        (&[], "frontier '{web}:'", json!({"state": "paused"})),
    ] {
        let paused = chg(&server, &[&["pause", "--json"], what].concat());
        assert_eq!((paused.status, paused.object()), (0, told));
        let why = chg(&server, &["why", "a.example", "--json"]).object();
        assert_eq!(why["state"], "paused", "{what:?}");
        let resumed = chg(&server, &[&["resume"], what].concat());
        assert_eq!(resumed.out, format!("{shown}: resumed\n"), "{resumed:?}");
        let why = chg(&server, &["why", "a.example", "--json"]).object();
        assert_ne!(why["state"], "paused", "{what:?}");
    }
    let unknown = chg(&server, &["pause", "nowhere.example"]);
    assert!(
        unknown.status == 1 && unknown.errors.contains("NOCHG"),
        "{unknown:?}"
    );
    assert_eq!(chg(&server, &["pause", "a", "--execution", "b"]).status, 2);

    // A block, by the server's clock.
    let before = server_time(&mut c);
    let blocked = chg(&server, &["block", "a.example", "--for", "2h", "--json"]).object();
    let until = blocked["blocked-until"].as_u64().unwrap();
    let wanted = before as u64 + 7_200_000..=server_time(&mut c) as u64 + 7_200_000;
    assert!(wanted.contains(&until), "{blocked}");
    let why = chg(&server, &["why", "a.example", "--json"]).object();
    assert_eq!(
        (&why["state"], &why["blocked-until"]),
        (&json!("blocked"), &json!(until))
    );
    assert_eq!(
        chg(&server, &["block", "a.example", "--off"]).out,
        "group a.example: not blocked\n"
    );
    let exact = chg(&server, &["block", "a.example", "--until", "2030-01-01"]);
    assert_eq!(
        exact.out,
        "group a.example: blocked until 2030-01-01T00:00:00Z\n"
    );
    for wrong in [
        &["block", "a.example"][..],
        &["block", "a.example", "--for", "7"],
        &["block", "a.example", "--until", "tomorrow"],
        &["block", "a.example", "--off", "--for", "1s"],
    ] {
        assert_eq!(chg(&server, wrong).status, 2, "{wrong:?}");
    }
}

#[test]
fn limits_and_shared_gates_are_set() {
    let server = Server::start();
    frontier(&server);
    let limits = [
        "--parallel",
        "4",
        "--gap",
        "250ms",
        "--delay",
        "30s",
        "--budget",
        "7",
    ];
    let set = chg(&server, &[&["limit", "a.example"], &limits[..]].concat());
    assert_eq!(
        set.out, "group a.example: 4 at a time, 250 ms apart, a pause of 30.0 s, 7 more URIs\n",
        "{set:?}"
    );
    let why = chg(&server, &["why", "a.example", "--json"]).object();
    assert_eq!(
        (&why["parallel"], &why["gap"], &why["budget"]),
        (&json!(4), &json!(250), &json!(7))
    );
    assert_eq!(why["delay"], json!(30_000));
    let set = chg(
        &server,
        &["limit", "a.example", "--delay", "none", "--json"],
    );
    assert_eq!(set.object(), json!({"chg": "a.example", "delay": null}));
    let set = chg(
        &server,
        &["limit", "a.example", "--budget", "none", "--json"],
    );
    assert_eq!(set.object(), json!({"chg": "a.example", "budget": null}));
    assert_eq!(chg(&server, &["limit", "a.example"]).status, 2);
    assert_eq!(
        chg(&server, &["limit", "a.example", "--budget", "-1"]).status,
        2
    );

    let gate = chg(&server, &["group", "192.0.2.7", "a.example", "b.example"]);
    assert_eq!(
        gate.out, "2 groups: behind the gate of 192.0.2.7\n",
        "{gate:?}"
    );
    let why = chg(&server, &["why", "b.example", "--json"]).object();
    assert_eq!(why["group"], "192.0.2.7");
    let none = chg(&server, &["group", "", "b.example", "--json"]);
    assert_eq!(none.object(), json!({"group": "", "chgs": ["b.example"]}));
    let why = chg(&server, &["why", "b.example", "--json"]).object();
    assert_eq!(why["group"], json!(null));
}

#[test]
fn queues_are_moved_swept_and_dropped() {
    let server = Server::start();
    let mut c = frontier(&server);
    let moved = chg(&server, &["move", "b.example", "a.example"]);
    assert_eq!(
        moved.out, "1 URI moved; group a.example has 3\n",
        "{moved:?}"
    );
    let again = chg(&server, &["move", "b.example", "a.example"]);
    assert!(
        again.status == 1 && again.errors.contains("NOCHG"),
        "{again:?}"
    );
    let moved = chg(&server, &["move", "c.example", "d.example", "--json"]).object();
    let expected = json!({"from": "c.example", "to": "d.example", "moved": 1, "count": 1});
    assert_eq!(moved, expected);

    let swept = chg(&server, &["sweep", "--limit", "1", "--json"]).object();
    assert_eq!(swept, json!({"from-wait": 1, "from-busy": 0}));
    assert_eq!(
        chg(&server, &["sweep"]).out,
        "1 group came due, 0 leases ran out\n"
    );

    let refused = chg(&server, &["drop", "crawl-1"]);
    assert_eq!(refused.status, 2, "{refused:?}");
    assert!(
        refused.errors.starts_with("crawl crawl-1: 3 URIs queued\n"),
        "{refused:?}"
    );
    assert_eq!(ok!(c, "GET", format!("{FRONTIER}QCT")).text(), "4");
    let dropped = chg(&server, &["drop", "crawl-1", "--yes"]);
    assert_eq!(
        dropped.out, "crawl crawl-1: 3 URIs of 1 group dropped\n",
        "{dropped:?}"
    );
    let dropped = chg(&server, &["drop", "crawl-2", "--yes", "--json"]).object();
    assert_eq!(
        dropped,
        json!({"execution": "crawl-2", "groups": 1, "uris": 1})
    );
}

#[test]
fn leases_that_ran_out_and_faults_are_shown() {
    let server = Server::start();
    let mut c = frontier(&server);
    assert_eq!(chg(&server, &["expired"]).errors, "no lease ran out\n");
    ok!(c, "CHG.NEXT", FRONTIER, "LEASE", 1);
    let expired = redis_tests::until_some("the lease has run out", || {
        let expired = chg(&server, &["expired", "--json"]);
        (!expired.out.is_empty()).then_some(expired)
    });
    let report = expired.object();
    assert_eq!(report["chg"], "a.example");
    assert_eq!(report["uri"], "https://a.example/");
    assert_eq!(report["times"], 1);

    assert_eq!(chg(&server, &["check"]).status, 0);
    ok!(c, "HINCRBY", format!("{FRONTIER}EIDC"), "crawl-1", 7);
    assert_eq!(chg(&server, &["check"]).status, 1);
    let mended = chg(&server, &["repair", "--json"]);
    assert_eq!(
        (mended.status, &mended.object()["consistent"]),
        (0, &json!(false))
    );
    assert_eq!(chg(&server, &["check"]).status, 0);
    let sound = chg(&server, &["repair"]);
    assert!(
        sound.out.starts_with("The frontier is consistent.\n"),
        "{sound:?}"
    );
    assert_eq!(
        ok!(c, "HGET", format!("{FRONTIER}EIDC"), "crawl-1").text(),
        "3"
    );
    assert_eq!(ok!(c, "EXISTS", format!("{FRONTIER}QCT")), int(1));
}
