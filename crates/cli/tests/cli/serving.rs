//! `crawlspace serve` on a free port, and the server within this process.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use crawlspace_serve::Federation;
use crawlspace_serve::config::Config;
use crawlspace_serve::reload::Current;
use crawlspace_serve::server::{Options, serve};
use redis_tests::http::{Answer, get};
use redis_tests::{Program, with};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use crate::tool::{script, tool};

/// The server under test. Dropping it ends it.
pub struct Stage {
    program: Program,
    address: SocketAddr,
    _dir: TempDir,
}

impl Stage {
    /// Starts it with the text of a configuration, to which loopback addresses are added as allowed.
    pub fn start(config: &str) -> Stage {
        Stage::start_with(config, "")
    }

    /// Starts it with more words on the command line.
    pub fn start_with(config: &str, words: &str) -> Stage {
        let dir = tempfile::tempdir().unwrap();
        Stage::of(command(dir.path(), config, words), dir)
    }

    /// Starts it with variables of the environment.
    pub fn start_where(config: &str, variables: &[(&str, String)]) -> Stage {
        let dir = tempfile::tempdir().unwrap();
        let mut command = command(dir.path(), config, "");
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        Stage::of(command, dir)
    }

    /// Starts it at an address.
    pub fn start_at(config: &str, bind: SocketAddr) -> Stage {
        Stage::start_with(config, &format!("--bind {bind}"))
    }

    /// Starts it with the configuration in a folder of the test's own.
    pub fn start_in(folder: &Path, config: &str) -> Stage {
        Stage::start_in_with(folder, config, "")
    }

    /// Starts it with the configuration in a folder of the test's own, and more words on the command line.
    pub fn start_in_with(folder: &Path, config: &str, words: &str) -> Stage {
        let dir = tempfile::tempdir().unwrap();
        Stage::of(command(folder, config, words), dir)
    }

    /// Starts it with `--allow-origin`, so that pages of that origin may ask it.
    pub fn start_for(origin: &str, config: &str) -> Stage {
        Stage::start_with(config, &format!("--allow-origin {origin}"))
    }

    /// Starts it by a shell that runs `limits` first, with a configuration to which no addresses are added.
    pub fn start_limited(config: &str, limits: &str) -> Stage {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("config.yaml"), config).unwrap();
        let serve = "exec crawlspace serve --bind 127.0.0.1:0 --config config.yaml";
        let command = script(&format!("{limits}; {serve}"), dir.path());
        Stage::of(command, dir)
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

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it answers when it is asked for this with GET.
    pub fn get(&self, target: impl AsRef<str>) -> Answer {
        get(self.address, target.as_ref())
    }

    /// Where the operator finds the status.
    pub fn operator(&self) -> SocketAddr {
        let log = self.program.errors();
        let at = log
            .split_once("\"status\":\"http://")
            .and_then(|(_, rest)| rest.split_once('/'));
        at.and_then(|(at, _)| at.parse().ok()).expect(&log)
    }

    /// `http://127.0.0.1:1234`, without a slash at the end.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Its process.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Its process, mutable, to end it.
    pub fn program_mut(&mut self) -> &mut Program {
        &mut self.program
    }
}

/// The command with its configuration in that folder, on a free port unless the words say otherwise.
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

/// The server within this process, with short timeouts.
pub struct Impatient {
    current: Arc<Current>,
    pub address: SocketAddr,
    runtime: Option<Runtime>,
}

impl Impatient {
    /// Starts it with the text of a configuration in a folder.
    pub fn start(config: &str, folder: &Path) -> Impatient {
        let (config, _) = Config::parse(config, "config.yaml", folder).unwrap();
        let current = Current::new(Federation::open(&config).unwrap());
        let runtime = Runtime::new().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let short = Duration::from_millis(300);
        let options = with!(Options, head: short, stall: short);
        let never = std::future::pending();
        runtime.spawn(serve(Arc::clone(&current), listener, options, never));
        Impatient {
            current,
            address,
            runtime: Some(runtime),
        }
    }

    /// Who uses it now: the server itself and each connection.
    pub fn users(&self) -> usize {
        Arc::strong_count(&self.current)
    }
}

impl Drop for Impatient {
    fn drop(&mut self) {
        self.runtime.take().unwrap().shutdown_background();
    }
}
