//! Progress bar for long work, and its cancellation by a signal.

use std::io::{self, IsTerminal};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use crawlspace_jobs::Work;
use indicatif::{ProgressBar, ProgressStyle};

use crate::stop;
use crate::terminal::shown;

/// Time between two updates.
const INTERVAL: Duration = Duration::from_millis(100);
const KNOWN: &str = "{msg}  {bar:30} {percent:>3} %  {elapsed}, {eta} left";
const UNKNOWN: &str = "{msg}  {spinner} {pos}  {elapsed}";

/// Runs long work, which Ctrl-C and SIGTERM cancel, and shows a progress bar if standard error is a
/// terminal.
pub(crate) fn watched<T>(long: impl FnOnce(&Work) -> T) -> io::Result<T> {
    let stop = stop::on_signal(1)?;
    let work = Work::default();
    let bar = io::stderr().is_terminal().then(|| ProgressBar::new(0));
    let done = thread::scope(|scope| {
        let (end, ended) = channel::<()>();
        let (work, bar) = (&work, &bar);
        scope.spawn(move || {
            let mut shown = Shown::default();
            while ended.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                cancel_if(stop, work);
                if let Some(bar) = bar {
                    shown.on(bar, work);
                }
            }
        });
        let done = long(work);
        drop(end);
        done
    });
    if let Some(bar) = &bar {
        bar.finish_and_clear();
    }
    Ok(done)
}

fn cancel_if(stop: &AtomicBool, work: &Work) {
    if stop.load(Ordering::Relaxed) {
        work.cancel();
    }
}

/// State of the bar.
#[derive(Default)]
struct Shown {
    stage: String,
    total: u64,
}

impl Shown {
    fn on(&mut self, bar: &ProgressBar, work: &Work) {
        let now = work.progress();
        if (&now.stage, now.total) != (&self.stage, self.total) {
            let template = if now.total > 0 { KNOWN } else { UNKNOWN };
            let style = ProgressStyle::with_template(template);
            bar.set_style(style.unwrap_or(ProgressStyle::default_bar()));
            bar.set_length(now.total);
            bar.reset();
            bar.set_message(shown(&now.stage));
            *self = Shown {
                stage: now.stage,
                total: now.total,
            };
        }
        bar.set_position(now.done);
        bar.tick();
    }
}
