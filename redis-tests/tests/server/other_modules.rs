//! Other modules call the commands without a user and without a client.

use std::path::{Path, PathBuf};
use std::process::Command;

use redis_tests::{
    DATE, Frontier, Lease, Options, Reply, Server, T0, Wire, Word, add, array, assert_consistent,
    assert_replicated, blocked, bulk, commit, int, nil, ok, owners, sha256_of, simulated, until,
};
use tempfile::TempDir;

const P: &str = "p:";

/// Returns the server's header file for modules, from the crate `redis-module`.
fn header() -> Option<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let metadata = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .ok()?;
    let metadata = String::from_utf8(metadata.stdout).ok()?;
    let manifests = metadata.split("\"manifest_path\":\"").skip(1);
    manifests
        .filter_map(|rest| Path::new(rest.split('"').next()?).parent())
        .map(|dir| dir.join("src/include"))
        .find(|dir| dir.join("redismodule.h").is_file())
}

/// Builds `caller.c`. Prints the reason and returns `None` if this machine cannot build it.
fn caller(dir: &TempDir) -> Option<PathBuf> {
    let Some(header) = header() else {
        eprintln!("skipped: redismodule.h is not where crate redis-module should have it");
        return None;
    };
    let module = dir.path().join("caller.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/server/caller.c");
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-I"])
        .args([header.as_path(), Path::new("-o"), &module, &source])
        .output();
    match built {
        Ok(done) if done.status.success() => Some(module),
        Ok(done) => panic!("{}", String::from_utf8_lossy(&done.stderr)),
        Err(e) => {
            eprintln!("skipped: no C compiler: {e}");
            None
        }
    }
}

/// Starts a server with both modules.
fn server(dir: &TempDir) -> Option<Server> {
    let module = caller(dir)?;
    let path = module.to_string_lossy();
    Some(Options::new().args(&["--loadmodule", &path]).start())
}

/// Returns a command of each kind, in an order in which all of them succeed.
fn commands() -> Vec<(Vec<Vec<u8>>, Reply)> {
    let (one, url) = (sha256_of(1), "http://e.com/");
    let line = |words: &[&str]| words.iter().map(|w| w.word()).collect();
    vec![
        (
            line(&["DEDUPE.ADD", P, "a", &one, "0", DATE, url, "5"]),
            int(1),
        ),
        (line(&["DEDUPE.WACZOPEN", P, "a", "a.wacz"]), int(0)),
        (line(&["DEDUPE.COMMIT", P, "a"]), array([int(1), int(0)])),
        (
            line(&["DEDUPE.LOOKUP", P, &one]),
            array([array([bulk("a"), int(0), bulk(DATE), bulk(url), int(5)])]),
        ),
        (
            line(&[
                "DEDUPE.CLAIM",
                P,
                "b",
                &sha256_of(2),
                "PX",
                "60000",
                "BLOCK",
                "60000",
            ]),
            array([bulk("CLAIMED"), bulk("1")]),
        ),
        (line(&["DEDUPE.UNCLAIM", P, &sha256_of(2), "1"]), int(1)),
        (line(&["DEDUPE.REVISIT", P, "b", &one, "1"]), int(1)),
        (line(&["DEDUPE.CANCEL", P, "b"]), int(0)),
        (
            line(&["DEDUPE.REMOVE", P, "a"]),
            array([int(1), int(1), int(0)]),
        ),
    ]
}

fn behind(command: &str, words: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    [vec![command.word()], words].concat()
}

#[test]
fn commands_work_when_another_module_calls_them() {
    let dir = TempDir::new().expect("a temporary directory");
    let Some(server) = server(&dir) else { return };
    let mut c = server.wire();
    for (words, expected) in commands() {
        let name = String::from_utf8_lossy(&words[0]).into_owned();
        let reply = c.call(&behind("CALLER.CALL", words));
        assert_eq!(reply, expected, "{name}");
    }
    assert_consistent(&mut c, P);
    assert_eq!(server.info_number("panics"), 0);
}

#[test]
fn commands_work_when_another_modules_timer_calls_them() {
    let dir = TempDir::new().expect("a temporary directory");
    let Some(server) = server(&dir) else { return };
    let mut c = server.wire();
    let done = |c: &mut Wire, key: &str| ok!(c, "INCRBY", key, 0).int();
    for (n, (words, _)) in (1..).zip(commands()) {
        let name = String::from_utf8_lossy(&words[0]).into_owned();
        c.expect_ok(&behind("CALLER.LATER", words));
        until("the timer has run", || {
            done(&mut c, "caller:done") + done(&mut c, "caller:failed") == n
        });
        assert_eq!(done(&mut c, "caller:failed"), 0, "{name}");
    }
    assert_consistent(&mut c, P);
    assert_eq!(server.info_number("panics"), 0);
}

#[test]
fn large_job_of_another_module_runs_through_and_is_replicated() {
    let dir = TempDir::new().expect("a temporary directory");
    let Some(server) = server(&dir) else { return };
    let replica = Options::new().replica_of(&server).start();
    let mut c = server.wire();
    for chunk in 0..100 {
        add(&mut c, P, "a", chunk * 200..(chunk + 1) * 200);
    }
    let reply = ok!(c, "CALLER.CALL", "DEDUPE.COMMIT", P, "a");
    assert_eq!(reply.ints(), [20_000, 0]);
    assert_eq!(owners(&mut c, P, [0, 19_999]), ["a", "a"]);
    assert_eq!(commit(&mut c, P, "a"), (0, 0));
    assert_replicated(&server, &replica);
}

#[test]
fn module_that_reads_the_index_during_a_write_is_refused() {
    let dir = TempDir::new().expect("a temporary directory");
    let Some(server) = server(&dir) else { return };
    let mut c = server.wire();
    ok!(c, "CALLER.WATCH", P);
    add(&mut c, P, "a", 0..50);
    add(&mut c, P, "b", 25..75);
    assert_eq!(commit(&mut c, P, "a"), (50, 0));
    assert_eq!(commit(&mut c, P, "b"), (25, 25));
    assert_eq!(ok!(c, "DEDUPE.REMOVE", P, "a").ints(), [1, 25, 25]);
    assert_eq!(owners(&mut c, P, [0, 30, 60]), ["-", "b", "b"]);
    let seen = ok!(c, "CALLER.WATCH", P).ints();
    assert!(seen[0] > 100 && seen[1] > 100, "{seen:?}");
    // While other keys change, the module may read the index.
    ok!(c, "HSET", "another", "field", 1);
    assert_eq!(ok!(c, "CALLER.WATCH", P).ints(), [seen[0] + 1, seen[1]]);
    assert_consistent(&mut c, P);
    assert_eq!(server.info_number("panics"), 0);
}

#[test]
fn module_that_is_loaded_later_is_notified_of_changes_from_then_on() {
    let dir = TempDir::new().expect("a temporary directory");
    let Some(module) = caller(&dir) else { return };
    let server = Options::new()
        .args(&["--enable-module-command", "yes"])
        .start();
    let mut c = server.wire();
    add(&mut c, P, "a", 0..50);
    ok!(c, "MODULE", "LOAD", &*module.to_string_lossy());
    assert_eq!(ok!(c, "CALLER.WATCH", P).ints(), [0, 0]);
    add(&mut c, P, "a", 50..60);
    let seen = ok!(c, "CALLER.WATCH", P).ints();
    assert!(seen[0] > 0, "{seen:?}");
    assert_consistent(&mut c, P);
}

#[test]
fn clients_are_notified_of_changes_according_to_the_configuration() {
    let server = Server::start();
    let (mut c, mut listener) = (server.wire(), server.wire());
    let channel = "__keyspace@0__:p:h:a";
    ok!(listener, "SUBSCRIBE", channel);
    let mut at = 0;
    for (kinds, expected) in [("", false), ("KA", true), ("", false), ("Kh", true)] {
        ok!(c, "CONFIG", "SET", "notify-keyspace-events", kinds);
        for _ in 0..2 {
            add(&mut c, P, "a", at..at + 1);
            at += 1;
            ok!(c, "PUBLISH", channel, "end");
            let mut told = listener.recv().items()[2].text();
            assert_eq!(told == "hset", expected, "{kinds}: {told}");
            while told != "end" {
                told = listener.recv().items()[2].text();
            }
        }
    }
}

/// Returns frontier commands of each kind, in an order in which all of them succeed on a new
/// frontier.
fn politeness() -> Vec<String> {
    let token = T0 * 1000;
    [
        &format!("ADD crawl a {T0} a {T0} b {T0}"),
        &format!("ADDURI crawl kept {T0} 0 http://kept/"),
        "NEXT",
        &format!("EXTEND a {token} 5000"),
        &format!("RELEASE a {token} DELAY 5 DONE crawl NEXT"),
        "SWEEP",
        "EXPIRED",
        "BLOCK a UNTIL 0",
        "PAUSE a",
        "RESUME a",
        "LIMIT a PARALLEL 2",
        "GROUP shared a",
        "MOVE a c",
        "WHY c",
        "INFO",
        "LIST",
        "URIS kept",
        "CHECK",
        "REPAIR",
        "DROP crawl",
    ]
    .map(str::to_owned)
    .into()
}

#[test]
fn politeness_commands_work_when_another_module_or_its_timer_calls_them() {
    let dir = TempDir::new().expect("a temporary directory");
    let Some(module) = caller(&dir) else { return };
    let path = module.to_string_lossy();
    let server = simulated().args(&["--loadmodule", &path]).start();
    let mut f = Frontier::at(&server, T0);
    let mut direct = Vec::new();
    for line in politeness() {
        direct.push(f.ok(&line));
    }
    f.assert_conserved();
    ok!(f.wire, "FLUSHALL");
    for (line, expected) in politeness().iter().zip(direct) {
        let words = f.words(line);
        let reply = f.wire.expect_ok(&behind("CALLER.CALL", words));
        if line != "INFO" {
            assert_eq!(reply, expected, "{line}");
        }
    }
    f.assert_conserved();
    ok!(f.wire, "FLUSHALL");
    for (n, line) in (1..).zip(politeness()) {
        let words = f.words(&line);
        f.wire.expect_ok(&behind("CALLER.LATER", words));
        until("the timer has run", || {
            let mut count = |key: &str| ok!(f.wire, "INCRBY", key, 0).int();
            assert_eq!(count("caller:failed"), 0, "{line}");
            count("caller:done") == n
        });
    }
    f.assert_conserved();
    assert_eq!(server.info_number("panics"), 0);
}

#[test]
fn next_of_another_module_does_not_wait_and_its_add_wakes_waiters() {
    let dir = TempDir::new().expect("a temporary directory");
    let Some(server) = server(&dir) else { return };
    let mut f = Frontier::real(&server);
    let next = f.words("NEXT BLOCK 0");
    assert_eq!(f.wire.call(&behind("CALLER.CALL", next)), nil());
    for command in ["CALLER.CALL", "CALLER.LATER"] {
        let mut waiter = blocked(&server, "{f}:", "NEXT BLOCK 0");
        let words = f.words("ADD crawl host 0");
        f.wire.expect_ok(&behind(command, words));
        let lease = Lease::only(&waiter.wire.recv());
        f.release(&lease, "AT 0 DONE crawl");
    }
    f.assert_conserved();
    assert_eq!(server.info_number("panics"), 0);
}
