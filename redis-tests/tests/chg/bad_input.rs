//! Bad input that only a frontier can receive: unusual times, ids and scores.

use crate::stage::{real_stage, stage};
use redis_tests::matrix::family;
use redis_tests::{BusyFrontier, Frontier, Lease, Server, T0, TEN_YEARS, ok, rows, simulated};

#[test]
fn simulated_time_is_refused_by_default() {
    let server = Server::start();
    let mut f = Frontier::at(&server, T0);
    let chg = family("CHG", "");
    let state = chg.fill(&mut simulated().start().wire(), "{f}:");
    // Samples that block use the server's own clock.
    for line in chg.samples.iter().filter(|line| !line.contains("BLOCK 1")) {
        let error = f.wire.expect_error(&state.words(line));
        let named = ["NOW", "chg-simulated-time"].map(|word| error.contains(word));
        assert!(
            error.starts_with("ERR ") && named == [true; 2],
            "{line}: {error}"
        );
    }
    assert_eq!(server.snapshot().names(), [""; 0]);
    let setting = ok!(f.wire, "CONFIG", "GET", "crawlspace.chg-simulated-time");
    assert_eq!(setting.pairs()[0].1.text(), "no");
    let setting = "crawlspace.chg-simulated-time";
    ok!(f.wire, "CONFIG", "SET", setting, "yes");
    f.add("crawl", "host", T0);
    f.take("host");
}

#[test]
fn execution_called_now_is_an_execution() {
    let (_server, mut f) = real_stage();
    // `NOW` is an option only if an integer follows it.
    assert_eq!(f.ok("ADD NOW host 0").ints(), [1]);
    assert_eq!(f.queued("NOW"), 1);
    f.fetch("host", "AT 0 DONE NOW");
}

#[test]
fn ids_are_any_bytes() {
    let (_server, mut f) = stage();
    let all: Vec<u8> = (0..=255).collect();
    let long = vec![b'y'; 1024];
    let odd: [&[u8]; 9] = [
        b"\0",
        b"\r\n",
        b" ",
        b"EXECUTION",
        b"NEXT",
        b"SEQ",
        b"chg_wait",
        &all,
        &long,
    ];
    for id in odd {
        let now = T0.to_string().into_bytes();
        let add: [&[u8]; 7] = [b"CHG.ADD", b"{f}:", b"NOW", &now, id, id, b"0"];
        assert_eq!(f.wire.expect_ok(&add).ints(), [1], "{}", id.escape_ascii());
        let reply = f.ok("NEXT");
        let lease = &reply.items()[0];
        assert_eq!(lease.items()[0].bytes(), id);
        let token = lease.items()[1].int().to_string().into_bytes();
        let done: [&[u8]; 10] = [
            b"CHG.RELEASE",
            b"{f}:",
            b"NOW",
            &now,
            id,
            &token,
            b"AT",
            b"0",
            b"DONE",
            id,
        ];
        f.wire.expect_ok(&done);
        f.assert_conserved();
        assert_eq!(f.total(), 0);
    }
}

#[test]
fn times_as_far_as_ten_years_are_taken() {
    let (_server, mut f) = stage();
    let far = TEN_YEARS - 86_400_000;
    f.add("crawl", "far", T0 + far);
    assert_eq!(f.due("far"), Some(T0 + far));
    f.add("crawl", "host", T0);
    let lease = Lease::only(&f.ok(format!("NEXT LEASE {far}")));
    assert_eq!(lease.deadline, T0 + far);
    assert_eq!(f.release(&lease, format!("DELAY {far}")), T0 + far);
}

#[test]
fn scores_and_members_that_make_no_sense_do_no_harm() {
    let mut server = simulated().plain().start();
    let mut c = server.wire();
    let chg = family("CHG", "");
    for (queue, score, member) in rows![
        "chg_wait", "-inf", "waiting"; "chg_wait", "inf", "waiting"; "chg_wait", "-5", "";
        "chg_wait", "1e300", "nobody"; "chg_busy", "-inf", "held"; "chg_busy", "inf", "held";
        "chg_busy", "0", "nobody"; "chg_busy", "0", ""; "chg_idle", "-inf", "idle";
        "chg_idle", "0", "waiting"; "chg_idle", "0", ""; "chg_past", "0", "waiting";
    ] {
        ok!(c, "FLUSHALL");
        let state = chg.fill(&mut c, "{f}:");
        let mut f = Frontier::at(&server, state.now.expect("simulated"));
        let key = f.key(queue);
        ok!(f.wire, "ZADD", key, score, member);
        for line in chg.samples {
            f.wire.call(&state.words(line));
        }
        assert_eq!(server.info_number("panics"), 0, "{queue} {score} {member}");
        f.ok("REPAIR");
        f.assert_conserved();
    }
    let long = "z".repeat(5000);
    let mut f = Frontier::at(&server, T0);
    ok!(f.wire, "FLUSHALL");
    BusyFrontier::build(&mut f);
    ok!(f.wire, "LPUSH", "{f}:chg_ready", "", long, "\0");
    for _ in 0..5 {
        f.call("NEXT");
    }
    assert!(server.is_alive());
    assert_eq!(server.info_number("panics"), 0);
}
