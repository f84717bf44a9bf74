//! A large index or frontier under [`PREFIX`]. Tests convert the storage of this data set, and
//! inspect the data set during the conversion.

use crate::corpus::sha256_of;
use crate::crawler;
use crate::dataset::Snapshot;
use crate::dedupe_index::DedupeIndex;
use crate::frontier::Frontier;
use crate::matrix::PREFIX;
use crate::server::{Options, Server};
use crate::storage::{frontier_view, plain_view};
use crate::wait::until;
use crate::wire::{Reply, Wire, Word, int};

/// The two families whose data sets can be packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// `DEDUPE`.
    Index,
    /// `CHG`.
    Frontier,
}

/// Number of hashes of an index, a third of which are in both of its crawls.
const HASHES: u64 = 18_000;
/// Number of hosts of a frontier, each with two kept URIs and one that is only counted.
const HOSTS: u32 = 1_800;

/// A connection to the data set, which has 18 000 hashes or 5 400 URIs.
pub struct Packable {
    /// The connection, for plain commands.
    pub wire: Wire,
    family: Family,
}

impl Family {
    /// Returns the name of the key of the packed value.
    pub fn key(self) -> String {
        let name = match self {
            Family::Index => "packedhashes",
            Family::Frontier => "chg_packed",
        };
        format!("{PREFIX}{name}")
    }

    /// Returns the name of a marker of a packed value.
    pub fn marker(self) -> String {
        let name = match self {
            Family::Index => "allhashes",
            Family::Frontier => "chg_wait",
        };
        format!("{PREFIX}{name}")
    }

    /// Returns the names of keys, without the prefix, that a data set has before or during a conversion.
    pub fn keys(self) -> Vec<&'static str> {
        let keys = match self {
            Family::Index => "allhashes packedhashes moving h:a allcrawls holders",
            Family::Frontier => {
                "chg_wait EIDC QCT chg_packed chg_moving:chg_wait chg_moving:chg_ready chg_moving:EIDC \
                 chg_moving:QCT CHG:host-77 chg_uris:host-77 chg_of:crawl"
            }
        };
        keys.split(' ').collect()
    }
}

impl Packable {
    /// Connects to the data set of a server.
    pub fn of(server: &Server, family: Family) -> Packable {
        let wire = server.wire();
        Packable { wire, family }
    }

    /// Starts a server, and builds the data set in plain keys.
    pub fn on(options: Options, family: Family) -> (Server, Packable) {
        let server = options.plain().start();
        let mut data = Packable::of(&server, family);
        data.build();
        (server, data)
    }

    /// Builds the data set. The slices of the server are so short that a conversion takes many slices.
    pub fn build(&mut self) {
        self.wire.ok_line("CONFIG SET crawlspace.slice-us 50");
        match self.family {
            Family::Index => {
                let mut index = DedupeIndex::over(self.wire.handle(), PREFIX);
                for (crawl, first) in [("a", 0), ("b", HASHES / 3)] {
                    index.committed(crawl, first..first + HASHES / 3 * 2);
                }
            }
            Family::Frontier => {
                let hosts: Vec<u32> = (0..HOSTS).collect();
                for some in hosts.chunks(100) {
                    let (mut kept, mut counted) = (String::new(), String::new());
                    for n in some {
                        for page in 0..2 {
                            kept += &format!(" host-{n} 0 {page} https://host-{n}.example/{page}");
                        }
                        counted += &format!(" host-{n} 0");
                    }
                    self.run(&format!("ADDURI crawl{kept}"));
                    self.run(&format!("ADD other{counted}"));
                }
            }
        }
    }

    /// Returns the arguments of a command: `PACK` is `DEDUPE.PACK {m}:` or `CHG.PACK {m}:`.
    fn words(&self, line: &str) -> Vec<Vec<u8>> {
        let family = match self.family {
            Family::Index => "DEDUPE",
            Family::Frontier => "CHG",
        };
        let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
        let mut words = vec![format!("{family}.{name}").word(), PREFIX.word()];
        words.extend(rest.split_terminator(' ').map(Word::word));
        words
    }

    /// Runs a command, which must succeed.
    #[track_caller]
    pub fn run(&mut self, line: &str) -> Reply {
        let words = self.words(line);
        self.wire.expect_ok(&words)
    }

    /// Runs a command.
    pub fn call(&mut self, line: &str) -> Reply {
        let words = self.words(line);
        self.wire.call(&words)
    }

    /// Sends a command over a new connection. Returns the connection, which will receive the reply.
    pub fn sent(&self, server: &Server, line: &str) -> Wire {
        let mut wire = server.wire();
        wire.send(&self.words(line));
        wire
    }

    /// Sends `PACK` or `UNPACK` over a new connection, and waits until the conversion is in progress.
    ///
    /// # Panics
    /// Panics if the conversion ends before this function has seen it in progress.
    #[track_caller]
    pub fn begun(&mut self, server: &Server, name: &str) -> Wire {
        let mut mover = self.sent(server, name);
        until("the storage changes", || {
            assert!(!mover.has_reply(), "{name} ended too early for this test");
            self.storage() == during(name)
        });
        mover
    }

    /// Returns the storage: `plain` or `packed`, or `packing` or `unpacking` during a conversion.
    #[track_caller]
    pub fn storage(&mut self) -> String {
        let figures = match self.family {
            Family::Index => "STATS",
            Family::Frontier => "INFO",
        };
        self.run(figures).field("storage").text()
    }

    /// Fails unless the data set is complete. Works at any step of a conversion, and on replicas.
    #[track_caller]
    pub fn assert_whole(&mut self, when: &str) {
        match self.family {
            Family::Index => {
                let sample = || (0..HASHES).step_by(199);
                let seen = crawler::owners(&mut self.wire, PREFIX, sample());
                let owner = |n| if n < HASHES / 3 * 2 { "a" } else { "b" };
                assert!(seen.iter().eq(sample().map(owner)), "{when}: {seen:?}");
                let hashes = self.run("STATS").field("hashes");
                assert_eq!(hashes, int(HASHES as i64), "{when}");
            }
            Family::Frontier => {
                for n in (0..HOSTS).step_by(101) {
                    let why = self.run(&format!("WHY host-{n}"));
                    assert_eq!(why.field("count"), int(3), "{when}: {why:?}");
                    let uris = self.run(&format!("URIS host-{n}"));
                    let uris = format!("{uris:?}");
                    let uri = format!("https://host-{n}.example/1");
                    assert!(uris.contains(&uri), "{when}: {uris}");
                }
                let uris = self.run("INFO").field("uris");
                assert_eq!(uris, int(i64::from(HOSTS) * 3), "{when}");
            }
        }
    }

    /// Fails if the family's own check finds a problem.
    #[track_caller]
    pub fn assert_consistent(&mut self) {
        match self.family {
            Family::Index => crawler::assert_consistent(&mut self.wire, PREFIX),
            Family::Frontier => {
                let check = self.run("CHECK");
                assert_eq!(check.field("consistent"), int(1), "{check:?}");
                let sums = ["sum-groups", "sum-executions", "total"].map(|sum| check.field(sum));
                assert!(sums[0] == sums[1] && sums[1] == sums[2], "{check:?}");
            }
        }
    }

    /// Returns the keys that the data set has, or would have, in plain storage.
    #[track_caller]
    pub fn view(&mut self) -> Snapshot {
        match self.family {
            Family::Index => plain_view(&mut self.wire, PREFIX).without_storage(),
            Family::Frontier => frontier_view(&mut self.wire, PREFIX, Snapshot::of),
        }
    }

    /// Adds more data than one string may contain on a server with the lowest `proto-max-bulk-len`, and packs
    /// the data set.
    pub fn grow(&mut self) {
        match self.family {
            Family::Index => {
                let mut index = DedupeIndex::over(self.wire.handle(), PREFIX);
                index.committed("large", HASHES..HASHES + 60_000);
            }
            Family::Frontier => {
                let mut f = Frontier::over(self.wire.handle(), PREFIX);
                for some in 0..200 {
                    let uris = (0..300).map(|n| {
                        let n = some * 300 + n;
                        format!(" large-{} 0 0 {}", n % 7_000, sha256_of(n))
                    });
                    f.ok(format!("ADDURI crawl{}", uris.collect::<String>()));
                }
            }
        }
        self.run("PACK");
    }
}

/// Returns the storage during `PACK` or `UNPACK`.
pub fn during(name: &str) -> &'static str {
    if name == "PACK" {
        "packing"
    } else {
        "unpacking"
    }
}
