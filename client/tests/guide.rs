//! The programs in docs/guide run as they stand there, with the real clients of their languages. All blocks
//! of a language in one guide are one program.
//!
//! The clients come from the package registries of their languages. Where those cannot be reached, or the
//! language is not installed, the test says so and leaves its program out.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use redis_tests::{Reply, Server};

/// The guides with programs in Python, by the names of their files.
const PYTHON: [&str; 3] = ["dedupe", "frontier", "tags"];
/// Those with programs in JavaScript.
const JAVASCRIPT: [&str; 2] = ["dedupe", "frontier"];

#[test]
fn the_python_programs_run_with_redis_py() {
    let folder = workplace("guide-python");
    let python = folder.join("bin").join("python");
    let install = || {
        run(Command::new("python3")
            .args(["-m", "venv", "."])
            .current_dir(&folder))?;
        run(Command::new(&python).args(["-m", "pip", "install", "--quiet", "redis"]))
    };
    if !python.exists() || run(Command::new(&python).args(["-c", "import redis"])).is_err() {
        if let Err(reason) = install() {
            left_out("redis-py", &reason);
            return;
        }
    }
    for guide in PYTHON {
        must_run(
            Command::new(&python),
            &folder,
            &format!("{guide}.py"),
            &program(guide, "python"),
        );
    }
}

#[test]
fn the_javascript_programs_run_with_ioredis() {
    let folder = workplace("guide-node");
    if !folder.join("node_modules").join("ioredis").exists() {
        let install = [
            "install",
            "--silent",
            "--no-audit",
            "--no-fund",
            "--prefix",
            ".",
            "ioredis",
        ];
        if let Err(reason) = run(Command::new("npm").args(install).current_dir(&folder)) {
            left_out("ioredis", &reason);
            return;
        }
    }
    for guide in JAVASCRIPT {
        must_run(
            Command::new("node"),
            &folder,
            &format!("{guide}.js"),
            &program(guide, "js"),
        );
    }
}

/// Says so past the test runner, which keeps what a passing test prints to itself.
fn left_out(client: &str, reason: &str) {
    let told = writeln!(
        std::io::stderr(),
        "{client}: left out, because it cannot be installed: {reason}"
    );
    told.expect("standard error is open");
}

/// A folder that is kept from run to run, so that a client is fetched once.
fn workplace(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// All fenced blocks of a language in a guide, one after the other.
fn program(guide: &str, language: &str) -> String {
    let path = format!("../docs/guide/{guide}.md");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    let text = std::fs::read_to_string(path).unwrap();
    let fence = format!("```{language}");
    let mut program = String::new();
    let mut inside = false;
    for line in text.lines() {
        if inside && line == "```" {
            inside = false;
        } else if inside {
            program.push_str(line);
            program.push('\n');
        } else {
            inside = line == fence;
        }
    }
    assert!(
        program.contains("execute_command(") || program.contains("redis.call("),
        "the guide {guide} has no program in {language}"
    );
    program
}

/// Runs the program against a server of its own.
fn must_run(mut interpreter: Command, folder: &Path, name: &str, program: &str) {
    std::fs::write(folder.join(name), program).unwrap();
    let server = Server::start();
    let command = interpreter
        .arg(name)
        .current_dir(folder)
        .env("PORT", server.port().to_string());
    if let Err(reason) = run(command) {
        panic!("{name} in {}: {reason}", folder.display());
    }
    // It did something, and to this server.
    assert_ne!(server.wire().expect_ok(&["DBSIZE"]), Reply::Int(0));
}

/// Runs a command to its end; otherwise the reason in words.
fn run(command: &mut Command) -> Result<(), String> {
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
