//! The peer: a Java program with the methods of archives without tags.

use std::process::{Command, Stdio};

use tempfile::TempDir;

use super::corpus::{Archive, Capture};
use crate::series::Series;

const SOURCE: &str = include_str!("Peer.java");

/// The compiled program, with the captures and collections for it.
pub struct Peer {
    folder: TempDir,
    /// Version of the JDK, such as `17.0.9`.
    pub version: String,
}

/// The results of a run.
pub struct Outcome {
    /// Nanoseconds to build the filter.
    pub build: f64,
    /// Nanoseconds per capture: the median of the rounds.
    pub each: f64,
    /// One bit per capture, set if the capture passes. The first capture is the highest bit of the
    /// first byte.
    pub kept: Vec<u8>,
}

impl Peer {
    /// Compiles the program. Returns `None` if there is no JDK.
    ///
    /// # Panics
    /// Panics if the JDK cannot compile the program.
    pub fn compile(archive: &Archive, captures: u64) -> Option<Peer> {
        let version = Command::new("javac").arg("-version").output().ok()?;
        let version = String::from_utf8_lossy(&version.stdout);
        let folder = TempDir::new().expect("a temporary directory");
        let write = |name: &str, bytes: &[u8]| {
            std::fs::write(folder.path().join(name), bytes).expect("the folder is writable");
        };
        write("Peer.java", SOURCE.as_bytes());
        write("lines", &archive.blob(captures, Capture::cdx));
        let collections = archive.collections.iter();
        let collections =
            collections.map(|c| format!("{} {} {}\n", c.id, c.organisation, u8::from(c.private)));
        write("collections", collections.collect::<String>().as_bytes());
        let compiled = Command::new("javac")
            .args(["-d", ".", "Peer.java"])
            .current_dir(folder.path())
            .status();
        assert!(compiled.is_ok_and(|s| s.success()), "javac takes Peer.java");
        Some(Peer {
            version: version.trim().replace("javac ", ""),
            folder,
        })
    }

    /// Runs one method: a warm-up, then this number of measured rounds.
    ///
    /// # Panics
    /// Panics if the program fails.
    pub fn run(&self, method: &str, rounds: usize) -> Outcome {
        let output = Command::new("java")
            .args(["Peer", "lines", "collections", method, &rounds.to_string()])
            .current_dir(self.folder.path())
            .stderr(Stdio::inherit())
            .output()
            .expect("java runs");
        let status = output.status;
        assert!(status.success(), "java Peer {method}: {status}");
        let text = String::from_utf8_lossy(&output.stdout);
        let mut lines = text.lines();
        let mut numbers = || {
            let numbers = lines.next().unwrap_or_default().split_whitespace();
            numbers
                .map(|n| n.parse().expect("a number"))
                .collect::<Series>()
        };
        let (build, each) = (numbers().median(), numbers().median());
        let digits = lines.next().unwrap_or_default().as_bytes();
        let value = |digit: u8| char::from(digit).to_digit(16).expect("a hexadecimal digit") as u8;
        let byte = |pair: &[u8]| value(pair[0]) << 4 | pair.get(1).map_or(0, |&d| value(d));
        Outcome {
            build,
            each,
            kept: digits.chunks(2).map(byte).collect(),
        }
    }
}
