//! `ADD … EARLIEST`: keeps the earliest record that a crawl has of a hash, and counts each record
//! once, regardless of the order in which records arrive.
//!
//! For every record that is counted but not stored, `ADD` writes a mark to `h:<crawl>:unstored`.
//! The marks are deleted when a commit begins, and when the uncommitted records are canceled.

use rustc_hash::FxHashMap;
use xxhash_rust::xxh3::xxh3_128;

use super::begin::start;
use super::digest::Digest;
use super::error::Result;
use super::gather::Gather;
use super::index::Index;
use super::keys::CrawlKey;
use super::record::{Capture, Record, Room};
use super::store::Store;

/// State of an `ADD … EARLIEST` of a crawl.
pub(super) struct Earliest<N> {
    added: N,
    unstored: N,
    /// Marks to be set (true) or deleted (false). They are written together at the end.
    marks: FxHashMap<Mark, bool>,
    /// The fields that commits of the crawl have merged, loaded on demand.
    commits: Option<Gather<N>>,
}

/// The mark of a counted record.
type Mark = [u8; 16];

impl<N: Clone + AsRef<[u8]>> Earliest<N> {
    /// Creates the state for a crawl.
    pub fn of<K: Store<Name = N>>(
        index: &mut Index<K>,
        ks: &mut K,
        crawl: &[u8],
    ) -> Result<Earliest<N>> {
        let unstored = index.crawls.key(ks, crawl, CrawlKey::Unstored);
        ks.hash_len(&unstored)?;
        Ok(Earliest {
            added: index.crawls.key(ks, crawl, CrawlKey::Added),
            unstored,
            marks: FxHashMap::default(),
            commits: None,
        })
    }

    /// Adds another record of a hash that the crawl already has. Stores the earlier of the two
    /// records, unless the stored record was committed. Returns true if the new record is counted.
    pub fn meet<K: Store<Name = N>>(
        &mut self,
        index: &mut Index<K>,
        ks: &mut K,
        crawl: &[u8],
        digest: &Digest,
        (stored, record): (&[u8], &Record<'_>),
    ) -> Result<bool> {
        let stored = Record::parse(stored);
        let profile = index.profile();
        let (mut room, mut room_of_stored) = (Room::default(), Room::default());
        let capture = record.capture(profile, &mut room);
        let displaced = stored.map(|stored| stored.capture(profile, &mut room_of_stored));
        let is_stored = displaced == Some(capture);
        let marked = !is_stored && self.is_marked(index, ks, crawl, &mark(digest, &capture))?;
        let is_known = is_stored || marked;
        let of_second = displaced.filter(|stored| stored.is_in_second_of(&capture));
        let whole = Capture {
            millis: b"",
            ..capture
        };
        let has_whole = of_second.is_some_and(|stored| stored.millis.is_empty())
            || self.is_marked(index, ks, crawl, &mark(digest, &whole))?;
        let has_precise = of_second.is_some_and(|stored| !stored.millis.is_empty())
            || self.is_marked(index, ks, crawl, &precise(digest, &capture))?;
        // Within a second, a date without milliseconds and the first date with milliseconds
        // describe the same capture.
        let is_retry = match capture.millis {
            [] => has_precise,
            _ => has_whole && !has_precise,
        };
        let counts = !is_known && !is_retry;
        let earlier = stored.is_none_or(|stored| record.cmp_age(&stored).is_lt());
        if earlier && !self.is_taken(index, ks, crawl, digest)? {
            start(index, ks, crawl)?;
            let spelling = index.spelling_in(ks, crawl, digest)?;
            let spelling = spelling
                .as_deref()
                .unwrap_or(digest.written(index.profile()));
            index
                .records(ks, crawl)?
                .set(ks, spelling, &record.to_value())?;
            index
                .urls
                .note(ks, &mut index.crawls, crawl, digest, record)?;
            if marked {
                self.marks.insert(mark(digest, &capture), false);
            }
            match displaced {
                // No mark is necessary for a record of the same capture with a less precise date.
                Some(displaced) if displaced.millis.is_empty() && displaced.is_same(&capture) => {}
                Some(displaced) if !is_stored => self.mark(digest, &displaced),
                _ => {}
            }
        } else if counts || !is_known && !capture.millis.is_empty() {
            // A retry must not change a crawl that is committed and not continued.
            if counts || index.crawls.is_uncommitted(ks, crawl)? {
                self.mark(digest, &capture);
            }
        }
        if !capture.millis.is_empty() && has_whole && of_second.is_none() {
            self.marks.insert(mark(digest, &whole), false);
        }
        Ok(counts)
    }

    /// Marks a capture whose record is counted but not stored.
    fn mark(&mut self, digest: &Digest, capture: &Capture<'_>) {
        self.marks.insert(mark(digest, capture), true);
        if !capture.millis.is_empty() {
            self.marks.insert(precise(digest, capture), true);
        }
    }

    fn is_marked<K: Store<Name = N>>(
        &self,
        index: &mut Index<K>,
        ks: &mut K,
        crawl: &[u8],
        mark: &Mark,
    ) -> Result<bool> {
        if let Some(&is) = self.marks.get(mark) {
            return Ok(is);
        }
        // Marks left after a commit or a removal by plain clients are invalid.
        Ok(index.crawls.is_uncommitted(ks, crawl)? && ks.hash_has(&self.unstored, mark)?)
    }

    /// Writes the marks, after the crawl was started.
    pub fn write_marks<K: Store<Name = N>>(self, ks: &mut K) -> Result<()> {
        for (mark, is) in &self.marks {
            if *is {
                ks.hash_set(&self.unstored, mark, b"")?;
            } else {
                ks.hash_del(&self.unstored, mark)?;
            }
        }
        Ok(())
    }

    /// Returns true if the crawl's record of a hash belongs to one of its commits, including a
    /// commit that is running.
    fn is_taken<K: Store<Name = N>>(
        &mut self,
        index: &mut Index<K>,
        ks: &mut K,
        crawl: &[u8],
        digest: &Digest,
    ) -> Result<bool> {
        if !index.is_continuing(ks, crawl)? || ks.hash_has(&self.added, digest.canonical())? {
            return Ok(false);
        }
        if index.under_way.is_committing(ks, crawl)? {
            return Ok(true);
        }
        // The lists do not contain records that plain clients added after the last commit.
        let commits = match &mut self.commits {
            Some(commits) => commits,
            none => none.insert(Gather::new(index, ks, crawl, true)?),
        };
        commits.is_recorded(index, ks, crawl, digest)
    }
}

/// Returns the mark of a capture.
fn mark(digest: &Digest, capture: &Capture<'_>) -> Mark {
    let date = [capture.second, capture.millis].concat();
    fingerprint(digest, &date, capture.url)
}

/// Returns the mark of the capture's second. This mark is set if a capture with milliseconds within that
/// second is marked.
fn precise(digest: &Digest, capture: &Capture<'_>) -> Mark {
    let second = [capture.second, b"."].concat();
    fingerprint(digest, &second, capture.url)
}

fn fingerprint(digest: &Digest, date: &[u8], url: &[u8]) -> Mark {
    let text = [digest.canonical(), date, url].join(&b' ');
    xxh3_128(&text).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use crate::dedupe::store::MemoryKeyspace;
    use crawlspace_host::keyspace::Keyspace;
    use crawlspace_host::keyspace::memory::Plain;

    use super::super::add::{Adding, Response};
    use super::super::commit::commit;
    use super::super::profile::Profile;
    use super::super::removal::cancel;
    use super::super::sequence::Sequence;
    use super::super::tests::run;
    use super::*;

    const CRAWL: &[u8] = b"a";
    const EARLY: &[u8] = b"20260319102014";
    const LATE: &[u8] = b"20260319102015";

    /// Dates in several formats, including two equal dates, two dates within the same second, and
    /// that second without a fraction.
    const DATES: [&[u8]; 8] = [
        EARLY,
        LATE,
        b"20260319102014999",
        b"2026-03-19T10:20:15Z",
        b"2026-03-19T12:20:14.9995+02:00",
        b"20260319102016",
        b"20260319102015000",
        b"20260319102014500",
    ];

    type Capture = (usize, usize, usize, u64, u64);

    struct World {
        ks: MemoryKeyspace,
        index: Index<MemoryKeyspace>,
    }

    fn hash(n: usize) -> Vec<u8> {
        format!("sha256:{:064x}", n + 1).into_bytes()
    }

    impl World {
        fn new() -> World {
            World::of(Profile::Document)
        }

        fn of(profile: Profile) -> World {
            let mut ks = MemoryKeyspace::default();
            let index = Index::open(&mut ks, b"p:", profile, false).unwrap();
            World { ks, index }
        }

        fn add(&mut self, capture: &[Capture], how: Adding<'_>) -> u64 {
            let urls: Vec<String> = capture
                .iter()
                .map(|t| format!("http://e.com/{}", t.2))
                .collect();
            let responses: Vec<Response<'_>> = capture
                .iter()
                .zip(&urls)
                .map(|(&(n, date, _, wacz_index, size), url)| Response {
                    digest: Digest::parse(&hash(n)).unwrap(),
                    record: Record {
                        wacz_index,
                        date: DATES[date],
                        url: url.as_bytes(),
                        size,
                    },
                })
                .collect();
            let index = &mut self.index;
            index.add(&mut self.ks, CRAWL, &responses, how, 1).unwrap()
        }

        fn earliest(&mut self, capture: Capture) -> u64 {
            let earliest = true;
            self.add(
                &[capture],
                Adding {
                    earliest,
                    ..Adding::default()
                },
            )
        }

        fn commit(&mut self) {
            run(commit(CRAWL), &mut self.index, &mut self.ks).unwrap();
        }

        fn stored(&mut self, n: usize) -> String {
            let digest = Digest::parse(&hash(n)).unwrap();
            let value = self.index.record_of(&mut self.ks, CRAWL, &digest);
            String::from_utf8(value.unwrap().unwrap().as_ref().to_vec()).unwrap()
        }

        fn urls(&mut self) -> i64 {
            let counts_key = b"p:h:a:counts".to_vec();
            super::super::counts::read(&mut self.ks, &counts_key, b"totalUrls").unwrap()
        }

        /// Returns all keys except the stored replies for retries: these replies depend on which
        /// call adds a hash first.
        fn keys(&self) -> BTreeMap<Vec<u8>, Plain<crate::dedupe::packed::Packed>> {
            let keys = self.ks.keys.iter();
            let keys = keys.filter(|(key, _)| !key.ends_with(b":seq"));
            keys.map(|(key, value)| (key.clone(), value.clone()))
                .collect()
        }
    }

    /// A permutation of records, split into calls by two writers. Some of the calls are sent twice.
    #[derive(Clone, Debug)]
    struct Order {
        capture: Vec<Capture>,
        calls: Vec<(usize, bool, bool)>,
        numbered: bool,
    }

    fn order(capture: Vec<Capture>) -> impl Strategy<Value = Order> {
        let calls = proptest::collection::vec((1..5usize, any::<bool>(), any::<bool>()), 1..8);
        (Just(capture).prop_shuffle(), calls, any::<bool>()).prop_map(
            |(capture, calls, numbered)| Order {
                capture,
                calls,
                numbered,
            },
        )
    }

    impl Order {
        fn run(&self, world: &mut World) -> u64 {
            let (mut rest, mut n, mut new) = (&self.capture[..], 0, 0);
            for (size, first, again) in self.calls.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (some, more) = rest.split_at(rest.len().min(*size));
                rest = more;
                n += 1;
                let writer: &[u8] = if *first { b"w1" } else { b"w2" };
                let how = Adding {
                    seq: self.numbered.then_some(Sequence { writer, n }),
                    earliest: true,
                    token: None,
                };
                let reply = world.add(some, how);
                new += reply;
                if *again {
                    let again = world.add(some, how);
                    assert_eq!(again, if self.numbered { reply } else { 0 });
                }
            }
            new
        }
    }

    fn capture() -> impl Strategy<Value = Capture> {
        (0..3usize, 0..DATES.len(), 0..3usize, 0..3u64, 1..3u64)
    }

    fn orders() -> impl Strategy<Value = (Vec<Capture>, Order, Order)> {
        let some = |n| proptest::collection::vec(capture(), n);
        (some(0..6), some(1..25)).prop_flat_map(|(before, capture)| {
            (Just(before), order(capture.clone()), order(capture))
        })
    }

    /// Asserts that two orders of the same records produce the same keys.
    fn check(before: &[Capture], orders: [&Order; 2], profile: Profile) {
        let mut worlds = orders.map(|order| {
            let mut world = World::of(profile);
            // A plain client writes another notation, and an earlier commit exists.
            let spelled = hash(2)[7..].to_vec();
            let value = b"1 20260319102015 http://e.com/2 9";
            world
                .ks
                .hash_set(&b"p:h:a".to_vec(), &spelled, value)
                .unwrap();
            world.add(before, Adding::default());
            if !before.is_empty() {
                world.commit();
                // A retry writes no state until the crawl is continued.
                world.add(&[(9, 0, 0, 0, 1)], Adding::default());
            }
            let new = order.run(&mut world);
            (world, new)
        });
        assert_eq!(worlds[0].1, worlds[1].1);
        assert_eq!(worlds[0].0.keys(), worlds[1].0.keys());
        for (world, _) in &mut worlds {
            world.commit();
            assert!(!world.ks.keys.contains_key(&b"p:h:a:unstored"[..]));
        }
        assert_eq!(worlds[0].0.keys(), worlds[1].0.keys());
    }

    proptest! {
        #[test]
        fn records_in_any_order_and_batching_give_the_same_keys(
            (before, one, other) in orders(),
            profile in proptest::sample::select(&Profile::ALL[..]),
        ) {
            check(&before, [&one, &other], profile);
        }
    }

    #[test]
    fn numbered_and_unnumbered_calls_give_the_same_keys() {
        let order = |capture: [Capture; 7], call, numbered: bool| Order {
            capture: capture.to_vec(),
            calls: vec![(call, false, !numbered)],
            numbered,
        };
        let one = order(
            [
                (0, 4, 2, 0, 2),
                (1, 4, 0, 2, 1),
                (1, 1, 2, 2, 2),
                (0, 6, 1, 1, 1),
                (1, 2, 1, 1, 2),
                (0, 1, 2, 1, 2),
                (1, 2, 0, 2, 1),
            ],
            4,
            false,
        );
        let other = order(
            [
                (0, 4, 2, 0, 2),
                (1, 2, 0, 2, 1),
                (0, 1, 2, 1, 2),
                (1, 1, 2, 2, 2),
                (1, 2, 1, 1, 2),
                (1, 4, 0, 2, 1),
                (0, 6, 1, 1, 1),
            ],
            3,
            true,
        );
        check(&[], [&one, &other], Profile::Document);
    }

    #[test]
    fn earlier_record_replaces_the_stored_one() {
        let mut world = World::new();
        assert_eq!(world.earliest((0, 1, 1, 5, 7)), 1);
        for (capture, stored, urls) in [
            ((0, 5, 0, 0, 1), "5 20260319102015 http://e.com/1 7", 2),
            ((0, 1, 0, 6, 9), "6 20260319102015 http://e.com/0 9", 3),
            ((0, 1, 0, 4, 9), "4 20260319102015 http://e.com/0 9", 3),
            ((0, 1, 0, 4, 8), "4 20260319102015 http://e.com/0 8", 3),
            ((0, 0, 2, 9, 9), "9 20260319102014 http://e.com/2 9", 4),
            ((0, 1, 0, 0, 0), "9 20260319102014 http://e.com/2 9", 4),
            ((0, 5, 0, 0, 1), "9 20260319102014 http://e.com/2 9", 4),
        ] {
            assert_eq!(world.earliest(capture), 0);
            assert_eq!(world.stored(0), stored, "{capture:?}");
            assert_eq!(world.urls(), urls, "{capture:?}");
        }
    }

    #[test]
    fn capture_counts_once_with_and_without_milliseconds() {
        let (second, precise, other) = (0, 2, 7);
        let orders = [
            [second, precise, other],
            [second, other, precise],
            [precise, second, other],
            [precise, other, second],
        ];
        for order in orders {
            // The stored record may differ, and more records may follow after a commit.
            for (url, commits) in [(0, false), (0, true), (1, false)] {
                let mut world = World::new();
                if url == 1 {
                    world.earliest((0, second, 0, 0, 1));
                }
                for (n, date) in order.into_iter().enumerate() {
                    world.earliest((0, date, url, 0, 1));
                    if commits && n == 0 {
                        world.commit();
                        world.earliest((9, 0, 0, 0, 1));
                    }
                    let urls = world.urls();
                    world.earliest((0, date, url, 3, 9));
                    assert_eq!(world.urls(), urls, "{order:?}: a retry");
                }
                let others = url as i64 + i64::from(commits);
                assert_eq!(world.urls() - others, 2, "{order:?} {url} {commits}");
            }
        }
    }

    #[test]
    fn retry_with_a_coarser_date_changes_no_key() {
        for how in [false, true] {
            let mut world = World::new();
            let how = Adding {
                earliest: how,
                ..Adding::default()
            };
            world.add(&[(0, 2, 0, 0, 1), (1, 0, 0, 0, 1)], how);
            for commits in [false, true] {
                if commits {
                    world.commit();
                }
                let before = world.keys();
                world.add(&[(0, 0, 0, 3, 7), (0, 4, 0, 3, 7)], how);
                // The crawl contains only the second capture.
                if commits {
                    world.add(&[(1, 2, 0, 3, 7)], how);
                }
                assert_eq!(world.keys(), before, "{how:?} {commits}");
            }
        }
    }

    #[test]
    fn committed_record_is_kept_and_a_later_one_is_replaced() {
        let mut world = World::new();
        world.earliest((0, 1, 0, 0, 1));
        world.commit();
        world.earliest((1, 1, 0, 0, 1));
        for n in [0, 1] {
            world.earliest((n, 0, 0, 0, 1));
        }
        assert_eq!(world.stored(0), "0 20260319102015 http://e.com/0 1");
        assert_eq!(world.stored(1), "0 20260319102014 http://e.com/0 1");
        assert_eq!(world.urls(), 4);
        run(cancel(CRAWL), &mut world.index, &mut world.ks).unwrap();
        assert_eq!(world.urls(), 1);
        assert!(!world.ks.keys.contains_key(&b"p:h:a:unstored"[..]));
    }

    #[test]
    fn record_taken_by_a_running_commit_is_kept() {
        use super::super::job::Step;
        for again in [false, true] {
            let mut world = World::new();
            if again {
                world.earliest((2, 1, 0, 0, 1));
                world.commit();
            }
            // Add enough records that the commit takes several slices.
            for n in [0].into_iter().chain(100..200) {
                world.earliest((n, 1, 0, 0, 1));
            }
            let mut commit = commit(CRAWL);
            while !world
                .index
                .under_way
                .is_committing(&mut world.ks, CRAWL)
                .unwrap()
            {
                let step = commit.step(&mut world.index, &mut world.ks, &mut || false);
                assert!(matches!(step, Ok(Step::More)));
            }
            world.earliest((1, 1, 0, 0, 1));
            for n in [0, 1] {
                world.earliest((n, 0, 0, 0, 1));
            }
            assert_eq!(world.stored(0), "0 20260319102015 http://e.com/0 1");
            assert_eq!(world.stored(1), "0 20260319102014 http://e.com/0 1");
            run(commit, &mut world.index, &mut world.ks).unwrap();
            assert_eq!(world.urls(), 104 + i64::from(again));
            world.earliest((1, 0, 1, 0, 1));
            world.commit();
            world.earliest((1, 0, 0, 0, 0));
            assert_eq!(world.stored(1), "0 20260319102014 http://e.com/0 1");
        }
    }

    #[test]
    fn field_of_a_plain_client_is_overwritten_in_its_spelling() {
        let mut world = World::new();
        let spelled = hash(0)[7..].to_ascii_uppercase();
        for value in [&b"0 20260319102015 http://e.com/0 1"[..], b"no record"] {
            world.ks.keys.clear();
            let records = b"p:h:a".to_vec();
            world.ks.hash_set(&records, &spelled, value).unwrap();
            world.index = Index::open(&mut world.ks, b"p:", Profile::Document, false).unwrap();
            world.earliest((0, 0, 0, 0, 1));
            let stored = world.ks.hash_get(&records, &spelled).unwrap();
            assert_eq!(
                stored.as_deref(),
                Some(&b"0 20260319102014 http://e.com/0 1"[..])
            );
            assert_eq!(world.ks.hash_len(&records), Ok(1));
        }
    }

    #[test]
    fn without_earliest_the_first_record_is_kept() {
        let mut world = World::new();
        world.add(&[(0, 1, 0, 0, 1)], Adding::default());
        world.add(&[(0, 0, 0, 0, 1)], Adding::default());
        assert_eq!(world.stored(0), "0 20260319102015 http://e.com/0 1");
        assert!(!world.ks.keys.contains_key(&b"p:h:a:unstored"[..]));
    }
}
