//! warcprox as its users run it, in several parallel processes, and the plug-in, which is built and installed for it.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crawlspace_warc::{Reader, RecordType};
use redis_tests::http::ask;
use redis_tests::packages::{left_out, pip, run};
use redis_tests::{Program, until_some, within};
use tempfile::TempDir;

use super::site::{Site, payload};
use super::{installation, python};
use crate::shelf::{Shelf, Slot};

/// The tested release, and the packages needed to build a wheel.
const PACKAGES: [&str; 4] = [
    "warcprox==2.13.*",
    "redis==6.*",
    "build==1.*",
    "setuptools>=77",
];
/// Number of clients per process.
const CLIENTS: usize = 4;

/// Returns the folder of the plug-in.
pub fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/warcprox-crawlspace")
}

/// An installed warcprox.
pub struct Warcprox {
    python: PathBuf,
}

impl Warcprox {
    /// Installs warcprox. Returns `None` if it cannot be fetched.
    pub fn install() -> Option<Warcprox> {
        let python = python("warcprox", &PACKAGES)?;
        Some(Warcprox { python })
    }

    /// Installs warcprox with the plug-in, as a wheel built from this repository.
    pub fn with_plugin() -> Option<Warcprox> {
        let python = python("warcprox-plugin", &PACKAGES)?;
        let installed = installation("warcprox-plugin");
        let dir = tempfile::tempdir().unwrap();
        // The plug-in uses the Python package.
        for (folder, name) in [
            ("crawlspace", "crawlspace"),
            ("warcprox-crawlspace", "warcprox_crawlspace"),
        ] {
            let copy = dir.path().join(folder);
            // Building leaves files next to the sources.
            let sources = Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("../../python")
                .join(folder);
            run(Command::new("cp").arg("-rL").arg(sources).arg(&copy)).unwrap();
            let wheel = run(Command::new(&python)
                .args(["-m", "build", "--wheel", "--no-isolation", "--outdir"])
                .arg(dir.path())
                .arg(&copy));
            wheel.unwrap_or_else(|why| panic!("{folder} cannot be built: {why}"));
            let version = env!("CARGO_PKG_VERSION");
            let wheel = dir
                .path()
                .join(format!("{name}-{version}-py3-none-any.whl"));
            let install = |mut pip: Command| {
                run(pip
                    .args(["install", "--quiet", "--force-reinstall", "--no-deps"])
                    .arg(wheel))
            };
            let install = pip(&installed).and_then(install);
            if let Err(reason) = install {
                left_out("the plug-in for warcprox", &reason);
                return None;
            }
        }
        Some(Warcprox { python })
    }

    /// Returns the interpreter of the installation.
    pub fn python(&self) -> &Path {
        &self.python
    }

    /// Starts processes with these arguments and environment variables.
    pub fn start(&self, processes: usize, words: &[&str], variables: &[(&str, &str)]) -> Running {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("warcs")).unwrap();
        let program = |number: usize| {
            let mut command = Command::new(self.python.with_file_name("warcprox"));
            let own = dir.path().join(number.to_string());
            std::fs::create_dir(&own).unwrap();
            command
                .args("--address 127.0.0.1 --port 0 --gzip --base32".split(' '))
                .args("--stats-db-file /dev/null --dir ../warcs".split(' '))
                .args(["--prefix", &format!("crawl{number}")])
                .args(words)
                .envs(variables.iter().copied())
                .current_dir(own);
            Program::start(command)
        };
        let mut programs: Vec<Program> = (0..processes).map(program).collect();
        let addresses = programs.iter_mut().map(|program| {
            until_some("warcprox listens", || {
                assert!(program.ended().is_none(), "{}", program.out());
                let log = program.out();
                let (_, address) = log.split_once("listening on ")?;
                let (host, port) = address.lines().next()?.split_once(':')?;
                format!("{host}:{port}").parse().ok()
            })
        });
        let addresses = addresses.collect();
        Running {
            programs,
            addresses,
            dir,
        }
    }
}

/// Running processes.
pub struct Running {
    programs: Vec<Program>,
    addresses: Vec<SocketAddr>,
    dir: TempDir,
}

impl Running {
    /// Fetches each page of the site `times` times through different processes, with several clients at once. Calls
    /// `halfway` once in the middle.
    pub fn fetch(&self, site: &Site, times: usize, halfway: impl FnOnce()) {
        let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
        let (all, processes) = (site.pages * times, self.addresses.len());
        let client = || loop {
            let n = next.fetch_add(1, Ordering::Relaxed);
            if n >= all {
                return;
            }
            // Requests for the same page follow each other, and go to different processes.
            let (page, process) = (n / times, n % processes);
            let answer = ask(self.addresses[process], "GET", &site.url(page), &[], b"");
            let text = answer.map(|answer| (answer.status, answer.text()));
            let expected = (200, payload(page));
            if !matches!(&text, Ok(text) if *text == expected) {
                failed.store(true, Ordering::Relaxed);
                panic!("{}: {text:?}", site.url(page));
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..CLIENTS * processes {
                scope.spawn(client);
            }
            let at = || next.load(Ordering::Relaxed) * 2;
            let is_half = || (at() > all || failed.load(Ordering::Relaxed)).then_some(());
            within(Duration::from_secs(600), is_half);
            assert!(at() > all, "half of the pages are fetched");
            halfway();
        });
    }

    /// Interrupts all processes, as an operator does, and waits until they finish their work.
    pub fn end(mut self) -> Crawl {
        for program in &mut self.programs {
            program.interrupt();
        }
        let mut unanswered = Vec::new();
        for program in self.programs {
            let log = program.end_at_last().out;
            let lines = log.lines().filter(|line| line.contains("request failed"));
            unanswered.extend(lines.map(str::to_owned));
            for bad in ["Traceback", "CRITICAL"] {
                assert!(!log.contains(bad), "{log}");
            }
        }
        Crawl::read(self.dir, unanswered)
    }
}

/// Output of a crawl.
pub struct Crawl {
    dir: TempDir,
    pub files: Vec<PathBuf>,
    pub records: Vec<Record>,
    /// Log lines about queries that timed out after warcprox's two seconds.
    pub unanswered: Vec<String>,
}

/// A record of a capture.
pub struct Record {
    pub is_revisit: bool,
    pub url: String,
    pub time: String,
    pub digest: String,
    slot: Slot,
}

impl Crawl {
    fn read(dir: TempDir, unanswered: Vec<String>) -> Crawl {
        let files = std::fs::read_dir(dir.path().join("warcs")).unwrap();
        let mut files: Vec<PathBuf> = files.map(|entry| entry.unwrap().path()).collect();
        files.sort();
        let records = files.iter().flat_map(|path| records(path)).collect();
        Crawl {
            dir,
            files,
            records,
            unanswered,
        }
    }

    /// Returns the number of captures of a kind.
    pub fn count(&self, is_revisit: bool) -> usize {
        let records = self.records.iter();
        records.filter(|one| one.is_revisit == is_revisit).count()
    }

    /// Returns how often each payload was stored.
    pub fn stored(&self) -> HashMap<&str, usize> {
        let mut stored = HashMap::new();
        for record in self.records.iter().filter(|one| !one.is_revisit) {
            *stored.entry(&*record.digest).or_default() += 1;
        }
        stored
    }

    /// Adds the index lines of all captures.
    pub fn index(&self, shelf: &mut Shelf) {
        for record in &self.records {
            let (media, status) = if record.is_revisit {
                ("warc/revisit", "-")
            } else {
                ("text/html", "200")
            };
            let digest = record.digest.trim_start_matches("sha1:");
            let more = format!(
                ", \"mime\": \"{media}\", \"status\": \"{status}\", \"digest\": \"{digest}\""
            );
            shelf.line(&record.url, &record.time, &record.slot, &more);
        }
    }

    /// Returns the folder of the files.
    pub fn warcs(&self) -> PathBuf {
        self.dir.path().join("warcs")
    }
}

fn records(path: &Path) -> Vec<Record> {
    let file = path.file_name().unwrap().to_str().unwrap();
    let mut reader = Reader::open(path).unwrap();
    let mut found = Vec::new();
    while let Some(record) = reader.next().unwrap() {
        let header = record.header().clone();
        let extent = record.finish().unwrap();
        let kind = header.record_type();
        if !matches!(kind, RecordType::Response | RecordType::Revisit) {
            continue;
        }
        let text = |bytes: Option<&[u8]>| String::from_utf8(bytes.unwrap().to_vec()).unwrap();
        found.push(Record {
            is_revisit: kind == RecordType::Revisit,
            url: text(header.target_uri()),
            time: String::from_utf8(header.timestamp().unwrap().to_vec()).unwrap(),
            digest: text(header.payload_digest()),
            slot: Slot {
                file: file.to_owned(),
                offset: extent.offset,
                length: extent.size,
            },
        });
    }
    found
}
