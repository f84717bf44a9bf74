//! `NEXT`, `RELEASE`, `DONE`, `EXTEND` and `EXPIRED`.

use super::step::{Ask, End, When};
use super::{Place, State, UrlModel, expect, refused};
use crate::history::Verdict;
use crate::must;
use crate::wire::{Reply, array, bulk, int};

/// A lease.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub token: i64,
    pub chg: String,
    pub execution: String,
    /// The deadline.
    pub until: i64,
    /// True if no other client may fetch from the group, except as `PARALLEL` allows.
    holds: bool,
    /// Number of URLs when the lease was granted.
    uris: usize,
    pub released: Option<Released>,
}

/// A release of a lease.
#[derive(Clone, Debug)]
pub(super) struct Released {
    pub words: Vec<String>,
    due: i64,
    /// The token of the next lease, if one was requested and granted.
    next: Option<i64>,
}

impl Held {
    /// Returns true if the lease holds its group at this time.
    pub fn holds_at(&self, now: i64) -> bool {
        self.holds && self.until > now
    }

    /// Returns true if the client keeps the URLs after the group was freed.
    fn keeps_at(&self, now: i64) -> bool {
        !self.holds && self.until > now
    }
}

impl UrlModel {
    /// Returns one of the last leases; 0 is the last.
    pub(super) fn nth(&self, which: usize) -> Option<&Held> {
        self.leases.iter().rev().nth(which)
    }

    pub(super) fn held(&self, token: i64) -> Option<&Held> {
        self.leases.iter().find(|held| held.token == token)
    }

    fn held_mut(&mut self, token: i64) -> &mut Held {
        let mut leases = self.leases.iter_mut();
        leases
            .find(|held| held.token == token)
            .expect("it was granted")
    }

    /// Returns the URLs that a lease still has.
    fn under(&self, token: i64) -> Vec<Place> {
        let urls = self.urls.iter();
        let under = urls.filter(|(_, url)| url.state == State::Leased(token));
        under.map(|(place, _)| place.clone()).collect()
    }

    /// Returns true if a client keeps URLs of a group that it has freed.
    pub(super) fn has_freed(&self, chg: &str) -> bool {
        let mut leases = self.leases.iter();
        leases.any(|held| held.chg == chg && held.keeps_at(self.now))
    }

    /// Returns true if a lease has expired, and may not have ended.
    pub fn has_expired(&self) -> bool {
        let is_over = |held: &Held| held.until <= self.now;
        let kept = |held: &Held| held.holds || !self.under(held.token).is_empty();
        self.leases.iter().any(|held| is_over(held) && kept(held))
    }

    /// Ends the lease of a URL that has expired.
    pub(super) fn end_attempt(&mut self, place: &Place) {
        let (now, attempts) = (self.now, self.attempts);
        let url = self.urls.get_mut(place).expect("it is leased");
        url.attempts += 1;
        let is_given_up = url.attempts >= attempts;
        let state = if is_given_up {
            State::GivenUp
        } else {
            State::Queued
        };
        url.turn(state, now);
        self.figures.given_up += u64::from(is_given_up);
        let uri = url.page.as_ref().unwrap_or(&place.1);
        let [chg, execution, uri] = [&url.chg, &place.0, uri].map(bulk);
        let report = array([chg, execution, uri, int(url.attempts)]);
        self.reports.push(report);
    }

    /// Ends all leases that have expired. Each must have been reported.
    pub(super) fn expired(&mut self, reply: &Reply) -> Verdict {
        let now = self.now;
        for at in 0..self.leases.len() {
            if self.leases[at].until <= now {
                self.leases[at].holds = false;
                for place in self.under(self.leases[at].token) {
                    self.end_attempt(&place);
                }
            }
        }
        let mut found = reply.items().to_vec();
        for report in std::mem::take(&mut self.reports) {
            let at = found.iter().position(|found| *found == report);
            let Some(at) = at else {
                return Err(format!("EXPIRED does not report {report:?}: {reply:?}"));
            };
            found.remove(at);
        }
        Ok(())
    }

    /// Returns true if a group may lease URLs of an execution, apart from its pause.
    fn is_allowed(&self, chg: &str, execution: &str) -> bool {
        let group = self.groups.get(chg);
        let limit = group.and_then(|group| group.done.get(execution));
        let done = self
            .urls
            .iter()
            .filter(|((of, _), url)| of == execution && url.chg == chg && url.state == State::Done);
        !self.paused.contains(execution) && limit.is_none_or(|n| (done.count() as i64) < *n)
    }

    /// Returns true if a fetch from a group may begin now.
    fn is_open(&self, chg: &str) -> bool {
        let now = self.now;
        let group = self.groups.get(chg).cloned().unwrap_or_default();
        let leases = self.leases.iter();
        let held = leases.filter(|held| held.chg == chg && held.holds_at(now));
        let is_closed = self.all_paused || group.paused || group.pause.max(group.blocked) > now;
        !is_closed && (held.count() as i64) < group.parallel
    }

    /// Returns a URL that `NEXT` must be able to lease.
    fn certain(&self, ask: &Ask, only: Option<&str>) -> Option<&Place> {
        let now = self.now;
        let mut urls = self.urls.iter();
        let found = urls.find(|((execution, _), url)| {
            // A lease counts as a URL of its group, even if it has no URL.
            let simple = self.leases.iter().all(|held| {
                held.chg != url.chg
                    || !held.holds
                    || held.until > now && !self.under(held.token).is_empty()
            });
            url.is_queued(now)
                && only.is_none_or(|chg| chg == url.chg)
                && ask.execution.is_none_or(|asked| asked == execution)
                && self.is_open(&url.chg)
                && self.is_allowed(&url.chg, execution)
                && simple
        });
        found.map(|(place, _)| place)
    }

    /// Returns the number of URLs of a group that any command may give up, because their last lease has expired.
    pub(super) fn given_up_in(&self, chg: &str) -> i64 {
        let over = self.urls.values().filter(|url| {
            let State::Leased(token) = url.state else {
                return false;
            };
            let held = self.held(token).expect("it was granted");
            url.chg == chg && held.until <= self.now && url.attempts + 1 >= self.attempts
        });
        over.count() as i64
    }

    pub(super) fn next(
        &mut self,
        ask: &Ask,
        count: Option<i64>,
        chg: Option<&str>,
        reply: &Reply,
    ) -> Verdict {
        if let Some(chg) = chg
            && reply.is_error()
        {
            must!(self.may_be_unknown(chg), "{chg} exists: {reply:?}");
            return refused(reply, &["NOCHG"]);
        }
        let leases = match reply {
            Reply::Nil => &[][..],
            Reply::Array(leases) if !leases.is_empty() => leases,
            _ => return Err(format!("not a reply of NEXT: {reply:?}")),
        };
        let count = count.unwrap_or(1) as usize;
        must!(leases.len() <= count, "too many leases: {reply:?}");
        for lease in leases {
            self.granted(ask, chg, lease)?;
        }
        if leases.len() < count {
            let certain = self.certain(ask, chg);
            must!(certain.is_none(), "{certain:?} is not leased: {reply:?}");
        }
        Ok(())
    }

    fn granted(&mut self, ask: &Ask, only: Option<&str>, lease: &Reply) -> Verdict {
        let now = self.now;
        let parts = lease.items();
        let full = 7 + usize::from(ask.is_full());
        must!(parts.len() == full, "expected {full} elements: {lease:?}");
        let (chg, token, until) = (parts[0].text(), parts[1].int(), parts[2].int());
        let (n, c) = (parts[3].int(), parts[4].int());
        must!(!parts[5].is_nil(), "no execution: {lease:?}");
        let execution = parts[5].text();
        let is_new = self.leases.iter().all(|held| held.token < token);
        must!(is_new, "the token is not new: {lease:?}");
        must!(until == now + ask.lease, "wrong deadline: {lease:?}");
        // A lease without URLs still counts as one of the URLs of its group, whose due time may then be that of a
        // later URL.
        let parallel = self.groups.get(&chg).map_or(1, |group| group.parallel);
        must!(n <= now || parallel > 1, "not due: {lease:?}");
        must!(
            only.is_none_or(|only| only == chg),
            "wrong group: {lease:?}"
        );
        let right = ask.execution.is_none_or(|asked| asked == execution);
        must!(right, "wrong execution: {lease:?}");
        must!(self.is_open(&chg), "{chg} is closed: {lease:?}");
        let allowed = self.is_allowed(&chg, &execution);
        must!(allowed, "{execution} is held back: {lease:?}");

        let mut places = Vec::new();
        for at in 0..parts.get(7).map_or(1, |uris| uris.items().len()) {
            let shown = parts.get(7).map(|uris| uris.items()[at].items());
            let uri = shown.map_or(&parts[6], |parts| &parts[0]);
            must!(!uri.is_nil(), "no URL: {lease:?}");
            let uri = uri.text();
            let found = self.urls.iter().find(|((of, name), url)| {
                *of == execution && *url.page.as_ref().unwrap_or(name) == uri
            });
            let Some((place, url)) = found.map(|(place, url)| (place.clone(), url)) else {
                return Err(format!("{uri} is unknown: {lease:?}"));
            };
            if let State::Leased(before) = url.state {
                let held = self.held(before).expect("it was granted");
                must!(held.until <= now, "{uri} is leased twice: {lease:?}");
                self.end_attempt(&place);
            }
            let url = &self.urls[&place];
            must!(
                url.is_queued(now) && url.chg == chg,
                "{uri} is not due: {url:?} {lease:?}"
            );
            if let Some([_, key, payload, depth, attempts]) = shown {
                let optional = |text: Option<&String>| {
                    text.map_or(Reply::Nil, |text| Reply::Bulk(text.clone().into_bytes()))
                };
                let expected = [
                    optional(url.page.as_ref().map(|_| &place.1)),
                    optional(url.payload.as_ref()),
                    int(url.depth),
                    int(url.attempts),
                ];
                let found = [key, payload, depth, attempts].map(Clone::clone);
                must!(found == expected, "expected {expected:?}: {lease:?}");
            }
            places.push(place);
        }
        let most = ask.uris.unwrap_or(1) as usize;
        let rank = |place: &Place| {
            let url = &self.urls[place];
            (url.depth, url.due)
        };
        let last = places.iter().map(rank).max().unwrap_or_default();
        let others = self.urls.iter().filter(|(place, url)| {
            place.0 == execution && url.chg == chg && url.is_queued(now) && !places.contains(place)
        });
        let others: Vec<_> = others.map(|(place, _)| rank(place)).collect();
        must!(
            places.len() <= most && (places.len() == most || others.is_empty()),
            "{} of {most} URLs, {} others are due: {lease:?}",
            places.len(),
            others.len()
        );
        must!(
            others.iter().all(|other| *other >= last),
            "a URL with a smaller depth is due: {lease:?}"
        );
        let (count, over) = (self.count_of(&chg), self.given_up_in(&chg));
        must!(
            (count - over..=count).contains(&c),
            "expected {count} URLs: {lease:?}"
        );
        for place in &places {
            let url = self.urls.get_mut(place).expect("just seen");
            url.turn(State::Leased(token), now);
        }
        if let Some(pause) = ask.gate {
            let group = self.group(&chg);
            group.pause = group.pause.max(now + group.delay.unwrap_or(pause));
        }
        self.figures.leases += 1;
        self.figures.joint += u64::from(places.len() > 1);
        self.figures.freed += u64::from(ask.gate.is_some());
        self.leases.push(Held {
            token,
            chg,
            execution,
            until,
            holds: ask.gate.is_none(),
            uris: places.len(),
            released: None,
        });
        Ok(())
    }

    pub(super) fn release(
        &mut self,
        which: usize,
        when: When,
        end: &End,
        next: Option<&Ask>,
        words: &[String],
        reply: &Reply,
    ) -> Verdict {
        let now = self.now;
        let held = self.nth(which).expect("it was sent").clone();
        if !held.holds_at(now) {
            self.figures.stale += 1;
            if held.released.is_some() && !reply.is_error() {
                return self.released_again(which, reply);
            }
            return refused(reply, &["STALE", "NOCHG", "ERR"]);
        }
        let under = self.under(held.token);
        if matches!(end, End::Retry(_, Some(_))) && held.uris > 1 {
            return refused(reply, &["ERR"]);
        }
        if matches!(end, End::Later(_)) && under.is_empty() && reply.is_error() {
            return refused(reply, &["ERR"]);
        }
        let has_expired = self.has_expired();
        let group = self.group(&held.chg);
        let pause = match when {
            When::At(ms) => now + ms,
            When::Delay(ms) => now + ms,
            When::Elapsed(ms, _) => now + ms.max(group.delay.unwrap_or(0)),
        };
        group.pause = group.pause.max(pause).max(now);
        let status = match when {
            When::Elapsed(_, status) => status,
            _ => None,
        };
        for place in &under {
            let url = self.urls.get_mut(place).expect("it is leased");
            url.status = status.unwrap_or(url.status);
            match end {
                End::Later(_) => continue,
                End::Done => url.turn(State::Done, now),
                End::Unchanged => url.turn(State::Queued, now),
                End::Retry(at, payload) => {
                    url.turn(State::Queued, now);
                    url.due = now + at;
                    url.payload = payload.clone().or(url.payload.take());
                }
            }
        }
        let held = self.held_mut(held.token);
        held.holds = false;
        held.until = match end {
            End::Later(ms) => now + ms,
            _ => now,
        };
        let (token, chg) = (held.token, held.chg.clone());
        self.figures.freed += u64::from(matches!(end, End::Later(_)));
        if matches!(end, End::Later(_)) {
            self.prolong(token);
        }
        let (due, lease) = match (next, reply) {
            (None, reply) => (reply, None),
            (Some(_), Reply::Array(parts)) if parts.len() == 2 => (&parts[0], Some(&parts[1])),
            _ => return Err(format!("not a reply of RELEASE: {reply:?}")),
        };
        let Reply::Int(due) = *due else {
            return Err(format!("not a time: {reply:?}"));
        };
        let group = self.groups[&chg].clone();
        let queued = self.urls.values();
        let queued = queued.filter(|url| url.chg == chg && url.state == State::Queued);
        let queued = queued.map(|url| url.due).min();
        let closed = group.pause.max(group.blocked);
        must!(due >= group.pause, "the pause ends at {}", group.pause);
        if let Some(queued) = queued
            && group.parallel == 1
            && !has_expired
        {
            let expected = queued.max(closed);
            must!(due == expected, "expected {expected}, got {due}");
        }
        let words = words.to_vec();
        let next_token = lease.filter(|lease| !lease.is_nil());
        let next_token = next_token.map(|lease| lease.items()[1].int());
        self.held_mut(token).released = Some(Released {
            words,
            due,
            next: next_token,
        });
        if let (Some(ask), Some(lease)) = (next, lease) {
            let leases = match lease {
                Reply::Nil => Reply::Nil,
                lease => Reply::Array(vec![lease.clone()]),
            };
            self.next(ask, None, None, &leases)?;
        }
        Ok(())
    }

    /// Checks the reply to a release that was sent again.
    pub(super) fn released_again(&mut self, which: usize, reply: &Reply) -> Verdict {
        self.figures.stale += 1;
        let held = self.nth(which).expect("it was sent");
        let released = held.released.as_ref().expect("it was sent");
        if reply.is_error() {
            // The frontier remembers the last release until the group is leased again.
            let later = self.leases.iter().rev().take(which);
            let is_last = later.filter(|other| other.chg == held.chg).count() == 0;
            let parallel = self.groups[&held.chg].parallel;
            must!(
                !is_last || parallel > 1,
                "the release is forgotten: {reply:?}"
            );
            return refused(reply, &["STALE", "NOCHG", "ERR"]);
        }
        let (due, lease) = match reply {
            Reply::Array(parts) => (&parts[0], Some(&parts[1])),
            due => (due, None),
        };
        expect(due, &int(released.due))?;
        if let Some(lease) = lease.filter(|lease| !lease.is_nil()) {
            let token = lease.items()[1].int();
            must!(released.next == Some(token), "another lease: {lease:?}");
        }
        Ok(())
    }

    pub(super) fn done(
        &mut self,
        which: usize,
        names: Option<&[String]>,
        reply: &Reply,
    ) -> Verdict {
        let now = self.now;
        let held = self.nth(which).expect("it was sent").clone();
        if held.until <= now {
            self.figures.stale += 1;
            return refused(reply, &["STALE", "NOCHG"]);
        }
        let mut under = self.under(held.token);
        under.retain(|(_, name)| names.is_none_or(|names| names.contains(name)));
        for place in &under {
            let url = self.urls.get_mut(place).expect("it is leased");
            url.turn(State::Done, now);
        }
        self.figures.done += under.len() as u64;
        expect(reply, &int(under.len() as i64))
    }

    pub(super) fn extend(&mut self, which: usize, ms: i64, reply: &Reply) -> Verdict {
        let until = self.now + ms;
        let held = self.nth(which).expect("it was sent").clone();
        if held.until <= self.now {
            self.figures.stale += 1;
            return refused(reply, &["STALE", "NOCHG"]);
        }
        self.held_mut(held.token).until = until;
        self.prolong(held.token);
        expect(reply, &int(until))
    }

    /// Prolongs the time for which the execution of a lease may refuse URLs.
    fn prolong(&mut self, token: i64) {
        let (now, held) = (self.now, self.held(token).expect("it was granted"));
        let (execution, until) = (held.execution.clone(), held.until);
        if let Some(refuses) = self.refuses.get_mut(&execution)
            && *refuses > now
        {
            *refuses = until.max(*refuses);
        }
    }
}
