//! Servers with the same index: on plain keys, packed, and one that knows only plain commands.

use std::fs;

use redis_tests::{Options, Reply, Server, ok, until};

use super::corpus::{Corpus, Crawl};
use super::documented;
use crate::load::Feeder;
use crate::machine::resident;

/// The layout that ours is compared with.
pub const DOCUMENTED: &str = "the documented layout by plain commands";

/// A server with the module and an index on plain keys, one with a packed index, and one without
/// the module.
pub struct Scene {
    /// Server with the module, index on plain keys.
    pub ours: Server,
    /// Server with the module, index packed.
    pub packed: Server,
    /// Without the module.
    pub plain: Server,
}

impl Scene {
    /// Three servers without data.
    pub fn empty() -> Scene {
        Scene {
            ours: start_plain_storage(),
            packed: start_packed(),
            plain: start_plain(),
        }
    }

    /// The three of them: ours on plain keys, ours packed, the plain one.
    pub fn servers(&self) -> [&Server; 3] {
        [&self.ours, &self.packed, &self.plain]
    }

    /// Returns the servers with the module: on plain keys, and packed.
    pub fn storages(&mut self) -> [&mut Server; 2] {
        [&mut self.ours, &mut self.packed]
    }

    /// Writes the crawls to all, each in its own way; the first `committed` are committed.
    pub fn fill(&mut self, corpus: &Corpus, crawls: &[Crawl], committed: usize) {
        add(&self.ours, corpus, crawls, committed);
        add(&self.packed, corpus, crawls, committed);
        documented::fill(&self.plain, corpus, crawls, committed);
        let [ours, plain] = [&self.ours, &self.plain].map(documented::index_digest);
        assert_eq!(ours, plain, "both servers hold the same index");
        let last = crawls.last().map_or(0, |crawl| crawl.own.end);
        self.compare_storages(corpus, last);
    }

    /// Checks that both storages give the same replies: counts, and hashes drawn from those below
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

    /// Saves all, so that a later repetition can go back here.
    pub fn save(&self) {
        for server in self.servers() {
            ok!(server.wire(), "SAVE");
        }
    }
}

fn quiet(options: Options) -> Server {
    options.args(&["--hz", "10"]).start()
}

/// A server with the module where new indexes are on plain keys.
pub fn start_plain_storage() -> Server {
    quiet(Options::new().module_args(&["dedupe-storage", "plain"]))
}

/// A server with the module where new indexes are packed.
pub fn start_packed() -> Server {
    quiet(Options::new().module_args(&["dedupe-storage", "packed"]))
}

/// A server that knows only plain commands.
pub fn start_plain() -> Server {
    quiet(Options::new().no_module())
}

/// Returns the reply of `DEDUPE.LOOKUP` for hashes.
pub fn records(server: &Server, hashes: &[impl AsRef<[u8]>]) -> Reply {
    let mut words: Vec<&[u8]> = vec![b"DEDUPE.LOOKUP", b""];
    words.extend(hashes.iter().map(AsRef::as_ref));
    server.wire().expect_ok(&words)
}

/// Hashes of the merged index in whatever storage.
pub fn hashes(server: &Server) -> i64 {
    match ok!(server.wire(), "TYPE", "allhashes").text().as_str() {
        "hash" => ok!(server.wire(), "HLEN", "allhashes").int(),
        _ => ok!(server.wire(), "DEDUPE.STATS", "").field("hashes").int(),
    }
}

/// Writes crawls with `DEDUPE.ADD`, 50 records a call; commits the first `committed`.
pub fn add(server: &Server, corpus: &Corpus, crawls: &[Crawl], committed: usize) {
    for (number, crawl) in crawls.iter().enumerate() {
        add_one(server, corpus, crawl, number as u64);
        if number < committed {
            ok!(server.wire(), "DEDUPE.COMMIT", "", crawl.id);
        }
    }
}

/// Writes the crawl of that number with `DEDUPE.ADD`, 50 records a call.
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

/// Kills a server and starts it again with the data it saved; seconds that it says to have loaded.
pub fn reset(server: &mut Server) -> f64 {
    server.restart();
    let log = server.log();
    let said = log.rsplit("DB loaded from disk: ").next();
    let number = said.and_then(|text| text.split_whitespace().next());
    number.and_then(|n| n.parse().ok()).unwrap_or(f64::NAN)
}

/// Bytes of a server's RDB file.
pub fn rdb_bytes(server: &Server) -> u64 {
    fs::metadata(server.dir().join("dump.rdb")).map_or(0, |file| file.len())
}

/// Bytes that a server uses, by two accounts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Footprint {
    /// Bytes that it has requested from its allocator.
    pub used: f64,
    /// Resident memory, after the allocator returned what it could.
    pub resident: f64,
}

impl Footprint {
    /// Returns the memory of this server, once it has freed everything in the background.
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

    /// Returns the growth since another moment, per thing.
    pub fn since(self, before: Footprint, things: u64) -> Footprint {
        Footprint {
            used: (self.used - before.used) / things as f64,
            resident: (self.resident - before.resident) / things as f64,
        }
    }
}
