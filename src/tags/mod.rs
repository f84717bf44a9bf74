//! Tags: which captures a reader may see.

pub mod index;
