//! Turns of work that several threads share, so that nobody's long work holds up the work of others.
//!
//! Work is done in pieces. Who does a piece takes what has had the least time so far and, every other time, what
//! has waited longest: short work is soon done whatever else there is, and long work goes on all the same.
//! Light work, which is known to be little in all, may have threads of its own besides.

use std::collections::VecDeque;

/// What comes after a part of the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The turn goes on.
    GoOn,
    /// The turn is over; there will be another one.
    Pause,
    /// There is no more time for this work.
    Enough,
}

/// What work asks now and then while it goes on.
pub trait Turn {
    /// What comes after the part that was done.
    fn next(&mut self) -> Next;
}

/// Work that waits for its turn.
#[derive(Debug)]
struct Waiting<T> {
    what: T,
    light: bool,
    /// How much time it has had.
    had: u64,
}

/// What waits for a turn, in the order in which it came or came back.
#[derive(Debug)]
pub struct Turns<T> {
    waiting: VecDeque<Waiting<T>>,
    /// Whether the next one is the one that has waited longest: of all, and of the light ones.
    by_age: [bool; 2],
}

/// Work that has its turn.
#[derive(Debug)]
pub struct Taken<T> {
    /// The work.
    pub what: T,
    /// Whether it is little in all.
    pub light: bool,
    /// How much time it has had, in any unit.
    pub had: u64,
}

impl<T> Turns<T> {
    /// Of nothing.
    pub const fn new() -> Turns<T> {
        Turns {
            waiting: VecDeque::new(),
            by_age: [false; 2],
        }
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Puts work at the end: new work, which has had none, or what had a turn.
    pub fn put(&mut self, what: T, light: bool, had: u64) {
        self.waiting.push_back(Waiting { what, light, had });
    }

    /// Takes what has its turn now; with `light`, of the light work alone.
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

    /// Work of so many pieces, each of so much.
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

    /// Gives so many turns; who ended, and at which turn.
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
    fn short_work_is_done_within_a_few_turns_however_much_long_work_waits() {
        for clients in [1, 24, 1000] {
            let mut turns = Turns::new();
            for _ in 0..clients {
                turns.put(LONG, false, 0);
            }
            assert_eq!(give(&mut turns, 3 * clients, false), []);
            // It has had the least, and has its own turn at least every other time.
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
    fn long_work_goes_on_however_much_short_work_comes() {
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
    fn light_turns_are_for_light_work_alone() {
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
