//! Computes and applies the effects of the end of a lease on the leased URI and on the counts.

use smallvec::SmallVec;

use super::Token;
use super::discover::url_of;
use super::error::{Error, Result};
use super::group::Id;
use super::groups::{Groups, Loaded};
use super::ledger::Ledger;
use super::reports::Report;
use super::store::Store;
use super::time::Millis;
use super::uris::{End, Op, Stock};

/// The result of the fetch of a URI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate<'a> {
    /// The URI returns to the queue unchanged.
    Unchanged,
    /// The URI is done. If URIs are only counted, `count` URIs are done.
    Done {
        /// The execution for which the URI was queued.
        execution: &'a [u8],
        /// Number of URIs; `None` means 1.
        count: Option<u64>,
    },
    /// The URI must be fetched again at this time, with this payload if it changes.
    Retry(Millis, Option<&'a [u8]>),
    /// Frees the group; the holder of the token keeps the URIs for this duration.
    Later(Millis),
}

/// The effect of a release on the counts of a group.
pub(super) enum CountChange {
    Nothing,
    /// URIs that the crawler stores itself are done. `own` is subtracted from the execution's count
    /// in the group. `whole` is the total number to subtract, including URIs that plain clients
    /// counted.
    Uncount {
        execution: Id,
        own: u64,
        whole: u64,
    },
    /// The holder of the token keeps the leased URIs.
    Stay,
    /// The leased URIs return to the queue. Contains the number of leased URIs.
    Return(Token, u64, Option<Millis>),
    /// The leased URIs are done. Contains the execution of the URIs, and for each URI a flag that is true
    /// if it is still counted.
    Done(Token, Id, SmallVec<[bool; 4]>),
}

/// Returns the error for a lease whose URIs belong to another execution.
pub(super) fn other_execution(own: &[u8], execution: &[u8]) -> Error {
    Error::Argument(format!(
        "the leased URI belongs to execution '{}', not '{}'; nothing was changed",
        crawlspace_host::text::Shown(own),
        crawlspace_host::text::Shown(execution)
    ))
}

/// The parts of a frontier that the end of a lease changes.
pub(super) struct Outcomes<'a, K: Store> {
    pub groups: &'a Groups<K>,
    pub ledger: &'a mut Ledger<K>,
}

impl<K: Store> Outcomes<'_, K> {
    /// Determines the effect of a release on the counts, before the first write.
    pub(super) fn change_for(
        &mut self,
        ks: &mut K,
        loaded: &Loaded<K>,
        token: Token,
        fate: &Fate<'_>,
    ) -> Result<CountChange> {
        let kept = self.groups.kept(ks, loaded, |uris| {
            let leased = uris.leased(token)?;
            let under = uris.leased_under(token);
            let counted: SmallVec<[bool; 4]> = under.map(|leased| !leased.dropped).collect();
            Some((Id::from_slice(leased.execution), counted))
        })?;
        let Some((own, are_counted)) = kept.flatten() else {
            if let Fate::Later(_) = fate {
                return Err(Error::Argument(
                    "LATER needs URIs that the frontier keeps, but this lease has none; nothing was changed"
                        .to_owned(),
                ));
            }
            let Fate::Done { execution, count } = *fate else {
                return Ok(CountChange::Nothing);
            };
            let kept = self.groups.kept(ks, loaded, |uris| uris.len())?;
            let counted = loaded.group.uris.saturating_sub(kept.unwrap_or(0));
            return self.uncount(ks, loaded, execution, count.unwrap_or(1).min(counted));
        };
        let n = are_counted.len() as u64;
        Ok(match *fate {
            Fate::Later(_) => CountChange::Stay,
            Fate::Unchanged => CountChange::Return(token, n, None),
            Fate::Retry(_, Some(_)) if n > 1 => {
                return Err(Error::Argument(format!(
                    "PAYLOAD needs a lease with one URI, but this lease has {n}; nothing was changed"
                )));
            }
            Fate::Retry(at, _) => CountChange::Return(token, n, Some(at)),
            Fate::Done { execution, .. } if *execution != own[..] => {
                return Err(other_execution(&own, execution));
            }
            Fate::Done { count, .. } if count.is_some_and(|count| count != n) => {
                let kept = if n == 1 {
                    "one kept URI".to_owned()
                } else {
                    format!("{n} kept URIs")
                };
                return Err(Error::Argument(format!(
                    "the lease is for {kept}, so the count must be {n}; nothing was changed"
                )));
            }
            Fate::Done { .. } => CountChange::Done(token, own, are_counted),
        })
    }

    /// Determines how many counted URIs of an execution can be subtracted from a group. The maximum
    /// is the number of URIs queued for the execution in this group, plus the number of URIs that
    /// plain clients queued, because the execution of these URIs is not recorded.
    pub(super) fn uncount(
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
            execution: Id::from_slice(execution),
            own,
            whole,
        })
    }

    /// Applies the effect of a release to the counts of executions and to stored URIs. Returns how
    /// many URIs of the group are done, and the remaining stored URIs.
    pub(super) fn settle(
        &mut self,
        ks: &mut K,
        loaded: &Loaded<K>,
        change: &CountChange,
        status: Option<u16>,
    ) -> Result<(u64, Stock)> {
        match change {
            CountChange::Nothing | CountChange::Stay => Ok((0, self.groups.stock(ks, loaded)?)),
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
                            .delist_if_done(ks, self.groups, loaded, execution)?;
                    }
                }
                self.ledger.tally(ks, execution, -(*whole as i64))?;
                Ok((*whole, self.groups.stock(ks, loaded)?))
            }
            CountChange::Return(token, n, due) => {
                let back = Op::Return {
                    token: *token,
                    due: *due,
                    failed: false,
                };
                let key = self.groups.uris_of(ks, loaded);
                let mut stock = None;
                for _ in 0..*n {
                    stock = ks.change_uris_then(key, &back, |kept| kept.stock())?.1;
                }
                Ok((0, stock.unwrap_or_default()))
            }
            CountChange::Done(token, execution, are_counted) => {
                let done = Op::Done {
                    token: *token,
                    end: End {
                        is_given_up: false,
                        status,
                    },
                };
                let mut ended = (0, Stock::default());
                for is_counted in are_counted {
                    let execution = is_counted.then_some(&execution[..]);
                    let (one, stock) = self.finish(ks, loaded, &done, execution)?;
                    ended = (ended.0 + one, stock);
                }
                Ok(ended)
            }
        }
    }

    /// Ends the lease on a stored URI that is not retried. If the URI is still counted, subtracts
    /// it from its execution. Returns the number of URIs to subtract from the group, and the
    /// remaining stored URIs.
    pub(super) fn finish(
        &mut self,
        ks: &mut K,
        loaded: &Loaded<K>,
        done: &Op<'_>,
        execution: Option<&[u8]>,
    ) -> Result<(u64, Stock)> {
        let key = self.groups.uris_of(ks, loaded);
        // Only plain frontiers list the groups of an execution.
        let lists = ks.has_plain_groups();
        let (_, seen) = ks.change_uris_then(key, done, |uris| {
            let listed = execution.filter(|_| lists);
            let left = listed.map_or(0, |execution| uris.count_of(execution));
            (left, uris.stock())
        })?;
        let (left, stock) = seen.unwrap_or_default();
        let Some(execution) = execution else {
            return Ok((0, stock));
        };
        self.ledger.tally(ks, execution, -1)?;
        if lists && left == 0 {
            self.ledger.delist_unless_counted(ks, loaded, execution)?;
        }
        Ok((1, stock))
    }

    /// Returns the number of URIs of a group that plain clients queued. The group does not record
    /// the execution of these URIs.
    pub(super) fn unattributed(&mut self, ks: &mut K, loaded: &Loaded<K>) -> Result<u64> {
        let kept = self
            .groups
            .kept(ks, loaded, |kept| kept.len())?
            .unwrap_or(0);
        let counted = self.ledger.counted_in(ks, &loaded.key)?;
        // Plain clients may have written any number.
        let attributed = counted
            .iter()
            .fold(kept, |sum, (_, n)| sum.saturating_add(*n));
        Ok(loaded.group.uris.saturating_sub(attributed))
    }

    pub(super) fn end_attempt(
        &mut self,
        ks: &mut K,
        loaded: &Loaded<K>,
        token: Token,
        times: u64,
        attempts: u64,
    ) -> Result<Report> {
        let key = self.groups.uris_of(ks, loaded);
        let leased = ks.uris(key, |uris| {
            let leased = uris.leased(token)?;
            Some(Report {
                chg: loaded.id.to_vec(),
                uri: Some((leased.execution.to_vec(), uris.uri_of(&leased))),
                times: u64::from(leased.attempts) + 1,
                given_up: false,
                counts: !leased.dropped,
            })
        })?;
        let Some(mut report) = leased.flatten() else {
            return Ok(Report::of_group(&loaded.id, times));
        };
        let url = match &report.uri {
            Some((execution, name)) => url_of(ks, &loaded.id, (execution, name))?,
            None => None,
        };
        report.given_up = report.times >= attempts;
        let uri = report.uri.as_ref();
        match uri.filter(|_| report.given_up && report.counts) {
            Some((execution, _)) => {
                let end = End {
                    is_given_up: true,
                    status: None,
                };
                self.finish(ks, loaded, &Op::Done { token, end }, Some(execution))?;
            }
            None => {
                let back = Op::Return {
                    token,
                    due: None,
                    failed: true,
                };
                ks.change_uris(key, &back)?;
            }
        }
        if let (Some(url), Some((_, uri))) = (url, &mut report.uri) {
            // The URI is identified by a key.
            *uri = url;
        }
        Ok(report)
    }
}
