//! Proof of conservation: every queued URI is counted once in its group, its execution and the total,
//! and every group that has any stands in one queue. And mending of what is not so.

use std::hash::{BuildHasher, RandomState};
use std::rc::Rc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::keyspace::{Batch, KeyError};
use crate::reply::Reply;
use crate::text::{parse_unsigned, Shown};

use super::audit::Audit;
use super::credible::{room, shares, Account};
use super::error::{Error, Result};
use super::frontier::{Frontier, Loaded};
use super::group::Group;
use super::job::{Groups, Job, Step, Time, Walked};
use super::keys::GATED;
use super::store::Store;
use super::time::Millis;

/// How many problems are told in words.
const TOLD: usize = 100;

/// How many elements of a list are looked at together.
const PAGE: u64 = 64;

/// A look at everything, from a moment on.
pub struct Check<K: Store> {
    repairs: bool,
    now: Millis,
    owner: Rc<()>,
    phase: Phase<K>,
    hasher: RandomState,
    seen: Seen,
    /// Groups that should stand in `chg_ready` or behind a gate.
    elsewhere: FxHashSet<Box<[u8]>>,
    /// Those that were found nowhere.
    lost: Vec<Box<[u8]>>,
    gates: Vec<Vec<u8>>,
    gates_seen: FxHashSet<Vec<u8>>,
    /// URIs that groups have of each execution.
    owned: FxHashMap<Box<[u8]>, u64>,
    /// What `EIDC` said when this began.
    found: Vec<(Box<[u8]>, u64)>,
    counts: Counts,
    problems: Vec<String>,
    problems_total: u64,
    mended: u64,
    /// Groups that were changed by nobody but this.
    mended_groups: FxHashSet<Box<[u8]>>,
    disturbed: bool,
}

/// What was met, in parts: a table that grows moves all that is in it, which must not take long.
struct Seen([FxHashSet<u64>; 256]);

impl Default for Seen {
    fn default() -> Self {
        Seen(std::array::from_fn(|_| FxHashSet::default()))
    }
}

impl Seen {
    /// True when it is new.
    fn insert(&mut self, hash: u64) -> bool {
        // From the top: the tables go by the lower bits.
        self.0[(hash >> 56) as usize].insert(hash)
    }
}

#[derive(Debug, Default)]
struct Counts {
    groups: u64,
    executions: u64,
    total: i64,
    sum_groups: u64,
    sum_executions: u64,
    /// URIs of groups that are counted and not kept, so far as can be believed.
    counted: u64,
}

enum Phase<K: Store> {
    Start,
    Executions(K::Cursor, Vec<(Box<[u8]>, u64)>),
    Groups(Groups<K>),
    Waiting(K::Cursor),
    Busy(K::Cursor),
    Ready(u64),
    Gates(u64),
    Lost,
    Sums,
}

impl<K: Store> Check<K> {
    /// Of a frontier; one that repairs mends what it finds.
    pub fn new(_: &Frontier<K>, _: &mut K, repairs: bool, now: Millis) -> Check<K> {
        Check {
            repairs,
            now,
            owner: Rc::new(()),
            phase: Phase::Start,
            hasher: RandomState::new(),
            seen: Seen::default(),
            elsewhere: FxHashSet::default(),
            lost: Vec::new(),
            gates: Vec::new(),
            gates_seen: FxHashSet::default(),
            owned: FxHashMap::default(),
            found: Vec::new(),
            counts: Counts::default(),
            problems: Vec::new(),
            problems_total: 0,
            mended: 0,
            mended_groups: FxHashSet::default(),
            disturbed: false,
        }
    }

    fn problem(&mut self, text: impl FnOnce() -> String) {
        self.problems_total += 1;
        if self.problems.len() < TOLD {
            self.problems.push(text());
        }
    }

    /// Whether an id is met for the first time; a walk may give one twice.
    fn is_new(&mut self, id: &[u8]) -> bool {
        self.seen.insert(self.hasher.hash_one(id))
    }

    /// What changed since the beginning; nothing when another audit took this one's place.
    fn audit<'f>(&mut self, frontier: &'f Frontier<K>) -> Option<&'f Audit> {
        let audit = frontier
            .audit
            .as_ref()
            .filter(|audit| audit.is_of(&self.owner));
        self.disturbed |= audit.is_none_or(|audit| audit.disturbed);
        audit
    }

    /// Whether others changed a group since the beginning, so that nothing can be said of where it
    /// stands.
    fn was_changed(&mut self, frontier: &Frontier<K>, id: &[u8]) -> bool {
        let audit = self.audit(frontier);
        let changed = audit.is_none_or(|audit| audit.groups.contains_key(id));
        changed && !self.mended_groups.contains(id)
    }

    fn executions(
        &mut self,
        frontier: &Frontier<K>,
        ks: &mut K,
        cursor: &mut K::Cursor,
        found: &mut Vec<(Box<[u8]>, u64)>,
    ) -> Result<bool> {
        let mut batch = Batch::default();
        let more = ks.hash_scan(&frontier.names.executions, cursor, &mut batch)?;
        for (execution, count) in batch.iter() {
            if !self.is_new(execution) {
                continue;
            }
            let now = parse_unsigned(count).unwrap_or(0);
            let audit = self.audit(frontier);
            let then = audit.and_then(|audit| audit.executions.get(execution));
            let count = then.copied().unwrap_or(now);
            self.counts.executions += u64::from(count > 0);
            self.counts.sum_executions = self.counts.sum_executions.saturating_add(count);
            found.push((execution.into(), count));
        }
        if !more {
            // Those that came to nothing since.
            let audit = self.audit(frontier);
            let gone: Vec<(Box<[u8]>, u64)> = audit
                .into_iter()
                .flat_map(|audit| &audit.executions)
                .map(|(execution, count)| (execution.clone(), *count))
                .collect();
            for (execution, count) in gone {
                if self.is_new(&execution) {
                    self.counts.executions += u64::from(count > 0);
                    self.counts.sum_executions = self.counts.sum_executions.saturating_add(count);
                    found.push((execution, count));
                }
            }
            self.seen = Seen::default();
        }
        Ok(more)
    }

    fn group(&mut self, frontier: &mut Frontier<K>, ks: &mut K, id: &[u8]) -> Result<()> {
        if id.is_empty() || !self.is_new(id) {
            return Ok(());
        }
        let mut loaded = match frontier.load(ks, id) {
            Ok(loaded) => loaded,
            Err(Error::Key(error @ KeyError::WrongType { .. })) => {
                self.problem(|| error.to_string());
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let audit = self.audit(frontier);
        let then = audit.and_then(|audit| audit.groups.get(id)).copied();
        let found = loaded.group.uris;
        self.count(frontier, ks, &mut loaded, then.is_none())?;
        // What was changed meanwhile is taken as it was when this began, but for what was mended.
        let count =
            i128::from(then.unwrap_or(found)) + i128::from(loaded.group.uris) - i128::from(found);
        self.counts.groups += u64::from(loaded.group.known);
        let sum = i128::from(self.counts.sum_groups) + count.max(0);
        self.counts.sum_groups = u64::try_from(sum).unwrap_or(u64::MAX);
        self.place(frontier, ks, &loaded)
    }

    /// Looks whether a group counts what is queued for it, and no more than can be.
    fn count(
        &mut self,
        frontier: &mut Frontier<K>,
        ks: &mut K,
        loaded: &mut Loaded<K>,
        only_this: bool,
    ) -> Result<()> {
        let found = loaded.group.uris;
        let mut account = self.account(frontier, ks, loaded)?;
        let believed = account.believe(room(self.counts.counted));
        for (execution, n) in account.kept.into_iter().chain(account.counted) {
            *self.owned.entry(execution).or_default() += n;
        }
        let (id, right) = (Shown(&loaded.id), believed.right());
        self.counts.counted += right - believed.kept;
        for (execution, n) in &believed.absurd {
            let execution = Shown(execution);
            self.problem(|| {
                format!("group '{id}' counts {n} URIs of execution '{execution}', which is absurd")
            });
        }
        match believed.uris {
            None => self.problem(|| format!("group '{id}' counts {found} URIs, which is absurd")),
            Some(_) if found < right => self.problem(|| {
                format!("group '{id}' counts {found} URIs, but {right} are queued for it")
            }),
            Some(_) => {}
        }
        if !self.repairs {
            return Ok(());
        }
        if only_this && (right != found || !believed.absurd.is_empty()) {
            self.mended_groups.insert(loaded.id[..].into());
        }
        for (execution, _) in &believed.absurd {
            ks.hash_del(&loaded.key, &Frontier::<K>::counted_field(execution))?;
            self.mended += 1;
        }
        if right != found {
            loaded.group.uris = right;
            loaded.group.known = true;
            loaded.group.ours = true;
            frontier.save(ks, loaded)?;
            self.mended += 1;
        }
        Ok(())
    }

    /// What a group says of its URIs.
    fn account(
        &mut self,
        frontier: &Frontier<K>,
        ks: &mut K,
        loaded: &Loaded<K>,
    ) -> Result<Account> {
        let key = frontier.uris_key(ks, &loaded.id);
        let kept = ks.uris(&key, |uris| {
            let executions = uris.executions();
            executions
                .map(|(id, ..)| (id.into(), uris.count_of(id)))
                .collect()
        })?;
        let counted = frontier.counted_in(ks, &loaded.key)?;
        Ok(Account {
            uris: loaded.group.uris,
            kept: kept.unwrap_or_default(),
            counted: counted.into_iter().map(|(id, n)| (id.into(), n)).collect(),
        })
    }

    /// Looks where a group stands.
    fn place(&mut self, frontier: &mut Frontier<K>, ks: &mut K, loaded: &Loaded<K>) -> Result<()> {
        let group = &loaded.group;
        if !group.known {
            return Ok(());
        }
        let waits = ks.zset_score(&frontier.names.wait, &loaded.id)?.is_some();
        let busy = ks.zset_score(&frontier.names.busy, &loaded.id)?.is_some();
        let shown = Shown(&loaded.id);
        if group.is_idle() {
            if group.ours && waits {
                self.problem(|| format!("group '{shown}' waits, but has nothing queued"));
                if self.repairs {
                    frontier.leave_wait(ks, &loaded.id)?;
                    self.mended += 1;
                }
            }
            return Ok(());
        }
        let leased = !group.holds.is_empty();
        if leased && !busy {
            self.problem(|| format!("group '{shown}' is leased, but not in chg_busy"));
            if self.repairs {
                frontier.show_busy(ks, loaded)?;
                self.mended += 1;
            }
        }
        if waits && (leased || busy) && group.options.parallel == 1 {
            let other = if busy { "in chg_busy" } else { "leased" };
            self.problem(|| format!("group '{shown}' is {other} and in chg_wait"));
            if self.repairs {
                frontier.leave_wait(ks, &loaded.id)?;
                self.mended += 1;
            }
        }
        let gate = &group.options.gate;
        if !gate.is_empty() && self.gates_seen.insert(gate.clone()) {
            self.gates.push(gate.clone());
        }
        let held_by_others = busy && group.holds.is_empty();
        if group.is_runnable() && !waits && !held_by_others {
            self.elsewhere.insert(loaded.id[..].into());
        }
        Ok(())
    }

    /// Looks at members of a queue that are no groups.
    fn members(
        &mut self,
        frontier: &mut Frontier<K>,
        ks: &mut K,
        cursor: &mut K::Cursor,
        busy: bool,
    ) -> Result<bool> {
        let (queue, name) = match busy {
            true => (frontier.names.busy.clone(), "chg_busy"),
            false => (frontier.names.wait.clone(), "chg_wait"),
        };
        let mut batch = Batch::default();
        let more = ks.zset_scan(&queue, cursor, &mut batch)?;
        for (id, _) in batch.iter() {
            let loaded = frontier.load_sound(ks, id)?;
            if loaded.is_some_and(|loaded| loaded.group.known)
                || ks.zset_score(&queue, id)?.is_none()
            {
                continue;
            }
            self.problem(|| format!("'{}' is in {name}, but there is no such group", Shown(id)));
            if self.repairs {
                frontier.passed = Default::default();
                ks.zset_del(&queue, id)?;
                self.mended += 1;
            }
        }
        Ok(more)
    }

    /// Crosses off those that stand in a list; how many there were on this page.
    fn cross_off(&mut self, ks: &mut K, list: &K::Name, from: u64) -> Result<u64> {
        let mut batch = Batch::default();
        ks.list_range(list, from, PAGE, &mut batch)?;
        for (id, _) in batch.iter() {
            self.elsewhere.remove(id);
        }
        Ok(batch.len() as u64)
    }

    /// The same for `chg_ready`, where nobody should stand who stands elsewhere too.
    fn look_at_ready(&mut self, frontier: &mut Frontier<K>, ks: &mut K, from: u64) -> Result<u64> {
        let mut batch = Batch::default();
        ks.list_range(&frontier.names.ready, from, PAGE, &mut batch)?;
        let mut kept = 0;
        for (id, _) in batch.iter() {
            kept += 1;
            let expected = self.elsewhere.remove(id);
            if expected || self.was_changed(frontier, id) {
                continue;
            }
            let group = frontier
                .load_sound(ks, id)?
                .map_or_else(Group::default, |l| l.group);
            let waits = ks.zset_score(&frontier.names.wait, id)?.is_some();
            let busy = ks.zset_score(&frontier.names.busy, id)?.is_some();
            let shown = Shown(id);
            if !group.known {
                self.problem(|| format!("'{shown}' is in chg_ready, but there is no such group"));
            } else if waits || (busy && group.options.parallel == 1) {
                let other = if waits { "chg_wait" } else { "chg_busy" };
                self.problem(|| format!("group '{shown}' is in chg_ready and in {other}"));
            } else if group.is_idle() {
                continue;
            } else {
                self.problem(|| format!("group '{shown}' is in chg_ready more than once"));
            }
            if self.repairs {
                kept -= 1;
                ks.list_take(&frontier.names.ready, from + kept)?;
                frontier.passed = Default::default();
                self.mended += 1;
            }
        }
        // How far the walk is now, of those that are left; nothing at the end.
        Ok(if batch.is_empty() { 0 } else { kept.max(1) })
    }

    /// Those that stand nowhere, unless something happened to them since they were looked at.
    fn lost(&mut self, frontier: &mut Frontier<K>, ks: &mut K) -> Result<bool> {
        if self.lost.is_empty() {
            self.lost.extend(self.elsewhere.drain());
        }
        let Some(id) = self.lost.pop() else {
            return Ok(false);
        };
        if self.was_changed(frontier, &id) {
            return Ok(true);
        }
        let mut loaded = frontier.load(ks, &id)?;
        let stands = ks.zset_score(&frontier.names.wait, &id)?.is_some()
            || ks.zset_score(&frontier.names.busy, &id)?.is_some()
                && loaded.group.options.parallel == 1
            || ks.zset_score(&frontier.names.idle, &id)?.is_some();
        if stands || !loaded.group.is_runnable() {
            return Ok(true);
        }
        let uris = loaded.group.uris;
        self.problem(|| {
            format!(
                "group '{}' has {uris} URIs queued, but stands in no queue",
                Shown(&id)
            )
        });
        if self.repairs {
            let due = frontier.due_of(ks, &loaded)?.max(self.now);
            frontier.queue(ks, &mut loaded, due, self.now)?;
            frontier.save(ks, &loaded)?;
            self.mended += 1;
        }
        Ok(true)
    }

    /// Compares the sums, and mends them.
    fn sums(
        &mut self,
        frontier: &mut Frontier<K>,
        ks: &mut K,
        executions: &[(Box<[u8]>, u64)],
    ) -> Result<()> {
        let Counts {
            total,
            sum_groups,
            sum_executions,
            ..
        } = self.counts;
        if sum_executions != sum_groups {
            self.problem(|| {
                format!(
                    "executions have {sum_executions} URIs in EIDC, but groups have {sum_groups}"
                )
            });
        }
        let off = i128::from(sum_groups) - i128::from(total);
        if off != 0 {
            self.problem(|| format!("QCT is {total}, but groups have {sum_groups} URIs"));
        }
        if !self.repairs {
            return Ok(());
        }
        if off != 0 {
            // Commands may have moved it since this began.
            let now = ks.number(&frontier.names.total)?;
            let right = (i128::from(now) + off).clamp(0, i128::from(i64::MAX));
            ks.number_set(&frontier.names.total, right as i64)?;
            self.mended += 1;
        }
        let moved = self
            .audit(frontier)
            .is_none_or(|audit| !audit.executions.is_empty());
        if moved {
            // Which of an execution's URIs came since is not known; the next repair tells.
            return Ok(());
        }
        let before: FxHashMap<Box<[u8]>, u64> = executions.iter().cloned().collect();
        let right = shares(executions, &self.owned, sum_groups.min(i64::MAX as u64));
        for (execution, count) in &right {
            let before = before.get(execution).copied().unwrap_or(0);
            if before == *count {
                continue;
            }
            self.mended += 1;
            if *count == 0 {
                ks.hash_del(&frontier.names.executions, execution)?;
            } else {
                let text = count.to_string();
                ks.hash_set(&frontier.names.executions, execution, text.as_bytes())?;
            }
        }
        Ok(())
    }

    fn report(&self) -> Reply {
        let count = Reply::count;
        let counts = &self.counts;
        let problems = self.problems.iter().map(Reply::bulk).collect();
        let mut report = vec![
            ("groups", count(counts.groups)),
            ("executions", count(counts.executions)),
            ("total", Reply::Int(counts.total.max(0))),
            ("sum-groups", count(counts.sum_groups)),
            ("sum-executions", count(counts.sum_executions)),
            (
                "consistent",
                Reply::Int(i64::from(self.problems_total == 0)),
            ),
            ("problems", Reply::Array(problems)),
            ("problems-total", count(self.problems_total)),
            ("disturbed", Reply::Int(i64::from(self.disturbed))),
        ];
        if self.repairs {
            report.push(("mended", count(self.mended)));
        }
        Reply::named(report)
    }

    /// One turn of the phase; true when it was the last.
    fn turn(
        &mut self,
        frontier: &mut Frontier<K>,
        ks: &mut K,
        found: &mut Vec<(Box<[u8]>, u64)>,
        time: Time<'_>,
    ) -> Result<bool> {
        let phase = std::mem::replace(&mut self.phase, Phase::Start);
        self.phase = match phase {
            Phase::Start => {
                frontier.audit = Some(Audit::new(&self.owner));
                self.counts.total = ks.number(&frontier.names.total)?;
                Phase::Executions(ks.cursor(), Vec::new())
            }
            Phase::Executions(mut cursor, mut all) => {
                match self.executions(frontier, ks, &mut cursor, &mut all)? {
                    true => Phase::Executions(cursor, all),
                    false => {
                        *found = all;
                        Phase::Groups(Groups::new(frontier, ks))
                    }
                }
            }
            Phase::Groups(mut groups) => match groups.next(ks, time) {
                Walked::Group(id) => {
                    self.group(frontier, ks, &id)?;
                    Phase::Groups(groups)
                }
                Walked::Later => Phase::Groups(groups),
                Walked::End => {
                    self.gone(frontier);
                    Phase::Waiting(ks.cursor())
                }
            },
            Phase::Waiting(mut cursor) => match self.members(frontier, ks, &mut cursor, false)? {
                true => Phase::Waiting(cursor),
                false => Phase::Busy(ks.cursor()),
            },
            Phase::Busy(mut cursor) => match self.members(frontier, ks, &mut cursor, true)? {
                true => Phase::Busy(cursor),
                false => Phase::Ready(self.audit(frontier).map_or(0, |audit| audit.taken)),
            },
            Phase::Ready(at) => {
                // Those at the head are taken while this goes on.
                let taken = self.audit(frontier).map_or(0, |audit| audit.taken);
                let from = at.saturating_sub(taken);
                match self.look_at_ready(frontier, ks, from)? {
                    0 => Phase::Gates(0),
                    n => Phase::Ready(taken + from + n),
                }
            }
            Phase::Gates(at) => match self.gates.last() {
                None => Phase::Lost,
                Some(gate) => {
                    let gated = frontier.key(ks, GATED, gate);
                    match self.cross_off(ks, &gated, at)? {
                        0 => {
                            self.gates.pop();
                            Phase::Gates(0)
                        }
                        n => Phase::Gates(at + n),
                    }
                }
            },
            Phase::Lost => match self.lost(frontier, ks)? {
                true => Phase::Lost,
                false => Phase::Sums,
            },
            Phase::Sums => {
                self.sums(frontier, ks, found)?;
                return Ok(true);
            }
        };
        Ok(false)
    }

    /// Groups that are gone by now had something queued when this began.
    fn gone(&mut self, frontier: &Frontier<K>) {
        let audit = self.audit(frontier);
        let gone: Vec<(Box<[u8]>, u64)> = audit
            .into_iter()
            .flat_map(|audit| &audit.groups)
            .map(|(id, count)| (id.clone(), *count))
            .collect();
        for (id, count) in gone {
            if self.is_new(&id) {
                self.counts.sum_groups = self.counts.sum_groups.saturating_add(count);
            }
        }
    }
}

impl<K: Store> Job<K> for Check<K> {
    fn step(&mut self, frontier: &mut Frontier<K>, ks: &mut K, time: Time<'_>) -> Result<Step> {
        let mut found = std::mem::take(&mut self.found);
        loop {
            let done = self.turn(frontier, ks, &mut found, time)?;
            if done {
                self.audit(frontier);
                if frontier
                    .audit
                    .as_ref()
                    .is_some_and(|audit| audit.is_of(&self.owner))
                {
                    frontier.audit = None;
                }
                return Ok(Step::Done(self.report()));
            }
            if !time() {
                self.found = found;
                return Ok(Step::More);
            }
        }
    }
}
