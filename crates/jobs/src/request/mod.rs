//! Client for the indexes of a server, with a local cache of decompressed copies.

mod ask;
mod failure;
mod parcel;
mod partial;
pub mod reasons;
mod unpack;

use std::io::Read;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crawlspace_client::server::Backoff;
use url::Url;

use self::ask::{Answer, Arrived};
use self::failure::Failure;
pub use self::parcel::Parcel;
use self::partial::Partial;
use self::unpack::Tar;
use super::cache::{Lock, Slot};
use super::{
    Draft, Entry, Error, Figures, Id, Index, IndexKind, Input, JobSet, Manifest, Missing,
    MissingJob, MultiFileBasedCache, Options, Work,
};

/// Timeout of a connection without data. A server that is still building the index responds before
/// this timeout.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(90);
/// Maximum time for retrying consecutive failures.
const RETRY_TIMEOUT: Duration = Duration::from_secs(120);
/// Maximum pause after a failure. The pause doubles with each consecutive failure.
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// Requests indexes from a server, and stores copies in its own folder. Never requests a complete copy again; requests
/// missing jobs again after [`Options::retry_missing`].
#[derive(Debug)]
pub struct IndexRequestClient {
    server: Url,
    dedup: MultiFileBasedCache,
    full: MultiFileBasedCache,
    cdx: MultiFileBasedCache,
    options: Options,
    silence: Duration,
    retry_timeout: Duration,
}

impl IndexRequestClient {
    /// Creates a client of the server at that URL (`http://host:8080/`). The option `metadata` is ignored, because only
    /// the server reads metadata files.
    ///
    /// # Errors
    /// Fails if the URL is not an HTTP URL, or the folder cannot be created.
    pub fn open(server: &str, options: Options) -> Result<IndexRequestClient, Error> {
        let mut url = Url::parse(server).map_err(|error| {
            Error::Request(format!(
                "invalid URL {:?}: {error}",
                ask::shown_server(server)
            ))
        })?;
        let is_plain = url.query().is_none() && url.fragment().is_none();
        if !matches!(url.scheme(), "http" | "https") || !is_plain {
            return Err(Error::Request(format!(
                "invalid server {:?}: write http://host:port/ or https://host/",
                ask::shown_server(server)
            )));
        }
        if !url.path().ends_with('/') {
            let path = format!("{}/", url.path());
            url.set_path(&path);
        }
        let figures = Arc::<Figures>::default();
        let cache = |kind: IndexKind| -> Result<MultiFileBasedCache, Error> {
            let folder = kind.client_folder();
            let cache = MultiFileBasedCache::open(&options.cache_dir, folder, kind.form())?;
            Ok(cache.waiting(options.wait).counting(Arc::clone(&figures)))
        };
        Ok(IndexRequestClient {
            server: url,
            dedup: cache(IndexKind::Dedup)?,
            full: cache(IndexKind::Full)?,
            cdx: cache(IndexKind::Cdx)?,
            options,
            silence: SILENCE_TIMEOUT,
            retry_timeout: RETRY_TIMEOUT,
        })
    }

    /// Sets other timeouts: the maximum time without data, 90 s by default, and the maximum time for retrying
    /// consecutive transient failures, 120 s by default.
    #[must_use]
    pub fn with_timeouts(self, silence: Duration, retry_timeout: Duration) -> IndexRequestClient {
        IndexRequestClient {
            silence,
            retry_timeout,
            ..self
        }
    }

    /// Returns an index of the requested jobs that the server has, stored under the name of these jobs.
    ///
    /// If jobs are known to be missing and the server is unavailable, this is not an error: the existing index of the
    /// other jobs is returned.
    ///
    /// # Errors
    /// [`Error::Remote`] if the server's response is invalid or an error. Also fails if the copy cannot be written.
    pub fn get_index(&self, kind: IndexKind, jobs: &JobSet, work: &Work) -> Result<Index, Error> {
        let cache = self.cache(kind);
        let whole = |entry| Index {
            entry,
            found: jobs.clone(),
            missing: Vec::new(),
        };
        if let Some(entry) = cache.hit(jobs, work)? {
            return Ok(whole(entry));
        }
        if let Some(index) = self.partial_copy(cache, jobs, true, work)? {
            return Ok(index);
        }
        let lock = match cache.slot(jobs, &|_| true, work)? {
            Slot::There(entry) => return Ok(whole(entry)),
            Slot::Ours(lock) => lock,
        };
        lock.sign();
        // Another caller may have stored the copy in the meantime.
        if let Some(index) = self.partial_copy(cache, jobs, true, work)? {
            return Ok(index);
        }
        match self.fetch(kind, jobs, &lock, work) {
            Err(error @ Error::Remote { .. }) => {
                let Some(mut index) = self.partial_copy(cache, jobs, false, work)? else {
                    return Err(error);
                };
                for one in &mut index.missing {
                    one.why = Missing::Unreadable {
                        why: format!("earlier: {}; now: {error}", one.why),
                    };
                }
                Ok(index)
            }
            outcome => outcome,
        }
    }

    /// Returns the cache of copies of one kind of index.
    pub(crate) fn cache(&self, kind: IndexKind) -> &MultiFileBasedCache {
        match kind {
            IndexKind::Dedup => &self.dedup,
            IndexKind::Full => &self.full,
            IndexKind::Cdx => &self.cdx,
        }
    }

    /// Returns the jobs of a set that the server had earlier, if the copy still exists.
    fn partial_copy(
        &self,
        cache: &MultiFileBasedCache,
        jobs: &JobSet,
        fresh: bool,
        work: &Work,
    ) -> Result<Option<Index>, Error> {
        let partial = Partial::read(&cache.path(jobs), self.server.as_str());
        let partial = partial.filter(|one| !fresh || one.is_fresh(self.options.retry_missing));
        let Some((found, missing)) = partial.and_then(|partial| partial.jobs(jobs)) else {
            return Ok(None);
        };
        let entry = cache.hit(&found, work)?;
        Ok(entry.map(|entry| Index {
            entry,
            found,
            missing,
        }))
    }

    /// Repeats the request until the server responds, or until a timeout or a permanent error.
    fn fetch(
        &self,
        kind: IndexKind,
        jobs: &JobSet,
        lock: &Lock,
        work: &Work,
    ) -> Result<Index, Error> {
        let begun = Instant::now();
        let url = ask::url(&self.server, kind, jobs);
        let shown = ask::shown(&self.server, kind, jobs);
        let mut failing: Option<(Instant, Backoff)> = None;
        let mut stage = None;
        loop {
            work.check()?;
            let (what, pause) = match self.attempt(kind, jobs, &url, lock, work) {
                Ok(Attempt::Index(index)) => return Ok(*index),
                Ok(Attempt::NotYet(reported, pause)) => {
                    failing = None;
                    stage = reported.or(stage);
                    let at = stage.as_ref().map(|stage| format!(" ({stage})"));
                    let at = at.unwrap_or_default();
                    (format!("the server is still building the index{at}"), pause)
                }
                Err(Failure::Transient(what, wait)) => {
                    let (since, backoff) =
                        failing.get_or_insert_with(|| (Instant::now(), Backoff::new(MAX_PAUSE)));
                    let pause = backoff.pause().max(wait.unwrap_or_default()).min(MAX_PAUSE);
                    if since.elapsed() + pause > self.retry_timeout {
                        return Err(Failure::Transient(what, wait).into_error(&shown));
                    }
                    work.begin(&format!("trying again, because {what}"), 0);
                    (what, pause)
                }
                Err(failure) => return Err(failure.into_error(&shown)),
            };
            let waited = begun.elapsed();
            // Ask once more before the timeout, even if the server requests a longer pause.
            let left = self.options.wait.saturating_sub(waited);
            if left.is_zero() {
                let what = format!("{what}; gave up after {} s", waited.as_secs());
                return Err(Failure::answer(what).into_error(&shown));
            }
            rest(pause.min(left), work)?;
        }
    }

    fn attempt(
        &self,
        kind: IndexKind,
        jobs: &JobSet,
        url: &Url,
        lock: &Lock,
        work: &Work,
    ) -> Result<Attempt, Failure> {
        let arrived = match ask::ask(url, self.silence, work)? {
            Answer::Building(stage, pause) => return Ok(Attempt::NotYet(stage, pause)),
            Answer::Arrived(arrived) => arrived,
        };
        let Arrived {
            body,
            found: reported,
            reasons,
            length,
        } = *arrived;
        work.begin("fetching", length.unwrap_or(0));
        let (mut tar, manifest) = Tar::begin(body, work)?;
        let found = manifest.jobs.clone();
        is_expected(kind, jobs, &manifest, reported.as_ref())?;
        let cache = self.cache(kind);
        let mut failure = None;
        let mut take = |draft: &mut Draft| {
            unpack(&mut tar, &manifest, url, draft).map_err(|why| {
                failure = Some(why);
                Error::Cancelled
            })
        };
        let is_whole = found == *jobs;
        let taken: Result<Entry, Error> = if is_whole {
            cache.build(jobs, lock, work, &mut take)
        } else {
            // Store an incomplete index under the name of its own jobs, never under the name of all
            // requested jobs.
            cache.cache(&found, work, &mut take)
        };
        let entry = match (taken, failure) {
            (Ok(entry), _) => entry,
            (Err(_), Some(failure)) => return Err(failure),
            (Err(error), None) => return Err(error.into()),
        };
        let missing: Vec<MissingJob> = reasons::of(&jobs.without(&found), &reasons);
        if is_whole {
            Partial::remove(&cache.path(jobs))
        } else {
            let partial = Partial::now(self.server.as_str(), &found, &missing);
            partial.write(&cache.path(jobs));
        }
        Ok(Attempt::Index(Box::new(Index {
            entry,
            found,
            missing,
        })))
    }
}

enum Attempt {
    Index(Box<Index>),
    /// The index is being built: its stage, and the time until the next request.
    NotYet(Option<String>, Duration),
}

/// Returns whether a manifest belongs to the requested index.
fn is_expected(
    kind: IndexKind,
    jobs: &JobSet,
    manifest: &Manifest,
    reported: Option<&JobSet>,
) -> Result<(), Failure> {
    let found = &manifest.jobs;
    let wrong = |what: String| Err(Failure::answer(what));
    if manifest.cache != kind.folder() || manifest.entry != format!("{}-cache", found.name()) {
        let (cache, entry) = (&manifest.cache, &manifest.entry);
        return wrong(format!(
            "it sends entry {entry:?} of cache {cache:?} instead of an index of kind {kind}"
        ));
    }
    if !found.is_subset(jobs) {
        let others = found.without(jobs);
        return wrong(format!(
            "it sends an index with jobs that were not requested: {others}"
        ));
    }
    if let Some(reported) = reported.filter(|reported| *reported != found) {
        return wrong(format!(
            "it reports {reported}, but sends an index of {found}"
        ));
    }
    let names = manifest.files.iter().map(|file| &*file.name);
    let is_complete = match kind {
        IndexKind::Cdx => names.eq([&*manifest.entry]),
        IndexKind::Dedup | IndexKind::Full => {
            let mut names: Vec<_> = names.collect();
            names.sort_unstable();
            names == ["digest.cdxj.gz", "digest.idx", "url.cdxj.gz", "url.idx"]
        }
    };
    if is_complete {
        Ok(())
    } else {
        wrong(format!(
            "the files in the manifest are not those of an index of kind {kind}"
        ))
    }
}

/// Writes the received files to a draft: the lines decompressed, and without the indexes of the compressed blocks.
fn unpack(
    tar: &mut Tar<'_, impl Read>,
    manifest: &Manifest,
    url: &Url,
    draft: &mut Draft,
) -> Result<(), Failure> {
    for file in &manifest.files {
        if let Some(plain) = file.name.strip_suffix(".gz") {
            let (path, output) = draft.create(plain)?;
            tar.unzip(manifest, file, (&path, output))?;
        } else if file.name.ends_with(".idx") {
            tar.copy(manifest, file, None)?;
        } else {
            let (path, output) = draft.create(&file.name)?;
            tar.copy(manifest, file, Some((&path, output)))?;
        }
    }
    tar.end()?;
    draft.input(Input {
        name: ask::without_password(url),
        size: manifest.size(),
        checksum: Some(manifest.checksum.clone()),
    });
    for (what, number) in &manifest.counts {
        draft.count(what, *number);
    }
    for note in &manifest.notes {
        draft.note(note.clone());
    }
    Ok(())
}

/// Waits, unless the work is cancelled.
fn rest(pause: Duration, work: &Work) -> Result<(), Error> {
    let end = Instant::now() + pause;
    loop {
        work.check()?;
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(Duration::from_millis(50)));
    }
}
