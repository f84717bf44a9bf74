//! Tests of all four layers: a client, the server's indexes, the lines of jobs, and metadata files.

use std::collections::BTreeSet;

use crawlspace_index::Lookup;
use crawlspace_jobs::operations::list;
use crawlspace_jobs::{IndexKind, Work};
use redis_tests::http::get;

use crate::job_indexes::archive::{self, Stage as Archive};
use crate::job_indexes::parcels::{Desk, set};
use crate::job_indexes::server::{figure, start};

#[test]
fn client_gets_the_index_of_the_server() {
    let archive = Archive::with_jobs("1-5", 400);
    let server = start(&archive);
    let desk = Desk::new();
    let client = desk.client(&server.url());
    let jobs = set("1-5,9");
    for kind in [IndexKind::Dedup, IndexKind::Full] {
        let copy = client.get_index(kind, &jobs, &Work::default()).unwrap();
        assert_eq!(copy.found, set("1-5"));
        assert_eq!(copy.missing.len(), 1);
        let original = archive::get(&archive.caches(), kind, "1-5");
        let expected = &copy.entry.manifest().counts;
        assert_eq!(&original.entry.manifest().counts, expected);
        for stem in ["url", "digest"] {
            let file = copy.entry.path().join(format!("{stem}.cdxj"));
            let text = std::fs::read_to_string(file).unwrap();
            let lines = archive::lines(&original.entry, stem);
            assert!(!lines.is_empty());
            assert!(text.lines().eq(lines.iter().map(|line| &**line)));
        }
    }
    let copy = client.get_index(IndexKind::Cdx, &jobs, &Work::default());
    let copy = copy.unwrap();
    let original = archive::get(&archive.caches(), IndexKind::Cdx, "1-5");
    let read = |path| std::fs::read(path).unwrap();
    assert!(read(copy.entry.path()) == read(original.entry.path()));
}

#[test]
fn copy_is_searched_without_a_server() {
    let archive = Archive::with_jobs("1-3", 300);
    let server = start(&archive);
    let url = server.url();
    let desk = Desk::new();
    let jobs = set("1-3");
    desk.client(&url)
        .get_index(IndexKind::Full, &jobs, &Work::default())
        .unwrap();
    drop(server);

    let copy = desk
        .strict(&url)
        .get_index(IndexKind::Full, &jobs, &Work::default())
        .unwrap();
    let copies = Lookup::open(copy.entry.path()).unwrap();
    let original = archive::get(&archive.caches(), IndexKind::Full, "1-3");
    let originals = Lookup::open(original.entry.path()).unwrap();
    let lines = archive::lines(&original.entry, "url");
    let mut asked = BTreeSet::new();
    for line in lines.iter().step_by(37) {
        let members = archive::members(line);
        let (page, digest) = (&members["url"], &members["digest"]);
        let both = [&copies, &originals].map(|lookup| {
            let by_url = lookup.by_url(page).unwrap();
            let by_digest = lookup.by_digest(digest).unwrap();
            let rows = by_url
                .chain(by_digest)
                .map(|row| row.unwrap().line().to_vec());
            rows.collect::<Vec<_>>()
        });
        assert!(!both[0].is_empty(), "{line}");
        assert_eq!(both[0], both[1], "{line}");
        asked.insert(page.clone());
    }
    assert!(asked.len() > 3);
}

#[test]
fn concurrent_requests_build_everything_once() {
    let archive = Archive::with_jobs("1-6", 200);
    let server = start(&archive);
    let sets = ["1-6", "1-3", "2-5", "1-6", "6", "1-3", "1-7", "2-5"];
    std::thread::scope(|scope| {
        for jobs in sets.into_iter().chain(sets) {
            let server = &server;
            scope.spawn(move || {
                for kind in ["dedup", "full", "cdx"] {
                    let target = format!("/_indexes/{kind}?jobs={jobs}&wait=300");
                    let answer = get(server.address(), &target);
                    assert_eq!(answer.status, 200, "{}", answer.text());
                    let found = answer.field("jobs-found").unwrap();
                    assert_eq!(found, if jobs == "1-7" { "1-6" } else { jobs });
                }
            });
        }
    });
    let entries = list(&archive.cache_dir()).unwrap();
    assert!(
        entries.iter().all(|one| one.state.why().is_none()),
        "{entries:?}"
    );
    assert_eq!(figure(&server, "builds_total"), entries.len() as u64);
    assert_eq!(figure(&server, "failures_total"), 0);
    let of = |folder: &str| {
        entries
            .iter()
            .filter(|one| one.layer.folder == folder)
            .count()
    };
    // Expected: the indexes of three sets of jobs, and of each job alone.
    assert_eq!(of("dedupcrawllogindex"), 9);
    assert_eq!(of("fullcrawllogindex"), 9);
    assert_eq!((of("crawllog"), of("cdxdata")), (6, 6));
}

#[test]
fn client_processes_fetch_once() {
    let archive = Archive::with_jobs("1-4", 100);
    let server = start(&archive);
    let desk = Desk::new();
    std::thread::scope(|scope| {
        for jobs in ["1-4", "1,2", "1-4", "1,2", "1-4", "9,1,2", "1,2"] {
            let (desk, url) = (&desk, server.url());
            scope.spawn(move || {
                let client = desk.client(&url);
                let index = client.get_index(IndexKind::Dedup, &set(jobs), &Work::default());
                let expected = if jobs == "9,1,2" { "1,2" } else { jobs };
                assert_eq!(index.unwrap().found, set(expected));
            });
        }
    });
    let copies = list(&desk.options.cache_dir).unwrap();
    let names: Vec<_> = copies.iter().map(|one| &*one.entry).collect();
    assert_eq!(names, ["1-2-3-4-cache", "1-2-cache"]);
}
