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

/// Returns the tags with which a capture without other tags would pass, and the next cursor; 0 at
/// the end. The condition must stay within the limits `most`, and `count` tags must not need more
/// than `work` tests.
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
    // Use a separate cache, because this condition is used only once.
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
