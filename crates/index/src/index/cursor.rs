//! Those lines of a text that a query is about, in its order.

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

/// Limit of captures at the same distance from the moment asked for that are put into order, in bytes.
const MAX_RUN: usize = 4 << 20;

/// The lines of a span that a query is about, by their urlkeys.
#[derive(Clone, Debug)]
pub(super) enum Wanted {
    /// All lines: their keys are urlkeys.
    All,
    /// Lines that have one of these urlkeys, under which they are given.
    Of(Arc<[Box<[u8]>]>),
    /// Lines whose key is their urlkey.
    Own,
    /// Lines whose key is another one, and whose urlkey is in this span. They are given under it.
    Respelled(Arc<Span>),
}

/// The lines of a text that a query is about, one after the other.
#[derive(Debug)]
pub(crate) struct Cursor {
    lines: Lines<Text>,
    span: Arc<Span>,
    order: Order,
    wanted: Wanted,
    /// The line with its urlkey, where its own key is another one; empty otherwise.
    respelled: Vec<u8>,
    /// The line before, where makers repeat lines at the edges of blocks.
    before: Option<Vec<u8>>,
    /// The text is not sorted: lines of the span may come after one that is behind it.
    unsorted: bool,
    /// Lines whose maker spelled the key otherwise end with a blank.
    marked: bool,
    /// The number of the package that it is in, or 0.
    pub(super) package: u64,
    shape: Shape,
    distance: u64,
    /// Number of invalid lines that were skipped.
    broken: u64,
    /// The result of [`Cursor::next`], where that was called before its time.
    ahead: Option<Result<bool, SourceError>>,
    /// Captures at the same distance, where lines are read backward but these are wanted in the order of time.
    run: Option<Box<Run>>,
}

#[derive(Debug, Default)]
struct Run {
    /// Lines at the same distance, and where in the text each is: the last ones first.
    text: Vec<u8>,
    lines: Vec<(Range<usize>, Shape)>,
    head: Range<usize>,
    shape: Shape,
    distance: u64,
    /// Whether the line where the cursor is has yet to be taken, and whether it was the last.
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

    /// Leaves out a line that is the same as the one before it.
    pub(super) fn without_repetitions(mut self) -> Cursor {
        self.before = Some(Vec::new());
        self
    }

    /// Reads text that is not sorted.
    pub(super) fn unsorted(mut self) -> Cursor {
        self.unsorted = true;
        self
    }

    /// Reads text in which a blank marks the lines whose maker spelled the key otherwise.
    pub(super) fn marked(mut self) -> Cursor {
        self.marked = true;
        self
    }

    /// Adds the number of the package that the text is in.
    pub(super) fn in_package(mut self, package: u64) -> Cursor {
        self.package = package;
        self
    }

    /// The line where lines are read, with its urlkey.
    #[inline]
    fn read(&self) -> &[u8] {
        if self.respelled.is_empty() {
            self.lines.line()
        } else {
            &self.respelled
        }
    }

    /// The line where it is.
    #[inline]
    pub(crate) fn line(&self) -> &[u8] {
        match &self.run {
            None => self.read(),
            Some(run) => &run.text[run.head.clone()],
        }
    }

    /// Its urlkey and timestamp.
    #[inline]
    pub(crate) fn both(&self) -> &[u8] {
        self.shape().both(self.line())
    }

    /// The file that it is of.
    #[cold]
    pub(crate) fn path(&self) -> &Path {
        self.lines.path()
    }

    #[inline]
    pub(crate) fn shape(&self) -> Shape {
        self.run.as_ref().map_or(self.shape, |run| run.shape)
    }

    /// How far it is from the moment that is asked for.
    #[inline]
    pub(crate) fn distance(&self) -> u64 {
        self.run.as_ref().map_or(self.distance, |run| run.distance)
    }

    /// Number of lines that were skipped because they are invalid.
    pub(crate) fn broken(&self) -> u64 {
        self.broken + self.lines.skipped()
    }

    /// Continues to the next line of the query; false at the end, after which it must not be called again.
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

    /// Returns whether the text that was read for the first line shows that a later span has no lines.
    ///
    /// Keys of one URL are neighbours as a rule, so that most of them are looked up by one read.
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

    /// Continues to the next line in the direction in which lines are read.
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

    /// Gives the line where lines are read its urlkey. False when the query is not about that.
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

    /// Gathers the lines at the next distance.
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

/// Text of a plain file, or of the blocks of a cluster.
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
