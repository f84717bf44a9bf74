//! Tests `--into`: from metadata files to a dedupe index.

use crawlspace_client::dedupe::{CrawlState, Index};
use crawlspace_index::Lookup;
use redis_tests::{
    Cluster, Options, Program, Relay, Server, Snapshot, assert_consistent, assert_contains,
    assert_starts, ends, until,
};
use serde_json::Value;

use crate::index_cache::stage::Stage;

const PREFIX: &str = "{coll-42}:";

fn get(
    stage: &Stage,
    server: &Server,
    kind: &str,
    jobs: &str,
    words: &str,
) -> std::process::Command {
    let url = server.url();
    let into = format!("--json --into {url} --prefix {PREFIX}");
    stage.get(kind, jobs, &format!("{into} {words}"))
}

fn outcomes(answer: &Value) -> Vec<(u64, &str)> {
    let jobs = answer["loaded"]["jobs"].as_array().unwrap().iter();
    jobs.map(|one| {
        (
            one["job"].as_u64().unwrap(),
            one["outcome"].as_str().unwrap(),
        )
    })
    .collect()
}

fn keys(server: &Server) -> Snapshot {
    let mut c = server.wire();
    assert_consistent(&mut c, PREFIX);
    let all = Snapshot::of_keys(&mut c, |key| key.starts_with(PREFIX.as_bytes()));
    all.without(|key| key.ends_with(b":seq"))
}

/// Heritrix logs the position of a revisit record for a revisit, although that record has no
/// payload. If the digest were loaded, a crawler would write revisits of a record that has no
/// payload.
#[test]
fn payloads_without_records_are_not_known() {
    let (stage, server) = (Stage::of([]), Server::start());
    let digests = ["A", "B", "C", "D"].map(|letter| letter.repeat(32));
    let line = |n: usize, notes: &str| {
        let digest = &digests[n];
        format!(
            "2013-05-22T08:20:3{n}.000Z   200        100 http://example.org/a.png LL http://example.org/ image/png \
             #001 2013052208202{n}000+5 sha1:{digest} - {notes} \
             {{\"warcFilename\":\"7-1.warc.gz\",\"warcFileOffset\":{n}}}\n"
        )
    };
    let crawl_log = [
        line(0, "3t"),
        line(1, "3t,duplicate:digest,warcRevisit:digest"),
        line(2, "duplicate:server-not-modified"),
        line(3, "unwritten:status"),
    ];
    // The CDX also has records of the other lines.
    let cdx = (0..4).map(|n| {
        format!(
            "http://example.org/a.png 10.0.0.1 2013052208202{n} image/png 100 7-1.warc.gz {n}\n"
        )
    });
    let cdx: String = cdx.collect();
    stage.add_of(7, crawl_log.concat().as_bytes(), Some(cdx.as_bytes()));
    let answer = ends(get(&stage, &server, "full", "7", ""), 0).object();
    let loaded = &answer["loaded"]["jobs"][0];
    assert_eq!(
        (&loaded["records"], &loaded["skipped"]["nowhere"]),
        (&1.into(), &3.into())
    );
    let index = Index::open(&server.url(), PREFIX).unwrap();
    let known = digests.map(|digest| {
        let hash = format!("sha1:{digest}");
        index.lookup_with_wacz(None, &[hash.as_bytes()]).unwrap()[0].is_some()
    });
    assert_eq!(known, [true, false, false, false]);
}

#[test]
fn crawler_finds_the_records_of_a_job() {
    let (stage, server) = (Stage::of([3, 7]), Server::start());
    let answer = ends(get(&stage, &server, "dedup", "3,7", "--strict"), 0).object();
    assert_eq!(outcomes(&answer), [(3, "committed"), (7, "committed")]);
    let index = Index::open(&server.url(), PREFIX).unwrap();
    let mut c = server.wire();
    assert_consistent(&mut c, PREFIX);
    let mut looked_up = 0;
    for (job, crawl) in [(3, "job-3"), (7, "job-7")] {
        let entry = stage.entry("dedupcrawllogindex", &format!("{job}-cache"));
        let stats = index.crawl_stats(crawl.as_bytes()).unwrap();
        assert_eq!(stats.state, CrawlState::Committed);
        let lookup = Lookup::open(&entry).unwrap();
        let mut records = 0;
        for row in lookup.all().unwrap() {
            let row = row.unwrap();
            let is_loaded =
                !row.field("filename").is_empty() && row.field("url").starts_with("http");
            if !is_loaded {
                continue;
            }
            records += 1;
            let hash = format!("sha1:{}", row.field("digest"));
            let found = index.lookup_with_wacz(None, &[hash.as_bytes()]).unwrap();
            let found = found[0]
                .as_ref()
                .unwrap_or_else(|| panic!("{hash} of {crawl}"));
            let original = &found.original;
            // The record of the original is in the index of the owning job, in the file that the
            // original names.
            let owner = std::str::from_utf8(&original.crawl)
                .unwrap()
                .replace("job-", "");
            let owner = stage.entry("dedupcrawllogindex", &format!("{owner}-cache"));
            let url = String::from_utf8(original.url.clone()).unwrap();
            let owns = Lookup::open(&owner).unwrap();
            let file = found
                .filename
                .as_ref()
                .map(|name| String::from_utf8_lossy(name).into_owned());
            let is_it = owns.by_url(&url).unwrap().any(|own| {
                let own = own.unwrap();
                own.timestamp() == original.date && Some(own.field("filename")) == file
            });
            assert!(is_it, "{hash}: {found:?}");
            looked_up += 1;
        }
        assert!(stats.total_urls > 0 && stats.total_urls <= records);
    }
    assert!(looked_up > 100, "{looked_up}");
}

#[test]
fn loading_twice_equals_loading_once() {
    let (stage, server) = (Stage::of([1, 2, 3]), Server::start());
    ends(get(&stage, &server, "dedup", "1-2", ""), 0);
    let once = server.snapshot();
    let again = ends(get(&stage, &server, "dedup", "1-2", ""), 0).object();
    assert_eq!(outcomes(&again), [(1, "known"), (2, "known")]);
    server.snapshot().assert_same(&once, "loaded a second time");
    let more = ends(get(&stage, &server, "dedup", "1-3", ""), 0).object();
    let expected = [(1, "known"), (2, "known"), (3, "committed")];
    assert_eq!(outcomes(&more), expected);

    // The result equals loading everything at once, even after the caches are lost.
    let fresh = Server::start();
    std::fs::remove_dir_all(stage.cache()).unwrap();
    ends(get(&stage, &fresh, "dedup", "1-3", ""), 0);
    keys(&server).assert_same(&keys(&fresh), "jobs loaded one by one and together");
    let known = ends(get(&stage, &server, "dedup", "1-3", ""), 0).object();
    assert_eq!(outcomes(&known), [(1, "known"), (2, "known"), (3, "known")]);
}

#[test]
fn killed_load_resumes() {
    let stage = Stage::of([1]);
    stage.add(2, 20_000);
    // Build everything first, so that the process is killed while it loads.
    ends(stage.get("full", "1-2", ""), 0);
    let (whole, server) = (Server::start(), Server::start());
    ends(get(&stage, &whole, "full", "1-2", ""), 0);
    let index = Index::open(&server.url(), PREFIX).unwrap();
    for least in [1, 4_000, 9_000] {
        let loading = Program::start(get(&stage, &server, "full", "1-2", ""));
        let is_far = || {
            index
                .crawl_stats(b"job-2")
                .is_ok_and(|stats| stats.total_urls >= least)
        };
        until("some records of the second job are loaded", is_far);
        loading.kill9();
    }
    let done = ends(get(&stage, &server, "full", "1-2", ""), 0).object();
    assert_eq!(outcomes(&done)[0], (1, "known"));
    keys(&server).assert_same(&keys(&whole), "killed and undisturbed runs");
}

#[test]
fn crawls_can_be_renamed() {
    let (stage, server) = (Stage::of([7]), Server::start());
    ends(
        get(&stage, &server, "dedup", "7", "--crawl-id snapshot/{job}"),
        0,
    );
    let index = Index::open(&server.url(), PREFIX).unwrap();
    let expected = CrawlState::Committed;
    assert_eq!(index.crawl_stats(b"snapshot/7").unwrap().state, expected);
    assert!(index.crawl_stats(b"job-7").is_err());
}

#[test]
fn refusals_are_reported_and_other_jobs_continue() {
    let (stage, server) = (Stage::of([1, 2]), Server::start());
    let hash = redis_tests::sha256_of(1);
    server.wire().ok_line(format!(
        "DEDUPE.ADD {PREFIX} job-1 {hash} 0 20260101000000 http://a/ 9"
    ));
    let some = ends(get(&stage, &server, "dedup", "1-2,9", ""), 1);
    let answer = some.object();
    assert_eq!(outcomes(&answer), [(2, "committed")]);
    assert_eq!(answer["loaded"]["failed"][0]["job"], 1);
    assert_contains(&some.errors, "crawlspace dedupe cancel job-1");
    assert_contains(&some.errors, "job 9: no such job");
}

#[test]
fn invalid_server_is_reported_before_the_build() {
    let stage = Stage::of([1]);
    let bare = Options::new().no_module().start();
    for url in ["redis://127.0.0.1:1/", &bare.url()] {
        let failed = ends(stage.get("dedup", "1", &format!("--into {url}")), 1);
        assert_starts(&failed.errors, "crawlspace: ");
        assert!(
            !stage.entry("dedupcrawllogindex", "1-cache").exists(),
            "{url}"
        );
    }
}

#[test]
fn load_outcome_is_printed_as_text() {
    let (stage, server) = (Stage::of([1]), Server::start());
    // Without a CDX, the positions of some captures are unknown.
    let (crawl_log, _) = redis_tests::harvest::logs(2, 4711, 100);
    stage.add_of(2, &crawl_log, None);
    let url = server.url();
    let told = ends(stage.get("full", "1-2", &format!("--into {url}")), 0);
    assert_contains(&told.out, "committed            2  now, with ");
    assert_contains(&told.errors, "because the index has no position for them");
    let told = ends(stage.get("full", "1-2", &format!("--into {url}")), 0).out;
    assert_contains(
        &told,
        "known                2  already committed, and unchanged",
    );
}

#[test]
fn lost_server_is_reported_and_the_command_resumes() {
    let stage = Stage::of([1]);
    stage.add(2, 5_000);
    ends(stage.get("full", "1-2", ""), 0);
    let (whole, server) = (Server::start(), Server::start());
    ends(get(&stage, &whole, "full", "1-2", ""), 0);
    let relay = Relay::to(&server);
    let url = relay.url();
    let load = || stage.get("full", "1-2", &format!("--into {url} --prefix {PREFIX}"));
    for bytes in [40_000, 200_000] {
        relay.hold_after(bytes);
        let mut program = Program::start(load());
        until(
            "the relay holds the import or the program has ended",
            || relay.holds() || program.ended().is_some(),
        );
        relay.refuse(true);
        relay.cut();
        let ended = program.end();
        assert_eq!(ended.status.code(), Some(1), "{}", ended.errors);
        assert_contains(&ended.errors, "not loaded: ");
        relay.refuse(false);
    }
    ends(load(), 0);
    keys(&server).assert_same(&keys(&whole), "a broken connection and an undisturbed one");
}

#[test]
fn index_may_be_in_a_cluster() {
    let stage = Stage::of([1, 2]);
    let cluster = Cluster::start(3);
    let url = cluster.url();
    let load = |prefix| {
        stage.get(
            "dedup",
            "1-2",
            &format!("--into {url} --prefix '{prefix}' --json"),
        )
    };
    for expected in ["committed", "known"] {
        let answer = ends(load(PREFIX), 0).object();
        assert_eq!(outcomes(&answer), [(1, expected), (2, expected)]);
    }
    let refused = ends(load("without a hash tag:"), 1);
    assert_contains(&refused.errors, "BADPREFIX");
}
