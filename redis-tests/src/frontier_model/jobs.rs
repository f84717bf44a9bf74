//! `MOVE` and `DROP`, and the read commands `WHY`, `INFO` and `CHECK`.

use super::queues::Queue;
use super::words::Args;
use super::{FrontierModel, Outcome};
use crate::wire::{Reply, bulk, int};

/// Number of stored URIs to move per batch.
const BATCH: usize = 64;

impl FrontierModel {
    pub(super) fn shift(&mut self, args: &mut Args<'_>) -> Outcome {
        let (from, to) = (args.id()?, args.id()?);
        args.end()?;
        if from == to {
            return Err("ERR");
        }
        let mut moved = 0;
        loop {
            let now = self.now;
            if self
                .known(from)?
                .holds
                .iter()
                .any(|hold| hold.deadline <= now)
            {
                self.make_ready(from);
            }
            if self.known(from).map(|group| !group.holds.is_empty())? {
                return Err("LEASED");
            }
            let before = self.groups.get(to).cloned().unwrap_or_default();
            let was_runnable = self.group(from).is_runnable();
            let source = self.group(from).clone();
            // Both groups are one host now, so both pauses apply.
            let target = self.group(to);
            target.gate = target.gate.max(source.gate);
            target.released = target.released.max(source.released);
            target.options.blocked = target.options.blocked.max(source.options.blocked);
            let done = source.kept.len() == 0;
            moved += if done {
                self.move_counted(from, to)
            } else {
                self.move_kept(from, to)
            };
            let now = self.now;
            let target = self.group(to);
            let closed = target.closed_until();
            if target.due < closed && self.wait.get(to).is_some() {
                self.wait_at(to, closed);
            }
            let target = self.group(to);
            let c = target.uris;
            if c > 0 {
                target.ours = true;
            } else if done && target.gate > now {
                self.rest(to);
            } else {
                *target = before;
            }
            self.leave_queues(from, was_runnable);
            if done {
                self.rest(from);
                for (execution, n) in self.done_limits_of(from) {
                    self.done_limits
                        .remove(&(from.to_owned(), execution.clone()));
                    let own = self.done_limits.entry((to.to_owned(), execution));
                    own.or_insert(n);
                }
                return Ok(Reply::Array(vec![int(moved), int(c)]));
            }
        }
    }

    /// Moves one batch of stored URIs. Returns the number of URIs that `to` gained.
    fn move_kept(&mut self, from: &str, to: &str) -> i64 {
        let mut moved = 0;
        let mut all = self.group(from).kept.drain();
        for (execution, weight, uri) in all.split_off(all.len().min(BATCH)) {
            let uri = (uri.uri.as_str(), uri.depth, uri.due, uri.attempts);
            self.group(from).kept.add(&execution, Some(weight), uri);
        }
        for (execution, weight, uri) in all {
            let due = uri.due;
            let uri = (uri.uri.as_str(), uri.depth, due, uri.attempts);
            let is_new = self.group(to).kept.add(&execution, Some(weight), uri);
            self.group(from).uris -= 1;
            self.enlist(&execution, from);
            if is_new {
                self.enlist(&execution, to);
                self.arrive(to, 1, due);
                moved += 1;
            }
        }
        moved
    }

    /// Moves counted URIs. Returns the number of moved URIs.
    fn move_counted(&mut self, from: &str, to: &str) -> i64 {
        let source = self.group(from);
        let counts = std::mem::take(&mut source.counts);
        let counted = std::mem::take(&mut source.uris);
        // The due time of a group behind a shared gate is the time when the gate opens.
        let due = if source.options.gate.is_empty() {
            source.due
        } else {
            source.due_of()
        };
        for (execution, n) in counts {
            self.enlist(&execution, from);
            *self.group(to).counts.entry(execution.clone()).or_insert(0) += n;
            self.enlist(&execution, to);
        }
        if counted > 0 {
            self.arrive(to, counted, due);
        }
        counted
    }

    pub(super) fn drop_command(&mut self, args: &mut Args<'_>) -> Outcome {
        if args.left() == 2 && args.keyword("GROUP") {
            let chg = args.id()?;
            let group = self.group(chg);
            let mut executions: Vec<String> =
                group.kept.executions().into_iter().map(|e| e.0).collect();
            let counted = group.counts.keys().filter(|id| !executions.contains(id));
            let counted: Vec<String> = counted.cloned().collect();
            executions.extend(counted);
            let dropped = executions
                .iter()
                .map(|execution| self.drop_some(chg, execution, false));
            let dropped: Vec<i64> = dropped.collect();
            let touched = dropped.iter().filter(|n| **n > 0).count() as i64;
            return Ok(Reply::Array(vec![int(touched), int(dropped.iter().sum())]));
        }
        let execution = args.id()?;
        args.end()?;
        let (mut touched, mut dropped) = (0, 0);
        let groups = self.enlisted.get(execution).map(Queue::in_order);
        for chg in groups.unwrap_or_default() {
            let gone = self.drop_some(&chg, execution, true);
            touched += i64::from(gone > 0);
            dropped += gone;
        }
        self.numbered.retain(|(other, _), _| other != execution);
        self.paused.remove(execution);
        Ok(Reply::Array(vec![int(touched), int(dropped)]))
    }

    /// Drops the URIs of an execution from a group. With `aborts`, refuses new URIs of the
    /// execution until the last of its leases ends, because a worker may still report links.
    fn drop_some(&mut self, chg: &str, execution: &str, aborts: bool) -> i64 {
        let now = self.now;
        let group = self.group(chg);
        let counted = group.counts.contains_key(execution);
        let of_it = group.holds.iter().filter(|hold| {
            let leased = group.kept.leased(hold.token);
            leased.map_or(counted, |leased| leased.execution == execution)
        });
        let until = of_it.map(|hold| hold.deadline).max();
        let was_runnable = group.is_runnable();
        let names = group.kept.names_of(execution);
        let gone = group.kept.drop_all(execution);
        group.uris -= gone;
        let gone = gone + group.uncount(execution, i64::MAX);
        if let Some(until) = until.filter(|until| aborts && *until > now) {
            let mark = self.dropped.entry(execution.to_owned()).or_insert(0);
            *mark = until.max(*mark);
        }
        self.forget_dropped(execution, &names);
        self.enlist(execution, chg);
        if gone > 0 {
            self.leave_queues(chg, was_runnable);
            self.rest(chg);
        }
        gone
    }

    pub(super) fn why(&mut self, args: &mut Args<'_>) -> Outcome {
        let chg = args.id()?;
        args.end()?;
        let now = self.now;
        let limits = self.done_limits_of(chg);
        let mut group = match self.known(chg) {
            Ok(group) => group.clone(),
            Err(error) if limits.is_empty() => return Err(error),
            Err(_) => super::Group::default(),
        };
        if group.is_idle() && self.idle.get(chg).is_some_and(|until| until <= now) {
            // The next write command deletes the group, so it is already shown as deleted.
            let options = std::mem::take(&mut group.options);
            group = super::Group {
                options,
                ..Default::default()
            };
            if !group.is_known() && limits.is_empty() {
                return Err("NOCHG");
            }
        }
        let optional = |n: Option<i64>| n.map_or(Reply::Nil, Reply::Int);
        let named = |fields: Vec<(&str, Reply)>| {
            Reply::Array(
                fields
                    .into_iter()
                    .flat_map(|(name, value)| [bulk(name), value])
                    .collect(),
            )
        };
        let leases = group.holds.iter().map(|hold| {
            let uri = group.kept.leased(hold.token);
            named(vec![
                ("token", int(hold.token)),
                ("granted", int(hold.granted)),
                ("age", int((now - hold.granted).max(0))),
                ("deadline", int(hold.deadline)),
                (
                    "execution",
                    uri.map_or(Reply::Nil, |uri| bulk(&uri.execution)),
                ),
                ("uri", uri.map_or(Reply::Nil, |uri| bulk(&uri.uri.uri))),
            ])
        });
        let kept = group.kept.executions().into_iter();
        let kept = kept.map(|(id, weight, _, uris)| (id, int(weight), uris));
        let counted = group
            .counts
            .iter()
            .map(|(id, n)| (id.clone(), Reply::Nil, *n));
        let executions = kept.chain(counted).map(|(id, weight, uris)| {
            named(vec![
                ("execution", bulk(id)),
                ("weight", weight),
                ("uris", int(uris)),
            ])
        });
        let limits = limits.iter().map(|(execution, n)| {
            named(vec![
                ("execution", bulk(execution)),
                ("limit", int(*n)),
                ("done", int(0)),
            ])
        });
        let options = &group.options;
        let gate = (!options.gate.is_empty()).then_some(&options.gate);
        let (state, due) = self.state_of(chg, &group);
        let mut fields = vec![
            ("chg", bulk(chg)),
            ("state", bulk(state)),
            ("due", int(due)),
            ("in", int((due - now).max(0))),
            ("count", int(group.uris)),
            ("gate", int(group.gate)),
            ("blocked-until", int(options.blocked)),
            ("paused", int(i64::from(options.paused))),
            ("leases", Reply::Array(leases.collect())),
            ("parallel", int(options.parallel)),
            ("gap", int(options.gap)),
            ("delay", optional(options.delay)),
            ("budget", optional(options.budget)),
            ("group", gate.map_or(Reply::Nil, bulk)),
            (
                "group-gate",
                optional(gate.map(|gate| self.gate_opens(gate))),
            ),
            ("backoff", int(group.steps.into())),
            ("expired", int(group.expired)),
            ("executions", Reply::Array(executions.collect())),
            ("more-executions", int(0)),
        ];
        if limits.len() > 0 {
            fields.push(("done-limits", Reply::Array(limits.collect())));
        }
        let fields = fields.into_iter().map(|(name, value)| (bulk(name), value));
        Ok(Reply::Map(fields.collect()))
    }

    /// Returns the state of a group as one word, and the time at which it can be leased, if that
    /// depends only on time.
    fn state_of(&self, chg: &str, group: &super::Group) -> (&'static str, i64) {
        let now = self.now;
        let waits = self.wait.get(chg).map(|score| score.ms);
        let due = waits.unwrap_or(group.due);
        let opens = self.gate_opens(&group.options.gate);
        let queue = self.gates.get(&group.options.gate).map(|gate| &gate.queue);
        let stands_behind = waits.is_none() && queue.is_some_and(|queue| !queue.is_empty());
        let free = group
            .kept
            .executions()
            .into_iter()
            .any(|e| e.2 > 0 && !self.paused.contains(&e.0));
        let counts = group
            .counts
            .iter()
            .filter(|(id, _)| self.paused.contains(*id));
        let counted = group.uris - group.kept.len() - counts.map(|(_, n)| n).sum::<i64>();
        let is_held_back = !self.paused.is_empty() && !free && counted <= 0;
        if !group.holds.is_empty() && !group.stands_beside_leases() {
            ("busy", due)
        } else if group.is_idle() {
            ("idle", due)
        } else if group.options.paused || self.all_paused {
            ("paused", due)
        } else if group.options.blocked > now {
            ("blocked", due.max(group.options.blocked))
        } else if opens > now && (stands_behind || due >= opens || due <= now) {
            ("gated", due.max(opens))
        } else if waits.is_some_and(|due| due > now) {
            ("waiting", due)
        } else if is_held_back {
            ("paused", due)
        } else {
            (if waits.is_some() { "waiting" } else { "ready" }, due)
        }
    }

    pub(super) fn info(&self) -> Reply {
        let over = |at: i64| at <= self.now;
        let due = self.wait.iter().filter(|(_, score)| over(score.ms)).count();
        let idle = self.idle.iter().filter(|(_, until)| !over(*until)).count();
        let gated: usize = self.gates.values().map(|gate| gate.queue.len()).sum();
        let executions = self
            .enlisted
            .values()
            .filter(|groups| groups.len() > 0)
            .count();
        let paused = if self.all_paused {
            bulk("all")
        } else {
            int(self.paused.len() as i64)
        };
        let count = |n: usize| int(n as i64);
        let fields = rows![
            "groups-waiting", count(self.wait.len()); "groups-ready", count(self.ready.len());
            "groups-busy", count(self.busy.len()); "groups-idle", count(idle); "groups-gated", count(gated);
            "due", count(due + self.ready.len()); "uris", int(self.total()); "executions", count(executions);
            "paused", paused; "expired-reports", count(self.reports.len());
        ];
        let fields = fields.into_iter().map(|(name, value)| (bulk(name), value));
        Reply::Map(fields.collect())
    }

    pub(super) fn check(&self) -> Reply {
        let total = int(self.total());
        let fields = rows![
            "consistent", int(1); "total", total.clone(); "sum-groups", total.clone();
            "sum-executions", total; "problems-total", int(0);
        ];
        let fields = fields.into_iter().map(|(name, value)| (bulk(name), value));
        Reply::Map(fields.collect())
    }
}
