//! Helpers of both parts of the demo: headings, and commands shown as a user would type them.

use std::error::Error;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Result of a step of the demo.
pub type Outcome<T> = Result<T, Box<dyn Error>>;

/// Prints the heading of a step.
pub fn step(n: u32, what: &str) {
    if std::io::stdout().is_terminal() {
        println!("\n\x1b[1m{n}. {what}\x1b[0m");
    } else {
        println!("\n{n}. {what}");
    }
}

/// Returns the path of the `crawlspace` binary of the same build.
pub fn crawlspace_tool() -> Outcome<PathBuf> {
    let demo = std::env::current_exe()?;
    let tool = demo.ancestors().nth(2).ok_or("no target folder")?;
    let tool = tool.join("crawlspace");
    if !tool.exists() {
        let build = "cargo build --package crawlspace-cli";
        return Err(format!("{} does not exist: run {build}", tool.display()).into());
    }
    Ok(tool)
}

/// Runs commands in the demo's folder, and prints them as a user would type them.
pub struct Shell {
    /// Folder of the demo.
    pub folder: PathBuf,
}

impl Shell {
    /// Creates a shell for this folder.
    pub fn in_folder(folder: &tempfile::TempDir) -> Shell {
        let folder = folder.path().to_owned();
        Shell { folder }
    }

    /// Prints a command and its output.
    pub fn show(&self, command: &str) -> Outcome<String> {
        println!("  $ {command}");
        let output = self.quiet(command)?;
        indent(&output);
        Ok(output)
    }

    /// Runs a shell command and returns its output.
    pub fn quiet(&self, command: &str) -> Outcome<String> {
        let output = Command::new("sh")
            .args(["-c", command])
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()?;
        if !output.status.success() {
            return Err(format!("{command}: {}", output.status).into());
        }
        Ok(String::from_utf8_lossy(&output.stdout)
            .trim_end()
            .to_owned())
    }
}

/// Prints the output of a command, indented.
pub fn indent(text: &str) {
    for line in text.lines() {
        println!("    {line}");
    }
}
