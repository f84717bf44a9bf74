//! A program under test.

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

/// A program in the background, with what it prints in files. Dropping it kills it; what it complained about is
/// printed if the test is failing.
pub struct Program {
    child: Child,
    dir: TempDir,
    peak: u64,
    ended: Option<Ended>,
}

/// The end of a program.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Its exit status.
    pub status: ExitStatus,
    /// Its standard output.
    pub out: String,
    /// Its standard error.
    pub errors: String,
    /// Peak memory in bytes, as last sampled before it ended.
    pub peak: u64,
    /// Processor time that it used.
    pub cpu: Duration,
}

impl Program {
    /// Starts it.
    ///
    /// # Panics
    /// When it cannot be started.
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

    /// Waits until it says on standard output where it serves, `http://127.0.0.1:1234/`, and gives the address.
    ///
    /// # Panics
    /// When it ends before that, or says nothing within a minute.
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

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal, such as `libc::SIGSTOP`, unless it has ended.
    pub fn signal(&mut self, signal: i32) {
        if self.ended().is_none() {
            // SAFETY: the process is a child that nobody has waited for, so its id is still its own.
            unsafe { libc::kill(self.pid() as libc::pid_t, signal) };
        }
    }

    /// Kills it, as a machine that loses power would, and waits for its end.
    pub fn kill9(mut self) -> Ended {
        self.signal(libc::SIGKILL);
        self.end()
    }

    /// Interrupts it as Ctrl-C does.
    pub fn interrupt(&mut self) {
        self.signal(libc::SIGINT);
    }

    /// Stops it where it is, until [`Program::go_on`].
    pub fn pause(&mut self) {
        self.signal(libc::SIGSTOP);
    }

    /// Lets it go on.
    pub fn go_on(&mut self) {
        self.signal(libc::SIGCONT);
    }

    /// Returns the end of the program, if it has ended.
    pub fn ended(&mut self) -> Option<&Ended> {
        if self.ended.is_none() {
            // Sampled while it runs: afterwards the kernel includes the memory of the parent.
            self.peak = self
                .peak
                .max(memory_field(self.pid(), "VmHWM").unwrap_or(0));
            let (mut status, mut usage) = (0, MaybeUninit::zeroed());
            let pid = self.pid() as libc::pid_t;
            // SAFETY: both pointers are to live values of the right types.
            let waited =
                unsafe { libc::wait4(pid, &mut status, libc::WNOHANG, usage.as_mut_ptr()) };
            if waited == pid {
                // SAFETY: wait4 has filled it in, and zeros would be a value, too.
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

    /// Waits for its end.
    ///
    /// # Panics
    /// When it does not end within a minute.
    #[track_caller]
    pub fn end(mut self) -> Ended {
        until_some("the program ends", || self.ended().cloned())
    }

    /// Waits for its end, however long it takes.
    pub fn end_at_last(mut self) -> Ended {
        loop {
            if let Some(ended) = self.ended() {
                return ended.clone();
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// The bytes that a process has in memory now.
///
/// # Panics
/// When there is no such process.
pub fn memory_of(pid: u32) -> u64 {
    memory_field(pid, "VmRSS").expect("the process is there")
}

/// The most bytes that a process had in memory at a time.
///
/// # Panics
/// When there is no such process.
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
/// When there is no such process.
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
    fn what_a_program_printed_and_how_it_ended_is_known() {
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
        // Not that of this process, which may have had any.
        assert!(
            (100 << 10..20 << 20).contains(&ended.peak),
            "{}",
            ended.peak
        );
    }
}
