//! Tests lookups by URL while captures are added and deleted.

use crawlspace_host::keyspace::Keyspace as _;

use super::*;
use crate::dedupe::add::{Adding, Response};
use crate::dedupe::job::Step;
use crate::dedupe::store::MemoryKeyspace;
use crate::dedupe::tests::run;

const URL: &[u8] = b"http://e.com/";

type MemoryIndex = Index<MemoryKeyspace>;

fn hash(n: u64) -> Vec<u8> {
    format!("sha256:{n:064x}").into_bytes()
}

/// Adds captures with these numbers; higher numbers are newer, possibly in the same minute.
fn add(index: &mut MemoryIndex, ks: &mut MemoryKeyspace, captures: &[u64]) {
    for &n in captures {
        let date = (20_240_101_000_000 + n / 60 * 100 + n % 60).to_string();
        let record = Record {
            wacz_index: 0,
            date: date.as_bytes(),
            url: URL,
            size: 1,
        };
        let digest = Digest::parse(&hash(n)).unwrap();
        let response = Response { digest, record };
        index
            .add(ks, b"a", &[response], Adding::default(), 0)
            .unwrap();
    }
}

fn indexed(captures: &[u64]) -> (MemoryIndex, MemoryKeyspace) {
    let mut ks = MemoryKeyspace::default();
    let mut index = Index::open(&mut ks, b"", Profile::Document, false).unwrap();
    add(&mut index, &mut ks, captures);
    run(switch(true), &mut index, &mut ks).unwrap();
    (index, ks)
}

fn ask(limit: u64) -> Job<MemoryKeyspace> {
    look_up(Asked {
        own: Some(b"a".to_vec()),
        limit,
        before: None,
        urls: vec![URL.to_vec()],
    })
}

fn hashes(reply: Reply) -> Vec<Vec<u8>> {
    let Reply::Array(lists) = reply else {
        panic!("{reply:?}");
    };
    let [Reply::Array(list)] = &lists[..] else {
        panic!("{lists:?}");
    };
    let hash = |capture: &Reply| {
        let Reply::Array(fields) = capture else {
            panic!("{capture:?}");
        };
        let Reply::Bulk(hash) = &fields[1] else {
            panic!("{fields:?}");
        };
        hash.clone()
    };
    list.iter().map(hash).collect()
}

#[test]
fn permanent_captures_are_listed_once_while_others_change() {
    let stay = [1, 3, 5, 7, 9, 11, 13];
    let (mut index, mut ks) = indexed(&[1, 2, 3, 5, 6, 7, 9, 11, 12, 13]);
    let mut job = ask(100);
    let mut changes = 0;
    let reply = loop {
        if let Step::Done(reply) = job.step(&mut index, &mut ks, &mut || false).unwrap() {
            break reply;
        }
        changes += 1;
        for gone in [2, 6, 12] {
            let digest = Digest::parse(&hash(gone)).unwrap();
            index
                .urls
                .drop(&mut ks, &mut index.crawls, b"a", &digest)
                .unwrap();
        }
        // A slice may read only one record, so a test that adds one record per slice would never
        // end.
        if changes <= 10 {
            add(&mut index, &mut ks, &[changes * 2 + 100]);
        }
    };
    assert!(changes > 4, "{changes}");
    let mut found = hashes(reply);
    let all = found.len();
    found.sort();
    found.dedup();
    assert_eq!(found.len(), all);
    assert!(stay.iter().all(|&n| found.contains(&hash(n))), "{found:?}");
}

#[test]
fn newest_captures_are_kept_in_any_order_of_hashes() {
    let (mut index, mut ks) = indexed(&[4, 1, 7, 3, 6, 2, 5]);
    let found = run(ask(3), &mut index, &mut ks).unwrap();
    assert_eq!(hashes(found), [7, 6, 5].map(hash));
}

#[test]
fn slice_ends_with_the_record_that_exceeded_its_time() {
    let captures: Vec<u64> = (1..=9).collect();
    let (mut index, mut ks) = indexed(&captures);
    let mut job = ask(2);
    let mut slices = 1;
    // In tests, a batch has two hashes.
    let reply = loop {
        match job.step(&mut index, &mut ks, &mut || false).unwrap() {
            Step::Done(reply) => break reply,
            Step::More => slices += 1,
        }
    };
    assert!(slices >= captures.len(), "{slices} slices");
    assert_eq!(hashes(reply), [9, 8].map(hash));
}

#[test]
fn any_limit_and_slices_give_the_same_captures() {
    let captures = [4, 1, 7, 3, 6, 2, 5, 11, 9, 8, 10];
    let (mut index, mut ks) = indexed(&captures);
    for limit in 1..=12 {
        let newest = (1..=11).rev().take(limit as usize).map(hash);
        let newest: Vec<_> = newest.collect();
        for pauses in 1..6 {
            let mut job = ask(limit);
            let mut asked = 0;
            let reply = loop {
                let mut time = || {
                    asked += 1;
                    asked % pauses != 0
                };
                if let Step::Done(reply) = job.step(&mut index, &mut ks, &mut time).unwrap() {
                    break reply;
                }
            };
            assert_eq!(hashes(reply), newest, "{limit} {pauses}");
        }
    }
}

#[test]
fn limit_bounds_the_number_of_records_read() {
    let captures: Vec<u64> = (0..20).map(|n| n * 60).collect();
    let (mut index, mut ks) = indexed(&captures);
    for (limit, most) in [(1, 4), (3, 6), (20, 20)] {
        let mut read = 0;
        let mut time = || {
            read += 1;
            true
        };
        let step = ask(limit).step(&mut index, &mut ks, &mut time).unwrap();
        let Step::Done(reply) = step else {
            panic!("{step:?}");
        };
        let newest = captures.iter().rev().take(limit as usize).copied();
        assert_eq!(hashes(reply), newest.map(hash).collect::<Vec<_>>());
        // The job checks the time after each record, and after each capture in the reply.
        assert!(read <= most + limit + 2, "{limit}: {read}");
    }
}

#[test]
fn entries_of_version_0_1_0_are_found_and_upgraded() {
    let captures = [60, 3, 120, 1, 7, 240, 9];
    let (mut index, mut ks) = indexed(&captures);
    let key = index.crawls.key(&mut ks, b"a", CrawlKey::Urls);
    for n in [60, 1, 240] {
        ks.zset_add(&key, &hash(n), *undated(URL).start()).unwrap();
    }
    index.urls.set_state(&mut ks, State::Undated).unwrap();
    let mut newest = captures;
    newest.sort_unstable_by_key(|n| Reverse(*n));
    for limit in 1..=7 {
        let mut job = ask(limit);
        let reply = loop {
            if let Step::Done(reply) = job.step(&mut index, &mut ks, &mut || false).unwrap() {
                break reply;
            }
        };
        let expected = newest.iter().take(limit as usize).map(|&n| hash(n));
        assert_eq!(hashes(reply), expected.collect::<Vec<_>>());
    }
    let of_one = |n| Digest::parse(&hash(n)).unwrap();
    assert_eq!(
        correct(&mut index, &mut ks, b"a", &of_one(60), false),
        Ok(false)
    );
    run(switch(true), &mut index, &mut ks).unwrap();
    assert_eq!(index.urls.state(), State::On);
    for n in captures {
        assert!(ks.zset_score(&key, &hash(n)).unwrap().unwrap() < 0.0);
    }
}

#[test]
fn newer_capture_has_a_lower_integer_score() {
    let dates = [
        "18991231235959",
        "19000101000100",
        "20240101000000",
        "20240101000100",
        "24991231235959",
    ];
    let of = |date: &str| score(URL, Moment::of(date.as_bytes()));
    let mut last = score(URL, None);
    for date in dates {
        assert!(of(date) < last, "{date}");
        assert!(scores(URL, None).contains(&of(date)), "{date}");
        assert!(of(date) - 1.0 < of(date), "{date}");
        last = of(date);
    }
    assert!(!scores(b"http://e.com/other", None).contains(&last));
    assert!(*scores(URL, None).start() >= -(2_f64.powi(53)));
}

#[test]
fn look_up_ends_when_the_index_by_url_is_dropped() {
    let (mut index, mut ks) = indexed(&[1, 2, 3, 4, 5]);
    let mut job = ask(100);
    let step = job.step(&mut index, &mut ks, &mut || false);
    assert_eq!(step, Ok(Step::More));
    run(switch(false), &mut index, &mut ks).unwrap();
    let ended = loop {
        match job.step(&mut index, &mut ks, &mut || false) {
            Ok(Step::More) => {}
            ended => break ended,
        }
    };
    assert_eq!(ended, Err(Error::NoUrls("is off")));
}
