//! Tests of replay in a browser: by wabac.js (npm) with a collection of this server as its archive,
//! and directly.

mod packages;

use std::path::{Path, PathBuf};

use redis_tests::http::ask;
use redis_tests::packages::{left_out, node};
use redis_tests::{ScriptedHost, answer, assert_contains, rows};

use crate::browser::{chromium, said};
use crate::serving::Stage;
use crate::shelf::{Shelf, iso};

/// The tested release.
const WABAC: &str = "@webrecorder/wabac@2.25.5";
const TIME: &str = "20160102030405";
const PAGE: &str = "http://example.com/page?a=b+c&d=%26e";
const SVG: &str = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"7\" height=\"5\"/>";

/// Creates a page with a style sheet, a picture and a script, and a redirect to it.
fn archive() -> (Shelf, String) {
    let mut shelf = Shelf::new();
    let html = "<!doctype html><title>captured</title><link rel=stylesheet href=/style.css>\
        <body><p id=text>as it was</p><img id=picture src=\"pic.svg?x=1&amp;y=2\">\
        <script src=\"http://example.com/app.js?a+b\"></script><script>document.title += '!'</script>";
    let script = "document.getElementById('text').textContent += ', and its script ran';";
    for (url, media, body) in rows![
        PAGE, "text/html", html;
        "http://example.com/style.css", "text/css", "p { color: rgb(1, 2, 3) }";
        "http://example.com/pic.svg?x=1&y=2", "image/svg+xml", SVG;
        "http://example.com/app.js?a+b", "text/javascript", script;
    ] {
        let http = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: {media}\r\nContent-Length: {}\r\n\
             Set-Cookie: stranger=1\r\n\r\n{body}",
            body.len()
        );
        store(&mut shelf, url, &http);
    }
    let moved = format!("HTTP/1.1 302 Found\r\nLocation: {PAGE}\r\nContent-Length: 0\r\n\r\n");
    store(&mut shelf, "http://example.com/moved", &moved);
    let index = shelf.write_index("index.cdxj");
    let warcs = shelf.warcs();
    let config = format!("collections:\n  c: {{index: {index}, resource: {warcs}}}\n");
    (shelf, config)
}

fn store(shelf: &mut Shelf, url: &str, http: &str) {
    let fields = [
        ("WARC-Type", "response"),
        ("WARC-Record-ID", &*format!("<urn:uuid:{}>", http.len())),
        ("WARC-Date", &iso(TIME)),
        ("WARC-Target-URI", url),
        ("Content-Type", "application/http; msgtype=response"),
    ];
    let slot = shelf.record("a.warc.gz", &fields, http.as_bytes());
    shelf.line(url, TIME, &slot, "");
}

/// Page that adds the collection to wabac.js, replays a URL in a frame, and reports what the frame shows. The URL to
/// replay is in the page's query.
const HOST: &str = r#"<!doctype html><script>
const say = (what) => fetch("/say", {method: "POST", body: JSON.stringify(what)});
const asked = new URLSearchParams(location.search);
(async () => {
  await navigator.serviceWorker.register("/sw.js");
  const worker = (await navigator.serviceWorker.ready).active;
  const added = new Promise((done) => navigator.serviceWorker.addEventListener("message", (event) => {
    if (event.data.msg_type === "collAdded") done();
  }));
  const prefix = asked.get("prefix");
  worker.postMessage({
    msg_type: "addColl", name: "ours", type: "live",
    file: {sourceUrl: "proxy:" + prefix}, extraConfig: {prefix, isLive: false},
  });
  await added;
  const frame = document.createElement("iframe");
  frame.src = "/w/ours/" + asked.get("what");
  frame.onload = () => {
    const page = frame.contentDocument;
    const text = page.getElementById("text");
    say({
      title: page.title,
      text: text ? text.textContent : page.documentElement.outerHTML,
      color: text && frame.contentWindow.getComputedStyle(text).color,
      width: text && page.getElementById("picture").naturalWidth,
      url: frame.contentWindow.location.href,
    });
  };
  document.body.append(frame);
})().catch((error) => say({failed: String(error)}));
</script><body>"#;

/// Returns wabac.js for a browser, or `None` if it cannot be fetched.
fn worker() -> Option<Vec<u8>> {
    let folder: PathBuf = Path::new(env!("CARGO_TARGET_TMPDIR")).join("wabac");
    match node(&folder, &[WABAC]) {
        Ok(_) => {
            let script = folder.join("node_modules/@webrecorder/wabac/dist/sw.js");
            Some(std::fs::read(script).unwrap())
        }
        Err(reason) => {
            left_out("wabac.js", &reason);
            None
        }
    }
}

/// Starts a web server with that worker and the page that uses it.
fn host(worker: Vec<u8>) -> ScriptedHost {
    ScriptedHost::start(move |asked| {
        let path = asked.target.split('?').next().unwrap_or_default();
        let (media, body): (_, &[u8]) = match path {
            "/" => ("text/html", HOST.as_bytes()),
            "/sw.js" => ("text/javascript", &worker),
            _ => ("text/plain", b""),
        };
        answer(200, &[("Content-Type", media)], body)
    })
}

/// Returns what the page reports about a replay, or `None` if there is no browser.
fn seen(host: &ScriptedHost, prefix: &str, what: &str) -> Option<serde_json::Value> {
    let url = url::form_urlencoded::Serializer::new(host.url("/?"))
        .append_pair("prefix", prefix)
        .append_pair("what", what)
        .finish();
    said(host, &url)
}

#[test]
fn wabac_js_replays_captures_in_a_browser() {
    let Some(worker) = worker() else { return };
    let host = host(worker);
    let (_shelf, config) = archive();
    let stage = Stage::start_for(&host.url(""), &config);
    let prefix = format!("{}/c/", stage.url());
    for what in [
        format!("{TIME}mp_/{PAGE}"),
        format!("{TIME}mp_/http://example.com/moved"),
        // Without a timestamp, wabac.js queries the URL alone.
        format!("mp_/{PAGE}"),
    ] {
        let Some(seen) = seen(&host, &prefix, &what) else {
            return;
        };
        let member = |name: &str| seen[name].as_str().unwrap_or_default().to_owned();
        let ran = "as it was, and its script ran";
        assert_eq!(&*member("title"), "captured!", "{seen}");
        assert_eq!(&*member("text"), ran, "{seen}");
        assert_eq!(member("color"), "rgb(1, 2, 3)", "{seen}");
        assert_eq!(seen["width"], 7, "{seen}");
        assert!(member("url").ends_with(PAGE), "{seen}");
    }
}

#[test]
fn browser_that_follows_a_timegate_runs_no_script() {
    let (_shelf, config) = archive();
    let stage = Stage::start(&config);
    let url = format!("{}/c/timegate/{PAGE}", stage.url());
    let Some((dom, _)) = chromium(&["--dump-dom"], &url) else {
        return;
    };
    assert_contains(&dom, "<title>captured</title>");
    assert_contains(&dom, ">as it was</p>");
}

#[test]
fn only_pages_of_a_named_origin_may_read_answers() {
    let (_shelf, config) = archive();
    for (origin, credentials) in [("https://replay.example", Some("true")), ("*", None)] {
        let stage = Stage::start_for(origin, &config);
        let target = format!("/c/{TIME}id_/{PAGE}");
        let from = [("Origin", "https://elsewhere.example")];
        let answer = ask(stage.address(), "GET", &target, &from, b"").unwrap();
        assert_eq!(answer.field("access-control-allow-origin"), Some(origin));
        let expected = credentials;
        assert_eq!(answer.field("access-control-allow-credentials"), expected);
        let exposed = answer.field("access-control-expose-headers").unwrap();
        let is_named = exposed.split(", ").any(|name| name == "memento-datetime");
        assert_eq!(is_named, origin != "*", "{exposed}");
        let preflight = [
            ("Origin", "https://replay.example"),
            ("Access-Control-Request-Method", "PUT"),
            ("Access-Control-Request-Headers", "x-proxy-referer"),
        ];
        let leave = ask(stage.address(), "OPTIONS", &target, &preflight, b"").unwrap();
        assert_eq!(leave.status, 204);
        for (name, value) in [
            ("access-control-allow-origin", Some(origin)),
            ("access-control-allow-credentials", credentials),
            ("access-control-allow-methods", Some("PUT")),
            ("access-control-allow-headers", Some("x-proxy-referer")),
        ] {
            assert_eq!(leave.field(name), value, "{name}");
        }
    }
}
