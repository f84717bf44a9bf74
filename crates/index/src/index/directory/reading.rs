//! The state of reading all of an entry, and its place in a segment.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::segment::Segment;
use crate::sorted::file::FileVersion;

/// The result of reading all of an entry.
#[derive(Debug, Default)]
pub(in crate::index) struct Reading(Mutex<State>);

#[derive(Debug, Default)]
pub(super) struct State {
    /// The version of the file that the rest is about.
    pub(super) version: Option<FileVersion>,
    pub(super) progress: Progress,
    pub(super) place: Option<Place>,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum Progress {
    #[default]
    New,
    /// The entry is to be read. A place that it has already is used meanwhile.
    Queued,
    Done,
}

impl Reading {
    /// Returns the state of whatever version was read last.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the state of a version; what is known of another one is forgotten.
    pub(super) fn about(&self, version: Option<FileVersion>) -> MutexGuard<'_, State> {
        let mut state = self.state();
        if state.version != version {
            *state = State {
                version,
                ..State::default()
            };
        }
        state
    }
}

/// The place of a file in a segment.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) segment: Arc<Segment>,
    pub(super) file: usize,
    /// Number of its urlkeys.
    pub(super) keys: usize,
    /// All keys are spelled as here.
    pub(super) is_here: bool,
}
