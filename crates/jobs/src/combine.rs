//! Caches whose items are merged from items of other caches. A request succeeds even if some of the items to merge are
//! missing.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use super::{
    Draft, Entry, Error, Input, JobId, JobSet, Manifest, Missing, MissingJob, MultiFileBasedCache,
    Work,
};

/// Builds the items of a [`CombiningMultiFileBasedCache`].
pub trait Combine: Send + Sync {
    /// Collects the inputs of the jobs, and returns the jobs whose inputs are missing. `cache` is the cache of the
    /// result. With `rebuild`, existing inputs are built again.
    ///
    /// # Errors
    /// Fails if an error affects all jobs, such as a full disk. A missing job is not an error.
    fn prepare(
        &self,
        cache: &MultiFileBasedCache,
        jobs: &JobSet,
        rebuild: bool,
        work: &Work,
    ) -> Result<Prepared, Error>;

    /// Returns whether an item is up to date with its sources, as far as can be determined without reading the archive.
    ///
    /// # Errors
    /// Fails if the work was cancelled.
    fn is_current(&self, manifest: &Manifest, work: &Work) -> Result<bool, Error>;

    /// Builds the item of jobs that were prepared.
    ///
    /// # Errors
    /// Fails if the item cannot be built.
    fn combine(&self, prepared: &Prepared, draft: &mut Draft, work: &Work) -> Result<(), Error>;
}

/// The inputs of an item.
#[derive(Debug, Default)]
pub struct Prepared {
    /// The jobs that were found.
    pub found: JobSet,
    /// The missing jobs, with the reasons.
    pub missing: Vec<MissingJob>,
    /// The entries that the item is merged from, each for some of the jobs. These entries are in use until
    /// the item is built.
    pub parts: Vec<Entry>,
}

/// An index of some jobs.
#[derive(Debug)]
pub struct Index {
    /// The entry of the index, which is named after the jobs that were found.
    pub entry: Entry,
    /// The jobs in the index.
    pub found: JobSet,
    /// The requested jobs that are not in the index.
    pub missing: Vec<MissingJob>,
}

/// A cache of items for sets of jobs, each merged from the items of another cache for each job.
#[derive(Debug)]
pub struct CombiningMultiFileBasedCache<C> {
    cache: MultiFileBasedCache,
    combine: C,
}

impl<C: Combine> CombiningMultiFileBasedCache<C> {
    /// Creates a cache of the items that `combine` builds, stored in `cache`.
    pub(crate) fn new(cache: MultiFileBasedCache, combine: C) -> CombiningMultiFileBasedCache<C> {
        CombiningMultiFileBasedCache { cache, combine }
    }

    /// Returns the index of all of the jobs, if it exists and is up to date.
    ///
    /// # Errors
    /// Fails if the index cannot be read.
    pub(crate) fn hit(&self, jobs: &JobSet, work: &Work) -> Result<Option<Index>, Error> {
        let Some(entry) = self.cache.hit(jobs, work)? else {
            return Ok(None);
        };
        let is_current = self.combine.is_current(entry.manifest(), work)?;
        Ok(is_current.then(|| Index {
            entry,
            found: jobs.clone(),
            missing: Vec::new(),
        }))
    }

    /// Returns an index of the jobs that were found. The index is stored under the name of the jobs
    /// that were found, not of all requested jobs, so that the next request for all jobs looks for
    /// the missing jobs again. With `rebuild`, the index is built from the current state of the
    /// archive, ignoring the cache.
    ///
    /// # Errors
    /// Fails if no index can be built, for example because the disk is full. A missing job is not an error.
    pub(crate) fn get_index(
        &self,
        jobs: &JobSet,
        rebuild: bool,
        work: &Work,
    ) -> Result<Index, Error> {
        if !rebuild && let Some(index) = self.hit(jobs, work)? {
            return Ok(index);
        }
        let mut tries = 0;
        loop {
            // Parts that the first attempt rebuilt are up to date.
            let rebuild_parts = rebuild && tries == 0;
            let mut prepared = self
                .combine
                .prepare(&self.cache, jobs, rebuild_parts, work)?;
            tries += 1;
            // For a single job, the part itself is the index.
            let path = self.cache.path(&prepared.found);
            if matches!(&prepared.parts[..], [only] if only.path() == path)
                && let Some(only) = prepared.parts.pop()
            {
                return Ok(prepared.into_index(only));
            }
            let inputs = inputs_of(&prepared.parts);
            let accept = |there: &Manifest| !rebuild && there.inputs == inputs;
            let made = self
                .cache
                .cache_if(&prepared.found, work, &accept, |draft| {
                    self.combine.combine(&prepared, draft, work)
                });
            match made {
                Ok(entry) => return Ok(prepared.into_index(entry)),
                // Parts that were not in use may have been evicted in the meantime.
                Err(_) if tries < MAX_TRIES && prepared.parts.iter().any(Entry::is_gone) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Prepared {
    /// Creates the inputs from the parts that were found.
    pub(crate) fn of(parts: Vec<Entry>, missing: Vec<MissingJob>) -> Prepared {
        Prepared {
            found: parts
                .iter()
                .flat_map(|part| part.manifest().jobs.iter())
                .collect(),
            missing,
            parts,
        }
    }

    fn into_index(self, entry: Entry) -> Index {
        Index {
            entry,
            found: self.found,
            missing: self.missing,
        }
    }
}

/// Maximum number of attempts to build an index whose parts are evicted during the build.
const MAX_TRIES: usize = 3;

/// Maximum number of parts that are kept in use until the item is built. Each part needs an open file, and
/// there may be tens of thousands of parts; the grace period after the last use protects the other parts.
const MAX_HELD: usize = 128;

/// Counts the parts that are in use.
#[derive(Debug, Default)]
pub(super) struct Holding(AtomicUsize);

impl Holding {
    /// Keeps a part in use, unless there are too many.
    pub(crate) fn one_more(&self, mut part: Entry) -> Entry {
        if self.0.fetch_add(1, Ordering::Relaxed) >= MAX_HELD {
            part.release();
        }
        part
    }
}

/// Maximum number of notes that are copied from the parts; further notes are only counted.
const NOTES: usize = 20;

/// Adds up the counts of the parts, copies their notes, and records the parts as inputs. A part of
/// several jobs is replaced by its own inputs.
pub(super) fn carry_over(parts: &[Entry], draft: &mut Draft) {
    let mut counts = BTreeMap::<&str, u64>::new();
    for (what, number) in parts.iter().flat_map(|part| &part.manifest().counts) {
        *counts.entry(what).or_default() += number;
    }
    for (what, number) in counts {
        draft.count(what, number);
    }
    let notes = parts.iter().flat_map(|part| &part.manifest().notes);
    let total = notes.clone().count();
    for note in notes.take(NOTES) {
        draft.note(note.clone());
    }
    if total > NOTES {
        draft.note(format!("and {} more like these", total - NOTES));
    }
    for input in inputs_of(parts) {
        draft.input(input);
    }
}

/// Returns the inputs of an entry that is merged from these parts: the parts, and their own inputs. A part of several
/// jobs is not an input itself, because the same entry may be merged from different parts.
pub(super) fn inputs_of<'e>(parts: impl IntoIterator<Item = &'e Entry>) -> Vec<Input> {
    let mut inputs: Vec<_> = parts
        .into_iter()
        .map(Entry::manifest)
        .flat_map(|manifest| {
            let part = manifest.jobs.only().map(|_| manifest.as_input());
            part.into_iter().chain(manifest.inputs.iter().cloned())
        })
        .collect();
    // Sort by length first: a number with fewer digits is lower.
    inputs.sort_by(|a, b| (a.name.len(), &a.name).cmp(&(b.name.len(), &b.name)));
    inputs.dedup_by(|a, b| a.name == b.name);
    inputs
}

/// Calls `get` for each job, on several threads, and returns the results and the missing jobs. Stops at the first
/// error.
pub(super) fn each_job<T: Send>(
    jobs: &JobSet,
    threads: usize,
    work: &Work,
    get: impl Fn(JobId, &Work) -> Result<Result<T, Missing>, Error> + Sync,
) -> Result<(Vec<T>, Vec<MissingJob>), Error> {
    let ids: Vec<_> = jobs.iter().collect();
    // Show the progress of a single job, or the number of finished jobs.
    let part = match ids.len() {
        0 | 1 => work.clone(),
        _ => work.part(),
    };
    work.begin("jobs", ids.len() as u64);
    let next = AtomicUsize::new(0);
    let failed = Mutex::new(None);
    let run = || {
        let mut done = Vec::new();
        while let Some(job) = ids.get(next.fetch_add(1, Ordering::Relaxed)) {
            let got = work.check().and_then(|()| get(*job, &part));
            match got.and_then(|got| work.advance(1).map(|()| got)) {
                Ok(got) => done.push((*job, got)),
                Err(error) => {
                    next.store(ids.len(), Ordering::Relaxed);
                    failed
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .get_or_insert(error);
                    break;
                }
            }
        }
        done
    };
    let mut done: Vec<_> = match threads.min(ids.len()) {
        0 | 1 => run(),
        threads => thread::scope(|scope| {
            let handles: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
            let outcomes = handles.into_iter().map(|handle| match handle.join() {
                Ok(done) => done,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            outcomes.flatten().collect()
        }),
    };
    if let Some(error) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
    }
    done.sort_by_key(|(job, _)| *job);
    let (mut got, mut missing) = (Vec::new(), Vec::new());
    for (job, outcome) in done {
        match outcome {
            Ok(one) => got.push(one),
            Err(why) => missing.push(MissingJob { job, why }),
        }
    }
    Ok((got, missing))
}

/// Runs two functions concurrently.
pub(super) fn both<A: Send, B>(
    one: impl FnOnce() -> A + Send,
    other: impl FnOnce() -> B,
) -> (A, B) {
    thread::scope(|scope| {
        let one = scope.spawn(one);
        let other = other();
        match one.join() {
            Ok(one) => (one, other),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::atomic::AtomicUsize;
    use std::time::Duration;

    use super::super::cache::evict;
    use super::super::{FileBasedCache, Form};
    use super::*;

    /// Builds an item by copying its only part. The test evicts the part after each of the first
    /// `removed` preparations.
    struct Copying {
        parts: FileBasedCache<JobId>,
        prepared: AtomicUsize,
        removed: usize,
    }

    impl Combine for Copying {
        fn prepare(
            &self,
            _cache: &MultiFileBasedCache,
            jobs: &JobSet,
            rebuild: bool,
            work: &Work,
        ) -> Result<Prepared, Error> {
            let nth = self.prepared.fetch_add(1, Ordering::Relaxed);
            assert!(
                !rebuild || nth == 0,
                "only the first attempt rebuilds parts"
            );
            let mut parts = Vec::new();
            for job in jobs.iter() {
                let build = |draft: &mut Draft| {
                    let (path, _) = draft.create("part")?;
                    fs::write(&path, format!("{job}\n")).map_err(Error::io(&path, "write"))
                };
                let mut part = self.parts.cache_if(&job, work, &|_| !rebuild, build)?;
                part.release();
                if nth < self.removed {
                    let gone = evict(part.path(), Form::File, Duration::ZERO);
                    assert_eq!(gone.expect("removed"), super::super::Eviction::Gone);
                }
                parts.push(part);
            }
            Ok(Prepared::of(parts, Vec::new()))
        }

        fn is_current(&self, _: &Manifest, _: &Work) -> Result<bool, Error> {
            Ok(true)
        }

        fn combine(&self, prepared: &Prepared, draft: &mut Draft, _: &Work) -> Result<(), Error> {
            carry_over(&prepared.parts, draft);
            let (to, _) = draft.create("whole")?;
            for part in &prepared.parts {
                fs::copy(part.path(), &to).map_err(Error::io(part.path(), "read"))?;
            }
            Ok(())
        }
    }

    #[test]
    fn index_is_rebuilt_when_its_parts_are_removed_meanwhile() {
        for (removed, rebuild, is_made) in [
            (0, false, true),
            (2, false, true),
            (3, false, false),
            (0, true, true),
            (2, true, true),
            (3, true, false),
        ] {
            let root = tempfile::tempdir().expect("a folder");
            let open = |name| MultiFileBasedCache::open(root.path(), name, Form::File);
            let parts = FileBasedCache::open(root.path(), "parts", Form::File).expect("a cache");
            let copying = Copying {
                parts,
                prepared: AtomicUsize::new(0),
                removed,
            };
            let cache = CombiningMultiFileBasedCache::new(open("whole").expect("a cache"), copying);
            let jobs: JobSet = "7,8".parse().expect("jobs");
            let got = cache.get_index(&jobs, rebuild, &Work::default());
            assert_eq!(got.is_ok(), is_made, "{removed} {rebuild}: {got:?}");
            let tries = cache.combine.prepared.load(Ordering::Relaxed);
            assert_eq!(tries, (removed + 1).min(MAX_TRIES));
        }
    }
}
