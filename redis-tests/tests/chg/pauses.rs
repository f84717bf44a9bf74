//! The pause after a fetch, computed from the options of the release.

use crate::stage::stage;
use crawlspace_compact::limits::chg as limits;
use redis_tests::{Frontier, T0, TEN_YEARS, int, ok, release, rows};

const DAY: i64 = limits::MAX_BACKOFF as i64;

/// Returns the pause of a new group after a release with these options.
fn pause(f: &mut Frontier, facts: &str) -> i64 {
    let now = f.time();
    f.wire.expect_ok(&["FLUSHALL"]);
    f.ok(format!("ADD crawl host {now} host {now}"));
    let lease = f.take("host");
    f.release(&lease, format!("{facts} DONE crawl")) - now
}

/// Leases `host` when it is due, and returns the pause after the release with these options.
fn next_pause(f: &mut Frontier, facts: &str) -> i64 {
    f.now = f.due("host").max(f.now);
    let lease = f.take("host");
    let now = f.time();
    f.release(&lease, facts) - now
}

#[test]
fn pause_follows_from_the_time_the_fetch_took() {
    let (_server, mut f) = stage();
    for (facts, ms) in rows![
        "ELAPSED 1000", 1000; "ELAPSED 1000 FACTOR 2.5", 2500; "ELAPSED 1000 FACTOR 10", 10_000;
        "ELAPSED 1000 FACTOR 0.25", 250; "ELAPSED 1000 FACTOR 0", 0; "ELAPSED 0", 0;
        "ELAPSED 0 FACTOR 1000", 0; "ELAPSED 100 MIN 500", 500; "ELAPSED 9000 MAX 3000", 3000;
        "ELAPSED 2000 MIN 500 MAX 3000", 2000; "ELAPSED 100 FACTOR 6 MIN 500 MAX 3000", 600;
        "ELAPSED 100 MIN 700 MAX 700", 700; "ELAPSED 9000 MAX 0", 0;
    ] {
        assert_eq!(pause(&mut f, facts), ms, "{facts}");
    }
}

#[test]
fn requested_delay_of_the_host_is_the_minimum() {
    let (_server, mut f) = stage();
    for (facts, ms) in rows![
        "ELAPSED 100 CRAWLDELAY 5000", 5000; "ELAPSED 9000 MAX 3000 CRAWLDELAY 5000", 5000;
        "ELAPSED 9000 CRAWLDELAY 5000", 9000; "ELAPSED 100 RETRYAFTER 7000", 7000;
        "ELAPSED 100 MAX 50 CRAWLDELAY 5000 RETRYAFTER 7000", 7000;
        "ELAPSED 100 CRAWLDELAY 8000 RETRYAFTER 7000", 8000; "ELAPSED 9000 CRAWLDELAY 0 RETRYAFTER 0", 9000;
    ] {
        assert_eq!(pause(&mut f, facts), ms, "{facts}");
    }
}

#[test]
fn trouble_doubles_the_pause() {
    let (_server, mut f) = stage();
    for (facts, ms) in rows![
        "ELAPSED 100 STATUS 503", 2000; "ELAPSED 5000 STATUS 503", 10_000;
        "ELAPSED 9000 MAX 3000 STATUS 503", 6000; "ELAPSED 100 MIN 2500 STATUS 503", 5000;
        "ELAPSED 100 CRAWLDELAY 30000 STATUS 503", 30_000;
        "ELAPSED 100 RETRYAFTER 120000 STATUS 429", 120_000; "ELAPSED 100 RETRYAFTER 1 STATUS 429", 2000;
        "ELAPSED 100000000 STATUS 503", DAY.max(100_000_000);
    ] {
        assert_eq!(pause(&mut f, facts), ms, "{facts}");
    }
}

#[test]
fn statuses_that_count_as_trouble() {
    let (_server, mut f) = stage();
    let ends = limits::TROUBLE
        .iter()
        .flat_map(|range| [*range.start(), *range.end()]);
    let beside = (limits::TROUBLE.iter()).flat_map(|range| [range.start() - 1, range.end() + 1]);
    let none = [200, 204, 301, 304, 403, 404, 410, 500, 0, 999];
    for status in ends.chain([-1, -404, -9999]) {
        let facts = format!("ELAPSED 10 STATUS {status}");
        assert_eq!(pause(&mut f, &facts), 2000, "{status}");
    }
    for status in none.into_iter().chain(beside) {
        let facts = format!("ELAPSED 10 STATUS {status}");
        assert_eq!(pause(&mut f, &facts), 10, "{status}");
    }
}

#[test]
fn repeated_trouble_backs_off_further_up_to_a_day_and_success_ends_it() {
    let (_server, mut f) = stage();
    f.ok(format!("ADD crawl host {T0} host {T0}"));
    for step in 1..=6 {
        let pause = next_pause(&mut f, "ELAPSED 10 STATUS 503");
        assert_eq!(pause, 1000 << step, "step {step}");
        assert_eq!(f.why("host").field("backoff"), int(step));
    }
    for _ in 0..20 {
        assert!(next_pause(&mut f, "ELAPSED 10 STATUS 503") <= DAY);
    }
    assert_eq!(next_pause(&mut f, "ELAPSED 10 STATUS -1"), DAY);
    assert_eq!(f.why("host").field("backoff"), int(17));
    assert_eq!(next_pause(&mut f, "ELAPSED 5000 STATUS -1"), DAY);
    assert_eq!(next_pause(&mut f, "ELAPSED 10 STATUS 200"), 10);
    assert_eq!(f.why("host").field("backoff"), int(0));
    assert_eq!(next_pause(&mut f, "ELAPSED 10 STATUS 503"), 2000);
}

#[test]
fn release_without_a_status_leaves_the_back_off() {
    let (_server, mut f) = stage();
    f.ok(format!("ADD crawl host {T0} host {T0}"));
    assert_eq!(next_pause(&mut f, "ELAPSED 10 STATUS 503"), 2000);
    assert_eq!(next_pause(&mut f, "ELAPSED 10"), 10);
    assert_eq!(next_pause(&mut f, "DELAY 5"), 5);
    assert_eq!(next_pause(&mut f, "ELAPSED 10 STATUS 503"), 4000);
}

#[test]
fn fetches_that_began_before_the_trouble_are_the_same_incident() {
    let (_server, mut f) = stage();
    f.ok("LIMIT host PARALLEL 3");
    f.ok(format!("ADD crawl{}", format!(" host {T0}").repeat(6)));
    let leases = [f.take("host"), f.take("host"), f.take("host")];
    f.pass(10);
    for lease in &leases {
        let now = f.time();
        let due = f.release(lease, "ELAPSED 10 STATUS 503");
        assert!(due <= now + 2000, "{} ms", due - now);
        f.pass(10);
    }
    assert_eq!(f.why("host").field("backoff"), int(1));
    assert_eq!(next_pause(&mut f, "ELAPSED 10 STATUS 503"), 4000);
}

#[test]
fn back_off_outlives_the_last_uri_until_the_gate_opens() {
    let (_server, mut f) = stage();
    f.add("crawl", "host", T0);
    let lease = f.take("host");
    let gate = f.release(&lease, "ELAPSED 10 STATUS 503 DONE crawl");
    assert_eq!(gate, T0 + 2000);
    f.pass(5);
    f.add("crawl", "host", T0);
    assert_eq!(f.due("host"), Some(gate));
    assert_eq!(next_pause(&mut f, "ELAPSED 10 STATUS 503"), 4000);
}

#[test]
fn pause_of_more_than_ten_years_is_refused() {
    let (server, mut f) = stage();
    f.add("crawl", "host", T0);
    let lease = f.take("host");
    let before = server.snapshot();
    let years = 11 * 365 * DAY;
    for facts in [
        format!("ELAPSED {years}"),
        format!("ELAPSED 1 MIN {years}"),
        format!("DELAY {years}"),
    ] {
        f.refused(release(&lease, &facts), "ERR ");
        server.snapshot().assert_same(&before, &facts);
    }
    // A product beyond the maximum is clamped.
    let due = f.release(&lease, format!("ELAPSED {} FACTOR 1000", 365 * DAY));
    let pause = due - T0;
    assert!((9 * 365 * DAY..=10 * 366 * DAY).contains(&pause), "{pause}");
}

#[test]
fn requested_wait_is_clamped_and_counted() {
    let week = 7 * DAY;
    for (setting, word, wait, pause) in rows![
        None, "CRAWLDELAY", "-1", 700; None, "CRAWLDELAY", "-99999999999999999999", 700;
        None, "CRAWLDELAY", "99999999999999999999", week; None, "RETRYAFTER", "0800", 800;
        None, "RETRYAFTER", "-86400000", 700; None, "RETRYAFTER", "604800001", week;
        None, "RETRYAFTER", "604800000", week; None, "RETRYAFTER", "800", 800;
        Some(1000), "RETRYAFTER", "1001", 1000; Some(1000), "CRAWLDELAY", "1000", 1000;
        Some(TEN_YEARS), "RETRYAFTER", "315619200001", TEN_YEARS;
    ] {
        let (server, mut f) = stage();
        if let Some(most) = setting {
            ok!(f.wire, "CONFIG", "SET", "crawlspace.chg-max-pause", most);
        }
        f.add("crawl", "host", T0);
        let lease = f.take("host");
        // A repeated release counts once.
        for _ in 0..2 {
            let due = f.release(&lease, format!("ELAPSED 700 {word} {wait} DONE crawl"));
            assert_eq!(due - T0, pause, "{word} {wait}");
        }
        let is_clamped = wait.parse() != Ok(pause) && wait != "0800";
        let clamped = server.info("crawlspace_chg_clamped").expect("a metric");
        assert_eq!(clamped, u8::from(is_clamped).to_string(), "{word} {wait}");
    }
    let (_server, mut f) = stage();
    for refused in ["999", "315619200001", "-1", "x"] {
        let reply = f
            .wire
            .call(&["CONFIG", "SET", "crawlspace.chg-max-pause", refused]);
        assert!(reply.is_error(), "{refused}: {reply:?}");
    }
}

#[test]
fn pauses_are_respected_and_info_shows_it() {
    let (_server, mut f) = stage();
    for (chg, facts) in [
        ("a", "ELAPSED 700"),
        ("b", "DELAY 300"),
        ("c", "ELAPSED 10 STATUS 503"),
    ] {
        let now = f.time();
        f.ok(format!("ADD crawl {chg} {now} {chg} {now}"));
        let lease = f.take(chg);
        f.release(&lease, format!("{facts} DONE crawl"));
    }
    f.pass(300);
    f.take("b");
    f.pass(500);
    f.take("a");
    f.pass(10_000);
    f.take("c");
    let info = f.ok("INFO");
    let number = |field: &str| info.field(field).int();
    assert_eq!(number("pauses-observed"), 3);
    assert_eq!(number("smallest-pause-ms"), 300);
    assert_eq!(number("smallest-pause-asked-ms"), 300);
    assert_eq!(number("smallest-margin-ms"), 0);
}
