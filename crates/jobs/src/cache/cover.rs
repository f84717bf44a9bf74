//! Finds entries that can be merged into a larger entry.

use std::cmp::Reverse;
use std::fs;
use std::sync::Arc;

use super::super::{Error, JobId, JobSet, Work};
use super::entry::Held;
use super::{Entry, Manifest, MultiFileBasedCache, manifest_of};

/// Suffix of the names of entries.
const END: &str = "-cache";
/// Maximum number of entries whose manifests are read; further entries are skipped.
const MAX_CANDIDATES: usize = 256;

impl MultiFileBasedCache {
    /// Returns disjoint entries that each contain several jobs of this set and no other jobs. The largest entries are
    /// chosen first, so that few are needed. Entries that `is_current` rejects are skipped.
    ///
    /// # Errors
    /// Fails if the folder cannot be read, or with an error of `is_current`.
    pub(crate) fn parts_of(
        &self,
        jobs: &JobSet,
        work: &Work,
        mut is_current: impl FnMut(&Manifest) -> Result<bool, Error>,
    ) -> Result<Vec<Entry>, Error> {
        let mut parts = Vec::new();
        if jobs.len() < 3 {
            return Ok(parts);
        }
        let mut taken = JobSet::default();
        for (name, manifest) in self.subsets(jobs, 2, work)? {
            let is_smaller = manifest.jobs.len() < jobs.len();
            let is_apart = manifest.jobs.iter().all(|job| !taken.contains(job));
            if !is_smaller || !is_apart || !is_current(&manifest)? {
                continue;
            }
            if let Some(entry) = self.look_if_whole(&name, work)? {
                taken = taken.iter().chain(manifest.jobs.iter()).collect();
                parts.push(entry);
            }
        }
        Ok(parts)
    }

    /// Returns the entry with the most jobs of this set and no other jobs.
    ///
    /// # Errors
    /// Fails if the folder cannot be read.
    pub fn largest_part_of(&self, jobs: &JobSet, work: &Work) -> Result<Option<Entry>, Error> {
        for (name, _) in self.subsets(jobs, 1, work)? {
            if let Some(entry) = self.look_if_whole(&name, work)? {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }

    /// Lists entries with at least `least` jobs of this set and no other jobs, largest first.
    fn subsets(
        &self,
        jobs: &JobSet,
        least: usize,
        work: &Work,
    ) -> Result<Vec<(String, Arc<Manifest>)>, Error> {
        let mut candidates = Vec::new();
        for file in fs::read_dir(self.folder()).map_err(Error::io(self.folder(), "list"))? {
            let file = file.map_err(Error::io(self.folder(), "list"))?;
            let name = file.file_name();
            let name = name.to_str().filter(|name| may_be_part(name, jobs, least));
            if let Some(name) = name {
                let made = file.metadata().and_then(|file| file.modified()).ok();
                candidates.push((Reverse(made), name.to_owned()));
            }
        }
        candidates.sort();
        let mut sets = Vec::new();
        for (_, name) in candidates.into_iter().take(MAX_CANDIDATES) {
            work.check()?;
            if let Some(manifest) = self.peek(&name)
                && manifest.jobs.len() >= least
                && manifest.jobs.is_subset(jobs)
            {
                sets.push((name, manifest));
            }
        }
        sets.sort_by_key(|(_, manifest)| Reverse(manifest.jobs.len()));
        Ok(sets)
    }

    /// Opens an entry; a damaged entry counts as missing.
    fn look_if_whole(&self, name: &str, work: &Work) -> Result<Option<Entry>, Error> {
        match self.look(name, &self.folder().join(name), work) {
            Err(Error::Damaged { .. } | Error::Io { .. }) => Ok(None),
            looked => looked,
        }
    }

    /// Returns the manifest of an entry without checking its files.
    fn peek(&self, name: &str) -> Option<Arc<Manifest>> {
        let path = manifest_of(&self.folder().join(name), self.form);
        let mut held = Held::open(&path).ok()??;
        if let Some(known) = self
            .cached(name)
            .filter(|known| known.seen.is_of(&held.stamp))
        {
            return Some(known.manifest);
        }
        Manifest::parse(&held.read(&path).ok()?).ok().map(Arc::new)
    }
}

/// Returns false if the name of an entry shows that the entry has other jobs, or fewer than `least`
/// of these jobs.
fn may_be_part(name: &str, jobs: &JobSet, least: usize) -> bool {
    let Some(ids) = name.strip_suffix(END) else {
        return false;
    };
    let mut named = 0;
    for id in ids.split('-') {
        match id.parse().map(JobId) {
            // A name with four ids may continue with a checksum, which may consist of digits only.
            _ if named == 4 => {}
            Ok(job) if jobs.contains(job) => named += 1,
            _ => return false,
        }
    }
    named >= least
}
