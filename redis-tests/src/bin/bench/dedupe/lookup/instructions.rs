//! D0: number of instructions that the server executes for a look-up in a packed index, and for an
//! `HGET`.

use redis_tests::{Options, Server};

use super::draws;
use super::pipelined::{DEPTH, HGET, LOOKUP, LOOKUP_TEXT};
use crate::Plan;
use crate::callgrind::{Callgrind, RUN, RUNS, shown};
use crate::dedupe::corpus::{Corpus, Crawl};
use crate::dedupe::{documented, scene};
use crate::load::{Batches, encode};
use crate::report::{Findings, note, say, table};
use crate::series::grouped;
use crate::targets;

/// Number of hashes in the index. The server's hash table does not grow after the last one.
const HASHES: u64 = 30_000;

/// The measured replies, with the number of strings in them: five fields, two of which are integers,
/// one string, an owner, and null replies.
const FIELDS: (&[&[u8]], usize) = (LOOKUP, 3);
const RECORD: (&[&[u8]], usize) = (LOOKUP_TEXT, 1);
const OWNER: (&[&[u8]], usize) = (HGET, 1);
const NO_FIELDS: (&[&[u8]], usize) = (LOOKUP, 0);
const NO_OWNER: (&[&[u8]], usize) = (HGET, 0);

/// Measures known and unknown hashes.
pub fn measure(plan: &Plan, corpus: &Corpus) -> Findings {
    let crawls = corpus.crawls(HASHES, 10, 0);
    let start = |what: &str, options: Options, fill: fn(&Server, &Corpus, &[Crawl], usize)| {
        say(&format!("D0: instructions, {what}"));
        let callgrind = Callgrind::start(plan, options);
        fill(&callgrind.server, corpus, &crawls, crawls.len());
        callgrind
    };
    let packed = Options::new().module_args(&["dedupe-storage", "packed"]);
    let packed = start("packed", packed, scene::add);
    let plain = start("`HGET`", Options::new().no_module(), documented::fill);
    let mut found = Findings::default();
    for (what, against, ours, theirs, goal) in redis_tests::rows![
        "`LOOKUP` of a known hash", "`HGET` of a known field", FIELDS, OWNER, targets::KNOWN_LOOKUP;
        "`LOOKUP … FORMAT RECORD` of a known hash", "`HGET` of a known field", RECORD, OWNER, targets::RECORD_LOOKUP;
        "`LOOKUP` of an unknown hash", "`HGET` of an unknown field", NO_FIELDS, NO_OWNER, targets::UNKNOWN_LOOKUP;
    ] {
        let [ours, theirs] = [(&packed, ours), (&plain, theirs)]
            .map(|(callgrind, ask)| each(callgrind, corpus, DEPTH, ask));
        table! { found;
            "D0", format!("instructions of {what}, packed"), against, shown(ours), shown(theirs), ours.round(), goal;
        }
    }
    let alone = |callgrind, ask| shown(each(callgrind, corpus, 1, ask));
    note!(found, "instructions.md";
        runs = RUNS, drawn = RUN, hashes = grouped(HASHES), depth = DEPTH,
        fields = alone(&packed, FIELDS), hget = alone(&plain, OWNER), ping = shown(plain.ping()));
    found
}

/// Returns the instructions of a request that consists of these arguments and a hash drawn at
/// random. Sends `depth` requests at a time, and checks the number of strings in each reply.
fn each(
    callgrind: &Callgrind,
    corpus: &Corpus,
    depth: usize,
    (head, strings): (&[&[u8]], usize),
) -> f64 {
    let mut draws = draws(corpus, HASHES);
    draws.offset = if strings == 0 { HASHES } else { 0 };
    let batches = Batches::new(RUN / depth, depth, |out| {
        encode(out, &[head, &[&draws.hash()]].concat());
    });
    callgrind.lowest(&batches, |reply| {
        assert_eq!(reply.texts.len(), strings, "a reply to {:?}", head[0]);
    })
}
