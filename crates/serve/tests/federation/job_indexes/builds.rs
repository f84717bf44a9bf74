//! Tests of slow builds, which continue as long as the test needs.

use std::sync::mpsc;
use std::thread::JoinHandle;

use crawlspace_jobs::{Error, FileBasedCache, Form, JobSet, Work};
use redis_tests::http::{Connection, get};
use redis_tests::{assert_contains, until, until_some, with};

use crate::job_indexes::archive::Stage as Archive;
use crate::job_indexes::parcels::set;
use crate::job_indexes::server::{config, figure, json, start, start_with};
use crate::serving::{Setup, Stage};

/// A builder in another thread that holds the lock of an index without finishing it.
struct Other {
    go_on: mpsc::Sender<()>,
    thread: JoinHandle<()>,
}

impl Other {
    fn builds(archive: &Archive, jobs: &str) -> Other {
        let cache =
            FileBasedCache::<JobSet>::open(&archive.cache_dir(), "fullcrawllogindex", Form::Folder);
        let (cache, jobs) = (cache.unwrap(), set(jobs));
        let (go_on, wait) = mpsc::channel();
        let (begun, begins) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let built = cache.cache(&jobs, &Work::default(), |_| {
                begun.send(()).unwrap();
                let _ = wait.recv();
                Err(Error::Cancelled)
            });
            assert!(built.is_err());
        });
        begins.recv().unwrap();
        Other { go_on, thread }
    }

    /// Abandons the build, so that other builders can build the index.
    fn gives_up(self) {
        drop(self.go_on);
        self.thread.join().unwrap();
    }
}

fn waits(server: &Stage, target: &str) {
    let answer = get(server.address(), target);
    assert_eq!(answer.status, 202, "{}", answer.text());
    assert_eq!(answer.field("retry-after"), Some("1"));
    assert_eq!(answer.field("cache-control"), Some("no-store"));
    let state = json(&answer);
    assert_eq!(state["state"], "building");
    assert!(state["stage"].is_string() && state["done"].is_u64() && state["total"].is_u64());
}

#[test]
fn long_build_returns_retry_after() {
    let archive = Archive::with_jobs("1,2", 50);
    let other = Other::builds(&archive, "1,2");
    let server = start(&archive);
    let target = "/_indexes/full?jobs=1,2";
    for _ in 0..3 {
        waits(&server, &format!("{target}&wait=0"));
    }
    let listed = json(&get(server.address(), "/_indexes"));
    assert_eq!(listed["building"].as_array().unwrap().len(), 1);
    assert_eq!(listed["building"][0]["jobs"], "1,2");
    assert_eq!(figure(&server, "building"), 1);
    // Other requests are answered in the meantime.
    assert_eq!(get(server.address(), "/_indexes/full?jobs=1").status, 200);
    other.gives_up();
    let answer = get(server.address(), &format!("{target}&wait=50"));
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.field("jobs-found"), Some("1,2"));
    assert_eq!(figure(&server, "building"), 0);
}

#[test]
fn existing_index_is_sent_at_once() {
    let archive = Archive::with_jobs("1-3", 50);
    let server = start(&archive);
    assert_eq!(
        get(server.address(), "/_indexes/full?jobs=3&wait=60").status,
        200
    );
    // The maximum number of concurrent builds is running, and none of them ends.
    let others = ["1,2", "1,3"].map(|jobs| Other::builds(&archive, jobs));
    waits(&server, "/_indexes/full?jobs=1,2&wait=0");
    waits(&server, "/_indexes/full?jobs=1,3&wait=0");
    let queued = get(server.address(), "/_indexes/full?jobs=2,3&wait=0");
    assert_eq!(queued.status, 202);
    assert_eq!(json(&queued)["state"].as_str(), Some("waiting"));
    assert_eq!(
        get(server.address(), "/_indexes/full?jobs=3&wait=0").status,
        200
    );
    for other in others {
        other.gives_up();
    }
    let built = get(server.address(), "/_indexes/full?jobs=2,3&wait=50");
    assert_eq!(built.status, 200, "{}", built.text());
}

#[test]
fn build_continues_after_its_clients_disconnect() {
    let archive = Archive::with_jobs("1,2", 50);
    let other = Other::builds(&archive, "1,2");
    let server = start(&archive);
    let mut client = Connection::open(server.address()).unwrap();
    client
        .send("GET", "/_indexes/full?jobs=1,2&wait=300", &[], b"")
        .unwrap();
    until("the index is being built", || {
        figure(&server, "building") == 1
    });
    drop(client);
    other.gives_up();
    until("the build completes without a client", || {
        let listed = json(&get(server.address(), "/_indexes"));
        let entries = listed["kinds"]["full"].as_array().unwrap().clone();
        entries.iter().any(|one| one["jobs"] == "1,2")
    });
}

#[test]
fn long_running_builder_is_named() {
    let archive = Archive::with_jobs("1,2", 50);
    let other = Other::builds(&archive, "1,2");
    let server = start_with(&archive, "  wait: 0\n");
    let answer = get(server.address(), "/_indexes/full?jobs=1,2&wait=50");
    assert_eq!(answer.status, 503, "{}", answer.text());
    assert!(answer.field("retry-after").is_some());
    let owner = format!("process {}", std::process::id());
    assert_contains(answer.text(), &owner);
    other.gives_up();
    let answer = get(server.address(), "/_indexes/full?jobs=1,2&wait=50");
    assert_eq!(answer.status, 200, "{}", answer.text());
}

#[test]
fn server_shuts_down_during_a_build() {
    let archive = Archive::with_jobs("1,2", 50);
    let other = Other::builds(&archive, "1,2");
    let mut server = Stage::start_apart(&config(&archive, ""));
    let mut client = Connection::open(server.address()).unwrap();
    client
        .send("GET", "/_indexes/full?jobs=1,2&wait=300", &[], b"")
        .unwrap();
    until("the index is being built", || {
        figure(&server, "building") == 1
    });
    server.program().interrupt();
    client.first_byte().unwrap();
    let ended = until_some("the server has ended", || server.program().ended().cloned());
    assert!(ended.status.success(), "{}", ended.errors);
    other.gives_up();
    let server = start(&archive);
    let answer = get(server.address(), "/_indexes/full?jobs=1,2&wait=50");
    assert_eq!(answer.status, 200, "{}", answer.text());
}

#[test]
fn full_disk_is_reported() {
    let archive = Archive::with_jobs("1,2", 2000);
    // A file of more than 32 KiB exceeds the limit.
    let limits = "trap '' XFSZ; ulimit -f 64";
    let server = Stage::start_with(&config(&archive, ""), with!(Setup, is_apart: true, limits));
    let answer = get(server.address(), "/_indexes/full?jobs=1,2&wait=50");
    assert_eq!(answer.status, 507, "{}", answer.text());
    assert_contains(answer.text(), "no incomplete index was kept");
}
