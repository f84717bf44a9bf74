//! The server time of adding, leasing and releasing groups with `CHG.*` commands, with Veidemann's
//! scripts, and with atomic scripts.

use redis_tests::{Server, ok};

use super::commands::{self, Lease};
use super::hosts::Hosts;
use super::queued;
use super::veidemann::{self, Scripts, now_ms};
use crate::load::{Client, Feeder};
use crate::machine::cpu_seconds;
use crate::told::Spent;

/// Range of due times, in milliseconds.
const HOUR: u64 = 3_600_000;
/// Number of measured requests of each kind.
const SAMPLE: u64 = 10_000;

/// The kind of client that uses the frontier.
#[derive(Clone, Copy, PartialEq)]
pub enum Kind {
    /// `CHG.*` commands.
    Ours,
    /// Veidemann's scripts and the commands around them.
    Seed,
    /// One atomic Lua script per step on the same keys, as a careful user would write it today:
    /// with the server's clock, in FIFO order, and with a token.
    Atomic,
}

/// A kind of client on its server.
pub struct Bench<'a> {
    kind: Kind,
    server: &'a Server,
    hosts: &'a Hosts,
    seed: Scripts,
    /// Digests of the atomic scripts: add, next, release.
    atomic: [String; 3],
    client: Client,
}

/// Server time of a step, in microseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// Time in commands.
    pub commands: f64,
    /// CPU time, including the time to read requests and write replies.
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

/// A leased group, and the token of its lease.
type Taken = (String, i64);

impl Bench<'_> {
    /// Creates a client of this kind.
    pub fn on<'a>(kind: Kind, server: &'a Server, hosts: &'a Hosts) -> Bench<'a> {
        let mut wire = server.wire();
        let scripts = [
            include_str!("atomic/add.lua"),
            include_str!("atomic/next.lua"),
            include_str!("atomic/release.lua"),
        ];
        Bench {
            kind,
            server,
            hosts,
            seed: Scripts::load(server),
            atomic: scripts.map(|script| ok!(wire, "SCRIPT", "LOAD", script).text()),
            client: Client::unix(server),
        }
    }

    /// Returns the server time of each step on a frontier of `size` groups, and the time of
    /// Veidemann's sweep per group. Builds small frontiers several times to get enough samples.
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

    /// Runs a step and returns its server time.
    fn cost(&mut self, step: impl FnOnce(&mut Self)) -> Cost {
        // Commands inside a script are counted twice: in the time of the script and in their own
        // time.
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

    /// Measures one frontier. Due times are spread over the past hour. `CHG.ADD` runs at a
    /// simulated time, so that the frontier keeps these times. Afterwards, all groups are due.
    fn round(&mut self, size: u64, sample: u64) -> ([Cost; 4], Cost) {
        let hosts = self.hosts;
        let begin = now_ms() - 2 * HOUR;
        let with_due = |n: u64| (n, begin + hosts.bits(!n) % HOUR);
        let mut feeder = Feeder::new(self.server);
        let groups = (0..size - sample).map(with_due);
        match self.kind {
            Kind::Ours => commands::fill(&mut feeder, hosts, begin, groups),
            _ => self.seed.fill(&mut feeder, hosts, groups),
        }
        let groups: Vec<(u64, u64)> = (size - sample..size).map(with_due).collect();
        let new = self.cost(|bench| bench.add(begin, &groups));
        let known = (0..sample).map(|i| hosts.bits(i ^ 0x5eed) % size);
        let groups: Vec<(u64, u64)> = known.map(with_due).collect();
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

    /// Sends requests one by one, each after the reply to the previous one, as crawlers do.
    fn exchange(&mut self, lines: &[String]) {
        for line in lines {
            self.client.line(line);
        }
    }

    fn add(&mut self, now: u64, groups: &[(u64, u64)]) {
        let (execution, _) = self.hosts.execution(0);
        let [add, ..] = &self.atomic;
        let line = |&(n, at): &(u64, u64)| {
            let chg = self.hosts.chg(n);
            match self.kind {
                Kind::Ours => format!("CHG.ADD '' NOW {now} {execution} {chg} {at}"),
                Kind::Seed => self.seed.count(&chg, execution, at),
                Kind::Atomic => {
                    format!(
                        "EVALSHA {add} 4 CHG:{chg} chg_wait EIDC QCT {at} {execution} {chg} {now}"
                    )
                }
            }
        };
        let lines: Vec<String> = groups.iter().map(line).collect();
        self.exchange(&lines);
    }

    /// Runs Veidemann's queue worker once. Without the worker, Veidemann's clients find no group.
    fn sweep(&mut self) {
        if self.kind == Kind::Seed {
            veidemann::sweep(&mut self.client, &self.seed.sweep, "chg_wait");
        }
    }

    fn next(&mut self, count: u64) -> Vec<Taken> {
        let [_, next, _] = &self.atomic;
        let line = match self.kind {
            Kind::Atomic => {
                format!("EVALSHA {next} 4 chg_ready chg_wait chg_busy chg_token CHG: 600000")
            }
            _ => "CHG.NEXT ''".to_owned(),
        };
        let take = |_| match self.kind {
            Kind::Seed => Some((veidemann::take(&mut self.client, &self.seed.busy).0, 0)),
            _ => Lease::of(self.client.line(&line), 0).map(|lease| (lease.chg, lease.token)),
        };
        (0..count).map_while(take).collect()
    }

    /// Releases groups, each with a pause of up to an hour.
    fn release(&mut self, taken: &[Taken]) {
        let [.., release] = &self.atomic;
        let mut lines = Vec::new();
        for (number, (chg, token)) in taken.iter().enumerate() {
            let ms = 1 + self.hosts.bits(number as u64) % HOUR;
            match self.kind {
                Kind::Ours => lines.push(format!("CHG.RELEASE '' {chg} {token} DELAY {ms}")),
                Kind::Seed => lines.extend(veidemann::release(chg, now_ms() + ms)),
                Kind::Atomic => lines.push(format!(
                    "EVALSHA {release} 4 CHG:{chg} chg_busy chg_wait chg_ready {chg} {token} {ms}"
                )),
            }
        }
        self.exchange(&lines);
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
