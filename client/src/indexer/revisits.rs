//! The second stage: revisits are counted, when all originals are in the index.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use super::capture::Capture;
use super::package::Package;
use super::queue::broken;
use super::queue::Counted;
use super::text::for_each_line;
use super::worker::{Failure, Job};
use super::Work;
use crate::{Code, Error};

/// Revisits in a batch. What was counted is noted by the number of the batch.
const BATCH: usize = 250;
/// How often a batch is tried whose originals go away while it is counted.
const TRIES: usize = 20;
/// Bytes of revisits that are kept in memory of one package, and of all.
const KEPT: (usize, usize) = (16 << 20, 48 << 20);

/// The revisits of a package, in the order of its index; `None` when there are too many to keep.
pub(super) struct Revisits {
    bytes: Option<Vec<u8>>,
}

impl Default for Revisits {
    fn default() -> Revisits {
        Revisits {
            bytes: Some(Vec::new()),
        }
    }
}

impl Revisits {
    pub fn push(&mut self, hash: &[u8], size: u64) {
        if let Some(bytes) = &mut self.bytes {
            // A hash has 256 bytes at most, and 16 at least.
            bytes.push((hash.len() - 1) as u8);
            bytes.extend_from_slice(hash);
            bytes.extend_from_slice(&size.to_le_bytes());
            if bytes.len() > KEPT.0 {
                self.bytes = None;
            }
        }
    }

    fn for_each(
        bytes: &[u8],
        mut each: impl FnMut(&[u8], u64) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut rest = bytes;
        while let Some((&length, more)) = rest.split_first() {
            let (hash, more) = more.split_at(usize::from(length) + 1);
            let (size, more) = more.split_at(8);
            let size = size.try_into().map(u64::from_le_bytes).unwrap_or_default();
            each(hash, size)?;
            rest = more;
        }
        Ok(())
    }
}

/// Revisits that need not be read again.
#[derive(Default)]
pub(super) struct Kept(Mutex<Packages>);

#[derive(Default)]
struct Packages {
    revisits: HashMap<String, Vec<u8>>,
    bytes: usize,
    /// Those that have been queued for their revisits, as they stand there.
    queued: VecDeque<(Box<Package>, Vec<u8>)>,
}

impl Kept {
    pub fn put(&self, name: &str, revisits: Revisits) {
        let mut packages = self.packages();
        if let Some(bytes) = revisits.bytes {
            if packages.bytes + bytes.len() <= KEPT.1 {
                packages.bytes += bytes.len();
                packages.revisits.insert(name.to_owned(), bytes);
            }
        }
    }

    /// The package is in the queue now, if its revisits are kept.
    pub fn queued(&self, package: &Package, item: &[u8]) {
        let mut packages = self.packages();
        if packages.revisits.contains_key(&package.name) {
            let package = Box::new(package.clone());
            packages.queued.push_back((package, item.to_vec()));
        }
    }

    /// A package that was queued, if it was not given before.
    pub fn next(&self) -> Option<(Box<Package>, Vec<u8>)> {
        self.packages().queued.pop_front()
    }

    fn take(&self, name: &str) -> Option<Vec<u8>> {
        let mut packages = self.packages();
        let bytes = packages.revisits.remove(name)?;
        packages.bytes -= bytes.len();
        Some(bytes)
    }

    fn packages(&self) -> MutexGuard<'_, Packages> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Revisits without an original, as they are put aside.
#[derive(Serialize, Deserialize)]
struct Aside {
    #[serde(rename = "crawlId")]
    crawl: String,
    /// Hash and size.
    revisits: Vec<(String, u64)>,
}

impl Job<'_> {
    pub fn count_revisits(&mut self) -> Result<(), Failure> {
        let done = self.queue.noted(&self.package.name)?;
        let mut batch = Vec::new();
        let mut number = 0;
        let mut each = |job: &Self, hash: &[u8], size: u64| {
            batch.push((hash.to_vec(), size));
            if batch.len() == BATCH {
                number += 1;
                job.count(done, number, &batch)?;
                batch.clear();
            }
            Ok(())
        };
        match self.work.kept.take(&self.package.name) {
            Some(bytes) => Revisits::for_each(&bytes, |hash, size| each(self, hash, size))?,
            None => {
                let wacz = self.open()?;
                let mut previous = Vec::new();
                for_each_line(&wacz, |line| {
                    if previous == line {
                        return Ok(());
                    }
                    previous.clear();
                    previous.extend_from_slice(line);
                    match Capture::of_line(line) {
                        Capture::Revisit { hash, size } => each(self, &hash, size),
                        _ => Ok(()),
                    }
                })?;
            }
        }
        if !batch.is_empty() {
            self.count(done, number + 1, &batch)?;
        }
        Ok(())
    }

    fn count(&self, done: u64, number: u64, batch: &[(Vec<u8>, u64)]) -> Result<(), Failure> {
        self.check()?;
        if number <= done {
            return Ok(());
        }
        let package = self.package;
        // Nearly always all of them have an original, and nobody need look first.
        let all = batch.iter().map(|(hash, size)| (&hash[..], *size));
        let (mut known, mut unknown): (Sized, _) = (all.collect(), String::new());
        for _ in 0..TRIES {
            match self.queue.count(package, number, &known, &unknown) {
                Ok(Counted::Once) => return Ok(()),
                Ok(Counted::Lost) => return Err(Failure::Lost),
                Ok(Counted::Gone) => return Err(Failure::Gone),
                // One has none, or it was removed since we looked.
                Err(error) if error.code() == Some(Code::NoHash) => {}
                Err(error) => return Err(error.into()),
            }
            (known, unknown) = self.work.divide(&package.crawl, batch)?;
        }
        Err(Failure::Package {
            reason: "originals of its revisits are being removed all the time".to_owned(),
            partly: true,
        })
    }
}

/// Hashes with sizes.
type Sized<'a> = Vec<(&'a [u8], u64)>;

impl Work<'_> {
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
        for _ in 0..TRIES {
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
            let remaining = match left.is_empty() {
                true => 0,
                false => aside.revisits.len() - known.len(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_revisits_come_back_as_they_were() {
        let hashes = [vec![b'a'; 16], vec![b'b'; 256], vec![b'c'; 71]];
        let mut revisits = Revisits::default();
        for (i, hash) in hashes.iter().enumerate() {
            revisits.push(hash, i as u64 * 1_000_000_007);
        }
        let kept = Kept::default();
        kept.put("a.wacz", revisits);
        let bytes = kept.take("a.wacz").expect("it was put there");
        let mut back = Vec::new();
        let read = Revisits::for_each(&bytes, |hash, size| {
            back.push((hash.to_vec(), size));
            Ok(())
        });
        assert!(read.is_ok());
        let sizes = [0, 1_000_000_007, 2_000_000_014];
        assert_eq!(back, hashes.into_iter().zip(sizes).collect::<Vec<_>>());
        assert!(kept.take("a.wacz").is_none());
    }

    #[test]
    fn too_many_revisits_are_not_kept() {
        let kept = Kept::default();
        let mut revisits = Revisits::default();
        for _ in 0..KEPT.0 / 80 + 1 {
            revisits.push(&[b'a'; 71], 1);
        }
        kept.put("large.wacz", revisits);
        assert!(kept.take("large.wacz").is_none());
    }
}
