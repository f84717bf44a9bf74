//! `crawlspace wacz check`: verifies that all WACZ files that other WACZ files need are present.

use std::io::{self, IsTerminal};

use clap::{Args, ValueHint};
use crawlspace_wacz::package::{Known, Presence, Report, check};
use crawlspace_wacz::{Location, Options};
use indicatif::ProgressBar;

use crate::columns::Columns;
use crate::table::{bytes, count, many, print_json};
use crate::terminal::{complain, say, shown};

/// Check that the WACZ files that other WACZ files need for replay are present.
///
/// A WACZ file with revisit records names in its datapackage.json the files that hold the originals
/// ("relation" → "requires"). Each of them must be among the given files, with the right size and
/// hash. If the hash was unknown when the list was written, the file is found by its name. Required
/// files can require further files.
///
/// Exit status: 0 when everything is present, 1 when something is missing, wrong or unreadable, 2 when the command
/// line is wrong.
#[derive(Args)]
#[command(after_help = "Examples:
  crawlspace wacz check crawls/
  crawlspace wacz check https://example.org/collection.json --json
  crawlspace wacz check crawl-1.wacz crawl-2.wacz")]
pub(crate) struct Check {
    /// WACZ files, folders of WACZ files, and manifests that list WACZ files, as paths or http(s)
    /// URLs.
    #[arg(required = true, value_name = "FILES", value_hint = ValueHint::AnyPath)]
    files: Vec<String>,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

impl Check {
    pub(crate) fn run(&self) -> io::Result<bool> {
        let options = Options::default();
        let (mut known, mut errors) = (Vec::new(), Vec::new());
        for file in &self.files {
            let all = Location::parse(file).map(|location| Known::all(&location, &options));
            for one in all.unwrap_or_else(|error| vec![Err(error)]) {
                match one {
                    Ok(one) => known.push(one),
                    Err(error) => errors.push(error.to_string()),
                }
            }
        }
        let bar = io::stderr().is_terminal().then(ProgressBar::new_spinner);
        let mut report = check(&known, &options, |file| {
            if let Some(bar) = &bar {
                bar.set_message(shown(file));
                bar.tick();
            }
        });
        if let Some(bar) = bar {
            bar.finish_and_clear();
        }
        report.complete &= errors.is_empty();
        report.errors.append(&mut errors);
        for error in &report.errors {
            complain(error);
        }
        if self.json {
            print_json(&report)?
        } else {
            print_report(&report)?
        }
        Ok(report.complete)
    }
}

fn print_report(report: &Report) -> io::Result<()> {
    let mut table = Columns::new("file | needs | which is");
    let mut lacking = 0;
    for package in &report.packages {
        for needed in &package.requires {
            let state = match &needed.state {
                Presence::Present { complete: true, .. } => continue,
                Presence::Present { .. } => "present, but needs files that are missing".to_owned(),
                Presence::Missing => "missing".to_owned(),
                Presence::WrongSize { file, found } => {
                    format!("another file: {file} has {}", bytes(*found))
                }
                Presence::WrongHash { file, .. } => {
                    format!("wrong file: {file} has a different hash")
                }
            };
            table.row([&package.name, &needed.required.filename, &state]);
            lacking += 1;
        }
    }
    if lacking > 0 {
        table.print()?;
    }
    for cycle in &report.cycles {
        say(format_args!(
            "these files need each other, which is valid: {}",
            cycle.join(", ")
        ));
    }
    let packages = report.packages.len() as u64;
    let complete = report
        .packages
        .iter()
        .filter(|package| package.complete)
        .count() as u64;
    if complete == packages {
        say(format_args!("{}, complete", many(packages, "package")))
    } else {
        say(format_args!(
            "{}, {} complete",
            many(packages, "package"),
            count(complete)
        ))
    }
    Ok(())
}
