//! A test in a process of its own.

use std::process::{Command, Stdio};

/// Set in a process that is there for one test.
const ALONE: &str = "CRAWLSPACE_TESTS_ALONE";

/// Runs `work` in a process where no other test takes memory or time: this program once more, with the test `name`
/// (`module::function`) alone. What it says on standard error is seen at once.
///
/// # Panics
/// When the test fails there, or is not found.
pub fn alone(name: &str, work: impl FnOnce()) {
    alone_with(name, |_| (), work);
}

/// Runs `work` as [`alone`] does, in a process whose environment is set before.
///
/// # Panics
/// When the test fails there, or is not found.
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
