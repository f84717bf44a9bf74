//! The Python package `crawlspace` (python/crawlspace) with the oldest and the newest redis-py, with
//! hiredis and without, on one server and on a cluster; and its loops while servers and workers die.
//! The package's own test of a cluster that fails over starts its servers itself.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use redis_tests::packages::{self, left_out, run, sized};
use redis_tests::{
    Cluster, Options, Program, Relay, Rng, Server, module_path, ok, simulated, until, within,
};

/// The versions of redis-py that the package supports, the oldest and the newest one, and the tests that
/// run with them. The loops do not depend on hiredis.
const PACKAGES: [(&str, &[&str], &str); 4] = [
    ("python-oldest", &["redis==5.0.0"], "test_*.py"),
    (
        "python-oldest-hiredis",
        &["redis==5.0.0", "hiredis"],
        "test_commands.py",
    ),
    ("python-newest", &["redis"], "test_commands.py"),
    ("python-newest-hiredis", &["redis", "hiredis"], "test_*.py"),
];
/// Number of worker processes.
const WORKERS: usize = 4;
/// Number of tasks of a worker that uses asyncio.
const TASKS: i64 = 3;
/// Each payload is found under this many URLs.
const COPIES: usize = 3;

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../python/crawlspace")
}

/// Returns Python with these packages, or `None` if they cannot be fetched.
fn python(name: &str, packages: &[&str]) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    packages::python(&folder, packages)
        .map_err(|reason| left_out(name, &reason))
        .ok()
}

/// Returns a command that runs Python with the package in its path.
fn command(python: &Path) -> Command {
    let mut command = Command::new(python);
    command
        .env("PYTHONPATH", sources().join("src"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("CRAWLSPACE_MODULE", module_path())
        .current_dir(sources().join("tests"));
    command
}

#[test]
fn python_package_works_with_every_redis_py() {
    std::thread::scope(|scope| {
        for (name, packages, tests) in PACKAGES {
            scope.spawn(move || {
                let Some(python) = python(name, packages) else {
                    return;
                };
                let server = simulated().start();
                let cluster = Cluster::with(3, simulated());
                let tests = run(command(&python)
                    .args(["-W", "error::ResourceWarning", "-m", "unittest", "discover"])
                    .args(["-p", tests])
                    .env("PORT", server.port().to_string())
                    .env("CLUSTER_PORT", cluster.nodes()[0].port().to_string()));
                tests.unwrap_or_else(|why| panic!("{name}: {why}"));
            });
        }
    });
}

#[test]
fn python_package_has_complete_types_and_a_current_blocking_client() {
    let Some(python) = python("python-mypy", &["redis", "mypy"]) else {
        return;
    };
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mypy-cache");
    let checked = run(command(&python)
        .args(["-m", "mypy", "--cache-dir"])
        .arg(cache)
        .current_dir(sources()));
    checked.unwrap_or_else(|why| panic!("{why}"));
    let generated = run(command(&python)
        .arg(sources().join("generate.py"))
        .arg("--check"));
    generated.unwrap_or_else(|why| panic!("{why}"));
}

/// Workers of a crawl, and the files of their records.
struct Crawl {
    python: PathBuf,
    folder: tempfile::TempDir,
    url: String,
    pages: usize,
    /// The running workers, each with the number of its log.
    workers: Vec<(usize, Program)>,
    started: usize,
}

/// Lines in the files of all workers.
#[derive(Default)]
struct Records {
    responses: i64,
    revisits: i64,
    /// Records whose worker knows that they were counted.
    counted: i64,
    /// Workers that ended after an interrupt.
    interrupted: usize,
}

impl Crawl {
    /// Queues the first page and starts the workers.
    fn start(python: PathBuf, server: &Server, url: String, pages: usize) -> Crawl {
        let mut c = server.wire();
        ok!(c, "CHG.PACK", "{f}:");
        let seed = ["crawl-1", "URI", "ITEMS", "1", "host-0.org", "0", "0"];
        let mut words = vec!["CHG.DISCOVER", "{f}:"];
        words.extend(seed);
        words.push("https://host-0.org/0");
        c.call(&words);
        let mut crawl = Crawl {
            python,
            folder: tempfile::tempdir().expect("a temporary folder"),
            url,
            pages,
            workers: Vec::new(),
            started: 0,
        };
        for _ in 0..WORKERS {
            crawl.start_worker();
        }
        crawl
    }

    /// Starts a worker; every second one uses asyncio.
    fn start_worker(&mut self) {
        let mut worker = command(&self.python);
        worker
            .args(["worker.py", &self.url])
            .arg(self.folder.path().join(format!("{}.log", self.started)))
            .args([self.pages, self.pages / COPIES].map(|number| number.to_string()));
        if self.started % 2 == 1 {
            worker.arg("aio");
        }
        self.workers.push((self.started, Program::start(worker)));
        self.started += 1;
    }

    /// Kills a worker and starts another one.
    fn kill_worker(&mut self, number: usize) {
        drop(self.workers.remove(number).1.kill9());
        self.start_worker();
    }

    fn records(&self) -> Records {
        let mut records = Records::default();
        for number in 0..self.started {
            let path = self.folder.path().join(format!("{number}.log"));
            let text = std::fs::read_to_string(path).unwrap_or_default();
            for line in text.lines() {
                match line.split(' ').next() {
                    Some("response") => records.responses += 1,
                    Some("revisit") => records.revisits += 1,
                    Some("counted") => records.counted += 1,
                    Some("interrupted") => records.interrupted += 1,
                    _ => panic!("{line}"),
                }
            }
        }
        records
    }

    /// Waits until the workers have counted this many records.
    fn until_counted(&mut self, records: usize) {
        let minutes = Duration::from_secs(sized(120, 600));
        let counted = within(minutes, || {
            for (_, worker) in &mut self.workers {
                assert!(worker.ended().is_none(), "{}", worker.errors());
            }
            (self.records().counted >= records as i64).then_some(())
        });
        let errors = self.workers.iter().map(|(_, worker)| worker.errors());
        assert!(
            counted.is_some(),
            "{} of {records} records: {:?}",
            self.records().counted,
            errors.collect::<Vec<_>>()
        );
    }

    /// Waits until the frontier has fetched everything, interrupts the workers, and returns their
    /// records.
    fn finish(mut self, server: &Server) -> Records {
        let pages = self.pages as i64;
        let mut c = server.wire();
        let minutes = Duration::from_secs(sized(120, 600));
        let done = within(minutes, || {
            let counts = ok!(c, "CHG.COUNT", "{f}:", "crawl-1");
            // A worker reports its last page together with its wait for the next lease.
            (counts.find("done")?.int() >= pages).then_some(())
        });
        let counts = ok!(c, "CHG.COUNT", "{f}:", "crawl-1");
        assert!(done.is_some(), "{counts:?}");
        // A worker that replaced a killed one may still be starting. The worker with asyncio has several tasks.
        let tasks = |(number, _): &(usize, Program)| if number % 2 == 1 { TASKS } else { 1 };
        let waiters: i64 = self.workers.iter().map(tasks).sum();
        until("all workers wait for a lease", || {
            let info = ok!(c, "CHG.INFO", "{f}:");
            info.find("waiters").map(|count| count.int()) == Some(waiters)
        });
        for (_, worker) in &mut self.workers {
            worker.interrupt();
        }
        for (_, worker) in self.workers.drain(..) {
            let ended = worker.end();
            assert!(ended.status.success(), "{}", ended.errors);
        }
        let records = self.records();
        assert_eq!(records.interrupted, WORKERS);
        // Every page was found, is done, and no lease and no claim is left.
        assert_eq!(counts.find("known").map(|count| count.int()), Some(pages));
        let info = ok!(c, "CHG.INFO", "{f}:");
        assert_eq!(info.find("uris").map(|count| count.int()), Some(0));
        assert_eq!(info.find("groups-busy").map(|count| count.int()), Some(0));
        let check = ok!(c, "CHG.CHECK", "{f}:");
        assert_eq!(check.find("consistent").map(|count| count.int()), Some(1));
        records
    }
}

/// Returns the hashes, records and revisits of the crawl in the index.
fn counted(server: &Server) -> [i64; 3] {
    let stats = ok!(server.wire(), "DEDUPE.STATS", "{d}:", "crawl-1");
    let check = ok!(server.wire(), "DEDUPE.CHECK", "{d}:");
    assert_eq!(
        check.find("ok").map(|count| count.int()),
        Some(1),
        "{check:?}"
    );
    ["hashes", "totalUrls", "dupeUrls"].map(|name| stats.find(name).expect(name).int())
}

/// Returns the name of the environment for workers: the newest redis-py with hiredis.
fn newest() -> Option<PathBuf> {
    let (name, packages, _) = PACKAGES[3];
    python(name, packages)
}

#[test]
fn python_workers_count_everything_once_while_servers_die() {
    let Some(python) = newest() else { return };
    let pages = sized(1_200, 10_000);
    let mut master = Server::with(Options::new().aof(false));
    let replica = Server::with(Options::new().aof(false).replica_of(&master));
    let relay = Relay::to(&master);
    let mut crawl = Crawl::start(python, &master, relay.url(), pages);
    let mut rng = Rng::new("python_workers_count_everything_once_while_servers_die");
    let steps = 8;
    for step in 1..steps {
        crawl.until_counted(pages * step / (steps + 1));
        match step {
            3 | 6 => {
                master.kill9();
                master.restart();
            }
            _ => {
                relay.hold_after(rng.below(3_000));
                until("the relay holds", || relay.holds());
                relay.cut();
            }
        }
    }
    until("the replica is in step", || {
        replica.info("master_link_status").as_deref() == Some("up")
    });
    ok!(master.wire(), "FAILOVER");
    until("the replica is the master", || {
        replica.info("role").as_deref() == Some("master")
    });
    relay.switch(&replica);
    let records = crawl.finish(&replica);
    let payloads = (pages / COPIES) as i64;
    let pages = pages as i64;
    assert_eq!(
        [records.responses, records.revisits],
        [payloads, pages - payloads]
    );
    assert_eq!(counted(&replica), [payloads, pages, pages - payloads]);
}

#[test]
fn python_workers_that_are_killed_lose_nothing() {
    let Some(python) = newest() else { return };
    let pages = sized(1_200, 10_000);
    let server = Server::start();
    let mut crawl = Crawl::start(python, &server, server.url(), pages);
    let mut rng = Rng::new("python_workers_that_are_killed_lose_nothing");
    let kills = 6;
    for kill in 1..=kills {
        crawl.until_counted(pages * kill / (kills + 1));
        crawl.kill_worker(rng.below(WORKERS as u64) as usize);
    }
    let records = crawl.finish(&server);
    let written = records.responses + records.revisits;
    let [hashes, total, dupes] = counted(&server);
    let payloads = (pages / COPIES) as i64;
    let at_the_kills = (kills * 3) as i64; // three tasks of asyncio
    assert_eq!(hashes, payloads);
    // A record is missing only if its worker was killed after it wrote the record.
    assert!(
        (records.counted..=written).contains(&total),
        "{total} of {written} records, {} counted",
        records.counted
    );
    assert!(written - records.counted <= at_the_kills, "{written}");
    // A page is fetched again only if its worker was killed.
    assert!(written <= pages as i64 + at_the_kills, "{written}");
    assert!(total - dupes >= hashes, "{total} records, {dupes} revisits");
}
