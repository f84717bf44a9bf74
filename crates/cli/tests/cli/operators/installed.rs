//! Tests completions and manual pages.

use redis_tests::{assert_contains, assert_starts, ends, outcome};
use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use crate::tool::{limited, tool};

/// Returns the subcommands of this command, from its help.
fn commands_below(path: &[String]) -> Vec<Vec<String>> {
    let help = ends(tool("").args(path).arg("--help"), 0).out;
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    listed
        .take_while(|line| !line.is_empty())
        // Descriptions may continue on the next line, with a deeper indentation.
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(|name| [path, &[name.to_owned()]].concat())
        .collect()
}

fn all_commands() -> Vec<Vec<String>> {
    let mut all = vec![Vec::new()];
    let mut at = 0;
    while at < all.len() {
        let below = commands_below(&all[at]);
        all.extend(below);
        at += 1;
    }
    assert!(all.len() > 30, "{all:?}");
    all
}

#[test]
fn every_command_has_a_manual_page_and_an_example_in_its_help() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("man1");
    let done = outcome(tool("man --out").arg(&out));
    assert_eq!((done.status, &done.out[..]), (0, ""), "{done:?}");
    let pages: BTreeSet<String> = std::fs::read_dir(&out)
        .unwrap()
        .map(|page| page.unwrap().file_name().into_string().unwrap())
        .collect();
    for command in all_commands() {
        let page = format!(
            "{}.1",
            [&["crawlspace".to_owned()], &command[..]]
                .concat()
                .join("-")
        );
        assert!(pages.contains(&page), "{page} is not in {pages:?}");
        let text = std::fs::read_to_string(out.join(&page)).unwrap();
        assert!(
            text.contains(".TH ") && text.contains(".SH SYNOPSIS"),
            "{page}"
        );
        if ["dedupe", "chg"]
            .iter()
            .any(|ours| command.len() == 2 && command[0] == *ours && command[1] != "serve")
        {
            let help = outcome(tool("").args(&command).arg("--help"));
            let example = format!("\n  crawlspace {}", command.join(" "));
            assert_contains(&help.out, &example);
            assert_contains(&help.out, "--json");
            assert_contains(&help.out, "--prefix");
        }
    }
}

#[test]
fn failed_write_keeps_the_old_pages() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("crawlspace.1");
    std::fs::write(&page, "old").unwrap();
    let failed = outcome(limited("man --out .", folder.path())).exits(1);
    assert_starts(&failed.errors, "crawlspace: .: File too large");
    assert_eq!(std::fs::read(&page).unwrap(), b"old");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn completions_name_every_command() {
    let commands = all_commands();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let done = ends(tool(format!("completions {shell}")), 0);
        for command in &commands {
            let last = command.last().map_or("crawlspace", |name| &name[..]);
            assert!(done.out.contains(last), "{shell}: {last}");
        }
        // If the shell is installed, it must be able to parse the script.
        let check = Command::new(shell)
            .args(["-n", "/dev/stdin"])
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        if let ("bash" | "zsh" | "fish", Ok(mut reader)) = (shell, check) {
            use std::io::Write;
            let mut input = reader.stdin.take().unwrap();
            input.write_all(done.out.as_bytes()).unwrap();
            drop(input);
            let read = reader.wait_with_output().unwrap();
            assert!(read.status.success(), "{shell}: {read:?}");
        }
    }
    outcome(tool("completions cmd")).exits(2);
}
