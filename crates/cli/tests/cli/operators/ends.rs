//! Tests `crawlspace dedupe commit`, `cancel`, `remove` and `retain`: the end of crawls.

use redis_tests::{Server, assert_contains, assert_lacks, assert_starts, int, ok, plain_hash};
use serde_json::json;

use crate::operators::dedupe::dedupe;
use crate::operators::stage::{INDEX, add, index};

#[test]
fn removal_lists_dependents_and_asks_for_confirmation() {
    let server = Server::start();
    let mut c = index(&server);
    let refused = dedupe(&server, "remove 2026-02");
    assert_eq!((refused.status, &refused.out[..]), (2, ""), "{refused:?}");
    for part in [
        "crawl 2026-02: committed, 3 hashes, 3 records, 5.2 MB in 1 WACZ file\n",
        "crawl 2026-03 has 2 revisits whose originals are in 2026-02",
        "--yes",
    ] {
        assert!(refused.errors.contains(part), "{part}: {}", refused.errors);
    }
    assert_eq!(ok!(c, "SCARD", format!("{INDEX}allcrawls")), int(2));

    let done = dedupe(&server, "remove 2026-02 --yes --json").exits(0);
    let expected = json!({"crawls": 1, "dropped": 2, "reowned": 1});
    assert_eq!(done.object(), expected);
    assert_contains(&done.errors, "2 revisits");
    assert_eq!(
        ok!(c, "SMEMBERS", format!("{INDEX}allcrawls")).texts(),
        ["2026-03"]
    );

    // Impossible requests are refused before the confirmation.
    for (words, reason) in [
        ("remove 2026-02", "NOCRAWL"),
        ("remove 2026-04", "drop it with dedupe cancel"),
        ("cancel 2026-03", "remove it with dedupe remove"),
        ("cancel 2026-09", "NOCRAWL"),
    ] {
        let refused = dedupe(&server, words).exits(1);
        assert_contains(&refused.errors, reason);
    }
    // Crawls that are removed together are not dependents of each other.
    let both = dedupe(&server, "remove 2026-03 2026-03 --yes").exits(0);
    assert_lacks(&both.errors, "complete replay");
}

#[test]
fn retain_counts_or_purges_the_other_crawls() {
    let server = Server::start();
    let mut c = index(&server);
    let counted = dedupe(&server, "retain 2026-03 --json").exits(0);
    let expected = json!({"purged": false, "crawls": 1, "dropped": 0, "reowned": 0});
    assert_eq!(counted.object(), expected);
    assert_eq!(dedupe(&server, "stats --json").object()["removedCrawls"], 1);

    let refused = dedupe(&server, "retain --purge 2026-03").exits(2);
    assert_contains(&refused.errors, "crawl 2026-02 is removed, with 3 hashes");
    assert_contains(&refused.errors, "crawl 2026-03 has 2 revisits");
    assert_eq!(ok!(c, "SCARD", format!("{INDEX}allcrawls")), int(2));
    let purged = dedupe(&server, "retain --purge 2026-03 --yes").exits(0);
    assert_starts(&purged.out, "1 crawl removed\n");
    assert_eq!(ok!(c, "SCARD", format!("{INDEX}allcrawls")), int(1));
    // Nothing else is removed, so there is no confirmation.
    dedupe(&server, "retain --purge 2026-03").exits(0);
    dedupe(&server, "retain --purge 2026-09 --yes").exits(1);
    dedupe(&server, "retain").exits(2);
}

#[test]
fn crawls_are_committed_and_cancelled() {
    let server = Server::start();
    let mut c = index(&server);
    let done = dedupe(&server, "commit 2026-09 2026-04 --json").exits(1);
    assert_contains(&done.errors, "NOCRAWL");
    let expected = json!({"crawl": "2026-04", "new": 1, "known": 0});
    assert_eq!(done.object(), expected);

    add(&mut c, "2026-04", 20..22);
    let refused = dedupe(&server, "cancel 2026-04").exits(2);
    assert_contains(
        &refused.errors,
        "will lose everything added since its last commit",
    );
    let done = dedupe(&server, "cancel 2026-04 --yes").exits(0);
    assert_contains(&done.out, "crawl 2026-04: cancelled");
    assert_eq!(plain_hash(&mut c, INDEX, "h:2026-04").len(), 1);
}
