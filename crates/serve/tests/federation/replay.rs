//! Tests of raw replay: `/<coll>/<timestamp>id_/<url>`.

use redis_tests::http::{Answer, ask, get};

use crate::resource::Archive;
use crate::serving::Stage;
use crate::shelf::{Shelf, iso};
use redis_tests::{ScriptedHost, rows};

const TIME: &str = "20160102030405";

/// Decodes the chunked transfer coding, which must be valid.
fn unchunked(mut rest: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    loop {
        let end = rest.windows(2).position(|two| two == b"\r\n").unwrap();
        let size = std::str::from_utf8(&rest[..end]).unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            return plain;
        }
        plain.extend_from_slice(&rest[end + 2..][..size]);
        rest = &rest[end + 2 + size + 2..];
    }
}

/// Adds a response with this block, and its index line.
fn store(shelf: &mut Shelf, url: &str, time: &str, block: &[u8]) {
    let fields = [
        ("WARC-Type", "response"),
        ("WARC-Record-ID", &format!("<urn:uuid:{time}>")),
        ("WARC-Date", &iso(time)),
        ("WARC-Target-URI", url),
        ("Content-Type", "application/http; msgtype=response"),
    ];
    let slot = shelf.record("a.warc", &fields, block);
    shelf.line(url, time, &slot, "");
}

fn replayed(stage: &Stage, url: &str) -> Answer {
    stage.get(format!("/c/{TIME}id_/{url}"))
}

#[test]
fn every_capture_is_replayed_as_recorded() {
    let archive = Archive::new("every_capture_is_replayed_as_recorded");
    let (base, address) = (archive.stage.url(), archive.stage.address());
    let (mut redirects, mut chunked, mut packed) = (0, 0, 0);
    for capture in archive.captures() {
        let (url, time) = (&capture.url, &capture.timestamp);
        let answer = get(address, &format!("/all/{time}id_/{url}"));
        assert_eq!(answer.status, capture.status, "{url}: {}", answer.text());
        let coded = |coding: &str| capture.encoding.contains(&coding);
        let mut payload = capture.payload.clone();
        if coded("Transfer-Encoding: chunked") {
            payload = unchunked(&payload);
        }
        assert!(answer.body == payload, "{capture:?}");
        chunked += usize::from(coded("Transfer-Encoding: chunked"));
        let encoding = coded("Content-Encoding: gzip").then_some("gzip");
        packed += usize::from(encoding.is_some());
        let location = capture.location.as_ref().map(|to| {
            redirects += 1;
            let to = url::Url::parse(url).unwrap().join(to).unwrap();
            format!("{base}/all/{time}id_/{to}")
        });
        let length = payload.len().to_string();
        let memento = format!("{base}/all/{time}id_/{url}");
        for (name, value) in [
            ("content-type", Some(capture.mime)),
            ("content-encoding", encoding),
            ("content-length", Some(&*length)),
            ("location", location.as_deref()),
            ("x-archive-orig-location", capture.location.as_deref()),
            ("x-archive-orig-server", Some("made-up")),
            ("server", None),
            ("transfer-encoding", None),
            ("content-security-policy", Some("sandbox")),
            ("content-location", Some(&memento)),
            ("x-archive-src", Some("all")),
            ("warcserver-type", None),
        ] {
            assert_eq!(answer.field(name), value, "{name} of {memento}");
        }
        let moment = answer.field("memento-datetime").unwrap();
        let links = format!(
            "<{url}>; rel=\"original\", <{base}/all/timegate/{url}>; rel=\"timegate\", \
             <{base}/all/timemap/link/{url}>; rel=\"timemap\"; type=\"application/link-format\", \
             <{memento}>; rel=\"memento\"; datetime=\"{moment}\"; collection=\"all\""
        );
        assert_eq!(answer.field("link"), Some(&*links));
        let below = get(address, &format!("/all/timegate/{time}id_/{url}"));
        assert_eq!(below.body, answer.body);
    }
    assert!(redirects > 5 && chunked > 5 && packed > 5);
}

#[test]
fn request_body_takes_part_in_a_replay() {
    let archive = Archive::new("request_body_takes_part_in_a_replay");
    let posted = archive.posted();
    assert!(posted.len() > 5);
    for capture in posted.iter().take(20) {
        let body = capture.posted.as_deref().unwrap().as_bytes();
        let form = [("Content-Type", "application/x-www-form-urlencoded")];
        let target = format!("/all/{}id_/{}", capture.timestamp, capture.url);
        let answer = ask(archive.stage.address(), "POST", &target, &form, body).unwrap();
        assert_eq!(answer.status, capture.status, "{capture:?}");
        assert!(answer.body == capture.payload, "{capture:?}");
    }
}

/// Tests a response from the live web, whose header fields must not take effect here.
#[test]
fn live_responses_are_replayed() {
    let web = ScriptedHost::answering(
        "HTTP/1.1 302 Found\r\nSet-Cookie: a=b\r\nLocation: /next\r\nContent-Type: text/html\r\n\
         Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    );
    let stage = Stage::start("collections: {live: $live}");
    let answer = stage.get(format!("/live/id_/{}", web.url("/page?a=b")));
    assert_eq!((answer.status, &*answer.text()), (302, "ok"));
    assert_eq!(answer.field("set-cookie"), None);
    assert_eq!(answer.field("content-security-policy"), Some("sandbox"));
    assert_eq!(answer.field("content-length"), Some("2"));
    let location = answer.field("location").unwrap();
    assert!(location.ends_with(&format!("id_/{}", web.url("/next"))));
    assert_eq!(web.asked()[0].target, "/page?a=b");
}

#[test]
fn url_is_used_as_written() {
    let mut shelf = Shelf::new();
    let urls = [
        "http://example.com/",
        "http://example.com/a?b=c&d=e+f",
        "http://example.com/b?b=c%26d=e%2Bf",
        "http://example.com/x+y//z/?",
        "http://example.com/?u=http://example.org/?a=b&c=d",
        "http://example.com/2016id_/http://x/",
        "http://example.com/%23/%25",
        "https://user@example.com:8443/;a,b/'(*)'!$",
        "http://example.com/{a|b}^?`|{}",
    ];
    for url in urls {
        shelf.capture("a.warc.gz", url, TIME, url.as_bytes());
    }
    let stage = shelf.serve();
    for url in urls {
        let answer = replayed(&stage, url);
        assert_eq!((answer.status, &*answer.text()), (200, url));
        let moment = [("Accept-Datetime", "Sat, 02 Jan 2016 03:04:05 GMT")];
        let target = format!("/c/timegate/{url}");
        let gate = ask(stage.address(), "GET", &target, &moment, b"").unwrap();
        let memento = gate.field("location").unwrap_or_else(|| panic!("{gate:?}"));
        let memento = memento.strip_prefix(&stage.url()).unwrap();
        assert_eq!(stage.get(memento).text(), url, "{memento}");
        let alone = stage.get(format!("/c/{url}"));
        assert_eq!(alone.field("location"), gate.field("location"), "{url}");
    }
    // Proxies may collapse the double slash; some clients escape the whole URL.
    for path in [
        "http:/example.com/a?b=c&d=e+f",
        "http%3A%2F%2Fexample.com%2Fa?b=c&d=e+f",
        "example.com/a?b=c&d=e+f",
    ] {
        assert_eq!(replayed(&stage, path).text(), urls[1], "{path}");
    }
}

#[test]
fn closest_capture_is_replayed() {
    let mut shelf = Shelf::new();
    for year in ["2014", "2015", "2016"] {
        let time = format!("{year}0102030405");
        shelf.capture("a.warc.gz", "http://example.com/", &time, year.as_bytes());
    }
    let stage = shelf.serve();
    for (moment, year) in [
        ("20140102030405", "2014"),
        ("20140102030405678", "2014"),
        ("19", "2014"),
        ("201501", "2015"),
        ("20150301", "2015"),
        ("", "2016"),
        ("29991231235959", "2016"),
    ] {
        let target = format!("/c/{moment}id_/http://example.com/");
        let answer = stage.get(&target);
        assert_eq!((answer.status, &*answer.text()), (200, year), "{moment}");
        let memento = format!("{}/c/{year}0102030405id_/http://example.com/", stage.url());
        assert_eq!(answer.field("content-location"), Some(&*memento));
        let head = ask(stage.address(), "HEAD", &target, &[], b"").unwrap();
        assert_eq!((head.status, head.body.len()), (200, 0));
        assert_eq!(head.field("content-length"), Some("4"));
        let expected = answer.field("memento-datetime");
        assert_eq!(head.field("memento-datetime"), expected);
    }
    for (target, status) in [
        ("/c/2015id_/http://example.org/", 404),
        ("/c/20159999999999id_/http://example.com/", 400),
        ("/c/2015id_/", 400),
        ("/c/2015/http://example.com/", 404),
        ("/none/2015id_/http://example.com/", 404),
    ] {
        let answer = stage.get(target);
        assert_eq!(answer.status, status, "{target}");
        assert_eq!(answer.media_type(), "application/json");
    }
}

#[test]
fn hostile_headers_do_not_act_for_this_server() {
    let mut shelf = Shelf::new();
    let fields = [
        ("Set-Cookie", "a=b"),
        ("Set-Cookie", "c=d"),
        ("Content-Security-Policy", "script-src *"),
        ("Content-Security-Policy-Report-Only", "default-src 'none'"),
        ("Strict-Transport-Security", "max-age=1"),
        ("Public-Key-Pins", "max-age=1"),
        ("Clear-Site-Data", "\"*\""),
        ("Service-Worker-Allowed", "/"),
        ("Refresh", "0; url=http://example.org/"),
        ("Access-Control-Allow-Origin", "*"),
        ("Access-Control-Allow-Credentials", "true"),
        ("Alt-Svc", "h3=\":443\""),
        ("NEL", "{}"),
        ("Report-To", "{}"),
        ("WWW-Authenticate", "Basic realm=\"x\""),
        ("Link", "</x.css>; rel=preload"),
        ("Cache-Control", "max-age=99999"),
        ("ETag", "\"x\""),
        ("Connection", "close, X-Hop"),
        ("Keep-Alive", "timeout=5"),
        ("Upgrade", "h2c"),
        ("Trailer", "X"),
        ("Content-Location", "/elsewhere"),
        ("Memento-Datetime", "Sat, 01 Jan 2000 00:00:00 GMT"),
        ("X-Archive-Src", "forged"),
        ("Warcserver-Type", "warc"),
        ("Location", "javascript:alert(1)"),
    ];
    let mut block = "HTTP/1.1 200 Fine\r\nContent-Type: text/html\r\n".to_owned();
    for (name, value) in fields {
        block.push_str(&format!("{name}: {value}\r\n"));
    }
    block += "X-Folded: a\r\n\tb\r\nX-Content-Type-Options: nosniff\r\nno field\r\n\r\n<p>hi";
    store(&mut shelf, "http://example.com/", TIME, block.as_bytes());
    let stage = shelf.serve();
    let answer = replayed(&stage, "http://example.com/");
    assert_eq!((answer.status, &*answer.text()), (200, "<p>hi"));
    for (name, value) in fields {
        let here = |name: &str| -> Vec<&str> {
            let of_name = answer.fields.iter().filter(|(one, _)| one == name);
            of_name.map(|(_, value)| &value[..]).collect()
        };
        let name = name.to_ascii_lowercase();
        assert!(!here(&name).contains(&value), "{name}");
        let original = here(&format!("x-archive-orig-{name}"));
        assert!(original.contains(&value), "{name}: {original:?}");
    }
    assert_eq!(answer.field("x-archive-orig-x-folded"), Some("a b"));
    assert_eq!(answer.field("content-security-policy"), Some("sandbox"));
    assert_eq!(answer.field("x-content-type-options"), Some("nosniff"));
    for absent in ["location", "set-cookie", "refresh", "keep-alive"] {
        assert_eq!(answer.field(absent), None, "{absent}");
    }
    let worker = [("Service-Worker", "script")];
    let target = format!("/c/{TIME}id_/http://example.com/");
    let refused = ask(stage.address(), "GET", &target, &worker, b"").unwrap();
    assert_eq!(refused.status, 403, "{}", refused.text());
}

#[test]
fn body_encoding_matches_its_header() {
    let mut shelf = Shelf::new();
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n";
    let large = "0123456789abcdef".repeat(200_000);
    let chunk = |chunk| {
        let text = std::str::from_utf8(chunk).unwrap();
        format!("{:x};ext\r\n{text}\r\n", chunk.len())
    };
    let in_chunks: String = large.as_bytes().chunks(60_000).map(chunk).collect();
    let cases = rows![
        // name, codings, stored body, replayed body, coding in the response
        "chunked", "Transfer-Encoding: chunked", "5\r\nhello\r\n0\r\n\r\n".to_owned(),
            "hello".to_owned();
        "undone", "Transfer-Encoding: chunked", "hello".to_owned(), "hello".to_owned();
        "cut", "Transfer-Encoding: chunked", "5\r\nhello\r\nff\r\nwor".to_owned(),
            "hellowor".to_owned();
        "unpacked", "Content-Encoding: gzip", "hello".to_owned(), "hello".to_owned();
        "large", "Transfer-Encoding: chunked", format!("{in_chunks}0\r\n\r\n"), large.clone();
        "plain", "Content-Length: 3200000", large.clone(), large;
        "nothing", "Content-Length: 0", String::new(), String::new();
    ];
    for (name, coding, body, _) in &cases {
        let url = format!("http://example.com/{name}");
        let block = format!("{head}{coding}\r\n\r\n{body}");
        store(&mut shelf, &url, TIME, block.as_bytes());
    }
    for (name, block) in rows![
        "none", "HTTP/1.1 204 No Content\r\n\r\n";
        "early", "HTTP/1.1 103 Early Hints\r\n\r\n";
        "odd", "HTTP/1.1 599 Odd\r\n\r\nodd";
    ] {
        let url = format!("http://example.com/{name}");
        store(&mut shelf, &url, TIME, block.as_bytes());
    }
    let stage = shelf.serve();
    for (name, _, _, body) in &cases {
        let answer = replayed(&stage, &format!("http://example.com/{name}"));
        assert_eq!(answer.status, 200, "{name}");
        let length = answer.body.len();
        assert!(answer.text() == *body, "{name}: {length} bytes");
        assert_eq!(answer.field("content-encoding"), None, "{name}");
    }
    for (name, status) in [("none", 204), ("early", 502), ("odd", 599)] {
        let answer = replayed(&stage, &format!("http://example.com/{name}"));
        assert_eq!(answer.status, status, "{name}");
    }
}

#[test]
fn non_http_record_is_replayed_as_a_file() {
    let mut shelf = Shelf::new();
    for (kind, url, media, block) in rows![
        "resource", "http://example.com/page", "text/html", "<p>hi";
        "resource", "dns:example.com", "text/dns", "example.com. A 192.0.2.1";
        "metadata", "http://example.com/meta", "application/warc-fields", "a: b\r\n";
        "conversion", "http://example.com/text", "text/plain", "hi";
        "response", "dns:example.org", "text/dns", "example.org. A 192.0.2.2";
    ] {
        let fields = [
            ("WARC-Type", kind),
            ("WARC-Record-ID", &*format!("<urn:uuid:{kind}>")),
            ("WARC-Date", &iso(TIME)),
            ("WARC-Target-URI", url),
            ("Content-Type", media),
        ];
        let slot = shelf.record("a.warc.gz", &fields, block.as_bytes());
        shelf.line(url, TIME, &slot, "");
    }
    let stage = shelf.serve();
    for (url, media, text) in rows![
        "http://example.com/page", "text/html", "<p>hi";
        "dns:example.com", "text/dns", "example.com. A 192.0.2.1";
        "http://example.com/meta", "application/warc-fields", "a: b\r\n";
        "http://example.com/text", "text/plain", "hi";
        "dns:example.org", "text/dns", "example.org. A 192.0.2.2";
    ] {
        let answer = replayed(&stage, url);
        let found = (answer.status, answer.media_type(), &*answer.text());
        assert_eq!(found, (200, media, text), "{url}");
        assert_eq!(answer.field("content-security-policy"), Some("sandbox"));
        let expected = Some(&*text.len().to_string());
        assert_eq!(answer.field("content-length"), expected);
    }
}

#[test]
fn timemaps_are_available_as_rows() {
    let mut shelf = Shelf::new();
    for year in ["2014", "2015"] {
        let time = format!("{year}0102030405");
        shelf.capture("a.warc.gz", "http://example.com/?a&b", &time, b"x");
    }
    let stage = shelf.serve();
    let url = "http://example.com/?a&b";
    for (format, media) in [("json", "text/x-ndjson"), ("cdxj", "text/x-cdxj")] {
        let index = stage.get(format!(
            "/c/index?url=http://example.com/?a%26b&output={format}"
        ));
        for place in ["timemap", "timegate/timemap"] {
            let answer = stage.get(format!("/c/{place}/{format}/{url}"));
            assert_eq!((answer.status, answer.media_type()), (200, media));
            assert_eq!(answer.text(), index.text());
            assert_eq!(answer.text().lines().count(), 2);
        }
        let none = stage.get(format!("/c/timemap/{format}/http://x/"));
        assert_eq!(none.status, 404);
    }
    let map = stage.get(format!("/c/timemap/link/{url}"));
    let below = stage.get(format!("/c/timegate/timemap/link/{url}"));
    assert_eq!((map.status, map.text()), (200, below.text()));
    // Short responses have a `Content-Length`.
    let length = Some(map.body.len().to_string());
    assert_eq!(map.field("content-length").map(str::to_owned), length);
    let other = stage.get(format!("/c/timemap/html/{url}"));
    assert_eq!(other.status, 404);
}
