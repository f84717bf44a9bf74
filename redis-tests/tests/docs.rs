//! Every example of the documentation is run against a server, and every command has a page.
//!
//! An example is a fenced block ` ```redis ` with lines `> COMMAND args`, each followed by the reply
//! as redis-cli shows it. The blocks of one page run in order, starting from an empty database.
//! `<any>` in an expected line stands for whatever is there (a time left, a figure of memory, the
//! sentence of an error). The server takes `NOW ms`, so that an example of `CHG` may say what time it is.
//!
//! In a block ` ```redis live ` numbers of ten digits and more, which are times and tokens, stand for
//! whatever number of that length is there, the same one wherever they are repeated, also in a command.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use redis_tests::{array, bulk, int, nil, ok, simple, simulated, Options, Reply, Server, Wire};

/// A command of an example and the reply that the page promises.
#[derive(Debug, PartialEq)]
struct Step {
    /// Line of the command in its file, from 1.
    line: usize,
    command: String,
    expected: Vec<String>,
    /// Whether times and tokens are those of the moment.
    live: bool,
}

/// What a reader of a command's page may rely on to find.
const PARTS_OF_A_PAGE: [&str; 7] = [
    "\n## Arguments\n",
    "\n## Reply\n",
    "\n## Errors\n",
    "\n## Complexity and blocking\n",
    "\n## Keys\n",
    "\n## Examples\n",
    "\n```redis\n> ",
];

#[test]
fn examples_give_the_replies_they_show() {
    let server = simulated().start();
    let mut failures = Vec::new();
    let mut ran = 0;
    for page in pages_with_examples() {
        let text = fs::read_to_string(&page).expect("the page can be read");
        let steps = steps(&text);
        ran += steps.len();
        let mut wire = server.wire();
        ok!(wire, "FLUSHALL");
        failures.extend(run(&mut wire, &steps).into_iter().map(|failure| {
            let name = page.strip_prefix(root()).unwrap_or(&page);
            format!("{}:{failure}", name.display())
        }));
    }
    assert!(ran > 0, "no example found in {}", root().display());
    assert!(
        failures.is_empty(),
        "{} of {ran} examples differ\n\n{}",
        failures.len(),
        failures.join("\n\n")
    );
}

#[test]
fn every_command_has_a_page_and_every_page_a_command() {
    let server = Server::start();
    let mut wire = server.wire();
    let listed = ok!(wire, "COMMAND", "LIST", "FILTERBY", "MODULE", "crawlspace");
    let mut commands: Vec<String> = listed.texts().iter().map(|c| c.to_lowercase()).collect();
    // What the server sends to itself is not for clients.
    commands.retain(|c| !c.starts_with("crawlspace."));
    commands.sort();
    let mut pages: Vec<String> = markdown_in("docs/commands")
        .iter()
        .map(|page| {
            page.file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into()
        })
        .filter(|name| name != "README")
        .collect();
    pages.sort();
    assert!(!commands.is_empty(), "the module registers no command");
    assert_eq!(commands, pages, "commands (left), pages (right)");

    let index = fs::read_to_string(root().join("docs/commands/README.md")).expect("an index");
    for page in &pages {
        assert!(
            index.contains(&format!("({page}.md)")),
            "docs/commands/README.md does not link {page}.md"
        );
        let path = root().join(format!("docs/commands/{page}.md"));
        let text = fs::read_to_string(path).expect("the page can be read");
        for part in PARTS_OF_A_PAGE {
            assert!(text.contains(part), "{page}.md has no part {part:?}");
        }
    }
}

#[test]
fn replies_are_shown_as_redis_cli_shows_them() {
    let nested = array([
        array([bulk("a\"\\\n\x01\u{e9}"), nil()]),
        simple("OK"),
        array([]),
        int(-5),
    ]);
    let shown = [
        r#"1) 1) "a\"\\\n\x01\xc3\xa9""#,
        "   2) (nil)",
        "2) OK",
        "3) (empty array)",
        "4) (integer) -5",
    ];
    assert_eq!(show(&nested), shown);
    assert_eq!(
        show(&Reply::Error(b"NOCRAWL x".to_vec())),
        ["(error) NOCRAWL x"]
    );
    let ten = show(&Reply::Array(vec![int(1); 10]));
    assert_eq!(
        (ten[0].as_str(), ten[9].as_str()),
        (" 1) (integer) 1", "10) (integer) 1")
    );

    // And what this server's own redis-cli makes of a nested reply.
    let server = Options::new().no_module().start();
    let script = "return {{'x', 7}, false, {{'y', 'z'}, 3}, {}, '', 1, 2, 3, 4, {5, {6}}}";
    let Ok(cli) = Command::new("redis-cli")
        .args([
            "--no-raw",
            "-p",
            &server.port().to_string(),
            "EVAL",
            script,
            "0",
        ])
        .output()
    else {
        eprintln!("no redis-cli here: not compared with it");
        return;
    };
    let theirs = String::from_utf8_lossy(&cli.stdout).into_owned();
    let ours = show(&ok!(server.wire(), "EVAL", script, "0"));
    assert_eq!(ours.join("\n"), theirs.trim_end());
}

#[test]
fn examples_are_read_from_fenced_blocks() {
    let text = "# A\n\n```redis\n> PING\nPONG\n> GET a\n(nil)\n```\n\n```sh\n> not this\n```\n";
    let step = |line, command: &str, reply: &str| Step {
        line,
        command: command.into(),
        expected: vec![reply.into()],
        live: false,
    };
    assert_eq!(
        steps(text),
        [step(4, "PING", "PONG"), step(6, "GET a", "(nil)")]
    );
    assert_eq!(
        words(r#"A "" "b \"c\" \x41" 'd "e" \' f' g"#),
        [&b"A"[..], b"", b"b \"c\" A", b"d \"e\" ' f", b"g"]
    );
    assert!(matches_line("2) (integer) <any>", "2) (integer) 12"));
    assert!(!matches_line("2) (integer) <any>", "2) (nil)"));
    assert!(matches_line("<any>", "anything"));
    assert!(steps("```redis live\n> PING\nPONG\n```\n")[0].live);

    let mut now = Live::default();
    assert!(now.matches("2) (integer) 1774000000000", "2) (integer) 1790000000123"));
    assert!(now.matches("3) (integer) 1774000000000", "3) (integer) 1790000000123"));
    assert!(!now.matches("3) (integer) 1774000000000", "3) (integer) 1790000000124"));
    assert!(!now.matches("4) (integer) 1774000000001", "4) (integer) 179000000012"));
    assert!(!now.matches("5) (integer) 7", "5) (integer) 8"));
    assert_eq!(now.translate("X 1774000000000 a7"), "X 1790000000123 a7");
}

fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("the workspace is above").to_path_buf()
}

fn markdown_in(folder: &str) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(root().join(folder)) else {
        return Vec::new();
    };
    let mut pages: Vec<PathBuf> = entries
        .map(|entry| entry.expect("the folder can be read").path())
        .filter(|path| path.extension().is_some_and(|ext| ext == "md"))
        .collect();
    pages.sort();
    pages
}

fn pages_with_examples() -> Vec<PathBuf> {
    let mut pages = markdown_in("docs/commands");
    pages.extend(markdown_in("docs/guide"));
    pages.extend(markdown_in("docs"));
    let readme = root().join("README.md");
    pages.extend(readme.exists().then_some(readme));
    pages
}

fn steps(text: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let (mut inside, mut live) = (false, false);
    for (number, line) in text.lines().enumerate() {
        if let Some(fence) = line.strip_prefix("```") {
            inside = !inside && matches!(fence.trim(), "redis" | "redis live");
            live = inside && fence.trim() == "redis live";
        } else if !inside {
            continue;
        } else if let Some(command) = line.strip_prefix("> ") {
            steps.push(Step {
                line: number + 1,
                command: command.to_owned(),
                expected: Vec::new(),
                live,
            });
        } else if let (Some(step), false) = (steps.last_mut(), line.trim().is_empty()) {
            step.expected.push(line.trim_end().to_owned());
        }
    }
    steps
}

/// Runs a page's steps and says what differs, `line: …` each.
fn run(wire: &mut Wire, steps: &[Step]) -> Vec<String> {
    let mut failures = Vec::new();
    let mut now = Live::default();
    for step in steps {
        let command = if step.live {
            now.translate(&step.command)
        } else {
            step.command.clone()
        };
        let got = show(&wire.call(&words(&command)));
        let same = got.len() == step.expected.len()
            && step
                .expected
                .iter()
                .zip(&got)
                .all(|(e, g)| matches_line(e, g) || (step.live && now.matches(e, g)));
        if !same {
            failures.push(format!(
                "{}: > {}\nexpected:\n  {}\ngot:\n  {}",
                step.line,
                step.command,
                step.expected.join("\n  "),
                got.join("\n  ")
            ));
        }
    }
    failures
}

/// Whether a line is as expected; `<any>` stands for any text, even none.
fn matches_line(expected: &str, got: &str) -> bool {
    let mut pieces = expected.split("<any>");
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = got.strip_prefix(first) else {
        return false;
    };
    let mut last = None;
    for piece in pieces {
        let Some(at) = rest.find(piece) else {
            return false;
        };
        last = Some(piece);
        if !piece.is_empty() {
            rest = &rest[at + piece.len()..];
        }
    }
    match last {
        None => rest.is_empty(),
        Some(piece) => piece.is_empty() || got.ends_with(piece),
    }
}

/// The times and tokens of a page as they are shown, and as they are now.
#[derive(Default)]
struct Live {
    numbers: BTreeMap<String, String>,
}

impl Live {
    fn is_time(piece: &str) -> bool {
        piece.len() >= 10 && piece.starts_with(|c: char| c.is_ascii_digit())
    }

    /// Digits and what is between them.
    fn pieces(line: &str) -> Vec<&str> {
        let bytes = line.as_bytes();
        let mut pieces = Vec::new();
        let mut from = 0;
        for at in 1..=bytes.len() {
            let ends =
                at == bytes.len() || bytes[at].is_ascii_digit() != bytes[at - 1].is_ascii_digit();
            if ends && line.is_char_boundary(at) {
                pieces.push(&line[from..at]);
                from = at;
            }
        }
        pieces
    }

    /// Whether a line is as expected but for the time, of which it takes note.
    fn matches(&mut self, expected: &str, got: &str) -> bool {
        let (expected, got) = (Live::pieces(expected), Live::pieces(got));
        expected.len() == got.len()
            && expected.iter().zip(got).all(|(&expected, got)| {
                if !Live::is_time(expected) {
                    return expected == got;
                }
                let known = self.numbers.entry(expected.to_owned());
                let now = known.or_insert_with(|| got.to_owned());
                now == got && got.len() == expected.len()
            })
    }

    fn translate(&self, command: &str) -> String {
        let pieces = Live::pieces(command);
        let now = |piece| self.numbers.get(piece).map_or(piece, |now| &now[..]);
        pieces.into_iter().map(now).collect()
    }
}

/// Splits a line into words as redis-cli does: spaces, "…" with escapes, '…'.
fn words(line: &str) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    let mut rest = line.trim().as_bytes();
    while !rest.is_empty() {
        let (word, after) = match rest[0] {
            b'"' => quoted(&rest[1..], b'"'),
            b'\'' => quoted(&rest[1..], b'\''),
            _ => {
                let end = rest.iter().position(|&b| b == b' ');
                let end = end.unwrap_or(rest.len());
                (rest[..end].to_vec(), &rest[end..])
            }
        };
        out.push(word);
        rest = after.trim_ascii_start();
    }
    out
}

fn quoted(text: &[u8], quote: u8) -> (Vec<u8>, &[u8]) {
    let mut word = Vec::new();
    let mut at = 0;
    while at < text.len() && text[at] != quote {
        let escaped = text[at] == b'\\' && at + 1 < text.len();
        if escaped && quote == b'\'' && text[at + 1] == quote {
            word.push(quote);
            at += 2;
        } else if escaped && quote == b'"' {
            let hex = text.get(at + 2..at + 4);
            let hex = hex.and_then(|h| u8::from_str_radix(std::str::from_utf8(h).ok()?, 16).ok());
            match (text[at + 1], hex) {
                (b'x', Some(byte)) => {
                    word.push(byte);
                    at += 2;
                }
                (b'n', _) => word.push(b'\n'),
                (b'r', _) => word.push(b'\r'),
                (b't', _) => word.push(b'\t'),
                (other, _) => word.push(other),
            }
            at += 2;
        } else {
            word.push(text[at]);
            at += 1;
        }
    }
    assert!(at < text.len(), "a quote is not closed in an example");
    (word, &text[at + 1..])
}

/// A RESP2 reply as lines of redis-cli.
fn show(reply: &Reply) -> Vec<String> {
    match reply {
        Reply::Nil => vec!["(nil)".into()],
        Reply::Simple(text) => vec![String::from_utf8_lossy(text).into_owned()],
        Reply::Error(text) => vec![format!("(error) {}", String::from_utf8_lossy(text))],
        Reply::Int(n) => vec![format!("(integer) {n}")],
        Reply::Bulk(bytes) => vec![format!("\"{}\"", escaped(bytes))],
        Reply::Array(items) if items.is_empty() => vec!["(empty array)".into()],
        Reply::Array(items) => {
            let width = items.len().to_string().len();
            let indent = " ".repeat(width + 2);
            let mut lines = Vec::new();
            for (i, item) in items.iter().enumerate() {
                for (j, line) in show(item).into_iter().enumerate() {
                    let number = format!("{:>width$}) ", i + 1);
                    lines.push(if j == 0 {
                        number + &line
                    } else {
                        format!("{indent}{line}")
                    });
                }
            }
            lines
        }
        other => panic!("not a RESP2 reply: {other:?}"),
    }
}

fn escaped(bytes: &[u8]) -> String {
    let mut out = String::new();
    for &byte in bytes {
        match byte {
            b'"' | b'\\' => out.extend(['\\', char::from(byte)]),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            0x07 => out.push_str("\\a"),
            0x08 => out.push_str("\\b"),
            0x20..=0x7e => out.push(char::from(byte)),
            _ => out.push_str(&format!("\\x{byte:02x}")),
        }
    }
    out
}
