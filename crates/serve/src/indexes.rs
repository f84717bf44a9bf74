//! Job indexes for concurrent requests: each index is built once for all of them. A build runs to its end even if all
//! clients disconnect, since its result is kept.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore, watch};
use tokio::task::spawn_blocking;

use super::config;
use crawlspace_fetch::Guard;
use crawlspace_jobs::{
    Error, Index, IndexCaches, IndexKind, JobSet, Limits, Options, Progress, Work,
};

/// Maximum number of concurrent builds; further builds are queued.
const MAX_BUILDS: usize = 2;
/// Maximum number of queued builds; further requests are refused.
const MAX_WAITING: usize = 200;
/// Timeout of a build, including its time in the queue.
const BUILD_TIMEOUT: Duration = Duration::from_secs(24 * 3600);
/// Timeout of the lookup of an index, which may have to read all bytes of the index. After the
/// timeout, clients get the reply that the index is being built.
const LOOK_UP_TIMEOUT: Duration = Duration::from_secs(20);
/// Retention time of a build's outcome, for clients that were answered with `Retry-After`.
const OUTCOME_TTL: Duration = Duration::from_secs(60);

/// The index caches of a server, and the builds in progress.
#[derive(Debug)]
pub struct Indexes {
    caches: Arc<IndexCaches>,
    running: Mutex<Running>,
    turns: Semaphore,
    waiting: Semaphore,
    making_room: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Running {
    builds: HashMap<(IndexKind, JobSet), Arc<Build>>,
    stopped: bool,
}

#[derive(Debug)]
struct Build {
    work: Work,
    state: watch::Receiver<BuildState>,
    taken: Notify,
}

/// Stage of a build.
#[derive(Clone, Debug)]
enum BuildState {
    /// The cache is being checked for the index.
    Looking,
    /// The build is queued.
    Waiting,
    Building,
    Done(Outcome),
}

/// Outcome of a build.
pub(crate) type Outcome = Arc<Result<Index, Refused>>;

/// The reason why there is no index.
#[derive(Debug)]
pub(crate) enum Refused {
    /// The build failed.
    Failed(Error),
    /// Too many builds are queued.
    Full,
    /// The server is shutting down.
    Stopped,
}

/// Status of a build after waiting for it.
#[derive(Debug)]
pub(crate) enum BuildStatus {
    /// The index, or the reason why it is missing.
    Done(Outcome),
    /// The build is queued.
    Waiting,
    /// The build is running.
    Building(Progress),
}

impl Indexes {
    /// Opens the caches of a configuration. Web servers with metadata files are requested through the guard.
    ///
    /// # Errors
    /// The same errors as [`IndexCaches::open`].
    pub(crate) fn open(config: &config::Indexes, guard: Guard) -> Result<Arc<Indexes>, Error> {
        let caches = IndexCaches::open(Options {
            guard: Some(guard),
            ..options(config)
        })?;
        Ok(Arc::new(Indexes {
            caches: Arc::new(caches),
            running: Mutex::default(),
            turns: Semaphore::new(MAX_BUILDS),
            waiting: Semaphore::new(MAX_WAITING),
            making_room: tokio::sync::Mutex::default(),
        }))
    }

    /// Returns the caches.
    pub(crate) fn caches(&self) -> &IndexCaches {
        &self.caches
    }

    /// Returns the index over `jobs`, after waiting up to `wait` for its build.
    pub(crate) async fn get(
        self: &Arc<Self>,
        kind: IndexKind,
        jobs: &JobSet,
        wait: Duration,
    ) -> BuildStatus {
        let key = (kind, jobs.clone());
        let Some(build) = self.join(&key) else {
            return BuildStatus::Done(Arc::new(Err(Refused::Stopped)));
        };
        let mut state = build.state.clone();
        let looked = state.wait_for(|state| !matches!(state, BuildState::Looking));
        let _ = tokio::time::timeout(wait.max(LOOK_UP_TIMEOUT), looked).await;
        let done = state.wait_for(|state| matches!(state, BuildState::Done(_)));
        let _ = tokio::time::timeout(wait, done).await;
        let now = build.state.borrow().clone();
        match now {
            BuildState::Done(outcome) => {
                self.evict(&key, &build);
                build.taken.notify_one();
                BuildStatus::Done(outcome)
            }
            BuildState::Waiting => BuildStatus::Waiting,
            BuildState::Looking | BuildState::Building => {
                BuildStatus::Building(build.work.progress())
            }
        }
    }

    /// Cancels all builds. Intermediate results are kept.
    pub(crate) fn stop(&self) {
        let mut running = self.running();
        running.stopped = true;
        for build in running.builds.values() {
            build.work.cancel();
        }
    }

    /// Returns all unfinished builds, including queued ones.
    pub(crate) fn building(&self) -> Vec<(IndexKind, JobSet, Progress)> {
        let running = self.running();
        let builds = running.builds.iter();
        let unfinished =
            builds.filter(|(_, build)| !matches!(*build.state.borrow(), BuildState::Done(_)));
        let one = |((kind, jobs), build): (&(IndexKind, JobSet), &Arc<Build>)| {
            (*kind, jobs.clone(), build.work.progress())
        };
        unfinished.map(one).collect()
    }

    /// Returns the build of an index, and starts it unless it is running. Returns `None` if the server is shutting
    /// down.
    fn join(self: &Arc<Self>, key: &(IndexKind, JobSet)) -> Option<Arc<Build>> {
        let mut running = self.running();
        if running.stopped {
            return None;
        }
        if let Some(build) = running.builds.get(key) {
            return Some(Arc::clone(build));
        }
        let (states, state) = watch::channel(BuildState::Looking);
        let build = Arc::new(Build {
            work: Work::default(),
            state,
            taken: Notify::new(),
        });
        running.builds.insert(key.clone(), Arc::clone(&build));
        tokio::spawn(Arc::clone(self).run(key.clone(), Arc::clone(&build), states));
        Some(build)
    }

    async fn run(
        self: Arc<Self>,
        key: (IndexKind, JobSet),
        build: Arc<Build>,
        states: watch::Sender<BuildState>,
    ) {
        let made = self.make(&key, &build.work, &states);
        let outcome = match tokio::time::timeout(BUILD_TIMEOUT, made).await {
            Ok(outcome) => outcome,
            Err(_) => {
                build.work.cancel();
                Err(Refused::Failed(Error::Cancelled))
            }
        };
        if let Err(Refused::Failed(error)) = &outcome {
            let (kind, jobs) = &key;
            tracing::warn!(%kind, %jobs, %error, "an index could not be built");
        }
        let was_built = matches!(*states.borrow(), BuildState::Building);
        states.send_replace(BuildState::Done(Arc::new(outcome)));
        if was_built {
            self.make_room().await;
        }
        // Keep the result for a limited time only, because clients that got a `Retry-After` may never return.
        let _ = tokio::time::timeout(OUTCOME_TTL, build.taken.notified()).await;
        self.evict(&key, &build);
    }

    async fn make(
        &self,
        key: &(IndexKind, JobSet),
        work: &Work,
        states: &watch::Sender<BuildState>,
    ) -> Result<Index, Refused> {
        let (kind, jobs) = key;
        let blocking = |get: fn(&IndexCaches, IndexKind, &JobSet, &Work) -> Got| {
            let (caches, work) = (Arc::clone(&self.caches), work.clone());
            let (kind, jobs) = (*kind, jobs.clone());
            async move {
                let got = spawn_blocking(move || get(&caches, kind, &jobs, &work)).await;
                // The thread panicked, or the runtime is shutting down.
                got.unwrap_or(Err(Error::Cancelled))
                    .map_err(Refused::Failed)
            }
        };
        if let Some(index) = blocking(IndexCaches::hit).await? {
            return Ok(index);
        }
        let _turn = match self.turns.try_acquire() {
            Ok(turn) => turn,
            Err(_) => {
                let Ok(_waiting) = self.waiting.try_acquire() else {
                    return Err(Refused::Full);
                };
                states.send_replace(BuildState::Waiting);
                self.turns.acquire().await.map_err(|_| Refused::Stopped)?
            }
        };
        states.send_replace(BuildState::Building);
        let index = blocking(|caches, kind, jobs, work| {
            work.check()?;
            caches.get_index(kind, jobs, work).map(Some)
        });
        index.await?.ok_or(Refused::Stopped)
    }

    /// Enforces the limits of the caches, unless another task is doing so.
    async fn make_room(&self) {
        let Ok(_alone) = self.making_room.try_lock() else {
            return;
        };
        let caches = Arc::clone(&self.caches);
        let collected = spawn_blocking(move || caches.make_room(&Work::default()));
        match collected.await {
            Ok(Ok(collected)) if !collected.within_limits => {
                tracing::warn!(
                    bytes = collected.bytes,
                    free = collected.free,
                    "indexes exceed their size limits, but all of them are in use, so none was removed"
                );
            }
            Ok(Err(error)) => tracing::warn!(%error, "cannot enforce the size limits of indexes"),
            _ => {}
        }
    }

    fn evict(&self, key: &(IndexKind, JobSet), build: &Arc<Build>) {
        let mut running = self.running();
        if running
            .builds
            .get(key)
            .is_some_and(|one| Arc::ptr_eq(one, build))
        {
            running.builds.remove(key);
        }
    }

    fn running(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type Got = Result<Option<Index>, Error>;

/// Returns the options of a configuration, with defaults for missing settings.
fn options(config: &config::Indexes) -> Options {
    let usual = Options::default();
    let memory = config
        .memory
        .map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    Options {
        cache_dir: config.cache_dir.clone(),
        metadata: config.metadata.clone(),
        wait: config.wait.unwrap_or(usual.wait),
        retry_missing: config.retry_missing.unwrap_or(usual.retry_missing),
        memory: memory.unwrap_or(usual.memory),
        limits: Limits {
            max_bytes: config.max_size.or(usual.limits.max_bytes),
            min_free: config.min_free.or(usual.limits.min_free),
            max_age: config.max_age.or(usual.limits.max_age),
            grace: config.grace.unwrap_or(usual.limits.grace),
        },
        ..usual
    }
}
