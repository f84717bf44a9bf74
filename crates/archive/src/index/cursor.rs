//! Those lines of a text that a query is about, in its order.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use crate::index::span::{Position, Span, distance};
use crate::sorted::Order;
use crate::sorted::backward::Backward;
use crate::sorted::line::{Shape, is_no_capture};
use crate::sorted::lines::Forward;
use crate::sorted::steps::{Budget, Halt};

/// Limit of captures at the same distance from the moment asked for that are put into order, in bytes.
const MAX_RUN: usize = 4 << 20;

/// The lines of a text that a query is about, one after the other.
#[derive(Debug)]
pub struct Cursor {
    lines: Source,
    span: Arc<Span>,
    order: Order,
    shape: Shape,
    distance: u64,
    /// Number of invalid lines that were skipped.
    broken: u64,
}

#[derive(Debug)]
enum Source {
    Forward(Forward),
    Backward(Backward),
    /// Backward, but forward among lines at the same distance.
    Runs(Box<Runs>),
}

#[derive(Debug)]
struct Runs {
    back: Cursor,
    /// The lines of a run, and where in it each is: the last ones first.
    text: Vec<u8>,
    lines: Vec<(Range<usize>, Shape)>,
    head: Range<usize>,
    distance: u64,
    /// Whether the run may go on, whether the line where `back` is has yet to be taken, and whether it was the last.
    open: bool,
    held: bool,
    end: bool,
}

impl Cursor {
    pub(crate) fn forward(lines: Forward, span: &Arc<Span>, order: Order) -> Cursor {
        Cursor::new(Source::Forward(lines), span, order)
    }

    pub(crate) fn backward(lines: Backward, span: &Arc<Span>, order: Order) -> Cursor {
        Cursor::new(Source::Backward(lines), span, order)
    }

    /// A cursor that goes backward, but gives captures at the same distance in the order of time.
    pub(crate) fn runs(lines: Backward, span: &Arc<Span>, order: Order) -> Cursor {
        let runs = Runs {
            back: Cursor::backward(lines, span, order),
            text: Vec::new(),
            lines: Vec::new(),
            head: 0..0,
            distance: 0,
            open: false,
            held: false,
            end: false,
        };
        Cursor::new(Source::Runs(Box::new(runs)), span, order)
    }

    fn new(lines: Source, span: &Arc<Span>, order: Order) -> Cursor {
        Cursor {
            lines,
            span: Arc::clone(span),
            order,
            shape: Shape { key: 0, second: 0 },
            distance: 0,
            broken: 0,
        }
    }

    /// The line where it is.
    #[inline]
    pub(crate) fn line(&self) -> &[u8] {
        match &self.lines {
            Source::Forward(forward) => forward.line(),
            Source::Backward(backward) => backward.line(),
            Source::Runs(runs) => runs.text.get(runs.head.clone()).unwrap_or_default(),
        }
    }

    /// Its urlkey and timestamp.
    #[inline]
    pub(crate) fn both(&self) -> &[u8] {
        self.shape.both(self.line())
    }

    /// The file that it is of.
    #[cold]
    pub(crate) fn path(&self) -> Option<&Path> {
        match &self.lines {
            Source::Forward(forward) => forward.path(),
            Source::Backward(backward) => backward.path(),
            Source::Runs(runs) => runs.back.path(),
        }
    }

    pub(crate) fn shape(&self) -> Shape {
        self.shape
    }

    /// How far it is from the moment that is asked for.
    #[inline]
    pub(crate) fn distance(&self) -> u64 {
        self.distance
    }

    /// Number of lines that were skipped because they are invalid.
    pub(crate) fn broken(&self) -> u64 {
        match &self.lines {
            Source::Forward(forward) => self.broken + forward.skipped(),
            Source::Backward(backward) => self.broken + backward.skipped(),
            Source::Runs(runs) => runs.back.broken(),
        }
    }

    /// Continues to the next line of the query; false at the end, after which it must not be called again.
    #[inline]
    pub(crate) fn next(&mut self, budget: &mut Budget) -> Result<bool, Halt> {
        if let Source::Runs(runs) = &mut self.lines {
            let Some(shape) = runs.next(budget)? else {
                return Ok(false);
            };
            self.shape = shape;
            self.distance = runs.distance;
            return Ok(true);
        }
        loop {
            let (there, end) = match &mut self.lines {
                Source::Forward(forward) => (forward.next(budget)?, Position::After),
                Source::Backward(backward) => (backward.next(budget)?, Position::Before),
                Source::Runs(_) => return Ok(false),
            };
            if !there {
                return Ok(false);
            }
            let line = match &self.lines {
                Source::Forward(forward) => forward.line(),
                Source::Backward(backward) => backward.line(),
                Source::Runs(_) => return Ok(false),
            };
            let Some(shape) = Shape::of(line) else {
                self.broken += u64::from(!is_no_capture(line));
                continue;
            };
            match self.span.position(line) {
                Position::Within if !self.span.admits(line, shape) => continue,
                Position::Within => {}
                position if position == end => return Ok(false),
                _ => continue,
            }
            let Some(distance) = distance(self.order, line, shape) else {
                self.broken += 1;
                continue;
            };
            self.shape = shape;
            self.distance = distance;
            return Ok(true);
        }
    }
}

impl Runs {
    fn next(&mut self, budget: &mut Budget) -> Result<Option<Shape>, Halt> {
        if !self.open && self.lines.is_empty() {
            self.text.clear();
            self.open = true;
        }
        while self.open {
            if !self.held && !self.end {
                self.held = self.back.next(budget)?;
                self.end = !self.held;
            }
            let same = self.back.distance == self.distance && self.text.len() < MAX_RUN;
            if self.end || !(same || self.lines.is_empty()) {
                self.open = false;
                break;
            }
            let begin = self.text.len();
            self.text.extend_from_slice(self.back.line());
            self.lines.push((begin..self.text.len(), self.back.shape));
            self.distance = self.back.distance;
            self.held = false;
        }
        Ok(self.lines.pop().map(|(head, shape)| {
            self.head = head;
            shape
        }))
    }
}
