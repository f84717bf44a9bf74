//! Sorted text that is read from where something was found in it, in one direction or both.
//!
//! [`Pieces`] is text that comes piece by piece. [`Ahead`](ahead::Ahead) and [`Back`](back::Back) make lines of it,
//! a [`Cursor`](cursor::Cursor) takes those that a query is about, and a [`Scan`](scan::Scan) merges cursors.

pub(crate) mod ahead;
pub(crate) mod back;
pub(crate) mod cursor;
pub(crate) mod pieces;
pub(crate) mod scan;

pub(crate) use self::pieces::Pieces;
