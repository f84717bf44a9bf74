//! The captures of a batch that pass.

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

/// What is to be done with a batch.
#[derive(Clone, Debug)]
pub struct Request {
    /// Which captures pass.
    pub asked: Asked,
    /// Of captures one after the other that are alike in this, only the first is kept.
    pub collapse: Option<Collapse>,
    /// How many of those kept are left out first.
    pub skip: u64,
    /// How many are kept at most.
    pub limit: Option<u64>,
    /// Format of the lines.
    pub format: Format,
    /// Drops lines that cannot be read, which are an error otherwise. A header with another order of columns is an
    /// error in any case.
    pub drop_bad_lines: bool,
    /// What is answered.
    pub returns: Returns,
}

/// What is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Returns {
    /// The lines that are kept.
    Lines,
    /// Their numbers, from 0.
    Index,
    /// A bit for each line of the batch, the first line's the highest of the first byte.
    Bits,
    /// How many there are.
    Count,
    /// Their numbers and tags.
    Tags,
}

/// The lines of a batch.
#[derive(Clone, Copy, Debug)]
pub enum Batch<'a> {
    /// One by one.
    Lines(&'a [&'a [u8]]),
    /// As one text.
    Blob(&'a [u8]),
}

impl Batch<'_> {
    /// Bytes of all lines.
    pub fn bytes(&self) -> usize {
        match self {
            // A line costs something even if it is empty.
            Batch::Lines(lines) => lines.iter().map(|line| line.len() + LINE_COST).sum(),
            Batch::Blob(text) => text.len(),
        }
    }
}

/// Maximum number of tags in a reply. Captures share what their tags carry, so a few bytes could ask
/// for very many.
const MAX_TAGS: usize = 10_000_000;

/// After how much work it is asked whether to go on.
const STRIDE: usize = if cfg!(test) { 100 } else { 1 << 16 };

/// How many bytes a line of its own costs beside its bytes.
const LINE_COST: usize = 16;

/// From how many bytes on a condition takes milliseconds to be made ready.
const LONG: usize = 16_384;

impl Request {
    /// Whether making the condition ready may take long.
    pub fn is_long(&self) -> bool {
        self.asked.bytes() > LONG
    }

    /// Whether points play a part.
    pub fn asks_for_points(&self) -> bool {
        let expression = self.asked.expression.as_ref();
        self.asked.point.is_some() || expression.is_some_and(|text| text.contains(&b'@'))
    }

    /// Whether compiling a regular expression may take long.
    pub fn is_heavy(&self) -> bool {
        let expression = self.asked.expression.as_ref();
        self.asked.filters.iter().any(|spec| Filter::is_heavy(spec))
            || expression.is_some_and(|text| has_heavy_pattern(text))
    }

    /// Makes the condition ready, which has to keep to limits.
    ///
    /// # Errors
    /// What is wrong with the expression, a point or a filter; `TOOBIG` beyond the limits.
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

    /// How much work a batch is at most, in bytes of captures that are held against a plain condition.
    pub fn work(&self, view: &View, condition: &Condition, batch: Batch<'_>) -> usize {
        self.work_of(batch.bytes(), view, condition)
    }

    fn work_of(&self, bytes: usize, view: &View, condition: &Condition) -> usize {
        // Tags are collected and sorted for each capture.
        let times = if self.returns == Returns::Tags { 16 } else { 1 };
        view.work(bytes, Some(condition)).saturating_mul(times)
    }

    /// A batch that nothing was done of yet.
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

    /// Filters a batch for as long as the turn lasts. Gives the reply at the end.
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
            // Where a client's format is not the one the condition was made ready with.
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

/// How far a batch has come.
pub struct Progress {
    /// How many lines were looked at, and of a text, how many bytes.
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

/// One batch under way, for a turn.
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
    /// Filters lines, each of which costs something even if it is empty; true when all are done.
    fn all<'l, I: Iterator<Item = &'l [u8]>>(
        &mut self,
        lines: &mut I,
        cost: usize,
        turn: &mut dyn Turn,
    ) -> Result<bool, Error> {
        let mut work = 0;
        // What follows the last one that may be kept needs no look.
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
                    "it has {} bytes, more than the {} that regexes of this size are searched for in",
                    raw.len(),
                    self.longest
                ),
            });
        }
        let line = match Line::read(raw, self.request.format) {
            Ok(Read::Capture(line)) => line,
            Ok(Read::Skipped) => return Ok(false),
            // It is about all lines below it, so that dropping it alone would be wrong.
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

/// What was kept so far.
enum Kept {
    Lines(Vec<Reply>),
    Text(Vec<u8>),
    Numbers(Vec<Reply>),
    Bits(Vec<u8>),
    Count(u64),
    /// With the number of tags.
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
                        "more than {MAX_TAGS} tags to return; split the batch"
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

    /// The answer for a batch of so many lines.
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
