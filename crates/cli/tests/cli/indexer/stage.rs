//! Test stage: a server, crawls as WACZ files, and the index that the live crawls made.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use redis_tests::archive::{Crawl, Crawler, Entry, Folder, Shape, crawl};
use redis_tests::{
    Ended, Options, Program, Relay, Reply, Rng, Server, Snapshot, Wire, assert_consistent, counts,
    ok, plain_view, set_key, until,
};
use serde_json::{Value, json};

/// Prefix of the index of the live crawls.
pub const LIVE: &str = "{live}:";
/// Prefix of the index of imports.
pub const COPY: &str = "{copy}:";

/// Environment of a test.
pub struct Stage {
    pub server: Server,
    pub folder: Folder,
    pub crawls: Vec<Crawl>,
    pub rng: Rng,
}

impl Stage {
    /// Creates a stage with three crawls of the usual shape.
    pub fn new(test: &str) -> Stage {
        Stage::with(test, Options::new(), 3, Shape::default())
    }

    /// Creates a stage with crawls of this shape, and a server with these options.
    pub fn with(test: &str, options: Options, crawls: usize, shape: Shape) -> Stage {
        Stage::on(options.start(), test, crawls, shape)
    }

    /// Creates a stage with crawls of this shape on a running server.
    pub fn on(server: Server, test: &str, crawls: usize, shape: Shape) -> Stage {
        let mut rng = Rng::new(test);
        let mut folder = Folder::new();
        let mut crawler = Crawler::new(Rng::seeded(rng.bits()), shape);
        let mut c = server.wire();
        let made = (0..crawls).map(|_| {
            let made = crawler.next_crawl();
            let files = folder.write(&made);
            crawl(&mut c, LIVE, &made, &files);
            made
        });
        let crawls = made.collect();
        Stage {
            server,
            folder,
            crawls,
            rng,
        }
    }

    /// Returns an import of all files into the other index.
    pub fn import(&self) -> Indexer {
        self.import_of(self.folder.manifest())
    }

    /// Returns the files of a crawl.
    pub fn files_of(&self, crawl: usize) -> Vec<Entry> {
        let id = &self.crawls[crawl].id;
        self.files_that(|entry| entry.crawl == *id)
    }

    /// Returns the files for which `holds` returns true.
    pub fn files_that(&self, holds: impl Fn(&Entry) -> bool) -> Vec<Entry> {
        let entries = self.folder.entries.iter();
        entries.filter(|entry| holds(entry)).cloned().collect()
    }

    /// Returns an import of a manifest with these entries.
    pub fn import_list(&self, name: &str, resources: &[Value]) -> Indexer {
        let manifest = self.folder.file(name);
        let text = json!({"resources": resources}).to_string();
        std::fs::write(&manifest, text).expect("it is written");
        self.import_of(&manifest)
    }

    /// Returns an import of this manifest or file into the other index.
    pub fn import_of(&self, source: impl AsRef<Path>) -> Indexer {
        Indexer::new(source).redis(&self.server.url()).prefix(COPY)
    }

    /// Returns an import of all files into this index, over a relay.
    pub fn import_over(&self, relay: &Relay, prefix: &str) -> Indexer {
        self.import().redis(&relay.url()).prefix(prefix)
    }

    /// Returns the outcomes of the live index and of the import.
    pub fn both(&self) -> [Outcome; 2] {
        [LIVE, COPY].map(|prefix| Outcome::of(&mut self.server.wire(), prefix))
    }

    /// Fails unless everything was imported, and counted once.
    #[track_caller]
    pub fn assert_once(&self) {
        self.assert_once_in(COPY);
    }

    /// Fails unless everything was imported into the index with this prefix, and counted once.
    #[track_caller]
    pub fn assert_once_in(&self, prefix: &str) {
        let mut c = self.server.wire();
        let live = Outcome::of(&mut c, LIVE);
        Outcome::of(&mut c, prefix).assert_same(&live, "imported and live");
        assert_over(&mut c, prefix);
    }
}

/// A prepared run of `crawlspace indexer`.
#[derive(Clone)]
pub struct Indexer {
    arguments: Vec<(String, Option<String>)>,
}

impl Indexer {
    /// Creates an import of this source with `--lease 1`, `--wait 0s` and `--json`, without a server.
    pub fn new(source: impl AsRef<Path>) -> Indexer {
        let source = source.as_ref().to_str().expect("a plain path");
        let (arguments, lease) = (Vec::new(), "1");
        let indexer = Indexer { arguments }.with("--source-url", source);
        let indexer = indexer.with("--lease", lease).with("--wait", "0s");
        indexer.flag("--json")
    }

    /// Sets this option, and replaces its previous value.
    pub fn with(mut self, name: &str, value: &str) -> Indexer {
        self.arguments.retain(|(other, _)| other != name);
        let option = (name.to_owned(), Some(value.to_owned()));
        self.arguments.push(option);
        self
    }

    /// Adds an option without a value.
    pub fn flag(mut self, name: &str) -> Indexer {
        self.arguments.push((name.to_owned(), None));
        self
    }

    /// Removes this option.
    pub fn without(mut self, name: &str) -> Indexer {
        self.arguments.retain(|(other, _)| other != name);
        self
    }

    pub fn redis(self, url: &str) -> Indexer {
        self.with("--redis", url)
    }

    pub fn prefix(self, prefix: &str) -> Indexer {
        self.with("--prefix", prefix)
    }

    pub fn jobs(self, jobs: u32) -> Indexer {
        self.with("--jobs", &jobs.to_string())
    }

    /// Returns the program and its arguments.
    pub fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_crawlspace"));
        command.arg("indexer");
        for (name, value) in &self.arguments {
            command.arg(name).args(value);
        }
        command
    }

    /// Starts the program.
    pub fn start(&self) -> Program {
        Program::start(self.command())
    }

    /// Runs the program to its end.
    #[track_caller]
    pub fn run(&self) -> Ended {
        self.start().end()
    }

    /// Runs the program to its end; everything must be imported. Returns the report.
    #[track_caller]
    pub fn succeeds(&self) -> Value {
        succeeded(&self.run())
    }

    /// Runs the program to its end, with exit status 1. Returns its error messages.
    #[track_caller]
    pub fn fails(&self) -> String {
        self.fails_with_report().errors
    }

    #[track_caller]
    fn fails_with_report(&self) -> Ended {
        let ended = self.run();
        let Ended {
            status,
            out,
            errors,
            ..
        } = &ended;
        assert_eq!(status.code(), Some(1), "{out}{errors}");
        ended
    }

    /// Runs the program to its end; some packages must fail. Returns the reasons by package name.
    #[track_caller]
    pub fn fails_some(&self) -> BTreeMap<String, String> {
        let ended = self.fails_with_report();
        let report = report(&ended);
        let failed = report["failed"].as_array().expect("an array").iter();
        let pairs = failed.map(|failed| (text(&failed["name"]), text(&failed["reason"])));
        let failed: BTreeMap<_, _> = pairs.collect();
        for (name, reason) in &failed {
            let line = |line: &str| line.contains(name) && line.contains(reason);
            assert!(ended.errors.lines().any(line), "{name}: {}", ended.errors);
        }
        failed
    }
}

/// Returns a manifest entry without size and hash, which would reveal a change immediately.
pub fn unsized_entry(entry: &Entry) -> Value {
    json!({"name": entry.name, "path": entry.path, "crawlId": entry.crawl})
}

/// Waits until an import over a relay is held there, unless it ends before.
pub fn in_the_middle(relay: &Relay, import: &mut Program) {
    until("the relay holds the import or the import has ended", || {
        relay.holds() || import.ended().is_some()
    });
}

/// Kills an import over a relay, and discards the data held there.
pub fn killed(import: Program, relay: &Relay) -> Ended {
    let ended = import.kill9();
    relay.cut();
    ended
}

/// Returns the report of an import without errors.
#[track_caller]
pub fn succeeded(ended: &Ended) -> Value {
    assert!(ended.status.success(), "{}{}", ended.out, ended.errors);
    report(ended)
}

/// Returns the JSON object that the program printed.
#[track_caller]
pub fn report(ended: &Ended) -> Value {
    serde_json::from_str(&ended.out)
        .unwrap_or_else(|e| panic!("{e}: {}{}", ended.out, ended.errors))
}

fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}

/// State of an index that statistics, look-ups and replay depend on.
#[derive(Debug)]
pub struct Outcome {
    keys: Snapshot,
    counts: BTreeMap<String, i64>,
    requires: BTreeMap<String, String>,
    required_by: BTreeMap<String, Vec<String>>,
    stats: BTreeMap<String, i64>,
}

impl Outcome {
    /// Reads the index with this prefix, which must be consistent.
    #[track_caller]
    pub fn of(c: &mut Wire, p: &str) -> Outcome {
        assert_consistent(c, p);
        let keys = plain_view(c, p).under(p).without(|key| !is_outcome(key));
        let mut counts = counts(c, &format!("{p}allcounts"));
        // Remove the counts that only imports write, not live crawls.
        for field in ["updateProgress", "estimatedRedundantSize", "redundantUrls"] {
            counts.remove(field);
        }
        let (mut requires, mut required_by) = (BTreeMap::new(), BTreeMap::new());
        for crawl in set_key(c, &format!("{p}allcrawls")) {
            let required = ok!(c, "DEDUPE.REQUIRES", p, crawl).text();
            let by = ok!(c, "DEDUPE.REQUIREDBY", p, crawl);
            let mut by: Vec<_> = by.items().iter().map(|it| format!("{it:?}")).collect();
            by.sort();
            requires.insert(crawl.clone(), required);
            required_by.insert(crawl, by);
        }
        let stats = ok!(c, "DEDUPE.STATS", p).pairs();
        let stats = stats.iter().filter_map(|(name, value)| match value {
            Reply::Int(n) if name.text() != "memory" => Some((name.text(), *n)),
            _ => None,
        });
        let stats = stats.collect();
        Outcome {
            keys,
            counts,
            requires,
            required_by,
            stats,
        }
    }

    /// Returns the number of hashes.
    pub fn hashes(&self) -> i64 {
        self.stats["hashes"]
    }

    /// Returns one of the counts.
    pub fn count(&self, field: &str) -> i64 {
        self.counts.get(field).copied().unwrap_or(0)
    }

    /// Returns the outcome without the counts of unlisted crawls.
    pub fn without_removed(mut self) -> Outcome {
        for field in ["removedCrawls", "removedCrawlSize"] {
            self.counts.remove(field);
            self.stats.insert(field.to_owned(), 0);
        }
        self
    }

    #[track_caller]
    pub fn assert_same(&self, other: &Outcome, what: &str) {
        self.keys.assert_same(&other.keys, what);
        assert_eq!(self.counts, other.counts, "{what}: allcounts");
        assert_eq!(self.requires, other.requires, "{what}: REQUIRES");
        assert_eq!(self.required_by, other.required_by, "{what}: REQUIREDBY");
        assert_eq!(self.stats, other.stats, "{what}: STATS");
    }
}

/// Returns true if a key describes crawls rather than their import: numbers of calls and of commits.
fn is_outcome(key: &[u8]) -> bool {
    let key = String::from_utf8_lossy(key);
    let names = [
        "allhashes",
        "alldupes",
        "allcrawls",
        "uncommittedcrawls",
        "src:d",
    ];
    let ends = [":reqCrawls", ":duperefs", ":duperef"];
    let of_crawl = key.starts_with("h:") && !key.ends_with(":seq") && !key.ends_with(":baseline");
    let is_named = names.contains(&&*key) || ends.iter().any(|end| key.ends_with(end));
    of_crawl || key.starts_with("c:") || is_named
}

/// Fails unless an import left only its permanent keys: names, and the time.
#[track_caller]
pub fn assert_over(c: &mut Wire, p: &str) {
    let left = import_keys(c, p);
    assert_eq!(left, ["last_update_ts", "src:d"], "keys of the import");
    let progress = ok!(c, "HGET", format!("{p}allcounts"), "updateProgress");
    assert_eq!(progress.text(), "1");
}

/// Returns the existing keys of an import, without the prefix.
pub fn import_keys(c: &mut Wire, p: &str) -> Vec<String> {
    let is_of_import = |key: &[u8]| {
        let begins = |with: &&[u8]| key.starts_with(with);
        key == b"last_update_ts" || [&b"src:"[..], b"pending:"].iter().any(begins)
    };
    Snapshot::of_keys(c, |key| key.starts_with(p.as_bytes()))
        .under(p)
        .without(|key| !is_of_import(key))
        .names()
}

/// Returns the number of calls of each command since the last reset, except those that the module calls itself.
pub fn sent_to(server: &Server) -> BTreeMap<String, u64> {
    let mut calls = server.calls();
    for of_the_module in ["sismember", "sadd", "srem", "smove", "lset"] {
        calls.remove(of_the_module);
    }
    calls
}
