//! The steps of a history, and their commands.
//!
//! Times are relative to the time of the step, and leases are counted from the last one, so that a
//! history can be run again without some of its steps.

use super::UrlModel;

/// A URL to discover.
#[derive(Clone, Debug)]
pub struct Found {
    /// The group.
    pub chg: &'static str,
    /// The time of the first fetch.
    pub at: i64,
    /// Distance from a seed.
    pub depth: i64,
    /// The key, or the text if there is no key.
    pub name: String,
    /// The text of a URL that has a key.
    pub page: Option<String>,
    /// The payload, if the form of the command has one.
    pub payload: Option<String>,
}

/// A URL to settle.
#[derive(Clone, Debug)]
pub struct Settled {
    /// The group of a URL that is not queued.
    pub chg: &'static str,
    /// The key, or the text if there is no key.
    pub name: String,
    /// The time of the next fetch; `None` marks the URL as done.
    pub at: Option<i64>,
    /// The payload, if the command has one.
    pub payload: String,
}

/// The URLs that `CHG.FORGET` selects.
#[derive(Clone, Debug, Default)]
pub struct Select {
    /// The group.
    pub chg: Option<&'static str>,
    /// Number of [`super::UNIT`]s before now.
    pub before: Option<i64>,
    /// True selects done URLs, false those that were given up.
    pub done: Option<bool>,
}

/// The options of a request for leases.
#[derive(Clone, Debug)]
pub struct Ask {
    /// Duration of the lease.
    pub lease: i64,
    /// Maximum number of URLs.
    pub uris: Option<i64>,
    /// The pause of the group, which is then free at once.
    pub gate: Option<i64>,
    /// The execution of the URLs.
    pub execution: Option<&'static str>,
}

/// The time of the next fetch from a group.
#[derive(Clone, Copy, Debug)]
pub enum When {
    /// A time.
    At(i64),
    /// A pause.
    Delay(i64),
    /// Duration of the fetch, and its status.
    Elapsed(i64, Option<i64>),
}

/// The result for the URLs of a release.
#[derive(Clone, Debug)]
pub enum End {
    /// The URLs return to the queue.
    Unchanged,
    /// The URLs are done.
    Done,
    /// The URLs return to the queue, with this due time and payload.
    Retry(i64, Option<String>),
    /// The client keeps the URLs for this time.
    Later(i64),
}

/// New limits of a group.
#[derive(Clone, Copy, Debug)]
pub enum Limits {
    /// Maximum number of fetches at a time.
    Parallel(i64),
    /// The stored pause; -1 removes it.
    Delay(i64),
    /// Number of further URLs; -1 removes the limit.
    Budget(i64),
    /// Number of done URLs of an execution; 0 removes the limit.
    Done(i64, &'static str),
}

/// A step of a history.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the fields are the options of the command")]
pub enum Step {
    /// `DISCOVER`.
    Discover {
        execution: &'static str,
        form: &'static str,
        fresh: Option<i64>,
        items: Vec<Found>,
    },
    /// `ADDURI`.
    AddUri {
        execution: &'static str,
        items: Vec<Found>,
    },
    /// `SETTLE`.
    Settle {
        execution: &'static str,
        status: Option<i64>,
        with_payload: bool,
        items: Vec<Settled>,
    },
    /// `FORGET … URIS`.
    Forget {
        execution: &'static str,
        names: Vec<String>,
    },
    /// `FORGET` of a selection.
    Select {
        execution: &'static str,
        select: Select,
    },
    /// `NEXT`.
    Next {
        ask: Ask,
        count: Option<i64>,
        chg: Option<&'static str>,
    },
    /// `RELEASE`.
    Release {
        which: usize,
        when: When,
        end: End,
        next: Option<Ask>,
    },
    /// Sends the last release of a lease again.
    Again { which: usize },
    Done {
        which: usize,
        names: Option<Vec<String>>,
    },
    /// `EXTEND`.
    Extend { which: usize, ms: i64 },
    /// `LIMIT`.
    Limit { chg: &'static str, limits: Limits },
    /// `BLOCK`.
    Block { chg: &'static str, ms: i64 },
    /// `PAUSE` or `RESUME`.
    Pause {
        on: bool,
        chg: Option<&'static str>,
        execution: Option<&'static str>,
    },
    /// `MOVE`.
    Move {
        from: &'static str,
        to: &'static str,
    },
    /// `DROP`.
    Drop { execution: &'static str },
    /// `DROP GROUP`.
    Empty { chg: &'static str },
    /// `SWEEP`.
    Sweep,
    /// Reads all reports of expired leases, which ends these leases.
    Expired,
    /// `REPAIR`.
    Repair,
    /// Unpacks the frontier, which is refused while it knows URLs, and packs it again.
    Unpack,
    /// Time passes.
    Pass(i64),
    /// Time passes until something changes: the nth of the next times.
    PassTo(usize),
    /// The server loads its data from an RDB file, or from its append-only file.
    Reload { aof: bool },
}

impl Step {
    /// Returns true if a plain frontier must refuse the step.
    pub fn needs_packed(&self) -> bool {
        match self {
            Step::Discover { .. }
            | Step::Settle { .. }
            | Step::Forget { .. }
            | Step::Select { .. }
            | Step::Done { .. } => true,
            Step::Next { ask, .. } => ask.is_full(),
            Step::Release { end, next, .. } => {
                matches!(end, End::Later(_) | End::Retry(_, Some(_)))
                    || next.as_ref().is_some_and(Ask::is_full)
            }
            Step::Limit { limits, .. } => matches!(limits, Limits::Done(..)),
            _ => false,
        }
    }

    /// Returns true if the step depends on the states of URLs whose leases may have expired. These
    /// leases must end before the step.
    pub fn needs_ended_leases(&self) -> bool {
        use Step::{AddUri, Discover, Drop, Empty, Forget, Limit, Move, Select, Settle};
        matches!(
            self,
            AddUri { .. }
                | Discover { .. }
                | Drop { .. }
                | Empty { .. }
                | Forget { .. }
                | Limit { .. }
                | Move { .. }
                | Select { .. }
                | Settle { .. }
        )
    }
}

/// Creates the arguments of a command.
macro_rules! words {
    ($($word:expr),+) => { vec![$($word.to_string()),+] };
}

impl Ask {
    fn words(&self) -> Vec<String> {
        let mut words = words!["LEASE", self.lease];
        let numbers = [("URIS", self.uris), ("GATE", self.gate)];
        for (name, n) in numbers {
            words.extend(n.into_iter().flat_map(|n| words![name, n]));
        }
        let execution = self.execution.into_iter();
        words.extend(execution.flat_map(|execution| words!["EXECUTION", execution]));
        words
    }

    /// Returns true if the leases have eight elements.
    pub(super) fn is_full(&self) -> bool {
        self.uris.is_some() || self.gate.is_some() || self.execution.is_some()
    }
}

impl UrlModel {
    /// Returns the arguments of a step: the name of the command, and the arguments after the prefix
    /// and the time. Returns `None` if the step cannot be sent now.
    pub fn words(&self, step: &Step) -> Option<Vec<String>> {
        let now = self.now;
        Some(match step {
            Step::Discover {
                execution,
                form,
                fresh,
                items,
            } => {
                let mut words = words!["DISCOVER", execution, form];
                words.extend(fresh.iter().flat_map(|ms| words!["FRESH", ms]));
                words.extend(words!["ITEMS", items.len()]);
                for item in items {
                    let uri = item.page.as_ref().unwrap_or(&item.name);
                    words.extend(words![item.chg, now + item.at, item.depth, uri]);
                    if form.starts_with("KEY") {
                        words.push(item.name.clone());
                    }
                    if form.ends_with("PAYLOAD") {
                        words.push(item.payload.clone().unwrap_or_default());
                    }
                }
                words
            }
            Step::AddUri { execution, items } => {
                if !self.remembers(execution) {
                    return None;
                }
                let mut words = words!["ADDURI", execution];
                for item in items {
                    words.extend(words![item.chg, now + item.at, item.depth, item.name]);
                }
                words
            }
            Step::Settle {
                execution,
                status,
                with_payload,
                items,
            } => {
                let mut words = words!["SETTLE", execution];
                words.extend(status.iter().flat_map(|code| words!["STATUS", code]));
                words.extend(with_payload.then(|| "PAYLOAD".to_owned()));
                words.extend(words!["ITEMS", items.len()]);
                for item in items {
                    let at = item.at.map(|at| (now + at).to_string());
                    let at = at.unwrap_or_else(|| "NEVER".to_owned());
                    words.extend(words![item.chg, item.name, at]);
                    words.extend(with_payload.then(|| item.payload.clone()));
                }
                words
            }
            Step::Forget { execution, names } => {
                let mut words = words!["FORGET", execution, "URIS", names.len()];
                words.extend(names.iter().cloned());
                words
            }
            Step::Select { execution, select } => {
                let mut words = words!["FORGET", execution];
                let chg = select.chg.into_iter();
                words.extend(chg.flat_map(|chg| words!["GROUP", chg]));
                let before = self.before(select).into_iter();
                words.extend(before.flat_map(|before| words!["BEFORE", before]));
                let states = ["GIVENUP", "DONE"];
                let state = select.done.map(|done| states[usize::from(done)]);
                words.extend(state.into_iter().flat_map(|state| words!["STATE", state]));
                words
            }
            Step::Next { ask, count, chg } => {
                let mut words = [words!["NEXT"], ask.words()].concat();
                words.extend(count.iter().flat_map(|n| words!["COUNT", n]));
                words.extend(chg.iter().flat_map(|chg| words!["GROUP", chg]));
                words
            }
            Step::Release {
                which,
                when,
                end,
                next,
            } => {
                let held = self.nth(*which)?;
                let mut words = words!["RELEASE", held.chg, held.token];
                words.extend(match when {
                    When::At(ms) => words!["AT", now + ms],
                    When::Delay(ms) => words!["DELAY", ms],
                    When::Elapsed(ms, None) => words!["ELAPSED", ms],
                    When::Elapsed(ms, Some(status)) => words!["ELAPSED", ms, "STATUS", status],
                });
                words.extend(match end {
                    End::Unchanged => vec![],
                    End::Done => words!["DONE", held.execution],
                    End::Retry(at, None) => words!["RETRY", now + at],
                    End::Retry(at, Some(payload)) => {
                        words!["RETRY", now + at, "PAYLOAD", payload]
                    }
                    End::Later(ms) => words!["LATER", ms],
                });
                if let Some(ask) = next {
                    words.push("NEXT".to_owned());
                    words.extend(ask.words());
                }
                words
            }
            Step::Again { which } => self.nth(*which)?.released.as_ref()?.words.clone(),
            Step::Done { which, names } => {
                let held = self.nth(*which)?;
                let mut words = words!["DONE", held.chg, held.token, held.execution];
                words.extend(names.iter().flatten().cloned());
                words
            }
            Step::Extend { which, ms } => {
                let held = self.nth(*which)?;
                words!["EXTEND", held.chg, held.token, ms]
            }
            Step::Limit { chg, limits } => {
                let limits = match limits {
                    Limits::Parallel(n) => words!["PARALLEL", n],
                    Limits::Delay(ms) => words!["DELAY", ms],
                    Limits::Budget(n) => words!["BUDGET", n],
                    Limits::Done(n, execution) => words!["DONE", n, "EXECUTION", execution],
                };
                [words!["LIMIT", chg], limits].concat()
            }
            Step::Block { chg, ms } => words!["BLOCK", chg, "UNTIL", now + ms],
            Step::Pause { on, chg, execution } => {
                let mut words = words![if *on { "PAUSE" } else { "RESUME" }];
                words.extend(chg.iter().map(ToString::to_string));
                words.extend(execution.iter().flat_map(|id| words!["EXECUTION", id]));
                words
            }
            Step::Move { from, to } => {
                if from == to || self.has_freed(from) {
                    return None;
                }
                words!["MOVE", from, to]
            }
            Step::Drop { execution } => words!["DROP", execution],
            Step::Empty { chg } => words!["DROP", "GROUP", chg],
            Step::Sweep => words!["SWEEP"],
            Step::Expired => words!["EXPIRED", "COUNT", 1000],
            Step::Repair => words!["REPAIR"],
            Step::Unpack => words!["UNPACK"],
            Step::Pass(_) | Step::PassTo(_) | Step::Reload { .. } => return None,
        })
    }

    pub(super) fn before(&self, select: &Select) -> Option<i64> {
        let units = select.before?;
        Some((self.now / super::UNIT - units) * super::UNIT)
    }
}
