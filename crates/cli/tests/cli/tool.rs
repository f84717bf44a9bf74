//! The program under test.

use std::path::Path;
use std::process::Command;

use redis_tests::arguments;

/// Path of the program.
pub const TOOL: &str = env!("CARGO_BIN_EXE_crawlspace");

/// Error of a command whose standard output is on a full disk.
pub const FULL_OUTPUT: &str = "cannot write to standard output: No space left on device (os error 28); the output is \
                               incomplete: discard it, and try again";

/// Returns a command that runs `crawlspace` with the words of a line, in an environment without settings.
pub fn tool(line: impl AsRef<str>) -> Command {
    let mut tool = Command::new(TOOL);
    tool.args(arguments(line));
    without_settings(&mut tool);
    tool
}

/// Returns a command that runs a script by `sh -euc` in a folder, with `crawlspace` in PATH, in an
/// environment without settings.
pub fn script(script: &str, folder: &Path) -> Command {
    let path = std::env::var("PATH").unwrap_or_default();
    let tool = Path::new(TOOL).parent().expect("it lies in a folder");
    let mut shell = Command::new("sh");
    shell.args(["-euc", script]).current_dir(folder);
    shell.env("PATH", format!("{}:{path}", tool.display()));
    without_settings(&mut shell);
    shell
}

/// Returns a command that runs `crawlspace` with the words of a line, and cannot write more than 4 KiB to a file: a
/// longer file fails like a file on a full disk.
pub fn limited(line: impl AsRef<str>, folder: &Path) -> Command {
    let run = format!(
        "trap '' XFSZ; ulimit -f 8; exec crawlspace {}",
        line.as_ref()
    );
    script(&run, folder)
}

fn without_settings(command: &mut Command) {
    for name in ["REDIS", "PREFIX", "CACHE_DIR"] {
        command.env_remove(format!("CRAWLSPACE_{name}"));
    }
    for name in [
        "ACCESS_KEY_ID",
        "SECRET_ACCESS_KEY",
        "SESSION_TOKEN",
        "REGION",
        "ENDPOINT_URL",
    ] {
        command.env_remove(format!("AWS_{name}"));
    }
}
