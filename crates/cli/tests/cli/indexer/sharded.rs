//! Tests imports into a sharded index: they give the same index as an import into one prefix.

use std::thread;

use crawlspace_cli::any_index::{AnyIndex, IndexName};
use crawlspace_client::Server;
use crawlspace_client::dedupe::{Crawl, Dependent, Located, Of, Required, Sharded, Stats};
use redis_tests::archive::Shape;
use redis_tests::{Cluster, Options, Program, Relay, Wire, assert_contains, but, ok, until, with};
use serde_json::json;

use crate::indexer::guards::larger;
use crate::indexer::stage::{
    Indexer, LIVE, Stage, assert_over, in_the_middle, killed, sent_to, succeeded,
};

const SHARDS: u16 = 5;

/// State of an index that users see, of either kind.
#[derive(Debug, PartialEq)]
struct Seen {
    stats: Stats,
    crawls: Vec<Crawl>,
    originals: Vec<Option<Located>>,
    requires: Vec<Vec<Required>>,
    required_by: Vec<Vec<Dependent>>,
}

impl Seen {
    /// Reads the index that the crawler built.
    #[track_caller]
    fn live(stage: &Stage) -> Seen {
        let live = open(&stage.server.url(), IndexName::Prefix(LIVE.into()));
        Seen::of(&live, stage)
    }

    /// Reads an index, which must be consistent.
    #[track_caller]
    fn of(index: &AnyIndex, stage: &Stage) -> Seen {
        let check = index.check().unwrap();
        assert!(check.ok, "{check:?}");
        let captures = stage.crawls.iter().flat_map(|crawl| &crawl.captures);
        let hashes: Vec<String> = captures.map(|capture| capture.hash_in_index()).collect();
        let hashes: Vec<&[u8]> = hashes.iter().map(String::as_bytes).collect();
        let mut crawls = index.crawls(None).unwrap();
        crawls.sort_by(|a, b| a.crawl.cmp(&b.crawl));
        let requires = of_each(&crawls, |crawl| {
            let mut requires = index.requires(Of::Crawl(crawl), true).unwrap();
            requires.sort_by(|a, b| a.filename.cmp(&b.filename));
            requires
        });
        let required_by = of_each(&crawls, |crawl| {
            let mut dependents = index.required_by(crawl).unwrap();
            dependents.sort_by(|a, b| a.crawl.cmp(&b.crawl));
            dependents
        });
        Seen {
            // Imports write their progress, live crawls do not.
            stats: but!(index.stats().unwrap(), memory: 0, update_progress: None),
            originals: index.lookup_with_wacz(None, &hashes).unwrap(),
            crawls,
            requires,
            required_by,
        }
    }
}

/// Asks something about each crawl, several at a time, because each answer needs several round trips.
fn of_each<T: Send>(crawls: &[Crawl], ask: impl Fn(&[u8]) -> T + Sync) -> Vec<T> {
    const THREADS: usize = 4;
    let ask = &ask;
    thread::scope(|scope| {
        let parts = crawls.chunks(crawls.len().div_ceil(THREADS).max(1));
        let parts = parts.map(|part| {
            scope.spawn(move || part.iter().map(|one| ask(&one.crawl)).collect::<Vec<T>>())
        });
        let parts: Vec<_> = parts.collect();
        let of_part = |part: thread::ScopedJoinHandle<'_, Vec<T>>| part.join().expect("answers");
        parts.into_iter().flat_map(of_part).collect()
    })
}

fn open(url: &str, name: IndexName) -> AnyIndex {
    name.open(&Server::open(url).unwrap()).unwrap()
}

fn sharded(url: &str, name: &str) -> AnyIndex {
    open(url, IndexName::Sharded(name.as_bytes().to_vec(), None))
}

/// Fails unless everything was imported into the sharded index, and counted once.
#[track_caller]
fn assert_once(stage: &Stage, name: &str) {
    assert_once_in(stage, &stage.server.url(), &mut stage.server.wire(), name);
}

/// Fails unless everything was imported into the sharded index of this server, and counted once. The connection is
/// to the server of the home shard.
#[track_caller]
fn assert_once_in(stage: &Stage, url: &str, home: &mut Wire, name: &str) {
    assert_is(&Seen::live(stage), stage, url, home, name);
}

/// Fails unless the sharded index of this server is in this state, and the import is over.
#[track_caller]
fn assert_is(live: &Seen, stage: &Stage, url: &str, home: &mut Wire, name: &str) {
    let many = sharded(url, name);
    let AnyIndex::Sharded(index) = &many else {
        panic!("a sharded index");
    };
    assert_eq!(index.unfinished().unwrap(), []);
    assert!(live.stats.dupe_urls > 0 && live.stats.crawls > 0);
    assert_eq!(Seen::of(&many, stage), *live);
    assert_over(home, &format!("{{{name}-0}}:"));
}

/// Returns an import of all files into this sharded index.
fn into_shards(import: Indexer, name: &str) -> Indexer {
    let import = import.without("--prefix").with("--sharded", name);
    import.with("--shards", &SHARDS.to_string())
}

#[test]
fn shards_have_what_one_index_has() {
    let stage = Stage::with("shards", Options::new(), 4, larger());
    let import = into_shards(stage.import(), "many");
    let missing = import.clone().without("--shards").fails();
    assert_contains(
        &missing,
        "no sharded index has the name 'many'; pass --shards N to create it",
    );
    let report = import.clone().jobs(2).succeeds();
    assert_eq!(report["imported"], stage.folder.entries.len());
    assert_once(&stage, "many");
    // A second import finds everything, without the number of shards, too.
    let again = import.clone().without("--shards").succeeds();
    assert_eq!(again["alreadyImported"], stage.folder.entries.len());
    assert_once(&stage, "many");
    let others = import.with("--shards", "6").fails();
    assert_contains(&others, "this index has 5 shards, not 6");
}

#[test]
fn killed_import_into_shards_counts_everything_once() {
    let shapes = [larger(), with!(Shape, captures: 8, waczs: 1, known: 60)];
    for (shape, crawls) in shapes.into_iter().zip([3, 40]) {
        let mut stage = Stage::with("shards killed", Options::new(), crawls, shape);
        let relay = Relay::to(&stage.server);
        let before = relay.sent();
        into_shards(stage.import().redis(&relay.url()), "undisturbed").succeeds();
        let all = relay.sent() - before;
        for round in 0..3 {
            let name = format!("killed-{round}");
            let import = into_shards(stage.import().redis(&relay.url()), &name).jobs(1 + round % 2);
            for _ in 0..12 {
                relay.hold_after(1 + stage.rng.below(all / 3));
                let mut program = import.start();
                in_the_middle(&relay, &mut program);
                if !relay.holds() {
                    break;
                }
                killed(program, &relay);
            }
            relay.go_on();
            import.succeeds();
            assert_once(&stage, &name);
        }
    }
}

#[test]
fn revisits_in_shards_wait_for_their_originals() {
    let shape = with!(Shape, plain: true, known: 50, waczs: 3, captures: 700);
    let mut stage = Stage::with("shards later", Options::new(), 3, shape);
    let relay = Relay::to(&stage.server);
    let import_of = |crawl: usize| {
        let files = stage.files_of(crawl);
        stage.import_of(
            stage
                .folder
                .manifest_of(&format!("crawl {crawl}.json"), &files),
        )
    };
    let imports = [import_of(2), import_of(1)];
    for round in 0..2 {
        let name = format!("later-{round}");
        for import in imports.clone() {
            let report = into_shards(import, &name).succeeds();
            assert_ne!(report["unresolved"], 0);
        }
        // Kill the import later each time, so that the loop ends.
        let mut bytes = 1_000;
        loop {
            relay.hold_after(stage.rng.below(bytes));
            let import = into_shards(stage.import().redis(&relay.url()), &name);
            let mut program = import.start();
            in_the_middle(&relay, &mut program);
            if !relay.holds() {
                relay.go_on();
                assert_eq!(succeeded(&program.end())["unresolved"], 0);
                break;
            }
            killed(program, &relay);
            bytes = bytes * 6 / 5 + 1_000;
        }
        assert_once(&stage, &name);
    }
}

#[test]
fn two_indexers_share_an_import_into_shards() {
    let stage = Stage::with("shards shared", Options::new(), 6, larger());
    into_shards(stage.import_list("none.json", &[]), "shared").succeeds();
    let import = into_shards(stage.import(), "shared").jobs(2);
    for one in [import.start(), import.start()] {
        succeeded(&one.end());
    }
    assert_once(&stage, "shared");
}

#[test]
fn crawls_of_shards_are_removed_committed_and_cancelled() {
    let stage = Stage::new("shards removed");
    into_shards(stage.import(), "many").succeeds();
    let kept = stage.files_of(1);
    let manifest = stage.folder.manifest_of("kept.json", &kept);
    let report = into_shards(stage.import_of(&manifest), "many").succeeds();
    assert_eq!(report["unlistedCrawls"], 2);
    let many = sharded(&stage.server.url(), "many");
    assert_eq!(many.stats().unwrap().removed_crawls, 2);
    let removing = into_shards(stage.import_of(&manifest), "many").flag("--remove");
    assert_eq!(removing.succeeds()["removedCrawls"], 2);
    let crawls = many.crawls(None).unwrap();
    let ids: Vec<&[u8]> = crawls.iter().map(|crawl| &crawl.crawl[..]).collect();
    assert_eq!(ids, [stage.crawls[1].id.as_bytes()]);
    assert!(many.check().unwrap().ok);

    let id = &stage.crawls[1].id;
    let base = Indexer::new("-")
        .without("--source-url")
        .without("--lease")
        .without("--wait");
    let base = into_shards(base.redis(&stage.server.url()), "many");
    let committed = base.clone().with("--commit-crawl-id", id).succeeds();
    assert_eq!(committed, json!({"crawl": id, "new": 0, "known": 0}));
    let aside = base.with("--cancel-crawl-id", id).succeeds();
    assert_eq!(aside, json!({"crawl": id, "canceled": 0, "setAside": true}));
    let empty = into_shards(stage.import_list("none.json", &[]), "many");
    empty.flag("--remove").flag("--allow-empty").succeeds();
    assert_eq!(many.crawls(None).unwrap(), []);
    assert_eq!(many.stats().unwrap().hashes, 0);
}

/// Suspends an import once it has reached a state.
#[track_caller]
fn suspend(import: &mut Program, what: &str, mut has_reached: impl FnMut() -> bool) {
    until(what, || import.ended().is_some() || has_reached());
    import.pause();
    assert!(import.ended().is_none(), "the import was too fast");
}

#[test]
fn failover_and_reshard_during_an_import_lose_and_repeat_nothing() {
    let shape = with!(Shape, captures: 2_000, known: 50);
    let stage = Stage::with("shards move", Options::new(), 12, shape);
    let cluster = Cluster::start(3);
    let url = cluster.url();
    let index = Sharded::open(&url, "moved", 12).unwrap();
    let (home, moving) = (index.shards()[0].prefix(), index.shards()[2].prefix());
    let (from, failing) = (
        cluster.owner(moving),
        cluster.owner(index.shards()[6].prefix()),
    );
    assert_ne!(from.port(), failing.port());
    let mut nodes = cluster.nodes().iter();
    let to = nodes.find(|node| ![from.port(), failing.port()].contains(&node.port()));
    let replica = cluster.replica_of(failing);
    let mut c = cluster.owner(home).wire();
    let home = String::from_utf8_lossy(home);

    let import = into_shards(stage.import().redis(&url), "moved").with("--shards", "12");
    let mut import = import.with("--wait", "1h").start();
    suspend(&mut import, "some responses are added", || {
        ok!(c, "LLEN", format!("{home}src:r")).int() > 0
    });
    cluster.begin_move(moving, to.expect("a third node"));
    import.go_on();
    cluster.finish_move(moving, to.expect("a third node"));
    suspend(&mut import, "some revisits are counted", || {
        ok!(c, "HGET", format!("{home}allcounts"), "updateProgress").text() != "0"
    });
    import.go_on();
    cluster.fail_over_to(&replica);
    succeeded(&import.end());
    assert_once_in(&stage, &url, &mut c, "moved");
}

#[test]
fn small_files_take_few_commands_of_all_servers() {
    let shape = with!(Shape, captures: 10, waczs: 1, plain: true);
    let stage = Stage::with("shards commands", Options::new().aof(false), 300, shape);
    let cluster = Cluster::with(3, Options::new().aof(false));
    let url = cluster.url();
    let live = Seen::live(&stage);
    // Each shard that has records of a file gets its own calls.
    for (shards, commands) in [(3, 15), (12, 20)] {
        let name = format!("few-{shards}");
        let index = Sharded::open(&url, &name[..], shards).unwrap();
        for node in cluster.nodes() {
            ok!(node.wire(), "CONFIG", "RESETSTAT");
        }
        let import = into_shards(stage.import().redis(&url), &name);
        import.without("--shards").succeeds();
        let calls: Vec<_> = cluster.nodes().iter().map(sent_to).collect();
        let sent: u64 = calls.iter().flat_map(|calls| calls.values()).sum();
        let most = commands * stage.folder.entries.len() as u64;
        assert!(sent <= most, "{shards} shards: {sent} commands: {calls:?}");
        let home = cluster.owner(index.shards()[0].prefix());
        assert_is(&live, &stage, &url, &mut home.wire(), &name);
    }
}
