//! A worker: leases a host, fetches a page from it, stores the page, adds its links, and releases the host.
//! It does not know the other workers, and has neither a queue nor a clock.

use redis_tests::with;
use std::collections::HashMap;
use std::error::Error;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crawlspace_client::Code;
use crawlspace_client::frontier::{Facts, Fetched, Frontier, Lease, Next, Uri, Wait};

use crate::archive::Archive;
use crate::hosts::Hosts;
use crate::http::{self, HttpResponse};

/// Minimum pause between two fetches from a host that requests none.
pub const LEAST_PAUSE: Duration = Duration::from_millis(50);
/// Lease of a worker; a worker that is silent for longer is considered dead.
pub const LEASE: Duration = Duration::from_secs(3);

/// State shared by all workers.
pub struct Crawl {
    /// Name of the crawl in the frontier.
    pub execution: &'static [u8],
    /// Host names and their servers.
    pub hosts: Hosts,
    /// Delays requested in the hosts' robots.txt.
    pub delays: Mutex<HashMap<String, Duration>>,
}

/// A worker with its own connections.
pub struct Worker<'a> {
    /// State shared with the other workers.
    pub crawl: &'a Crawl,
    /// Frontier, which decides which host may be fetched.
    pub frontier: Frontier,
    /// Archive for fetched pages.
    pub archive: Archive,
    /// Connection to the set of discovered URLs: an ordinary set on the same server.
    pub found: redis::Connection,
    /// Number of leases after which the worker dies, if it does.
    pub dies_after: Option<u32>,
}

impl Worker<'_> {
    /// Works until the queue is empty. Returns the number of pages fetched.
    pub fn run(&mut self) -> Result<u32, Box<dyn Error>> {
        let next = with!(Next, lease: Some(LEASE), wait: Wait::UpTo(Duration::from_millis(300)));
        let mut fetched = 0;
        let mut lease = self.frontier.next(&next)?.pop();
        loop {
            let Some(held) = lease else {
                if self.frontier.info()?.uris == 0 {
                    return Ok(fetched);
                }
                lease = self.frontier.next(&next)?.pop();
                continue;
            };
            if self.dies_after == Some(fetched) {
                return Ok(fetched);
            }
            let (facts, done) = self.fetch(&held)?;
            let outcome = if done { held.done() } else { Fetched::Retry(0) };
            fetched += 1;
            // One round trip releases the host and leases the next one.
            lease = match self
                .frontier
                .release_and_next(&held, &facts.into(), &outcome, &next)
            {
                Ok((_, lease)) => lease,
                // The lease expired: another worker has that page now.
                Err(error) if error.code() == Some(Code::Stale) => self.frontier.next(&next)?.pop(),
                Err(error) => return Err(error.into()),
            };
        }
    }

    /// Fetches the leased page. Returns the facts from which the pause is computed, and true if the URI is
    /// finished.
    fn fetch(&mut self, lease: &Lease) -> Result<(Facts, bool), Box<dyn Error>> {
        let host = String::from_utf8_lossy(&lease.chg).into_owned();
        let url = String::from_utf8_lossy(lease.uri.as_deref().unwrap_or_default()).into_owned();
        let server = self
            .crawl
            .hosts
            .resolve(&host)
            .ok_or("the host does not exist")?;
        let begun = Instant::now();
        let answer = http::get(server, &url)?;
        let mut facts = Facts {
            elapsed: begun.elapsed(),
            factor: Some(2.0),
            min: Some(LEAST_PAUSE),
            status: Some(answer.status),
            ..Facts::default()
        };
        let overloaded = answer.status == 503;
        if overloaded {
            let seconds = answer
                .field("Retry-After")
                .and_then(|seconds| seconds.parse().ok());
            facts.retry_after = seconds.map(Duration::from_secs);
        } else {
            if url.ends_with("/robots.txt") {
                self.heed(&host, &answer);
            }
            self.archive.store(&url, &answer)?;
            self.add(&answer.links(&url), 2)?;
        }
        let delays = self
            .crawl
            .delays
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        facts.crawl_delay = delays.get(&host).copied();
        Ok((facts, !overloaded))
    }

    fn heed(&self, host: &str, robots: &HttpResponse) {
        let text = String::from_utf8_lossy(&robots.body);
        let mut delays = text
            .lines()
            .filter_map(|line| line.strip_prefix("Crawl-delay:"));
        if let Some(seconds) = delays
            .next()
            .and_then(|seconds| seconds.trim().parse().ok())
        {
            let mut known = self
                .crawl
                .delays
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            known.insert(host.to_owned(), Duration::from_secs_f64(seconds));
        }
    }

    /// Adds URLs that were not discovered before. They are added to the frontier before they are recorded as
    /// discovered: if this worker dies in between, another worker adds them again, which counts once.
    pub fn add(&mut self, urls: &[String], depth: u32) -> Result<(), Box<dyn Error>> {
        if urls.is_empty() {
            return Ok(());
        }
        let known: Vec<bool> = redis::cmd("SMISMEMBER")
            .arg("found")
            .arg(urls)
            .query(&mut self.found)?;
        let new: Vec<&String> = urls
            .iter()
            .zip(known)
            .filter(|(_, known)| !known)
            .map(|(url, _)| url)
            .collect();
        let mut uris = Vec::new();
        let mut hosts: Vec<(&str, String)> = Vec::new();
        for url in &new {
            let Some((host, _)) = http::parts(url) else {
                continue;
            };
            if !hosts.iter().any(|(known, _)| *known == host) {
                hosts.push((host, format!("http://{host}/robots.txt")));
            }
            uris.push(Uri {
                chg: host.as_bytes(),
                at: 0,
                depth,
                uri: url.as_bytes(),
            });
        }
        let mut robots = Vec::new();
        for (host, url) in &hosts {
            let Some(server) = self.crawl.hosts.resolve(host) else {
                continue;
            };
            let known: bool = redis::cmd("SISMEMBER")
                .arg("found")
                .arg(url)
                .query(&mut self.found)?;
            if !known {
                // Hosts of the same server share one pause. Fetch the robots.txt of a new host first.
                self.frontier
                    .share_gate(server.to_string().as_bytes(), &[host.as_bytes()])?;
                robots.push(Uri {
                    chg: host.as_bytes(),
                    at: 0,
                    depth: 0,
                    uri: url.as_bytes(),
                });
            }
        }
        uris.splice(0..0, robots.iter().copied());
        self.frontier.add_uris(self.crawl.execution, None, &uris)?;
        let mut found = redis::cmd("SADD");
        found.arg("found");
        for uri in &uris {
            found.arg(uri.uri);
        }
        if !uris.is_empty() {
            found.exec(&mut self.found)?;
        }
        Ok(())
    }
}
