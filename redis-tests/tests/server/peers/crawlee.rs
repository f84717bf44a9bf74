//! Crawlee for Python with the storage client `crawlee-crawlspace` (python/crawlee-crawlspace).

use std::path::{Path, PathBuf};
use std::process::Command;

use redis_tests::packages::{self, at_full_size, left_out, run};
use redis_tests::{Options, Server};

/// A version of Crawlee.
struct Crawlee {
    name: &'static str,
    packages: &'static [&'static str],
    /// Newest source distribution that contains the tests of this version.
    tests: &'static str,
    /// Tests that cannot pass. Each has a reason below.
    excluded: &'static [&'static str],
}

const NEWEST: Crawlee = Crawlee {
    name: "crawlee-newest",
    packages: &[
        "crawlee",
        "redis",
        "hiredis",
        "pytest",
        "pytest-asyncio",
        "hatchling",
        "mypy",
    ],
    tests: "1.6.3",
    excluded: &[],
};
/// The oldest version. It cannot be imported with newer versions of pydantic.
const OLDEST: Crawlee = Crawlee {
    name: "crawlee-oldest",
    packages: &[
        "crawlee==1.0.0",
        "pydantic<2.12",
        "redis",
        "pytest",
        "pytest-asyncio",
        "hatchling",
    ],
    tests: "1.0.0",
    // These tests expect that a purge keeps the number of handled requests. Later versions changed that.
    excluded: &["test_purge", "test_purge_on_start_enabled"],
};

/// Returns the versions to test. `make test` uses the newest one only.
fn versions() -> &'static [Crawlee] {
    if at_full_size() {
        &[NEWEST, OLDEST]
    } else {
        &[NEWEST]
    }
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn sources() -> PathBuf {
    repository().join("python/crawlee-crawlspace")
}

/// Returns a command that runs Python with this version of Crawlee and a server, or `None` if the packages cannot be
/// fetched.
fn python(crawlee: &Crawlee, server: &Server) -> Option<Command> {
    let folder = folder(crawlee);
    let python = packages::python(&folder, crawlee.packages)
        .map_err(|reason| left_out(crawlee.name, &reason))
        .ok()?;
    let mut command = Command::new(python);
    let paths = [
        sources().join("src"),
        repository().join("python/crawlspace/src"),
    ];
    command
        .env(
            "PYTHONPATH",
            std::env::join_paths(paths).expect("paths without a colon"),
        )
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("PORT", server.port().to_string());
    Some(command)
}

fn folder(crawlee: &Crawlee) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(crawlee.name)
}

/// Starts a server. Frontiers are plain unless a client packs them.
fn server() -> Server {
    Server::with(Options::new().plain())
}

#[test]
fn crawlee_shares_a_queue_that_loses_nothing() {
    std::thread::scope(|scope| {
        for crawlee in versions() {
            for tests in ["test_queue", "test_crawl", "test_guide"] {
                scope.spawn(move || {
                    let server = server();
                    let Some(mut python) = python(crawlee, &server) else {
                        return;
                    };
                    let result = run(python
                        .args(["-W", "error::ResourceWarning", "-m", "unittest", tests])
                        .current_dir(sources().join("tests")));
                    result.unwrap_or_else(|why| panic!("{}: {why}", crawlee.name));
                });
            }
        }
    });
}

/// Runs Crawlee's own tests of request queues. Source distributions since 1.7 do not contain them, so the newest
/// version is tested with those of 1.6.3.
#[test]
fn crawlee_finds_no_fault_with_its_own_tests() {
    std::thread::scope(|scope| {
        for crawlee in versions() {
            scope.spawn(move || {
                let server = server();
                let Some(mut pytest) = python(crawlee, &server) else {
                    return;
                };
                let name = format!("crawlee-{}", crawlee.tests);
                let archive = folder(crawlee).join(format!("{name}.tar.gz"));
                if !archive.exists() {
                    let download = |mut pip: Command| {
                        run(pip
                            .args(["download", "--quiet", "--no-deps", "--no-build-isolation"])
                            .args(["--no-binary", "crawlee"])
                            .arg(format!("crawlee=={}", crawlee.tests))
                            .arg("--dest")
                            .arg(folder(crawlee)))
                    };
                    let fetched = packages::pip(&folder(crawlee)).and_then(download);
                    if let Err(reason) = fetched {
                        return left_out(&name, &reason);
                    }
                }
                let tests = tempfile::tempdir().expect("a temporary folder");
                let file = "tests/unit/storages/test_request_queue.py";
                run(Command::new("tar")
                    .args(["-xzf"])
                    .arg(&archive)
                    .arg("-C")
                    .arg(tests.path())
                    .args(["--strip-components=4", &format!("{name}/{file}")]))
                .expect("the archive has the tests");
                let fixtures = sources().join("tests/fixtures.py");
                std::fs::copy(fixtures, tests.path().join("conftest.py")).expect("fixtures");
                pytest
                    .args([
                        "-m",
                        "pytest",
                        "-q",
                        "-o",
                        "asyncio_mode=auto",
                        "-p",
                        "no:cacheprovider",
                    ])
                    .env("EXCLUDED", crawlee.excluded.join(" "))
                    .current_dir(tests.path());
                let result =
                    run(&mut pytest).unwrap_or_else(|why| panic!("{}: {why}", crawlee.name));
                eprintln!(
                    "{}: {}",
                    crawlee.name,
                    result.lines().last().unwrap_or_default()
                );
            });
        }
    });
}

#[test]
fn crawlee_package_has_complete_types() {
    let Some(mut mypy) = python(&NEWEST, &server()) else {
        return;
    };
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("crawlee-mypy-cache");
    let checked = run(mypy
        .args(["-m", "mypy", "--cache-dir"])
        .arg(cache)
        .env("MYPYPATH", repository().join("python/crawlspace/src"))
        .current_dir(sources()));
    checked.unwrap_or_else(|why| panic!("{why}"));
}
