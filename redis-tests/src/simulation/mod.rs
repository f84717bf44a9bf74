//! A crawl against a real server in simulated time: many workers, some of which crash, stall or
//! repeat requests. [`FrontierModel`] checks the reply to each command.
//!
//! [`Simulation::run`] runs the whole crawl; `race` lets threads compete for leases in real time.
//!
//! * `crawl` is the simulated web.
//! * `worker` draws the outcome of a fetch.
//! * This file advances the time. It sends all commands that are due within a tenth of a second
//!   in one pipeline, each command with its own `NOW`, and passes the replies to the model.

mod crawl;
mod race;
mod report;
mod worker;

use std::collections::BTreeMap;

use crate::frontier::{Frontier, Lease, T0};
use crate::frontier_model::FrontierModel;
use crate::rng::Rng;
use crate::server::{Options, Server};
use crate::wire::Reply;

use crawl::{Crawl, execution_of, number_of};
use worker::{Deed, Role};

pub use race::{Race, race};
pub use report::Report;

/// Duration of a lease, in milliseconds.
const LEASE: i64 = 10_000;
/// Length of a window in milliseconds. All commands that are due within a window are sent together.
/// Commands that depend on a reply are due in a later window.
const WINDOW: i64 = 100;
/// Number of expired leases after which the frontier gives up a URI.
const ATTEMPTS: i64 = 3;
/// Time limit of a crawl, in simulated milliseconds.
const DAY: i64 = 24 * 3_600_000;
/// Maximum deviation of a share, in percent of all leases of a group.
const FAIR: f64 = 2.0;
/// Crawl executions and their weights. The last execution is paused periodically.
const EXECUTIONS: [(&str, u32); 6] = rows![
    "weekly", 1; "daily", 2; "news", 3; "election", 5; "museum", 8; "halting", 4;
];
/// The execution that is paused periodically.
const HALTING: usize = 5;

/// The size of a crawl.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Number of host groups.
    pub groups: usize,
    /// Number of URIs. Each URI is fetched at least once, or given up.
    pub uris: usize,
    /// Number of workers, each with one fetch at a time.
    pub workers: usize,
    /// Number of groups with many URIs of several executions, in which shares are measured, and the
    /// number of URIs of each, as a multiple of the sum of weights.
    pub large: (usize, usize),
    /// True if executions remember their URLs. In this case, the frontier is packed and stores all
    /// URIs.
    pub remembers: bool,
}

impl Size {
    /// A million fetches over a hundred thousand groups.
    pub fn full() -> Size {
        Size {
            groups: 100_000,
            uris: 1_000_000,
            workers: 4_000,
            large: (40, 30),
            remembers: false,
        }
    }

    /// A tenth of the full size.
    pub fn tenth() -> Size {
        Size {
            groups: 10_000,
            uris: 100_000,
            workers: 1_000,
            large: (10, 12),
            remembers: false,
        }
    }

    /// Returns this size, with executions that remember their URLs.
    pub fn remembering(self) -> Size {
        Size {
            remembers: true,
            ..self
        }
    }
}

/// A crawl that is being simulated.
pub struct Simulation {
    frontier: Frontier,
    model: FrontierModel,
    rng: Rng,
    size: Size,
    crawl: Crawl,
    now: i64,
    /// Planned actions, sorted by time and then by the order of planning.
    agenda: BTreeMap<(i64, u64), Deed>,
    planned: u64,
    idle: usize,
    /// Number of leases to request at once. The number is adapted to the last replies.
    appetite: usize,
    halted: bool,
    /// The last number that a writer used.
    writer: u64,
    /// Leases of each execution in each large group, counted while all executions of the group have
    /// URIs to fetch.
    shares: BTreeMap<usize, Shares>,
    checkpoints: u64,
    /// The group given with `TRACE=g17`. Every command about this group is printed.
    trace: Option<String>,
}

#[derive(Default)]
struct Shares {
    leases: [u32; HALTING],
    /// True if an execution has no URIs left. The other executions then get its share.
    over: bool,
}

/// The result of a check; the error describes the violated property.
type Checked<T> = Result<T, String>;

impl Simulation {
    /// Starts the server for a simulation of this size.
    pub fn server(size: &Size) -> Server {
        let attempts = ATTEMPTS.to_string();
        let args = ["chg-simulated-time", "yes", "chg-attempts", &attempts];
        let options = Options::new().module_args(&args);
        let options = if size.remembers {
            options.packed()
        } else {
            options
        };
        options.start()
    }

    /// Creates a crawl on an empty server. Equal seeds result in equal crawls.
    pub fn new(server: &Server, size: Size, mut rng: Rng) -> Simulation {
        let frontier = Frontier::at(server, T0);
        Simulation {
            model: FrontierModel::new(frontier.prefix(), ATTEMPTS),
            frontier,
            crawl: Crawl::new(size, &mut rng),
            rng,
            size,
            now: T0,
            agenda: BTreeMap::new(),
            planned: 0,
            idle: size.workers,
            appetite: 64,
            halted: false,
            writer: 0,
            shares: BTreeMap::new(),
            checkpoints: 0,
            trace: std::env::var("TRACE").ok(),
        }
    }

    /// Crawls until every URI is done or given up.
    ///
    /// # Errors
    /// A description of the first violated property, with the command and its reply.
    pub fn run(mut self) -> Checked<Report> {
        self.prepare()?;
        let mut patience = WINDOW;
        while !self.agenda.is_empty() || self.model.total() > 0 {
            let until = self.now + WINDOW;
            let granted = self.window(until)?;
            // If no action is due, advance the time to the next action.
            let next = self.agenda.first_key_value().map(|((at, _), _)| *at);
            patience = match granted {
                0 => (patience * 2).min(2_000),
                _ => WINDOW,
            };
            let step = until.max(self.now + patience);
            self.now = next.map_or(step, |at| step.min(at).max(until));
            if self.model.figures().leases * 10 > self.checkpoints * self.size.uris as u64 {
                self.checkpoint()?;
            }
            if self.now - T0 > DAY {
                let left = self.model.total();
                return Err(format!("the crawl does not end: {left} URIs are left"));
            }
        }
        self.now += 10 * LEASE;
        self.checkpoint()?;
        self.send(&[(self.now, "NEXT".to_owned())])?;
        self.frontier.now = Some(self.now);
        let margin = self.frontier.figure("smallest-margin-ms");
        if margin < 0 {
            return Err(format!("INFO tells of a pause {} ms short", -margin));
        }
        Report::new(
            &self.model,
            self.now - T0,
            self.checkpoints,
            self.share_deviation(),
        )
    }

    /// Sets limits and shared gates and adds the first URIs.
    fn prepare(&mut self) -> Checked<()> {
        let mut lines = self.crawl.setup();
        lines.extend(self.crawl.seeds(&mut self.rng, T0));
        let lines: Vec<(i64, String)> = lines
            .into_iter()
            .map(|line| (T0, self.numbered(line)))
            .collect();
        self.send(&lines).map(drop)
    }

    /// Inserts the next number of a writer into a line.
    fn numbered(&mut self, line: String) -> String {
        self.writer += 1;
        line.replacen('?', &self.writer.to_string(), 1)
    }

    /// Sends the commands that are due before `until`. Returns the number of granted leases.
    fn window(&mut self, until: i64) -> Checked<u64> {
        let before = self.model.figures().leases;
        let now = self.now;
        let mut deeds = Vec::new();
        if now / 1000 != (now - WINDOW) / 1000 {
            deeds.push((now, Deed::new("EXPIRED COUNT 1000".into(), Role::Nothing)));
        }
        deeds.extend(
            self.halt()
                .map(|line| (now, Deed::new(line, Role::Nothing))),
        );
        let mut wanted = self.idle.min(self.appetite);
        while wanted > 0 {
            // Some requests lease several groups at once.
            let count = if self.rng.chance(10) {
                wanted.min(8)
            } else {
                1
            };
            let words = if count > 1 {
                format!(" COUNT {count}")
            } else {
                String::new()
            };
            let line = format!("NEXT LEASE {LEASE}{words}");
            deeds.push((now, Deed::new(line, Role::Ask(count))));
            wanted -= count;
        }
        while let Some(first) = self.agenda.first_entry() {
            let (at, _) = *first.key();
            if at >= until {
                break;
            }
            let deed = first.remove();
            let line = self.numbered(deed.line);
            deeds.push((at, Deed::new(line, deed.role)));
        }
        let lines: Vec<(i64, String)> = deeds
            .iter()
            .map(|(at, deed)| (*at, deed.line.clone()))
            .collect();
        let (mut asked, mut got) = (0, 0);
        let sent = self.send(&lines)?;
        for ((at, deed), (reply, released)) in deeds.into_iter().zip(sent) {
            if let Role::Ask(count) = deed.role {
                let leases = Lease::all(&reply);
                asked += count;
                got += leases.len();
                self.idle -= leases.len();
                leases.iter().for_each(|lease| self.granted(at, lease));
            } else {
                self.replied(at, deed, &reply, released);
            }
        }
        self.appetite = match asked {
            0 => self.appetite.max(4),
            _ if got == asked => (self.appetite * 2).min(self.size.workers),
            _ => got + 4,
        };
        Ok(self.model.figures().leases - before)
    }

    /// Pauses one execution for two seconds of every twenty.
    fn halt(&mut self) -> Option<String> {
        let halted = (self.now - T0) % 20_000 >= 18_000;
        let changes = std::mem::replace(&mut self.halted, halted) != halted;
        let word = if halted { "PAUSE" } else { "RESUME" };
        changes.then(|| format!("{word} EXECUTION {}", EXECUTIONS[HALTING].0))
    }

    fn granted(&mut self, now: i64, lease: &Lease) {
        let group = number_of(&lease.chg);
        let execution = match &lease.execution {
            Some(execution) => execution.clone(),
            None => self.model.most_counted(&lease.chg).unwrap_or_default(),
        };
        // All counted URIs of the execution may be done at this time.
        let execution = if execution.is_empty() {
            EXECUTIONS[0].0
        } else {
            &execution
        };
        let number = execution_of(execution);
        if self.crawl.is_large(group) {
            let others = self.model.offering(&lease.chg);
            let shares = self.shares.entry(group).or_default();
            shares.over |= (0..HALTING).any(|e| e != number && !others.contains(EXECUTIONS[e].0));
            if !shares.over {
                shares.leases[number] += 1;
            }
        }
        let deeds = worker::plan(&mut self.rng, &self.crawl, now, lease, (number, execution));
        let frees = |deed: &Deed| matches!(deed.role, Role::Release { primary: true, .. });
        // The worker never reports this fetch before its lease expires, so a new worker replaces
        // it.
        if !deeds.iter().any(|(_, deed)| frees(deed)) {
            self.idle += 1;
        }
        for (at, deed) in deeds {
            self.plan(at, deed);
        }
    }

    fn plan(&mut self, at: i64, deed: Deed) {
        assert!(at >= self.now + WINDOW, "too late to do {deed:?} at {at}");
        self.planned += 1;
        self.agenda.insert((at, self.planned), deed);
    }

    fn replied(&mut self, now: i64, deed: Deed, reply: &Reply, released: bool) {
        match deed.role {
            Role::Again => self.plan(now + WINDOW, Deed::new(deed.line, Role::Nothing)),
            Role::Release { primary, done, .. } => {
                let lease = match reply {
                    Reply::Array(items) if released => Some(&items[1]),
                    _ => None,
                };
                let lease = lease.filter(|lease| !lease.is_nil()).map(Lease::of);
                if let Some(lease) = &lease {
                    // Only the first release frees the worker, not its repetition.
                    self.idle += usize::from(primary);
                    self.idle = self.idle.saturating_sub(1);
                    self.granted(now, lease);
                } else {
                    self.idle += usize::from(primary);
                }
                if let Some(execution) = done.filter(|_| released) {
                    for (line, again) in self.crawl.links(&mut self.rng, now, execution) {
                        let at = now + WINDOW + self.rng.below(200) as i64;
                        let role = if again { Role::Again } else { Role::Nothing };
                        self.plan(at, Deed::new(line, role));
                    }
                }
            }
            Role::Ask(_) | Role::Nothing => {}
        }
    }

    /// Compares all counts: runs the server's check, and reads the plain keys or counts the known URLs.
    fn checkpoint(&mut self) -> Checked<()> {
        self.checkpoints += 1;
        let now = self.now;
        loop {
            let sent = self.send(&[(now, "EXPIRED COUNT 1000".to_owned())])?;
            if sent[0].0.items().len() < 1000 {
                break;
            }
        }
        self.send(&[(now, "CHECK".to_owned()), (now, "INFO".to_owned())])?;
        if self.size.remembers {
            let counts = EXECUTIONS.map(|(execution, _)| (now, format!("COUNT {execution}")));
            return self.send(&counts).map(drop);
        }
        let gates = self.crawl.gate_names();
        let gates: Vec<&str> = gates.iter().map(String::as_str).collect();
        self.model.is_shown_by(&mut self.frontier.wire, &gates)
    }

    /// Returns the largest deviation of an execution's share in a large group, in percent.
    fn share_deviation(&self) -> f64 {
        let weights: u32 = EXECUTIONS[..HALTING].iter().map(|(_, w)| w).sum();
        let deviation = |shares: &Shares| {
            let all: u32 = shares.leases.iter().sum();
            let of = |(leases, (_, weight)): (&u32, &(&str, u32))| {
                let share = f64::from(*leases) / f64::from(all.max(1));
                100.0 * (share - f64::from(*weight) / f64::from(weights)).abs()
            };
            let each = shares.leases.iter().zip(&EXECUTIONS[..HALTING]);
            each.map(of).fold(0.0, f64::max)
        };
        self.shares.values().map(deviation).fold(0.0, f64::max)
    }

    /// Sends lines, each with its time, and passes the replies to the model. Returns each reply,
    /// and true for a release that was applied.
    fn send(&mut self, lines: &[(i64, String)]) -> Checked<Vec<(Reply, bool)>> {
        let frontier = &mut self.frontier;
        let words = lines.iter().map(|(now, line)| {
            frontier.now = Some(*now);
            frontier.words(line)
        });
        let words: Vec<Vec<Vec<u8>>> = words.collect();
        let replies = frontier.wire.pipeline(words.iter().cloned());
        let mut sent = Vec::new();
        for ((words, reply), (now, line)) in words.iter().zip(replies).zip(lines) {
            let about =
                |text: &str, id: &String| text.split([' ', '"', '\n']).any(|word| word == id);
            let shown = || format!("NOW {now} {line}\n  {reply:?}");
            if self.trace.as_ref().is_some_and(|id| about(&shown(), id)) {
                eprintln!("{}", shown());
            }
            let before = self.model.figures().releases;
            let verdict = self.model.follow(words, &reply);
            verdict.map_err(|what| format!("{what}\n  {}", shown()))?;
            let released = self.model.figures().releases > before;
            sent.push((reply, released));
        }
        Ok(sent)
    }
}
