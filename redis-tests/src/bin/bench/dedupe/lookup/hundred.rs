//! D4: look-ups of 100 hashes per call.

use std::time::Duration;

use redis_tests::Server;

use super::{Draws, Runs, compare, draws};
use crate::Plan;
use crate::dedupe::corpus::{Corpus, HASH_LEN};
use crate::dedupe::scene::Scene;
use crate::load::{Batches, Connection, Item, Throughput, Watch, encode};
use crate::report::{Findings, note, say};
use crate::targets;

/// Creates calls of 100 hashes below `limit`. Each hash counts as a request.
pub fn asking(corpus: &Corpus, count: u64, limit: u64) -> Batches {
    let mut draw = draws(corpus, limit);
    let batches = Batches::new(count as usize, 1, |out| {
        let hashes: Vec<_> = (0..100).map(|_| draw.hash()).collect();
        let mut words: Vec<&[u8]> = vec![b"DEDUPE.LOOKUP", b""];
        words.extend(hashes.iter().map(|hash| &hash[..]));
        encode(out, &words);
    });
    batches.weighing(100)
}

/// Measures calls of 100 hashes.
pub fn measure(plan: &Plan, scene: &Scene, corpus: &Corpus, hashes: u64) -> Findings {
    say("D4: 100 hashes a call");
    let batches = asking(corpus, plan.scaled(6_000), hashes);
    let [mut plain, mut packed, mut theirs] = [(); 3].map(|()| Runs::default());
    for rep in 1..=plan.reps {
        let run = |server| {
            let run = plan.saturate(server, &batches, rep);
            assert_eq!(run.nils, 0, "every hash is known");
            run
        };
        plain.push(run(&scene.ours));
        theirs.push(documented(&scene.plain, draws(corpus, hashes), plan.span()));
        packed.push(run(&scene.packed));
    }
    let mut found = Findings::default();
    let against = "the documented sequence, pipeline depth 100";
    compare(
        &mut found,
        redis_tests::rows![
            "D4", "`LOOKUP` of 100 hashes a call, plain keys", against, &plain, &theirs, targets::HUNDRED_PLAIN;
            "D4", "`LOOKUP` of 100 hashes a call, packed", against, &packed, &theirs, targets::HUNDRED_PACKED;
        ],
    );
    note!(found, "hundred.md";
        plain = plain.cpu(), packed = packed.cpu(), theirs = theirs.cpu(),
        plain_busy = plain.busy(), packed_busy = packed.busy(), their_busy = theirs.busy());
    found
}

/// A client that looks up 100 hashes with the documented sequence in two pipelines.
struct Hundred {
    connection: Connection,
    hashes: Vec<[u8; HASH_LEN]>,
    owners: Vec<Vec<u8>>,
    /// True while the second pipeline is in progress.
    second: bool,
}

/// Measures several such clients at the same time, so that the server is always busy.
fn documented(server: &Server, mut draws: Draws, span: Duration) -> Throughput {
    // Draw the hashes in advance, as for `DEDUPE.LOOKUP`.
    let mut hundred = |_| (0..100).map(|_| draws.hash()).collect();
    let pool: Vec<Vec<_>> = (0..2_000).map(&mut hundred).collect();
    let mut next = 0;
    let mut request = Vec::new();
    let client = |_| Hundred {
        connection: Connection::unix(server),
        hashes: Vec::new(),
        owners: Vec::new(),
        second: true,
    };
    let mut clients: Vec<Hundred> = (0..8).map(client).collect();
    let watch = Watch::start(server);
    let (mut done, mut records) = (0, 0);
    loop {
        let over = watch.elapsed() >= span;
        let mut idle = 0;
        for client in &mut clients {
            if client.second {
                if !client.hashes.is_empty() {
                    client.connection.read(100, |item| {
                        records += usize::from(matches!(item, Item::Bulk(_)));
                    });
                    done += 100;
                }
                client.second = over;
                client.hashes.clear();
                if over {
                    idle += 1;
                    continue;
                }
                client.hashes.extend_from_slice(&pool[next % pool.len()]);
                next += 1;
                request.clear();
                for hash in &client.hashes {
                    encode(&mut request, &[b"HGET", b"allhashes", hash]);
                }
            } else {
                client.owners.clear();
                let owners = &mut client.owners;
                client.connection.read(100, |item| {
                    if let Item::Bulk(crawl) = item {
                        owners.push([b"h:", crawl].concat());
                    }
                });
                assert_eq!(client.owners.len(), 100, "every hash is known");
                client.second = true;
                request.clear();
                for (hash, key) in client.hashes.iter().zip(&client.owners) {
                    encode(&mut request, &[b"HGET", key, hash]);
                }
            }
            client.connection.send(&request);
        }
        if idle == clients.len() {
            break;
        }
    }
    assert_eq!(records, done, "every hash is known");
    watch.stop(done, 0)
}
