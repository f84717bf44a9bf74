//! Runs the program in docs/guide/client.md, block by block and unchanged, against real servers.

use std::path::Path;

use redis_tests::{Cluster, Server as Redis, sha256_of};

include!("program.rs");

#[test]
fn program_equals_that_of_the_guide() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let guide = std::fs::read_to_string(folder.join("../docs/guide/client.md")).unwrap();
    let mut blocks = Vec::new();
    for block in guide.split("```rust\n").skip(1) {
        blocks.push(block.split("```").next().unwrap());
    }
    assert!(blocks.len() > 5);
    let program = include_str!("program.rs");
    assert_eq!(
        blocks.join("\n"),
        program,
        "docs/guide/client.md (left), program.rs (right)"
    );
}

fn run<T>(future: impl std::future::Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(future)
}

#[test]
fn program_does_what_the_guide_says() {
    let redis = Redis::start();
    let url = redis.url();
    with_threads(&url).unwrap();
    run(with_tasks(&url)).unwrap();

    let index = Index::open(&url, "{coll-42}:").unwrap();
    let digest = b"sha1:B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A";
    write_record(&index, digest, b"https://example.com/", 1).unwrap();
    write_record(&index, digest, b"https://example.com/again", 2).unwrap();
    let stats = index.crawl_stats(b"crawl-1").unwrap();
    assert_eq!((stats.hashes, stats.total_urls, stats.dupe_urls), (1, 2, 1));
    assert!(finish(&index).unwrap());
    assert!(!finish(&Index::on(index.server(), "{coll-43}:")).unwrap());

    let server = index.server();
    look_at_many(server).unwrap();
    assert_eq!(note(server).unwrap().as_deref(), Some("begun"));

    run(async {
        let server = AsyncServer::open(&url).await.unwrap();
        seed(&server).await.unwrap();
        assert_eq!(work(&server).await.unwrap(), 3);
        let frontier = Frontier::on(&server, "{web}:");
        assert_eq!(frontier.info().await.unwrap().uris, 0);
        let lease = frontier.next(&Next::default()).await.unwrap();
        assert_eq!(lease, []);
    });
}

#[test]
fn index_is_spread_over_a_cluster() {
    let cluster = Cluster::start(3);
    let hashes: Vec<String> = (0..100).map(sha256_of).collect();
    let records: Vec<Added<'_>> = hashes
        .iter()
        .map(|hash| {
            Added::new(
                hash.as_bytes(),
                0,
                b"20240501120000",
                b"https://example.com/",
                5120,
            )
        })
        .collect();
    assert_eq!(spread(&cluster.url(), &records).unwrap(), 100);
    run(with_tasks(&cluster.url())).unwrap();
}
