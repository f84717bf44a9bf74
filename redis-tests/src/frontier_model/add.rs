//! `ADD` and `ADDURI`.

use super::known::Entered;
use super::words::Args;
use super::{FrontierModel, Outcome};
use crate::wire::{Reply, int};
use crawlspace_compact::limits::chg as limits;

impl FrontierModel {
    pub(super) fn add(&mut self, args: &mut Args<'_>) -> Outcome {
        let execution = args.id()?;
        let mut number = None;
        if args.left() % 2 == 1 {
            if !args.keyword("SEQ") {
                return Err("ERR");
            }
            number = Some((args.id()?, args.number(1, i64::MAX)?));
        }
        let mut uris = Vec::new();
        while args.left() > 0 {
            uris.push((args.id()?, args.time()?));
        }
        if uris.is_empty() {
            return Err("ERR");
        }
        let key = number.map(|(writer, n)| ((execution.to_owned(), writer.to_owned()), n));
        if let Some((last, answer)) = key.as_ref().and_then(|(key, _)| self.numbered.get(key)) {
            match key.as_ref().map(|(_, n)| n.cmp(last)) {
                Some(std::cmp::Ordering::Equal) => {
                    self.figures.known += 1;
                    return Ok(answer.clone());
                }
                Some(std::cmp::Ordering::Less) => return Err("STALE"),
                _ => {}
            }
        }
        self.tidy();
        if self.memories.contains_key(execution) {
            return Err("KNOWN");
        }
        if self.is_dropped(execution) {
            return Ok(Reply::Array(vec![Reply::Nil; uris.len()]));
        }
        let mut counts = Vec::new();
        for (chg, at) in uris {
            if !self.spend(chg) {
                counts.push(Reply::Nil);
                continue;
            }
            self.arrive(chg, 1, at);
            let group = self.group(chg);
            *group.counts.entry(execution.to_owned()).or_insert(0) += 1;
            counts.push(int(group.uris));
            self.enlist(execution, chg);
        }
        let counts = Reply::Array(counts);
        if let Some((key, n)) = key {
            self.numbered.insert(key, (n, counts.clone()));
        }
        Ok(counts)
    }

    pub(super) fn add_uris(&mut self, args: &mut Args<'_>) -> Outcome {
        let execution = args.id()?;
        let weight = match args.left() % 4 {
            2 if args.keyword("WEIGHT") => Some(args.number(1, limits::MAX_WEIGHT as i64)?),
            0 if args.left() > 0 => None,
            _ => return Err("ERR"),
        };
        let mut uris = Vec::new();
        while args.left() > 0 {
            uris.push(args.uri()?);
        }
        self.tidy();
        if self.is_dropped(execution) {
            return Ok(Reply::Array(vec![Reply::Nil; uris.len()]));
        }
        let counts = uris
            .into_iter()
            .map(|uri| match self.enter(execution, (weight, None), uri) {
                Entered::New(n) | Entered::Known(n) => int(n),
                Entered::Refused => Reply::Nil,
            });
        Ok(Reply::Array(counts.collect()))
    }

    pub(super) fn is_dropped(&self, execution: &str) -> bool {
        self.dropped
            .get(execution)
            .is_some_and(|until| *until > self.now)
    }

    /// Takes one URI from the budget of a group. Returns false if the budget is used up.
    pub(super) fn spend(&mut self, chg: &str) -> bool {
        match &mut self.group(chg).options.budget {
            Some(0) => return false,
            Some(left) => *left -= 1,
            None => {}
        }
        true
    }

    /// Counts `more` new URIs for a group. Queues the group, or makes it due earlier if it is
    /// waiting, but never before the end of its pause or block, or before its shared gate opens.
    pub(super) fn arrive(&mut self, chg: &str, more: i64, at: i64) {
        let now = self.now;
        let group = self.group(chg);
        let was_runnable = group.is_runnable();
        group.ours = true;
        group.uris += more;
        let due = at.max(group.closed_until()).max(now);
        if was_runnable {
            let group = self.group(chg);
            let (gate, present) = (group.options.gate.clone(), group.due);
            let due = due.max(self.gate_opens(&gate));
            if due < present && self.wait.get(chg).is_some() {
                self.wait_from(chg, due);
            }
        } else if group.is_runnable() {
            self.idle.remove(chg);
            self.wait_from(chg, due);
        }
    }
}
