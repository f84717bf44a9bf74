//! Servers with the same index: on plain keys, packed, and without the module.

use std::fs;

use redis_tests::{Options, Reply, Server, ok, until};

use super::corpus::{Corpus, Crawl};
use super::documented;
use crate::load::Feeder;
use crate::machine::resident;

/// Name of the peer: the documented layout with plain commands.
pub const DOCUMENTED: &str = "the documented layout by plain commands";

/// Three servers: with the module and plain storage, with the module and packed storage, and
/// without the module.
pub struct Scene {
    /// Server with the module and plain storage.
    pub ours: Server,
    /// Server with the module and packed storage.
    pub packed: Server,
    /// Server without the module.
    pub plain: Server,
}

impl Scene {
    /// Starts three servers without data.
    pub fn empty() -> Scene {
        Scene {
            ours: start_plain_storage(),
            packed: start_packed(),
            plain: start_plain(),
        }
    }

    /// Returns the three servers: plain storage, packed storage, without the module.
    pub fn servers(&self) -> [&Server; 3] {
        [&self.ours, &self.packed, &self.plain]
    }

    /// Returns the servers with the module: plain storage, packed storage.
    pub fn storages(&mut self) -> [&mut Server; 2] {
        [&mut self.ours, &mut self.packed]
    }

    /// Writes the crawls to all servers with the commands of each server, and commits the first
    /// `committed` crawls.
    pub fn fill(&mut self, corpus: &Corpus, crawls: &[Crawl], committed: usize) {
        add(&self.ours, corpus, crawls, committed);
        add(&self.packed, corpus, crawls, committed);
        documented::fill(&self.plain, corpus, crawls, committed);
        let [ours, plain] = [&self.ours, &self.plain].map(documented::index_digest);
        assert_eq!(ours, plain, "both servers hold the same index");
        let last = crawls.last().map_or(0, |crawl| crawl.own.end);
        self.compare_storages(corpus, last);
    }

    /// Checks that both storages return equal replies, for counts and for random hashes below
    /// `limit`.
    pub fn compare_storages(&self, corpus: &Corpus, limit: u64) {
        assert_eq!(hashes(&self.ours), hashes(&self.packed), "as many hashes");
        for draw in 0..20 {
            let hash = |n| corpus.hash(corpus.bits(n, 2) % limit);
            let some: Vec<_> = (draw * 500..(draw + 1) * 500).map(hash).collect();
            let [plain, packed] = [&self.ours, &self.packed].map(|server| records(server, &some));
            assert_eq!(plain, packed, "the same records in both storages");
        }
    }

    /// Saves all servers, so that a later repetition can restore this state.
    pub fn save(&self) {
        for server in self.servers() {
            ok!(server.wire(), "SAVE");
        }
    }
}

fn quiet(options: Options) -> Server {
    options.args(&["--hz", "10"]).start()
}

/// Starts a server with the module and plain storage.
pub fn start_plain_storage() -> Server {
    quiet(Options::new().module_args(&["dedupe-storage", "plain"]))
}

/// Starts a server with the module and packed storage.
pub fn start_packed() -> Server {
    quiet(Options::new().module_args(&["dedupe-storage", "packed"]))
}

/// Starts a server without the module.
pub fn start_plain() -> Server {
    quiet(Options::new().no_module())
}

/// Returns the reply of `DEDUPE.LOOKUP` for these hashes.
pub fn records(server: &Server, hashes: &[impl AsRef<[u8]>]) -> Reply {
    let mut words: Vec<&[u8]> = vec![b"DEDUPE.LOOKUP", b""];
    words.extend(hashes.iter().map(AsRef::as_ref));
    server.wire().expect_ok(&words)
}

/// Returns the number of hashes in the merged index, in any storage.
pub fn hashes(server: &Server) -> i64 {
    match ok!(server.wire(), "TYPE", "allhashes").text().as_str() {
        "hash" => ok!(server.wire(), "HLEN", "allhashes").int(),
        _ => ok!(server.wire(), "DEDUPE.STATS", "").field("hashes").int(),
    }
}

/// Writes crawls with `DEDUPE.ADD`, 50 records per call, and commits the first `committed`.
pub fn add(server: &Server, corpus: &Corpus, crawls: &[Crawl], committed: usize) {
    for (number, crawl) in crawls.iter().enumerate() {
        add_one(server, corpus, crawl, number as u64);
        if number < committed {
            ok!(server.wire(), "DEDUPE.COMMIT", "", crawl.id);
        }
    }
}

/// Writes one crawl with `DEDUPE.ADD`, 50 records per call.
pub fn add_one(server: &Server, corpus: &Corpus, crawl: &Crawl, number: u64) {
    let mut feeder = Feeder::new(server);
    let hashes: Vec<u64> = crawl.hashes().collect();
    for chunk in hashes.chunks(50) {
        let record = |&n: &u64| (corpus.hash(n), corpus.record(n, number));
        let records: Vec<_> = chunk.iter().map(record).collect();
        let mut words: Vec<&[u8]> = vec![b"DEDUPE.ADD", b"", crawl.id.as_bytes()];
        for (hash, record) in &records {
            words.push(hash);
            let fields = [&record.wacz, &record.date, &record.url, &record.size];
            words.extend(fields.map(|field| field.as_bytes()));
        }
        feeder.request(&words);
    }
    feeder.finish();
}

/// Kills a server and restarts it from its saved data. Returns the load time that the server reports, in seconds.
pub fn reset(server: &mut Server) -> f64 {
    server.restart();
    let log = server.log();
    let said = log.rsplit("DB loaded from disk: ").next();
    let number = said.and_then(|text| text.split_whitespace().next());
    number.and_then(|n| n.parse().ok()).unwrap_or(f64::NAN)
}

/// Returns the size of a server's RDB file in bytes.
pub fn rdb_bytes(server: &Server) -> u64 {
    fs::metadata(server.dir().join("dump.rdb")).map_or(0, |file| file.len())
}

/// Memory of a server, measured in two ways.
#[derive(Clone, Copy, Debug, Default)]
pub struct Footprint {
    /// Bytes requested from the allocator.
    pub used: f64,
    /// Resident bytes, after the allocator returned unused memory to the system.
    pub resident: f64,
}

impl Footprint {
    /// Returns the memory of this server. Waits until all background frees are complete.
    pub fn of(server: &Server) -> Footprint {
        until("the server has freed what it no longer needs", || {
            server.info_number("lazyfree_pending_objects") == 0
        });
        let mut wire = server.wire();
        ok!(wire, "MEMORY", "PURGE");
        Footprint {
            used: server.info_number("used_memory") as f64,
            resident: resident(server.pid()) as f64,
        }
    }

    /// Returns the growth since `before`, divided by `things`.
    pub fn since(self, before: Footprint, things: u64) -> Footprint {
        Footprint {
            used: (self.used - before.used) / things as f64,
            resident: (self.resident - before.resident) / things as f64,
        }
    }
}
