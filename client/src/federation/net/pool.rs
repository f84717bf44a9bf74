//! Connections that are kept for the next request.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::connection::Connection;

/// So many for a server,
const EACH: usize = 128;
/// and so many in all, so that there is an end to open files.
const ALL: usize = 512;
/// So long. Servers give them up after some seconds as well.
const KEPT: Duration = Duration::from_secs(20);
/// How often old ones are looked for.
const SWEEP: Duration = Duration::from_secs(5);

/// A server: whether it is spoken to over TLS, its host, its port.
pub(super) type Place = (bool, String, u16);

/// Connections that nobody uses at the moment.
pub(super) struct Pool {
    state: Mutex<State>,
}

struct State {
    idle: HashMap<Place, Vec<(Instant, Connection)>>,
    count: usize,
    swept: Instant,
}

impl Pool {
    pub fn new() -> Pool {
        Pool {
            state: Mutex::new(State {
                idle: HashMap::new(),
                count: 0,
                swept: Instant::now(),
            }),
        }
    }

    /// The one that was used last. Those before it may grow old, and go.
    pub fn take(&self, place: &Place) -> Option<Connection> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let old = state.sweep();
        let taken = state.idle.get_mut(place).and_then(Vec::pop);
        state.count -= usize::from(taken.is_some());
        drop(state);
        drop(old);
        taken
            .filter(|(since, _)| since.elapsed() < KEPT)
            .map(|(_, connection)| connection)
    }

    /// Keeps a connection, or closes it when there are enough.
    pub fn put(&self, place: Place, connection: Connection) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let old = state.sweep();
        if state.count < ALL {
            let of_place = state.idle.entry(place).or_default();
            if of_place.len() < EACH {
                of_place.push((Instant::now(), connection));
                state.count += 1;
            }
        }
        drop(state);
        drop(old);
    }

    /// How many there are.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .count
    }
}

impl State {
    /// Takes out those that are too old. Closing them is left to the caller, who then holds no lock.
    fn sweep(&mut self) -> Vec<(Instant, Connection)> {
        if self.swept.elapsed() < SWEEP {
            return Vec::new();
        }
        self.swept = Instant::now();
        let mut old = Vec::new();
        self.idle.retain(|_, of_place| {
            let young = of_place.partition_point(|(since, _)| since.elapsed() >= KEPT);
            old.extend(of_place.drain(..young));
            !of_place.is_empty()
        });
        self.count -= old.len();
        old
    }
}
