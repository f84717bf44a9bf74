//! Rows of an index server, whose answer may come in several parts.

use std::collections::HashSet;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::Arc;

use crawlspace_cdx::{Format, Line};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::StreamExt;
use http::header::{HeaderValue, VIA};
use tokio::time::{Instant, timeout_at};
use url::Url;

use super::claim::{Claim, header, values};
use super::pieces::{Piece, Pieces};
use super::rows::Batched;
use super::template::Parameters;
use super::whitelist::{Made, Verdict, Whitelist};
use crawlspace_fetch::{BodyStream, Net, Request, Response, via};
use crawlspace_index::row::Row;
use crawlspace_index::source::{Batch, Limits, SourceError};

/// Maximum number of rows in a batch; a batch ends earlier if the next row is not available yet.
const BATCH: usize = 512;
/// Maximum size of the rows in a batch, in bytes.
const BATCH_BYTES: usize = 256 << 10;
/// Maximum number of parts requested to complete one answer.
const MAX_PAGES: u32 = 10_000;
/// If the number of captures in an answer is a multiple of this, the server probably limited the
/// answer.
const ROUND: u64 = 1000;
/// Maximum number of captures with the same timestamp; beyond it, an answer cannot be continued from that
/// timestamp.
const MAX_OF_ONE_MOMENT: usize = 100_000;
/// Maximum number of bytes read of an error response.
const MAX_ERROR: usize = 8 << 10;
/// Maximum size of a resume key, in bytes. Longer ones are ignored.
const MAX_KEY: usize = 64 << 10;

/// Method of continuing a truncated answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// The answer is not continued.
    Nothing,
    /// Continues with the resume key at the end of a part, if there is one.
    Key,
    /// Continues with the resume key or, if the part looks truncated, from the timestamp of the last capture. This is
    /// possible for queries for a single URL only.
    KeyOrTime,
}

/// The query to a server.
pub(super) struct Question {
    /// Query with all parameters.
    pub full: Parameters,
    /// Query with basic parameters only, for servers that refuse the full one.
    pub plain: Option<Parameters>,
    /// Method of continuing the answer.
    pub next: Next,
}

/// An answer as a stream of rows.
pub(super) struct Pages {
    net: Arc<Net>,
    limits: Limits,
    question: Question,
    /// URL of the next request.
    ask: Option<String>,
    body: Option<BodyStream>,
    pieces: Pieces,
    reading: PageReader,
    /// `Via` header with the servers that the query has passed, available during the first request.
    via: Option<HeaderValue>,
    /// Number of parts requested.
    asked: u32,
    /// The last key or timestamp used to continue.
    key: String,
    rows: u64,
}

/// Parser of a part.
struct PageReader {
    whitelist: Whitelist,
    made: Made,
    columns: Vec<String>,
    /// Number of captures in this part, matching or not.
    captures: u64,
    /// Number of captures in earlier parts.
    before: u64,
    /// Excerpt of an invalid line, if it was the last one.
    wrong: Option<String>,
    /// Set after the empty line or array that precedes a resume key.
    at_key: bool,
    next_key: Option<String>,
    /// Hashes of the rows with the last timestamp, which are repeated if an answer is continued from that
    /// timestamp.
    edge: HashSet<u64>,
    keys: RandomState,
    last_time: String,
    /// `by_time` is true if timestamps are tracked; `again` is true once an answer was continued from a timestamp.
    by_time: bool,
    again: bool,
}

impl Pages {
    pub(crate) fn new(
        net: Arc<Net>,
        limits: Limits,
        question: Question,
        whitelist: Whitelist,
    ) -> Pages {
        let by_time = question.next == Next::KeyOrTime;
        Pages {
            net,
            limits,
            ask: Some(question.full.url()),
            question,
            body: None,
            pieces: Pieces::new(),
            reading: PageReader {
                whitelist,
                made: Made::default(),
                columns: Vec::new(),
                captures: 0,
                before: 0,
                wrong: None,
                at_key: false,
                next_key: None,
                edge: HashSet::new(),
                keys: RandomState::new(),
                last_time: String::new(),
                by_time,
                again: false,
            },
            via: via::current(),
            asked: 0,
            key: String::new(),
            rows: 0,
        }
    }

    async fn read(&mut self, until: Option<Instant>) -> Result<Option<Batch>, SourceError> {
        loop {
            while let Some(piece) = self.pieces.next() {
                self.reading.take(piece)?;
                if self.reading.made.len() >= BATCH || self.reading.made.bytes() >= BATCH_BYTES {
                    return self.batch().map(Some);
                }
            }
            if self.reading.made.len() > 0 {
                let batch = self.batch()?;
                if !batch.is_empty() {
                    return Ok(Some(batch));
                }
            }
            let Some(body) = &mut self.body else {
                let Some(url) = self.ask.take() else {
                    return Ok(None);
                };
                self.body = self.open(url).await?;
                continue;
            };
            let came = match until {
                None => body.next().await,
                Some(until) => match timeout_at(until, body.next()).await {
                    Ok(came) => came,
                    Err(_) => return Ok(Some(Vec::new())),
                },
            };
            match came {
                Some(Ok(bytes)) => {
                    let left = self.limits.bytes.saturating_sub(bytes.len() as u64);
                    self.limits.bytes = left;
                    self.pieces.feed(&bytes);
                }
                Some(Err(error)) => return Err(self.end(error.into())),
                None => {
                    self.body = None;
                    self.finish()?;
                }
            }
        }
    }

    /// Returns the rows so far.
    fn batch(&mut self) -> Result<Batch, SourceError> {
        let mut batch = self.reading.made.take();
        self.reading.without_those_before(&mut batch);
        self.rows = self.rows.saturating_add(batch.len() as u64);
        if self.rows > self.limits.rows {
            let what = format!("it has more than {} rows", self.limits.rows);
            return Err(self.end(SourceError::TooLarge(what)));
        }
        Ok(batch)
    }

    /// Ends the stream: no further requests are sent.
    fn end(&mut self, error: SourceError) -> SourceError {
        self.body = None;
        self.ask = None;
        self.pieces = Pieces::new();
        error
    }

    /// Requests a part. Returns `None` if the server has no captures.
    async fn open(&mut self, url: String) -> Result<Option<BodyStream>, SourceError> {
        let mut limits = self.limits;
        if self.asked > 0 {
            // After the first rows, the timeout for a further part is at least as long as the timeout for a
            // pause within a part.
            limits.first = limits.first.max(limits.silence);
        }
        self.asked += 1;
        let url = Url::parse(&url).map_err(|error| {
            SourceError::Unsupported(format!("invalid URL of the request: {error}"))
        })?;
        let mut request = Request::get(url);
        request
            .headers
            .extend(self.via.clone().map(|via| (VIA, via)));
        let answer = self.net.send(request, &limits).await?;
        match answer.status {
            200 | 203 | 206 => Ok(Some(answer.body)),
            204 => Ok(None),
            400 | 405 | 422 | 501 if self.asked == 1 && self.question.plain.is_some() => {
                self.ask = self.question.plain.take().map(|plain| plain.url());
                self.question.next = Next::Nothing;
                Ok(None)
            }
            404 => {
                if says_nothing_there(answer).await {
                    Ok(None)
                } else {
                    Err(SourceError::Status(404))
                }
            }
            status => Err(SourceError::Status(status)),
        }
    }

    /// Handles the end of a part.
    fn finish(&mut self) -> Result<(), SourceError> {
        match self.pieces.rest() {
            Ok(Some(piece)) => self.reading.take(piece)?,
            Ok(None) => {}
            Err(why) => return Err(self.end(SourceError::Answer(why.to_owned()))),
        }
        self.pieces = Pieces::new();
        let reading = &mut self.reading;
        if let Some(wrong) = reading.wrong.take() {
            let what = match reading.captures + reading.before {
                0 => format!("its answer is not an index: it begins with {wrong}"),
                _ => format!("its answer ends with an invalid line: {wrong}"),
            };
            return Err(self.end(SourceError::Answer(what)));
        }
        let captures = std::mem::take(&mut reading.captures);
        reading.before += captures;
        reading.at_key = false;
        reading.columns.clear();
        let goes_on = captures > 0 && self.asked < MAX_PAGES;
        match (reading.next_key.take(), self.question.next) {
            (Some(key), Next::Key | Next::KeyOrTime) if goes_on => {
                if key == self.key {
                    let what = "it repeats the same resumption key";
                    return Err(self.end(SourceError::Answer(what.to_owned())));
                }
                // The key is already escaped.
                self.question.full.set_written("resumeKey", &key);
                self.ask = Some(self.question.full.url());
                self.key = key;
            }
            (None, Next::KeyOrTime) if goes_on && captures.is_multiple_of(ROUND) => {
                let from = reading.last_time.clone();
                if reading.edge.len() >= MAX_OF_ONE_MOMENT {
                    let what = format!(
                        "it has {MAX_OF_ONE_MOMENT} captures with the same timestamp, so the next page cannot be \
                         requested"
                    );
                    return Err(self.end(SourceError::TooLarge(what)));
                }
                // A part without new rows is the last one, because the next parts would be the
                // same.
                if !from.is_empty() && from != self.key {
                    self.question.full.set_written("from", &from);
                    self.ask = Some(self.question.full.url());
                    self.key = from;
                    reading.again = true;
                }
            }
            _ => {}
        }
        Ok(())
    }
}

impl Batched for Pages {
    fn next(
        &mut self,
        until: Option<Instant>,
    ) -> BoxFuture<'_, Result<Option<Batch>, SourceError>> {
        self.read(until).boxed()
    }
}

impl PageReader {
    fn take(&mut self, piece: Piece<'_>) -> Result<(), SourceError> {
        let claim = match piece {
            Piece::Line(line) => {
                let text = line.trim_ascii();
                if text.is_empty() {
                    self.at_key = self.captures > 0;
                    return Ok(());
                }
                if self.at_key && !text.contains(&b' ') && self.is_key(text) {
                    return Ok(());
                }
                self.at_key = false;
                if line.starts_with(b" CDX") || line.starts_with(b"CDX ") {
                    if Line::read(line, Format::Cdx).is_err_and(|bad| bad.is_order()) {
                        let what = "its header names columns in an unsupported order";
                        return Err(SourceError::Answer(what.to_owned()));
                    }
                    return Ok(());
                }
                if text.starts_with(b"<") && self.captures + self.before == 0 {
                    let what = "its answer is a page (HTML or XML) instead of an index";
                    return Err(SourceError::Answer(what.to_owned()));
                }
                Claim::of_line(line)
            }
            Piece::Element(element) => {
                if self.captures == 0
                    && self.columns.is_empty()
                    && let Some(names) = header(element)
                {
                    self.columns = names;
                    return Ok(());
                }
                match values(element).as_deref() {
                    Some([]) => {
                        self.at_key = true;
                        return Ok(());
                    }
                    Some([key]) if self.at_key && self.is_key(key.as_bytes()) => return Ok(()),
                    _ => self.at_key = false,
                }
                Claim::of_element(element, &self.columns)
            }
        };
        let (Piece::Line(written) | Piece::Element(written)) = piece;
        let verdict = match &claim {
            Some(claim) => self.whitelist.push(claim, &mut self.made),
            None => Verdict::Invalid,
        };
        if verdict == Verdict::Invalid {
            let excerpt = match &claim {
                // An object may contain an error message.
                Some(Claim { message, .. }) if !message.is_empty() => excerpt(message.as_bytes()),
                _ => excerpt(written),
            };
            // Reports the first invalid line if there are no captures, and otherwise the last one.
            if self.wrong.is_none() || self.captures > 0 {
                self.wrong = Some(excerpt);
            }
            return Ok(());
        }
        self.captures += 1;
        self.wrong = None;
        Ok(())
    }

    fn is_key(&mut self, text: &[u8]) -> bool {
        let key = std::str::from_utf8(text).ok();
        // The key is inserted into a URL without escaping.
        let key = key
            .filter(|key| key.len() <= MAX_KEY && key.bytes().all(|byte| byte.is_ascii_graphic()));
        let key = key.filter(|key| !key.contains(['&', '#', '<', '{', '"']));
        self.next_key = key.map(str::to_owned);
        self.next_key.is_some()
    }

    /// Removes rows that were in the previous part, and remembers those that may be repeated in the next one.
    fn without_those_before(&mut self, batch: &mut Batch) {
        if !self.by_time {
            return;
        }
        if self.again {
            let (known, last) = (&self.edge, self.last_time.as_bytes());
            let is_known = |row: &Row| known.contains(&self.keys.hash_one(row.line()));
            batch.retain(|row| row.timestamp() >= last && !is_known(row));
        }
        for row in &*batch {
            if row.timestamp() > self.last_time.as_bytes() {
                self.last_time = String::from_utf8_lossy(row.timestamp()).into_owned();
                self.edge.clear();
            }
            if self.edge.len() < MAX_OF_ONE_MOMENT {
                self.edge.insert(self.keys.hash_one(row.line()));
            }
        }
    }
}

/// Returns whether an error response says that there are no captures.
async fn says_nothing_there(answer: Response) -> bool {
    let mut body = answer.body;
    let mut text = Vec::new();
    while let Some(Ok(bytes)) = body.next().await {
        text.extend_from_slice(&bytes);
        if text.len() > MAX_ERROR {
            break;
        }
    }
    let text = String::from_utf8_lossy(&text).to_ascii_lowercase();
    let says = [
        "no captures",
        "not in archive",
        "resourcenotinarchive",
        "no results",
    ];
    !text.trim_start().starts_with('<') && says.iter().any(|words| text.contains(words))
}

/// Returns a printable excerpt of `text`.
fn excerpt(text: &[u8]) -> String {
    let beginning = text.get(..100).unwrap_or(text);
    format!("{:?}", String::from_utf8_lossy(beginning))
}
