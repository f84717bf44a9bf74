//! Tags, which determine which captures a reader may see.
//!
//! A [`space::Space`] has three parts: the tagging index (the tags of records, files and tags),
//! rules that read tags from the fields of a capture, and access points, which are named
//! expressions. A capture has the tags of its record, of its file and of the rules that match, and
//! all tags that these tags carry. A [`condition::Condition`] tests a batch of captures on a
//! [`view::View`] of the space.

mod affix;
pub mod condition;
mod encoding;
pub mod error;
pub mod explain;
pub mod expression;
pub mod filter;
pub(crate) mod grammar;
pub mod index;
pub mod list;
mod names;
pub mod point;
pub mod resolve;
pub mod rule;
pub mod space;
pub mod task;
mod template;
#[cfg(test)]
mod tests;
pub mod verdict;
pub mod view;

#[cfg(feature = "module")]
pub mod commands;
