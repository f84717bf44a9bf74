//! What was tried for a record, told to those who get none.

use std::time::Duration;

use http::{Response, StatusCode};
use serde_json::{json, Value};

use super::capture::Capture;
use super::record::LoadError;
use crate::federation::config::Loader;
use crate::federation::group::Report;
use crate::federation::server::{self, Body};

/// How many of them are told.
const TOLD: usize = 30;
/// How long a text in it may be, in characters.
const LONGEST: usize = 500;

/// Rows that were tried, each with each loader.
#[derive(Debug, Default)]
pub(super) struct Tried {
    told: Vec<Value>,
    count: u64,
    rows: u64,
    last: Option<(String, String)>,
    late: Option<Duration>,
}

impl Tried {
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
        if self.told.len() >= TOLD {
            return;
        }
        let (url, timestamp, source) = capture.map_or(("", "", ""), |capture| {
            (&capture.url, &capture.timestamp, &capture.source)
        });
        self.told.push(json!({
            "url": short(url),
            "timestamp": timestamp,
            "source": source,
            "loader": loader.map(word),
            "reason": short(&error.to_string()),
        }));
    }

    /// Nothing more is tried.
    pub(super) fn time_is_up(&mut self, patience: Duration) {
        self.late = Some(patience);
    }

    /// The answer.
    pub(super) fn not_found(self, url: &str, report: &Report) -> Response<Body> {
        let url = short(url);
        let message = match (self.late, self.count) {
            (Some(patience), _) => format!(
                "no record of {url} was found within {} seconds",
                patience.as_secs()
            ),
            (None, 0) => format!("there is no capture of {url}"),
            (None, _) => format!("no record of {url} can be loaded: {}", self.last_reason()),
        };
        let errors = report.errors();
        let errors = errors
            .iter()
            .map(|(name, error)| (name.to_string(), Value::from(short(&error.to_string()))));
        let mut value = json!({
            "message": message,
            "tried": self.told,
            "errors": Value::Object(errors.collect()),
        });
        if let (true, Some(object)) = (self.count > TOLD as u64, value.as_object_mut()) {
            object.insert("more".to_owned(), (self.count - TOLD as u64).into());
        }
        server::json(StatusCode::NOT_FOUND, &value)
    }

    fn last_reason(&self) -> String {
        let reason = self
            .told
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

fn short(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}
