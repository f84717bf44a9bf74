//! The second stage: revisits and redundant responses are counted, when all originals are in the index.

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

/// Records in a batch. What was counted is noted by the number of the batch.
const BATCH: usize = 250;
/// What a revisit in place of a response is taken to have, in bytes, as Browsertrix's importer estimates it.
const REVISIT_SIZE: u64 = 1000;
/// Maximum number of tries of a batch whose originals go away while it is counted.
const MAX_TRIES: usize = 20;
/// Revisits without an original, as they are put aside.
#[derive(Serialize, Deserialize)]
struct Aside {
    #[serde(rename = "crawlId")]
    crawl: String,
    /// Hash and size.
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
        // Nearly always all of them have an original, and no look-up is needed first.
        let (mut known, mut unknown) = (revisits.clone(), String::new());
        for _ in 0..MAX_TRIES {
            match self
                .queue
                .count(package, number, &known, &unknown, redundant)
            {
                Ok(Counted::Once) => return Ok(()),
                Ok(Counted::Lost) => return Err(Failure::Lost),
                Ok(Counted::Gone) => return Err(Failure::Gone),
                // One has none, or it was removed since we looked.
                Err(error) if error.code() == Some(Code::NoHash) => {}
                Err(error) => return Err(error.into()),
            }
            (known, unknown) = self.work.divide(&package.crawl, &revisits)?;
        }
        Err(Failure::Package {
            reason: "originals of its revisits are being removed all the time".to_owned(),
            partly: true,
        })
    }
}

/// Number of packages that are counted in one step.
const GROUP: usize = 32;

/// Hashes with sizes.
type Sized<'a> = Vec<(&'a [u8], u64)>;

impl Work<'_> {
    /// Counts packages whose records this importer has in memory, many in a step. Those that are more than a batch, or have a
    /// revisit without an original, are left to be counted one by one.
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
            // The rest is for the next step.
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

    /// Responses above this many bytes are looked at for being redundant, in the profile whose tools show their sum.
    pub(super) fn redundant_above(&self) -> Option<u64> {
        (self.profile == Profile::Browsertrix).then_some(REVISIT_SIZE)
    }

    /// Returns the responses of crawls that could have been revisits: those whose hash has another record as its original.
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

    /// Those that have an original, and the others as they are put aside: empty when there are none.
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
                    // Digests in indexes are ASCII: others were not taken.
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

    /// Counts what was put aside, by this import or an earlier one, and has an original now.
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

    /// Gives how many are left.
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
                // It was removed, and its revisits with it.
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
                // Somebody else did it, or an original was removed: look again.
                Ok(false) => {}
                Err(error) if error.code() == Some(Code::NoHash) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(0)
    }
}
