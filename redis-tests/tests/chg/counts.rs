//! Counts are never wrong or negative: the sum of `c`, the sum of `EIDC` and `QCT` are always
//! equal.

use std::collections::BTreeMap;

use crate::stage::stage;
use crawlspace_compact::limits::chg::ID_BYTES;
use redis_tests::history::{self, Log, Stage, Verdict};
use redis_tests::{Frontier, Lease, Reply, Rng, Server, T0, int, must, random_step};

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
fn done_subtracts_one_or_the_given_count() {
    let (_server, mut f) = stage();
    f.ok(format!("ADD one a {T0} a {T0} a {T0} a {T0}"));
    f.fetch("a", "AT 0 DONE one");
    assert_eq!((f.count("a"), f.queued("one"), f.total()), (3, 3, 3));
    f.fetch("a", "AT 0 DONE one 2");
    assert_eq!((f.count("a"), f.queued("one"), f.total()), (1, 1, 1));
}

#[test]
fn done_subtracts_no_more_than_the_count() {
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
    let long = "x".repeat(ID_BYTES + 1);
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
        "a retry with the same number changes no count"
    );
    server.snapshot().assert_same(&before, "the same number");
    assert_eq!(f.ok("ADD crawl SEQ writer 7 a 0").ints(), [3]);
    let before = server.snapshot();
    f.refused("ADD crawl SEQ writer 6 a 0", "STALE ");
    server.snapshot().assert_same(&before, "a lower number");
    // Each writer of each execution has its own numbers.
    assert_eq!(f.ok("ADD crawl SEQ another 1 a 0").ints(), [4]);
    assert_eq!(f.ok("ADD second SEQ writer 1 a 0").ints(), [5]);
}

#[test]
fn repeated_numbered_add_gets_the_same_reply_after_its_uris_are_done() {
    let (_server, mut f) = stage();
    let line = format!("ADD crawl SEQ writer 1 a {T0}");
    assert_eq!(f.ok(&line).ints(), [1]);
    f.fetch("a", "AT 0 DONE crawl");
    assert_eq!(f.ok(&line).ints(), [1]);
    f.take_none();
    assert_eq!(f.total(), 0);
}

/// A random crawl. A step is the seed of one command, or fetches all remaining URIs.
struct Crawl {
    f: Frontier,
    held: Vec<Lease>,
    /// Number of random steps before all remaining URIs are fetched.
    left: usize,
}

impl Crawl {
    fn new(server: &Server, steps: usize) -> Crawl {
        let mut f = Frontier::at(server, T0);
        f.wire.expect_ok(&["FLUSHALL"]);
        Crawl {
            f,
            held: Vec::new(),
            left: steps,
        }
    }

    /// Removes all blocks, pauses and limits, and fetches all URIs.
    fn fetch_all(&mut self, log: &mut Log) -> Verdict {
        let (f, mut rng) = (&mut self.f, Rng::seeded(1));
        f.ok("RESUME");
        for n in 0..6 {
            f.call(format!("RESUME host-{n}"));
            f.call(format!("BLOCK host-{n} UNTIL 0"));
            f.ok(format!("RESUME EXECUTION crawl-{n}"));
        }
        for round in 0.. {
            if f.total() == 0 {
                break;
            }
            must!(round < 300, "URIs are not fetched: {}", f.total());
            f.pass(1000);
            while let Some(lease) = f.try_take() {
                // A lease does not name the execution of a counted URI. If the release names
                // another execution, nothing is removed.
                let counted = format!("crawl-{} 1000", rng.below(3));
                let done = lease.execution.clone().unwrap_or(counted);
                f.release(&lease, format!("DELAY 500 DONE {done}"));
                log.note(&[format!("{lease:?}").into_bytes()], &Reply::Nil);
            }
        }
        f.assert_conserved();
        Ok(())
    }
}

impl Stage for Crawl {
    type Step = Option<u64>;

    fn draw(&mut self, rng: &mut Rng) -> Option<u64> {
        self.left = self.left.checked_sub(1)?;
        Some(rng.bits())
    }

    fn run(&mut self, step: &Option<u64>, log: &mut Log) -> Verdict {
        let Some(seed) = *step else {
            return self.fetch_all(log);
        };
        let told = random_step(&mut self.f, &mut Rng::seeded(seed), &mut self.held);
        log.note(&[told.into_bytes()], &Reply::Nil);
        let [groups, executions, total] = self.f.sums();
        must!(
            groups == executions && executions == total,
            "counts differ: {groups} of c, {executions} of EIDC, {total} of QCT"
        );
        let check = self.f.ok("CHECK");
        must!(
            check.field("consistent") == int(1),
            "inconsistent: {check:?}"
        );
        Ok(())
    }
}

#[test]
fn counts_agree_after_every_step_of_a_random_crawl_and_everything_can_be_fetched_in_the_end() {
    let (server, _) = stage();
    let begin = |_: &mut Rng| Crawl::new(&server, 80);
    history::play("chg_counts", (50 * 81, 81), begin, drop);
    assert_eq!(server.info_number("panics"), 0);
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
    // Every third worker crashes while it has a lease.
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
