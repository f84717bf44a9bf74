//! Test stage: an archive with the metadata files of some jobs, and caches over it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crawlspace_index::zipnum::Blocks;
use crawlspace_jobs::{Entry, Index, IndexCaches, IndexKind, JobSet, Options, Work};
use redis_tests::harvest;
use redis_tests::metadata::{Form, Metadata, write_metadata};
use tempfile::TempDir;

/// Seed of the archive's contents.
const SEED: u64 = 11;

/// Temporary folders, removed when dropped.
pub struct Stage {
    folder: TempDir,
}

impl Stage {
    /// Creates a stage without jobs.
    pub fn new() -> Stage {
        let folder = folder();
        fs::create_dir(folder.path().join("archive")).expect("a folder");
        Stage { folder }
    }

    /// Creates a stage with jobs of this number of lines.
    pub fn with_jobs(jobs: &str, lines: u64) -> Stage {
        let stage = Stage::new();
        for (job, form) in set(jobs).iter().zip(Form::ALL.iter().cycle()) {
            stage.add(job.0, lines, *form);
        }
        stage
    }

    /// Adds the metadata file of a job to the archive.
    pub fn add(&self, job: u64, lines: u64, form: Form) -> PathBuf {
        let (crawl_log, cdx) = self.logs(job, lines);
        self.add_logs(job, &crawl_log, Some(&cdx), form)
    }

    /// Adds a metadata file of a job with these logs to the archive.
    pub fn add_logs(&self, job: u64, crawl_log: &[u8], cdx: Option<&[u8]>, form: Form) -> PathBuf {
        let path = self
            .archive()
            .join(format!("{job}-metadata-1{}", form.ending()));
        write_metadata(&path, job, 1, crawl_log, cdx, form);
        path
    }

    /// Returns the logs of a job.
    pub fn logs(&self, job: u64, lines: u64) -> (Vec<u8>, Vec<u8>) {
        harvest::logs(job, SEED, lines)
    }

    /// Returns the folder of metadata files.
    pub fn archive(&self) -> PathBuf {
        self.path().join("archive")
    }

    /// Returns the folder of the caches.
    pub fn cache_dir(&self) -> PathBuf {
        self.path().join("cache")
    }

    /// Returns the folder that contains both.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Returns options for caches over the archive.
    pub fn options(&self) -> Options {
        self.options_in(&self.cache_dir())
    }

    /// Returns options for caches in a folder.
    pub fn options_in(&self, cache_dir: &Path) -> Options {
        Options {
            cache_dir: cache_dir.to_owned(),
            metadata: vec![self.archive().display().to_string()],
            ..Options::default()
        }
    }

    /// Opens caches over the archive.
    pub fn caches(&self) -> IndexCaches {
        self.caches_in(&self.cache_dir())
    }

    /// Opens caches in a folder.
    pub fn caches_in(&self, cache_dir: &Path) -> IndexCaches {
        IndexCaches::open(self.options_in(cache_dir)).expect("caches")
    }
}

/// Gets an index.
pub fn get(caches: &IndexCaches, kind: IndexKind, jobs: &str) -> Index {
    let jobs = set(jobs);
    Ask { kind, jobs }.get(caches)
}

/// Returns the lines of an index in one of its orders.
pub fn lines(entry: &Entry, stem: &str) -> Vec<String> {
    let mut blocks = Blocks::open(entry.path(), stem).expect("blocks");
    let mut lines = Vec::new();
    while let Some(block) = blocks.next().expect("a block") {
        let text = std::str::from_utf8(block).expect("text");
        lines.extend(text.lines().map(str::to_owned));
    }
    lines
}

/// Returns the names of the entries in a folder, without the files that belong to an entry.
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

/// Returns a count of an index, 0 if there is none.
pub fn count(index: &Index, what: &str) -> u64 {
    let counts = &index.entry.manifest().counts;
    counts.get(what).copied().unwrap_or(0)
}

/// Writes a metadata file with these records, given as URL, media type and text.
pub fn write_records(path: &Path, records: &[(&str, &str, &[u8])]) {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut file = Metadata::begin(Vec::new(), &name, Form::WarcGz).expect("memory");
    for (url, media_type, text) in records {
        file.record(url, media_type, text).expect("memory");
    }
    fs::write(path, file.finish().expect("memory")).expect("a file");
}

/// Returns the members of a row's JSON object.
pub fn members(line: &str) -> BTreeMap<String, String> {
    let json = line.splitn(3, ' ').nth(2).expect("JSON");
    serde_json::from_str(json).expect(json)
}

/// Creates a temporary folder, in memory if possible: the tests do not simulate power failures, so waiting for a disk
/// has no benefit.
pub fn folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    tempfile::tempdir_in(memory)
        .or_else(|_| tempfile::tempdir())
        .expect("a folder")
}

/// Parses a set of jobs.
pub fn set(jobs: &str) -> JobSet {
    jobs.parse().expect(jobs)
}

/// A request: a kind of index, and jobs.
#[derive(Clone, Debug)]
pub struct Ask {
    pub kind: IndexKind,
    pub jobs: JobSet,
}

/// Parses requests such as `full 1-4;cdx 2,3`.
pub fn asks(text: &str) -> Vec<Ask> {
    let ask = |text: &str| {
        let (kind, jobs) = text.split_once(' ').expect(text);
        Ask {
            kind: kind.parse().expect(text),
            jobs: set(jobs),
        }
    };
    text.split(';').map(ask).collect()
}

impl Ask {
    /// Gets the index.
    pub fn get(&self, caches: &IndexCaches) -> Index {
        let index = caches.get_index(self.kind, &self.jobs, &Work::default());
        index.unwrap_or_else(|error| panic!("{self:?}: {error}"))
    }
}
