//! Where the data of a prefix is.

use std::os::raw::c_int;

use smallvec::SmallVec;

/// A database and a prefix as one key for a table: the number of the database in four bytes, then the
/// prefix. Never empty: a comparison of empty slices reads from no address in a way that is slow on
/// some processors, and the empty prefix is the commonest.
pub type Place = SmallVec<[u8; 64]>;

/// The place of a prefix in a database.
pub fn place(db: c_int, prefix: &[u8]) -> Place {
    let mut place = SmallVec::from_slice(&db.to_ne_bytes());
    place.extend_from_slice(prefix);
    place
}

/// Whether a place is in a database.
pub fn is_in(place: &[u8], db: c_int) -> bool {
    place.starts_with(&db.to_ne_bytes())
}

/// The database and prefix of a place.
pub fn split(place: &[u8]) -> (c_int, &[u8]) {
    let (db, prefix) = place.split_at(size_of::<c_int>());
    let db = db.try_into().expect("a place begins with a number");
    (c_int::from_ne_bytes(db), prefix)
}
