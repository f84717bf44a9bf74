//! Tests reloading of the configuration while the server runs.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, mpsc};

use redis_tests::http::{Connection, get};
use redis_tests::{ScriptedHost, answer, assert_contains, assert_lacks, until};
use serde_json::Value;
use tempfile::TempDir;

use crate::serving::Stage;

const HANGUP: i32 = 1;
const LOCAL: &str = "allow_private: [127.0.0.0/8]\n";
/// A query for which every collection here has one row.
const QUERY: &str = "index?url=example.com";

/// A server, and the folder with its configuration and indexes: `one.cdxj`, `two.cdxj` and `three.cdxj`, each with a
/// row whose digest is the file's name.
struct Server {
    dir: TempDir,
    stage: Stage,
}

impl Server {
    fn start(collections: &str, words: &str) -> Server {
        let dir = tempfile::tempdir().unwrap();
        for name in ["one", "two", "three"] {
            fs::write(dir.path().join(format!("{name}.cdxj")), row(name)).unwrap();
        }
        let stage = Stage::start_in_with(dir.path(), collections, words);
        Server { dir, stage }
    }

    /// Starts a server that reloads its configuration on signals only.
    fn unwatching(collections: &str) -> Server {
        Server::start(collections, "--no-watch")
    }

    /// Replaces the configuration by another file.
    fn write(&self, text: &str) {
        let new = self.dir.path().join("new");
        fs::write(&new, text).unwrap();
        fs::rename(new, self.dir.path().join("config.yaml")).unwrap();
    }

    fn hang_up(&mut self) {
        self.stage.program_mut().signal(HANGUP);
    }

    /// Reloads another configuration, and waits for it.
    fn reload(&mut self, text: &str) {
        let before = self.reloads("success");
        self.write(text);
        self.hang_up();
        until("the configuration is reloaded", || {
            self.reloads("success") > before
        });
    }

    fn figure(&self, sample: &str) -> f64 {
        let metrics = get(self.stage.operator(), "/_metrics").text();
        let begin = format!("crawlspace_{sample} ");
        let value = metrics.lines().find_map(|line| line.strip_prefix(&begin));
        value.and_then(|value| value.parse().ok()).expect(&metrics)
    }

    fn reloads(&self, result: &str) -> f64 {
        self.figure(&format!("config_reloads_total{{result=\"{result}\"}}"))
    }

    fn status(&self) -> Value {
        let status = get(self.stage.operator(), "/_status").text();
        serde_json::from_str(&status).unwrap()
    }

    /// Returns the rows of a collection.
    fn rows(&self, collection: &str) -> String {
        let answer = self.stage.get(format!("/{collection}/{QUERY}"));
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.text()
    }
}

fn row(name: &str) -> String {
    let url = "\"url\": \"http://example.com/\"";
    format!("com,example)/ 20200101000000 {{{url}, \"digest\": \"{name}\"}}\n")
}

fn local(collections: &str) -> String {
    format!("{LOCAL}collections: {collections}\n")
}

#[test]
fn signal_reloads_the_collections() {
    let mut server = Server::unwatching("collections: {a: ./one.cdxj, b: ./one.cdxj}");
    let mut kept = Connection::open(server.stage.address()).unwrap();
    let target = format!("/a/{QUERY}");
    let first = kept.ask("GET", &target, &[], b"").unwrap();
    assert_contains(first.text(), "\"one\"");
    let loaded = server.figure("config_last_success_timestamp_seconds{}");
    assert!(loaded > 1.7e9);

    server.reload(&local("{a: ./two.cdxj, c: ./three.cdxj}"));
    assert_contains(server.rows("a"), "\"two\"");
    assert_contains(server.rows("c"), "\"three\"");
    assert_eq!(server.stage.get(format!("/b/{QUERY}")).status, 404);
    // The next request of an existing connection counts as a new one.
    let next = kept.ask("GET", &target, &[], b"").unwrap();
    assert_contains(next.text(), "\"two\"");
    assert!(server.figure("config_last_success_timestamp_seconds{}") >= loaded);
    let log = server.stage.program().errors();
    assert_contains(log, "\"message\":\"the configuration was reloaded\"");
    let status = server.status();
    assert_eq!(status["configuration"]["reloads"]["success"], 1);
    assert_eq!(status["configuration"]["last_error"], Value::Null);
    assert_eq!(status["collections"].as_array().unwrap().len(), 2);
}

#[test]
fn unchanged_collection_keeps_its_figures() {
    let mut server = Server::unwatching("collections: {a: ./one.cdxj, b: ./one.cdxj}");
    let requests = |server: &Server, name: &str| {
        let name = format!("collection=\"{name}\",api=\"index\"");
        server.figure(&format!("requests_total{{{name},status=\"2xx\"}}"))
    };
    for _ in 0..3 {
        server.rows("a");
        server.rows("b");
    }
    server.reload(&local("{a: ./one.cdxj, b: ./two.cdxj}"));
    server.rows("a");
    server.rows("b");
    assert_eq!(requests(&server, "a"), 4.0);
    assert_eq!(requests(&server, "b"), 1.0);
}

#[test]
fn running_request_finishes_with_the_old_configuration() {
    let (asked, was_asked) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let (asked, released) = (Mutex::new(asked), Mutex::new(released));
    let slow = ScriptedHost::start(move |_| {
        let _ = asked.lock().unwrap().send(());
        let _ = released.lock().unwrap().recv();
        answer(200, &[("Content-Type", "text/x-cdxj")], row("slow"))
    });
    // Drop `release` before the host, which waits for it.
    let release = release;
    let before = format!(
        "collections:\n  a:\n    index: cdx+{}/x-cdx\n    index_timeout: 60\n  big: ./big.cdxj\n",
        slow.url("")
    );
    let mut server = Server::unwatching(&before);
    let line = |n: u64| {
        let url = "\"url\": \"http://example.com/\"";
        let date = 20_000_101_000_000 + n;
        format!("com,example)/ {date} {{{url}, \"n\": \"{n:0200}\"}}\n")
    };
    let lines: String = (0..100_000).map(line).collect();
    fs::write(server.dir.path().join("big.cdxj"), lines).unwrap();

    // The first client has no response yet, and the second one has received a part of its response.
    let mut waiting = Connection::open(server.stage.address()).unwrap();
    waiting
        .send("GET", &format!("/a/{QUERY}"), &[], b"")
        .unwrap();
    was_asked.recv().unwrap();
    let mut reading = Connection::open(server.stage.address()).unwrap();
    reading
        .send("GET", &format!("/big/{QUERY}"), &[], b"")
        .unwrap();
    reading.first_byte().unwrap();

    server.reload(&local("{a: ./two.cdxj}"));
    assert_contains(server.rows("a"), "\"two\"");
    assert_eq!(server.stage.get(format!("/big/{QUERY}")).status, 404);
    release.send(()).unwrap();
    let waited = waiting.answer(false).unwrap();
    assert_eq!(waited.status, 200, "{}", waited.text());
    assert_contains(waited.text(), "\"slow\"");
    let read = reading.answer(false).unwrap();
    assert_eq!((read.status, read.text().lines().count()), (200, 100_000));
    // Further requests on these connections use the new configuration.
    for mut connection in [waiting, reading] {
        let next = connection.ask("GET", &format!("/a/{QUERY}"), &[], b"");
        assert_contains(next.unwrap().text(), "\"two\"");
    }
}

#[test]
fn invalid_configuration_is_reported_and_changes_nothing() {
    let mut server = Server::unwatching("collections: {a: ./one.cdxj}");
    let no_folder = server
        .dir
        .path()
        .join("one.cdxj/cache")
        .display()
        .to_string();
    let mut failures = 0.0;
    for (text, reason) in [
        (format!("{LOCAL}collections:\n  a: {{"), "config.yaml:3:"),
        (local("{a: ./two.cdxj, b: $life}"), "config.yaml:2:33: "),
        (
            format!("{LOCAL}colections: {{a: ./two.cdxj}}"),
            "\"colections\"",
        ),
        // The configuration is valid, but cannot be applied.
        (
            format!(
                "{}indexes: {{cache_dir: {no_folder}, metadata: /}}\n",
                local("{a: ./two.cdxj}")
            ),
            "config.yaml: indexes: ",
        ),
        (String::new(), "config.yaml:"),
    ] {
        server.write(&text);
        server.hang_up();
        failures += 1.0;
        until("the invalid configuration was read", || {
            server.reloads("failure") >= failures
        });
        assert_eq!(server.reloads("failure"), failures);
        assert_eq!(server.figure("config_last_reload_successful{}"), 0.0);
        assert_contains(server.rows("a"), "\"one\"");
        let status = server.status();
        let last = status["configuration"]["last_error"]["reason"].as_str();
        assert_contains(last.unwrap(), reason);
        let log = server.stage.program().errors();
        let is_said = log.lines().any(|line| {
            let line: Value = serde_json::from_str(line).unwrap_or_default();
            let message = "the configuration was not reloaded; the previous one stays in use";
            let error = line["error"].as_str().unwrap_or_default();
            line["level"] == "ERROR" && line["message"] == message && error.contains(reason)
        });
        assert!(is_said, "{reason}: {log}");
    }
    assert_eq!(server.reloads("success"), 0.0);
    server.reload(&local("{a: ./two.cdxj}"));
    assert_contains(server.rows("a"), "\"two\"");
    assert_eq!(server.figure("config_last_reload_successful{}"), 1.0);
}

/// Sets the flag when dropped, even by a failing test.
struct Ended<'a>(&'a AtomicBool);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn no_request_fails_during_reloads() {
    let mut server = Server::unwatching("collections: {a: ./one.cdxj}");
    let address = server.stage.address();
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let mut kept = Connection::open(address).unwrap();
            let target = format!("/a/{QUERY}");
            let mut asked = 0;
            while !ended.load(Ordering::SeqCst) {
                let next = kept.ask("GET", &target, &[], b"").unwrap();
                for answer in [next, get(address, &target)] {
                    assert_eq!(answer.status, 200, "{}", answer.text());
                    let text = answer.text();
                    assert!(
                        text.contains("\"one\"") || text.contains("\"two\""),
                        "{text}"
                    );
                }
                asked += 1;
            }
            asked
        });
        let end = Ended(&ended);
        for index in ["two", "one"].into_iter().cycle().take(20) {
            server.reload(&local(&format!("{{a: ./{index}.cdxj}}")));
            assert_contains(server.rows("a"), format!("\"{index}\""));
        }
        drop(end);
        assert!(asking.join().unwrap() > 0);
    });
}

#[test]
fn repeated_signals_load_the_last_configuration() {
    let mut server = Server::unwatching("collections: {a: ./one.cdxj}");
    for index in ["two", "three", "two", "three"] {
        server.write(&local(&format!("{{a: ./{index}.cdxj}}")));
        server.hang_up();
        server.hang_up();
    }
    until("the last one is read", || {
        server.rows("a").contains("\"three\"")
    });
    assert!((1.0..=8.0).contains(&server.reloads("success")));
    assert_eq!(server.reloads("failure"), 0.0);
}

#[test]
fn changed_file_is_reloaded() {
    let server = Server::start("collections: {a: ./one.cdxj}", "");
    server.write(&local("{a: ./two.cdxj}"));
    until("the change is noticed", || {
        server.rows("a").contains("\"two\"")
    });
    server.write("collections: {");
    until("the change is noticed", || server.reloads("failure") == 1.0);
    assert_contains(server.rows("a"), "\"two\"");
    // Write the file in place instead of replacing it.
    let file = server.dir.path().join("config.yaml");
    fs::write(file, local("{a: ./three.cdxj}")).unwrap();
    until("the change is noticed", || {
        server.rows("a").contains("\"three\"")
    });
    assert_eq!(server.reloads("success"), 2.0, "each change is read once");
}

#[test]
fn without_watching_changes_are_loaded_only_on_a_signal() {
    let mut server = Server::unwatching("collections: {a: ./one.cdxj}");
    // Another server watches the same files, and shows when a change would have been noticed.
    let watching = Stage::start_in(server.dir.path(), "collections: {a: ./one.cdxj}");
    for index in ["two", "three"] {
        server.write(&local(&format!("{{a: ./{index}.cdxj}}")));
        let digest = format!("\"{index}\"");
        until("the change is noticed", || {
            let answer = watching.get(format!("/a/{QUERY}"));
            answer.text().contains(&digest)
        });
        assert_contains(server.rows("a"), "\"one\"");
        assert_eq!(server.reloads("success"), 0.0);
    }
    server.hang_up();
    until("the configuration is reloaded", || {
        server.reloads("success") > 0.0
    });
    assert_contains(server.rows("a"), "\"three\"");
    assert_eq!(server.reloads("success"), 1.0, "one signal, one reload");
    assert_eq!(server.reloads("failure"), 0.0);
}

#[test]
fn operator_address_stays_refused() {
    let host = ScriptedHost::start(|_| answer(200, &[], "from elsewhere"));
    let mut server = Server::unwatching("collections: {live: $live}");
    // A changed guard requires new connections to servers.
    server.reload("allow_private: [127.0.0.0/8, 10.0.0.0/8]\ncollections: {live: $live}\n");
    let elsewhere = server.stage.get(format!("/live/id_/{}", host.url("/")));
    assert_contains(elsewhere.text(), "from elsewhere");
    let operator = server.stage.operator();
    let through = server
        .stage
        .get(format!("/live/id_/http://{operator}/_status"));
    assert_eq!(through.status, 404, "{}", through.text());
    assert_lacks(through.text(), "configuration");
}
