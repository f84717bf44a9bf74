//! Second stage: counts revisits and redundant responses once all originals are in the index.

use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};

use super::Work;
use super::deferred::{Deferred, Identity, Records};
use super::failure::Failure;
use super::job::Job;
use super::queue::{Counted, Left, Queue, Redundant, ToCount, broken};
use super::report::Event;
use super::text::for_each_line;
use crawlspace_client::dedupe::Profile;
use crawlspace_client::{Code, Error};
use crawlspace_index::capture::Capture;

/// Records in a batch. Progress is stored as the number of the batch, so this must not change.
const BATCH: usize = 250;
/// Assumed size of a revisit that could replace a response, in bytes; Browsertrix's importer uses the same estimate.
const REVISIT_SIZE: u64 = 1000;
/// Maximum number of attempts for a batch whose originals are removed while it is counted.
const MAX_TRIES: usize = 20;
/// Revisits without an original, in the format in which they are set aside.
#[derive(Serialize, Deserialize)]
struct Aside {
    #[serde(rename = "crawlId")]
    crawl: String,
    /// Hash and size of each.
    revisits: Vec<(String, u64)>,
}

impl Job<'_> {
    pub(crate) fn count_revisits(&mut self) -> Result<(), Failure> {
        let done = self.queue.noted(&self.package.name)?;
        let mut batch = Vec::new();
        let mut number = 0;
        let mut each = |job: &Self, record: Deferred| {
            batch.push(record);
            if batch.len() == BATCH {
                number += 1;
                job.count(done, number, &batch)?;
                batch.clear();
            }
            Ok(())
        };
        match self.work.kept.take(&self.package.name) {
            Some(bytes) => Records::for_each(&bytes, |record| each(self, record))?,
            None => {
                let wacz = self.open()?;
                let above = self.work.redundant_above();
                let mut previous = Vec::new();
                for_each_line(&wacz, |line| {
                    if previous == line {
                        return Ok(());
                    }
                    previous.clear();
                    previous.extend_from_slice(line);
                    match Deferred::of(&Capture::of_line(line), above) {
                        Some(record) => each(self, record),
                        None => Ok(()),
                    }
                })?;
            }
        }
        if !batch.is_empty() {
            self.count(done, number + 1, &batch)?;
        }
        Ok(())
    }

    fn count(&self, done: u64, number: u64, batch: &[Deferred]) -> Result<(), Failure> {
        self.check()?;
        if number <= done {
            return Ok(());
        }
        let package = self.package;
        let redundant = self.work.redundant(&[(&package.crawl, batch)])?[0];
        let revisits = batch.iter().filter(|record| record.response.is_none());
        let revisits: Vec<(&[u8], u64)> = revisits
            .map(|record| (&record.hash[..], record.size))
            .collect();
        // Try without a look-up first, because nearly always all revisits have an original.
        let (mut known, mut unknown) = (revisits.clone(), String::new());
        for _ in 0..MAX_TRIES {
            match self
                .queue
                .count(package, number, &known, &unknown, redundant)
            {
                Ok(Counted::Once) => return Ok(()),
                Ok(Counted::Lost) => return Err(Failure::Lost),
                Ok(Counted::Gone) => return Err(Failure::Gone),
                // A revisit has no original, or its original was removed since the look-up.
                Err(error) if error.code() == Some(Code::NoHash) => {}
                Err(error) => return Err(error.into()),
            }
            (known, unknown) = self.work.divide(&package.crawl, &revisits)?;
        }
        Err(Failure::Package {
            reason: "other clients keep removing originals of its revisits".to_owned(),
            partly: true,
        })
    }
}

/// Number of packages counted in one step.
const GROUP: usize = 32;

/// Hashes with sizes.
type Sized<'a> = Vec<(&'a [u8], u64)>;

impl Work<'_> {
    /// Counts packages whose records this importer has in memory, many per step. Packages with more than one batch, or
    /// with a revisit without original, are left to be counted one by one.
    pub(super) fn count_kept(&self, queue: &Queue, failed: &AtomicBool) -> Result<(), Error> {
        while !self.is_stopped() && !failed.load(Ordering::Relaxed) {
            let mut group = self.kept.group(GROUP);
            if group.is_empty() {
                break;
            }
            let mut records: Vec<Vec<Deferred>> = Vec::new();
            let mut number = 0;
            let mut from = group.len();
            for (at, (_, _, bytes)) in group.iter().enumerate() {
                let mut all = Vec::new();
                let read: Result<(), std::convert::Infallible> =
                    Records::for_each(bytes, |record| {
                        all.push(record);
                        Ok(())
                    });
                let Ok(()) = read;
                number += all.len();
                if number > BATCH && at > 0 {
                    from = at;
                    break;
                }
                records.push(all);
            }
            // The next step counts the other packages.
            let rest = group.split_off(from);
            self.kept.again(rest);
            if records.first().is_some_and(|all| all.len() > BATCH) {
                for (package, item, _) in group {
                    self.kept.give_back(package, item);
                }
                continue;
            }
            let batches: Vec<(&str, &[Deferred])> = group
                .iter()
                .zip(&records)
                .map(|((package, ..), records)| (&package.crawl[..], &records[..]))
                .collect();
            let redundant = self.redundant(&batches)?;
            let packages: Vec<ToCount<'_>> = group
                .iter()
                .zip(&records)
                .zip(redundant)
                .map(|(((package, item, _), records), redundant)| {
                    let revisits = records.iter().filter(|record| record.response.is_none());
                    let revisits = revisits.map(|record| (&record.hash[..], record.size));
                    ToCount {
                        package,
                        item,
                        revisits: revisits.collect(),
                        redundant,
                    }
                })
                .collect();
            let left = queue.count_all(&packages)?;
            drop(packages);
            for ((package, item, _), is_counted) in group.into_iter().zip(&left.own) {
                if *is_counted {
                    self.kept.take(&package.name);
                } else {
                    self.kept.give_back(package, item);
                }
            }
            let Left { left, total, .. } = left;
            self.watch.event(Event::Left { left, total });
        }
        Ok(())
    }

    /// Returns the size in bytes above which responses are checked for redundancy, in the profile of Browsertrix, whose
    /// tools show the total size of redundant responses.
    pub(super) fn redundant_above(&self) -> Option<u64> {
        (self.profile == Profile::Browsertrix).then_some(REVISIT_SIZE)
    }

    /// Returns the responses of crawls that could have been revisits: those whose hash has another record as its
    /// original.
    fn redundant(&self, batches: &[(&str, &[Deferred])]) -> Result<Vec<Redundant>, Error> {
        let is_response = |record: &&Deferred| record.response.is_some();
        let all = batches.iter().flat_map(|(_, batch)| batch.iter());
        let hashes: Vec<&[u8]> = all
            .filter(is_response)
            .map(|record| &record.hash[..])
            .collect();
        if hashes.is_empty() {
            return Ok(vec![Redundant::default(); batches.len()]);
        }
        let mut originals = self.index.lookup(None, &hashes)?.into_iter();
        let of_batch = |(crawl, batch): &(&str, &[Deferred])| {
            let mut redundant = Redundant::default();
            for response in batch.iter().filter(is_response) {
                let original = originals.next().flatten();
                let is_other = original.is_some_and(|original| {
                    let stored = Identity::of(&original.date, &original.url);
                    let is_itself = response.response.is_some_and(|own| own.is_same(stored));
                    original.crawl != crawl.as_bytes() || !is_itself
                });
                if is_other {
                    redundant.urls += 1;
                    redundant.size += response.size.saturating_sub(REVISIT_SIZE);
                }
            }
            redundant
        };
        Ok(batches.iter().map(of_batch).collect())
    }

    /// Separates hashes with an original from hashes without one. Returns the latter in the set-aside format, which is
    /// empty if all hashes have an original.
    fn divide<'a>(
        &self,
        crawl: &str,
        batch: &'a [(impl AsRef<[u8]>, u64)],
    ) -> Result<(Sized<'a>, String), Error> {
        let hashes: Vec<&[u8]> = batch.iter().map(|(hash, _)| hash.as_ref()).collect();
        let found = self.index.lookup(Some(crawl.as_bytes()), &hashes)?;
        let (mut known, mut unknown) = (Vec::new(), Vec::new());
        for ((hash, size), original) in batch.iter().zip(&found) {
            match original {
                Some(_) => known.push((hash.as_ref(), *size)),
                None => {
                    // Digests in indexes are ASCII: others were rejected.
                    let hash = String::from_utf8_lossy(hash.as_ref()).into_owned();
                    unknown.push((hash, *size));
                }
            }
        }
        if unknown.is_empty() {
            return Ok((known, String::new()));
        }
        let aside = Aside {
            crawl: crawl.to_owned(),
            revisits: unknown,
        };
        let aside = serde_json::to_string(&aside).unwrap_or_default(); // strings and numbers: it cannot fail
        Ok((known, aside))
    }

    /// Counts revisits that this import or an earlier one set aside and that have an original now.
    pub(super) fn settle(&self) -> Result<(), Error> {
        let mut unresolved = 0;
        for name in self.queue.later()? {
            for number in self.queue.later_of(&name)? {
                unresolved += self.settle_batch(&name, &number)?;
            }
        }
        self.report().unresolved = unresolved;
        Ok(())
    }

    /// Settles one batch; returns the number of revisits still without an original.
    fn settle_batch(&self, name: &str, number: &str) -> Result<u64, Error> {
        for _ in 0..MAX_TRIES {
            let Some(was) = self.queue.aside(name, number)? else {
                return Ok(0);
            };
            let Ok(aside) = serde_json::from_str::<Aside>(&was) else {
                return Err(broken(
                    &format!("src:later:{name}"),
                    format!("field {number}"),
                ));
            };
            let crawl = &aside.crawl[..];
            let (known, left) = match self.index.crawl_stats(crawl.as_bytes()) {
                Ok(_) => self.divide(crawl, &aside.revisits)?,
                // The crawl was removed together with its revisits.
                Err(error) if error.code() == Some(Code::NoCrawl) => (Vec::new(), String::new()),
                Err(error) => return Err(error),
            };
            let remaining = if left.is_empty() {
                0
            } else {
                aside.revisits.len() - known.len()
            };
            if left == was {
                return Ok(remaining as u64);
            }
            match self.queue.settle(name, number, &was, &left, crawl, &known) {
                Ok(true) => return Ok(remaining as u64),
                // Another importer settled the batch, or an original was removed: look again.
                Ok(false) => {}
                Err(error) if error.code() == Some(Code::NoHash) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(0)
    }
}
