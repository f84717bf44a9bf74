//! Checks that every `--help` ends with examples, and that the guides document every option with its default.

use super::{cells, code, read};
use crate::tool::tool;

/// Options common to all commands, described at the top of docs/guide/cli.md, docs/guide/index-cache.md or
/// docs/guide/tags.md.
const COMMON: [&str; 10] = [
    "--help",
    "--version",
    "--redis",
    "--prefix",
    "--sharded",
    "--shards",
    "--json",
    "--key",
    "--cache-dir",
    "--yes",
];

/// Commands with their own page.
const PAGES: [(&str, &str); 6] = [
    ("indexer", "docs/guide/import.md"),
    ("wacz", "docs/guide/wacz.md"),
    ("tags sync", "docs/guide/tags-sync.md"),
    ("index get", "docs/guide/index-cache.md"),
    ("serve", "docs/guide/federation-operating.md"),
    ("exporter", "docs/guide/operations.md"),
];

/// A command and the output of its `--help`.
struct Help {
    command: String,
    text: String,
}

/// Returns the help of a command and of all its subcommands.
fn helps(command: &str) -> Vec<Help> {
    let output = tool(format!("{command} --help")).output().expect("it runs");
    assert!(output.status.success(), "{command} --help");
    let text = String::from_utf8(output.stdout).expect("text");
    let below = text.split("\nCommands:\n").nth(1).unwrap_or_default();
    let below = below.split("\n\n").next().unwrap_or_default();
    let names = below.lines().filter_map(|line| {
        let name = line.strip_prefix("  ")?;
        name.split(' ')
            .next()
            .filter(|name| !name.is_empty() && *name != "help")
    });
    let below: Vec<Help> = names
        .flat_map(|name| helps(format!("{command} {name}").trim_start()))
        .collect();
    let mut all = vec![Help {
        command: command.to_owned(),
        text,
    }];
    all.extend(below);
    all
}

/// Returns the options listed in a help text, each with its default, if any.
fn options(help: &str) -> Vec<(&str, Option<&str>)> {
    let mut options: Vec<(&str, Option<&str>)> = Vec::new();
    for line in help.lines() {
        // Explanations have a deeper indentation.
        let long = line
            .split_once("--")
            .filter(|(before, _)| before.len() == 6);
        let long = long.filter(|(before, _)| before.trim().is_empty() || before.starts_with("  -"));
        if let Some((before, _)) = long {
            let option = &line[before.len()..];
            let end = option.find([' ', '.']).unwrap_or(option.len());
            options.push((&option[..end], None));
        }
        if let (Some((_, default)), Some(last)) =
            (line.split_once("[default: "), options.last_mut())
        {
            last.1 = default.split(']').next();
        }
    }
    options
}

#[test]
fn every_help_ends_with_examples() {
    let helps = helps("");
    assert!(helps.len() > 40, "{}", helps.len());
    let commands: Vec<&str> = helps.iter().map(|help| &help.command[..]).collect();
    for help in &helps {
        let last = help.text.trim_end().rsplit("\n\n").next().expect("a part");
        let mut lines = last.lines();
        let heading = lines.next().expect("a heading");
        assert!(
            matches!(heading, "Example:" | "Examples:"),
            "{}: {last}",
            help.command
        );
        let mut examples = 0;
        for line in lines.filter(|line| line.starts_with("  crawlspace ")) {
            let words = &line["  crawlspace ".len()..];
            // For a command group, an example of one of its subcommands.
            assert!(words.starts_with(&help.command), "{}: {line}", help.command);
            let is_command = |name: &str| !name.is_empty() && words.starts_with(name);
            assert!(commands.iter().any(|name| is_command(name)), "{line}");
            examples += 1;
        }
        assert!(examples > 0, "{}: {last}", help.command);
    }
}

#[test]
fn guides_name_every_option_and_its_default() {
    let overview = read("docs/guide/cli.md");
    let mut wrong = Vec::new();
    for help in helps("") {
        let own = PAGES
            .iter()
            .find(|(command, _)| help.command.starts_with(command));
        let (page, text) = match own {
            Some((_, page)) => (*page, read(page)),
            // Rows of the command in the overview.
            None => {
                let names = |row: &&str| {
                    let cells = cells(row);
                    let mut commands =
                        code(cells[0]).map(|code| code.trim_start_matches("crawlspace "));
                    row.starts_with("| `")
                        && commands.any(|code| {
                            let rest = code.strip_prefix(&help.command);
                            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
                        })
                };
                let rows: Vec<&str> = overview.lines().filter(names).collect();
                ("docs/guide/cli.md", rows.join("\n"))
            }
        };
        for (option, default) in options(&help.text) {
            if COMMON.contains(&option) {
                continue;
            }
            // The option must be a separate word.
            let named = |line: &str| {
                line.match_indices(option).any(|(at, _)| {
                    let next = line[at + option.len()..].chars().next();
                    next.is_none_or(|c| !c.is_alphanumeric() && c != '-')
                })
            };
            let lines: Vec<&str> = text.lines().filter(|line| named(line)).collect();
            match default {
                _ if lines.is_empty() => {
                    wrong.push(format!("{page}: nothing about `{} {option}`", help.command));
                }
                Some(default)
                    if !lines
                        .iter()
                        .any(|line| line.replace(' ', "").contains(default)) =>
                {
                    wrong.push(format!(
                        "{page}: not the default of `{} {option}`: {default}",
                        help.command
                    ));
                }
                _ => {}
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
