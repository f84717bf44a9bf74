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
pub(super) type Server = (bool, String, u16);

/// Idle connections.
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

    /// The idle connection that was used last. Older ones expire.
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

    /// Keeps a connection, or closes it when there are enough.
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

    /// How many there are.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .count
    }
}

impl IdleConnections {
    /// Takes out those that are too old. Closing them is left to the caller, who then holds no lock.
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
