//! Files on web servers and in object stores, read in parts on demand.
//!
//! Pages that were read are cached in bounded memory for as long as the file is unchanged: `ETag`, `Last-Modified` and
//! size of every response tell which version of the file its bytes belong to. Only small files are ever fetched whole.

use std::collections::HashMap;
use std::io::{self, Read};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes, BytesMut};
use futures_util::future::{BoxFuture, FutureExt, Shared, WeakShared};
use futures_util::{StreamExt, TryStreamExt};
use tokio::runtime::Handle;
use url::Url;

use super::answer::{Answer, request};
use super::range::{Part, Validators};
use super::{Backoff, is_transient};
use super::{BodyStream, Net, shown};
use crate::source::{Limits, SourceError};

/// Size of a page, in bytes.
const PAGE: u64 = 32 << 10;
/// Maximum size of the page cache, over all files, in bytes.
const MAX_KEPT: usize = 64 << 20;
/// Maximum size of a file that is fetched whole, regardless of which part is read, in bytes.
const SMALL: u64 = 1 << 20;
/// Maximum readahead for sequential reads, in bytes.
const MAX_AHEAD: u64 = 1 << 20;
/// Number of bytes at the end of a file that are fetched first with [`First::End`]. They include the records at the
/// end of a zip file, however long its comment is.
const END: u64 = 4 * PAGE;
/// Maximum size of a response that contains the whole file although a range was requested, in bytes.
const MAX_WHOLE: u64 = 16 << 20;
/// Time after which the server is asked again whether a file has changed.
const RECHECK: Duration = Duration::from_secs(30);
/// Time for which [`RemoteVersion::read_within`] fails at once after a timeout.
const AVOIDED_FOR: Duration = Duration::from_secs(5);
/// Number of retries of a request.
const RETRIES: usize = 2;
/// Maximum delay before a retry.
const MAX_PAUSE: Duration = Duration::from_millis(400);
/// Limits of a request.
const LIMITS: Limits = Limits {
    connect: Duration::from_secs(5),
    first: Duration::from_secs(10),
    silence: Duration::from_secs(10),
    total: Duration::from_secs(24 * 60 * 60),
    bytes: u64::MAX,
    rows: 0,
};

/// Files by URL, each for as long as it is in use.
pub(super) type Files = Mutex<HashMap<Url, Weak<RemoteFile>>>;

/// A file on a web server or in an object store.
#[derive(Debug)]
pub struct RemoteFile {
    net: Arc<Net>,
    url: Mutex<Url>,
    /// The current version, and when the server last confirmed it.
    known: Mutex<Option<(Weak<RemoteVersion>, Instant)>>,
    /// Held while a task asks the server for the current version.
    asking: tokio::sync::Mutex<()>,
}

/// A version of a file, as of a response of the server. Reads fail once the file has changed.
#[derive(Debug)]
pub struct RemoteVersion {
    file: Arc<RemoteFile>,
    id: u64,
    size: u64,
    validators: Validators,
    fetching: Mutex<HashMap<(u64, u64), WeakShared<Fetch>>>,
    /// The end of the last fetch, and the readahead of the next fetch if it begins there.
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

/// A part of a file as the server sends it.
struct Received {
    part: Part,
    size: u64,
    validators: Validators,
    body: BodyStream,
}

impl Net {
    /// Returns the file at a URL, shared by all its users.
    pub fn file(self: &Arc<Self>, url: &Url) -> Arc<RemoteFile> {
        let mut files = lock(&self.files);
        if let Some(file) = files.get(url).and_then(Weak::upgrade) {
            return file;
        }
        files.retain(|_, file| file.strong_count() > 0);
        let file = Arc::new(RemoteFile {
            net: Arc::clone(self),
            url: Mutex::new(url.clone()),
            known: Mutex::default(),
            asking: tokio::sync::Mutex::default(),
        });
        files.insert(url.clone(), Arc::downgrade(&file));
        file
    }
}

impl RemoteFile {
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
    /// If the file does not exist, or the server does not support range requests.
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
        let answer = self.ask(&range).await.inspect_err(|error| {
            // A file that was removed counts as another version when it comes back.
            if !error.is_transient() {
                *lock(&self.known) = None;
            }
        })?;
        if let Some(before) = before
            && before.size == answer.size
            && answer.validators.difference(&before.validators).is_none()
        {
            self.is(&before);
            if answer.part.last - answer.part.from < PAGE {
                // A response that was read to its end leaves its connection to the next request.
                let _ = collect(answer).await;
            }
            return Ok(before);
        }
        static LAST: AtomicU64 = AtomicU64::new(0);
        let version = Arc::new(RemoteVersion {
            file: Arc::clone(self),
            id: LAST.fetch_add(1, Ordering::Relaxed),
            size: answer.size,
            validators: answer.validators.clone(),
            fetching: Mutex::default(),
            ahead: Mutex::default(),
            late: Mutex::default(),
        });
        let from = answer.part.from;
        let bytes = collect(answer).await.map_err(|error| self.named(error))?;
        version.keep(from, &bytes);
        self.is(&version);
        Ok(version)
    }

    fn is(&self, version: &Arc<RemoteVersion>) {
        *lock(&self.known) = Some((Arc::downgrade(version), Instant::now()));
    }

    /// Returns the current version of the file, or `None` if the server does not have it or does not return it to us.
    /// Object stores answer 403 for missing objects to clients that may not list the bucket.
    ///
    /// # Errors
    /// The errors of [`RemoteFile::version`].
    pub async fn version_if_any(
        self: &Arc<Self>,
    ) -> Result<Option<Arc<RemoteVersion>>, SourceError> {
        match self.version(First::Begin).await {
            Ok(version) => Ok(Some(version)),
            // `named` turns every final HTTP status into this error.
            Err(SourceError::Io(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Requests a range, with retries after transient errors.
    async fn ask(&self, range: &str) -> Result<Received, SourceError> {
        let mut backoff = Backoff::new(MAX_PAUSE);
        for _ in 0..RETRIES {
            match self.ask_once(range).await {
                Err(error) if error.is_transient() && error != SourceError::Timeout => {
                    tokio::time::sleep(backoff.pause()).await;
                }
                answer => return answer.map_err(|error| self.named(error)),
            }
        }
        self.ask_once(range)
            .await
            .map_err(|error| self.named(error))
    }

    async fn ask_once(&self, range: &str) -> Result<Received, SourceError> {
        let response = self.net.send(request(&self.url(), Some(range))?, &LIMITS);
        let response = response.await?;
        let (status, headers) = (response.status, &response.headers);
        let (part, size, validators, body) =
            match Answer::of(status, headers, response.url, response.body)? {
                Answer::Part {
                    part,
                    validators,
                    body,
                } => {
                    let size = part.total.ok_or_else(|| {
                        wrong("its Content-Range does not contain the size of the file")
                    })?;
                    (part, size, validators, body)
                }
                Answer::Whole {
                    length,
                    validators,
                    body,
                    ..
                } => {
                    let size = length.filter(|size| *size <= MAX_WHOLE).ok_or_else(|| {
                        wrong("it sends the whole file instead of the requested part (Range)")
                    })?;
                    let part = Part {
                        from: 0,
                        last: size.saturating_sub(1),
                        total: length,
                    };
                    (part, size, validators, body)
                }
                // An empty file has no satisfiable range.
                Answer::NoSuchPart { total: Some(0) } => {
                    let nothing = Part {
                        from: 0,
                        last: 0,
                        total: Some(0),
                    };
                    let validators = Validators::of(headers);
                    (
                        nothing,
                        0,
                        validators,
                        futures_util::stream::empty().boxed(),
                    )
                }
                Answer::NoSuchPart { .. } => return Err(SourceError::Status(status)),
            };
        Ok(Received {
            part,
            size,
            validators,
            body,
        })
    }

    /// Adds the URL of the file to an error.
    fn named(&self, error: SourceError) -> SourceError {
        let at = |why: &str| format!("{}: {why}", shown(&self.url()));
        match error {
            SourceError::Status(status @ 400..500) if !is_transient(status) => {
                SourceError::Io(at(&format!("the server refuses it (HTTP status {status})")))
            }
            SourceError::Connection(why) => SourceError::Connection(at(&why)),
            SourceError::Answer(why) => SourceError::Answer(at(&why)),
            SourceError::Forbidden(why) => SourceError::Forbidden(at(&why)),
            other => other,
        }
    }
}

fn wrong(why: &str) -> SourceError {
    SourceError::Answer(why.to_owned())
}

/// Collects the bytes of a response, and checks that there are as many as it announced.
async fn collect(answer: Received) -> Result<Bytes, SourceError> {
    if answer.size == 0 {
        return Ok(Bytes::new());
    }
    let expected = answer.part.last - answer.part.from + 1;
    let mut body = answer.body;
    let mut bytes = BytesMut::new();
    while let Some(piece) = body.next().await.transpose()? {
        bytes.extend_from_slice(&piece);
        if bytes.len() as u64 > expected {
            return Err(wrong("it sends more than the part that it announced"));
        }
    }
    if (bytes.len() as u64) < expected {
        let why = "it sends less than the part that it announced";
        return Err(SourceError::Connection(why.to_owned()));
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

    /// Returns true if no later version is known and the file is not known to be gone.
    pub fn is_last(&self) -> bool {
        let known = lock(&self.file.known);
        known
            .as_ref()
            .is_some_and(|(last, _)| std::ptr::eq(last.as_ptr(), self))
    }

    /// Reads as [`read`](RemoteVersion::read) does, with a timeout. After a timeout, reads fail at once for 5 seconds.
    ///
    /// # Errors
    /// [`SourceError::Timeout`], or those of [`read`](RemoteVersion::read).
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
    /// If the server does not send the bytes, or the file has changed.
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

    /// Streams a part of the file. Its bytes are not cached.
    ///
    /// # Errors
    /// If the server does not send the part, or the file has changed.
    pub async fn stream(&self, from: u64, length: u64) -> Result<BodyStream, SourceError> {
        let end = from.saturating_add(length).min(self.size);
        if from >= end {
            return Ok(futures_util::stream::empty().boxed());
        }
        let answer = self.ask(from..end).await?;
        let skipped = usize::try_from(from - answer.part.from).unwrap_or(usize::MAX);
        let wanted = usize::try_from(end - from).unwrap_or(usize::MAX);
        let mut seen = 0_usize;
        let pieces = answer.body.map_ok(move |mut piece| {
            let before = seen;
            seen = seen.saturating_add(piece.len());
            piece.advance(skipped.saturating_sub(before).min(piece.len()));
            let given = before.saturating_sub(skipped);
            piece.truncate(wanted.saturating_sub(given));
            piece
        });
        Ok(pieces.boxed())
    }

    /// Returns a blocking reader of a part of the file, for threads of the runtime that are allowed to block.
    ///
    /// # Panics
    /// Panics if called outside of a runtime.
    pub fn reader(self: &Arc<Self>, from: u64, length: u64) -> Reader {
        Reader {
            version: Arc::clone(self),
            runtime: Handle::current(),
            at: from,
            end: from.saturating_add(length),
            piece: Bytes::new(),
        }
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
        let answer = self.ask(range.clone()).await?;
        let from = answer.part.from;
        let bytes = collect(answer).await;
        let bytes = bytes.map_err(|error| self.file.named(error))?;
        // A small file may have been sent whole.
        let begin = usize::try_from(range.start - from).unwrap_or(usize::MAX);
        let length = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        let bytes = bytes.slice(begin..begin + length);
        self.keep(range.start, &bytes);
        Ok(bytes)
    }

    /// Requests a range, and checks that the response belongs to this version.
    async fn ask(&self, range: Range<u64>) -> Result<Received, SourceError> {
        let asked = format!("bytes={}-{}", range.start, range.end - 1);
        let answer = self.file.ask(&asked).await;
        let answer = answer.inspect_err(|error| {
            if !error.is_transient() {
                self.supersede();
            }
        })?;
        let size = (answer.size != self.size)
            .then(|| format!("it had {} bytes, and has {}", self.size, answer.size));
        if let Some(how) = answer.validators.difference(&self.validators).or(size) {
            self.supersede();
            let file = shown(&self.file.url());
            return Err(SourceError::Io(format!(
                "{file}: it has just changed: {how}"
            )));
        }
        if answer.part.from > range.start || answer.part.last + 1 < range.end {
            let Part { from, last, .. } = answer.part;
            let (first, end) = (range.start, range.end - 1);
            return Err(self.file.named(wrong(&format!(
                "requested bytes {first} to {end}, received {from} to {last}"
            ))));
        }
        Ok(answer)
    }

    /// Marks this version as outdated, unless a later one is known already.
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
            // Copied, so that the cache does not keep the whole response alive.
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

/// A blocking reader of a part of a file.
pub struct Reader {
    version: Arc<RemoteVersion>,
    runtime: Handle,
    at: u64,
    end: u64,
    piece: Bytes,
}

impl Read for Reader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.piece.is_empty() && self.at < self.end {
            let length = (self.end - self.at).min(MAX_AHEAD) as usize;
            let read = self.version.read(self.at, length);
            self.piece = self.runtime.block_on(read).map_err(io::Error::other)?;
            if self.piece.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.at += self.piece.len() as u64;
        }
        let n = self.piece.len().min(into.len());
        self.piece.copy_to_slice(&mut into[..n]);
        Ok(n)
    }
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
