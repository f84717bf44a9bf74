//! Scrapy with the package `scrapy-crawlspace` (python/scrapy-crawlspace), with the oldest and the
//! newest Scrapy that the package supports.

use std::path::{Path, PathBuf};
use std::process::Command;

use redis_tests::module_path;
use redis_tests::packages::{self, left_out, run};

/// The versions of Scrapy that the package supports: the oldest and the newest one.
const OLDEST: (&str, &[&str]) = ("scrapy-oldest", &["scrapy==2.14.0", "redis==5.0.0"]);
const NEWEST: (&str, &[&str]) = (
    "scrapy-newest",
    &["scrapy", "redis", "hiredis", "scrapy-redis", "mypy"],
);

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../python")
}

/// Returns a command that runs Python with both packages in its path, or `None` if Scrapy cannot be
/// fetched.
fn command((name, packages): (&str, &[&str])) -> Option<Command> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let python = packages::python(&folder, packages)
        .map_err(|reason| left_out(name, &reason))
        .ok()?;
    let path = ["crawlspace/src", "scrapy-crawlspace/src"].map(|path| sources().join(path));
    let path = std::env::join_paths(path).expect("paths without colons");
    let mut command = Command::new(python);
    command
        .env("PYTHONPATH", path)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("CRAWLSPACE_MODULE", module_path())
        .current_dir(sources().join("scrapy-crawlspace/tests"));
    Some(command)
}

/// Runs a test of the package.
fn check(scrapy: (&str, &[&str]), test: &str) {
    let Some(mut python) = command(scrapy) else {
        return;
    };
    let result = run(python.args(["-W", "error::ResourceWarning", "-m", "unittest", test]));
    result.unwrap_or_else(|why| panic!("{why}"));
}

macro_rules! crawls {
    ($($name:ident)*) => {$(
        #[test]
        fn $name() {
            check(NEWEST, concat!("test_crawl.Crawls.test_", stringify!($name)));
        }
    )*};
}

crawls! {
    killed_processes_lose_nothing_and_break_no_pause
    two_spiders_share_hosts_and_no_requests
    an_interrupt_gives_leases_back_and_the_next_run_continues
    spiders_of_all_kinds_are_polite_and_end
    a_long_page_keeps_its_lease_and_frees_its_host
    a_crawl_survives_restarts_of_its_server
    a_process_waits_for_the_first_page_of_another_one
    mistakes_stop_the_crawl_with_a_sentence
    the_spider_of_the_guide_runs_in_two_processes
    a_page_returns_to_the_frontier_if_robots_txt_asks_for_a_long_pause
    slots_have_pauses_and_parallel_fetches_of_their_own
}

#[test]
fn the_oldest_scrapy_crawls_as_well() {
    check(
        OLDEST,
        "test_crawl.Crawls.test_spiders_of_all_kinds_are_polite_and_end",
    );
    check(OLDEST, "test_requests");
}

#[test]
fn requests_come_back_as_they_were_queued() {
    check(NEWEST, "test_requests");
}

#[test]
fn package_has_complete_types() {
    let Some(mut python) = command(NEWEST) else {
        return;
    };
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mypy-scrapy");
    let checked = run(python
        .args(["-m", "mypy", "--cache-dir"])
        .arg(cache)
        .env("MYPYPATH", sources().join("crawlspace/src"))
        .current_dir(sources().join("scrapy-crawlspace")));
    checked.unwrap_or_else(|why| panic!("{why}"));
}
