//! Layout of `crawlspace top`, and its terminal screen.

use std::io;

use console::Term;
use crawlspace_client::dedupe::Storage;

use super::{FrontierView, IndexName, JobView, View};
use crate::columns::{Columns, cut};
use crate::observe;
use crate::table::{bytes, count, duration, share};
use crate::terminal::shown;

/// Maximum number of leases shown per frontier.
pub(super) const EXPIRING: u32 = 3;
/// Width of a bar, in characters.
const BAR: usize = 30;

impl View {
    /// Formats the view as lines.
    pub(super) fn lines(&self, url: &str) -> Vec<String> {
        let rates = self
            .rates
            .iter()
            .map(|(name, rate)| format!("{rate:.0} {name}/s"));
        let hits = self.hit_rate.map_or_else(
            || "no look-ups".to_owned(),
            |part| format!("{:.1} % found", part * 100.0),
        );
        let url = crawlspace_client::server::without_password(url);
        let mut lines = vec![
            format!("{url}  {} in use", bytes(self.memory)),
            format!("{}  ({hits})", rates.collect::<Vec<_>>().join("  ")),
            String::new(),
        ];
        if self.jobs.is_empty() {
            lines.push("no running jobs".to_owned());
        }
        lines.extend(self.jobs.iter().map(JobView::line));
        if !self.frontiers.is_empty() {
            lines.push(String::new());
            lines.extend(self.frontiers());
        }
        if !self.indexes.is_empty() {
            lines.push(String::new());
            lines.extend(self.indexes());
        }
        if self.others > 0 {
            lines.push(format!("and {} more: --limit", count(self.others)));
        }
        lines.iter().map(|line| shown(line)).collect()
    }

    fn frontiers(&self) -> Vec<String> {
        let mut table = Columns::new(
            "frontier | due> | for> | busy> | waiting> | URIs> | known> | workers wait> | leases/s> | expired> | storage",
        );
        for FrontierView {
            db, prefix, info, ..
        } in &self.frontiers
        {
            let oldest = if info.due > 0 {
                duration(info.oldest_ready_ms)
            } else {
                String::new()
            };
            table.row([
                name(*db, prefix, info.paused == "all"),
                count(info.due),
                oldest,
                count(info.groups_busy),
                count(info.groups_waiting),
                count(info.uris),
                count(info.known),
                count(info.waiters),
                count(info.rate_leases),
                count(info.expired),
                info.storage.word().to_owned(),
            ]);
        }
        let mut lines = table.lines();
        let all = self
            .frontiers
            .iter()
            .flat_map(|frontier| &frontier.expiring);
        let mut first: Vec<_> = all.collect();
        first.sort_by_key(|lease| lease.r#in);
        let first =
            first
                .iter()
                .take(EXPIRING as usize)
                .map(|lease| match u64::try_from(lease.r#in) {
                    Ok(left) => format!("{} in {}", lease.chg, duration(left)),
                    Err(_) => format!("{} is over", lease.chg),
                });
        let first: Vec<String> = first.collect();
        if !first.is_empty() {
            lines.push(format!("leases that expire first: {}", first.join(", ")));
        }
        lines
    }

    fn indexes(&self) -> Vec<String> {
        let mut table =
            Columns::new("index | hashes> | crawls> | in progress> | revisits> | saved> | memory>");
        for index in &self.indexes {
            let stats = &index.stats;
            let (IndexName::Prefix(named) | IndexName::Sharded(named)) = &index.name;
            table.row([
                name(index.db, named, false),
                count(stats.hashes),
                count(stats.crawls),
                count(stats.uncommitted),
                share(stats.dupe_urls, stats.total_urls),
                bytes(stats.conserved_size),
                match stats.storage {
                    Storage::Plain => bytes(stats.memory),
                    other => format!("{} {}", bytes(stats.memory), other.word()),
                },
            ]);
        }
        table.lines()
    }
}

impl JobView {
    fn line(&self) -> String {
        let head = format!(
            "{} {} of {}",
            self.work,
            self.of,
            name(self.db, &self.prefix, false)
        );
        if self.total == 0 {
            return format!("{head}: under way");
        }
        let full = (self.done as f64 / self.total as f64 * BAR as f64) as usize;
        let bar = format!(
            "{}{}",
            "#".repeat(full),
            "-".repeat(BAR.saturating_sub(full))
        );
        let part = share(self.done, self.total);
        format!(
            "{head}: [{bar}] {part}, {} of {}",
            count(self.done),
            count(self.total)
        )
    }
}

/// Formats a data set: its prefix, and its database unless it is the usual one.
fn name(db: u32, prefix: &str, paused: bool) -> String {
    let name = observe::shown(db, prefix);
    if paused {
        format!("{name} (paused)")
    } else {
        name
    }
}

/// The alternate screen of the terminal, left when dropped.
pub(super) struct Screen {
    term: Term,
}

impl Screen {
    pub(super) fn open(term: Term) -> io::Result<Screen> {
        term.write_str("\x1b[?1049h")?;
        term.hide_cursor()?;
        Ok(Screen { term })
    }

    /// Draws the lines that fit the screen, each cut to its width.
    pub(super) fn draw(&self, lines: &[String]) -> io::Result<()> {
        let (height, width) = self.term.size();
        let mut text = "\x1b[H".to_owned();
        for (n, line) in lines.iter().take(usize::from(height)).enumerate() {
            if n > 0 {
                text.push_str("\r\n");
            }
            text.push_str(&cut(line, usize::from(width)));
            text.push_str("\x1b[K");
        }
        text.push_str("\x1b[J");
        self.term.write_str(&text)?;
        self.term.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // There is no way to report an error here.
        let _ = self.term.show_cursor();
        let _ = self.term.write_str("\x1b[?1049l");
    }
}
