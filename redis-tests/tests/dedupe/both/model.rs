//! Random histories of one index against a model of it in a few lines of Rust: after every
//! command the owners, the counts, the WACZ names and the dependencies are what the rules say.

use std::collections::{BTreeMap, BTreeSet};

use redis_tests::{
    Options, Reply, Rng, Server, Wire, Word, assert_consistent, counts, ok, owners, plain_view,
    set_key, sha256_of,
};

const P: &str = "{coll-42}:";
const HASHES: u64 = 40;
const CRAWLS: [&str; 5] = ["a", "b", "c", "d\r\n", "e e"];

/// Dates, with the order of the moments that they mean.
const DATES: [(u32, &str); 5] = [
    (2, "20260319102015123"),
    (2, "2026-03-19T11:20:15.123+01:00"),
    (1, "20260319102015"),
    (3, "2026-03-19T10:20:15.1230001Z"),
    (0, "20260318235959"),
];

/// What one record says.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Record {
    date: usize,
    url: u64,
    wacz: u64,
    size: u64,
}

impl Record {
    fn random(rng: &mut Rng) -> Record {
        Record {
            // Mostly the usual one, so that some calls are retries.
            date: [0, 0, 0, 1, 2, 3, 4][rng.below(7) as usize],
            url: rng.below(4) / 3,
            wacz: rng.below(3) / 2,
            size: 1000 + rng.below(3),
        }
    }

    fn words(&self, n: u64) -> [String; 5] {
        let (_, date) = DATES[self.date];
        let url = format!("http://e.com/{n} {}", self.url);
        let (wacz, size) = (self.wacz.to_string(), self.size.to_string());
        [sha256_of(n), wacz, date.to_owned(), url, size]
    }

    /// As the documents keep it.
    fn value(&self, n: u64) -> String {
        self.words(n)[1..].join(" ")
    }

    /// Whether it is an earlier original than the other one.
    fn is_before(&self, other: &Record) -> bool {
        let order = |r: &Record| (DATES[r.date].0, r.url, r.wacz, r.size, DATES[r.date].1);
        order(self) < order(other)
    }
}

/// What a crawl has; kept twice, as it is and as it was at its last commit.
#[derive(Clone, Default, PartialEq, Debug)]
struct Contents {
    /// Hash number → what is stored.
    held: BTreeMap<u64, Record>,
    /// Hash number, date and URL of what `EARLIEST` counted since the last commit.
    counted: BTreeSet<(u64, usize, u64)>,
    urls: i64,
    dupes: i64,
    saved: i64,
    /// File name and, once closed, size.
    waczs: Vec<(String, Option<i64>)>,
    requires: BTreeSet<String>,
}

impl Contents {
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
    /// At the last commit.
    base: Option<Contents>,
    open: bool,
}

#[derive(Clone, Default)]
struct Model {
    crawls: BTreeMap<String, Crawl>,
    /// Crawl and the hashes that a commit of it added, in commit order.
    commits: Vec<(String, BTreeSet<u64>)>,
}

impl Model {
    fn owner(&self, n: u64) -> Option<&str> {
        let first = self.commits.iter().find(|(_, hashes)| hashes.contains(&n));
        first.map(|(crawl, _)| crawl.as_str())
    }

    fn owners(&self) -> Vec<String> {
        let owner = |n| self.owner(n).unwrap_or("-").to_owned();
        (0..HASHES).map(owner).collect()
    }

    fn open(&mut self, crawl: &str) -> &mut Crawl {
        let crawl = self.crawls.entry(crawl.to_owned()).or_default();
        crawl.open = true;
        crawl
    }

    fn add(&mut self, crawl: &str, records: &[(u64, Record)], earliest: bool) -> Reply {
        let crawl = self.open(crawl);
        let committed = crawl.base.as_ref().map(|base| &base.held);
        let now = &mut crawl.now;
        let mut new = 0;
        for &(n, record) in records {
            let told = (n, record.date, record.url);
            let Some(stored) = now.held.get(&n).copied() else {
                now.held.insert(n, record);
                now.urls += 1;
                new += 1;
                continue;
            };
            let same = (stored.date, stored.url) == (record.date, record.url);
            let again = same || earliest && now.counted.contains(&told);
            now.urls += i64::from(!again);
            if earliest {
                now.counted.extend([(n, stored.date, stored.url), told]);
                let is_committed = committed.is_some_and(|held| held.contains_key(&n));
                if record.is_before(&stored) && !is_committed {
                    now.held.insert(n, record);
                }
            }
        }
        Reply::Int(new)
    }

    fn revisit(&mut self, crawl: &str, n: u64, size: u64) -> Option<Reply> {
        let source = match self.owner(n) {
            Some(owner) => owner.to_owned(),
            None if self.crawls.get(crawl)?.now.held.contains_key(&n) => crawl.to_owned(),
            None => return None,
        };
        let original = self.crawls[&source].now.held[&n].size;
        let now = &mut self.open(crawl).now;
        now.urls += 1;
        now.dupes += 1;
        now.saved += (original as i64 - size as i64).max(0);
        if source != crawl {
            now.requires.insert(source);
        }
        Some(Reply::Int(1))
    }

    fn commit(&mut self, id: &str) -> Option<Reply> {
        let crawl = self.crawls.get(id)?;
        let was = crawl.base.clone().unwrap_or_default();
        let fresh: BTreeSet<u64> = crawl.now.held.keys().copied().collect();
        let fresh: BTreeSet<u64> = fresh
            .into_iter()
            .filter(|n| !was.held.contains_key(n))
            .collect();
        let known = fresh.iter().filter(|&&n| self.owner(n).is_some()).count() as i64;
        let reply = redis_tests::array([Reply::Int(fresh.len() as i64 - known), Reply::Int(known)]);
        self.commits.push((id.to_owned(), fresh));
        let crawl = self.crawls.get_mut(id)?;
        crawl.now.counted.clear();
        crawl.base = Some(crawl.now.clone());
        crawl.open = false;
        Some(reply)
    }

    fn cancel(&mut self, id: &str) -> Option<Reply> {
        let crawl = self.crawls.get_mut(id).filter(|c| c.open)?;
        let held = crawl.now.held.len();
        match crawl.base.clone() {
            Some(base) => {
                let dropped = held - base.held.len();
                (crawl.now, crawl.open) = (base, false);
                Some(Reply::Int(dropped as i64))
            }
            None => {
                self.crawls.remove(id);
                Some(Reply::Int(held as i64))
            }
        }
    }

    fn remove(&mut self, ids: &[&str]) -> Option<Reply> {
        let ids: BTreeSet<&str> = ids.iter().copied().collect();
        let committed = |id: &&str| self.crawls.get(*id).is_some_and(|c| c.base.is_some());
        if !ids.iter().all(committed) {
            return None;
        }
        let before = self.owners();
        self.crawls.retain(|id, _| !ids.contains(id.as_str()));
        self.commits.retain(|(id, _)| !ids.contains(id.as_str()));
        let after = self.owners();
        let changed = before.iter().zip(&after).filter(|(b, a)| b != a);
        let dropped = changed.clone().filter(|(_, a)| *a == "-").count() as i64;
        let reowned = changed.count() as i64 - dropped;
        Some(redis_tests::array([
            Reply::Int(ids.len() as i64),
            Reply::Int(dropped),
            Reply::Int(reowned),
        ]))
    }

    /// Everything of it that the server shows.
    fn assert_shown_by(&self, c: &mut Wire, after: &str) {
        assert_eq!(
            owners(c, P, 0..HASHES),
            self.owners(),
            "owners after {after}"
        );
        let plain = plain_view(c, P);
        let mut sums = BTreeMap::new();
        let (mut committed, mut open, mut finished) = (vec![], vec![], vec![]);
        for (id, crawl) in &self.crawls {
            let key = format!("{P}h:{id}");
            let held = crawl.now.held.iter();
            let held: BTreeMap<String, String> = held
                .map(|(&n, record)| (sha256_of(n), record.value(n)))
                .collect();
            assert_eq!(plain.hash(&key), held, "hashes of {id:?} after {after}");
            let shown = counts(c, &format!("{key}:counts"));
            assert_eq!(shown, crawl.now.counts(), "counts of {id:?} after {after}");
            let requires: Vec<String> = crawl.now.requires.iter().cloned().collect();
            let shown = set_key(c, &format!("{P}{id}:reqCrawls"));
            assert_eq!(shown, requires, "requirements of {id:?} after {after}");
            if let Some(base) = &crawl.base {
                committed.push(id.clone());
                for (name, n) in base.counts() {
                    *sums.entry(name).or_insert(0) += n;
                }
                let closed = base.waczs.iter().filter(|w| w.1.is_some());
                finished.extend(closed.map(|w| w.0.clone()));
            }
            if crawl.open {
                open.push(id.clone());
            }
        }
        finished.sort();
        let mut shown = counts(c, &format!("{P}allcounts"));
        shown.retain(|name, _| !name.starts_with("removed"));
        assert_eq!(shown, sums, "allcounts after {after}");
        assert_eq!(
            set_key(c, &format!("{P}allcrawls")),
            committed,
            "after {after}"
        );
        assert_eq!(
            set_key(c, &format!("{P}uncommittedcrawls")),
            open,
            "after {after}"
        );
        assert_eq!(
            set_key(c, &format!("{P}src:d")),
            finished,
            "src:d after {after}"
        );
    }
}

fn text(words: &[Vec<u8>]) -> String {
    let shown = words.iter().map(|w| w.escape_ascii().to_string());
    shown.collect::<Vec<_>>().join(" ")
}

/// One random command to the server and to the model; both must say the same.
fn step(c: &mut Wire, model: &mut Model, rng: &mut Rng) -> String {
    let crawl = *rng.pick(&CRAWLS);
    let n = rng.below(HASHES);
    let other = *rng.pick(&CRAWLS);
    let (words, expected): (Vec<Vec<u8>>, Option<Reply>) = match rng.below(100) {
        0..=44 => {
            let some = 1 + rng.below(6);
            let records: Vec<(u64, Record)> = (0..some)
                .map(|_| (rng.below(HASHES), Record::random(rng)))
                .collect();
            let earliest = rng.chance(50);
            let mut words = vec!["DEDUPE.ADD".word(), P.word(), crawl.word()];
            if earliest {
                words.push("EARLIEST".word());
            }
            for (n, record) in &records {
                words.extend(record.words(*n).iter().map(|w| w.word()));
            }
            // A pure retry to a committed crawl may or may not open it again.
            let known = model.crawls.get(crawl);
            let closed = known.is_some_and(|k| !k.open);
            let retry = records.iter().all(|(n, record)| {
                let stored = known.and_then(|k| k.now.held.get(n));
                stored.is_some_and(|s| (s.date, s.url) == (record.date, record.url))
            });
            if closed && retry {
                return "nothing".to_owned();
            }
            let reply = model.add(crawl, &records, earliest);
            (words, Some(reply))
        }
        45..=59 => {
            let size = rng.below(2000);
            let words = ["DEDUPE.REVISIT", P, crawl, &sha256_of(n), &size.to_string()];
            let expected = model.revisit(crawl, n, size);
            (words.iter().map(|w| w.word()).collect(), expected)
        }
        60..=69 => {
            let closed = model.crawls.get(crawl).is_some_and(|k| !k.open);
            let name = format!("{crawl}-{}.wacz", rng.below(4));
            let known = model.crawls.get(crawl).map(|k| &k.now.waczs);
            let at = known.and_then(|list| list.iter().position(|w| w.0 == name));
            if closed && at.is_some() {
                return "nothing".to_owned();
            }
            let now = &mut model.open(crawl).now;
            let at = at.unwrap_or_else(|| {
                now.waczs.push((name.clone(), None));
                now.waczs.len() - 1
            });
            let words = ["DEDUPE.WACZOPEN", P, crawl, &name];
            let words = words.iter().map(|w| w.word()).collect();
            (words, Some(Reply::Int(at as i64)))
        }
        70..=76 => {
            let Some(known) = model.crawls.get(crawl).filter(|k| !k.now.waczs.is_empty()) else {
                return "nothing".to_owned();
            };
            let at = rng.below(known.now.waczs.len() as u64) as usize;
            let size = 1 + rng.below(3) as i64;
            let (name, was) = known.now.waczs[at].clone();
            if !known.open && was == Some(size) {
                return "nothing".to_owned();
            }
            model.open(crawl).now.waczs[at].1 = Some(size);
            let size = size.to_string();
            let index = at.to_string();
            let words = [
                "DEDUPE.WACZCLOSE",
                P,
                crawl,
                &index,
                &name,
                "sha256:ab",
                &size,
            ];
            let words = words.iter().map(|w| w.word()).collect();
            (words, Some(redis_tests::simple("OK")))
        }
        77..=89 => {
            let words = vec!["DEDUPE.COMMIT".word(), P.word(), crawl.word()];
            (words, model.commit(crawl))
        }
        90..=94 => {
            let words = vec!["DEDUPE.CANCEL".word(), P.word(), crawl.word()];
            (words, model.cancel(crawl))
        }
        _ => {
            let words = vec!["DEDUPE.REMOVE".word(), P.word(), crawl.word(), other.word()];
            (words, model.remove(&[crawl, other]))
        }
    };
    let shown = text(&words);
    let reply = c.call(&words);
    match expected {
        Some(expected) => assert_eq!(reply, expected, "{shown}"),
        None => assert!(reply.is_error(), "{shown} said {reply:?}"),
    }
    shown
}

#[test]
fn random_histories_match_the_model() {
    let server = Server::start();
    let mut rng = Rng::new("random_histories_match_the_model");
    let mut c = server.wire();
    for _ in 0..25 {
        ok!(c, "FLUSHALL");
        let mut model = Model::default();
        for _ in 0..120 {
            let done = step(&mut c, &mut model, &mut rng);
            if done != "nothing" {
                model.assert_shown_by(&mut c, &done);
            }
        }
        assert_consistent(&mut c, P);
    }
}

#[test]
fn what_is_kept_in_memory_survives_reloads_and_restarts() {
    let mut server = Options::new().aof_unsynced(false).start();
    let mut rng = Rng::new("what_is_kept_in_memory_survives_reloads_and_restarts");
    let mut model = Model::default();
    for round in 0..60 {
        let mut c = server.wire();
        for _ in 0..8 {
            let done = step(&mut c, &mut model, &mut rng);
            model.assert_shown_by(&mut c, &done);
        }
        if round % 10 == 9 {
            server.restart();
            model.assert_shown_by(&mut server.wire(), "a restart");
        } else {
            ok!(c, "DEBUG", "RELOAD");
            model.assert_shown_by(&mut c, "a reload");
        }
    }
    assert_consistent(&mut server.wire(), P);
}
