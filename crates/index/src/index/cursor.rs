//! A cursor over the lines of one text (a plain file, or the blocks of a cluster) that match a query, in the
//! order of the query.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::span::{Position, Span, distance};
use crate::sorted::Order;
use crate::sorted::line::{Shape, is_no_capture};
use crate::sorted::lines::{Lines, Pieces, Stretch};
use crate::source::SourceError;
use crate::spelling::canonical;
use crate::zipnum::cluster::Blocks;

/// Maximum total size, in bytes, of the captures at the same distance from the requested time. These
/// captures are sorted in memory.
const MAX_RUN: usize = 4 << 20;

/// Selects lines within a span by their urlkeys.
#[derive(Clone, Debug)]
pub(super) enum Wanted {
    /// Every line: all keys are urlkeys.
    All,
    /// Lines with one of these urlkeys; each is returned under its urlkey.
    Of(Arc<[Box<[u8]>]>),
    /// Lines whose key equals their urlkey.
    Own,
    /// Lines whose key differs from their urlkey and whose urlkey is within this span. Each line is
    /// returned under its urlkey.
    Respelled(Arc<Span>),
}

/// A cursor over the lines of a text that match a query.
#[derive(Debug)]
pub(crate) struct Cursor {
    lines: Lines<Text>,
    span: Arc<Span>,
    order: Order,
    wanted: Wanted,
    /// The current line with its key replaced by the urlkey; empty if the key already is the urlkey.
    respelled: Vec<u8>,
    /// The previous line, if repeated lines at the edges of blocks must be skipped.
    before: Option<Vec<u8>>,
    /// True for unsorted text: lines within the span may follow a line after its end.
    unsorted: bool,
    /// True if a trailing blank marks the lines whose key was replaced by the urlkey.
    marked: bool,
    /// Number of the package that contains the text, or 0.
    pub(super) package: u64,
    shape: Shape,
    distance: u64,
    /// Number of invalid lines that were skipped.
    broken: u64,
    /// Result of a call of [`Cursor::next`] made in advance by [`Cursor::shows_no`].
    ahead: Option<Result<bool, SourceError>>,
    /// Captures at the same distance. These captures are sorted in ascending order, because the
    /// text is read backward.
    run: Option<Box<Run>>,
}

#[derive(Debug, Default)]
struct Run {
    /// The lines at the same distance, in the order in which they were read (latest first), and their ranges.
    text: Vec<u8>,
    lines: Vec<(Range<usize>, Shape)>,
    head: Range<usize>,
    shape: Shape,
    distance: u64,
    /// True until the current line of the cursor is taken. `end` is true after the last line.
    held: bool,
    end: bool,
}

impl Cursor {
    pub(super) fn new(
        lines: Lines<Text>,
        span: &Arc<Span>,
        order: Order,
        wanted: Wanted,
    ) -> Cursor {
        let turned = matches!((&lines, order), (Lines::Backward(_), Order::Closest(_)));
        Cursor {
            lines,
            span: Arc::clone(span),
            order,
            wanted,
            respelled: Vec::new(),
            before: None,
            unsorted: false,
            marked: false,
            package: 0,
            shape: Shape::default(),
            distance: 0,
            broken: 0,
            ahead: None,
            run: turned.then(Box::default),
        }
    }

    /// Skips a line that equals the previous line.
    pub(super) fn without_repetitions(mut self) -> Cursor {
        self.before = Some(Vec::new());
        self
    }

    /// Reads unsorted text: the end of the span does not end the search.
    pub(super) fn unsorted(mut self) -> Cursor {
        self.unsorted = true;
        self
    }

    /// Reads text in which a trailing blank marks lines whose key was replaced by the urlkey.
    pub(super) fn marked(mut self) -> Cursor {
        self.marked = true;
        self
    }

    /// Sets the number of the package that contains the text.
    pub(super) fn in_package(mut self, package: u64) -> Cursor {
        self.package = package;
        self
    }

    /// Returns the line that was read last, with its urlkey as the key.
    #[inline]
    fn read(&self) -> &[u8] {
        if self.respelled.is_empty() {
            self.lines.line()
        } else {
            &self.respelled
        }
    }

    /// Returns the current line.
    #[inline]
    pub(crate) fn line(&self) -> &[u8] {
        match &self.run {
            None => self.read(),
            Some(run) => &run.text[run.head.clone()],
        }
    }

    /// Returns the urlkey and the timestamp of the current line.
    #[inline]
    pub(crate) fn both(&self) -> &[u8] {
        self.shape().both(self.line())
    }

    /// Returns the path of the file that contains the lines.
    #[cold]
    pub(crate) fn path(&self) -> &Path {
        self.lines.path()
    }

    #[inline]
    pub(crate) fn shape(&self) -> Shape {
        self.run.as_ref().map_or(self.shape, |run| run.shape)
    }

    /// Returns the distance of the current line from the requested time, in seconds; 0 in other orders.
    #[inline]
    pub(crate) fn distance(&self) -> u64 {
        self.run.as_ref().map_or(self.distance, |run| run.distance)
    }

    /// Returns the number of invalid lines that were skipped.
    pub(crate) fn broken(&self) -> u64 {
        self.broken + self.lines.skipped()
    }

    /// Advances to the next matching line. Returns false at the end; do not call it again after that.
    #[inline]
    pub(crate) async fn next(&mut self) -> Result<bool, SourceError> {
        if let Some(there) = self.ahead.take() {
            return there;
        }
        let Some(mut run) = self.run.take() else {
            return self.advance().await;
        };
        let there = run.next(self).await?;
        self.run = Some(run);
        Ok(there)
    }

    /// Returns whether the text that was read for the first line proves that a later span is empty.
    ///
    /// The keys of one URL are usually adjacent, so one read usually covers most of them.
    pub(super) async fn shows_no(&mut self, later: &Span) -> bool {
        if self.unsorted || later.from < self.span.from || matches!(self.lines, Lines::Backward(_))
        {
            return false;
        }
        if self.ahead.is_none() {
            self.ahead = Some(self.next().await);
        }
        let Lines::Forward(lines) = &self.lines else {
            return false;
        };
        let mut text = lines.rest();
        while let Some(end) = memchr::memchr(b'\n', text) {
            match later.position(&text[..end]) {
                Position::Before => text = &text[end + 1..],
                Position::Within => return false,
                Position::After => return true,
            }
        }
        false
    }

    /// Advances to the next matching line in the direction of reading.
    #[inline]
    async fn advance(&mut self) -> Result<bool, SourceError> {
        let end = match self.lines {
            Lines::Forward(_) => Position::After,
            Lines::Backward(_) => Position::Before,
        };
        while self.lines.next().await? {
            let line = self.lines.line();
            let Some(shape) = Shape::of(line) else {
                self.broken += u64::from(!is_no_capture(line));
                continue;
            };
            match self.span.position(line) {
                Position::Within if !self.span.admits(line, shape) => continue,
                Position::Within => {}
                position if position == end && !self.unsorted => return Ok(false),
                _ => continue,
            }
            let Some(distance) = distance(self.order, line, shape) else {
                self.broken += 1;
                continue;
            };
            if let Some(before) = &mut self.before {
                if before == line {
                    continue;
                }
                before.clear();
                before.extend_from_slice(line);
            }
            self.shape = shape;
            self.distance = distance;
            if self.has_wanted_key() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Replaces the key of the current line by its urlkey. Returns false if the line does not match the query.
    #[inline]
    fn has_wanted_key(&mut self) -> bool {
        self.shape.is_respelled = self.marked && self.lines.is_marked();
        if matches!(self.wanted, Wanted::All) {
            return true;
        }
        self.respelled.clear();
        let line = self.lines.line();
        let (key, rest) = (&line[..self.shape.key], &line[self.shape.second + 1..]);
        let urlkey = canonical(key, rest);
        let is_own = *urlkey == *key;
        match &self.wanted {
            Wanted::All => return true,
            Wanted::Own => return is_own,
            Wanted::Of(urlkeys) if !urlkeys.iter().any(|one| **one == *urlkey) => return false,
            Wanted::Respelled(_) if is_own => return false,
            Wanted::Of(_) | Wanted::Respelled(_) => {}
        }
        if is_own {
            return true;
        }
        let mut respelled = urlkey.into_owned();
        let shape = Shape {
            key: respelled.len(),
            second: respelled.len() + self.shape.second - self.shape.key,
            is_respelled: true,
        };
        respelled.extend_from_slice(&line[self.shape.key..]);
        if let Wanted::Respelled(span) = &self.wanted
            && span.position(&respelled) != Position::Within
        {
            return false;
        }
        self.shape = shape;
        self.respelled = respelled;
        true
    }
}

impl Run {
    async fn next(&mut self, back: &mut Cursor) -> Result<bool, SourceError> {
        if self.lines.is_empty() {
            Box::pin(self.fill(back)).await?;
        }
        let Some((head, shape)) = self.lines.pop() else {
            return Ok(false);
        };
        (self.head, self.shape) = (head, shape);
        Ok(true)
    }

    /// Collects the lines at the next distance.
    async fn fill(&mut self, back: &mut Cursor) -> Result<(), SourceError> {
        self.text.clear();
        loop {
            if !self.held && !self.end {
                self.held = back.advance().await?;
                self.end = !self.held;
            }
            let same = back.distance == self.distance && self.text.len() < MAX_RUN;
            if self.end || !(same || self.lines.is_empty()) {
                return Ok(());
            }
            let begin = self.text.len();
            self.text.extend_from_slice(back.read());
            self.lines.push((begin..self.text.len(), back.shape));
            self.distance = back.distance;
            self.held = false;
        }
    }
}

/// The text of a plain file, or of the blocks of a cluster.
#[derive(Debug)]
pub(super) enum Text {
    File(Stretch),
    Blocks(Box<Blocks>),
}

impl Pieces for Text {
    fn path(&self) -> &Path {
        match self {
            Text::File(file) => file.path(),
            Text::Blocks(blocks) => blocks.path(),
        }
    }

    async fn after(&mut self, bytes: usize, into: &mut Vec<u8>) -> Result<bool, SourceError> {
        match self {
            Text::File(file) => file.after(bytes, into).await,
            Text::Blocks(blocks) => Box::pin(blocks.after(bytes, into)).await,
        }
    }

    async fn before(&mut self, bytes: usize, into: &mut Vec<u8>) -> Result<bool, SourceError> {
        match self {
            Text::File(file) => file.before(bytes, into).await,
            Text::Blocks(blocks) => Box::pin(blocks.before(bytes, into)).await,
        }
    }
}
