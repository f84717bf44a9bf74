//! `crawlspace tags explain`: reasons why a capture passes or does not.

use std::io;

use clap::Args;
use crawlspace_client::tags::{Clause, Explanation};

use super::{Conditions, Space, failed};
use crate::table::{Table, print_json};
use crate::terminal::text;

#[derive(Args)]
pub(crate) struct ExplainLine {
    #[command(flatten)]
    space: Space,
    #[command(flatten)]
    conditions: Conditions,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
    /// A line of a CDX or CDXJ file.
    #[arg(value_name = "LINE")]
    line: String,
}

impl ExplainLine {
    pub(crate) fn run(&self) -> io::Result<bool> {
        let filter = self.conditions.filter();
        let asked = self
            .space
            .open()
            .and_then(|space| space.explain(&filter, self.line.as_bytes()));
        match asked {
            Ok(explanation) if self.json => print_json(&explanation).map(|()| true),
            Ok(explanation) => print_explanation(&explanation).map(|()| true),
            Err(error) => failed(&error),
        }
    }
}

fn print_explanation(explanation: &Explanation) -> io::Result<()> {
    let verdict = if explanation.keep {
        "It passes."
    } else {
        "It does NOT pass."
    };
    let mut table = Table::new(verdict, 0)?;
    table.line(&explanation.why)?;
    table.line(&format!(
        "{} line; its own tags are those of {}",
        explanation.format,
        text(&explanation.record)
    ))?;
    if explanation.tags.is_empty() {
        table.line("No tags.")?;
    }
    for source in &explanation.tags {
        table.line(&format!(
            "tag {} by {}",
            text(&source.tag),
            text(&source.source)
        ))?;
    }
    for clause in &explanation.clauses {
        print_clause(&mut table, clause, 0)?;
    }
    table.end()
}

fn print_clause(table: &mut Table, clause: &Clause, depth: usize) -> io::Result<()> {
    let verdict = if clause.holds { "yes" } else { "NO " };
    let shown = text(&clause.text);
    table.line(&format!(
        "{verdict} {:indent$}{shown}",
        "",
        indent = 2 * depth
    ))?;
    for part in &clause.parts {
        print_clause(table, part, depth + 1)?;
    }
    Ok(())
}
