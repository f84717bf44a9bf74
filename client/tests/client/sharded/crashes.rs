//! Tests clients that die between any two steps, and servers that die between two shards.

use crawlspace_client::dedupe::{Adding, Committed, Doing, Sharded};
use crawlspace_client::{Code, Error, Server};
use redis_tests::{Cluster, Options, Server as Redis, assert_contains, but, ok, until};

use super::faults::{Mortal, When};
use super::{added, hashes, records};

const SHARDS: u16 = 4;

/// Describes the observable state of an index.
fn seen(many: &Sharded) -> String {
    let stats = but!(many.stats().unwrap(), memory: 0);
    let owners: Vec<_> = many
        .lookup(None, &hashes(&records(0..60)))
        .unwrap()
        .into_iter()
        .map(|one| one.map(|original| original.crawl))
        .collect();
    format!("{stats:?} {:?} {owners:?}", many.crawls(None).unwrap())
}

fn assert_sound(many: &Sharded, what: &str) {
    assert_eq!(many.unfinished().unwrap(), [], "{what}");
    let check = many.check().unwrap();
    assert!(check.ok, "{what}: {check:?}");
}

/// Creates an index with three crawls, which share hashes: `old` is committed, `again` was continued after
/// its commit, and `new` is not committed.
fn three_crawls(server: &Server, name: &str) -> Sharded {
    let many = Sharded::on(server, name, SHARDS).unwrap();
    let add = |crawl: &[u8], numbers: std::ops::Range<u64>| {
        let records = records(numbers);
        many.add(crawl, &Adding::default(), &added(&records))
            .unwrap();
    };
    add(b"old", 0..20);
    many.wacz_open(b"old", b"old.wacz").unwrap();
    many.commit(b"old").unwrap();
    add(b"again", 10..30);
    many.commit(b"again").unwrap();
    add(b"again", 25..40);
    add(b"new", 15..50);
    many
}

type Opposite = fn(&Sharded, &[u8]) -> Result<(), Error>;
type Work<S> = fn(&Sharded<S>) -> Result<(), Error>;

/// A call, made once by a client that dies and once by a client that survives.
struct Job {
    name: &'static str,
    dying: Work<Mortal>,
    living: Work<Server>,
}

macro_rules! jobs {
    ($($name:literal => |$many:ident| $call:expr,)*) => {
        [$(Job {
            name: $name,
            dying: |$many| $call.map(drop),
            living: |$many| $call.map(drop),
        },)*]
    };
}

#[test]
fn operation_interrupted_at_any_step_is_finished_by_another_client() {
    let redis = Redis::start();
    let server = Server::open(&redis.url()).unwrap();
    let jobs = jobs! {
        "commit" => |many| many.commit(b"new"),
        "commit again" => |many| many.commit(b"again"),
        "commit each" => |many| many.commit_each(&[b"again", b"new"]),
        "cancel" => |many| many.cancel(b"new"),
        "cancel again" => |many| many.cancel(b"again"),
        "remove" => |many| many.remove(&[b"old", b"again"]),
        "retain" => |many| many.retain(false, &[b"again", b"new"]),
        "purge" => |many| many.retain(true, &[b"again", b"new"]),
    };
    for job in jobs {
        let undisturbed = three_crawls(&server, job.name);
        (job.living)(&undisturbed).unwrap();
        let wanted = seen(&undisturbed);
        assert_sound(&undisturbed, job.name);
        let mut deaths = 0;
        for when in [When::Before, When::After] {
            for steps in 0.. {
                let name = format!("{} {when:?} {steps}", job.name);
                let many = three_crawls(&server, &name);
                // Opening the index also counts as a step.
                let mortal = Mortal::after(steps + 1, when, &server);
                let dying = Sharded::on(&mortal, &name[..], SHARDS).unwrap();
                let outcome = (job.dying)(&dying);
                if !mortal.died() {
                    outcome.unwrap();
                    break;
                }
                deaths += 1;
                assert!(outcome.unwrap_err().is_connection());
                match (job.living)(&many) {
                    Ok(()) => {}
                    // The operation was complete, except possibly for its last step.
                    Err(error) => assert!(
                        matches!(error.code(), Some(Code::NoCrawl | Code::Committed)),
                        "{name}: {error}"
                    ),
                }
                assert_eq!(seen(&many), wanted, "{name}");
                assert_sound(&many, &name);
            }
        }
        assert!(deaths >= 4, "{}: {deaths}", job.name);
    }
}

#[test]
fn repeated_commit_reports_everything() {
    let redis = Redis::start();
    let server = Server::open(&redis.url()).unwrap();
    for crawl in ["new", "again"] {
        let whole = three_crawls(&server, &format!("{crawl} whole"));
        let whole = whole.commit(crawl.as_bytes()).unwrap();
        assert!(whole.new > 0, "{whole:?}");
        // The steps are: read and set the marks, commit the other shards, record their counts, and
        // commit the home shard.
        for steps in [0, 1, 2, 4] {
            let name = format!("{crawl} {steps}");
            let many = three_crawls(&server, &name);
            let mortal = Mortal::after(steps + 1, When::Before, &server);
            let dying = Sharded::on(&mortal, &name[..], SHARDS).unwrap();
            let error = dying.commit(crawl.as_bytes()).unwrap_err();
            assert!(mortal.died() && error.is_connection(), "{name}: {error}");
            assert_eq!(many.commit(crawl.as_bytes()).unwrap(), whole, "{name}");
            assert_sound(&many, &name);
        }
    }
}

#[test]
fn repeated_commit_adds_the_counts_of_runs_one_after_another() {
    let redis = Redis::start();
    let server = Server::open(&redis.url()).unwrap();
    let many = Sharded::on(&server, "runs", SHARDS).unwrap();
    for first in [0, 20, 40] {
        let some = records(first..first + 20);
        many.add(b"a", &Adding::default(), &added(&some)).unwrap();
        if first < 40 {
            stop_before_home(&server, "runs", b"a");
        }
    }
    let whole = Committed { new: 60, known: 0 };
    assert_eq!(many.commit(b"a").unwrap(), whole);
    assert_sound(&many, "after the commit");
}

#[test]
fn commits_at_the_same_time_count_no_hash_twice() {
    let redis = Redis::start();
    let server = Server::open(&redis.url()).unwrap();
    let many = Sharded::on(&server, "runs", SHARDS).unwrap();
    let all = records(0..60);
    many.add(b"a", &Adding::default(), &added(&all)).unwrap();
    stop_before_home(&server, "runs", b"a");
    // Each shard replies with the same counts to all clients that commit a crawl at the same time.
    let (key, mut wire) = ("{runs-0}:shards", redis.wire());
    let marks = ok!(wire, "HGETALL", key);
    let mark = marks
        .items()
        .chunks(2)
        .find(|mark| mark[0].text() != "shards");
    let counts = mark.expect("a mark")[1].text();
    for run in 0..3 {
        ok!(wire, "HSET", key, format!("commit {run:016x} a"), &counts);
    }
    let whole = Committed { new: 60, known: 0 };
    assert_eq!(many.commit(b"a").unwrap(), whole);
    assert_sound(&many, "after the commit");
}

/// Commits a crawl with a client that dies before it commits the home shard.
fn stop_before_home(server: &Server, name: &str, crawl: &[u8]) {
    let mortal = Mortal::after(5, When::Before, server);
    let dying = Sharded::on(&mortal, name, SHARDS).unwrap();
    dying.commit(crawl).unwrap_err();
    assert!(mortal.died());
}

#[test]
fn opposite_of_an_interrupted_operation_waits_or_wins_without_leftovers() {
    let redis = Redis::start();
    let server = Server::open(&redis.url()).unwrap();
    let cut = jobs! {
        "commit" => |many| many.commit(b"new"),
        "commit again" => |many| many.commit(b"again"),
        "cancel" => |many| many.cancel(b"new"),
        "cancel again" => |many| many.cancel(b"again"),
        "remove again" => |many| many.remove(&[b"again"]),
        "remove" => |many| many.remove(&[b"old"]),
    };
    for job in cut {
        let crawl: &[u8] = match job.name {
            "remove" => b"old",
            name if name.ends_with("again") => b"again",
            _ => b"new",
        };
        let opposites: [(&str, Opposite); 3] = [
            ("commit", |many, crawl| many.commit(crawl).map(drop)),
            ("cancel", |many, crawl| many.cancel(crawl).map(drop)),
            ("remove", |many, crawl| many.remove(&[crawl]).map(drop)),
        ];
        for (opposite, call) in opposites {
            for (when, steps) in [When::Before, When::After]
                .into_iter()
                .flat_map(|when| (0..9).map(move |steps| (when, steps)))
            {
                let name = format!("{} {when:?} {steps} {opposite}", job.name);
                let many = three_crawls(&server, &name);
                let mortal = Mortal::after(steps + 1, when, &server);
                let dying = Sharded::on(&mortal, &name[..], SHARDS).unwrap();
                let _ = (job.dying)(&dying);
                match call(&many, crawl) {
                    Ok(()) => {}
                    Err(error) if error.code() == Some(Code::Sharded) => {
                        assert_contains(&error, "to finish it first");
                        let _ = (job.living)(&many);
                    }
                    Err(error) => assert!(
                        matches!(
                            error.code(),
                            Some(Code::NoCrawl | Code::Committed | Code::Uncommitted)
                        ),
                        "{name}: {error}"
                    ),
                }
                // Any outcome is allowed, but it must be possible to complete every marked
                // operation. Afterwards, no operation is half done.
                for mark in many.unfinished().unwrap() {
                    let _ = match mark.doing {
                        Doing::Commit => many.commit(&mark.crawl).map(drop),
                        Doing::Cancel => many.cancel(&mark.crawl).map(drop),
                        Doing::Remove => many.remove(&[&mark.crawl]).map(drop),
                    };
                }
                assert_sound(&many, &name);
                let committed = many.crawls(Some(crawlspace_client::dedupe::Listed::Committed));
                let committed: Vec<_> = committed.unwrap().into_iter().map(|c| c.crawl).collect();
                for shard in many.shards() {
                    let there = shard.crawls(Some(crawlspace_client::dedupe::Listed::Committed));
                    for one in there.unwrap() {
                        assert!(committed.contains(&one.crawl), "{name}: {one:?}");
                    }
                }
            }
        }
    }
}

/// Starts a cluster of three persistent servers, and an index with at least one shard on each of them.
fn cluster() -> (Cluster, Sharded) {
    let cluster = Cluster::with(3, Options::new().aof_unsynced(true));
    let server = Server::options(&cluster.url()).retries(1).open().unwrap();
    let many = Sharded::on(&server, "coll", 6).unwrap();
    (cluster, many)
}

/// Returns a server that does not have the home shard.
fn not_home(cluster: &Cluster, many: &Sharded) -> usize {
    let home = cluster.owner(many.shards()[0].prefix()).port();
    let nodes = cluster.nodes().iter();
    nodes
        .map(Redis::port)
        .position(|port| port != home)
        .unwrap()
}

#[test]
fn index_is_spread_over_a_cluster() {
    let (cluster, many) = cluster();
    let all = records(0..600);
    many.add(b"a", &Adding::default(), &added(&all)).unwrap();
    assert_eq!(many.commit(b"a").unwrap().new, 600);
    for node in cluster.nodes() {
        let keys = node.wire().ok_line("DBSIZE").int();
        assert!(keys > 0, "a server has no key of the index");
    }
    let found = many.lookup(None, &hashes(&all)).unwrap();
    assert!(found.iter().all(Option::is_some));
    assert!(many.check().unwrap().ok);
}

#[test]
fn commit_resumes_after_a_server_crash() {
    let (mut cluster, many) = cluster();
    let all = records(0..600);
    many.add(b"a", &Adding::default(), &added(&all)).unwrap();
    let dying = not_home(&cluster, &many);
    cluster.node_mut(dying).kill9();
    let error = many.commit(b"a").unwrap_err();
    assert!(
        error.is_connection() || error.code() == Some(Code::ClusterDown),
        "{error}"
    );
    let unfinished = many.unfinished();

    cluster.node_mut(dying).restart();
    cluster.wait_until_whole();
    let many = reopened(&cluster);
    if let Ok(unfinished) = unfinished {
        assert_eq!(unfinished.len(), 1);
    }
    let half = many.crawls(None).unwrap();
    let expected = crawlspace_client::dedupe::CrawlState::Uncommitted;
    assert_eq!(half[0].standing.state, expected);
    // The reply counts the records of all shards, including the shards that had committed before the error.
    let whole = Committed { new: 600, known: 0 };
    assert_eq!(many.commit(b"a").unwrap(), whole);
    assert_sound(&many, "after the commit");
    assert_eq!(many.stats().unwrap().hashes, 600);
    assert_eq!(many.commit(b"a").unwrap(), Committed::default());
}

#[test]
fn crashing_servers_lose_nothing_and_count_nothing_twice() {
    // With minimal slices, the test can interrupt the job.
    let options = Options::new()
        .aof_unsynced(true)
        .module_args(&["slice-us", "50"]);
    let mut cluster = Cluster::with(3, options);
    let fresh = |cluster: &Cluster| reopened(cluster);
    let many = fresh(&cluster);
    let all = records(0..12_000);
    let (first, second) = all.split_at(8000);
    many.add(b"a", &Adding::default(), &added(first)).unwrap();
    many.add(b"b", &Adding::default(), &added(second)).unwrap();
    many.add(b"b", &Adding::default(), &added(&first[..2000]))
        .unwrap();
    many.commit(b"b").unwrap();
    for dying in 0..3 {
        let port = cluster.nodes()[dying].port();
        let works = |cluster: &Cluster| {
            let node = &cluster.nodes()[dying];
            node.info_number("jobs_running") + node.info_number("jobs_done")
        };
        let done = works(&cluster);
        let committing = std::thread::spawn({
            let server = Server::options(&cluster.url()).retries(0).open().unwrap();
            let many = Sharded::on(&server, "coll", 6).unwrap();
            move || many.commit(b"a")
        });
        until("it works, or has worked", || works(&cluster) > done);
        cluster.node_mut(dying).kill9();
        let outcome = committing.join().unwrap();
        cluster.node_mut(dying).restart();
        cluster.wait_until_whole();
        let many = fresh(&cluster);
        many.commit(b"a").unwrap();
        assert_sound(&many, &format!("the server at {port}, {outcome:?}"));
        let stats = many.stats().unwrap();
        assert_eq!((stats.hashes, stats.crawls), (12_000, 2));
        assert_eq!(stats.total_urls, 14_000, "{outcome:?}");
        let known = many.crawl_stats(b"a").unwrap();
        assert_eq!((known.hashes, known.total_urls), (8000, 8000));
        // Remove crawl `a` and add it again for the next iteration.
        many.remove(&[b"a"]).unwrap();
        assert_sound(&many, "after the removal");
        assert_eq!(many.stats().unwrap().hashes, 6000);
        many.add(b"a", &Adding::default(), &added(first)).unwrap();
    }
}

#[test]
fn crawl_with_an_interrupted_commit_can_be_cancelled() {
    let (mut cluster, many) = cluster();
    let all = records(0..600);
    many.add(b"a", &Adding::default(), &added(&all)).unwrap();
    let dying = not_home(&cluster, &many);
    cluster.node_mut(dying).kill9();
    many.commit(b"a").unwrap_err();
    cluster.node_mut(dying).restart();
    cluster.wait_until_whole();
    let many = reopened(&cluster);
    assert_eq!(many.cancel(b"a").unwrap(), 600);
    assert_sound(&many, "after the cancel");
    assert_eq!(many.crawls(None).unwrap(), []);
    assert!(
        many.lookup(None, &hashes(&all))
            .unwrap()
            .iter()
            .all(Option::is_none)
    );
}

#[test]
fn interrupted_removal_is_finished() {
    let (mut cluster, many) = cluster();
    let all = records(0..600);
    for crawl in [&b"a"[..], b"b"] {
        many.add(crawl, &Adding::default(), &added(&all)).unwrap();
        many.commit(crawl).unwrap();
    }
    let dying = not_home(&cluster, &many);
    cluster.node_mut(dying).kill9();
    many.remove(&[b"a"]).unwrap_err();
    cluster.node_mut(dying).restart();
    cluster.wait_until_whole();
    let many = reopened(&cluster);
    assert_eq!(many.remove(&[b"a"]).unwrap().crawls, 1);
    assert_sound(&many, "after the removal");
    let owners = many.lookup(None, &hashes(&all)).unwrap();
    assert!(owners.iter().all(|one| one.as_ref().unwrap().crawl == b"b"));
}

fn reopened(cluster: &Cluster) -> Sharded {
    let server = Server::options(&cluster.url()).retries(8).open().unwrap();
    Sharded::on(&server, "coll", 6).unwrap()
}
