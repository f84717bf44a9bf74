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
use super::token;
use crate::any_index::AnyIndex;
use crawlspace_client::dedupe::{Profile, Reference, Revisited, Revisiting, Sequence, Sharded};
use crawlspace_client::{Batch, Code, Error};
use crawlspace_index::capture::Capture;
use crawlspace_warc::digest::{Algorithm, of};

/// Records in a batch. Progress is stored as the number of the batch, so this must not change.
const BATCH: usize = 250;
/// Assumed size of a revisit that could replace a response, in bytes; Browsertrix's importer uses the same estimate.
const REVISIT_SIZE: u64 = 1000;
/// Maximum number of attempts for a batch whose originals are removed while it is counted.
const MAX_TRIES: usize = 20;
/// Revisits that are counted later, in the format in which they are set aside.
#[derive(Serialize, Deserialize)]
struct Aside {
    #[serde(rename = "crawlId")]
    crawl: String,
    revisits: Vec<SetAside>,
    /// Revisits of a sharded index that are being counted. An importer that finds them must finish counting them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    settling: Option<Settling>,
}

/// Hash and size of a revisit that is set aside.
type SetAside = (String, u64);

/// Revisits that are being counted by calls with a sequence.
#[derive(Serialize, Deserialize)]
struct Settling {
    /// Unique name of the sequence.
    token: String,
    revisits: Vec<SetAside>,
}

impl Aside {
    /// Formats the revisits. Returns an empty string for no revisits.
    fn to_json(&self) -> String {
        if self.revisits.is_empty() && self.settling.is_none() {
            return String::new();
        }
        serde_json::to_string(self).unwrap_or_default() // strings and numbers: it cannot fail
    }
}

/// Revisits of a package that are sent to the shards in one step.
struct ToSend<'a> {
    crawl: &'a str,
    /// Name of the package.
    name: &'a str,
    /// Name and number of the calls.
    writer: String,
    number: u64,
    revisits: &'a [(&'a [u8], u64)],
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
        if let AnyIndex::Sharded(index) = &self.work.index {
            return self.count_in_shards(index, number, &revisits, redundant);
        }
        // Try without a look-up first, because nearly always all revisits have an original.
        let (mut known, mut unknown) = (revisits.clone(), String::new());
        for _ in 0..MAX_TRIES {
            match self
                .queue
                .count(package, number, &known, &unknown, redundant)
            {
                Ok(counted) => return counted.into(),
                // A revisit has no original, or its original was removed since the look-up.
                Err(error) if error.code() == Some(Code::NoHash) => {}
                Err(error) => return Err(error.into()),
            }
            let left;
            (known, left) = self.work.divide(&package.crawl, &revisits)?;
            unknown = aside(&package.crawl, left).to_json();
        }
        Err(Failure::Package {
            reason: "other clients keep removing originals of its revisits".to_owned(),
            partly: true,
        })
    }

    /// Counts a batch in a sharded index. A script can change only one shard, so each shard counts its part by a call
    /// with a sequence, and then a script in the home shard stores that the batch is counted. If a revisit has no
    /// original, the part of its shard is set aside as a whole; [`Work::settle`] counts it. So a repetition sends the
    /// same calls.
    fn count_in_shards(
        &self,
        index: &Sharded,
        number: u64,
        revisits: &[(&[u8], u64)],
        redundant: Redundant,
    ) -> Result<(), Failure> {
        let package = self.package;
        let (name, crawl) = (&package.name[..], &package.crawl[..]);
        let run = match self.queue.ready(number, &[(name, crawl)])?.pop() {
            Some(Ok(run)) => run,
            Some(Err(counted)) => return counted.into(),
            None => return Err(Failure::Lost),
        };
        let to_send = ToSend {
            crawl,
            name,
            writer: writer_of(&run, name),
            number,
            revisits,
        };
        let sent = self.work.send_revisits(index, &[to_send])?;
        let uncounted = sent.into_iter().next().unwrap_or_else(|| Ok(Vec::new()))?;
        let left = uncounted.into_iter().map(|at| set_aside(revisits[at]));
        let left = aside(crawl, left.collect()).to_json();
        let counted = self.queue.count(package, number, &[], &left, redundant)?;
        counted.into()
    }
}

impl From<Counted> for Result<(), Failure> {
    fn from(counted: Counted) -> Result<(), Failure> {
        match counted {
            Counted::Once => Ok(()),
            Counted::Lost => Err(Failure::Lost),
            Counted::Gone => Err(Failure::Gone),
        }
    }
}

/// Returns the name of the sequence that counts the revisits of a package.
fn writer_of(run: &str, name: &str) -> String {
    // The name of a package may be as long as the name of a sequence.
    let name = of(Algorithm::Sha1, name.as_bytes()).text();
    format!("import {run} revisits {BATCH} {name}")
}

/// Returns these revisits in the set-aside format.
fn aside(crawl: &str, revisits: Vec<SetAside>) -> Aside {
    Aside {
        crawl: crawl.to_owned(),
        revisits,
        settling: None,
    }
}

fn set_aside((hash, size): (&[u8], u64)) -> SetAside {
    // Digests in indexes are ASCII: others were rejected.
    (String::from_utf8_lossy(hash).into_owned(), size)
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
            let mut packages: Vec<ToCount<'_>> = group
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
            let is_sent = match &self.index {
                AnyIndex::One(_) => vec![true; packages.len()],
                AnyIndex::Sharded(index) => self.send_kept(index, queue, &packages)?,
            };
            if let AnyIndex::Sharded(_) = &self.index {
                packages.iter_mut().for_each(|one| one.revisits.clear());
            }
            let mut sent = is_sent.iter();
            packages.retain(|_| sent.next() == Some(&true));
            let left = queue.count_all(&packages)?;
            drop(packages);
            let mut own = left.own.iter();
            for ((package, item, _), is_sent) in group.into_iter().zip(is_sent) {
                if is_sent && own.next() == Some(&true) {
                    self.kept.take(&package.name);
                } else {
                    self.kept.give_back(package, item);
                }
            }
            let Left { left, total, own } = left;
            if !own.is_empty() {
                self.watch.event(Event::Left { left, total });
            }
        }
        Ok(())
    }

    /// Sends the revisits of packages to the shards. Returns true for each package whose revisits are all counted.
    /// Other packages must be counted on their own.
    fn send_kept(
        &self,
        index: &Sharded,
        queue: &Queue,
        packages: &[ToCount<'_>],
    ) -> Result<Vec<bool>, Error> {
        let names = packages.iter().map(|one| one.package);
        let names = names.map(|package| (&package.name[..], &package.crawl[..]));
        let ready = queue.ready(1, &names.collect::<Vec<_>>())?;
        let mut is_sent = vec![false; packages.len()];
        let (mut at, mut to_send) = (Vec::new(), Vec::new());
        for (number, (one, run)) in packages.iter().zip(ready).enumerate() {
            if let Ok(run) = run {
                at.push(number);
                to_send.push(ToSend {
                    crawl: &one.package.crawl,
                    name: &one.package.name,
                    writer: writer_of(&run, &one.package.name),
                    number: 1,
                    revisits: &one.revisits,
                });
            }
        }
        for (at, sent) in at.into_iter().zip(self.send_revisits(index, &to_send)?) {
            is_sent[at] = sent.is_ok_and(|uncounted| uncounted.is_empty());
        }
        Ok(is_sent)
    }

    /// Sends revisits to the shards in one round trip. Returns, for each package, the positions of the revisits that
    /// are not counted, because a revisit of the same shard has no original.
    fn send_revisits(
        &self,
        index: &Sharded,
        packages: &[ToSend<'_>],
    ) -> Result<Vec<Result<Vec<usize>, Error>>, Error> {
        let batch = Batch::new();
        let sent = packages.iter().map(|one| {
            let revisiting = Revisiting {
                reference: Reference::Wacz(one.name.as_bytes()),
                sequence: Some(Sequence {
                    writer: one.writer.as_bytes(),
                    number: one.number,
                }),
            };
            let revisited = one.revisits.iter().map(|&(hash, size)| Revisited {
                hash,
                size,
                original: None,
            });
            let revisited: Vec<Revisited<'_>> = revisited.collect();
            index.revisit_in_batch(&batch, one.crawl.as_bytes(), &revisiting, &revisited)
        });
        let sent: Vec<_> = sent.collect();
        batch.send(self.server)?;
        let outcomes = sent.into_iter().map(|parts| {
            let mut uncounted = Vec::new();
            for (positions, reply) in parts {
                match reply.take() {
                    Ok(_) => {}
                    // A later batch of the package is counted, so this one was, too.
                    Err(error) if error.code() == Some(Code::Stale) => {}
                    Err(error) if error.code() == Some(Code::NoHash) => uncounted.extend(positions),
                    Err(error) => return Err(error),
                }
            }
            Ok(uncounted)
        });
        Ok(outcomes.collect())
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

    /// Separates hashes with an original from hashes without one.
    fn divide<'a>(
        &self,
        crawl: &str,
        batch: &'a [(impl AsRef<[u8]>, u64)],
    ) -> Result<(Sized<'a>, Vec<SetAside>), Error> {
        let hashes: Vec<&[u8]> = batch.iter().map(|(hash, _)| hash.as_ref()).collect();
        let found = self.index.lookup(Some(crawl.as_bytes()), &hashes)?;
        let (mut known, mut unknown) = (Vec::new(), Vec::new());
        for ((hash, size), original) in batch.iter().zip(&found) {
            match original {
                Some(_) => known.push((hash.as_ref(), *size)),
                None => unknown.push(set_aside((hash.as_ref(), *size))),
            }
        }
        Ok((known, unknown))
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
            let Ok(then) = serde_json::from_str::<Aside>(&was) else {
                return Err(broken(
                    &format!("src:later:{name}"),
                    format!("field {number}"),
                ));
            };
            let crawl = &then.crawl[..];
            let replace = |now: &Aside, counts, revisits: &[(&[u8], u64)]| {
                let now = now.to_json();
                let queue = self.queue;
                queue.settle(name, number, &was, &now, crawl, counts, revisits)
            };
            match self.index.crawl_stats(crawl.as_bytes()) {
                Ok(_) => {}
                // The crawl was removed together with its revisits.
                Err(error) if error.code() == Some(Code::NoCrawl) => {
                    if replace(&aside(crawl, Vec::new()), false, &[])? {
                        return Ok(0);
                    }
                    continue;
                }
                Err(error) => return Err(error),
            }
            if let (AnyIndex::Sharded(index), Some(settling)) = (&self.index, &then.settling) {
                let revisits = settling.revisits.iter();
                let revisits = revisits.map(|(hash, size)| (hash.as_bytes(), *size));
                let revisits: Sized<'_> = revisits.collect();
                let to_send = ToSend {
                    crawl,
                    name,
                    writer: format!("import later {}", settling.token),
                    number: 1,
                    revisits: &revisits,
                };
                let sent = self.send_revisits(index, &[to_send])?.into_iter();
                let mut left = then.revisits.clone();
                for uncounted in sent {
                    left.extend(uncounted?.into_iter().map(|at| set_aside(revisits[at])));
                }
                let remaining = left.len() as u64;
                let is_whole = remaining == then.revisits.len() as u64;
                // If a revisit lost its original since the look-up, look up the hashes of its shard again.
                if replace(&aside(crawl, left), true, &[])? && is_whole {
                    return Ok(remaining);
                }
                continue;
            }
            let (known, left) = self.divide(crawl, &then.revisits)?;
            let remaining = left.len() as u64;
            if known.is_empty() {
                return Ok(remaining);
            }
            let mut now = aside(crawl, left);
            if let AnyIndex::Sharded(_) = &self.index {
                // First store which revisits are counted, so that a repetition sends the same calls.
                now.settling = Some(Settling {
                    token: token(),
                    revisits: known.into_iter().map(set_aside).collect(),
                });
                replace(&now, true, &[])?;
                continue;
            }
            match replace(&now, true, &known) {
                Ok(true) => return Ok(remaining),
                // Another importer settled the batch, or an original was removed: look again.
                Ok(false) => {}
                Err(error) if error.code() == Some(Code::NoHash) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(0)
    }
}
