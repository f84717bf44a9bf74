//! Tests of captures replayed through Memento, and by pywb with our APIs instead of its own.

use redis_tests::archive::collection::{Capture, sha1_base32};
use redis_tests::http::{Answer, ask, get};
use redis_tests::pywb::Running;
use redis_tests::{assert_contains, rows};

use crate::pywb::both_ways::encoded;
use crate::pywb::both_ways::samples;
use crate::pywb::data::{Data, pywb};
use crate::pywb::record::{Checked, payload_of};
use crate::serving::Stage;
use crate::shelf::{Shelf, iso};

/// URLs that change their meaning if they are escaped or normalized.
const ODD: [&str; 6] = [
    "http://odd.example/a?b=c&d=e",
    "http://odd.example/a+b?c=d+e",
    "http://odd.example/a%26b?c=%2B%25",
    "http://odd.example/a//b/?",
    "http://odd.example/?u=http://example.org/?a=b&c=d",
    "http://odd.example/a,b,c=(d)'*!",
];
const TIME: &str = "20180102030405";
const AGAIN: &str = "http://odd.example/again";
const CYCLE: &str = "http://odd.example/cycle";
/// pywb does not find this URL in the `Link` header of any TimeGate.
const SEMICOLON: &str = "http://odd.example/a;b=c";

/// The generated archive with a third collection, of unusual URLs.
struct Odd {
    data: Data,
    config: String,
    _shelf: Shelf,
}

impl Odd {
    fn new(test: &str) -> Odd {
        let data = Data::new(test);
        let mut shelf = Shelf::new();
        for url in ODD.into_iter().chain([SEMICOLON]) {
            shelf.capture(
                "odd.warc.gz",
                url,
                TIME,
                format!("this is {url}").as_bytes(),
            );
        }
        again(&mut shelf);
        cycle(&mut shelf);
        let (index, warcs) = (shelf.write_index("odd.cdxj"), shelf.warcs());
        let config = format!(
            "{}\x20 odd:\n    index_paths: {index}\n    archive_paths: {warcs}/\n",
            data.config()
        );
        Odd {
            data,
            config,
            _shelf: shelf,
        }
    }

    /// Returns URLs and timestamps of sample captures.
    fn captures(&self) -> Vec<(String, String)> {
        let north = samples(&self.data.north.captures);
        let of = |capture: &&Capture| (capture.url.clone(), capture.timestamp.clone());
        north.iter().map(of).collect()
    }
}

/// Adds a revisit of the first URL, whose HTTP header differs from that of its original.
fn again(shelf: &mut Shelf) {
    let digest = sha1_base32(format!("this is {}", ODD[0]).as_bytes());
    let fields = rows![
        "WARC-Type", "revisit";
        "WARC-Record-ID", "<urn:uuid:again>";
        "WARC-Date", &iso(TIME);
        "WARC-Target-URI", AGAIN;
        "WARC-Refers-To-Target-URI", ODD[0];
        "WARC-Refers-To-Date", &iso(TIME);
        "WARC-Payload-Digest", &format!("sha1:{digest}");
        "WARC-Profile", "http://netpreserve.org/warc/1.0/revisit/identical-payload-digest";
        "Content-Type", "application/http; msgtype=response";
    ];
    let block = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nX-Again: yes\r\n\r\n";
    let slot = shelf.record("odd.warc.gz", &fields, block);
    let more = format!(", \"digest\": \"{digest}\", \"mime\": \"warc/revisit\"");
    shelf.line(AGAIN, TIME, &slot, &more);
}

/// Adds a redirect to the same page with another scheme, and no other capture of that page.
fn cycle(shelf: &mut Shelf) {
    let fields = [
        ("WARC-Type", "response"),
        ("WARC-Record-ID", "<urn:uuid:cycle>"),
        ("WARC-Date", &*iso(TIME)),
        ("WARC-Target-URI", CYCLE),
        ("Content-Type", "application/http; msgtype=response"),
    ];
    let to = CYCLE.replace("http:", "https:");
    let block = format!("HTTP/1.1 301 Moved\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n");
    let slot = shelf.record("odd.warc.gz", &fields, block.as_bytes());
    shelf.line(CYCLE, TIME, &slot, ", \"status\": \"301\"");
}

/// Asserts that two responses have the same content.
#[track_caller]
pub(super) fn same(answer: &Answer, expected: &Answer, path: &str) {
    assert_eq!(answer.status, expected.status, "{path}: {}", answer.text());
    assert!(
        answer.body == expected.body,
        "{path}: {}\n{}",
        answer.text(),
        expected.text()
    );
    for name in ["content-type", "content-encoding", "memento-datetime"] {
        assert_eq!(answer.field(name), expected.field(name), "{path}: {name}");
    }
}

/// Asserts that pywb replays the unusual URLs of a collection.
#[track_caller]
fn replays_odd_ones(pywb: &Running, collection: &str) {
    for url in ODD {
        let path = format!("/{collection}/{TIME}id_/{url}");
        let answer = get(pywb.address(), &path);
        let found = (answer.status, answer.text());
        assert_eq!(found, (200, format!("this is {url}")), "{path}");
    }
}

#[test]
fn pywb_and_ours_replay_every_kind_of_capture_by_memento() {
    let Some(pywb) = pywb() else { return };
    let odd = Odd::new("pywb_and_ours_replay_every_kind_of_capture_by_memento");
    let ours = Stage::start(&odd.config);
    let base = ours.url();
    let mementos = format!(
        "\x20 mementos: memento+{base}/north/timegate/\n\x20 odd_mementos: memento+{base}/odd/timegate/\n\
         \x20 place: memento+{base}/north/\n"
    );
    let rows = format!("\x20 rows: cdx+{base}/north/index\n\x20 odd_rows: cdx+{base}/odd/index\n");
    let second = Stage::start_apart(&format!("collections:\n{mementos}"));
    let config = format!("framed_replay: false\n{}{mementos}{rows}", odd.config);
    let theirs = pywb.start(redis_tests::pywb::App::Wayback, &config, 1);
    for (url, time) in odd.captures() {
        let path = format!("{time}id_/{url}");
        let local = get(theirs.address(), &format!("/north/{path}"));
        let remote = get(theirs.address(), &format!("/mementos/{path}"));
        same(&remote, &local, &path);
        let row = get(theirs.address(), &format!("/rows/{path}"));
        same(&row, &local, &path);
        let first = ours.get(format!("/north/{path}"));
        for collection in ["mementos", "place"] {
            let again = second.get(format!("/{collection}/{path}"));
            same(&again, &first, &path);
            for name in [
                "content-length",
                "x-archive-orig-location",
                "x-archive-orig-server",
            ] {
                assert_eq!(again.field(name), first.field(name), "{path}: {name}");
            }
        }
        let there = remote.field("location").map(|to| to.to_owned());
        let to = local.field("location").map(|to| {
            let url = url::Url::parse(&url).unwrap();
            url.join(to).unwrap().to_string()
        });
        assert_eq!(there, to, "{path}");
    }
    replays_odd_ones(&theirs, "odd_mementos");
    replays_odd_ones(&theirs, "odd_rows");
    let path = format!("/odd_rows/{TIME}id_/{SEMICOLON}");
    let answer = get(theirs.address(), &path);
    assert_eq!(answer.text(), format!("this is {SEMICOLON}"));
    for url in ODD {
        let answer = second.get(format!("/odd_mementos/{TIME}id_/{url}"));
        assert_eq!(answer.text(), format!("this is {url}"));
    }
    let page = "timemap/link/http://example.com/";
    let [first, again] = [ours.address(), second.address()].map(|address| {
        let collection = if address == ours.address() {
            "north"
        } else {
            "mementos"
        };
        let map = get(address, &format!("/{collection}/{page}")).text();
        map.matches("datetime=").count()
    });
    assert!(first > 20 && first == again, "{first} {again}");
}

#[test]
fn pywb_replays_with_our_apis_instead_of_its_own() {
    let Some(pywb) = pywb() else { return };
    let odd = Odd::new("pywb_replays_with_our_apis_instead_of_its_own");
    let ours = Stage::start(&odd.config);
    let config = format!("framed_replay: false\n{}", odd.config);
    let alone = pywb.start(redis_tests::pywb::App::Wayback, &config, 1);
    let turned = pywb.start_before(&ours.url(), &config);
    for (url, time) in odd.captures() {
        for collection in ["north", "both"] {
            let path = format!("/{collection}/{time}id_/{url}");
            let answer = get(turned.address(), &path);
            let expected = get(alone.address(), &path);
            same(&answer, &expected, &path);
            assert_eq!(answer.field("location"), expected.field("location"));
        }
    }
    replays_odd_ones(&turned, "odd");
    for path in [
        "/both/timemap/link/http://example.com/",
        "/both/timemap/cdxj/http://example.com/",
        "/north/20180601/http://example.com/",
        "/north/http://example.com/",
    ] {
        let [answer, expected] = [&turned, &alone].map(|one| get(one.address(), path));
        assert_eq!(answer.status, expected.status, "{path}");
        let count = |answer: &Answer| answer.text().matches("example.com").count();
        assert_eq!(count(&answer), count(&expected), "{path}");
        assert!(count(&answer) > 0);
    }
    // Neither server sends clients into a redirect loop.
    for (target, status) in [
        ("/north/2018id_/http://nothing.example.net/".to_owned(), 404),
        (format!("/odd/{TIME}id_/{CYCLE}"), 404),
    ] {
        assert_eq!(get(turned.address(), &target).status, status, "{target}");
    }
    let theirs = get(alone.address(), &format!("/odd/{TIME}id_/{CYCLE}"));
    assert_eq!(theirs.status, 400, "{}", theirs.text());
}

#[test]
fn records_of_a_pywb_warcserver_are_accepted() {
    let Some(pywb) = pywb() else { return };
    let odd = Odd::new("records_of_a_pywb_warcserver_are_accepted");
    let theirs = pywb.start(redis_tests::pywb::App::WarcServer, &odd.config, 1);
    let base = theirs.url();
    let ours = Stage::start(&format!(
        "collections:\n\x20 north: {{index: upstream+{base}/north, index_timeout: 60}}\n\
         \x20 odd: {{index: upstream+{base}/odd, index_timeout: 60}}\n"
    ));
    let mut checked = Checked::new(&pywb);
    for capture in samples(&odd.data.north.captures) {
        let (url, time) = (&capture.url, &capture.timestamp);
        let path = format!("/north/resource?url={}&closest={time}", encoded(url));
        let record = checked.record(&ours.get(&path));
        assert_eq!(&record.target, url, "{path}");
        assert_eq!(record.payload, payload_of(capture), "{path}");
    }
    let posted = odd.data.north.captures.iter();
    let mut posted = posted.filter(|capture| capture.posted.is_some() && !capture.is_revisit());
    for capture in posted.by_ref().take(5) {
        let form = capture.posted.as_deref().unwrap();
        let path = format!(
            "/north/resource?url={}&closest={}",
            encoded(&capture.url),
            capture.timestamp
        );
        let fields = [("Content-Type", "application/x-www-form-urlencoded")];
        let answer = ask(ours.address(), "POST", &path, &fields, form.as_bytes()).unwrap();
        assert_eq!(
            checked.record(&answer).payload,
            payload_of(capture),
            "{path}"
        );
    }
    let path = format!("/odd/resource?url={AGAIN}&closest={TIME}");
    let record = checked.record(&ours.get(&path));
    assert_eq!(record.payload, format!("this is {}", ODD[0]).as_bytes());
    assert_contains(&record.head, "X-Again: yes");
    checked.are_valid();
}
