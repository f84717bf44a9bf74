//! D3: a client that waits for each reply.

use std::time::Duration;

use redis_tests::Server;

use super::{Draws, Runs, compare, draws};
use crate::Plan;
use crate::dedupe::corpus::{Corpus, HASH_LEN};
use crate::dedupe::scene::Scene;
use crate::load::{Connection, Item, Throughput, Watch, encode};
use crate::report::{Findings, note, say};
use crate::targets;

/// Measures one connection without a pipeline.
pub fn measure(plan: &Plan, scene: &Scene, corpus: &Corpus, hashes: u64) -> Findings {
    say("D3: one connection, no pipeline");
    let [mut plain, mut packed, mut theirs] = [(); 3].map(|()| Runs::default());
    let all = || draws(corpus, hashes);
    for _ in 0..plan.reps {
        plain.push(one_by_one(&scene.ours, all(), plan.span(), lookup));
        theirs.push(one_by_one(&scene.plain, all(), plan.span(), documented));
        packed.push(one_by_one(&scene.packed, all(), plan.span(), lookup));
    }
    let mut found = Findings::default();
    let against = "the two documented look-ups, one after the other";
    compare(
        &mut found,
        redis_tests::rows![
            "D3", "one connection, no pipeline, plain keys", against, &plain, &theirs, targets::ONE_BY_ONE;
            "D3", "one connection, no pipeline, packed", against, &packed, &theirs, targets::ONE_BY_ONE;
        ],
    );
    note!(found, "one_by_one.md"; plain = plain.each(), packed = packed.each(), theirs = theirs.each());
    found
}

/// A connection, and the requests to send over it.
struct Asker {
    connection: Connection,
    request: Vec<u8>,
    key: Vec<u8>,
}

impl Asker {
    fn send(&mut self, words: &[&[u8]]) {
        self.request.clear();
        encode(&mut self.request, words);
        self.connection.send(&self.request);
    }
}

/// Looks up hashes one after the other with `ask`. Every hash must be found.
fn one_by_one(
    server: &Server,
    mut draws: Draws,
    span: Duration,
    found: fn(&mut Asker, &[u8; HASH_LEN]) -> bool,
) -> Throughput {
    let mut asker = Asker {
        connection: Connection::unix(server),
        request: Vec::new(),
        key: Vec::new(),
    };
    let watch = Watch::start(server);
    let mut done = 0;
    while watch.elapsed() < span {
        assert!(found(&mut asker, &draws.hash()), "every hash is known");
        done += 1;
    }
    watch.stop(done, 0)
}

fn lookup(asker: &mut Asker, hash: &[u8; HASH_LEN]) -> bool {
    asker.send(&[b"DEDUPE.LOOKUP", b"", hash]);
    let mut nils = 0;
    asker
        .connection
        .read(1, |item| nils += u64::from(matches!(item, Item::Nil)));
    nils == 0
}

fn documented(asker: &mut Asker, hash: &[u8; HASH_LEN]) -> bool {
    asker.send(&[b"HGET", b"allhashes", hash]);
    let mut key = std::mem::take(&mut asker.key);
    key.clear();
    key.extend_from_slice(b"h:");
    asker.connection.read(1, |item| {
        if let Item::Bulk(crawl) = item {
            key.extend_from_slice(crawl);
        }
    });
    asker.send(&[b"HGET", &key, hash]);
    asker.key = key;
    let mut there = false;
    asker
        .connection
        .read(1, |item| there = matches!(item, Item::Bulk(_)));
    there
}
