//! Lists the tags that satisfy an expression.

use std::sync::Arc;

use super::error::Error;
use super::expression::Bounds;
use super::verdict::{Cache, Judge};
use super::view::{Asked, View};
use crawlspace_host::reply::Reply;

/// The tags to list.
pub struct Wanted<'a> {
    /// Prefix that the tags must have.
    pub prefix: &'a [u8],
    /// Cursor that the last call returned; 0 for the first call.
    pub cursor: u64,
    /// Approximate number of tags to examine.
    pub count: usize,
}

/// Returns the tags that would let a capture with that tag alone pass, and the next cursor, 0 at the end. The
/// condition must stay within the limits `most`, and `count` tags must not need more than `work` questions.
///
/// # Errors
/// Fails if the condition is invalid; `TOOBIG` beyond the limits.
pub fn list(
    view: &View,
    asked: &Asked,
    most: Bounds,
    work: usize,
    wanted: &Wanted<'_>,
) -> Result<(u64, Vec<Reply>), Error> {
    let condition = Arc::new(view.condition(asked, most)?);
    if wanted.count.saturating_mul(condition.parts()) > work {
        return Err(Error::TooBig(format!(
            "a COUNT of {} times {} parts of the expression, together more than {work}; ask for fewer at a time",
            wanted.count,
            condition.parts()
        )));
    }
    if condition.asks_of_line() {
        return Err(Error::NoFields);
    }
    let mut found = Vec::new();
    // The shared caches of the space are not for conditions that are used once.
    let mut cache = Cache::default();
    let mut judge = Judge::new(view, &condition, &mut cache);
    let next = view
        .index
        .tags(wanted.cursor, wanted.count, &mut |_, name| {
            if name.starts_with(wanted.prefix) && judge.tag_passes(name) {
                found.push(Reply::bulk(name));
            }
        });
    Ok((next, found))
}
