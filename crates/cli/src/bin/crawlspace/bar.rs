//! Progress bar for a job of the server that a command waits for.

use std::io::{self, IsTerminal};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::Server;
use crate::observe::{Job, Name, Observed, database};
use crate::terminal::text;

/// Interval of progress queries.
const INTERVAL: Duration = Duration::from_millis(200);
const TEMPLATE: &str = "{msg}  {bar:30} {percent:>3} %  {elapsed}, {eta} left";

/// Waits for a job on an index or a frontier, and shows a progress bar if standard error is a terminal. A second
/// connection queries the progress; without that connection, or without the permission to query, there is no bar.
pub(crate) fn waited<T>(server: &Server, works: &[&str], long: impl FnOnce() -> T) -> T {
    if !io::stderr().is_terminal() {
        return long();
    }
    let of = Name {
        db: database(&server.redis),
        name: server.prefix.as_bytes().to_vec(),
    };
    thread::scope(|scope| {
        let (end, ended) = channel::<()>();
        scope.spawn(move || {
            let mut observed = Observed::new(&server.redis);
            let mut bar = None;
            while ended.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                let Ok(jobs) = observed.jobs() else { break };
                let ours = |job: &&Job| job.of == of && works.contains(&&job.work[..]);
                if let Some(job) = jobs.iter().find(ours).filter(|job| job.total > 0) {
                    show(bar.get_or_insert_with(|| new_bar(job)), job);
                }
            }
            if let Some(bar) = bar {
                bar.finish_and_clear();
            }
        });
        let done = long();
        drop(end);
        done
    })
}

fn new_bar(job: &Job) -> ProgressBar {
    let bar = ProgressBar::new(job.total);
    let style = ProgressStyle::with_template(TEMPLATE);
    bar.set_style(style.unwrap_or(ProgressStyle::default_bar()));
    bar
}

fn show(bar: &ProgressBar, job: &Job) {
    bar.set_message(format!("{} {}", job.work, text(&job.what)));
    bar.set_length(job.total);
    bar.set_position(job.done);
}
