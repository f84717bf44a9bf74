//! Adding, taking and releasing groups by our commands, by the seed's scripts and by atomic ones,
//! and what each costs the server.

use redis_tests::{Server, ok};

use super::commands::{self, Lease, PREFIX, leases};
use super::hosts::Hosts;
use super::veidemann::{self, Scripts, now_ms};
use super::{atomic, queued};
use crate::load::{Connection, Feeder, encode};
use crate::machine::cpu_seconds;
use crate::told::Spent;

/// Spread of due times.
const HOUR: u64 = 3_600_000;
/// Requests of each kind that are counted.
const SAMPLE: u64 = 10_000;

/// Who works on the frontier.
#[derive(Clone, Copy, PartialEq)]
pub enum Kind {
    /// Our commands.
    Ours,
    /// The seed's scripts and the commands around them.
    Seed,
    /// A Lua script for each step.
    Atomic,
}

/// One of the three on its server.
pub struct Bench<'a> {
    kind: Kind,
    server: &'a Server,
    hosts: &'a Hosts,
    seed: Scripts,
    /// Digests of the atomic scripts: add, next, release.
    atomic: [Vec<u8>; 3],
    connection: Connection,
}

/// Microseconds that a step took the server.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// In commands.
    pub commands: f64,
    /// Of processor: with reading requests and writing replies.
    pub processor: f64,
}

impl Cost {
    fn add(&mut self, other: Cost) {
        self.commands += other.commands;
        self.processor += other.processor;
    }

    fn over(self, count: u64) -> Cost {
        Cost {
            commands: self.commands / count as f64,
            processor: self.processor / count as f64,
        }
    }
}

/// A group that was taken.
struct Taken {
    chg: String,
    token: u64,
}

impl Bench<'_> {
    /// On this server.
    pub fn on<'a>(kind: Kind, server: &'a Server, hosts: &'a Hosts) -> Bench<'a> {
        let mut wire = server.wire();
        let mut load = |script: &str| ok!(wire, "SCRIPT", "LOAD", script).bytes().to_vec();
        Bench {
            kind,
            server,
            hosts,
            seed: Scripts::load(server),
            atomic: [atomic::ADD, atomic::NEXT, atomic::RELEASE].map(&mut load),
            connection: Connection::unix(server),
        }
    }

    /// Costs of each step at a frontier of `size` groups, and of the seed's sweep for each group. A
    /// small frontier is built several times, so that there is enough to count.
    pub fn run(mut self, size: u64) -> ([Cost; 4], Cost) {
        let sample = (size / 2).min(SAMPLE);
        let rounds = SAMPLE / sample;
        let mut spent = [Cost::default(); 4];
        let mut swept = Cost::default();
        for _ in 0..rounds {
            ok!(self.server.wire(), "FLUSHALL", "SYNC");
            let (round, sweep) = self.round(size, sample);
            for (sum, cost) in spent.iter_mut().zip(round) {
                sum.add(cost);
            }
            swept.add(sweep);
        }
        ok!(self.server.wire(), "FLUSHALL", "SYNC");
        let spent = spent.map(|cost| cost.over(rounds * sample));
        (spent, swept.over(rounds * size))
    }

    /// Does a step and says what it cost.
    fn cost(&mut self, step: impl FnOnce(&mut Self)) -> Cost {
        // What a script calls is counted twice, in the script's time and by itself.
        const SCRIPTS: &[&str] = &["evalsha", "brpop"];
        const PLAIN: &[&str] = &["exists", "zrem", "hset", "zadd"];
        const OURS: &[&str] = &["chg.add", "chg.next", "chg.release"];
        Spent::reset(self.server);
        let before = cpu_seconds(self.server.pid());
        step(self);
        let processor = 1e6 * (cpu_seconds(self.server.pid()) - before);
        let spent = Spent::since_reset(self.server);
        let commands = spent.micros(match self.kind {
            Kind::Ours => OURS,
            _ if spent.calls("evalsha") > 0 => SCRIPTS,
            _ => PLAIN,
        });
        Cost {
            commands,
            processor,
        }
    }

    /// Due times of the groups are spread over an hour that has just passed: simulated while ours
    /// are added, so that they keep them, and all due afterwards.
    fn round(&mut self, size: u64, sample: u64) -> ([Cost; 4], Cost) {
        let hosts = self.hosts;
        let begin = now_ms() - 2 * HOUR;
        let at = |n: u64| begin + hosts.bits(!n) % HOUR;
        self.fill(begin, (0..size - sample).map(|n| (n, at(n))));
        let groups: Vec<(u64, u64)> = (size - sample..size).map(|n| (n, at(n))).collect();
        let new = self.cost(|bench| bench.add(begin, &groups));
        let known = (0..sample).map(|i| hosts.bits(i ^ 0x5eed) % size);
        let groups: Vec<(u64, u64)> = known.map(|n| (n, at(n))).collect();
        let known = self.cost(|bench| bench.add(begin, &groups));
        let sweep = self.cost(Bench::sweep);
        let mut taken = Vec::new();
        let next = self.cost(|bench| taken = bench.next(sample));
        assert_eq!(taken.len() as u64, sample, "all groups are due");
        let release = self.cost(|bench| bench.release(&taken));
        let waiting = ok!(self.server.wire(), "ZCARD", "chg_wait").int() as u64;
        let ready = ok!(self.server.wire(), "LLEN", "chg_ready").int() as u64;
        assert_eq!(waiting + ready, size, "every group is queued again");
        assert_eq!(queued(self.server), size + sample);
        ([new, known, next, release], sweep)
    }

    fn fill(&self, now: u64, groups: impl Iterator<Item = (u64, u64)>) {
        let mut feeder = Feeder::new(self.server);
        if self.kind == Kind::Ours {
            return commands::fill(&mut feeder, self.hosts, now, groups);
        }
        for (n, at) in groups {
            let count = self
                .seed
                .count(&self.hosts.chg(n), self.hosts.execution(0).0, at);
            let words: Vec<&[u8]> = count.iter().map(Vec::as_slice).collect();
            feeder.request(&words);
        }
        feeder.finish();
    }

    /// Sends requests one by one, each when the one before was answered, as crawlers do.
    fn exchange(&mut self, requests: impl IntoIterator<Item = Vec<u8>>) {
        for request in requests {
            self.connection.send(&request);
            self.connection.read(1, |_| ());
        }
    }

    fn add(&mut self, now: u64, groups: &[(u64, u64)]) {
        let now = now.to_string();
        let (execution, _) = self.hosts.execution(0);
        let request = |&(n, at): &(u64, u64)| {
            let chg = self.hosts.chg(n);
            let mut out = Vec::new();
            match self.kind {
                Kind::Ours => commands::add(&mut out, &now, execution, &chg, at),
                Kind::Seed => {
                    let count = self.seed.count(&chg, execution, at);
                    let words: Vec<&[u8]> = count.iter().map(Vec::as_slice).collect();
                    encode(&mut out, &words);
                }
                Kind::Atomic => encode(
                    &mut out,
                    &[
                        b"EVALSHA",
                        &self.atomic[0],
                        b"4",
                        veidemann::key(&chg).as_bytes(),
                        b"chg_wait",
                        b"EIDC",
                        b"QCT",
                        at.to_string().as_bytes(),
                        execution.as_bytes(),
                        chg.as_bytes(),
                        now.as_bytes(),
                    ],
                ),
            }
            out
        };
        let requests: Vec<Vec<u8>> = groups.iter().map(request).collect();
        self.exchange(requests);
    }

    /// The worker's run, without which the seed's clients take nothing.
    fn sweep(&mut self) {
        if self.kind == Kind::Seed {
            veidemann::sweep(&mut self.connection, &self.seed.sweep, b"chg_wait");
        }
    }

    fn next(&mut self, count: u64) -> Vec<Taken> {
        let mut request = Vec::new();
        let mut take = || match self.kind {
            Kind::Seed => {
                let (chg, _) = veidemann::take(&mut self.connection, &self.seed.busy, &mut request);
                Some(Taken { chg, token: 0 })
            }
            Kind::Ours | Kind::Atomic => {
                request.clear();
                if self.kind == Kind::Ours {
                    encode(&mut request, &[b"CHG.NEXT", PREFIX]);
                } else {
                    encode(
                        &mut request,
                        &[
                            b"EVALSHA",
                            &self.atomic[1],
                            b"4",
                            b"chg_ready",
                            b"chg_wait",
                            b"chg_busy",
                            b"chg_token",
                            b"CHG:",
                            b"600000",
                        ],
                    );
                }
                self.connection.send(&request);
                let mut taken = None;
                leases(&mut self.connection, 1, 0, |lease| taken = lease);
                let Lease { chg, token, .. } = taken?;
                Some(Taken { chg, token })
            }
        };
        (0..count).map_while(|_| take()).collect()
    }

    /// Each group rests for up to an hour.
    fn release(&mut self, taken: &[Taken]) {
        let mut requests = Vec::new();
        for (number, Taken { chg, token }) in taken.iter().enumerate() {
            let pause = 1 + self.hosts.bits(number as u64) % HOUR;
            let [token, ms] = [*token, pause].map(|n| n.to_string());
            let mut out = Vec::new();
            match self.kind {
                Kind::Ours => encode(
                    &mut out,
                    &[
                        b"CHG.RELEASE",
                        PREFIX,
                        chg.as_bytes(),
                        token.as_bytes(),
                        b"DELAY",
                        ms.as_bytes(),
                    ],
                ),
                Kind::Seed => {
                    let four = veidemann::release_requests(chg, now_ms() + pause);
                    requests.extend(four);
                    continue;
                }
                Kind::Atomic => encode(
                    &mut out,
                    &[
                        b"EVALSHA",
                        &self.atomic[2],
                        b"4",
                        veidemann::key(chg).as_bytes(),
                        b"chg_busy",
                        b"chg_wait",
                        b"chg_ready",
                        chg.as_bytes(),
                        token.as_bytes(),
                        ms.as_bytes(),
                    ],
                ),
            }
            requests.push(out);
        }
        self.exchange(requests);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use redis_tests::Options;

    #[test]
    fn peers_queue_every_group_again() {
        let hosts = Hosts { seed: 1 };
        for kind in [Kind::Seed, Kind::Atomic] {
            let server = Options::new().no_module().start();
            let mut bench = Bench::on(kind, &server, &hosts);
            let (spent, _) = bench.round(1_000, 200);
            let counted = |cost: &Cost| cost.commands > 0.0 && cost.processor > 0.0;
            assert!(spent.iter().all(counted), "{spent:?}");
        }
    }
}
