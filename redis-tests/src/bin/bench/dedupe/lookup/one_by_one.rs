//! D3: a client that waits for each reply.

use std::time::Duration;

use redis_tests::Server;

use super::{Draws, Runs, draws};
use crate::Plan;
use crate::dedupe::PREFIX;
use crate::dedupe::corpus::Corpus;
use crate::dedupe::scene::Scene;
use crate::load::{Connection, Item, Throughput, Watch, encode};
use crate::report::{Findings, Goal, say};

/// Measures one connection without a pipeline.
pub fn measure(plan: &Plan, scene: &Scene, corpus: &Corpus, hashes: u64, found: &mut Findings) {
    say("D3: one connection, no pipeline");
    let [mut plain, mut packed, mut theirs] = [(); 3].map(|()| Runs::default());
    let all = || draws(corpus, hashes);
    for _ in 0..plan.reps {
        plain.push(lookups(&scene.ours, all(), plan.span()));
        theirs.push(documented(&scene.plain, all(), plan.span()));
        packed.push(lookups(&scene.packed, all(), plan.span()));
    }
    let against = "the two documented look-ups, one after the other";
    let goal = Goal::AtLeast(1.9);
    found.rows.extend([
        plain.against(
            &theirs,
            "D3",
            "one connection, no pipeline, plain keys",
            against,
            goal,
        ),
        packed.against(
            &theirs,
            "D3",
            "one connection, no pipeline, packed",
            against,
            goal,
        ),
    ]);
    found.note("D3.", format!(
        "A client that waits for each reply pays for round trips, not for look-ups: {:.0} µs for one `LOOKUP` on plain \
         keys, {:.0} µs packed, {:.0} µs for two `HGET` of which the second needs the reply of the first. This is over a \
         unix socket; the more a round trip costs, the nearer the ratio comes to 2, whatever the storage.",
        plain.each(), packed.each(), theirs.each(),
    ), &[
        "make bench ONLY=D3",
        "redis-benchmark -s redis.sock -c 1 -n 100000 DEDUPE.LOOKUP '' $hash",
        "redis-benchmark -s redis.sock -c 1 -n 100000 HGET allhashes $hash    # half of the documented sequence",
    ]);
}

fn lookups(server: &Server, mut draws: Draws, span: Duration) -> Throughput {
    let mut connection = Connection::unix(server);
    let mut request = Vec::new();
    let watch = Watch::start(server);
    let mut done = 0;
    let mut nils = 0;
    while watch.elapsed() < span {
        request.clear();
        encode(&mut request, &[b"DEDUPE.LOOKUP", PREFIX, &draws.hash()]);
        connection.send(&request);
        connection.read(1, |item| nils += u64::from(matches!(item, Item::Nil)));
        done += 1;
    }
    assert_eq!(nils, 0, "every hash is known");
    watch.stop(done, nils)
}

fn documented(server: &Server, mut draws: Draws, span: Duration) -> Throughput {
    let mut connection = Connection::unix(server);
    let (mut request, mut key) = (Vec::new(), Vec::new());
    let watch = Watch::start(server);
    let mut done = 0;
    let mut records = 0;
    while watch.elapsed() < span {
        let hash = draws.hash();
        request.clear();
        encode(&mut request, &[b"HGET", b"allhashes", &hash]);
        connection.send(&request);
        key.clear();
        key.extend_from_slice(b"h:");
        connection.read(1, |item| {
            if let Item::Bulk(crawl) = item {
                key.extend_from_slice(crawl);
            }
        });
        request.clear();
        encode(&mut request, &[b"HGET", &key, &hash]);
        connection.send(&request);
        connection.read(1, |item| {
            records += usize::from(matches!(item, Item::Bulk(_)))
        });
        done += 1;
    }
    assert_eq!(records, done, "every hash is known");
    watch.stop(done, 0)
}
