//! What a commit writes into the append-only file, and sends to replicas.

use std::fs;
use std::path::Path;

use redis_tests::{Options, Server};

use super::commit::commit_one;
use super::corpus::Corpus;
use super::documented;
use super::scene::add_one;
use crate::Plan;
use crate::load::Connection;
use crate::report::{Findings, Goal, Row, say};
use crate::series::{Series, grouped};

/// Measures one commit on each storage, and the documented one.
pub fn measure(plan: &Plan, corpus: &Corpus) -> Findings {
    say("append-only file of a commit");
    let size = plan.scaled(100_000);
    let crawl = &corpus.crawls(size, 1, 0)[0];
    let start = |options: Options| {
        // Rewriting it would make it smaller meanwhile.
        let options = options.aof_unsynced(true);
        options
            .args(&["--auto-aof-rewrite-percentage", "0"])
            .start()
    };
    let ours = |options: Options| {
        let server = start(options);
        add_one(&server, corpus, crawl, 0);
        let before = appended(&server);
        let reply = commit_one(&server, crawl).1;
        assert_eq!(reply.ints(), [size as i64, 0]);
        (appended(&server) - before) as f64 / size as f64
    };
    let plain = ours(Options::new().module_args(&["dedupe-storage", "plain"]));
    let packed = ours(Options::new().module_args(&["dedupe-storage", "packed"]));
    let server = start(Options::new().no_module());
    documented::fill(&server, corpus, std::slice::from_ref(crawl), 0);
    let before = appended(&server);
    documented::commit(&mut Connection::tcp(&server), &crawl.id);
    let theirs = (appended(&server) - before) as f64 / size as f64;

    let mut found = Findings::default();
    for (storage, bytes) in [("plain keys", plain), ("packed", packed)] {
        found.rows.push(Row {
            id: "",
            what: format!("append-only file per committed hash, {storage}"),
            against: "the documented client loop".into(),
            ours: format!("{bytes:.0} B"),
            theirs: format!("{theirs:.0} B"),
            result: Series(vec![theirs / bytes]),
            goal: Goal::Known,
        });
    }
    found.note("Append-only file.", format!(
        "Growth of the file by the commit of a crawl of {} new hashes; replicas are sent the same. The documented loop writes \
         an `HSETNX` for each hash, {theirs:.0} B; on plain keys many hashes share an `HSET`, {plain:.0} B; packed, where a \
         replica has the records in the crawl's own keys, what is written is in essence the digest, {packed:.0} B.",
        grouped(size),
    ), &[
        "make bench ONLY=aof",
        "ls -l appendonlydir    # before and after DEDUPE.COMMIT",
    ]);
    found
}

/// Bytes of all files of the server's append-only file.
fn appended(server: &Server) -> u64 {
    bytes_below(&server.dir().join("appendonlydir"))
}

fn bytes_below(folder: &Path) -> u64 {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let sizes = files.filter_map(|file| Some(file.metadata().ok()?.len()));
    sizes.sum()
}
