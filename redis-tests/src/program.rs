//! A program under test that runs in the background.

use std::fs::File;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::server::die_with_parent;
use crate::wait::until_some;

/// A program in the background, whose output is written to files. Dropping this value kills the
/// program and, if the test is failing, prints the program's standard error.
pub struct Program {
    child: Child,
    dir: TempDir,
    peak: u64,
    ended: Option<Ended>,
}

/// The result of a program that has ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Exit status.
    pub status: ExitStatus,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub errors: String,
    /// Peak memory in bytes, as of the last sample before the program exited.
    pub peak: u64,
    /// CPU time used.
    pub cpu: Duration,
}

impl Program {
    /// Starts a program.
    ///
    /// # Panics
    /// Panics if the program cannot be started.
    pub fn start(mut command: Command) -> Program {
        let dir = tempfile::Builder::new()
            .prefix("crawlspace-")
            .tempdir()
            .expect("a temporary directory");
        let file = |name: &str| File::create(dir.path().join(name)).expect("a file");
        command
            .stdin(Stdio::null())
            .stdout(file("out"))
            .stderr(file("errors"));
        die_with_parent(&mut command);
        let program = command.get_program().to_string_lossy().into_owned();
        let child = command.spawn();
        let child = child.unwrap_or_else(|e| panic!("{program} does not start: {e}"));
        Program {
            child,
            dir,
            peak: 0,
            ended: None,
        }
    }

    fn read(&self, name: &str) -> String {
        let path: PathBuf = self.dir.path().join(name);
        let bytes = std::fs::read(path).expect("the file is there");
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Returns the standard output so far.
    pub fn out(&self) -> String {
        self.read("out")
    }

    /// Returns the standard error so far.
    pub fn errors(&self) -> String {
        self.read("errors")
    }

    /// Waits until the program prints its URL, `http://127.0.0.1:1234/`, on standard output, and
    /// returns the address.
    ///
    /// # Panics
    /// Panics if the program exits before that, or prints nothing within a minute.
    #[track_caller]
    pub fn address(&mut self) -> SocketAddr {
        until_some("the server listens", || {
            assert!(
                self.ended().is_none(),
                "it does not start: {}",
                self.errors()
            );
            let said = self.out();
            let (_, rest) = said.split_once("http://")?;
            rest.split_once('/')?.0.parse().ok()
        })
    }

    /// Returns the process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal, such as `libc::SIGSTOP`, unless the program has ended.
    pub fn signal(&mut self, signal: i32) {
        if self.ended().is_none() {
            // SAFETY: the process is a child that is not reaped yet, so the id still belongs to
            // this process.
            unsafe { libc::kill(self.pid() as libc::pid_t, signal) };
        }
    }

    /// Kills the program with SIGKILL, which is similar to a power failure, and waits for its end.
    pub fn kill9(mut self) -> Ended {
        self.signal(libc::SIGKILL);
        self.end()
    }

    /// Interrupts the program like Ctrl-C.
    pub fn interrupt(&mut self) {
        self.signal(libc::SIGINT);
    }

    /// Stops the program until [`Program::go_on`].
    pub fn pause(&mut self) {
        self.signal(libc::SIGSTOP);
    }

    /// Resumes the program.
    pub fn go_on(&mut self) {
        self.signal(libc::SIGCONT);
    }

    /// Returns the result of the program, if it has ended.
    pub fn ended(&mut self) -> Option<&Ended> {
        if self.ended.is_none() {
            // Sample the memory while the program runs. Afterwards, the kernel includes the memory
            // of the parent process.
            self.peak = self
                .peak
                .max(memory_field(self.pid(), "VmHWM").unwrap_or(0));
            let (mut status, mut usage) = (0, MaybeUninit::zeroed());
            let pid = self.pid() as libc::pid_t;
            // SAFETY: both pointers point to live values of the right types.
            let waited =
                unsafe { libc::wait4(pid, &mut status, libc::WNOHANG, usage.as_mut_ptr()) };
            if waited == pid {
                // SAFETY: `wait4` has initialized the value, and a value of zeros would also be
                // valid.
                let usage: libc::rusage = unsafe { usage.assume_init() };
                let seconds = |time: libc::timeval| {
                    Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000)
                };
                self.ended = Some(Ended {
                    status: ExitStatus::from_raw(status),
                    out: self.out(),
                    errors: self.errors(),
                    peak: self.peak,
                    cpu: seconds(usage.ru_utime) + seconds(usage.ru_stime),
                });
            }
        }
        self.ended.as_ref()
    }

    /// Waits for the end of the program.
    ///
    /// # Panics
    /// Panics if the program does not end within a minute.
    #[track_caller]
    pub fn end(mut self) -> Ended {
        until_some("the program ends", || self.ended().cloned())
    }

    /// Waits for the end of the program without a time limit.
    pub fn end_at_last(mut self) -> Ended {
        loop {
            if let Some(ended) = self.ended() {
                return ended.clone();
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Returns the resident memory of a process in bytes.
///
/// # Panics
/// Panics if there is no such process.
pub fn memory_of(pid: u32) -> u64 {
    memory_field(pid, "VmRSS").expect("the process is there")
}

/// Returns the peak resident memory of a process in bytes.
///
/// # Panics
/// Panics if there is no such process.
pub fn peak_memory_of(pid: u32) -> u64 {
    memory_field(pid, "VmHWM").expect("the process is there")
}

fn memory_field(pid: u32, field: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kib: u64 = line
        .strip_prefix(':')?
        .trim()
        .strip_suffix(" kB")?
        .parse()
        .ok()?;
    Some(kib << 10)
}

/// Returns the number of files, sockets and pipes that a process has open.
///
/// # Panics
/// Panics if there is no such process.
pub fn open_files_of(pid: u32) -> usize {
    let files = std::fs::read_dir(format!("/proc/{pid}/fd"));
    files.expect("the process is there").count()
}

impl Drop for Program {
    fn drop(&mut self) {
        if self.ended().is_none() {
            self.signal(libc::SIGKILL);
            let _ = self.child.wait();
        }
        if std::thread::panicking() {
            let errors = self.errors();
            let last: Vec<&str> = errors.lines().rev().take(40).collect();
            let last: Vec<&str> = last.into_iter().rev().collect();
            eprintln!("--- {} ---\n{}\n---", self.pid(), last.join("\n"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait::until;

    fn shell(script: &str) -> Program {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Program::start(command)
    }

    #[test]
    fn output_and_status_of_a_program_are_captured() {
        let ended = shell("echo one; echo two >&2; exit 3").end();
        assert_eq!(ended.status.code(), Some(3));
        assert_eq!((&ended.out[..], &ended.errors[..]), ("one\n", "two\n"));
    }

    #[test]
    fn a_program_can_be_stopped_and_killed() {
        let mut program = shell("echo one; while :; do :; done");
        until("it runs", || program.out() == "one\n");
        program.pause();
        program.go_on();
        assert!(program.ended().is_none());
        let ended = program.kill9();
        assert_eq!(ended.status.signal(), Some(libc::SIGKILL));
        // The result must be the peak of the program, not the peak of this test process, which may
        // be larger.
        assert!(
            (100 << 10..20 << 20).contains(&ended.peak),
            "{}",
            ended.peak
        );
    }
}
