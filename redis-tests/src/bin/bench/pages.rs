//! The pages of `docs/benchmarks/`, one for each section: writes, parses and merges them.

use std::fs;
use std::path::Path;

use crate::chart::Chart;
use crate::report::{HEADINGS, Row, Section};
use crate::{Part, Plan};

/// Maximum length of a line of prose, in characters.
const WIDTH: usize = 110;

/// A page. A parsed page is written back byte for byte.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// Name of the section.
    pub title: String,
    /// Command that writes the page.
    command: String,
    /// Machine, versions and date.
    pub machine: String,
    /// Description of the data and the method.
    method: String,
    /// Cells of the table. Each line has one cell for each of [`HEADINGS`].
    pub rows: Vec<Vec<String>>,
    /// Paragraphs, each with a heading, and charts.
    pub notes: Vec<String>,
    /// Explanation of the results.
    legend: String,
}

impl Page {
    /// Creates the page of a measured section.
    pub fn of(part: &Part, section: &Section, machine: &str, plan: &Plan) -> Page {
        let notes = section.found.notes.iter().map(|note| wrapped(note));
        let reps = plan.reps;
        Page {
            title: section.title.into(),
            command: part.command(),
            machine: wrapped(&format!("{machine}.")),
            method: wrapped(&section.method),
            rows: section.found.rows.iter().map(Row::cells).collect(),
            notes: notes.collect(),
            legend: format!(
                "Figures are medians of {reps} repetitions, with the lowest and the highest in parentheses.\n"
            ),
        }
    }

    /// Parses a page. Returns `None` if the text is not a page.
    pub fn parse(text: &str) -> Option<Page> {
        let (title, rest) = text.strip_prefix("# Benchmarks: ")?.split_once('\n')?;
        let (command, rest) = rest.strip_prefix("\nWritten by `")?.split_once('`')?;
        let (_, rest) = rest.split_once("\n\n")?;
        let (machine, rest) = rest.split_once("\n## Method\n\n")?;
        let (method, rest) = rest.split_once("\n## Results\n\n")?;
        let (table, rest) = rest.split_once("\n\n")?;
        let (legend, notes) = rest.split_once("\n## Analysis\n\n")?;
        let cells = |line: &str| -> Vec<String> {
            let line = line.strip_prefix("| ").unwrap_or(line);
            let line = line.strip_suffix(" |").unwrap_or(line);
            line.split(" | ").map(str::to_owned).collect()
        };
        let rows = table.lines().skip(2).map(cells).collect();
        let mut parts: Vec<String> = Vec::new();
        for line in notes.split_inclusive('\n') {
            if line.starts_with("### ") || line.starts_with("![") {
                parts.push(String::new());
            }
            parts.last_mut()?.push_str(line);
        }
        let notes = parts.iter().map(|part| format!("{}\n", part.trim_end()));
        Some(Page {
            title: title.into(),
            command: command.into(),
            machine: machine.into(),
            method: method.into(),
            rows,
            notes: notes.collect(),
            legend: legend.into(),
        })
    }

    /// Returns the text of the page.
    pub fn markdown(&self) -> String {
        let Page {
            title,
            command,
            machine,
            method,
            legend,
            ..
        } = self;
        let head = [HEADINGS.map(str::to_owned).to_vec()];
        let mut lines = head
            .iter()
            .chain(&self.rows)
            .map(|cells| format!("| {} |", cells.join(" | ")));
        let head = lines.next().unwrap_or_default();
        let rule = "---|".repeat(HEADINGS.len());
        let rows: Vec<String> = lines.collect();
        let (rows, notes) = (rows.join("\n"), self.notes.join("\n"));
        format!(
            "# Benchmarks: {title}\n\nWritten by `{command}`. [Benchmarks](../benchmarks.md) has the headline results.\n\n{machine}\n## Method\n\n{method}\n## Results\n\n{head}\n|{rule}\n{rows}\n\n{legend}\n\
             ## Analysis\n\n{notes}"
        )
    }

    /// Merges a run of a part of the section: replaces the rows and paragraphs with the same names.
    pub fn merge(&mut self, part: Page, piece: &str) {
        replace(&mut self.rows, part.rows, |row| row[..3].join("|"));
        replace(&mut self.notes, part.notes, |note| {
            note.lines().next().unwrap_or_default().to_owned()
        });
        self.machine = with_run(&self.machine, piece, &part.machine);
    }
}

/// Returns the machines of a page after a run of a piece, which replaces an earlier run of the same
/// piece. Names the run only if it differs from that of the whole page.
fn with_run(machines: &str, piece: &str, machine: &str) -> String {
    let [machines, machine] = [machines, machine].map(|text| {
        let words: Vec<&str> = text.split_whitespace().collect();
        words.join(" ").trim_end_matches('.').to_owned()
    });
    // Each run except the first begins with the name of its piece. A run may contain semicolons.
    let mut runs: Vec<(&str, String)> = Vec::new();
    for part in machines.split("; ") {
        let name = part.split_once(": ").map_or("", |(name, _)| name);
        match runs.last_mut() {
            Some((_, run)) if name.is_empty() || name.contains(' ') => *run += &format!("; {part}"),
            _ => runs.push((name, part.to_owned())),
        }
    }
    runs.retain(|(name, _)| !name.eq_ignore_ascii_case(piece));
    let whole = runs[0].1.clone();
    if machine != whole {
        // If only the date differs, the date is enough.
        let day = (machine.rsplit_once(", ")).filter(|(same, _)| whole.starts_with(same));
        let day = day.map_or(&machine[..], |(_, day)| day);
        runs.push((piece, format!("{piece}: {day}")));
    }
    let runs: Vec<String> = runs.into_iter().map(|(_, run)| run).collect();
    wrapped(&format!("{}.", runs.join("; ")))
}

/// Replaces old items with new items of the same names. Inserts new names after the last replaced
/// item.
fn replace<T>(old: &mut Vec<T>, new: Vec<T>, name: impl Fn(&T) -> String) {
    let names: Vec<String> = new.iter().map(&name).collect();
    let at = old.iter().position(|one| names.contains(&name(one)));
    old.retain(|one| !names.contains(&name(one)));
    let at = at.unwrap_or(old.len());
    old.splice(at..at, new);
}

/// Wraps paragraphs at [`WIDTH`] characters. Does not change headings, tables, pictures and
/// indented commands.
pub fn wrapped(text: &str) -> String {
    let fixed = |line: &str| line.is_empty() || line.starts_with([' ', '|', '#', '!']);
    let (mut out, mut words) = (String::new(), Vec::new());
    for line in text.trim().lines().chain([""]) {
        if !fixed(line) {
            words.extend(line.split_whitespace());
            continue;
        }
        fill(&mut out, &words);
        words.clear();
        out += line;
        out.push('\n');
    }
    out.trim_end().to_owned() + "\n"
}

/// Adds a paragraph of these words. Keeps a number on the same line as the next word, which is its
/// unit or its next digits.
fn fill(out: &mut String, words: &[&str]) {
    let ends_in_digit = |word: &str| word.ends_with(|c: char| c.is_ascii_digit());
    let mut length = 0;
    for group in words.chunk_by(|one, _| ends_in_digit(one)) {
        let group = group.join(" ");
        let long = group.chars().count();
        if length > 0 {
            let is_full = length + 1 + long > WIDTH;
            out.push(if is_full { '\n' } else { ' ' });
            length = if is_full { 0 } else { length + 1 };
        }
        out.push_str(&group);
        length += long;
    }
    if length > 0 {
        out.push('\n');
    }
}

/// Writes the page of a section and its charts into the folder.
///
/// # Panics
/// Panics if a file cannot be written.
pub fn write(folder: &Path, part: &Part, page: &Page, charts: &[Chart]) {
    fs::create_dir_all(folder).expect("docs/benchmarks can be made");
    fs::write(part.file(folder), page.markdown()).expect("a page can be written");
    for chart in charts {
        let file = folder.join(chart.name).with_extension("svg");
        fs::write(file, chart.svg()).expect("a chart can be written");
    }
}

/// Reads the page of a section. Returns `None` if there is no page.
///
/// # Panics
/// Panics if the file is not a page.
pub fn read(folder: &Path, part: &Part) -> Option<Page> {
    let file = part.file(folder);
    let text = fs::read_to_string(&file).ok()?;
    Some(
        Page::parse(&text)
            .unwrap_or_else(|| panic!("{} is a page that was written", file.display())),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Findings;
    use crate::targets::{self, ALL};
    use crate::{PARTS, root};

    fn plan() -> Plan {
        Plan {
            quick: false,
            reps: 3,
            seed: 1,
            scale: None,
            piece: None,
        }
    }

    fn page(notes: &[&str], rows: &[[&str; 3]]) -> Page {
        let mut found = Findings::default();
        for row in rows {
            crate::report::table! { found; row[0], row[1], "–", row[2], "", 4.0, targets::TOGGLE; }
        }
        found.notes = notes.iter().map(|&note| note.into()).collect();
        let section = Section {
            title: "TAGS",
            method: "Method.".into(),
            found,
        };
        Page::of(&PARTS[3], &section, "a machine, a day", &plan())
    }

    #[test]
    fn a_page_is_read_as_it_was_written() {
        let notes = [
            "### T1\nText.\n\n    command",
            "![a chart](a.svg)",
            "### T2\nMore.\n\n| a | b |\n|---|---|\n| 1 | 2 |",
        ];
        let page = page(&notes, &[["T1", "one", "1 ns"], ["", "two", "2 ns"]]);
        assert_eq!(page.rows[1][6..], ["≤ 10 µs", "met"]);
        assert_eq!(Page::parse(&page.markdown()), Some(page));
    }

    #[test]
    fn a_part_replaces_its_rows_and_paragraphs_and_no_others() {
        let rows = [
            ["T1", "one", "1 ns"],
            ["T2", "two", "2 ns"],
            ["T2", "two", "3 ns"],
            ["", "three", "4 ns"],
        ];
        let mut all = page(&["### T1\nOld.", "### T2\nOld.", "### T3\nOld."], &rows);
        let part = page(
            &["### T2\nNew.", "### T4\nNew."],
            &[["T2", "two", "5 ns"], ["T2", "two", "6 ns"]],
        );
        all.merge(part, "T2");
        let ours: Vec<&str> = all.rows.iter().map(|row| &row[3][..]).collect();
        assert_eq!(ours, ["1 ns", "5 ns", "6 ns", "4 ns"]);
        assert_eq!(
            all.notes,
            [
                "### T1\nOld.\n",
                "### T2\nNew.\n",
                "### T4\nNew.\n",
                "### T3\nOld.\n"
            ]
        );
        assert_eq!(all.machine, "a machine, a day.\n");
    }

    #[test]
    fn only_the_last_run_of_a_piece_is_named_and_only_if_it_differs() {
        let whole = "AMD EPYC (2 cores), Redis 7.0.15, module 0.2.0 in release build, 2026-11-29";
        let [same, busy] = [
            whole.replace("29", "30"),
            whole.replace("29", "30; **other programs used 9 % of the machine**"),
        ];
        let other = "AMD EPYC (2 cores), Valkey 9.1.2, module 0.2.0 in release build, 2026-11-30";
        let mut machines = wrapped(&format!("{whole}."));
        for (piece, run, expected) in [
            ("C0", &same[..], "; C0: 2026-11-30"),
            (
                "K1",
                &busy,
                "; C0: 2026-11-30; K1: 2026-11-30; **other programs used 9 % of the machine**",
            ),
            (
                "C0",
                other,
                &format!(
                    "; K1: 2026-11-30; **other programs used 9 % of the machine**; C0: {other}"
                ),
            ),
            ("k1", &same, &format!("; C0: {other}; k1: 2026-11-30")),
            ("C0", whole, "; k1: 2026-11-30"),
            ("K1", whole, ""),
        ] {
            machines = with_run(&machines, piece, &wrapped(&format!("{run}.")));
            assert_eq!(machines, wrapped(&format!("{whole}{expected}.")), "{piece}");
        }
    }

    #[test]
    fn prose_is_filled_and_a_number_stays_with_its_unit() {
        let words = "word ".repeat(21) + "1 000 000 hashes\n\n    a   command\n| a | table |\n";
        let expected = "word ".repeat(21).trim_end().to_owned()
            + "\n1 000 000 hashes\n\n    a   command\n| a | table |\n";
        assert_eq!(wrapped(&words), expected);
        assert_eq!(wrapped(&expected), expected);
    }

    #[test]
    fn pages_of_the_repository_are_as_they_are_written() {
        let folder = root().join("docs/benchmarks");
        let mut names = Vec::new();
        for part in PARTS {
            let file = part.file(&folder);
            let text = fs::read_to_string(&file).expect("a page for each section");
            let page = Page::parse(&text).unwrap_or_else(|| panic!("{} is a page", file.display()));
            let again = page.markdown();
            assert!(
                again.lines().eq(text.lines()),
                "{} is as it is written",
                file.display()
            );
            assert_eq!(page.command, part.command());
            for prose in page.notes.iter().chain([&page.machine, &page.method]) {
                assert_eq!(wrapped(prose), *prose, "{}", file.display());
            }
            for row in &page.rows {
                assert_eq!(row.len(), HEADINGS.len(), "{row:?}");
                // Every row must have a target that the table lists for the id of the row.
                let target = (&row[0][..], &row[6][..]);
                let is_one = ALL
                    .iter()
                    .any(|(id, goal)| (*id, &goal.text()[..]) == target);
                assert!(is_one || row[6] == "–", "no such target: {row:?}");
                assert_eq!(row[7] == "–", row[6] == "–", "{row:?}");
            }
            for title in page
                .notes
                .iter()
                .filter_map(|note| note.strip_prefix("### "))
            {
                let title = title.lines().next().unwrap_or_default();
                names.push(format!("{}: {title}", part.page));
            }
        }
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count, "headings of a page differ");
        let there = fs::read_dir(&folder).expect("docs/benchmarks");
        let there = there.filter(|entry| {
            entry
                .as_ref()
                .is_ok_and(|entry| entry.path().extension().is_some_and(|e| e == "md"))
        });
        assert_eq!(there.count(), PARTS.len(), "no page without a section");
    }
}
