//! The registry of a family's caches: one cache per database and prefix.

use std::cell::RefMut;
use std::os::raw::c_int;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rustc_hash::{FxBuildHasher, FxHashMap};

use super::keyspace::RedisKeyspace;
use super::main_thread::MainThread;
use super::metric::{Metric, PANICS};
use super::notify::Change;
use super::scope::{Names, is_in, names, scope};
use crate::names::Lengths;

/// Maximum number of cached data sets. Above this number, caches that are not in use are evicted.
const MAX_CACHED: usize = 4096;

/// The cache of a data set. Each event method returns true if the cache stays valid. The default
/// methods return false: the cache is dropped, and read again when it is next used.
pub trait Cached: Sized {
    /// Returns true if the cache is in use and must not be evicted.
    fn is_in_use(&self) -> bool {
        false
    }

    /// Returns false if the cache must be opened again.
    fn is_current(&self) -> bool {
        true
    }

    /// Returns false if the data set was deleted, so that `INFO` does not name it.
    fn is_named(&self) -> bool {
        true
    }

    /// Handles a panic, or a change while the cache was in use. The cached data cannot be trusted
    /// any more.
    fn invalidate(&mut self) -> bool {
        false
    }

    /// Handles a database that was flushed or replaced.
    fn emptied(&mut self) -> bool {
        false
    }

    /// Handles the server becoming a master or a replica.
    fn role_changed(&mut self) -> bool {
        false
    }
}

/// Caches of all data sets of one kind.
pub struct Registry<C> {
    scopes: MainThread<Scopes<C>>,
    /// True if a change arrived while the registry was borrowed.
    invalid: AtomicBool,
    /// Metric that shows the number of data sets.
    shown: &'static Metric,
    lengths: Lengths,
}

/// Caches by scope.
pub struct Scopes<C> {
    by_scope: FxHashMap<Box<[u8]>, C>,
    panics: u64,
}

impl<C> Scopes<C> {
    /// Returns the cache of a scope.
    pub fn get_mut(&mut self, db: c_int, prefix: &[u8]) -> Option<&mut C> {
        self.by_scope.get_mut(&scope(db, prefix)[..])
    }

    /// Returns true if nothing is cached.
    pub fn is_empty(&self) -> bool {
        self.by_scope.is_empty()
    }

    /// Drops the cache of a scope.
    pub fn evict(&mut self, db: c_int, prefix: &[u8]) {
        self.by_scope.remove(&scope(db, prefix)[..]);
    }

    /// Iterates over the caches and their scopes.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&[u8], &mut C)> {
        self.by_scope
            .iter_mut()
            .map(|(scope, cached)| (&**scope, cached))
    }
}

impl<C: Cached> Registry<C> {
    /// Creates an empty registry, for a `static`.
    pub const fn new(shown: &'static Metric) -> Registry<C> {
        Registry {
            scopes: MainThread::new(Scopes {
                by_scope: FxHashMap::with_hasher(FxBuildHasher),
                panics: 0,
            }),
            invalid: AtomicBool::new(false),
            shown,
            lengths: Lengths::new(),
        }
    }

    /// Borrows all caches. Do not run rules while the caches are borrowed.
    ///
    /// # Panics
    /// Panics if the caches are already borrowed.
    pub fn borrow(&self) -> RefMut<'_, Scopes<C>> {
        self.scopes.borrow()
    }

    /// Returns the prefix lengths of all data sets opened so far.
    pub fn lengths(&self) -> &Lengths {
        &self.lengths
    }

    /// Calls `act` with the cache of a scope, which `open` creates if necessary. Returns `None` if
    /// a callback arrived while the registry was borrowed. A failed call caches nothing, so that a
    /// user without permission cannot cause evictions.
    pub fn with<T, E>(
        &self,
        (db, prefix): (c_int, &[u8]),
        keys: &mut RedisKeyspace,
        open: impl FnOnce(&mut RedisKeyspace) -> Result<C, E>,
        act: impl FnOnce(&mut C, &mut RedisKeyspace) -> Result<T, E>,
    ) -> Option<Result<T, E>> {
        let mut scopes = self.scopes.try_borrow()?;
        let Scopes { by_scope, panics } = &mut *scopes;
        let counted = PANICS.get();
        if self.invalid.swap(false, Relaxed) || *panics != counted {
            *panics = counted;
            by_scope.retain(|_, cached| cached.invalidate());
        }
        let scope = scope(db, prefix);
        let known = by_scope.get_mut(&scope[..]);
        if let Some(cached) = known.filter(|cached| cached.is_current()) {
            return Some(act(cached, keys));
        }
        self.lengths.note(prefix.len());
        Some(open(keys).and_then(|mut cached| {
            let done = act(&mut cached, keys);
            if done.is_ok() || cached.is_in_use() {
                if by_scope.len() >= MAX_CACHED {
                    by_scope.retain(|_, cached| cached.is_in_use());
                }
                by_scope.insert(scope[..].into(), cached);
                self.shown.set(by_scope.len() as u64);
            }
            done
        }))
    }

    /// Calls `act` with the cache of a scope. Returns `None` if there is no valid cache, or if `act` returns `None`.
    pub fn with_cached<T>(
        &self,
        (db, prefix): (c_int, &[u8]),
        act: impl FnOnce(&mut C) -> Option<T>,
    ) -> Option<T> {
        let mut scopes = self.scopes.try_borrow()?;
        let Scopes { by_scope, panics } = &mut *scopes;
        if self.invalid.load(Relaxed) || *panics != PANICS.get() {
            return None;
        }
        let cached = by_scope.get_mut(&scope(db, prefix)[..])?;
        if cached.is_current() {
            act(cached)
        } else {
            None
        }
    }

    /// Returns the names of the first data sets. Returns an empty list while the registry is
    /// borrowed.
    pub fn names(&self) -> Names {
        let scopes = self.scopes.try_borrow();
        scopes.map_or_else(Names::new, |scopes| {
            let named = scopes
                .by_scope
                .iter()
                .filter(|(_, cached)| cached.is_named());
            names(named.map(|(scope, _)| &scope[..]))
        })
    }

    /// Passes a change to the caches. `on_key` handles changes of single keys.
    pub fn on_change(&self, change: Change<'_>, on_key: impl FnOnce(&mut Scopes<C>, c_int, &[u8])) {
        let Some(mut scopes) = self.scopes.try_borrow() else {
            self.invalid.store(true, Relaxed);
            return;
        };
        let by_scope = &mut scopes.by_scope;
        match change {
            Change::Key(db, key) => on_key(&mut scopes, db, key),
            Change::Role => by_scope.retain(|_, cached| cached.role_changed()),
            Change::Everything => by_scope.retain(|_, cached| cached.emptied()),
            Change::Databases(databases) => by_scope.retain(|scope, cached| {
                !databases.iter().any(|&db| is_in(scope, db)) || cached.emptied()
            }),
        }
        self.shown.set(scopes.by_scope.len() as u64);
    }
}
