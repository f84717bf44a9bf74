//! Tests that servers set up exactly as in docs/guide/install.md and operations.md keep their data, settings and users
//! when they are killed, restored, and failed over by Sentinel.

use std::path::{Path, PathBuf};

use redis_tests::{
    DATE, Options, Server, Wire, assert_contains, ends, module_path, ok, outcome, sha256_of, until,
};

use crate::operators::stage::{INDEX, frontier, index};
use crate::operators::wacz::{line, write};
use crate::tool::{script, tool};

/// Line that loads the module, the same in every document.
const LOAD: &str = "loadmodule /usr/lib/redis/modules/libcrawlspace.so";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Reads a section of a guide: the lines below a heading, up to the next one of its level.
fn section(page: &str, heading: &str) -> String {
    let text = std::fs::read_to_string(root().join("docs/guide").join(page)).unwrap();
    let lines = text.lines().skip_while(|line| *line != heading).skip(1);
    let lines: Vec<&str> = lines.take_while(|line| !line.starts_with("## ")).collect();
    assert!(!lines.is_empty(), "{page} has no section {heading}");
    lines.join("\n")
}

/// Returns the fenced blocks of a language.
fn blocks(text: &str, language: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    let starts = text.split(&fence).skip(1);
    let blocks = starts.map(|rest| rest.split("```").next().unwrap().to_owned());
    blocks.collect()
}

/// Returns these lines of a configuration with the path of the module under test.
fn with_module(lines: &str) -> String {
    assert!(lines.lines().any(|line| line == LOAD), "{lines}");
    lines.replace(LOAD, &format!("loadmodule {}", module_path().display()))
}

/// Returns the configuration lines of operations.md that turn persistence on and load the module.
fn persistence() -> String {
    with_module(&blocks(&section("operations.md", "## Persistence"), "conf")[0])
}

/// Runs the examples of a section.
fn run_examples(text: &str, server: &Server, folder: &Path) {
    let blocks = blocks(text, "console").concat();
    let commands = blocks.lines().filter_map(|line| line.strip_prefix("$ "));
    let commands: Vec<&str> = commands.collect();
    assert!(!commands.is_empty());
    let mut script = script(&commands.join("\n"), folder);
    ends(script.env("CRAWLSPACE_REDIS", server.url()), 0);
}

fn setting(server: &Server, name: &str) -> String {
    let reply = ok!(server.wire(), "CONFIG", "GET", name);
    reply.texts().pop().unwrap()
}

fn assert_persistent(server: &Server) {
    assert_eq!(setting(server, "appendonly"), "yes");
    assert_eq!(setting(server, "appendfsync"), "everysec");
    assert_eq!(setting(server, "maxmemory-policy"), "noeviction");
}

/// Waits until the append-only file is written to the kernel. (The server delays writes while it syncs the file.)
fn until_written(server: &Server) {
    until("the append-only file is written", || {
        server.info_number("aof_buffer_length") == 0
    });
}

/// Kills a server as in a crash, and restarts it with the same file.
fn crash(server: &mut Server) {
    until_written(server);
    let before = server.digest();
    server.restart();
    assert_eq!(server.digest(), before);
}

#[test]
fn every_document_has_the_same_loadmodule_line() {
    for path in [
        "README.md",
        "docs/guide/install.md",
        "docs/guide/operations.md",
        "packaging/debian/redis-crawlspace.README.Debian",
        "packaging/load.conf",
        "packaging/oci/redis.conf",
    ] {
        let text = std::fs::read_to_string(root().join(path)).unwrap();
        assert!(text.contains(LOAD), "{path}");
        assert!(!text.contains("include /usr"), "{path}");
    }
}

#[test]
fn server_with_the_documented_lines_keeps_everything_when_killed() {
    let mut server = Options::configured(&persistence()).start();
    assert_persistent(&server);
    index(&server);
    frontier(&server);
    crash(&mut server);
    let found = ok!(server.wire(), "DEDUPE.LOOKUP", INDEX, sha256_of(0));
    assert_eq!(found.items()[0].items()[0].text(), "2026-02");
}

#[test]
fn running_server_keeps_data_settings_and_users_when_killed() {
    let lines = blocks(&section("install.md", "## Debian"), "conf");
    let mut server = Options::configured(&with_module(&lines[0])).start();
    index(&server);
    let folder = tempfile::tempdir().unwrap();
    ok!(
        server.wire(),
        "CONFIG",
        "SET",
        "crawlspace.chg-lease",
        "7000"
    );
    let users = section("operations.md", "## Users");
    let users = users.lines().filter(|line| line.contains("ACL SETUSER"));
    let users: Vec<&str> = users.collect();
    run_examples(
        &format!("```console\n{}\n```", users.join("\n")),
        &server,
        folder.path(),
    );
    run_examples(
        &section("operations.md", "## Persistence"),
        &server,
        folder.path(),
    );
    frontier(&server);
    crash(&mut server);
    assert_persistent(&server);
    assert_eq!(setting(&server, "crawlspace.chg-lease"), "7000");

    // Each user may do its task, and nothing else.
    let importer = server.url().replace("//", "//importer:secret@");
    let lines = [line(0, "warc/revisit"), line(20, "text/html")];
    write(&folder.path().join("2026-05-0.wacz"), lines);
    let manifest = r#"{"resources": [{"path": "2026-05-0.wacz", "crawlId": "2026-05"}]}"#;
    std::fs::write(folder.path().join("all.json"), manifest).unwrap();
    let import = |source: &str, prefix: &str| {
        let mut tool = tool(format!("indexer --source-url {source} --redis {importer}"));
        outcome(tool.args(["--prefix", prefix]).current_dir(folder.path()))
    };
    for source in ["2026-05-0.wacz --crawl-id 2026-05", "all.json --remove"] {
        let done = import(source, INDEX);
        assert_eq!(done.status, 0, "{done:?}");
    }
    let refused = import("all.json", "{other}:");
    assert_contains(&refused.errors, "NOPERM");
    let mut crawler = server.wire();
    ok!(crawler, "AUTH", "crawler", "secret");
    let record = format!("{} 0 {DATE} https://example.com/ 5000", sha256_of(30));
    for command in [
        format!("DEDUPE.BEGIN {INDEX} 2026-06"),
        format!("DEDUPE.LOOKUP {INDEX} CRAWL 2026-06 {}", sha256_of(30)),
        format!("DEDUPE.ADD {INDEX} 2026-06 {record}"),
        format!("DEDUPE.COMMIT {INDEX} 2026-06"),
    ] {
        crawler.ok_line(command);
    }
    let refused = crawler.expect_error(&["DEDUPE.REMOVE", INDEX, "2026-06"]);
    assert!(refused.starts_with("NOPERM"), "{refused}");
}

#[test]
fn restored_backup_is_persistent() {
    let mut server = Options::configured(&persistence()).start();
    index(&server);
    let page = section("operations.md", "## Backup and restore");
    let saved = server.digest();
    let folder = tempfile::tempdir().unwrap();
    let backup = blocks(&page, "console").swap_remove(0);
    run_examples(&format!("```console\n{backup}```"), &server, folder.path());
    ok!(server.wire(), "DEDUPE.REMOVE", INDEX, "2026-02");
    assert_ne!(server.digest(), saved);

    let restore = blocks(&page, "sh").swap_remove(0);
    let files = restore
        .replace("sudo ", "")
        .replace("-o redis -g redis ", "")
        .replace("/var/lib/redis", &server.dir().to_string_lossy())
        .replace(
            "/etc/redis/redis.conf",
            &server.configuration().to_string_lossy(),
        );
    for command in files.lines() {
        match command {
            "systemctl stop redis-server" => server.shutdown(),
            "systemctl start redis-server" => server.restart(),
            _ => drop(ends(script(command, folder.path()), 0)),
        }
    }
    assert_eq!(server.digest(), saved);
    run_examples(
        &section("operations.md", "## Persistence"),
        &server,
        folder.path(),
    );
    crash(&mut server);
    assert_eq!(server.digest(), saved);
}

/// Returns true if the server is a master; `None` if Sentinel closes the connection, as it does during a failover.
fn is_master(server: &Server) -> Option<bool> {
    let mut c = Wire::unix(&server.unix_path()).ok()?;
    c.try_send(&["ROLE"]).ok()?;
    Some(c.try_recv().ok()?.items()[0].text() == "master")
}

#[test]
fn both_servers_restart_after_each_of_ten_failovers() {
    let page = section("operations.md", "## Replicas");
    let [of_replica, of_sentinel] = &blocks(&page, "conf")[..] else {
        panic!("the page has the lines of a replica and those of a Sentinel");
    };
    let first = Options::configured(&persistence()).start();
    let address = format!("127.0.0.1 {}", first.port());
    let here = |lines: &str| {
        assert!(lines.contains("10.0.0.5 6379"), "{lines}");
        lines.replace("10.0.0.5 6379", &address)
    };
    let second = Options::configured(&(persistence() + &here(of_replica))).start();
    let sentinel = Options::configured(&here(of_sentinel))
        .args(&["--sentinel"])
        .start();
    let mut sentinel = sentinel.wire();
    // Shorten the intervals: by default, Sentinel checks servers every ten seconds.
    for period in ["INFO-PERIOD", "PING-PERIOD", "PUBLISH-PERIOD", "ASK-PERIOD"] {
        sentinel.call(&["SENTINEL", "DEBUG", period, "250"]);
    }

    let mut servers = [first, second];
    for round in 0..10 {
        let master = round % 2;
        let (old, new) = (master, 1 - master);
        let mut c = servers[old].wire();
        let crawl = format!("crawl-{round}");
        let hash = sha256_of(round as u64);
        c.ok_line(format!(
            "DEDUPE.ADD {INDEX} {crawl} {hash} 0 {DATE} https://example.com/ 5000"
        ));
        ok!(c, "DEDUPE.COMMIT", INDEX, crawl);
        servers[old].wait_for_replica_offset(&servers[new]);
        until("Sentinel fails over", || {
            let master = ok!(sentinel, "SENTINEL", "MASTER", "crawlspace").texts();
            let flags = master.iter().position(|field| field == "flags");
            let is_idle = flags.is_some_and(|at| master[at + 1] == "master");
            if is_idle && is_master(&servers[new]) == Some(false) {
                // Sentinel refuses a failover, or aborts it later, while it has no recent
                // information on the replica.
                sentinel.call(&["SENTINEL", "FAILOVER", "crawlspace"]);
            }
            is_idle
                && is_master(&servers[new]) == Some(true)
                && is_master(&servers[old]) == Some(false)
        });
        servers[new].wait_for_replica_offset(&servers[old]);
        for at in [old, new] {
            until_written(&servers[at]);
            servers[at].restart();
        }
        assert_eq!(is_master(&servers[new]), Some(true), "round {round}");
        assert_eq!(is_master(&servers[old]), Some(false), "round {round}");
        servers[new].wait_for_replica_offset(&servers[old]);
        for server in &servers {
            assert_persistent(server);
            let text = std::fs::read_to_string(server.configuration()).unwrap();
            assert_eq!(text.matches("libcrawlspace.so").count(), 1, "{text}");
            for n in 0..=round {
                let found = ok!(server.wire(), "DEDUPE.LOOKUP", INDEX, sha256_of(n as u64));
                let owner = found.items()[0].items()[0].text();
                assert_eq!(owner, format!("crawl-{n}"), "round {round}");
            }
        }
    }
}
