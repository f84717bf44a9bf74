//! Attempts to load a record, listed for clients that get none.

use std::time::Duration;

use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::capture::Capture;
use super::record::LoadError;
use crate::config::Loader;
use crate::group::Report;
use crate::reason::Reason;
use crate::server::{self, Body};
use crawlspace_client::server::without_password;

/// Maximum number of attempts listed.
const MAX_LISTED: usize = 30;
/// Maximum length of a text in the list, in characters.
const MAX_TEXT: usize = 500;

/// Rows that were tried, each with each loader.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    listed: Vec<Value>,
    count: u64,
    rows: u64,
    last: Option<(String, String)>,
    late: Option<Duration>,
}

impl Attempts {
    /// How many rows.
    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    /// Adds what came of a row and a loader.
    pub(super) fn add(
        &mut self,
        capture: Option<&Capture>,
        loader: Option<&Loader>,
        error: &LoadError,
    ) {
        self.count += 1;
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
        self.listed.push(json!({
            "url": short(url),
            "timestamp": timestamp,
            "source": source,
            "loader": loader.map(word),
            "reason": Reason::from(error).to_string(),
        }));
    }

    /// Whether there was no row to try, in the time that there was.
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0 && self.late.is_none()
    }

    /// Records that `timeout` ran out before all was tried.
    pub(super) fn timed_out(&mut self, timeout: Duration) {
        self.late = Some(timeout);
    }

    /// The answer: 404, or 504 after a timeout. Caches must not keep it if there are rows.
    pub(super) fn not_found(self, url: &str, report: &Report) -> Response<Body> {
        let url = short(url);
        let message = match (self.late, self.count) {
            (Some(timeout), _) => format!(
                "no record of {url} was found within {} seconds",
                timeout.as_secs()
            ),
            (None, 0) => format!("there is no capture of {url}"),
            (None, _) => format!("no record of {url} can be loaded: {}", self.last_reason()),
        };
        let errors = report.reasons().into_iter();
        let errors =
            errors.map(|(name, reason)| (name.to_string(), Value::from(reason.to_string())));
        let mut value = json!({
            "message": message,
            "tried": &self.listed,
            "errors": Value::Object(errors.collect()),
        });
        if let (true, Some(object)) = (self.count > MAX_LISTED as u64, value.as_object_mut()) {
            object.insert("more".to_owned(), (self.count - MAX_LISTED as u64).into());
        }
        let status = match self.late {
            Some(_) => StatusCode::GATEWAY_TIMEOUT,
            None => StatusCode::NOT_FOUND,
        };
        let is_empty = self.is_empty();
        let response = server::json(status, &value);
        if is_empty {
            response
        } else {
            server::fresh(response)
        }
    }

    fn last_reason(&self) -> String {
        let reason = self
            .listed
            .last()
            .and_then(|tried| tried.get("reason")?.as_str());
        reason.unwrap_or_default().to_owned()
    }
}

fn word(loader: &Loader) -> &'static str {
    match loader {
        Loader::Live => "$live",
        Loader::Folder(_) => "warc-prefix, a folder",
        Loader::Web(_) => "warc-prefix, a web server",
        Loader::PathIndex(_) => "warc-index, a list",
        Loader::RedisIndex(_) => "warc-index, Redis",
    }
}

/// The loader as the operator knows it.
fn place(loader: &Loader) -> String {
    match loader {
        Loader::Live => word(loader).to_owned(),
        Loader::Folder(path) | Loader::PathIndex(path) => path.display().to_string(),
        Loader::Web(url) | Loader::RedisIndex(url) => without_password(url),
    }
}

fn short(text: &str) -> String {
    match text.char_indices().nth(MAX_TEXT) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}
