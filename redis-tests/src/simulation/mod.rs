//! A crawl against a real server in simulated time: many workers, some of which crash, stall or do
//! things twice, and a book of what must hold that is kept beside the server's.
//!
//! [`Simulation::run`] is the whole of it; `race` lets threads race for leases in real time.
//!
//! * `book` knows the groups, their URIs and leases, and says what is wrong with a reply.
//! * `worker` draws what becomes of a fetch.
//! * This file passes the time: it sends everything that is due within a tenth of a second as one
//!   pipeline, each command with its own `NOW`, and hands the replies to the book.

mod book;
mod race;
mod report;
mod worker;

use std::collections::BTreeMap;

use crate::frontier::{Frontier, Lease, T0};
use crate::rng::Rng;
use crate::server::{Options, Server};
use crate::wire::Reply;

use book::Book;
use worker::{Deed, Release};

pub use race::{Race, race};
pub use report::Report;

/// How long a lease lasts.
const LEASE: i64 = 10_000;
/// Everything that is due in such a span is sent at once; nothing that follows from a reply comes
/// earlier than that.
const WINDOW: i64 = 100;
/// A URI whose leases ran out so often is given up.
const ATTEMPTS: u32 = 3;
/// No crawl takes longer than that.
const DAY: i64 = 24 * 3_600_000;
/// Shares may be off by so many percent of all leases of a group.
const FAIR: f64 = 2.0;
/// Crawl executions and their weights. The last one is paused now and then.
const EXECUTIONS: [(&str, u32); 6] = [
    ("weekly", 1),
    ("daily", 2),
    ("news", 3),
    ("election", 5),
    ("museum", 8),
    ("halting", 4),
];
/// The execution that is paused now and then.
const HALTING: usize = 5;

/// How large a crawl is.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Host groups.
    pub groups: usize,
    /// URIs; each is fetched at least once, or given up.
    pub uris: usize,
    /// Fetches at a time.
    pub workers: usize,
    /// Groups with many URIs of several executions, on which shares are measured, and how many
    /// times the sum of weights each has.
    pub large: (usize, usize),
}

impl Size {
    /// A million fetches over a hundred thousand groups.
    pub fn full() -> Size {
        Size {
            groups: 100_000,
            uris: 1_000_000,
            workers: 4_000,
            large: (40, 30),
        }
    }

    /// A tenth of it.
    pub fn tenth() -> Size {
        Size {
            groups: 10_000,
            uris: 100_000,
            workers: 1_000,
            large: (10, 12),
        }
    }
}

/// A crawl that is being simulated.
pub struct Simulation {
    frontier: Frontier,
    rng: Rng,
    size: Size,
    book: Book,
    now: i64,
    /// What is to be done, by time and then in the order of planning.
    agenda: BTreeMap<(i64, u64), Deed>,
    planned: u64,
    idle: usize,
    /// How many leases are asked for at once; learnt from the last replies.
    appetite: usize,
    next_checkpoint: u64,
    /// `TRACE=g17` prints every command that has to do with this group.
    trace: Option<String>,
}

impl Simulation {
    /// The server for it.
    pub fn server() -> Server {
        let attempts = ATTEMPTS.to_string();
        let args = ["chg-simulated-time", "yes", "chg-attempts", &attempts];
        Options::new().module_args(&args).start()
    }

    /// A new crawl on an empty server; the same for the same seed.
    pub fn new(server: &Server, size: Size, mut rng: Rng) -> Simulation {
        let book = Book::new(size, &mut rng);
        Simulation {
            frontier: Frontier::at(server, T0),
            rng,
            size,
            book,
            now: T0,
            agenda: BTreeMap::new(),
            planned: 0,
            idle: size.workers,
            appetite: 64,
            next_checkpoint: size.uris as u64 / 10,
            trace: std::env::var("TRACE").ok(),
        }
    }

    /// Crawls until every URI is done or given up.
    ///
    /// # Errors
    /// The first things that did not hold, with the command and its reply.
    pub fn run(mut self) -> Result<Report, String> {
        self.prepare();
        let mut patience = WINDOW;
        while !self.book.is_over() || !self.agenda.is_empty() {
            let until = self.now + WINDOW;
            let granted = self.window(until);
            if !self.book.wrong.is_empty() {
                return Err(self.book.wrong.join("\n"));
            }
            // When nothing is due, time passes in longer steps.
            let next = self.agenda.first_key_value().map(|((at, _), _)| *at);
            patience = match granted {
                0 => (patience * 2).min(2_000),
                _ => WINDOW,
            };
            let step = until.max(self.now + patience);
            self.now = next.map_or(step, |at| step.min(at).max(until));
            if self.book.report.fetches >= self.next_checkpoint {
                self.next_checkpoint += self.size.uris as u64 / 10;
                self.checkpoint();
            }
            if self.now - T0 > DAY {
                return Err(format!("the crawl does not end: {}", self.book.left()));
            }
        }
        self.now += 10 * LEASE;
        self.checkpoint();
        self.last_words();
        self.book.close(self.now - T0)
    }

    /// Limits, shared gates and the first URIs.
    fn prepare(&mut self) {
        let setup = self.book.setup();
        let setup: Vec<String> = setup.iter().map(|line| self.line(T0, line)).collect();
        for (line, reply) in setup.iter().zip(self.send(&setup)) {
            assert!(!reply.is_error(), "{line} said {reply:?}");
        }
        let mut seeds = self.book.seeds(&mut self.rng, self.size, T0);
        let mut line_of = |what: &mut Vec<_>| self.book.add_line(what, false);
        let lines: Vec<String> = seeds.iter_mut().map(&mut line_of).collect();
        let lines: Vec<String> = lines.iter().map(|line| self.line(T0, line)).collect();
        for (added, reply) in seeds.iter().zip(self.send(&lines)) {
            self.book.added(T0, added, &reply);
        }
    }

    /// Sends what is due before `until`; how many leases were granted.
    fn window(&mut self, until: i64) -> u64 {
        let before = self.book.report.fetches;
        let mut lines = Vec::new();
        let mut deeds = Vec::new();
        let now = self.now;
        if now / 1000 != (now - WINDOW) / 1000 {
            lines.push(self.line(now, "EXPIRED COUNT 1000"));
            deeds.push((now, Deed::Reports));
        }
        self.halt(&mut lines, &mut deeds);
        let mut wanted = self.idle.min(self.appetite);
        while wanted > 0 {
            // Some take several at once.
            let count = if self.rng.chance(10) {
                wanted.min(8)
            } else {
                1
            };
            let count_words = if count > 1 {
                format!(" COUNT {count}")
            } else {
                String::new()
            };
            lines.push(self.line(now, &format!("NEXT LEASE {LEASE}{count_words}")));
            deeds.push((now, Deed::Ask(count)));
            wanted -= count;
        }
        while let Some(first) = self.agenda.first_entry() {
            let (at, _) = *first.key();
            if at >= until {
                break;
            }
            let mut deed = first.remove();
            let line = self.book.line_of(&mut deed);
            lines.push(self.line(at, &line));
            deeds.push((at, deed));
        }
        let replies = self.send(&lines);
        let (mut asked, mut got) = (0, 0);
        for (((at, deed), reply), line) in deeds.into_iter().zip(replies).zip(&lines) {
            if !self.book.wrong.is_empty() {
                break;
            }
            if let Deed::Ask(count) = deed {
                asked += count;
                got += self.asked(at, count, &reply);
            } else {
                self.replied(at, deed, &reply);
            }
            if let Some(first) = self.book.wrong.first() {
                let ids = line.split(' ').filter(|word| word.starts_with('g'));
                let known: Vec<String> = ids.map(|id| self.book.describe(id)).collect();
                let known = known.join("\n  ");
                self.book.wrong[0] = format!("{first}\n  {line}\n  {reply:?}\n  {known}");
            }
        }
        self.appetite = match asked {
            0 => self.appetite.max(4),
            _ if got == asked => (self.appetite * 2).min(self.size.workers),
            _ => got + 4,
        };
        self.book.report.fetches - before
    }

    /// One execution is paused for two seconds of every twenty.
    fn halt(&mut self, lines: &mut Vec<String>, deeds: &mut Vec<(i64, Deed)>) {
        let halted = (self.now - T0) % 20_000 >= 18_000;
        if halted != self.book.halted {
            let word = if halted { "PAUSE" } else { "RESUME" };
            let (execution, _) = EXECUTIONS[HALTING];
            lines.push(self.line(self.now, &format!("{word} EXECUTION {execution}")));
            deeds.push((self.now, Deed::Halt(halted)));
        }
    }

    fn asked(&mut self, now: i64, count: usize, reply: &Reply) -> usize {
        if reply.is_error() {
            self.book.fault(format!("NEXT failed: {reply:?}"));
            return 0;
        }
        let leases = Lease::all(reply);
        if leases.len() > count {
            self.book.fault("more leases than asked for".into());
        }
        for lease in &leases {
            self.idle -= 1;
            self.granted(now, lease, None);
        }
        leases.len()
    }

    fn granted(&mut self, now: i64, lease: &Lease, after: Option<i64>) {
        let Some(fetch) = self.book.granted(now, lease, after) else {
            self.idle += 1;
            return;
        };
        let deeds = worker::plan(&mut self.rng, &self.book, now, fetch);
        // Nobody reports this fetch, or not before its lease runs out: the worker was replaced.
        if !deeds.iter().any(|(_, deed)| deed.frees_a_worker()) {
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

    fn replied(&mut self, now: i64, deed: Deed, reply: &Reply) {
        match deed {
            Deed::Release(release) => self.released(now, &release, reply),
            Deed::Extend { fetch, ms } => self.book.extended(now, &fetch, ms, reply),
            Deed::Block { group, until } => self.book.blocked(group, until, reply),
            Deed::Add { what, again } => {
                self.book.added(now, &what, reply);
                if again {
                    let again = Deed::AddAgain {
                        what,
                        first: reply.clone(),
                    };
                    self.plan(now + WINDOW, again);
                }
            }
            Deed::AddAgain { what, first } => {
                self.book.added_again(now, &what, &first, reply);
            }
            Deed::Reports => {
                self.book.reported(now, reply);
            }
            Deed::Halt(halted) => {
                self.book.halted = halted;
                if reply.is_error() {
                    self.book.fault("PAUSE or RESUME failed".into());
                }
            }
            Deed::Ask(_) => unreachable!("answered elsewhere"),
        }
    }

    fn released(&mut self, now: i64, release: &Release, reply: &Reply) {
        let outcome = self.book.released(now, release, reply);
        let mut busy = false;
        if let Some(lease) = outcome.lease {
            busy = true;
            self.granted(now, &lease, Some(release.fetch.token));
        }
        if release.primary && !busy {
            self.idle += 1;
        }
        if outcome.done && self.book.discovers() {
            let found = self.book.links(&mut self.rng, now, release.fetch.execution);
            for what in found {
                let again = self.rng.chance(5);
                let at = now + WINDOW + self.rng.below(200) as i64;
                self.plan(at, Deed::Add { what, again });
            }
        }
    }

    /// Everything is counted: by the server's own check, by the plain keys, and against the book.
    fn checkpoint(&mut self) {
        let now = self.now;
        loop {
            let line = self.line(now, "EXPIRED COUNT 1000");
            let replies = self.send(&[line]);
            if self.book.reported(now, &replies[0]) < 1000 {
                break;
            }
        }
        self.frontier.now = Some(now);
        let check = self.frontier.ok("CHECK");
        if check.field("consistent").int() != 1 {
            self.book.fault(format!("CHECK: {check:?}"));
        }
        let sums = self.frontier.sums();
        let said = ["sum-groups", "sum-executions", "total"].map(|f| check.field(f).int());
        let known = self.book.sums(now);
        if sums != said || sums != known {
            self.book.fault(format!(
                "[sum of c, sum of EIDC, QCT] by the plain keys {sums:?}, by CHECK {said:?}, by the book {known:?}"
            ));
        }
        let counts: Vec<Vec<String>> = (0..self.size.groups)
            .map(|g| {
                let key = self.frontier.key(&format!("CHG:{}", book::id(g)));
                vec!["HGET".to_owned(), key, "c".to_owned()]
            })
            .collect();
        for (g, reply) in self.frontier.wire.pipeline(counts).iter().enumerate() {
            let c = match reply {
                Reply::Nil => 0,
                reply => reply.text().parse().expect("a count is a number"),
            };
            self.book.counted(g, c);
        }
        self.book.report.checkpoints += 1;
    }

    /// Nothing is left in any queue, and the server's own figures of politeness say the same.
    fn last_words(&mut self) {
        let left = self.line(self.now, "NEXT");
        let left = self.send(&[left]);
        if !left[0].is_nil() {
            self.book.fault(format!("something is left: {:?}", left[0]));
        }
        let places = [self.frontier.wait(), self.frontier.busy()].map(|queue| queue.len());
        let ready = self.frontier.ready().len();
        if places != [0, 0] || ready != 0 {
            self.book.fault(format!(
                "wait {}, busy {}, ready {ready} at the end",
                places[0], places[1]
            ));
        }
        self.frontier.now = Some(self.now);
        let margin = self.frontier.figure("smallest-margin-ms");
        if margin < 0 {
            self.book
                .fault(format!("INFO tells of a pause {} ms short", -margin));
        }
    }

    fn line(&self, now: i64, line: &str) -> String {
        let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
        let space = if rest.is_empty() { "" } else { " " };
        format!(
            "CHG.{name} {} NOW {now}{space}{rest}",
            self.frontier.prefix()
        )
    }

    fn send(&mut self, lines: &[String]) -> Vec<Reply> {
        let words = lines.iter().map(|line| line.split(' ').collect::<Vec<_>>());
        let replies = self.frontier.wire.pipeline(words);
        if let Some(id) = &self.trace {
            let told = lines.iter().zip(&replies);
            let told = told.map(|(line, reply)| format!("{line}\n  {reply:?}"));
            let about = |text: &String| text.split([' ', '"', '\n']).any(|word| word == id);
            told.filter(about).for_each(|text| eprintln!("{text}"));
        }
        replies
    }
}
