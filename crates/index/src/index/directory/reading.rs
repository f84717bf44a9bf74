//! The progress of reading an entry for the directory, and its position in a segment.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::segment::Segment;
use crate::sorted::file::FileVersion;

/// The result of reading an entry for the directory.
#[derive(Debug, Default)]
pub(in crate::index) struct Reading(Mutex<State>);

#[derive(Debug, Default)]
pub(super) struct State {
    /// The version of the file that the other fields describe.
    pub(super) version: Option<FileVersion>,
    pub(super) progress: Progress,
    pub(super) place: Option<Place>,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum Progress {
    #[default]
    New,
    /// The entry is waiting to be read. If the entry has a previous position, this position stays in use.
    Queued,
    Done,
}

impl Reading {
    /// Returns the state of the version that was read last.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the state of a version, after discarding the state of any other version.
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

/// The position of a file in a segment.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) segment: Arc<Segment>,
    pub(super) file: usize,
    /// Number of urlkeys of the file.
    pub(super) keys: usize,
    /// True if all keys of the file are urlkeys.
    pub(super) is_here: bool,
}
