//! A server whose wall clock a test can change.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use crate::frontier::server_time;
use crate::server::{Options, Server};
use crate::wait::within;

/// Time limit for the server to notice a new time.
const SOON: Duration = Duration::from_secs(2);

/// A server whose wall clock a test can change.
pub struct Shifted {
    /// The server.
    pub server: Server,
    shift: File,
    _dir: TempDir,
}

impl Shifted {
    /// An hour in milliseconds.
    pub const HOUR: i64 = 3_600_000;

    /// Starts such a server. Prints the reason and returns `None` if the machine has no C compiler,
    /// or if the server's clock cannot be changed.
    pub fn start() -> Option<Shifted> {
        let dir = TempDir::new().expect("a temporary directory");
        let library = dir.path().join("clock.so");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/clock.c");
        let built = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .args([&library, &source])
            .arg("-ldl")
            .output();
        match built {
            Ok(done) => assert!(
                done.status.success(),
                "{}",
                String::from_utf8_lossy(&done.stderr)
            ),
            Err(e) => {
                eprintln!("skipped: no C compiler: {e}");
                return None;
            }
        }
        let path = dir.path().join("shift");
        std::fs::write(&path, 0i64.to_ne_bytes()).expect("the file can be written");
        let shift = OpenOptions::new()
            .write(true)
            .open(&path)
            .expect("the file exists");
        let server = Options::new()
            .env("LD_PRELOAD", &library.to_string_lossy())
            .env("CRAWLSPACE_CLOCK", &path.to_string_lossy())
            .start();
        let shifted = Shifted {
            server,
            shift,
            _dir: dir,
        };
        let mut c = shifted.server.wire();
        let before = server_time(&mut c);
        shifted.jump(Self::HOUR);
        // Some servers read the wall clock only once per millisecond.
        let passed = within(SOON, || {
            Some(server_time(&mut c) - before).filter(|&ms| ms >= Self::HOUR)
        });
        let Some(passed) = passed else {
            eprintln!("skipped: this server does not read the time through the C library");
            return None;
        };
        assert!(passed < Self::HOUR + 60_000, "{passed} ms");
        shifted.jump(0);
        let is_back = || (server_time(&mut c) - before < Self::HOUR).then_some(());
        within(SOON, is_back).expect("the clock is set back");
        Some(shifted)
    }

    /// Sets the clock this many milliseconds ahead of the true time, or behind it if the number is
    /// negative.
    pub fn jump(&self, ms: i64) {
        let us = (ms * 1000).to_ne_bytes();
        self.shift.write_all_at(&us, 0).expect("it can be written");
    }
}
