//! Schedules tasks on threads fairly, so that long tasks do not delay short ones.
//!
//! A task runs in several turns. A thread alternates between the task that has used the least time
//! and the task that has waited longest. Therefore short tasks finish soon under any load, and long
//! tasks still make progress. Light tasks, which are known to be short in total, can have their own
//! threads.

use std::collections::VecDeque;

/// Decision how to continue after a part of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Continue with the turn.
    GoOn,
    /// End the turn. Another turn follows.
    Pause,
    /// The task has exceeded its time limit.
    Enough,
}

/// A turn. Tasks call it from time to time to find out whether to continue.
pub trait Turn {
    /// Decides how to continue after a part of the task is done.
    fn next(&mut self) -> Next;
}

/// A task that is waiting for a turn.
#[derive(Debug)]
struct Waiting<T> {
    what: T,
    light: bool,
    /// Time used so far.
    had: u64,
}

/// A queue of waiting tasks, in the order in which they arrived or returned.
#[derive(Debug)]
pub struct Turns<T> {
    waiting: VecDeque<Waiting<T>>,
    /// True if the task that has waited longest is taken next. The first flag is for all tasks, the
    /// second for light tasks.
    by_age: [bool; 2],
}

/// A task that was taken out of the queue for a turn.
#[derive(Debug)]
pub struct Taken<T> {
    /// The task.
    pub what: T,
    /// True if the task is short in total.
    pub light: bool,
    /// Time used so far, in any unit.
    pub had: u64,
}

impl<T> Turns<T> {
    /// Creates an empty queue.
    pub const fn new() -> Turns<T> {
        Turns {
            waiting: VecDeque::new(),
            by_age: [false; 2],
        }
    }

    /// Returns the number of waiting tasks.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Returns true if no task is waiting.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Appends a task to the queue: a new task that has used no time, or a task after a turn.
    pub fn put(&mut self, what: T, light: bool, had: u64) {
        self.waiting.push_back(Waiting { what, light, had });
    }

    /// Takes the next task from the queue. With `light`, considers only light tasks.
    pub fn take(&mut self, light: bool) -> Option<Taken<T>> {
        let may = |(_, waiting): &(usize, &Waiting<T>)| waiting.light || !light;
        let mut candidates = self.waiting.iter().enumerate().filter(may);
        let by_age = &mut self.by_age[usize::from(light)];
        let (at, _) = if *by_age {
            candidates.next()?
        } else {
            candidates.min_by_key(|(_, waiting)| waiting.had)?
        };
        *by_age = !*by_age;
        let Waiting { what, light, had } = self.waiting.remove(at)?;
        Some(Taken { what, light, had })
    }
}

impl<T> Default for Turns<T> {
    fn default() -> Turns<T> {
        Turns::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A task that takes a number of turns of equal length.
    #[derive(Clone, Debug)]
    struct Work {
        name: &'static str,
        pieces: usize,
        each: u64,
    }

    const LONG: Work = Work {
        name: "long",
        pieces: 1000,
        each: 3_000,
    };

    /// Runs this number of turns, and returns which task ended in which turn.
    fn give(turns: &mut Turns<Work>, count: usize, light: bool) -> Vec<(&'static str, usize)> {
        let mut ended = Vec::new();
        for now in 1..=count {
            let Some(mut taken) = turns.take(light) else {
                break;
            };
            taken.what.pieces -= 1;
            match taken.what.pieces {
                0 => ended.push((taken.what.name, now)),
                _ => {
                    let had = taken.had + taken.what.each;
                    turns.put(taken.what, taken.light, had);
                }
            }
        }
        ended
    }

    #[test]
    fn short_work_finishes_within_few_turns_among_long_work() {
        for clients in [1, 24, 1000] {
            let mut turns = Turns::new();
            for _ in 0..clients {
                turns.put(LONG, false, 0);
            }
            assert_eq!(give(&mut turns, 3 * clients, false), []);
            // The new task has used the least time, so it gets at least every other turn.
            for pieces in 1..=5 {
                let name = "short";
                let each = 100;
                turns.put(Work { name, pieces, each }, false, 0);
                let ended = give(&mut turns, 2 * pieces, false);
                assert!(matches!(ended[..], [("short", _)]), "{pieces}: {ended:?}");
            }
            assert_eq!(turns.len(), clients);
        }
    }

    #[test]
    fn long_work_continues_among_short_work() {
        let mut turns = Turns::new();
        let pieces = 20;
        turns.put(Work { pieces, ..LONG }, false, 0);
        let mut given = 0;
        loop {
            let name = "short";
            while turns.len() < 10 {
                turns.put(
                    Work {
                        name,
                        pieces: 1,
                        each: 1,
                    },
                    false,
                    0,
                );
            }
            given += 1;
            if give(&mut turns, 1, false).contains(&("long", 1)) {
                break;
            }
            assert!(given <= 2 * 10 * pieces, "it starves");
        }
    }

    #[test]
    fn equal_work_gets_equal_shares() {
        let mut turns = Turns::new();
        let names = ["a", "b", "c"];
        for name in names {
            turns.put(Work { name, ..LONG }, false, 0);
        }
        give(&mut turns, 300, false);
        for waiting in &turns.waiting {
            let had = LONG.pieces - waiting.what.pieces;
            assert!((99..=101).contains(&had), "{waiting:?}");
        }
    }

    #[test]
    fn light_turns_are_reserved_for_light_work() {
        let mut turns = Turns::new();
        for _ in 0..24 {
            turns.put(LONG, false, 0);
        }
        assert!(turns.take(true).is_none());
        for name in ["a", "b"] {
            let (pieces, each) = (2, 1000);
            turns.put(Work { name, pieces, each }, true, 0);
        }
        let ended = give(&mut turns, 100, true);
        assert_eq!(ended.iter().map(|(_, at)| *at).collect::<Vec<_>>(), [3, 4]);
        assert_eq!(turns.len(), 24);
    }
}
