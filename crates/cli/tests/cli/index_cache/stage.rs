//! Test stage: jobs with metadata files, a cache folder, and the program.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use redis_tests::harvest;
use redis_tests::metadata::{Form, write_metadata};
use tempfile::TempDir;

use crate::tool::tool;

/// Number of lines in a job's crawl.log.
pub const LINES: u64 = 400;

/// An archive of metadata files, and a folder for caches.
pub struct Stage {
    folder: TempDir,
}

impl Stage {
    /// Creates a stage with these jobs.
    pub fn of(jobs: impl IntoIterator<Item = u64>) -> Stage {
        let folder = tempfile::tempdir().expect("a temporary directory");
        std::fs::create_dir(folder.path().join("metadata")).expect("a folder");
        let stage = Stage { folder };
        for job in jobs {
            stage.add(job, LINES);
        }
        stage
    }

    /// Adds a job.
    pub fn add(&self, job: u64, lines: u64) {
        let (crawl_log, cdx) = harvest::logs(job, 4711, lines);
        self.add_of(job, &crawl_log, Some(&cdx));
    }

    /// Adds a job with these lines.
    pub fn add_of(&self, job: u64, crawl_log: &[u8], cdx: Option<&[u8]>) {
        write_metadata(&self.metadata_of(job), job, 3, crawl_log, cdx, Form::WarcGz);
    }

    /// Returns the path of a job's metadata file.
    pub fn metadata_of(&self, job: u64) -> PathBuf {
        self.metadata().join(format!("{job}-metadata-1.warc.gz"))
    }

    pub fn metadata(&self) -> PathBuf {
        self.folder.path().join("metadata")
    }

    pub fn cache(&self) -> PathBuf {
        self.folder.path().join("cache")
    }

    /// Returns the folder of an entry.
    pub fn entry(&self, cache: &str, name: &str) -> PathBuf {
        self.cache().join(cache).join(name)
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the command `crawlspace index <words> --cache-dir …`.
    pub fn index(&self, words: &str) -> Command {
        let cache = self.cache();
        tool(format!("index {words} --cache-dir {}", cache.display()))
    }

    /// Returns the command `crawlspace index get --kind … --jobs … --metadata … <words>`, with
    /// `--cache-dir`.
    pub fn get(&self, kind: &str, jobs: &str, words: &str) -> Command {
        let metadata = self.metadata();
        let metadata = metadata.display();
        self.index(&format!(
            "get --kind {kind} --jobs '{jobs}' --metadata {metadata} {words}"
        ))
    }
}

/// Takes an open file description lock on a file, as another thread or process would hold it.
pub fn lock_as_another_process(path: &Path) -> File {
    use nix::fcntl::{FcntlArg, fcntl};
    use nix::libc;
    let file = File::options().read(true).write(true).open(path).unwrap();
    let lock = libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    };
    fcntl(&file, FcntlArg::F_OFD_SETLK(&lock)).unwrap();
    file
}
