//! The tags that satisfy an expression.

use std::sync::Arc;

use super::error::Error;
use super::expression::Bounds;
use super::verdict::{Cache, Judge};
use super::view::{Asked, View};
use crawlspace_host::reply::Reply;

/// Which tags are wanted.
pub struct Wanted<'a> {
    /// What they begin with.
    pub prefix: &'a [u8],
    /// Where the last call ended; 0 at first.
    pub cursor: u64,
    /// How many are looked at, more or less.
    pub count: usize,
}

/// Gives tags of which a capture that has one of them alone would pass, and where to go on; 0 at the end.
/// The condition has to keep to limits, and may be asked of so many tags that it comes to `work` questions.
///
/// # Errors
/// What is wrong with the condition; `TOOBIG` beyond the limits.
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
    // Other commands' caches are not for conditions that are asked once.
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
