//! Tests `crawlspace dedupe … --sharded`.

use crawlspace_client::dedupe::{Added, Adding, Revisited, Revisiting, Sharded};
use redis_tests::{
    Cluster, DATE, Outcome, Program, Server, assert_contains, assert_lacks, assert_starts, outcome,
    sha256_of, until,
};
use serde_json::{Value, json};

use crate::index::{Warc, hash};
use crate::operators::monitoring::figures;
use crate::tool::tool;

const NAME: &str = "coll-42";

fn dedupe(cluster: &Cluster, words: &str) -> Outcome {
    let url = cluster.url();
    outcome(tool(format!(
        "dedupe {words} --redis {url} --sharded {NAME}"
    )))
}

fn add(index: &Sharded, crawl: &str, numbers: std::ops::Range<u64>) {
    let hashes: Vec<String> = numbers.map(sha256_of).collect();
    let records: Vec<Added<'_>> = hashes
        .iter()
        .map(|hash| Added::new(hash.as_bytes(), 0, DATE.as_bytes(), b"http://e/", 5000))
        .collect();
    index.add(crawl, &Adding::default(), &records).unwrap();
}

#[test]
fn commands_work_on_all_shards() {
    let cluster = Cluster::start(3);
    let missing = dedupe(&cluster, "stats").exits(1);
    assert_contains(
        &missing.errors,
        "no sharded index has the name 'coll-42'; pass --shards N to create it",
    );
    let created = dedupe(&cluster, "stats --shards 7 --json")
        .exits(0)
        .object();
    assert_eq!(created["hashes"], 0);
    let other = dedupe(&cluster, "stats --shards 8").exits(1);
    assert_contains(&other.errors, "this index has 7 shards, not 8");
    let alone = outcome(tool("dedupe stats --shards 8")).exits(2);
    assert_contains(&alone.errors, "--sharded");

    let index = Sharded::open(&cluster.url(), NAME, 7).unwrap();
    index.wacz_open("a", "a.wacz").unwrap();
    add(&index, "a", 0..40);
    add(&index, "b", 30..60);
    let hash = sha256_of(35);
    let revisited = Revisited {
        hash: hash.as_bytes(),
        size: 300,
        original: None,
    };
    assert_eq!(
        dedupe(&cluster, "commit a --json").exits(0).object(),
        json!({"crawl": "a", "new": 40, "known": 0})
    );
    index
        .revisit("b", &Revisiting::default(), &[revisited])
        .unwrap();
    assert_eq!(
        dedupe(&cluster, "commit b --json").exits(0).object(),
        json!({"crawl": "b", "new": 20, "known": 10})
    );
    add(&index, "c", 90..95);

    let stats = dedupe(&cluster, "stats").exits(0);
    assert_starts(&stats.out, "index 'coll-42'\n");
    let crawls = dedupe(&cluster, "crawls --json").exits(0).json();
    let crawls: Vec<_> = crawls
        .iter()
        .map(|crawl| {
            (
                crawl["crawl"].as_str().unwrap(),
                crawl["hashes"].as_u64().unwrap(),
            )
        })
        .collect();
    assert_eq!(crawls, [("a", 40), ("b", 30), ("c", 5)]);
    let found = dedupe(&cluster, &format!("lookup --json {hash}"))
        .exits(0)
        .object();
    assert_eq!(
        (&found["crawl"], &found["filename"]),
        (&json!("a"), &json!("a.wacz"))
    );
    let required = dedupe(&cluster, "requires b --json").exits(0).object();
    assert_eq!(required["filename"], "a.wacz");
    assert_eq!(
        dedupe(&cluster, "requiredby a --json").exits(0).object()["crawl"],
        "b"
    );
    dedupe(&cluster, "check").exits(0);
    // Servers may store new indexes packed from the beginning.
    dedupe(&cluster, "unpack").exits(0);
    let packed = dedupe(&cluster, "pack --json").exits(0).object();
    assert_eq!(
        (&packed["storage"], &packed["hashes"]),
        (&json!("packed"), &json!(60))
    );
    dedupe(&cluster, "cancel c --yes").exits(0);
    let removed = dedupe(&cluster, "remove a --yes --json").exits(0).object();
    assert_eq!(removed, json!({"crawls": 1, "dropped": 30, "reowned": 10}));
    assert_eq!(dedupe(&cluster, "stats --json").object()["hashes"], 30);
    dedupe(&cluster, "unpack").exits(0);
    dedupe(&cluster, "repair").exits(0);
    assert_eq!(dedupe(&cluster, "profile").exits(0).out, "document\n");
}

/// Returns the counts that do not depend on the storage.
fn counts(stats: &Value) -> Vec<&Value> {
    [
        "crawls",
        "uncommitted",
        "hashes",
        "totalUrls",
        "dupeUrls",
        "conservedSize",
    ]
    .iter()
    .map(|name| &stats[name])
    .collect()
}

#[test]
fn import_during_a_failover_and_a_reshard_counts_every_record_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut files = Vec::new();
    for file in 0..6_usize {
        let mut warc = Warc::new(folder.path(), &format!("{file}.warc.gz"));
        for n in 0..5_000 {
            // A tenth of the payloads are also in the previous file.
            let number = file * 4_500 + n;
            warc.capture(
                "response",
                &format!("http://e/{file}/{n}"),
                &hash(number),
                b"body",
            );
        }
        files.push(warc.save().to_string());
    }
    let files = files.join(" ");
    let one = Server::start();
    let words = format!("dedupe index --crawl a --commit --json {files}");
    outcome(tool(format!("{words} --redis {}", one.url()))).exits(0);
    let expected = outcome(tool(format!("dedupe stats --json --redis {}", one.url()))).object();
    assert_eq!(expected["hashes"], 27_500);

    let cluster = Cluster::start(3);
    let index = Sharded::open(&cluster.url(), NAME, 12).unwrap();
    // The failover happens on a different node than the move.
    let failing = cluster.owner(index.shards()[6].prefix());
    let replica = cluster.replica_of(failing);
    let url = cluster.url();
    let mut import = Program::start(tool(format!("{words} --redis {url} --sharded {NAME}")));
    let added = |hashes: u64| {
        until("some records are added", || {
            index
                .crawl_stats("a")
                .is_ok_and(|stats| stats.hashes > hashes)
        });
    };
    added(500);
    let (moving, to) = (index.shards()[2].prefix(), failing.port());
    let from = cluster.owner(moving).port();
    let to = cluster
        .nodes()
        .iter()
        .find(|node| ![from, to].contains(&node.port()));
    cluster.move_slot(moving, to.expect("a third node"));
    added(5_000);
    cluster.fail_over_to(&replica);
    assert!(import.ended().is_none(), "the import was too fast");
    let ended = import.end();
    assert!(ended.status.success(), "{}", ended.errors);

    let stats = outcome(tool(format!(
        "dedupe stats --json --redis {url} --sharded {NAME}"
    )))
    .object();
    assert_eq!(counts(&stats), counts(&expected));
    dedupe(&cluster, "check").exits(0);
    // A second run counts nothing.
    dedupe(
        &cluster,
        &format!("index --crawl a --commit --json {files}"),
    )
    .exits(0);
    assert_eq!(
        counts(&dedupe(&cluster, "stats --json").object()),
        counts(&expected)
    );
    for number in (0..27_500).step_by(1_237) {
        dedupe(&cluster, &format!("lookup {}", hash(number))).exits(0);
    }
}

#[test]
fn exporter_and_top_add_up_the_shards() {
    let cluster = Cluster::start(3);
    let index = Sharded::open(&cluster.url(), NAME, 7).unwrap();
    add(&index, "a", 0..40);
    index.commit("a").unwrap();
    add(&index, "b", 40..45);
    let nodes: Vec<String> = cluster
        .nodes()
        .iter()
        .map(|node| format!("--redis {}", node.url()))
        .collect();
    let nodes = nodes.join(" ");
    let apart = outcome(tool(format!("exporter --once {nodes}"))).exits(0);
    assert_eq!(apart.out.matches("\ncrawlspace_index_hashes{").count(), 7);

    let words = format!("exporter --once {nodes} --sharded {NAME} --sharded none");
    let seen = outcome(tool(words)).exits(1);
    assert_contains(&seen.errors, "none: no sharded index has the name 'none'");
    assert_lacks(&seen.out, "{coll-42-");
    let figures = figures(&seen.out);
    let value = |name: &str, labels: &str| figures[&format!("crawlspace_{name}{{{labels}}}")];
    assert_eq!(value("sharded_up", "index=\"coll-42\""), 1.0);
    assert_eq!(value("sharded_up", "index=\"none\""), 0.0);
    let all = "db=\"0\",index=\"coll-42\"";
    assert_eq!(value("index_hashes", all), 40.0);
    assert_eq!(value("index_records", all), 40.0);
    let crawls = |state: &str| value("index_crawls", &format!("{all},state=\"{state}\""));
    assert_eq!([crawls("committed"), crawls("uncommitted")], [1.0, 1.0]);
    for node in cluster.nodes() {
        let server = format!("server=\"127.0.0.1:{}\",kind=\"index\"", node.port());
        assert_eq!(value("not_exported", &server), 0.0);
    }

    let words = format!("top --once --interval 20ms --redis {}", cluster.url());
    let view = outcome(tool(format!("{words} --json --sharded {NAME}"))).exits(0);
    let view = view.object();
    let [one] = &view["indexes"].as_array().unwrap()[..] else {
        panic!("one index: {view}");
    };
    assert_eq!(
        [&one["sharded"], &one["hashes"], &one["uncommitted"]],
        [&json!(NAME), &json!(40), &json!(1)]
    );
    let missing = outcome(tool(format!("{words} --sharded none"))).exits(1);
    assert_contains(&missing.errors, "no sharded index has the name 'none'");
}
