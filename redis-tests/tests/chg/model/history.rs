//! Random histories: one command after the other, mostly sensible ones.

use redis_tests::Rng;

use crate::model::command::{Command, Facts, Grant, Item, Release, Token, When, Whom};
use crate::model::frontier_model::Model;
use crate::model::group::Place;

/// Groups of their own, groups with several leases at a time, groups behind shared gates. Names
/// that look like options and that are no single word must do no harm.
const OWN: [&str; 6] = ["a", "b.example", "c d\r\n", "NEXT", "EXECUTION", "f"];
const PARALLEL: [&str; 2] = ["p", "SEQ"];
const SHARED: [&str; 4] = ["s1", "s2", "s3", "s4"];
const PLAIN: [&str; 3] = ["plain1", "plain2", "plain3"];
const EXECUTIONS: [&str; 4] = ["crawl", "SEQ", "third crawl", "WEIGHT"];

/// Names of shared gates.
pub const GATES: [&str; 2] = ["server", "operator x"];

/// What a history may have in it.
#[derive(Clone, Debug)]
pub struct Taste {
    pub kept: bool,
    pub counted: bool,
    pub parallel: bool,
    pub shared: bool,
    pub holds: bool,
    pub moves: bool,
    pub plain: bool,
    pub back: bool,
    pub short_leases: bool,
}

impl Taste {
    /// Something of everything, or less.
    pub fn any(rng: &mut Rng) -> Taste {
        let kept = rng.chance(70);
        let shared = rng.chance(40);
        Taste {
            kept,
            counted: !kept || rng.chance(60),
            parallel: rng.chance(40),
            shared,
            holds: rng.chance(50),
            moves: rng.chance(40),
            plain: rng.chance(30),
            // What a gate promises while the clock goes back is left open.
            back: rng.chance(30) && !shared,
            short_leases: rng.chance(60),
        }
    }
}

/// A step of a history.
#[derive(Clone, Debug)]
pub struct Step {
    pub id: usize,
    pub now: i64,
    pub command: Command,
}

/// What is remembered between two steps, beside the model.
#[derive(Default)]
pub struct Author {
    /// Releases sent so far.
    sent: Vec<Release>,
    /// The number of each writer.
    writers: i64,
    /// How often an execution was dropped: its writers begin anew.
    dropped: usize,
}

impl Author {
    /// The next step of a history that has come to `model`.
    pub fn step(&mut self, id: usize, model: &Model, taste: &Taste, rng: &mut Rng) -> Step {
        let now = pass_time(model, taste, rng);
        let command = self.command(now, model, taste, rng);
        if let Command::Release(release) = &command {
            self.sent.push(release.clone());
        }
        Step { id, now, command }
    }

    fn command(&mut self, now: i64, model: &Model, taste: &Taste, rng: &mut Rng) -> Command {
        match rng.below(1000) {
            0..=319 => self.addition(now, taste, rng),
            320..=529 => Command::Next {
                lease: lease(taste, rng),
                count: rng.chance(30).then(|| 1 + rng.below(6) as i64),
            },
            530..=769 => self.release(now, model, taste, rng),
            770..=799 => match token(model, rng) {
                Some((chg, token)) => Command::Extend {
                    chg,
                    token,
                    ms: 1 + rng.below(3000) as i64,
                },
                None => Command::Info,
            },
            800..=829 => Command::Sweep {
                limit: rng.chance(40).then(|| 1 + rng.below(4) as i64),
            },
            830..=859 => Command::Expired {
                count: rng.chance(50).then(|| 1 + rng.below(4) as i64),
            },
            860..=869 => Command::Why {
                chg: group(taste, rng),
            },
            870..=874 => Command::Info,
            875..=877 if !is_in_the_middle(model) => Command::Repair,
            878..=879 => Command::Reload,
            880..=899 => bad(now, model, rng),
            900..=939 if taste.holds => hold(now, taste, rng),
            940..=954 if taste.parallel || taste.holds => limit(taste, rng),
            955..=964 if taste.shared => sharing(model, rng),
            965..=979 if taste.moves => Command::Move {
                from: group(taste, rng),
                to: group(taste, rng),
            },
            980..=984 if taste.moves => {
                self.dropped += 1;
                Command::Drop {
                    execution: execution(rng),
                }
            }
            985..=992 if taste.plain => {
                let chg = (*rng.pick(&PLAIN)).to_owned();
                match (model.groups.contains_key(&chg), rng.chance(50)) {
                    (true, _) => Command::Sweep { limit: None },
                    (_, true) => Command::PushReady { chg },
                    (_, false) => Command::PutWait {
                        chg,
                        at: now + rng.below(100) as i64,
                    },
                }
            }
            _ => Command::Next {
                lease: lease(taste, rng),
                count: None,
            },
        }
    }

    fn addition(&mut self, now: i64, taste: &Taste, rng: &mut Rng) -> Command {
        let many = if rng.chance(60) { 1 } else { 1 + rng.below(6) };
        let keeps = taste.kept && (!taste.counted || rng.chance(70));
        let execution = execution(rng);
        let items = (0..many).map(|_| Item {
            chg: group(taste, rng),
            at: some_time(now, rng),
            uri: keeps.then(|| {
                let n = rng.below(40);
                (rng.below(3) as u32, format!("http://host/{n} x"))
            }),
        });
        let items: Vec<Item> = items.collect();
        if keeps {
            let weight = rng.chance(15).then(|| 1 + rng.below(4) as i64);
            return Command::AddUri {
                execution,
                weight,
                items,
            };
        }
        let seq = rng.chance(15).then(|| {
            self.writers += i64::from(rng.chance(60));
            let n = (self.writers - i64::from(rng.chance(5))).max(1);
            (format!("writer {}", self.dropped), n)
        });
        Command::Add {
            execution,
            seq,
            items,
        }
    }

    fn release(&mut self, now: i64, model: &Model, taste: &Taste, rng: &mut Rng) -> Command {
        if rng.chance(8) && !self.sent.is_empty() {
            // A retry, mostly of one of the last releases.
            let back = rng.below(3).min(self.sent.len() as u64 - 1) as usize;
            return Command::Release(self.sent[self.sent.len() - 1 - back].clone());
        }
        let Some((chg, token)) = token(model, rng) else {
            return Command::Next {
                lease: lease(taste, rng),
                count: Some(3),
            };
        };
        let held = model.number(token);
        let held = held.and_then(|token| model.groups.get(&chg)?.lease(token));
        let leased = held.and_then(|held| held.told.execution.clone());
        let (mut done, mut retry) = (None, None);
        if rng.chance(70) {
            let whose = leased
                .clone()
                .filter(|_| !rng.chance(4))
                .unwrap_or_else(|| execution(rng));
            let most = if leased.is_some() { 2 } else { 4 };
            let count = rng.chance(15).then(|| 1 + rng.below(most) as i64);
            done = Some((whose, count));
        }
        if done.is_none() && rng.chance(60) || rng.chance(2) {
            retry = Some(some_time(now, rng));
        }
        Command::Release(Release {
            chg,
            token,
            when: when(now, rng),
            done,
            retry,
            next: rng.chance(20).then(|| lease(taste, rng)),
        })
    }
}

/// Time mostly goes on, sometimes to the very moment at which something happens; now and then it
/// stands still, and rarely it goes back.
fn pass_time(model: &Model, taste: &Taste, rng: &mut Rng) -> i64 {
    let now = model.now;
    match rng.below(100) {
        0..=29 => now,
        30..=79 => now + 1 + rng.below(30) as i64,
        80..=83 => now + rng.below(4000) as i64,
        84..=85 if taste.back => now - rng.below(40) as i64,
        86..=87 => now + rng.below(800_000) as i64,
        _ => {
            let groups = model.groups.values();
            let moments = groups.flat_map(|g| [g.n, g.gate, g.blocked, g.deadline().unwrap_or(0)]);
            let moments: Vec<i64> = moments.filter(|moment| *moment > now).collect();
            if moments.is_empty() {
                now + 1
            } else {
                (*rng.pick(&moments) - rng.below(2) as i64).clamp(now, now + 1_000_000)
            }
        }
    }
}

fn group(taste: &Taste, rng: &mut Rng) -> String {
    let chg = match rng.below(10) {
        0..=2 if taste.parallel => rng.pick(&PARALLEL),
        3..=6 if taste.shared => rng.pick(&SHARED),
        _ => rng.pick(&OWN),
    };
    (*chg).to_owned()
}

fn execution(rng: &mut Rng) -> String {
    (*rng.pick(&EXECUTIONS)).to_owned()
}

fn lease(taste: &Taste, rng: &mut Rng) -> Option<i64> {
    if taste.short_leases {
        return rng.chance(90).then(|| 1 + rng.below(300) as i64);
    }
    rng.chance(50).then(|| 1 + rng.below(10_000) as i64)
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

fn when(now: i64, rng: &mut Rng) -> When {
    match rng.below(100) {
        0..=24 => When::At(some_time(now, rng)),
        25..=59 => When::Delay(match rng.below(3) {
            0 => 0,
            1 => rng.below(100) as i64,
            _ => rng.below(2000) as i64,
        }),
        _ => {
            let mut some =
                |percent: u64, limit: u64| rng.chance(percent).then(|| rng.below(limit) as i64);
            let min = some(30, 500);
            let max = some(30, 1000).map(|max| max + min.unwrap_or(0));
            let (crawl_delay, retry_after) = (some(20, 1000), some(20, 1000));
            let statuses = [200, 404, 429, 503, 522, 500, 505, -2, 0, 301, 509, 531];
            When::Facts(Facts {
                elapsed: 100 * rng.below(8) as i64,
                factor: rng.chance(50).then(|| {
                    let factors = [
                        ("1.5", 1500),
                        ("0.25", 250),
                        ("10", 10_000),
                        ("0", 0),
                        ("2.0", 2000),
                    ];
                    *rng.pick(&factors)
                }),
                min,
                max,
                crawl_delay,
                retry_after,
                status: rng.chance(50).then(|| *rng.pick(&statuses)),
            })
        }
    }
}

/// A token: mostly one that is held, sometimes an old one, or one of another group.
fn token(model: &Model, rng: &mut Rng) -> Option<(String, Token)> {
    let all: Vec<(&Grant, &(String, i64))> = model.grants.iter().collect();
    if all.is_empty() {
        return None;
    }
    let is_held = |lease: &(String, i64)| {
        let group = model.groups.get(&lease.0);
        group.is_some_and(|group| group.lease(lease.1).is_some())
    };
    let held: Vec<_> = all.iter().filter(|lease| is_held(lease.1)).collect();
    let (grant, (chg, _)) = if held.is_empty() || rng.chance(6) {
        all[all.len() - 1 - rng.below(all.len().min(20) as u64) as usize]
    } else {
        **rng.pick(&held)
    };
    Some(match rng.below(100) {
        0 => (chg.clone(), Token::Number(1)),
        1 => ("nobody".to_owned(), Token::Of(*grant)),
        2 => ((*rng.pick(&OWN)).to_owned(), Token::Of(*grant)),
        _ => (chg.clone(), Token::Of(*grant)),
    })
}

fn hold(now: i64, taste: &Taste, rng: &mut Rng) -> Command {
    if rng.chance(40) {
        return Command::Block {
            chg: group(taste, rng),
            until: some_time(now, rng),
        };
    }
    let whom = match rng.below(10) {
        0 => Whom::All,
        1..=5 => Whom::Group(group(taste, rng)),
        _ => Whom::Execution(execution(rng)),
    };
    Command::Pause {
        whom,
        on: rng.chance(35),
    }
}

fn limit(taste: &Taste, rng: &mut Rng) -> Command {
    let parallel = taste.parallel && rng.chance(70);
    let chg = if parallel {
        (*rng.pick(&PARALLEL)).to_owned()
    } else {
        (*rng.pick(&OWN)).to_owned()
    };
    let gap = rng.chance(30).then(|| rng.below(300) as i64);
    let budget = rng.chance(30).then(|| rng.below(12) as i64 - 1);
    let parallel = parallel.then(|| 1 + rng.below(4) as i64);
    let none = parallel.is_none() && gap.is_none() && budget.is_none();
    Command::Limit {
        chg,
        parallel,
        gap,
        budget: if none { Some(-1) } else { budget },
    }
}

/// Groups share a gate, or no longer; not while they are leased.
fn sharing(model: &Model, rng: &mut Rng) -> Command {
    let mut members: Vec<String> = SHARED.map(str::to_owned).into();
    rng.shuffle(&mut members);
    members.truncate(1 + rng.below(3) as usize);
    let is_free = |chg: &String| model.groups.get(chg).is_none_or(|g| g.leases.is_empty());
    members.retain(is_free);
    if members.is_empty() {
        return Command::Info;
    }
    let group = if rng.chance(15) { "" } else { rng.pick(&GATES) };
    Command::Group {
        group: group.to_owned(),
        members,
    }
}

/// Something that no server should take.
fn bad(now: i64, model: &Model, rng: &mut Rng) -> Command {
    let far = (now + 11 * 366 * 86_400_000).to_string();
    let long = "x".repeat(1025);
    let held = model.groups.iter().find_map(|(chg, group)| {
        let lease = group.leases.first()?;
        Some((chg.clone(), lease.token().to_string()))
    });
    let (chg, token) = held.unwrap_or(("a".to_owned(), "1".to_owned()));
    let at = now.to_string();
    let words: (&'static str, Vec<&str>) = match rng.below(24) {
        0 => ("ADD", vec!["crawl", "a", "soon"]),
        1 => ("ADD", vec!["crawl", "a", &at, "b", "-1"]),
        2 => ("ADD", vec!["crawl", "a", &at, "b", &far]),
        3 => ("ADD", vec!["crawl", "a", &at, &long, &at]),
        4 => ("ADD", vec!["crawl", "a", &at, "", &at]),
        5 => ("ADDURI", vec!["crawl", "a", &at, "-1", "http://u/"]),
        6 => ("ADDURI", vec!["crawl", "WEIGHT", "0", "a", &at, "1", "u"]),
        7 => ("ADDURI", vec!["crawl", "a", &at, "1", ""]),
        8 => ("NEXT", vec!["COUNT", "0"]),
        9 => ("NEXT", vec!["LEASE", "-5"]),
        10 => ("NEXT", vec!["BLOCK", "0"]),
        11 => ("RELEASE", vec![&chg, &token, "DELAY", "-1"]),
        12 => ("RELEASE", vec![&chg, &token, "AT", &far]),
        13 => ("RELEASE", vec![&chg, &token, "DONE", "crawl"]),
        14 => ("RELEASE", vec![&chg, &token, "ELAPSED", "5", "FACTOR", "x"]),
        15 => {
            let facts = ["ELAPSED", "5", "MIN", "9", "MAX", "8"];
            let mut words = vec![chg.as_str(), token.as_str()];
            words.extend(facts);
            ("RELEASE", words)
        }
        16 => ("EXTEND", vec![&chg, &token, "0"]),
        17 => ("SWEEP", vec!["LIMIT", "0"]),
        18 => ("EXPIRED", vec!["COUNT", "1001"]),
        19 => ("BLOCK", vec!["a", "UNTIL", &far]),
        20 => ("LIMIT", vec!["a"]),
        21 => ("LIMIT", vec!["a", "PARALLEL", "0"]),
        22 => ("GROUP", vec!["gate"]),
        _ => ("MOVE", vec!["a", "a"]),
    };
    let arguments = words.1.into_iter().map(str::to_owned).collect();
    Command::Bad(words.0, arguments)
}

/// True when nothing may be said about `CHECK`, because a plain client's group has no hash yet.
pub fn is_in_the_middle(model: &Model) -> bool {
    let mut groups = model.groups.values();
    groups.any(|group| group.plain && group.place != Place::Nowhere)
}
