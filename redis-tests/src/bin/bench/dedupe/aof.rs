//! Bytes that a commit writes to the append-only file and sends to replicas.

use redis_tests::{Options, Server};

use super::commit::commit_one;
use super::corpus::Corpus;
use super::documented;
use super::scene::add_one;
use crate::Plan;
use crate::load::{Client, Connection, appended};
use crate::report::{Findings, Goal, note, say, table};
use crate::series::grouped;

/// Measures one commit on each storage, and the documented sequence.
pub fn measure(plan: &Plan, corpus: &Corpus) -> Findings {
    say("append-only file of a commit");
    let size = plan.scaled(100_000);
    let crawl = &corpus.crawls(size, 1, 0)[0];
    let start = |options: Options| {
        // A rewrite during the measurement would shrink the file.
        let options = options.aof_unsynced(true);
        options
            .args(&["--auto-aof-rewrite-percentage", "0"])
            .start()
    };
    let growth = |server: &Server, commit: &dyn Fn()| {
        let before = appended(server);
        commit();
        (appended(server) - before) as f64 / size as f64
    };
    let [plain, packed] = ["plain", "packed"].map(|storage| {
        let server = start(Options::new().module_args(&["dedupe-storage", storage]));
        add_one(&server, corpus, crawl, 0);
        let commit = || assert_eq!(commit_one(&server, crawl).1.ints(), [size as i64, 0]);
        growth(&server, &commit)
    });
    let server = start(Options::new().no_module());
    documented::fill(&server, corpus, std::slice::from_ref(crawl), 0);
    let theirs = growth(&server, &|| {
        documented::commit(&mut Client::over(Connection::tcp(&server)), &crawl.id);
    });

    let mut found = Findings::default();
    for (storage, bytes) in [("plain keys", plain), ("packed", packed)] {
        table! { found;
            "", format!("append-only file per committed hash, {storage}"), "the documented client loop",
                format!("{bytes:.0} B"), format!("{theirs:.0} B"), theirs / bytes, Goal::Known;
        }
    }
    note!(found, "aof.md"; size = grouped(size), theirs = theirs, plain = plain, packed = packed);
    found
}
