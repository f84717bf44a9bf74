//! Tests that a dropped crawl stays dropped while workers hold leases and may not know about the
//! drop. Also tests that an idle group whose pause has ended does not exist for clients that send
//! `NOW`.

use crate::stage::stage;
use redis_tests::{Frontier, T0, array, int, ok, release, simulated};

/// Adds a URI. Returns true if it was accepted, stored and counted.
fn is_taken_in(f: &mut Frontier, crawl: &str) -> bool {
    let kept = f.ok(format!(
        "ADDURI {crawl} other 0 0 http://other/{crawl} other 0 0 u"
    ));
    let counted = f.ok(format!("ADD {crawl} other 0"));
    let nils = kept.items().iter().chain(counted.items());
    let nils = nils.filter(|count| count.is_nil()).count();
    assert!(nils == 0 || nils == 3, "{kept:?} {counted:?}");
    nils == 0
}

#[test]
fn held_lease_cannot_add_links_to_a_dropped_crawl() {
    for add in ["ADDURI crawl h 0 0 http://h/", "ADD crawl h 0"] {
        let (server, mut f) = stage();
        f.ok(add);
        let lease = Frontier::at(&server, T0).ok("NEXT LEASE 1000").items()[0].clone();
        let token = lease.items()[1].int();
        assert_eq!(f.ok("DROP crawl").ints(), [1, 1]);
        assert!(!is_taken_in(&mut f, "crawl"), "{add}");
        assert!(is_taken_in(&mut f, "another"));
        f.ok(format!("RELEASE h {token} DELAY 0 DONE crawl"));
        f.pass(999);
        assert!(!is_taken_in(&mut f, "crawl"));
        f.assert_conserved();
        f.pass(1);
        assert!(is_taken_in(&mut f, "crawl"));
        f.ok("NEXT");
        let marks = f.read(&["EXISTS", "{f}:chg_dropped"]).int();
        assert_eq!(marks, 0, "an expired mark is deleted");
    }
}

#[test]
fn dropped_crawl_without_leases_may_begin_again_at_once() {
    let (_server, mut f) = stage();
    f.ok("ADDURI crawl h 0 0 http://h/");
    f.ok("DROP crawl");
    assert!(is_taken_in(&mut f, "crawl"));
}

#[test]
fn extended_lease_keeps_its_dropped_crawl_closed_for_longer() {
    let (_server, mut f) = stage();
    f.ok("ADDURI crawl h 0 0 http://h/");
    let lease = f.take("h");
    f.ok("DROP crawl");
    f.ok(format!("EXTEND h {} 5000000", lease.token));
    f.pass(4_999_999);
    assert!(!is_taken_in(&mut f, "crawl"));
    f.ok(release(&lease, "AT 0"));
    f.pass(1);
    assert!(is_taken_in(&mut f, "crawl"));
}

#[test]
fn resume_lets_a_dropped_crawl_begin_again() {
    let (_server, mut f) = stage();
    f.ok("ADDURI crawl h 0 0 http://h/");
    f.take("h");
    f.ok("PAUSE EXECUTION crawl");
    f.ok("DROP crawl");
    assert!(!is_taken_in(&mut f, "crawl"));
    f.ok("RESUME EXECUTION crawl");
    assert!(is_taken_in(&mut f, "crawl"));
}

#[test]
fn mark_of_a_dropped_crawl_outlives_a_restart() {
    let mut server = simulated().start();
    let mut f = Frontier::at(&server, T0);
    f.ok("ADDURI crawl h 0 0 http://h/");
    f.take("h");
    f.ok("DROP crawl");
    ok!(f.wire, "SAVE");
    server.restart();
    let mut f = Frontier::at(&server, T0);
    assert!(!is_taken_in(&mut f, "crawl"));
}

#[test]
fn idle_group_does_not_exist_for_any_command_after_its_pause() {
    for command in ["NEXT", "SWEEP", "ADD crawl other 0", "REPAIR", "EXPIRED"] {
        let (_server, mut f) = stage();
        f.add("crawl", "h", 0);
        f.fetch("h", "DELAY 1000 DONE crawl");
        f.pass(999);
        f.ok(command);
        assert!(f.exists("h"), "{command}");
        f.pass(1);
        f.ok(command);
        assert!(!f.exists("h"), "{command}");
    }
    let (_server, mut f) = stage();
    f.add("crawl", "h", 0);
    f.fetch("h", "DELAY 1000 DONE crawl");
    f.pass(999);
    assert_eq!(
        (f.state("h").as_str(), f.figure("groups-idle")),
        ("idle", 1)
    );
    assert_eq!(f.ok("CHECK").field("groups").int(), 1);
    f.pass(1);
    f.refused("WHY h", "NOCHG");
    assert_eq!(f.figure("groups-idle"), 0);
    assert_eq!(f.ok("CHECK").field("groups").int(), 0);
    assert!(f.exists("h"), "read commands delete nothing");
}

#[test]
fn dropped_group_loses_the_uris_of_all_and_keeps_its_pause_and_its_lease() {
    let (_server, mut f) = stage();
    f.add("counting", "host", T0);
    f.add("counting", "host", T0);
    for n in 0..300 {
        f.ok(format!(
            "ADDURI keeping-{} host {T0} 0 http://host/{n}",
            n % 3
        ));
    }
    f.add("counting", "other", T0 + 5);
    f.ok(format!("ADDURI keeping-0 other {} 0 http://other/", T0 + 5));
    let lease = f.take("host");
    assert_eq!(f.ok("DROP GROUP host"), array([int(4), int(302)]));
    assert_eq!((f.count("host"), f.total()), (0, 2));
    assert_eq!((f.queued("counting"), f.queued("keeping-0")), (1, 1));
    assert_eq!(f.place("host"), "busy");
    f.assert_conserved();
    // The crawls continue: a new URI is accepted and leased after the current lease and its pause.
    let execution = lease.execution.clone().unwrap_or("counting".to_owned());
    assert_eq!(
        f.release(&lease, format!("DELAY 1000 DONE {execution}")),
        T0 + 1000
    );
    assert_eq!((f.count("host"), f.total()), (0, 2));
    assert_eq!(f.add("keeping-1", "host", T0), 1);
    assert_eq!(f.due("host"), Some(T0 + 1000));
    assert_eq!(f.ok("DROP GROUP host"), array([int(1), int(1)]));
    assert_eq!(f.ok("DROP GROUP host"), array([int(0), int(0)]));
    assert_eq!(f.ok("DROP GROUP nobody"), array([int(0), int(0)]));
    assert_eq!(f.ok("DROP other"), array([int(0), int(0)]));
    assert_eq!(f.place("other"), "wait");
}

#[test]
fn leased_uri_of_a_dropped_group_is_not_put_back() {
    let (_server, mut f) = stage();
    for ending in ["DELAY 0", "DELAY 0 RETRY 1", "LAPSE"] {
        let now = f.time();
        f.ok(format!("ADDURI crawl host {now} 0 http://host/"));
        let lease = f.take("host");
        assert_eq!(f.ok("DROP GROUP host"), array([int(1), int(1)]), "{ending}");
        match ending {
            "LAPSE" => f.pass(3_600_000),
            ending => drop(f.release(&lease, ending)),
        }
        f.take_none();
        assert_eq!(f.total(), 0, "{ending}");
        f.assert_conserved();
    }
}

#[test]
fn execution_may_be_called_group() {
    let (_server, mut f) = stage();
    f.add("GROUP", "host", T0);
    assert_eq!(f.ok("DROP GROUP"), array([int(1), int(1)]));
}
