//! The files of a query (folders, packages, ZipNum clusters), and a cursor in each of them.

mod cursor;
mod directory;
mod entry;
mod files;
mod folder;
mod listings;
mod lookup;
mod package;
mod scan;
mod sought;
mod span;
mod warcs;

pub use self::entry::Entry;
pub use self::files::{Changes, Files};
pub use self::folder::{Checked, Choice, Listing};
pub use self::listings::Listings;
pub use self::lookup::{Lookup, Rows};
pub use self::package::{ArchivePart, Package};
pub use self::sought::{Aliases, Sought};
pub use self::span::{Position, Span, distance, shortest};
pub use self::warcs::{WarcCounts, WarcFolder};
