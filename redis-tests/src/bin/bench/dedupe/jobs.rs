//! D10: long index commands that no other row measures.

use redis_tests::ok;

use super::corpus::Corpus;
use super::scene::{add, start_packed, start_plain_storage};
use crate::Plan;
use crate::report::{Findings, note, say};
use crate::series::grouped;
use crate::slices::Slices;

/// Measures the jobs on both storages.
pub fn measure(plan: &Plan, corpus: &Corpus) -> Findings {
    let size = plan.scaled(1_000_000);
    let crawls = corpus.crawls(size, 10, 5);
    let last = &crawls[9].id;
    let kept: Vec<&str> = crawls[..5].iter().map(|crawl| &crawl.id[..]).collect();
    let retain = format!("DEDUPE.RETAIN '' PURGE {}", kept.join(" "));
    let mut slices = Slices::default();
    for _ in plan.repeat("D10: jobs on an index") {
        let servers = [
            ("plain keys", start_plain_storage()),
            ("packed", start_packed()),
        ];
        for (storage, mut server) in servers {
            say(&format!("D10: {storage}"));
            add(&server, corpus, &crawls, 9);
            let mut run = |name: &str, command: &str| {
                slices.run(&mut server, &format!("`{name}`, {storage}"), command);
            };
            run("CANCEL", &format!("DEDUPE.CANCEL '' {last}"));
            run("STATS", "DEDUPE.STATS ''");
            run("CHECK", "DEDUPE.CHECK ''");
            run("REPAIR", "DEDUPE.REPAIR ''");
            run("URLS ON", "DEDUPE.URLS '' ON");
            run("CHECK` with `URLS", "DEDUPE.CHECK ''");
            run("URLS OFF", "DEDUPE.URLS '' OFF");
            run("RETAIN PURGE", &retain);
            let left = ok!(server.wire(), "SCARD", "allcrawls").int();
            assert_eq!(left, 5, "five crawls were retained");
        }
    }
    let mut found = Findings::default();
    slices.rows(&mut found);
    note!(found, "jobs.md"; size = grouped(size));
    found
}
