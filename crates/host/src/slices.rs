//! Long work in slices, as the rules of every command family see it.

use crate::reply::Reply;

/// Whether there is time left in this slice.
pub type Time<'a> = &'a mut dyn FnMut() -> bool;

/// What a step came to.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// There is more to do.
    More,
    /// The work is done; this is the answer.
    Done(Reply),
}
