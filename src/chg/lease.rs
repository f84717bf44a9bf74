//! The end of a lease: released, extended, or run out.

use super::Token;
use super::error::{Error, Result};
use super::frontier::Frontier;
use super::groups::Loaded;
use super::next::Lease;
use super::politeness::Facts;
use super::store::Store;
use super::time::Millis;
use super::transition::{End, Event, Placement, Seen};
use super::uris::{Op, Stock, Uris};

/// When a host may be fetched from again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// At a time.
    At(Millis),
    /// This many milliseconds from now.
    Delay(Millis),
    /// After a pause that follows from the fetch, and at least the delay that is stored for the group.
    Facts(Facts),
    /// After the delay that is stored for the group.
    Stored,
}

/// What became of the URI that was fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate<'a> {
    /// It goes back as it was.
    Unchanged,
    /// It is done; where URIs are not kept, so many are.
    Done {
        /// The execution that it was queued for.
        execution: &'a [u8],
        /// How many; 1 unless given.
        count: Option<u64>,
    },
    /// It is to be fetched again then.
    Retry(Millis),
}

/// The answer to a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReleaseReply {
    /// It was carried out: when the group is due.
    Released(Millis),
    /// It was carried out before: the first answer, and the lease that it took, while that is held.
    Before(Millis, Option<Lease>),
}

impl<K: Store> Frontier<K> {
    /// A fetch ended.
    ///
    /// The group is written with [`Frontier::keep_next`], which may follow, or by [`Frontier::write_back`].
    ///
    /// # Errors
    /// `NOCHG` for an unknown group, `STALE` for a token whose lease is not held, `ERR` when the
    /// execution is not the one whose URI is leased. Nothing is changed then.
    pub fn release(
        &mut self,
        ks: &mut K,
        id: &[u8],
        token: Token,
        when: &When,
        fate: &Fate<'_>,
        now: Millis,
    ) -> Result<ReleaseReply> {
        let mut loaded = self.groups.load(ks, id)?;
        let uncounted = loaded.missing.get() > 0;
        if uncounted {
            self.see_leases(ks, &mut loaded, now)?;
        }
        if loaded.group.hold(token, now).is_none() {
            return self.released_before(ks, &loaded, token, now);
        }
        if *when == When::Stored && loaded.group.options.delay.is_none() {
            return Err(Error::Argument(format!(
                "no delay is stored for group '{}': say AT, DELAY or ELAPSED, or store one with CHG.LIMIT ... DELAY; nothing was changed",
                crawlspace_host::text::Shown(id)
            )));
        }
        let mut change = self.fate_of(ks, &loaded, token, fate)?;
        self.look_at_gate(ks, &loaded.group.options.gate.clone())?;
        if uncounted {
            self.reclaim(ks, &mut loaded, now)?;
            // The execution has more to take off now.
            change = self.fate_of(ks, &loaded, token, fate)?;
        }

        let (done, stock) = self.settle(ks, &loaded, &change)?;
        let counted = matches!(change, CountChange::Nothing);
        let end = End {
            token,
            when,
            rounding: self.rounding,
            done,
            counted,
            retry: match fate {
                Fate::Retry(at) if counted => Some(*at),
                _ => None,
            },
        };
        let seen = Seen::at(now, stock);
        let step = loaded.group.on(Event::Released(end), &seen);
        let due = loaded.group.last.map_or(now, |last| last.due);
        self.place(ks, &mut loaded, &step, now)?;
        self.figures.releases += 1;
        let is_kept =
            step.placement != Placement::Rest || self.lay_to_rest(ks, &mut loaded, now)?;
        if is_kept {
            self.save_later(ks, loaded)?;
        }
        Ok(ReleaseReply::Released(due))
    }

    /// Keeps the lease that was taken together with a release, for a retry of that release.
    ///
    /// # Errors
    /// `WRONGTYPE` when a key holds another type; or when the server refuses.
    pub fn keep_next(&mut self, ks: &mut K, id: &[u8], token: Token, next: &Lease) -> Result<()> {
        let mut loaded = match self.groups.take_unsaved(id) {
            Some(released) => released,
            None => self.groups.load(ks, id)?,
        };
        match &mut loaded.group.last {
            Some(last) if last.token == token => {
                last.next = next.token;
                let field = self.keys.fields.next.clone();
                self.save_with(ks, &loaded, Some((&field, &next.chg)))
            }
            _ => (self.past).keep_next(ks, id, token, (next.token, &next.chg)),
        }
    }

    /// The lease was released before, or never was, or is over.
    fn released_before(
        &mut self,
        ks: &mut K,
        loaded: &Loaded<K>,
        token: Token,
        now: Millis,
    ) -> Result<ReleaseReply> {
        let last = loaded.group.last.filter(|last| last.token == token);
        let found = match last {
            Some(last) => {
                let next = match last.next {
                    0 => None,
                    _ => ks.hash_get(&loaded.key, self.keys.fields.next.as_ref())?,
                };
                let next = next.map_or_else(Vec::new, |next| next.as_ref().to_vec());
                Some((last, next))
            }
            // A group that was deleted, and perhaps made again but not leased since.
            None if loaded.group.holds.is_empty() && loaded.group.last.is_none() => {
                self.past.find(ks, &loaded.id, token)?
            }
            None => None,
        };
        match found {
            Some((last, next)) => {
                let lease = self.lease_of(ks, &next, last.next, now)?;
                Ok(ReleaseReply::Before(last.due, lease))
            }
            None if !loaded.group.known => Err(Error::NoChg(loaded.id.to_vec())),
            None => Err(Error::Stale(loaded.id.to_vec(), token)),
        }
    }

    /// A lease that is held, as it was granted.
    fn lease_of(
        &mut self,
        ks: &mut K,
        id: &[u8],
        token: Token,
        now: Millis,
    ) -> Result<Option<Lease>> {
        if token == 0 {
            return Ok(None);
        }
        let loaded = self.groups.load(ks, id)?;
        let Some(hold) = loaded.group.hold(token, now) else {
            return Ok(None);
        };
        let uri = self.groups.kept(ks, &loaded, |uris| {
            let leased = uris.leased(token)?;
            Some((leased.execution.to_vec(), leased.uri.to_vec()))
        })?;
        Ok(Some(Lease {
            chg: id.to_vec(),
            token,
            deadline: hold.deadline,
            due: loaded.group.due,
            uris: loaded.group.uris,
            uri: uri.flatten(),
        }))
    }

    /// What a release does to the counts, looked at before anything is written.
    fn fate_of(
        &mut self,
        ks: &mut K,
        loaded: &Loaded<K>,
        token: Token,
        fate: &Fate<'_>,
    ) -> Result<CountChange> {
        let kept = self.groups.kept(ks, loaded, |uris| {
            let leased = uris
                .leased(token)
                .map(|leased| (leased.execution.to_vec(), leased.dropped));
            (leased, uris.len())
        })?;
        let (leased, kept) = kept.unwrap_or((None, 0));
        let Some((own, dropped)) = leased else {
            let Fate::Done { execution, count } = *fate else {
                return Ok(CountChange::Nothing);
            };
            let counted = loaded.group.uris.saturating_sub(kept);
            return self.uncount(ks, loaded, execution, count.unwrap_or(1).min(counted));
        };
        Ok(match *fate {
            Fate::Unchanged => CountChange::Return(token, None),
            Fate::Retry(at) => CountChange::Return(token, Some(at)),
            Fate::Done { execution, .. } if execution != own => {
                return Err(Error::Argument(format!(
                    "the lease is of a URI of execution '{}', not '{}'; nothing was changed",
                    crawlspace_host::text::Shown(&own),
                    crawlspace_host::text::Shown(execution)
                )));
            }
            Fate::Done { count, .. } if count.is_some_and(|count| count != 1) => {
                return Err(Error::Argument(
                    "a lease of a kept URI is done with that one, so the count is 1; nothing was changed"
                        .to_string(),
                ));
            }
            Fate::Done { .. } => CountChange::Done(token, (!dropped).then_some(own)),
        })
    }

    /// How many counted URIs of an execution can be taken off a group: never more than were queued
    /// for it, in this group or by plain clients, who do not say for whom.
    fn uncount(
        &mut self,
        ks: &mut K,
        loaded: &Loaded<K>,
        execution: &[u8],
        most: u64,
    ) -> Result<CountChange> {
        let most = most.min(self.ledger.queued_of(ks, execution)?);
        let own = self.ledger.counted(ks, &loaded.key, execution)?.min(most);
        let mut whole = own;
        if own < most {
            let others = self.unattributed(ks, loaded)?;
            whole += others.min(most - own);
        }
        Ok(CountChange::Uncount {
            execution: execution.to_vec(),
            own,
            whole,
        })
    }

    /// Does to the counts of executions and to kept URIs what a release says: how many URIs of the group
    /// are done, and what is kept then.
    fn settle(
        &mut self,
        ks: &mut K,
        loaded: &Loaded<K>,
        change: &CountChange,
    ) -> Result<(u64, Stock)> {
        match change {
            CountChange::Nothing => Ok((0, self.groups.stock(ks, loaded)?)),
            CountChange::Uncount {
                execution,
                own,
                whole,
            } => {
                if *own > 0 {
                    let before = self
                        .ledger
                        .count(ks, &loaded.key, execution, -(*own as i64))?;
                    if before <= *own {
                        self.ledger
                            .delist_if_done(ks, &self.groups, loaded, execution)?;
                    }
                }
                self.ledger.tally(ks, execution, -(*whole as i64))?;
                Ok((*whole, self.groups.stock(ks, loaded)?))
            }
            CountChange::Return(token, due) => {
                let back = Op::Return {
                    token: *token,
                    due: *due,
                    failed: false,
                };
                let key = self.groups.uris_of(ks, loaded);
                let (_, stock) = ks.change_uris_then(&key, &back, Uris::stock)?;
                Ok((0, stock.unwrap_or_default()))
            }
            CountChange::Done(token, execution) => {
                let done = Op::Done { token: *token };
                self.finish(ks, loaded, &done, execution.as_deref())
            }
        }
    }

    /// Ends the lease of a kept URI that is not tried again; if it counts, it leaves the counts of its
    /// execution. How many URIs the group has less, and what is kept then.
    pub(super) fn finish(
        &mut self,
        ks: &mut K,
        loaded: &Loaded<K>,
        done: &Op<'_>,
        execution: Option<&[u8]>,
    ) -> Result<(u64, Stock)> {
        let key = self.groups.uris_of(ks, loaded);
        let (_, seen) = ks.change_uris_then(&key, done, |uris| {
            let left = execution.map_or(0, |execution| uris.count_of(execution));
            (left, uris.stock())
        })?;
        let (left, stock) = seen.unwrap_or_default();
        let Some(execution) = execution else {
            return Ok((0, stock));
        };
        self.ledger.tally(ks, execution, -1)?;
        if left == 0 {
            self.ledger.delist_unless_counted(ks, loaded, execution)?;
        }
        Ok((1, stock))
    }

    /// A lease lasts longer; the new deadline.
    ///
    /// # Errors
    /// `NOCHG` and `STALE`, as for a release. Nothing is changed then.
    pub fn extend(
        &mut self,
        ks: &mut K,
        id: &[u8],
        token: Token,
        ms: Millis,
        now: Millis,
    ) -> Result<Millis> {
        let mut loaded = self.groups.known(ks, id)?;
        if loaded.missing.get() > 0 {
            self.see_leases(ks, &mut loaded, now)?;
        }
        if loaded.group.hold(token, now).is_none() {
            return Err(Error::Stale(id.to_vec(), token));
        }
        self.look_at_gate(ks, &loaded.group.options.gate.clone())?;
        self.reclaim(ks, &mut loaded, now)?;
        let deadline = now + ms;
        let seen = Seen::at(now, Stock::default());
        let extended = Event::Extended { token, deadline };
        let step = loaded.group.on(extended, &seen);
        self.carry_out(ks, &mut loaded, &step, now)?;
        self.extend_mark(ks, &loaded, token, deadline, now)?;
        Ok(deadline)
    }
}

/// What a release does to the counts of a group.
enum CountChange {
    Nothing,
    /// URIs that the crawler keeps are done: so many that are counted for the execution, and so many
    /// in all, with those that plain clients counted.
    Uncount {
        execution: Vec<u8>,
        own: u64,
        whole: u64,
    },
    /// The leased URI goes back.
    Return(Token, Option<Millis>),
    /// It is done; with its execution, if it still counts.
    Done(Token, Option<Vec<u8>>),
}

impl<K: Store> Frontier<K> {
    /// Of the URIs that a group counts, how many plain clients queued: they do not say in the group
    /// for which execution.
    fn unattributed(&mut self, ks: &mut K, loaded: &Loaded<K>) -> Result<u64> {
        let kept = self.groups.kept(ks, loaded, Uris::len)?.unwrap_or(0);
        let counted = self.ledger.counted_in(ks, &loaded.key)?;
        // Plain clients may have written any number.
        let attributed = counted
            .iter()
            .fold(kept, |sum, (_, n)| sum.saturating_add(*n));
        Ok(loaded.group.uris.saturating_sub(attributed))
    }
}
