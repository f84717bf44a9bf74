//! Tests of files on well-behaved and on misbehaving servers.

use redis_tests::{FileHost, Manners, Request as Asked, assert_contains, but};

use super::*;
use crate::Network;

fn net() -> Arc<Net> {
    let loopback = Network {
        address: [127, 0, 0, 1].into(),
        bits: 8,
    };
    Net::new(&[loopback]).unwrap()
}

fn file(host: &FileHost, path: &str) -> Arc<RemoteFile> {
    net().file(&host.url(path).parse().unwrap())
}

fn manners(etag: &str) -> Manners {
    but!(Manners::default(), etag: Some(etag.to_owned()))
}

/// Returns bytes that differ from their neighbours, so that an offset error is noticed.
fn bytes(size: usize) -> Vec<u8> {
    (0..size).map(|n| (n / 251 + n % 251) as u8).collect()
}

/// Returns the ranges that were requested.
fn ranges(requests: &[Asked]) -> Vec<&str> {
    requests.iter().map(|one| &*one.fields["range"]).collect()
}

#[tokio::test]
async fn cached_parts_are_not_requested_again() {
    let host = FileHost::start();
    let all = bytes(3 << 20);
    host.put("/a", &all, manners("\"1\""));
    let version = file(&host, "/a").version(First::Begin).await.unwrap();
    assert_eq!(version.size(), all.len() as u64);
    for (from, length) in [
        (0, 10),
        (100_000, 5),
        (99_000, 40_000),
        (3 << 20, 5),
        (0, 0),
    ] {
        for _ in 0..2 {
            let read = version.read(from as u64, length).await.unwrap();
            let end = all.len().min(from + length);
            assert_eq!(read, all[from.min(end)..end], "{from}");
            assert_eq!(version.kept(from as u64, length), Some(read), "{from}");
        }
    }
    let requests = host.requests();
    let expected = ["bytes=0-32767", "bytes=98304-131071", "bytes=131072-196607"];
    assert_eq!(ranges(&requests), expected);
    assert_eq!(version.kept(1 << 20, 10), None);
}

#[tokio::test]
async fn read_ahead_grows_with_sequential_reads_up_to_a_limit() {
    let host = FileHost::start();
    let all = bytes(12 << 20);
    host.put("/a", &all, manners("\"1\""));
    let version = file(&host, "/a").version(First::Begin).await.unwrap();
    let mut read = Vec::new();
    while (read.len() as u64) < version.size() {
        let piece = version.read(read.len() as u64, 8 << 10).await.unwrap();
        read.extend_from_slice(&piece);
    }
    assert!(read == all);
    let requests = host.requests();
    assert!(requests.len() < 25, "{:?}", ranges(&requests));
    let most = requests.iter().map(|one| one.sent.1).max().unwrap();
    assert_eq!(most, MAX_AHEAD + PAGE);
    assert_eq!(host.sent(), version.size());
}

#[tokio::test]
async fn small_file_and_end_of_a_large_one_take_one_request() {
    let host = FileHost::start();
    for size in [0, 1, 100, 32 << 10, 300_000, 5 << 20] {
        let all = bytes(size);
        host.put("/a", &all, Manners::default());
        host.take_requests();
        let version = file(&host, "/a").version(First::End).await.unwrap();
        let tail = size.saturating_sub(66_000);
        assert_eq!(
            version.read(tail as u64, 66_000).await.unwrap(),
            all[tail..]
        );
        assert_eq!(host.take_requests().len(), 1, "{size}");
        assert_eq!(version.read(0, 5).await.unwrap(), all[..size.min(5)]);
        version.read(size as u64 / 2, 5).await.unwrap();
        let most = if size > SMALL as usize { 2 } else { 1 };
        assert!(host.take_requests().len() <= most, "{size}");
    }
}

#[tokio::test]
async fn concurrent_readers_of_a_part_send_one_request() {
    let host = FileHost::start();
    host.put("/a", &bytes(3 << 20), manners("\"1\""));
    let file = file(&host, "/a");
    let versions = (0..20).map(|_| file.version(First::Begin));
    let versions = futures_util::future::try_join_all(versions).await.unwrap();
    assert_eq!(host.requests().len(), 1);
    let read = versions.iter().map(|version| version.read(1 << 20, 100));
    futures_util::future::try_join_all(read).await.unwrap();
    assert_eq!(host.requests().len(), 2);
}

#[tokio::test]
async fn changed_or_removed_file_is_noticed() {
    let host = FileHost::start();
    let all = bytes(3 << 20);
    let modified = |date: &str| but!(Manners::default(), last_modified: Some(date.to_owned()));
    for (before, after, what) in [
        (
            manners("\"1\""),
            Some((all.clone(), manners("\"2\""))),
            "its ETag was",
        ),
        (
            modified("Mon"),
            Some((all.clone(), modified("Tue"))),
            "its Last-Modified was",
        ),
        (
            modified("Mon"),
            Some((bytes(4 << 20), modified("Mon"))),
            "it had 3145728 bytes",
        ),
        (manners("\"1\""), None, "HTTP status 404"),
    ] {
        host.put("/a", &all, before);
        let file = file(&host, "/a");
        let version = file.version(First::Begin).await.unwrap();
        assert!(version.is_last());
        match &after {
            Some((bytes, manners)) => host.put("/a", bytes, manners.clone()),
            None => host.remove("/a"),
        }
        let error = version.read(1 << 20, 10).await.unwrap_err();
        assert_contains(error, what);
        assert!(!version.is_last() && file.known().is_none());
        // Cached pages still have the content of `version`.
        assert_eq!(version.read(0, 10).await.unwrap(), all[..10]);
        if after.is_some() {
            let now = file.version(First::Begin).await.unwrap();
            assert!(now.id() != version.id() && now.is_last());
        } else {
            assert_contains(file.version(First::Begin).await.unwrap_err(), what);
            assert!(file.version_if_any().await.unwrap().is_none());
        }
    }
}

#[tokio::test]
async fn revalidated_file_is_the_same_without_contrary_evidence() {
    let host = FileHost::start();
    host.put("/a", &bytes(3 << 20), manners("\"1\""));
    let file = file(&host, "/a");
    let version = file.version(First::Begin).await.unwrap();
    let forget = || {
        let mut known = lock(&file.known);
        let (_, seen) = known.as_mut().unwrap();
        *seen = Instant::now() - RECHECK;
    };
    forget();
    assert!(file.known().is_none());
    let again = file.version(First::Begin).await.unwrap();
    assert!(Arc::ptr_eq(&again, &version) && file.known().is_some());
    assert_eq!(host.requests()[1].sent.1, 1);
    host.put("/a", &bytes(3 << 20), manners("\"2\""));
    forget();
    let other = file.version(First::Begin).await.unwrap();
    assert!(!Arc::ptr_eq(&other, &version) && !version.is_last());
}

#[tokio::test]
async fn impossible_responses_are_refused() {
    let host = FileHost::start();
    let all = bytes(3 << 20);
    let later = |manners: Manners| {
        let later = Some((2, Box::new(manners)));
        but!(Manners::default(), later)
    };
    let good = Manners::default();
    for (manners, what) in [
        (but!(good.clone(), range_lie: 1), "requested bytes"),
        (
            but!(good.clone(), no_content_range: true),
            "without a Content-Range",
        ),
        (
            but!(good.clone(), encoding: Some("br".to_owned())),
            "compressed (br)",
        ),
        (but!(good.clone(), cut: Some((100, 9))), "connection lost"),
        (
            but!(good.clone(), failing: Some((503, 9))),
            "HTTP status 503",
        ),
    ] {
        host.put("/a", &all, later(manners));
        let version = file(&host, "/a").version(First::Begin).await.unwrap();
        let error = version.read(1 << 20, 10).await.unwrap_err();
        assert_contains(error, what);
    }
    let whole = but!(good.clone(), ranges: false);
    host.put("/small", b"small", whole.clone());
    let version = file(&host, "/small").version(First::End).await.unwrap();
    assert_eq!(version.read(0, 9).await.unwrap(), b"small"[..]);
    host.put("/large", &bytes(17 << 20), whole);
    let error = file(&host, "/large").version(First::End).await.unwrap_err();
    assert_contains(error, "sends the whole file instead of the requested part");
    assert!(host.requests().last().unwrap().path == "/large");
}

#[tokio::test]
async fn transient_failures_are_retried() {
    let host = FileHost::start();
    let all = bytes(3 << 20);
    let later = |manners: Manners| {
        let later = Some((2, Box::new(manners)));
        but!(Manners::default(), later)
    };
    for manners in [
        but!(Manners::default(), failing: Some((503, 2))),
        but!(Manners::default(), failing: Some((429, 1))),
        but!(Manners::default(), cut: Some((10_000, 2))),
        later(but!(Manners::default(), cut: Some((10_000, 2)))),
        later(but!(Manners::default(), shorter_ranges: Some(10_000))),
        later(but!(Manners::default(), unknown_total: true)),
    ] {
        host.put("/a", &all, manners);
        let version = file(&host, "/a").version(First::Begin).await.unwrap();
        for from in [0, 1 << 20] {
            let read = version.read(from, 10).await.unwrap();
            assert_eq!(read, all[from as usize..from as usize + 10]);
        }
    }
}

#[tokio::test]
async fn stream_returns_the_requested_bytes_and_caches_nothing() {
    let host = FileHost::start();
    let all = bytes(3 << 20);
    for manners in [manners("\"1\""), but!(Manners::default(), chunked: true)] {
        host.put("/a", &all, manners);
        let version = file(&host, "/a").version(First::Begin).await.unwrap();
        for (from, length) in [(0, 1), (5, 100_000), ((3 << 20) - 5, 100), (3 << 20, 5)] {
            let stream = version.stream(from, length).await.unwrap();
            let read: Vec<Bytes> = stream.try_collect().await.unwrap();
            let end = all.len().min((from + length) as usize);
            assert_eq!(read.concat(), all[from as usize..end], "{from}");
        }
        assert_eq!(version.kept(2 << 20, 1), None);
    }
    host.put("/whole", &all, but!(Manners::default(), ranges: false));
    let version = file(&host, "/whole").version(First::Begin).await.unwrap();
    let stream = version.stream(7, 100).await.unwrap();
    let read: Vec<Bytes> = stream.try_collect().await.unwrap();
    assert_eq!(read.concat(), all[7..107]);
}

#[test]
fn least_recently_used_pages_are_evicted_first() {
    let mut pages = Pages::default();
    let page = Bytes::from(vec![0; PAGE as usize]);
    let most = MAX_KEPT as u64 / PAGE;
    for number in 0..most {
        pages.put((1, number), page.clone());
    }
    assert_eq!(pages.size, MAX_KEPT);
    assert!(pages.get((1, 0)).is_some());
    pages.put((2, 0), page.clone());
    assert!(pages.size <= MAX_KEPT / 2 + PAGE as usize);
    assert!(pages.get((1, 0)).is_some() && pages.get((1, 1)).is_none());
    pages.forget(1);
    assert_eq!((pages.size, pages.pages.len()), (PAGE as usize, 1));
}
