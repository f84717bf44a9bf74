//! Filters batches of captures.

use std::sync::Arc;

use crawlspace_cdx::{Collapse, Filter, Format, Line, Read, lines};

use super::condition::Condition;
use super::error::Error;
use super::expression::Bounds;
use super::point::has_heavy_pattern;
use super::verdict::{Cache, Judge};
use super::view::{Asked, View};
use crawlspace_host::reply::Reply;
use crawlspace_host::turns::{Next, Turn};

/// A request to filter a batch.
#[derive(Clone, Debug)]
pub struct Request {
    /// The point, expression and filters that captures must pass.
    pub asked: Asked,
    /// Keeps only the first of adjacent captures with the same value of this field.
    pub collapse: Option<Collapse>,
    /// Number of passing captures to skip at the start.
    pub skip: u64,
    /// Maximum number of captures to return.
    pub limit: Option<u64>,
    /// Format of the lines.
    pub format: Format,
    /// Drops malformed lines instead of failing. A header with an unsupported order of columns is
    /// always an error.
    pub drop_bad_lines: bool,
    /// Form of the reply.
    pub returns: Returns,
}

/// Form of the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Returns {
    /// The passing lines.
    Lines,
    /// Numbers of the passing lines, from 0.
    Index,
    /// One bit per line of the batch. The first line is the highest bit of the first byte.
    Bits,
    /// Number of passing lines.
    Count,
    /// Numbers and tags of the passing lines.
    Tags,
}

/// The lines of a batch.
#[derive(Clone, Copy, Debug)]
pub enum Batch<'a> {
    /// One argument per line.
    Lines(&'a [&'a [u8]]),
    /// All lines in one string.
    Blob(&'a [u8]),
}

impl Batch<'_> {
    /// Returns the work to filter the batch, in bytes.
    pub fn bytes(&self) -> usize {
        match self {
            // Even an empty line takes work.
            Batch::Lines(lines) => lines.iter().map(|line| line.len() + LINE_COST).sum(),
            Batch::Blob(text) => text.len(),
        }
    }
}

/// Maximum number of tags in a reply. Each capture also lists the tags that its direct tags carry,
/// so without this limit a few bytes of input could produce a huge reply.
const MAX_TAGS: usize = 10_000_000;

/// Amount of work, in bytes, after which the filter checks whether its turn continues.
const STRIDE: usize = if cfg!(test) { 100 } else { 1 << 16 };

/// Additional work per line in bytes, besides the length of the line, for lines that are separate
/// arguments.
const LINE_COST: usize = 16;

/// Length in bytes above which preparing a condition takes milliseconds.
const LONG: usize = 16_384;

impl Request {
    /// Returns true if preparing the condition may take a long time.
    pub fn is_long(&self) -> bool {
        self.asked.bytes() > LONG
    }

    /// Returns true if the request refers to access points.
    pub fn asks_for_points(&self) -> bool {
        let expression = self.asked.expression.as_ref();
        self.asked.point.is_some() || expression.is_some_and(|text| text.contains(&b'@'))
    }

    /// Returns true if compiling a regular expression of the request may take a long time.
    pub fn is_heavy(&self) -> bool {
        let expression = self.asked.expression.as_ref();
        self.asked.filters.iter().any(|spec| Filter::is_heavy(spec))
            || expression.is_some_and(|text| has_heavy_pattern(text))
    }

    /// Prepares the condition. `most` limits the size of the condition.
    ///
    /// # Errors
    /// Fails if the expression, a point or a filter is invalid; `TOOBIG` beyond the limits.
    pub fn condition(&self, view: &View, most: Bounds) -> Result<Condition, Error> {
        let mut condition = view.condition(&self.asked, most)?;
        if let Some(collapse) = &self.collapse {
            condition.also_needs(collapse.field());
        }
        match condition.lacks(self.format) {
            Some(error) => Err(error),
            None => Ok(condition),
        }
    }

    /// Returns the maximum work of a batch. The unit is the work of testing one byte of captures
    /// against a plain condition.
    pub fn work(&self, view: &View, condition: &Condition, batch: Batch<'_>) -> usize {
        self.work_of(batch.bytes(), view, condition)
    }

    fn work_of(&self, bytes: usize, view: &View, condition: &Condition) -> usize {
        // For this reply, the tags of each capture are collected and sorted.
        let times = if self.returns == Returns::Tags { 16 } else { 1 };
        view.work(bytes, Some(condition)).saturating_mul(times)
    }

    /// Creates the progress of a batch that has not started yet.
    pub fn begin(&self, batch: Batch<'_>) -> Progress {
        Progress {
            lines: 0,
            bytes: 0,
            collapse: self.collapse.clone(),
            skip: self.skip,
            left: self.limit.unwrap_or(u64::MAX),
            kept: Kept::new(self.returns, matches!(batch, Batch::Blob(_))),
        }
    }

    /// Filters a batch until the turn ends. Returns the reply when the batch is complete.
    pub fn go_on(
        &self,
        view: &View,
        condition: &Arc<Condition>,
        cache: &mut Cache,
        batch: Batch<'_>,
        progress: &mut Progress,
        turn: &mut dyn Turn,
    ) -> Option<Result<Reply, Error>> {
        if progress.lines == 0 {
            // The cached condition may have been prepared for a request with a different line
            // format.
            if let Some(error) = condition.lacks(self.format) {
                return Some(Err(error));
            }
        }
        let mut run = Run {
            request: self,
            view,
            condition,
            judge: Judge::new(view, condition, cache),
            longest: view.longest_line(condition),
            work_of_a_byte: self.work_of(1, view, condition),
            progress,
        };
        let is_done = match batch {
            Batch::Lines(lines) => {
                let rest = &lines[run.progress.lines..];
                run.all(&mut rest.iter().copied(), LINE_COST, turn)
            }
            Batch::Blob(text) => {
                let mut rest = lines(&text[run.progress.bytes..]);
                let is_done = run.all(&mut rest, 1, turn);
                run.progress.bytes = text.len() - rest.rest().len();
                is_done
            }
        };
        drop(run);
        let outcome = match is_done {
            Ok(false) => return None,
            Ok(true) => Ok(progress.reply()),
            Err(error) => Err(error),
        };
        cache.end_use(condition);
        Some(outcome)
    }
}

/// The progress of a batch.
pub struct Progress {
    /// Number of processed lines. If the batch is a single string, `bytes` is the number of
    /// processed bytes.
    lines: usize,
    bytes: usize,
    collapse: Option<Collapse>,
    skip: u64,
    left: u64,
    kept: Kept,
}

impl Progress {
    fn reply(&mut self) -> Reply {
        std::mem::replace(&mut self.kept, Kept::Count(0)).reply(self.lines)
    }
}

/// A batch in progress, for one turn.
struct Run<'a> {
    request: &'a Request,
    view: &'a View,
    condition: &'a Condition,
    judge: Judge<'a>,
    longest: usize,
    work_of_a_byte: usize,
    progress: &'a mut Progress,
}

impl Run<'_> {
    /// Filters lines. The work for each line is the length of the line plus `cost` bytes. Returns
    /// true when all lines are processed.
    fn all<'l, I: Iterator<Item = &'l [u8]>>(
        &mut self,
        lines: &mut I,
        cost: usize,
        turn: &mut dyn Turn,
    ) -> Result<bool, Error> {
        let mut work = 0;
        // After `limit` lines were kept, no further line has to be read.
        while self.progress.left > 0 {
            let Some(raw) = lines.next() else { break };
            work += (raw.len() + cost).saturating_mul(self.work_of_a_byte);
            if self.keeps(self.progress.lines, raw)? {
                self.progress.left -= 1;
            }
            self.progress.lines += 1;
            if work > STRIDE {
                work = 0;
                match turn.next() {
                    Next::GoOn => {}
                    Next::Pause => return Ok(false),
                    Next::Enough => return Err(Error::too_long()),
                }
            }
        }
        if self.progress.kept.needs_number_of_lines() {
            self.progress.lines += lines.count();
        }
        Ok(true)
    }

    fn keeps(&mut self, n: usize, raw: &[u8]) -> Result<bool, Error> {
        if raw.len() > self.longest {
            if self.request.drop_bad_lines {
                return Ok(false);
            }
            return Err(Error::BadLine {
                line: n + 1,
                why: format!(
                    "it has {} bytes, the maximum is {} for regexes of this size",
                    raw.len(),
                    self.longest
                ),
            });
        }
        let line = match Line::read(raw, self.request.format) {
            Ok(Read::Capture(line)) => line,
            Ok(Read::Skipped) => return Ok(false),
            // A header applies to all lines after it, so dropping only the header would be wrong.
            Err(bad) if bad.is_order() => {
                return Err(Error::BadHeader {
                    line: n + 1,
                    why: bad.to_string(),
                });
            }
            Err(_) if self.request.drop_bad_lines => return Ok(false),
            Err(bad) => {
                return Err(Error::BadLine {
                    line: n + 1,
                    why: bad.to_string(),
                });
            }
        };
        if let Some(error) = self.condition.lacks_of(&line) {
            return Err(error);
        }
        if !self.view.exists || !self.judge.passes(&line) {
            return Ok(false);
        }
        let progress = &mut *self.progress;
        if let Some(collapse) = &mut progress.collapse
            && !collapse.is_new(&line).unwrap_or(false)
        {
            return Ok(false);
        }
        if progress.skip > 0 {
            progress.skip -= 1;
            return Ok(false);
        }
        progress.kept.keep(n, &line, self.view)?;
        Ok(true)
    }
}

/// The lines kept so far.
enum Kept {
    Lines(Vec<Reply>),
    Text(Vec<u8>),
    Numbers(Vec<Reply>),
    Bits(Vec<u8>),
    Count(u64),
    /// Reply entries with tags, and the total number of tags.
    Tags(Vec<Reply>, usize),
}

impl Kept {
    fn new(returns: Returns, blob: bool) -> Kept {
        match returns {
            Returns::Lines if blob => Kept::Text(Vec::new()),
            Returns::Lines => Kept::Lines(Vec::new()),
            Returns::Index => Kept::Numbers(Vec::new()),
            Returns::Bits => Kept::Bits(Vec::new()),
            Returns::Count => Kept::Count(0),
            Returns::Tags => Kept::Tags(Vec::new(), 0),
        }
    }

    fn needs_number_of_lines(&self) -> bool {
        matches!(self, Kept::Bits(_))
    }

    fn keep(&mut self, n: usize, line: &Line<'_>, view: &View) -> Result<(), Error> {
        match self {
            Kept::Lines(lines) => lines.push(Reply::bulk(line.raw())),
            Kept::Text(text) => {
                text.extend_from_slice(line.raw());
                text.push(b'\n');
            }
            Kept::Numbers(numbers) => numbers.push(Reply::count(n as u64)),
            Kept::Bits(bits) => {
                if bits.len() <= n / 8 {
                    bits.resize(n / 8 + 1, 0);
                }
                bits[n / 8] |= 0x80 >> (n % 8);
            }
            Kept::Count(count) => *count += 1,
            Kept::Tags(all, count) => {
                let tags = view.tags(line);
                *count += tags.len();
                if *count > MAX_TAGS {
                    return Err(Error::TooBig(format!(
                        "the reply would have more than {MAX_TAGS} tags; split the batch"
                    )));
                }
                let tags = tags.into_iter().map(Reply::Bulk).collect();
                all.push(Reply::Array(vec![
                    Reply::count(n as u64),
                    Reply::Array(tags),
                ]));
            }
        }
        Ok(())
    }

    /// Creates the reply for a batch of `lines` lines.
    fn reply(self, lines: usize) -> Reply {
        match self {
            Kept::Lines(replies) | Kept::Numbers(replies) | Kept::Tags(replies, _) => {
                Reply::Array(replies)
            }
            Kept::Text(text) => Reply::Bulk(text),
            Kept::Bits(mut bits) => {
                bits.resize(lines.div_ceil(8), 0);
                Reply::Bulk(bits)
            }
            Kept::Count(count) => Reply::count(count),
        }
    }
}
