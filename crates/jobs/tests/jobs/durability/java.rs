//! Tests locking against a process that locks like NetarchiveSuite.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use crawlspace_jobs::{Error, Figures, FileBasedCache, Form, JobId, Work};
use redis_tests::packages::left_out;

use crate::stage::folder;

const SOURCE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/jobs/durability/Locks.java"
);

/// A Java program that locks files on command.
struct Java(Child);

impl Java {
    fn start() -> Result<Java, String> {
        let mut command = Command::new("java");
        command
            .args(["-XX:TieredStopAtLevel=1", "-Xshare:auto", SOURCE])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let child = command.spawn().map_err(|error| error.to_string())?;
        let mut java = Java(child);
        match java.answer() {
            Some(ready) if ready == "ready" => Ok(java),
            other => Err(format!("a JDK is needed; it said {other:?}")),
        }
    }

    /// Sends a command about a file, and returns the reply.
    fn tell(&mut self, what: &str, path: &Path) -> String {
        let stdin = self.0.stdin.as_mut().expect("a pipe");
        writeln!(stdin, "{what} {}", path.display()).expect("it listens");
        self.answer().expect("an answer")
    }

    fn answer(&mut self) -> Option<String> {
        let mut line = String::new();
        // The program writes only in reply to commands, so dropping the buffer loses nothing.
        let out = self.0.stdout.as_mut()?;
        BufReader::new(out).read_line(&mut line).ok()?;
        Some(line.trim_end().to_owned()).filter(|line| !line.is_empty())
    }
}

impl Drop for Java {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn java_process_and_builder_respect_each_others_locks() {
    let mut java = match Java::start() {
        Ok(java) => java,
        Err(why) => return left_out("Java", &why),
    };
    let root = folder();
    let figures = Arc::<Figures>::default();
    let open = |wait| {
        let cache = FileBasedCache::<JobId>::open(root.path(), "numbers", Form::File);
        let cache = cache.expect("a cache").waiting(wait);
        cache.counting(Arc::clone(&figures))
    };
    let cache = open(Duration::from_secs(600));
    let lock_file = |job| {
        let mut path = cache.path(&JobId(job)).into_os_string();
        path.push(".working");
        std::path::PathBuf::from(path)
    };
    let build = |cache: &FileBasedCache<JobId>, job: u64| {
        cache.cache(&JobId(job), &Work::default(), |draft| {
            let (path, mut file) = draft.create("number")?;
            writeln!(file, "{job}").map_err(Error::io(&path, "write"))
        })
    };

    // The Java program has the lock: without a wait, the error names the holder.
    assert_eq!(java.tell("lock", &lock_file(1)), "locked");
    let error = build(&open(Duration::from_millis(20)), 1).expect_err("busy");
    let text = error.to_string();
    let name = format!("process {}", java.0.id());
    assert!(matches!(error, Error::Busy { .. }), "{text}");
    assert!(text.contains(&name) && text.contains("1-cache"), "{text}");
    // While the Java program has the lock of one entry, other entries can be built.
    assert!(build(&cache, 2).is_ok());
    // A caller that waits longer gets the lock when it is free.
    let before = figures.counts().waits;
    thread::scope(|scope| {
        let waiting = scope.spawn(|| build(&cache, 1));
        redis_tests::until("a request waits for the lock", || {
            figures.counts().waits > before
        });
        assert!(!waiting.is_finished());
        assert_eq!(java.tell("unlock", &lock_file(1)), "unlocked");
        assert!(waiting.join().expect("a thread").is_ok());
    });

    // The test process has the lock, so the Java program does not get it.
    let (begun, over) = (Barrier::new(2), Barrier::new(2));
    thread::scope(|scope| {
        let building = scope.spawn(|| {
            cache.cache(&JobId(3), &Work::default(), |draft| {
                begun.wait();
                over.wait();
                draft.create("number").map(drop)
            })
        });
        begun.wait();
        assert_eq!(java.tell("try", &lock_file(3)), "null");
        over.wait();
        assert!(building.join().expect("a thread").is_ok());
    });
    assert_eq!(java.tell("try", &lock_file(3)), "locked");

    // The Java program dies while it holds the lock.
    assert_eq!(java.tell("lock", &lock_file(4)), "locked");
    drop(java);
    assert!(build(&open(Duration::ZERO), 4).is_ok());
}
