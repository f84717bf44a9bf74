//! Counts the instructions that a server executes, with callgrind.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use redis_tests::{Options, Server};
use tempfile::TempDir;

use crate::Plan;
use crate::load::{Batches, Client, Pieces};
use crate::series::{Series, grouped};

/// Time limit for the start of a server under callgrind and for each reply.
const TIMEOUT: std::time::Duration = std::time::Duration::from_secs(300);

/// Number of requests of a run of [`Callgrind::lowest`], and number of runs. A run takes a small part of
/// the second after which the server's timer is due. In a run of this size, the timer takes a thousand
/// instructions per request.
pub const RUN: usize = 512;
pub const RUNS: usize = 3;

/// Returns the number of requests of a measurement.
pub fn requests(plan: &Plan) -> u64 {
    if plan.quick { 1_000 } else { 2_000 }
}

/// Formats a number of instructions.
pub fn shown(instructions: f64) -> String {
    grouped(instructions.round() as u64)
}

/// A server that runs under callgrind.
pub struct Callgrind {
    /// The server.
    pub server: Server,
    /// Number of requests of a measurement.
    pub requests: u64,
    /// Folder of the dumps.
    folder: TempDir,
}

impl Callgrind {
    /// Starts a server with these options.
    pub fn start(plan: &Plan, options: Options) -> Callgrind {
        // Under callgrind, the server's timer would add a thousand instructions to each request.
        let options = options.args(&["--hz", "1"]);
        let folder = tempfile::tempdir().expect("a temporary directory");
        let out = folder.path().join("dump");
        let out = format!("--callgrind-out-file={}", out.display());
        // The program of the server may be a script.
        let valgrind = [
            "valgrind",
            "--tool=callgrind",
            "--trace-children=yes",
            "--quiet",
            &out,
        ];
        let server = options.under(&valgrind).timeout(TIMEOUT).start();
        Callgrind {
            server,
            requests: requests(plan),
            folder,
        }
    }

    /// Returns the number of instructions of each request of these batches. Sends one batch after
    /// the other, and passes each reply to `see`.
    ///
    /// Returns the lowest figure of [`RUNS`] runs, so that it does not include the server's timer.
    pub fn lowest(&self, batches: &Batches, mut see: impl FnMut(Pieces)) -> f64 {
        let mut client = Client::unix(&self.server);
        let (count, depth) = (batches.len() as u64, batches.depth);
        let mut send = |n: u64| client.pipeline(batches.batch(n as usize), depth, &mut see);
        // The first requests also do work that the server has postponed.
        (0..count).for_each(&mut send);
        let runs = (0..RUNS).map(|_| self.each(count, &mut send));
        runs.collect::<Series>().low() / depth as f64
    }

    /// Returns the number of instructions of a `PING`.
    pub fn ping(&self) -> f64 {
        let mut client = Client::unix(&self.server);
        self.each(self.requests, |_| {
            client.line("PING");
        })
    }

    /// Returns the number of instructions that the server executes for each of `requests` requests.
    /// `request` sends one request and gets its number.
    ///
    /// # Panics
    /// Panics if callgrind writes no dump.
    pub fn each(&self, requests: u64, request: impl FnMut(u64)) -> f64 {
        self.control("--zero");
        (0..requests).for_each(request);
        self.control("--dump");
        let dumps = fs::read_dir(self.folder.path()).expect("the folder of the dumps");
        let dumps: Vec<PathBuf> = dumps.flatten().map(|dump| dump.path()).collect();
        let counts: Vec<u64> = dumps
            .iter()
            .filter_map(|dump| total(&String::from_utf8_lossy(&fs::read(dump).ok()?)))
            .collect();
        for dump in dumps {
            fs::remove_file(dump).expect("a dump can be removed");
        }
        let [count] = counts[..] else {
            panic!("callgrind wrote one dump, not {}", counts.len());
        };
        count as f64 / requests as f64
    }

    fn control(&self, action: &str) {
        let pid = self.server.pid().to_string();
        let done = Command::new("callgrind_control")
            .args([action, &pid])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        let done = done.expect("callgrind_control is installed with valgrind");
        assert!(done.success(), "callgrind_control {action} failed: {done}");
    }
}

/// Returns the number of instructions in a dump.
fn total(dump: &str) -> Option<u64> {
    let line = dump.lines().rev().find_map(|line| {
        let total = line.strip_prefix("totals: ");
        total.or_else(|| line.strip_prefix("summary: "))
    });
    line?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::total;

    #[test]
    fn a_dump_ends_with_its_total() {
        let dump = "events: Ir\nsummary: 12\n\nfn=(1) main\n0 12\n\ntotals: 12\n";
        assert_eq!(total(dump), Some(12));
        assert_eq!(total("events: Ir\n"), None);
    }
}
