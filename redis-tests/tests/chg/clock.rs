//! Tests that jumps of the wall clock, in either direction, delay a client by at most one second.

use std::time::{Duration, Instant};

use redis_tests::{Frontier, Lease, Shifted, blocked, nil, release, within};

const F: &str = "{f}:";
const HOUR: i64 = Shifted::HOUR;
/// One second, plus one second for a loaded machine.
const SOON: Duration = Duration::from_secs(2);

/// Reads the reply, which must arrive within [`SOON`].
#[track_caller]
fn soon(what: &str, waiter: &mut Frontier) -> redis_tests::Reply {
    let start = Instant::now();
    let reply = within(Duration::from_secs(15), || {
        waiter.wire.has_reply().then(|| waiter.wire.recv())
    });
    let took = start.elapsed();
    let reply = reply.unwrap_or_else(|| panic!("{what}: nothing came"));
    assert!(took < SOON, "{what}: it took {took:?}");
    reply
}

#[test]
fn jump_over_the_due_time_wakes_the_waiter() {
    let Some(clock) = Shifted::start() else {
        return;
    };
    let mut f = Frontier::real(&clock.server);
    let due = f.time() + HOUR / 2;
    f.add("crawl", "host", due);
    let mut waiter = blocked(&clock.server, F, "NEXT BLOCK 0");
    clock.jump(HOUR);
    let lease = Lease::only(&soon("a due group", &mut waiter));
    assert_eq!((lease.chg.as_str(), lease.n), ("host", due));
    waiter.release(&lease, "AT 0 DONE crawl");
}

#[test]
fn jump_over_a_deadline_wakes_the_waiter() {
    let Some(clock) = Shifted::start() else {
        return;
    };
    let mut f = Frontier::real(&clock.server);
    f.add("crawl", "host", 0);
    let old = f.take("host");
    let mut waiter = blocked(&clock.server, F, "NEXT BLOCK 0");
    clock.jump(HOUR);
    let new = Lease::only(&soon("a lease that ended", &mut waiter));
    assert!(new.token > old.token);
    f.refused(release(&old, "AT 0"), "STALE ");
}

#[test]
fn jump_backwards_does_not_hold_up_a_group_that_comes_due() {
    let Some(clock) = Shifted::start() else {
        return;
    };
    let mut f = Frontier::real(&clock.server);
    let due = f.time() + 300;
    f.add("crawl", "host", due);
    let mut waiter = blocked(&clock.server, F, "NEXT BLOCK 0");
    clock.jump(-HOUR);
    assert_eq!(Lease::only(&soon("a due group", &mut waiter)).chg, "host");
}

#[test]
fn jump_backwards_does_not_hold_up_a_lease_that_ends() {
    let Some(clock) = Shifted::start() else {
        return;
    };
    let mut f = Frontier::real(&clock.server);
    f.add("crawl", "host", 0);
    f.ok("NEXT LEASE 300");
    let mut waiter = blocked(&clock.server, F, "NEXT BLOCK 0");
    clock.jump(-HOUR);
    assert_eq!(
        Lease::only(&soon("a lease that ended", &mut waiter)).chg,
        "host"
    );
}

#[test]
fn jump_backwards_does_not_lengthen_a_wait() {
    let Some(clock) = Shifted::start() else {
        return;
    };
    let mut waiter = blocked(&clock.server, F, "NEXT BLOCK 400");
    clock.jump(-HOUR);
    assert_eq!(soon("the end of the wait", &mut waiter), nil());
}

#[test]
fn jump_forwards_causes_no_spurious_wakeup() {
    let Some(clock) = Shifted::start() else {
        return;
    };
    let mut f = Frontier::real(&clock.server);
    let due = f.time() + 24 * HOUR;
    f.add("crawl", "host", due);
    let mut waiter = blocked(&clock.server, F, "NEXT BLOCK 0");
    clock.jump(HOUR);
    assert!(waiter.wire.is_silent_for(Duration::from_millis(1500)));
    f.add("crawl", "now", 0);
    assert_eq!(Lease::only(&soon("a new group", &mut waiter)).chg, "now");
}

#[test]
fn frontier_works_on_through_jumps_in_both_directions() {
    let Some(clock) = Shifted::start() else {
        return;
    };
    let mut f = Frontier::real(&clock.server);
    let mut last = 0;
    for (n, hours) in [5, -3, 0, 100, -100, 1].into_iter().enumerate() {
        clock.jump(hours * HOUR);
        let chg = format!("host-{n}");
        f.add("crawl", &chg, 0);
        let mut waiter = Frontier::real(&clock.server);
        waiter.send("NEXT BLOCK 0");
        let lease = Lease::only(&soon("a new group", &mut waiter));
        assert_eq!(lease.chg, chg);
        assert!(lease.token > last, "tokens only grow");
        last = lease.token;
        f.release(&lease, "AT 0 DONE crawl");
        f.assert_conserved();
    }
    assert_eq!(clock.server.info_number("panics"), 0);
}
