//! The peers: the documented plain commands, as a client sends them and as Lua scripts.

use redis_tests::{Server, ok};

use super::corpus::{Corpus, Crawl};
use crate::load::{Connection, Feeder, Item, encode};

/// The two documented look-ups as a script. `ARGV[1]`: hash.
pub const LOOKUP_SCRIPT: &str = "\
local crawl = redis.call('HGET', 'allhashes', ARGV[1])
if not crawl then return false end
return {crawl, redis.call('HGET', 'h:' .. crawl, ARGV[1])}";

/// A commit as a script. `ARGV[1]`: crawl. Returns new and already known hashes.
pub const COMMIT_SCRIPT: &str = "\
local crawl = ARGV[1]
local hashes = redis.call('HKEYS', 'h:' .. crawl)
local new = 0
for i = 1, #hashes do new = new + redis.call('HSETNX', 'allhashes', hashes[i], crawl) end
local counts = redis.call('HGETALL', 'h:' .. crawl .. ':counts')
for i = 1, #counts, 2 do redis.call('HINCRBY', 'allcounts', counts[i], counts[i + 1]) end
redis.call('SMOVE', 'uncommittedcrawls', 'allcrawls', crawl)
return {new, #hashes - new}";

/// A purge as a script: the index is dropped and built anew. `ARGV[1]`: the crawl that goes, then
/// those that stay, in the order of their commits.
pub const REBUILD_SCRIPT: &str = "\
redis.call('DEL', 'h:' .. ARGV[1], 'h:' .. ARGV[1] .. ':counts', 'c:' .. ARGV[1] .. ':wacz')
redis.call('SREM', 'allcrawls', ARGV[1])
redis.call('DEL', 'allhashes', 'allcounts')
for c = 2, #ARGV do
  local crawl = ARGV[c]
  local hashes = redis.call('HKEYS', 'h:' .. crawl)
  for i = 1, #hashes do redis.call('HSETNX', 'allhashes', hashes[i], crawl) end
  local counts = redis.call('HGETALL', 'h:' .. crawl .. ':counts')
  for i = 1, #counts, 2 do redis.call('HINCRBY', 'allcounts', counts[i], counts[i + 1]) end
end
return #ARGV - 1";

/// Writes crawls with plain commands; the first `committed` of them are committed.
pub fn fill(server: &Server, corpus: &Corpus, crawls: &[Crawl], committed: usize) {
    let mut feeder = Feeder::new(server);
    for (number, crawl) in crawls.iter().enumerate() {
        let id = crawl.id.as_bytes();
        let key = format!("h:{}", crawl.id);
        feeder.request(&[b"SADD", b"uncommittedcrawls", id]);
        for n in crawl.hashes() {
            let value = corpus.record(n, number as u64).value();
            feeder.request(&[b"HSET", key.as_bytes(), &corpus.hash(n), value.as_bytes()]);
        }
        let counts = format!("{key}:counts");
        let urls = crawl.len().to_string();
        feeder.request(&[b"HINCRBY", counts.as_bytes(), b"totalUrls", urls.as_bytes()]);
        if number < committed {
            for n in crawl.hashes() {
                feeder.request(&[b"HSETNX", b"allhashes", &corpus.hash(n), id]);
            }
            feeder.request(&[b"HINCRBY", b"allcounts", b"totalUrls", urls.as_bytes()]);
            feeder.request(&[b"SMOVE", b"uncommittedcrawls", b"allcrawls", id]);
        }
    }
    feeder.finish();
}

/// Commits a crawl as the documents say and the crawler in the field does: `HSCAN` (generously by
/// 1 000), and for each hash one `HSETNX` whose reply is awaited. Returns new and known hashes.
pub fn commit(client: &mut Connection, crawl: &str) -> (u64, u64) {
    let key = format!("h:{crawl}");
    let mut cursor = b"0".to_vec();
    let mut request = Vec::new();
    let (mut new, mut known) = (0, 0);
    loop {
        request.clear();
        encode(
            &mut request,
            &[b"HSCAN", key.as_bytes(), &cursor, b"COUNT", b"1000"],
        );
        client.send(&request);
        let mut hashes: Vec<Vec<u8>> = Vec::with_capacity(2000);
        let mut bulks = 0;
        client.read(1, |item| {
            if let Item::Bulk(bytes) = item {
                match bulks {
                    0 => cursor = bytes.to_vec(),
                    n if n % 2 == 1 => hashes.push(bytes.to_vec()),
                    _ => (),
                }
                bulks += 1;
            }
        });
        for hash in &hashes {
            request.clear();
            encode(
                &mut request,
                &[b"HSETNX", b"allhashes", hash, crawl.as_bytes()],
            );
            client.send(&request);
            client.read(1, |item| match item {
                Item::Int(1) => new += 1,
                _ => known += 1,
            });
        }
        if cursor == b"0" {
            break;
        }
    }
    add_counts(client, crawl);
    request.clear();
    encode(
        &mut request,
        &[
            b"SMOVE",
            b"uncommittedcrawls",
            b"allcrawls",
            crawl.as_bytes(),
        ],
    );
    client.send(&request);
    client.read(1, |_| ());
    (new, known)
}

fn add_counts(client: &mut Connection, crawl: &str) {
    let mut request = Vec::new();
    encode(
        &mut request,
        &[b"HGETALL", format!("h:{crawl}:counts").as_bytes()],
    );
    client.send(&request);
    let mut counts: Vec<Vec<u8>> = Vec::new();
    client.read(1, |item| {
        if let Item::Bulk(bytes) = item {
            counts.push(bytes.to_vec());
        }
    });
    for pair in counts.chunks_exact(2) {
        request.clear();
        encode(
            &mut request,
            &[b"HINCRBY", b"allcounts", &pair[0], &pair[1]],
        );
        client.send(&request);
        client.read(1, |_| ());
    }
}

/// Purges a crawl as the documents say: its keys go, the merged index is dropped and every crawl
/// that stays is committed again.
pub fn purge(client: &mut Connection, gone: &str, kept: &[&str]) {
    let keys = [
        format!("h:{gone}"),
        format!("h:{gone}:counts"),
        format!("c:{gone}:wacz"),
    ];
    let [h, counts, wacz] = keys.each_ref().map(|key| key.as_bytes());
    let mut request = Vec::new();
    encode(&mut request, &[b"DEL", h, counts, wacz]);
    encode(&mut request, &[b"SREM", b"allcrawls", gone.as_bytes()]);
    encode(&mut request, &[b"DEL", b"allhashes", b"allcounts"]);
    client.send(&request);
    client.read(3, |_| ());
    for crawl in kept {
        commit(client, crawl);
    }
}

/// Digest of the merged index: the same for the same hashes and owners.
pub fn index_digest(server: &Server) -> String {
    let digest = ok!(server.wire(), "DEBUG", "DIGEST-VALUE", "allhashes");
    digest.items()[0].text()
}

/// A figure of `allcounts`.
pub fn count(server: &Server, field: &str) -> i64 {
    let value = ok!(server.wire(), "HGET", "allcounts", field);
    if value.is_nil() {
        return 0;
    }
    value.text().parse().expect("a count is a number")
}
