//! Idle connections, kept for later requests.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::connection::Connection;

/// Maximum number of idle connections kept for one server.
const MAX_PER_SERVER: usize = 128;
/// Maximum number of idle connections kept for all servers, which limits the number of open files.
const MAX_IDLE: usize = 512;
/// Time after which an idle connection is closed. Servers also close idle connections after a few
/// seconds.
const IDLE_TIMEOUT: Duration = Duration::from_secs(20);
/// Interval at which expired connections are closed.
const SWEEP: Duration = Duration::from_secs(5);

/// A server: whether it uses TLS, its host, and its port.
pub(super) type Server = (bool, String, u16);

/// The pool of idle connections.
pub(super) struct Pool {
    idle: Mutex<IdleConnections>,
}

struct IdleConnections {
    by_server: HashMap<Server, Vec<(Instant, Connection)>>,
    count: usize,
    swept: Instant,
}

impl Pool {
    pub(crate) fn new() -> Pool {
        Pool {
            idle: Mutex::new(IdleConnections {
                by_server: HashMap::new(),
                count: 0,
                swept: Instant::now(),
            }),
        }
    }

    /// Returns the most recently used idle connection to a server, unless it has expired.
    pub(crate) fn take(&self, server: &Server) -> Option<Connection> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let old = idle.sweep();
        let taken = idle.by_server.get_mut(server).and_then(Vec::pop);
        idle.count -= usize::from(taken.is_some());
        drop(idle);
        drop(old);
        taken
            .filter(|(since, _)| since.elapsed() < IDLE_TIMEOUT)
            .map(|(_, connection)| connection)
    }

    /// Keeps a connection for later, or closes it if the pool is full.
    pub(crate) fn put(&self, server: Server, connection: Connection) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let old = idle.sweep();
        if idle.count < MAX_IDLE {
            let of_server = idle.by_server.entry(server).or_default();
            if of_server.len() < MAX_PER_SERVER {
                of_server.push((Instant::now(), connection));
                idle.count += 1;
            }
        }
        drop(idle);
        drop(old);
    }

    /// Returns the number of idle connections.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .count
    }
}

impl IdleConnections {
    /// Removes expired connections. The caller closes the removed connections after it has released
    /// the lock.
    fn sweep(&mut self) -> Vec<(Instant, Connection)> {
        if self.swept.elapsed() < SWEEP {
            return Vec::new();
        }
        self.swept = Instant::now();
        let mut old = Vec::new();
        self.by_server.retain(|_, of_server| {
            let young = of_server.partition_point(|(since, _)| since.elapsed() >= IDLE_TIMEOUT);
            old.extend(of_server.drain(..young));
            !of_server.is_empty()
        });
        self.count -= old.len();
        old
    }
}
