//! Runs the programs in docs/guide unchanged, with the real clients of their languages. All blocks of one
//! language in a guide are one program.
//!
//! The clients come from the package registries of their languages. If a registry is unreachable or a
//! language is not installed, the test prints a note and skips the program.

use std::path::{Path, PathBuf};
use std::process::Command;

use redis_tests::packages::{self, left_out, run};
use redis_tests::{Cluster, Reply, Server};

/// Guides with Python programs, by file name.
const PYTHON: [&str; 5] = ["clients", "dedupe", "frontier", "python", "tags"];
/// Guides with JavaScript programs.
const JAVASCRIPT: [&str; 3] = ["clients", "dedupe", "frontier"];
/// Guides whose programs also use a cluster.
const CLUSTER: [&str; 2] = ["clients", "python"];

#[test]
fn python_programs_run_with_redis_py_with_and_without_hiredis() {
    for (folder, packages) in [
        ("guide-python", &["redis"][..]),
        ("guide-hiredis", &["redis", "hiredis"]),
    ] {
        let folder = workplace(folder);
        match packages::python(&folder, packages) {
            Ok(python) => {
                for guide in PYTHON {
                    must_run(Command::new(&python), &folder, guide, "python", "py");
                }
            }
            Err(reason) => left_out(&packages.join(" with "), &reason),
        }
    }
}

#[test]
fn javascript_programs_run_with_ioredis() {
    let folder = workplace("guide-node");
    match packages::node(&folder, &["ioredis"]) {
        Ok(node) => {
            for guide in JAVASCRIPT {
                must_run(Command::new(&node), &folder, guide, "js", "js");
            }
        }
        Err(reason) => left_out("ioredis", &reason),
    }
}

/// Returns a folder that is kept between runs.
fn workplace(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// Returns the sources of the Python package.
fn package() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/crawlspace/src")
}

/// Concatenates all fenced blocks of a language in a guide.
fn program(guide: &str, language: &str) -> String {
    let path = format!("../../docs/guide/{guide}.md");
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
        ["execute_command(", "redis.call(", "crawlspace.Frontier("]
            .iter()
            .any(|call| program.contains(call)),
        "the guide {guide} has no program in {language}"
    );
    program
}

/// Runs the program of a guide against its own server.
fn must_run(mut interpreter: Command, folder: &Path, guide: &str, language: &str, ending: &str) {
    let name = format!("{guide}.{ending}");
    std::fs::write(folder.join(&name), program(guide, language)).unwrap();
    let server = Server::start();
    let command = interpreter
        .arg(&name)
        .current_dir(folder)
        .env("PYTHONPATH", package())
        .env("PORT", server.port().to_string());
    let cluster = CLUSTER.contains(&guide).then(|| Cluster::start(3));
    if let Some(cluster) = &cluster {
        command.env("CLUSTER_PORT", cluster.nodes()[0].port().to_string());
    }
    if let Err(reason) = run(command) {
        panic!("{name} in {}: {reason}", folder.display());
    }
    // The program must have written to this server.
    assert_ne!(server.wire().ok_line("DBSIZE"), Reply::Int(0));
}
