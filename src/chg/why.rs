//! Explains in words, based on the state of a group, why no worker fetches from its host.

use crawlspace_host::reply::Reply;

use super::discover::url_of;
use super::error::{Error, Result};
use super::frontier::Frontier;
use super::group::Hold;
use super::groups::{Groups, Loaded};
use super::keys::GATED;
use super::known::{Reached, State};
use super::store::Store;
use super::time::{Millis, of_score};

/// Maximum number of executions listed per group.
const MAX_LISTED: usize = 1000;

impl<K: Store> Frontier<K> {
    /// Returns the state of a group.
    ///
    /// # Errors
    /// `NOCHG` if the group is unknown.
    pub fn why(&mut self, ks: &mut K, id: &[u8], now: Millis) -> Result<Reply> {
        let limits = ks.packed(|packed| {
            let of = packed.limits().of(id).take(MAX_LISTED);
            of.map(|(execution, most, counts)| {
                Reply::named([
                    ("execution", Reply::bulk(execution)),
                    ("limit", Reply::count(most)),
                    ("done", Reply::count(counts[State::Done as usize])),
                ])
            })
            .collect()
        })?;
        let limits: Vec<Reply> = limits.unwrap_or_default();
        let mut loaded = self.groups.load(ks, id)?;
        self.groups.show_as_deleted(ks, &mut loaded, now)?;
        if !loaded.group.known && limits.is_empty() {
            return Err(Error::NoChg(id.to_vec()));
        }
        let kept = (self.later).leases((ks, &self.groups), &loaded, None, MAX_LISTED)?;
        let kept: Vec<Hold> = kept
            .into_iter()
            .map(|(token, deadline)| Hold {
                token,
                // A token is the time when it was created, in microseconds, or slightly larger.
                granted: token / 1000,
                deadline,
            })
            .collect();
        let returns = kept.iter().map(|hold| hold.deadline).min();
        let (state, due, why) = self.state_of(ks, &loaded, returns, now)?;
        let group = &loaded.group;
        let options = &group.options;
        let key = self.keys.uris_key(ks, id);
        let mut executions: Vec<(Vec<u8>, Option<u64>, u64)> = ks
            .uris(&key, |uris| {
                let some = uris.executions().take(MAX_LISTED + 1);
                some.map(|share| (share.id.to_vec(), Some(share.weight), share.uris))
                    .collect()
            })?
            .unwrap_or_default();
        for (execution, n) in self
            .ledger
            .some_counted_in(ks, &loaded.key, MAX_LISTED + 1)?
        {
            executions.push((execution, None, n));
        }
        let more = executions.len() > MAX_LISTED;
        executions.truncate(MAX_LISTED);
        let mut leases = Vec::new();
        for hold in group.holds.iter().chain(&kept) {
            leases.push(hold_reply(&self.groups, ks, &loaded, hold, now)?);
        }
        let gate = match &options.gate[..] {
            b"" => None,
            gate => Some(self.gates.closed_until(ks, gate)?),
        };
        let optional = |n: Option<u64>| n.map_or(Reply::Nil, Reply::count);
        let executions = executions.into_iter().map(|(id, weight, n)| {
            Reply::named([
                ("execution", Reply::bulk(id)),
                ("weight", optional(weight)),
                ("uris", Reply::count(n)),
            ])
        });
        let mut fields = vec![
            ("chg", Reply::bulk(id)),
            ("state", Reply::bulk(state)),
            ("why", Reply::bulk(why)),
            ("due", Reply::count(due)),
            ("in", Reply::count(due.saturating_sub(now))),
            ("count", Reply::count(group.uris)),
            ("gate", Reply::count(group.gate)),
            ("blocked-until", Reply::count(options.blocked)),
            ("paused", Reply::Int(i64::from(options.paused))),
            ("leases", Reply::Array(leases)),
            ("parallel", Reply::count(options.parallel)),
            ("gap", Reply::count(options.gap)),
            ("delay", optional(options.delay)),
            ("budget", optional(options.budget)),
            (
                "group",
                match &options.gate[..] {
                    b"" => Reply::Nil,
                    gate => Reply::bulk(gate),
                },
            ),
            ("group-gate", optional(gate)),
            ("backoff", Reply::count(u64::from(group.backoff.steps))),
            ("expired", Reply::count(group.expired)),
            ("executions", Reply::Array(executions.collect())),
            ("more-executions", Reply::Int(i64::from(more))),
        ];
        if !limits.is_empty() {
            fields.push(("done-limits", Reply::Array(limits)));
        }
        Ok(Reply::named(fields))
    }

    /// Returns the name of a group's state, its due time, and an explanation. `returns` is the first time at which
    /// workers that have freed the group lose URIs of it.
    fn state_of(
        &mut self,
        ks: &mut K,
        loaded: &Loaded<K>,
        returns: Option<Millis>,
        now: Millis,
    ) -> Result<(&'static str, Millis, String)> {
        let group = &loaded.group;
        let waits = ks
            .zset_score(&self.keys.once.wait, &loaded.id)?
            .map(of_score);
        let deadline = self.groups.first_deadline(ks, loaded)?;
        let paused = self.pauses.read(ks)?;
        let all = paused.all;
        let due = waits.unwrap_or(group.due);
        if let Some(deadline) = deadline
            && !group.stands_beside_leases()
        {
            let why = if deadline <= now {
                "its lease expired; the next CHG.NEXT or CHG.SWEEP ends the lease".to_string()
            } else if group.holds.is_empty() {
                format!("a plain client fetches from it, until {deadline} at the latest")
            } else {
                format!("it is being fetched from, until {deadline} at the latest")
            };
            return Ok(("busy", due, why));
        }
        if loaded.missing.get() > 0 && waits.is_none() {
            let why = "a plain client deleted or emptied its hash, but URIs are kept for it; the next command on it, or CHG.REPAIR, queues it";
            return Ok(("waiting", due, why.to_string()));
        }
        if let Some(returns) = returns
            && group.holds.is_empty()
            && !group.is_runnable()
        {
            let why = if returns <= now {
                "the lease of its URIs expired; the next CHG.NEXT or CHG.SWEEP queues them again"
                    .to_string()
            } else {
                format!(
                    "workers keep all of its URIs after LATER or GATE, until {returns} at the latest"
                )
            };
            let closed = group.closed_until().max(self.gates.opens(ks, loaded)?);
            return Ok(("freed", returns.max(closed), why));
        }
        if group.is_idle() {
            let why = if group.gate > now {
                "nothing is queued; its pause still applies to new URIs".to_string()
            } else {
                "nothing is queued".to_string()
            };
            return Ok(("idle", due, why));
        }
        if group.options.paused || all {
            let why = if all {
                "the whole frontier is paused; CHG.RESUME resumes it"
            } else {
                "it is paused; CHG.RESUME resumes it"
            };
            return Ok(("paused", due, why.to_string()));
        }
        let blocked = group.options.blocked;
        if blocked > now {
            let why = format!("it is blocked until {blocked}; CHG.BLOCK ... UNTIL 0 ends that");
            return Ok(("blocked", due.max(blocked), why));
        }
        if !group.options.gate.is_empty() {
            let opens = self.gates.closed_until(ks, &group.options.gate)?;
            let gated = self.keys.key(ks, GATED, &group.options.gate);
            let behind = waits.is_none() && ks.list_len(&gated)? > 0;
            // A due group moves behind the gate when CHG.NEXT reaches it.
            if opens > now && (behind || due >= opens || due <= now) {
                let why = format!("another group holds the shared gate until {opens}");
                return Ok(("gated", due.max(opens), why));
            }
        }
        let reached = self.judge().reached(ks, loaded)?;
        let none = Reached::default();
        // The group may stand before the due time of its first URI, for example after an earlier URI was settled. A
        // search then moves the group.
        let (from, _) = (self.judge()).leasable_from(ks, loaded, &paused, None, now)?;
        let from = from.filter(|&from| from > now);
        let due = from.map_or(due, |from| due.max(from));
        let (state, why) = match waits.max(from) {
            Some(due) if due > now && group.gate >= due => {
                ("waiting", "the pause after the last fetch has not ended")
            }
            Some(due) if due > now => ("waiting", "nothing queued for it is due yet"),
            _ if (self.judge()).is_held_back(ks, loaded, &paused, &none)? => (
                "paused",
                "all of its queued URIs belong to paused executions",
            ),
            _ if (self.judge()).is_held_back(ks, loaded, &paused, &reached)? => (
                "limited",
                "the executions of its queued URIs have reached their limit of done URLs; CHG.LIMIT ... DONE raises it",
            ),
            Some(_) => ("waiting", "it is due, and the next CHG.NEXT may take it"),
            None => ("ready", "it is ready, and the next CHG.NEXT may take it"),
        };
        Ok((state, due, why.to_string()))
    }

    /// Returns the statistics of the whole frontier. `waiters` is the number of clients that are
    /// waiting for a lease.
    ///
    /// # Errors
    /// `WRONGTYPE` if a key holds another type; any server error.
    pub fn info(&mut self, ks: &mut K, waiters: u64, now: Millis) -> Result<Reply> {
        let due = ks.zset_count(&self.keys.once.wait, now as f64 + 0.999)?;
        let ready = ks.list_len(&self.keys.once.ready)?;
        let idle = ks.zset_len(&self.keys.once.idle)?;
        let over = ks.zset_count(&self.keys.once.idle, now as f64 + 0.999)?;
        let mut oldest = ks
            .zset_at(&self.keys.once.wait, 0)?
            .map(|(_, score)| of_score(score))
            .filter(|&due| due <= now);
        if let Some(first) = ks.list_get(&self.keys.once.ready, 0)? {
            let first = self.groups.load(ks, first.as_ref())?.group.due;
            if first > 0 {
                oldest = Some(oldest.map_or(first, |oldest| oldest.min(first)));
            }
        }
        let next_due = self.next_due(ks, now)?;
        let paused = self.pauses.read(ks)?;
        let paused = if paused.all {
            Reply::bulk("all")
        } else {
            Reply::count(paused.executions.len() as u64)
        };
        let figures = &self.figures;
        let pause = |n: Option<i64>| n.map_or(Reply::Nil, Reply::Int);
        let count = Reply::count;
        let storage = ks.storage_name();
        let known = ks.packed(|packed| {
            let spaces = packed.spaces().spaces();
            spaces.fold((0, 0.0), |(known, lost), (_, space)| {
                (known + space.len(), lost + space.expected_lost())
            })
        })?;
        let (known, lost) = known.unwrap_or_default();
        let lost = if lost == 0.0 {
            "0".to_owned()
        } else {
            format!("{lost:.2e}")
        };
        Ok(Reply::named([
            ("groups-waiting", count(ks.zset_len(&self.keys.once.wait)?)),
            ("groups-ready", count(ready)),
            ("groups-busy", count(ks.zset_len(&self.keys.once.busy)?)),
            ("groups-idle", count(idle - over.min(idle))),
            (
                "groups-gated",
                count(ks.number(&self.keys.once.gated)?.max(0) as u64),
            ),
            ("due", count(due + ready)),
            (
                "oldest-ready-ms",
                count(oldest.map_or(0, |due| now.saturating_sub(due))),
            ),
            ("next-due-ms", time(next_due)),
            (
                "uris",
                count(ks.number(&self.keys.once.total)?.max(0) as u64),
            ),
            (
                "executions",
                count(ks.hash_len(&self.keys.once.executions)?),
            ),
            ("paused", paused),
            ("waiters", count(waiters)),
            ("leases", count(figures.leases)),
            ("releases", count(figures.releases)),
            ("expired", count(figures.expired)),
            (
                "expired-reports",
                count(ks.list_len(&self.keys.once.expired)?),
            ),
            ("reports-dropped", count(figures.reports_dropped)),
            ("rate-leases", count(figures.rate(now))),
            ("pauses-observed", count(figures.pauses)),
            (
                "smallest-pause-ms",
                pause(figures.shortest.map(|pause| pause.observed as i64)),
            ),
            (
                "smallest-pause-asked-ms",
                pause(figures.shortest.map(|pause| pause.asked as i64)),
            ),
            (
                "smallest-margin-ms",
                pause(figures.tightest.map(|pause| pause.margin())),
            ),
            ("token", count(self.tokens.last(ks)?)),
            ("known", count(known)),
            ("known-expected-lost", Reply::bulk(lost)),
            ("storage", Reply::bulk(storage)),
        ]))
    }

    /// Returns the statistics of an execution.
    ///
    /// # Errors
    /// `WRONGTYPE` if a key holds another type; any server error.
    pub fn info_of(&mut self, ks: &mut K, execution: &[u8], now: Millis) -> Result<Reply> {
        let uris = self.ledger.queued_of(ks, execution)?;
        let is_paused = self.pauses.read(ks)?.has(execution);
        let next_due = self.next_due_of(ks, execution, now)?;
        let counts = ks.packed(|packed| Some(packed.spaces().member(execution)?.counts))?;
        let counts = counts.flatten();
        let known = counts.map(|counts| counts.iter().sum());
        let optional = |n: Option<u64>| n.map_or(Reply::Nil, Reply::count);
        let states = State::ALL.map(|state| {
            let count = counts.map(|counts| counts[state as usize]);
            (state.name(), optional(count))
        });
        let [queued, leased, done, given_up] = states;
        Ok(Reply::named([
            ("uris", Reply::count(uris)),
            ("paused", Reply::Int(is_paused.into())),
            ("next-due-ms", time(next_due)),
            queued,
            leased,
            done,
            given_up,
            ("known", optional(known)),
        ]))
    }
}

/// Returns a time in the form of a reply: -1 for `None`.
fn time(at: Option<Millis>) -> Reply {
    at.map_or(Reply::Int(-1), Reply::count)
}

/// Returns a held lease in the form of a reply.
fn hold_reply<K: Store>(
    groups: &Groups<K>,
    ks: &mut K,
    loaded: &Loaded<K>,
    hold: &Hold,
    now: Millis,
) -> Result<Reply> {
    let key = groups.uris_of(ks, loaded);
    let uri = ks.uris(key, |uris| {
        let leased = uris.leased(hold.token)?;
        Some((leased.execution.to_vec(), uris.uri_of(&leased)))
    })?;
    let (execution, uri) = match uri.flatten() {
        None => (Reply::Nil, Reply::Nil),
        Some((execution, name)) => {
            let uri = url_of(ks, &loaded.id, (&execution, &name))?.unwrap_or(name);
            (Reply::Bulk(execution), Reply::Bulk(uri))
        }
    };
    Ok(Reply::named([
        ("token", Reply::count(hold.token)),
        ("granted", Reply::count(hold.granted)),
        ("age", Reply::count(now.saturating_sub(hold.granted))),
        ("deadline", Reply::count(hold.deadline)),
        ("execution", execution),
        ("uri", uri),
    ]))
}
