//! Rows, tables and paragraphs of the report.

use std::fmt::Write as _;

use crate::chart::Chart;
use crate::pages::wrapped;
use crate::series::Series;

/// The target of a result.
#[derive(Clone, Copy)]
pub enum Goal {
    /// A minimum ratio.
    AtLeast(f64),
    /// Maximum of the median, in this unit.
    AtMost(f64, &'static str),
    /// Maximum of every repetition, in this unit.
    Never(f64, &'static str),
    /// A ratio without a target.
    Known,
    /// A result in this unit, without a target.
    Told(&'static str),
}

impl Goal {
    /// Returns the text of the target for a table.
    pub fn text(self) -> String {
        match self {
            Goal::AtLeast(ratio) => format!("≥ {ratio} ×"),
            Goal::AtMost(limit, unit) | Goal::Never(limit, unit) => format!("≤ {limit} {unit}"),
            Goal::Known | Goal::Told(_) => "–".into(),
        }
    }
}

/// One line of a table.
pub struct Row {
    /// Id in the list of targets (`D1`), name of the measurement, name of the peer, result with its
    /// unit, and the peer's result.
    pub texts: [String; 5],
    /// The ratio (higher is better), or the result itself if the target is a limit.
    pub result: Series,
    /// Target of the row.
    pub goal: Goal,
}

/// Adds rows to the table of some [`Findings`]; a semicolon ends each row. A row contains the id in
/// the list of targets, the name of the measurement, the name of the peer, the result, the peer's
/// result, the ratio and its target.
macro_rules! table {
    ($found:expr; $($id:expr, $what:expr, $against:expr, $ours:expr, $theirs:expr, $result:expr, $goal:expr;)+) => {
        $($found.rows.push($crate::report::Row {
            texts: [$id.into(), $what.into(), $against.into(), $ours.into(), $theirs.into()],
            result: $result.into(),
            goal: $goal,
        });)+
    };
}

/// Adds the paragraph of a file to some [`Findings`] and inserts these numbers.
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

    fn verdict(&self) -> &'static str {
        let met = match self.goal {
            Goal::AtLeast(ratio) => self.result.median() >= ratio,
            Goal::AtMost(limit, _) => self.result.median() <= limit,
            Goal::Never(limit, _) => self.result.high() <= limit,
            Goal::Known | Goal::Told(_) => return "–",
        };
        if met { "met" } else { "**not met**" }
    }

    /// Returns the cells of the line, one for each of [`HEADINGS`].
    pub fn cells(&self) -> Vec<String> {
        let judged = [self.result_text(), self.goal.text(), self.verdict().into()];
        self.texts.iter().cloned().chain(judged).collect()
    }
}

/// A part of the benchmark with its results.
pub struct Section {
    /// Heading.
    pub title: &'static str,
    /// The data and the method.
    pub method: String,
    /// Results.
    pub found: Findings,
}

/// The results of one measurement: rows, and paragraphs about them.
#[derive(Default)]
pub struct Findings {
    /// Rows of the table.
    pub rows: Vec<Row>,
    /// Paragraphs about a row or a group of rows, with the commands that measure them again.
    pub notes: Vec<String>,
    /// Charts to which the paragraphs refer.
    pub charts: Vec<Chart>,
}

impl Findings {
    /// Appends the results of another measurement.
    pub fn extend(&mut self, other: Findings) {
        self.rows.extend(other.rows);
        self.notes.extend(other.notes);
        self.charts.extend(other.charts);
    }

    /// Adds a chart as a separate paragraph.
    pub fn chart(&mut self, chart: Chart) {
        self.notes.push(chart.link());
        self.charts.push(chart);
    }
}

/// Prints the name of the measurement in progress.
pub fn say(what: &str) {
    eprintln!("  {what} …");
}

/// Column headings of the table of a section.
pub const HEADINGS: [&str; 8] = [
    "row", "what", "against", "ours", "theirs", "result", "target", "verdict",
];

impl Section {
    /// Formats the table for a terminal.
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

    /// Formats the paragraphs for a terminal.
    pub fn paragraphs(&self) -> String {
        let notes = self.found.notes.iter().map(|note| wrapped(note));
        notes.collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
