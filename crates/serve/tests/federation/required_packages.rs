//! Tests of revisits whose originals are in packages that the revisit's package requires.

use crawlspace_client::dedupe::{Added, Adding};
use crawlspace_wacz::package::Required;
use crawlspace_wacz::{Index, Location, Options, Wacz};
use redis_tests::archive::collection::sha1_base32;
use redis_tests::{FileHost, Manners, Server, assert_contains};

use crate::packages::{TIMES, pack_with, shelf};
use crate::resource::record;
use crate::serving::Stage;
use crate::shelf::Shelf;

/// Request for the revisit.
const REVISIT: &str = "/w/resource?url=http://example.com/0&closest=20190101000000";

/// Creates a package with originals, and a package with the revisit. If `more` is set, the second package requires the
/// first, with a size that is `more` bytes too large.
fn packages(shelf: &mut Shelf, more: Option<u64>) {
    let index = shelf.write_index("index.cdxj");
    let first = shelf.path().join("first.wacz");
    pack_with(
        shelf,
        &index,
        "north.warc.gz",
        Index::Blocks(2),
        &first,
        &[],
    );
    let wacz = Wacz::open(&Location::from(&*first), &Options::default()).unwrap();
    let required = Required {
        filename: "first.wacz".to_owned(),
        hash: Some(wacz.digest(|_| ()).unwrap()),
        size: more.map(|more| wacz.size() + more),
        crawl: None,
    };
    let second = shelf.path().join("second.wacz");
    let requires = more.map(|_| required);
    pack_with(
        shelf,
        &index,
        "south.warc.gz",
        Index::Blocks(2),
        &second,
        requires.as_slice(),
    );
}

/// Asserts that the response has the payload of the original and the metadata of the revisit.
#[track_caller]
fn is_resolved(stage: &Stage) {
    let (head, block) = record(&stage.get(REVISIT));
    assert_contains(head, "2019-01-01T00:00:00Z");
    let expected = format!("http://example.com/0 at {}", TIMES[0]);
    assert!(
        block.ends_with(expected.as_bytes()),
        "{}",
        String::from_utf8_lossy(&block)
    );
}

#[track_caller]
fn is_missing(stage: &Stage) {
    // The earlier captures have other payloads.
    let answer = stage.get(format!("{REVISIT}&from=2019"));
    assert_eq!(answer.status, 404, "{}", answer.text());
}

#[test]
fn original_is_found_in_a_required_package() {
    let mut shelf = shelf();
    packages(&mut shelf, Some(0));
    let second = shelf.path().join("second.wacz");
    let stage = Stage::start(&format!("collections: {{w: {}}}\n", second.display()));
    is_resolved(&stage);
    // Repeat the test with packages on a web server.
    let host = FileHost::start();
    for name in ["first.wacz", "second.wacz"] {
        let bytes = std::fs::read(shelf.path().join(name)).unwrap();
        host.put(&format!("/{name}"), &bytes, Manners::default());
    }
    let at = host.url("/second.wacz");
    let stage = Stage::start(&format!("collections: {{w: {at}}}\n"));
    is_resolved(&stage);
    host.remove("/first.wacz");
    let stage = Stage::start(&format!("collections: {{w: {at}}}\n"));
    is_missing(&stage);
}

#[test]
fn hidden_original_is_not_taken_from_a_required_package() {
    let mut shelf = shelf();
    packages(&mut shelf, Some(0));
    let second = shelf.path().join("second.wacz");
    let at = second.display();
    // The original is older than its revisit.
    for (embargo, is_hidden) in [
        ("{before: 2015}", true),
        ("{before: 2015, access: block}", true),
        ("{before: 2013}", false),
    ] {
        let stage = Stage::start(&format!(
            "collections: {{w: {{index: {at}, embargo: {embargo}}}}}\n"
        ));
        if is_hidden {
            is_missing(&stage);
        } else {
            is_resolved(&stage);
        }
    }
}

#[test]
fn package_of_another_size_is_not_the_required_one() {
    let mut shelf = shelf();
    packages(&mut shelf, Some(1));
    let second = shelf.path().join("second.wacz");
    let stage = Stage::start(&format!("collections: {{w: {}}}\n", second.display()));
    is_missing(&stage);
}

#[test]
fn original_is_found_through_the_dedupe_index() {
    let server = Server::start();
    let mut shelf = shelf();
    packages(&mut shelf, None);
    let second = shelf.path().join("second.wacz");
    let config = |dedupe: &str| {
        let (at, url) = (second.display(), server.url());
        let url = url.trim_end_matches('/');
        format!(
            "collections: {{w: {{index: {at}{}}}}}\n",
            dedupe.replace("URL", url)
        )
    };
    let without = Stage::start(&config(""));
    is_missing(&without);
    let connection = crawlspace_client::Server::open(&server.url()).unwrap();
    let index = crawlspace_client::dedupe::Index::on(&connection, "{x}:");
    let number = index.wacz_open(b"crawl-1", b"first.wacz").unwrap();
    let url = "http://example.com/0";
    let payload = format!("{url} at {}", TIMES[0]);
    let hash = format!("sha1:{}", sha1_base32(payload.as_bytes()));
    let added = Added::new(
        hash.as_bytes(),
        number,
        TIMES[0].as_bytes(),
        url.as_bytes(),
        100,
    );
    index.add(b"crawl-1", &Adding::default(), &[added]).unwrap();
    index.commit(b"crawl-1").unwrap();
    let stage = Stage::start(&config(", dedupe: 'URL/0/{x}:'"));
    is_resolved(&stage);
    // An unavailable index is logged, and no record is returned.
    let stage = Stage::start(&config(", dedupe: 'redis://127.0.0.1:1/0/'"));
    is_missing(&stage);
    let log = stage.log();
    assert_contains(log, "a dedupe index cannot be queried for an original");
}
