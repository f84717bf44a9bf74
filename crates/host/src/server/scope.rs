//! A database and a prefix as one name, under which indexes and frontiers are cached.

use std::os::raw::c_int;

use smallvec::SmallVec;

use super::api::{Ctx, RmString, rm};
use super::cluster;
use super::keyspace::RedisKeyspace;

/// A database and a prefix as one key for a table: the number of the database in four bytes, then the
/// prefix. Never empty: a comparison of empty slices reads from no address in a way that is slow on
/// some processors, and the empty prefix is the commonest.
pub(crate) type Scope = SmallVec<[u8; 64]>;

/// The scope of a prefix in a database.
pub fn scope(db: c_int, prefix: &[u8]) -> Scope {
    let mut scope = SmallVec::from_slice(&db.to_ne_bytes());
    scope.extend_from_slice(prefix);
    scope
}

/// Whether a scope is in a database.
pub fn is_in(scope: &[u8], db: c_int) -> bool {
    scope.starts_with(&db.to_ne_bytes())
}

/// The database and prefix of a scope.
pub fn split(scope: &[u8]) -> (c_int, &[u8]) {
    let (db, prefix) = scope.split_at(size_of::<c_int>());
    let db = db.try_into().expect("a scope begins with a number");
    (c_int::from_ne_bytes(db), prefix)
}

/// Maximum number of data sets of one kind that are named.
const MAX_NAMED: usize = 64;

/// Names of data sets, sorted: the database, and the prefix or key.
pub type Names = Vec<(c_int, Vec<u8>)>;

/// The names of the first of these scopes, 64 at most.
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

/// Does something with the keys of a scope outside of a command, on a master; `act` is told whether they are all here.
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
