//! A running crawler, which sends the documented commands one record after the other.

use super::capture::Kind;
use super::crawler::Crawl;
use super::folder::Entry;
use crate::ok;
use crate::wire::Wire;

/// Runs a crawl against the index with this prefix, from its first record to its commit. The crawl
/// looks up each payload, adds the record or the revisit, opens each WACZ file at its first record
/// and closes it after its last.
///
/// # Panics
/// Panics if the server returns an error or an unexpected look-up result.
pub fn crawl(c: &mut Wire, p: &str, crawl: &Crawl, files: &[Entry]) {
    let id = &crawl.id;
    let mut opened: Vec<Option<i64>> = vec![None; crawl.waczs.len()];
    // The files are opened in the order of their numbers, even if they stay empty.
    let mut open = |c: &mut Wire, wacz: usize| {
        for (name, index) in crawl.waczs.iter().zip(&mut opened).take(wacz + 1) {
            index.get_or_insert_with(|| ok!(c, "DEDUPE.WACZOPEN", p, id, name).int());
        }
        opened[wacz].expect("it was opened just now")
    };
    for capture in &crawl.captures {
        let index = open(c, capture.wacz);
        let hash = capture.hash();
        match capture.kind {
            Kind::Other => (),
            Kind::Response => {
                let (date, url) = (&capture.date, &capture.url);
                ok!(c, "DEDUPE.ADD", p, id, hash, index, date, url, capture.size);
            }
            Kind::Revisit => {
                let found = ok!(c, "DEDUPE.LOOKUP", p, "CRAWL", id, hash);
                assert!(!found.items()[0].is_nil(), "{capture:?} is known");
                let name = &crawl.waczs[capture.wacz];
                ok!(c, "DEDUPE.REVISIT", p, id, "REF", name, hash, capture.size);
            }
        }
    }
    for (wacz, file) in files.iter().enumerate() {
        let index = open(c, wacz);
        let (name, hash, size) = (&file.name, &file.hash, file.size);
        ok!(c, "DEDUPE.WACZCLOSE", p, id, index, name, hash, size);
    }
    ok!(c, "DEDUPE.COMMIT", p, id);
}
