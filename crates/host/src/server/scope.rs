//! Scopes: a database and a prefix in one key, for caches of indexes and frontiers.

use std::os::raw::c_int;

use smallvec::SmallVec;

use super::api::{Ctx, RmString, rm};
use super::cluster;
use super::keyspace::RedisKeyspace;

/// A lookup key that consists of the number of the database (four bytes) and the prefix. Because of
/// the number, the lookup key is never empty, although the most common prefix is empty. Comparing
/// empty slices would read from a dangling address, which is slow on some processors.
pub(crate) type Scope = SmallVec<[u8; 64]>;

/// Returns the scope of a prefix in a database.
pub fn scope(db: c_int, prefix: &[u8]) -> Scope {
    let mut scope = SmallVec::from_slice(&db.to_ne_bytes());
    scope.extend_from_slice(prefix);
    scope
}

/// Returns true if a scope is in this database.
pub fn is_in(scope: &[u8], db: c_int) -> bool {
    scope.starts_with(&db.to_ne_bytes())
}

/// Splits a scope into database and prefix.
pub fn split(scope: &[u8]) -> (c_int, &[u8]) {
    let (db, prefix) = scope.split_at(size_of::<c_int>());
    let db = db.try_into().expect("a scope begins with a number");
    (c_int::from_ne_bytes(db), prefix)
}

/// Maximum number of data sets of one kind in a list.
const MAX_NAMED: usize = 64;

/// Names of data sets, sorted: the database, and the prefix or key.
pub type Names = Vec<(c_int, Vec<u8>)>;

/// Returns the names of the first 64 of these scopes.
pub fn names<'a>(scopes: impl Iterator<Item = &'a [u8]>) -> Names {
    let mut scopes: Vec<(c_int, &[u8])> = scopes.map(split).collect();
    if scopes.len() > MAX_NAMED {
        scopes.select_nth_unstable(MAX_NAMED);
        scopes.truncate(MAX_NAMED);
    }
    scopes.sort_unstable();
    let owned = |(db, name): (c_int, &[u8])| (db, name.to_vec());
    scopes.into_iter().map(owned).collect()
}

/// Calls `act` with the keys of a scope, outside of a command. Call this only on masters. `act`
/// also gets the result of the cluster check, which is an error if some keys are not on this node.
pub fn visit<T>(
    ctx: Ctx,
    scope: &[u8],
    act: impl FnOnce((c_int, &[u8]), &mut RedisKeyspace, Result<(), String>) -> T,
) -> T {
    let (db, prefix) = split(scope);
    // SAFETY: main thread, the context of a callback.
    unsafe { rm!(RedisModule_SelectDb(ctx.raw(), db)) };
    let here = cluster::check(ctx, &RmString::new(prefix), true);
    act((db, prefix), &mut RedisKeyspace::new(ctx), here)
}
