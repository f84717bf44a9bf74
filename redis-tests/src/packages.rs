//! Clients in other languages, from the package registries of those languages.
//!
//! Each is put into a folder that is kept from run to run, so that it is fetched once. A test that uses one says
//! so and leaves its program out where that cannot be done ([`left_out`]).

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A Python interpreter with these packages, in a virtual environment in the folder.
///
/// # Errors
/// The reason in words, when there is no Python or the packages cannot be fetched.
///
/// # Panics
/// When the folder cannot be made.
pub fn python(folder: &Path, packages: &[&str]) -> Result<PathBuf, String> {
    std::fs::create_dir_all(folder).expect("the folder can be made");
    let python = folder.join("bin").join("python");
    // All that was asked for is there when the last step was done.
    let complete = folder.join("complete");
    let wanted = packages.join(" ");
    let works = || run(Command::new(&python).args(["-c", ""])).is_ok();
    if std::fs::read_to_string(&complete).is_ok_and(|there| there == wanted) && works() {
        return Ok(python);
    }
    let mut venv = Command::new("python3");
    run(venv
        .args(["-m", "venv", "--clear", "."])
        .current_dir(folder))?;
    run(Command::new(&python)
        .args(["-m", "pip", "install", "--quiet"])
        .args(packages))?;
    std::fs::write(&complete, wanted).expect("the folder is writable");
    Ok(python)
}

/// Packages for Node.js, in the folder, where programs that lie in it find them.
///
/// # Errors
/// The reason in words, when there is no Node.js or the packages cannot be fetched.
///
/// # Panics
/// When the folder cannot be made.
pub fn node(folder: &Path, packages: &[&str]) -> Result<(), String> {
    std::fs::create_dir_all(folder).expect("the folder can be made");
    run(Command::new("node").arg("--version"))?;
    let complete = folder.join("complete");
    let wanted = packages.join(" ");
    if std::fs::read_to_string(&complete).is_ok_and(|there| there == wanted) {
        return Ok(());
    }
    let quietly = ["--silent", "--no-audit", "--no-fund", "--prefix", "."];
    run(Command::new("npm")
        .arg("install")
        .args(quietly)
        .args(packages)
        .current_dir(folder))?;
    std::fs::write(&complete, wanted).expect("the folder is writable");
    Ok(())
}

/// Says so past the test runner, which keeps what a passing test prints to itself.
///
/// # Panics
/// When standard error is closed.
pub fn left_out(client: &str, reason: &str) {
    let told = writeln!(
        std::io::stderr(),
        "{client}: left out, because it cannot be installed: {reason}"
    );
    told.expect("standard error is open");
}

/// Runs a command to its end.
///
/// # Errors
/// The reason in words, with what it printed, when it does not start or does not succeed.
pub fn run(command: &mut Command) -> Result<(), String> {
    match command.stdin(Stdio::null()).output() {
        Ok(Output { status, .. }) if status.success() => Ok(()),
        Ok(Output {
            status,
            stdout,
            stderr,
        }) => Err(format!(
            "{status}\n{}{}",
            String::from_utf8_lossy(&stdout),
            String::from_utf8_lossy(&stderr)
        )),
        Err(error) => Err(format!(
            "{}: {error}",
            command.get_program().to_string_lossy()
        )),
    }
}
