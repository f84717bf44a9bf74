//! `crawlspace serve` on a free port.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use redis_tests::{Program, until_some};
use tempfile::TempDir;

/// The server under test. Dropping it ends it.
pub struct Stage {
    program: Program,
    address: SocketAddr,
    _dir: TempDir,
}

impl Stage {
    /// Starts it with the text of a configuration, to which loopback addresses are added as allowed.
    pub fn start(config: &str) -> Stage {
        Stage::start_at(config, SocketAddr::from(([127, 0, 0, 1], 0)))
    }

    /// Starts it at an address, with the text of a configuration.
    pub fn start_at(config: &str, bind: SocketAddr) -> Stage {
        let dir = tempfile::tempdir().unwrap();
        let command = command(dir.path(), config, bind);
        Stage::of(command, dir)
    }

    /// Starts it with more arguments on the command line.
    pub fn start_with(config: &str, words: &[&str]) -> Stage {
        let dir = tempfile::tempdir().unwrap();
        let mut command = command(dir.path(), config, SocketAddr::from(([127, 0, 0, 1], 0)));
        command.args(words);
        Stage::of(command, dir)
    }

    /// Starts it with the configuration in a folder of the test's own.
    pub fn start_in(folder: &Path, config: &str) -> Stage {
        let command = command(folder, config, SocketAddr::from(([127, 0, 0, 1], 0)));
        Stage::of(command, tempfile::tempdir().unwrap())
    }

    /// Starts it with `--allow-origin`, so that pages of that origin may ask it.
    pub fn start_for(origin: &str, config: &str) -> Stage {
        let dir = tempfile::tempdir().unwrap();
        let bind = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut command = command(dir.path(), config, bind);
        command.args(["--allow-origin", origin]);
        Stage::of(command, dir)
    }

    /// Starts it by a shell that runs `limits` first, with a configuration to which no addresses are added.
    pub fn start_limited(config: &str, limits: &str) -> Stage {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config.yaml");
        std::fs::write(&file, config).unwrap();
        let mut command = Command::new("sh");
        let script = format!("{limits}; exec \"$0\" serve --bind 127.0.0.1:0 --config \"$1\"");
        command
            .args(["-c", &script, env!("CARGO_BIN_EXE_crawlspace")])
            .arg(&file);
        Stage::of(command, dir)
    }

    fn of(command: Command, dir: TempDir) -> Stage {
        let mut program = Program::start(command);
        let address = until_some("the server listens", || {
            if let Some(ended) = program.ended() {
                panic!("the server does not start: {}", ended.errors);
            }
            let said = program.out();
            let (_, rest) = said.split_once("http://127.0.0.1:")?;
            let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
            // The whole of the number is there when something follows it.
            (rest.len() > digits.len())
                .then(|| digits.parse().ok())?
                .map(|port: u16| SocketAddr::from(([127, 0, 0, 1], port)))
        });
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

/// The command with its configuration in that folder.
fn command(folder: &Path, config: &str, bind: SocketAddr) -> Command {
    let file = folder.join("config.yaml");
    std::fs::write(&file, format!("allow_private: [127.0.0.0/8]\n{config}")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_crawlspace"));
    command
        .args(["serve", "--bind", &bind.to_string(), "--config"])
        .arg(&file);
    command
}
