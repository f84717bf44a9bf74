//! `crawlspace indexer` against an importer that sends the documented plain commands: I1 and I2.

mod documented;

use std::process::Command;
use std::time::Instant;

use redis_tests::archive::{Crawler, Folder, Kind, Layout, Shape};
use redis_tests::{Ended, Options, Program, Rng, Server, ok};

use crate::load::Watch;
use crate::report::{Findings, Goal, Row, Section, say};
use crate::series::{Series, grouped, rate, time};
use crate::{Plan, tool};

/// Crawls of the collection, and WACZ files of each.
const CRAWLS: usize = 4;
const WACZS: u64 = 5;

/// What can be measured alone: nothing, since all of it is compared with the peer's one import.
pub const PIECES: [&str; 0] = [];

/// Measures the import of a collection.
pub fn measure(plan: &Plan) -> Section {
    say("import: writing WACZ files");
    let collection = Collection::new(plan);
    let found = findings(plan, &collection);
    Section {
        title: "Import",
        method: method(plan, &collection),
        rows: found.rows,
        analysis: found.analysis,
    }
}

/// The WACZ files, and what is in them.
struct Collection {
    folder: Folder,
    manifest: String,
    lines: u64,
    revisits: u64,
    others: u64,
    packed: u64,
}

impl Collection {
    fn new(plan: &Plan) -> Collection {
        let shape = Shape {
            captures: plan.scaled(520_000) / CRAWLS as u64,
            waczs: WACZS,
            known: 15,
            other: 3,
            plain: true,
        };
        let mut crawler = Crawler::new(Rng::seeded(plan.seed), shape);
        let mut folder = Folder::new();
        let [mut lines, mut revisits, mut others] = [0; 3];
        for _ in 0..CRAWLS {
            let crawl = crawler.next_crawl();
            let of = |kind| crawl.captures.iter().filter(|c| c.kind == kind).count() as u64;
            lines += crawl.captures.len() as u64;
            revisits += of(Kind::Revisit);
            others += of(Kind::Other);
            folder.write_as(&crawl, Layout::CdxjGzip);
        }
        let packed = folder.entries.iter().map(|entry| entry.size).sum();
        Collection {
            manifest: folder.manifest(),
            folder,
            lines,
            revisits,
            others,
            packed,
        }
    }
}

fn method(plan: &Plan, collection: &Collection) -> String {
    let files = collection.folder.entries.len();
    let percent = |part: u64| 100.0 * part as f64 / collection.lines as f64;
    format!(
        "{} lines of CDXJ in {files} WACZ files of {CRAWLS} crawls, gzipped, {:.0} MB in all; {:.0} % are revisits of \
         what was stored before, drawn at random, and {:.0} % are neither responses nor revisits; seed {}. Ours is \
         the program `crawlspace indexer` in release build, on the same machine as its server, over loopback TCP, timed \
         from its start to its end with everything committed. The peer is an importer as crawlers have them today: the \
         same files line by line, each command sent when the reply to the one before is there, over one connection, with \
         the documented plain keys; its server does not have the module. What comes of both is compared: hashes, owners, \
         records, counts and dependencies. \"Busy\" is the processor time of a process over the time on the wall.",
        grouped(collection.lines),
        collection.packed as f64 / 1e6,
        percent(collection.revisits),
        percent(collection.others),
        plan.seed
    )
}

/// One import, by one program or several at once.
struct Run {
    seconds: f64,
    /// Shares of a core that the server and the programs used.
    server: f64,
    programs: f64,
    /// The most memory that one of the programs had.
    peak: u64,
}

/// Imports everything with so many programs at once into a fresh server.
fn import(collection: &Collection, programs: usize, arguments: &[&str]) -> (Server, Run) {
    let server = Options::new().args(&["--hz", "10"]).start();
    let watch = Watch::start(&server);
    let start = Instant::now();
    let started: Vec<Program> = (0..programs)
        .map(|_| Program::start(indexer(&server, &collection.manifest, arguments)))
        .collect();
    let ended: Vec<Ended> = started.into_iter().map(Program::end_at_last).collect();
    let seconds = start.elapsed().as_secs_f64();
    let throughput = watch.stop(1, 0);
    for one in &ended {
        assert!(one.status.success(), "{}", one.errors);
    }
    let cpu: f64 = ended.iter().map(|one| one.cpu.as_secs_f64()).sum();
    let run = Run {
        seconds,
        server: throughput.busy,
        programs: cpu / seconds,
        peak: ended.iter().map(|one| one.peak).max().unwrap_or(0),
    };
    (server, run)
}

fn indexer(server: &Server, manifest: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(tool());
    command
        .args(["indexer", "--source-url", manifest])
        .args(["--redis", &server.url()])
        .args(arguments);
    command
}

/// What an index is: the same for the same hashes, owners, records, counts and dependencies.
fn index_of(server: &Server, collection: &Collection) -> Vec<String> {
    let mut c = server.wire();
    let mut crawls: Vec<&str> = Vec::new();
    for entry in &collection.folder.entries {
        if !crawls.contains(&&entry.crawl[..]) {
            crawls.push(&entry.crawl);
        }
    }
    let mut keys = vec!["allhashes".to_owned(), "allcrawls".into()];
    for crawl in &crawls {
        let of_crawl = ["h:{}", "h:{}:counts", "{}:reqCrawls"];
        keys.extend(of_crawl.map(|key| key.replace("{}", crawl)));
    }
    let files = collection.folder.entries.iter();
    keys.extend(files.map(|entry| format!("{}:duperefs", entry.name)));
    let digest = |key: &String| {
        let digest = ok!(c, "DEBUG", "DIGEST-VALUE", key).items()[0].text();
        format!("{key} {digest}")
    };
    let mut index: Vec<String> = keys.iter().map(digest).collect();
    for field in ["totalUrls", "dupeUrls", "conservedSize"] {
        index.push(format!("{field} {:?}", ok!(c, "HGET", "allcounts", field)));
    }
    index
}

fn findings(plan: &Plan, collection: &Collection) -> Findings {
    say("import: the documented commands");
    let plain = Options::new().no_module().args(&["--hz", "10"]).start();
    let peer = documented::import(&plain, &collection.folder);
    let expected = index_of(&plain, collection);
    drop(plain);
    let ways: [(&str, usize, &[&str]); 3] = [
        ("one indexer", 1, &[]),
        ("two indexers", 2, &[]),
        ("one indexer, --jobs 2", 1, &["--jobs", "2"]),
    ];
    let mut runs: [Vec<Run>; 3] = Default::default();
    let mut again = Series::default();
    for rep in 1..=plan.reps {
        for ((name, programs, arguments), runs) in ways.iter().zip(&mut runs) {
            say(&format!("import: {name} ({rep}/{})", plan.reps));
            let (server, run) = import(collection, *programs, arguments);
            let index = index_of(&server, collection);
            assert_eq!(index, expected, "the same index as the peer's");
            runs.push(run);
            if *programs == 2 {
                let start = Instant::now();
                let second = Program::start(indexer(&server, &collection.manifest, &[]));
                assert!(second.end_at_last().status.success());
                again.0.push(start.elapsed().as_secs_f64());
            }
        }
    }
    rows(collection, &peer, &runs, &again)
}

fn rows(
    collection: &Collection,
    peer: &documented::Imported,
    runs: &[Vec<Run>; 3],
    again: &Series,
) -> Findings {
    let lines = collection.lines as f64;
    let series =
        |runs: &[Run], figure: fn(&Run) -> f64| runs.iter().map(figure).collect::<Series>();
    let rates = |runs: &[Run]| Series(runs.iter().map(|run| lines / run.seconds).collect());
    let [one, two, jobs] = [0, 1, 2].map(|way| rates(&runs[way]));
    let busy = |way: usize| {
        let [server, programs] = [|run: &Run| run.server, |run: &Run| run.programs]
            .map(|figure| 100.0 * series(&runs[way], figure).median());
        (server, programs)
    };
    let told = |series: &Series, way: usize| {
        let (server, programs) = busy(way);
        format!(
            "{} (server busy {server:.0} %, indexers {programs:.0} %)",
            rate(series.median())
        )
    };
    let peer_rate = lines / peer.seconds;
    let over_peer = |ours: &Series| Series(ours.0.iter().map(|rate| rate / peer_rate).collect());
    let peer_told = format!(
        "{} (server busy {:.0} %)",
        rate(peer_rate),
        100.0 * peer.busy
    );
    let mut found = Findings::default();
    let mut row = |id, what: &str, against: &str, ours, theirs, result, goal| {
        found.rows.push(Row {
            id,
            what: what.into(),
            against: against.into(),
            ours,
            theirs,
            result,
            goal,
        });
    };
    let plain = "plain commands one by one, one connection";
    row(
        "I1",
        "lines imported a second, one indexer",
        plain,
        told(&one, 0),
        peer_told.clone(),
        over_peer(&one),
        Goal::AtLeast(20.0),
    );
    row(
        "I2",
        "two indexers at once",
        "one indexer",
        told(&two, 1),
        rate(one.median()),
        two.over(&one),
        Goal::AtLeast(1.6),
    );
    row(
        "",
        "one indexer with `--jobs 2`",
        "one indexer",
        told(&jobs, 2),
        rate(one.median()),
        jobs.over(&one),
        Goal::Known,
    );
    row(
        "",
        "two indexers at once",
        plain,
        told(&two, 1),
        peer_told,
        over_peer(&two),
        Goal::Known,
    );
    notes(collection, peer, runs, again, &mut found);
    found
}

fn notes(
    collection: &Collection,
    peer: &documented::Imported,
    runs: &[Vec<Run>; 3],
    again: &Series,
    found: &mut Findings,
) {
    let lines = collection.lines as f64;
    let medians = |figure: fn(&Run) -> f64| {
        [0, 1, 2].map(|way| runs[way].iter().map(figure).collect::<Series>().median())
    };
    let seconds = medians(|run| run.seconds);
    let server = medians(|run| run.server);
    let programs = medians(|run| run.programs);
    let peaks = runs.iter().flatten().map(|run| run.peak);
    found.note(
        "I1.",
        format!(
            "The importer of plain commands waits for {:.2} replies a line, {:.0} µs each: a response is an `HSETNX` and an \
             `HINCRBY`, a revisit two `HGET`, three `HINCRBY` and, of another crawl's payload, two `SADD`; the commit is an \
             `HSETNX` for each hash. {} for all of it, and over a network several times that. Ours has 250 records in a \
             command and eight commands in a round trip, reads ahead while they are under way, and looks at each index \
             twice, because nothing of a package is imported unless all of it can be read. It used {:.2} µs of processor \
             for a line and the server {:.2} µs, commits included; {:.0} MB of memory at most. A second import of the same \
             manifest finds that nothing is left to be done in {}.",
            peer.round_trips as f64 / lines,
            1e6 * peer.seconds / peer.round_trips as f64,
            time(peer.seconds),
            1e6 * seconds[0] * programs[0] / lines,
            1e6 * seconds[0] * server[0] / lines,
            peaks.max().unwrap_or(0) as f64 / 1e6,
            time(again.median()),
        ), &["make bench ONLY=import", "time crawlspace indexer --source-url manifest.json --redis redis://127.0.0.1/"]);
    let total = |way: usize| 100.0 * (server[way] + programs[way]);
    found.note(
        "I2.",
        format!(
            "Reading the files is the indexers' work and is shared; the commands and the commits are the server's, which has \
             one thread. It was busy {:.0} % of the time with one indexer and {:.0} % with two: more than {:.1} times as fast \
             as one it cannot become, whoever helps. On this machine of {} cores server and indexers together used {:.0} % of \
             one core with one indexer and {:.0} % with two. `--jobs 2` does in one process what two processes do, with {:.0} % \
             and {:.0} %.",
            100.0 * server[0],
            100.0 * server[1],
            1.0 / server[0],
            std::thread::available_parallelism().map_or(1, usize::from),
            total(0),
            total(1),
            100.0 * server[2],
            100.0 * programs[2],
        ), &["make bench ONLY=import", "time crawlspace indexer --source-url manifest.json --redis redis://127.0.0.1/ --jobs 2"]);
}
