//! Tables with several columns that fit the terminal.

use std::io::{self, IsTerminal, Write};

use console::{Term, measure_text_width};

use crate::terminal::shown;

/// Number of spaces between two columns.
const GAP: usize = 2;
/// Minimum width of a column of text, in characters.
const MIN_WIDTH: usize = 12;

/// A column of a table: text, which may be truncated in its middle on a narrow terminal, or numbers, which are
/// right-aligned and never truncated.
struct Column {
    name: String,
    figures: bool,
}

/// Table that is at most as wide as the terminal: text is truncated, and if that is not enough, columns are left out
/// from the right. In a pipe it has its full width.
pub(crate) struct Columns {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

impl Columns {
    /// Creates a table with these columns, as in `crawl | hashes>`; columns of numbers end with `>`.
    pub(crate) fn new(columns: &str) -> Columns {
        let columns = columns.split(" | ").map(|name| Column {
            name: name.trim_end_matches('>').to_owned(),
            figures: name.ends_with('>'),
        });
        Columns {
            columns: columns.collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row with one cell per column.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = impl AsRef<str>>) {
        let cells = cells.into_iter().map(|cell| shown(cell.as_ref()));
        self.rows.push(cells.collect());
    }

    /// Prints the table.
    pub(crate) fn print(self) -> io::Result<()> {
        let mut out = io::stdout().lock();
        let terminal = out.is_terminal();
        let width = if terminal {
            Term::stdout()
                .size_checked()
                .map(|(_, wide)| usize::from(wide))
        } else {
            None
        };
        out.write_all(self.laid_out(width, terminal).as_bytes())?;
        out.flush()
    }

    /// Returns the lines of the table in full width.
    pub(crate) fn lines(self) -> Vec<String> {
        self.laid_out(None, false)
            .lines()
            .map(str::to_owned)
            .collect()
    }

    fn laid_out(mut self, width: Option<usize>, bold: bool) -> String {
        let mut widths: Vec<usize> = (0..self.columns.len())
            .map(|i| {
                let cells = self.rows.iter().map(|row| measure_text_width(&row[i]));
                cells.fold(self.columns[i].name.len(), usize::max)
            })
            .collect();
        let mut left_out = Vec::new();
        if let Some(width) = width {
            left_out = self.fit(&mut widths, width);
        }
        let mut text = String::new();
        let names: Vec<String> = self.columns.iter().map(|c| c.name.clone()).collect();
        let heading = self.line(&names, &widths);
        if bold {
            text.push_str(&format!("\x1b[1m{heading}\x1b[0m\n"))
        } else {
            text.push_str(&format!("{heading}\n"))
        }
        for row in &self.rows {
            text.push_str(&self.line(row, &widths));
            text.push('\n');
        }
        if !left_out.is_empty() {
            left_out.reverse();
            let names = left_out.join(", ");
            text.push_str(&format!("(no room for: {names})\n"));
        }
        text
    }

    /// Narrows columns, and leaves some out, until they fit. Returns the names of the columns left out.
    fn fit(&mut self, widths: &mut Vec<usize>, width: usize) -> Vec<String> {
        let mut left_out = Vec::new();
        loop {
            let whole = widths.iter().sum::<usize>() + GAP * (widths.len() - 1);
            let Some(over) = whole.checked_sub(width).filter(|&over| over > 0) else {
                return left_out;
            };
            // Narrow the widest text column first, down to the width of the second widest.
            let texts = (0..widths.len()).filter(|&i| !self.columns[i].figures);
            let widest = texts.clone().max_by_key(|&i| widths[i]);
            match widest.filter(|&i| widths[i] > MIN_WIDTH) {
                Some(i) => {
                    let others = texts.filter(|&j| j != i).map(|j| widths[j]);
                    let next = others.max().unwrap_or(0).max(MIN_WIDTH);
                    let step = (widths[i] - next).clamp(1, over);
                    widths[i] -= step;
                }
                None if widths.len() > 1 => {
                    widths.pop();
                    left_out.extend(self.columns.pop().map(|column| column.name));
                }
                None => return left_out,
            }
        }
    }

    fn line(&self, cells: &[String], widths: &[usize]) -> String {
        let mut line = String::new();
        for ((cell, column), &width) in cells.iter().zip(&self.columns).zip(widths) {
            if !line.is_empty() {
                line.push_str(&" ".repeat(GAP));
            }
            let cell = cut(cell, width);
            let space = " ".repeat(width.saturating_sub(measure_text_width(&cell)));
            if column.figures {
                line.extend([space, cell])
            } else {
                line.extend([cell, space])
            }
        }
        line.truncate(line.trim_end().len());
        line
    }
}

/// Truncates text to this width. Its middle is left out, because ids differ at their ends.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if measure_text_width(text) <= width {
        return text.to_owned();
    }
    let room = width.saturating_sub(1);
    let end: String = narrow(text.chars().rev(), room / 2);
    let begin = narrow(text.chars(), room - measure_text_width(&end));
    let end: String = end.chars().rev().collect();
    format!("{begin}\u{2026}{end}")
}

/// Returns the longest beginning of a string that fits.
fn narrow(text: impl Iterator<Item = char>, room: usize) -> String {
    let mut left = room;
    let fits = |c: &char| {
        let width = measure_text_width(c.encode_utf8(&mut [0; 4]));
        let fits = width <= left;
        left = left.saturating_sub(width);
        fits
    };
    text.take_while(fits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crawls() -> Columns {
        let mut table = Columns::new("crawl | hashes> | size>");
        table.row(["a", "1 234", "5.1 GB"]);
        table.row(["a-crawl-of-some-length-2026-03", "7", ""]);
        table
    }

    #[test]
    fn figures_are_aligned() {
        let lines = "\
crawl                           hashes    size
a                                1 234  5.1 GB
a-crawl-of-some-length-2026-03       7
";
        assert_eq!(crawls().laid_out(None, false), lines);
        assert_eq!(crawls().laid_out(Some(46), false), lines);
    }

    #[test]
    fn ids_are_shortened_in_the_middle_on_a_narrow_terminal() {
        let lines = "\
crawl                  hashes    size
a                       1 234  5.1 GB
a-crawl-of\u{2026}th-2026-03       7
";
        assert_eq!(crawls().laid_out(Some(37), false), lines);
    }

    #[test]
    fn columns_are_dropped_from_the_right_on_a_very_narrow_terminal() {
        let text = crawls().laid_out(Some(20), false);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "crawl         hashes");
        assert_eq!(lines[2], "a-craw\u{2026}26-03       7");
        assert_eq!(lines[3], "(no room for: size)");
        assert!(
            lines.iter().all(|line| line.chars().count() <= 20),
            "{text}"
        );
        // The first column is always shown.
        assert!(crawls().laid_out(Some(1), false).starts_with("crawl\n"));
    }

    #[test]
    fn wide_characters_are_measured() {
        assert_eq!(
            cut("\u{65e5}\u{672c}\u{8a9e}\u{306e}id", 7),
            "\u{65e5}\u{672c}\u{2026}id"
        );
        assert_eq!(cut("short", 5), "short");
    }
}
