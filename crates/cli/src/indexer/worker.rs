//! A worker takes packages from a queue until there are none.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::Work;
use super::guard::Held;
use super::package::Package;
use super::queue::{Fate, Queue, Stage, Taken};
use super::report::{Event, Failed, Report};
use crawlspace_archive::wacz::{self, Location, Wacz};
use crawlspace_client::Code;
use crawlspace_client::dedupe::feed::Refused;

/// Between two looks whether others have finished; longer each time.
const PAUSES: [Duration; 2] = [Duration::from_millis(20), Duration::from_millis(500)];

/// Why a package was not finished.
pub(super) enum Failure {
    /// The package is at fault. `partly`: some of its records are in.
    Package { reason: String, partly: bool },
    /// Another importer has it.
    Lost,
    /// The package's crawl was removed since its responses were added.
    Gone,
    /// The import is stopped.
    Stopped,
    /// The index refuses, or cannot be reached.
    Index(crawlspace_client::Error),
}

impl From<wacz::Error> for Failure {
    fn from(error: wacz::Error) -> Failure {
        Failure::Package {
            reason: error.to_string(),
            partly: false,
        }
    }
}

impl From<Refused> for Failure {
    fn from(_: Refused) -> Failure {
        Failure::Stopped
    }
}

impl From<crawlspace_client::Error> for Failure {
    fn from(error: crawlspace_client::Error) -> Failure {
        match error.code() {
            // It is the package's crawl that the server does not take.
            Some(Code::BadCrawl | Code::Removing | Code::Canceled) => Failure::Package {
                reason: error.to_string(),
                partly: false,
            },
            _ => Failure::Index(error),
        }
    }
}

/// A worker at work on one package.
pub(super) struct Job<'a> {
    pub work: &'a Work<'a>,
    pub queue: &'a Queue,
    pub package: &'a Package,
    pub report: &'a mut Report,
    held: Arc<Held>,
    /// What other workers say to this one: nothing goes on after a fault.
    failed: &'a AtomicBool,
}

impl Job<'_> {
    /// Whether to go on.
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

impl Work<'_> {
    /// Works on everything that is queued, and waits for others to finish what they have.
    pub(super) fn all(&self, stage: Stage) -> Result<(), crawlspace_client::Error> {
        let failed = AtomicBool::new(false);
        let workers: Vec<Queue> = (0..self.import.jobs.max(1))
            .map(|number| self.queue.for_worker(number))
            .collect();
        self.guards.begin();
        thread::scope(|scope| {
            scope.spawn(|| self.guards.renew(self.import.lease / 3));
            let workers: Vec<_> = workers
                .iter()
                .map(|queue| {
                    let failed = &failed;
                    scope.spawn(move || {
                        let outcome = self.work(stage, queue, failed);
                        if outcome.is_err() {
                            failed.store(true, Ordering::Relaxed);
                        }
                        outcome
                    })
                })
                .collect();
            let outcomes: Vec<_> = workers
                .into_iter()
                .map(|worker| match worker.join() {
                    Ok(outcome) => outcome,
                    Err(panic) => std::panic::resume_unwind(panic),
                })
                .collect();
            self.guards.end();
            outcomes.into_iter().collect()
        })
    }

    fn work(
        &self,
        stage: Stage,
        queue: &Queue,
        failed: &AtomicBool,
    ) -> Result<(), crawlspace_client::Error> {
        let mut pause = PAUSES[0];
        let mut reported = None;
        loop {
            if self.is_stopped() || failed.load(Ordering::Relaxed) {
                return Ok(());
            }
            match self.take(stage, queue)? {
                Taken::Others(0) => return Ok(()),
                Taken::Others(others) => {
                    if reported != Some(others) {
                        reported = Some(others);
                        self.watch.event(Event::Waiting(others));
                    }
                    thread::sleep(pause);
                    pause = (pause * 2).min(PAUSES[1]);
                }
                Taken::Unreadable(name, reason) => {
                    let failed = Failed {
                        name: if name.is_empty() {
                            "an entry without a name".to_owned()
                        } else {
                            name
                        },
                        path: String::new(),
                        reason,
                    };
                    self.watch.event(Event::Failed(&failed));
                    self.report().failed.push(failed);
                }
                Taken::Package(package, item) => {
                    pause = PAUSES[0];
                    reported = None;
                    self.one(stage, queue, &package, &item, failed)?;
                }
            }
        }
    }

    /// Packages whose revisits need not be read again come first: another importer would have to read them.
    fn take(&self, stage: Stage, queue: &Queue) -> Result<Taken, crawlspace_client::Error> {
        if stage == Stage::Revisits {
            while let Some((package, item)) = self.kept.next() {
                if queue.take_this(stage, &package.name, &item)? {
                    return Ok(Taken::Package(package, item));
                }
            }
        }
        queue.take(stage)
    }

    fn one(
        &self,
        stage: Stage,
        queue: &Queue,
        package: &Package,
        item: &[u8],
        failed: &AtomicBool,
    ) -> Result<(), crawlspace_client::Error> {
        let name = &package.name[..];
        let held = self.guards.hold(queue, stage, name);
        let mut report = Report::default();
        let mut job = Job {
            work: self,
            queue,
            package,
            report: &mut report,
            held: Arc::clone(&held),
            failed,
        };
        let outcome = match stage {
            Stage::Responses => job.add_responses(),
            Stage::Revisits => job.count_revisits().map(|()| false),
        };
        let left = match outcome {
            Ok(has_more) => {
                let fate = if has_more { Fate::Next } else { Fate::Done };
                let left = queue.leave(stage, name, item, fate);
                if stage == Stage::Responses && matches!(left, Ok(true)) {
                    self.kept.queued(package, item);
                    report.imported = 1;
                    let records = report.responses + report.revisits;
                    self.watch.event(Event::Imported { name, records });
                }
                left
            }
            Err(Failure::Package { reason, partly }) => {
                let fate = match stage {
                    Stage::Responses => Fate::Failed { partly },
                    Stage::Revisits => Fate::Next,
                };
                let left = queue.leave(stage, name, item, fate);
                if matches!(left, Ok(true)) {
                    let failed = Failed {
                        name: package.name.clone(),
                        path: package.shown_path(),
                        reason,
                    };
                    self.watch.event(Event::Failed(&failed));
                    report.failed.push(failed);
                }
                left
            }
            Err(Failure::Lost) => Ok(false),
            // Whoever lists it again imports all of it again.
            Err(Failure::Gone) => queue.leave(stage, name, item, Fate::Failed { partly: false }),
            Err(Failure::Stopped) => queue.drop_guard(stage, name).map(|()| false),
            Err(Failure::Index(error)) => {
                // So that the next import need not wait for it to end by itself.
                let _ = queue.drop_guard(stage, name);
                Err(error)
            }
        };
        self.guards.let_go(&held);
        self.report().add(report);
        if left? {
            let (left, total) = queue.left()?;
            self.watch.event(Event::Left { left, total });
        }
        Ok(())
    }
}
