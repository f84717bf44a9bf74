//! `crawlspace top`: live view of a server's work.

mod screen;

use std::io::{self, IsTerminal, Write};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::Args;
use console::{Key, Term};
use crawlspace_client::dedupe::Stats;
use crawlspace_client::frontier;
use serde::Serialize;

use crate::observe::{Busy, Job, Name, Observation, Observed, ShardedIndexes, Wanted};
use crate::table::print_json;
use crate::terminal::{Bytes, plain};
use crate::time;
use crate::url::redis_url;

/// Show the activity of a server: frontiers and their due groups, the leases that expire next, jobs and their
/// progress, indexes, look-ups.
///
/// On a terminal the view is live: q ends it. Otherwise, and with --once, it is printed once.
#[derive(Args)]
#[command(after_help = "Examples:
  crawlspace top --redis redis://10.0.0.5:6379
  crawlspace top --redis redis://10.0.0.5:6379 --sharded coll-42
  crawlspace top --once --json")]
pub(crate) struct Top {
    /// The server, or one node of a cluster, with the Crawlspace module loaded.
    #[arg(
        long,
        value_name = "URL",
        env = "CRAWLSPACE_REDIS",
        value_parser = redis_url,
        hide_env_values = true,
        default_value = "redis://127.0.0.1:6379/0"
    )]
    redis: String,
    /// Time between two samples; rates are computed over it.
    #[arg(long, value_name = "SPAN", value_parser = time::span, default_value = "1s")]
    interval: Duration,
    /// Maximum number of indexes, and likewise of frontiers and of tag spaces.
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: u16,
    /// The prefix of an index to show even if it was not used; may be given several times.
    #[arg(long = "index", value_name = "PREFIX", value_parser = Bytes::parser())]
    indexes: Vec<Bytes>,
    /// The name of a sharded index, whose shards are shown as one index with their sums; may be given several times.
    #[arg(long, value_name = "NAME", value_parser = Bytes::parser())]
    sharded: Vec<Bytes>,
    /// The prefix of a frontier to show even if it was not used; may be given several times.
    #[arg(long = "frontier", value_name = "PREFIX", value_parser = Bytes::parser())]
    frontiers: Vec<Bytes>,
    /// Print the view once and exit. It takes two samples, --interval apart.
    #[arg(long)]
    once: bool,
    /// Print the result as JSON, one object per sample.
    #[arg(long)]
    json: bool,
}

/// Counters whose growth is shown as a rate, and the name of the rate.
const RATES: [(&str, &str); 6] = [
    ("lookups", "lookups"),
    ("hits", "hits"),
    ("adds", "adds"),
    ("revisits", "revisits"),
    ("chg_leases", "leases"),
    ("chg_expired", "expired"),
];

/// Data shown on the screen.
#[derive(Serialize)]
struct View {
    /// Milliseconds since the epoch.
    time: u64,
    memory: u64,
    /// Events per second since the previous query.
    rates: Vec<(&'static str, f64)>,
    /// Fraction of look-ups with a hit since the previous query; `None` without look-ups.
    hit_rate: Option<f64>,
    jobs: Vec<JobView>,
    frontiers: Vec<FrontierView>,
    indexes: Vec<IndexView>,
    spaces: u64,
    /// Number of indexes and frontiers beyond the limit.
    others: u64,
}

#[derive(Serialize)]
struct JobView {
    db: u32,
    prefix: String,
    work: String,
    of: String,
    done: u64,
    total: u64,
}

#[derive(Serialize)]
struct FrontierView {
    db: u32,
    prefix: String,
    #[serde(flatten)]
    info: frontier::Info,
    /// Groups whose leases expire first.
    expiring: Vec<Expiring>,
}

#[derive(Serialize)]
struct Expiring {
    chg: String,
    /// Milliseconds until the deadline; negative after it.
    r#in: i64,
}

#[derive(Serialize)]
struct IndexView {
    db: u32,
    /// Prefix of the index, or name of a sharded one.
    #[serde(flatten)]
    name: IndexName,
    #[serde(flatten)]
    stats: Stats,
}

/// The name of an index.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum IndexName {
    Prefix(String),
    Sharded(String),
}

impl View {
    fn of(seen: &Observation, before: &Observation, passed: Duration, now: u64) -> View {
        let sum = |of: &Observation, name: &str| of.info.get(name).copied().unwrap_or(0);
        let grown = |name: &str| sum(seen, name).saturating_sub(sum(before, name)) as f64;
        let rate = |&(name, shown): &(&str, &'static str)| {
            (shown, grown(name) / passed.as_secs_f64().max(0.001))
        };
        let lookups = grown("lookups");
        let hit_rate = (lookups > 0.0).then(|| grown("hits") / lookups);
        let place = |name: &Name| (name.db, name.text());
        let job = |job: &Job| {
            let (db, prefix) = place(&job.of);
            JobView {
                db,
                prefix,
                work: job.work.clone(),
                of: plain(&job.what),
                done: job.done,
                total: job.total,
            }
        };
        let expiring = |busy: &Busy| Expiring {
            chg: plain(&busy.chg),
            r#in: busy.until as i64 - now as i64,
        };
        View {
            time: now,
            memory: sum(seen, "used_memory"),
            rates: RATES.iter().map(rate).collect(),
            hit_rate,
            jobs: seen.jobs.iter().map(job).collect(),
            spaces: sum(seen, "tags_spaces"),
            others: seen.indexes.others + seen.frontiers.others,
            frontiers: seen
                .frontiers
                .figures
                .iter()
                .map(|(name, info)| {
                    let (db, prefix) = place(name);
                    let busy = seen.busy.get(name);
                    let expiring = busy.into_iter().flatten().map(expiring).collect();
                    FrontierView {
                        db,
                        prefix,
                        info: info.clone(),
                        expiring,
                    }
                })
                .collect(),
            indexes: seen
                .indexes
                .figures
                .iter()
                .map(|(name, stats)| {
                    let (db, prefix) = place(name);
                    IndexView {
                        db,
                        name: IndexName::Prefix(prefix),
                        stats: stats.clone(),
                    }
                })
                .collect(),
        }
    }
}

/// Returns the time in milliseconds since the epoch.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

impl Top {
    pub(crate) fn run(self) -> io::Result<bool> {
        let wanted = Wanted {
            indexes: self.indexes.clone(),
            frontiers: self.frontiers.clone(),
            sharded: self.sharded.clone(),
            limit: usize::from(self.limit),
            busy: screen::EXPIRING,
            ..Wanted::default()
        };
        let mut observed = Observed::new(&self.redis);
        let mut sharded = ShardedIndexes::new(std::slice::from_ref(&self.redis));
        let before = observed.look(&wanted)?;
        let before = (before, Instant::now());
        if self.once || !io::stdout().is_terminal() || !io::stdin().is_terminal() {
            thread::sleep(self.interval);
            let (view, _) = view(&mut observed, &mut sharded, &wanted, &before)?;
            self.print(&view)?;
            return Ok(true);
        }
        if self.json {
            return self.live(before, |before| {
                let (view, seen) = view(&mut observed, &mut sharded, &wanted, before)?;
                print_json(&view).map(|()| Some(seen))
            });
        }
        let term = Term::stdout();
        let screen = screen::Screen::open(term)?;
        self.live(before, |before| {
            match view(&mut observed, &mut sharded, &wanted, before) {
                Ok((view, seen)) => {
                    screen.draw(&with_keys(view.lines(&self.redis)))?;
                    Ok(Some(seen))
                }
                // The server may come back.
                Err(error) => {
                    screen.draw(&with_keys(vec![error.to_string()]))?;
                    Ok(None)
                }
            }
        })
    }

    fn print(&self, view: &View) -> io::Result<()> {
        if self.json {
            return print_json(view);
        }
        let mut out = io::stdout().lock();
        for line in view.lines(&self.redis) {
            writeln!(out, "{}", line.trim_end())?;
        }
        out.flush()
    }

    /// Refreshes the screen until the user types q.
    fn live(
        &self,
        mut before: (Observation, Instant),
        mut look: impl FnMut(&(Observation, Instant)) -> io::Result<Option<(Observation, Instant)>>,
    ) -> io::Result<bool> {
        let (send, typed) = channel();
        thread::spawn(move || {
            let term = Term::stdout();
            while let Ok(key) = term.read_key() {
                let ends = matches!(key, Key::Char('q' | 'Q') | Key::Escape | Key::CtrlC);
                if ends && send.send(()).is_err() {
                    break;
                }
            }
        });
        loop {
            if let Some(seen) = look(&before)? {
                before = seen;
            }
            match typed.recv_timeout(self.interval) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(()) | Err(RecvTimeoutError::Disconnected) => return Ok(true),
            }
        }
    }
}

/// Appends the key bindings to the first line.
fn with_keys(mut lines: Vec<String>) -> Vec<String> {
    lines[0] += "  (q: quit)";
    lines
}

/// Queries the server and computes the view; also returns the counters to compare the next query with.
fn view(
    observed: &mut Observed,
    sharded: &mut ShardedIndexes,
    wanted: &Wanted,
    (before, at): &(Observation, Instant),
) -> io::Result<(View, (Observation, Instant))> {
    let seen = observed.look(wanted)?;
    let looked = Instant::now();
    let mut view = View::of(&seen, before, looked - *at, now());
    for name in &wanted.sharded {
        let (name, stats) = sharded.stats(name)?;
        view.indexes.push(IndexView {
            db: name.db,
            name: IndexName::Sharded(name.text()),
            stats,
        });
    }
    Ok((view, (seen, looked)))
}
