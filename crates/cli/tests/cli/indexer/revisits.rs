//! Tests revisits and their originals in any order.

use redis_tests::archive::{Kind, Shape, crawl};
use redis_tests::{Options, Relay, ok, until, with};

use crate::indexer::manifests::{files_in_order, reordered};
use crate::indexer::stage::{
    COPY, Indexer, Outcome, Stage, assert_over, import_keys, in_the_middle, killed, succeeded,
};

/// Returns a shape of crawls in which no payload is stored twice, so that any of them may count as the first.
fn plain() -> Shape {
    with!(Shape, plain: true, known: 50, waczs: 3, captures: 700)
}

/// Returns an import of the files of a single crawl.
fn import_of(stage: &Stage, crawl: usize) -> Indexer {
    let files = stage.files_of(crawl);
    let name = format!("crawl {crawl}.json");
    stage.import_of(stage.folder.manifest_of(&name, &files))
}

/// Counts the revisits of a crawl whose payloads only these other crawls stored.
fn revisits_of(stage: &Stage, crawl: usize, originals: &[usize]) -> usize {
    let stored = |payload: u64| {
        originals.iter().any(|&crawl| {
            let mut captures = stage.crawls[crawl].captures.iter();
            captures.any(|c| c.kind == Kind::Response && c.payload == payload)
        })
    };
    let revisits = stage.crawls[crawl].captures.iter();
    let revisits = revisits.filter(|c| c.kind == Kind::Revisit && stored(c.payload));
    revisits.count()
}

#[test]
fn order_of_the_manifest_does_not_matter_to_revisits() {
    let mut stage = Stage::with("any order", Options::new(), 4, plain());
    let mut c = stage.server.wire();
    for round in 0..3 {
        let (live, copy) = (format!("{{live-{round}}}:"), format!("{{copy-{round}}}:"));
        let mut listed = stage.folder.entries.clone();
        match round {
            0 => listed.reverse(),
            _ => stage.rng.shuffle(&mut listed),
        }
        for made in &stage.crawls {
            let (files, order) = files_in_order(made, &listed);
            crawl(&mut c, &live, &reordered(made, &order), &files);
        }
        let source = stage.folder.manifest_of("any.json", &listed);
        let import = stage.import_of(&source).prefix(&copy);
        import.jobs(round + 1).succeeds();
        let live = Outcome::of(&mut c, &live);
        Outcome::of(&mut c, &copy).assert_same(&live, "imported in any order");
        assert_over(&mut c, &copy);
    }
}

#[test]
fn revisit_is_settled_when_a_later_import_adds_its_original() {
    let stage = Stage::with("later", Options::new(), 2, plain());
    let report = import_of(&stage, 1).succeeds();
    let waiting = revisits_of(&stage, 1, &[0]);
    assert!(waiting > 10, "{waiting}");
    assert_eq!(report["unresolved"], waiting);
    let mut c = stage.server.wire();
    let alone = Outcome::of(&mut c, COPY);
    let own = revisits_of(&stage, 1, &[1]);
    let counted = alone.count("dupeUrls") as usize;
    assert_eq!(counted, own, "revisits with an original");
    assert!(import_keys(&mut c, COPY).contains(&"src:later".to_owned()));

    // Repeating the import adds and loses nothing.
    let report = import_of(&stage, 1).succeeds();
    assert_eq!(report["unresolved"], waiting);
    Outcome::of(&mut c, COPY).assert_same(&alone, "imported again");

    let report = stage.import().succeeds();
    assert_eq!(report["unresolved"], 0);
    stage.assert_once();
}

#[test]
fn originals_may_arrive_in_several_imports() {
    let stage = Stage::with("bit by bit", Options::new(), 4, plain());
    for crawl in [3, 1, 2, 0] {
        // Each import lists only this crawl: the others are tracked as removed, but their revisits still wait.
        import_of(&stage, crawl).jobs(2).succeeds();
    }
    stage.import().succeeds();
    stage.assert_once();
}

#[test]
fn killed_import_settles_nothing_twice() {
    let mut stage = Stage::with("settle", Options::new(), 3, plain());
    let relay = Relay::to(&stage.server);
    for round in 0..3 {
        let prefix = format!("{{settle-{round}}}:");
        for crawl in [2, 1] {
            import_of(&stage, crawl).prefix(&prefix).succeeds();
        }
        let mut bytes = 1_000;
        loop {
            relay.hold_after(stage.rng.below(bytes));
            let mut program = stage.import_over(&relay, &prefix).start();
            in_the_middle(&relay, &mut program);
            if !relay.holds() {
                relay.go_on();
                succeeded(&program.end());
                break;
            }
            killed(program, &relay);
            // Interrupt later each time, so that the loop ends.
            bytes = bytes * 3 / 2 + 1_000;
        }
        stage.assert_once_in(&prefix);
    }
}

#[test]
fn two_indexers_settle_pending_revisits_once() {
    let stage = Stage::with("settle twice", Options::new(), 3, plain());
    for crawl in [2, 1] {
        import_of(&stage, crawl).succeeds();
    }
    for one in [stage.import().start(), stage.import().start()] {
        succeeded(&one.end());
    }
    stage.assert_once();
}

#[test]
fn pending_revisits_of_a_removed_crawl_are_deleted() {
    let stage = Stage::with("forgotten", Options::new(), 2, plain());
    import_of(&stage, 1).succeeds();
    let mut c = stage.server.wire();
    ok!(c, "DEDUPE.REMOVE", COPY, stage.crawls[1].id);
    import_of(&stage, 0).succeeds();
    assert_over(&mut c, COPY);
    let crawls = redis_tests::set_key(&mut c, &format!("{COPY}allcrawls"));
    assert_eq!(crawls, [stage.crawls[0].id.clone()]);
    // The crawl can be imported again.
    stage.import().succeeds();
    stage.assert_once();
}

#[test]
fn crawl_removed_before_its_revisits_are_counted_stays_removed() {
    let stage = Stage::with("removed between", Options::new(), 3, plain());
    let relay = Relay::to(&stage.server);
    let mut c = stage.server.wire();
    let id = &stage.crawls[1].id;
    // Kill the import when all responses are added and no revisit of this crawl is counted.
    until("a kill hits the moment after all commits", || {
        let mut program = stage.import_over(&relay, COPY).start();
        until("all crawls are committed", || {
            program.ended().is_some() || ok!(c, "SCARD", format!("{COPY}allcrawls")).int() == 3
        });
        relay.hold_after(0);
        killed(program, &relay);
        let counted = ok!(c, "HGET", format!("{COPY}h:{id}:counts"), "dupeUrls");
        if !counted.is_nil() {
            for key in ok!(c, "KEYS", format!("{COPY}*")).items() {
                ok!(c, "DEL", key.bytes());
            }
        }
        counted.is_nil()
    });
    ok!(c, "DEDUPE.REMOVE", COPY, id);
    import_of(&stage, 2).succeeds();
    assert_over_with_waiting(&mut c);
    let crawls = redis_tests::set_key(&mut c, &format!("{COPY}allcrawls"));
    assert!(!crawls.iter().any(|one| one == id), "{crawls:?}");
    stage.import().succeeds();
    stage.assert_once();
}

/// Asserts that nothing is queued; revisits may wait for originals.
fn assert_over_with_waiting(c: &mut redis_tests::Wire) {
    let queues = ["src:q", "src:r", "pending:q", "pending:r", "src:qset"];
    let left = import_keys(c, COPY);
    let is_queue = |key: &String| queues.contains(&&key[..]);
    assert!(!left.iter().any(is_queue), "{left:?}");
}

#[test]
fn file_removed_and_imported_again_has_its_revisits_once() {
    let stage = Stage::with("again", Options::new(), 3, plain());
    import_of(&stage, 1).succeeds();
    let id = &stage.crawls[1].id;
    ok!(stage.server.wire(), "DEDUPE.REMOVE", COPY, id);
    import_of(&stage, 1).succeeds();
    stage.import().succeeds();
    stage.assert_once();
}
