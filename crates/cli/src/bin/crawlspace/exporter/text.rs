//! Metrics of servers in the text format of Prometheus: names, types and help texts.

use crawlspace_client::dedupe::{Stats, Storage};
use crawlspace_client::frontier;
use crawlspace_client::tags;
use crawlspace_serve::metrics::Metrics;

use super::Looks;
use crate::observe::{Job, Name, Observation, Seen};

const GAUGE: &str = "gauge";

/// Formats the metrics of all these servers and sharded indexes.
pub(super) fn of(looks: &Looks) -> String {
    let Looks {
        servers: looks,
        sharded,
    } = looks;
    let mut out = Metrics::default();
    out.family("build_info", GAUGE, "Version of the program.");
    out.sample("build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1.0);
    out.family(
        "up",
        GAUGE,
        "1 if the server answers and has loaded the module.",
    );
    for look in looks {
        let up = f64::from(u8::from(look.outcome.is_ok()));
        out.sample("up", &[("server", &look.server)], up);
    }
    out.family(
        "scrape_duration_seconds",
        GAUGE,
        "Time that it took to query the server.",
    );
    for look in looks {
        let server = [("server", &look.server[..])];
        out.sample("scrape_duration_seconds", &server, look.took.as_secs_f64());
    }
    let help = "1 if all shards of a sharded index answer.";
    out.family("sharded_up", GAUGE, help);
    for look in sharded {
        let up = f64::from(u8::from(look.outcome.is_ok()));
        out.sample("sharded_up", &[("index", &look.name)], up);
    }
    let sharded = sharded.iter().filter_map(|look| look.outcome.as_ref().ok());
    let seen = looks.iter().filter_map(|look| {
        let seen = look.outcome.as_ref().ok()?;
        Some((&look.server[..], seen))
    });
    let seen: Vec<(&str, &Observation)> = seen.collect();
    of_servers(&mut out, &seen);
    let mut indexes = all(&seen, |seen| &seen.indexes);
    indexes.extend(sharded.map(|(name, stats)| (None, name, stats)));
    each(&mut out, INDEX, "index", &indexes);
    let frontiers = all(&seen, |seen| &seen.frontiers);
    each(&mut out, FRONTIER, "frontier", &frontiers);
    each(&mut out, SPACE, "space", &all(&seen, |seen| &seen.spaces));
    let help = "Indexes, frontiers and tag spaces that are not exported, because there are more than the limit.";
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

/// Metrics of a server, one per line: name in `INFO`, name here, type, and help text. Microseconds in `INFO` (`_us`)
/// are converted to seconds.
const SERVER: &str = "\
lookups lookups_total counter Hashes looked up.
hits hits_total counter Hashes looked up and found.
adds adds_total counter Response records added.
revisits revisits_total counter Revisit records added.
claims_granted claims_granted_total counter Claims granted.
claims_pending claims_pending gauge Clients that wait for a claim.
plain_commands plain_commands gauge 1 while commands of plain clients are served from packed indexes.
chg_added chg_added_total counter URIs queued.
chg_leases chg_leases_total counter Leases granted.
chg_releases chg_releases_total counter Leases released.
chg_expired chg_expired_total counter Leases that expired.
chg_clamped chg_clamped_total counter Pauses requested by hosts that were negative or longer than chg-max-pause.
chg_waiters chg_waiters gauge Clients that wait for a lease.
tags_batches tags_batches_total counter Batches of captures filtered.
tags_batches_away tags_batches_away_total counter Batches filtered in the background.
tags_batches_waiting tags_batches_waiting gauge Batches that are being filtered in the background, or wait for it.
indexes indexes gauge Indexes with cached data.
frontiers frontiers gauge Frontiers with cached data.
tags_spaces spaces gauge Tag spaces that were used.
jobs_running jobs_running gauge Jobs that are running or waiting.
jobs_done jobs_done_total counter Jobs that ended.
slices slices_total counter Slices of jobs.
slice_longest_us slice_longest_seconds gauge The longest slice of a job since the module was loaded.
slice_longest_cpu_us slice_longest_cpu_seconds gauge Processor time of the longest slice of a job.
alarms alarms_total counter Timer wake-ups of the module, for example when a group becomes due.
keyspace_events keyspace_events_subscribed gauge 1 if the module is notified of changes of keys.
panics panics_total counter Internal errors (panics) that were returned as error replies.
evicting_policy evicting_policy gauge 1 if the server may evict keys, which destroys an index.
used_memory server_memory_bytes gauge Memory that the server uses.
maxmemory server_memory_max_bytes gauge Maximum memory of the server (maxmemory); 0 for no limit.
rdb_changes_since_last_save server_unsaved_changes gauge Changes since the last snapshot.
connected_slaves server_replicas gauge Replicas that are connected.";

fn of_servers(out: &mut Metrics, seen: &[(&str, &Observation)]) {
    for figure in SERVER.lines() {
        let mut words = figure.splitn(4, ' ');
        let [of, name, kind, help] = std::array::from_fn(|_| words.next().unwrap_or_default());
        let factor = if of.ends_with("_us") { 1e-6 } else { 1.0 };
        out.family(name, kind, help);
        for (server, seen) in seen {
            if let Some(n) = seen.info.get(of) {
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
    let help = "1 if the last snapshot and the last write of the append-only file succeeded.";
    whether(out, "server_persistence_ok", help, |seen| {
        let names = [
            "rdb_last_bgsave_status",
            "aof_last_bgrewrite_status",
            "aof_last_write_status",
        ];
        let mut texts = names.iter().filter_map(|name| seen.texts.get(*name));
        texts.all(|status| status == "ok")
    });
    let help = "1 if the server is a master.";
    whether(out, "server_master", help, |seen| {
        seen.texts.get("role").is_some_and(|role| role == "master")
    });
}

/// A metric of a data set: name, type and help text, and its values, each with a label.
type Of<T> = (
    &'static str,
    &'static str,
    &'static str,
    fn(&T) -> Vec<(&'static str, f64)>,
);

/// Declares metrics of data sets, one per line: name, type, help text, and an expression over `$it`.
macro_rules! figures {
    ($of:ty, $it:ident: $($name:ident $kind:ident $help:literal $values:expr;)*) => {
        &[$((stringify!($name), stringify!($kind), $help, |$it: &$of| $values)),*]
    };
}

/// Returns the only value of a metric.
fn one(n: u64) -> Vec<(&'static str, f64)> {
    vec![("", n as f64)]
}

/// Returns the value of a metric that can be missing.
fn any(n: Option<f64>) -> Vec<(&'static str, f64)> {
    n.map(|n| ("", n)).into_iter().collect()
}

const INDEX: &[Of<Stats>] = figures! { Stats, it:
    index_hashes gauge "Hashes in the merged index." one(it.hashes);
    index_crawls gauge "Crawls of an index, by state."
        vec![("committed", it.crawls as f64), ("uncommitted", it.uncommitted as f64)];
    index_records gauge "Records of committed crawls." one(it.total_urls);
    index_revisits gauge "Revisit records of committed crawls." one(it.dupe_urls);
    index_saved_bytes gauge "Bytes saved by revisits." one(it.conserved_size);
    index_wacz_bytes gauge "Bytes of finished WACZ files." one(it.total_crawl_size);
    index_removed_crawls gauge "Crawls that are counted as removed from the collection." one(it.removed_crawls);
    index_memory_bytes gauge "Memory of the keys of an index, estimated." one(it.memory);
    index_packed gauge "1 if the index is packed." one(u64::from(it.storage == Storage::Packed));
    index_moving gauge "1 if the index is being packed or unpacked, or if that was interrupted."
        one(u64::from(it.storage.is_moving()));
    index_import_progress_ratio gauge "Progress of the running import, 0 to 1." any(it.update_progress);
};

const FRONTIER: &[Of<frontier::Info>] = figures! { frontier::Info, it:
    frontier_groups gauge "Groups of a frontier, by state." vec![
        ("waiting", it.groups_waiting as f64),
        ("ready", it.groups_ready as f64),
        ("busy", it.groups_busy as f64),
        ("idle", it.groups_idle as f64),
        ("gated", it.groups_gated as f64),
    ];
    frontier_due_groups gauge "Groups that can be leased now." one(it.due);
    frontier_oldest_due_seconds gauge "Time since the group that has been due for longest became due."
        vec![("", it.oldest_ready_ms as f64 / 1000.0)];
    frontier_next_due_timestamp_seconds gauge "Earliest time at which a group may be leased, as a Unix time; missing if nothing can be leased without a further command."
        any(u64::try_from(it.next_due_ms).ok().map(|ms| ms as f64 / 1000.0));
    frontier_known_urls gauge "URLs that the frontier remembers." one(it.known);
    frontier_uris gauge "URIs queued." one(it.uris);
    frontier_executions gauge "Executions with queued URIs." one(it.executions);
    frontier_waiters gauge "Clients that wait for a lease." one(it.waiters);
    frontier_leases_total counter "Leases granted." one(it.leases);
    frontier_leases_per_second gauge "Leases per second, over the last nine seconds." one(it.rate_leases);
    frontier_releases_total counter "Leases released." one(it.releases);
    frontier_expired_total counter "Leases that expired." one(it.expired);
    frontier_expired_reports gauge "Reports of expired leases that no client has read." one(it.expired_reports);
    frontier_reports_dropped_total counter "Reports of expired leases that were dropped." one(it.reports_dropped);
    frontier_paused gauge "1 if the whole frontier is paused." one(u64::from(it.paused == "all"));
    frontier_packed gauge "1 if the frontier is packed." one(u64::from(it.storage == Storage::Packed));
    frontier_moving gauge "1 if the frontier is being packed or unpacked, or if that was interrupted."
        one(u64::from(it.storage.is_moving()));
    frontier_smallest_margin_seconds gauge "Minimum difference between an observed pause and the requested one; negative if a worker contacted a host before its pause was over."
        any(it.smallest_margin_ms.map(|ms| ms as f64 / 1000.0));
};

const SPACE: &[Of<tags::Info>] = figures! { tags::Info, it:
    space_ids gauge "Ids with tags, by kind." by_kind([it.record_ids, it.file_ids, it.tag_ids]);
    space_edges gauge "Tags of ids, by kind." by_kind([it.record_edges, it.file_edges, it.tag_edges]);
    space_staged_ids gauge "Ids in staged copies, by kind."
        by_kind([it.staged_record_ids, it.staged_file_ids, it.staged_tag_ids]);
    space_tags gauge "Distinct tags of a tag space." one(it.tags);
    space_rules gauge "Rules of a tag space." one(it.rules);
    space_points gauge "Access points of a tag space." one(it.points);
    space_memory_bytes gauge "Memory of a tag space." one(it.memory);
};

fn by_kind([records, files, tags]: [u64; 3]) -> Vec<(&'static str, f64)> {
    vec![
        ("record", records as f64),
        ("file", files as f64),
        ("tag", tags as f64),
    ]
}

/// A data set and its figures, with the name of its server. A sharded index has no single server.
type Dataset<'a, T> = (Option<&'a str>, &'a Name, &'a T);

/// Returns the data sets of one kind of all servers.
fn all<'a, T>(
    seen: &[(&'a str, &'a Observation)],
    of: fn(&Observation) -> &Seen<T>,
) -> Vec<Dataset<'a, T>> {
    let all = seen.iter().flat_map(|(server, seen)| {
        let figures = of(seen).figures.iter();
        figures.map(|(name, figures)| (Some(*server), name, figures))
    });
    all.collect()
}

/// Writes the metrics of data sets of one kind.
fn each<T>(out: &mut Metrics, figures: &[Of<T>], kind: &'static str, datasets: &[Dataset<'_, T>]) {
    for (name, type_, help, values) in figures {
        out.family(name, type_, help);
        let by = if kind == "space" { "kind" } else { "state" };
        for (server, dataset, figures) in datasets {
            let (db, text) = (dataset.db.to_string(), dataset.text());
            for (value, n) in values(figures) {
                let server = server.map(|server| ("server", server));
                let mut labels: Vec<(&str, &str)> = server.into_iter().collect();
                labels.extend([("db", &db[..]), (kind, &text)]);
                if !value.is_empty() {
                    labels.push((by, value));
                }
                out.sample(name, &labels, n);
            }
        }
    }
}

/// Writes the progress of jobs. If several jobs in a data set do the same work, writes only the first.
fn jobs(out: &mut Metrics, seen: &[(&str, &Observation)]) {
    out.family(
        "job_progress_ratio",
        GAUGE,
        "Progress of a job (COMMIT, REMOVE, PACK and others), 0 to 1.",
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
