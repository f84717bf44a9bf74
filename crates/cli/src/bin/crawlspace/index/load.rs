//! Loads job indexes into a dedupe index.

use std::io;

use crawlspace_client::dedupe::Index;
use crawlspace_jobs::load::{CrawlName, Error, Loaded, Outcome, lines_of, load};
use crawlspace_jobs::{
    self, Index as JobIndex, IndexCaches, IndexKind, IndexRequestClient, JobId, JobSet, Work,
};
use serde::Serialize;

use crate::table::{Table, count, many};
use crate::terminal::complain;

/// Source of the indexes.
pub(super) enum Source {
    Caches(Box<IndexCaches>),
    Server(Box<IndexRequestClient>),
}

impl Source {
    pub(super) fn get(
        &self,
        kind: IndexKind,
        jobs: &JobSet,
        work: &Work,
    ) -> Result<JobIndex, crawlspace_jobs::Error> {
        match self {
            Source::Caches(caches) => caches.get_index(kind, jobs, work),
            Source::Server(client) => client.get_index(kind, jobs, work),
        }
    }
}

/// Target: a dedupe index.
pub(super) struct Into<'a> {
    pub url: &'a str,
    pub prefix: &'a [u8],
    pub name: &'a CrawlName,
}

/// A dedupe index whose server answers.
pub(super) struct Open<'a> {
    index: Index,
    name: &'a CrawlName,
}

/// Results for the jobs.
#[derive(Serialize)]
pub(super) struct Outcomes {
    jobs: Vec<Loaded>,
    failed: Vec<Failed>,
    #[serde(skip)]
    stopped: bool,
}

/// A job that was not loaded.
#[derive(Serialize)]
struct Failed {
    job: u64,
    why: String,
}

impl<'a> Into<'a> {
    pub(super) fn open(self) -> Result<Open<'a>, crawlspace_client::Error> {
        let index = Index::open(self.url, self.prefix)?;
        // Fails if the server lacks the module or refuses access.
        index.profile()?;
        Ok(Open {
            index,
            name: self.name,
        })
    }
}

impl Open<'_> {
    /// Loads the jobs one after the other, in ascending order: the first job that has a payload
    /// owns it.
    pub(super) fn load(
        &self,
        source: &Source,
        kind: IndexKind,
        jobs: &JobSet,
        work: &Work,
    ) -> Outcomes {
        let mut outcomes = Outcomes {
            jobs: Vec::new(),
            failed: Vec::new(),
            stopped: false,
        };
        for job in jobs.iter() {
            match self.job(source, kind, job, work) {
                Ok(loaded) => outcomes.jobs.push(loaded),
                Err(Error::Cache(crawlspace_jobs::Error::Cancelled)) => {
                    outcomes.stopped = true;
                    break;
                }
                Err(error) => {
                    let is_hopeless =
                        matches!(&error, Error::Index(error) if error.is_connection());
                    outcomes.failed.push(Failed {
                        job: job.0,
                        why: error.to_string(),
                    });
                    if is_hopeless {
                        break;
                    }
                }
            }
        }
        outcomes
    }

    fn job(
        &self,
        source: &Source,
        kind: IndexKind,
        job: JobId,
        work: &Work,
    ) -> Result<Loaded, Error> {
        let index = source.get(kind, &[job].into_iter().collect(), work)?;
        if let Some(missing) = index.missing.first() {
            return Err(Error::Crawl(missing.why.to_string()));
        }
        let lines = lines_of(index.entry.path());
        load(&self.index, self.name, job, &*lines, work)
    }
}

impl Outcomes {
    pub(super) fn are_complete(&self) -> bool {
        self.failed.is_empty() && !self.stopped
    }

    /// Prints the jobs loaded, and the jobs not loaded with the reasons.
    pub(super) fn tell(&self, json: bool) -> io::Result<()> {
        if !json {
            self.print()?;
        }
        for loaded in &self.jobs {
            let (job, skipped) = (loaded.job, &loaded.skipped);
            if skipped.nowhere > 0 {
                complain(format_args!(
                    "job {job}: {} not loaded, because the index has no position for them",
                    many(skipped.nowhere, "capture")
                ));
            }
            if skipped.bad > 0 {
                complain(format_args!(
                    "job {job}: {} not loaded; among them {}",
                    many(skipped.bad, "line"),
                    skipped.examples.join("; ")
                ));
            }
        }
        for failed in &self.failed {
            complain(format_args!(
                "job {}: not loaded: {}",
                failed.job, failed.why
            ));
        }
        if self.stopped {
            complain(crawlspace_jobs::Error::Cancelled);
        }
        Ok(())
    }

    fn print(&self) -> io::Result<()> {
        let mut table = Table::new(&many(self.jobs.len() as u64, "job"), 10)?;
        let of = |outcome: Outcome| self.jobs.iter().filter(move |job| job.outcome == outcome);
        let sum = |value: fn(&Loaded) -> u64| self.jobs.iter().map(value).sum::<u64>();
        let committed = of(Outcome::Committed).count() as u64;
        let new = format!("now, with {} new hashes", count(sum(|job| job.hashes.new)));
        table.row("committed", count(committed), &new)?;
        let known = of(Outcome::Known).count() as u64;
        if known > 0 {
            table.row("known", count(known), "already committed, and unchanged")?;
        }
        let nothing = of(Outcome::Nothing).count() as u64;
        if nothing > 0 {
            table.row("empty", count(nothing), "have nothing that can be loaded")?;
        }
        table.row("records", count(sum(|job| job.records)), "")?;
        if !self.failed.is_empty() {
            table.row("failed", count(self.failed.len() as u64), "")?;
        }
        table.end()
    }
}
