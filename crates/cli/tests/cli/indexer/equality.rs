//! Tests that importing the files of a crawl gives the same index as the live crawl.

use redis_tests::archive::Shape;
use redis_tests::{Cluster, Options, is_packed, ok, plain_hash, with};
use serde_json::json;

use crate::indexer::stage::{COPY, Indexer, LIVE, Outcome, Stage, assert_over};

#[test]
fn import_equals_live_crawls() {
    let stage = Stage::with("live", Options::new(), 5, Shape::default());
    let report = stage.import().succeeds();
    stage.assert_once();
    let captures = stage.crawls.iter().flat_map(|crawl| &crawl.captures);
    let all = captures.clone().count();
    let kinds = captures.fold([0; 3], |mut kinds, capture| {
        kinds[capture.kind as usize] += 1;
        kinds
    });
    let figure = |name: &str| report[name].as_u64().expect(name) as usize;
    assert_eq!(figure("listed"), stage.folder.entries.len());
    assert_eq!(figure("imported"), stage.folder.entries.len());
    assert_eq!(figure("responses"), kinds[0]);
    assert_eq!(figure("revisits"), kinds[1]);
    assert_eq!(figure("other"), kinds[2]);
    assert_eq!([figure("badLines"), figure("unresolved")], [0, 0]);
    // Indexes in columns have a header line.
    assert!(figure("lines") >= all, "{report}");
    assert_eq!(report["failed"].as_array().map(Vec::len), Some(0));

    let [live, _] = stage.both();
    assert_eq!(live.count("totalUrls") as usize, kinds[0] + kinds[1]);
    assert_eq!(live.count("dupeUrls") as usize, kinds[1]);
    assert!(live.count("conservedSize") > 0 && live.count("totalCrawlSize") > 0);
}

#[test]
fn several_workers_equal_one() {
    for jobs in [2, 8] {
        let stage = Stage::with("jobs", Options::new(), 4, Shape::default());
        stage.import().jobs(jobs).succeeds();
        stage.assert_once();
    }
}

#[test]
fn import_into_a_packed_index_equals_live_crawls() {
    // The index of the live crawls is packed only at the end, so that the test compares the code paths of
    // both storages.
    let plain = Options::new().plain();
    let stage = Stage::with("packed", plain, 4, Shape::default());
    let mut c = stage.server.wire();
    ok!(c, "DEDUPE.PACK", COPY);
    stage.import().jobs(2).succeeds();
    stage.assert_once();
    assert!(is_packed(&mut c, COPY) && !is_packed(&mut c, LIVE));
    ok!(c, "DEDUPE.PACK", LIVE);
    stage.assert_once();
    stage.import().succeeds();
    stage.assert_once();
    for prefix in [LIVE, COPY] {
        ok!(c, "DEDUPE.UNPACK", prefix);
    }
    stage.assert_once();
}

#[test]
fn second_import_changes_nothing() {
    let stage = Stage::new("twice");
    stage.import().succeeds();
    let again = stage.import().succeeds();
    stage.assert_once();
    let files = stage.folder.entries.len();
    assert_eq!(again["alreadyImported"], files);
    assert_eq!(again["imported"], 0);
    assert_eq!(again["lines"], 0);
}

#[test]
fn importing_crawls_one_by_one_equals_all_at_once() {
    let stage = Stage::with("one by one", Options::new(), 4, Shape::default());
    for crawls in 1..=stage.crawls.len() {
        let listed = &stage.crawls[..crawls];
        let files = stage.files_that(|entry| listed.iter().any(|c| c.id == entry.crawl));
        let source = stage.folder.manifest_of("growing.json", &files);
        stage.import_of(&source).succeeds();
    }
    stage.assert_once();
}

#[test]
fn importing_files_one_by_one_equals_all_at_once() {
    // No payload is stored twice in this test: of two records with the same payload in one crawl, the index
    // would keep the record that is committed first.
    let shape = with!(Shape, plain: true);
    let stage = Stage::with("file by file", Options::new(), 3, shape);
    let files = &stage.folder.entries;
    for listed in 1..=files.len() {
        let source = stage.folder.manifest_of("growing.json", &files[..listed]);
        stage.import_of(&source).succeeds();
    }
    stage.assert_once();
}

#[test]
fn later_removal_gives_the_same_index() {
    // The imported index has the same holders of shared hashes as the live crawls, and they become owners in
    // the same order.
    let shape = with!(Shape, known: 70);
    let stage = Stage::with("removed later", Options::new(), 5, shape);
    stage.import().jobs(2).succeeds();
    let mut ids: Vec<&String> = stage.crawls.iter().map(|crawl| &crawl.id).collect();
    let mut rng = redis_tests::Rng::new("which first");
    rng.shuffle(&mut ids);
    let mut c = stage.server.wire();
    for id in &ids[..4] {
        for prefix in [LIVE, COPY] {
            ok!(c, "DEDUPE.REMOVE", prefix, id);
        }
        let [live, copy] = stage.both();
        copy.assert_same(&live, &format!("after the removal of {id}"));
    }
}

#[test]
fn browsertrix_profile_uses_its_own_names() {
    let server = Options::new().start();
    for prefix in [LIVE, COPY] {
        ok!(server.wire(), "DEDUPE.PROFILE", prefix, "browsertrix");
    }
    let stage = Stage::on(server, "browsertrix", 3, Shape::default());
    // The file hashes equal the hashes in the manifest, which the live crawls wrote.
    let entries = stage.folder.entries.iter();
    let resources: Vec<_> = entries
        .map(|e| json!({"name": e.name, "path": e.path, "hash": e.hash, "crawlId": e.crawl}))
        .collect();
    let import = stage.import_list("hashed.json", &resources);
    import.succeeds();
    // Delete the counts that only imports write, not live crawls.
    let mut c = stage.server.wire();
    for field in ["estimatedRedundantSize", "redundantUrls"] {
        ok!(c, "HDEL", format!("{COPY}allcounts"), field);
    }
    stage.assert_once();
    let hashes = plain_hash(&mut c, COPY, "alldupes");
    assert!(hashes.len() > 100, "{} hashes", hashes.len());
}

#[test]
fn index_without_prefix_uses_the_documented_names() {
    let stage = Stage::new("no prefix");
    stage.import().prefix("").succeeds();
    let live = Outcome::of(&mut stage.server.wire(), LIVE);
    // An index without a prefix would contain the keys of the other index.
    let mut c = stage.server.wire();
    for key in ok!(c, "KEYS", format!("{LIVE}*")).items() {
        ok!(c, "DEL", key.bytes());
    }
    Outcome::of(&mut c, "").assert_same(&live, "imported and live");
    assert_over(&mut c, "");
}

#[test]
fn index_may_be_in_a_cluster() {
    let cluster = Cluster::start(3);
    let stage = Stage::new("cluster");
    let live = Outcome::of(&mut stage.server.wire(), LIVE);
    let prefixes = ["{coll-1}:", "{coll-2}:", "{coll-3}:", "{coll-7}:"];
    for (at, prefix) in prefixes.iter().enumerate() {
        let first = &cluster.nodes()[at % 3];
        let import = Indexer::new(stage.folder.manifest()).redis(&first.url());
        import.prefix(prefix).jobs(2).succeeds();
        let mut c = cluster.owner(prefix).wire();
        Outcome::of(&mut c, prefix).assert_same(&live, "in a cluster and live");
        assert_over(&mut c, prefix);
    }
}
