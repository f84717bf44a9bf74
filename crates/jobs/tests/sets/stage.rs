//! An archive with the metadata files of some jobs, and caches over it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crawlspace_archive::zipnum::Blocks;
use crawlspace_jobs::{Entry, Index, IndexCaches, IndexKind, JobSet, Options, Work};
use redis_tests::harvest;
use redis_tests::metadata::{Form, write_metadata};
use tempfile::TempDir;

/// Folders that go away with it.
pub struct Stage {
    folder: TempDir,
    seed: u64,
}

impl Stage {
    /// Without any jobs.
    pub fn new() -> Stage {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join("archive")).expect("a folder");
        Stage { folder, seed: 1 }
    }

    /// With some jobs, each of so many lines.
    pub fn with_jobs(jobs: &str, lines: u64) -> Stage {
        let stage = Stage::new();
        for (job, form) in jobs
            .parse::<JobSet>()
            .expect(jobs)
            .iter()
            .zip(Form::ALL.iter().cycle())
        {
            stage.add(job.0, lines, *form);
        }
        stage
    }

    /// Puts the metadata file of a job into the archive.
    pub fn add(&self, job: u64, lines: u64, form: Form) -> PathBuf {
        let (crawl_log, cdx) = harvest::logs(job, self.seed, lines);
        self.add_logs(job, &crawl_log, Some(&cdx), form)
    }

    /// Puts a metadata file of a job with these logs into the archive.
    pub fn add_logs(&self, job: u64, crawl_log: &[u8], cdx: Option<&[u8]>, form: Form) -> PathBuf {
        let path = self
            .archive()
            .join(format!("{job}-metadata-1{}", form.ending()));
        write_metadata(&path, job, 1, crawl_log, cdx, form);
        path
    }

    /// What was logged of a job.
    pub fn logs(&self, job: u64, lines: u64) -> (Vec<u8>, Vec<u8>) {
        harvest::logs(job, self.seed, lines)
    }

    /// The folder of metadata files.
    pub fn archive(&self) -> PathBuf {
        self.folder.path().join("archive")
    }

    /// The folder of the caches.
    pub fn cache_dir(&self) -> PathBuf {
        self.folder.path().join("cache")
    }

    /// How caches over the archive are opened.
    pub fn options(&self) -> Options {
        Options {
            cache_dir: self.cache_dir(),
            metadata: vec![self.archive().display().to_string()],
            ..Options::default()
        }
    }

    /// Caches over the archive.
    pub fn caches(&self) -> IndexCaches {
        IndexCaches::open(self.options()).expect("caches")
    }
}

/// Gets an index.
pub fn get(caches: &IndexCaches, kind: IndexKind, jobs: &str) -> Index {
    let jobs = jobs.parse().expect(jobs);
    caches
        .get_index(kind, &jobs, &Work::default())
        .expect("an index")
}

/// The lines of an index in one of its orders.
pub fn lines(entry: &Entry, stem: &str) -> Vec<String> {
    let mut blocks = Blocks::open(entry.path(), stem).expect("blocks");
    let mut lines = Vec::new();
    while let Some(block) = blocks.next().expect("a block") {
        let text = std::str::from_utf8(block).expect("text");
        lines.extend(text.lines().map(str::to_owned));
    }
    lines
}

/// Names of what is in a folder, without what stands beside entries.
pub fn entries(folder: &Path) -> Vec<String> {
    let files = fs::read_dir(folder).expect("a folder");
    let names = files.map(|file| {
        file.expect("a file")
            .file_name()
            .into_string()
            .expect("text")
    });
    let beside = [".working", ".seen", ".manifest.json", ".owner"];
    let mut names: Vec<_> = names
        .filter(|name| !beside.iter().any(|end| name.ends_with(end)))
        .collect();
    names.sort();
    names
}

/// The members of the JSON of a row.
pub fn members(line: &str) -> BTreeMap<String, String> {
    let json = line.splitn(3, ' ').nth(2).expect("JSON");
    serde_json::from_str(json).expect(json)
}
