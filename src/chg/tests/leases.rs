//! Runs random histories of leases with several URIs whose groups are freed before the URIs are done (`LATER` and
//! `GATE`). Compares the states of URLs, their keys and payloads, the reported times and the explanations of
//! groups with a model of simple maps.

use super::super::add::{Entered, Item};
use super::super::discover::{Asked, count_known, known};
use super::super::settle::Settled;
use super::known::numbers;
use super::*;

/// Number of different URLs of an execution.
const URLS: u8 = 5;
/// Number of groups and of executions in a history.
const SOME: usize = 2;
/// Number of attempts after which a URL is given up.
const ATTEMPTS: u64 = 2;

/// The fate of the URIs of a lease that is released.
#[derive(Clone, Copy, Debug)]
enum End {
    Unchanged,
    Done,
    Retry { at: i64, payload: Option<u8> },
    Later { ms: u16 },
}

/// A request for a lease.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    uris: usize,
    gate: Option<u16>,
    execution: Option<usize>,
    group: Option<usize>,
    lease: u16,
}

/// A step of a history.
#[derive(Clone, Copy, Debug)]
enum Act {
    Discover {
        group: usize,
        execution: usize,
        at: i64,
        uri: u8,
        page: Option<u8>,
        payload: Option<u8>,
        again: bool,
    },
    Next(Wanted),
    /// Releases one of the last leases. With `next`, requests the next lease, too.
    Release {
        which: usize,
        delay: u16,
        end: End,
        next: Option<Wanted>,
    },
    /// Marks the URLs of a lease whose bits are set as done, or all URLs.
    Done {
        which: usize,
        uris: Option<u8>,
    },
    Extend {
        which: usize,
        ms: u16,
    },
    Settle {
        group: usize,
        execution: usize,
        uri: u8,
        at: Option<i64>,
        payload: Option<u8>,
    },
    Drop {
        execution: usize,
    },
    Empty {
        group: usize,
    },
    Pass {
        ms: u16,
    },
    /// Time passes until a group becomes due.
    PassToDue,
    /// Ends expired leases.
    Expired,
    /// The server saves and loads the frontier.
    Reload,
}

fn wanted() -> impl Strategy<Value = Wanted> {
    let some = || prop::option::weighted(0.2, 0..SOME);
    let gate = prop::option::weighted(0.3, 0..600_u16);
    let parts = (1..4_usize, gate, some(), some(), 200..1500_u16);
    parts.prop_map(|(uris, gate, execution, group, lease)| Wanted {
        uris,
        gate,
        execution,
        group,
        lease,
    })
}

fn act() -> impl Strategy<Value = Act> {
    let payload = || prop::option::of(0..3_u8);
    let end = prop_oneof![
        1 => Just(End::Unchanged),
        2 => Just(End::Done),
        2 => (-200_i64..1200, payload()).prop_map(|(at, payload)| End::Retry { at, payload }),
        4 => (1..1500_u16).prop_map(|ms| End::Later { ms }),
    ];
    let page = prop::option::of(0..2_u8);
    prop_oneof![
        10 => (0..SOME, 0..SOME, -300_i64..900, 0..URLS, page, payload(), any::<bool>()).prop_map(
            |(group, execution, at, uri, page, payload, again)| Act::Discover {
                group, execution, at, uri, page, payload, again
            }
        ),
        10 => wanted().prop_map(Act::Next),
        10 => (0..4_usize, 0..800_u16, end, prop::option::weighted(0.3, wanted())).prop_map(
            |(which, delay, end, next)| Act::Release { which, delay, end, next }
        ),
        5 => (0..4_usize, prop::option::of(any::<u8>())).prop_map(|(which, uris)| Act::Done { which, uris }),
        2 => (0..4_usize, 1..1500_u16).prop_map(|(which, ms)| Act::Extend { which, ms }),
        3 => (0..SOME, 0..SOME, 0..URLS, prop::option::of(-200_i64..1200), payload()).prop_map(
            |(group, execution, uri, at, payload)| Act::Settle { group, execution, uri, at, payload }
        ),
        1 => (0..SOME).prop_map(|execution| Act::Drop { execution }),
        1 => (0..SOME).prop_map(|group| Act::Empty { group }),
        6 => (0..900_u16).prop_map(|ms| Act::Pass { ms }),
        5 => Just(Act::PassToDue),
        1 => Just(Act::Expired),
        2 => Just(Act::Reload),
    ]
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Now {
    Queued(Millis),
    Leased(Token),
    Done,
    GivenUp,
}

/// A URL, as the model knows it.
#[derive(Clone, Debug)]
struct Url {
    group: usize,
    now: Now,
    /// Due time before the lease.
    due: Millis,
    page: Option<Vec<u8>>,
    payload: Option<Vec<u8>>,
    attempts: u64,
}

/// A lease, as the model knows it.
#[derive(Clone, Debug)]
struct Held {
    token: Token,
    group: usize,
    execution: usize,
    /// Deadline; in the past if the lease has ended.
    until: Millis,
    /// False if the lease has freed its group.
    holds_group: bool,
    is_released: bool,
    /// URLs of the lease when it was granted.
    names: Vec<u8>,
}

struct Model {
    world: World<PackedMemory>,
    urls: BTreeMap<(usize, u8), Url>,
    leases: Vec<Held>,
    /// End of the pause of each group.
    pauses: [Millis; SOME],
    /// Time until which each execution may refuse new URLs.
    refuses: [Millis; SOME],
}

fn name(uri: u8) -> Vec<u8> {
    format!("http://h/{uri}").into_bytes()
}

fn page_of(page: u8) -> Vec<u8> {
    format!("http://h/page?{page}").into_bytes()
}

fn payload_of(payload: u8) -> Vec<u8> {
    vec![b'p'; usize::from(payload)]
}

impl Model {
    fn new() -> Model {
        let mut model = Model {
            world: World::new(),
            urls: BTreeMap::new(),
            leases: Vec::new(),
            pauses: [0; SOME],
            refuses: [0; SOME],
        };
        model.world.frontier.attempts = ATTEMPTS;
        for execution in &EXECUTIONS[..SOME] {
            let World {
                ks, frontier, now, ..
            } = &mut model.world;
            let joined = frontier.space(ks, execution, &Asked::default(), *now);
            joined.unwrap();
        }
        model
    }

    fn lease(&self, token: Token) -> &Held {
        let mut leases = self.leases.iter();
        leases.find(|lease| lease.token == token).unwrap()
    }

    /// Returns one of the last leases; 0 is the last.
    fn nth(&self, which: usize) -> Option<Held> {
        self.leases.iter().rev().nth(which).cloned()
    }

    fn set(&mut self, token: Token, change: impl FnOnce(&mut Held)) {
        let mut leases = self.leases.iter_mut();
        change(leases.find(|lease| lease.token == token).unwrap());
    }

    /// Returns the names of the URLs that a lease still has.
    fn under(&self, token: Token) -> Vec<(usize, u8)> {
        let urls = self.urls.iter();
        let under = urls.filter(|(_, url)| url.now == Now::Leased(token));
        under.map(|(place, _)| *place).collect()
    }

    /// Returns the contents of the frontier after the work that any command may do in addition to its own.
    fn state(&mut self) -> Vec<Vec<u8>> {
        for _ in 0..3 {
            let World {
                ks, frontier, now, ..
            } = &mut self.world;
            frontier.evict_idle(ks, *now).unwrap();
        }
        self.write_back();
        self.world.ks.state()
    }

    fn write_back(&mut self) {
        let World { ks, frontier, .. } = &mut self.world;
        frontier.groups.write_back(ks, None).unwrap();
    }

    /// Returns the state of a URL and its number of attempts.
    fn known(&mut self, (execution, uri): (usize, u8)) -> Option<(String, u64)> {
        let reply = known(&mut self.world.ks, EXECUTIONS[execution], &[&name(uri)]);
        let Ok(Reply::Array(all)) = reply else {
            panic!("{reply:?}")
        };
        match &all[0] {
            Reply::Nil => None,
            Reply::Array(parts) => match (&parts[0], &parts[3]) {
                (Reply::Bulk(state), Reply::Int(attempts)) => {
                    let state = String::from_utf8(state.clone()).unwrap();
                    Some((state, *attempts as u64))
                }
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }

    /// Ends the lease of a URL in the model, because the lease has expired.
    fn expire(&mut self, place: (usize, u8)) {
        let url = self.urls.get_mut(&place).unwrap();
        url.attempts += 1;
        url.now = if url.attempts >= ATTEMPTS {
            Now::GivenUp
        } else {
            Now::Queued(url.due)
        };
    }

    /// Returns the time from which a URL can be leased, as far as it depends on the URL. `None` for never.
    fn free_from(&self, url: &Url) -> Option<Millis> {
        match url.now {
            Now::Queued(due) => Some(due),
            Now::Leased(token) if url.attempts + 1 < ATTEMPTS => {
                Some(self.lease(token).until.max(url.due))
            }
            _ => None,
        }
    }

    /// Returns the time until which a group is leased.
    fn busy_until(&self, group: usize) -> Millis {
        let leases = self.leases.iter();
        let holding = leases.filter(|held| held.group == group && held.holds_group);
        holding.map(|held| held.until).max().unwrap_or(0)
    }

    /// Returns the time from which a URL of a group can be leased.
    fn leasable_from(&self, group: usize, execution: Option<usize>) -> Option<Millis> {
        let urls = self.urls.iter().filter(|((of, _), url)| {
            url.group == group && execution.is_none_or(|execution| execution == *of)
        });
        let first = urls.filter_map(|(_, url)| self.free_from(url)).min()?;
        let closed = self.pauses[group].max(self.busy_until(group));
        Some(first.max(closed).max(self.world.now))
    }

    /// Returns the first time at which a group can be leased.
    fn next_due(&self, execution: Option<usize>) -> Option<Millis> {
        (0..SOME)
            .filter_map(|group| self.leasable_from(group, execution))
            .min()
    }

    /// Returns true if an expired lease may end with URLs that are given up.
    fn may_give_up(&self) -> bool {
        let mut urls = self.urls.values();
        urls.any(|url| matches!(url.now, Now::Leased(_)) && url.attempts + 1 >= ATTEMPTS)
    }

    fn next(&mut self, wanted: &Wanted, after: Option<(&[u8], Token)>) -> Option<Lease> {
        let execution = wanted.execution.map(|execution| EXECUTIONS[execution]);
        let ask = Ask {
            lease: wanted.lease.into(),
            uris: wanted.uris,
            gate: wanted.gate.map(Millis::from),
            count: 1,
            execution,
            after,
        };
        let group = wanted.group.filter(|_| after.is_none());
        let World {
            ks, frontier, now, ..
        } = &mut self.world;
        let now = *now;
        let lease = match group {
            Some(group) => match frontier.next_of(ks, GROUPS[group], &ask, now) {
                Ok(lease) => lease,
                Err(error) => {
                    assert!(matches!(error, Error::NoChg(_)), "{error}");
                    None
                }
            },
            None => {
                let mut leases = Vec::new();
                let found = frontier.next(ks, &ask, now, &mut || true, &mut leases);
                found.unwrap();
                assert!(leases.len() < 2);
                leases.pop()
            }
        };
        self.write_back();
        let Some(lease) = lease else {
            let due = match group {
                Some(group) => {
                    // A lease that has freed the group and expired is ended by a search of all groups.
                    let urls = self.urls.values().filter(|url| url.group == group);
                    let queued = urls.filter(|url| match url.now {
                        Now::Queued(due) => due <= now,
                        _ => false,
                    });
                    let is_free = self.pauses[group].max(self.busy_until(group)) <= now;
                    (wanted.execution.is_none() && is_free && queued.count() > 0).then_some(now)
                }
                None => self.next_due(wanted.execution),
            };
            assert!(due.is_none_or(|due| due > now), "a due group is not found");
            return None;
        };
        self.granted(wanted, &lease);
        assert!(group.is_none_or(|group| lease.chg == GROUPS[group]));
        Some(lease)
    }

    fn granted(&mut self, wanted: &Wanted, lease: &Lease) {
        let now = self.world.now;
        let group = GROUPS.iter().position(|group| *group == lease.chg).unwrap();
        let of = EXECUTIONS.iter();
        let execution = of
            .zip(0..)
            .find(|(name, _)| Some(&name.to_vec()) == lease.execution.as_ref());
        let (_, execution) = execution.unwrap();
        assert!(wanted.execution.is_none_or(|asked| asked == execution));
        assert!(self.busy_until(group) <= now, "two leases of one group");
        assert!(self.pauses[group] <= now, "leased in the pause");
        assert!(self.leases.iter().all(|held| held.token < lease.token));
        assert_eq!(lease.deadline, now + Millis::from(wanted.lease));
        let surely = self.urls.iter().filter(|((of, _), url)| {
            let is_due = matches!(url.now, Now::Queued(due) if due <= now);
            *of == execution && url.group == group && is_due
        });
        let surely = surely.count().min(wanted.uris).max(1);
        assert!((surely..=wanted.uris).contains(&lease.items.len()));
        let mut names = Vec::new();
        for item in &lease.items {
            let text = item.key.as_ref().unwrap_or(&item.uri);
            let uri = (0..URLS).find(|uri| name(*uri) == *text).unwrap();
            let place = (execution, uri);
            if let Now::Leased(token) = self.urls[&place].now {
                assert!(self.lease(token).until <= now, "a URL is leased twice");
                self.expire(place);
            }
            let url = self.urls.get_mut(&place).unwrap();
            assert!(matches!(url.now, Now::Queued(due) if due <= now), "{url:?}");
            assert_eq!(url.group, group);
            assert_eq!(item.key.is_some(), url.page.is_some());
            assert_eq!(item.uri, *url.page.as_ref().unwrap_or(text));
            assert_eq!(item.payload, url.payload);
            assert_eq!(u64::from(item.attempts), url.attempts);
            url.now = Now::Leased(lease.token);
            names.push(uri);
        }
        if let Some(pause) = wanted.gate {
            self.pauses[group] = now + Millis::from(pause);
        }
        // An expired lease that held the group has ended.
        for held in &mut self.leases {
            held.holds_group &= held.group != group;
        }
        self.leases.push(Held {
            token: lease.token,
            group,
            execution,
            until: lease.deadline,
            holds_group: wanted.gate.is_none(),
            is_released: false,
            names,
        });
    }

    fn release(&mut self, which: usize, delay: u16, end: End, next: Option<Wanted>) {
        let Some(held) = self.nth(which) else {
            return;
        };
        let (now, token, chg) = (self.world.now, held.token, GROUPS[held.group]);
        let payload = match end {
            End::Retry { payload, .. } => payload.map(payload_of),
            _ => None,
        };
        let fate = match end {
            End::Unchanged => Fate::Unchanged,
            End::Done => Fate::Done {
                execution: EXECUTIONS[held.execution],
                count: None,
            },
            End::Retry { at, .. } => Fate::Retry(self.world.time(at), payload.as_deref()),
            End::Later { ms } => Fate::Later(ms.into()),
        };
        let when = When::Delay(delay.into());
        let is_held = held.holds_group && !held.is_released && held.until > now;
        let before = self.state();
        let World { ks, frontier, .. } = &mut self.world;
        let answer = frontier.release(ks, chg, token, &when, &fate, now);
        let is_refused = payload.is_some() && held.names.len() > 1;
        if !is_held || is_refused {
            assert!(
                !matches!(answer, Ok(ReleaseReply::Released(_))),
                "{answer:?}"
            );
            assert!(
                answer.is_err() || held.is_released,
                "a lease that was not released: {answer:?}"
            );
            assert_eq!(self.state(), before, "a refused release changed something");
            return;
        }
        let Ok(ReleaseReply::Released(due)) = answer else {
            panic!("{answer:?}")
        };
        self.write_back();
        self.pauses[held.group] = self.pauses[held.group].max(now + Millis::from(delay));
        self.set(token, |held| {
            held.is_released = true;
            held.holds_group = false;
        });
        if let End::Later { ms } = end {
            let until = now + Millis::from(ms);
            self.set(token, |held| held.until = until);
            self.prolong(held.execution, until);
        } else {
            for place in self.under(token) {
                let url = self.urls.get_mut(&place).unwrap();
                match end {
                    End::Done => {
                        url.now = Now::Done;
                    }
                    End::Retry { at, .. } => {
                        url.due = now.saturating_add_signed(at);
                        url.now = Now::Queued(url.due);
                        if payload.is_some() {
                            url.payload.clone_from(&payload);
                        }
                    }
                    _ => url.now = Now::Queued(url.due),
                }
            }
            self.set(token, |held| held.until = held.until.min(now));
        }
        let mut granted = None;
        if let Some(wanted) = next {
            granted = self.next(&wanted, Some((chg, token)));
            if let Some(lease) = &granted {
                let World { ks, frontier, .. } = &mut self.world;
                frontier.keep_next(ks, chg, token, lease).unwrap();
                self.write_back();
            }
        }
        let before = self.state();
        let World { ks, frontier, .. } = &mut self.world;
        let again = frontier.release(ks, chg, token, &when, &fate, now);
        let Ok(ReleaseReply::Before(at, lease)) = again else {
            panic!("{again:?}")
        };
        assert_eq!(at, due);
        let short = |lease: Option<Lease>| {
            lease.map(|lease| (lease.chg, lease.token, lease.deadline, lease.items))
        };
        assert_eq!(short(lease), short(granted));
        assert_eq!(self.state(), before, "a repeated release changed something");
    }

    fn done(&mut self, which: usize, uris: Option<u8>) {
        let Some(held) = self.nth(which) else {
            return;
        };
        let now = self.world.now;
        let names: Vec<_> = (0..URLS).map(name).collect();
        let chosen = |uri: u8| uris.is_none_or(|uris| uris & 1 << uri != 0);
        let list: Vec<&[u8]> = (0..URLS)
            .filter(|uri| chosen(*uri))
            .map(|uri| &names[usize::from(uri)][..])
            .collect();
        let list = uris.is_some().then_some(&list[..]);
        let execution = EXECUTIONS[held.execution];
        let of = (GROUPS[held.group], held.token);
        let is_held = held.until > now;
        for round in 0..2 {
            let before = self.state();
            let World { ks, frontier, .. } = &mut self.world;
            let answer = frontier.done(ks, of, execution, list, now);
            self.write_back();
            let mut own = self.under(held.token);
            own.retain(|(_, uri)| chosen(*uri));
            if is_held {
                assert_eq!(answer, Ok(own.len() as u64));
            } else {
                assert!(answer.is_err());
            }
            if round > 0 || !is_held {
                assert_eq!(self.state(), before, "a repeated DONE changed something");
                return;
            }
            for place in own {
                self.urls.get_mut(&place).unwrap().now = Now::Done;
            }
        }
    }

    fn extend(&mut self, which: usize, ms: u16) {
        let Some(held) = self.nth(which) else {
            return;
        };
        let now = self.world.now;
        let until = now + Millis::from(ms);
        let before = self.state();
        let World { ks, frontier, .. } = &mut self.world;
        let answer = frontier.extend(ks, GROUPS[held.group], held.token, ms.into(), now);
        if held.until <= now {
            assert!(answer.is_err(), "{answer:?}");
            assert_eq!(self.state(), before, "a stale extension changed something");
            return;
        }
        assert_eq!(answer, Ok(until));
        self.set(held.token, |held| held.until = until);
        self.prolong(held.execution, until);
    }

    fn prolong(&mut self, execution: usize, until: Millis) {
        let refuses = &mut self.refuses[execution];
        if *refuses > self.world.now {
            *refuses = until.max(*refuses);
        }
    }

    fn settle(&mut self, place: (usize, u8), group: usize, at: Option<i64>, payload: Option<u8>) {
        let (execution, uri) = place;
        // Otherwise, the command itself may give up the URL.
        self.play(&Act::Expired);
        let (now, text) = (self.world.now, name(uri));
        let payload = payload.map(payload_of);
        let at = at.map(|at| now.saturating_add_signed(at));
        let item = Settled {
            chg: GROUPS[group],
            uri: &text,
            at,
            payload: payload.as_deref(),
        };
        let World { ks, frontier, .. } = &mut self.world;
        let mut settle = || {
            let settled = frontier.settle(ks, EXECUTIONS[execution], None, &[item], now);
            settled.unwrap()[0]
        };
        let first = settle();
        assert_eq!(settle(), first.map(|_| false), "twice equals once");
        if first.is_none() {
            assert!(self.refuses[execution] > now);
            return;
        }
        let url = self.urls.entry(place).or_insert(Url {
            group,
            now: Now::Done,
            due: 0,
            page: None,
            payload: None,
            attempts: 0,
        });
        let has_text = matches!(url.now, Now::Queued(_) | Now::Leased(_));
        let payload = payload.map(|payload| Some(payload).filter(|payload| !payload.is_empty()));
        match at {
            Some(at) => {
                if has_text {
                    url.payload = payload.unwrap_or(url.payload.take());
                } else {
                    (url.group, url.page) = (group, None);
                    url.payload = payload.flatten();
                }
                // A repeated call with an earlier time changes nothing.
                url.due = at.max(now);
                (url.now, url.attempts) = (Now::Queued(url.due), 0);
            }
            None => url.now = Now::Done,
        }
    }

    fn drop_urls(&mut self, is: impl Fn((usize, u8), &Url) -> bool) {
        let standing = |url: &Url| matches!(url.now, Now::Queued(_) | Now::Leased(_));
        self.urls
            .retain(|place, url| !standing(url) || !is(*place, url));
    }

    fn play(&mut self, act: &Act) {
        let now = self.world.now;
        match *act {
            Act::Discover {
                group,
                execution,
                at,
                uri,
                page,
                payload,
                again,
            } => {
                let text = name(uri);
                let page = page.map(page_of);
                let payload = payload.map(payload_of);
                let kept = Kept {
                    chg: GROUPS[group],
                    at: now.saturating_add_signed(at),
                    depth: 0,
                    uri: page.as_deref().unwrap_or(&text),
                };
                let item = Item {
                    url: kept,
                    key: page.is_some().then_some(&text[..]),
                    payload: payload.as_deref().filter(|payload| !payload.is_empty()),
                };
                let options = (None, again.then_some(0));
                let World { ks, frontier, .. } = &mut self.world;
                let entered = frontier.discover(ks, EXECUTIONS[execution], options, &[item], now);
                let before = self.urls.get(&(execution, uri));
                // The command may end an expired lease, and then the URL is given up.
                let is_given_up = before.is_some_and(|url| match url.now {
                    Now::Leased(token) => {
                        self.lease(token).until <= now && url.attempts + 1 >= ATTEMPTS
                    }
                    _ => false,
                });
                let is_new = before.is_none_or(|url| match url.now {
                    Now::Queued(_) | Now::Leased(_) => false,
                    Now::Done | Now::GivenUp => again,
                });
                match entered.unwrap()[0] {
                    Entered::Refused => assert!(self.refuses[execution] > now),
                    Entered::Known(_) => assert!(!is_new),
                    Entered::New(_) => {
                        assert!(is_new || is_given_up && again);
                        let url = Url {
                            group,
                            now: Now::Queued(kept.at),
                            due: kept.at,
                            page,
                            payload: payload.filter(|payload| !payload.is_empty()),
                            attempts: 0,
                        };
                        self.urls.insert((execution, uri), url);
                    }
                }
            }
            Act::Next(wanted) => {
                self.next(&wanted, None);
            }
            Act::Release {
                which,
                delay,
                end,
                next,
            } => self.release(which, delay, end, next),
            Act::Done { which, uris } => self.done(which, uris),
            Act::Extend { which, ms } => self.extend(which, ms),
            Act::Settle {
                group,
                execution,
                uri,
                at,
                payload,
            } => self.settle((execution, uri), group, at, payload),
            Act::Drop { execution } => {
                let job = drop_execution(EXECUTIONS[execution], now);
                self.world.run(job, usize::MAX);
                let own = self
                    .leases
                    .iter()
                    .filter(|held| held.execution == execution);
                let last = own.map(|held| held.until).max().unwrap_or(0);
                self.refuses[execution] = self.refuses[execution].max(last);
                self.drop_urls(|(of, _), _| of == execution);
            }
            Act::Empty { group } => {
                let job = empty_group(GROUPS[group], now);
                self.world.run(job, usize::MAX);
                self.drop_urls(|_, url| url.group == group);
            }
            Act::Pass { ms } => self.world.now += Millis::from(ms),
            Act::PassToDue => {
                if let Some(due) = self.next_due(None) {
                    self.world.now = due;
                }
            }
            Act::Expired => {
                let World { ks, frontier, .. } = &mut self.world;
                frontier.expired(ks, 100, now).unwrap();
            }
            Act::Reload => {
                self.write_back();
                self.world.ks.end();
                let mut loaded = Packed::default();
                let packed = self.world.packed();
                packed.save(&mut |chunk| loaded.load(chunk).unwrap());
                *packed = loaded;
                self.world.apply(&Op::Restart);
                self.world.frontier.attempts = ATTEMPTS;
            }
        }
        self.write_back();
        self.world.ks.end();
        self.look();
    }

    /// Compares the frontier with the model.
    fn look(&mut self) {
        let now = self.world.now;
        for (execution, id) in EXECUTIONS.iter().enumerate().take(SOME) {
            let mut counts = [0; 4];
            for uri in 0..URLS {
                let place = (execution, uri);
                let known = self.known(place);
                let Some(url) = self.urls.get(&place) else {
                    assert_eq!(known, None);
                    continue;
                };
                let (state, attempts) = known.unwrap();
                if let Now::Leased(token) = url.now
                    && self.lease(token).until <= now
                    && state != "leased"
                {
                    self.expire(place);
                }
                let url = &self.urls[&place];
                let (expected, at) = match url.now {
                    Now::Queued(_) => ("queued", 0),
                    Now::Leased(_) => ("leased", 1),
                    Now::Done => ("done", 2),
                    Now::GivenUp => ("given-up", 3),
                };
                assert_eq!(state, expected, "{place:?} {url:?}");
                if at < 2 {
                    assert_eq!(attempts, url.attempts, "{url:?}");
                }
                counts[at] += 1;
            }
            let whole = count_known(&mut self.world.ks, id).unwrap();
            assert_eq!(numbers(&whole), counts);
        }
    }

    /// Checks that the reported times are those at which a search finds a group.
    fn look_at_times(&mut self) {
        let now = self.world.now;
        let is_exact = !self.may_give_up();
        for execution in [None, Some(0), Some(1)] {
            let expected = self.next_due(execution);
            let World { ks, frontier, .. } = &mut self.world;
            let due = match execution {
                None => frontier.next_due(ks, now),
                Some(execution) => frontier.next_due_of(ks, EXECUTIONS[execution], now),
            };
            let due = due.unwrap();
            if is_exact {
                assert_eq!(due, expected, "{execution:?}");
            } else if let Some(expected) = expected {
                assert!(due.is_some_and(|due| due <= expected), "{due:?} {expected}");
            }
        }
    }

    /// Checks the explanation of a group.
    fn look_at_group(&mut self, group: usize) {
        let World {
            ks, frontier, now, ..
        } = &mut self.world;
        let now = *now;
        let why = frontier.why(ks, GROUPS[group], now);
        let urls: Vec<&Url> = self
            .urls
            .values()
            .filter(|url| url.group == group)
            .collect();
        let queued = urls.iter().filter_map(|url| match url.now {
            Now::Queued(due) => Some(due),
            _ => None,
        });
        let queued = queued.min();
        let leased = urls
            .iter()
            .filter(|url| matches!(url.now, Now::Leased(_)))
            .count();
        let Ok(Reply::Map(fields)) = why else {
            assert!(queued.is_none() && leased == 0, "{why:?}");
            return;
        };
        let field = |name: &str| {
            let found = fields.iter().find(|(key, _)| *key == Reply::bulk(name));
            found.unwrap().1.clone()
        };
        let Reply::Bulk(state) = field("state") else {
            panic!("{fields:?}")
        };
        let Reply::Int(due) = field("due") else {
            panic!("{fields:?}")
        };
        let due = (due as Millis).max(now);
        let state = String::from_utf8(state).unwrap();
        let busy = self.busy_until(group);
        let expected: &[&str] = match () {
            () if busy > now => &["busy"],
            // The model does not know whether an expired lease without URLs has ended.
            () if busy > 0 => &["busy", "waiting", "ready", "idle", "freed"],
            () if queued.is_some() => &["waiting", "ready"],
            () if leased > 0 => &["freed"],
            () => &["idle"],
        };
        assert!(expected.contains(&&state[..]), "{fields:?}");
        if state == "freed" && !self.may_give_up() {
            assert_eq!(Some(due), self.leasable_from(group, None), "{fields:?}");
        }
        let pause = self.pauses[group];
        if busy == 0
            && let Some(queued) = queued
        {
            let from = queued.max(pause).max(now);
            assert_eq!(due, from, "{fields:?}");
        }
        let Reply::Array(leases) = field("leases") else {
            panic!("{fields:?}")
        };
        for held in &self.leases {
            if held.group == group && held.until > now && !self.under(held.token).is_empty() {
                let token = (Reply::bulk("token"), Reply::count(held.token));
                let shown = leases.iter().filter(|lease| match lease {
                    Reply::Map(fields) => fields.contains(&token),
                    other => panic!("{other:?}"),
                });
                assert_eq!(shown.count(), 1, "{fields:?}");
            }
        }
    }
}

/// Plays a history, and calls `look` after each step.
fn plays(acts: &[Act], look: impl Fn(&mut Model)) {
    let mut model = Model::new();
    for act in acts {
        model.play(act);
        look(&mut model);
    }
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    prop::collection::vec(act(), 1..60)
}

proptest! {
    #[test]
    fn states_keys_and_payloads_agree_with_a_model(acts in acts()) {
        plays(&acts, |model| model.world.inspect());
    }

    #[test]
    fn due_times_agree_with_a_model(acts in acts()) {
        plays(&acts, Model::look_at_times);
    }

    #[test]
    fn explanations_agree_with_a_model(acts in acts()) {
        plays(&acts, |model| (0..SOME).for_each(|group| model.look_at_group(group)));
    }
}

fn discover(execution: usize, uri: u8, at: i64) -> Act {
    Act::Discover {
        group: 0,
        execution,
        at,
        uri,
        page: None,
        payload: None,
        again: false,
    }
}

fn lease(ms: u16, gate: Option<u16>) -> Act {
    Act::Next(Wanted {
        uris: 1,
        gate,
        execution: None,
        group: None,
        lease: ms,
    })
}

fn settle(execution: usize, uri: u8) -> Act {
    Act::Settle {
        group: 0,
        execution,
        uri,
        at: None,
        payload: None,
    }
}

fn release(delay: u16, end: End) -> Act {
    Act::Release {
        which: 0,
        delay,
        end,
        next: None,
    }
}

/// A kept URI returns while another worker holds the group.
#[test]
fn next_due_is_not_before_the_end_of_the_lease_on_the_group() {
    let acts = [
        discover(0, 0, 0),
        discover(0, 1, 0),
        lease(200, Some(0)),
        lease(900, None),
    ];
    plays(&acts, Model::look_at_times);
}

/// The lease on the group has no URIs any more, and those of another worker return later.
#[test]
fn next_due_is_the_deadline_of_the_lease_that_has_uris() {
    let done = Act::Done {
        which: 0,
        uris: None,
    };
    let acts = [
        discover(0, 0, 0),
        discover(0, 1, 0),
        lease(1400, Some(0)),
        lease(200, None),
        done,
    ];
    plays(&acts, Model::look_at_times);
    let acts = [
        discover(0, 0, 0),
        discover(0, 1, 0),
        lease(1400, Some(0)),
        lease(200, Some(0)),
        done,
    ];
    plays(&acts, Model::look_at_times);
}

#[test]
fn a_group_is_explained_as_waiting_after_its_due_uri_is_settled() {
    let acts = [discover(0, 0, 0), discover(0, 1, 800), settle(0, 0)];
    plays(&acts, |model| model.look_at_group(0));
}

/// The due time of a freed group depends on the URIs that workers keep and on the pause.
#[test]
fn a_freed_group_is_due_when_its_kept_uris_can_be_leased() {
    let later = End::Later { ms: 1 };
    let acts = [
        discover(0, 0, 0),
        discover(1, 1, 500),
        lease(200, None),
        release(0, later),
        settle(1, 1),
    ];
    plays(&acts, |model| model.look_at_group(0));
    let acts = [
        discover(0, 0, 0),
        discover(0, 1, 0),
        lease(200, Some(0)),
        lease(200, None),
        release(700, End::Done),
    ];
    plays(&acts, |model| model.look_at_group(0));
}
