//! Indexes on disk, asked: files and folders of sorted text, and ZipNum clusters.

pub(crate) mod cursor;
pub mod files;
pub mod folder;
pub mod listings;
mod lookup;
pub mod scan;
pub mod span;

pub use self::lookup::{Lookup, Rows};
