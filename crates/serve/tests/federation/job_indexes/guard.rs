//! Tests of metadata files on web servers: only public addresses are requested, unless the configuration lists them.

use std::net::{SocketAddr, TcpListener};

use redis_tests::http::{Answer, get};
use redis_tests::metadata::{Form, metadata};
use redis_tests::{FileHost, Manners, until, with};
use tempfile::TempDir;

use crate::serving::Stage;

const FILE: &str = "/a/7-metadata-1.warc.gz";

/// A web server on 127.0.0.1 with the metadata file of job 7, and a folder for caches.
struct Web {
    host: FileHost,
    caches: TempDir,
}

impl Web {
    fn new() -> Web {
        let web = Web {
            host: FileHost::start(),
            caches: tempfile::tempdir().unwrap(),
        };
        let (crawl_log, cdx) = redis_tests::harvest::logs(7, 1, 20);
        let file = metadata("x", 7, 1, &crawl_log, Some(&cdx), Form::WarcGz);
        web.host.put(FILE, &file, Manners::default());
        web.put(
            "/a/",
            "<title>Index of /a/</title><a href=\"7-metadata-1.warc.gz\">7</a>",
        );
        web
    }

    fn put(&self, path: &str, text: &str) {
        self.host.put(path, text.as_bytes(), Manners::default());
    }

    fn redirect(&self, path: &str, to: &str) {
        let manners = with!(Manners, redirect: Some(to.to_owned()));
        self.host.put(path, b"", manners);
    }

    fn port(&self) -> u16 {
        let url = url::Url::parse(&self.host.url("/")).unwrap();
        url.port().unwrap()
    }

    /// Starts `crawlspace serve` with this metadata setting, and returns its answer about job 7.
    fn asked(&self, allowed: &str, metadata: &str) -> (Stage, Answer) {
        let caches = tempfile::tempdir_in(self.caches.path()).unwrap();
        let config = format!(
            "allow_private: [{allowed}]\nindexes:\n  cache_dir: {}\n  metadata: '{metadata}'\n",
            caches.path().display()
        );
        let server = Stage::start_guarded(&config);
        let answer = get(server.address(), "/_indexes/full?jobs=7");
        assert_eq!(answer.status, 200, "{metadata}: {}", answer.text());
        (server, answer)
    }

    #[track_caller]
    fn has(&self, allowed: &str, metadata: &str) {
        let (_, answer) = self.asked(allowed, metadata);
        assert_eq!(
            answer.field("jobs-found"),
            Some("7"),
            "{metadata}: {answer:?}"
        );
    }

    #[track_caller]
    fn refuses(&self, allowed: &str, metadata: &str) {
        let (server, answer) = self.asked(allowed, metadata);
        assert_eq!(
            answer.field("jobs-found"),
            Some(""),
            "{metadata}: {answer:?}"
        );
        // Only the operator learns the address.
        let reasons = answer.field("jobs-missing-reasons");
        let told = r#"{"7":{"unreadable":"its metadata cannot be read"}}"#;
        assert_eq!(reasons, Some(told), "{metadata}");
        until("the log contains the reason", || {
            let log = server.log();
            log.contains("not a public address")
        });
    }
}

#[test]
fn private_location_is_used_only_if_configured() {
    let web = Web::new();
    let port = web.port();
    for host in ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0x7f.1"] {
        web.refuses("", &format!("http://{host}:{port}/a/"));
        web.refuses("", &format!("http://{host}:{port}{FILE}"));
    }
    assert!(web.host.requests().is_empty());
    for host in ["127.0.0.1", "localhost"] {
        web.has("127.0.0.0/8", &format!("http://{host}:{port}/a/"));
        web.has("127.0.0.1", &format!("http://{host}:{port}{FILE}"));
    }
}

#[test]
fn listed_and_redirected_locations_are_checked_like_configured_ones() {
    let web = Web::new();
    let inside = TcpListener::bind(SocketAddr::from(([127, 0, 0, 2], 0))).unwrap();
    inside.set_nonblocking(true).unwrap();
    let beyond = |path: &str| format!("http://{}{path}", inside.local_addr().unwrap());
    let (file, folder) = (beyond(FILE), beyond("/a/"));
    web.put("/lines", &file);
    web.put("/json", &format!("[\"{file}\"]"));
    web.put("/objects", &format!("[{{\"url\": \"{file}\"}}]"));
    web.put("/folders", &folder);
    web.redirect("/elsewhere/", &folder);
    web.redirect("/twice/", "/elsewhere/");
    web.redirect("/b/7-metadata-1.warc.gz", &file);
    for path in [
        "/lines",
        "/json",
        "/objects",
        "/folders",
        "/elsewhere/",
        "/twice/",
        "/b/7-metadata-1.warc.gz",
    ] {
        web.refuses("127.0.0.1", &web.host.url(path));
    }
    let list = web.caches.path().join("list");
    std::fs::write(&list, format!("{file}\n")).unwrap();
    web.refuses("127.0.0.1", list.to_str().unwrap());
    let visited = inside.accept().map(drop).unwrap_err();
    assert_eq!(visited.kind(), std::io::ErrorKind::WouldBlock);
    // Addresses listed in the configuration are requested in each of these ways.
    web.put("/lines", &web.host.url(FILE));
    web.redirect("/twice/", "/a/");
    web.redirect("/b/7-metadata-1.warc.gz", FILE);
    for path in ["/lines", "/b/7-metadata-1.warc.gz"] {
        web.has("127.0.0.1", &web.host.url(path));
    }
}
