//! REMOVE and RETAIN: what is left is what committing the remaining crawls from scratch gives.

use std::collections::{BTreeMap, BTreeSet};

use redis_tests::{
    Crawl, Rng, Server, Wire, add, array, assert_consistent, begin_job, commit, counts, err,
    hash_key, indexed, int, ok, owners, plain_hash, plain_view, plainly, set_key, sha256_of,
};

const P: &str = "p:";

/// `(new, totalUrls of the part, dupes)`: one stretch of a crawl between two commits.
#[derive(Clone, Debug)]
struct Part {
    crawl: String,
    hashes: BTreeSet<u64>,
    revisits: Vec<u64>,
    wacz: String,
}

/// Writes one part under `prefix` and commits it, with commands or as a plain client does.
fn write_part(c: &mut Wire, prefix: &str, part: &Part, plain: bool) {
    let crawl = part.crawl.as_str();
    if plain {
        plainly(c, prefix, |c| write_part_plainly(c, prefix, part));
        return;
    }
    for chunk in part.hashes.iter().copied().collect::<Vec<_>>().chunks(100) {
        add(c, prefix, crawl, chunk.iter().copied());
    }
    for &n in &part.revisits {
        // The original is in the index or in the crawl itself; anything else is no revisit.
        let reply = c.call(&["DEDUPE.REVISIT", prefix, crawl, &sha256_of(n), "100"]);
        assert!(matches!(reply, redis_tests::Reply::Int(1)), "{reply:?}");
    }
    let index = ok!(c, "DEDUPE.WACZOPEN", prefix, crawl, part.wacz).int();
    ok!(
        c,
        "DEDUPE.WACZCLOSE",
        prefix,
        crawl,
        index,
        part.wacz,
        "sha256:00",
        1000
    );
    commit(c, prefix, crawl);
}

/// The documented sequence: per-crawl keys, then a commit by `HSETNX` in a loop.
fn write_part_plainly(c: &mut Wire, prefix: &str, part: &Part) {
    let crawl = &part.crawl;
    let key = |name: &str| format!("{prefix}{name}");
    let h = key(&format!("h:{crawl}"));
    ok!(c, "SADD", key("uncommittedcrawls"), crawl);
    let (mut urls, mut saved) = (0, 0);
    for &n in &part.hashes {
        let [hash, index, date, url, size] = redis_tests::words_of(n);
        let value = [index, date, url, size].join(&b' ');
        urls += ok!(c, "HSETNX", h, hash, value).int();
    }
    for &n in &part.revisits {
        saved += redis_tests::size_of(n) as i64 - 100;
    }
    let dupes = part.revisits.len() as i64;
    let wacz = format!(
        r#"{{"filename":"{}","hash":"sha256:00","size":1000}}"#,
        part.wacz
    );
    ok!(c, "RPUSH", key(&format!("c:{crawl}:wacz")), wacz);
    let sums = [
        ("totalUrls", urls + dupes),
        ("dupeUrls", dupes),
        ("conservedSize", saved),
        ("totalCrawlSize", 1000),
    ];
    for (field, n) in sums.into_iter().filter(|(_, n)| *n != 0) {
        ok!(c, "HINCRBY", key(&format!("h:{crawl}:counts")), field, n);
        ok!(c, "HINCRBY", key("allcounts"), field, n);
    }
    ok!(c, "SADD", key("src:d"), part.wacz);
    ok!(
        c,
        "SMOVE",
        key("uncommittedcrawls"),
        key("allcrawls"),
        crawl
    );
    for &n in &part.hashes {
        ok!(c, "HSETNX", key("allhashes"), sha256_of(n), crawl);
    }
}

/// Owners by the rule itself: the first part in commit order that has the hash.
fn owners_of(parts: &[Part]) -> BTreeMap<String, String> {
    let mut owners = BTreeMap::new();
    for part in parts {
        for &n in &part.hashes {
            owners
                .entry(sha256_of(n))
                .or_insert_with(|| part.crawl.clone());
        }
    }
    owners
}

fn random_parts(rng: &mut Rng) -> Vec<Part> {
    let crawls = 2 + rng.below(7);
    let mut held: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
    (0..crawls + rng.below(4))
        .map(|i| {
            let crawl = if i < crawls { i } else { rng.below(crawls) };
            let (from, span) = (rng.below(60), 1 + rng.below(60));
            let mut hashes: BTreeSet<u64> =
                (from..from + span).filter(|_| rng.chance(60)).collect();
            let own = held.entry(crawl).or_default();
            hashes = hashes.difference(own).copied().collect();
            own.extend(hashes.iter());
            // Of its own hashes, so that they are there in the rebuild too.
            let revisits = own.iter().copied().filter(|_| rng.chance(10)).collect();
            Part {
                crawl: format!("crawl-{crawl}"),
                hashes,
                revisits,
                wacz: format!("part-{i}.wacz"),
            }
        })
        .collect()
}

/// One round: random crawls, some of them removed, compared with a rebuild under another prefix
/// and with the rule itself.
fn removal_equals_rebuild(c: &mut Wire, rng: &mut Rng, by_plain_clients: u64) {
    ok!(c, "FLUSHALL");
    let parts = random_parts(rng);
    // A continued crawl written by plain clients has no commit order of its own parts; those are
    // left to crawls of one part.
    let continued = |part: &Part| parts.iter().filter(|p| p.crawl == part.crawl).count() > 1;
    for part in &parts {
        let plain = !continued(part) && rng.chance(by_plain_clients);
        write_part(c, P, part, plain);
    }
    let before = plain_hash(c, P, "allhashes");
    assert_eq!(before, owners_of(&parts), "the commits themselves");

    let mut crawls: Vec<String> = set_key(c, "p:allcrawls");
    rng.shuffle(&mut crawls);
    let cut = 1 + rng.below(crawls.len() as u64) as usize;
    let (removed, kept) = crawls.split_at(cut);
    let is_removed = |crawl: &String| removed.contains(crawl);
    let kept_parts: Vec<Part> = parts
        .iter()
        .filter(|p| !is_removed(&p.crawl))
        .cloned()
        .collect();

    let mut words = vec!["DEDUPE.REMOVE", P];
    if !kept.is_empty() && rng.chance(50) {
        words = vec!["DEDUPE.RETAIN", P, "PURGE"];
        words.extend(kept.iter().map(String::as_str));
    } else {
        words.extend(removed.iter().map(String::as_str));
    }
    let reply = c.expect_ok(&words).ints();

    let expected = owners_of(&kept_parts);
    let after = plain_hash(c, P, "allhashes");
    assert_eq!(after, expected, "owners after {words:?}");
    let reowned = after
        .iter()
        .filter(|(hash, owner)| before[*hash] != **owner)
        .count();
    assert_eq!(
        reply,
        [cut, before.len() - after.len(), reowned].map(|n| n as i64),
        "reply of {words:?}"
    );

    for part in &kept_parts {
        write_part(c, "q:", part, false);
    }
    assert_eq!(after, plain_hash(c, "q:", "allhashes"), "rebuild");
    assert_eq!(
        counts(c, "p:allcounts"),
        counts(c, "q:allcounts"),
        "rebuild"
    );
    for set in ["allcrawls", "uncommittedcrawls", "src:d"] {
        let (is, should) = (format!("p:{set}"), format!("q:{set}"));
        assert_eq!(set_key(c, &is), set_key(c, &should), "{set}");
    }
    for crawl in removed {
        let keys = plain_view(c, P).names();
        let left = keys.iter().filter(|key| key.contains(crawl.as_str()));
        assert_eq!(
            left.count(),
            0,
            "keys of {crawl}, which was removed: {keys:?}"
        );
    }
    assert_consistent(c, P);

    // The commit order survives the removal: what is removed next goes to the right holder too.
    if let Some(next) = kept.first() {
        ok!(c, "DEDUPE.REMOVE", P, next);
        let rest: Vec<Part> = kept_parts
            .iter()
            .filter(|p| p.crawl != *next)
            .cloned()
            .collect();
        assert_eq!(
            plain_hash(c, P, "allhashes"),
            owners_of(&rest),
            "second removal"
        );
        assert_consistent(c, P);
    }
}

#[test]
fn removal_equals_rebuild_of_the_remaining_crawls() {
    let server = Server::start();
    let mut rng = Rng::new("removal_equals_rebuild_of_the_remaining_crawls");
    for _ in 0..60 {
        removal_equals_rebuild(&mut server.wire(), &mut rng, 0);
    }
}

#[test]
fn removal_finds_holders_that_plain_clients_committed() {
    // Who committed first among plain clients is unknown, so all but the last crawl are written
    // by commands; or all are disjoint in time because only one holder is left.
    let server = Server::start();
    let mut c = server.wire();
    let part = |crawl: &str, hashes: std::ops::Range<u64>| Part {
        crawl: crawl.to_owned(),
        hashes: hashes.collect(),
        revisits: vec![],
        wacz: format!("{crawl}.wacz"),
    };
    for first_plain in [true, false] {
        for second_plain in [true, false] {
            ok!(c, "FLUSHALL");
            write_part(&mut c, P, &part("a", 0..20), first_plain);
            write_part(&mut c, P, &part("b", 10..30), second_plain);
            assert_eq!(
                ok!(c, "DEDUPE.REMOVE", P, "a"),
                array([int(1), int(10), int(10)]),
                "plain: {first_plain}, {second_plain}"
            );
            assert_eq!(owners(&mut c, P, [0, 10, 20]), ["-", "b", "b"]);
            assert_eq!(
                counts(&mut c, "p:allcounts"),
                counts(&mut c, "p:h:b:counts")
            );
            assert_eq!(set_key(&mut c, "p:src:d"), ["b.wacz"]);
            assert_consistent(&mut c, P);
        }
    }
}

fn three_crawls(c: &mut Wire) {
    for (id, hashes) in [("a", 0..20), ("b", 10..30), ("c", 25..40)] {
        add(c, P, id, hashes);
        let name = format!("{id}.wacz");
        ok!(c, "DEDUPE.WACZOPEN", P, id, name);
        ok!(c, "DEDUPE.WACZCLOSE", P, id, 0, name, "sha256:ab", 100);
        commit(c, P, id);
    }
}

#[test]
fn retain_without_purge_tracks_removed_crawls_anew_each_time() {
    let server = Server::start();
    let mut c = server.wire();
    three_crawls(&mut c);
    let tracked = |c: &mut Wire| {
        let all = hash_key(c, "p:allcounts");
        [
            all["removedCrawls"].clone(),
            all["removedCrawlSize"].clone(),
        ]
    };
    assert_eq!(ok!(c, "DEDUPE.RETAIN", P, "a").ints(), [2, 0, 0]);
    assert_eq!(tracked(&mut c), ["2", "200"]);
    assert_eq!(ok!(c, "DEDUPE.RETAIN", P, "a").ints(), [2, 0, 0]);
    assert_eq!(tracked(&mut c), ["2", "200"]);
    assert_eq!(ok!(c, "DEDUPE.RETAIN", P, "a", "c").ints(), [1, 0, 0]);
    assert_eq!(tracked(&mut c), ["1", "100"]);
    assert_eq!(owners(&mut c, P, [0, 15, 22, 35]), ["a", "a", "b", "c"]);
    assert_eq!(
        ok!(c, "DEDUPE.RETAIN", P, "PURGE", "a", "c").ints(),
        [1, 5, 5]
    );
    assert_eq!(tracked(&mut c), ["0", "0"]);
    assert_eq!(
        owners(&mut c, P, [0, 15, 22, 27, 35]),
        ["a", "a", "-", "c", "c"]
    );
    assert_eq!(set_key(&mut c, "p:src:d"), ["a.wacz", "c.wacz"]);
}

#[test]
fn retain_of_an_unknown_crawl_changes_nothing() {
    let server = Server::start();
    let mut c = server.wire();
    three_crawls(&mut c);
    let before = server.snapshot();
    for purge in [false, true] {
        let mut words = vec!["DEDUPE.RETAIN", P, "a", "nobody"];
        if purge {
            words.insert(2, "PURGE");
        }
        let line = c.expect_error(&words);
        assert!(
            line.starts_with("NOCRAWL ") && line.contains("nobody"),
            "{line}"
        );
    }
    server.snapshot().assert_same(&before, "refused RETAIN");
}

#[test]
fn retain_leaves_uncommitted_crawls_alone() {
    let server = Server::start();
    let mut c = server.wire();
    three_crawls(&mut c);
    add(&mut c, P, "open", 50..60);
    ok!(c, "DEDUPE.RETAIN", P, "PURGE", "b");
    assert_eq!(set_key(&mut c, "p:uncommittedcrawls"), ["open"]);
    assert_eq!(commit(&mut c, P, "open"), (10, 0));
}

#[test]
fn remove_refuses_unknown_and_uncommitted_crawls() {
    let server = Server::start();
    let mut c = server.wire();
    three_crawls(&mut c);
    add(&mut c, P, "open", 50..60);
    let before = server.snapshot();
    assert!(err!(c, "DEDUPE.REMOVE", P, "a", "nobody").starts_with("NOCRAWL "));
    assert!(err!(c, "DEDUPE.REMOVE", P, "a", "open").starts_with("UNCOMMITTED "));
    server.snapshot().assert_same(&before, "refused REMOVE");
    ok!(c, "DEDUPE.REMOVE", P, "a");
    assert!(err!(c, "DEDUPE.REMOVE", P, "a").starts_with("NOCRAWL "));
}

#[test]
fn removed_crawl_id_can_start_anew() {
    let server = Server::start();
    let mut c = server.wire();
    three_crawls(&mut c);
    ok!(c, "DEDUPE.REMOVE", P, "a");
    assert_eq!(add(&mut c, P, "a", 0..15), 15);
    assert_eq!(commit(&mut c, P, "a"), (10, 5));
    assert_eq!(owners(&mut c, P, [0, 12]), ["a", "b"]);
    assert_consistent(&mut c, P);
}

#[test]
fn removing_everything_leaves_an_empty_index() {
    let server = Server::start();
    let mut c = server.wire();
    three_crawls(&mut c);
    assert_eq!(ok!(c, "DEDUPE.REMOVE", P, "a", "b", "c").ints(), [3, 40, 0]);
    assert_eq!(
        ok!(c, "EXISTS", "p:allhashes", "p:allcrawls", "p:src:d"),
        int(0)
    );
    assert_eq!(counts(&mut c, "p:allcounts").len(), 0);
    assert_consistent(&mut c, P);
}

#[test]
fn open_part_of_a_removed_crawl_goes_with_it() {
    let server = Server::start();
    let mut c = server.wire();
    three_crawls(&mut c);
    add(&mut c, P, "a", 100..110);
    let reply = c.call(&["DEDUPE.REMOVE", P, "a"]);
    // Either the whole crawl goes, or the command refuses; half of it must not stay behind.
    if reply.is_error() {
        assert_eq!(ok!(c, "DEDUPE.CANCEL", P, "a"), int(10));
        ok!(c, "DEDUPE.REMOVE", P, "a");
    }
    let keys = plain_view(&mut c, P).names();
    assert!(!keys.iter().any(|key| key.starts_with("p:h:a")), "{keys:?}");
    assert_eq!(set_key(&mut c, "p:uncommittedcrawls"), [""; 0]);
    let merged = plain_hash(&mut c, P, "allhashes");
    assert_eq!(merged.get(&sha256_of(100)), None);
    assert_eq!(merged[&sha256_of(12)], "b");
    assert_consistent(&mut c, P);
}

#[test]
fn removal_outlives_its_client_and_can_be_joined() {
    let server = Server::start();
    let mut c = server.wire();
    ok!(c, "CONFIG", "SET", "crawlspace.slice-us", 50);
    for (id, first) in [("a", 0), ("b", 20_000)] {
        Crawl::of(P, id, first..first + 40_000).add(&mut c);
        commit(&mut c, P, id);
    }
    let remover = begin_job(&server, "DEDUPE.REMOVE", P, "a");
    remover.hang_up();
    assert_eq!(ok!(c, "DEDUPE.REMOVE", P, "a").ints(), [1, 20_000, 20_000]);
    assert_eq!(indexed(&mut c, P), 40_000);
    assert_eq!(ok!(c, "EXISTS", "p:removing"), int(0));
    assert!(plain_hash(&mut c, P, "h:a").is_empty());
    assert_consistent(&mut c, P);
}

#[test]
fn crawl_under_removal_takes_no_new_records() {
    let server = Server::start();
    let mut c = server.wire();
    ok!(c, "CONFIG", "SET", "crawlspace.slice-us", 50);
    Crawl::of(P, "a", 0..40_000).add(&mut c);
    commit(&mut c, P, "a");
    let mut remover = begin_job(&server, "DEDUPE.REMOVE", P, "a");
    let line = err!(
        c,
        "DEDUPE.ADD",
        P,
        "a",
        sha256_of(7),
        0,
        "20260101000000",
        "http://e.com/",
        5
    );
    assert!(line.starts_with("REMOVING "), "{line}");
    assert_eq!(remover.recv().ints(), [1, 40_000, 0]);
    assert_eq!(add(&mut c, P, "a", [7]), 1);
    assert_consistent(&mut c, P);
}

#[test]
fn name_of_a_wacz_that_another_crawl_has_too_stays() {
    let server = Server::start();
    let mut c = server.wire();
    for (n, id) in (0..).zip(["a", "b", "c"]) {
        add(&mut c, P, id, [n]);
        let own = format!("{id}.wacz");
        for (i, name) in ["same.wacz", own.as_str()].iter().enumerate() {
            ok!(c, "DEDUPE.WACZOPEN", P, id, name);
            ok!(c, "DEDUPE.WACZCLOSE", P, id, i, name, "sha256:ab", 9);
        }
        commit(&mut c, P, id);
    }
    ok!(c, "DEDUPE.REMOVE", P, "a");
    assert_eq!(
        set_key(&mut c, "p:src:d"),
        ["b.wacz", "c.wacz", "same.wacz"]
    );
    ok!(c, "DEDUPE.RETAIN", P, "PURGE", "c");
    assert_eq!(set_key(&mut c, "p:src:d"), ["c.wacz", "same.wacz"]);
    ok!(c, "DEDUPE.REMOVE", P, "c");
    assert_eq!(set_key(&mut c, "p:src:d"), [""; 0]);
    assert_consistent(&mut c, P);
}

/// Two crawls open a file of the same name, and the first one is committed before it is finished.
fn same_name_in_two_crawls(c: &mut Wire) {
    for id in ["a", "b"] {
        add(c, P, id, [1]);
        ok!(c, "DEDUPE.WACZOPEN", P, id, "same.wacz");
    }
    commit(c, P, "a");
    finish_same_name(c, "b");
}

fn finish_same_name(c: &mut Wire, id: &str) {
    let hash = "sha256:ab";
    ok!(c, "DEDUPE.WACZCLOSE", P, id, 0, "same.wacz", hash, 9);
    commit(c, P, id);
}

#[test]
fn name_of_a_wacz_stays_when_a_crawl_goes_that_never_finished_it() {
    let server = Server::start();
    let mut c = server.wire();
    same_name_in_two_crawls(&mut c);
    ok!(c, "DEDUPE.REMOVE", P, "a");
    assert_eq!(set_key(&mut c, "p:src:d"), ["same.wacz"]);
    ok!(c, "DEDUPE.REMOVE", P, "b");
    assert_eq!(set_key(&mut c, "p:src:d"), [""; 0]);
    assert_consistent(&mut c, P);
}

#[test]
fn name_of_a_wacz_stays_with_a_crawl_that_finished_it_between_two_commits() {
    let server = Server::start();
    let mut c = server.wire();
    same_name_in_two_crawls(&mut c);
    finish_same_name(&mut c, "a");
    ok!(c, "DEDUPE.REMOVE", P, "b");
    assert_eq!(set_key(&mut c, "p:src:d"), ["same.wacz"]);
    ok!(c, "DEDUPE.REMOVE", P, "a");
    assert_eq!(set_key(&mut c, "p:src:d"), [""; 0]);
    assert_consistent(&mut c, P);
}
