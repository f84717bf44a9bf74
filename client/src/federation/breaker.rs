//! A source that keeps failing is left alone for a while.
