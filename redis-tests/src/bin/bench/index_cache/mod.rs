//! The index cache: X1 to X3.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use redis_tests::harvest;
use redis_tests::metadata::{Form, write_metadata};
use serde_json::Value;
use tempfile::TempDir;

use crate::report::{Findings, Goal, Row, Section, say};
use crate::series::{Series, grouped, time};
use crate::{Plan, tool};

/// What can be measured alone.
pub const PIECES: [&str; 3] = ["X1", "X2", "X3"];

/// Jobs of the set that one more is added to.
const JOBS: u64 = 1000;

/// Measures the index cache.
pub fn measure(plan: &Plan) -> Section {
    let mut found = Findings::default();
    let folder = tempfile::tempdir().expect("a folder");
    let (one, many) = (One::new(plan, folder.path()), Many::new(plan, &folder));
    if plan.wants(&["X1", "X2"]) {
        found.extend(one.measure(plan));
    }
    if plan.wants(&["X1", "X3"]) {
        found.extend(many.measure(plan));
    }
    Section {
        title: "Index cache",
        method: method(plan, &one),
        rows: found.rows,
        analysis: found.analysis,
    }
}

fn method(plan: &Plan, one: &One) -> String {
    format!(
        "Made-up harvests in the formats of Heritrix 3 and NetarchiveSuite: a job of {} lines of crawl.log ({:.0} MB) with \
         its CDX in a metadata file of {:.0} MB (WARC, gzipped), and {JOBS} jobs of {} lines each; seed {}. Ours is the \
         library in release build, called by the program `crates/jobs/examples/index_cache.rs`, which is started anew for each \
         figure and timed inside. Files are in the page cache, and everything ends with `fsync`; `sort` writes its output \
         without that.",
        grouped(one.lines),
        one.crawl_log_bytes as f64 / 1e6,
        one.metadata_bytes as f64 / 1e6,
        grouped(per_job(plan)),
        plan.seed,
    )
}

fn per_job(plan: &Plan) -> u64 {
    plan.scaled(1000).max(10)
}

/// What the program says of getting an index.
struct Got {
    seconds: f64,
    /// Median and 99th percentile of hits, in seconds.
    hit: [f64; 2],
    entry: PathBuf,
}

/// Gets an index, and then hits.
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

fn hit_row(what: String, medians: Series) -> Row {
    Row {
        id: "X1",
        what,
        against: String::new(),
        ours: time(medians.median()),
        theirs: String::new(),
        result: Series(medians.0.iter().map(|seconds| seconds * 1e6).collect()),
        goal: Goal::AtMost(50.0, "µs"),
    }
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
        say("index cache: making up a large job");
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

    /// How long `sort` takes for the same lines.
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
        for rep in 1..=plan.reps {
            say(&format!("index cache: a cold index ({rep}/{})", plan.reps));
            let cache = tempfile::tempdir_in(&self.scratch).expect("a folder");
            by_url.0.push(self.sort(&["-k", "4,4"]));
            plain.0.push(self.sort(&[]));
            let got = get(&self.archive, cache.path(), "1", plan.scaled(200_000));
            ours.0.push(got.seconds);
            hits.0.push(got.hit[0]);
            slow.0.push(got.hit[1]);
        }
        let mut found = Findings::default();
        found.rows.push(hit_row(
            format!("hit, a job of {} lines", grouped(self.lines)),
            hits.clone(),
        ));
        for (name, theirs) in [
            ("`sort -k 4,4`, by URL", &by_url),
            ("`sort`, whole lines", &plain),
        ] {
            found.rows.push(Row {
                id: "X2",
                what: format!("dedup index of {} lines, cold", grouped(self.lines)),
                against: format!("GNU {name}"),
                ours: time(ours.median()),
                theirs: time(theirs.median()),
                result: ours.over(theirs),
                goal: Goal::AtMost(3.0, "× its time"),
            });
        }
        found.note(
            "X1.",
            format!(
                "A hit in a process that has the caches open: the name of the set is made, the manifest opened and marked as in \
                 use, and the file system asked whether anything changed since all bytes were compared. The 99th percentile is \
                 {}.",
                time(slow.median())
            ),
            &["make bench ONLY=X1"],
        );
        found.note(
            "X2.",
            "From the gzipped metadata file to an entry on the disk: unpacking, taking the lines apart, crawl.log and CDX \
             sorted and kept each, merged into rows, these sorted by urlkey and by digest, and compressed in both orders. \
             NetarchiveSuite sorts the crawl.log of each job by URL before it begins with that, hence the first peer. \
             Ours uses both processors where it can, and so does `sort`."
                .to_owned(),
            &["make bench ONLY=X2"],
        );
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
        if plan.wants(&["X1", "X3"]) {
            say("index cache: making up many jobs");
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
        for rep in 1..=plan.reps {
            say(&format!("index cache: one more job ({rep}/{})", plan.reps));
            let fresh = tempfile::tempdir_in(self.folder).expect("a folder");
            let added = JOBS + rep as u64;
            let jobs = match rep {
                1 => format!("1-{added}"),
                _ => format!("1-{JOBS},{added}"),
            };
            scratch
                .0
                .push(get(&self.archive, fresh.path(), &jobs, 0).seconds);
            let got = get(&self.archive, cache.path(), &jobs, plan.scaled(100_000));
            more.0.push(got.seconds);
            hits.0.push(got.hit[0]);
            // With all jobs cached, but no set of them.
            fs::remove_dir_all(&got.entry).expect("an entry");
            for entry in fs::read_dir(fresh.path().join("dedupcrawllogindex")).expect("a folder") {
                let path = entry.expect("an entry").path();
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                if name.starts_with("1-2-3-4-") && path.is_dir() {
                    fs::remove_dir_all(&path).expect("an entry");
                }
            }
            merged
                .0
                .push(get(&self.archive, fresh.path(), &jobs, 0).seconds);
        }
        let mut found = Findings::default();
        let what = format!("{} jobs, all cached, and one more", grouped(JOBS));
        found.rows.push(hit_row(
            format!("hit, a set of {} jobs", grouped(JOBS + 1)),
            hits,
        ));
        found.rows.push(Row {
            id: "X3",
            what: what.clone(),
            against: "building all of it".into(),
            ours: time(more.median()),
            theirs: time(scratch.median()),
            result: scratch.over(&more),
            goal: Goal::AtLeast(20.0),
        });
        found.rows.push(Row {
            id: "",
            what: "the same merged from the jobs alone".into(),
            against: "building all of it".into(),
            ours: time(merged.median()),
            theirs: time(scratch.median()),
            result: scratch.over(&merged),
            goal: Goal::Known,
        });
        found.note(
            "X3.",
            "One more job is one more segment, which is merged with the set that is there: blocks that nothing comes into are \
             copied as they are. Building all of it reads every metadata file, and puts three entries of each job on the \
             disk, which is what most of the time goes into. Between the two: all jobs are cached, and no set of them is."
                .to_owned(),
            &["make bench ONLY=X3"],
        );
        found
    }
}
