//! Rows, tables, and the file they are written to.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::Plan;
use crate::series::Series;

/// What a figure should reach.
#[derive(Clone, Copy)]
pub enum Goal {
    /// A ratio of at least so much.
    AtLeast(f64),
    /// At most so many of the unit, usually.
    AtMost(f64, &'static str),
    /// Never more than so many of the unit, in any repetition.
    Never(f64, &'static str),
    /// A ratio measured to know it.
    Known,
    /// A figure of the unit measured to know it.
    Told(&'static str),
}

/// One line of a table.
pub struct Row {
    /// Name in the list of goals, `D1`.
    pub id: &'static str,
    /// What was measured.
    pub what: String,
    /// Against whom.
    pub against: String,
    /// Our figure with its unit.
    pub ours: String,
    /// The peer's figure with its unit.
    pub theirs: String,
    /// The ratio (better is more), or the figure itself where the goal is a limit.
    pub result: Series,
    /// What it should reach.
    pub goal: Goal,
}

impl Row {
    fn result_text(&self) -> String {
        let unit = match self.goal {
            Goal::AtMost(_, unit) | Goal::Never(_, unit) | Goal::Told(unit) => unit,
            _ => "×",
        };
        let digits = |v: f64| if v.abs() >= 20.0 { 0 } else { 2 };
        let show = |v: f64| format!("{v:.*}", digits(v));
        let (median, low, high) = (self.result.median(), self.result.low(), self.result.high());
        match self.result.0.len() {
            0 => String::new(),
            1 => format!("{} {unit}", show(median)),
            _ => format!("{} {unit} ({}–{})", show(median), show(low), show(high)),
        }
    }

    fn goal_text(&self) -> String {
        match self.goal {
            Goal::AtLeast(ratio) => format!("≥ {ratio} ×"),
            Goal::AtMost(limit, unit) | Goal::Never(limit, unit) => format!("≤ {limit} {unit}"),
            Goal::Known | Goal::Told(_) => "–".into(),
        }
    }

    fn verdict(&self) -> &'static str {
        let met = match self.goal {
            Goal::AtLeast(ratio) => self.result.median() >= ratio,
            Goal::AtMost(limit, _) => self.result.median() <= limit,
            Goal::Never(limit, _) => self.result.high() <= limit,
            Goal::Known | Goal::Told(_) => return "–",
        };
        if met { "met" } else { "**not met**" }
    }

    fn cells(&self) -> [String; 8] {
        [
            self.id.into(),
            self.what.clone(),
            self.against.clone(),
            self.ours.clone(),
            self.theirs.clone(),
            self.result_text(),
            self.goal_text(),
            self.verdict().into(),
        ]
    }
}

/// A part of the benchmark with its results.
pub struct Section {
    /// Heading.
    pub title: &'static str,
    /// What the data is and how it was measured.
    pub method: String,
    /// The table.
    pub rows: Vec<Row>,
    /// A paragraph of analysis for each row or group of rows.
    pub analysis: Vec<Paragraph>,
}

/// What is to be said about a row or a group of rows.
pub struct Paragraph {
    heading: String,
    text: String,
    /// Commands that repeat it, one a line.
    again: String,
}

impl Paragraph {
    fn markdown(&self) -> String {
        let mut out = format!("**{}** {}\n", self.heading, self.text.trim());
        if !self.again.is_empty() {
            out.push('\n');
        }
        for line in self.again.lines() {
            let _ = writeln!(out, "    {line}");
        }
        out
    }
}

/// What one measurement gives: rows, and a paragraph on each.
#[derive(Default)]
pub struct Findings {
    /// Lines of the table.
    pub rows: Vec<Row>,
    /// What is to be said about them.
    pub analysis: Vec<Paragraph>,
}

impl Findings {
    /// Adds a paragraph, with the commands that repeat what it is about.
    pub fn note(&mut self, heading: &str, text: String, again: &[&str]) {
        self.analysis.push(Paragraph {
            heading: heading.to_owned(),
            text,
            again: again.join("\n"),
        });
    }

    /// Takes over what another measurement gave.
    pub fn extend(&mut self, other: Findings) {
        self.rows.extend(other.rows);
        self.analysis.extend(other.analysis);
    }
}

/// Tells whoever waits what is being measured.
pub fn say(what: &str) {
    eprintln!("  {what} …");
}

const HEADINGS: [&str; 8] = [
    "", "what", "against", "ours", "theirs", "result", "to beat", "",
];

impl Section {
    /// The table for a terminal.
    pub fn table(&self) -> String {
        let mut lines = vec![HEADINGS.map(str::to_owned)];
        lines.extend(self.rows.iter().map(Row::cells));
        let width = |column: usize| {
            let cells = lines.iter().map(|line| line[column].chars().count());
            cells.max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..HEADINGS.len()).map(width).collect();
        let mut out = format!("{}\n", self.title);
        for line in &lines {
            let cells = line
                .iter()
                .zip(&widths)
                .map(|(cell, w)| format!("{cell:<w$}"));
            let _ = writeln!(out, "{}", cells.collect::<Vec<_>>().join("  ").trim_end());
        }
        out
    }

    /// The paragraphs for a terminal.
    pub fn paragraphs(&self) -> String {
        let paragraphs = self.analysis.iter().map(Paragraph::markdown);
        paragraphs.collect::<Vec<_>>().join("\n")
    }

    /// The section as it stands in `docs/benchmarks.md`.
    pub fn markdown(&self, machine: &str, plan: &Plan) -> String {
        let mut out = format!("## {}\n\n{machine}.\n\n{}\n\n", self.title, self.method);
        let _ = writeln!(out, "| {} |", HEADINGS.join(" | "));
        let _ = writeln!(out, "|{}", "---|".repeat(HEADINGS.len()));
        for row in &self.rows {
            let _ = writeln!(out, "| {} |", row.cells().join(" | "));
        }
        let _ = writeln!(
            out,
            "\nFigures are medians (repetitions: {}), in parentheses the lowest and the highest.",
            plan.reps
        );
        for paragraph in &self.analysis {
            let _ = write!(out, "\n{}", paragraph.markdown());
        }
        out
    }
}

const PREAMBLE: &str = "\
# Benchmarks

Written by `make bench`. Everything is measured side by side in one run on one machine, with peers run as their users
run them. Absolute figures differ from machine to machine; what counts are the ratios.

    make bench                        # all of it, a quarter of an hour on a quiet machine
    make bench ONLY=dedupe            # one section: dedupe, chg, tags, import, federation or index
    make bench ONLY=D5                # what belongs to one row; printed and not written here
    make bench ONLY=dedupe QUICK=1    # a tenth of the data; printed and not written here
    make bench SCALE=1                # ten million hashes, some minutes and 4 GB; SCALE=2000000 for as many
    make bench ARGS='--only dedupe --reps 5 --seed 7'

The commands below a paragraph measure again what it is about; those of `redis-cli` and `redis-benchmark` do it by hand,
on a server that holds crawls of one's own (`make run`; `$hash` and `$crawl` are one of theirs).

";

/// Puts a section into the file, in the place of the one of that name if there is one.
///
/// # Panics
/// When the file cannot be written.
pub fn write(file: &Path, name: &str, section: &str) {
    let old = fs::read_to_string(file).unwrap_or_default();
    let new = splice(&old, name, section);
    fs::write(file, new).expect("docs/benchmarks.md can be written");
}

fn splice(old: &str, name: &str, section: &str) -> String {
    // What stands before the sections is written anew each time.
    let old = old.find("<!-- begin ").map_or("", |from| &old[from..]);
    let begin = format!("<!-- begin {name} -->\n");
    let end = format!("<!-- end {name} -->\n");
    let block = format!("{begin}\n{section}\n{end}");
    let sections = match (old.find(&begin), old.find(&end)) {
        (Some(from), Some(to)) => format!("{}{block}{}", &old[..from], &old[to + end.len()..]),
        _ if old.is_empty() => block,
        _ => format!("{old}\n{block}"),
    };
    format!("{PREAMBLE}{sections}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_replaced_in_its_place_and_others_stay() {
        let one = splice("", "one", "first\n");
        assert!(one.starts_with("# Benchmarks\n"));
        let both = splice(&one, "two", "second\n");
        let again = splice(&both, "one", "anew\n");
        assert_eq!(again, both.replace("first", "anew"));
        assert!(again.find("anew") < again.find("second"));
        assert_eq!(again.matches("# Benchmarks\n").count(), 1);
    }

    #[test]
    fn a_goal_is_judged_by_the_median() {
        let row = |goal, figures: &[f64]| Row {
            id: "",
            what: String::new(),
            against: String::new(),
            ours: String::new(),
            theirs: String::new(),
            result: Series(figures.to_vec()),
            goal,
        };
        assert_eq!(row(Goal::AtLeast(2.0), &[1.0, 2.5, 9.0]).verdict(), "met");
        assert_eq!(
            row(Goal::AtLeast(2.0), &[1.0, 1.5, 9.0]).verdict(),
            "**not met**"
        );
        assert_eq!(
            row(Goal::AtMost(1.0, "ms"), &[0.6, 0.7, 1.2]).verdict(),
            "met"
        );
        assert_eq!(
            row(Goal::AtLeast(2.0), &[1.0, 2.5, 9.0]).result_text(),
            "2.50 × (1.00–9.00)"
        );
    }
}
