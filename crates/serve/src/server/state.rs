//! Status and metrics of collections and their sources: `/_status` and `/_metrics`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{Response, StatusCode};
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;

use crawlspace_index::WarcCounts;
use crawlspace_index::timestamp::Timestamp;

use super::body::Body;
use super::indexes::listing;
pub(crate) use super::reply::fresh;
use super::reply::{json as reply_json, message, page};
use crate::Federation;
use crate::breaker::BreakerState;
use crate::collection::Collection;
use crate::group::Member;
use crate::metrics::{MEDIA, Metrics};
use crate::reload::Reloads;

/// Limits concurrent checks of all sources, since they access the file system, which can hang.
static LOOKING: Semaphore = Semaphore::const_new(4);
/// Timeout of a check of all sources, including the wait for its turn.
const TIMEOUT: Duration = Duration::from_secs(5);

/// State of a source of a collection.
pub(crate) struct Seen {
    /// Collection of the source.
    pub collection: Arc<Collection>,
    /// Step of the source, from 1.
    pub step: usize,
    /// Source with its metrics.
    pub member: Arc<Member>,
    /// Result of the health check: the message says what is missing.
    pub health: Result<(), String>,
    /// State of the circuit breaker.
    pub breaker: BreakerState,
}

/// Checks all sources. Returns `None` after the timeout.
pub(crate) async fn look(federation: &Arc<Federation>) -> Option<Vec<Seen>> {
    let federation = Arc::clone(federation);
    let look = async {
        let place = LOOKING.acquire().await.ok()?;
        let task = tokio::task::spawn_blocking(move || {
            let _place = place;
            sources(&federation)
        });
        task.await.ok()
    };
    tokio::time::timeout(TIMEOUT, look).await.ok().flatten()
}

fn sources(federation: &Federation) -> Vec<Seen> {
    let now = Instant::now();
    let mut seen = Vec::new();
    for collection in &federation.collections {
        for (step, members) in (1..).zip(&collection.steps) {
            for member in &members.group.members {
                seen.push(Seen {
                    collection: Arc::clone(collection),
                    step,
                    member: Arc::clone(member),
                    health: member.source.health(),
                    breaker: member.breaker.state(now),
                });
            }
        }
    }
    seen
}

/// Answers `/_status`.
pub(crate) async fn status(federation: &Arc<Federation>, reloads: &Reloads) -> Response<Body> {
    let Some(seen) = look(federation).await else {
        return late();
    };
    let mut seen = seen.into_iter().peekable();
    let mut collections = Vec::new();
    for collection in &federation.collections {
        let mut sources = Vec::new();
        while let Some(seen) = seen.next_if(|seen| Arc::ptr_eq(&seen.collection, collection)) {
            sources.push(source(&seen));
        }
        let mut requests = Map::new();
        for (api, hundred, count) in collection.requests.counts() {
            let of_api = requests.entry(api.word()).or_insert_with(|| json!({}));
            if let Value::Object(of_api) = of_api {
                of_api.insert(format!("{hundred}xx"), count.into());
            }
        }
        let deviations = collection.requests.deviations();
        let deviations: Map<String, Value> = deviations
            .map(|(deviation, count)| (deviation.word().to_owned(), count.into()))
            .collect();
        collections.push(json!({
            "name": &*collection.name,
            "requests": requests,
            "record_deviations": deviations,
            "sources": sources,
        }));
    }
    let failure = reloads.failure.as_ref();
    let mut status = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "configuration": {
            "loaded": reloads.loaded.to_string(),
            "reloads": { "success": reloads.succeeded, "failure": reloads.failed },
            "last_error": failure.map(problem),
        },
        "collections": collections,
    });
    if let (Some(indexes), Value::Object(status)) = (&federation.indexes, &mut status) {
        status.insert("indexes".to_owned(), listing::status(indexes).await);
    }
    fresh(reply_json(StatusCode::OK, &status))
}

fn problem((time, reason): &(Timestamp, String)) -> Value {
    json!({ "time": time.to_string(), "reason": reason })
}

fn source(seen: &Seen) -> Value {
    let figures = &seen.member.figures;
    let errors = figures.errors().filter(|(_, count)| *count > 0);
    let errors: Map<String, Value> = errors
        .map(|(word, count)| (word.to_owned(), count.into()))
        .collect();
    let millis = |duration: Option<Duration>| duration.map(|it| it.as_secs_f64() * 1000.0);
    let durations = figures.durations();
    let mut breaker = json!({ "state": seen.breaker.word() });
    if let (BreakerState::Open(left), Value::Object(breaker)) = (seen.breaker, &mut breaker) {
        breaker.insert("seconds_left".to_owned(), left.as_secs_f64().into());
    }
    let mut status = json!({
        "name": &*seen.member.name,
        "type": seen.member.kind,
        "step": seen.step,
        "health": match &seen.health {
            Ok(()) => "ok",
            Err(problem) => problem,
        },
        "breaker": breaker,
        "requests": figures.requests(),
        "errors": errors,
        "last_error": figures.last_error().as_ref().map(problem),
        "rows": figures.rows(),
        "broken_lines": seen.member.source.broken(),
        "latency_ms": {
            "mean": millis(durations.mean()),
            "p50": millis(durations.quantile(0.5)),
            "p99": millis(durations.quantile(0.99)),
        },
    });
    if let (Some(warcs), Value::Object(status)) = (seen.member.source.warcs(), &mut status) {
        let states = states(&warcs).map(|(state, count)| (state.to_owned(), count.into()));
        status.insert(
            "warc_files".to_owned(),
            Value::Object(states.into_iter().collect()),
        );
    }
    status
}

/// Returns the number of WARC files in each state.
fn states(warcs: &WarcCounts) -> [(&'static str, u64); 4] {
    [
        ("indexed", warcs.indexed),
        ("waiting", warcs.waiting),
        ("damaged", warcs.damaged),
        ("unreadable", warcs.unreadable),
    ]
}

/// Answers `/_metrics`, in the text format of Prometheus, version 0.0.4.
pub(crate) async fn metrics(federation: &Arc<Federation>, reloads: &Reloads) -> Response<Body> {
    let Some(seen) = look(federation).await else {
        return late();
    };
    let mut out = Metrics::default();
    out.family("build_info", "gauge", "Version of the program.");
    out.sample("build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1.0);
    config_reloads(reloads, &mut out);
    out.family("requests_total", "counter", "Requests to a collection.");
    for collection in &federation.collections {
        for (api, hundred, count) in collection.requests.counts() {
            let status = format!("{hundred}xx");
            let labels = [
                ("collection", &*collection.name),
                ("api", api.word()),
                ("status", &status),
            ];
            out.sample("requests_total", &labels, count as f64);
        }
    }
    let help = "Records read that deviate from the standard, by deviation.";
    out.family("record_deviations_total", "counter", help);
    let asked = |collection: &&Arc<Collection>| collection.requests.counts().next().is_some();
    for collection in federation.collections.iter().filter(asked) {
        for (deviation, count) in collection.requests.deviations() {
            let labels = [
                ("collection", &*collection.name),
                ("deviation", deviation.word()),
            ];
            out.sample("record_deviations_total", &labels, count as f64);
        }
    }
    // For a source without requests, only the two series that alerts need are written.
    let always = ["source_healthy", "source_skipped"];
    for (name, kind, help, figure) in SOURCE_FIGURES {
        out.family(name, kind, help);
        let any = always.contains(&name);
        for seen in seen.iter().filter(|seen| any || was_asked(seen)) {
            let step = seen.step.to_string();
            out.sample(name, &labels(seen, &step), figure(seen));
        }
    }
    let name = "source_warc_files";
    let help = "WARC files that a source indexes, by state.";
    out.family(name, "gauge", help);
    for seen in &seen {
        let step = seen.step.to_string();
        for (state, count) in seen.member.source.warcs().iter().flat_map(states) {
            let [a, b, c, d] = labels(seen, &step);
            out.sample(name, &[a, b, c, d, ("state", state)], count as f64);
        }
    }
    let help = "Failed requests to a source, by error.";
    out.family("source_errors_total", "counter", help);
    for seen in seen.iter().filter(|seen| was_asked(seen)) {
        let step = seen.step.to_string();
        for (word, count) in seen.member.figures.errors() {
            let [a, b, c, d] = labels(seen, &step);
            let labels = [a, b, c, d, ("error", word)];
            out.sample("source_errors_total", &labels, count as f64);
        }
    }
    durations(&seen, &mut out);
    if let Some(indexes) = &federation.indexes {
        listing::metrics(indexes, &mut out).await;
    }
    fresh(page(StatusCode::OK, MEDIA, out.into_text()))
}

fn config_reloads(reloads: &Reloads, out: &mut Metrics) {
    let name = "config_reloads_total";
    let help = "Reloads of the configuration, by result.";
    out.family(name, "counter", help);
    out.sample(name, &[("result", "success")], reloads.succeeded as f64);
    out.sample(name, &[("result", "failure")], reloads.failed as f64);
    let name = "config_last_reload_successful";
    let help = "1 if the last reload of the configuration succeeded.";
    out.family(name, "gauge", help);
    let successful = u8::from(reloads.failure.is_none());
    out.sample(name, &[], f64::from(successful));
    let name = "config_last_success_timestamp_seconds";
    let help = "Time at which the served configuration was read, since the epoch.";
    out.family(name, "gauge", help);
    out.sample(name, &[], reloads.loaded.seconds() as f64);
}

fn was_asked(seen: &Seen) -> bool {
    seen.member.figures.requests() > 0
}

type Figure = fn(&Seen) -> f64;

/// Metrics of each source: name, type, help text and value.
const SOURCE_FIGURES: [(&str, &str, &str, Figure); 5] = [
    (
        "source_rows_total",
        "counter",
        "Rows returned by a source.",
        |seen| seen.member.figures.rows() as f64,
    ),
    (
        "source_requests_total",
        "counter",
        "Requests to a source.",
        |seen| seen.member.figures.requests() as f64,
    ),
    (
        "source_broken_lines_total",
        "counter",
        "Invalid lines of a source that were skipped.",
        |seen| seen.member.source.broken() as f64,
    ),
    (
        "source_healthy",
        "gauge",
        "1 if the files, servers or keys that a source reads are available.",
        |seen| f64::from(u8::from(seen.health.is_ok())),
    ),
    (
        "source_skipped",
        "gauge",
        "1 while a source is skipped because it failed too often.",
        |seen| f64::from(u8::from(matches!(seen.breaker, BreakerState::Open(_)))),
    ),
];

fn durations(seen: &[Seen], out: &mut Metrics) {
    let name = "source_duration_seconds";
    let help = "Time from a request to a source until its first rows, or until the end of an answer without rows.";
    out.family(name, "histogram", help);
    for seen in seen.iter().filter(|seen| was_asked(seen)) {
        let step = seen.step.to_string();
        let [a, b, c, d] = labels(seen, &step);
        let durations = seen.member.figures.durations();
        // The total is read once, before the buckets, so that no bucket exceeds it.
        let count = durations.count();
        for (end, sum) in durations.up_to() {
            let end = end.as_secs_f64().to_string();
            let labels = [a, b, c, d, ("le", &end)];
            out.sample(&format!("{name}_bucket"), &labels, sum.min(count) as f64);
        }
        let labels = [a, b, c, d, ("le", "+Inf")];
        out.sample(&format!("{name}_bucket"), &labels, count as f64);
        let sum = durations.sum().as_secs_f64();
        out.sample(&format!("{name}_sum"), &[a, b, c, d], sum);
        out.sample(&format!("{name}_count"), &[a, b, c, d], count as f64);
    }
}

fn labels<'a>(seen: &'a Seen, step: &'a str) -> [(&'static str, &'a str); 4] {
    [
        ("collection", &seen.collection.name),
        ("step", step),
        ("source", &seen.member.name),
        ("type", seen.member.kind),
    ]
}

fn late() -> Response<Body> {
    let text = "checking all sources takes too long: a file system may be hanging";
    message(StatusCode::SERVICE_UNAVAILABLE, text)
}
