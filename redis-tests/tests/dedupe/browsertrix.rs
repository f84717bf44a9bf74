//! Random steps of Browsertrix's crawlers and importer, mixed with commands of the module, compared
//! with a model of the counts.
//!
//! ioredis sends the commands of Browsertrix, in the order of `browsertrix/crawlers.js`. After each
//! step, the counts, owners and finished packages must equal those of the model, and `CHECK` must
//! report what the model expects.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use redis_tests::history::{self, Log, Stage, Verdict};
use redis_tests::packages::{left_out, node, sized};
use redis_tests::script::Script;
use redis_tests::{DedupeIndex, Options, Reply, Rng, Server, must, ok, sha256_of};

const P: &str = "";

/// Number of payloads.
const HASHES: u64 = 24;

/// Number of steps of a history.
const STEPS: usize = 100;

/// Size of each revisit in bytes. Every original is larger.
const REVISIT: i64 = 100;

fn bare(hash: u64) -> String {
    sha256_of(hash).trim_start_matches("sha256:").to_owned()
}

fn size_of(hash: u64) -> i64 {
    1000 + 10 * hash as i64
}

/// Returns a hash as a package's index writes it, with or without the name of its algorithm.
fn in_cdx(hash: u64) -> String {
    let label = if hash.is_multiple_of(2) {
        "sha256:"
    } else {
        ""
    };
    format!("{label}{}", bare(hash))
}

/// Returns capture `n` of a payload: its URL, and its date as 14 digits.
fn capture(hash: u64, n: u64) -> (String, String) {
    (
        format!("https://e/{hash}/{n}"),
        format!("202603191020{:02}", 10 + n),
    )
}

/// The index of a history, and the programs that write to it.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// A plain index, to which Browsertrix's programs and commands of the module write.
    Plain,
    /// An index that is packed and unpacked, to which the same programs write.
    Packed,
    /// An index that is packed and unpacked, to which only Browsertrix's programs write. They must get the same
    /// replies as from a server without the module.
    Compared,
}

#[test]
fn nothing_counts_twice_regardless_of_the_writer() {
    play("browsertrix", Kind::Plain);
}

#[test]
fn packed_index_serves_plain_clients() {
    play("browsertrix-packed", Kind::Packed);
}

#[test]
fn packed_index_serves_plain_clients_as_plain_keys_do() {
    play("browsertrix-compared", Kind::Compared);
}

fn play(name: &str, kind: Kind) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("dedupe-node");
    let node = match node(&folder, &["ioredis"]) {
        Ok(node) => node,
        Err(reason) => return left_out("ioredis", &reason),
    };
    let crawlers = |server: &Server, oracle: Option<&Server>| {
        let script = "tests/dedupe/browsertrix/crawlers.js";
        let mut command = Command::new(&node);
        command
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join(script))
            .env("NODE_PATH", folder.join("node_modules"))
            .env("PORT", server.port().to_string());
        if let Some(oracle) = oracle {
            command.env("ORACLE", oracle.port().to_string());
        }
        let mut script = Script::start(command);
        assert_eq!(script.line(), "ready");
        script
    };
    let begin = |_: &mut Rng| Beside::new(&crawlers, kind);
    let histories = match kind {
        Kind::Plain => 8,
        Kind::Packed | Kind::Compared => sized(8, 1000),
    };
    history::play(name, (histories * STEPS, STEPS), begin, drop);
}

/// Counts: URLs, duplicates, bytes saved, bytes of packages.
type Counts = [i64; 4];

const NAMES: [&str; 4] = ["totalUrls", "dupeUrls", "conservedSize", "totalCrawlSize"];

fn plus(one: Counts, other: Counts) -> Counts {
    std::array::from_fn(|i| one[i] + other[i])
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    /// The crawl is in `uncommittedcrawls` only.
    Open,
    /// The crawl is in `allcrawls`.
    Committed,
    /// The crawl is in both sets, because a command of the module continued it.
    Continued,
    /// The crawl is in `canceledcrawls`.
    Canceled,
}

/// The contents of a crawl.
#[derive(Clone, Debug, Default, PartialEq)]
struct Content {
    /// Each hash with the number of its capture.
    records: BTreeMap<u64, u64>,
    counts: Counts,
    /// Packages of the crawl, with true for finished ones.
    files: Vec<(String, bool)>,
}

#[derive(Clone, Debug)]
struct Crawl {
    state: State,
    now: Content,
    /// Contents when a command of the module continued the crawl.
    before: Content,
    /// Index of the package that Browsertrix's crawler is writing; `None` if the crawler does not
    /// run.
    writes: Option<usize>,
    /// True if the crawl uses `--dedupeConcurrent`. Its sizes may then be missing in the totals.
    concurrent: bool,
    /// True if commands of the module have written to the crawl.
    is_ours: bool,
    /// True if the crawl is canceled, but its counts are still in `allcounts`.
    in_sums: bool,
}

impl Crawl {
    fn new(state: State) -> Crawl {
        Crawl {
            state,
            now: Content::default(),
            before: Content::default(),
            writes: None,
            concurrent: false,
            is_ours: false,
            in_sums: true,
        }
    }

    fn is_committed(&self) -> bool {
        matches!(self.state, State::Committed | State::Continued)
    }

    /// Returns the committed contents of the crawl.
    fn committed(&self) -> Option<&Content> {
        match self.state {
            State::Committed => Some(&self.now),
            State::Continued => Some(&self.before),
            State::Open | State::Canceled => None,
        }
    }

    /// Continues the crawl with a command of the module.
    fn go_on(&mut self) {
        self.is_ours = true;
        if self.state == State::Committed {
            self.state = State::Continued;
            self.before = self.now.clone();
        }
    }

    fn count(&mut self, by: Counts) {
        self.now.counts = plus(self.now.counts, by);
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// Browsertrix begins a crawl with a package. True for a concurrent crawl.
    Start(String, String, bool),
    /// A capture of a payload.
    Response(String, u64, u64),
    /// Browsertrix's crawler finishes its package and may begin another one.
    Close(String, i64, Option<String>),
    /// Browsertrix commits a crawl. The commit is interrupted after this many replies.
    Commit(String, Option<u64>),
    /// Browsertrix cancels a crawl.
    Cancel(String),
    /// Browsertrix's importer adds a package. A revisit has no capture.
    Take(String, String, i64, Vec<(u64, Option<u64>)>),
    /// Browsertrix's purge runs and keeps these crawls. Then the repair of the guide runs.
    Purge(Vec<String>),
    /// `ADD` of one capture.
    Add(String, u64, u64),
    /// `REVISIT`.
    Revisit(String, u64),
    /// `WACZOPEN` and `WACZCLOSE`.
    Wacz(String, String, i64),
    /// Another command of the module.
    Ours(&'static str, Vec<String>),
}

struct Beside {
    c: DedupeIndex,
    crawlers: Script,
    crawls: BTreeMap<String, Crawl>,
    /// The merged index as plain clients see it.
    owners: BTreeMap<u64, String>,
    /// `src:d`.
    finished: BTreeSet<String>,
    /// Revisits without an original: their number and their total size in bytes.
    waiting: BTreeMap<u64, BTreeMap<String, [i64; 2]>>,
    /// `removedCrawls` and `removedCrawlSize`, if they exist.
    tracked: Option<[i64; 2]>,
    made: u64,
    kind: Kind,
    _servers: (Server, Option<Server>),
}

impl Beside {
    fn new(crawlers: &impl Fn(&Server, Option<&Server>) -> Script, kind: Kind) -> Beside {
        let (server, mut c) = DedupeIndex::on(Options::new().plain(), P);
        ok!(
            c,
            "CONFIG",
            "SET",
            "crawlspace.dedupe-profile",
            "browsertrix"
        );
        if kind != Kind::Plain {
            let setting = "crawlspace.dedupe-plain-commands";
            ok!(c, "CONFIG", "SET", setting, "yes");
        }
        let oracle = (kind == Kind::Compared).then(|| Options::new().no_module().start());
        Beside {
            c,
            crawlers: crawlers(&server, oracle.as_ref()),
            crawls: BTreeMap::new(),
            owners: BTreeMap::new(),
            finished: BTreeSet::new(),
            waiting: BTreeMap::new(),
            tracked: None,
            made: 0,
            kind,
            _servers: (server, oracle),
        }
    }

    fn names(&self, which: impl Fn(&Crawl) -> bool) -> Vec<String> {
        let crawls = self.crawls.iter().filter(|(_, crawl)| which(crawl));
        crawls.map(|(name, _)| name.clone()).collect()
    }

    fn any(&self, rng: &mut Rng, which: impl Fn(&Crawl) -> bool) -> Option<String> {
        let names = self.names(which);
        (!names.is_empty()).then(|| rng.pick(&names).clone())
    }

    fn fresh(&mut self, start: &str) -> String {
        self.made += 1;
        format!("{start}{}", self.made)
    }

    fn call(&mut self, line: &[impl AsRef<[u8]>], log: &mut Log) -> Reply {
        let words: Vec<Vec<u8>> = line.iter().map(|word| word.as_ref().to_vec()).collect();
        log.call(self.c.wire(), &words)
    }

    /// Runs a step of Browsertrix's programs. Returns false if they were interrupted.
    fn theirs(&mut self, step: &str, log: &mut Log) -> bool {
        self.crawlers.say(step);
        let said = self.crawlers.line();
        let told = vec![b"#".to_vec(), step.as_bytes().to_vec()];
        log.note(&told, &Reply::Bulk(said.clone().into_bytes()));
        assert!(["done", "cut"].contains(&said.as_str()), "{said}");
        said == "done"
    }

    /// Returns true if revisits of a crawl are waiting for an original. Waiting revisits of removed
    /// crawls cannot be found.
    fn waits(&self, crawl: &str) -> bool {
        self.waiting.values().any(|all| all.contains_key(crawl))
    }

    fn is_new(&self, file: &str) -> bool {
        let mut files = self.crawls.values().flat_map(|crawl| &crawl.now.files);
        !self.finished.contains(file) && !files.any(|(other, _)| other == file)
    }

    /// Returns true if Browsertrix's programs find a record of this hash.
    fn found(&self, crawl: &str, hash: u64) -> bool {
        let owner = self.owners.get(&hash).map_or(crawl, |owner| owner);
        let owner = self.crawls.get(owner);
        owner.is_some_and(|owner| owner.now.records.contains_key(&hash))
    }

    /// Returns the committed crawls that hold a hash.
    fn holders(&self, hash: u64) -> Vec<String> {
        let committed = |crawl: &Crawl| {
            let content = crawl.committed();
            content.is_some_and(|content| content.records.contains_key(&hash))
        };
        self.names(committed)
    }

    /// Settles the revisits that were waiting for this original.
    fn settle(&mut self, hash: u64) {
        for (name, [number, bytes]) in self.waiting.remove(&hash).unwrap_or_default() {
            let saved = [0, 0, number * size_of(hash) - bytes, 0];
            let crawl = self
                .crawls
                .get_mut(&name)
                .expect("the crawl was not removed");
            crawl.count(saved);
            if crawl.state == State::Continued {
                crawl.before.counts = plus(crawl.before.counts, saved);
            }
        }
    }

    fn forget(&mut self, name: &str) {
        if let Some(crawl) = self.crawls.remove(name) {
            for (file, _) in &crawl.now.files {
                self.finished.remove(file);
            }
            if crawl.state == State::Canceled {
                self.untrack(crawl.now.counts[3]);
            }
        }
    }

    fn untrack(&mut self, size: i64) {
        if let Some([crawls, bytes]) = &mut self.tracked {
            (*crawls, *bytes) = ((*crawls - 1).max(0), (*bytes - size).max(0));
        }
    }

    /// Returns the minimum and maximum of the total counts.
    fn sums(&self) -> [Counts; 2] {
        let [mut least, mut most] = [Counts::default(); 2];
        let mut canceled = self
            .crawls
            .values()
            .filter(|crawl| crawl.state == State::Canceled);
        // If several crawls are canceled, the keys do not show which of them a purge subtracted
        // from the totals.
        let is_clear = canceled.all(|crawl| crawl.in_sums);
        for crawl in self.crawls.values() {
            if let Some(Content { counts, .. }) = crawl.committed() {
                most = plus(most, *counts);
                let [urls, dupes, saved, size] = *counts;
                let size = if crawl.concurrent { 0 } else { size };
                least = plus(least, [urls, dupes, saved, size]);
            } else if crawl.state == State::Canceled {
                most = plus(most, crawl.now.counts);
                let [urls, dupes, saved, _] = crawl.now.counts;
                if is_clear {
                    least = plus(least, [urls, dupes, saved, 0]);
                }
            }
        }
        [least, most]
    }

    fn take(
        &mut self,
        (name, file): (&str, &str),
        size: i64,
        lines: &[(u64, Option<u64>)],
        log: &mut Log,
    ) {
        let state = self.crawls.get(name).map(|crawl| crawl.state);
        let is_done = self.finished.contains(file);
        let originals = lines.iter().filter(|(_, capture)| capture.is_some());
        // Browsertrix counts only for a crawl in `allcrawls`, both in the crawl's counts and in `allcounts`.
        let mut awaited = originals
            .filter_map(|(hash, _)| self.waiting.get(hash))
            .flatten();
        let is_settled = awaited.all(|(waiting, _)| {
            matches!(
                self.crawls[waiting].state,
                State::Committed | State::Canceled
            )
        });
        let may = matches!(state, None | Some(State::Committed)) && is_settled;
        if !(is_done || may && self.is_new(file)) {
            return;
        }
        let texts: Vec<String> = lines
            .iter()
            .map(|(hash, n)| {
                let digest = in_cdx(*hash);
                match n {
                    None => format!(r#"{{"hash":"{digest}","size":{REVISIT}}}"#),
                    Some(n) => {
                        let (url, date) = capture(*hash, *n);
                        let size = size_of(*hash);
                        format!(
                            r#"{{"hash":"{digest}","size":{size},"url":"{url}","date":"{date}"}}"#
                        )
                    }
                }
            })
            .collect();
        let texts = texts.join(",");
        let step = format!(
            r#"{{"step":"take","crawl":"{name}","file":"{file}","size":{size},"lines":[{texts}]}}"#
        );
        self.theirs(&step, log);
        if is_done {
            return;
        }
        let new = || Crawl::new(State::Committed);
        self.crawls.entry(name.to_owned()).or_insert_with(new);
        for &(hash, n) in lines {
            let is_known = self.found(name, hash);
            let crawl = self.crawls.get_mut(name).expect("made above");
            if let Some(n) = n {
                crawl.count([1, 0, 0, 0]);
                crawl.now.records.entry(hash).or_insert(n);
                self.owners.entry(hash).or_insert_with(|| name.to_owned());
                self.settle(hash);
            } else if is_known {
                crawl.count([1, 1, size_of(hash) - REVISIT, 0]);
            } else {
                crawl.count([1, 1, 0, 0]);
                let waiting = self.waiting.entry(hash).or_default();
                let waiting = waiting.entry(name.to_owned()).or_default();
                *waiting = [waiting[0] + 1, waiting[1] + REVISIT];
            }
        }
        let crawl = self.crawls.get_mut(name).expect("made above");
        crawl.count([0, 0, 0, size]);
        crawl.now.files.push((file.to_owned(), true));
        self.finished.insert(file.to_owned());
    }

    /// Updates the model after a commit by Browsertrix has merged a crawl.
    fn merged_by_theirs(&mut self, name: &str) {
        let crawl = self.crawls.get_mut(name).expect("the crawl exists");
        crawl.state = State::Committed;
        crawl.writes = None;
        let files = crawl.now.files.iter().map(|(file, _)| file.clone());
        self.finished.extend(files);
        for &hash in crawl.now.records.keys() {
            self.owners.entry(hash).or_insert_with(|| name.to_owned());
        }
    }

    fn commit_theirs(&mut self, name: &str, cut: Option<u64>, log: &mut Log) {
        let Some(crawl) = self.crawls.get(name).cloned() else {
            return;
        };
        if crawl.state == State::Canceled {
            return;
        }
        let cut_after = cut.map_or(String::new(), |n| format!(r#","cut":{n}"#));
        let step = format!(r#"{{"step":"commit","crawl":"{name}"{cut_after}}}"#);
        let done = self.theirs(&step, log);
        if crawl.state != State::Open {
            return;
        }
        if done {
            self.merged_by_theirs(name);
            return;
        }
        // The order in which the commit processed the records is unknown.
        for &hash in crawl.now.records.keys() {
            if ok!(self.c, "HGET", "alldupes", bare(hash)) == Reply::Bulk(name.into()) {
                self.owners.insert(hash, name.to_owned());
            }
        }
        for (file, _) in crawl.now.files {
            if ok!(self.c, "SISMEMBER", "src:d", &file) == Reply::Int(1) {
                self.finished.insert(file);
            }
        }
    }

    fn cancel_theirs(&mut self, name: &str, log: &mut Log) {
        let Some(crawl) = self.crawls.get(name) else {
            return;
        };
        let may = match crawl.state {
            // A cancel by Browsertrix leaves the module's keys in place, and the names of packages
            // that an interrupted commit had listed.
            State::Open => {
                !crawl.is_ours
                    && !crawl
                        .now
                        .files
                        .iter()
                        .any(|(file, _)| self.finished.contains(file))
            }
            State::Committed => true,
            State::Continued | State::Canceled => false,
        };
        if !may {
            return;
        }
        self.theirs(&format!(r#"{{"step":"cancel","crawl":"{name}"}}"#), log);
        let crawl = self.crawls.get_mut(name).expect("the crawl exists");
        crawl.writes = None;
        if crawl.state == State::Open {
            self.crawls.remove(name);
            return;
        }
        crawl.state = State::Canceled;
        let canceled = self
            .crawls
            .values()
            .filter(|crawl| crawl.state == State::Canceled);
        let sizes: Vec<i64> = canceled.map(|crawl| crawl.now.counts[3]).collect();
        self.tracked = Some([sizes.len() as i64, sizes.iter().sum()]);
    }

    fn purge_theirs(&mut self, kept: &[String], log: &mut Log) -> Verdict {
        let committed = self.names(Crawl::is_committed);
        let (kept, gone): (Vec<_>, Vec<_>) =
            committed.into_iter().partition(|name| kept.contains(name));
        let may = !(kept.is_empty() && gone.is_empty())
            && self
                .names(|crawl| crawl.state == State::Continued)
                .is_empty()
            && !gone.iter().any(|name| self.waits(name));
        if !may {
            return Ok(());
        }
        if self.kind == Kind::Packed {
            self.refuses_purge(log)?;
        }
        let list = kept
            .iter()
            .map(|name| format!("\"{name}\""))
            .collect::<Vec<_>>()
            .join(",");
        self.theirs(&format!(r#"{{"step":"purge","kept":[{list}]}}"#), log);
        self.owners.clear();
        self.tracked = None;
        for name in &gone {
            self.forget(name);
        }
        for name in &kept {
            self.merged_by_theirs(name);
        }
        for crawl in self.crawls.values_mut() {
            crawl.in_sums &= crawl.state != State::Canceled;
        }
        self.ours("REPAIR", &[], log)
    }

    /// Checks that a packed index refuses a purge, and unpacks the index.
    fn refuses_purge(&mut self, log: &mut Log) -> Verdict {
        if ok!(self.c, "EXISTS", "packedhashes") == Reply::Int(1) {
            let reply = self.call(&["RENAME", "allcrawls", "to-remove-crawls"], log);
            must!(
                matches!(&reply, Reply::Error(text) if text.starts_with(b"ERR a purge")),
                "RENAME gives {reply:?}"
            );
        }
        self.ours("UNPACK", &[], log)
    }

    /// Runs a command of the module that is a job.
    fn ours(&mut self, name: &str, crawls: &[String], log: &mut Log) -> Verdict {
        let first = crawls.first().map_or("", |crawl| crawl);
        let known = self.crawls.get(first).cloned();
        let leave: Vec<String> = match name {
            "REMOVE" => crawls.to_vec(),
            "RETAIN" => Vec::new(),
            "PURGE" => {
                let mut others = self.names(|crawl| crawl.state != State::Open);
                others.retain(|other| !crawls.contains(other));
                others
            }
            "CANCEL" => {
                let whole = known.as_ref().is_some_and(|c| c.state != State::Continued);
                crawls.iter().filter(|_| whole).cloned().collect()
            }
            _ => Vec::new(),
        };
        let is_there = crawls.iter().all(|crawl| self.crawls.contains_key(crawl));
        // A purge by Browsertrix has subtracted the crawl from the totals, which a commit does not
        // detect.
        let is_out = name == "COMMIT" && known.as_ref().is_some_and(|crawl| !crawl.in_sums);
        if !is_there || is_out || leave.iter().any(|crawl| self.waits(crawl)) {
            return Ok(());
        }
        let mut line = vec![format!("DEDUPE.{name}"), P.to_owned()];
        if name == "PURGE" {
            line = vec!["DEDUPE.RETAIN".to_owned(), P.to_owned(), name.to_owned()];
        }
        line.extend(crawls.iter().cloned());
        let reply = self.call(&line, log);
        let is_open = |crawl: &String| self.crawls[crawl].state == State::Open;
        let refused = match (name, known.as_ref().map(|crawl| crawl.state)) {
            ("CANCEL", Some(State::Committed)) => Some("COMMITTED "),
            ("REMOVE", _) if crawls.iter().any(is_open) => Some("UNCOMMITTED "),
            _ => None,
        };
        if let Some(code) = refused {
            let is_right =
                matches!(&reply, Reply::Error(text) if text.starts_with(code.as_bytes()));
            must!(is_right, "{line:?} gives {reply:?}");
            return Ok(());
        }
        must!(!reply.is_error(), "{line:?} gives {reply:?}");
        match name {
            "COMMIT" => self.committed(first),
            "CANCEL" if leave.is_empty() => {
                let crawl = self.crawls.get_mut(first).expect("the crawl exists");
                crawl.now = crawl.before.clone();
                crawl.state = State::Committed;
            }
            "RETAIN" => {
                let others = self
                    .crawls
                    .iter()
                    .filter(|(name, crawl)| crawl.state != State::Open && !crawls.contains(name));
                let sizes =
                    others.map(|(_, crawl)| crawl.committed().unwrap_or(&crawl.now).counts[3]);
                let sizes: Vec<i64> = sizes.collect();
                self.tracked = Some([sizes.len() as i64, sizes.iter().sum()]);
            }
            _ => {
                let is_out = |crawl: &String| !self.crawls[crawl].in_sums;
                let is_blurred = leave.iter().any(is_out);
                leave.iter().for_each(|crawl| self.forget(crawl));
                for crawl in self.crawls.values_mut() {
                    crawl.in_sums &= !(is_blurred && crawl.state == State::Canceled);
                }
            }
        }
        if name == "PURGE" {
            self.tracked = Some([0, 0]);
        }
        self.follow_owners()
    }

    fn committed(&mut self, name: &str) {
        let crawl = self.crawls.get_mut(name).expect("the crawl exists");
        let was = std::mem::replace(&mut crawl.state, State::Committed);
        let files = crawl.now.files.iter().filter(|(_, finished)| *finished);
        self.finished.extend(files.map(|(file, _)| file.clone()));
        // A crawler that is not concurrent ends before its commit.
        crawl.writes = crawl.writes.filter(|_| crawl.concurrent);
        let size = crawl.now.counts[3];
        let records: Vec<u64> = crawl.now.records.keys().copied().collect();
        let is_new = |hash: &u64| match was {
            State::Open => true,
            State::Continued => !crawl.before.records.contains_key(hash),
            State::Committed | State::Canceled => false,
        };
        let new: Vec<u64> = records.iter().copied().filter(is_new).collect();
        if was == State::Canceled {
            self.untrack(size);
        }
        for hash in records {
            // Revisits that plain clients added are settled when the commit finds the original.
            let keys = ["c", "s"].map(|end| format!("rev:{}:{end}", in_cdx(hash)));
            let is_gone = ok!(self.c, "EXISTS", &keys[0], &keys[1]) == Reply::Int(0);
            if new.contains(&hash) || is_gone {
                self.settle(hash);
            }
        }
    }

    /// Checks that a hash moves to another crawl only if its owner no longer has it.
    fn follow_owners(&mut self) -> Verdict {
        for hash in 0..HASHES {
            let now = match ok!(self.c, "HGET", "alldupes", bare(hash)) {
                Reply::Nil => None,
                owner => Some(owner.text()),
            };
            let (was, holders) = (self.owners.get(&hash), self.holders(hash));
            let may = match &now {
                _ if was.is_some_and(|was| holders.contains(was)) => now.as_ref() == was,
                Some(now) => holders.contains(now) || was == Some(now),
                None => holders.is_empty(),
            };
            must!(
                may,
                "the owner of hash {hash} is {now:?}, was {was:?}, of {holders:?}"
            );
            match now {
                Some(now) => self.owners.insert(hash, now),
                None => self.owners.remove(&hash),
            };
        }
        Ok(())
    }

    fn compare(&mut self) -> Verdict {
        let hashes: Vec<String> = (0..HASHES).map(bare).collect();
        let line = [vec!["DEDUPE.LOOKUP".to_owned(), P.to_owned()], hashes].concat();
        let found = self.c.expect_ok(&line);
        let mut hidden = 0;
        for (hash, reply) in (0..HASHES).zip(found.items()) {
            let now = match reply {
                Reply::Nil => None,
                record => Some(record.items()[0].text()),
            };
            let (owner, holders) = (self.owners.get(&hash), self.holders(hash));
            let is_owner_seen = owner.is_some_and(|owner| holders.contains(owner));
            let is_right = match &now {
                Some(_) if is_owner_seen => now.as_ref() == owner,
                Some(now) => holders.contains(now),
                None => holders.is_empty() || owner.is_none(),
            };
            must!(
                is_right,
                "LOOKUP of hash {hash} gives {now:?}, not {owner:?} of {holders:?}"
            );
            let is_canceled = owner.is_some_and(|owner| {
                self.crawls
                    .get(owner)
                    .is_some_and(|crawl| crawl.state == State::Canceled)
            });
            hidden += i64::from(owner.is_some() && !is_owner_seen && !is_canceled);
        }
        for (name, crawl) in &self.crawls {
            let key = format!("h:{name}:counts");
            let counts = counts_of(&mut self.c, &key);
            must!(
                counts == crawl.now.counts,
                "{key} has {counts:?}, not {:?}",
                crawl.now.counts
            );
        }
        let [least, most] = self.sums();
        let counts = counts_of(&mut self.c, "allcounts");
        let is_within = (0..4).all(|i| (least[i]..=most[i]).contains(&counts[i]));
        must!(
            is_within,
            "allcounts has {counts:?}, not {least:?} to {most:?}"
        );
        let tracked = ["removedCrawls", "removedCrawlSize"].map(|name| {
            let value = ok!(self.c, "HGET", "allcounts", name);
            (value != Reply::Nil).then(|| value.text().parse::<i64>().expect("a number"))
        });
        let expected = self.tracked.map_or([None; 2], |tracked| tracked.map(Some));
        must!(
            tracked == expected,
            "removed crawls are {tracked:?}, not {expected:?}"
        );
        for (set, states) in [
            ("allcrawls", [State::Committed, State::Continued]),
            ("uncommittedcrawls", [State::Open, State::Continued]),
            ("canceledcrawls", [State::Canceled; 2]),
        ] {
            let members = self.c.set(set);
            let expected = self.names(|crawl| states.contains(&crawl.state));
            must!(
                members == expected,
                "{set} has {members:?}, not {expected:?}"
            );
        }
        let finished = self.c.set("src:d");
        let expected: Vec<String> = self.finished.iter().cloned().collect();
        must!(
            finished == expected,
            "src:d has {finished:?}, not {expected:?}"
        );
        let check = ok!(self.c, "DEDUPE.CHECK", P);
        let is_ok = check.field("ok") == Reply::Int(1);
        must!(
            check.field("hiddenOwners") == Reply::Int(hidden) && is_ok == (hidden == 0),
            "CHECK finds {check:?}, where {hidden} owners are hidden"
        );
        Ok(())
    }
}

fn counts_of(c: &mut DedupeIndex, key: &str) -> Counts {
    let counts = c.counts(key);
    NAMES.map(|name| counts.get(name).copied().unwrap_or(0))
}

impl Stage for Beside {
    type Step = Step;

    fn draw(&mut self, rng: &mut Rng) -> Step {
        let hash = rng.below(HASHES);
        let n = rng.below(3);
        let size = 10_000 + rng.below(1000) as i64;
        let writes = self.any(rng, |crawl| crawl.writes.is_some());
        let open = self.any(rng, |crawl| crawl.state == State::Open);
        let mut known: Vec<String> = self.crawls.keys().cloned().collect();
        rng.shuffle(&mut known);
        let any = known.first().cloned();
        let settled = self.any(rng, |crawl| crawl.state == State::Committed);
        let drawn = match self.kind {
            Kind::Plain => rng.below(100),
            Kind::Packed => rng.below(120),
            // Neither a purge nor a write by the module.
            Kind::Compared => match rng.below(65) {
                theirs @ 0..45 => theirs,
                storage => storage + 55,
            },
        };
        let step = match drawn {
            100..=113 => Some(Step::Ours("PACK", Vec::new())),
            114.. => Some(Step::Ours("UNPACK", Vec::new())),
            0..=4 => {
                let (crawl, file) = (self.fresh("c"), self.fresh("w"));
                Some(Step::Start(crawl, file, rng.chance(50)))
            }
            5..=22 => writes.map(|crawl| Step::Response(crawl, hash, n)),
            23..=26 => writes.map(|crawl| {
                let next = rng.chance(60).then(|| self.fresh("w"));
                Step::Close(crawl, size, next)
            }),
            27..=31 => {
                let crawl = if rng.chance(80) { open } else { any };
                let cut = rng.chance(40).then(|| rng.below(12));
                crawl.map(|crawl| Step::Commit(crawl, cut))
            }
            32..=34 => any.map(Step::Cancel),
            35..=44 => {
                let lines = (0..1 + rng.below(4)).map(|_| {
                    let is_response = rng.chance(60);
                    (rng.below(HASHES), is_response.then(|| rng.below(3)))
                });
                let lines = lines.collect();
                let known = self.finished.iter().next().cloned();
                let file = known.filter(|_| rng.chance(25));
                let file = file.unwrap_or_else(|| self.fresh("w"));
                let crawl = settled.filter(|_| rng.chance(60));
                let crawl = crawl.unwrap_or_else(|| self.fresh("c"));
                Some(Step::Take(crawl, file, size, lines))
            }
            45 => {
                known.retain(|_| rng.chance(70));
                Some(Step::Purge(known))
            }
            46..=60 => {
                let crawl = any.filter(|_| rng.chance(85));
                let crawl = crawl.unwrap_or_else(|| self.fresh("c"));
                Some(Step::Add(crawl, hash, n))
            }
            61..=66 => any.map(|crawl| Step::Revisit(crawl, hash)),
            67..=70 => any.map(|crawl| Step::Wacz(crawl, self.fresh("w"), size)),
            71..=84 => any.map(|crawl| Step::Ours("COMMIT", vec![crawl])),
            85..=88 => any.map(|crawl| Step::Ours("CANCEL", vec![crawl])),
            89..=91 => {
                known.truncate(1 + rng.below(2) as usize);
                Some(Step::Ours("REMOVE", known))
            }
            92..=94 => {
                known.retain(|_| rng.chance(80));
                let name = if rng.chance(50) { "RETAIN" } else { "PURGE" };
                Some(Step::Ours(name, known)).filter(|_| any.is_some())
            }
            95..=96 => Some(Step::Ours("CHECK", Vec::new())),
            _ => Some(Step::Ours("REPAIR", Vec::new())),
        };
        step.unwrap_or_else(|| match self.kind {
            Kind::Compared => Step::Start(self.fresh("c"), self.fresh("w"), true),
            Kind::Plain | Kind::Packed => Step::Add(self.fresh("c"), hash, n),
        })
    }

    fn run(&mut self, step: &Step, log: &mut Log) -> Verdict {
        match step {
            Step::Start(name, file, concurrent) => self.start(name, file, *concurrent, log),
            Step::Response(name, hash, n) => self.response(name, *hash, *n, log),
            Step::Close(name, size, next) => self.close(name, *size, next.as_deref(), log),
            Step::Commit(name, cut) => self.commit_theirs(name, *cut, log),
            Step::Cancel(name) => self.cancel_theirs(name, log),
            Step::Take(name, file, size, lines) => self.take((name, file), *size, lines, log),
            Step::Purge(kept) => self.purge_theirs(kept, log)?,
            Step::Add(name, hash, n) => self.add(name, *hash, *n, log)?,
            Step::Revisit(name, hash) => self.revisit(name, *hash, log)?,
            Step::Wacz(name, file, size) => self.wacz(name, file, *size, log)?,
            Step::Ours("RETAIN" | "PURGE" | "REMOVE", crawls) if crawls.is_empty() => {}
            Step::Ours(name, crawls) => self.ours(name, crawls, log)?,
        }
        self.compare()
    }
}

impl Beside {
    fn start(&mut self, name: &str, file: &str, concurrent: bool, log: &mut Log) {
        if self.crawls.contains_key(name) || !self.is_new(file) {
            return;
        }
        self.theirs(
            &format!(
                r#"{{"step":"start","crawl":"{name}","file":"{file}","concurrent":{concurrent}}}"#
            ),
            log,
        );
        let state = if concurrent {
            State::Committed
        } else {
            State::Open
        };
        let mut crawl = Crawl::new(state);
        crawl.concurrent = concurrent;
        crawl.now.files.push((file.to_owned(), false));
        crawl.writes = Some(0);
        self.crawls.insert(name.to_owned(), crawl);
    }

    /// Returns true if Browsertrix's crawler of a crawl is running, and no other client continues
    /// the committed part of the crawl.
    fn runs(&self, name: &str) -> bool {
        let crawl = self.crawls.get(name).filter(|crawl| crawl.writes.is_some());
        crawl.is_some_and(|crawl| {
            let state = if crawl.concurrent {
                State::Committed
            } else {
                State::Open
            };
            crawl.state == state
        })
    }

    fn response(&mut self, name: &str, hash: u64, n: u64, log: &mut Log) {
        if !self.runs(name) {
            return;
        }
        let (url, date) = capture(hash, n);
        let (digest, size) = (bare(hash), size_of(hash));
        // The crawler writes dates with milliseconds.
        self.theirs(
            &format!(
                r#"{{"step":"response","crawl":"{name}","hash":"{digest}","url":"{url}","date":"{date}123","size":{size},"revisit":{REVISIT}}}"#
            ),
            log,
        );
        let is_known = self.found(name, hash);
        let crawl = self.crawls.get_mut(name).expect("it runs");
        if is_known {
            crawl.count([1, 1, size - REVISIT, 0]);
            return;
        }
        crawl.count([1, 0, 0, 0]);
        crawl.now.records.entry(hash).or_insert(n);
        if crawl.concurrent {
            self.owners.entry(hash).or_insert_with(|| name.to_owned());
        }
    }

    fn close(&mut self, name: &str, size: i64, next: Option<&str>, log: &mut Log) {
        if !self.runs(name) || next.is_some_and(|next| !self.is_new(next)) {
            return;
        }
        let more = next.map_or(String::new(), |next| format!(r#","next":"{next}""#));
        self.theirs(
            &format!(r#"{{"step":"close","crawl":"{name}","size":{size}{more}}}"#),
            log,
        );
        let crawl = self.crawls.get_mut(name).expect("it runs");
        let at = crawl.writes.take().expect("it runs");
        crawl.now.files[at].1 = true;
        crawl.count([0, 0, 0, size]);
        if let Some(next) = next {
            crawl.writes = Some(crawl.now.files.len());
            crawl.now.files.push((next.to_owned(), false));
        }
    }

    /// Returns true if a command of the module may write to a crawl in its current state.
    fn ours_may_write(&self, name: &str) -> bool {
        let crawl = self.crawls.get(name);
        crawl.is_none_or(|crawl| crawl.state != State::Canceled)
    }

    fn add(&mut self, name: &str, hash: u64, n: u64, log: &mut Log) -> Verdict {
        if !self.ours_may_write(name) {
            return Ok(());
        }
        let (url, date) = capture(hash, n);
        let (digest, size) = (bare(hash), size_of(hash).to_string());
        let line = ["DEDUPE.ADD", P, name, &digest, "0", &date, &url, &size];
        let reply = self.call(&line, log);
        let new = || Crawl::new(State::Open);
        let crawl = self.crawls.entry(name.to_owned()).or_insert_with(new);
        let stored = crawl.now.records.get(&hash).copied();
        must!(
            reply == Reply::Int(stored.is_none().into()),
            "ADD gives {reply:?}"
        );
        // The same URL in the same second means the same record.
        if stored != Some(n) {
            crawl.go_on();
            crawl.count([1, 0, 0, 0]);
            crawl.now.records.entry(hash).or_insert(n);
        }
        Ok(())
    }

    fn revisit(&mut self, name: &str, hash: u64, log: &mut Log) -> Verdict {
        if !self.ours_may_write(name) || !self.crawls.contains_key(name) {
            return Ok(());
        }
        let (digest, size) = (bare(hash), REVISIT.to_string());
        let line = ["DEDUPE.REVISIT", P, name, "NOREF", &digest, &size];
        let reply = self.call(&line, log);
        let is_seen = self.owners.contains_key(&hash) && !self.holders(hash).is_empty();
        let crawl = self.crawls.get_mut(name).expect("the crawl exists");
        if is_seen || crawl.now.records.contains_key(&hash) {
            must!(reply == Reply::Int(1), "REVISIT gives {reply:?}");
            crawl.go_on();
            crawl.count([1, 1, size_of(hash) - REVISIT, 0]);
        } else {
            must!(
                reply.is_error(),
                "REVISIT of an unknown hash gives {reply:?}"
            );
        }
        Ok(())
    }

    fn wacz(&mut self, name: &str, file: &str, size: i64, log: &mut Log) -> Verdict {
        if !self.ours_may_write(name) || !self.crawls.contains_key(name) || !self.is_new(file) {
            return Ok(());
        }
        let index = self.call(&["DEDUPE.WACZOPEN", P, name, file], log);
        let crawl = self.crawls.get_mut(name).expect("the crawl exists");
        let expected = crawl.now.files.len();
        crawl.go_on();
        crawl.now.files.push((file.to_owned(), true));
        crawl.count([0, 0, 0, size]);
        must!(
            index == Reply::Int(expected as i64),
            "WACZOPEN gives {index:?}"
        );
        let (index, size) = (expected.to_string(), size.to_string());
        let line = [
            "DEDUPE.WACZCLOSE",
            P,
            name,
            &index,
            file,
            "sha256:00",
            &size,
        ];
        let reply = self.call(&line, log);
        must!(!reply.is_error(), "WACZCLOSE gives {reply:?}");
        Ok(())
    }
}
