//! Files on web servers and in object stores, read in parts on demand.
//!
//! Pages that were read are cached in bounded memory for as long as the file is unchanged: the `ETag`,
//! the `Last-Modified` and the size in each response identify the version of the file that the response
//! contains. Only small files are ever fetched whole.

use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use futures_util::future::{BoxFuture, FutureExt, Shared, WeakShared};
use futures_util::stream::{self as streams, StreamExt, TryStreamExt};
use url::Url;

mod answer;
mod retry;
mod stream;

use self::answer::Answer;
pub use self::retry::Policy;
use self::retry::Retries;
use self::stream::Stream;
use super::blocking::{Body, Client};
use super::range::Validators;
use super::{BodyStream, Error, Net, is_transient, shown};
use crate::source::{Limits, SourceError};

/// Size of a page, in bytes.
const PAGE: u64 = 32 << 10;
/// Maximum size of the page cache, over all files, in bytes.
const MAX_KEPT: usize = 64 << 20;
/// Maximum size in bytes of a file that is fetched whole, regardless of which part is read.
const SMALL: u64 = 1 << 20;
/// Maximum readahead for sequential reads, in bytes.
const MAX_AHEAD: u64 = 1 << 20;
/// Number of bytes at the end of a file that are fetched first with [`First::End`]. This part includes the
/// records at the end of a zip file, however long the comment of the zip file is.
const END: u64 = 4 * PAGE;
/// Maximum size of a response that contains the whole file although a range was requested, in bytes.
const MAX_WHOLE: u64 = 16 << 20;
/// Time after which the server is asked again whether a file has changed.
const RECHECK: Duration = Duration::from_secs(30);
/// Time for which [`RemoteVersion::read_within`] fails immediately after a timeout.
const AVOIDED_FOR: Duration = Duration::from_secs(5);
/// Number of bytes requested to find out if the server supports ranges.
const PROBE: u64 = 4;
/// Limits and retries of files that are shared by URL.
const POLICY: Policy = Policy {
    limits: Limits {
        connect: Duration::from_secs(5),
        first: Duration::from_secs(10),
        silence: Duration::from_secs(10),
        total: Duration::from_secs(24 * 60 * 60),
        bytes: u64::MAX,
        rows: 0,
    },
    pace: 0,
    retries: 2,
    pause: Duration::from_millis(200),
    max_pause: Duration::from_millis(400),
    retries_timeouts: false,
};

/// Files by URL. A file is removed when it is not in use any more.
pub(super) type Files = Mutex<HashMap<Url, Weak<RemoteFile>>>;

/// A file on a web server or in an object store.
#[derive(Debug)]
pub struct RemoteFile {
    net: Arc<Net>,
    url: Mutex<Url>,
    policy: Policy,
    /// The current version, and when the server last confirmed it.
    known: Mutex<Option<(Weak<RemoteVersion>, Instant)>>,
    /// Held while a task asks the server for the current version.
    asking: tokio::sync::Mutex<()>,
}

/// A version of a file, as a response of the server described it. Reads fail once the file has changed.
#[derive(Debug)]
pub struct RemoteVersion {
    file: Arc<RemoteFile>,
    id: u64,
    size: u64,
    validators: Validators,
    fetching: Mutex<HashMap<(u64, u64), WeakShared<Fetch>>>,
    /// The end of the last fetch, and the readahead for the next fetch if it begins there
    /// (sequential reading).
    ahead: Mutex<(u64, u64)>,
    /// The last time that [`RemoteVersion::read_within`] timed out.
    late: Mutex<Option<Instant>>,
}

type Fetch = BoxFuture<'static, Result<Bytes, SourceError>>;

/// The part of a file that is likely to be read first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum First {
    /// The beginning.
    Begin,
    /// The end, which holds the directory of a zip file.
    End,
}

/// Result of [`RemoteFile::open`].
pub enum Opened {
    /// The server supports range requests.
    Parts(Arc<RemoteVersion>),
    /// The server does not support range requests, and sends the whole file.
    Whole(Whole),
}

/// A whole file that is being received. A broken connection is resumed where it broke.
pub struct Whole {
    /// The URL of the file, after redirects.
    pub url: Url,
    /// The size of the file in bytes, if the server states it.
    pub length: Option<u64>,
    /// The content of the file.
    pub body: BodyStream,
}

impl Net {
    /// Returns the file at a URL, shared by all its users.
    pub fn file(self: &Arc<Self>, url: &Url) -> Arc<RemoteFile> {
        let mut files = lock(&self.files);
        if let Some(file) = files.get(url).and_then(Weak::upgrade) {
            return file;
        }
        files.retain(|_, file| file.strong_count() > 0);
        let file = RemoteFile::new(self, url, POLICY);
        files.insert(url.clone(), Arc::downgrade(&file));
        file
    }
}

impl RemoteFile {
    /// Creates a file that is not shared by URL, with its own limits and retries.
    pub fn new(net: &Arc<Net>, url: &Url, policy: Policy) -> Arc<RemoteFile> {
        Arc::new(RemoteFile {
            net: Arc::clone(net),
            url: Mutex::new(url.clone()),
            policy,
            known: Mutex::default(),
            asking: tokio::sync::Mutex::default(),
        })
    }

    /// Returns the URL of the file.
    pub fn url(&self) -> Url {
        lock(&self.url).clone()
    }

    /// Changes the URL of the file, for example after a signed URL has expired.
    pub fn move_to(&self, url: &Url) {
        lock(&self.url).clone_from(url);
    }

    /// Returns the current version, if the server confirmed it within the last 30 seconds.
    pub fn known(&self) -> Option<Arc<RemoteVersion>> {
        let known = lock(&self.known);
        let (version, seen) = known.as_ref()?;
        version.upgrade().filter(|_| seen.elapsed() < RECHECK)
    }

    /// Returns the current version of the file, which may be up to 30 seconds old.
    ///
    /// # Errors
    /// Fails if the file does not exist, or the server does not support range requests.
    pub async fn version(
        self: &Arc<Self>,
        first: First,
    ) -> Result<Arc<RemoteVersion>, SourceError> {
        if let Some(version) = self.known() {
            return Ok(version);
        }
        let _alone = self.asking.lock().await;
        if let Some(version) = self.known() {
            return Ok(version);
        }
        let before = lock(&self.known)
            .as_ref()
            .and_then(|(one, _)| one.upgrade());
        let range = match (&before, first) {
            (Some(_), _) => "bytes=0-0".to_owned(),
            (None, First::Begin) => format!("bytes=0-{}", PAGE - 1),
            (None, First::End) => format!("bytes=-{END}"),
        };
        let asked = self.ask(Some(&range)).await.and_then(|answer| {
            let (is_part, size) = (!answer.is_whole, answer.total);
            match size.filter(|size| is_part || *size <= MAX_WHOLE) {
                Some(size) => Ok((answer, size)),
                None if is_part => Err(wrong(
                    "its Content-Range does not contain the size of the file",
                )),
                None => Err(wrong(
                    "it sends the whole file instead of the requested part (Range)",
                )),
            }
        });
        let (answer, size) = asked.map_err(|error| {
            let error = self.named(error);
            // If a removed file reappears, it counts as another version.
            if !error.is_transient() {
                *lock(&self.known) = None;
            }
            error
        })?;
        let from = answer.from;
        let stream = Stream::begun(self, answer);
        if let Some(before) = before
            && before.size == size
            && stream.validators.difference(&before.validators).is_none()
        {
            self.is(&before);
            if stream.end.is_some_and(|end| end - from <= PAGE) {
                // The next request reuses the connection of a response that was read to its end.
                let _ = collect(stream.pieces()).await;
            }
            return Ok(before);
        }
        let version = self.with(size, stream.validators.clone());
        let bytes = collect(stream.pieces()).await;
        // Return `Changed`, because `version_if_any` treats `Io` as a file that does not exist.
        let bytes = bytes.map_err(|error| match self.named(error) {
            SourceError::Io(why) => SourceError::Changed(why),
            error => error,
        })?;
        version.keep(from, &bytes);
        self.is(&version);
        Ok(version)
    }

    fn with(self: &Arc<Self>, size: u64, validators: Validators) -> Arc<RemoteVersion> {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Arc::new(RemoteVersion {
            file: Arc::clone(self),
            id: LAST.fetch_add(1, Ordering::Relaxed),
            size,
            validators,
            fetching: Mutex::default(),
            ahead: Mutex::default(),
            late: Mutex::default(),
        })
    }

    fn is(&self, version: &Arc<RemoteVersion>) {
        *lock(&self.known) = Some((Arc::downgrade(version), Instant::now()));
    }

    /// Returns the current version of the file, or `None` if the server does not have the file or refuses access to it.
    /// Object stores answer 403 for missing objects to clients that may not list the bucket.
    ///
    /// # Errors
    /// Fails with the errors of [`RemoteFile::version`].
    pub async fn version_if_any(
        self: &Arc<Self>,
    ) -> Result<Option<Arc<RemoteVersion>>, SourceError> {
        match self.version(First::Begin).await {
            Ok(version) => Ok(Some(version)),
            // `named` turns every final HTTP status into an `Io` error.
            Err(SourceError::Io(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Opens the file for streams of its parts, if the server supports range requests.
    ///
    /// # Errors
    /// Fails if the server does not send the file, or its response is invalid.
    pub async fn open(self: &Arc<Self>) -> Result<Opened, Error> {
        let answer = match self.ask(Some(&format!("bytes=0-{}", PROBE - 1))).await {
            Err(Error::Status { status: 416, .. }) => return self.whole().await.map(Opened::Whole),
            answer => answer?,
        };
        if answer.is_whole {
            return Ok(Opened::Whole(self.received(answer)));
        }
        let (from, end, size) = (answer.from, answer.end.unwrap_or(0), answer.total);
        if from != 0 || end > PROBE {
            return Err(wrong(&format!(
                "requested the first {PROBE} bytes, received {from} to {}",
                end.saturating_sub(1)
            )));
        }
        let stream = Stream::begun(self, answer);
        let validators = stream.validators.clone();
        collect(stream.pieces()).await?;
        Ok(match size {
            Some(size) => Opened::Parts(self.with(size, validators)),
            // Without a total size, the end of the file is unknown.
            None => Opened::Whole(self.whole().await?),
        })
    }

    /// Requests the whole file.
    ///
    /// # Errors
    /// Fails if the server does not send the whole file, or its response is invalid.
    pub async fn whole(self: &Arc<Self>) -> Result<Whole, Error> {
        let answer = self.ask(None).await?;
        if answer.is_whole {
            Ok(self.received(answer))
        } else {
            Err(wrong("it sends a part instead of the whole file"))
        }
    }

    fn received(self: &Arc<Self>, answer: Answer) -> Whole {
        Whole {
            url: answer.url.clone(),
            length: answer.total,
            body: Stream::begun(self, answer).pieces(),
        }
    }

    /// Requests the file or a range, with retries.
    async fn ask(&self, range: Option<&str>) -> Result<Answer, Error> {
        let mut retries = Retries::new(&self.policy);
        loop {
            match self.ask_once(range).await {
                Err(error) => retries.pause_after(error).await?,
                answer => return answer,
            }
        }
    }

    async fn ask_once(&self, range: Option<&str>) -> Result<Answer, Error> {
        Answer::ask(&self.net, self.url(), range, &self.policy).await
    }

    /// Adds the URL of the file to an error.
    fn named(&self, error: Error) -> SourceError {
        let at = |why: &str| format!("{}: {why}", shown(&self.url()));
        match error {
            Error::Changed(how) => SourceError::Io(at(&format!("it has just changed: {how}"))),
            Error::Status {
                status: status @ 400..500,
                ..
            } if !is_transient(status) => {
                SourceError::Io(at(&format!("the server refuses it (HTTP status {status})")))
            }
            error => match SourceError::from(error) {
                SourceError::Connection(why) => SourceError::Connection(at(&why)),
                SourceError::Answer(why) => SourceError::Answer(at(&why)),
                SourceError::Forbidden(why) => SourceError::Forbidden(at(&why)),
                other => other,
            },
        }
    }
}

fn wrong(why: &str) -> Error {
    Error::Answer(why.to_owned())
}

async fn collect(mut pieces: BodyStream) -> Result<Bytes, Error> {
    let mut bytes = BytesMut::new();
    while let Some(piece) = pieces.try_next().await? {
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes.freeze())
}

impl RemoteVersion {
    /// Returns an ID that is unique among the versions of all files.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Returns the size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns the file that this is a version of.
    pub fn file(&self) -> &Arc<RemoteFile> {
        &self.file
    }

    /// Returns true if no later version is known and the file is not known to be removed.
    pub fn is_last(&self) -> bool {
        let known = lock(&self.file.known);
        known
            .as_ref()
            .is_some_and(|(last, _)| std::ptr::eq(last.as_ptr(), self))
    }

    /// Reads as [`read`](RemoteVersion::read) does, with a timeout. After a timeout, reads fail immediately for 5
    /// seconds.
    ///
    /// # Errors
    /// [`SourceError::Timeout`], or the errors of [`read`](RemoteVersion::read).
    pub async fn read_within(
        self: &Arc<Self>,
        patience: Duration,
        from: u64,
        length: usize,
    ) -> Result<Bytes, SourceError> {
        let is_late = |since: Instant| since.elapsed() < AVOIDED_FOR;
        if lock(&self.late).is_some_and(is_late) {
            return Err(SourceError::Timeout);
        }
        let read = tokio::time::timeout(patience, self.read(from, length)).await;
        read.unwrap_or_else(|_| {
            *lock(&self.late) = Some(Instant::now());
            Err(SourceError::Timeout)
        })
    }

    /// Returns up to `length` bytes from an offset, limited by the end of the file, if all of them are cached.
    pub fn kept(&self, from: u64, length: usize) -> Option<Bytes> {
        let range = self.clamped(from, length);
        let mut bytes = BytesMut::with_capacity(usize::try_from(range.end - range.start).ok()?);
        let mut pages = pages();
        for number in numbers(&range) {
            let page = pages.get((self.id, number))?;
            bytes.extend_from_slice(part_of(&page, number, &range));
        }
        Some(bytes.freeze())
    }

    /// Reads up to `length` bytes from an offset, limited by the end of the file.
    ///
    /// # Errors
    /// Fails if the server does not send the bytes, or the file has changed.
    pub async fn read(self: &Arc<Self>, from: u64, length: usize) -> Result<Bytes, SourceError> {
        let range = self.clamped(from, length);
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        let there: HashMap<u64, Bytes> = {
            let mut pages = pages();
            let numbers = numbers(&range);
            let found = numbers.filter_map(|number| Some((number, pages.get((self.id, number))?)));
            found.collect()
        };
        let mut missing = numbers(&range).filter(|number| !there.contains_key(number));
        let Some(first) = missing.next() else {
            return Ok(joined(&range, |number| there.get(&number).cloned()));
        };
        let last = missing.next_back().unwrap_or(first);
        let fetched = self.fetch(self.with_more(first, last)).await?;
        let (at, bytes) = fetched;
        Ok(joined(&range, |number| {
            there.get(&number).cloned().or_else(|| {
                let begin = usize::try_from((number * PAGE).checked_sub(at)?).ok()?;
                let end = bytes.len().min(begin + PAGE as usize);
                (begin <= end).then(|| bytes.slice(begin..end))
            })
        }))
    }

    /// Streams a part of the file, without caching the bytes.
    ///
    /// # Errors
    /// Fails if the server does not send the part, or the file has changed.
    pub async fn stream(
        self: &Arc<Self>,
        from: u64,
        length: u64,
    ) -> Result<BodyStream, SourceError> {
        let mut pieces = self.pieces(from, length).peekable();
        match Pin::new(&mut pieces).peek().await {
            Some(Err(error)) => Err(self.file.named(error.clone())),
            _ => Ok(pieces.boxed()),
        }
    }

    /// Streams a part of the file as [`stream`](RemoteVersion::stream) does. The request is sent when the first piece is
    /// read.
    pub fn pieces(self: &Arc<Self>, from: u64, length: u64) -> BodyStream {
        let end = from.saturating_add(length).min(self.size);
        let version = (self.size, self.validators.clone());
        let pieces = Stream::new(&self.file, version, from.min(end), end).pieces();
        let version = Arc::clone(self);
        let failed = move |error: &Error| {
            if !version.file.named(error.clone()).is_transient() {
                version.supersede();
            }
        };
        pieces.inspect_err(failed).boxed()
    }

    /// Returns a blocking reader of a part of the file, for threads of the runtime that are allowed to block.
    ///
    /// # Panics
    /// Panics if called outside of a runtime.
    pub fn reader(self: &Arc<Self>, from: u64, length: u64) -> Body {
        let client = Client::over(&self.file.net);
        let part = (Arc::clone(self), from, from.saturating_add(length));
        let pieces = streams::try_unfold(part, async |(version, at, end)| {
            if at >= end {
                return Ok(None);
            }
            let piece = version.read(at, (end - at).min(MAX_AHEAD) as usize).await;
            let piece = piece.map_err(io::Error::other)?;
            if piece.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let next = at + piece.len() as u64;
            Ok(Some((piece, (version, next, end))))
        });
        client.read(pieces.boxed())
    }

    fn clamped(&self, from: u64, length: usize) -> Range<u64> {
        let from = from.min(self.size);
        from..from.saturating_add(length as u64).min(self.size)
    }

    /// Returns the byte range of some pages, extended by the readahead.
    fn with_more(&self, first: u64, last: u64) -> Range<u64> {
        if self.size <= SMALL {
            return 0..self.size;
        }
        let (from, mut end) = (first * PAGE, (last + 1) * PAGE);
        let mut ahead = lock(&self.ahead);
        let (reached, step) = *ahead;
        // Sequential read: double the readahead.
        let step = if from == reached {
            (step * 2).clamp(PAGE, MAX_AHEAD)
        } else {
            0
        };
        end = end.saturating_add(step).min(self.size);
        *ahead = (end, step);
        from..end
    }

    /// Fetches and caches a range, together with concurrent readers of the same range. Returns the offset of the bytes
    /// and the bytes.
    async fn fetch(self: &Arc<Self>, range: Range<u64>) -> Result<(u64, Bytes), SourceError> {
        let key = (range.start, range.end);
        let fetch = {
            let mut fetching = lock(&self.fetching);
            let under_way = fetching.get(&key).and_then(WeakShared::upgrade);
            under_way
                .filter(|fetch| fetch.peek().is_none())
                .unwrap_or_else(|| {
                    fetching.retain(|_, fetch| fetch.upgrade().is_some());
                    let (version, range) = (Arc::clone(self), range.clone());
                    let fetch = async move { version.fetch_alone(range).await };
                    let fetch: Shared<Fetch> = fetch.boxed().shared();
                    fetching.extend(fetch.downgrade().map(|fetch| (key, fetch)));
                    fetch
                })
        };
        Ok((range.start, fetch.await?))
    }

    async fn fetch_alone(self: Arc<Self>, range: Range<u64>) -> Result<Bytes, SourceError> {
        let bytes = collect(self.pieces(range.start, range.end - range.start)).await;
        let bytes = bytes.map_err(|error| self.file.named(error))?;
        self.keep(range.start, &bytes);
        Ok(bytes)
    }

    /// Marks this version as outdated, unless a later version is known already.
    fn supersede(&self) {
        let mut known = lock(&self.file.known);
        known.take_if(|(last, _)| std::ptr::eq(last.as_ptr(), self));
    }

    /// Caches the pages that are complete in `bytes`.
    fn keep(&self, from: u64, bytes: &Bytes) {
        let end = from + bytes.len() as u64;
        let mut pages = pages();
        let mut number = from.div_ceil(PAGE);
        while number * PAGE < end {
            let begin = number * PAGE;
            let stop = (begin + PAGE).min(self.size);
            if stop > end {
                break;
            }
            let page = &bytes[(begin - from) as usize..(stop - from) as usize];
            // Copy the page, so that the cache does not keep the whole response in memory.
            pages.put((self.id, number), Bytes::copy_from_slice(page));
            number += 1;
        }
    }
}

impl Drop for RemoteVersion {
    fn drop(&mut self) {
        pages().forget(self.id);
    }
}

/// Returns the numbers of the pages that overlap a byte range.
fn numbers(range: &Range<u64>) -> Range<u64> {
    range.start / PAGE..range.end.div_ceil(PAGE)
}

/// Returns the bytes of a page that are part of a range.
fn part_of<'a>(page: &'a Bytes, number: u64, range: &Range<u64>) -> &'a [u8] {
    let begin = number * PAGE;
    let from = range.start.saturating_sub(begin).min(page.len() as u64);
    let end = range.end.saturating_sub(begin).min(page.len() as u64);
    &page[from as usize..end.max(from) as usize]
}

fn joined(range: &Range<u64>, page: impl Fn(u64) -> Option<Bytes>) -> Bytes {
    let mut bytes = BytesMut::with_capacity((range.end - range.start) as usize);
    for number in numbers(range) {
        let page = page(number).unwrap_or_default();
        bytes.extend_from_slice(part_of(&page, number, range));
    }
    bytes.freeze()
}

/// Page cache of all files. The key is the ID of a version and the number of a page.
#[derive(Default)]
struct Pages {
    pages: HashMap<(u64, u64), (Bytes, u64)>,
    size: usize,
    clock: u64,
}

impl Pages {
    fn get(&mut self, which: (u64, u64)) -> Option<Bytes> {
        self.clock += 1;
        let (page, used) = self.pages.get_mut(&which)?;
        *used = self.clock;
        Some(page.clone())
    }

    fn put(&mut self, which: (u64, u64), page: Bytes) {
        self.clock += 1;
        self.size += page.len();
        let before = self.pages.insert(which, (page, self.clock));
        self.size -= before.map_or(0, |(page, _)| page.len());
        if self.size > MAX_KEPT {
            // Evict half of the pages at a time, so that evictions are rare.
            let mut uses: Vec<u64> = self.pages.values().map(|(_, used)| *used).collect();
            let half = uses.len() / 2;
            let (_, middle, _) = uses.select_nth_unstable(half);
            let middle = *middle;
            self.retain(|_, used| used >= middle);
        }
    }

    fn forget(&mut self, version: u64) {
        self.retain(|(of, _), _| of != version);
    }

    fn retain(&mut self, keeps: impl Fn((u64, u64), u64) -> bool) {
        self.pages.retain(|which, (_, used)| keeps(*which, *used));
        self.size = self.pages.values().map(|(page, _)| page.len()).sum();
    }
}

fn pages() -> MutexGuard<'static, Pages> {
    static PAGES: LazyLock<Mutex<Pages>> = LazyLock::new(Mutex::default);
    lock(&PAGES)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
