//! Random histories of one index against a model of it in a few lines of Rust: after every
//! command the owners, the counts, the WACZ names and the dependencies are what the rules say.

use std::collections::{BTreeMap, BTreeSet};

use redis_tests::{
    assert_consistent, counts, hash_key, ok, owners, set_key, sha256_of, size_of, Options, Reply,
    Rng, Server, Wire, Word, DATE,
};

const P: &str = "{coll-42}:";
const HASHES: u64 = 40;
const CRAWLS: [&str; 5] = ["a", "b", "c", "d\r\n", "e e"];

/// What a crawl has; kept twice, as it is and as it was at its last commit.
#[derive(Clone, Default, PartialEq, Debug)]
struct Contents {
    /// Hash number → variant of the URL that is stored.
    held: BTreeMap<u64, u64>,
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

    fn add(&mut self, crawl: &str, records: &[(u64, u64)]) -> Reply {
        let now = &mut self.open(crawl).now;
        let mut new = 0;
        for &(n, variant) in records {
            match now.held.get(&n) {
                None => {
                    now.held.insert(n, variant);
                    now.urls += 1;
                    new += 1;
                }
                Some(&stored) => now.urls += i64::from(stored != variant),
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
        let now = &mut self.open(crawl).now;
        now.urls += 1;
        now.dupes += 1;
        now.saved += (size_of(n) as i64 - size as i64).max(0);
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
        let mut sums = BTreeMap::new();
        let (mut committed, mut open, mut finished) = (vec![], vec![], vec![]);
        for (id, crawl) in &self.crawls {
            let key = format!("{P}h:{id}");
            let held: BTreeSet<String> = crawl.now.held.keys().map(|&n| sha256_of(n)).collect();
            let shown: BTreeSet<String> = hash_key(c, &key).into_keys().collect();
            assert_eq!(shown, held, "hashes of {id:?} after {after}");
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
            let records: Vec<(u64, u64)> = (0..some)
                .map(|_| (rng.below(HASHES), rng.below(4) / 3))
                .collect();
            let mut words = vec!["DEDUPE.ADD".word(), P.word(), crawl.word()];
            for (n, variant) in &records {
                let url = format!("http://e.com/{n} {variant}");
                words.extend([
                    sha256_of(*n).word(),
                    "0".word(),
                    DATE.word(),
                    url.word(),
                    size_of(*n).word(),
                ]);
            }
            // A pure retry to a committed crawl may or may not open it again.
            let known = model.crawls.get(crawl);
            let closed = known.is_some_and(|k| !k.open);
            let retry = records
                .iter()
                .all(|(n, v)| known.is_some_and(|k| k.now.held.get(n) == Some(v)));
            if closed && retry {
                return "nothing".to_owned();
            }
            let reply = model.add(crawl, &records);
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
