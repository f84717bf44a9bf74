//! Failed attempts to load a record, which are listed in the response if all attempts fail.

use std::time::Duration;

use serde::Serialize;

use super::capture::Capture;
use super::record::LoadError;
use crate::config::Loader;
use crate::reason::Reason;
use crawlspace_client::server::without_password;

/// Maximum number of attempts listed.
const MAX_LISTED: usize = 30;
/// Maximum length of a string in the list, in characters.
const MAX_TEXT: usize = 500;

/// Attempts to load rows with each loader.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    listed: Vec<Attempt>,
    count: u64,
    rows: u64,
    last: Option<(String, String)>,
    late: Option<Duration>,
    is_limited: bool,
}

/// An attempt to load a row with a loader, as shown to clients.
#[derive(Debug, Serialize)]
pub(crate) struct Attempt {
    url: String,
    timestamp: String,
    source: String,
    loader: Option<&'static str>,
    reason: String,
}

impl Attempts {
    /// Returns the number of rows tried.
    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    /// Adds the failure of a row and a loader.
    pub(super) fn add(
        &mut self,
        capture: Option<&Capture>,
        loader: Option<&Loader>,
        error: &LoadError,
    ) {
        self.count += 1;
        self.is_limited |= matches!(error, LoadError::Limit(_));
        let row = capture.map(|capture| (capture.url.clone(), capture.timestamp.clone()));
        self.rows += u64::from(row.is_none() || row != self.last);
        self.last = row;
        if self.listed.len() >= MAX_LISTED {
            return;
        }
        let (url, timestamp, source) = capture.map_or(("", "", ""), |capture| {
            (&capture.url, &capture.timestamp, &capture.source)
        });
        let extent = capture.and_then(|capture| capture.extent.as_ref());
        let (file, offset) = extent.map(|it| (&*it.filename, it.offset)).unzip();
        let place = loader.map(place);
        tracing::info!(url, captured = timestamp, source, file, offset, loader = place, %error, "a record cannot be loaded");
        self.listed.push(Attempt {
            url: short(url),
            timestamp: timestamp.to_owned(),
            source: source.to_owned(),
            loader: loader.map(word),
            reason: Reason::from(error).to_string(),
        });
    }

    /// Returns whether there was no row to try within the timeout.
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0 && self.late.is_none()
    }

    /// Records that `timeout` expired before all rows and loaders were tried.
    pub(super) fn timed_out(&mut self, timeout: Duration) {
        self.late = Some(timeout);
    }

    /// Returns whether the timeout expired before all rows and loaders were tried.
    pub(crate) fn is_late(&self) -> bool {
        self.late.is_some()
    }

    /// Returns whether the search stopped at a limit of its cost.
    pub(crate) fn is_limited(&self) -> bool {
        self.is_limited
    }

    /// Returns the first attempts.
    pub(crate) fn listed(&self) -> &[Attempt] {
        &self.listed
    }

    /// Returns the number of attempts beyond the listed ones.
    pub(crate) fn unlisted(&self) -> u64 {
        self.count.saturating_sub(MAX_LISTED as u64)
    }

    /// Returns a human-readable reason why there is no record of that URL.
    pub(crate) fn summary(&self, url: &str) -> String {
        let url = short(url);
        match (self.late, self.count) {
            (Some(timeout), _) => format!(
                "no record of {url} was found within {} seconds",
                timeout.as_secs()
            ),
            (None, 0) => format!("there is no capture of {url}"),
            (None, _) if self.is_limited => {
                format!("no record of {url} was found within the search limits of a request")
            }
            (None, _) => {
                let last = self.listed.last().map_or("", |tried| &tried.reason);
                format!("no record of {url} can be loaded: {last}")
            }
        }
    }
}

fn word(loader: &Loader) -> &'static str {
    match loader {
        Loader::Live => "$live",
        Loader::Packages(_) => "WACZ files",
        Loader::Folder(_) => "warc-prefix, a folder",
        Loader::Web(_) => "warc-prefix, a server",
        Loader::PathIndex(_) => "warc-index, a list",
        Loader::RedisIndex(_) => "warc-index, Redis",
    }
}

/// Returns the loader's location for the operator.
fn place(loader: &Loader) -> String {
    match loader {
        Loader::Live => word(loader).to_owned(),
        Loader::Folder(path) | Loader::PathIndex(path) => path.display().to_string(),
        Loader::Packages(location) => location.to_string(),
        Loader::Web(url) | Loader::RedisIndex(url) => without_password(url),
    }
}

fn short(text: &str) -> String {
    match text.char_indices().nth(MAX_TEXT) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}
