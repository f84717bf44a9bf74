//! A model of a packed frontier that remembers its URLs, made of maps, according to
//! `docs/commands/chg.*.md`. The model checks the reply of each command and the states of all URLs,
//! and shares no code with the module.
//!
//! [`crate::frontier_model`] computes the order in which groups are leased. This model accepts each lease that the
//! documentation allows, and requires a lease if a group is certainly due. A lease that has expired
//! counts as leased until a command ends it. The documentation does not determine this command, so
//! the model then accepts both states.
//!
//! * `step` contains the steps of a history, and their commands.
//! * `leases` grants leases and ends them.
//! * `urls` contains the commands that name URLs.

mod leases;
mod step;
mod urls;

use std::collections::{BTreeMap, BTreeSet};

use crate::history::Verdict;
use crate::must;
use crate::wire::Reply;

use leases::Held;
pub use step::{Ask, End, Found, Limits, Select, Settled, Step, When};

/// Resolution of the time at which the state of a URL changed, in milliseconds.
pub const UNIT: i64 = 600_000;

/// An execution and the name of a URL: its key, or its text if it has no key.
type Place = (String, String);

/// The state of a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Queued,
    /// Leased with this token.
    Leased(i64),
    Done,
    GivenUp,
}

/// A known URL.
#[derive(Clone, Debug)]
struct Url {
    chg: String,
    state: State,
    due: i64,
    depth: i64,
    /// The text of a URL whose name is a key.
    page: Option<String>,
    payload: Option<String>,
    attempts: i64,
    status: i64,
    /// Time of the last change of the state.
    changed: i64,
}

impl Url {
    /// Returns true if the URL is queued or leased.
    fn is_open(&self) -> bool {
        matches!(self.state, State::Queued | State::Leased(_))
    }

    fn is_queued(&self, now: i64) -> bool {
        self.state == State::Queued && self.due <= now
    }

    /// Changes the state.
    fn turn(&mut self, state: State, now: i64) {
        self.state = state;
        self.changed = now;
    }
}

/// The options of a group, and the end of its pause.
#[derive(Clone, Debug)]
struct Group {
    pause: i64,
    blocked: i64,
    paused: bool,
    parallel: i64,
    delay: Option<i64>,
    budget: Option<i64>,
    /// Limits of done URLs, by execution.
    done: BTreeMap<String, i64>,
}

impl Default for Group {
    fn default() -> Group {
        Group {
            pause: 0,
            blocked: 0,
            paused: false,
            parallel: 1,
            delay: None,
            budget: None,
            done: BTreeMap::new(),
        }
    }
}

/// Counts of events, with which a test proves that its histories reach each part of the model.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// Number of leases.
    pub leases: u64,
    /// Number of leases with several URLs.
    pub joint: u64,
    /// Number of leases that freed their group before their URLs were done.
    pub freed: u64,
    /// Number of URLs that became done with `CHG.DONE`.
    pub done: u64,
    /// Number of URLs that `CHG.SETTLE` changed.
    pub settled: u64,
    /// Number of forgotten URLs.
    pub forgotten: u64,
    /// Number of URLs that were given up.
    pub given_up: u64,
    /// Number of URLs that were done or given up, and were discovered again.
    pub again: u64,
    /// Number of releases, extensions and other commands with an outdated token.
    pub stale: u64,
}

/// A frontier.
#[derive(Clone, Debug)]
pub struct UrlModel {
    /// The time of the last command.
    pub now: i64,
    /// Number of leases of a URL that may expire before the URL is given up.
    attempts: i64,
    groups: BTreeMap<String, Group>,
    urls: BTreeMap<Place, Url>,
    /// The executions that remember their URLs.
    spaces: BTreeSet<String>,
    /// All leases, the last one at the end.
    leases: Vec<Held>,
    all_paused: bool,
    paused: BTreeSet<String>,
    /// The time until which each dropped execution may refuse URLs.
    refuses: BTreeMap<String, i64>,
    /// Reports of expired leases that were not read.
    reports: Vec<Reply>,
    /// Counts of events so far.
    pub figures: Figures,
}

impl UrlModel {
    /// Creates an empty frontier.
    pub fn new(now: i64, attempts: i64) -> UrlModel {
        UrlModel {
            now,
            attempts,
            groups: BTreeMap::new(),
            urls: BTreeMap::new(),
            spaces: BTreeSet::new(),
            leases: Vec::new(),
            all_paused: false,
            paused: BTreeSet::new(),
            refuses: BTreeMap::new(),
            reports: Vec::new(),
            figures: Figures::default(),
        }
    }

    fn group(&mut self, chg: &str) -> &mut Group {
        self.groups.entry(chg.to_owned()).or_default()
    }

    /// Returns the number of queued and leased URLs of a group.
    fn count_of(&self, chg: &str) -> i64 {
        let urls = self.urls.values();
        urls.filter(|url| url.chg == chg && url.is_open()).count() as i64
    }

    /// Makes an execution remember its URLs.
    pub fn remember(&mut self, execution: &str) {
        self.spaces.insert(execution.to_owned());
    }

    /// Returns true if an execution remembers its URLs.
    pub fn remembers(&self, execution: &str) -> bool {
        self.spaces.contains(execution)
    }

    /// Returns the future times at which something changes.
    pub fn moments(&self) -> Vec<i64> {
        let urls = self.urls.values().filter(|url| url.is_open());
        let urls = urls.map(|url| url.due);
        let leases = self.leases.iter().map(|held| held.until);
        let groups = self.groups.values().flat_map(|g| [g.pause, g.blocked]);
        let all = urls.chain(leases).chain(groups);
        all.filter(|time| *time > self.now).collect()
    }

    /// Checks the reply to `CHG.COUNT`.
    ///
    /// # Errors
    /// The difference.
    pub fn counts(&self, execution: &str, reply: &Reply) -> Verdict {
        let counts = self.urls.iter().filter(|((of, _), _)| of == execution);
        let mut all = [0; 5];
        for (_, url) in counts {
            let state = match url.state {
                State::Queued => 0,
                State::Leased(_) => 1,
                State::Done => 2,
                State::GivenUp => 3,
            };
            all[state] += 1;
            all[4] += 1;
        }
        let names = ["queued", "leased", "done", "given-up", "known"];
        let found = names.map(|name| reply.field(name).int());
        must!(
            found == all,
            "COUNT of {execution}: expected {all:?}, got {found:?}"
        );
        Ok(())
    }

    /// Checks the reply to `CHG.CHECK`.
    ///
    /// # Errors
    /// The difference.
    pub fn is_conserved(&self, reply: &Reply) -> Verdict {
        must!(
            !reply.is_error() && reply.field("consistent").int() == 1,
            "CHECK: {reply:?}"
        );
        let open = self.urls.values().filter(|url| url.is_open()).count() as i64;
        for sum in ["total", "sum-groups", "sum-executions"] {
            let found = reply.field(sum).int();
            must!(found == open, "CHECK: {sum} is {found} instead of {open}");
        }
        Ok(())
    }
}

/// Checks that a reply is an error with one of these words.
fn refused(reply: &Reply, words: &[&str]) -> Verdict {
    let Reply::Error(line) = reply else {
        return Err(format!("expected an error, got {reply:?}"));
    };
    let line = String::from_utf8_lossy(line);
    let word = line.split(' ').next().unwrap_or_default();
    must!(words.contains(&word), "expected {words:?}, got {line:?}");
    Ok(())
}

fn expect(reply: &Reply, expected: &Reply) -> Verdict {
    must!(reply == expected, "expected {expected:?}, got {reply:?}");
    Ok(())
}
