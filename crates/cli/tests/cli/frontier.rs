//! Tests `crawlspace chg` against a live server.

use crawlspace_client::frontier::{Frontier, Next, Uri};
use redis_tests::{
    Options, Outcome, Program, Server, assert_contains, assert_starts, int, outcome, until_some,
};
use serde_json::Value;

use crate::documents::metrics::must_be_listed;
use crate::tool::tool;

/// Runs `crawlspace chg …`.
fn crawlspace(server: &Server, arguments: &str) -> Outcome {
    let url = server.url();
    outcome(tool(format!(
        "chg {arguments} --redis {url} --prefix {{f}}:"
    )))
}

/// Runs `crawlspace chg … --json`, which must end with this exit status, and returns the JSON.
#[track_caller]
fn json(server: &Server, arguments: &str, status: i32) -> Value {
    let outcome = crawlspace(server, &format!("{arguments} --json"));
    assert_eq!(outcome.status, status, "{arguments}");
    serde_json::from_str(&outcome.out).unwrap()
}

#[test]
fn command_line_shows_what_an_operator_needs() {
    let server = Server::start();
    let frontier = Frontier::open(&server.url(), "{f}:").unwrap();
    let uri = |chg, uri| Uri {
        chg,
        at: 0,
        depth: 0,
        uri,
    };
    let uris = [uri(b"a.example", b"u:1"), uri(b"b.example", b"u:2")];
    frontier.add_uris(b"crawl", None, &uris).unwrap();
    let lease = frontier.next(&Next::default()).unwrap().remove(0);

    let why = crawlspace(&server, "why a.example");
    assert_eq!(why.status, 0);
    assert_starts(&why.out, "a.example: busy\n");
    assert_contains(&why.out, "u:1");
    let why = json(&server, "why a.example", 0);
    assert_eq!(why["state"], "busy");
    assert_eq!(why["leases"][0]["uri"], "u:1");
    assert_eq!(why["leases"][0]["token"], lease.token);
    assert_eq!(why["blocked-until"], 0);

    let info = crawlspace(&server, "info");
    assert_eq!(info.status, 0);
    assert_starts(&info.out, "frontier '{f}:'\n  URIs ");
    assert!(!info.out.contains('\x1b'), "no colours in a pipe");
    let info = json(&server, "info", 0);
    assert_eq!(
        (&info["uris"], &info["groups-busy"]),
        (&2.into(), &1.into())
    );

    let execution = json(&server, "info --execution crawl", 0);
    assert_eq!(
        (&execution["uris"], &execution["queued"]),
        (&2.into(), &Value::Null)
    );
    let execution = crawlspace(&server, "info --execution crawl");
    assert_starts(&execution.out, "execution 'crawl'\n  URIs ");

    let expired = crawlspace(&server, "expired --json");
    assert_eq!((expired.status, &expired.out[..]), (0, ""));
    let check = crawlspace(&server, "check");
    assert_eq!(check.status, 0, "{}", check.out);
    server.wire().ok_line("HINCRBY {f}:EIDC crawl 7");
    let check = crawlspace(&server, "check");
    assert_eq!(check.status, 1, "{}", check.out);
    assert_starts(&check.out, "The frontier is NOT consistent");
    let check = json(&server, "check", 1);
    assert_eq!(check["consistent"], false);
    assert_eq!(check["sum-executions"], 9);

    let nowhere = crawlspace(&server, "why nowhere.example");
    assert_eq!((nowhere.status, &nowhere.out[..]), (1, ""));
    assert_starts(&nowhere.errors, "crawlspace: CHG.WHY: NOCHG ");
    for wrong in ["why", "expired --count 0", "nonsense"] {
        assert_eq!(crawlspace(&server, wrong).status, 2, "{wrong:?}");
    }
}

#[test]
fn missing_module_is_reported() {
    let server = Options::new().no_module().start();
    let info = crawlspace(&server, "info");
    assert_eq!(info.status, 1);
    assert_contains(
        &info.errors,
        "the server has not loaded the Crawlspace module",
    );
}

#[test]
fn frontier_is_served_until_the_program_is_terminated() {
    let server = Options::new().plain().start();
    let url = server.url();
    let start = |prefix: &str| {
        let mut command = std::process::Command::new(crate::tool::TOOL);
        command.args(["frontier", "serve", "--listen", "127.0.0.1:0"]);
        command.args(["--redis", &url, "--prefix", prefix]);
        Program::start(command)
    };
    let mut program = start("{f}:");
    program.address();
    assert_eq!(server.wire().ok_line("EXISTS {f}:chg_packed"), int(1));
    let printed = until_some("the address of the metrics", || {
        let out = program.out();
        Some(out.lines().nth(1)?.to_owned())
    });
    let metrics = printed.strip_prefix("http://").unwrap();
    let (address, path) = metrics.split_once('/').unwrap();
    let response = redis_tests::http::get(address.parse().unwrap(), &format!("/{path}"));
    must_be_listed("crawlspace frontier serve", &response.text());
    const SIGTERM: i32 = 15;
    program.signal(SIGTERM);
    assert_eq!(program.end().status.code(), Some(0));

    // A token that is easy to guess is refused.
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, "secret\n").unwrap();
    let arguments = format!(
        "frontier serve --redis {url} --token-file {}",
        token.display()
    );
    let refused = outcome(tool(arguments));
    assert_eq!(refused.status, 1);
    assert_contains(
        &refused.errors,
        "token: invalid token: write 16 or more ASCII characters",
    );

    // A frontier in plain storage is refused.
    let frontier = Frontier::open(&url, "{plain}:").unwrap();
    frontier.add(b"crawl", None, &[(b"a", 0)]).unwrap();
    let ended = start("{plain}:").end();
    assert_eq!(ended.status.code(), Some(1));
    assert_contains(
        &ended.errors,
        "the frontier is in plain storage: run CHG.PACK",
    );
}
