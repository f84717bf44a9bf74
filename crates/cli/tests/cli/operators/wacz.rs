//! Tests `crawlspace wacz` with a collection of two crawls. The second crawl has revisits of the first one.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crawlspace_client::dedupe::{Added, Adding, Index};
use crawlspace_wacz as wacz;
use crawlspace_wacz::package::{self, Required};
use crawlspace_wacz::{Location, Options, Wacz, Writer};
use redis_tests::{
    DATE, FileHost, Manners, Outcome, Rng, ScriptedHost, Server, assert_contains, ends, outcome,
    sha256_of, until_some,
};
use serde_json::json;

use crate::operators::stage::{INDEX, crawlspace};
use crate::tool::tool;

/// Returns an index line.
pub fn line(n: u64, mime: &str) -> String {
    let hash = sha256_of(n);
    format!(
        r#"com,example)/{n:06} 20260319102015 {{"url": "https://example.com/{n}", "mime": "{mime}", "status": "200", "digest": "{hash}", "length": "700", "offset": "0", "filename": "data.warc.gz"}}"#
    )
}

/// Writes a package with these lines.
pub fn write(path: &Path, lines: impl IntoIterator<Item = String>) -> PathBuf {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut wacz = Writer::create(path, "2026-03-19T10:20:15Z").unwrap();
    wacz.warc("data.warc.gz", &b"not read"[..]).unwrap();
    wacz.index(wacz::Index::Blocks(100), lines).unwrap();
    wacz.finish().unwrap();
    path.to_owned()
}

fn open(path: &Path) -> Wacz {
    Wacz::open(&Location::from(path), &Options::default()).unwrap()
}

fn index(server: &Server) -> Index {
    Index::open(&server.url(), INDEX).unwrap()
}

/// Adds the n-th response to a crawl, as part of the package with this number.
fn add(index: &Index, crawl: &str, n: u64, wacz_index: u64) {
    let (hash, url) = (sha256_of(n), format!("https://example.com/{n}"));
    let [hash, date, url] = [&hash, DATE, &url].map(str::as_bytes);
    let size = 5000;
    let record = Added::new(hash, wacz_index, date, url, size);
    let counts = index.add(crawl.as_bytes(), &Adding::default(), &[record]);
    counts.unwrap();
}

/// Adds a package with these responses to the index, as the only package of its crawl. Returns the entry with which
/// another package can require this package.
pub fn archive(
    server: &Server,
    crawl: &str,
    path: &Path,
    hashes: std::ops::Range<u64>,
) -> Required {
    let index = index(server);
    let name = path.file_name().unwrap().to_str().unwrap();
    let number = index.wacz_open(crawl.as_bytes(), name.as_bytes()).unwrap();
    for n in hashes {
        add(&index, crawl, n, number);
    }
    let wacz = open(path);
    let (hash, size) = (wacz.digest(|_| ()).unwrap(), wacz.size());
    let [id, file, digest] = [crawl, name, &hash].map(str::as_bytes);
    index.wacz_close(id, number, file, digest, size).unwrap();
    Required {
        filename: name.to_owned(),
        hash: Some(hash),
        size: Some(size),
        crawl: Some(crawl.to_owned()),
    }
}

/// Writes both packages to `crawls/`, and adds the first one to the index, committed.
pub fn collection(server: &Server, folder: &Path) -> Required {
    let crawls = folder.join("crawls");
    let pages = (0..3).map(|n| line(n, "text/html"));
    let first = write(&crawls.join("2026-02-0.wacz"), pages);
    let lines = [(0, "warc/revisit"), (2, "warc/revisit"), (7, "text/html")];
    let lines = lines.map(|(n, mime)| line(n, mime));
    write(&crawls.join("2026-03-0.wacz"), lines);
    let required = archive(server, "2026-02", &first, 0..3);
    index(server).commit(b"2026-02").unwrap();
    required
}

fn requires(server: &Server, path: &Path, more: &str) -> Outcome {
    let words = format!("wacz requires {} --crawl 2026-03", path.display());
    crawlspace(server, INDEX, &format!("{words} {more}"))
}

fn list_in(path: &Path) -> Vec<Required> {
    package::requires(&open(path)).unwrap()
}

#[test]
fn written_list_has_the_originals_of_revisits() {
    let server = Server::start();
    let folder = tempfile::tempdir().unwrap();
    let required = collection(&server, folder.path());
    let path = folder.path().join("crawls/2026-03-0.wacz");
    let shown = requires(&server, &path, "--json").exits(0);
    let expected = json!({
        "file": path, "requires": [required], "revisits": 2, "unknown": 0, "unlisted": [], "written": false,
    });
    assert_eq!(shown.object(), expected);
    assert!(list_in(&path).is_empty(), "shown only");

    let written = requires(&server, &path, "--write").exits(0);
    assert_contains(&written.errors, "the list is in the file");
    assert_eq!(list_in(&path), [required]);
    let bytes = fs::read(&path).unwrap();
    let again = requires(&server, &path, "--write");
    assert_eq!(again.status, 0, "{again:?}");
    assert!(again.errors.contains("already"), "{again:?}");
    assert_eq!(fs::read(&path).unwrap(), bytes);

    // Both packages together are a complete collection; the second one alone is incomplete.
    let check = |file: &Path| outcome(tool("wacz check --json").arg(file));
    let both = check(folder.path());
    assert_eq!(both.status, 0, "{both:?}");
    assert_eq!(both.object()["complete"], true, "{both:?}");
    let one = check(&path);
    assert_eq!(one.status, 1, "{one:?}");
    assert_eq!(one.object()["complete"], false, "{one:?}");
    let needed = &one.object()["packages"][0]["requires"][0];
    assert_eq!(needed["state"], "missing");
}

#[test]
fn unknown_original_prevents_writing_unless_allowed() {
    let server = Server::start();
    let folder = tempfile::tempdir().unwrap();
    let required = collection(&server, folder.path());
    let unreadable = line(50, "warc/revisit").replace(&sha256_of(50), "none");
    let [first, last] = [1, 99].map(|n| line(n, "warc/revisit"));
    let lines = [first, unreadable, last];
    let path = write(&folder.path().join("new.wacz"), lines);
    let bytes = fs::read(&path).unwrap();
    let refused = requires(&server, &path, "--write --json").exits(1);
    let told = refused.object();
    assert_eq!(told["unknown"], 2);
    assert_eq!(told["written"], false);
    assert!(refused.errors.contains(&sha256_of(99)), "{refused:?}");
    assert_contains(&refused.errors, "indexes/index.cdx.gz, line 2");
    assert_eq!(fs::read(&path).unwrap(), bytes);
    requires(&server, &path, "--write --partial").exits(1);
    assert_eq!(list_in(&path), [required]);
}

#[test]
fn list_omits_own_files_and_names_each_other_file_once() {
    let server = Server::start();
    let folder = tempfile::tempdir().unwrap();
    let names = ["a-0.wacz", "a-1.wacz", "2026-03-0.wacz"];
    let [first, second, own] = names.map(|name| folder.path().join(name));
    for (path, hashes) in [(&first, 0..400), (&second, 400..900), (&own, 900..1300)] {
        write(path, hashes.map(|n| line(n, "text/html")));
    }
    let needed = [(&first, 0..400), (&second, 400..900)];
    let needed = needed.map(|(path, hashes)| archive(&server, "a", path, hashes));
    index(&server).commit(b"a").unwrap();
    // The crawl is uncommitted, but its own revisits find its payloads.
    archive(&server, "2026-03", &own, 900..1300);
    let revisits = (0..1300).map(|n| line(n, "warc/revisit"));
    let path = write(&folder.path().join("2026-03-1.wacz"), revisits);
    let shown = requires(&server, &path, "--json --write").exits(0);
    assert_eq!(shown.object()["revisits"], 1300);
    assert_eq!(list_in(&path), needed);
}

#[test]
fn unlisted_or_unfinished_file_is_reported() {
    let server = Server::start();
    let folder = tempfile::tempdir().unwrap();
    let index = index(&server);
    index.wacz_open(b"old", b"old-0.wacz").unwrap();
    for (n, wacz_index) in [(1, 0), (2, 5)] {
        add(&index, "old", n, wacz_index);
    }
    index.commit(b"old").unwrap();
    let revisits = (1..3).map(|n| line(n, "warc/revisit"));
    let path = write(&folder.path().join("new.wacz"), revisits);
    let shown = requires(&server, &path, "--json").exits(1);
    let told = shown.object();
    let expected = json!([{"filename": "old-0.wacz", "crawlId": "old"}]);
    assert_eq!(told["requires"], expected);
    assert_eq!(told["unlisted"], json!(["old 5"]));
    assert_contains(&shown.errors, "crawl and index 'old 5' refer to no file");
    assert_contains(&shown.errors, "old-0.wacz has no hash yet");
}

#[test]
fn exact_references_are_read_by_wacz_id() {
    let server = Server::start();
    let folder = tempfile::tempdir().unwrap();
    let required = collection(&server, folder.path());
    let hash = sha256_of(1);
    let revisit = format!("DEDUPE.REVISIT {INDEX} 2026-03 REF 5c0a2b7e {hash} 620");
    server.wire().ok_line(revisit);
    let path = write(&folder.path().join("new.wacz"), [line(99, "warc/revisit")]);
    let words = format!("wacz requires {} --ref 5c0a2b7e --write", path.display());
    crawlspace(&server, INDEX, &words).exits(0);
    assert_eq!(list_in(&path), std::slice::from_ref(&required));

    // No dependencies are recorded under another id, so without an error the incomplete list would look
    // complete.
    let path = write(&folder.path().join("typo.wacz"), [line(1, "warc/revisit")]);
    let words = format!("wacz requires {} --ref 5c0a2b7f --write", path.display());
    let refused = crawlspace(&server, INDEX, &words).exits(1);
    assert_contains(&refused.errors, "5c0a2b7f");
    assert_eq!(list_in(&path), []);
    // A file without revisits has no dependencies, under any id.
    let path = write(&folder.path().join("none.wacz"), [line(2, "text/html")]);
    let words = format!("wacz requires {} --ref 5c0a2b7f --write", path.display());
    crawlspace(&server, INDEX, &words).exits(0);
}

#[test]
fn remote_file_is_read_but_not_written() {
    let server = Server::start();
    let folder = tempfile::tempdir().unwrap();
    collection(&server, folder.path());
    let host = FileHost::start();
    let bytes = fs::read(folder.path().join("crawls/2026-03-0.wacz")).unwrap();
    host.put("/new.wacz", &bytes, Manners::default());
    let url = host.url("/new.wacz");
    let shown = requires(&server, Path::new(&url), "--json");
    assert_eq!(shown.status, 0, "{shown:?}");
    assert_eq!(shown.object()["revisits"], 2, "{shown:?}");
    let refused = requires(&server, Path::new(&url), "--write").exits(1);
    assert_contains(&refused.errors, "into a local file");
}

#[test]
fn invalid_command_lines_give_exit_status_2() {
    for words in [
        "wacz",
        "wacz check",
        "wacz requires a.wacz",
        "wacz requires a.wacz --crawl a --partial",
        "wacz requires a.wacz --crawl a --drop-signature",
    ] {
        ends(tool(words), 2);
    }
    let outcome = ends(tool("wacz check /nowhere/a.wacz ftp://host/b.wacz"), 1);
    assert_contains(&outcome.errors, "/nowhere/a.wacz: No such file");
    assert_contains(&outcome.errors, "ftp: URLs are not supported");
}

#[test]
fn kill_during_a_write_leaves_the_old_or_the_new_file() {
    let server = Server::start();
    let folder = tempfile::tempdir().unwrap();
    let required = collection(&server, folder.path());
    let path = folder.path().join("large.wacz");
    let mut wacz = Writer::create(&path, "2026-03-19T10:20:15Z").unwrap();
    let warc = std::io::repeat(7).take(60_000_000);
    wacz.warc("data.warc.gz", warc).unwrap();
    let lines = [line(1, "warc/revisit")];
    wacz.index(wacz::Index::Plain, lines).unwrap();
    wacz.finish().unwrap();
    let old = fs::read(&path).unwrap();
    let mut rng = Rng::new("whoever_is_killed_while_writing");
    let (mut killed, mut finished) = (0, 0);
    while killed < 8 {
        fs::write(&path, &old).unwrap();
        let (url, file) = (server.url(), path.display());
        let words = format!("--write --crawl 2026-03 --prefix {INDEX} --redis {url} {file}");
        let mut program = tool(format!("wacz requires {words}"));
        program.stdout(Stdio::null()).stderr(Stdio::null());
        let mut running = program.spawn().unwrap();
        // The temporary file shows that the program is running. It is killed after a random
        // fraction of its run time.
        let begun = until_some("a file beside it, or the end", || {
            let beside = fs::read_dir(folder.path()).unwrap().count() > 2;
            (beside || running.try_wait().unwrap().is_some()).then_some(beside)
        });
        if begun {
            std::thread::sleep(Duration::from_micros(rng.below(120_000)));
        }
        running.kill().unwrap();
        // A program that has exited cannot be killed any more.
        killed += u32::from(running.wait().unwrap().signal().is_some());
        finished += 1;
        let list = list_in(&path);
        if list.is_empty() {
            assert_eq!(fs::read(&path).unwrap(), old)
        } else {
            assert_eq!(list, std::slice::from_ref(&required))
        }
        for beside in fs::read_dir(folder.path()).unwrap() {
            let beside = beside.unwrap();
            if beside
                .file_name()
                .to_string_lossy()
                .starts_with(".crawlspace-")
            {
                fs::remove_file(beside.path()).unwrap();
            }
        }
        assert!(finished < 1000, "it cannot be killed in time");
    }
}

/// A TLS web server (`openssl s_server`) that does not support range requests.
struct Tls(Child);

impl Drop for Tls {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn tls_server_is_trusted_if_the_system_trusts_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(&folder.path().join("a.wacz"), [line(1, "text/html")]);
    let key = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=crawlspace-test \
        -addext subjectAltName=DNS:localhost -addext basicConstraints=CA:FALSE -keyout key.pem -out cert.pem";
    let mut sh = Command::new("sh");
    ends(sh.args(["-c", key]).current_dir(folder.path()), 0);
    let serve = "openssl s_server -WWW -accept 127.0.0.1:0 -key key.pem -cert cert.pem";
    let mut server = redis_tests::program(serve);
    server.current_dir(folder.path());
    server.stdin(Stdio::null()).stderr(Stdio::null());
    let mut server = Tls(server.stdout(Stdio::piped()).spawn().unwrap());
    let told = BufReader::new(server.0.stdout.take().unwrap());
    let mut told = told.lines().map_while(Result::ok);
    let port = |line: String| Some(line.strip_prefix("ACCEPT ")?.rsplit_once(':')?.1.to_owned());
    let port = told.find_map(port);
    // Read and discard further output of the server, so that it never blocks on a full pipe.
    std::thread::spawn(move || told.for_each(drop));
    let url = format!("https://localhost:{}/a.wacz", port.unwrap());
    let check = |authority: &str| {
        let mut tool = tool(format!("wacz check --json {url}"));
        tool.env_remove("SSL_CERT_DIR");
        outcome(tool.env("SSL_CERT_FILE", folder.path().join(authority)))
    };
    let believed = check("cert.pem").exits(0);
    assert_eq!(believed.object()["packages"][0]["name"], "a.wacz");
    fs::write(folder.path().join("none.pem"), "").unwrap();
    let doubted = check("none.pem").exits(1);
    assert_contains(&doubted.errors, "its certificate is not trusted");
    assert_contains(&doubted.errors, "SSL_CERT_FILE");
    // The certificate is also checked through a proxy: the proxy gets a host and a port, and forwards TLS unread.
    let proxy = ScriptedHost::handling(|asked, mut client| {
        let mut server = TcpStream::connect(&asked.target)?;
        client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")?;
        let (mut there, mut back) = (client.try_clone()?, server.try_clone()?);
        let answers = std::thread::spawn(move || io::copy(&mut back, &mut there));
        io::copy(&mut client, &mut server)?;
        server.shutdown(Shutdown::Write)?;
        let _ = answers.join();
        Ok(false)
    });
    let mut tool = tool(format!("wacz check --json {url}"));
    tool.env_remove("SSL_CERT_DIR").env_remove("NO_PROXY");
    tool.env("HTTPS_PROXY", proxy.url(""));
    tool.env("SSL_CERT_FILE", folder.path().join("cert.pem"));
    outcome(&mut tool).exits(0);
    let asked = proxy.asked();
    assert!(!asked.is_empty() && asked.iter().all(|asked| asked.method == "CONNECT"));
    drop(path);
}
