//! The data of a family belong to the database that the client selected. `FLUSHDB`, `FLUSHALL` and
//! `SWAPDB` must also affect the cached data.

use redis_tests::matrix::{Family, PREFIX};
use redis_tests::{Reply, Wire, ok};

use crate::stage::{Outcome, Stage, reads, steady, steady_data};

for_every_family!(
    each_sample_has_the_same_effect_in_another_database,
    flush_empties_every_cache,
    swapdb_also_swaps_the_caches,
);

fn in_database(stage: &Stage, number: u32) -> Wire {
    let mut wire = stage.server.wire();
    ok!(wire, "SELECT", number);
    wire
}

fn each_sample_has_the_same_effect_in_another_database(family: &Family) {
    let mut stage = Stage::of(family);
    for line in stage.family.samples {
        let alone = stage.alone(line);
        stage.reset();
        let mut three = in_database(&stage, 3);
        let state = stage.family.fill(&mut three, PREFIX);
        let reply = three.expect_ok(&state.words(line));
        Outcome::of(&reply, &mut three).assert_same(&alone, line);
        steady_data(&mut stage.wire).assert_same(&stage.before, line);
    }
}

fn flush_empties_every_cache(family: &Family) {
    let mut stage = Stage::of(family);
    let mut empty = in_database(&stage, 5);
    let of_nothing = reads(&stage.family, &stage.state, &mut empty);
    let before = stage.reads(&mut stage.server.wire());
    for flush in [&["FLUSHDB"][..], &["FLUSHALL"], &["FLUSHALL", "ASYNC"]] {
        stage.wire.expect_ok(flush);
        let left = stage.reads(&mut stage.server.wire());
        assert_eq!(left, of_nothing, "{flush:?}");
        assert_eq!(stage.server.snapshot().names(), [""; 0], "{flush:?}");
        stage.state = stage.family.fill(&mut stage.wire, PREFIX);
        steady_data(&mut stage.wire).assert_same(&stage.before, "filled again");
        assert_eq!(stage.reads(&mut stage.server.wire()), before, "{flush:?}");
    }
}

fn swapdb_also_swaps_the_caches(family: &Family) {
    let stage = Stage::of(family);
    let (mut zero, mut one) = (in_database(&stage, 0), in_database(&stage, 1));
    let state = stage.family.fill(&mut one, PREFIX);
    let all = |wire: &mut Wire| -> Vec<Reply> {
        let replies = state.replies(wire, stage.family.samples);
        replies.iter().map(|(_, reply)| steady(reply)).collect()
    };
    // Two swaps empty the caches and restore the original databases.
    for _ in 0..2 {
        ok!(zero, "SWAPDB", 0, 1);
    }
    let replies = all(&mut one);
    let after = steady_data(&mut one);
    let told = [stage.reads(&mut zero), stage.reads(&mut one)];
    assert_ne!(told[0], told[1]);
    ok!(zero, "SWAPDB", 0, 1);
    for (told, wire) in told.iter().zip([&mut one, &mut zero]) {
        for (is, should) in stage.reads(wire).iter().zip(told) {
            assert_eq!(is, should, "{}", stage.family.title());
        }
    }
    steady_data(&mut zero).assert_same(&after, "swapped");
    // Commands must change the data in their current database.
    ok!(zero, "SWAPDB", 0, 2);
    for ((line, is), should) in stage.family.samples.iter().zip(all(&mut one)).zip(&replies) {
        assert_eq!(&is, should, "{line}");
    }
    steady_data(&mut one).assert_same(&after, "swapped");
    assert_eq!(stage.server.snapshot().names(), [""; 0]);
}
