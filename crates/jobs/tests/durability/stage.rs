//! An archive with the metadata files of some jobs, and caches over it.

use std::fs;
use std::path::{Path, PathBuf};

use crawlspace_jobs::{Index, IndexCaches, IndexKind, JobSet, Options, Work};
use redis_tests::harvest;
use redis_tests::metadata::{Form, write_metadata};
use tempfile::TempDir;

/// What makes one archive another one.
const SEED: u64 = 11;

/// Folders that go away with it.
pub struct Stage {
    folder: TempDir,
}

impl Stage {
    /// Without any jobs.
    pub fn new() -> Stage {
        let folder = folder();
        fs::create_dir(folder.path().join("archive")).expect("a folder");
        Stage { folder }
    }

    /// With some jobs, each of so many lines.
    pub fn with_jobs(jobs: &str, lines: u64) -> Stage {
        let stage = Stage::new();
        let forms = Form::ALL.iter().cycle();
        for (job, form) in set(jobs).iter().zip(forms) {
            let (crawl_log, cdx) = harvest::logs(job.0, SEED, lines);
            stage.add(job.0, &crawl_log, Some(&cdx), *form);
        }
        stage
    }

    /// Puts the metadata file of a job into the archive.
    pub fn add(&self, job: u64, crawl_log: &[u8], cdx: Option<&[u8]>, form: Form) -> PathBuf {
        let path = self
            .archive()
            .join(format!("{job}-metadata-1{}", form.ending()));
        write_metadata(&path, job, 1, crawl_log, cdx, form);
        path
    }

    /// The folder of all.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The folder of metadata files.
    pub fn archive(&self) -> PathBuf {
        self.path().join("archive")
    }

    /// A folder of caches.
    pub fn cache_dir(&self) -> PathBuf {
        self.path().join("cache")
    }

    /// How caches in a folder are opened.
    pub fn options(&self, cache_dir: &Path) -> Options {
        Options {
            cache_dir: cache_dir.to_owned(),
            metadata: vec![self.archive().display().to_string()],
            ..Options::default()
        }
    }

    /// Caches in a folder.
    pub fn caches(&self, cache_dir: &Path) -> IndexCaches {
        IndexCaches::open(self.options(cache_dir)).expect("caches")
    }
}

/// A new folder. It is in memory where that is possible: no power fails here, so that nothing is gained by waiting for
/// a disk.
pub fn folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    tempfile::tempdir_in(memory)
        .or_else(|_| tempfile::tempdir())
        .expect("a folder")
}

/// Jobs.
pub fn set(jobs: &str) -> JobSet {
    jobs.parse().expect(jobs)
}

/// What is asked for: a kind of index, and jobs.
#[derive(Clone, Debug)]
pub struct Ask {
    pub kind: IndexKind,
    pub jobs: JobSet,
}

/// `full 1-4;cdx 2,3`.
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
    /// Gets it.
    pub fn get(&self, caches: &IndexCaches) -> Index {
        let index = caches.get_index(self.kind, &self.jobs, &Work::default());
        index.unwrap_or_else(|error| panic!("{self:?}: {error}"))
    }
}
