//! Runs the examples in docs/guide/cli.md, operations.md and wacz.md: blocks ` ```console ` with lines `$ command`,
//! each followed by its output on both streams. `<any>` matches any text.

use std::path::Path;

use redis_tests::examples::matches_line;
use redis_tests::{Options, Server, module_path};

use crate::operators::stage::{frontier, index};
use crate::operators::wacz::collection;
use crate::tool::script;

struct Example {
    line: usize,
    command: String,
    expected: Vec<String>,
}

fn examples(page: &str) -> Vec<Example> {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide");
    let page = guide.join(page);
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
    assert!(!examples.is_empty());
    examples
}

#[test]
fn examples_of_the_cli_page_print_what_it_shows() {
    let server = Options::new().plain().start();
    index(&server);
    frontier(&server);
    let folder = tempfile::tempdir().unwrap();
    must_print("cli.md", &server, folder.path());
}

#[test]
fn examples_of_the_operations_page_print_what_it_shows() {
    // The server rewrites its configuration file.
    let lines = format!("loadmodule {}\n", module_path().display());
    let server = Options::configured(&lines).start();
    index(&server);
    frontier(&server);
    let folder = tempfile::tempdir().unwrap();
    must_print("operations.md", &server, folder.path());
}

#[test]
fn examples_of_the_wacz_page_print_what_it_shows() {
    let server = Server::start();
    let folder = tempfile::tempdir().unwrap();
    collection(&server, folder.path());
    must_print("wacz.md", &server, folder.path());
}

/// Runs the examples of a page in that folder, one after the other.
fn must_print(page: &str, server: &Server, folder: &Path) {
    let mut differences = Vec::new();
    for example in examples(page) {
        let text = format!("exec 2>&1 </dev/null\n{}", example.command);
        let output = script(&text, folder)
            .env("CRAWLSPACE_REDIS", server.url())
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
