//! Child processes: this program again, controlled by environment variables.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::thread;

use crawlspace_jobs::{IndexCaches, Options};
use redis_tests::{Rng, with};

use crate::durability::state::checksum;
use crate::durability::{eviction, full_disk};
use crate::stage::{Stage, asks};

const ROLE: &str = "CRAWLSPACE_TESTS_ROLE";
const CACHE: &str = "CRAWLSPACE_TESTS_CACHE";
const ARCHIVE: &str = "CRAWLSPACE_TESTS_ARCHIVE";
const ASKS: &str = "CRAWLSPACE_TESTS_ASKS";
const THREADS: &str = "CRAWLSPACE_TESTS_THREADS";
const MEMORY: &str = "CRAWLSPACE_TESTS_MEMORY";
const SEED: &str = "CRAWLSPACE_TESTS_SEED";
const DIES_AT: &str = "CRAWLSPACE_TESTS_DIES_AT";
/// Prefix of the lines for the parent process, because the test runner also prints lines.
const MARK: &str = "@ ";

/// Task of a child process.
pub struct Told {
    pub cache_dir: PathBuf,
    pub asks: String,
    pub options: Options,
    pub threads: usize,
    pub seed: u64,
    /// Size in bytes at which writing to a file kills the process.
    dies_at: Option<u64>,
}

#[test]
#[ignore = "the other tests start it as a process of its own"]
fn process() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let told = told();
    match role.as_str() {
        "get" => get(&told),
        "use" => eviction::use_entries(&told),
        "hold" => eviction::hold(&told),
        "limited" => full_disk::limited(&told),
        "full" => full_disk::full(&told),
        "read-only" => full_disk::read_only(&told),
        "unreadable" => full_disk::unreadable(&told),
        "descriptors" => full_disk::few_descriptors(&told),
        role => panic!("{role}"),
    }
    say("done");
}

fn told() -> Told {
    let of = |name: &str| std::env::var(name).unwrap_or_default();
    let cache_dir = PathBuf::from(of(CACHE));
    let mut options = with!(Options, cache_dir: cache_dir.clone(), metadata: vec![of(ARCHIVE)]);
    if let Ok(memory) = of(MEMORY).parse() {
        options.memory = memory;
    }
    Told {
        cache_dir,
        asks: of(ASKS),
        options,
        threads: of(THREADS).parse().unwrap_or(1),
        seed: of(SEED).parse().unwrap_or(0),
        dies_at: of(DIES_AT).parse().ok(),
    }
}

impl Told {
    /// Opens the caches with the given options.
    pub fn caches(&self) -> IndexCaches {
        IndexCaches::open(self.options.clone()).expect("caches")
    }
}

/// Sends a line to the parent process.
pub fn say(what: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\n{MARK}{what}").expect("the parent listens");
    out.flush().expect("the parent listens");
}

/// Waits for the parent's command.
pub fn wait_for_go() {
    say("ready");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).expect("a line");
    assert_eq!(line, "go\n");
}

/// Requests all entries on several threads, each in its own order, all through the same caches.
fn get(told: &Told) {
    let caches = told.caches();
    wait_for_go();
    if let Some(bytes) = told.dies_at {
        full_disk::die_at(bytes);
    }
    thread::scope(|scope| {
        for thread in 0..told.threads {
            let caches = &caches;
            scope.spawn(move || {
                let mut asks = asks(&told.asks);
                if told.threads > 1 {
                    Rng::seeded(told.seed ^ thread as u64).shuffle(&mut asks);
                }
                for ask in asks {
                    let index = ask.get(caches);
                    assert_eq!((&index.found, index.missing.len()), (&ask.jobs, 0));
                    let name = index.entry.path().file_name().unwrap_or_default();
                    let name = name.to_string_lossy();
                    let sum = checksum(index.entry.path(), ask.kind.form());
                    say(&format!("got {}/{name} {sum}", ask.kind.folder()));
                }
            });
        }
    });
    let figures = caches.figures();
    say(&format!(
        "figures {} {} {}",
        figures.builds, figures.failures, figures.damaged
    ));
}

/// A process to be started.
pub struct Process {
    command: Command,
}

impl Process {
    /// Prepares a process with this role, which uses caches in a folder over the archive of a stage.
    pub fn new(role: &str, stage: &Stage, cache_dir: &Path, asks: &str) -> Process {
        let program = std::env::current_exe().expect("this program");
        Process {
            command: Process::command(Command::new(program), role, stage, cache_dir, asks),
        }
    }

    /// Prepares a process that starts after a shell script ran as root, in private mount and user namespaces that end
    /// with the process. `$CRAWLSPACE_TESTS_CACHE` tells the script the folder of the caches.
    pub fn behind(
        script: &str,
        role: &str,
        stage: &Stage,
        cache_dir: &Path,
        asks: &str,
    ) -> Process {
        let program = std::env::current_exe().expect("this program");
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c"]);
        command
            .arg(format!("{script} && exec \"$0\" \"$@\""))
            .arg(program);
        Process {
            command: Process::command(command, role, stage, cache_dir, asks),
        }
    }

    fn command(
        mut command: Command,
        role: &str,
        stage: &Stage,
        cache_dir: &Path,
        asks: &str,
    ) -> Command {
        command
            .args(["--ignored", "--exact", "--nocapture"])
            .arg("durability::processes::process")
            .env(ROLE, role)
            .env(CACHE, cache_dir)
            .env(ARCHIVE, stage.archive())
            .env(ASKS, asks)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub fn threads(mut self, threads: usize, seed: u64) -> Process {
        self.command.env(THREADS, threads.to_string());
        self.command.env(SEED, seed.to_string());
        self
    }

    pub fn memory(mut self, bytes: usize) -> Process {
        self.command.env(MEMORY, bytes.to_string());
        self
    }

    /// Kills the process when it writes a file beyond this size.
    pub fn dies_at(mut self, bytes: u64) -> Process {
        self.command.env(DIES_AT, bytes.to_string());
        self
    }

    /// Changes the command, for other settings.
    pub fn with(mut self, set: impl FnOnce(&mut Command)) -> Process {
        set(&mut self.command);
        self
    }

    pub fn start(self) -> Running {
        self.try_start().expect("a process")
    }

    pub fn try_start(mut self) -> std::io::Result<Running> {
        let mut child = self.command.spawn()?;
        let stdin = child.stdin.take();
        let out = BufReader::new(child.stdout.take().expect("a pipe"));
        Ok(Running { child, stdin, out })
    }

    /// Runs the process to its end.
    pub fn run(self) -> Ended {
        self.start().end()
    }
}

/// A running process, killed when dropped.
pub struct Running {
    child: Child,
    stdin: Option<ChildStdin>,
    out: BufReader<ChildStdout>,
}

/// Result of a process.
pub struct Ended {
    pub status: ExitStatus,
    /// Lines that the process sent.
    pub said: Vec<String>,
    pub errors: String,
}

impl Running {
    /// Returns the next line that the process sends; `None` when it has ended.
    pub fn next(&mut self) -> Option<String> {
        let mut line = String::new();
        while self.out.read_line(&mut line).expect("text") > 0 {
            if let Some(said) = line.strip_prefix(MARK) {
                return Some(said.trim_end().to_owned());
            }
            line.clear();
        }
        None
    }

    /// Waits until the process is ready.
    pub fn ready(&mut self) {
        let said = self.next();
        if said.as_deref() != Some("ready") {
            let mut errors = String::new();
            let _ = self
                .child
                .stderr
                .take()
                .map(|mut out| out.read_to_string(&mut errors));
            panic!("it said {said:?}: {errors}");
        }
    }

    /// Lets the process begin or continue.
    pub fn go(&mut self) {
        let stdin = self.stdin.as_mut().expect("a pipe");
        // The process may be dead already.
        let _ = stdin.write_all(b"go\n");
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("a look").is_none()
    }

    /// Kills the process immediately.
    pub fn kill9(mut self) -> ExitStatus {
        let _ = self.child.kill();
        self.child.wait().expect("its end")
    }

    /// Waits until the process exits.
    pub fn end(mut self) -> Ended {
        self.stdin = None;
        let mut stderr = self.child.stderr.take().expect("a pipe");
        let errors = thread::spawn(move || {
            let mut errors = String::new();
            let _ = stderr.read_to_string(&mut errors);
            errors
        });
        let mut said = Vec::new();
        while let Some(line) = self.next() {
            said.push(line);
        }
        Ended {
            status: self.child.wait().expect("its end"),
            said,
            errors: errors.join().expect("a thread"),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Ended {
    /// Asserts that the process completed its task.
    pub fn assert_done(&self) -> &Ended {
        let is_done = self.said.last().is_some_and(|said| said == "done");
        assert!(
            self.status.success() && is_done,
            "{}: {}\n{}",
            self.status,
            self.said.join("\n"),
            self.errors
        );
        self
    }

    /// Returns the number of entries that the process built, failed to build, and found damaged.
    pub fn figures(&self) -> [u64; 3] {
        let said = self
            .said
            .iter()
            .find_map(|said| said.strip_prefix("figures "));
        let numbers = said.expect("figures").split(' ');
        let numbers: Vec<u64> = numbers.map(|n| n.parse().expect("a number")).collect();
        numbers.try_into().expect("three")
    }

    /// Returns the entries that the process got, each with the checksum of the lines as read.
    pub fn got(&self) -> impl Iterator<Item = (&str, u128)> {
        let got = self
            .said
            .iter()
            .filter_map(|said| said.strip_prefix("got "));
        got.map(|got| {
            let (entry, sum) = got.split_once(' ').expect(got);
            (entry, sum.parse().expect("a number"))
        })
    }
}
