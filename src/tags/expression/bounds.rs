//! Limits on the size of a condition and on its regular expressions.

use crawlspace_cdx::{Anchor, Limits, Pattern};
use crawlspace_host::text::Shown;

use super::Error;

/// Maximum number of parts of a condition, including expanded access points. Building a condition
/// of this size takes tens of milliseconds.
pub const MAX_CLAUSES: usize = 1 << 18;
/// Maximum number of parts of a condition that is built on the server's main thread.
const FEW_CLAUSES: usize = 1 << 12;
/// Maximum total size of the regular expressions of a condition, as estimated by [`Pattern::size`].
/// Compiling expressions of this size takes a few seconds.
const PATTERN_BYTES: usize = 1 << 20;
/// Maximum total size of the regular expressions that are compiled on the main thread, while other
/// clients wait. Compiling regular expressions of this size takes tens of milliseconds.
const FEW_PATTERN_BYTES: usize = 16 << 10;

/// Limits on the size of a condition.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Maximum number of parts, including expanded access points.
    pub parts: usize,
    /// Maximum size of all regular expressions together; see [`Pattern::size`].
    pub pattern_bytes: usize,
}

impl Bounds {
    /// Limits for the server's main thread.
    pub const NARROW: Bounds = Bounds {
        parts: FEW_CLAUSES,
        pattern_bytes: FEW_PATTERN_BYTES,
    };
    /// Limits for other threads.
    pub const WIDE: Bounds = Bounds {
        parts: MAX_CLAUSES,
        pattern_bytes: PATTERN_BYTES,
    };
}

/// Returns the limits for regular expressions in requests.
pub fn limits() -> Limits {
    Limits::default()
}

/// Creates the error for a condition with too many parts.
pub(in crate::tags) fn too_many(most: usize) -> Error {
    Error::TooBig(format!(
        "the condition has more than {most} parts, including those of access points; give captures a tag instead of listing them"
    ))
}

/// Compiles the regular expression of a field test.
pub(in crate::tags) fn compile(pattern: &[u8]) -> Result<Pattern, Error> {
    Pattern::compile(pattern, Anchor::Anywhere, limits())
        .map_err(|error| Error::BadPattern(format!("in '{}': {error}", Shown(pattern))))
}
