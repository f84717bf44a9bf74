//! Tags: which captures a reader may see.
//!
//! A [`space::Space`] holds the tagging index (which tags records, files and tags carry), rules that
//! read tags out of a capture's fields, and access points, which are expressions with names. A
//! capture's tags are those that its record, its file and the rules give it, and all that these carry.
//! A batch of captures is held against a [`condition::Condition`], on a [`view::View`] of the space.

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
