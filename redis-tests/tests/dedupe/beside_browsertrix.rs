//! Browsertrix's own programs change the documented keys while the module's commands run: its
//! purge, its canceled crawls, and the counts of its importer. No crawl must lose data because of
//! this.

use std::collections::{BTreeMap, BTreeSet};

use redis_tests::history::{self, Log, Stage, Verdict};
use redis_tests::{
    Options, Reply, Rng, Server, Wire, assert_consistent, bulk, err, indexed, int, module_path,
    must, ok, plain_hash, sha256_of, until,
};

const P: &str = "";

fn bare(n: u64) -> String {
    sha256_of(n).trim_start_matches("sha256:").to_owned()
}

fn record(n: u64) -> String {
    format!("0 20260319102015123 https://e/{n} 1000")
}

/// Starts a server whose indexes have the Browsertrix profile.
fn server() -> Server {
    Options::new().plain().aof_unsynced(true).start()
}

fn connect(server: &Server) -> Wire {
    let mut c = server.wire();
    ok!(
        c,
        "CONFIG",
        "SET",
        "crawlspace.dedupe-profile",
        "browsertrix"
    );
    c
}

fn add(c: &mut Wire, crawl: &str, hashes: impl IntoIterator<Item = u64>) {
    for n in hashes {
        let url = format!("https://e/{n}");
        ok!(
            c,
            "DEDUPE.ADD",
            P,
            crawl,
            bare(n),
            0,
            "20260319102015123",
            url,
            1000
        );
    }
}

fn commit(c: &mut Wire, crawl: &str) {
    ok!(c, "DEDUPE.COMMIT", P, crawl);
}

fn owner(c: &mut Wire, n: u64) -> Option<String> {
    match &ok!(c, "DEDUPE.LOOKUP", P, bare(n)).items()[0] {
        Reply::Nil => None,
        found => Some(found.items()[0].text()),
    }
}

/// Writes a crawl as Browsertrix's crawler does.
fn plain_crawl(c: &mut Wire, crawl: &str, hashes: impl IntoIterator<Item = u64>) {
    for n in hashes {
        ok!(c, "HSET", format!("h:{crawl}"), bare(n), record(n));
        ok!(c, "HINCRBY", format!("h:{crawl}:counts"), "totalUrls", 1);
    }
    let wacz = format!(r#"{{"filename":"{crawl}.wacz","hash":"00","size":1}}"#);
    ok!(c, "RPUSH", format!("c:{crawl}:wacz"), wacz);
}

fn begin_purge(c: &mut Wire) {
    ok!(c, "RENAME", "allcrawls", "to-remove-crawls");
    ok!(c, "DEL", "alldupes");
    ok!(c, "DEL", "allcounts");
}

fn put_back(c: &mut Wire, crawl: &str) {
    for hash in ok!(c, "HKEYS", format!("h:{crawl}")).texts() {
        ok!(c, "HSETNX", "alldupes", hash, crawl);
    }
    ok!(c, "SMOVE", "to-remove-crawls", "allcrawls", crawl);
    for (field, n) in ok!(c, "HGETALL", format!("h:{crawl}:counts")).pairs() {
        ok!(c, "HINCRBY", "allcounts", field.text(), n.text());
    }
}

#[test]
fn repair_during_their_purge_deletes_nothing() {
    let server = server();
    let mut c = connect(&server);
    for crawl in ["A", "B"] {
        plain_crawl(&mut c, crawl, 0..5);
        ok!(c, "SADD", "allcrawls", crawl);
    }
    ok!(c, "HSET", "alldupes", bare(1), "A");
    begin_purge(&mut c);
    let before = server.snapshot();
    let check = ok!(c, "DEDUPE.CHECK", P);
    assert_eq!(check.field("leakedKeys"), int(0), "{check:?}");
    assert_eq!(check.field("toRemoveCrawls"), int(2), "{check:?}");
    assert_eq!(check.field("ok"), int(0), "{check:?}");
    server.snapshot().assert_same(&before, "CHECK reads only");
    let repair = ok!(c, "DEDUPE.REPAIR", P);
    assert_eq!(repair.field("repaired"), int(0), "{repair:?}");
    let ours = |key: &[u8]| key == b"crawlspace";
    server
        .snapshot()
        .without(ours)
        .assert_same(&before, "nothing that cannot be restored is deleted");
    assert!(err!(c, "DEDUPE.PACK", P).starts_with("PURGING "));
    assert!(err!(c, "DEDUPE.CANCEL", P, "A").starts_with("PURGING "));
    put_back(&mut c, "B");
    ok!(c, "DEDUPE.REMOVE", P, "A");
    ok!(c, "DEDUPE.REPAIR", P);
    assert_consistent(&mut c, P);
    assert_eq!(owner(&mut c, 1).as_deref(), Some("B"));
}

#[test]
fn a_removal_after_their_purge_loses_no_hash_of_another_crawl() {
    let server = server();
    let mut c = connect(&server);
    for crawl in ["A", "B"] {
        add(&mut c, crawl, [1]);
        commit(&mut c, crawl);
    }
    begin_purge(&mut c);
    put_back(&mut c, "B");
    put_back(&mut c, "A");
    assert_eq!(ok!(c, "DEDUPE.REMOVE", P, "B").ints(), [1, 0, 1]);
    assert_eq!(owner(&mut c, 1).as_deref(), Some("A"));
    ok!(c, "DEDUPE.REPAIR", P);
    assert_consistent(&mut c, P);
}

/// The reason why the lists of holders are untrusted is stored. Therefore it survives a restart,
/// reaches replicas, and applies to a removal much later.
#[test]
fn a_detected_purge_is_remembered() {
    let mut server = server();
    let mut c = connect(&server);
    let replica = Options::new().plain().replica_of(&server).start();
    let untrusted = |c: &mut Wire| ok!(c, "HEXISTS", "crawlspace", "untrusted");
    let mut of_replica = replica.wire();
    for damage in ["purge", "delete", "rename"] {
        ok!(c, "FLUSHALL");
        for crawl in ["A", "B"] {
            add(&mut c, crawl, [1]);
            commit(&mut c, crawl);
        }
        assert_eq!(untrusted(&mut c), int(0));
        match damage {
            "purge" => begin_purge(&mut c),
            "delete" => drop(ok!(c, "DEL", "alldupes")),
            _ => drop(ok!(c, "RENAME", "allcrawls", "elsewhere")),
        }
        until("the index is marked as untrusted", || {
            untrusted(&mut c) == int(1)
        });
        until("the replica is marked as untrusted", || {
            untrusted(&mut of_replica) == int(1)
        });
    }
    drop(replica);
    server.restart();
    let mut c = connect(&server);
    ok!(c, "RENAME", "elsewhere", "allcrawls");
    assert_eq!(untrusted(&mut c), int(1));
    ok!(c, "DEDUPE.REPAIR", P);
    assert_eq!(untrusted(&mut c), int(0));
    assert_consistent(&mut c, P);
}

/// The module subscribes to keyspace events that slow down other clients only when the server has
/// an index.
#[test]
fn bystanders_pay_for_keyspace_events_from_the_first_command_of_ours_on() {
    let server = Server::start();
    let mut c = server.wire();
    for n in 0..10 {
        ok!(c, "SET", format!("key {n}"), n);
        ok!(c, "HSET", "hash", n, n);
        ok!(c, "RENAME", format!("key {n}"), "other");
    }
    assert_eq!(server.info_number("keyspace_events"), 0);
    ok!(c, "DEDUPE.LOOKUP", P, bare(1));
    assert_eq!(server.info_number("keyspace_events"), 1);
}

#[test]
fn a_purge_before_any_command_is_detected() {
    let files = [
        Options::new().plain().rdb(),
        Options::new().plain().aof_unsynced(true),
        Options::new().plain().aof_unsynced(false),
    ];
    for options in files {
        let mut server = options.start();
        commit_two(&server);
        server.shutdown();
        server.restart();
        purge_is_seen(&server);
    }

    let source = Options::new().plain().start();
    commit_two(&source);
    let restored = Options::new().plain().start();
    let (mut from, mut to) = (source.wire(), restored.wire());
    for key in ok!(from, "KEYS", "*").items() {
        let dump = ok!(from, "DUMP", key.bytes());
        ok!(to, "RESTORE", key.bytes(), 0, dump.bytes());
    }
    purge_is_seen(&restored);

    for is_there_before in [true, false] {
        let master = Options::new().plain().start();
        if is_there_before {
            commit_two(&master);
        }
        let replica = Options::new().plain().replica_of(&master).start();
        let mut c = replica.wire();
        if !is_there_before {
            until("the replica is linked", || {
                replica.info("master_link_status").as_deref() == Some("up")
            });
            commit_two(&master);
        }
        until("the replica has the index", || {
            ok!(c, "SCARD", "allcrawls") == int(2)
        });
        ok!(c, "REPLICAOF", "NO", "ONE");
        purge_is_seen(&replica);
    }

    let mut later = Options::new().plain().rdb().start();
    commit_two(&later);
    later.shutdown();
    let without = Options::new().rdb().no_module();
    later.restart_as(without.args(&["--enable-module-command", "yes"]));
    let module = module_path().display().to_string();
    ok!(later.wire(), "MODULE", "LOAD", module);
    purge_is_seen(&later);
}

fn commit_two(server: &Server) {
    let mut c = connect(server);
    for crawl in ["A", "B"] {
        add(&mut c, crawl, [1]);
        commit(&mut c, crawl);
    }
}

/// Purges an index before the first command of the module is sent to the server.
fn purge_is_seen(server: &Server) {
    let mut c = server.wire();
    begin_purge(&mut c);
    until("the index is marked as untrusted", || {
        ok!(c, "HEXISTS", "crawlspace", "untrusted") == int(1)
    });
}

#[test]
fn a_purge_while_the_module_is_not_loaded_is_detected_by_its_result() {
    let mut server = server();
    let mut c = connect(&server);
    for crawl in ["A", "B", "C"] {
        add(&mut c, crawl, 0..20);
        commit(&mut c, crawl);
    }
    begin_purge(&mut c);
    for crawl in ["C", "B", "A"] {
        put_back(&mut c, crawl);
    }
    // The server sent no event for this purge, so only the keys show it.
    until("the index is marked as untrusted", || {
        ok!(c, "HDEL", "crawlspace", "untrusted") == int(1)
    });
    server.restart();
    let mut c = connect(&server);
    assert_eq!(ok!(c, "HEXISTS", "crawlspace", "untrusted"), int(0));
    for (removed, left) in [("C", "A"), ("A", "B")] {
        assert_eq!(ok!(c, "DEDUPE.REMOVE", P, removed).ints(), [1, 0, 20]);
        for n in 0..20 {
            assert_eq!(owner(&mut c, n).as_deref(), Some(left), "{n}");
        }
    }
    ok!(c, "DEDUPE.REPAIR", P);
    assert_consistent(&mut c, P);
}

#[test]
fn crawls_that_they_canceled_are_counted_and_purged() {
    let server = server();
    let mut c = connect(&server);
    add(&mut c, "A", [1]);
    commit(&mut c, "A");
    // Browsertrix's importer merges and counts each hash when it adds it.
    plain_crawl(&mut c, "K", [1, 2]);
    ok!(c, "HSETNX", "alldupes", bare(2), "K");
    ok!(c, "HINCRBY", "allcounts", "totalUrls", 2);
    ok!(c, "SADD", "canceledcrawls", "K");
    let standing = ok!(c, "DEDUPE.CRAWLS", P).field("K").field("state");
    assert_eq!(standing, bulk("canceled"));
    for command in ["DEDUPE.CHECK", "DEDUPE.REPAIR"] {
        let found = c.expect_ok(&[command, P]);
        assert_eq!(found.field("ok"), int(1), "{found:?}");
    }
    assert_eq!(ok!(c, "HGET", "alldupes", bare(2)), bulk("K"));
    assert_eq!(ok!(c, "DEDUPE.RETAIN", P, "A").ints(), [1, 0, 0]);
    assert_eq!(ok!(c, "DEDUPE.RETAIN", P, "PURGE", "A").ints(), [1, 1, 0]);
    assert_eq!(ok!(c, "EXISTS", "canceledcrawls", "h:K"), int(0));
    assert_consistent(&mut c, P);
    plain_crawl(&mut c, "L", [3]);
    ok!(c, "SADD", "canceledcrawls", "L");
    assert_eq!(ok!(c, "DEDUPE.REMOVE", P, "L").ints(), [1, 0, 0]);
    assert_eq!(ok!(c, "EXISTS", "canceledcrawls", "h:L"), int(0));
}

#[test]
fn counts_of_their_importer_in_the_totals_remain() {
    let server = server();
    let mut c = connect(&server);
    add(&mut c, "A", [1]);
    commit(&mut c, "A");
    ok!(
        c,
        "HSET",
        "allcounts",
        "estimatedRedundantSize",
        4321,
        "redundantUrls",
        7
    );
    assert_consistent(&mut c, P);
    ok!(c, "DEDUPE.REPAIR", P);
    let sums = plain_hash(&mut c, P, "allcounts");
    assert_eq!(sums["estimatedRedundantSize"], "4321");
    assert_eq!(sums["redundantUrls"], "7");
}

#[test]
fn their_crawls_tell_the_profile_and_have_figures() {
    let server = server();
    let mut c = server.wire();
    for (crawl, announced) in [("A", true), ("B", false)] {
        ok!(c, "FLUSHALL");
        plain_crawl(&mut c, crawl, 0..3);
        if announced {
            ok!(c, "SADD", "uncommittedcrawls", crawl);
        }
        let stats = ok!(c, "DEDUPE.STATS", P, crawl);
        assert_eq!(stats.field("hashes"), int(3));
        assert_eq!(ok!(c, "DEDUPE.COMMIT", P, crawl).ints(), [3, 0]);
        assert_eq!(ok!(c, "DEDUPE.PROFILE", P), bulk("browsertrix"));
        assert_eq!(ok!(c, "EXISTS", "allhashes"), int(0));
        assert_eq!(ok!(c, "HLEN", "alldupes"), int(3));
        assert_eq!(owner(&mut c, 2).as_deref(), Some(crawl));
    }
}

/// Kills the server while it removes `A`, which shares half of its hashes with `B`. Returns the
/// number of shared hashes.
fn removal_cut_short(server: &mut Server) -> (Wire, u64) {
    for shared in [3_000, 12_000, 48_000, 192_000] {
        let mut c = connect(server);
        ok!(c, "FLUSHALL");
        for (id, first) in [("A", 0), ("B", shared)] {
            for from in (first..first + 2 * shared).step_by(1_000) {
                let mut words = vec!["HSET".to_owned(), format!("h:{id}")];
                words.extend((from..from + 1_000).flat_map(|n| [bare(n), record(n)]));
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                c.expect_ok(&words);
            }
            commit(&mut c, id);
        }
        ok!(c, "CONFIG", "SET", "crawlspace.slice-us", 50);
        let mut remover = server.wire();
        remover.send(&["DEDUPE.REMOVE", P, "A"]);
        let all = 3 * shared as i64;
        until("the removal has begun", || indexed(&mut c, P) < all - 200);
        server.restart();
        let mut c = connect(server);
        // On a busy machine, the removal may have ended before the kill.
        if ok!(c, "DEDUPE.CHECK", P).field("interrupted") == int(1) {
            return (c, shared);
        }
    }
    panic!("every removal ended before the kill");
}

#[test]
fn a_repair_does_not_change_the_result_of_an_interrupted_removal() {
    for repairs in [false, true] {
        let mut server = server();
        let (mut c, shared) = removal_cut_short(&mut server);
        let check = ok!(c, "DEDUPE.CHECK", P);
        assert_eq!(check.field("missingHashes"), int(0), "{check:?}");
        assert_eq!(check.field("staleHolders"), int(0), "{check:?}");
        if repairs {
            let repair = ok!(c, "DEDUPE.REPAIR", P);
            assert_eq!(repair.field("repaired"), int(0), "{repair:?}");
        }
        let shared = shared as i64;
        let removed = ok!(c, "DEDUPE.REMOVE", P, "A").ints();
        assert_eq!(removed, [1, shared, shared], "with repair: {repairs}");
        assert_consistent(&mut c, P);
    }
}

/// Number of steps of a random history. The last step completes all operations.
const STEPS: usize = 200;

/// Sends Browsertrix's purge command by command, interrupted by `kill -9` at any command, while
/// jobs of the module run.
#[test]
fn no_crawl_loses_hashes_during_their_purge_and_kills() {
    history::play(
        "beside_browsertrix",
        (2 * STEPS, STEPS),
        |_| Beside::new(),
        drop,
    );
}

/// A step of a random history.
#[derive(Clone, Debug)]
enum Step {
    /// Adds a hash to a crawl with `DEDUPE.ADD`.
    Add(String, u64),
    /// Adds a hash as Browsertrix's crawler does. True if the crawl is new.
    Write(String, u64, bool),
    /// Begins Browsertrix's purge, which will keep these crawls.
    Purge(Vec<String>),
    /// Sends the next command of Browsertrix's purge.
    Next,
    /// Ends Browsertrix's program; the server continues.
    Abort,
    /// Runs a command of the module.
    Command(Vec<String>),
    /// Kills the server, during a command if there is one. If true, also ends Browsertrix's
    /// program.
    Kill(Vec<String>, bool),
    /// Completes interrupted operations, and then runs the repair step of the guide. If true,
    /// completes a running purge first; otherwise abandons it.
    Settle(bool),
}

struct Beside {
    server: Server,
    c: Wire,
    /// The hashes that each crawl must have. Crawls that were removed on request are not included.
    holds: BTreeMap<String, BTreeSet<u64>>,
    /// Remaining commands of a running purge. The last element is the next command.
    purge: Vec<Vec<String>>,
    /// Crawls that a purge has deleted.
    purged: BTreeSet<String>,
    made: u64,
    drawn: usize,
}

fn words(line: &[&str]) -> Vec<String> {
    line.iter().map(|word| (*word).to_owned()).collect()
}

/// Returns a `DEDUPE.*` command.
fn ours(name: &str, crawls: &[&str]) -> Vec<String> {
    words(&[&[name, P], crawls].concat())
}

fn any(rng: &mut Rng, of: &[String]) -> Option<String> {
    (!of.is_empty()).then(|| rng.pick(of).clone())
}

impl Stage for Beside {
    type Step = Step;

    fn draw(&mut self, rng: &mut Rng) -> Step {
        self.drawn += 1;
        if self.drawn == STEPS {
            return Step::Settle(rng.chance(50));
        }
        match rng.below(100) {
            0..=24 => {
                let running = self.running();
                let crawl = any(rng, &running).filter(|_| rng.chance(80));
                let crawl = crawl.unwrap_or_else(|| {
                    self.made += 1;
                    format!("c{}", self.made)
                });
                match (rng.below(200), rng.chance(50)) {
                    (n, true) => Step::Add(crawl, n),
                    (n, false) => Step::Write(crawl, n, rng.chance(60)),
                }
            }
            25..=64 if self.purge.is_empty() => {
                let running = self.running();
                let mut kept: Vec<String> = self.holds.keys().cloned().collect();
                kept.retain(|crawl| !running.contains(crawl) && rng.chance(85));
                rng.shuffle(&mut kept);
                Step::Purge(kept)
            }
            65..=94 => self.draw_command(rng),
            95 => Step::Abort,
            96..=97 => Step::Kill(Vec::new(), rng.chance(50)),
            _ => Step::Next,
        }
    }

    fn run(&mut self, step: &Step, log: &mut Log) -> Verdict {
        match step {
            Step::Add(crawl, n) => {
                let line = format!("https://e/{n}");
                let (name, date) = ("DEDUPE.ADD", "20260319102015123");
                let line = [name, P, crawl, &bare(*n), "0", date, &line, "1000"];
                // A crawl that is being removed refuses records.
                if !self.call(&line, log).is_error() {
                    self.holds.entry(crawl.clone()).or_default().insert(*n);
                }
            }
            Step::Write(crawl, n, announced) => {
                if *announced && !self.holds.contains_key(crawl) {
                    self.call(&["SADD", "uncommittedcrawls", crawl], log);
                }
                let key = format!("h:{crawl}");
                let new = self.call(&["HSETNX", &key, &bare(*n), &record(*n)], log);
                let new = new.int().to_string();
                self.call(
                    &["HINCRBY", &format!("{key}:counts"), "totalUrls", &new],
                    log,
                );
                self.holds.entry(crawl.clone()).or_default().insert(*n);
            }
            Step::Purge(kept) => self.begin_purge(kept),
            Step::Next => self.purge_next(log),
            Step::Abort => self.purge.clear(),
            Step::Command(line) => self.command(line, log),
            Step::Kill(line, both) => self.kill(line, *both, log),
            Step::Settle(whole) => return self.settle(*whole, log),
        }
        Ok(())
    }

    fn check(&mut self, _log: &mut Log) -> Verdict {
        let plain = ok!(self.c, "DEDUPE.STATS", P).field("storage") == bulk("plain");
        for (crawl, hashes) in &self.holds {
            let stats = self.c.call(&["DEDUPE.STATS", P, crawl]);
            must!(!stats.is_error(), "a crawl is lost: \"{crawl}\" {stats:?}");
            let n = stats.field("hashes").int();
            must!(
                n == hashes.len() as i64,
                "{n} records instead of {} of \"{crawl}\"",
                hashes.len()
            );
            for n in hashes.iter().filter(|_| plain) {
                let there = ok!(self.c, "HEXISTS", format!("h:{crawl}"), bare(*n));
                must!(there == int(1), "a record is lost: {n} of \"{crawl}\"");
            }
        }
        Ok(())
    }
}

impl Beside {
    fn new() -> Beside {
        let server = server();
        let c = connect(&server);
        Beside {
            server,
            c,
            holds: BTreeMap::new(),
            purge: Vec::new(),
            purged: BTreeSet::new(),
            made: 0,
            drawn: 0,
        }
    }

    fn call(&mut self, line: &[impl AsRef<[u8]>], log: &mut Log) -> Reply {
        let words: Vec<Vec<u8>> = line.iter().map(|word| word.as_ref().to_vec()).collect();
        log.call(&mut self.c, &words)
    }

    fn members(&mut self, set: &str) -> Vec<String> {
        let mut members = ok!(self.c, "SMEMBERS", set).texts();
        members.sort();
        members
    }

    /// Returns the crawls that are neither committed nor canceled.
    fn running(&mut self) -> Vec<String> {
        let mut known = self.members("allcrawls");
        known.extend(self.members("to-remove-crawls"));
        let all = self.holds.keys().cloned();
        all.filter(|crawl| !known.contains(crawl)).collect()
    }

    fn draw_command(&mut self, rng: &mut Rng) -> Step {
        let all: Vec<String> = self.holds.keys().cloned().collect();
        let Some(crawl) = any(rng, &all) else {
            return Step::Next;
        };
        let running = any(rng, &self.running());
        Step::Command(match rng.below(20) {
            0..=7 => ours("DEDUPE.COMMIT", &[&running.unwrap_or(crawl)]),
            8..=9 => ours("DEDUPE.REMOVE", &[&crawl]),
            10 => {
                let kept = all.into_iter().filter(|_| rng.chance(90));
                let mut line = ours("DEDUPE.RETAIN", &["PURGE"]);
                line.extend(kept);
                if line.len() == 3 {
                    return Step::Next;
                }
                line
            }
            11..=12 => ours("DEDUPE.CHECK", &[]),
            13..=16 => ours("DEDUPE.REPAIR", &[]),
            17 => ours("DEDUPE.PACK", &[]),
            18 => ours("DEDUPE.UNPACK", &[]),
            _ => {
                let line = match running {
                    Some(running) if rng.chance(60) => ours("DEDUPE.COMMIT", &[&running]),
                    _ if rng.chance(50) => ours("DEDUPE.REPAIR", &[]),
                    _ => ours("DEDUPE.REMOVE", &[&crawl]),
                };
                return Step::Kill(line, rng.chance(50));
            }
        })
    }

    fn begin_purge(&mut self, kept: &[String]) {
        // RENAME fails if there are no committed crawls.
        if self.members("allcrawls").is_empty() || !self.purge.is_empty() {
            return;
        }
        self.purge = vec![words(&["delete rest"])];
        let back = kept.iter().rev().map(|crawl| words(&["put back", crawl]));
        self.purge.extend(back);
        for line in [
            &["DEL", "allcounts"][..],
            &["DEL", "alldupes"],
            &["RENAME", "allcrawls", "to-remove-crawls"],
        ] {
            self.purge.push(words(line));
        }
    }

    fn purge_next(&mut self, log: &mut Log) {
        let Some(line) = self.purge.pop() else {
            return;
        };
        let line: Vec<&str> = line.iter().map(String::as_str).collect();
        match line[..] {
            ["put back", crawl] => {
                let hashes = ok!(self.c, "HKEYS", format!("h:{crawl}")).texts();
                let counts = ok!(self.c, "HGETALL", format!("h:{crawl}:counts")).pairs();
                // The last element is the next command.
                for (field, n) in counts {
                    let line = ["HINCRBY", "allcounts", &field.text(), &n.text()];
                    self.purge.push(words(&line));
                }
                let back = ["SMOVE", "to-remove-crawls", "allcrawls", crawl];
                self.purge.push(words(&back));
                for hash in hashes {
                    self.purge
                        .push(words(&["HSETNX", "alldupes", &hash, crawl]));
                }
            }
            ["delete rest"] => {
                if let Some(crawl) = self.members("to-remove-crawls").first().cloned() {
                    let keys = ["h:", "c:"].map(|start| format!("{start}{crawl}"));
                    let (records, waczs) = (&keys[0], format!("{}:wacz", keys[1]));
                    let counts = format!("{records}:counts");
                    self.purge.push(words(&["delete rest"]));
                    self.purge.push(words(&["DEL", records, &waczs, &counts]));
                    self.call(&["SREM", "to-remove-crawls", &crawl], log);
                }
            }
            ["RENAME", ..] => {
                if self.call(&line, log).is_error() {
                    self.purge.clear();
                }
            }
            _ => {
                if let ["DEL", records, _, _] = line[..] {
                    self.holds.remove(&records[2..]);
                    self.purged.insert(records[2..].to_owned());
                }
                // On a packed index, Browsertrix's program exits with WRONGTYPE.
                if self.call(&line, log).is_error() {
                    self.purge.clear();
                }
            }
        }
    }

    fn command(&mut self, line: &[String], log: &mut Log) {
        let (name, crawls) = (&line[0][..], &line[2..]);
        // The purge renames a plain key, so the storage must not change during a purge.
        if name == "DEDUPE.PACK" && !self.purge.is_empty() {
            return;
        }
        let before = ok!(self.c, "DEDUPE.CRAWLS", P).pairs();
        if self.call(line, log).is_error() {
            return;
        }
        match name {
            "DEDUPE.REMOVE" => drop(self.holds.remove(&crawls[0])),
            "DEDUPE.RETAIN" => {
                for (crawl, figures) in before {
                    let goes = figures.field("state") != bulk("uncommitted");
                    if goes && !crawls.contains(&crawl.text()) {
                        self.holds.remove(&crawl.text());
                    }
                }
            }
            _ => {}
        }
    }

    fn kill(&mut self, line: &[String], both: bool, log: &mut Log) {
        let mut asked_to_go = None;
        let mut other = self.server.wire();
        if let Some(name) = line.first() {
            if name == "DEDUPE.REMOVE" {
                asked_to_go = self.holds.remove_entry(&line[2]);
            }
            other.send(line);
        }
        let told = [&words(&["#", "kill", "-9", "during"]), line].concat();
        let told: Vec<Vec<u8>> = told.into_iter().map(String::into_bytes).collect();
        log.note(&told, &Reply::Nil);
        self.server.restart();
        self.c = connect(&self.server);
        ok!(self.c, "CONFIG", "SET", "crawlspace.slice-us", 50);
        // The requested removal may have begun, so no crawl may depend on the hashes that it
        // removes.
        for crawl in ok!(self.c, "HKEYS", "removing").texts() {
            self.holds.remove(&crawl);
        }
        if both {
            self.purge.clear();
        }
        // The server may have been killed before it read the command, or may have refused it. In
        // this case, the crawl keeps all its data.
        if let Some((crawl, hashes)) = asked_to_go {
            let begun = ok!(self.c, "HEXISTS", "removing", &crawl) == int(1);
            if !begun && !self.c.call(&["DEDUPE.STATS", P, &crawl]).is_error() {
                self.holds.insert(crawl, hashes);
            }
        }
    }

    fn settle(&mut self, whole: bool, log: &mut Log) -> Verdict {
        while whole && !self.purge.is_empty() {
            self.purge_next(log);
        }
        self.purge.clear();
        let removing = ok!(self.c, "HKEYS", "removing").texts();
        // Kills may have interrupted several removals.
        for crawl in removing.iter().filter(|crawl| !crawl.is_empty()) {
            self.call(&ours("DEDUPE.REMOVE", &[crawl]), log);
        }
        self.call(&ours("DEDUPE.UNPACK", &[]), log);
        for crawl in self.members("to-remove-crawls") {
            let is_held = self.holds.contains_key(&crawl);
            let command = if is_held {
                "DEDUPE.COMMIT"
            } else {
                "DEDUPE.REMOVE"
            };
            let reply = self.call(&ours(command, &[&crawl]), log);
            must!(
                !reply.is_error(),
                "{command} of a canceled crawl: {reply:?}"
            );
        }
        let crawls: Vec<String> = self.holds.keys().cloned().collect();
        for crawl in &crawls {
            let reply = self.call(&ours("DEDUPE.COMMIT", &[crawl]), log);
            must!(!reply.is_error(), "the commit of \"{crawl}\": {reply:?}");
        }
        // The purge could not delete the packed records of these crawls.
        for crawl in std::mem::take(&mut self.purged) {
            if !self.holds.contains_key(&crawl) {
                self.call(&ours("DEDUPE.CANCEL", &[&crawl]), log);
            }
        }
        self.call(&ours("DEDUPE.REPAIR", &[]), log);
        assert_consistent(&mut self.c, P);
        for (crawl, hashes) in &self.holds {
            for &n in hashes {
                let holder = owner(&mut self.c, n);
                must!(holder.is_some(), "a hash is lost: {n} of \"{crawl}\"");
                let held = holder.as_ref().and_then(|holder| self.holds.get(holder));
                must!(
                    held.is_some_and(|held| held.contains(&n)),
                    "the owner of a hash does not hold it: {n} of \"{crawl}\", {holder:?}, {held:?}"
                );
            }
        }
        Ok(())
    }
}
