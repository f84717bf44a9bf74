//! `REMOVE` and `RETAIN`: the result must equal an index with commits of only the remaining crawls.

use std::collections::{BTreeMap, BTreeSet};

use redis_tests::{DATE, DedupeIndex, Rng, int, sha256_of, size_of, url_of};

const P: &str = "p:";

/// One part of a crawl, between two commits: `(new, totalUrls of the part, dupes)`.
#[derive(Clone, Debug)]
struct Part {
    crawl: String,
    hashes: BTreeSet<u64>,
    revisits: Vec<u64>,
    wacz: String,
}

/// Writes and commits one part, with commands or as a plain client does.
fn write_part(c: &mut DedupeIndex, part: &Part, plain: bool) {
    let crawl = part.crawl.as_str();
    if plain {
        return c.plainly(|c| write_part_plainly(c, part));
    }
    c.add(crawl, part.hashes.iter().copied());
    for n in &part.revisits {
        // The original must be in the index or in the crawl itself. Otherwise, the record would not
        // be a revisit.
        assert_eq!(c.ok(format!("REVISIT {crawl} #{n} 100")), int(1));
    }
    c.wacz(crawl, &part.wacz);
    c.commit(crawl);
}

/// Writes one part under `p:` with the documented sequence: per-crawl keys, then a commit with
/// `HSETNX` in a loop.
fn write_part_plainly(c: &mut DedupeIndex, part: &Part) {
    let Part { crawl, wacz, .. } = part;
    c.plain(format!("SADD p:uncommittedcrawls {crawl}"));
    let (mut urls, mut saved) = (0, 0);
    for &n in &part.hashes {
        let record = format!("0 {DATE} {} {}", url_of(n), size_of(n));
        let set = c.plain(format!("HSETNX p:h:{crawl} #{n} '{record}'"));
        urls += set.int();
    }
    for &n in &part.revisits {
        saved += size_of(n) as i64 - 100;
    }
    let dupes = part.revisits.len() as i64;
    let entry = format!(r#"{{"filename":"{wacz}","hash":"sha256:ab","size":100}}"#);
    c.plain(format!("RPUSH p:c:{crawl}:wacz {entry}"));
    let sums = [
        ("totalUrls", urls + dupes),
        ("dupeUrls", dupes),
        ("conservedSize", saved),
        ("totalCrawlSize", 100),
    ];
    for (field, n) in sums.into_iter().filter(|(_, n)| *n != 0) {
        for counts in [format!("h:{crawl}:counts"), "allcounts".to_owned()] {
            c.plain(format!("HINCRBY p:{counts} {field} {n}"));
        }
    }
    c.plain(format!("SADD p:src:d {wacz}"));
    c.plain(format!("SMOVE p:uncommittedcrawls p:allcrawls {crawl}"));
    for &n in &part.hashes {
        c.plain(format!("HSETNX p:allhashes #{n} {crawl}"));
    }
}

/// Returns the owners that follow from the rule: the first part in commit order that has the hash.
fn owners_of(parts: &[Part]) -> BTreeMap<String, String> {
    let mut owners = BTreeMap::new();
    for part in parts {
        for &n in &part.hashes {
            let owner = owners.entry(sha256_of(n));
            owner.or_insert_with(|| part.crawl.clone());
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
            // Use only the crawl's own hashes, so that they also exist in the rebuilt index.
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

/// Runs one round: removes some of several random crawls, and compares the index with a rebuild
/// under another prefix and with the rule itself.
fn removal_equals_rebuild(c: &mut DedupeIndex, q: &mut DedupeIndex, rng: &mut Rng) {
    c.plain("FLUSHALL");
    let parts = random_parts(rng);
    for part in &parts {
        write_part(c, part, false);
    }
    let before = c.plain_hash("allhashes");
    assert_eq!(before, owners_of(&parts), "the commits themselves");

    let mut crawls: Vec<String> = c.set("allcrawls");
    rng.shuffle(&mut crawls);
    let cut = 1 + rng.below(crawls.len() as u64) as usize;
    let (removed, kept) = crawls.split_at(cut);
    let without = |mut parts: Vec<Part>, removed: &[String]| {
        parts.retain(|part| !removed.contains(&part.crawl));
        parts
    };
    let kept_parts = without(parts, removed);

    let line = if !kept.is_empty() && rng.chance(50) {
        format!("RETAIN PURGE {}", kept.join(" "))
    } else {
        format!("REMOVE {}", removed.join(" "))
    };
    let reply = c.ok(&line).ints();

    let after = c.plain_hash("allhashes");
    assert_eq!(after, owners_of(&kept_parts), "owners after {line}");
    let reowned = after
        .iter()
        .filter(|(hash, owner)| before[*hash] != **owner);
    let figures = [cut, before.len() - after.len(), reowned.count()];
    assert_eq!(reply, figures.map(|n| n as i64), "reply of {line}");

    for part in &kept_parts {
        write_part(q, part, false);
    }
    assert_eq!(after, q.plain_hash("allhashes"), "rebuild");
    assert_eq!(c.counts("allcounts"), q.counts("allcounts"), "rebuild");
    for set in ["allcrawls", "uncommittedcrawls", "src:d"] {
        assert_eq!(c.set(set), q.set(set), "{set}");
    }
    for crawl in removed {
        let mut keys = c.plain_view().names();
        keys.retain(|key| key.contains(crawl.as_str()));
        assert_eq!(keys, [""; 0], "keys of {crawl}, which was removed");
    }
    c.assert_consistent();

    // The commit order survives the removal, so that the next removal also finds the right holders.
    if let [next, ..] = kept {
        c.ok(format!("REMOVE {next}"));
        let rest = owners_of(&without(kept_parts, std::slice::from_ref(next)));
        assert_eq!(c.plain_hash("allhashes"), rest, "second removal");
        c.assert_consistent();
    }
}

#[test]
fn removal_equals_rebuild_of_the_remaining_crawls() {
    let (server, mut c) = DedupeIndex::start(P);
    let mut rng = Rng::new("removal_equals_rebuild_of_the_remaining_crawls");
    for _ in 0..60 {
        removal_equals_rebuild(&mut c, &mut DedupeIndex::of(&server, "q:"), &mut rng);
    }
}

#[test]
fn removal_finds_holders_that_plain_clients_committed() {
    // The order of commits by plain clients is unknown. Therefore either commands write all crawls
    // except the last, or all crawls have separate hashes, so that only one holder remains.
    let (_server, mut c) = DedupeIndex::start(P);
    let part = |crawl: &str, hashes: std::ops::Range<u64>| Part {
        crawl: crawl.to_owned(),
        hashes: hashes.collect(),
        revisits: vec![],
        wacz: format!("{crawl}.wacz"),
    };
    for first_plain in [true, false] {
        for second_plain in [true, false] {
            c.plain("FLUSHALL");
            write_part(&mut c, &part("a", 0..20), first_plain);
            write_part(&mut c, &part("b", 10..30), second_plain);
            let removed = c.ok("REMOVE a").ints();
            assert_eq!(removed, [1, 10, 10], "{first_plain}, {second_plain}");
            assert_eq!(c.owners([0, 10, 20]), ["-", "b", "b"]);
            assert_eq!(c.counts("allcounts"), c.counts("h:b:counts"));
            assert_eq!(c.set("src:d"), ["b.wacz"]);
            c.assert_consistent();
        }
    }
}

fn three_crawls(c: &mut DedupeIndex) {
    for (id, hashes) in [("a", 0..20), ("b", 10..30), ("c", 25..40)] {
        c.wacz(id, &format!("{id}.wacz"));
        c.committed(id, hashes);
    }
}

#[test]
fn retain_without_purge_recomputes_removed_crawls_each_time() {
    let (_server, mut c) = DedupeIndex::start(P);
    three_crawls(&mut c);
    let tracked = |c: &mut DedupeIndex| {
        let all = c.hash("allcounts");
        ["removedCrawls", "removedCrawlSize"].map(|field| all[field].clone())
    };
    assert_eq!(c.ok("RETAIN a").ints(), [2, 0, 0]);
    assert_eq!(tracked(&mut c), ["2", "200"]);
    assert_eq!(c.ok("RETAIN a").ints(), [2, 0, 0]);
    assert_eq!(tracked(&mut c), ["2", "200"]);
    assert_eq!(c.ok("RETAIN a c").ints(), [1, 0, 0]);
    assert_eq!(tracked(&mut c), ["1", "100"]);
    assert_eq!(c.owners([0, 15, 22, 35]), ["a", "a", "b", "c"]);
    assert_eq!(c.ok("RETAIN PURGE a c").ints(), [1, 5, 5]);
    assert_eq!(tracked(&mut c), ["0", "0"]);
    assert_eq!(c.owners([0, 15, 22, 27, 35]), ["a", "a", "-", "c", "c"]);
    assert_eq!(c.set("src:d"), ["a.wacz", "c.wacz"]);
}

#[test]
fn retain_of_an_unknown_crawl_changes_nothing() {
    let (server, mut c) = DedupeIndex::start(P);
    three_crawls(&mut c);
    let before = server.snapshot();
    c.refused("RETAIN a nobody", "NOCRAWL nobody");
    c.refused("RETAIN PURGE a nobody", "NOCRAWL nobody");
    server.snapshot().assert_same(&before, "refused RETAIN");
}

#[test]
fn retain_leaves_uncommitted_crawls_alone() {
    let (_server, mut c) = DedupeIndex::start(P);
    three_crawls(&mut c);
    c.add("open", 50..60);
    c.ok("RETAIN PURGE b");
    assert_eq!(c.set("uncommittedcrawls"), ["open"]);
    assert_eq!(c.commit("open"), (10, 0));
}

#[test]
fn remove_refuses_unknown_and_uncommitted_crawls() {
    let (server, mut c) = DedupeIndex::start(P);
    three_crawls(&mut c);
    c.add("open", 50..60);
    let before = server.snapshot();
    c.refused("REMOVE a nobody", "NOCRAWL");
    c.refused("REMOVE a open", "UNCOMMITTED");
    server.snapshot().assert_same(&before, "refused REMOVE");
    c.ok("REMOVE a");
    c.refused("REMOVE a", "NOCRAWL");
}

#[test]
fn removed_crawl_id_can_be_used_again() {
    let (_server, mut c) = DedupeIndex::start(P);
    three_crawls(&mut c);
    c.ok("REMOVE a");
    assert_eq!(c.committed("a", 0..15), (10, 5));
    assert_eq!(c.owners([0, 12]), ["a", "b"]);
    c.assert_consistent();
}

#[test]
fn removing_everything_leaves_an_empty_index() {
    let (_server, mut c) = DedupeIndex::start(P);
    three_crawls(&mut c);
    assert_eq!(c.ok("REMOVE a b c").ints(), [3, 40, 0]);
    assert_eq!(c.plain("EXISTS p:allhashes p:allcrawls p:src:d"), int(0));
    assert_eq!(c.counts("allcounts").len(), 0);
    c.assert_consistent();
}

#[test]
fn uncommitted_part_of_a_removed_crawl_is_removed_too() {
    let (_server, mut c) = DedupeIndex::start(P);
    three_crawls(&mut c);
    c.add("a", 100..110);
    let reply = c.call("REMOVE a");
    // Either the whole crawl is removed, or the command is refused. The removal must not be
    // partial.
    if reply.is_error() {
        assert_eq!(c.ok("CANCEL a"), int(10));
        c.ok("REMOVE a");
    }
    let keys = c.plain_view().names();
    assert!(!keys.iter().any(|key| key.starts_with("p:h:a")), "{keys:?}");
    assert_eq!(c.set("uncommittedcrawls"), [""; 0]);
    let merged = c.plain_hash("allhashes");
    assert_eq!(merged.get(&sha256_of(100)), None);
    assert_eq!(merged[&sha256_of(12)], "b");
    c.assert_consistent();
}

#[test]
fn removal_outlives_its_client_and_can_be_joined() {
    let (_server, mut c) = DedupeIndex::in_slices(P);
    for (id, first) in [("a", 0), ("b", 20_000)] {
        c.committed(id, first..first + 40_000);
    }
    c.begun("REMOVE a").hang_up();
    assert_eq!(c.ok("REMOVE a").ints(), [1, 20_000, 20_000]);
    assert_eq!(c.indexed(), 40_000);
    assert_eq!(c.plain("EXISTS p:removing"), int(0));
    assert!(c.plain_hash("h:a").is_empty());
    c.assert_consistent();
}

#[test]
fn crawl_under_removal_takes_no_new_records() {
    let (_server, mut c) = DedupeIndex::in_slices(P);
    c.committed("a", 0..40_000);
    let mut remover = c.begun("REMOVE a");
    c.refused("ADD a @7", "REMOVING");
    assert_eq!(remover.recv().ints(), [1, 40_000, 0]);
    assert_eq!(c.add("a", [7]), 1);
    c.assert_consistent();
}

#[test]
fn name_of_a_wacz_that_another_crawl_has_too_stays() {
    let (_server, mut c) = DedupeIndex::start(P);
    for (n, id) in (0..).zip(["a", "b", "c"]) {
        c.wacz(id, "same.wacz");
        c.wacz(id, &format!("{id}.wacz"));
        c.committed(id, [n]);
    }
    c.ok("REMOVE a");
    assert_eq!(c.set("src:d"), ["b.wacz", "c.wacz", "same.wacz"]);
    c.ok("RETAIN PURGE c");
    assert_eq!(c.set("src:d"), ["c.wacz", "same.wacz"]);
    c.ok("REMOVE c");
    assert_eq!(c.set("src:d"), [""; 0]);
    c.assert_consistent();
}

/// Two crawls open a file with the same name. The first crawl is committed before its file is
/// closed.
fn same_name_in_two_crawls(c: &mut DedupeIndex) {
    for id in ["a", "b"] {
        c.add(id, [1]);
        c.ok(format!("WACZOPEN {id} same.wacz"));
    }
    c.commit("a");
    finish_same_name(c, "b");
}

fn finish_same_name(c: &mut DedupeIndex, id: &str) {
    c.wacz(id, "same.wacz");
    c.commit(id);
}

#[test]
fn name_of_a_wacz_stays_when_a_crawl_that_never_finished_it_is_removed() {
    let (_server, mut c) = DedupeIndex::start(P);
    same_name_in_two_crawls(&mut c);
    c.ok("REMOVE a");
    assert_eq!(c.set("src:d"), ["same.wacz"]);
    c.ok("REMOVE b");
    assert_eq!(c.set("src:d"), [""; 0]);
    c.assert_consistent();
}

#[test]
fn name_of_a_wacz_stays_with_a_crawl_that_finished_it_between_two_commits() {
    let (_server, mut c) = DedupeIndex::start(P);
    same_name_in_two_crawls(&mut c);
    finish_same_name(&mut c, "a");
    c.ok("REMOVE b");
    assert_eq!(c.set("src:d"), ["same.wacz"]);
    c.ok("REMOVE a");
    assert_eq!(c.set("src:d"), [""; 0]);
    c.assert_consistent();
}
