//! The peers: clients that send the documented plain commands, and Lua scripts that run them.

use redis_tests::{Server, ok};

use super::corpus::{Corpus, Crawl};
use crate::load::{Client, Feeder};

/// The two documented look-ups as a Lua script.
pub const LOOKUP_SCRIPT: &str = include_str!("documented/lookup.lua");
/// A commit as a Lua script. Returns the numbers of new and known hashes.
pub const COMMIT_SCRIPT: &str = include_str!("documented/commit.lua");
/// A purge as a Lua script.
pub const REBUILD_SCRIPT: &str = include_str!("documented/rebuild.lua");

/// Writes crawls with plain commands and commits the first `committed` of them.
pub fn fill(server: &Server, corpus: &Corpus, crawls: &[Crawl], committed: usize) {
    let mut feeder = Feeder::new(server);
    for (number, crawl) in crawls.iter().enumerate() {
        let id = &crawl.id;
        let (key, urls) = (format!("h:{id}"), crawl.len());
        feeder.line(&format!("SADD uncommittedcrawls {id}"));
        for n in crawl.hashes() {
            let value = corpus.record(n, number as u64).value();
            feeder.request(&[b"HSET", key.as_bytes(), &corpus.hash(n), value.as_bytes()]);
        }
        feeder.line(&format!("HINCRBY {key}:counts totalUrls {urls}"));
        if number < committed {
            for n in crawl.hashes() {
                feeder.request(&[b"HSETNX", b"allhashes", &corpus.hash(n), id.as_bytes()]);
            }
            feeder.line(&format!("HINCRBY allcounts totalUrls {urls}"));
            feeder.line(&format!("SMOVE uncommittedcrawls allcrawls {id}"));
        }
    }
    feeder.finish();
}

/// Commits a crawl, including its counts, with the documented commands. Returns the numbers of new
/// and known hashes.
pub fn commit(client: &mut Client, crawl: &str) -> (i64, i64) {
    let outcome = commit_hashes(client, crawl);
    sum(client, crawl);
    outcome
}

/// Commits the hashes of a crawl with the documented commands, like a real crawler: `HSCAN` (with a
/// large count of 1,000), and for each hash one `HSETNX`, after which it waits for the reply.
/// Returns the numbers of new and known hashes.
pub fn commit_hashes(client: &mut Client, crawl: &str) -> (i64, i64) {
    let mut cursor = "0".to_owned();
    let (mut new, mut known) = (0, 0);
    loop {
        let page = client.line(&format!("HSCAN h:{crawl} {cursor} COUNT 1000"));
        let mut texts = page.texts.into_iter();
        cursor = texts.next().expect("a cursor");
        for hash in texts.step_by(2) {
            match client.ask(["HSETNX", "allhashes", &hash, crawl]).ints[0] {
                1 => new += 1,
                _ => known += 1,
            }
        }
        if cursor == "0" {
            break;
        }
    }
    client.line(&format!("SMOVE uncommittedcrawls allcrawls {crawl}"));
    (new, known)
}

/// Adds the counts of a crawl to the total counts.
pub fn sum(client: &mut Client, crawl: &str) {
    let counts = client.line(&format!("HGETALL h:{crawl}:counts"));
    for pair in counts.texts.chunks_exact(2) {
        client.ask(["HINCRBY", "allcounts", &pair[0], &pair[1]]);
    }
}

/// Purges a crawl with the documented commands: deletes its keys and the merged index, and commits
/// every remaining crawl again.
pub fn purge(client: &mut Client, gone: &str, kept: &[&str]) {
    client.line(&format!("DEL h:{gone} h:{gone}:counts c:{gone}:wacz"));
    client.line(&format!("SREM allcrawls {gone}"));
    client.line("DEL allhashes allcounts");
    for crawl in kept {
        commit(client, crawl);
    }
}

/// Returns a digest of the merged index. Equal hashes and owners have equal digests.
pub fn index_digest(server: &Server) -> String {
    let digest = ok!(server.wire(), "DEBUG", "DIGEST-VALUE", "allhashes");
    digest.items()[0].text()
}

/// Returns a number of `allcounts`.
pub fn count(server: &Server, field: &str) -> i64 {
    let value = ok!(server.wire(), "HGET", "allcounts", field);
    if value.is_nil() {
        return 0;
    }
    value.text().parse().expect("a count is a number")
}
