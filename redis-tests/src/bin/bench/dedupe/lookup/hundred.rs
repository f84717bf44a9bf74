//! D4: a hundred hashes a call.

use std::time::Duration;

use redis_tests::Server;

use super::{Draws, Runs, draws};
use crate::Plan;
use crate::dedupe::PREFIX;
use crate::dedupe::corpus::{Corpus, HASH_LEN};
use crate::dedupe::scene::Scene;
use crate::load::{Batches, Connection, Item, Throughput, Watch, encode, saturate};
use crate::report::{Findings, Goal, say};

/// Calls of 100 hashes drawn from `limit`, each hash counting.
pub fn asking(corpus: &Corpus, count: u64, limit: u64) -> Batches {
    let mut draw = draws(corpus, limit);
    let batches = Batches::new(count as usize, 1, |out| {
        let hashes: Vec<_> = (0..100).map(|_| draw.hash()).collect();
        let mut words: Vec<&[u8]> = vec![b"DEDUPE.LOOKUP", PREFIX];
        words.extend(hashes.iter().map(|hash| &hash[..]));
        encode(out, &words);
    });
    batches.weighing(100)
}

/// Measures calls of 100 hashes.
pub fn measure(plan: &Plan, scene: &Scene, corpus: &Corpus, hashes: u64, found: &mut Findings) {
    say("D4: 100 hashes a call");
    let batches = asking(corpus, plan.scaled(6_000), hashes);
    let [mut plain, mut packed, mut theirs] = [(); 3].map(|()| Runs::default());
    for rep in 0..plan.reps {
        let first = rep * batches.len() / plan.reps;
        let run = |server| {
            let run = saturate(server, &batches, plan.span(), first);
            assert_eq!(run.nils, 0, "every hash is known");
            run
        };
        plain.push(run(&scene.ours));
        theirs.push(documented(&scene.plain, draws(corpus, hashes), plan.span()));
        packed.push(run(&scene.packed));
    }
    let against = "the documented sequence, pipelined by 100";
    found.rows.extend([
        plain.against(
            &theirs,
            "D4",
            "`LOOKUP` of 100 hashes a call, plain keys",
            against,
            Goal::AtLeast(1.2),
        ),
        packed.against(
            &theirs,
            "D4",
            "`LOOKUP` of 100 hashes a call, packed",
            against,
            Goal::AtLeast(3.0),
        ),
    ]);
    found.note("D4.", format!(
        "The unit is a hash. With 100 in a call the cost of a request is shared, and what is left is the table look-ups \
         and the reply: {:.2} µs of the server for a hash on plain keys, {:.2} µs packed, where the memory that a hash \
         will need is asked for while those before it are answered. A hundred `HGET allhashes` in one pipeline and then a \
         hundred `HGET h:<crawl>` in another take {:.2} µs a hash. The servers were busy {:.0} %, {:.0} % and {:.0} % of the \
         time.",
        plain.cpu(), packed.cpu(), theirs.cpu(),
        100.0 * plain.busy.median(), 100.0 * packed.busy.median(), 100.0 * theirs.busy.median(),
    ), &[
        "make bench ONLY=D4",
        "redis-cli DEDUPE.LOOKUP '' $hashes",
        "redis-cli INFO commandstats | grep dedupe.lookup",
    ]);
}

/// A client that looks up 100 hashes by the documented sequence in two pipelines.
struct Hundred {
    connection: Connection,
    hashes: Vec<[u8; HASH_LEN]>,
    owners: Vec<Vec<u8>>,
    /// The second pipeline is under way.
    second: bool,
}

/// Several such clients at once, so that the server always has something to do.
fn documented(server: &Server, mut draws: Draws, span: Duration) -> Throughput {
    // Drawn beforehand, as ours were.
    let pool: Vec<Vec<_>> = (0..2_000)
        .map(|_| (0..100).map(|_| draws.hash()).collect())
        .collect();
    let mut next = 0;
    let mut request = Vec::new();
    let mut clients: Vec<Hundred> = (0..8)
        .map(|_| Hundred {
            connection: Connection::unix(server),
            hashes: Vec::new(),
            owners: Vec::new(),
            second: true,
        })
        .collect();
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
