//! Repair of counters that a plain client corrupted. A counter must be at least as high as any
//! number in use.

use crawlspace_host::text::{parse_signed, parse_unsigned};

use super::counts;
use super::error::Result;
use super::index::Index;
use super::index::claims::Claim;
use super::index::counters::{COMMITS, TOKENS, VISIBLE};
use super::index::progress::CommitState;
use super::job::{Lent, Walk};
use super::store::Store;

/// Returns the number of counters that are not integers or are lower than a number in use. With
/// `repair`, sets each such counter to the highest number in use.
///
/// # Errors
/// `WRONGTYPE` if a key holds another type; errors of the server.
pub(super) async fn check_counters<K: Store>(lent: &Lent<K>, repair: bool) -> Result<u64> {
    let (mut commit, mut token, mut visible) = (0, 0, 0);
    let crawls = lent.with(|index, ks| Walk::set(ks, index.names().allcrawls.clone()));
    let look = |index: &mut Index<K>, ks: &mut K, crawl: &[u8], _: &[u8]| {
        raise(&mut commit, index.crawls.baseline(ks, crawl).numbers(ks)?);
        Ok(())
    };
    crawls.run(lent, look).await?;
    let commits = lent.with(|index, ks| Walk::hash(ks, index.names().commits.clone()));
    let look = |_: &mut Index<K>, _: &mut K, number: &[u8], _: &[u8]| {
        raise(&mut commit, parse_unsigned(number));
        Ok(())
    };
    commits.run(lent, look).await?;
    let claims = lent.with(|index, ks| Walk::hash(ks, index.names().claims.clone()));
    let look = |_: &mut Index<K>, _: &mut K, _: &[u8], claim: &[u8]| {
        raise(&mut token, Claim::parse(claim).map(|claim| claim.token));
        Ok(())
    };
    claims.run(lent, look).await?;
    lent.with(|index, ks| {
        let committing = counts::fields(ks, &index.names().committing)?;
        let states = committing
            .iter()
            .filter_map(|(_, state)| CommitState::parse(state));
        raise(&mut commit, states.map(|state| state.number));
        raise(
            &mut visible,
            index.visible.crawls().iter().map(|(number, _)| *number),
        );
        let mut wrong = 0;
        for (counter, used) in [(COMMITS, commit), (TOKENS, token), (VISIBLE, visible)] {
            let value = ks.hash_get(&index.names().meta, counter)?;
            let is = value.map_or(Some(0), |value| parse_signed(value.as_ref()));
            if is.is_none_or(|is| is < used as i64) {
                wrong += 1;
                if repair {
                    counts::set(ks, &index.names().meta, counter, used as i64)?;
                }
            }
        }
        Ok(wrong)
    })
}

/// Raises `highest` to the highest number in use. Numbers that a counter cannot reach are ignored.
fn raise(highest: &mut u64, used: impl IntoIterator<Item = u64>) {
    let reachable = used.into_iter().filter(|&number| number < i64::MAX as u64);
    *highest = reachable.fold(*highest, u64::max);
}

#[cfg(test)]
mod tests {
    use super::super::add::{Adding, Response};
    use super::super::check::check;
    use super::super::claim::Outcome;
    use super::super::commit::commit;
    use super::super::digest::Digest;
    use super::super::error::Error;
    use super::super::index::storage::{Layout, Storage};
    use super::super::keys::CrawlKey;
    use super::super::profile::Profile;
    use super::super::record::Record;
    use super::super::tests::run;
    use super::*;
    use crate::dedupe::store::MemoryKeyspace;
    use crawlspace_host::keyspace::Keyspace;
    use crawlspace_host::reply::Reply;

    struct World {
        ks: MemoryKeyspace,
        index: Index<MemoryKeyspace>,
    }

    impl World {
        /// Commits two crawls, makes two claims and settles one of them, and begins a visible
        /// crawl.
        fn new(storage: Storage) -> World {
            let mut ks = MemoryKeyspace::default();
            let profile = Profile::Document;
            let index = Index::open(&mut ks, b"", Layout { profile, storage }, false).unwrap();
            let mut world = World { ks, index };
            for crawl in [b"a", b"b"] {
                world.add(crawl);
                world.commit(crawl).unwrap();
            }
            let ks = &mut world.ks;
            let begun = world.index.claim(ks, b"a", &digest(2), 1, 0).ok().unwrap();
            assert!(matches!(begun, Outcome::Claimed(1)));
            let claimed = world.index.claim(ks, b"a", &digest(1), 9, 1).ok().unwrap();
            assert!(matches!(claimed, Outcome::Claimed(2)));
            assert_eq!(
                super::super::begin::begin(&mut world.index, ks, b"open", true),
                Ok(true)
            );
            world
        }

        fn add(&mut self, crawl: &[u8]) {
            let record = Record::parse(b"0 20260319102015123 https://e/ 1000").unwrap();
            let digest = digest(0);
            let response = [Response { digest, record }];
            let how = Adding::default();
            self.index
                .add(&mut self.ks, crawl, &response, how, 1)
                .unwrap();
        }

        fn commit(&mut self, crawl: &[u8]) -> Result<Reply> {
            run(commit(crawl), &mut self.index, &mut self.ks)
        }

        /// Sets or deletes a counter, as a plain client might do.
        fn spoil(&mut self, counter: &[u8], value: Option<&[u8]>) {
            let meta = self.index.names().meta.clone();
            match value {
                Some(value) => drop(self.ks.hash_set(&meta, counter, value).unwrap()),
                None => drop(self.ks.hash_del(&meta, counter).unwrap()),
            }
            let layout = Layout::from(Profile::Document);
            self.index = Index::open(&mut self.ks, b"", layout, false).unwrap();
        }

        fn counter(&mut self, counter: &[u8]) -> Option<Vec<u8>> {
            let meta = self.index.names().meta.clone();
            self.ks.hash_get(&meta, counter).unwrap()
        }

        /// Returns `countDrift`, `repaired` and `ok` of a check or repair.
        fn look(&mut self, repair: bool) -> [Option<Reply>; 3] {
            let found = run(check(repair), &mut self.index, &mut self.ks);
            let Ok(Reply::Map(found)) = found else {
                panic!("{found:?}");
            };
            ["countDrift", "repaired", "ok"].map(|name| {
                let is = |(field, _): &&(Reply, Reply)| *field == Reply::bulk(name);
                found.iter().find(is).map(|(_, n)| n.clone())
            })
        }
    }

    fn digest(n: usize) -> Digest {
        Digest::parse(format!("sha256:{n:064x}").as_bytes()).unwrap()
    }

    #[test]
    fn repair_restores_spoiled_counters_from_the_numbers_in_use() {
        let invalid: [Option<&[u8]>; 5] = [Some(b"x"), Some(b""), Some(b"-7"), Some(b"0"), None];
        for storage in Storage::ALL {
            for (counter, last) in [(COMMITS, b"2"), (TOKENS, b"2"), (VISIBLE, b"1")] {
                for value in invalid {
                    let mut world = World::new(storage);
                    assert_eq!(world.counter(counter).unwrap(), last);
                    world.spoil(counter, value);
                    let one = Some(Reply::Int(1));
                    assert_eq!(world.look(false)[0], one, "{value:?}");
                    assert_eq!(world.look(true)[..2], [one.clone(), one.clone()]);
                    assert_eq!(world.counter(counter).unwrap(), last, "{value:?}");
                    assert_eq!(world.look(false)[2], one);
                }
            }
        }
    }

    #[test]
    fn repair_restores_a_spoiled_baseline_from_the_sum() {
        for storage in Storage::ALL {
            for field in [&b"baseline.totalUrls"[..], b"wacz", b"merging-wacz"] {
                let mut world = World::new(storage);
                let World { ks, index } = &mut world;
                // The committed records differ from the records added since the commit.
                let response = [Response {
                    digest: digest(7),
                    record: Record::parse(b"0 20260319102015123 https://e/7 1000").unwrap(),
                }];
                index
                    .add(ks, b"b", &response, Adding::default(), 1)
                    .unwrap();
                let [baseline, counts_key] = [CrawlKey::Baseline, CrawlKey::Counts]
                    .map(|key| index.crawls.key(ks, b"b", key));
                ks.hash_set(&baseline, field, b"spoiled").unwrap();
                assert_ne!(world.look(false)[0], Some(Reply::Int(0)));
                assert_eq!(world.look(true)[1], Some(Reply::Int(1)));
                assert_eq!(world.look(false)[2], Some(Reply::Int(1)));
                assert_eq!(world.commit(b"b"), Ok(Reply::counts(&[1, 0])));
                let World { ks, index } = &mut world;
                let sum = counts::read(ks, &index.names().allcounts, counts::TOTAL_URLS);
                assert_eq!(sum, Ok(3));
                assert_eq!(counts::read(ks, &counts_key, counts::TOTAL_URLS), Ok(2));
            }
        }
    }

    #[test]
    fn counter_above_the_numbers_in_use_is_left_alone() {
        let mut world = World::new(Storage::Plain);
        for counter in [COMMITS, TOKENS, VISIBLE] {
            world.spoil(counter, Some(b"90"));
        }
        assert_eq!(world.look(true)[1], Some(Reply::Int(0)));
        assert_eq!(world.counter(COMMITS).unwrap(), b"90");
    }

    #[test]
    fn counter_at_the_end_of_the_range_can_be_repaired() {
        let mut world = World::new(Storage::Plain);
        world.spoil(COMMITS, Some(i64::MAX.to_string().as_bytes()));
        world.add(b"c");
        world.commit(b"c").unwrap();
        world.add(b"d");
        assert!(matches!(world.commit(b"d"), Err(Error::Argument(_))));
        world.look(true);
        assert_eq!(world.commit(b"d"), Ok(Reply::counts(&[0, 1])));
        assert_eq!(world.look(false)[2], Some(Reply::Int(1)));
    }

    #[test]
    fn commits_without_renumbering_keep_their_order() {
        // Only the numbers stored with the crawls remain.
        let mut world = World::new(Storage::Plain);
        let commits = world.index.names().commits.clone();
        world.ks.delete(&commits).unwrap();
        world.spoil(COMMITS, Some(b"x"));
        world.look(true);
        assert_eq!(world.counter(COMMITS).unwrap(), b"2");
        assert_eq!(world.look(false)[2], Some(Reply::Int(1)));
        let crawls = [1, 2].map(|number| world.index.ledger.crawl_of(&mut world.ks, number));
        assert_eq!(crawls, [Ok(Some(b"a".to_vec())), Ok(Some(b"b".to_vec()))]);
    }

    #[test]
    fn number_of_a_running_commit_is_in_use() {
        let mut world = World::new(Storage::Plain);
        let state = CommitState {
            number: 3,
            new: 0,
            known: 0,
        };
        world.add(b"c");
        let ks = &mut world.ks;
        world
            .index
            .under_way
            .set_commit_state(ks, b"c", Some(state))
            .unwrap();
        world.spoil(COMMITS, Some(b"x"));
        world.look(true);
        assert_eq!(world.counter(COMMITS).unwrap(), b"3");
    }
}
