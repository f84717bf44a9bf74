//! The politeness frontier. The unit of politeness is the crawl host group: one client at a time
//! fetches from a group, with pauses between fetches.
//!
//! A group passes through a cycle: it waits until it is due ([`add`]), is leased ([`next`]), is
//! released ([`lease`]), and then waits again. These modules operate on a [`frontier`].

pub mod add;
mod audit;
pub mod check;
#[cfg(feature = "module")]
pub mod commands;
pub mod discover;
mod dropped;
pub mod dropping;
mod due;
pub mod error;
pub mod expired;
mod figures;
mod first;
pub mod frontier;
mod gate;
mod gates;
pub(crate) mod grammar;
pub mod group;
mod groups;
pub mod hold;
mod idle;
pub mod job;
pub mod keys;
pub mod known;
mod later;
pub mod lease;
mod ledger;
pub mod limiting;
pub mod listing;
pub mod moving;
pub mod next;
mod next_for;
mod outcome;
pub mod packed;
pub mod packing;
mod past;
mod pauses;
mod placing;
pub mod politeness;
mod queues;
mod reclaim;
mod reconcile;
mod reports;
pub mod settle;
mod skipped;
pub(crate) mod spans;
pub mod store;
pub mod sweep;
pub mod time;
mod tokens;
mod transition;
pub mod types;
pub mod uris;
mod verdict;
mod why;

/// The id of a lease. The tokens of a frontier only increase.
pub type Token = u64;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod transition_tests;
