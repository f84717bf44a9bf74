//! Random commands for an index or frontier that has no other writer.

use redis_tests::{Lease, Reply, Rng, T0, Word, sha256_of, words_of};

type Words = Vec<Vec<u8>>;

/// Random commands.
pub trait Load {
    /// Returns the next command, for the cluster and for the reference server.
    fn next(&mut self) -> [Words; 2];
    /// Processes the two replies, which are equal.
    fn answered(&mut self, _: [&Reply; 2]) {}
}

fn words(line: &str) -> Words {
    line.split(' ').map(Word::word).collect()
}

/// Commands for an index.
pub struct Index {
    prefix: &'static str,
    rng: Rng,
}

impl Index {
    /// Creates the load of the index with this prefix.
    pub fn new(prefix: &'static str, rng: Rng) -> Index {
        Index { prefix, rng }
    }

    fn hash(&mut self) -> String {
        sha256_of(self.rng.below(200))
    }
}

impl Load for Index {
    fn next(&mut self) -> [Words; 2] {
        let p = self.prefix;
        let crawl = format!("crawl-{}", self.rng.below(5));
        let hash = self.hash();
        let n = self.rng.below(3);
        let line = match self.rng.below(100) {
            0..=24 => {
                let mut add = words(&format!("DEDUPE.ADD {p} {crawl}"));
                for _ in 0..=self.rng.below(4) {
                    add.extend(words_of(self.rng.below(200)));
                }
                return [add.clone(), add];
            }
            25..=39 => format!("DEDUPE.LOOKUP {p} {hash} {}", self.hash()),
            40..=49 => format!(
                "DEDUPE.LOOKUP {p} CRAWL {crawl} WITHWACZ {hash} {}",
                self.hash()
            ),
            50..=53 => format!("DEDUPE.REVISIT {p} {crawl} {hash} {n}"),
            54..=56 => format!("DEDUPE.REVISIT {p} {crawl} REF wacz-{n} {hash} {n}"),
            57..=59 => format!("DEDUPE.WACZOPEN {p} {crawl} {crawl}-{n}.wacz"),
            60..=61 => format!("DEDUPE.WACZCLOSE {p} {crawl} {n} {crawl}-{n}.wacz sha256:ab {n}"),
            62..=64 => format!("DEDUPE.WACZLIST {p} {crawl}"),
            65..=71 => format!("DEDUPE.COMMIT {p} {crawl}"),
            72..=74 => format!("DEDUPE.CANCEL {p} {crawl}"),
            75..=78 => format!("DEDUPE.REMOVE {p} {crawl}"),
            79..=81 => format!("DEDUPE.REQUIRES {p} {crawl}"),
            82..=83 => format!("DEDUPE.REQUIRES {p} REF wacz-{n}"),
            84..=86 => format!("DEDUPE.REQUIREDBY {p} {crawl}"),
            87..=89 => format!("DEDUPE.STATS {p} {crawl}"),
            90..=92 => format!("DEDUPE.CRAWLS {p}"),
            93 => format!("DEDUPE.CHECK {p}"),
            94 => format!("DEDUPE.REPAIR {p}"),
            95 => format!("DEDUPE.PACK {p}"),
            96 => format!("DEDUPE.UNPACK {p}"),
            _ => format!("DEDUPE.CLAIM {p} {crawl} {hash} PX 3600000"),
        };
        [words(&line), words(&line)]
    }
}

/// Commands for a frontier in simulated time.
pub struct Frontier {
    prefix: &'static str,
    rng: Rng,
    now: i64,
    /// Current leases of the cluster and of the reference server. Their tokens differ.
    held: Vec<[Lease; 2]>,
    takes: bool,
}

impl Frontier {
    /// Creates the load of the frontier with this prefix.
    pub fn new(prefix: &'static str, rng: Rng) -> Frontier {
        Frontier {
            prefix,
            rng,
            now: T0,
            held: Vec::new(),
            takes: false,
        }
    }
}

impl Load for Frontier {
    fn next(&mut self) -> [Words; 2] {
        // Times are unique, so the order of groups is certain.
        self.now += 10 + self.rng.below(50) as i64;
        let (p, now) = (self.prefix, self.now);
        let rng = &mut self.rng;
        let (chg, other) = (
            format!("host-{}", rng.below(6)),
            format!("host-{}", rng.below(6)),
        );
        let execution = format!("crawl-{}", rng.below(3));
        let at = now + 1 + rng.below(9) as i64;
        let n = rng.below(3);
        self.takes = false;
        let line = match rng.below(100) {
            0..=24 => format!("ADD {execution} {chg} {at}"),
            25..=36 => format!(
                "ADDURI {execution} {chg} {at} {n} http://{chg}/{}",
                rng.below(30)
            ),
            37..=59 => {
                self.takes = true;
                format!("NEXT LEASE {}", 100 + rng.below(900))
            }
            60..=79 if !self.held.is_empty() => {
                let at = self.rng.below(self.held.len() as u64) as usize;
                let leases = self.held.swap_remove(at);
                return leases.map(|lease| {
                    let done = lease.execution.unwrap_or_else(|| execution.clone());
                    let rest = format!("{} {} DELAY {n}00 DONE {done}", lease.chg, lease.token);
                    let (name, rest) = ("RELEASE", rest);
                    words(&format!("CHG.{name} {p} NOW {now} {rest}"))
                });
            }
            80..=82 => format!("BLOCK {chg} UNTIL {at}"),
            83 => format!("PAUSE {chg}"),
            84..=85 => format!("RESUME {chg}"),
            86 => format!("DROP {execution}"),
            87..=88 if chg != other => format!("MOVE {chg} {other}"),
            89 => format!("LIMIT {chg} PARALLEL {}", 1 + n),
            90..=91 => "SWEEP".to_owned(),
            92 => "EXPIRED".to_owned(),
            93 => "CHECK".to_owned(),
            94 => "PACK".to_owned(),
            95 => "UNPACK".to_owned(),
            _ => format!("WHY {chg}"),
        };
        let (name, rest) = line.split_once(' ').unwrap_or((&line, ""));
        let line = format!("CHG.{name} {p} NOW {now} {rest}");
        [words(line.trim_end()), words(line.trim_end())]
    }

    fn answered(&mut self, [cluster, oracle]: [&Reply; 2]) {
        if self.takes {
            let leases = Lease::all(cluster).into_iter().zip(Lease::all(oracle));
            self.held.extend(leases.map(|(a, b)| [a, b]));
        }
    }
}
