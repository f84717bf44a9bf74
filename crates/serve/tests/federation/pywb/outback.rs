//! Tests of pywb as a client of collections through the OutbackCDX API.

use redis_tests::http::get;
use redis_tests::pywb::App;
use redis_tests::{assert_contains, assert_starts};

use super::data::pywb;
use crate::outback::shelf;

#[test]
fn pywb_replays_captures_found_through_outbackcdx_queries() {
    let Some(pywb) = pywb() else { return };
    let mut shelf = shelf();
    let stage = shelf.serve();
    let config = format!(
        "collections:\n  xml: {{index: 'xmlquery+{url}/c', archive_paths: '{warcs}/'}}\n  \
         cdx: {{index: 'cdx+{url}/c', archive_paths: '{warcs}/'}}\n",
        url = stage.url(),
        warcs = shelf.warcs(),
    );
    let theirs = pywb.start(App::WarcServer, &config, 1);
    let ask = |target: &str| get(theirs.address(), target);
    for collection in ["xml", "cdx"] {
        let rows = ask(&format!("/{collection}/index?url=http://example.com/b")).text();
        assert_starts(&rows, "com,example)/b 20180101000000 ");
        assert_eq!(rows.lines().count(), 1, "{rows}");
    }
    let record = ask("/xml/resource?url=http://example.com/b&closest=2018");
    assert_eq!(record.status, 200, "{}", record.text());
    assert_contains(record.text(), "http://example.com/b 20180101000000");
    let all = ask("/xml/index?url=http://example.com/*").text();
    assert_eq!(all.lines().count(), 3, "{all}");
}
