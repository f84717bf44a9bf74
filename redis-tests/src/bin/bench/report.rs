//! Rows, tables, and the file they are written to.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::Plan;
use crate::chart::Chart;
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
    /// Name in the list of goals (`D1`), what was measured, against whom, our figure with its unit, and the peer's.
    pub texts: [String; 5],
    /// The ratio (better is more), or the figure itself where the goal is a limit.
    pub result: Series,
    /// What it should reach.
    pub goal: Goal,
}

/// Adds lines to the table of some [`Findings`], a line up to each semicolon: name in the list of goals, what was
/// measured, against whom, our figure, the peer's, the result and its goal.
macro_rules! table {
    ($found:expr; $($id:expr, $what:expr, $against:expr, $ours:expr, $theirs:expr, $result:expr, $goal:expr;)+) => {
        $($found.rows.push($crate::report::Row {
            texts: [$id.into(), $what.into(), $against.into(), $ours.into(), $theirs.into()],
            result: $result.into(),
            goal: $goal,
        });)+
    };
}

/// Adds the paragraph of a file to some [`Findings`], with these figures in it.
macro_rules! note {
    ($found:expr, $file:literal $(; $($name:ident = $value:expr),+ $(,)?)?) => {
        $found.notes.push(format!(include_str!($file) $($(, $name = $value)+)?))
    };
}

pub(crate) use {note, table};

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

    fn cells(&self) -> Vec<String> {
        let judged = [self.result_text(), self.goal_text(), self.verdict().into()];
        self.texts.iter().cloned().chain(judged).collect()
    }
}

/// A part of the benchmark with its results.
pub struct Section {
    /// Heading.
    pub title: &'static str,
    /// What the data is and how it was measured.
    pub method: String,
    /// What came of it.
    pub found: Findings,
}

/// What one measurement gives: rows, and a paragraph on each.
#[derive(Default)]
pub struct Findings {
    /// Lines of the table.
    pub rows: Vec<Row>,
    /// What is to be said about a row or a group of rows, and the commands that measure it again.
    pub notes: Vec<String>,
    /// Charts that a paragraph shows.
    pub charts: Vec<Chart>,
}

impl Findings {
    /// Takes over what another measurement gave.
    pub fn extend(&mut self, other: Findings) {
        self.rows.extend(other.rows);
        self.notes.extend(other.notes);
        self.charts.extend(other.charts);
    }

    /// Adds a chart, as a paragraph of its own.
    pub fn chart(&mut self, chart: Chart) {
        self.notes.push(chart.link());
        self.charts.push(chart);
    }
}

/// Text with each paragraph in one line; commands, which are indented, and tables stay as they are.
fn unwrapped(text: &str) -> String {
    let fixed = |line: &str| line.is_empty() || line.starts_with([' ', '|']);
    let (mut out, mut before) = (String::new(), "");
    for line in text.lines() {
        let joined = !fixed(before) && !fixed(line);
        out.push(if joined { ' ' } else { '\n' });
        out.push_str(line);
        before = line;
    }
    out.trim().to_owned() + "\n"
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
        let mut lines = vec![HEADINGS.map(str::to_owned).to_vec()];
        lines.extend(self.found.rows.iter().map(Row::cells));
        let width = |column: usize| {
            let cells = lines.iter().map(|line| line[column].chars().count());
            cells.max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..HEADINGS.len()).map(width).collect();
        let mut out = format!("{}\n", self.title);
        for line in &lines {
            let cells = line.iter().zip(&widths);
            let cells = cells.map(|(cell, w)| format!("{cell:<w$}"));
            let _ = writeln!(out, "{}", cells.collect::<Vec<_>>().join("  ").trim_end());
        }
        out
    }

    /// The paragraphs for a terminal.
    pub fn paragraphs(&self) -> String {
        let notes = self.found.notes.iter().map(|note| unwrapped(note));
        notes.collect::<Vec<_>>().join("\n")
    }

    /// The section as it stands in `docs/benchmarks.md`.
    pub fn markdown(&self, machine: &str, plan: &Plan) -> String {
        let (title, method) = (self.title, unwrapped(&self.method));
        let mut out = format!("## {title}\n\n{machine}.\n\n{method}\n");
        let _ = writeln!(out, "| {} |", HEADINGS.join(" | "));
        let _ = writeln!(out, "|{}", "---|".repeat(HEADINGS.len()));
        for row in &self.found.rows {
            let _ = writeln!(out, "| {} |", row.cells().join(" | "));
        }
        let reps = plan.reps;
        let _ = write!(
            out,
            "\nFigures are medians (repetitions: {reps}), in parentheses the lowest and the highest.\n\n{}",
            self.paragraphs()
        );
        out
    }
}

const PREAMBLE: &str = include_str!("preamble.md");

/// Puts a section into the file, in the place of the one of that name if there is one.
///
/// # Panics
/// When the file cannot be written.
pub fn write(file: &Path, name: &str, section: &str) {
    let old = fs::read_to_string(file).unwrap_or_default();
    let new = splice(&old, name, section);
    fs::write(file, new).expect("docs/benchmarks.md can be written");
}

/// Writes charts into the folder beside the file.
///
/// # Panics
/// When one cannot be written.
pub fn draw(folder: &Path, charts: &[Chart]) {
    for chart in charts {
        fs::create_dir_all(folder).expect("docs/benchmarks can be made");
        let file = folder.join(chart.name).with_extension("svg");
        fs::write(file, chart.svg()).expect("a chart can be written");
    }
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
            texts: Default::default(),
            result: Series(figures.to_vec()),
            goal,
        };
        let [ratio, limit] = [Goal::AtLeast(2.0), Goal::AtMost(1.0, "ms")];
        assert_eq!(row(ratio, &[1.0, 2.5, 9.0]).verdict(), "met");
        assert_eq!(row(ratio, &[1.0, 1.5, 9.0]).verdict(), "**not met**");
        assert_eq!(row(limit, &[0.6, 0.7, 1.2]).verdict(), "met");
        let shown = row(ratio, &[1.0, 2.5, 9.0]).result_text();
        assert_eq!(shown, "2.50 × (1.00–9.00)");
    }
}
