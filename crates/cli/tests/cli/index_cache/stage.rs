//! Jobs with metadata files, a folder of caches, and the program.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use redis_tests::Program;
use redis_tests::harvest;
use redis_tests::metadata::{Form, write_metadata};
use serde_json::Value;
use tempfile::TempDir;

/// Lines of a job's crawl.log.
pub const LINES: u64 = 400;

/// An archive of metadata files, and a folder for caches.
pub struct Stage {
    folder: TempDir,
}

impl Stage {
    /// With these jobs.
    pub fn of(jobs: impl IntoIterator<Item = u64>) -> Stage {
        let folder = tempfile::tempdir().expect("a temporary directory");
        std::fs::create_dir(folder.path().join("metadata")).expect("a folder");
        let stage = Stage { folder };
        for job in jobs {
            stage.add(job, LINES);
        }
        stage
    }

    /// One more job.
    pub fn add(&self, job: u64, lines: u64) {
        let (crawl_log, cdx) = harvest::logs(job, 4711, lines);
        self.add_of(job, &crawl_log, Some(&cdx));
    }

    /// One more job, with these lines.
    pub fn add_of(&self, job: u64, crawl_log: &[u8], cdx: Option<&[u8]>) {
        write_metadata(&self.metadata_of(job), job, 3, crawl_log, cdx, Form::WarcGz);
    }

    /// The metadata file of a job.
    pub fn metadata_of(&self, job: u64) -> PathBuf {
        self.metadata().join(format!("{job}-metadata-1.warc.gz"))
    }

    pub fn metadata(&self) -> PathBuf {
        self.folder.path().join("metadata")
    }

    pub fn cache(&self) -> PathBuf {
        self.folder.path().join("cache")
    }

    /// The folder of an entry.
    pub fn entry(&self, cache: &str, name: &str) -> PathBuf {
        self.cache().join(cache).join(name)
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// `crawlspace index <words>`, with `--cache-dir`.
    pub fn index(&self, words: &[&str]) -> Command {
        let mut program = program();
        program.arg("index").args(words);
        program.arg("--cache-dir").arg(self.cache());
        program
    }

    /// `crawlspace index get --kind … --jobs … --metadata …`, with `--cache-dir` and more words.
    pub fn get(&self, kind: &str, jobs: &str, words: &[&str]) -> Command {
        let mut program = self.index(&["get", "--kind", kind, "--jobs", jobs]);
        program.arg("--metadata").arg(self.metadata()).args(words);
        program
    }
}

/// The program, in an environment without settings.
pub fn program() -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_crawlspace"));
    for name in [
        "CRAWLSPACE_REDIS",
        "CRAWLSPACE_PREFIX",
        "CRAWLSPACE_CACHE_DIR",
    ] {
        program.env_remove(name);
    }
    program.stdin(Stdio::null());
    program
}

/// What came of a run.
#[derive(Debug)]
pub struct Outcome {
    pub status: i32,
    pub out: String,
    pub errors: String,
}

impl Outcome {
    /// The lines of JSON on standard output.
    #[track_caller]
    pub fn json(&self) -> Vec<Value> {
        let read = |line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {self:?}"));
        self.out.lines().map(read).collect()
    }

    /// The one line of JSON.
    #[track_caller]
    pub fn object(&self) -> Value {
        let mut lines = self.json();
        assert_eq!(lines.len(), 1, "{self:?}");
        lines.remove(0)
    }
}

/// Runs it to its end.
pub fn run(command: Command) -> Outcome {
    let ended = Program::start(command).end();
    Outcome {
        status: ended.status.code().unwrap_or(-1),
        out: ended.out,
        errors: ended.errors,
    }
}

/// Runs it to its end, with this exit status.
#[track_caller]
pub fn ends(command: Command, status: i32) -> Outcome {
    let outcome = run(command);
    assert_eq!(outcome.status, status, "{outcome:?}");
    outcome
}

/// An open file description lock on a file, as another thread or process would have it.
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
