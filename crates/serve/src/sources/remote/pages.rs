//! The rows of an index server, which may give its answer in parts.

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

/// Number of rows that ends a batch; a batch ends earlier when more rows would have to be waited for.
const BATCH: usize = 512;
/// Number of bytes of rows that ends a batch.
const BATCH_BYTES: usize = 256 << 10;
/// Maximum number of parts that a server is asked for to complete one answer.
const MAX_PAGES: u32 = 10_000;
/// A number of captures that can be divided by this looks like a limit of the server.
const ROUND: u64 = 1000;
/// Limit of captures of one moment: with as many, an answer cannot be continued from that moment on.
const MAX_OF_ONE_MOMENT: usize = 100_000;
/// Number of bytes read of an error answer.
const MAX_ERROR: usize = 8 << 10;
/// Limit of a resumption key, in bytes. A longer one is ignored.
const MAX_KEY: usize = 64 << 10;

/// How an answer that was cut is gone on with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// The answer is not continued.
    Nothing,
    /// The answer is continued by the key at the end of a part, if there is one.
    Key,
    /// By that key, or from the time of the last capture on, when the part looks cut. For a single URL.
    KeyOrTime,
}

/// What is asked.
pub(super) struct Question {
    /// Everything that is wanted.
    pub full: Parameters,
    /// What every server understands, for one that refuses the former.
    pub plain: Option<Parameters>,
    /// How it goes on.
    pub next: Next,
}

/// An answer, read as rows.
pub(super) struct Pages {
    net: Arc<Net>,
    limits: Limits,
    question: Question,
    /// What is to be asked next.
    ask: Option<String>,
    body: Option<BodyStream>,
    pieces: Pieces,
    reading: PageReader,
    /// Where the question came by, which is known while the first part is asked for.
    via: Option<HeaderValue>,
    /// How many parts were asked for.
    asked: u32,
    /// The last key that was gone on with.
    key: String,
    rows: u64,
}

/// What is known of a part while it is read.
struct PageReader {
    whitelist: Whitelist,
    made: Made,
    columns: Vec<String>,
    /// Captures in this part, matching or not.
    captures: u64,
    /// Captures in the parts before.
    before: u64,
    /// The first bytes of an invalid line that came last.
    wrong: Option<String>,
    /// After the empty line, or the empty array, that stands before a key.
    at_key: bool,
    next_key: Option<String>,
    /// When an answer is gone on with from a time on: the rows of that time, which come again, as their hashes.
    edge: HashSet<u64>,
    keys: RandomState,
    last_time: String,
    /// Whether times are looked at, and whether they were gone on from.
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

    /// The rows so far.
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

    /// Ends the stream: no further request is made.
    fn end(&mut self, error: SourceError) -> SourceError {
        self.body = None;
        self.ask = None;
        self.pieces = Pieces::new();
        error
    }

    /// Asks for a part. No body when there is nothing.
    async fn open(&mut self, url: String) -> Result<Option<BodyStream>, SourceError> {
        let mut limits = self.limits;
        if self.asked > 0 {
            // What comes after the first rows may take as long as they may pause.
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

    /// After the end of a part.
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
                // It is written as it is to be sent.
                self.question.full.set_written("resumeKey", &key);
                self.ask = Some(self.question.full.url());
                self.key = key;
            }
            (None, Next::KeyOrTime) if goes_on && captures.is_multiple_of(ROUND) => {
                let from = reading.last_time.clone();
                if reading.edge.len() >= MAX_OF_ONE_MOMENT {
                    let what = format!(
                        "it has {MAX_OF_ONE_MOMENT} captures of one moment, from which it cannot be asked on"
                    );
                    return Err(self.end(SourceError::TooLarge(what)));
                }
                // A part that brings nothing new is the last one: it would be the same for ever.
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
                        let what = "its header names columns in an order that is not read";
                        return Err(SourceError::Answer(what.to_owned()));
                    }
                    return Ok(());
                }
                if text.starts_with(b"<") && self.captures + self.before == 0 {
                    let what = "it answers with a page (HTML or XML), and not with an index";
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
                // An object may say itself what is the matter.
                Some(Claim { message, .. }) if !message.is_empty() => excerpt(message.as_bytes()),
                _ => excerpt(written),
            };
            // Of things that nothing is known of, the first is the one to tell.
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
        // It goes into a URL as it is.
        let key = key
            .filter(|key| key.len() <= MAX_KEY && key.bytes().all(|byte| byte.is_ascii_graphic()));
        let key = key.filter(|key| !key.contains(['&', '#', '<', '{', '"']));
        self.next_key = key.map(str::to_owned);
        self.next_key.is_some()
    }

    /// Takes out the rows that came with the part before, and notes those that may come again.
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

/// Whether a server says with this status that it has no capture.
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

/// The beginning of a text, so that it can be printed.
fn excerpt(text: &[u8]) -> String {
    let beginning = text.get(..100).unwrap_or(text);
    format!("{:?}", String::from_utf8_lossy(beginning))
}
