//! Tests which requests a client sends, and when.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crawlspace_jobs::{Error, IndexKind, Missing, Work};
use redis_tests::{Part, ScriptedHost, answer, assert_contains, assert_starts, but};

use crate::client::parcels::{Desk, arrives, lines, set, tar_of};

fn text(index: &crawlspace_jobs::Index, name: &str) -> String {
    std::fs::read_to_string(index.entry.path().join(name)).unwrap()
}

#[test]
fn index_is_fetched_once_and_decompressed() {
    let desk = Desk::new();
    let tar = tar_of(IndexKind::Dedup, "1,2");
    let host = ScriptedHost::start(move |_| arrives(&tar));
    let client = desk.client(&host.url("/base"));
    let jobs = set("1,2");
    for _ in 0..2 {
        let index = client.get_index(IndexKind::Dedup, &jobs, &Work::default());
        let index = index.unwrap();
        assert_eq!(index.found, jobs);
        assert!(index.missing.is_empty());
        let (by_url, by_digest) = lines("1,2");
        assert_eq!(text(&index, "url.cdxj"), by_url);
        assert_eq!(text(&index, "digest.cdxj"), by_digest);
        let manifest = index.entry.manifest();
        assert_eq!(manifest.counts["lines"], 500);
        assert_eq!(manifest.notes, ["3 lines were none"]);
        assert!(
            manifest.inputs[0]
                .name
                .starts_with(&host.url("/base/_indexes/dedup?jobs=1,2"))
        );
    }
    let asked = host.asked();
    assert_eq!(asked.len(), 1);
    assert_starts(&asked[0].target, "/base/_indexes/dedup?jobs=1,2&wait=");
    assert_eq!(
        desk.files(),
        [
            "DEDUP_CRAWL_LOG/1-2-cache",
            "DEDUP_CRAWL_LOG/1-2-cache/digest.cdxj",
            "DEDUP_CRAWL_LOG/1-2-cache/manifest.json",
            "DEDUP_CRAWL_LOG/1-2-cache/url.cdxj",
        ]
    );
    let server = host.url("/base");
    drop(host);
    // The server has stopped, because it is not needed.
    let index = desk
        .strict(&server)
        .get_index(IndexKind::Dedup, &jobs, &Work::default())
        .unwrap();
    assert_eq!(index.found, jobs);
}

#[test]
fn every_kind_has_its_folder() {
    let desk = Desk::new();
    let host = ScriptedHost::start(|asked| {
        let mut kinds = IndexKind::ALL.into_iter();
        let kind = kinds.find(|kind| asked.target.contains(kind.name()));
        arrives(tar_of(kind.unwrap(), "1-6"))
    });
    let client = desk.client(&host.url(""));
    for kind in IndexKind::ALL {
        let index = client.get_index(kind, &set("1-6"), &Work::default());
        let index = index.unwrap();
        let path = index.entry.path();
        let expected = kind.client_folder();
        assert_eq!(path.parent().unwrap().file_name().unwrap(), expected);
        assert_starts(path.file_name().unwrap().to_str().unwrap(), "1-2-3-4-");
        let by_url = match kind {
            IndexKind::Cdx => std::fs::read_to_string(path).unwrap(),
            _ => text(&index, "url.cdxj"),
        };
        assert_eq!(by_url, lines("1-6").0);
    }
}

#[test]
fn partial_index_has_its_own_name_and_is_completed_later() {
    let mut desk = Desk::new();
    let complete = Arc::new(AtomicUsize::new(0));
    let now = Arc::clone(&complete);
    let host = ScriptedHost::start(move |_| {
        if now.load(Ordering::SeqCst) == 1 {
            return arrives(tar_of(IndexKind::Full, "1,2,7,8"));
        }
        let fields = [
            ("Content-Type", "application/x-tar"),
            ("Jobs-Found", "1,2"),
            ("Jobs-Missing", "7,8"),
            ("Jobs-Missing-Reasons", r#"{"7":"no-job"}"#),
        ];
        answer(200, &fields, tar_of(IndexKind::Full, "1,2"))
    });
    let jobs = set("1,2,7,8");
    let ask = |desk: &Desk| {
        desk.strict(&host.url(""))
            .get_index(IndexKind::Full, &jobs, &Work::default())
            .unwrap()
    };
    // No request is sent within the retry interval of missing jobs, not even by other processes.
    for _ in 0..2 {
        let index = ask(&desk);
        assert_eq!(index.found, set("1,2"));
        assert!(index.entry.path().ends_with("FULL_CRAWL_LOG/1-2-cache"));
        let whys: Vec<_> = index
            .missing
            .iter()
            .map(|one| (one.job.0, &one.why))
            .collect();
        let [(7, Missing::NoJob), (8, Missing::Unreadable { why })] = &whys[..] else {
            panic!("{whys:?}");
        };
        assert_contains(why, "gave no reason");
        assert_eq!(host.asked().len(), 1);
    }
    assert!(
        !desk
            .options
            .cache_dir
            .join("FULL_CRAWL_LOG/1-2-7-8-cache")
            .exists()
    );

    desk.options.retry_missing = Duration::ZERO;
    assert_eq!(ask(&desk).found, set("1,2"));
    assert_eq!(host.asked().len(), 2);
    complete.store(1, Ordering::SeqCst);
    let index = ask(&desk);
    assert_eq!(index.found, jobs);
    assert!(index.missing.is_empty());
    assert!(index.entry.path().ends_with("FULL_CRAWL_LOG/1-2-7-8-cache"));
    assert!(desk.files().iter().all(|file| !file.ends_with(".partial")));
    assert_eq!(ask(&desk).found, jobs);
    assert_eq!(host.asked().len(), 3);
}

#[test]
fn partial_copy_is_used_when_the_server_is_unreachable() {
    let mut desk = Desk::new();
    desk.options.retry_missing = Duration::ZERO;
    let tar = tar_of(IndexKind::Cdx, "1,2");
    let host = ScriptedHost::start(move |_| arrives(&tar));
    let server = host.url("");
    let ask = |jobs: &str| {
        desk.strict(&server)
            .get_index(IndexKind::Cdx, &set(jobs), &Work::default())
    };
    assert_eq!(ask("1-3").unwrap().found, set("1,2"));
    drop(host);
    let index = ask("1-3").unwrap();
    assert_eq!(index.found, set("1,2"));
    let why = index.missing[0].why.to_string();
    assert_contains(&why, "gave no reason");
    assert_contains(&why, &server);
    // No request was sent for this set before.
    let error = ask("1-4").unwrap_err().to_string();
    assert_starts(&error, format!("{server}/_indexes/cdx?jobs=1-4: "));
}

#[test]
fn index_under_construction_is_requested_again() {
    let desk = Desk::new();
    let work = Work::default();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (watched, progress) = (work.clone(), Arc::clone(&seen));
    let tar = tar_of(IndexKind::Dedup, "1");
    let host = ScriptedHost::start(move |_| {
        let mut seen = progress.lock().unwrap();
        seen.push(watched.progress());
        let state = |text: &str| answer(202, &[("Retry-After", "0")], text);
        match seen.len() {
            1 => state(r#"{"state":"building","stage":"sorting","done":3,"total":9}"#),
            2 => state("{}"),
            _ => arrives(&tar),
        }
    });
    let client = desk.strict(&host.url(""));
    client
        .get_index(IndexKind::Dedup, &set("1"), &work)
        .unwrap();
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 3);
    assert_eq!(seen[1].stage, "the server: sorting");
    assert_eq!((seen[1].done, seen[1].total), (3, 9));
    assert_eq!(seen[2].stage, "the server is building the index");
}

#[test]
fn wait_is_limited() {
    let desk = Desk::new();
    let options = but!(desk.options.clone(), wait: Duration::ZERO);
    let host = ScriptedHost::start(|_| answer(202, &[("Retry-After", "3600")], "{}"));
    let client = crawlspace_jobs::IndexRequestClient::open(&host.url(""), options).unwrap();
    let error = client.get_index(IndexKind::Dedup, &set("1"), &Work::default());
    let error = error.unwrap_err();
    assert!(matches!(error, Error::Remote { .. }), "{error:?}");
    assert_contains(&error, "still building");
    assert_eq!(host.asked().len(), 1);
}

#[test]
fn cancelled_request_stops() {
    let desk = Desk::new();
    let work = Work::default();
    let stopped = work.clone();
    let host = ScriptedHost::start(move |_| {
        stopped.cancel();
        answer(202, &[("Retry-After", "30")], "{}")
    });
    let client = desk.strict(&host.url(""));
    let error = client.get_index(IndexKind::Dedup, &set("1"), &work);
    let error = error.unwrap_err();
    assert!(matches!(error, Error::Cancelled), "{error:?}");
    assert_eq!(desk.files(), [""; 0]);
}

#[test]
fn transient_failures_are_retried() {
    let desk = Desk::new();
    let tar = tar_of(IndexKind::Full, "1,2");
    let times = AtomicUsize::new(0);
    let host = ScriptedHost::start(move |_| match times.fetch_add(1, Ordering::SeqCst) {
        0 => vec![Part::Close],
        1 => answer(503, &[("Retry-After", "0")], r#"{"message":"later"}"#),
        2 => {
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/x-tar\r\nContent-Length: {}\r\n\r\n",
                tar.len()
            );
            let half = tar[..tar.len() / 2].to_vec();
            vec![
                Part::Bytes(head.into_bytes()),
                Part::Bytes(half),
                Part::Close,
            ]
        }
        _ => arrives(&tar),
    });
    let client = desk.client(&host.url(""));
    let index = client.get_index(IndexKind::Full, &set("1,2"), &Work::default());
    let index = index.unwrap();
    assert_eq!(index.found, set("1,2"));
    assert_eq!(text(&index, "url.cdxj"), lines("1,2").0);
    assert_eq!(host.asked().len(), 4);
    assert_eq!(desk.files().len(), 4);
}

#[test]
fn concurrent_requests_fetch_once() {
    let desk = Desk::new();
    let tar = tar_of(IndexKind::Dedup, "1-9");
    let host = ScriptedHost::start(move |_| arrives(&tar));
    let server = host.url("");
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                // Each thread has its own caches, like a process.
                let index = desk
                    .strict(&server)
                    .get_index(IndexKind::Dedup, &set("1-9"), &Work::default())
                    .unwrap();
                assert_eq!(text(&index, "digest.cdxj"), lines("1-9").1);
            });
        }
    });
    assert_eq!(host.asked().len(), 1);
}

#[test]
fn invalid_server_is_refused() {
    let desk = Desk::new();
    for server in [
        "",
        "host:80",
        "ftp://host/",
        "http://host/?a=b",
        "http://host/#x",
        "/x",
    ] {
        let opened = crawlspace_jobs::IndexRequestClient::open(server, desk.options.clone());
        assert!(matches!(opened, Err(Error::Request(_))), "{server}");
    }
}
