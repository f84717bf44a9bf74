//! Lists job indexes, and their metrics.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::{Response, StatusCode};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use super::super::body::Body;
use super::super::reply::fresh;
use super::super::reply::{json as reply_json, message};
use crate::indexes::Indexes;
use crate::metrics::Metrics;
use crawlspace_index::timestamp::Timestamp;
use crawlspace_jobs::operations::{Listed, list};
use crawlspace_jobs::{Counts, Error, IndexKind};

/// Limits concurrent scans of the cache folder.
static LOOKING: Semaphore = Semaphore::const_new(2);
/// Timeout of a scan of the cache folder, including the wait for its turn.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Answers with all indexes and running builds, as JSON.
pub(super) async fn answer(indexes: &Arc<Indexes>) -> Response<Body> {
    let entries = match look(indexes).await {
        Some(Ok(entries)) => entries,
        Some(Err(error)) => {
            tracing::warn!(%error, "the indexes of jobs cannot be listed");
            let text = "the indexes cannot be listed; see the log of the server for the reason";
            return message(StatusCode::INTERNAL_SERVER_ERROR, text);
        }
        None => {
            let text = "listing all indexes takes too long: a file system may be hanging";
            return message(StatusCode::SERVICE_UNAVAILABLE, text);
        }
    };
    let mut kinds = serde_json::Map::new();
    for kind in IndexKind::ALL {
        let entries = of_kind(&entries, kind).map(entry);
        kinds.insert(kind.to_string(), entries.collect());
    }
    let building = indexes.building();
    let building = building.iter().map(|(kind, jobs, progress)| {
        json!({
            "kind": kind.name(),
            "jobs": jobs.to_string(),
            "stage": progress.stage,
            "done": progress.done,
            "total": progress.total,
        })
    });
    let building: Vec<Value> = building.collect();
    fresh(reply_json(
        StatusCode::OK,
        &json!({ "kinds": kinds, "building": building }),
    ))
}

fn entry(listed: &Listed) -> Value {
    let time = |time: SystemTime| {
        let since = time.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        let seconds = i64::try_from(since.as_secs()).ok()?;
        Timestamp::from_seconds(seconds).map(Timestamp::iso)
    };
    json!({
        "entry": listed.entry,
        "jobs": listed.jobs.as_ref().map(ToString::to_string),
        "lines": listed.lines,
        "size": listed.size,
        "made": listed.made,
        "used": listed.used.and_then(time),
        "state": listed.state.name(),
        "why": listed.state.why(),
    })
}

/// Returns the indexes of the server, without the copies that a client may keep in the same folder.
fn of_kind(entries: &[Listed], kind: IndexKind) -> impl Iterator<Item = &Listed> {
    let is_own = move |one: &&Listed| one.layer.folder == kind.folder();
    entries.iter().filter(is_own)
}

/// Scans the cache folder. Returns `None` after the timeout.
async fn look(indexes: &Arc<Indexes>) -> Option<Result<Vec<Listed>, Error>> {
    let indexes = Arc::clone(indexes);
    let look = async {
        let place = LOOKING.acquire().await.ok()?;
        let task = spawn_blocking(move || {
            let _place = place;
            list(&indexes.caches().options().cache_dir)
        });
        task.await.ok()
    };
    tokio::time::timeout(TIMEOUT, look).await.ok().flatten()
}

type Figure = (&'static str, &'static str, fn(&Counts) -> u64);

const FIGURES: [Figure; 7] = [
    ("hits", "Cache entries that were found.", |counts| {
        counts.hits
    }),
    ("misses", "Cache entries that were not found.", |counts| {
        counts.misses
    }),
    ("builds", "Cache entries that were built.", |counts| {
        counts.builds
    }),
    (
        "failures",
        "Cache entries that could not be built.",
        |counts| counts.failures,
    ),
    (
        "waits",
        "Waits for another process to build a cache entry.",
        |counts| counts.waits,
    ),
    (
        "damaged",
        "Cache entries that differed from their manifests.",
        |counts| counts.damaged,
    ),
    (
        "evicted",
        "Cache entries that were removed to make room.",
        |counts| counts.evicted,
    ),
];

/// Returns the metrics for `/_status`.
pub(in super::super) async fn status(indexes: &Arc<Indexes>) -> Value {
    let counts = indexes.caches().figures();
    let mut status = serde_json::Map::new();
    for (name, _, figure) in FIGURES {
        status.insert(name.to_owned(), figure(&counts).into());
    }
    status.insert("building".to_owned(), indexes.building().len().into());
    match look(indexes).await {
        Some(Ok(entries)) => {
            for kind in IndexKind::ALL {
                let (number, bytes) = held(&entries, kind);
                let held = json!({ "entries": number, "bytes": bytes });
                status.insert(kind.to_string(), held);
            }
            status.insert("health".to_owned(), "ok".into());
        }
        Some(Err(error)) => {
            status.insert("health".to_owned(), error.to_string().into());
        }
        None => {
            let late = "checking all indexes takes too long";
            status.insert("health".to_owned(), late.into());
        }
    }
    Value::Object(status)
}

/// Adds the metrics for `/_metrics`.
pub(in super::super) async fn metrics(indexes: &Arc<Indexes>, out: &mut Metrics) {
    let counts = indexes.caches().figures();
    for (name, help, figure) in FIGURES {
        let name = format!("index_{name}_total");
        out.family(&name, "counter", help);
        out.sample(&name, &[], figure(&counts) as f64);
    }
    out.family(
        "index_building",
        "gauge",
        "Indexes that are being built, or wait to be built.",
    );
    out.sample("index_building", &[], indexes.building().len() as f64);
    let Some(Ok(entries)) = look(indexes).await else {
        return;
    };
    type Held = (&'static str, &'static str, fn((usize, u64)) -> f64);
    let figures: [Held; 2] = [
        ("index_entries", "Indexes in the caches.", |(number, _)| {
            number as f64
        }),
        (
            "index_bytes",
            "Bytes of indexes in the caches.",
            |(_, bytes)| bytes as f64,
        ),
    ];
    for (name, help, figure) in figures {
        out.family(name, "gauge", help);
        for kind in IndexKind::ALL {
            let held = held(&entries, kind);
            out.sample(name, &[("kind", kind.name())], figure(held));
        }
    }
}

/// Returns number and total size of the indexes of a kind.
fn held(entries: &[Listed], kind: IndexKind) -> (usize, u64) {
    let of_kind = of_kind(entries, kind);
    of_kind.fold((0, 0), |(number, bytes), one| {
        (number + 1, bytes + one.size)
    })
}
