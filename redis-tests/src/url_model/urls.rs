//! The commands that name URLs: `DISCOVER`, `ADDURI`, `SETTLE`, `FORGET` and `KNOWN`; and `MOVE`,
//! `DROP` and the commands that change the options of groups.

use super::step::{Found, Limits, Select, Settled, Step};
use super::{Group, State, UNIT, Url, UrlModel, expect, refused};
use crate::history::Verdict;
use crate::must;
use crate::wire::{Reply, array, bulk, int, simple};

impl UrlModel {
    /// Applies a step, and checks its reply.
    ///
    /// # Errors
    /// The difference.
    pub fn follow(&mut self, step: &Step, words: &[String], reply: &Reply) -> Verdict {
        match step {
            Step::Discover {
                execution,
                fresh,
                items,
                ..
            } => {
                let is_new = |url: &Url, now: i64| {
                    fresh.is_some_and(|fresh| now - url.changed / UNIT * UNIT >= fresh)
                };
                self.discover(execution, items, false, is_new, reply)
            }
            Step::AddUri { execution, items } => {
                self.discover(execution, items, true, |_, _| false, reply)
            }
            Step::Settle {
                execution,
                status,
                with_payload,
                items,
            } => {
                let is_refused = reply.items().iter().all(Reply::is_nil);
                if !is_refused || !self.may_refuse(execution) {
                    self.spaces.insert((*execution).to_owned());
                }
                for (item, reply) in items.iter().zip(reply.items()) {
                    self.settle(execution, *status, item, *with_payload, reply)?;
                }
                self.answered(items.len(), reply)
            }
            Step::Forget { execution, names } => {
                let mut forgotten = 0;
                for name in names {
                    let place = ((*execution).to_owned(), name.clone());
                    let url = self.urls.get(&place);
                    if url.is_some_and(|url| !matches!(url.state, State::Leased(_))) {
                        self.urls.remove(&place);
                        forgotten += 1;
                    }
                }
                self.figures.forgotten += forgotten as u64;
                expect(reply, &int(forgotten))
            }
            Step::Select { execution, select } => self.forget(execution, select, reply),
            Step::Next { ask, count, chg } => self.next(ask, *count, *chg, reply),
            Step::Release {
                which,
                when,
                end,
                next,
            } => self.release(*which, *when, end, next.as_ref(), words, reply),
            Step::Again { which } => self.released_again(*which, reply),
            Step::Done { which, names } => self.done(*which, names.as_deref(), reply),
            Step::Extend { which, ms } => self.extend(*which, *ms, reply),
            Step::Limit { chg, limits } => {
                self.limit(chg, *limits);
                expect(reply, &simple("OK"))
            }
            Step::Block { chg, ms } => {
                let until = self.now + ms;
                self.of_group(chg, reply, |group| group.blocked = until)
            }
            Step::Pause { on, chg, execution } => {
                if let Some(chg) = chg {
                    return self.of_group(chg, reply, |group| group.paused = *on);
                }
                match (execution, on) {
                    (None, _) => self.all_paused = *on,
                    (Some(id), true) => drop(self.paused.insert((*id).to_owned())),
                    (Some(id), false) => {
                        self.paused.remove(*id);
                        self.refuses.remove(*id);
                    }
                }
                expect(reply, &simple("OK"))
            }
            Step::Move { from, to } => self.shift(from, to, reply),
            Step::Drop { execution } => self.drop_execution(execution, reply),
            Step::Empty { chg } => self.empty(chg, reply),
            Step::Sweep => {
                must!(!reply.is_error(), "{reply:?}");
                Ok(())
            }
            Step::Expired => self.expired(reply),
            Step::Repair => {
                must!(
                    !reply.is_error() && reply.field("mended").int() == 0,
                    "{reply:?}"
                );
                Ok(())
            }
            Step::Unpack => {
                if !self.spaces.is_empty() {
                    return refused(reply, &["KNOWN"]);
                }
                must!(!reply.is_error(), "{reply:?}");
                Ok(())
            }
            Step::Pass(_) | Step::PassTo(_) | Step::Reload { .. } => Ok(()),
        }
    }

    fn answered(&self, items: usize, reply: &Reply) -> Verdict {
        let is_array = matches!(reply, Reply::Array(all) if all.len() == items);
        must!(is_array, "expected {items} elements, got {reply:?}");
        Ok(())
    }

    fn may_refuse(&self, execution: &str) -> bool {
        let until = self.refuses.get(execution);
        until.is_some_and(|until| *until > self.now)
    }

    /// Adds URLs. `is_new` tells whether a URL that is done or was given up counts as new.
    fn discover(
        &mut self,
        execution: &str,
        items: &[Found],
        counts_known: bool,
        is_new: impl Fn(&Url, i64) -> bool,
        reply: &Reply,
    ) -> Verdict {
        self.answered(items.len(), reply)?;
        let now = self.now;
        if reply.items().iter().all(Reply::is_nil) && self.may_refuse(execution) {
            return Ok(());
        }
        self.spaces.insert(execution.to_owned());
        for (item, reply) in items.iter().zip(reply.items()) {
            let place = (execution.to_owned(), item.name.clone());
            let before = self.urls.get(&place);
            if before.is_some_and(|url| url.is_open() || !is_new(url, now)) {
                let known = counts_known.then(|| self.count_of(item.chg));
                expect(reply, &int(known.unwrap_or(0)))?;
                continue;
            }
            let status = before.map_or(-1, |url| url.status);
            let budget = &mut self.group(item.chg).budget;
            if *budget == Some(0) {
                expect(reply, &Reply::Nil)?;
                continue;
            }
            *budget = budget.map(|left| left - 1);
            let url = Url {
                chg: item.chg.to_owned(),
                state: State::Queued,
                due: (now + item.at).max(now),
                depth: item.depth,
                page: item.page.clone(),
                payload: item.payload.clone(),
                attempts: 0,
                status,
                changed: now,
            };
            let before = self.urls.insert(place, url);
            self.figures.again += u64::from(before.is_some());
            expect(reply, &int(self.count_of(item.chg)))?;
        }
        Ok(())
    }

    fn settle(
        &mut self,
        execution: &str,
        status: Option<i64>,
        item: &Settled,
        with_payload: bool,
        reply: &Reply,
    ) -> Verdict {
        let now = self.now;
        if reply.is_nil() && self.may_refuse(execution) {
            return Ok(());
        }
        let place = (execution.to_owned(), item.name.clone());
        let before = self.urls.get(&place).cloned();
        let open = before.as_ref().is_some_and(Url::is_open);
        let mut url = before.clone().unwrap_or(Url {
            chg: item.chg.to_owned(),
            state: State::Done,
            due: 0,
            depth: 0,
            page: None,
            payload: None,
            attempts: 0,
            status: -1,
            changed: now,
        });
        let payload = Some(item.payload.clone()).filter(|_| with_payload);
        let changed = match item.at {
            None => {
                let status = status.unwrap_or(url.status);
                let same = before.is_some_and(|url| url.state == State::Done);
                let same = same && url.status == status;
                if !same {
                    url.turn(State::Done, now);
                }
                url.status = status;
                !same
            }
            Some(at) => {
                if !open {
                    let budget = &mut self.group(item.chg).budget;
                    if *budget == Some(0) {
                        return expect(reply, &Reply::Nil);
                    }
                    *budget = budget.map(|left| left - 1);
                    (url.chg, url.depth) = (item.chg.to_owned(), 0);
                    (url.page, url.payload) = (None, None);
                }
                let due = (now + at).max(now);
                // A URL that is due already stays due since the same time.
                let is_due = url.state == State::Queued && url.attempts == 0 && url.due <= now;
                let due = if is_due && due == now { url.due } else { due };
                if let Some(payload) = payload {
                    url.payload = Some(payload).filter(|payload| !payload.is_empty());
                }
                let same = before.as_ref().is_some_and(|before| {
                    let same = before.state == State::Queued && before.due == due;
                    same && before.attempts == 0 && before.payload == url.payload
                });
                if url.state != State::Queued {
                    url.turn(State::Queued, now);
                }
                (url.due, url.attempts) = (due, 0);
                !same
            }
        };
        self.urls.insert(place, url);
        self.figures.settled += u64::from(changed);
        expect(reply, &int(i64::from(changed)))
    }

    fn forget(&mut self, execution: &str, select: &Select, reply: &Reply) -> Verdict {
        let before = self.before(select);
        let len = self.urls.len();
        self.urls.retain(|(of, _), url| {
            of != execution
                || url.is_open()
                || select.chg.is_some_and(|chg| chg != url.chg)
                || before.is_some_and(|before| url.changed >= before)
                || select
                    .done
                    .is_some_and(|done| done != (url.state == State::Done))
        });
        let forgotten = len - self.urls.len();
        self.figures.forgotten += forgotten as u64;
        let selects = select.chg.is_some() || before.is_some() || select.done.is_some();
        if !selects && !self.urls.keys().any(|(of, _)| of == execution) {
            self.spaces.remove(execution);
        }
        expect(reply, &int(forgotten as i64))
    }

    fn limit(&mut self, chg: &str, limits: Limits) {
        let group = self.group(chg);
        let unlimited = |n: i64| (n >= 0).then_some(n);
        match limits {
            Limits::Parallel(n) => group.parallel = n,
            Limits::Delay(ms) => group.delay = unlimited(ms),
            Limits::Budget(n) => group.budget = unlimited(n),
            Limits::Done(0, execution) => drop(group.done.remove(execution)),
            Limits::Done(n, execution) => drop(group.done.insert(execution.to_owned(), n)),
        }
    }

    /// Changes a group that must exist.
    fn of_group(&mut self, chg: &str, reply: &Reply, change: impl FnOnce(&mut Group)) -> Verdict {
        if reply.is_error() && self.may_be_unknown(chg) {
            return refused(reply, &["NOCHG"]);
        }
        change(self.group(chg));
        expect(reply, &simple("OK"))
    }

    /// Returns true if the group may not exist: it has no queued or leased URL, except URLs that the
    /// command may give up, and no lease holds it.
    pub(super) fn may_be_unknown(&self, chg: &str) -> bool {
        let now = self.now;
        let mut leases = self.leases.iter();
        let is_held = leases.any(|held| held.chg == chg && held.holds_at(now));
        self.count_of(chg) == self.given_up_in(chg) && !is_held
    }

    fn shift(&mut self, from: &str, to: &str, reply: &Reply) -> Verdict {
        let now = self.now;
        let mut leases = self.leases.iter();
        if leases.any(|held| held.chg == from && held.holds_at(now)) {
            return refused(reply, &["LEASED"]);
        }
        if reply.is_error() && self.may_be_unknown(from) {
            return refused(reply, &["NOCHG"]);
        }
        let moved = self.count_of(from);
        for url in self.urls.values_mut().filter(|url| url.chg == from) {
            url.chg = to.to_owned();
        }
        let source = self.group(from);
        let (pause, blocked) = (source.pause, source.blocked);
        let limits = std::mem::take(&mut source.done);
        let target = self.group(to);
        target.pause = target.pause.max(pause);
        target.blocked = target.blocked.max(blocked);
        for (execution, n) in limits {
            target.done.entry(execution).or_insert(n);
        }
        expect(reply, &array([int(moved), int(self.count_of(to))]))
    }

    fn drop_execution(&mut self, execution: &str, reply: &Reply) -> Verdict {
        let own = |held: &&super::Held| held.execution == execution;
        let until = self.leases.iter().filter(own).map(|held| held.until);
        if let Some(until) = until.max() {
            let refuses = self.refuses.entry(execution.to_owned()).or_default();
            *refuses = until.max(*refuses);
        }
        self.paused.remove(execution);
        self.remove_open(reply, |of, _| of == execution)
    }

    fn empty(&mut self, chg: &str, reply: &Reply) -> Verdict {
        self.remove_open(reply, |_, url| url.chg == chg)
    }

    /// Forgets the queued and leased URLs that `is` selects.
    fn remove_open(&mut self, reply: &Reply, is: impl Fn(&str, &Url) -> bool) -> Verdict {
        let len = self.urls.len();
        self.urls
            .retain(|(of, _), url| !url.is_open() || !is(of, url));
        self.answered(2, reply)?;
        expect(&reply.items()[1], &int((len - self.urls.len()) as i64))
    }

    /// Returns the names of all URLs of the model that an execution knows, and some others.
    pub fn names(&self, execution: &str, others: &[&str]) -> Vec<String> {
        let own = self.urls.keys().filter(|(of, _)| of == execution);
        let own = own.map(|(_, name)| name.clone());
        let others = others.iter().map(|name| (*name).to_owned());
        let all: std::collections::BTreeSet<_> = own.chain(others).collect();
        all.into_iter().collect()
    }

    /// Checks the reply to `CHG.KNOWN` for these names. Ends leases in the model that a command has
    /// ended.
    ///
    /// # Errors
    /// The difference.
    pub fn knows(&mut self, execution: &str, names: &[String], reply: &Reply) -> Verdict {
        self.answered(names.len(), reply)?;
        for (name, reply) in names.iter().zip(reply.items()) {
            let place = (execution.to_owned(), name.clone());
            let Some(url) = self.urls.get(&place) else {
                must!(reply.is_nil(), "{place:?} is unknown, got {reply:?}");
                continue;
            };
            if let State::Leased(token) = url.state
                && self.held(token).is_some_and(|held| held.until <= self.now)
                && !reply.is_nil()
                && reply.items()[0] != bulk("leased")
            {
                self.end_attempt(&place);
            }
            let url = &self.urls[&place];
            let (state, due) = match url.state {
                State::Queued => ("queued", url.due),
                State::Leased(_) => ("leased", url.due),
                State::Done => ("done", -1),
                State::GivenUp => ("given-up", -1),
            };
            let numbers = [
                due,
                url.status,
                url.attempts.min(15),
                url.changed / UNIT * UNIT,
            ];
            let [due, status, attempts, changed] = numbers.map(int);
            let expected = array([bulk(state), due, status, attempts, changed]);
            must!(
                *reply == expected,
                "{place:?}: expected {expected:?}, got {reply:?}"
            );
        }
        Ok(())
    }
}
