//! Runs every example of the documentation against a server, and checks that every command has a
//! page.
//!
//! `redis_tests::examples` describes the syntax of examples. The blocks of one page run in order,
//! starting from an empty database. The server accepts `NOW ms`, so that `CHG` examples can set the
//! time.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use redis_tests::examples::{Live, Step, matches_line, show, steps};
use redis_tests::words::words;
use redis_tests::{Options, Reply, Server, Wire, array, bulk, int, nil, ok, simple, simulated};

/// Parts that every page of a command must have.
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
    // Internal commands have no page.
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
        let docs = ok!(wire, "COMMAND", "DOCS", page).field(page);
        let since = format!("\n**Since** {} ", docs.field("since").text());
        assert!(text.contains(&since), "{page}.md does not say {since:?}");
    }
}

#[test]
fn replies_are_formatted_like_redis_cli() {
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

    // Compare the format of a nested reply with the output of this server's redis-cli.
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
        eprintln!("skipped the comparison with redis-cli: it is not installed");
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

/// Runs the steps of a page and returns the differences as `line: …`.
fn run(wire: &mut Wire, steps: &[Step]) -> Vec<String> {
    let mut now = Live::default();
    let differences = steps.iter().filter_map(|step| {
        let reply = wire.call(&step.words(&now));
        step.difference(&reply, &mut now)
    });
    differences.collect()
}
