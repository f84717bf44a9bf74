//! Runs a test in a separate process.

use std::process::{Command, Stdio};

/// Environment variable that is set in a process started for one test.
const ALONE: &str = "CRAWLSPACE_TESTS_ALONE";

/// Runs `work` in a process where no other test takes memory or time. The process is this test
/// program, started again with only the test `name` (`module::function`). The standard error of the
/// process is shown immediately.
///
/// # Panics
/// Panics if the test fails in that process, or is not found.
pub fn alone(name: &str, work: impl FnOnce()) {
    alone_with(name, |_| (), work);
}

/// Runs `work` like [`alone`], in a process whose command is first adjusted by `set` (for example
/// its environment).
///
/// # Panics
/// Panics if the test fails in that process, or is not found.
pub fn alone_with(name: &str, set: impl FnOnce(&mut Command), work: impl FnOnce()) {
    if std::env::var_os(ALONE).is_some() {
        return work();
    }
    let program = std::env::current_exe().expect("this program");
    let listed = Command::new(&program)
        .args(["--exact", name, "--list"])
        .output()
        .expect("this program starts");
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(
        listed.contains(&format!("{name}: test")),
        "no test {name}: {listed}"
    );
    let mut command = Command::new(program);
    command
        .args(["--exact", name, "--nocapture"])
        .env(ALONE, "1")
        .stdout(Stdio::null());
    set(&mut command);
    let status = command.status().expect("this program starts");
    assert!(status.success(), "{name}");
}
