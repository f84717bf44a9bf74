//! Tests that jumps of the wall clock, in either direction, neither end nor extend a wait for a
//! claim.

use std::time::{Duration, Instant};

use redis_tests::{DedupeIndex, Reply, Shifted, Wire, bulk, int};

const P: &str = "p:";
const HOUR: i64 = Shifted::HOUR;
/// One second, plus one second for a loaded machine.
const SOON: Duration = Duration::from_secs(2);
/// Minimum time without a reply.
const QUIET: Duration = Duration::from_millis(1500);

/// Claims hash 1 for `px` milliseconds. Returns the token.
fn claim(c: &mut DedupeIndex, px: i64) -> String {
    let reply = c.ok(format!("CLAIM a #1 PX {px}"));
    assert_eq!(reply.items()[0], bulk("CLAIMED"), "{reply:?}");
    reply.items()[1].text()
}

/// Returns a client that waits for the claim on hash 1.
fn waiter(c: &mut DedupeIndex, block: u64) -> Wire {
    c.blocked(format!("CLAIM b #1 PX 60000 BLOCK {block}"))
}

#[track_caller]
fn soon(waiter: &mut Wire) -> Reply {
    let start = Instant::now();
    let reply = waiter.recv();
    assert!(start.elapsed() < SOON, "it took {:?}", start.elapsed());
    reply
}

#[test]
fn jumps_do_not_end_a_claim_with_waiters() {
    let Some(clock) = Shifted::start() else {
        return;
    };
    let mut c = DedupeIndex::of(&clock.server, P);
    let token = claim(&mut c, 60_000);
    let mut waits = [waiter(&mut c, 0), waiter(&mut c, 600000)];
    for hours in [1, -1, 100, 0] {
        clock.jump(hours * HOUR);
        let pending = c.ok("CLAIM c #1 PX 1000");
        assert_eq!(pending.items()[0], bulk("PENDING"), "{pending:?}");
        assert!(pending.items()[2].int() <= 60_000, "{pending:?}");
    }
    for wait in &mut waits {
        assert!(wait.is_silent_for(QUIET));
    }
    assert_eq!(c.ok(format!("ADD a TOKEN {token} @1")), int(1));
    assert_eq!(soon(&mut waits[0]).items()[0], bulk("CLAIMED"));
}

#[test]
fn jump_backwards_prolongs_neither_a_claim_nor_a_wait() {
    let Some(clock) = Shifted::start() else {
        return;
    };
    let mut c = DedupeIndex::of(&clock.server, P);
    claim(&mut c, 700);
    let mut long = waiter(&mut c, 600000);
    let mut short = waiter(&mut c, 400);
    clock.jump(-HOUR);
    assert_eq!(soon(&mut short).items()[0], bulk("PENDING"));
    assert_eq!(soon(&mut long).items()[0], bulk("CLAIMED"));
}

#[test]
fn jump_forwards_does_not_end_a_wait() {
    let Some(clock) = Shifted::start() else {
        return;
    };
    let mut c = DedupeIndex::of(&clock.server, P);
    let token = claim(&mut c, 600_000);
    let mut wait = waiter(&mut c, 60000);
    clock.jump(HOUR);
    assert!(wait.is_silent_for(QUIET));
    assert_eq!(c.ok(format!("UNCLAIM #1 {token}")), int(1));
    assert_eq!(soon(&mut wait).items()[0], bulk("CLAIMED"));
}
