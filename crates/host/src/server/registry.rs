//! What a family has cached of its data sets, per database and prefix.

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

/// How many data sets something is cached of at most; beyond it those that nobody needs are evicted.
const MAX_CACHED: usize = 4096;

/// What is cached of one data set. Each event says whether it stays; mostly it goes, and is read anew.
pub trait Cached: Sized {
    /// Whether somebody needs it, so that it is not evicted.
    fn is_in_use(&self) -> bool {
        false
    }

    /// Whether it is what would be opened now; else it is opened anew.
    fn is_current(&self) -> bool {
        true
    }

    /// Nothing that was read can be believed: after a bug, or a change in the middle of its use.
    fn invalidate(&mut self) -> bool {
        false
    }

    /// There is another database now.
    fn emptied(&mut self) -> bool {
        false
    }

    /// The server became a master or a replica.
    fn role_changed(&mut self) -> bool {
        false
    }
}

/// All that is cached of data sets of one kind.
pub struct Registry<C> {
    scopes: MainThread<Scopes<C>>,
    /// Set when something changed while it was in use.
    invalid: AtomicBool,
    /// How many data sets there are.
    shown: &'static Metric,
    lengths: Lengths,
}

/// What is cached, by scope.
pub struct Scopes<C> {
    by_scope: FxHashMap<Box<[u8]>, C>,
    panics: u64,
}

impl<C> Scopes<C> {
    /// What is cached of a scope.
    pub fn get_mut(&mut self, db: c_int, prefix: &[u8]) -> Option<&mut C> {
        self.by_scope.get_mut(&scope(db, prefix)[..])
    }

    /// Whether nothing is cached.
    pub fn is_empty(&self) -> bool {
        self.by_scope.is_empty()
    }

    /// Evicts what is cached of a scope.
    pub fn evict(&mut self, db: c_int, prefix: &[u8]) {
        self.by_scope.remove(&scope(db, prefix)[..]);
    }

    /// All that is cached, with its scope.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&[u8], &mut C)> {
        self.by_scope
            .iter_mut()
            .map(|(scope, cached)| (&**scope, cached))
    }
}

impl<C: Cached> Registry<C> {
    /// Nothing is cached; for a `static`.
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

    /// All that is cached, for a short time in which no rule is asked.
    ///
    /// # Panics
    /// When it is in use already.
    pub fn borrow(&self) -> RefMut<'_, Scopes<C>> {
        self.scopes.borrow()
    }

    /// The lengths of the prefixes of all data sets that were ever opened.
    pub fn lengths(&self) -> &Lengths {
        &self.lengths
    }

    /// Does something with what is cached of a scope, which is opened if need be; `None` when a callback arrived in
    /// the middle of its use. What is refused leaves nothing cached: a user without permission evicts nothing.
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

    /// The names of the first of them; none while one is in use.
    pub fn names(&self) -> Names {
        let scopes = self.scopes.try_borrow();
        scopes.map_or_else(Names::new, |scopes| {
            names(scopes.by_scope.keys().map(|scope| &scope[..]))
        })
    }

    /// Passes on what others did; what a change of a key means says `on_key`.
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
