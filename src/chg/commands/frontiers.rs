//! The cached frontiers, by database and prefix.

use std::collections::VecDeque;
use std::os::raw::c_int;

use crate::chg::error::{Error, Result};
use crate::chg::frontier::Frontier;
use crate::chg::grammar::Now;
use crate::chg::keys::{GROUP, Heard, ONCE, heard_once, possible_groups};
use crate::chg::packed::Packed;
use crate::chg::time::Millis;
use crate::storage::Storage;
use crawlspace_host::keyspace::Keyspace;
use crawlspace_host::names::Lengths;
use crawlspace_host::reply::Reply;
use crawlspace_host::server::acl::{Access, User};
use crawlspace_host::server::alarm;
use crawlspace_host::server::api::{Ctx, RmString, context_flags, raw};
use crawlspace_host::server::blocked::BlockedClient;
use crawlspace_host::server::clock::now_ms;
use crawlspace_host::server::cluster::in_cluster;
use crawlspace_host::server::command::{Call, PREFIX_BYTES};
use crawlspace_host::server::keyspace::{Place, RedisKeyspace};
use crawlspace_host::server::line::Line;
use crawlspace_host::server::notify::{Change, is_replicated};
use crawlspace_host::server::registry::{Cached, Registry};
use crawlspace_host::server::scope::{Names, visit};

use super::store::{FrontierKeys, Held, State, packed_key, storage_of};
use super::waiter::Waiter;
use super::{metrics, settings};

/// Maximum number of groups that are recorded for the next alarm because plain clients wrote to
/// them.
const MAX_TOUCHED: usize = 1024;

/// The cached state of one frontier.
pub struct CachedFrontier {
    /// The frontier.
    pub frontier: Frontier<FrontierKeys>,
    /// The storage in which the frontier was opened, and the storage to which it is being
    /// converted.
    pub(super) storage: State,
    /// True if the frontier is not stored yet, or if its storage may have changed.
    may_change: bool,
    /// True if the frontier was deleted, and was not found again since then.
    is_deleted: bool,
    /// The key of a packed frontier.
    packed_key: RmString,
    /// The place of the packed frontier in memory, so that not every command opens its key.
    place: Option<Place<Packed>>,
    /// The keys for permission checks: the documented keys, and the shortest possible name of the
    /// hash of a group.
    documented: Vec<RmString>,
    any_group: RmString,
    /// Waiting clients, in the order of their arrival.
    pub waiters: Line<Waiter>,
    /// Groups to which plain clients wrote.
    pub(super) touched: Vec<Box<[u8]>>,
    /// Time of the next action, for which the alarm is set.
    pub(super) wake: Option<Millis>,
    /// True if clients of the frontier specify the time. The clock then triggers no action.
    pub simulated: bool,
}

impl CachedFrontier {
    fn open(keys: &mut RedisKeyspace, prefix: &[u8]) -> CachedFrontier {
        let found = storage_of(keys, prefix);
        let storage = found.unwrap_or_else(|| (settings::storage(), None));
        let name = |name: &[u8]| RmString::new(&[prefix, name].concat());
        let documented = ONCE.iter().filter(|row| row.documented);
        let packed_key = packed_key(prefix);
        CachedFrontier {
            frontier: lend(keys, storage, (&packed_key, prefix), &mut None, |keys| {
                Frontier::open(keys, prefix)
            }),
            storage,
            may_change: found.is_none(),
            is_deleted: false,
            packed_key,
            place: None,
            documented: documented.map(|row| name(row.name.as_bytes())).collect(),
            any_group: name(GROUP.before),
            waiters: Line {
                all: VecDeque::new(),
            },
            touched: Vec::new(),
            wake: None,
            simulated: false,
        }
    }
}

impl Cached for CachedFrontier {
    fn is_in_use(&self) -> bool {
        !self.waiters.all.is_empty() || self.frontier.is_worked_on()
    }

    fn is_named(&self) -> bool {
        !self.is_deleted || self.is_in_use()
    }

    fn invalidate(&mut self) -> bool {
        self.place = None;
        self.frontier.invalidate();
        true
    }

    fn emptied(&mut self) -> bool {
        self.place = None;
        self.may_change = true;
        self.is_deleted = true;
        self.frontier.invalidate_all();
        self.disturbed();
        true
    }

    fn role_changed(&mut self) -> bool {
        self.place = None;
        self.frontier.invalidate_all();
        self.touched.clear();
        // A server that became a master has not looked at its groups before.
        self.wake = Some(0);
        alarm::set(0);
        let waited = self.waiters.all.len() as u64;
        metrics::WAITERS.set(metrics::WAITERS.get().saturating_sub(waited));
        self.waiters.end(&Err(ROLE_CHANGED.to_string()), |_| true);
        true
    }
}

const ROLE_CHANGED: &str = "UNBLOCKED the server is not a master any more, or became one just now; run the command again on the master";

static FRONTIERS: Registry<CachedFrontier> = Registry::new(&metrics::FRONTIERS);

/// Returns the lengths of the prefixes of cached frontiers.
pub fn lengths() -> &'static Lengths {
    FRONTIERS.lengths()
}

/// Returns the names of the first cached frontiers.
pub fn names() -> Names {
    FRONTIERS.names()
}

/// Calls `act` with the keys of a frontier, for the storage that the frontier has. After `act`, replicates the changes
/// of a packed frontier. `place` is the place of the packed frontier, which is updated.
fn lend<T>(
    keys: &mut RedisKeyspace,
    (storage, moving_to): State,
    (packed_key, prefix): (&RmString, &[u8]),
    place: &mut Option<Place<Packed>>,
    act: impl FnOnce(&mut FrontierKeys) -> T,
) -> T {
    if storage == Storage::Packed || moving_to.is_some() {
        keys.release();
        let held = Held::at(keys.lazily_another(), packed_key.clone(), place.take());
        let mut lent = FrontierKeys::open(keys.another(), Some(held), prefix, moving_to);
        let done = act(&mut lent);
        *place = lent.parts().1.and_then(Held::take_place);
        return done;
    }
    let another = keys.another();
    let plain = std::mem::replace(keys, another);
    let mut lent = FrontierKeys::open(plain, None, prefix, None);
    let done = act(&mut lent);
    *keys = lent.into_plain();
    done
}

/// Opens a frontier again if its storage has changed.
fn refresh(cached: &mut CachedFrontier, keys: &mut RedisKeyspace, prefix: &[u8]) {
    if !cached.may_change {
        return;
    }
    let found = storage_of(keys, prefix);
    let storage = found.unwrap_or_else(|| (settings::storage(), None));
    if storage != cached.storage {
        cached.storage = storage;
        let key = (&cached.packed_key, prefix);
        let open = |keys: &mut FrontierKeys| Frontier::open(keys, prefix);
        cached.frontier = lend(keys, storage, key, &mut None, open);
    }
    cached.may_change = found.is_none();
    cached.is_deleted &= found.is_none();
}

/// Calls `act` with a frontier in its current storage, and its keys.
fn in_storage<T, E>(
    cached: &mut CachedFrontier,
    keys: &mut RedisKeyspace,
    prefix: &[u8],
    act: impl FnOnce(&mut CachedFrontier, &mut FrontierKeys) -> std::result::Result<T, E>,
) -> std::result::Result<T, E> {
    refresh(cached, keys, prefix);
    let key = cached.packed_key.clone();
    let mut place = cached.place.take();
    let done = lend(keys, cached.storage, (&key, prefix), &mut place, |keys| {
        let done = act(cached, keys);
        // A job may have begun or ended a storage conversion.
        cached.storage = keys.storage();
        done
    });
    cached.place = place;
    done
}

/// Calls `act` with a frontier. Opens the frontier if it is not cached.
pub fn with_frontier<T>(
    db: c_int,
    prefix: &[u8],
    keys: &mut RedisKeyspace,
    act: impl FnOnce(&mut CachedFrontier, &mut FrontierKeys) -> Result<T>,
) -> Result<T> {
    let open = |keys: &mut RedisKeyspace| Ok(CachedFrontier::open(keys, prefix));
    let done = FRONTIERS.with((db, prefix), keys, open, |cached, keys| {
        in_storage(cached, keys, prefix, |cached, keys| {
            counted(cached, keys, act)
        })
    });
    done.ok_or(Error::Busy)?
}

/// Calls `act` with a frontier, and updates the metrics.
fn counted<T>(
    cached: &mut CachedFrontier,
    keys: &mut FrontierKeys,
    act: impl FnOnce(&mut CachedFrontier, &mut FrontierKeys) -> Result<T>,
) -> Result<T> {
    cached.frontier.attempts = settings::ATTEMPTS.get();
    let before = cached.frontier.figures.totals();
    let waited = cached.waiters.all.len() as u64;
    let done = act(cached, keys);
    let written = cached.frontier.groups.write_back(keys, None);
    let done = done.and_then(|done| written.map(|()| done));
    let wait = cached.waiters.all.len() as u64;
    if wait != waited {
        let all = metrics::WAITERS.get().saturating_sub(waited);
        metrics::WAITERS.set(all + wait);
    }
    let after = cached.frontier.figures.totals();
    let shown = [
        &metrics::ADDED,
        &metrics::LEASES,
        &metrics::RELEASES,
        &metrics::EXPIRED,
    ];
    for (metric, (before, after)) in shown.into_iter().zip(before.into_iter().zip(after)) {
        if after > before {
            metric.add(after - before);
        }
    }
    done
}

/// Calls `act` with the frontier of a command, and converts errors to strings.
pub fn on_frontier<T>(
    call: &mut Call<'_>,
    act: impl FnOnce(&mut CachedFrontier, &mut FrontierKeys) -> Result<T>,
) -> std::result::Result<T, String> {
    with_frontier(call.db, call.prefix, &mut call.keys, act).map_err(|e| e.to_string())
}

/// Calls `act` with the frontier of a command if the user may write to these keys, and converts
/// errors to strings.
pub fn write_to<T>(
    call: &mut Call<'_>,
    touched: &Touched<'_>,
    act: impl FnOnce(&mut CachedFrontier, &mut FrontierKeys) -> Result<T>,
) -> std::result::Result<T, String> {
    let user = User::current(call.ctx);
    let prefix = call.prefix;
    let check = |cached: &mut CachedFrontier, keys: &mut RedisKeyspace| {
        cached.permit(&user, keys, (prefix, touched), Access::Write)?;
        in_storage(cached, keys, prefix, |cached, keys| {
            cached
                .frontier
                .types
                .check(keys)
                .map_err(|e| e.to_string())?;
            // An error of the command must not evict the frontier from the cache.
            Ok(counted(cached, keys, act).map_err(|e| e.to_string()))
        })
    };
    let open = |keys: &mut RedisKeyspace| Ok::<_, String>(CachedFrontier::open(keys, prefix));
    let done = FRONTIERS.with((call.db, prefix), &mut call.keys, open, check);
    done.ok_or_else(|| Error::Busy.to_string())??
}

/// Changes the frontier of a command if the user may write to these keys. After the change, serves
/// the waiting clients.
pub fn change<T>(
    call: &mut Call<'_>,
    touched: &Touched<'_>,
    now: Now,
    act: impl FnOnce(&mut Frontier<FrontierKeys>, &mut FrontierKeys) -> Result<T>,
) -> std::result::Result<T, String> {
    write_to(call, touched, |cached, keys| {
        cached.simulated = now.simulated;
        let done = act(&mut cached.frontier, keys)?;
        cached.is_deleted = false;
        cached.serve(keys, now.ms)?;
        Ok(done)
    })
}

/// The keys that a command accesses in addition to the keys that exist once per frontier.
pub enum Touched<'a> {
    /// Hashes of these groups.
    Groups(&'a [&'a [u8]]),
    /// The hash of any group.
    AnyGroup,
}

/// Refuses with `NOPERM` unless the user has this access to the documented keys.
pub fn permit(
    call: &mut Call<'_>,
    touched: &Touched<'_>,
    access: Access,
) -> std::result::Result<(), String> {
    let user = call.user();
    let prefix = call.prefix;
    let check = |cached: &mut CachedFrontier, keys: &mut RedisKeyspace| {
        cached.permit(&user, keys, (prefix, touched), access)?;
        refresh(cached, keys, prefix);
        if access == Access::Read || cached.frontier.types.is_checked() {
            return Ok(());
        }
        in_storage(cached, keys, prefix, |cached, keys| {
            cached.frontier.types.check(keys).map_err(|e| e.to_string())
        })
    };
    let open = |keys: &mut RedisKeyspace| Ok(CachedFrontier::open(keys, prefix));
    let done = FRONTIERS.with((call.db, prefix), &mut call.keys, open, check);
    done.ok_or_else(|| Error::Busy.to_string())?
}

/// Creates an empty packed frontier if the prefix has no frontier. Returns false if the prefix has
/// a frontier.
pub fn make_packed(call: &mut Call<'_>) -> std::result::Result<bool, String> {
    let found = storage_of(&mut call.keys, call.prefix);
    match found {
        Some(_) => Ok(false),
        None => {
            let mut held = Held::new(call.keys.lazily_another(), packed_key(call.prefix));
            held.store().map_err(|error| error.to_string())?;
            drop(held);
            let prefix = call.prefix;
            with_frontier(call.db, prefix, &mut call.keys, |cached, _| {
                cached.may_change = true;
                Ok(true)
            })
            .map_err(|error| error.to_string())
        }
    }
}

/// Stores 0 as the last token of a plain frontier that only contains options of groups. Otherwise,
/// no key would show after a restart that the frontier is plain.
pub fn record_storage(call: &mut Call<'_>) -> std::result::Result<(), String> {
    if !on_frontier(call, |cached, _| Ok(cached.may_change))? {
        return Ok(());
    }
    let key = [call.prefix, b"chg_token"].concat();
    let written = call.keys.number_set(&RmString::new(&key), 0);
    written.map_err(|error| error.to_string())
}

/// Creates, in a cluster, a key whose name is exactly the prefix, so that the server redirects
/// clients to the right node while the slot is being migrated.
pub fn anchor(call: &mut Call<'_>) -> std::result::Result<(), String> {
    if !in_cluster() {
        return Ok(());
    }
    let anchor = RmString::new(call.prefix);
    if call.keys.exists(&anchor) {
        return Ok(());
    }
    let made = call.keys.string_set(&anchor, b"crawlspace");
    made.map_err(|error| error.to_string())
}

/// Updates the metric of waiting clients over all frontiers. Call this after a client stopped
/// waiting without any action on a frontier.
fn show_waiters() {
    let mut frontiers = FRONTIERS.borrow();
    let waiters = frontiers
        .iter_mut()
        .map(|(_, r)| r.waiters.all.len() as u64);
    metrics::WAITERS.set(waiters.sum());
}

/// Performs the actions that are due when the alarm rings.
pub fn awake(ctx: Ctx) {
    let now = now_ms();
    show_waiters();
    let scopes: Vec<Box<[u8]>> = {
        let mut frontiers = FRONTIERS.borrow();
        let all = frontiers.iter_mut();
        let due = all.filter_map(|(scope, r)| {
            // The time is over even if nothing can be done now. Otherwise, the alarm would go off again at once.
            r.wake.take_if(|wake| *wake <= now)?;
            Some(scope.into())
        });
        due.collect()
    };
    if context_flags(ctx) & raw::REDISMODULE_CTX_FLAGS_MASTER != 0 {
        for scope in scopes {
            visit(ctx, &scope, |(db, prefix), keys, here| {
                let woken = with_frontier(db, prefix, keys, |cached, keys| {
                    let sleeps_on = cached.simulated && cached.waiters.all.is_empty();
                    if sleeps_on || here.is_err() {
                        Ok(())
                    } else {
                        cached.awake(keys, now)
                    }
                });
                if let Err(error) = here.and(woken.map_err(|error| error.to_string())) {
                    // The slot is being migrated or a key has the wrong type. No client can be
                    // served until the problem is solved, so send the error to the waiting clients.
                    if let Some(cached) = FRONTIERS.borrow().get_mut(db, prefix) {
                        cached.waiters.end(&Err(error), |_| true);
                    }
                }
            });
        }
    }
    show_waiters();
    let next = FRONTIERS
        .borrow()
        .iter_mut()
        .filter_map(|(_, r)| r.wake)
        .min();
    if let Some(next) = next {
        alarm::set(next);
    }
}

/// Removes a waiting client whose connection closed.
pub fn gone(client: BlockedClient) {
    leave(client);
}

/// Removes a client from the queue in which it waits.
fn leave(client: BlockedClient) -> Option<Waiter> {
    let mut frontiers = FRONTIERS.borrow();
    let left = frontiers
        .iter_mut()
        .find_map(|(_, r)| r.waiters.leave(client));
    drop(frontiers);
    show_waiters();
    left
}

/// Ends a client's wait after `CLIENT UNBLOCK`. The reply contains the leases that the client has
/// got so far, usually none.
pub fn timed_out(_: Ctx, client: BlockedClient) -> std::result::Result<Reply, String> {
    Ok(leave(client).map_or(Reply::Nil, |mut waiter| waiter.reply()))
}

/// Handles a change of keys by other clients: serves the waiting clients soon, or sends them an
/// error if they cannot keep waiting.
pub fn on_change(ctx: Ctx, change: Change<'_>) {
    FRONTIERS.on_change(change, |frontiers, db, key| {
        if frontiers.is_empty() {
            return;
        }
        for (prefix, heard) in heard_once(key) {
            let Some(cached) = frontiers.get_mut(db, prefix) else {
                continue;
            };
            // The change may have given the key a time to live.
            cached.place = None;
            // If the packed value is missing, only the markers show that the frontier is packed.
            cached.may_change |= cached.storage != (Storage::Plain, None);
            match heard {
                Heard::Queue => cached.disturbed(),
                Heard::Type => cached.frontier.types.invalidate(),
                Heard::Tokens => cached.frontier.invalidate_all(),
                Heard::Storage => {
                    cached.may_change = true;
                    cached.frontier.invalidate_all();
                    cached.disturbed();
                }
            }
            let mut keys = RedisKeyspace::new(ctx);
            if !keys.exists(&RmString::new(key)) && storage_of(&mut keys, prefix).is_none() {
                cached.may_change = true;
                cached.is_deleted = true;
            }
        }
        for (prefix, id) in possible_groups(key, PREFIX_BYTES, lengths()) {
            let Some(cached) = frontiers.get_mut(db, prefix) else {
                continue;
            };
            cached.frontier.changed_by_others(id);
            if cached.touched.len() < MAX_TOUCHED && !is_replicated(ctx, key) {
                cached.touched.push(id.into());
                cached.wake = Some(0);
                alarm::set(0);
            }
        }
    });
}

impl CachedFrontier {
    /// Refuses with `NOPERM` unless the user has this access to the documented keys.
    fn permit(
        &self,
        user: &User,
        keys: &mut RedisKeyspace,
        (prefix, touched): (&[u8], &Touched<'_>),
        access: Access,
    ) -> std::result::Result<(), String> {
        for key in &self.documented {
            user.check(key, access)?;
        }
        match touched {
            Touched::AnyGroup => user.check(&self.any_group, access),
            Touched::Groups(groups) => groups
                .iter()
                .try_for_each(|id| user.check(&keys.name(&[prefix, GROUP.before, id]), access)),
        }
    }

    /// Invalidates the cache after a change by another client.
    fn disturbed(&mut self) {
        self.frontier.invalidate();
        self.wake = Some(0);
        alarm::set(0);
    }
}
