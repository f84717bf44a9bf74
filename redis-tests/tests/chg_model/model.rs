//! The politeness frontier as the specification has it, in maps: what each command must reply.
//!
//! Where the specification leaves open which of several things a server does, its choice is
//! checked against what is allowed, and adopted.

use std::collections::{BTreeMap, BTreeSet};

use redis_tests::{Lease, Reply};

use crate::command::{Command, Facts, Grant, Item, Release, Token, When, Whom};
use crate::group::{Group, Held, Place, Uri, NEVER};

/// What is wrong with a reply, if anything.
pub type Verdict = Result<(), String>;

/// Fails the verdict unless the condition holds.
macro_rules! must {
    ($condition:expr, $($words:tt)+) => {
        if !$condition {
            return Err(format!($($words)+));
        }
    };
}
pub(crate) use must;

/// Length of a lease that names none.
const LEASE: i64 = 600_000;

/// A lease that ran out and was not read yet.
#[derive(Clone, Debug)]
struct Report {
    chg: String,
    execution: Option<String>,
    uri: Option<String>,
    times: i64,
    /// When it was noticed, and the deadline.
    order: (u64, i64),
    /// The URI had been dropped: it may go unreported.
    optional: bool,
}

/// The release that was last, with what it replied.
#[derive(Clone, Debug)]
struct Past {
    token: i64,
    due: i64,
    lease: Option<Lease>,
}

/// Where a group that may be leased comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Ready,
    Wait,
    Busy,
}

/// The model.
#[derive(Clone, Debug, Default)]
pub struct Model {
    pub now: i64,
    /// The latest time so far: time may go back.
    pub latest: i64,
    pub groups: BTreeMap<String, Group>,
    /// `chg_ready`: group, the command that put it there, and its time.
    pub ready: Vec<(String, u64, i64)>,
    /// Shared gates: closed until.
    pub gates: BTreeMap<String, i64>,
    pub paused: BTreeSet<String>,
    pub all_paused: bool,
    pub grants: BTreeMap<Grant, (String, i64)>,
    /// Leases that run out with one URI before it is given up.
    attempts: i64,
    token: i64,
    /// The data were read in again since the last lease.
    reloaded: bool,
    numbered: BTreeMap<(String, String), (i64, Reply)>,
    past: BTreeMap<String, Past>,
    /// What the release of each token replied.
    answers: BTreeMap<i64, i64>,
    reports: Vec<Report>,
    commands: u64,
    turns: u64,
}

impl Model {
    /// An empty frontier that gives a URI up after so many leases.
    pub fn new(attempts: i64) -> Model {
        Model {
            attempts,
            ..Model::default()
        }
    }

    /// The number that a token stands for.
    pub fn number(&self, token: Token) -> Option<i64> {
        match token {
            Token::Of(grant) => Some(self.grants.get(&grant)?.1),
            Token::Number(n) => Some(n),
        }
    }

    /// Judges the reply to a command, and follows it.
    pub fn follow(&mut self, step: usize, now: i64, command: &Command, reply: &Reply) -> Verdict {
        self.now = now;
        self.latest = self.latest.max(now);
        self.commands += 1;
        match command {
            Command::Add {
                execution,
                seq,
                items,
            } => self.add_numbered(execution, seq.as_ref(), items, reply),
            Command::AddUri {
                execution,
                weight,
                items,
            } => self.add(execution, *weight, items, reply),
            Command::Next { lease, count } => {
                let told = leases(reply)?;
                let lease = lease.unwrap_or(LEASE);
                self.next(step, lease, count.unwrap_or(1) as usize, &told)
            }
            Command::Release(release) => self.release(step, release, reply),
            Command::Extend { chg, token, ms } => self.extend(chg, *token, *ms, reply),
            Command::Sweep { limit } => self.sweep(*limit, reply),
            Command::Expired { count } => self.expired(count.unwrap_or(100) as usize, reply),
            Command::Block { chg, until } => {
                if !self.knows(chg, reply)? {
                    return Ok(());
                }
                let group = self.group(chg);
                group.blocked = if *until > now { *until } else { 0 };
                group.open = true;
                if group.blocked > 0 {
                    group.turn = None;
                }
                is_ok(reply)
            }
            Command::Pause { whom, on } => self.pause(whom, *on, reply),
            Command::Limit {
                chg,
                parallel,
                gap,
                budget,
            } => {
                let group = self.group(chg);
                group.open = true;
                if let Some(parallel) = parallel {
                    group.lowered |= (*parallel as usize) < group.parallel;
                    group.parallel = *parallel as usize;
                }
                if let Some(gap) = gap {
                    group.gap = *gap;
                    let started = group.leases.iter().map(|lease| lease.granted).max();
                    let started = started.filter(|_| *gap > 0);
                    // What was promised at the start of a fetch stays.
                    let until = started.map_or(0, |at| at + gap);
                    group.gap_until = group.gap_until.max(until);
                }
                if let Some(budget) = budget {
                    group.budget = (*budget >= 0).then_some(*budget);
                }
                is_ok(reply)
            }
            Command::Group { group, members } => {
                for chg in members {
                    let member = self.group(chg);
                    member.shared = (!group.is_empty()).then(|| group.clone());
                    member.open = true;
                    // The pause of whoever joins runs on for all of them.
                    let until = member.gate;
                    let gate = self.gates.entry(group.clone()).or_insert(0);
                    *gate = (*gate).max(until);
                }
                is_ok(reply)
            }
            Command::Move { from, to } => self.shift(from, to, reply),
            Command::Drop { execution } => self.drop_execution(execution, reply),
            Command::Why { chg } => self.why(chg, reply),
            Command::Info => equal(&field(reply, "uris")?, &Reply::Int(self.total())),
            Command::Check => {
                let consistent = field(reply, "consistent")? == Reply::Int(1);
                must!(consistent, "not consistent");
                equal(&field(reply, "total")?, &Reply::Int(self.total()))
            }
            Command::Repair => must_not_fail(reply),
            Command::Reload => {
                self.reloaded = true;
                is_ok(reply)
            }
            Command::PushReady { chg } | Command::PutWait { chg, .. } => {
                self.queue_plainly(chg, command);
                must_not_fail(reply)
            }
            Command::Bad(..) => {
                must!(reply.is_error(), "an error was to come");
                Ok(())
            }
        }
    }

    /// URIs queued in all.
    pub fn total(&self) -> i64 {
        self.groups.values().map(Group::c).sum()
    }

    /// True while no pause holds this execution.
    pub fn allows(&self, execution: &str) -> bool {
        !self.paused.contains(execution)
    }

    /// True when the specification leaves open where exactly this group stands at the moment.
    pub fn is_loose(&self, group: &Group) -> bool {
        group.open
            || group.paused
            || self.all_paused
            || group.blocked > self.now
            || group.shared.is_some()
            || group.parallel > 1
            || self.has_paused(group)
    }

    /// True when a pause holds one of its executions.
    pub fn has_paused(&self, group: &Group) -> bool {
        let kept = group.kept.iter().map(|uri| &uri.execution);
        let mut executions = group.counts.keys().chain(kept);
        executions.any(|execution| !self.allows(execution))
    }

    fn group(&mut self, chg: &str) -> &mut Group {
        let group = self.groups.entry(chg.to_owned());
        group.or_insert_with(Group::fresh)
    }

    /// Whether the server knows this group. If not, the reply must have said so.
    fn knows(&self, chg: &str, reply: &Reply) -> Result<bool, String> {
        let refused = error_word(reply).as_deref() == Some("NOCHG");
        let sure = match self.groups.get(chg) {
            // Nothing of it but settings, or it may go with this very command.
            Some(g) if g.hash && g.c() == 0 && g.leases.is_empty() => {
                let passed = g.gate.max(g.gap_until) <= self.now;
                return Ok(!(refused && passed));
            }
            Some(g) => g.hash,
            None => false,
        };
        must!(refused != sure, "{chg:?} is known: {sure}, got {reply:?}");
        Ok(sure)
    }

    // --- additions

    fn add_numbered(
        &mut self,
        execution: &str,
        seq: Option<&(String, i64)>,
        items: &[Item],
        reply: &Reply,
    ) -> Verdict {
        let Some((writer, n)) = seq else {
            return self.add(execution, None, items, reply);
        };
        let key = (execution.to_owned(), writer.clone());
        if let Some((last, answer)) = self.numbered.get(&key) {
            if n == last {
                return equal(reply, answer);
            }
            if n < last {
                return refused(reply, "STALE");
            }
        }
        self.add(execution, None, items, reply)?;
        self.numbered.insert(key, (*n, reply.clone()));
        Ok(())
    }

    fn add(
        &mut self,
        execution: &str,
        weight: Option<i64>,
        items: &[Item],
        reply: &Reply,
    ) -> Verdict {
        let Reply::Array(counts) = reply else {
            return Err(format!("an array was to come, got {reply:?}"));
        };
        must!(
            counts.len() == items.len(),
            "{} counts were to come, got {reply:?}",
            items.len()
        );
        for (item, count) in items.iter().zip(counts) {
            let expected = self.add_one(execution, weight, item);
            equal(count, &expected).map_err(|e| format!("{e} for {:?} in {reply:?}", item.chg))?;
        }
        Ok(())
    }

    fn add_one(&mut self, execution: &str, weight: Option<i64>, item: &Item) -> Reply {
        let now = self.now;
        let at = item.at.max(now);
        let turn = (now == self.latest).then_some(self.turns);
        self.turns += 1;
        let group = self.group(&item.chg);
        let known = |uri: &String| group.find(execution, uri).is_some();
        if item.uri.as_ref().is_some_and(|(_, uri)| known(uri)) {
            if let Some(weight) = weight {
                // Whether the weight counts when nothing may be taken is left open.
                let spent = group.budget == Some(0);
                let weight = if spent { 0 } else { weight };
                group.weights.insert(execution.to_owned(), weight);
            }
            return Reply::Int(group.c());
        }
        match &mut group.budget {
            Some(0) => return Reply::Nil,
            Some(budget) => *budget -= 1,
            None => (),
        }
        match &item.uri {
            Some((depth, uri)) => {
                group.kept.push(Uri {
                    execution: execution.to_owned(),
                    uri: uri.clone(),
                    depth: *depth,
                    due: at,
                    attempts: 0,
                    leased: None,
                });
                if let Some(weight) = weight {
                    group.weights.insert(execution.to_owned(), weight);
                }
            }
            None => {
                if group.leases.len() as i64 >= group.c() {
                    // Those that asked before are being fetched.
                    group.asked = NEVER;
                }
                *group.counts.entry(execution.to_owned()).or_insert(0) += 1;
                // Counts have no time of their own: they go with the group.
                let stands = matches!(group.place, Place::Ready | Place::Wait);
                let due = if stands { group.n.max(now) } else { NEVER };
                group.asked = group.asked.min(due.min(at));
            }
        }
        let due = group.due_of_all().max(now);
        match group.place {
            Place::Nowhere if group.leases.is_empty() => {
                group.place = Place::Wait;
                group.n = due;
                group.score = None;
                group.turn = turn.filter(|_| due == now);
            }
            Place::Wait if due < group.n => {
                group.n = due;
                group.score = None;
                group.turn = None;
            }
            _ => (),
        }
        group.plain = false;
        group.hash = true;
        Reply::Int(group.c())
    }

    fn queue_plainly(&mut self, chg: &str, command: &Command) {
        let now = self.now;
        let at = match command {
            Command::PutWait { at, .. } => Some(*at),
            _ => None,
        };
        let entry = (chg.to_owned(), self.commands, now);
        let group = self.group(chg);
        group.plain = true;
        group.n = at.unwrap_or(0);
        group.score = None;
        group.turn = None;
        group.place = if at.is_some() {
            Place::Wait
        } else {
            Place::Ready
        };
        if at.is_none() {
            self.ready.push(entry);
        }
    }

    // --- leases

    fn next(&mut self, step: usize, lease: i64, count: usize, told: &[Lease]) -> Verdict {
        must!(
            told.len() <= count,
            "{} leases, asked for {count}",
            told.len()
        );
        for (nth, told) in told.iter().enumerate() {
            self.grant((step, nth), lease, told)?;
        }
        self.assert_nobody_waits_in_vain(told.len() < count)
    }

    /// When fewer groups were leased than asked for, none may be left that could be leased.
    fn assert_nobody_waits_in_vain(&mut self, fewer: bool) -> Verdict {
        let now = self.now;
        let chgs: Vec<String> = self.groups.keys().cloned().collect();
        for chg in chgs {
            let able = self.may_be_leased(&chg, true);
            must!(
                !(fewer && able.is_ok()),
                "{chg:?} could be leased, but was not: {:?}",
                self.groups[&chg]
            );
            let group = self.group(&chg);
            let came_up = match group.place {
                Place::Nowhere => group.has_run_out(now),
                Place::Wait => group.n <= now,
                Place::Ready | Place::Gated => true,
            };
            if came_up && able.is_err() {
                group.open = true;
            }
        }
        Ok(())
    }

    /// Why a group may not be leased. With `surely`, a group that perhaps may not is refused, too.
    fn may_be_leased(&self, chg: &str, surely: bool) -> Verdict {
        let now = self.now;
        let group = self.groups.get(chg).ok_or("there is no such group")?;
        must!(!self.all_paused, "all are paused");
        must!(!group.paused, "it is paused");
        if let Some(shared) = &group.shared {
            let until = self.gates.get(shared).copied().unwrap_or(0);
            must!(until <= now, "the gate of {shared} is closed until {until}");
            for (other, member) in &self.groups {
                let holds = |l: &Held| surely || l.deadline > now;
                let another = other != chg && member.shared.as_ref() == Some(shared);
                must!(
                    !another || !member.leases.iter().any(holds),
                    "{other:?} is leased behind the same gate"
                );
            }
        }
        // When the clock went back, it is ready when it is as late again.
        let n = group.n.max(group.late);
        must!(!surely || n <= now, "n is {n}");
        let mut seen = group.clone();
        if group.leases.len() >= group.parallel || !surely {
            run_out(&mut seen, now, self.attempts);
        }
        let busy = seen.leases.len();
        must!(
            !surely || busy == 0 || group.c() > busy as i64,
            "all its URIs are leased"
        );
        must!(busy < seen.parallel, "{busy} leases of it are out");
        let due = seen.due(|execution| self.allows(execution));
        must!(due <= now, "it is due at {due}");
        Ok(())
    }

    /// A lease that the server granted.
    fn grant(&mut self, grant: Grant, length: i64, told: &Lease) -> Verdict {
        let now = self.now;
        let chg = told.chg.as_str();
        let wrong = |what: String| format!("{chg:?} was leased, but {what}: {told:?}");
        self.may_be_leased(chg, false).map_err(wrong)?;
        self.has_its_turn(chg).map_err(wrong)?;
        let group = &self.groups[chg];
        let uri_ran_out = told.uri.as_ref().is_some_and(|uri| {
            let at = group.find(told.execution.as_deref().unwrap_or(""), uri);
            at.is_some_and(|at| group.kept[at].leased.is_some())
        });
        let given_up = told.c != group.c();
        let mut times = vec![group.n];
        if group.has_run_out(now)
            && (group.leases.len() >= group.parallel || uri_ran_out || given_up)
        {
            let over = group.leases.iter().filter(|lease| lease.deadline <= now);
            times.extend(over.map(|lease| lease.deadline));
            self.notice(chg);
        }
        let loose = self.is_loose(&self.groups[chg]);
        let group = &self.groups[chg];
        if group.plain {
            times = vec![now];
        }
        let mut token = (self.token + 1).max(now * 1000);
        if std::mem::take(&mut self.reloaded) {
            // The last token may not have reached the disk: some are left out.
            token = told.token.max(token);
        }
        must!(told.token == token, "the token was to be {token}: {told:?}");
        let deadline = now + length;
        must!(
            told.deadline == deadline,
            "the deadline was to be {deadline}: {told:?}"
        );
        must!(
            times.contains(&told.n) || loose && told.n <= now,
            "n was to be {times:?}: {told:?}"
        );
        must!(told.c == group.c(), "c was to be {}: {told:?}", group.c());
        let attempts = self.pick(told)?;

        self.token = token;
        self.grants.insert(grant, (chg.to_owned(), token));
        self.past.remove(chg);
        self.ready.retain(|(other, ..)| other != chg);
        let group = self.group(chg);
        group.place = Place::Nowhere;
        group.turn = None;
        group.n = told.n;
        group.hash = true;
        group.plain = false;
        group.open = group.parallel > 1;
        group.forget_weights();
        let until = if group.gap > 0 { now + group.gap } else { 0 };
        group.gap_until = group.gap_until.max(until);
        group.leases.push(Held {
            granted: now,
            deadline,
            attempts,
            told: told.clone(),
        });
        if group.parallel > group.leases.len() {
            // It is offered again at once, if there is more.
            group.place = Place::Ready;
        }
        group.lowered &= group.leases.len() > 1;
        Ok(())
    }

    /// Checks which URI of a group was leased, and takes it. How often that was in vain.
    fn pick(&mut self, told: &Lease) -> Result<i64, String> {
        let paused = self.paused.clone();
        let allowed = |execution: &str| !paused.contains(execution);
        let now = self.now;
        let group = self.group(&told.chg);
        let offered = group.offered(now, allowed);
        let (Some(execution), Some(uri)) = (&told.execution, &told.uri) else {
            must!(
                told.execution.is_none() && told.uri.is_none(),
                "an execution without its URI: {told:?}"
            );
            must!(
                offered.is_empty(),
                "a URI was to be leased: {offered:?}, got {told:?}"
            );
            return Ok(0);
        };
        let rivals: BTreeSet<String> = offered.iter().map(|uri| uri.execution.clone()).collect();
        let is_offered = |o: &&Uri| o.execution == *execution && o.uri == *uri;
        must!(
            offered.iter().any(is_offered),
            "one of {offered:?} was to be leased, got {told:?}"
        );
        let rivals: Vec<String> = rivals.into_iter().collect();
        group.pick(execution, &rivals)?;
        let at = group.find(execution, uri).expect("it was offered");
        group.kept[at].leased = Some(told.token);
        Ok(group.kept[at].attempts)
    }

    /// Where a group that may be leased comes from, and since when it could be.
    fn standing(&self, chg: &str) -> Option<(Source, i64)> {
        let group = &self.groups[chg];
        match group.place {
            Place::Ready => Some((Source::Ready, group.n)),
            Place::Wait if group.n <= self.now => Some((Source::Wait, group.n)),
            Place::Nowhere if group.has_run_out(self.now) => {
                Some((Source::Busy, group.deadline()?))
            }
            _ => None,
        }
    }

    /// Whether no other group should have been leased before this one.
    fn has_its_turn(&self, chg: &str) -> Verdict {
        let group = &self.groups[chg];
        // Since when a plain client's group is ready is not known.
        if self.is_loose(group) || group.plain {
            return Ok(());
        }
        let (source, since) = self.standing(chg).ok_or("it stands in no queue")?;
        for (other, rival) in &self.groups {
            let strict = other != chg && !self.is_loose(rival) && !rival.plain;
            if !strict || self.may_be_leased(other, true).is_err() {
                continue;
            }
            let Some((from, rival_since)) = self.standing(other) else {
                continue;
            };
            if from != source {
                // Only the heads of the queues are compared.
                let is_head = self.is_head(other, from);
                must!(
                    !is_head || rival_since >= since,
                    "{other:?} could be since {rival_since}, this one since {since}"
                );
                continue;
            }
            must!(
                !self.is_before(other, chg, from),
                "{other:?} stands before it"
            );
        }
        Ok(())
    }

    fn is_head(&self, chg: &str, source: Source) -> bool {
        if source == Source::Ready {
            // One that may not be leased hides those behind it until it was passed over.
            return self.ready.first().is_some_and(|entry| entry.0 == chg);
        }
        let mut rivals = self.groups.iter().filter(|(other, rival)| {
            let strict = *other != chg && !self.is_loose(rival) && !rival.plain;
            strict && self.may_be_leased(other, true).is_ok()
        });
        !rivals.any(|(other, _)| {
            self.standing(other).map(|s| s.0) == Some(source) && self.is_before(other, chg, source)
        })
    }

    /// Whether one group stands before another in the same queue.
    fn is_before(&self, one: &str, other: &str, source: Source) -> bool {
        let (a, b) = (&self.groups[one], &self.groups[other]);
        let place = |chg: &str| self.ready.iter().position(|entry| entry.0 == chg);
        match source {
            Source::Ready => place(one) < place(other),
            Source::Busy => a.deadline() < b.deadline(),
            Source::Wait => match (a.score, b.score) {
                (Some(a), Some(b)) => a < b,
                _ => a.n < b.n,
            },
        }
    }

    /// A lease of this group ran out, and the server has noticed.
    pub fn notice(&mut self, chg: &str) {
        let (now, noticed, attempts) = (self.now, self.commands, self.attempts);
        let group = self.group(chg);
        let deadline = group.deadline().unwrap_or(now);
        let over = group.leases.iter().map(|lease| lease.deadline);
        let last = over.filter(|deadline| *deadline <= now).max();
        let reports = run_out(group, now, attempts);
        if group.leases.is_empty() && group.c() == 0 {
            settle_down(group);
        } else if group.leases.len() < group.parallel && group.place == Place::Nowhere {
            let due = group.due_of_all();
            if due <= now {
                group.or_n = last;
                group.n = deadline.max(due);
                group.place = Place::Ready;
                self.ready.push((chg.to_owned(), noticed, deadline));
            } else {
                // Held back by its gap only: it may as well be seen when it comes up.
                group.n = due;
                group.place = Place::Wait;
                group.score = None;
                group.turn = None;
                group.open = true;
            }
        }
        for (lease, times, optional) in reports {
            self.reports.push(Report {
                chg: chg.to_owned(),
                execution: lease.told.execution,
                uri: lease.told.uri,
                times,
                order: (noticed, deadline),
                optional,
            });
        }
    }

    // --- releases

    fn release(&mut self, step: usize, release: &Release, reply: &Reply) -> Verdict {
        let chg = release.chg.as_str();
        let token = self.number(release.token).unwrap_or(0);
        if release.done.is_some() && release.retry.is_some() {
            return refused(reply, "ERR");
        }
        if let Some(past) = self.past.get(chg).filter(|past| past.token == token) {
            return self.released_again(past, release, reply);
        }
        // What is remembered of a group that is gone may be remembered for longer.
        let answer = self.answers.get(&token).map(|due| Reply::Int(*due));
        let answer = answer.filter(|due| due == reply || matches!(reply, Reply::Array(_)));
        if error_word(reply).as_deref() == Some("NOCHG") || !self.is_known(chg) && answer.is_none()
        {
            return self.knows(chg, reply).map(|_| ());
        }
        if !self.is_known(chg) {
            return Ok(());
        }
        let held = self.groups[chg].lease(token);
        let Some(held) = held.filter(|held| held.deadline > self.now).cloned() else {
            return self.token_is_old(chg, token, release, reply);
        };
        if !self.may_release(&held, release) {
            return refused(reply, "ERR");
        }
        let (due, next) = match (&release.next, reply) {
            (None, Reply::Int(due)) => (*due, None),
            (Some(length), Reply::Array(items)) if items.len() == 2 => {
                let Reply::Int(due) = items[0] else {
                    return Err(format!("a due time was to come: {reply:?}"));
                };
                let lease = match &items[1] {
                    Reply::Nil => None,
                    lease => Some(lease_of(lease)?),
                };
                (due, Some((length.unwrap_or(LEASE), lease)))
            }
            _ => return Err(format!("no reply to a release: {reply:?}")),
        };
        self.end_fetch(&held, release, due)?;
        self.answers.insert(token, due);
        let past = Past {
            token,
            due,
            lease: next.as_ref().and_then(|next| next.1.clone()),
        };
        self.past.insert(chg.to_owned(), past.clone());
        if let Some((length, lease)) = next {
            if let Some(lease) = &lease {
                self.grant((step, 0), length, lease)?;
                if lease.chg == chg {
                    // It is its own successor, which a retry should be told, too.
                    self.past.insert(chg.to_owned(), past);
                }
            }
            self.assert_nobody_waits_in_vain(lease.is_none())?;
        }
        Ok(())
    }

    fn is_known(&self, chg: &str) -> bool {
        self.groups.get(chg).is_some_and(|group| group.hash)
    }

    /// The same release again: the first answer, and nothing changes.
    fn released_again(&self, past: &Past, release: &Release, reply: &Reply) -> Verdict {
        let is_held = |lease: &&Lease| {
            let held = self.groups.get(&lease.chg);
            let held = held.and_then(|group| group.lease(lease.token));
            held.is_some_and(|held| held.deadline > self.now)
        };
        let own = past.lease.as_ref().filter(|lease| lease.chg == release.chg);
        if own.is_some_and(|lease| !is_held(&lease)) && reply.is_error() {
            // It was the group's next lease, which is over, too.
            return refused(reply, "STALE");
        }
        if release.next.is_none() {
            return equal(reply, &Reply::Int(past.due));
        }
        let held = past.lease.as_ref().filter(is_held);
        let Reply::Array(items) = reply else {
            return Err(format!("an array was to come: {reply:?}"));
        };
        must!(items.len() == 2, "two items were to come: {reply:?}");
        equal(&items[0], &Reply::Int(past.due))?;
        let Some(first) = held else {
            return equal(&items[1], &Reply::Nil);
        };
        let mut told = lease_of(&items[1])?;
        let group = &self.groups[&first.chg];
        let deadline = group.lease(first.token).map(|held| held.deadline);
        must!(
            Some(told.deadline) == deadline || told.deadline == first.deadline,
            "the deadline was to be {deadline:?}: {told:?}"
        );
        must!(told.c == group.c() || told.c == first.c, "{told:?}");
        must!(told.n == group.n || told.n == first.n, "{told:?}");
        (told.deadline, told.n, told.c) = (first.deadline, first.n, first.c);
        must!(told == *first, "{first:?} was to come, got {told:?}");
        Ok(())
    }

    fn token_is_old(&self, chg: &str, token: i64, release: &Release, reply: &Reply) -> Verdict {
        let answer = self.answers.get(&token);
        let group = &self.groups[chg];
        // Of the releases of parallel leases, more than the last one may be remembered; and one of
        // a group that is gone until the group is released again.
        let ended = group.leases.is_empty() && !self.past.contains_key(chg);
        let its = self.grants.values().any(|g| g.0 == chg && g.1 == token);
        let may_know = its && (group.parallel > 1 || ended);
        if may_know && answer.is_some() && !reply.is_error() {
            let told = if release.next.is_some() {
                match reply {
                    Reply::Array(items) => items.first(),
                    _ => None,
                }
            } else {
                Some(reply)
            };
            return match told {
                Some(Reply::Int(due)) if Some(due) == answer => Ok(()),
                _ => Err(format!("{answer:?} was to come, got {reply:?}")),
            };
        }
        refused(reply, "STALE")
    }

    /// Whether what a release says of its URI makes sense.
    fn may_release(&self, held: &Held, release: &Release) -> bool {
        match (&release.done, &held.told.execution) {
            (Some((execution, count)), Some(leased)) => {
                execution == leased && count.unwrap_or(1) == 1
            }
            _ => true,
        }
    }

    fn end_fetch(&mut self, held: &Held, release: &Release, told: i64) -> Verdict {
        let now = self.now;
        let chg = release.chg.as_str();
        let paused = self.paused.clone();
        let group = self.group(chg);
        let asked = match &release.when {
            When::At(at) => *at,
            When::Delay(ms) => now + ms,
            When::Facts(facts) => now + pause(group, facts, held.granted, now),
        };
        let gate = asked.max(group.gap_until);
        group.leases.retain(|lease| lease.token() != held.token());
        group.gate = group.gate.max(gate);
        group.expired = 0;
        if group.counted() > 0 {
            group.asked = 0;
        }
        match (&held.told.execution, &held.told.uri) {
            (Some(execution), Some(uri)) => {
                let at = group.find(execution, uri);
                // A dropped URI counts no more, and may have been added again.
                let mine = |at: &usize| group.kept[*at].leased == Some(held.token());
                if let Some(at) = at.filter(mine) {
                    if release.done.is_some() {
                        group.kept.remove(at);
                    } else {
                        let kept = &mut group.kept[at];
                        kept.leased = None;
                        kept.due = release.retry.unwrap_or(kept.due);
                    }
                }
            }
            _ => {
                if let Some((execution, count)) = &release.done {
                    lower(group, execution, count.unwrap_or(1));
                }
                if let Some(at) = release.retry.filter(|_| group.c() == 1) {
                    group.asked = at;
                }
            }
        }
        group.forget_weights();
        if let Some(shared) = group.shared.clone() {
            let until = self.gates.entry(shared).or_insert(0);
            *until = (*until).max(gate);
        }
        let until = self.gate_of(chg);
        let group = self.group(chg);
        if group.leases.is_empty() && group.c() == 0 {
            settle_down(group);
            let shown = group.n.max(now);
            let allowed = [group.n, shown, group.n.max(until), shown.max(until)];
            must!(
                allowed.contains(&told) || group.n <= now && told <= now,
                "the gate was to be {}, got {told}",
                group.n
            );
            return Ok(());
        }
        if !group.leases.is_empty() {
            group.open = true;
            must!(
                told >= asked.min(now),
                "the due time was to be {asked} or later, got {told}"
            );
            if group.leases.len() < group.parallel && group.place == Place::Nowhere {
                group.place = Place::Ready;
            }
            return Ok(());
        }
        let all = group.due_of_all().max(now);
        let allowed = group.due(|e| !paused.contains(e)).max(now);
        let behind_gate = all.max(until);
        must!(
            [all, allowed, behind_gate].contains(&told),
            "the due time was to be {all}, got {told}"
        );
        let was_waiting = group.place == Place::Wait;
        group.n = told;
        group.score = None;
        group.turn = None;
        if told <= now {
            group.place = Place::Ready;
            let already = self.ready.iter().any(|entry| entry.0 == chg);
            if !already {
                self.ready.push((chg.to_owned(), self.commands, told));
            }
        } else {
            group.place = Place::Wait;
            group.open |= was_waiting;
            self.ready.retain(|entry| entry.0 != chg);
        }
        Ok(())
    }

    /// When the shared gate of a group opens.
    fn gate_of(&self, chg: &str) -> i64 {
        let shared = self.groups[chg].shared.as_ref();
        let until = shared.and_then(|shared| self.gates.get(shared));
        until.copied().unwrap_or(0)
    }

    fn extend(&mut self, chg: &str, token: Token, ms: i64, reply: &Reply) -> Verdict {
        let token = self.number(token).unwrap_or(0);
        if !self.is_known(chg) || error_word(reply).as_deref() == Some("NOCHG") {
            return self.knows(chg, reply).map(|_| ());
        }
        let now = self.now;
        let deadline = now + ms;
        let mut leases = self.group(chg).leases.iter_mut();
        let Some(held) = leases.find(|l| l.token() == token && l.deadline > now) else {
            return refused(reply, "STALE");
        };
        held.deadline = deadline;
        equal(reply, &Reply::Int(deadline))
    }

    // --- queues

    fn sweep(&mut self, limit: Option<i64>, reply: &Reply) -> Verdict {
        let Reply::Array(items) = reply else {
            return Err(format!("two counts were to come: {reply:?}"));
        };
        let [Reply::Int(from_wait), Reply::Int(from_busy)] = items.as_slice() else {
            return Err(format!("two counts were to come: {reply:?}"));
        };
        let now = self.now;
        let (mut moves, mut loose) = (Vec::new(), Vec::new());
        for (chg, group) in &self.groups {
            let waits = group.place == Place::Wait && group.n <= now;
            let ran_out = group.has_run_out(now);
            if !waits && !ran_out {
                continue;
            }
            if self.is_loose(group) {
                loose.push(chg.clone());
            } else if ran_out {
                moves.push((group.deadline().unwrap_or(0), 0.0, false, chg.clone()));
            } else {
                let score = group.score.unwrap_or(group.n as f64);
                moves.push((group.n, score - score.floor(), true, chg.clone()));
            }
        }
        moves.sort_by(|a, b| (a.0, a.2).cmp(&(b.0, b.2)).then(a.1.total_cmp(&b.1)));
        for chg in &loose {
            self.group(chg).open = true;
        }
        let limit = limit.unwrap_or(i64::MAX) as usize;
        // A group with several leases may be in both queues.
        let cut = moves.len() + 2 * loose.len() > limit;
        let extra = loose.len() as i64;
        if cut && (!loose.is_empty() || from_wait + from_busy != limit as i64) {
            must!(
                from_wait + from_busy <= limit as i64,
                "more were moved than asked for"
            );
        }
        if !cut {
            let waited = moves.iter().filter(|m| m.2).count() as i64;
            let ran_out = moves.len() as i64 - waited;
            must!(
                (waited..=waited + extra).contains(from_wait)
                    && (ran_out..=ran_out + extra).contains(from_busy),
                "[{waited}, {ran_out}] was to come (up to {extra} more), got {reply:?}"
            );
        }
        // Where the limit cuts a row of equals, or groups whose place is open count, the server
        // says which ones it took.
        let sure = match cut {
            false => NEVER,
            true if loose.is_empty() => moves[limit].0,
            true => 0,
        };
        for (time, _, waits, chg) in moves {
            let batch = self.commands;
            let group = self.group(&chg);
            if time >= sure {
                group.open = true;
            } else if waits {
                group.place = Place::Ready;
                self.ready.push((chg, batch, time));
            } else {
                self.notice(&chg);
            }
        }
        Ok(())
    }

    /// Notices at least the leases that it reports, and all when it reports fewer than asked for.
    fn expired(&mut self, count: usize, reply: &Reply) -> Verdict {
        let Reply::Array(told) = reply else {
            return Err(format!("an array was to come: {reply:?}"));
        };
        must!(told.len() <= count, "more than {count} reports");
        for item in told {
            let at = self.reports.iter().position(|r| r.reply() == *item);
            let at = at.map_or_else(|| self.notice_reported(item), Ok)?;
            let order = self.reports.remove(at).order;
            let earlier = |r: &Report| r.order < order;
            must!(
                !self.reports.iter().any(|r| earlier(r) && !r.optional),
                "{item:?} is not the oldest: {:?}",
                self.reports
            );
            self.reports.retain(|r| !earlier(r));
        }
        let now = self.now;
        let sure = self.reports.iter().find(|report| !report.optional);
        for (chg, group) in &mut self.groups {
            let left = group.has_run_out(now);
            must!(
                told.len() == count || !left && sure.is_none(),
                "the lease of {chg:?} was to be reported, or {sure:?}: {reply:?}"
            );
            group.open |= left;
        }
        Ok(())
    }

    /// A lease that is reported ran out: it is noticed by that. Where the report stands.
    fn notice_reported(&mut self, item: &Reply) -> Result<usize, String> {
        let none = || format!("nothing like {item:?} ran out");
        let Reply::Array(words) = item else {
            return Err(none());
        };
        let Some(Reply::Bulk(chg)) = words.first() else {
            return Err(none());
        };
        let chg = String::from_utf8_lossy(chg).into_owned();
        let now = self.now;
        let group = self.groups.get(&chg).filter(|g| g.has_run_out(now));
        let deadline = group.and_then(Group::deadline).ok_or_else(none)?;
        let over = self.groups.iter().filter(|(_, g)| g.has_run_out(now));
        let earlier = over.filter(|(_, g)| g.deadline() < Some(deadline));
        for (other, group) in earlier {
            must!(self.is_loose(group), "{other:?} ran out before {chg:?}");
        }
        self.notice(&chg);
        let same = |report: &Report| report.reply() == *item;
        self.reports.iter().position(same).ok_or_else(none)
    }

    fn pause(&mut self, whom: &Whom, on: bool, reply: &Reply) -> Verdict {
        match whom {
            Whom::All => self.all_paused = on,
            Whom::Execution(execution) => {
                if on {
                    self.paused.insert(execution.clone());
                } else {
                    self.paused.remove(execution);
                }
            }
            Whom::Group(chg) => {
                if !self.knows(chg, reply)? {
                    return Ok(());
                }
                self.group(chg).paused = on;
            }
        }
        let affected: Vec<String> = match whom {
            Whom::Group(chg) => vec![chg.clone()],
            _ => self.groups.keys().cloned().collect(),
        };
        for chg in affected {
            let now = self.now;
            let group = self.group(&chg);
            let came_up = group.place != Place::Nowhere && group.n <= now;
            group.open |= matches!(whom, Whom::Execution(_)) && came_up;
        }
        is_ok(reply)
    }

    /// `MOVE`.
    fn shift(&mut self, from: &str, to: &str, reply: &Reply) -> Verdict {
        if from == to {
            return refused(reply, "ERR");
        }
        if !self.knows(from, reply)? {
            return Ok(());
        }
        if !self.groups[from].leases.is_empty() {
            let over = self.groups[from].has_run_out(self.now);
            if !over || reply.is_error() {
                return refused(reply, "LEASED");
            }
            self.notice(from);
        }
        self.ready.retain(|entry| entry.0 != from);
        let source = self.group(from);
        source.place = Place::Nowhere;
        source.open = true;
        source.expired = 0;
        let kept = std::mem::take(&mut source.kept);
        let counts = std::mem::take(&mut source.counts);
        let asked = std::mem::replace(&mut source.asked, NEVER);
        let gate = source.gate.max(source.gap_until);
        let weights = std::mem::take(&mut source.weights);
        let blocked = source.blocked;
        source.n = gate;
        let now = self.now;
        let target = self.group(to);
        let mut moved = 0;
        for (execution, weight) in weights {
            // Which of two weights counts is left open.
            let both = target.kept.iter().any(|uri| uri.execution == execution);
            target
                .weights
                .insert(execution, if both { 0 } else { weight });
        }
        for uri in &target.kept {
            let both = kept.iter().any(|other| other.execution == uri.execution);
            if both {
                target.weights.insert(uri.execution.clone(), 0);
            }
        }
        for uri in kept {
            if target.find(&uri.execution, &uri.uri).is_none() {
                target.kept.push(uri);
                moved += 1;
            }
        }
        for (execution, n) in counts {
            *target.counts.entry(execution).or_insert(0) += n;
            moved += n;
        }
        target.asked = target.asked.min(asked);
        target.gate = target.gate.max(gate);
        // Whether a block goes with what was blocked is left open.
        target.late = target.late.max(blocked);
        target.open = true;
        if target.c() > 0 && target.leases.is_empty() {
            let due = target.due_of_all().max(now);
            match target.place {
                Place::Nowhere => (target.place, target.n) = (Place::Wait, due),
                _ => target.n = due,
            }
            target.score = None;
            target.turn = None;
        }
        target.hash |= moved > 0;
        let c = target.c();
        equal(reply, &Reply::Array(vec![Reply::Int(moved), Reply::Int(c)]))
    }

    fn drop_execution(&mut self, execution: &str, reply: &Reply) -> Verdict {
        let (mut touched, mut dropped) = (0, 0);
        for group in self.groups.values_mut() {
            let before = group.c();
            group.counts.remove(execution);
            group.kept.retain(|uri| uri.execution != execution);
            group.forget_weights();
            let gone = before - group.c();
            if gone == 0 {
                continue;
            }
            touched += 1;
            dropped += gone;
            group.open = true;
            if group.counted() == 0 {
                group.asked = NEVER;
            }
            if group.c() == 0 && group.leases.is_empty() {
                settle_down(group);
            }
        }
        let groups = &self.groups;
        self.ready
            .retain(|entry| groups[&entry.0].place == Place::Ready);
        self.numbered.retain(|key, _| key.0 != execution);
        self.paused.remove(execution);
        let expected = Reply::Array(vec![Reply::Int(touched), Reply::Int(dropped)]);
        equal(reply, &expected)
    }

    fn why(&self, chg: &str, reply: &Reply) -> Verdict {
        if !self.knows(chg, reply)? || reply.is_error() {
            return Ok(());
        }
        let group = &self.groups[chg];
        let number = |n: i64| Reply::Int(n);
        let expected = [
            ("count", number(group.c())),
            ("parallel", number(group.parallel as i64)),
            ("gap", number(group.gap)),
            ("budget", group.budget.map_or(Reply::Nil, number)),
            (
                "group",
                group.shared.as_ref().map_or(Reply::Nil, redis_tests::bulk),
            ),
        ];
        for (name, value) in expected {
            equal(&field(reply, name)?, &value).map_err(|e| format!("{name}: {e}"))?;
        }
        if group.c() > 0 || !group.leases.is_empty() || group.gate > self.now {
            let steps = number(i64::from(group.steps));
            equal(&field(reply, "backoff")?, &steps).map_err(|e| format!("backoff: {e}"))?;
        }
        let Reply::Array(told) = field(reply, "leases")? else {
            return Err(format!("no leases: {reply:?}"));
        };
        must!(
            told.len() == group.leases.len(),
            "{} leases are out: {reply:?}",
            group.leases.len()
        );
        for lease in &told {
            let Reply::Int(token) = field(lease, "token")? else {
                return Err(format!("no token: {lease:?}"));
            };
            let Some(held) = group.lease(token) else {
                return Err(format!("no such lease: {lease:?}"));
            };
            equal(&field(lease, "granted")?, &number(held.granted))?;
            equal(&field(lease, "deadline")?, &number(held.deadline))?;
            let age = (self.now - held.granted).max(0);
            equal(&field(lease, "age")?, &number(age))?;
        }
        let Reply::Array(told) = field(reply, "executions")? else {
            return Err(format!("no executions: {reply:?}"));
        };
        // Kept and counted URIs are told apart by the weight; those that are leased may be left out.
        for execution in &told {
            let Reply::Bulk(id) = field(execution, "execution")? else {
                return Err(format!("no execution: {execution:?}"));
            };
            let id = String::from_utf8_lossy(&id).into_owned();
            let weight = field(execution, "weight")?;
            let uris = field(execution, "uris")?;
            let kept = group.kept.iter().filter(|uri| uri.execution == id);
            let (leased, free): (Vec<_>, Vec<_>) = kept.partition(|uri| uri.leased.is_some());
            let (leased, free) = (leased.len() as i64, free.len() as i64);
            let counted = group.counts.get(&id).copied().unwrap_or(0);
            let right = match weight {
                Reply::Nil => uris == number(counted),
                _ => {
                    let is = group.weights.get(&id).copied().unwrap_or(1);
                    let alike = free == 0 || is == 0 || weight == number(is);
                    alike && (uris == number(free) || uris == number(free + leased))
                }
            };
            must!(right, "{execution:?} was to be {counted} and {free}");
        }
        Ok(())
    }
}

impl Report {
    fn reply(&self) -> Reply {
        let text = |text: &Option<String>| text.as_ref().map_or(Reply::Nil, redis_tests::bulk);
        Reply::Array(vec![
            redis_tests::bulk(&self.chg),
            text(&self.execution),
            text(&self.uri),
            Reply::Int(self.times),
        ])
    }
}

/// Ends the leases of a group that ran out: each with how many times, and whether its report may
/// be left out.
fn run_out(group: &mut Group, now: i64, attempts: i64) -> Vec<(Held, i64, bool)> {
    let over = |lease: &Held| lease.deadline <= now;
    let leases: Vec<Held> = group.leases.iter().filter(|l| over(l)).cloned().collect();
    group.leases.retain(|lease| !over(lease));
    let mut reports = Vec::new();
    for lease in leases {
        group.expired += 1;
        let (mut times, mut optional) = (group.expired, false);
        if lease.told.uri.is_some() {
            let mine = |uri: &Uri| uri.leased == Some(lease.token());
            match group.kept.iter().position(mine) {
                Some(at) => {
                    let uri = &mut group.kept[at];
                    uri.leased = None;
                    uri.attempts += 1;
                    times = uri.attempts;
                    if times >= attempts {
                        group.kept.remove(at);
                    }
                }
                None => (times, optional) = (lease.attempts + 1, true),
            }
        }
        if group.counted() > 0 {
            group.asked = 0;
        }
        reports.push((lease, times, optional));
    }
    group.forget_weights();
    reports
}

/// Nothing is queued and nobody holds it: it stands in no queue until its gate has passed.
fn settle_down(group: &mut Group) {
    group.place = Place::Nowhere;
    group.asked = NEVER;
    group.n = group.gate.max(group.gap_until);
}

/// Lowers the counts of an execution by at most what there is.
fn lower(group: &mut Group, execution: &str, count: i64) {
    if let Some(there) = group.counts.get_mut(execution) {
        *there -= count.min(*there);
        if *there == 0 {
            group.counts.remove(execution);
        }
    }
    if group.counted() == 0 {
        group.asked = NEVER;
    }
}

/// The pause that follows from what a worker knows of its fetch.
fn pause(group: &mut Group, facts: &Facts, granted: i64, now: i64) -> i64 {
    let factor = facts.factor.map_or(1000, |factor| factor.1);
    let computed = facts.elapsed * factor / 1000;
    let computed = computed
        .max(facts.min.unwrap_or(0))
        .min(facts.max.unwrap_or(NEVER));
    let back_off = group.back_off(facts.status, computed, granted, now);
    let asked = facts.crawl_delay.max(facts.retry_after).unwrap_or(0);
    computed.max(asked).max(back_off)
}

// --- replies

fn error_word(reply: &Reply) -> Option<String> {
    let Reply::Error(line) = reply else {
        return None;
    };
    let line = String::from_utf8_lossy(line);
    line.split(' ').next().map(str::to_owned)
}

fn refused(reply: &Reply, word: &str) -> Verdict {
    must!(
        error_word(reply).as_deref() == Some(word),
        "{word} was to come, got {reply:?}"
    );
    Ok(())
}

fn must_not_fail(reply: &Reply) -> Verdict {
    must!(!reply.is_error(), "an error: {reply:?}");
    Ok(())
}

fn is_ok(reply: &Reply) -> Verdict {
    equal(reply, &redis_tests::simple("OK"))
}

fn equal(told: &Reply, expected: &Reply) -> Verdict {
    must!(told == expected, "{expected:?} was to come, got {told:?}");
    Ok(())
}

fn field(map: &Reply, name: &str) -> Result<Reply, String> {
    let found = match map {
        Reply::Array(items) if items.len() % 2 == 0 => map.find(name),
        Reply::Map(_) => map.find(name),
        _ => None,
    };
    found.ok_or_else(|| format!("no field {name} in {map:?}"))
}

fn leases(reply: &Reply) -> Result<Vec<Lease>, String> {
    match reply {
        Reply::Nil => Ok(Vec::new()),
        Reply::Array(items) if !items.is_empty() => items.iter().map(lease_of).collect(),
        _ => Err(format!("leases or nil were to come, got {reply:?}")),
    }
}

fn lease_of(reply: &Reply) -> Result<Lease, String> {
    let bad = || format!("a lease was to come, got {reply:?}");
    let Reply::Array(items) = reply else {
        return Err(bad());
    };
    use Reply::{Bulk, Int, Nil};
    match items.as_slice() {
        [Bulk(_), Int(_), Int(_), Int(_), Int(_), Bulk(_) | Nil, Bulk(_) | Nil] => {
            Ok(Lease::of(reply))
        }
        _ => Err(bad()),
    }
}
