//! Helpers for tests of `DEDUPE.PACK` and `DEDUPE.UNPACK`: parse their replies, and collect the
//! replies that must not change.

use crate::corpus::sha256_of;
use crate::crawler::{add, commit};
use crate::ok;
use crate::wire::{Reply, Wire, Word, bulk};

/// Parses the reply of `DEDUPE.PACK` or `DEDUPE.UNPACK`: the storage, and the numbers of fields of
/// the merged index and of records that it moved.
pub fn moved(reply: &Reply) -> (String, i64, i64) {
    assert!(reply.field("memory").int() >= 0, "{reply:?}");
    let (hashes, records) = (reply.field("hashes").int(), reply.field("records").int());
    (reply.field("storage").text(), hashes, records)
}

/// Creates a small index: crawls `a` (hashes 0 to 19) and `b` (10 to 29, continued up to 34), and
/// an uncommitted crawl (33 to 39) with a revisit.
pub fn small_index(c: &mut Wire, p: &str) {
    for (id, hashes) in [("a", 0..20), ("b", 10..30)] {
        add(c, p, id, hashes);
        let name = format!("{id}.wacz");
        ok!(c, "DEDUPE.WACZOPEN", p, id, name);
        ok!(c, "DEDUPE.WACZCLOSE", p, id, 0, name, "sha256:ab", 100);
        commit(c, p, id);
    }
    add(c, p, "b", 28..35);
    add(c, p, "open", 33..40);
    ok!(c, "DEDUPE.REVISIT", p, "open", "REF", "u", sha256_of(1), 5);
}

/// Returns the replies of every read command on a [`small_index`], except replies that show its
/// storage.
pub fn replies_of(c: &mut Wire, p: &str) -> Vec<Reply> {
    let mut lookup = ["DEDUPE.LOOKUP", p, "CRAWL", "open", "WITHWACZ"]
        .map(Word::word)
        .to_vec();
    lookup.extend((0..45).map(|n| sha256_of(n).word()));
    let mut replies = vec![c.expect_ok(&lookup)];
    for words in [
        &["DEDUPE.WACZLIST", p, "a"][..],
        &["DEDUPE.REQUIRES", p, "open"],
        &["DEDUPE.REQUIRES", p, "REF", "u"],
        &["DEDUPE.REQUIREDBY", p, "a"],
        &["DEDUPE.CHECK", p],
    ] {
        replies.push(c.expect_ok(words));
    }
    for id in ["a", "b", "open"] {
        let stats = ok!(c, "DEDUPE.STATS", p, id).pairs();
        let steady = stats
            .into_iter()
            .filter(|(name, _)| *name != bulk("memory"));
        replies.push(Reply::Map(steady.collect()));
    }
    let mut crawls = ok!(c, "DEDUPE.CRAWLS", p).pairs();
    crawls.sort();
    replies.push(Reply::Map(crawls));
    replies
}
