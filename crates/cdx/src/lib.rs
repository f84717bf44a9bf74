//! CDX and CDXJ lines, as the web archive's index servers speak them.
//!
//! A [`Line`] is one capture of an index, a [`Field`] a thing in it. A [`Filter`] is one `filter=` of a
//! CDX server in one of three [`Dialect`]s, a [`Collapse`] one `collapse=`, and a [`Pattern`] a regular
//! expression that cannot hurt. [`surt`] makes the urlkeys of URLs, by which indexes are sorted, and [`post`] the URLs
//! under which requests with a body are looked up. No I/O here, and nothing of Redis.
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

/// Maximum length of a line of an index or log, in bytes without its end. Readers of files skip longer lines.
pub const MAX_LINE: usize = 1024 * 1024;

/// The example of the README compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
