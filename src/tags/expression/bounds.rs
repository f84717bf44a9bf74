//! How large a condition may be, and which regular expressions it may have.

use crawlspace_cdx::{Anchor, Limits, Pattern};
use crawlspace_host::text::Shown;

use super::Error;

/// Maximum number of parts of a condition with all points in their place. Making that many takes some tens of
/// milliseconds.
pub const MAX_CLAUSES: usize = 1 << 18;
/// How many parts are made on the server's main thread.
const FEW_CLAUSES: usize = 1 << 12;
/// How large its regular expressions may be together, in bytes of plain text that take as long to compile: a
/// second or some.
const PATTERN_BYTES: usize = 1 << 20;
/// How large they may be where others have to wait, some tens of milliseconds.
const FEW_PATTERN_BYTES: usize = 16 << 10;

/// How large a condition may be.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// How many parts it may have with all points in their place.
    pub parts: usize,
    /// How large its regular expressions may be together; see [`Pattern::size`].
    pub pattern_bytes: usize,
}

impl Bounds {
    /// For the server's main thread.
    pub const NARROW: Bounds = Bounds {
        parts: FEW_CLAUSES,
        pattern_bytes: FEW_PATTERN_BYTES,
    };
    /// For another thread.
    pub const WIDE: Bounds = Bounds {
        parts: MAX_CLAUSES,
        pattern_bytes: PATTERN_BYTES,
    };
}

/// Limits of the regular expressions of readers.
pub fn limits() -> Limits {
    Limits::default()
}

/// Says that a condition has too many parts.
pub(in crate::tags) fn too_many(most: usize) -> Error {
    Error::TooBig(format!(
        "a condition of more than {most} parts, points included; give captures a tag in place of listing them"
    ))
}

/// Compiles the regular expression of a test of a field.
pub(in crate::tags) fn compile(pattern: &[u8]) -> Result<Pattern, Error> {
    Pattern::compile(pattern, Anchor::Anywhere, limits())
        .map_err(|error| Error::BadPattern(format!("in '{}': {error}", Shown(pattern))))
}
