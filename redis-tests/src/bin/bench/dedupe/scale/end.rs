//! Measurements of the full index: save, load, a fork during writes, and a removal.

use std::time::Duration;

use redis_tests::{Server, ok, within};

use super::{CRAWLS, Pair};
use crate::Plan;
use crate::dedupe::commit::{commit_one, requests};
use crate::dedupe::corpus::{Corpus, Crawl};
use crate::dedupe::file::save_seconds;
use crate::dedupe::memory::parts;
use crate::dedupe::removal::remove;
use crate::dedupe::scene::{Footprint, add_one, hashes, rdb_bytes, reset};
use crate::others::Loaded;
use crate::report::say;
use crate::told::slice_longest;

/// Results for the full index.
#[derive(Default)]
pub struct End {
    /// Number of hashes of the full index.
    pub hashes: u64,
    /// Memory by component, as reported by the server.
    pub parts: String,
    /// Seconds to save and to load.
    pub save: f64,
    pub load: f64,
    /// Size of the RDB file in bytes.
    pub file: f64,
    /// Memory growth from the empty server to the server that has loaded the file.
    pub loaded: Footprint,
    /// Resident bytes at the fork, duration of the fork in seconds, and bytes copied while a crawl
    /// was committed and the child was saving.
    pub forked: f64,
    pub fork: f64,
    pub copied: f64,
    /// Number of hashes of the crawl that was committed during the save, and duration of its commit
    /// in seconds.
    pub meanwhile: u64,
    pub commit: f64,
    /// Removal of one crawl under the load of other clients.
    pub removal: Loaded,
    /// Number of removed hashes.
    pub removed: i64,
    /// Longest slice in milliseconds since the server loaded its file.
    pub slice: f64,
}

impl End {
    /// Runs all measurements, which change the index.
    pub fn measure(plan: &Plan, corpus: &Corpus, pair: &mut Pair, crawls: &[Crawl]) -> End {
        let server = &mut pair.packed;
        let size = hashes(server) as u64;
        let mut end = End {
            hashes: size,
            ..End::default()
        };
        say("scale: RDB file");
        let grown = Footprint::of(server).since(pair.empty[0], 1);
        end.parts = parts(server, grown.used / size as f64, size);
        end.save = save_seconds(server);
        end.file = rdb_bytes(server) as f64;
        end.load = reset(server);
        assert_eq!(hashes(server) as u64, size);
        end.loaded = Footprint::of(server).since(pair.empty[0], 1);

        say("scale: commit while a child saves");
        let extra = &crawls[CRAWLS as usize];
        end.meanwhile = extra.len();
        add_one(server, corpus, extra, CRAWLS);
        end.forked = Footprint::of(server).resident;
        ok!(server.wire(), "BGSAVE");
        end.commit = commit_one(server, extra).0;
        wait_for_child(server);
        end.fork = server.info_number("latest_fork_usec") as f64 / 1e6;
        end.copied = server.info_number("rdb_last_cow_size") as f64;

        for rep in plan.repeat("scale: removal") {
            // Each repetition removes another crawl. The other clients do not look up its hashes.
            let number = CRAWLS as usize - rep;
            let gone = &crawls[number];
            let asking = requests(corpus, gone.own.start, server);
            let removed = &mut end.removed;
            end.removal.measure(server, asking, |server| {
                let (seconds, reply) = remove(server, gone);
                *removed = reply[1];
                seconds
            });
        }
        end.slice = slice_longest(server);
        end
    }
}

fn wait_for_child(server: &Server) {
    let ended = within(Duration::from_secs(600), || {
        (server.info_number("rdb_bgsave_in_progress") == 0).then_some(())
    });
    assert!(ended.is_some(), "the child saves in ten minutes");
    let status = server.info("rdb_last_bgsave_status");
    assert_eq!(status.as_deref(), Some("ok"), "the child saved");
}
