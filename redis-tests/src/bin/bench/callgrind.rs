//! Counts the instructions that a server executes, with callgrind.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use redis_tests::{Options, Server};
use tempfile::TempDir;

/// Time limit for the start of a server under callgrind and for each reply.
const TIMEOUT: std::time::Duration = std::time::Duration::from_secs(300);

/// A server that runs under callgrind.
pub struct Callgrind {
    /// The server.
    pub server: Server,
    /// Folder of the dumps.
    folder: TempDir,
}

impl Callgrind {
    /// Starts a server with these options.
    pub fn start(options: Options) -> Callgrind {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let out = folder.path().join("dump");
        let out = format!("--callgrind-out-file={}", out.display());
        let valgrind = ["valgrind", "--tool=callgrind", "--quiet", &out];
        let server = options.under(&valgrind).timeout(TIMEOUT).start();
        Callgrind { server, folder }
    }

    /// Returns the number of instructions that the server executes for each of `requests` requests,
    /// which `work` must send.
    ///
    /// # Panics
    /// Panics if callgrind writes no dump.
    pub fn each(&self, requests: u64, work: impl FnOnce()) -> f64 {
        self.control("--zero");
        work();
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
