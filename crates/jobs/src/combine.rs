//! Caches whose items are made of items of other caches: an answer is always given, if need be of what there is.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use super::{
    Draft, Entry, Error, Input, JobId, JobSet, Manifest, Missing, MissingJob, MultiFileBasedCache,
    Work,
};

/// How the items of a [`CombiningMultiFileBasedCache`] are made.
pub trait Combine: Send + Sync {
    /// Gets what the jobs need, and says for which of them that was possible. `cache` is the one that the outcome
    /// goes into. With `rebuild`, nothing that was made before is good enough.
    ///
    /// # Errors
    /// What keeps all jobs from being got. One that is missing is none.
    fn prepare(
        &self,
        cache: &MultiFileBasedCache,
        jobs: &JobSet,
        rebuild: bool,
        work: &Work,
    ) -> Result<Prepared, Error>;

    /// Returns whether an item is up to date with its sources, as far as that shows without reading the archive.
    ///
    /// # Errors
    /// When the work was cancelled.
    fn is_current(&self, manifest: &Manifest, work: &Work) -> Result<bool, Error>;

    /// Makes the item of jobs that were prepared.
    ///
    /// # Errors
    /// When it cannot be made.
    fn combine(&self, prepared: &Prepared, draft: &mut Draft, work: &Work) -> Result<(), Error>;
}

/// What an item can be made of.
#[derive(Debug, Default)]
pub struct Prepared {
    /// The jobs that can be in it.
    pub found: JobSet,
    /// Those that cannot, and why.
    pub missing: Vec<MissingJob>,
    /// What it is made of: entries which are in use until then, and each stands for some of the jobs.
    pub parts: Vec<Entry>,
}

/// An index over some jobs.
#[derive(Debug)]
pub struct Index {
    /// Where it is. The entry is that of the jobs that were found.
    pub entry: Entry,
    /// The jobs that are in it.
    pub found: JobSet,
    /// Those that were asked for and are not.
    pub missing: Vec<MissingJob>,
}

/// A cache of items for sets of jobs, each made of what another cache has for each job.
#[derive(Debug)]
pub struct CombiningMultiFileBasedCache<C> {
    cache: MultiFileBasedCache,
    combine: C,
}

impl<C: Combine> CombiningMultiFileBasedCache<C> {
    /// Keeps in `cache` what is made by `combine`.
    pub(crate) fn new(cache: MultiFileBasedCache, combine: C) -> CombiningMultiFileBasedCache<C> {
        CombiningMultiFileBasedCache { cache, combine }
    }

    /// The index over all of the jobs, if it is there and made of what there is now.
    ///
    /// # Errors
    /// When it is there and cannot be read.
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

    /// An index over those of the jobs that there are. It is kept under the name of these, never under that of all
    /// that were asked for, so that the next one who asks for all tries to get the others again (seed: *future
    /// requests for the full set of job IDs will cause a renewed attempt*). With `rebuild` it is built from what the
    /// archive has now, whatever is in the cache.
    ///
    /// # Errors
    /// When there can be no index at all: a full disk, for example. A job that is missing is no error.
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
            // What was rebuilt the first time is new.
            let rebuild_parts = rebuild && tries == 0;
            let mut prepared = self
                .combine
                .prepare(&self.cache, jobs, rebuild_parts, work)?;
            tries += 1;
            // The index of one job is a part itself.
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
                // Parts that were not held may have been removed meanwhile.
                Err(_) if tries < MAX_TRIES && prepared.parts.iter().any(Entry::is_gone) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Prepared {
    /// From the parts that there are.
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

/// Maximum number of attempts to make an index whose parts go away meanwhile.
const MAX_TRIES: usize = 3;

/// Maximum number of parts held in use until the whole is made. Each takes an open file, and there may be tens of
/// thousands; the others were used just now, which keeps them for a while.
const MAX_HELD: usize = 128;

/// Counts the parts that are in use.
#[derive(Debug, Default)]
pub(super) struct Holding(AtomicUsize);

impl Holding {
    /// A part, in use if there are not too many.
    pub(crate) fn one_more(&self, mut part: Entry) -> Entry {
        if self.0.fetch_add(1, Ordering::Relaxed) >= MAX_HELD {
            part.release();
        }
        part
    }
}

/// Notes of parts that a whole repeats; of the others it says how many there are.
const NOTES: usize = 20;

/// Adds up what was counted and noted of the parts, and says which these are: the parts of parts, where one is made
/// of several jobs itself.
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
/// jobs is no input itself, since the same entry may be merged from other ones.
pub(super) fn inputs_of<'e>(parts: impl IntoIterator<Item = &'e Entry>) -> Vec<Input> {
    let mut inputs: Vec<_> = parts
        .into_iter()
        .map(Entry::manifest)
        .flat_map(|manifest| {
            let part = manifest.jobs.only().map(|_| manifest.as_input());
            part.into_iter().chain(manifest.inputs.iter().cloned())
        })
        .collect();
    // Shorter numbers are lower ones.
    inputs.sort_by(|a, b| (a.name.len(), &a.name).cmp(&(b.name.len(), &b.name)));
    inputs.dedup_by(|a, b| a.name == b.name);
    inputs
}

/// Gets something for each job, on some threads at once, and says which jobs have nothing. The first error ends it.
pub(super) fn each_job<T: Send>(
    jobs: &JobSet,
    threads: usize,
    work: &Work,
    get: impl Fn(JobId, &Work) -> Result<Result<T, Missing>, Error> + Sync,
) -> Result<(Vec<T>, Vec<MissingJob>), Error> {
    let ids: Vec<_> = jobs.iter().collect();
    // What a single job takes shows; of many, how many are done.
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

/// Does two things at once.
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

    /// Copies a part, which somebody else removes the first few times that it was prepared.
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
            assert!(!rebuild || nth == 0, "the part is new");
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
    fn an_index_whose_parts_are_removed_meanwhile_is_made_again_also_when_it_is_rebuilt() {
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
