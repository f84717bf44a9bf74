//! The index cache: X1 to X3.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use redis_tests::harvest;
use redis_tests::metadata::{Form, write_metadata};
use serde_json::Value;
use tempfile::TempDir;

use crate::report::{Findings, Goal, Section, note, say, table};
use crate::series::{Series, grouped, time};
use crate::targets;
use crate::{Plan, tool};

/// Number of jobs of the set to which one job is added.
const JOBS: u64 = 1000;

/// Measures the index cache.
pub fn measure(plan: &Plan) -> Section {
    let folder = tempfile::tempdir().expect("a folder");
    let (one, many) = (One::new(plan, folder.path()), Many::new(plan, &folder));
    let found = plan.findings(&[
        ("X1 X2", &|| one.measure(plan)),
        ("X1 X3", &|| many.measure(plan)),
    ]);
    Section {
        title: "Index cache",
        method: format!(
            include_str!("method.md"),
            lines = grouped(one.lines),
            log = one.crawl_log_bytes as f64 / 1e6,
            metadata = one.metadata_bytes as f64 / 1e6,
            jobs = JOBS,
            each = grouped(per_job(plan)),
            seed = plan.seed,
        ),
        found,
    }
}

fn per_job(plan: &Plan) -> u64 {
    plan.scaled(1000).max(10)
}

/// Output of the program for an index.
struct Got {
    seconds: f64,
    /// Median and 99th percentile of the time of a hit, in seconds.
    hit: [f64; 2],
    entry: PathBuf,
}

/// Gets an index once, and then measures cache hits.
fn get(archive: &Path, cache: &Path, jobs: &str, hits: u64) -> Got {
    let program = tool().with_file_name("examples").join("index_cache");
    let output = Command::new(&program)
        .args([archive, cache])
        .args(["dedup", jobs, &hits.to_string()])
        .output()
        .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let told: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(told["jobs"], jobs, "{told}");
    assert_eq!(told["missing"], 0, "{told}");
    let micros = |at: usize| told["hit_us"][at].as_f64().map_or(0.0, |us| us / 1e6);
    Got {
        seconds: told["seconds"].as_f64().expect("seconds"),
        hit: [micros(0), micros(1)],
        entry: told["entry"].as_str().expect("a path").into(),
    }
}

fn hit_row(found: &mut Findings, what: String, medians: &Series) {
    let micros: Series = medians.0.iter().map(|seconds| seconds * 1e6).collect();
    table! { found; "X1", what, "", medians.shown(time), "", micros, targets::HIT; }
}

/// One large job.
struct One {
    archive: PathBuf,
    crawl_log: PathBuf,
    scratch: PathBuf,
    lines: u64,
    crawl_log_bytes: u64,
    metadata_bytes: u64,
}

impl One {
    fn new(plan: &Plan, folder: &Path) -> One {
        say("index cache: generating a large job");
        let lines = plan.scaled(1_000_000);
        let (crawl_log, cdx) = harvest::logs(1, plan.seed, lines);
        let archive = folder.join("one");
        fs::create_dir(&archive).expect("a folder");
        let metadata = archive.join("1-metadata-1.warc.gz");
        write_metadata(&metadata, 1, 1, &crawl_log, Some(&cdx), Form::WarcGz);
        let path = folder.join("crawl.log");
        fs::write(&path, &crawl_log).expect("a file");
        One {
            metadata_bytes: fs::metadata(&metadata).expect("a file").len(),
            crawl_log_bytes: crawl_log.len() as u64,
            crawl_log: path,
            scratch: folder.to_owned(),
            archive,
            lines,
        }
    }

    /// Returns the time that `sort` takes for the same lines.
    fn sort(&self, by: &[&str]) -> f64 {
        let out = self.scratch.join("sorted");
        let begun = Instant::now();
        let status = Command::new("sort")
            .env("LC_ALL", "C")
            .args(by)
            .arg("-o")
            .args([&out, &self.crawl_log])
            .status()
            .expect("sort");
        let seconds = begun.elapsed().as_secs_f64();
        assert!(status.success());
        fs::remove_file(out).expect("what sort wrote");
        seconds
    }

    fn measure(&self, plan: &Plan) -> Findings {
        let [mut ours, mut by_url, mut plain, mut hits, mut slow] =
            [const { Series(Vec::new()) }; 5];
        for _ in plan.repeat("index cache: a cold index") {
            let cache = tempfile::tempdir_in(&self.scratch).expect("a folder");
            by_url.push(self.sort(&["-k", "4,4"]));
            plain.push(self.sort(&[]));
            let got = get(&self.archive, cache.path(), "1", plan.scaled(200_000));
            ours.push(got.seconds);
            hits.push(got.hit[0]);
            slow.push(got.hit[1]);
        }
        let mut found = Findings::default();
        let lines = grouped(self.lines);
        hit_row(&mut found, format!("hit, a job of {lines} lines"), &hits);
        let what = format!("dedup index of {lines} lines, cold");
        let goal = targets::COLD;
        table! { found;
            "X2", &what, "GNU `sort -k 4,4`, by URL", ours.shown(time), by_url.shown(time), ours.over(&by_url), goal;
            "X2", what, "GNU `sort`, whole lines", ours.shown(time), plain.shown(time), ours.over(&plain), goal;
        }
        note!(found, "hit.md"; slow = slow.shown(time));
        note!(found, "cold.md");
        found
    }
}

/// Many small jobs.
struct Many<'f> {
    archive: PathBuf,
    folder: &'f TempDir,
}

impl Many<'_> {
    fn new<'f>(plan: &Plan, folder: &'f TempDir) -> Many<'f> {
        let archive = folder.path().join("many");
        fs::create_dir(&archive).expect("a folder");
        if plan.wants("X1 X3") {
            say("index cache: generating many jobs");
            for job in 1..=JOBS + plan.reps as u64 {
                let (crawl_log, cdx) = harvest::logs(job, plan.seed, per_job(plan));
                let path = archive.join(format!("{job}-metadata-1.warc.gz"));
                write_metadata(&path, job, 1, &crawl_log, Some(&cdx), Form::WarcGz);
            }
        }
        Many { archive, folder }
    }

    fn measure(&self, plan: &Plan) -> Findings {
        let [mut scratch, mut merged, mut more, mut hits] = [const { Series(Vec::new()) }; 4];
        let cache = tempfile::tempdir_in(self.folder).expect("a folder");
        get(&self.archive, cache.path(), &format!("1-{JOBS}"), 0);
        for rep in plan.repeat("index cache: one more job") {
            let fresh = tempfile::tempdir_in(self.folder).expect("a folder");
            let added = JOBS + rep as u64;
            let jobs = match rep {
                1 => format!("1-{added}"),
                _ => format!("1-{JOBS},{added}"),
            };
            scratch.push(get(&self.archive, fresh.path(), &jobs, 0).seconds);
            let got = get(&self.archive, cache.path(), &jobs, plan.scaled(100_000));
            more.push(got.seconds);
            hits.push(got.hit[0]);
            // All jobs are cached, but the index of the set is not.
            fs::remove_dir_all(&got.entry).expect("an entry");
            for entry in fs::read_dir(fresh.path().join("dedupcrawllogindex")).expect("a folder") {
                let path = entry.expect("an entry").path();
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                if name.starts_with("1-2-3-4-") && path.is_dir() {
                    fs::remove_dir_all(&path).expect("an entry");
                }
            }
            merged.push(get(&self.archive, fresh.path(), &jobs, 0).seconds);
        }
        let mut found = Findings::default();
        hit_row(
            &mut found,
            format!("hit, a set of {} jobs", grouped(JOBS + 1)),
            &hits,
        );
        let all = "building all of it";
        table! { found;
            "X3", format!("{} jobs, all cached, and one more", grouped(JOBS)), all,
                more.shown(time), scratch.shown(time), scratch.over(&more), targets::ONE_MORE;
            "", "the same merged from the jobs alone", all,
                merged.shown(time), scratch.shown(time), scratch.over(&merged), Goal::Known;
        }
        note!(found, "more.md");
        found
    }
}
