//! `crawlspace indexer` compared with an importer that sends the documented plain commands (I1,
//! I2), an import of many small crawls (I3), and the indexing of WARC files (I4).

mod cdxj;
mod documented;

use std::process::Command;
use std::time::Instant;

use redis_tests::archive::{Crawler, Folder, Kind, Layout, Shape};
use redis_tests::{Ended, Options, Program, Rng, Server, ok};

use crate::load::Watch;
use crate::machine::cores;
use crate::report::{Findings, Goal, Section, note, say, table};
use crate::series::{Series, grouped, rate, time};
use crate::targets;
use crate::{Plan, tool};

/// Number of crawls of the collection, and of WACZ files per crawl.
const CRAWLS: usize = 4;
const WACZS: u64 = 5;

/// Number of small crawls, and of captures per crawl.
const SMALL_CRAWLS: u64 = 2000;
const SMALL: u64 = 10;

/// Measures the import of a collection.
pub fn measure(plan: &Plan) -> Section {
    say("import: writing WACZ files");
    let collection = Collection::new(plan);
    Section {
        title: "Import",
        method: method(plan, &collection),
        found: plan.findings(&[
            ("I1", &|| indexers(plan, &collection)),
            ("I3", &|| small_crawls(plan)),
            ("I4", &|| cdxj::measure(plan)),
        ]),
    }
}

/// The WACZ files and the totals of their content.
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
        let captures = plan.scaled(520_000) / CRAWLS as u64;
        Collection::of(plan, CRAWLS, captures, WACZS)
    }

    /// Creates a collection with this number of crawls and, for each, this many captures and files.
    fn of(plan: &Plan, crawls: usize, captures: u64, waczs: u64) -> Collection {
        let shape = Shape {
            captures,
            waczs,
            known: 15,
            other: 3,
            plain: true,
        };
        let mut crawler = Crawler::new(Rng::seeded(plan.seed), shape);
        let mut folder = Folder::new();
        let [mut lines, mut revisits, mut others] = [0; 3];
        for _ in 0..crawls {
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
    let percent = |part: u64| 100.0 * part as f64 / collection.lines as f64;
    format!(
        include_str!("method.md"),
        lines = grouped(collection.lines),
        files = collection.folder.entries.len(),
        crawls = CRAWLS,
        megabytes = collection.packed as f64 / 1e6,
        revisits = percent(collection.revisits),
        others = percent(collection.others),
        seed = plan.seed,
    )
}

/// An import by one program, or by several at the same time.
struct Run {
    seconds: f64,
    /// Processor use of the server and of the programs, as fractions of a core.
    server: f64,
    programs: f64,
    /// Peak memory of the largest program.
    peak: u64,
}

/// Imports all files into a new server with this many programs at the same time.
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

/// Returns the state of an index. States are equal if hashes, owners, records, counts and
/// dependencies are equal.
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

fn indexers(plan: &Plan, collection: &Collection) -> Findings {
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
                again.push(start.elapsed().as_secs_f64());
            }
        }
    }
    rows(collection, &peer, &runs, &again)
}

/// Imports many files with few captures, each in its own crawl, to measure the server's time per
/// file.
fn small_crawls(plan: &Plan) -> Findings {
    let mut found = Findings::default();
    let files = plan.scaled(SMALL_CRAWLS);
    say(&format!("import: {files} crawls of {SMALL} captures"));
    let collection = Collection::of(plan, files as usize, SMALL, 1);
    let (mut times, mut sent, mut all) = (Series::default(), 0.0, 0.0);
    let mut seconds = Series::default();
    for _ in 0..plan.reps {
        let (server, run) = import(&collection, 1, &[]);
        times.push(1e3 * run.seconds * run.server / files as f64);
        seconds.push(run.seconds);
        let calls = server.calls();
        let of_the_module = |name: &str| ["sismember", "sadd", "srem", "lset"].contains(&name);
        let of = |which: &dyn Fn(&str) -> bool| {
            let some = calls.iter().filter(|(name, _)| which(name));
            some.map(|(_, calls)| *calls).sum::<u64>() as f64 / files as f64
        };
        (sent, all) = (of(&|name| !of_the_module(name)), of(&|_| true));
    }
    let what = "server time per file, if each file is a crawl";
    let per_file = format!("{:.2} ms", times.median());
    table! { found;
        "I3", what, "the goal", per_file, "–", times, targets::SMALL_FILE;
        "", "commands per file and crawl", "the goal", format!("{sent:.1}"), "–",
            Series(vec![sent]), targets::SMALL_COMMANDS;
    }
    note!(found, "small.md"; files = grouped(files), captures = SMALL, all = all, sent = sent,
        seconds = seconds.shown(time));
    found
}

fn rows(
    collection: &Collection,
    peer: &documented::Imported,
    runs: &[Vec<Run>; 3],
    again: &Series,
) -> Findings {
    let lines = collection.lines as f64;
    let medians = |figure: fn(&Run) -> f64| {
        [0, 1, 2].map(|way| runs[way].iter().map(figure).collect::<Series>().median())
    };
    let seconds = medians(|run| run.seconds);
    let server = medians(|run| 100.0 * run.server);
    let programs = medians(|run| 100.0 * run.programs);
    let rates = |way: usize| {
        runs[way]
            .iter()
            .map(|run| lines / run.seconds)
            .collect::<Series>()
    };
    let [one, two, jobs] = [0, 1, 2].map(rates);
    let told = |series: &Series, way: usize| {
        let (rate, server, programs) = (series.shown(rate), server[way], programs[way]);
        format!("{rate} (server busy {server:.0} %, indexers {programs:.0} %)")
    };
    let peer_rate = lines / peer.seconds;
    let over_peer = |ours: &Series| {
        ours.0
            .iter()
            .map(|rate| rate / peer_rate)
            .collect::<Series>()
    };
    let peer_told = format!(
        "{} (server busy {:.0} %)",
        rate(peer_rate),
        100.0 * peer.busy
    );
    let mut found = Findings::default();
    let plain = "plain commands one by one, one connection";
    table! { found;
        "I1", "lines imported a second, one indexer", plain, told(&one, 0), &peer_told,
            over_peer(&one), targets::IMPORT;
        "I2", "two indexers at once", "one indexer", told(&two, 1), one.shown(rate),
            two.over(&one), targets::TWO_IMPORTS;
        "", "one indexer with `--jobs 2`", "one indexer", told(&jobs, 2), one.shown(rate),
            jobs.over(&one), Goal::Known;
        "", "two indexers at once", plain, told(&two, 1), peer_told, over_peer(&two), Goal::Known;
    }
    let peak = runs.iter().flatten().map(|run| run.peak).max();
    let micros = |share: f64| 1e6 * seconds[0] * share / 100.0 / lines;
    note!(found, "one.md";
        trips = peer.round_trips as f64 / lines, trip = 1e6 * peer.seconds / peer.round_trips as f64,
        peer = time(peer.seconds), ours = micros(programs[0]), server = micros(server[0]),
        peak = peak.unwrap_or(0) as f64 / 1e6, again = again.shown(time));
    note!(found, "two.md";
        one = server[0], two = server[1], most = 100.0 / server[0], cores = cores(),
        total_one = server[0] + programs[0], total_two = server[1] + programs[1],
        jobs_server = server[2], jobs_indexer = programs[2]);
    found
}
