//! A worker's current package.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::Work;
use super::failure::Failure;
use super::guard::Held;
use super::package::Package;
use super::queue::Queue;
use super::report::Report;
use crawlspace_wacz::{Location, Wacz};

/// A worker's job: one package.
pub(super) struct Job<'a> {
    pub work: &'a Work<'a>,
    pub queue: &'a Queue,
    pub package: &'a Package,
    pub report: Report,
    /// True if the package was the only one of its crawl when it was queued.
    pub is_alone: bool,
    pub held: Arc<Held>,
    /// Set by other workers after an error, which ends all work.
    pub failed: &'a AtomicBool,
}

impl Job<'_> {
    /// Returns an error if the job must not continue.
    pub(super) fn check(&self) -> Result<(), Failure> {
        if self.held.is_lost() {
            return Err(Failure::Lost);
        }
        if self.work.is_stopped() || self.failed.load(Ordering::Relaxed) {
            return Err(Failure::Stopped);
        }
        Ok(())
    }

    pub(crate) fn open(&self) -> Result<Wacz, Failure> {
        let location = Location::parse(&self.package.path)?;
        Ok(Wacz::open(&location, &self.work.import.reading)?)
    }
}
