//! Output of a mirror's events, for people or programs.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use crawlspace_cli::mirror::{Difference, Event, Loaded};
use serde_json::json;

use crate::table::{count, duration, json};
use crate::terminal::{plain, shown, text};

/// Prints results on standard output, errors and progress on standard error.
pub(super) struct Output {
    json: bool,
    progress: bool,
    /// True while a progress line is on the terminal.
    open: bool,
}

impl Output {
    pub(super) fn new(json: bool) -> Output {
        Output {
            json,
            progress: !json && io::stderr().is_terminal(),
            open: false,
        }
    }

    pub(super) fn tell(&mut self, event: &Event<'_>) -> io::Result<()> {
        if let Event::Staged(ids) = event {
            if self.progress {
                eprint!("\r{} ids read", count(*ids));
                self.open = true;
            }
            return Ok(());
        }
        self.end()?;
        if self.json {
            return print(&json(&as_json(event))?);
        }
        match event {
            Event::Loaded(Loaded { ids, tags, ms }) => {
                let (ids, tags, time) = (count(*ids), count(*tags), duration(*ms));
                print(&format!("loaded {ids} ids with {tags} tags in {time}\n"))
            }
            Event::Changed { id, tags } => {
                let line = format!("{} -> {}", text(id), text(tags));
                print(&format!("{}\n", line.trim_end_matches(' ')))
            }
            Event::Refused(reason) => trouble(&format!("not written: {reason}")),
            Event::Waiting(error) => trouble(&format!("{error}; waiting until it ends")),
            Event::Trouble { error, pause } => {
                let pause = duration(millis(*pause));
                trouble(&format!("{error}; trying again in {pause}"))
            }
            _ => Ok(()),
        }
    }

    /// Prints the differences, one id per line, and their number.
    pub(super) fn differences(&self, difference: &Difference) -> io::Result<()> {
        let mut out = io::BufWriter::new(io::stdout().lock());
        let (mut added, mut removed, mut changed) = (0u64, 0u64, 0u64);
        for change in &difference.changes {
            let id = text(&change.id);
            let tags = |tags: &Option<Vec<u8>>| text(tags.as_deref().unwrap_or_default());
            let (old, new) = (tags(&change.old), tags(&change.new));
            let line = match (&change.old, &change.new) {
                (None, _) => {
                    added += 1;
                    format!("+ {id} {new}")
                }
                (_, None) => {
                    removed += 1;
                    format!("- {id} {old}")
                }
                _ => {
                    changed += 1;
                    format!("~ {id} {old} -> {new}")
                }
            };
            if self.json {
                out.write_all(json(change)?.as_bytes())?;
            } else {
                writeln!(out, "{line}")?;
            }
        }
        let same = difference.same;
        if self.json {
            let totals =
                json!({"added": added, "removed": removed, "changed": changed, "same": same});
            writeln!(out, "{totals}")?;
        } else {
            let [added, removed, changed, same] = [added, removed, changed, same].map(count);
            writeln!(
                out,
                "{added} to add, {removed} to remove, {changed} to change, {same} unchanged"
            )?;
        }
        out.flush()
    }

    /// Clears the progress line from the terminal.
    pub(super) fn end(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.open) {
            eprint!("\r\x1b[K");
        }
        Ok(())
    }
}

fn as_json(event: &Event<'_>) -> serde_json::Value {
    match event {
        Event::Loaded(Loaded { ids, tags, ms }) => {
            json!({"event": "loaded", "ids": ids, "tags": tags, "ms": ms})
        }
        Event::Changed { id, tags } => {
            json!({"event": "changed", "id": plain(id), "tags": plain(tags)})
        }
        Event::Refused(reason) => json!({"event": "refused", "reason": reason}),
        Event::Waiting(error) => json!({"event": "waiting", "reason": error.to_string()}),
        Event::Trouble { error, pause } => {
            json!({"event": "trouble", "error": error.to_string(), "retryMs": millis(*pause)})
        }
        other => json!({"event": format!("{other:?}")}),
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Prints and flushes, so that a file to which the output is redirected is complete immediately.
pub(super) fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

fn trouble(text: &str) -> io::Result<()> {
    writeln!(io::stderr(), "crawlspace: {}", shown(text))
}
