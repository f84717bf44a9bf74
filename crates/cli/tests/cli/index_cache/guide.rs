//! Runs the examples of docs/guide/index-cache.md from top to bottom: ` ```sh ` is run, ` ```console ` must print what
//! is shown, ` ```yaml ` is the configuration of the server that ` ```curl ` queries next.

use std::fs;
use std::path::Path;
use std::process::Command;

use redis_tests::examples::matches_line;
use redis_tests::http::get;
use redis_tests::{Program, Server, until};

use crate::tool::{script, tool};

/// Returns the fenced blocks, each with its language and lines.
pub fn blocks(page: &str) -> Vec<(String, Vec<String>)> {
    let mut blocks = Vec::new();
    let mut inside: Option<(String, Vec<String>)> = None;
    for line in page.lines() {
        inside = match (inside, line.strip_prefix("```")) {
            (None, Some(language)) => Some((language.to_owned(), Vec::new())),
            (None, None) => None,
            (Some(block), Some(_)) => {
                blocks.push(block);
                None
            }
            (Some((language, mut lines)), None) => {
                lines.push(line.to_owned());
                Some((language, lines))
            }
        };
    }
    blocks
}

/// A folder in which the examples run one after the other.
pub struct Reader {
    pub folder: tempfile::TempDir,
    redis: Server,
    pub server: Option<(Program, String)>,
    differences: Vec<String>,
}

impl Reader {
    pub fn new() -> Reader {
        Reader {
            folder: tempfile::tempdir().unwrap(),
            redis: Server::start(),
            server: None,
            differences: Vec::new(),
        }
    }

    /// Runs all blocks, and compares what they print.
    pub fn run_all(&mut self, blocks: &[(String, Vec<String>)]) {
        for (language, lines) in blocks {
            self.run(language, lines);
        }
        assert!(
            self.differences.is_empty(),
            "{}",
            self.differences.join("\n\n")
        );
    }

    fn shell(&self, text: &str) -> Command {
        script(text, self.folder.path())
    }

    fn run(&mut self, language: &str, lines: &[String]) {
        match language {
            "sh" => {
                let done = self.shell(&lines.join("\n")).status().unwrap();
                assert!(done.success(), "{lines:?}");
            }
            "yaml" => self.serve(&lines.join("\n")),
            "console" | "curl" => {
                let mut rest = lines;
                while let Some((command, others)) = rest.split_first() {
                    let command = command.strip_prefix("$ ").expect("a command comes first");
                    let is_command = |line: &String| line.starts_with("$ ");
                    let end = others.iter().position(is_command).unwrap_or(others.len());
                    let (expected, others) = others.split_at(end);
                    self.example(command, expected, language == "curl");
                    rest = others;
                }
            }
            _ => {}
        }
    }

    fn example(&mut self, command: &str, expected: &[String], is_web: bool) {
        let address = self.server.as_ref().map(|(_, address)| address.as_str());
        let command_now = command
            .replace("redis://127.0.0.1:6379/", &self.redis.url())
            .replace("curl ", "curl --silent --show-error ")
            .replace("http://127.0.0.1:8080", address.unwrap_or("nobody"));
        let script = format!("exec 2>&1 </dev/null\n{command_now}");
        let output = self.shell(&script).output().unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        let printed: Vec<&str> = printed
            .lines()
            .map(|line| line.trim_end_matches('\r'))
            .collect();
        let same = if is_web && command.contains("--head") {
            // The shown header fields must be among the received ones.
            expected.iter().all(|line| printed.contains(&&line[..]))
        } else {
            let mut pairs = expected.iter().zip(&printed);
            printed.len() == expected.len() && pairs.all(|(line, got)| matches_line(line, got))
        };
        if !same {
            let (expected, printed) = (expected.join("\n"), printed.join("\n"));
            self.differences.push(format!(
                "$ {command}\nexpected:\n{expected}\nprinted:\n{printed}"
            ));
        }
    }

    fn serve(&mut self, config: &str) {
        self.server = None;
        fs::write(self.folder.path().join("config.yaml"), config).unwrap();
        fs::create_dir_all(self.folder.path().join("warcs")).unwrap();
        let mut serve = tool("serve --config config.yaml --bind 127.0.0.1:0");
        serve.current_dir(self.folder.path());
        let mut program = Program::start(serve);
        let address = format!("http://{}", program.address());
        if config.contains("warc+") {
            let is_indexed = || {
                let answer = get(program.address(), "/web/index?url=http://example.com/");
                answer.status == 200 && answer.field("source-errors").is_none()
            };
            until("the WARC files are indexed", is_indexed);
        }
        self.server = Some((program, address));
    }
}

#[test]
fn guide_examples_print_what_the_guide_shows() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/index-cache.md");
    let blocks = blocks(&fs::read_to_string(page).unwrap());
    for language in ["sh", "console", "yaml", "curl"] {
        assert!(
            blocks.iter().any(|(other, _)| other == language),
            "{language}"
        );
    }
    Reader::new().run_all(&blocks);
}
