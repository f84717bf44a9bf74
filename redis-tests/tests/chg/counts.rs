//! Counts neither drift nor fall below zero: the sum of `c`, the sum of `EIDC` and `QCT` are one.

use std::collections::BTreeMap;

use crate::stage::stage;
use redis_tests::{Lease, Rng, T0, random_step};

#[test]
fn every_uri_is_counted_three_times() {
    let (_server, mut f) = stage();
    let reply = f.ok(format!("ADD one a {T0} b {T0} a {T0}"));
    assert_eq!(reply.ints(), [1, 1, 2]);
    assert_eq!(f.ok(format!("ADD two a {T0}")).ints(), [3]);
    assert_eq!((f.count("a"), f.count("b")), (3, 1));
    assert_eq!((f.queued("one"), f.queued("two"), f.total()), (3, 1, 4));
    assert_eq!(f.sums(), [4, 4, 4]);
}

#[test]
fn done_takes_one_or_as_many_as_it_says() {
    let (_server, mut f) = stage();
    f.ok(format!("ADD one a {T0} a {T0} a {T0} a {T0}"));
    f.fetch("a", "AT 0 DONE one");
    assert_eq!((f.count("a"), f.queued("one"), f.total()), (3, 3, 3));
    f.fetch("a", "AT 0 DONE one 2");
    assert_eq!((f.count("a"), f.queued("one"), f.total()), (1, 1, 1));
}

#[test]
fn done_takes_no_more_than_there_is() {
    let (_server, mut f) = stage();
    f.ok(format!("ADD one a {T0} a {T0}"));
    f.ok(format!("ADD two a {T0}"));
    f.ok(format!("ADD one b {}", T0 + 9000));
    f.fetch("a", "AT 0 DONE one 1000000");
    assert_eq!((f.count("a"), f.count("b")), (1, 1));
    assert_eq!((f.queued("one"), f.queued("two"), f.total()), (1, 1, 2));
    f.fetch("a", "AT 0 DONE nobody 3");
    assert_eq!((f.count("a"), f.total()), (1, 2));
}

#[test]
fn add_is_all_or_nothing() {
    let (server, mut f) = stage();
    f.add("crawl", "a", T0 + 5);
    let before = server.snapshot();
    let long = "x".repeat(1025);
    for line in [
        format!("ADD crawl a {T0} b soon"),
        format!("ADD crawl new {T0} b -1"),
        format!("ADD crawl new {T0} {long} {T0}"),
        format!("ADD crawl new {T0} b"),
        format!("ADD crawl SEQ w 1 new {T0} b soon"),
        format!("ADDURI crawl a {T0} 0 http://a/ b {T0} deep http://b/"),
    ] {
        f.err(&line);
        server.snapshot().assert_same(&before, &line);
    }
}

#[test]
fn numbered_add_counts_once() {
    let (server, mut f) = stage();
    let line = format!("ADD crawl SEQ writer 1 a {T0} b {T0} a {T0}");
    assert_eq!(f.ok(&line).ints(), [1, 1, 2]);
    let before = server.snapshot();
    f.pass(5000);
    assert_eq!(f.ok(&line).ints(), [1, 1, 2]);
    let other = "ADD crawl SEQ writer 1 c 0";
    assert_eq!(
        f.ok(other).ints(),
        [1, 1, 2],
        "the number tells, not what is added"
    );
    server.snapshot().assert_same(&before, "the same number");
    assert_eq!(f.ok("ADD crawl SEQ writer 7 a 0").ints(), [3]);
    let before = server.snapshot();
    f.refused("ADD crawl SEQ writer 6 a 0", "STALE ");
    server.snapshot().assert_same(&before, "a lower number");
    // Every writer of every execution counts for itself.
    assert_eq!(f.ok("ADD crawl SEQ another 1 a 0").ints(), [4]);
    assert_eq!(f.ok("ADD second SEQ writer 1 a 0").ints(), [5]);
}

#[test]
fn numbered_add_is_answered_again_after_its_uris_are_done() {
    let (_server, mut f) = stage();
    let line = format!("ADD crawl SEQ writer 1 a {T0}");
    assert_eq!(f.ok(&line).ints(), [1]);
    f.fetch("a", "AT 0 DONE crawl");
    assert_eq!(f.ok(&line).ints(), [1]);
    f.take_none();
    assert_eq!(f.total(), 0);
}

#[test]
fn counts_agree_after_every_step_of_a_random_crawl() {
    let mut rng = Rng::new("counts_agree_after_every_step_of_a_random_crawl");
    let (server, mut f) = stage();
    for _ in 0..25 {
        f.wire.expect_ok(&["FLUSHALL"]);
        let (mut held, mut log) = (Vec::new(), Vec::new());
        for _ in 0..100 {
            log.push(random_step(&mut f, &mut rng, &mut held));
            let told = log[log.len().saturating_sub(30)..].join("\n");
            let [groups, executions, total] = f.sums();
            assert!(
                groups == executions && executions == total,
                "sum of c {groups}, of EIDC {executions}, QCT {total} after\n{told}"
            );
            let check = f.ok("CHECK");
            assert_eq!(
                check.field("consistent").int(),
                1,
                "{check:?} after\n{told}"
            );
        }
    }
    assert_eq!(server.info_number("panics"), 0);
}

#[test]
fn whatever_happened_in_a_random_crawl_everything_can_be_fetched_in_the_end() {
    let mut rng = Rng::new("whatever_happened_in_a_random_crawl_everything_can_be_fetched");
    let (_server, mut f) = stage();
    for _ in 0..40 {
        f.wire.expect_ok(&["FLUSHALL"]);
        let (mut held, mut log) = (Vec::new(), Vec::new());
        for _ in 0..80 {
            log.push(random_step(&mut f, &mut rng, &mut held));
        }
        // Nothing holds anybody back any more.
        f.ok("RESUME");
        for n in 0..6 {
            f.call(format!("RESUME host-{n}"));
            f.call(format!("BLOCK host-{n} UNTIL 0"));
            f.ok(format!("RESUME EXECUTION crawl-{n}"));
        }
        let mut rounds = 0;
        while f.total() > 0 {
            f.pass(1000);
            while let Some(lease) = f.try_take() {
                // Whose a counted URI was is not told, and one of another crawl takes nothing off.
                let done = match &lease.execution {
                    Some(own) => own.clone(),
                    None => format!("crawl-{} 1000", rng.below(3)),
                };
                f.release(&lease, format!("DELAY 500 DONE {done}"));
                log.push(format!("{lease:?}"));
            }
            rounds += 1;
            if rounds == 300 {
                let left = redis_tests::Snapshot::of(&mut f.wire);
                panic!(
                    "{} URIs are not fetched\n{left:?}\n{}",
                    f.total(),
                    log.join("\n")
                );
            }
        }
        f.assert_conserved();
    }
}

#[test]
fn every_uri_of_a_random_crawl_is_fetched_once_for_each_add() {
    let mut rng = Rng::new("every_uri_of_a_random_crawl_is_fetched_once_for_each_add");
    let (_server, mut f) = stage();
    let (mut added, mut done) = (BTreeMap::new(), BTreeMap::new());
    for _ in 0..300 {
        let chg = format!("host-{}", rng.below(20));
        let now = f.time();
        f.add("crawl", &chg, now + rng.below(50) as i64);
        *added.entry(chg).or_insert(0) += 1;
        f.pass(rng.below(20) as i64);
    }
    // Workers of which every third one dies with its lease.
    while f.total() > 0 {
        f.pass(40);
        for lease in Lease::all(&f.ok("NEXT LEASE 100 COUNT 5")) {
            if rng.chance(33) {
                continue;
            }
            f.release(&lease, format!("DELAY {} DONE crawl", rng.below(60)));
            *done.entry(lease.chg).or_insert(0) += 1;
        }
    }
    assert_eq!(added, done);
}
