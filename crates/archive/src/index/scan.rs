//! Many texts as one, row by row.

use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering as Memory};

use super::cursor::Cursor;
use crate::sorted::Order;
use crate::sorted::disorder::Disorder;
use crate::sorted::line::Writer;
use crate::sorted::steps::{Budget, Halt, Next, Steps};
use crate::source::Batch;

/// Size of the first batch of rows, in bytes; later ones are larger.
const FIRST_BATCH: usize = 16 << 10;
/// Maximum size of a batch of rows, in bytes.
const MAX_BATCH: usize = 256 << 10;

/// Finds where in a text to begin.
pub trait Start: Send + 'static {
    /// The cursors of the next text; `None` when all have begun.
    ///
    /// # Errors
    /// When it has to go on in another step.
    fn next(&mut self, budget: &mut Budget) -> Result<Option<Vec<Cursor>>, Halt>;
}

/// Many texts as one.
pub struct Scan<S> {
    start: Beginning<S>,
    order: Order,
    cursors: Vec<Option<Cursor>>,
    /// Numbers of cursors. None comes before that at half its place.
    heap: Vec<usize>,
    /// Whether the current line of the first cursor of the heap was taken.
    taken: bool,
    writer: Writer,
    batch: usize,
    /// Number of rows still wanted.
    left: u64,
    broken: Arc<AtomicU64>,
    /// Urlkey and timestamp of the last row of the batch before, and how far the last row was from what is closest.
    last: Vec<u8>,
    distance: u64,
    disorder: Arc<Disorder>,
}

enum Beginning<S> {
    /// Texts that have yet to be begun, and those cursors of the last one whose first line has yet to be found.
    Under(S, std::vec::IntoIter<Cursor>, Option<Cursor>),
    Done,
}

impl<S: Start> Scan<S> {
    /// `at_most` rows. Lines that are none are counted, and a file whose lines are out of order is noted.
    pub fn new(
        start: S,
        order: Order,
        writer: Writer,
        at_most: Option<u64>,
        (broken, disorder): (Arc<AtomicU64>, Arc<Disorder>),
    ) -> Scan<S> {
        Scan {
            start: Beginning::Under(start, Vec::new().into_iter(), None),
            order,
            cursors: Vec::new(),
            heap: Vec::new(),
            taken: false,
            writer,
            batch: FIRST_BATCH,
            left: at_most.unwrap_or(u64::MAX),
            broken,
            last: Vec::new(),
            distance: 0,
            disorder,
        }
    }

    /// Everything up to the end, unless something keeps it from that.
    fn run(&mut self, budget: &mut Budget) -> Result<(), Halt> {
        self.begin(budget)?;
        loop {
            if self.taken {
                self.go_on(budget)?;
                self.taken = false;
            }
            let Some(first) = self.heap.first().filter(|_| self.left > 0) else {
                return Ok(());
            };
            let Some(Some(cursor)) = self.cursors.get(*first) else {
                return Ok(());
            };
            let (rows, bytes) = self.writer.size();
            if bytes >= self.batch {
                self.batch = (self.batch * 4).min(MAX_BATCH);
                return Err(Halt::Enough);
            }
            let before = self.writer.last().unwrap_or(&self.last);
            let follows = match self.order {
                Order::Ascending => before <= cursor.both(),
                Order::Descending => before.is_empty() || cursor.both() <= before,
                Order::Closest(_) => self.distance <= cursor.distance(),
            };
            if let (false, Some(path)) = (follows, cursor.path()) {
                self.disorder.note(path);
            }
            self.distance = cursor.distance();
            let line = cursor.line();
            if rows == 0 {
                self.writer.expect(match self.batch {
                    FIRST_BATCH => line.len() * 2 + 256,
                    batch => batch + line.len() * 2,
                });
            }
            if self.writer.push(line, cursor.shape()) {
                self.left -= 1;
            } else {
                self.broken.fetch_add(1, Memory::Relaxed);
            }
            self.taken = true;
        }
    }

    /// Finds the first line of each text.
    fn begin(&mut self, budget: &mut Budget) -> Result<(), Halt> {
        loop {
            let Beginning::Under(start, more, beginning) = &mut self.start else {
                return Ok(());
            };
            if beginning.is_none() {
                *beginning = more.next();
            }
            match beginning {
                Some(cursor) => {
                    let there = cursor.next(budget)?;
                    let Some(cursor) = beginning.take() else {
                        continue;
                    };
                    if there {
                        self.cursors.push(Some(cursor));
                    } else {
                        self.broken.fetch_add(cursor.broken(), Memory::Relaxed);
                    }
                }
                None => match start.next(budget)? {
                    Some(cursors) => *more = cursors.into_iter(),
                    None => {
                        self.start = Beginning::Done;
                        self.heap = (0..self.cursors.len()).collect();
                        for at in (0..self.heap.len() / 2).rev() {
                            self.sink(at);
                        }
                    }
                },
            }
        }
    }

    /// Moves the first cursor on.
    fn go_on(&mut self, budget: &mut Budget) -> Result<(), Halt> {
        let Some(&first) = self.heap.first() else {
            return Ok(());
        };
        let Some(Some(cursor)) = self.cursors.get_mut(first) else {
            return Ok(());
        };
        if !cursor.next(budget)? {
            self.broken.fetch_add(cursor.broken(), Memory::Relaxed);
            // Its memory, and its file, are not needed any more.
            if let Some(done) = self.cursors.get_mut(first) {
                *done = None;
            }
            self.heap.swap_remove(0);
        }
        if self.heap.len() > 1 {
            self.sink(0);
        }
        Ok(())
    }

    /// Moves the cursor at that place of the heap down to where it belongs.
    fn sink(&mut self, mut at: usize) {
        loop {
            let mut first = at;
            for child in [2 * at + 1, 2 * at + 2] {
                if child < self.heap.len() && self.comes_first(child, first) {
                    first = child;
                }
            }
            if first == at {
                return;
            }
            self.heap.swap(at, first);
            at = first;
        }
    }

    /// Whether the cursor at one place of the heap comes before that at another one.
    fn comes_first(&self, one: usize, other: usize) -> bool {
        let at = |place: usize| {
            let number = *self.heap.get(place)?;
            Some((number, self.cursors.get(number)?.as_ref()?))
        };
        let (Some((i, a)), Some((j, b))) = (at(one), at(other)) else {
            return false;
        };
        let ascending = || a.both().cmp(b.both()).then(i.cmp(&j));
        let order = match self.order {
            Order::Ascending => ascending(),
            Order::Descending => ascending().reverse(),
            Order::Closest(_) => a.distance().cmp(&b.distance()).then_with(ascending),
        };
        order == Ordering::Less
    }
}

impl<S: Start> Steps for Scan<S> {
    fn step(&mut self, budget: &mut Budget) -> (Batch, Next) {
        let next = Next::after(self.run(budget));
        if let Some(last) = self.writer.last() {
            self.last = last.to_vec();
        }
        (self.writer.take(), next)
    }
}

impl<S> Drop for Scan<S> {
    fn drop(&mut self) {
        let broken: u64 = self.cursors.iter().flatten().map(Cursor::broken).sum();
        self.broken.fetch_add(broken, Memory::Relaxed);
    }
}
