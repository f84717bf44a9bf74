//! Lists the tags that satisfy an expression.

use std::sync::Arc;

use super::error::Error;
use super::expression::Bounds;
use super::verdict::{Cache, Judge};
use super::view::{Asked, View};
use crawlspace_host::reply::Reply;

/// The tags to list.
pub struct Wanted<'a> {
    /// Prefix of the tags to list.
    pub prefix: &'a [u8],
    /// Cursor that the last call returned; 0 for the first call.
    pub cursor: u64,
    /// Approximate number of tags to examine.
    pub count: usize,
}

/// Returns the tags that satisfy the condition for a capture without other tags, and the next
/// cursor, or 0 at the end. `most` limits the size of the condition, and `work` limits the number
/// of tests for `count` tags.
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
            "COUNT {} times the {} parts of the expression is more than {work}; use a smaller COUNT",
            wanted.count,
            condition.parts()
        )));
    }
    if condition.asks_of_line() {
        return Err(Error::NoFields);
    }
    let mut found = Vec::new();
    // The condition is used only once, so do not keep its verdicts in the cache of the space.
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
