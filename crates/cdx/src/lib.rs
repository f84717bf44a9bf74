//! CDX and CDXJ lines, in the formats of web archive index servers.
//!
//! A [`Line`] is one capture in an index, and a [`Field`] is one value of a line. A [`Filter`] is one
//! `filter=` parameter of a CDX server in one of three [`Dialect`]s, a [`Collapse`] is one `collapse=`
//! parameter, and a [`Pattern`] is a regular expression with bounded cost. [`surt`] computes the urlkeys by
//! which indexes are sorted. [`post`] computes the URLs under which requests with a body are indexed. The
//! crate does no I/O and does not depend on Redis.
//!
//! ```
//! use crawlspace_cdx::{lines, Dialect, Filter, Format, Limits, Line, Read};
//!
//! let blob = b" CDX N b a m s k S\n\
//!     org,example)/ 20240102030405 http://example.org/ text/html 200 SHA1AAAA 1043\n\
//!     org,example)/x 20240102030406 http://example.org/x text/html 404 SHA1BBBB 512\n";
//! let found = Filter::parse(b"status:2..", Dialect::Outback, Limits::default()).unwrap();
//! let mut kept = 0;
//! for raw in lines(blob) {
//!     if let Read::Capture(line) = Line::read(raw, Format::Auto).unwrap() {
//!         kept += found.passes(&line, &mut |_tag| false).unwrap() as usize;
//!     }
//! }
//! assert_eq!(kept, 1);
//! ```

mod collapse;
mod field;
mod filter;
mod line;
mod pattern;
pub mod post;
pub mod surt;

pub use collapse::Collapse;
pub use field::{Field, UnknownField};
pub use filter::{Dialect, Filter, FilterError};
pub use line::{BadLine, Format, Line, Lines, Read, lines};
pub use pattern::{Anchor, BadPattern, Limits, Pattern};

/// Maximum length of a line of an index or log in bytes, without its line end. Readers of files skip longer
/// lines.
pub const MAX_LINE: usize = 1024 * 1024;

/// Compiles and runs the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
