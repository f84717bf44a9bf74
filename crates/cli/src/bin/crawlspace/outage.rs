//! Option and messages for a server that is temporarily unavailable.

use std::io::{self, IsTerminal};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use crawlspace_client::Error;
use indicatif::ProgressBar;

use crate::table::duration;
use crate::terminal::{complain, say, shown};
use crate::time;

#[derive(Args)]
pub(crate) struct Wait {
    /// Maximum time to wait for a server that restarts or loads its data.
    #[arg(long, value_name = "SPAN", value_parser = time::span, default_value = "2m")]
    pub(crate) wait: Duration,
}

/// Reports an unavailable server: in the progress bar if there is one, otherwise in one line.
#[derive(Default)]
pub(crate) struct Outage {
    is_known: AtomicBool,
}

impl Outage {
    pub(crate) fn away(&self, bar: Option<&ProgressBar>, error: &Error, left: Duration) {
        let left = duration(left.as_millis() as u64);
        let message = format!("{error}; waiting for the server for another {left}");
        match bar {
            Some(bar) => bar.set_message(shown(&message)),
            None if self.is_known.swap(true, Ordering::Relaxed) => {}
            None => complain(message),
        }
    }

    pub(crate) fn back(&self, bar: Option<&ProgressBar>) {
        self.is_known.store(false, Ordering::Relaxed);
        match bar {
            Some(bar) => bar.set_message("the server is back"),
            None => say("crawlspace: the server is back"),
        }
    }
}

/// Returns a spinner for an outage, or `None` if standard error is not a terminal.
pub(crate) fn spinner() -> Option<ProgressBar> {
    io::stderr().is_terminal().then(ProgressBar::new_spinner)
}
