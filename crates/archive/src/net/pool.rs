//! Connections that are kept for the next request.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::connection::Connection;

/// Maximum number of idle connections kept for one server.
const MAX_PER_SERVER: usize = 128;
/// Maximum number of idle connections kept for all servers, which bounds the open files.
const MAX_IDLE: usize = 512;
/// How long an idle connection is kept. Servers close theirs after some seconds as well.
const IDLE_TIMEOUT: Duration = Duration::from_secs(20);
/// Interval at which connections idle for too long are looked for.
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
    pub(crate) fn new() -> Pool {
        Pool {
            state: Mutex::new(State {
                idle: HashMap::new(),
                count: 0,
                swept: Instant::now(),
            }),
        }
    }

    /// The one that was used last. Those before it may grow old, and go.
    pub(crate) fn take(&self, place: &Place) -> Option<Connection> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let old = state.sweep();
        let taken = state.idle.get_mut(place).and_then(Vec::pop);
        state.count -= usize::from(taken.is_some());
        drop(state);
        drop(old);
        taken
            .filter(|(since, _)| since.elapsed() < IDLE_TIMEOUT)
            .map(|(_, connection)| connection)
    }

    /// Keeps a connection, or closes it when there are enough.
    pub(crate) fn put(&self, place: Place, connection: Connection) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let old = state.sweep();
        if state.count < MAX_IDLE {
            let of_place = state.idle.entry(place).or_default();
            if of_place.len() < MAX_PER_SERVER {
                of_place.push((Instant::now(), connection));
                state.count += 1;
            }
        }
        drop(state);
        drop(old);
    }

    /// How many there are.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
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
            let young = of_place.partition_point(|(since, _)| since.elapsed() >= IDLE_TIMEOUT);
            old.extend(of_place.drain(..young));
            !of_place.is_empty()
        });
        self.count -= old.len();
        old
    }
}
