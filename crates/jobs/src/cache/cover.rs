//! Entries that a larger one can be made of.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fs;
use std::sync::Arc;

use super::super::{Error, JobId, JobSet, Work};
use super::entry::Held;
use super::{Entry, Manifest, MultiFileBasedCache, manifest_of};

/// What the names of entries end with.
const END: &str = "-cache";
/// Maximum number of entries whose jobs are looked up; the rest is skipped.
const MAX_CANDIDATES: usize = 256;

impl MultiFileBasedCache {
    /// Entries of several jobs each that are there, no two of which have a job in common, and which have no other jobs
    /// than these. As few as possible: the largest first.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub(crate) fn parts_of(&self, jobs: &JobSet, work: &Work) -> Result<Vec<Entry>, Error> {
        let mut parts = Vec::new();
        if jobs.len() < 3 {
            return Ok(parts);
        }
        let mut candidates = Vec::new();
        for file in fs::read_dir(self.folder()).map_err(Error::io(self.folder(), "list"))? {
            let file = file.map_err(Error::io(self.folder(), "list"))?;
            let name = file.file_name();
            let name = name.to_str().filter(|name| may_be_part(name, jobs));
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
                && manifest.jobs.len() < jobs.len()
                && manifest.jobs.is_subset(jobs)
            {
                sets.push((name, manifest));
            }
        }
        sets.sort_by_key(|(_, manifest)| Reverse(manifest.jobs.len()));
        let mut taken = JobSet::default();
        let mut contents = HashMap::new();
        for (name, manifest) in sets {
            let is_apart = manifest.jobs.iter().all(|job| !taken.contains(job));
            if !is_apart || !self.is_up_to_date(&manifest, &mut contents) {
                continue;
            }
            match self.look(&name, &self.folder().join(&name), work) {
                Ok(Some(entry)) => {
                    taken = taken.iter().chain(manifest.jobs.iter()).collect();
                    parts.push(entry);
                }
                // It would have been a help; it is needed by those alone who ask for it.
                Ok(None) | Err(Error::Damaged { .. } | Error::Io { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(parts)
    }

    /// Whether what an entry was made of is still what is there, as far as it is.
    fn is_up_to_date(
        &self,
        manifest: &Manifest,
        contents: &mut HashMap<String, Option<String>>,
    ) -> bool {
        manifest.inputs.iter().all(|input| {
            let now = contents.entry(input.name.clone()).or_insert_with(|| {
                let there = self.peek(&input.name)?;
                there.as_input().checksum
            });
            now.is_none() || *now == input.checksum
        })
    }

    /// The manifest of an entry, whose files are not looked at.
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

/// Whether an entry of that name can have several of the jobs and no others, as far as the name tells.
fn may_be_part(name: &str, jobs: &JobSet) -> bool {
    let Some(ids) = name.strip_suffix(END) else {
        return false;
    };
    let mut named = 0;
    for id in ids.split('-') {
        match id.parse().map(JobId) {
            // What stands behind four ids is a checksum, and it may have nothing but digits.
            _ if named == 4 => {}
            Ok(job) if jobs.contains(job) => named += 1,
            _ => return false,
        }
    }
    named > 1
}
