//! Runs `crawlspace serve` on a free port.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use redis_tests::http::{Answer, ask, get};
use redis_tests::{Program, assert_contains, peak_memory_of, until};
use tempfile::TempDir;

use crate::tool::tool;

/// The server under test. Dropping it stops the server.
pub struct Stage {
    program: Program,
    address: SocketAddr,
    _dir: TempDir,
}

impl Stage {
    /// Starts the server with a configuration, to which loopback addresses are added as allowed.
    pub fn start(config: &str) -> Stage {
        Stage::start_with(config, "")
    }

    /// Starts the server with additional command-line arguments.
    pub fn start_with(config: &str, words: &str) -> Stage {
        let dir = tempfile::tempdir().unwrap();
        Stage::of(command(dir.path(), config, words), dir)
    }

    /// Starts the server with the configuration in the test's own folder.
    pub fn start_in(folder: &Path, config: &str) -> Stage {
        Stage::start_in_with(folder, config, "")
    }

    /// Starts the server with the configuration in the test's own folder and additional command-line arguments.
    pub fn start_in_with(folder: &Path, config: &str, words: &str) -> Stage {
        let dir = tempfile::tempdir().unwrap();
        Stage::of(command(folder, config, words), dir)
    }

    fn of(command: Command, dir: TempDir) -> Stage {
        let mut program = Program::start(command);
        let address = program.address();
        Stage {
            program,
            address,
            _dir: dir,
        }
    }

    /// Returns the address on which the server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the response to a GET request.
    pub fn get(&self, target: impl AsRef<str>) -> Answer {
        get(self.address, target.as_ref())
    }

    /// Returns the address of the status pages.
    pub fn operator(&self) -> SocketAddr {
        let log = self.program.errors();
        let at = log
            .split_once("\"status\":\"http://")
            .and_then(|(_, rest)| rest.split_once('/'));
        at.and_then(|(at, _)| at.parse().ok()).expect(&log)
    }

    /// Returns the base URL, `http://127.0.0.1:1234`, without a trailing slash.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the process.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Returns the process mutably, to stop it.
    pub fn program_mut(&mut self) -> &mut Program {
        &mut self.program
    }
}

/// Builds the command with its configuration in that folder, on a free port unless the arguments say
/// otherwise.
fn command(folder: &Path, config: &str, words: &str) -> Command {
    let file = folder.join("config.yaml");
    std::fs::write(&file, format!("allow_private: [127.0.0.0/8]\n{config}")).unwrap();
    let bind = if words.contains("--bind") {
        ""
    } else {
        "--bind 127.0.0.1:0"
    };
    tool(format!("serve {bind} --config {} {words}", file.display()))
}

#[test]
fn command_line_options_take_effect() {
    let dir = tempfile::tempdir().unwrap();
    let lines = |n: usize| format!("com,a)/{n:06} 2016 {{\"url\": \"http://a.com/{n:06}\"}}\n");
    let lines: String = (0..40_000).map(lines).collect();
    std::fs::write(dir.path().join("a.cdxj"), lines).unwrap();
    let config = format!("collections: {{c: {}}}\n", dir.path().display());
    let reader = "https://reader.example";
    let stage = Stage::start_with(
        &config,
        &format!(
            "--bind 127.0.0.2:0 --status 127.0.0.3:0 --public-url https://public.example/archive \
             --allow-origin {reader} --access-log --memory 1"
        ),
    );
    assert_eq!(stage.address().ip().to_string(), "127.0.0.2");
    assert_eq!(stage.operator().ip().to_string(), "127.0.0.3");
    let target = "/c/index?url=http://a.com/000001";
    let fields = [("Origin", reader)];
    let answer = ask(stage.address(), "GET", target, &fields, b"").unwrap();
    assert_eq!(answer.field("access-control-allow-origin"), Some(reader));
    let map = stage.get("/c/timemap/link/http://a.com/000001").text();
    assert_contains(&map, "https://public.example/archive/c/");
    let sorted = stage.get("/c/index?url=a.com/*&closest=2017");
    assert_eq!(sorted.status, 503, "{}", sorted.text());
    until("each request is logged", || {
        stage.program().errors().contains("000001")
    });
    drop(stage);

    let stage = Stage::start_with(&config, "");
    let answer = ask(stage.address(), "GET", target, &fields, b"").unwrap();
    assert_eq!(answer.field("access-control-allow-origin"), None);
    let map = stage.get("/c/timemap/link/http://a.com/000001").text();
    assert_contains(&map, stage.url());
    assert_eq!(stage.get("/c/index?url=a.com/*&closest=2017").status, 200);
    assert!(!stage.program().errors().contains("000001"));
}

#[test]
fn concurrent_requests_respect_the_limit() {
    const LIMIT: u64 = 48;
    let dir = tempfile::tempdir().unwrap();
    let line = |n: usize| {
        let json = format!(
            "{{\"url\": \"http://a.com/{n:06}\", \"digest\": \"{n:032}\", \"length\": \"1000\"}}"
        );
        format!("com,a)/{n:06} 20160101000000 {json}\n")
    };
    std::fs::write(
        dir.path().join("a.cdxj"),
        (0..60_000).map(line).collect::<String>(),
    )
    .unwrap();
    let config = format!("collections:\n  c: {}\n", dir.path().display());
    let stage = Stage::start_with(&config, &format!("--memory {LIMIT}"));
    let peak = || peak_memory_of(stage.program().pid());
    assert_eq!(stage.get("/c/index?url=a.com/000001").status, 200);
    let before = peak();
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let ask = || {
            stage
                .get("/c/index?url=a.com/*&sort=reverse&resolveRevisits=true")
                .status
        };
        let clients: Vec<_> = (0..12).map(|_| scope.spawn(ask)).collect();
        clients
            .into_iter()
            .map(|client| client.join().unwrap())
            .collect()
    });
    assert!(statuses.contains(&503), "{statuses:?}");
    let taken = peak() - before;
    // The limit does not cover the streamed batches and the stack of each request. Without a limit, the requests take
    // more than 250 MB.
    let streamed = 12 * (2 << 20);
    assert!(
        taken <= (LIMIT << 20) + streamed,
        "{taken} bytes, {statuses:?}"
    );
}
