//! Generates random histories, one command after the other. Most commands are plausible.
//!
//! The step that granted a lease identifies it: `\0<step>.<nth>` stands for its token. Therefore a
//! history can be run again without some of its steps.

use crawlspace_compact::limits::chg::ID_BYTES;
use redis_tests::frontier_model::FrontierModel;
use redis_tests::{Reply, Rng, T0, Word, packed_by_default, rows};

/// Ordinary groups, groups with several leases at the same time, and groups behind shared gates.
/// Some names look like options, or contain spaces or line breaks.
const OWN: [&str; 6] = ["a", "b.example", "c d\r\n", "NEXT", "EXECUTION", "f"];
const PARALLEL: [&str; 2] = ["p", "SEQ"];
const SHARED: [&str; 4] = ["s1", "s2", "s3", "s4"];
const PLAIN: [&str; 3] = ["plain1", "plain2", "plain3"];
const EXECUTIONS: [&str; 4] = ["crawl", "SEQ", "third crawl", "WEIGHT"];

/// Names of shared gates.
pub const GATES: [&str; 2] = ["server", "operator x"];

/// The kinds of steps that a history may have.
#[derive(Clone, Debug)]
pub struct Taste {
    kept: bool,
    counted: bool,
    parallel: bool,
    shared: bool,
    holds: bool,
    moves: bool,
    plain: bool,
    back: bool,
    short_leases: bool,
}

impl Taste {
    /// Chooses all kinds of steps, or only some of them.
    pub fn any(rng: &mut Rng) -> Taste {
        let kept = rng.chance(70);
        Taste {
            kept,
            counted: !kept || rng.chance(60),
            parallel: rng.chance(40),
            shared: rng.chance(40),
            holds: rng.chance(50),
            moves: rng.chance(40),
            // Plain clients cannot write to a packed frontier.
            plain: rng.chance(30) && !packed_by_default(),
            back: rng.chance(30),
            short_leases: rng.chance(60),
        }
    }
}

/// A step of a history: its number and the arguments of a command, without the prefix. Commands of
/// the module include the time at which they are sent.
#[derive(Clone, Debug)]
pub struct Step {
    id: usize,
    now: i64,
    words: Vec<String>,
}

/// A granted lease.
struct Granted {
    step: (usize, usize),
    chg: String,
    token: i64,
    execution: Option<String>,
}

/// The state of the generator between two steps.
pub struct Author {
    taste: Taste,
    steps: usize,
    granted: Vec<Granted>,
    /// Releases sent so far.
    sent: Vec<Vec<String>>,
    /// The number of each writer.
    writers: i64,
    /// Number of times that an execution was dropped. After a drop, its writers start again.
    dropped: usize,
}

/// Creates the arguments of a command from a list separated by `|`.
macro_rules! words {
    ($($format:tt)*) => { format!($($format)*).split('|').map(str::to_owned).collect::<Vec<String>>() };
}

impl Author {
    pub fn new(taste: Taste) -> Author {
        Author {
            taste,
            steps: 0,
            granted: Vec::new(),
            sent: Vec::new(),
            writers: 0,
            dropped: 0,
        }
    }

    /// Returns the arguments of a step with its tokens. Returns `None` if the lease was never
    /// granted.
    pub fn words(&self, prefix: &str, step: &Step) -> Option<Vec<Vec<u8>>> {
        let name = &step.words[0];
        let mut words = vec![name.word()];
        if name.starts_with("CHG.") {
            words.extend([prefix.word(), "NOW".word(), step.now.word()]);
        }
        for word in &step.words[1..] {
            words.push(match word.strip_prefix('\0') {
                None => word.word(),
                Some(lease) => {
                    let named = |g: &&Granted| format!("{}.{}", g.step.0, g.step.1) == lease;
                    self.granted.iter().find(named)?.token.word()
                }
            });
        }
        Some(words)
    }

    /// Records the leases in the reply to a step.
    pub fn note(&mut self, step: &Step, reply: &Reply) {
        let Reply::Array(items) = reply else { return };
        let leases = items
            .iter()
            .filter(|item| matches!(item, Reply::Array(parts) if parts.len() == 7));
        if !["CHG.NEXT", "CHG.RELEASE"].contains(&&step.words[0][..]) {
            return;
        }
        for (nth, lease) in leases.enumerate() {
            let parts = lease.items();
            self.granted.push(Granted {
                step: (step.id, nth),
                chg: parts[0].text(),
                token: parts[1].int(),
                execution: (!parts[5].is_nil()).then(|| parts[5].text()),
            });
        }
    }

    /// Generates the next step of a history whose state is `model`.
    pub fn step(&mut self, model: &FrontierModel, rng: &mut Rng) -> Step {
        self.steps += 1;
        let now = self.pass_time(model, rng);
        let words = self.command(now, model, rng);
        if words[0] == "CHG.RELEASE" {
            self.sent.push(words.clone());
        }
        let id = self.steps;
        Step { id, now, words }
    }

    /// Returns the time of the next step. The time usually advances, sometimes exactly to the next
    /// event. Occasionally it stays the same, and rarely it goes backwards.
    fn pass_time(&self, model: &FrontierModel, rng: &mut Rng) -> i64 {
        let now = model.now().max(T0 - 1000);
        match rng.below(100) {
            0..=29 => now,
            30..=79 => now + 1 + rng.below(30) as i64,
            80..=83 => now + rng.below(4000) as i64,
            84..=85 if self.taste.back => now - rng.below(40) as i64,
            86..=87 => now + rng.below(800_000) as i64,
            _ => {
                let moments = model.moments();
                if moments.is_empty() {
                    now + 1
                } else {
                    (*rng.pick(&moments) - rng.below(2) as i64).clamp(now, now + 1_000_000)
                }
            }
        }
    }

    fn command(&mut self, now: i64, model: &FrontierModel, rng: &mut Rng) -> Vec<String> {
        let taste = self.taste.clone();
        match rng.below(1000) {
            0..=319 => self.addition(now, rng),
            320..=519 => {
                let count = rng
                    .chance(30)
                    .then(|| format!("|COUNT|{}", 1 + rng.below(6)));
                words!("CHG.NEXT{}{}", self.lease(rng), count.unwrap_or_default())
            }
            520..=529 => words!("CHG.NEXT{}|GROUP|{}", self.lease(rng), self.group(rng)),
            530..=769 => self.release(now, model, rng),
            770..=799 => match self.token(model, rng) {
                Some((chg, token, _)) => words!("CHG.EXTEND|{chg}|{token}|{}", 1 + rng.below(3000)),
                None => words!("CHG.INFO"),
            },
            800..=829 if rng.chance(40) => words!("CHG.SWEEP|LIMIT|{}", 1 + rng.below(4)),
            800..=829 => words!("CHG.SWEEP"),
            830..=859 if rng.chance(50) => words!("CHG.EXPIRED|COUNT|{}", 1 + rng.below(4)),
            830..=859 => words!("CHG.EXPIRED"),
            860..=869 => words!("CHG.WHY|{}", self.group(rng)),
            870..=874 => words!("CHG.INFO"),
            875..=877 if !model.is_in_the_middle() => words!("CHG.REPAIR"),
            878..=879 => words!("DEBUG|RELOAD"),
            880..=899 => bad(now, model, rng),
            900..=939 if taste.holds => self.hold(now, rng),
            940..=954 if taste.parallel || taste.holds => self.limit(rng),
            955..=964 if taste.shared => sharing(rng),
            965..=979 if taste.moves => words!("CHG.MOVE|{}|{}", self.group(rng), self.group(rng)),
            980..=984 if taste.moves => {
                self.dropped += 1;
                if rng.chance(20) {
                    words!("CHG.DROP|GROUP|{}", self.group(rng))
                } else {
                    words!("CHG.DROP|{}", rng.pick(&EXECUTIONS))
                }
            }
            985..=992 if taste.plain => {
                let chg = *rng.pick(&PLAIN);
                match (model.has(chg), rng.chance(50)) {
                    (true, _) => words!("CHG.SWEEP"),
                    (_, true) => words!("RPUSH|{}chg_ready|{chg}", super::P),
                    (_, false) => {
                        words!(
                            "ZADD|{}chg_wait|{}|{chg}",
                            super::P,
                            now + rng.below(100) as i64
                        )
                    }
                }
            }
            _ => words!("CHG.NEXT{}", self.lease(rng)),
        }
    }

    fn addition(&mut self, now: i64, rng: &mut Rng) -> Vec<String> {
        let many = if rng.chance(60) { 1 } else { 1 + rng.below(6) };
        let keeps = self.taste.kept && (!self.taste.counted || rng.chance(70));
        let execution = *rng.pick(&EXECUTIONS);
        let mut items = String::new();
        for _ in 0..many {
            items += &format!("|{}|{}", self.group(rng), some_time(now, rng));
            if keeps {
                items += &format!("|{}|http://host/{} x", rng.below(3), rng.below(40));
            }
        }
        if keeps {
            let weight = rng
                .chance(15)
                .then(|| format!("|WEIGHT|{}", 1 + rng.below(4)));
            return words!(
                "CHG.ADDURI|{execution}{}{items}",
                weight.unwrap_or_default()
            );
        }
        let seq = rng.chance(15).then(|| {
            self.writers += i64::from(rng.chance(60));
            let n = (self.writers - i64::from(rng.chance(5))).max(1);
            format!("|SEQ|writer {}|{n}", self.dropped)
        });
        words!("CHG.ADD|{execution}{}{items}", seq.unwrap_or_default())
    }

    fn release(&mut self, now: i64, model: &FrontierModel, rng: &mut Rng) -> Vec<String> {
        if rng.chance(8) && !self.sent.is_empty() {
            // Repeats a release, usually one of the last.
            let back = rng.below(3).min(self.sent.len() as u64 - 1) as usize;
            return self.sent[self.sent.len() - 1 - back].clone();
        }
        let Some((chg, token, leased)) = self.token(model, rng) else {
            return words!("CHG.NEXT{}|COUNT|3", self.lease(rng));
        };
        let (mut done, mut retry) = (String::new(), String::new());
        if rng.chance(70) {
            let own = leased.clone().filter(|_| !rng.chance(4));
            let whose = own.unwrap_or_else(|| (*rng.pick(&EXECUTIONS)).to_owned());
            let most = if leased.is_some() { 2 } else { 4 };
            let count = rng.chance(15).then(|| format!("|{}", 1 + rng.below(most)));
            done = format!("|DONE|{whose}{}", count.unwrap_or_default());
        }
        if done.is_empty() && rng.chance(60) || rng.chance(2) {
            retry = format!("|RETRY|{}", some_time(now, rng));
        }
        let when = when(now, rng);
        let next = rng.chance(20).then(|| format!("|NEXT{}", self.lease(rng)));
        words!(
            "CHG.RELEASE|{chg}|{token}{when}{done}{retry}{}",
            next.unwrap_or_default()
        )
    }

    fn group(&self, rng: &mut Rng) -> &'static str {
        match rng.below(10) {
            0..=2 if self.taste.parallel => PARALLEL[rng.below(2) as usize],
            3..=6 if self.taste.shared => SHARED[rng.below(4) as usize],
            _ => OWN[rng.below(6) as usize],
        }
    }

    fn lease(&self, rng: &mut Rng) -> String {
        let (percent, most) = if self.taste.short_leases {
            (90, 300)
        } else {
            (50, 10_000)
        };
        let ms = rng
            .chance(percent)
            .then(|| format!("|LEASE|{}", 1 + rng.below(most)));
        ms.unwrap_or_default()
    }

    /// Returns a token and the execution of its URI. Usually, the lease of the token is held;
    /// sometimes, the token is outdated or belongs to another group.
    fn token(
        &self,
        model: &FrontierModel,
        rng: &mut Rng,
    ) -> Option<(String, String, Option<String>)> {
        let all = &self.granted;
        let held: Vec<_> = all
            .iter()
            .filter(|g| model.is_held(&g.chg, g.token))
            .collect();
        let old = all
            .len()
            .checked_sub(1 + rng.below(all.len().clamp(1, 20) as u64) as usize)?;
        let lease = if held.is_empty() || rng.chance(6) {
            &all[old]
        } else {
            *rng.pick(&held)
        };
        let token = format!("\0{}.{}", lease.step.0, lease.step.1);
        let chg = lease.chg.clone();
        let execution = lease.execution.clone();
        Some(match rng.below(100) {
            0 => (chg, "1".to_owned(), execution),
            1 => ("nobody".to_owned(), token, execution),
            2 => ((*rng.pick(&OWN)).to_owned(), token, execution),
            _ => (chg, token, execution),
        })
    }

    fn hold(&self, now: i64, rng: &mut Rng) -> Vec<String> {
        if rng.chance(40) {
            return words!(
                "CHG.BLOCK|{}|UNTIL|{}",
                self.group(rng),
                some_time(now, rng)
            );
        }
        let name = if rng.chance(35) { "PAUSE" } else { "RESUME" };
        match rng.below(10) {
            0 => words!("CHG.{name}"),
            1..=5 => words!("CHG.{name}|{}", self.group(rng)),
            _ => words!("CHG.{name}|EXECUTION|{}", rng.pick(&EXECUTIONS)),
        }
    }

    fn limit(&self, rng: &mut Rng) -> Vec<String> {
        let is_parallel = self.taste.parallel && rng.chance(70);
        let chg = if is_parallel {
            *rng.pick(&PARALLEL)
        } else {
            *rng.pick(&OWN)
        };
        let mut limits = String::new();
        if is_parallel {
            limits += &format!("|PARALLEL|{}", 1 + rng.below(4));
        }
        if rng.chance(30) {
            limits += &format!("|GAP|{}", rng.below(300));
        }
        if rng.chance(20) {
            limits += &format!("|DELAY|{}", rng.below(400) as i64 - 1);
        }
        // An error message of `UNPACK` must show the group as it is.
        if rng.chance(10) && !chg.contains('\n') {
            let execution = rng.pick(&EXECUTIONS);
            limits += &format!("|DONE|{}|EXECUTION|{execution}", rng.below(3));
        }
        if limits.is_empty() || rng.chance(30) {
            limits += &format!("|BUDGET|{}", (rng.below(18) as i64 - 6).max(-1));
        }
        words!("CHG.LIMIT|{chg}{limits}")
    }
}

fn some_time(now: i64, rng: &mut Rng) -> i64 {
    match rng.below(100) {
        0..=49 => now,
        50..=64 => now - rng.below(100) as i64,
        65..=66 => 0,
        67..=94 => now + rng.below(200) as i64,
        _ => now + rng.below(20_000) as i64,
    }
}

fn when(now: i64, rng: &mut Rng) -> String {
    match rng.below(100) {
        0..=24 => return format!("|AT|{}", some_time(now, rng)),
        25..=56 => {
            let most = *rng.pick(&[1, 100, 2000]);
            return format!("|DELAY|{}", rng.below(most));
        }
        // Use the stored delay of the group, if there is one.
        57..=59 => return String::new(),
        _ => {}
    }
    let mut facts = format!("|ELAPSED|{}", 100 * rng.below(8));
    if rng.chance(50) {
        facts += &format!(
            "|FACTOR|{}",
            rng.pick(&["1.5", "0.25", "10", "0", "2.0", "0.333"])
        );
    }
    let min = rng.chance(30).then(|| rng.below(500));
    let max = rng.chance(30).then(|| rng.below(1000) + min.unwrap_or(0));
    let mut some = |percent: u64| rng.chance(percent).then(|| rng.below(1000));
    for (name, ms) in rows![
        "MIN", min; "MAX", max; "CRAWLDELAY", some(20); "RETRYAFTER", some(20);
    ] {
        if let Some(ms) = ms {
            facts += &format!("|{name}|{ms}");
        }
    }
    if rng.chance(50) {
        let statuses = [200, 404, 429, 503, 522, 500, 505, -2, 0, 301, 509, 531];
        facts += &format!("|STATUS|{}", rng.pick(&statuses));
    }
    facts
}

/// Returns a command that makes groups share a gate, or stop sharing one.
fn sharing(rng: &mut Rng) -> Vec<String> {
    let mut members = SHARED;
    rng.shuffle(&mut members);
    let members = members[..1 + rng.below(3) as usize].join("|");
    let gate = if rng.chance(15) { "" } else { rng.pick(&GATES) };
    words!("CHG.GROUP|{gate}|{members}")
}

/// Returns a command that the server must reject.
fn bad(now: i64, model: &FrontierModel, rng: &mut Rng) -> Vec<String> {
    let far = now + 11 * 366 * 86_400_000;
    let long = "x".repeat(ID_BYTES + 1);
    let (chg, token) = model.some_lease().unwrap_or(("a".to_owned(), 1));
    match rng.below(24) {
        0 => words!("CHG.ADD|crawl|a|soon"),
        1 => words!("CHG.ADD|crawl|a|{now}|b|-1"),
        2 => words!("CHG.ADD|crawl|a|{now}|b|{far}"),
        3 => words!("CHG.ADD|crawl|a|{now}|{long}|{now}"),
        4 => words!("CHG.ADD|crawl|a|{now}||{now}"),
        5 => words!("CHG.ADDURI|crawl|a|{now}|-1|http://u/"),
        6 => words!("CHG.ADDURI|crawl|WEIGHT|0|a|{now}|1|u"),
        7 => words!("CHG.ADDURI|crawl|a|{now}|1|"),
        8 => words!("CHG.NEXT|COUNT|0"),
        9 => words!("CHG.NEXT|LEASE|-5"),
        10 => words!("CHG.NEXT|BLOCK|0"),
        11 => words!("CHG.RELEASE|{chg}|{token}|DELAY|-1"),
        12 => words!("CHG.RELEASE|{chg}|{token}|AT|{far}"),
        13 => words!("CHG.RELEASE|{chg}|{token}|DONE|crawl|AT|0"),
        14 => words!("CHG.RELEASE|{chg}|{token}|ELAPSED|5|FACTOR|x"),
        15 => words!("CHG.RELEASE|{chg}|{token}|ELAPSED|5|MIN|9|MAX|8"),
        16 => words!("CHG.EXTEND|{chg}|{token}|0"),
        17 => words!("CHG.SWEEP|LIMIT|0"),
        18 => words!("CHG.EXPIRED|COUNT|1001"),
        19 => words!("CHG.BLOCK|a|UNTIL|{far}"),
        20 => words!("CHG.LIMIT|a"),
        21 => words!("CHG.LIMIT|a|PARALLEL|0"),
        22 => words!("CHG.GROUP|gate"),
        _ => words!("CHG.MOVE|a|a"),
    }
}
