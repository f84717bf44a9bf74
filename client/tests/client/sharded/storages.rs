//! Tests packing and unpacking of all shards and of some shards.

use crawlspace_client::dedupe::{Adding, Index, Moved, Sharded, Storage};
use crawlspace_client::{AsyncServer, Server};
use redis_tests::{Cluster, Options, Server as Redis, assert_starts, nil, ok, until};

use super::{added, hashes, records};

const SHARDS: u16 = 6;

/// Starts a server whose new indexes use plain keys.
fn plain() -> Redis {
    Options::new().plain().start()
}

fn figures(moved: &Moved) -> (Storage, u64, u64) {
    (moved.storage, moved.hashes, moved.records)
}

/// Adds a committed crawl of 600 hashes, and an uncommitted crawl with 100 of these.
fn two_crawls(many: &Sharded) {
    let all = records(0..600);
    let adding = Adding::default();
    many.add(b"a", &adding, &added(&all)).unwrap();
    many.commit(b"a").unwrap();
    many.add(b"b", &adding, &added(&all[500..])).unwrap();
}

#[test]
fn every_shard_of_a_cluster_is_packed_and_unpacked() {
    let cluster = Cluster::with(3, Options::new().plain());
    let server = Server::open(&cluster.url()).unwrap();
    let many = Sharded::on(&server, "coll", SHARDS).unwrap();
    two_crawls(&many);
    let all = records(0..620);
    let hashes = hashes(&all);
    let (known, own) = (
        many.lookup(None, &hashes).unwrap(),
        many.lookup(Some(b"b"), &hashes).unwrap(),
    );
    assert_eq!(many.stats().unwrap().storage, Storage::Plain);

    let moved = many.pack().unwrap();
    assert_eq!(figures(&moved), (Storage::Packed, 600, 600));
    assert!(moved.memory > 0);
    assert_eq!(many.stats().unwrap().storage, Storage::Packed);
    for shard in many.shards() {
        assert_eq!(shard.stats().unwrap().storage, Storage::Packed);
    }
    assert_eq!(figures(&many.pack().unwrap()), (Storage::Packed, 0, 0));
    assert_eq!(many.lookup(None, &hashes).unwrap(), known);
    assert_eq!(many.lookup(Some(b"b"), &hashes).unwrap(), own);
    assert_eq!(many.commit(b"b").unwrap().known, 100);
    assert!(many.check().unwrap().ok);

    let back = many.unpack().unwrap();
    assert_eq!(figures(&back), (Storage::Plain, 600, 700));
    assert_eq!(many.stats().unwrap().storage, Storage::Plain);
    assert_eq!(many.lookup(None, &hashes).unwrap(), known);
    assert!(many.check().unwrap().ok);
    let key = [many.shards()[0].prefix(), b"allhashes"].concat();
    let owners = ok!(
        cluster.owner(many.shards()[0].prefix()).wire(),
        "HVALS",
        key
    );
    assert!(owners.texts().iter().all(|owner| owner == "a"));
}

#[test]
fn partly_packed_index_gives_the_same_results_and_can_be_resumed_or_reverted() {
    let redis = plain();
    let server = Server::open(&redis.url()).unwrap();
    for forward in [true, false] {
        let many = Sharded::on(&server, format!("coll-{forward}"), SHARDS).unwrap();
        two_crawls(&many);
        let all = records(0..620);
        let known = many.lookup(None, &hashes(&all)).unwrap();
        let first: u64 = many.shards()[..2]
            .iter()
            .map(|shard| shard.pack().unwrap().hashes)
            .sum();
        assert!(0 < first && first < 600, "{first}");
        assert_eq!(many.stats().unwrap().storage, Storage::Packing);
        assert_eq!(many.lookup(None, &hashes(&all)).unwrap(), known);
        assert!(many.check().unwrap().ok);
        let (moved, storage) = if forward {
            (many.pack().unwrap(), Storage::Packed)
        } else {
            (many.unpack().unwrap(), Storage::Plain)
        };
        let left = if forward { 600 - first } else { first };
        assert_eq!(figures(&moved), (storage, left, left));
        assert_eq!(many.stats().unwrap().storage, storage);
        assert_eq!(many.lookup(None, &hashes(&all)).unwrap(), known);
    }
}

#[test]
fn async_calls_pack_and_unpack() {
    let redis = plain();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let server = AsyncServer::open(&redis.url()).await.unwrap();
        let many = Sharded::on(&server, "coll", SHARDS).await.unwrap();
        let all = records(0..50);
        let adding = Adding::default();
        many.add(b"a", &adding, &added(&all)).await.unwrap();
        many.commit(b"a").await.unwrap();
        let moved = many.pack().await.unwrap();
        assert_eq!(figures(&moved), (Storage::Packed, 50, 50));
        let moved = many.unpack().await.unwrap();
        assert_eq!(figures(&moved), (Storage::Plain, 50, 50));
    });
}

#[test]
fn packing_resumes_after_a_server_crash() {
    let options = Options::new()
        .plain()
        .aof_unsynced(true)
        .module_args(&["slice-us", "50"]);
    let mut redis = options.start();
    let server = Server::options(&redis.url()).retries(8).open().unwrap();
    let many = Sharded::on(&server, "coll", 2).unwrap();
    let all = records(0..12_000);
    let adding = Adding::default();
    many.add(b"a", &adding, &added(&all)).unwrap();
    many.commit(b"a").unwrap();
    let known = many.lookup(None, &hashes(&all)).unwrap();
    let done = redis.info_number("jobs_done");
    let packing = std::thread::spawn({
        let many = many.clone();
        move || many.pack()
    });
    until("it packs, or has packed", || {
        redis.info_number("jobs_running") > 0 || redis.info_number("jobs_done") > done
    });
    redis.kill9();
    redis.restart();
    // The client retried the call after the restart, and the retry moved the remaining records.
    assert_eq!(packing.join().unwrap().unwrap().storage, Storage::Packed);
    assert_eq!(figures(&many.pack().unwrap()), (Storage::Packed, 0, 0));
    assert_eq!(many.lookup(None, &hashes(&all)).unwrap(), known);
    assert!(many.check().unwrap().ok);
}

#[test]
fn plain_client_finds_no_committed_record_of_a_packed_index() {
    let redis = plain();
    let index = Index::open(&redis.url(), "{coll}:").unwrap();
    let all = records(0..2);
    index.add(b"a", &Adding::default(), &added(&all)).unwrap();
    index.commit(b"a").unwrap();
    index.pack().unwrap();
    let mut c = redis.wire();
    let hash = all[0].hash.as_str();
    assert_eq!(ok!(c, "HGET", "{coll}:h:a", hash), nil());
    let refused = c.expect_error(&["HGET", "{coll}:allhashes", hash]);
    assert_starts(&refused, "WRONGTYPE");
    index.unpack().unwrap();
    assert_eq!(ok!(c, "HGET", "{coll}:allhashes", hash).text(), "a");
}
