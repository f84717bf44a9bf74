//! The examples in docs/guide/cli.md: blocks ` ```console ` with lines `$ command`, each followed by what it prints,
//! on both outputs. `<any>` stands for whatever is there.

use std::path::Path;
use std::process::Command;

use redis_tests::examples::matches_line;
use redis_tests::Server;

use crate::stage::{frontier, index, program_folder};

struct Example {
    line: usize,
    command: String,
    expected: Vec<String>,
}

fn examples() -> Vec<Example> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guide/cli.md");
    let text = std::fs::read_to_string(page).unwrap();
    let mut examples: Vec<Example> = Vec::new();
    let mut inside = false;
    for (number, line) in text.lines().enumerate() {
        if line.starts_with("```") {
            inside = line == "```console";
        } else if let (true, Some(command)) = (inside, line.strip_prefix("$ ")) {
            examples.push(Example {
                line: number + 1,
                command: command.to_owned(),
                expected: Vec::new(),
            });
        } else if inside {
            let last = examples.last_mut().expect("a command comes first");
            last.expected.push(line.to_owned());
        }
    }
    assert!(examples.len() > 10);
    examples
}

#[test]
fn the_examples_print_what_the_page_shows() {
    let server = Server::start();
    index(&server);
    frontier(&server);
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", program_folder().display());
    let folder = tempfile::tempdir().unwrap();
    let mut differences = Vec::new();
    for example in examples() {
        let output = Command::new("sh")
            .args(["-c", &format!("exec 2>&1 </dev/null\n{}", example.command)])
            .current_dir(folder.path())
            .env("PATH", &path)
            .env("CRAWLSPACE_REDIS", server.url())
            .env_remove("CRAWLSPACE_PREFIX")
            .output()
            .unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        let printed: Vec<&str> = printed.lines().collect();
        let same = printed.len() == example.expected.len()
            && example
                .expected
                .iter()
                .zip(&printed)
                .all(|(expected, printed)| matches_line(expected, printed));
        if !same {
            differences.push(format!(
                "{}: $ {}\nexpected:\n{}\nprinted:\n{}",
                example.line,
                example.command,
                example.expected.join("\n"),
                printed.join("\n")
            ));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n\n"));
}
