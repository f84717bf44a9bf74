//! The figures of servers as Prometheus reads them: names, kinds and meanings.

use crawlspace_client::dedupe::{Stats, Storage};
use crawlspace_client::frontier;
use crawlspace_client::tags;
use crawlspace_serve::metrics::Metrics;

use super::Look;
use crate::observe::{Job, Name, Observation, Seen};

const COUNTER: &str = "counter";
const GAUGE: &str = "gauge";

/// The figures of all these servers.
pub(super) fn of(looks: &[Look]) -> String {
    let mut out = Metrics::default();
    out.family("build_info", GAUGE, "The version that runs.");
    out.sample("build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1.0);
    out.family("up", GAUGE, "Whether the server answers.");
    for look in looks {
        let up = f64::from(u8::from(look.outcome.is_ok()));
        out.sample("up", &[("server", &look.server)], up);
    }
    out.family(
        "scrape_duration_seconds",
        GAUGE,
        "Time that a look at the server took.",
    );
    for look in looks {
        let server = [("server", &look.server[..])];
        out.sample("scrape_duration_seconds", &server, look.took.as_secs_f64());
    }
    let seen = looks.iter().filter_map(|look| {
        let seen = look.outcome.as_ref().ok()?;
        Some((&look.server[..], seen))
    });
    let seen: Vec<(&str, &Observation)> = seen.collect();
    of_servers(&mut out, &seen);
    each(&mut out, &seen, INDEX, "index", |seen| &seen.indexes);
    each(&mut out, &seen, FRONTIER, "frontier", |seen| {
        &seen.frontiers
    });
    each(&mut out, &seen, SPACE, "space", |seen| &seen.spaces);
    let help =
        "Indexes, frontiers and tag spaces without figures, because there are more than the limit.";
    out.family("not_exported", GAUGE, help);
    for (server, seen) in &seen {
        let others = [
            ("index", seen.indexes.others),
            ("frontier", seen.frontiers.others),
            ("space", seen.spaces.others),
        ];
        for (kind, others) in others {
            let labels = [("server", *server), ("kind", kind)];
            out.sample("not_exported", &labels, others as f64);
        }
    }
    jobs(&mut out, &seen);
    out.into_text()
}

/// A figure of a server: in `INFO`, its name here, its kind, by what it is multiplied, and its meaning.
type OfServer = (&'static str, &'static str, &'static str, f64, &'static str);

const MICROSECONDS: f64 = 1e-6;

const SERVER: &[OfServer] = &[
    (
        "lookups",
        "lookups_total",
        COUNTER,
        1.0,
        "Hashes looked up.",
    ),
    (
        "hits",
        "hits_total",
        COUNTER,
        1.0,
        "Hashes looked up and found.",
    ),
    (
        "adds",
        "adds_total",
        COUNTER,
        1.0,
        "Response records added.",
    ),
    (
        "revisits",
        "revisits_total",
        COUNTER,
        1.0,
        "Revisit records added.",
    ),
    (
        "claims_granted",
        "claims_granted_total",
        COUNTER,
        1.0,
        "Claims granted.",
    ),
    (
        "claims_pending",
        "claims_pending",
        GAUGE,
        1.0,
        "Clients that wait for a claim.",
    ),
    ("chg_added", "chg_added_total", COUNTER, 1.0, "URIs queued."),
    (
        "chg_leases",
        "chg_leases_total",
        COUNTER,
        1.0,
        "Leases granted.",
    ),
    (
        "chg_releases",
        "chg_releases_total",
        COUNTER,
        1.0,
        "Leases released.",
    ),
    (
        "chg_expired",
        "chg_expired_total",
        COUNTER,
        1.0,
        "Leases that expired.",
    ),
    (
        "chg_waiters",
        "chg_waiters",
        GAUGE,
        1.0,
        "Clients that wait for a lease.",
    ),
    (
        "tags_batches",
        "tags_batches_total",
        COUNTER,
        1.0,
        "Batches of captures filtered.",
    ),
    (
        "tags_batches_away",
        "tags_batches_away_total",
        COUNTER,
        1.0,
        "Batches filtered in the background.",
    ),
    (
        "tags_batches_waiting",
        "tags_batches_waiting",
        GAUGE,
        1.0,
        "Batches that are, or are to be, filtered in the background.",
    ),
    (
        "indexes",
        "indexes",
        GAUGE,
        1.0,
        "Indexes that something is cached of.",
    ),
    (
        "frontiers",
        "frontiers",
        GAUGE,
        1.0,
        "Frontiers that something is cached of.",
    ),
    (
        "tags_spaces",
        "spaces",
        GAUGE,
        1.0,
        "Tag spaces that were used.",
    ),
    (
        "jobs_running",
        "jobs_running",
        GAUGE,
        1.0,
        "Jobs under way, waiting ones included.",
    ),
    (
        "jobs_done",
        "jobs_done_total",
        COUNTER,
        1.0,
        "Jobs that ended.",
    ),
    ("slices", "slices_total", COUNTER, 1.0, "Slices of jobs."),
    (
        "slice_longest_us",
        "slice_longest_seconds",
        GAUGE,
        MICROSECONDS,
        "The longest slice of a job since the module was loaded.",
    ),
    (
        "slice_longest_cpu_us",
        "slice_longest_cpu_seconds",
        GAUGE,
        MICROSECONDS,
        "The longest slice of a job in processor time.",
    ),
    (
        "keyspace_events",
        "keyspace_events_subscribed",
        GAUGE,
        1.0,
        "Whether the module listens to changes of keys.",
    ),
    (
        "panics",
        "panics_total",
        COUNTER,
        1.0,
        "Bugs that were caught and became an error reply.",
    ),
    (
        "evicting_policy",
        "evicting_policy",
        GAUGE,
        1.0,
        "Whether the server may evict keys, which destroys an index.",
    ),
    (
        "used_memory",
        "server_memory_bytes",
        GAUGE,
        1.0,
        "Memory that the server uses.",
    ),
    (
        "maxmemory",
        "server_memory_max_bytes",
        GAUGE,
        1.0,
        "Its maxmemory; 0 for none.",
    ),
    (
        "rdb_changes_since_last_save",
        "server_unsaved_changes",
        GAUGE,
        1.0,
        "Changes since the last snapshot.",
    ),
    (
        "connected_slaves",
        "server_replicas",
        GAUGE,
        1.0,
        "Replicas that are connected.",
    ),
];

fn of_servers(out: &mut Metrics, seen: &[(&str, &Observation)]) {
    for (of, name, kind, factor, help) in SERVER {
        out.family(name, kind, help);
        for (server, seen) in seen {
            if let Some(n) = seen.info.get(*of) {
                out.sample(name, &[("server", server)], *n as f64 * factor);
            }
        }
    }
    let whether = |out: &mut Metrics, name: &str, help: &str, is: fn(&Observation) -> bool| {
        out.family(name, GAUGE, help);
        for (server, seen) in seen {
            out.sample(name, &[("server", server)], f64::from(u8::from(is(seen))));
        }
    };
    let help = "Whether the last snapshot and the last write of the append-only file succeeded.";
    whether(out, "server_persistence_ok", help, |seen| {
        let names = [
            "rdb_last_bgsave_status",
            "aof_last_bgrewrite_status",
            "aof_last_write_status",
        ];
        let mut texts = names.iter().filter_map(|name| seen.texts.get(*name));
        texts.all(|status| status == "ok")
    });
    let help = "Whether the server is a master.";
    whether(out, "server_master", help, |seen| {
        seen.texts.get("role").is_some_and(|role| role == "master")
    });
}

/// A figure of a data set: its name, kind and meaning, and its values with a label each.
type Of<T> = (
    &'static str,
    &'static str,
    &'static str,
    fn(&T) -> Vec<(&'static str, f64)>,
);

/// The only value of a figure.
fn one(n: u64) -> Vec<(&'static str, f64)> {
    vec![("", n as f64)]
}

const INDEX: &[Of<Stats>] = &[
    ("index_hashes", GAUGE, "Hashes in the merged index.", |s| {
        one(s.hashes)
    }),
    (
        "index_crawls",
        GAUGE,
        "Crawls of an index; label state.",
        |s| {
            vec![
                ("committed", s.crawls as f64),
                ("uncommitted", s.uncommitted as f64),
            ]
        },
    ),
    (
        "index_records",
        GAUGE,
        "Records of committed crawls.",
        |s| one(s.total_urls),
    ),
    (
        "index_revisits",
        GAUGE,
        "How many of them are revisits.",
        |s| one(s.dupe_urls),
    ),
    (
        "index_saved_bytes",
        GAUGE,
        "Bytes saved by revisits.",
        |s| one(s.conserved_size),
    ),
    (
        "index_wacz_bytes",
        GAUGE,
        "Bytes of finished WACZ files.",
        |s| one(s.total_crawl_size),
    ),
    (
        "index_removed_crawls",
        GAUGE,
        "Crawls that are not part of the collection any more.",
        |s| one(s.removed_crawls),
    ),
    (
        "index_memory_bytes",
        GAUGE,
        "Memory of the keys of an index, estimated.",
        |s| one(s.memory),
    ),
    ("index_packed", GAUGE, "Whether the index is packed.", |s| {
        one(u64::from(s.storage == Storage::Packed))
    }),
    (
        "index_import_progress_ratio",
        GAUGE,
        "How far the import that runs is.",
        |s| {
            s.update_progress
                .map(|part| ("", part))
                .into_iter()
                .collect()
        },
    ),
];

const FRONTIER: &[Of<frontier::Info>] = &[
    (
        "frontier_groups",
        GAUGE,
        "Groups of a frontier; label state.",
        |i| {
            vec![
                ("waiting", i.groups_waiting as f64),
                ("ready", i.groups_ready as f64),
                ("busy", i.groups_busy as f64),
                ("idle", i.groups_idle as f64),
                ("gated", i.groups_gated as f64),
            ]
        },
    ),
    (
        "frontier_due_groups",
        GAUGE,
        "Groups that can be leased now.",
        |i| one(i.due),
    ),
    (
        "frontier_oldest_due_seconds",
        GAUGE,
        "For how long the first of them is due.",
        |i| vec![("", i.oldest_ready_ms as f64 / 1000.0)],
    ),
    ("frontier_uris", GAUGE, "URIs queued.", |i| one(i.uris)),
    (
        "frontier_executions",
        GAUGE,
        "Executions with queued URIs.",
        |i| one(i.executions),
    ),
    (
        "frontier_waiters",
        GAUGE,
        "Clients that wait for a lease.",
        |i| one(i.waiters),
    ),
    ("frontier_leases_total", COUNTER, "Leases granted.", |i| {
        one(i.leases)
    }),
    (
        "frontier_leases_per_second",
        GAUGE,
        "Leases a second, over the last nine seconds.",
        |i| one(i.rate_leases),
    ),
    (
        "frontier_releases_total",
        COUNTER,
        "Leases released.",
        |i| one(i.releases),
    ),
    (
        "frontier_expired_total",
        COUNTER,
        "Leases that expired.",
        |i| one(i.expired),
    ),
    (
        "frontier_expired_reports",
        GAUGE,
        "Reports of them that nobody has read.",
        |i| one(i.expired_reports),
    ),
    (
        "frontier_reports_dropped_total",
        COUNTER,
        "Reports that were not kept.",
        |i| one(i.reports_dropped),
    ),
    (
        "frontier_paused",
        GAUGE,
        "Whether the whole frontier is paused.",
        |i| one(u64::from(i.paused == "all")),
    ),
    (
        "frontier_smallest_margin_seconds",
        GAUGE,
        "The least difference between a pause and what was asked for it; below 0, a host was fetched from too soon.",
        |i| {
            i.smallest_margin_ms
                .map(|ms| ("", ms as f64 / 1000.0))
                .into_iter()
                .collect()
        },
    ),
];

const SPACE: &[Of<tags::Info>] = &[
    ("space_ids", GAUGE, "Ids with tags; label kind.", |i| {
        by_kind([i.record_ids, i.file_ids, i.tag_ids])
    }),
    ("space_edges", GAUGE, "Their tags; label kind.", |i| {
        by_kind([i.record_edges, i.file_edges, i.tag_edges])
    }),
    (
        "space_staged_ids",
        GAUGE,
        "Ids in staged copies; label kind.",
        |i| by_kind([i.staged_record_ids, i.staged_file_ids, i.staged_tag_ids]),
    ),
    ("space_tags", GAUGE, "Different tags.", |i| one(i.tags)),
    ("space_rules", GAUGE, "Rules.", |i| one(i.rules)),
    ("space_points", GAUGE, "Access points.", |i| one(i.points)),
    ("space_memory_bytes", GAUGE, "Memory of a tag space.", |i| {
        one(i.memory)
    }),
];

fn by_kind([records, files, tags]: [u64; 3]) -> Vec<(&'static str, f64)> {
    vec![
        ("record", records as f64),
        ("file", files as f64),
        ("tag", tags as f64),
    ]
}

/// The figures of data sets of one kind.
fn each<T>(
    out: &mut Metrics,
    seen: &[(&str, &Observation)],
    figures: &[Of<T>],
    kind: &'static str,
    of: fn(&Observation) -> &Seen<T>,
) {
    for (name, type_, help, values) in figures {
        out.family(name, type_, help);
        let by = if kind == "space" { "kind" } else { "state" };
        for (server, seen) in seen {
            for (Name { db, .. }, text, figures) in of(seen)
                .figures
                .iter()
                .map(|(name, figures)| (name, name.text(), figures))
            {
                let db = db.to_string();
                for (value, n) in values(figures) {
                    let labels = [("server", *server), ("db", &db), (kind, &text), (by, value)];
                    let labels = if value.is_empty() {
                        &labels[..3]
                    } else {
                        &labels
                    };
                    out.sample(name, labels, n);
                }
            }
        }
    }
}

/// How far jobs are; of several that do the same work in one data set, the first.
fn jobs(out: &mut Metrics, seen: &[(&str, &Observation)]) {
    out.family(
        "job_progress_ratio",
        GAUGE,
        "How far a job is: COMMIT, REMOVE, PACK and the like.",
    );
    for (server, seen) in seen {
        let mut told: Vec<&Job> = Vec::new();
        for job in &seen.jobs {
            if told
                .iter()
                .any(|other| other.of == job.of && other.work == job.work)
            {
                continue;
            }
            told.push(job);
            let (db, prefix) = (job.of.db.to_string(), job.of.text());
            let labels = [
                ("server", *server),
                ("db", &db),
                ("prefix", &prefix),
                ("work", &job.work),
            ];
            out.sample("job_progress_ratio", &labels, job.part().unwrap_or(0.0));
        }
    }
}
