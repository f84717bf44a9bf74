//! Crawls by the real warcprox: with the server's CDX API, and with the plug-in.

use std::process::Command;

use redis_tests::http::get;
use redis_tests::packages::{run, sized};
use redis_tests::pywb::App;
use redis_tests::{DedupeIndex, Options};

use super::site::{Site, payload};
use super::warcprox::{Crawl, Warcprox};
use crate::pywb::data::pywb;
use crate::serving::Stage;
use crate::shelf::Shelf;

/// Asserts that warcio accepts every file, and that pywb replays every revisit from the files of these crawls.
fn is_replayed(crawls: &[&Crawl], site: &Site) {
    let Some(pywb) = pywb() else { return };
    let mut shelf = Shelf::new();
    let mut folders = Vec::new();
    for crawl in crawls {
        let check = pywb.warcio_check(&crawl.files);
        check.unwrap_or_else(|why| panic!("{why}"));
        crawl.index(&mut shelf);
        folders.push(format!("{}/", crawl.warcs().display()));
    }
    let index = shelf.write_index("index.cdxj");
    let config = format!(
        "framed_replay: false\ncollections: {{c: {{index_paths: {index}, archive_paths: [{}]}}}}\n",
        folders.join(", ")
    );
    let replay = pywb.start(App::Wayback, &config, 2);
    let revisits = crawls.iter().flat_map(|crawl| &crawl.records);
    let revisits: Vec<_> = revisits.filter(|one| one.is_revisit).collect();
    std::thread::scope(|scope| {
        for part in revisits.chunks(revisits.len().div_ceil(4).max(1)) {
            let address = replay.address();
            scope.spawn(move || {
                for revisit in part {
                    let path = format!("/c/{}id_/{}", revisit.time, revisit.url);
                    let answer = get(address, &path);
                    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
                    assert_eq!(answer.text(), payload(site.number(&revisit.url)), "{path}");
                }
            });
        }
    });
}

#[test]
fn second_crawl_with_our_cdx_server_writes_only_revisits() {
    let Some(warcprox) = Warcprox::install() else {
        return;
    };
    let site = Site::start(sized(40, 2_000));
    let processes = sized(2, 8);
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("index")).unwrap();
    let (server, mut index) = DedupeIndex::start("{x}:");
    index.ok("URLS ON");
    let url = server.url();
    let stage = Stage::start(&format!(
        "collections:\n  files: {}/index/\n  seen: {{index: {{type: dedupe, redis_url: '{}', prefix: '{{x}}:'}}}}\n",
        dir.path().display(),
        url.trim_end_matches('/')
    ));
    let crawl = |collection: &str| {
        let cdx = format!("{}/{collection}/cdx", stage.url());
        // warcprox abandons a request after two seconds. With 50 threads per process and an
        // unoptimized server, two processors would take longer than that.
        let words = [
            "--cdxserver-dedup",
            &cdx,
            "--cdxserver-dedup-max-threads",
            "4",
        ];
        let running = warcprox.start(processes, &words, &[]);
        running.fetch(&site, 1, || ());
        let crawl = running.end();
        assert_eq!(crawl.records.len(), site.pages);
        crawl
    };
    let first = crawl("files");
    assert_eq!(first.count(true), 0);

    let mut shelf = Shelf::new();
    first.index(&mut shelf);
    let path = shelf.write_index("first.cdxj");
    std::fs::copy(path, dir.path().join("index/first.cdxj")).unwrap();
    redis_tests::until("the new index is noticed", || {
        let answer = stage.get(format!("/files/cdx?url={}", site.url(1)));
        answer.text().lines().count() == 1
    });
    let second = crawl("files");
    assert_eq!(second.unanswered, [""; 0]);
    assert_eq!(second.count(false), 0, "responses");

    // Add one record per payload to the index, with the URL at which it was found.
    for record in &first.records {
        index.ok(format!(
            "ADD c {} 0 {} {} 700",
            record.digest, record.time, record.url
        ));
    }
    index.ok("COMMIT c");
    let third = crawl("seen");
    assert_eq!(third.unanswered, [""; 0]);
    assert_eq!(third.count(true), site.payloads());
    is_replayed(&[&first, &second, &third], &site);
}

/// Runs a crawl with the plug-in that fetches each page `times` times.
fn crawl_with_plugin(
    warcprox: &Warcprox,
    url: &str,
    crawl: &str,
    (site, times): (&Site, usize),
    halfway: impl FnOnce(),
) -> Crawl {
    let variables = [
        ("CRAWLSPACE_URL", url),
        ("CRAWLSPACE_CRAWL", crawl),
        ("CRAWLSPACE_CLAIM", sized("4", "20")),
    ];
    let words = "--dedup-db-file /dev/null --plugin warcprox_crawlspace.Dedup";
    let words: Vec<&str> = words.split(' ').collect();
    let running = warcprox.start(sized(2, 8), &words, &variables);
    running.fetch(site, times, halfway);
    running.end()
}

#[test]
fn plugin_stores_no_payload_twice() {
    let Some(warcprox) = Warcprox::with_plugin() else {
        return;
    };
    let site = Site::start(sized(40, 2_000));
    let mut server = Options::new().aof(false).start();
    let url = server.url();
    // The server is killed in between, and must not lose anything that it has acknowledged.
    let restart = || {
        server.kill9();
        server.restart();
    };
    let first = crawl_with_plugin(&warcprox, &url, "crawl-1", (&site, 2), restart);
    assert_eq!(first.records.len(), 2 * site.pages);
    let twice = first.stored().into_iter().find(|(_, times)| *times > 1);
    assert_eq!(twice, None, "a payload that was stored twice");
    assert_eq!(first.count(false), site.payloads());

    let mut index = DedupeIndex::of(&server, "{__unspecified__}:");
    let count = |index: &mut DedupeIndex, name: &str| {
        let key = index.key("h:crawl-1:counts");
        let count = index.plain(format!("HGET {key} {name}")).text();
        count.parse::<usize>().unwrap()
    };
    assert_eq!(count(&mut index, "totalUrls"), 2 * site.pages);
    assert_eq!(count(&mut index, "dupeUrls"), first.count(true));
    index.ok("COMMIT crawl-1");

    let second = crawl_with_plugin(&warcprox, &url, "crawl-2", (&site, 1), || ());
    assert_eq!((second.count(false), second.count(true)), (0, site.pages));
    is_replayed(&[&first, &second], &site);
}

/// Runs the plug-in's own tests on the installed plug-in.
#[test]
fn plugin_passes_its_tests() {
    let Some(warcprox) = Warcprox::with_plugin() else {
        return;
    };
    let server = Options::new().start();
    let tests = super::warcprox::sources().join("tests");
    let mut python = Command::new(warcprox.python());
    python
        .args(["-B", "-m", "unittest", "discover", "-s"])
        .arg(tests)
        .env("CRAWLSPACE_URL", server.url());
    run(&mut python).unwrap_or_else(|why| panic!("{why}"));
}
