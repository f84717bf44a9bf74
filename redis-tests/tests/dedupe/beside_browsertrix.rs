//! Browsertrix's own programs write the documented keys beside our commands: its purge, its canceled crawls,
//! what its importer counts. Nothing that a crawl holds is lost by it.

use redis_tests::{
    Options, Reply, Rng, Server, Wire, assert_consistent, bulk, err, indexed, int, module_path, ok,
    plain_hash, sha256_of, until,
};

const P: &str = "";

fn bare(n: u64) -> String {
    sha256_of(n).trim_start_matches("sha256:").to_owned()
}

fn record(n: u64) -> String {
    format!("0 20260319102015123 https://e/{n} 1000")
}

/// A server whose indexes are as Browsertrix makes them.
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

/// A crawl as its crawler writes it.
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
        .assert_same(&before, "nothing that nobody can restore is deleted");
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

/// What makes the lists of holders untrusted is written down, so that a restart, a replica and a removal
/// much later know of it.
#[test]
fn a_purge_that_was_seen_is_not_forgotten() {
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
        until("the index says so", || untrusted(&mut c) == int(1));
        until("the replica does", || untrusted(&mut of_replica) == int(1));
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

/// Kinds of keyspace events that cost bystanders are not subscribed to on a server where no index has come.
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
fn a_purge_before_any_command_is_seen_however_the_index_came() {
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

/// Purges an index before any command of ours has been sent to the server.
fn purge_is_seen(server: &Server) {
    let mut c = server.wire();
    begin_purge(&mut c);
    until("the index says so", || {
        ok!(c, "HEXISTS", "crawlspace", "untrusted") == int(1)
    });
}

#[test]
fn a_purge_while_the_module_is_not_loaded_is_seen_by_its_outcome() {
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
    // As if nobody had told: the keys alone are left to tell of it.
    until("it is told", || {
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
    // Theirs merges each hash as it comes, and counts it.
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
fn what_their_importer_counts_in_the_sums_alone_stays() {
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

#[test]
fn a_repair_does_not_change_what_a_removal_that_was_cut_short_comes_to() {
    let mut replies = Vec::new();
    for repairs in [false, true] {
        let mut server = server();
        let mut c = connect(&server);
        for (id, first) in [("A", 0), ("B", 3_000)] {
            for chunk in 0..6 {
                let from = first + chunk * 1000;
                let mut words = vec!["HSET".to_owned(), format!("h:{id}")];
                words.extend((from..from + 1000).flat_map(|n| [bare(n), record(n)]));
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                c.expect_ok(&words);
            }
            commit(&mut c, id);
        }
        ok!(c, "CONFIG", "SET", "crawlspace.slice-us", 50);
        let mut remover = server.wire();
        remover.send(&["DEDUPE.REMOVE", P, "A"]);
        until("the removal is half way", || indexed(&mut c, P) < 8_800);
        server.restart();
        let mut c = connect(&server);
        let check = ok!(c, "DEDUPE.CHECK", P);
        assert_eq!(check.field("interrupted"), int(1), "{check:?}");
        assert_eq!(check.field("missingHashes"), int(0), "{check:?}");
        assert_eq!(check.field("staleHolders"), int(0), "{check:?}");
        if repairs {
            let repair = ok!(c, "DEDUPE.REPAIR", P);
            assert_eq!(repair.field("repaired"), int(0), "{repair:?}");
        }
        replies.push(ok!(c, "DEDUPE.REMOVE", P, "A").ints());
        assert_consistent(&mut c, P);
    }
    assert_eq!(replies[0], [1, 3_000, 3_000]);
    assert_eq!(replies[1], replies[0]);
}

/// How many steps a history of the proof has, unless `CRAWLSPACE_PURGE_STEPS` says how many.
const STEPS: u64 = 400;

/// Browsertrix's purge by plain commands, in its order, one command at a time, cut by `kill -9` at any of them,
/// beside our jobs, which run meanwhile.
#[test]
fn nothing_that_a_crawl_holds_is_lost_beside_their_purge_and_kills() {
    let steps = std::env::var("CRAWLSPACE_PURGE_STEPS");
    let steps = steps.map_or(STEPS, |n| n.parse().expect("a number"));
    let mut history = History::new(4711);
    for at in 0..steps {
        history.step();
        if at % 50 == 49 {
            history.records_hold();
        }
        if at % 400 == 399 {
            history.settle();
        }
    }
    history.settle();
    println!(
        "{steps} steps: {} purges, {} of them cut, {} kills, {} commands of ours",
        history.purges, history.cut, history.kills, history.commands
    );
}

struct History {
    rng: Rng,
    server: Server,
    c: Wire,
    /// The hashes that each crawl must have, of crawls that nobody asked to go.
    holds: std::collections::BTreeMap<String, std::collections::BTreeSet<u64>>,
    /// Commands of a purge under way, the next one last.
    purge: Vec<Vec<String>>,
    made: u64,
    purges: u64,
    cut: u64,
    kills: u64,
    commands: u64,
}

fn words(line: &[&str]) -> Vec<String> {
    line.iter().map(|word| (*word).to_owned()).collect()
}

impl History {
    fn new(seed: u64) -> History {
        let server = server();
        let c = connect(&server);
        History {
            rng: Rng::seeded(seed),
            server,
            c,
            holds: Default::default(),
            purge: Vec::new(),
            made: 0,
            purges: 0,
            cut: 0,
            kills: 0,
            commands: 0,
        }
    }

    fn call(&mut self, line: &[&str]) -> Reply {
        self.c.call(line)
    }

    fn members(&mut self, set: &str) -> Vec<String> {
        let mut members = ok!(self.c, "SMEMBERS", set).texts();
        members.sort();
        members
    }

    fn any(&mut self, of: &[String]) -> Option<String> {
        match of.len() as u64 {
            0 => None,
            n => Some(of[self.rng.below(n) as usize].clone()),
        }
    }

    /// Crawls that are neither committed nor set aside.
    fn running(&mut self) -> Vec<String> {
        let mut known = self.members("allcrawls");
        known.extend(self.members("to-remove-crawls"));
        let all = self.holds.keys().cloned();
        all.filter(|crawl| !known.contains(crawl)).collect()
    }

    fn step(&mut self) {
        match self.rng.below(100) {
            0..=24 => self.write(),
            25..=64 => self.purge_step(),
            65..=94 => self.command(),
            95 => {
                // Their program dies, the server does not.
                self.cut += u64::from(!self.purge.is_empty());
                self.purge.clear();
            }
            96..=97 => self.kill(),
            _ => self.records_hold(),
        }
    }

    fn write(&mut self) {
        let running = self.running();
        let crawl = match self.any(&running) {
            Some(crawl) if self.rng.chance(80) => crawl,
            _ => {
                self.made += 1;
                format!("c{}", self.made)
            }
        };
        let n = self.rng.below(200);
        if self.rng.chance(50) {
            let url = format!("https://e/{n}");
            let bare = bare(n);
            let date = "20260319102015123";
            let line = ["DEDUPE.ADD", P, &crawl, &bare, "0", date, &url, "1000"];
            if self.call(&line).is_error() {
                return; // it is being removed
            }
        } else {
            if !self.holds.contains_key(&crawl) && self.rng.chance(60) {
                ok!(self.c, "SADD", "uncommittedcrawls", crawl);
            }
            let key = format!("h:{crawl}");
            let new = ok!(self.c, "HSETNX", key, bare(n), record(n)).int();
            ok!(self.c, "HINCRBY", format!("{key}:counts"), "totalUrls", new);
        }
        self.holds.entry(crawl).or_default().insert(n);
    }

    fn begin_purge(&mut self) {
        let committed = self.members("allcrawls");
        let stored = ok!(self.c, "DEDUPE.STATS", P).field("storage");
        if committed.is_empty() || stored != bulk("plain") {
            return; // RENAME fails; and the guide says so
        }
        self.purges += 1;
        let running = self.running();
        let mut kept: Vec<String> = self.holds.keys().cloned().collect();
        kept.retain(|crawl| !running.contains(crawl));
        kept.retain(|_| self.rng.chance(85));
        self.rng.shuffle(&mut kept);
        let mut lines = vec![
            words(&["RENAME", "allcrawls", "to-remove-crawls"]),
            words(&["DEL", "alldupes"]),
            words(&["DEL", "allcounts"]),
        ];
        lines.extend(kept.iter().map(|crawl| words(&["put back", crawl])));
        lines.push(words(&["delete rest"]));
        lines.reverse();
        self.purge = lines;
    }

    fn purge_step(&mut self) {
        let Some(line) = self.purge.pop() else {
            return self.begin_purge();
        };
        let line: Vec<&str> = line.iter().map(String::as_str).collect();
        match line[..] {
            ["put back", crawl] => {
                let hashes = ok!(self.c, "HKEYS", format!("h:{crawl}")).texts();
                let counts = ok!(self.c, "HGETALL", format!("h:{crawl}:counts")).pairs();
                // The next one last.
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
                    ok!(self.c, "SREM", "to-remove-crawls", crawl);
                }
            }
            ["RENAME", ..] => {
                if self.call(&line).is_error() {
                    self.purge.clear();
                }
            }
            _ => {
                if let ["DEL", records, _, _] = line[..] {
                    self.holds.remove(&records[2..]);
                }
                self.c.expect_ok(&line);
            }
        }
    }

    fn command(&mut self) {
        self.commands += 1;
        let all: Vec<String> = self.holds.keys().cloned().collect();
        let Some(crawl) = self.any(&all) else {
            return;
        };
        match self.rng.below(20) {
            0..=7 => {
                let running = self.running();
                let crawl = self.any(&running).unwrap_or(crawl);
                self.call(&["DEDUPE.COMMIT", P, &crawl]);
            }
            8..=9 => {
                let reply = self.call(&["DEDUPE.REMOVE", P, &crawl]);
                if !reply.is_error() {
                    self.holds.remove(&crawl);
                }
            }
            10 => {
                let keep: Vec<String> = all.into_iter().filter(|_| self.rng.chance(90)).collect();
                let before = ok!(self.c, "DEDUPE.CRAWLS", P).pairs();
                let mut line = vec!["DEDUPE.RETAIN", P, "PURGE"];
                line.extend(keep.iter().map(String::as_str));
                if keep.is_empty() || self.call(&line).is_error() {
                    return;
                }
                for (crawl, figures) in before {
                    let goes = figures.field("state") != bulk("uncommitted");
                    if goes && !keep.contains(&crawl.text()) {
                        self.holds.remove(&crawl.text());
                    }
                }
            }
            11..=12 => drop(self.call(&["DEDUPE.CHECK", P])),
            13..=16 => drop(self.call(&["DEDUPE.REPAIR", P])),
            17 if self.purge.is_empty() => drop(self.call(&["DEDUPE.PACK", P])),
            18 => drop(self.call(&["DEDUPE.UNPACK", P])),
            _ => self.kill_in_the_middle(&crawl),
        }
    }

    /// A job of ours that the kill meets on its way.
    fn kill_in_the_middle(&mut self, crawl: &str) {
        let mut other = self.server.wire();
        let running = self.running();
        let mut asked_to_go = None;
        let line = match self.any(&running) {
            Some(running) if self.rng.chance(60) => words(&["DEDUPE.COMMIT", P, &running]),
            _ if self.rng.chance(50) => words(&["DEDUPE.REPAIR", P]),
            _ => {
                asked_to_go = self.holds.remove_entry(crawl);
                words(&["DEDUPE.REMOVE", P, crawl])
            }
        };
        let line: Vec<&str> = line.iter().map(String::as_str).collect();
        other.send(&line);
        self.kill();
        // The kill may come before the server has read the command, or the command may be refused: the crawl
        // then keeps everything.
        if let Some((crawl, hashes)) = asked_to_go {
            let begun = ok!(self.c, "HEXISTS", "removing", &crawl) == int(1);
            if !begun && !self.call(&["DEDUPE.STATS", P, &crawl]).is_error() {
                self.holds.insert(crawl, hashes);
            }
        }
    }

    fn kill(&mut self) {
        self.kills += 1;
        self.cut += u64::from(!self.purge.is_empty());
        self.server.restart();
        self.c = connect(&self.server);
        ok!(self.c, "CONFIG", "SET", "crawlspace.slice-us", 50);
        // A removal that was asked for may have begun, and nobody may rely on what it is about to take.
        for crawl in ok!(self.c, "HKEYS", "removing").texts() {
            self.holds.remove(&crawl);
        }
        if self.rng.chance(50) {
            self.purge.clear();
        }
    }

    fn records_hold(&mut self) {
        let plain = ok!(self.c, "DEDUPE.STATS", P).field("storage") == bulk("plain");
        for (crawl, hashes) in &self.holds {
            let stats = self.c.call(&["DEDUPE.STATS", P, crawl]);
            assert!(!stats.is_error(), "crawl {crawl} is lost: {stats:?}");
            let n = stats.field("hashes").int();
            assert_eq!(n, hashes.len() as i64, "records of {crawl}");
            if plain {
                for &n in hashes {
                    let there = ok!(self.c, "HEXISTS", format!("h:{crawl}"), bare(n));
                    assert_eq!(there, int(1), "record {n} of {crawl} is lost");
                }
            }
        }
    }

    /// Everything that was begun is ended, and the mend step of the guide is made.
    fn settle(&mut self) {
        if self.rng.chance(50) {
            while !self.purge.is_empty() {
                self.purge_step();
            }
        }
        self.purge.clear();
        if let Some(crawl) = ok!(self.c, "HKEYS", "removing")
            .texts()
            .into_iter()
            .find(|c| !c.is_empty())
        {
            self.call(&["DEDUPE.REMOVE", P, &crawl]);
        }
        ok!(self.c, "DEDUPE.UNPACK", P);
        for crawl in self.members("to-remove-crawls") {
            let command = if self.holds.contains_key(&crawl) {
                "DEDUPE.COMMIT"
            } else {
                "DEDUPE.REMOVE"
            };
            self.c.expect_ok(&[command, P, &crawl]);
        }
        let crawls: Vec<String> = self.holds.keys().cloned().collect();
        for crawl in &crawls {
            self.c.expect_ok(&["DEDUPE.COMMIT", P, crawl]);
        }
        ok!(self.c, "DEDUPE.REPAIR", P);
        self.records_hold();
        assert_consistent(&mut self.c, P);
        for (crawl, hashes) in &self.holds {
            for &n in hashes {
                let found = owner(&mut self.c, n);
                let holder = found.unwrap_or_else(|| panic!("hash {n} of {crawl} is lost"));
                let held = self.holds.get(&holder);
                assert!(
                    held.is_some_and(|held| held.contains(&n)),
                    "hash {n} of {crawl} belongs to {holder}, which holds {held:?}"
                );
            }
        }
    }
}
