//! Deduplication by payload hash: finds out whether a payload was stored, which crawl stored it,
//! and where it is.
//!
//! The index uses the keys that browser crawlers use for hash-based deduplication: plain Redis keys
//! with documented names. The code outside `commands` calls neither Redis nor the clock.

pub mod add;
mod adopt;
pub mod begin;
pub mod check;
pub mod claim;
#[cfg(feature = "module")]
pub mod commands;
pub mod commit;
mod counters;
pub mod counts;
pub mod digest;
pub mod earliest;
pub mod error;
pub mod files;
mod findings;
pub mod gather;
mod glob;
pub(crate) mod grammar;
pub mod index;
pub mod job;
pub mod keys;
pub mod lookup;
pub mod merge;
pub mod pack;
pub mod packed;
pub mod profile;
pub mod record;
pub mod removal;
pub mod requires;
pub mod revisit;
pub mod sequence;
pub mod stand_in;
pub mod stats;
pub mod store;
pub mod stray;
mod sums;
mod undo;
pub mod urls;
pub mod wacz;
mod waiting;

#[cfg(test)]
mod beside_tests;
#[cfg(test)]
mod pack_tests;
#[cfg(test)]
mod purge_tests;
#[cfg(test)]
mod tests;
