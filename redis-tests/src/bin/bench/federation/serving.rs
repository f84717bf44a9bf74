//! Runs `crawlspace serve` and the peer.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use redis_tests::pywb::{App, Pywb, Running};
use redis_tests::{Program, until_some};

use crate::machine::{cpu_seconds, resident};
use crate::{root, tool};

/// Number of workers of the peer.
const WORKERS: usize = 2;

/// A running `crawlspace serve` in release build.
pub struct Ours {
    program: Program,
    address: SocketAddr,
}

impl Ours {
    /// Starts the server with this configuration in this folder.
    ///
    /// # Panics
    /// Panics if the server does not start.
    pub fn start(folder: &Path, config: &str) -> Ours {
        let file = folder.join("ours.yaml");
        let config = format!("allow_private: [127.0.0.0/8]\n{config}");
        std::fs::write(&file, config).expect("the folder is writable");
        let mut command = Command::new(tool());
        command
            .args(["serve", "--bind", "127.0.0.1:0", "--config"])
            .arg(&file);
        let mut program = Program::start(command);
        let address = until_some("the server listens", || {
            let ended = program.ended().map(|ended| ended.errors.clone());
            assert_eq!(ended, None, "the server ended");
            let said = program.out();
            let address = said.strip_prefix("http://")?.strip_suffix("/\n")?;
            address.parse().ok()
        });
        Ours { program, address }
    }

    /// Returns the address on which the server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the CPU time used so far, in seconds.
    pub fn cpu(&self) -> f64 {
        cpu_seconds(self.program.pid())
    }

    /// Returns the resident memory in bytes.
    pub fn resident(&self) -> u64 {
        resident(self.program.pid())
    }

    /// Returns the number of open files and sockets.
    pub fn open_files(&self) -> usize {
        let folder = format!("/proc/{}/fd", self.program.pid());
        std::fs::read_dir(folder).map_or(0, Iterator::count)
    }
}

/// An installed pywb, started in the same way as its users start it.
pub struct Peer(Pywb);

impl Peer {
    /// Installs pywb. Returns `None` if pywb cannot be installed.
    pub fn install() -> Option<Peer> {
        let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
        let folder = root().join(target).join("tmp/pywb");
        match Pywb::install(&folder) {
            Ok(pywb) => Some(Peer(pywb)),
            Err(reason) => {
                redis_tests::packages::left_out("pywb", &reason);
                None
            }
        }
    }

    /// Starts pywb with this configuration.
    pub fn start(&self, config: &str) -> Running {
        self.0.start(App::WarcServer, config, WORKERS)
    }
}
