//! Workers: each takes packages from a queue until it is empty.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::Work;
use super::failure::Failure;
use super::job::Job;
use super::queue::{Entry, Fate, Left, Queue, Stage, Taken};
use super::report::{Event, Failed, Report};
use super::responses::Small;

/// Shortest and longest interval between checks whether other workers have finished.
const POLL: [Duration; 2] = [Duration::from_millis(20), Duration::from_millis(500)];

/// Maximum number of packages that a worker takes at a time, and that all workers of an importer hold together.
const GROUP: usize = 32;
const MOST: usize = 128;

impl Work<'_> {
    /// Processes everything in the queue, and waits for other importers to finish their packages.
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
        let mut pause = POLL[0];
        let mut reported = None;
        loop {
            if self.is_stopped() || failed.load(Ordering::Relaxed) {
                return Ok(());
            }
            if stage == Stage::Revisits {
                self.count_kept(queue, failed)?;
            }
            match self.take(stage, queue)? {
                Taken::Others(0) => return Ok(()),
                Taken::Others(others) => {
                    if reported != Some(others) {
                        reported = Some(others);
                        self.watch.event(Event::Waiting(others));
                    }
                    thread::sleep(pause);
                    pause = (pause * 2).min(POLL[1]);
                }
                Taken::Packages(entries, unreadable) => {
                    for (name, reason) in unreadable {
                        self.failed(Failed {
                            name: if name.is_empty() {
                                "an entry without a name".to_owned()
                            } else {
                                name
                            },
                            path: String::new(),
                            reason,
                        });
                    }
                    pause = POLL[0];
                    reported = None;
                    self.group(stage, queue, &entries, failed)?;
                }
            }
        }
    }

    fn failed(&self, failed: Failed) {
        self.watch.event(Event::Failed(&failed));
        self.report().failed.push(failed);
    }

    /// Takes packages. Those with cached revisits come first: another importer would have to read them again.
    fn take(&self, stage: Stage, queue: &Queue) -> Result<Taken, crawlspace_client::Error> {
        let jobs = self.import.jobs.max(1);
        if stage == Stage::Responses {
            return queue.take(stage, (MOST / jobs).clamp(1, GROUP), jobs);
        }
        while let Some((package, item)) = self.kept.next() {
            if queue.take_this(stage, &package.name, &item)? {
                let entry = Entry {
                    package: *package,
                    item,
                    run: None,
                    is_alone: false,
                };
                return Ok(Taken::Packages(vec![entry], Vec::new()));
            }
        }
        queue.take(stage, 1, jobs)
    }

    /// Processes packages that were taken, and finishes the small ones together.
    fn group(
        &self,
        stage: Stage,
        queue: &Queue,
        entries: &[Entry],
        failed: &AtomicBool,
    ) -> Result<(), crawlspace_client::Error> {
        let jobs = entries.iter().map(|entry| Job {
            work: self,
            queue,
            package: &entry.package,
            report: Report::default(),
            is_alone: entry.is_alone,
            held: self.guards.hold(queue, stage, &entry.package.name),
            failed,
        });
        let mut jobs: Vec<Job<'_>> = jobs.collect();
        let outcome = self.jobs(stage, queue, entries, &mut jobs);
        for job in &jobs {
            self.guards.let_go(&job.held);
        }
        outcome
    }

    fn jobs(
        &self,
        stage: Stage,
        queue: &Queue,
        entries: &[Entry],
        jobs: &mut [Job<'_>],
    ) -> Result<(), crawlspace_client::Error> {
        let mut small = Vec::new();
        for (at, (job, entry)) in jobs.iter_mut().zip(entries).enumerate() {
            let outcome = match stage {
                Stage::Responses => match job.check().and_then(|()| job.read_whole()) {
                    Ok(whole) if whole.is_small() => match job.read_small(whole) {
                        Ok(read) => {
                            small.push((at, read));
                            continue;
                        }
                        Err(failure) => Err(failure),
                    },
                    Ok(whole) => job.add_responses(entry.run.as_deref(), &whole),
                    Err(failure) => Err(failure),
                },
                Stage::Revisits => job.count_revisits().map(|()| false),
            };
            self.done(stage, queue, vec![(job, &entry.item, outcome)])?;
        }
        let (at, small): (Vec<usize>, Vec<Small>) = small.into_iter().unzip();
        let is_small = |(n, _): &(usize, &mut Job<'_>)| at.contains(n);
        let mut jobs: Vec<&mut Job<'_>> = jobs
            .iter_mut()
            .enumerate()
            .filter(is_small)
            .map(|(_, job)| job)
            .collect();
        let runs = at.iter().map(|&at| entries[at].run.as_deref());
        let packages = jobs.iter().zip(runs).zip(small);
        let packages = packages.map(|((job, run), small)| (&**job, run, small));
        let outcomes = match self.add_small(packages.collect()) {
            Ok(outcomes) => outcomes,
            Err(error) => {
                // Releases the guards, so that the next import need not wait for them to expire.
                for job in &jobs {
                    let _ = queue.drop_guard(stage, &job.package.name);
                }
                return Err(error);
            }
        };
        let items = at.iter().map(|&at| &entries[at].item);
        let done = jobs.iter_mut().zip(items).zip(outcomes);
        let done = done.map(|((job, item), outcome)| (&mut **job, item, outcome));
        self.done(stage, queue, done.collect())
    }

    /// Finishes packages according to their outcomes.
    fn done(
        &self,
        stage: Stage,
        queue: &Queue,
        outcomes: Vec<(&mut Job<'_>, &Vec<u8>, Result<bool, Failure>)>,
    ) -> Result<(), crawlspace_client::Error> {
        let (mut leaving, mut reports, mut reasons) = (Vec::new(), Vec::new(), Vec::new());
        let mut result = Ok(());
        for (job, item, outcome) in outcomes {
            let name = &job.package.name[..];
            let mut reason = None;
            let fate = match outcome {
                Ok(true) => Fate::Next,
                Ok(false) => Fate::Done,
                Err(Failure::Package {
                    reason: why,
                    partly,
                }) => {
                    reason = Some(why);
                    match stage {
                        Stage::Responses => Fate::Failed { partly },
                        Stage::Revisits => Fate::Next,
                    }
                }
                // A later import that lists the package starts over.
                Err(Failure::Gone) => Fate::Failed { partly: false },
                Err(Failure::Lost) => continue,
                Err(Failure::Stopped) => {
                    result = result.and(queue.drop_guard(stage, name));
                    continue;
                }
                Err(Failure::Index(error)) => {
                    // Releases the guard, so that the next import need not wait for it to expire.
                    let _ = queue.drop_guard(stage, name);
                    result = result.and(Err(error));
                    continue;
                }
            };
            leaving.push((name, &item[..], fate));
            reports.push((job.package, std::mem::take(&mut job.report)));
            reasons.push(reason);
        }
        let left = match queue.leave(stage, &leaving) {
            Ok(left) => left,
            Err(error) => return result.and(Err(error)),
        };
        let outcomes = leaving.iter().zip(reports).zip(reasons).zip(&left.own);
        for ((((name, item, fate), (package, mut report)), reason), is_own) in outcomes {
            if *is_own && let Some(reason) = reason {
                let failed = Failed {
                    name: package.name.clone(),
                    path: package.shown_path(),
                    reason,
                };
                self.watch.event(Event::Failed(&failed));
                report.failed.push(failed);
            } else if *is_own && stage == Stage::Responses && !matches!(fate, Fate::Failed { .. }) {
                self.kept.queued(package, item);
                report.imported = 1;
                let records = report.responses + report.revisits;
                self.watch.event(Event::Imported { name, records });
            }
            self.report().add(report);
        }
        if left.own.contains(&true) {
            let Left { left, total, .. } = left;
            self.watch.event(Event::Left { left, total });
        }
        result
    }
}
