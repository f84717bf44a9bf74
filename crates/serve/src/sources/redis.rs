//! Sorted sets of CDXJ lines in Redis, all with the same score.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering as Memory};
use std::sync::{Arc, Mutex, PoisonError};

use ::redis::FromRedisValue;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, StreamExt};

use super::Identity;
use crate::source::{Lookup, Rows, Source};
use crate::writable::ALIASES;
use crawlspace_cdx::surt::{KeyRange, MatchType};
use crawlspace_client::server::without_password;
use crawlspace_client::{Ask, AsyncServer, Call};
use crawlspace_index::lines::MAX_LINE;
use crawlspace_index::sorted::Order;
use crawlspace_index::sorted::line::{Shape, Writer, is_no_capture, trimmed};
use crawlspace_index::source::{Batch, SourceError};
use crawlspace_index::{Position, Span, distance};

/// Number of members in the first page.
const FIRST_PAGE: usize = 100;
/// Maximum number of members in a page, and of rows in a batch.
const PAGE: usize = 1000;
/// Target size of a page with large members, in bytes.
const PAGE_BYTES: usize = 1 << 20;
/// Maximum number of captures with the same distance from the requested timestamp that are sorted.
const RUN: usize = 20_000;
/// Number of retries after a broken connection.
const RETRIES: u32 = 1;

const MANY: &str = "a key with * matches many sorted sets, which cannot be read as one source: list each of them as a \
 source of an index_group";

/// A sorted set of CDXJ lines.
#[derive(Clone)]
pub struct RedisSource(Arc<Inner>);

struct Inner {
    identity: Identity,
    /// URL of the server, with the number of the database.
    url: String,
    /// Key, which may contain `{coll}`.
    key: String,
    /// A hash next to the sorted set contains aliases of urlkeys.
    has_aliases: bool,
    /// Connection, opened on first use.
    server: tokio::sync::Mutex<Option<AsyncServer>>,
    problem: Mutex<Option<String>>,
    broken: AtomicU64,
}

impl RedisSource {
    /// Creates a source of the sorted set at `redis://host:port/db/key` or `rediss://…`, which connects on first use.
    /// `{coll}` in the key is replaced by the name of the collection.
    pub(crate) fn new(url: &str, has_aliases: bool, identity: Identity) -> RedisSource {
        let (url, key) = parts(url);
        RedisSource(Arc::new(Inner {
            identity,
            url,
            key,
            has_aliases,
            server: tokio::sync::Mutex::default(),
            problem: Mutex::default(),
            broken: AtomicU64::new(0),
        }))
    }
}

impl fmt::Debug for RedisSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RedisSource").field(&self.0.shown()).finish()
    }
}

/// Splits a URL into the URL of the database and the key.
fn parts(url: &str) -> (String, String) {
    let Some((scheme, rest)) = url.split_once("://") else {
        return (url.to_owned(), String::new());
    };
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (database, key) = match path.split_once('/') {
        Some((database, key)) if is_number(database) || database.is_empty() => (database, key),
        None if is_number(path) => (path, ""),
        // The database number is missing.
        _ => ("", path),
    };
    let database = if database.is_empty() { "0" } else { database };
    (format!("{scheme}://{host}/{database}"), key.to_owned())
}

impl Source for RedisSource {
    fn rows(&self, lookup: Arc<Lookup>) -> BoxFuture<'_, Result<Rows, SourceError>> {
        async move {
            if self.0.key.contains('*') {
                return Err(SourceError::Unsupported(MANY.to_owned()));
            }
            let keys = self.0.keys(&lookup).await?;
            let span = Span::of(&keys, lookup.query.from, lookup.query.to);
            let split = match lookup.order {
                Order::Closest(moment) if span.one_key => Some(span.split(moment)),
                _ => None,
            };
            let order = match (lookup.order, &split) {
                (Order::Closest(_), None) => Order::Ascending,
                (order, _) => order,
            };
            let asking = Asking::new(Arc::clone(&self.0), &lookup, order, span, split);
            let batches = stream::unfold(Some(asking), |asking| async move {
                let mut asking = asking?;
                match asking.next().await {
                    Ok(batch) if batch.is_empty() => None,
                    Ok(batch) => Some((Ok(batch), Some(asking))),
                    Err(error) => Some((Err(error), None)),
                }
            });
            Ok(Rows::whole(order == lookup.order, batches.boxed()))
        }
        .boxed()
    }

    fn health(&self) -> Result<(), String> {
        if self.0.key.contains('*') {
            return Err(MANY.to_owned());
        }
        let problem = self.0.problem.lock();
        let problem = problem.unwrap_or_else(PoisonError::into_inner);
        problem.clone().map_or(Ok(()), Err)
    }

    fn broken(&self) -> u64 {
        self.0.broken.load(Memory::Relaxed)
    }
}

impl Inner {
    fn shown(&self) -> String {
        without_password(&self.url)
    }

    async fn server(&self) -> Result<AsyncServer, crawlspace_client::Error> {
        let mut server = self.server.lock().await;
        if let Some(server) = &*server {
            return Ok(server.clone());
        }
        let options = AsyncServer::options(&self.url)
            .timeout(self.identity.limits.silence)
            .retries(RETRIES);
        let opened = options.open_async().await?;
        *server = Some(opened.clone());
        Ok(opened)
    }

    /// Returns the keys of a lookup: those of the target if the key is an alias.
    async fn keys(&self, lookup: &Lookup) -> Result<KeyRange, SourceError> {
        let keys = &lookup.query.keys;
        let key = keys.from.strip_suffix(b" ");
        let key = key.filter(|_| lookup.query.match_type == MatchType::Exact && self.has_aliases);
        let Some(key) = key else {
            return Ok(keys.clone());
        };
        let mut command = ::redis::cmd("HGET");
        let aliases = self.key.replace("{coll}", &lookup.collection) + ALIASES;
        command.arg(aliases).arg(key);
        let target: Option<Vec<u8>> = self.ask(command).await?;
        Ok(match target {
            Some(target) => KeyRange {
                from: [&target[..], b" "].concat(),
                to: [&target[..], b"!"].concat(),
            },
            None => keys.clone(),
        })
    }

    /// Returns members from a bound on, in either direction.
    async fn members(
        &self,
        command: &str,
        key: &str,
        bounds: [&[u8]; 2],
        count: usize,
    ) -> Result<Vec<Vec<u8>>, SourceError> {
        let mut command = ::redis::cmd(command);
        let [from, to] = bounds;
        command.arg(key).arg(from).arg(to);
        command.arg("LIMIT").arg(0).arg(count);
        self.ask(command).await
    }

    async fn ask<T: FromRedisValue + Send + 'static>(
        &self,
        command: ::redis::Cmd,
    ) -> Result<T, SourceError> {
        let answer = async {
            let server = self.server().await?;
            server.ask(Call::<T>::new(command).repeatable()).await
        };
        let answer = answer.await.map_err(|error| self.failed(&error));
        let problem = answer.as_ref().err().map(SourceError::to_string);
        *self.problem.lock().unwrap_or_else(PoisonError::into_inner) = problem;
        answer
    }

    fn failed(&self, error: &crawlspace_client::Error) -> SourceError {
        let text = format!("{}: {error}", self.shown());
        match error.word() {
            // The server itself refused the request.
            Some(_) => SourceError::Answer(text),
            None => SourceError::Connection(text),
        }
    }
}

/// State of a lookup.
struct Asking {
    inner: Arc<Inner>,
    key: String,
    span: Arc<Span>,
    order: Order,
    writer: Writer,
    left: u64,
    /// Lines before the split, in descending order. `later` has the lines after the split, or all
    /// lines.
    earlier: Option<Side>,
    later: Option<Side>,
    /// Lines of `earlier` with the same distance, in descending order.
    run: Vec<IndexLine>,
    /// Set if the run is complete.
    whole: bool,
}

/// Members in one direction.
struct Side {
    command: &'static str,
    /// Bounds in Redis syntax: `[text`, `(text`, `-`, `+`.
    from: Vec<u8>,
    to: Vec<u8>,
    page: usize,
    lines: VecDeque<IndexLine>,
    end: bool,
}

struct IndexLine {
    line: Vec<u8>,
    shape: Shape,
    distance: u64,
}

fn bound(kind: u8, text: &[u8]) -> Vec<u8> {
    let mut bound = vec![kind];
    bound.extend_from_slice(text);
    bound
}

impl Side {
    fn ahead(span: &Span) -> Side {
        let end = match &span.to[..] {
            b"" => b"+".to_vec(),
            to => bound(b'(', to),
        };
        Side::new("ZRANGEBYLEX", bound(b'[', &span.from), end)
    }

    fn back(span: &Span) -> Side {
        let end = match &span.to[..] {
            b"" => b"+".to_vec(),
            to => bound(b'(', to),
        };
        Side::new("ZREVRANGEBYLEX", end, bound(b'[', &span.from))
    }

    fn new(command: &'static str, from: Vec<u8>, to: Vec<u8>) -> Side {
        Side {
            command,
            from,
            to,
            page: FIRST_PAGE,
            lines: VecDeque::new(),
            end: false,
        }
    }
}

impl Asking {
    fn new(
        inner: Arc<Inner>,
        lookup: &Lookup,
        order: Order,
        span: Span,
        split: Option<Vec<u8>>,
    ) -> Asking {
        let (earlier, later) = match split {
            Some(split) => {
                let (earlier, later) = span.halves(&split);
                (Some(Side::back(&earlier)), Some(Side::ahead(&later)))
            }
            None if order == Order::Descending => (None, Some(Side::back(&span))),
            None => (None, Some(Side::ahead(&span))),
        };
        let nothing = span.is_empty();
        let at_most = lookup.at_most.filter(|_| order == lookup.order);
        Asking {
            key: inner.key.replace("{coll}", &lookup.collection),
            writer: Writer::new(Arc::clone(&inner.identity.members)),
            inner,
            span: Arc::new(span),
            order,
            left: at_most.unwrap_or(u64::MAX),
            earlier: earlier.filter(|_| !nothing),
            later: later.filter(|_| !nothing),
            run: Vec::new(),
            whole: false,
        }
    }

    /// Returns rows until the next page is needed. Empty at the end.
    async fn next(&mut self) -> Result<Batch, SourceError> {
        while self.left > 0 && self.writer.size().0 < PAGE {
            let gathers = self.gather();
            let later = self.later.as_ref();
            if gathers || later.is_some_and(|side| side.lines.is_empty() && !side.end) {
                // Returns available rows before requesting more.
                if self.writer.size().0 > 0 {
                    break;
                }
                self.ask().await?;
                continue;
            }
            let Some(found) = self.pop() else { break };
            if self.writer.push(&found.line, found.shape, 0) {
                self.left -= 1;
            } else {
                self.inner.broken.fetch_add(1, Memory::Relaxed);
            }
        }
        Ok(self.writer.take())
    }

    /// Moves lines with the same distance into the run. Returns whether another page is needed to complete it.
    fn gather(&mut self) -> bool {
        let Some(earlier) = self.earlier.as_mut().filter(|_| !self.whole) else {
            return false;
        };
        while let Some(found) = earlier.lines.pop_front() {
            let first = self.run.first();
            if first.is_some_and(|first| first.distance != found.distance) || self.run.len() >= RUN
            {
                earlier.lines.push_front(found);
                self.whole = true;
                return false;
            }
            self.run.push(found);
        }
        self.whole = earlier.end;
        !self.whole
    }

    /// Returns the next available line.
    fn pop(&mut self) -> Option<IndexLine> {
        let later = self.later.as_mut()?;
        let run = self.run.first().map(|first| first.distance);
        let head = later.lines.front().map(|head| head.distance);
        if run.is_some() && (head.is_none() || run <= head) {
            let found = self.run.pop();
            self.whole = !self.run.is_empty();
            return found;
        }
        later.lines.pop_front()
    }

    async fn ask(&mut self) -> Result<(), SourceError> {
        for side in [&mut self.earlier, &mut self.later].into_iter().flatten() {
            if !side.lines.is_empty() || side.end {
                continue;
            }
            let bounds = [&side.from[..], &side.to[..]];
            let members = self
                .inner
                .members(side.command, &self.key, bounds, side.page);
            let members = members.await?;
            side.end = members.len() < side.page;
            let size: usize = members.iter().map(Vec::len).sum();
            let average = size / members.len().max(1) + 1;
            side.page = (side.page * 4).min(PAGE_BYTES / average).clamp(1, PAGE);
            if let Some(last) = members.last() {
                side.from = bound(b'(', last);
            }
            for member in members {
                let line = trimmed(&member);
                let shape = Shape::of(line).filter(|_| {
                    // A member must be a single line with a capture.
                    line.len() <= MAX_LINE && memchr::memchr2(b'\n', b'\r', line).is_none()
                });
                let Some(shape) = shape else {
                    let broken = u64::from(!is_no_capture(line));
                    self.inner.broken.fetch_add(broken, Memory::Relaxed);
                    continue;
                };
                if self.span.position(line) != Position::Within || !self.span.admits(line, shape) {
                    continue;
                }
                let Some(distance) = distance(self.order, line, shape) else {
                    self.inner.broken.fetch_add(1, Memory::Relaxed);
                    continue;
                };
                let line = line.to_vec();
                side.lines.push_back(IndexLine {
                    line,
                    shape,
                    distance,
                });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
