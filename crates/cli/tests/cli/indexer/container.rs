//! Tests the recipe for Browsertrix's Redis with the module: the server starts with Browsertrix's arguments.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use redis_tests::{Program, Wire, bulk, free_port, int, module_path, ok, until};

/// Entry point of the base image: handles a configuration file as its first argument.
const BELOW: &str =
    "#!/bin/sh\ncase \"$1\" in -* | *.conf) set -- redis-server \"$@\" ;; esac\nexec \"$@\"\n";

/// Runs the probe of Browsertrix's chart at this port.
fn probe(port: u16) -> bool {
    let script = format!("res=$(redis-cli -p {port} ping); [[ $res = 'PONG' ]]");
    let mut bash = Command::new("bash");
    let ended = bash.args(["-c", &script]).output().expect("bash is here");
    ended.status.success()
}

#[test]
fn browsertrix_recipe_starts_with_the_arguments_of_its_chart() {
    let dir = tempfile::tempdir().expect("a folder");
    let below = dir.path().join("docker-entrypoint.sh");
    fs::write(&below, BELOW).expect("it is written");
    fs::set_permissions(&below, fs::Permissions::from_mode(0o755)).expect("it is ours");
    let recipe = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/browsertrix");
    let path = std::env::var("PATH").expect("a path");
    for appendonly in ["yes", "no"] {
        let port = free_port();
        let conf = dir.path().join("redis.conf");
        let text = format!(
            "appendonly yes\ndir {}\nport {port}\n",
            dir.path().display()
        );
        fs::write(&conf, text).expect("it is written");
        let mut command = Command::new(recipe.join("entrypoint"));
        command.arg(&conf).args(["--appendonly", appendonly]);
        command.env("PATH", format!("{}:{path}", dir.path().display()));
        command.env("CRAWLSPACE_MODULE", module_path());
        let mut server = Program::start(command);
        until("the probe of the server succeeds", || {
            assert!(server.ended().is_none(), "{}", server.out());
            probe(port)
        });
        let mut c = Wire::tcp(port).expect("it is there");
        let hash = redis_tests::sha256_of(1);
        let (date, url) = ("20260319102015", "https://example.org/");
        ok!(c, "DEDUPE.ADD", "", "crawl", hash, 0, date, url, 10);
        let set = ok!(c, "CONFIG", "GET", "appendonly");
        assert_eq!(set.items()[1], bulk(appendonly));
        assert_eq!(ok!(c, "HLEN", "h:crawl"), int(1));
        drop(c);
        server.interrupt();
        server.end();
    }
}
