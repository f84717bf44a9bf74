//! Metrics in the text format of Prometheus.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::proto::ack_message::Status;

/// Counters since the start of the process.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    /// Acknowledged items of PutURLs, by status.
    put: [AtomicU64; 3],
    /// Acknowledged items of PutDiscovered, by status.
    discovered: [AtomicU64; 3],
    /// Calls of GetURLs, the URLs that they returned, and the time until their last URL in microseconds.
    gets: AtomicU64,
    delivered: AtomicU64,
    get_micros: AtomicU64,
    /// Open PutURLs and PutDiscovered streams.
    streams: AtomicU64,
    /// Open connections.
    connections: AtomicU64,
    /// Requests without the token.
    unauthenticated: AtomicU64,
}

/// Counts one open stream or connection until it is dropped.
#[derive(Debug)]
pub(crate) struct Open<F: Fn(&Figures) -> &AtomicU64>(std::sync::Arc<Figures>, F);

impl<F: Fn(&Figures) -> &AtomicU64> Drop for Open<F> {
    fn drop(&mut self) {
        (self.1)(&self.0).fetch_sub(1, Ordering::Relaxed);
    }
}

fn open<F: Fn(&Figures) -> &AtomicU64>(figures: &std::sync::Arc<Figures>, which: F) -> Open<F> {
    which(figures).fetch_add(1, Ordering::Relaxed);
    Open(std::sync::Arc::clone(figures), which)
}

impl Figures {
    pub(crate) fn stream(self: &std::sync::Arc<Figures>) -> impl Drop + Send + use<> {
        open(self, |figures| &figures.streams)
    }

    pub(crate) fn connection(self: &std::sync::Arc<Figures>) -> impl Drop + Send + use<> {
        open(self, |figures| &figures.connections)
    }

    pub(crate) fn put(&self, statuses: &[Status]) {
        count(&self.put, statuses);
    }

    pub(crate) fn discovered(&self, statuses: &[Status]) {
        count(&self.discovered, statuses);
    }

    pub(crate) fn got(&self, urls: u64, took: Duration) {
        self.gets.fetch_add(1, Ordering::Relaxed);
        self.delivered.fetch_add(urls, Ordering::Relaxed);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.get_micros.fetch_add(micros, Ordering::Relaxed);
    }

    pub(crate) fn unauthenticated(&self) {
        self.unauthenticated.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the metrics as text.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let name = "crawlspace_urlfrontier_acknowledged_items_total";
        head(
            &mut text,
            name,
            "counter",
            "Items that were acknowledged, by call and status.",
        );
        for (call, counters) in [("PutURLs", &self.put), ("PutDiscovered", &self.discovered)] {
            for (status, counter) in ["ok", "skipped", "fail"].iter().zip(counters) {
                let _ = writeln!(
                    text,
                    "{name}{{call=\"{call}\",status=\"{status}\"}} {}",
                    get(counter)
                );
            }
        }
        let name = "crawlspace_urlfrontier_get_urls_seconds";
        head(
            &mut text,
            name,
            "summary",
            "Time of GetURLs calls until their last URL.",
        );
        let seconds = get(&self.get_micros) as f64 / 1e6;
        let _ = writeln!(
            text,
            "{name}_sum {seconds}\n{name}_count {}",
            get(&self.gets)
        );
        for (name, kind, help, counter) in [
            (
                "crawlspace_urlfrontier_delivered_urls_total",
                "counter",
                "URLs that GetURLs returned.",
                &self.delivered,
            ),
            (
                "crawlspace_urlfrontier_unauthenticated_requests_total",
                "counter",
                "Requests that were refused because they lack the token.",
                &self.unauthenticated,
            ),
            (
                "crawlspace_urlfrontier_streams",
                "gauge",
                "Open PutURLs and PutDiscovered streams.",
                &self.streams,
            ),
            (
                "crawlspace_urlfrontier_connections",
                "gauge",
                "Open connections.",
                &self.connections,
            ),
        ] {
            head(&mut text, name, kind, help);
            let _ = writeln!(text, "{name} {}", get(counter));
        }
        text
    }
}

fn count(counters: &[AtomicU64; 3], statuses: &[Status]) {
    for status in statuses {
        counters[*status as usize].fetch_add(1, Ordering::Relaxed);
    }
}

fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}
