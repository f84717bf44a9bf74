//! Random histories of one index, compared with a small model. After every command, the owners,
//! counts, WACZ names and dependencies must follow the rules.

use std::collections::{BTreeMap, BTreeSet};

use redis_tests::history::{self, Log, Stage, Verdict};
use redis_tests::{
    DedupeIndex, Options, Reply, Rng, Server, Word, array, int, must, ok, plain_view, sha256_of,
    simple,
};

const P: &str = "{coll-42}:";
const HASHES: u64 = 40;
const CRAWLS: [&str; 5] = ["a", "b", "c", "d\r\n", "e e"];

/// Dates, each with its second and, if present, its milliseconds.
const DATES: [(u32, Option<u32>, &str); 5] = [
    (1, Some(123), "20260319102015123"),
    (1, Some(123), "2026-03-19T11:20:15.123+01:00"),
    (1, None, "20260319102015"),
    (1, Some(123), "2026-03-19T10:20:15.1230001Z"),
    (0, None, "20260318235959"),
];

/// A capture of a payload: its second and URL, and its milliseconds.
type Capture = ((u32, String), Option<u32>);

/// A record: WACZ index, date, URL and size.
#[derive(Clone, PartialEq, Debug)]
struct Record(u64, String, String, u64);

impl Record {
    fn parse(words: &[String]) -> Record {
        let number = |word: &String| word.parse().expect("a number");
        Record(
            number(&words[0]),
            words[1].clone(),
            words[2].clone(),
            number(&words[3]),
        )
    }

    /// Returns the value in the documented keys.
    fn value(&self) -> String {
        format!("{} {} {} {}", self.0, self.1, self.2, self.3)
    }

    fn capture(&self) -> Capture {
        let date = DATES.iter().find(|(_, _, known)| *known == self.1);
        let (second, millis, _) = *date.expect("a known date");
        ((second, self.2.clone()), millis)
    }

    /// Returns true if date and URL are equal, at the precision of the coarser date.
    fn is_again(&self, other: &Record) -> bool {
        let ((mine, millis), (theirs, others)) = (self.capture(), other.capture());
        mine == theirs && (millis.is_none() || others.is_none() || millis == others)
    }

    /// Returns true if this record is the earlier original. A date without milliseconds is compared
    /// as the end of its second.
    fn is_before(&self, other: &Record) -> bool {
        let order = |r: &Record| {
            let ((second, url), millis) = r.capture();
            let moment = (second, millis.unwrap_or(u32::MAX));
            (moment, url, r.0, r.3, r.1.clone())
        };
        order(self) < order(other)
    }
}

/// The contents of a crawl. The model keeps them twice: current, and as of the last commit.
#[derive(Clone, Default, PartialEq, Debug)]
struct Contents {
    /// Stored record of each hash.
    held: BTreeMap<String, Record>,
    /// Hashes and captures that `EARLIEST` has added since the last commit.
    met: BTreeSet<(String, Capture)>,
    urls: i64,
    dupes: i64,
    saved: i64,
    /// File name and, once closed, size.
    waczs: Vec<(String, Option<i64>)>,
    requires: BTreeSet<String>,
}

impl Contents {
    /// Returns how often the captures of a second are counted: once for each different number of
    /// milliseconds, and at least once.
    fn count(&self, hash: &str, second: &(u32, String)) -> i64 {
        let met = self.met.iter();
        let of_second = met.filter(|(other, capture)| other == hash && capture.0 == *second);
        let all: Vec<_> = of_second.collect();
        let precise = all.iter().filter(|(_, capture)| capture.1.is_some());
        precise.count().max(usize::from(!all.is_empty())) as i64
    }

    fn counts(&self) -> BTreeMap<String, i64> {
        let size = self.waczs.iter().filter_map(|w| w.1).sum();
        let all = [
            ("totalUrls", self.urls),
            ("dupeUrls", self.dupes),
            ("conservedSize", self.saved),
            ("totalCrawlSize", size),
        ];
        let named = all.into_iter().filter(|(_, n)| *n != 0);
        named.map(|(name, n)| (name.to_owned(), n)).collect()
    }
}

#[derive(Clone, Default)]
struct Crawl {
    now: Contents,
    /// Contents as of the last commit.
    base: Option<Contents>,
    open: bool,
}

#[derive(Clone, Default)]
struct Model {
    crawls: BTreeMap<String, Crawl>,
    /// Committed crawls in order, each with the hashes that its commit added.
    commits: Vec<(String, BTreeSet<String>)>,
}

/// The expected reply of a command: a value, any error, or any reply if the rules do not determine
/// it.
enum Expected {
    Reply(Reply),
    Refused,
    Open,
}
use Expected::{Open, Refused};

impl Model {
    fn owner(&self, hash: &str) -> Option<&str> {
        let first = self
            .commits
            .iter()
            .find(|(_, hashes)| hashes.contains(hash));
        first.map(|(crawl, _)| crawl.as_str())
    }

    fn owners(&self) -> Vec<String> {
        let owner = |n| self.owner(&sha256_of(n)).unwrap_or("-").to_owned();
        (0..HASHES).map(owner).collect()
    }

    /// Applies a command, given by its arguments without name and prefix.
    fn follow(&mut self, name: &str, words: &[String]) -> Expected {
        let id = words[0].as_str();
        let reply = match name {
            "DEDUPE.ADD" => return self.add(id, &words[1..]),
            "DEDUPE.REVISIT" => self.revisit(id, &words[1], words[2].parse().expect("a size")),
            "DEDUPE.WACZOPEN" => return self.wacz_open(id, &words[1]),
            "DEDUPE.WACZCLOSE" => return self.wacz_close(id, &words[1..]),
            "DEDUPE.COMMIT" => self.commit(id),
            "DEDUPE.CANCEL" => self.cancel(id),
            "DEDUPE.REMOVE" => self.remove(words),
            name => panic!("{name} is not modeled"),
        };
        reply.map_or(Refused, Expected::Reply)
    }

    fn open(&mut self, crawl: &str) -> &mut Crawl {
        let crawl = self.crawls.entry(crawl.to_owned()).or_default();
        crawl.open = true;
        crawl
    }

    fn is_closed(&self, crawl: &str) -> bool {
        self.crawls.get(crawl).is_some_and(|crawl| !crawl.open)
    }

    fn add(&mut self, crawl: &str, words: &[String]) -> Expected {
        let earliest = words[0] == "EARLIEST";
        let records = words[usize::from(earliest)..].chunks(5);
        let records: Vec<_> = records.map(|r| (&r[0], Record::parse(&r[1..]))).collect();
        let known = self.crawls.get(crawl);
        let is_retry = records.iter().all(|(hash, record)| {
            let stored = known.and_then(|known| known.now.held.get(*hash));
            stored.is_some_and(|stored| stored.is_again(record))
        });
        // A retry sent to a committed crawl may or may not continue the crawl.
        if self.is_closed(crawl) && is_retry {
            return Open;
        }
        let crawl = self.open(crawl);
        let committed = crawl.base.as_ref().map(|base| &base.held);
        let now = &mut crawl.now;
        let mut new = 0;
        for (hash, record) in records {
            let Some(stored) = now.held.get(hash).cloned() else {
                now.held.insert(hash.clone(), record);
                now.urls += 1;
                new += 1;
                continue;
            };
            if !earliest {
                now.urls += i64::from(!stored.is_again(&record));
            } else {
                let (second, _) = record.capture();
                now.met.insert((hash.clone(), stored.capture()));
                let before = now.count(hash, &second);
                now.met.insert((hash.clone(), record.capture()));
                now.urls += now.count(hash, &second) - before;
                let is_committed = committed.is_some_and(|held| held.contains_key(hash));
                if record.is_before(&stored) && !is_committed {
                    now.held.insert(hash.clone(), record);
                }
            }
        }
        Expected::Reply(int(new))
    }

    fn revisit(&mut self, crawl: &str, hash: &str, size: i64) -> Option<Reply> {
        let source = match self.owner(hash) {
            Some(owner) => owner.to_owned(),
            None if self.crawls.get(crawl)?.now.held.contains_key(hash) => crawl.to_owned(),
            None => return None,
        };
        let original = self.crawls[&source].now.held[hash].3;
        let now = &mut self.open(crawl).now;
        now.urls += 1;
        now.dupes += 1;
        now.saved += (original as i64 - size).max(0);
        if source != crawl {
            now.requires.insert(source);
        }
        Some(int(1))
    }

    fn wacz_open(&mut self, crawl: &str, name: &str) -> Expected {
        let known = self.crawls.get(crawl).map(|known| &known.now.waczs);
        let at = known.and_then(|list| list.iter().position(|w| w.0 == name));
        if self.is_closed(crawl) && at.is_some() {
            return Open;
        }
        let waczs = &mut self.open(crawl).now.waczs;
        let at = at.unwrap_or_else(|| {
            waczs.push((name.to_owned(), None));
            waczs.len() - 1
        });
        Expected::Reply(int(at as i64))
    }

    fn wacz_close(&mut self, crawl: &str, words: &[String]) -> Expected {
        let at: usize = words[0].parse().expect("an index");
        let size = words[3].parse().ok();
        let known = self.crawls.get(crawl).map(|known| &known.now.waczs);
        let Some(known) = known.and_then(|list| list.get(at)) else {
            return Open;
        };
        if known.0 != words[1] || self.is_closed(crawl) && known.1 == size {
            return Open;
        }
        self.open(crawl).now.waczs[at].1 = size;
        Expected::Reply(simple("OK"))
    }

    fn commit(&mut self, id: &str) -> Option<Reply> {
        let crawl = self.crawls.get(id)?;
        let was = crawl.base.clone().unwrap_or_default();
        let fresh = crawl
            .now
            .held
            .keys()
            .filter(|hash| !was.held.contains_key(*hash));
        let fresh: BTreeSet<String> = fresh.cloned().collect();
        let known = fresh
            .iter()
            .filter(|hash| self.owner(hash).is_some())
            .count() as i64;
        let reply = array([int(fresh.len() as i64 - known), int(known)]);
        self.commits.push((id.to_owned(), fresh));
        let crawl = self.crawls.get_mut(id)?;
        crawl.now.met.clear();
        crawl.base = Some(crawl.now.clone());
        crawl.open = false;
        Some(reply)
    }

    fn cancel(&mut self, id: &str) -> Option<Reply> {
        let crawl = self.crawls.get_mut(id).filter(|c| c.open)?;
        let held = crawl.now.held.len() as i64;
        match crawl.base.clone() {
            Some(base) => {
                let dropped = held - base.held.len() as i64;
                (crawl.now, crawl.open) = (base, false);
                Some(int(dropped))
            }
            None => {
                self.crawls.remove(id);
                Some(int(held))
            }
        }
    }

    fn remove(&mut self, ids: &[String]) -> Option<Reply> {
        let ids: BTreeSet<&String> = ids.iter().collect();
        let committed = |id: &&String| self.crawls.get(*id).is_some_and(|c| c.base.is_some());
        if !ids.iter().all(committed) {
            return None;
        }
        let before = self.owners();
        self.crawls.retain(|id, _| !ids.contains(id));
        self.commits.retain(|(id, _)| !ids.contains(id));
        let after = self.owners();
        let changed = before.iter().zip(&after).filter(|(b, a)| b != a);
        let dropped = changed.clone().filter(|(_, a)| *a == "-").count() as i64;
        let reowned = changed.count() as i64 - dropped;
        Some(array([int(ids.len() as i64), int(dropped), int(reowned)]))
    }

    /// Compares everything that the server shows of the index with the model.
    fn is_shown_by(&self, d: &mut DedupeIndex) -> Verdict {
        let same = |what: String, shown: &dyn std::fmt::Debug, model: &dyn std::fmt::Debug| {
            let (shown, model) = (format!("{shown:?}"), format!("{model:?}"));
            must!(shown == model, "{what}: expected {model}, got {shown}");
            Ok(())
        };
        same("owners".into(), &d.owners(0..HASHES), &self.owners())?;
        let plain = plain_view(d, P);
        let mut sums = BTreeMap::new();
        let (mut committed, mut open, mut finished) = (vec![], vec![], vec![]);
        for (id, crawl) in &self.crawls {
            let held = crawl.now.held.iter();
            let held: BTreeMap<String, String> = held
                .map(|(hash, record)| (hash.clone(), record.value()))
                .collect();
            same(
                format!("hashes of {id:?}"),
                &plain.hash(d.key(&format!("h:{id}"))),
                &held,
            )?;
            let shown = d.counts(&format!("h:{id}:counts"));
            same(format!("counts of {id:?}"), &shown, &crawl.now.counts())?;
            let shown = d.set(&format!("{id}:reqCrawls"));
            let requires: Vec<&String> = crawl.now.requires.iter().collect();
            same(format!("requirements of {id:?}"), &shown, &requires)?;
            if let Some(base) = &crawl.base {
                committed.push(id);
                for (name, n) in base.counts() {
                    *sums.entry(name).or_insert(0) += n;
                }
                let closed = base.waczs.iter().filter(|w| w.1.is_some());
                finished.extend(closed.map(|w| w.0.clone()));
            }
            if crawl.open {
                open.push(id);
            }
        }
        finished.sort();
        let mut shown = d.counts("allcounts");
        shown.retain(|name, _| !name.starts_with("removed"));
        same("allcounts".into(), &shown, &sums)?;
        same("committed crawls".into(), &d.set("allcrawls"), &committed)?;
        same("open crawls".into(), &d.set("uncommittedcrawls"), &open)?;
        same("finished files".into(), &d.set("src:d"), &finished)
    }
}

/// An index, and the model of it.
struct Modeled {
    d: DedupeIndex,
    model: Model,
}

impl Modeled {
    fn new(server: &Server) -> Modeled {
        let mut d = DedupeIndex::of(server, P);
        ok!(d, "FLUSHALL");
        let model = Model::default();
        Modeled { d, model }
    }

    /// Runs a command if the rules determine its outcome.
    fn judge(&mut self, words: &[Vec<u8>], log: &mut Log) -> Result<Reply, String> {
        let text = |word: &Vec<u8>| String::from_utf8(word.clone()).expect("text");
        let texts: Vec<String> = words.iter().map(text).collect();
        let expected = self.model.follow(&texts[0], &texts[2..]);
        if matches!(expected, Open) {
            return Ok(Reply::Nil);
        }
        let reply = log.call(&mut self.d, words);
        match expected {
            Expected::Reply(expected) => {
                must!(reply == expected, "expected {expected:?}, got {reply:?}");
            }
            _ => must!(reply.is_error(), "expected an error, got {reply:?}"),
        }
        self.model.is_shown_by(&mut self.d)?;
        Ok(reply)
    }
}

impl Stage for Modeled {
    type Step = Vec<Vec<u8>>;

    fn draw(&mut self, rng: &mut Rng) -> Vec<Vec<u8>> {
        let crawl = *rng.pick(&CRAWLS);
        let n = rng.below(HASHES);
        let (name, rest): (&str, Vec<String>) = match rng.below(100) {
            0..=44 => {
                let some = 1 + rng.below(6);
                let earliest = rng.chance(50).then(|| "EARLIEST".to_owned());
                let records = (0..some).flat_map(|_| {
                    let n = rng.below(HASHES);
                    // Use the same date in three of seven cases, so that some calls are retries.
                    let date = DATES[[0, 0, 0, 1, 2, 3, 4][rng.below(7) as usize]].2;
                    let url = format!("http://e.com/{n} {}", rng.below(4) / 3);
                    let (wacz, size) = (rng.below(3) / 2, 1000 + rng.below(3));
                    [
                        sha256_of(n),
                        wacz.to_string(),
                        date.to_owned(),
                        url,
                        size.to_string(),
                    ]
                });
                ("ADD", earliest.into_iter().chain(records).collect())
            }
            45..=59 => ("REVISIT", vec![sha256_of(n), rng.below(2000).to_string()]),
            60..=69 => ("WACZOPEN", vec![format!("{crawl}-{}.wacz", rng.below(4))]),
            70..=76 => {
                let known = self
                    .model
                    .crawls
                    .get(crawl)
                    .map_or(0, |c| c.now.waczs.len());
                let at = rng.below(known.max(1) as u64) as usize;
                let waczs = self.model.crawls.get(crawl).map(|c| &c.now.waczs);
                let name = waczs
                    .and_then(|w| w.get(at))
                    .map_or("?", |w| &w.0)
                    .to_owned();
                let size = (1 + rng.below(3)).to_string();
                (
                    "WACZCLOSE",
                    vec![at.to_string(), name, "sha256:ab".to_owned(), size],
                )
            }
            77..=89 => ("COMMIT", vec![]),
            90..=94 => ("CANCEL", vec![]),
            _ => ("REMOVE", vec![(*rng.pick(&CRAWLS)).to_owned()]),
        };
        let mut words = vec![format!("DEDUPE.{name}").word(), P.word(), crawl.word()];
        words.extend(rest.iter().map(Word::word));
        words
    }

    fn run(&mut self, step: &Vec<Vec<u8>>, log: &mut Log) -> Verdict {
        self.judge(step, log).map(drop)
    }

    fn check(&mut self, _: &mut Log) -> Verdict {
        let findings = self.d.ok("CHECK");
        must!(findings.field("ok") == int(1), "CHECK: {findings:?}");
        Ok(())
    }
}

#[test]
fn random_histories_match_the_model() {
    let server = Server::start();
    history::play("dedupe_model", (3000, 120), |_| Modeled::new(&server), drop);
}

#[test]
fn recorded_histories_match_the_model() {
    let server = Server::start();
    for found in history::found("dedupe_model") {
        let mut stage = Modeled::new(&server);
        found.replay(|words| stage.judge(words, &mut Log::default()));
        stage.d.assert_consistent();
    }
}

#[test]
fn state_in_memory_survives_reloads_and_restarts() {
    let mut server = Options::new().aof_unsynced(false).start();
    let mut rng = Rng::new("state_in_memory_survives_reloads_and_restarts");
    let mut stage = Modeled::new(&server);
    for round in 0..60 {
        stage.d = DedupeIndex::of(&server, P);
        for _ in 0..8 {
            let words = stage.draw(&mut rng);
            stage
                .judge(&words, &mut Log::default())
                .expect("the reply matches the model");
        }
        if round % 10 == 9 {
            server.restart();
            stage.d = DedupeIndex::of(&server, P);
        } else {
            ok!(stage.d, "DEBUG", "RELOAD");
        }
        stage
            .model
            .is_shown_by(&mut stage.d)
            .expect("the same afterwards");
    }
    stage.d.assert_consistent();
}

#[test]
fn model_notices_wrong_replies_and_wrong_keys() {
    let server = Server::start();
    let mut stage = Modeled::new(&server);
    let mut log = Log::default();
    let lines = [
        "ADD a @0..3",
        "COMMIT a",
        "ADD b @2..5",
        "REVISIT b #0 9",
        "COMMIT b",
    ];
    let play = |stage: &mut Modeled| {
        for line in lines {
            let words = stage.d.words(line);
            stage
                .judge(&words, &mut Log::default())
                .expect("the reply matches the model");
        }
    };
    play(&mut stage);
    // The model applies a command that the server has not run.
    let mut ahead = stage.model.clone();
    ahead.follow("DEDUPE.REMOVE", &["a".to_owned()]);
    assert!(
        ahead.is_shown_by(&mut stage.d).is_err(),
        "nothing was removed"
    );
    let before = stage.model.clone();
    stage.model.commits.clear();
    let words = stage.d.words("REVISIT c #0 9");
    assert!(
        stage.judge(&words, &mut log).is_err(),
        "in the model, no crawl has the hash"
    );
    stage.model = before;
    ok!(stage.d, "FLUSHALL");
    assert!(
        stage.model.is_shown_by(&mut stage.d).is_err(),
        "the model notices that all keys are gone"
    );
    stage = Modeled::new(&server);
    play(&mut stage);
    let damage: [(&str, &[&str]); 4] = [
        ("SADD", &["uncommittedcrawls", "a"]),
        ("HINCRBY", &["h:b:counts", "dupeUrls", "1"]),
        ("SREM", &["b:reqCrawls", "a"]),
        ("HINCRBY", &["allcounts", "totalUrls", "-1"]),
    ];
    for (name, words) in damage {
        stage
            .model
            .is_shown_by(&mut stage.d)
            .expect("nothing is damaged yet");
        let key = stage.d.key(words[0]);
        let before = ok!(stage.d, "DUMP", key);
        let all = [&[name, &key], &words[1..]].concat();
        stage.d.expect_ok(&all);
        assert!(stage.model.is_shown_by(&mut stage.d).is_err(), "{all:?}");
        ok!(stage.d, "DEL", key);
        if !before.is_nil() {
            ok!(stage.d, "RESTORE", key, 0, before.bytes());
        }
    }
}
