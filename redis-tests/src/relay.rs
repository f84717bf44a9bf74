//! A relay between a client and a server that acts after a given number of bytes.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::server::Server;

/// A proxy that listens on a port of its own and forwards bytes between clients and a server.
///
/// After clients have sent a given number of bytes ([`Relay::hold_after`]), it stops forwarding,
/// even in the middle of a request. The test can then kill, stop or disconnect the client at a
/// point that does not depend on timing.
pub struct Relay {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Number of client bytes that the server received.
    sent: u64,
    /// When `sent` reaches this value, the relay stops forwarding in both directions.
    limit: Option<u64>,
    /// Number of cuts so far. The relay discards bytes of connections from before the last cut.
    cuts: u64,
    refuses: bool,
    connections: Vec<TcpStream>,
    closing: bool,
    /// Port of the server to which new connections are forwarded.
    server: u16,
}

impl Relay {
    /// Starts a relay to this server.
    ///
    /// # Panics
    /// Panics if there is no free port.
    pub fn to(server: &Server) -> Relay {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let address = listener.local_addr().expect("a bound port");
        let state = State {
            server: server.port(),
            ..State::default()
        };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            changed: Condvar::new(),
        });
        let for_acceptor = Arc::clone(&shared);
        let acceptor = std::thread::spawn(move || accept(&listener, &for_acceptor));
        Relay {
            address,
            shared,
            acceptor: Some(acceptor),
        }
    }

    /// Returns `redis://127.0.0.1:<port>/` with the port of the relay.
    pub fn url(&self) -> String {
        format!("redis://{}/", self.address)
    }

    /// Returns the number of client bytes that the server received.
    pub fn sent(&self) -> u64 {
        self.shared.lock().sent
    }

    /// Stops forwarding when the server has received this many more bytes.
    pub fn hold_after(&self, bytes: u64) {
        let mut state = self.shared.lock();
        state.limit = Some(state.sent + bytes);
    }

    /// Returns true if the relay has stopped forwarding.
    pub fn holds(&self) -> bool {
        self.shared.lock().holds()
    }

    /// Forwards the bytes that were held back, and all later bytes.
    pub fn go_on(&self) {
        self.shared.lock().limit = None;
        self.shared.changed.notify_all();
    }

    /// Discards the bytes that were held back, and closes all connections. The relay still accepts
    /// new connections.
    pub fn cut(&self) {
        let mut state = self.shared.lock();
        state.limit = None;
        state.cuts += 1;
        for connection in state.connections.drain(..) {
            let _ = connection.shutdown(Shutdown::Both);
        }
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Leads new connections to another server, as a virtual address does after a failover.
    pub fn switch(&self, server: &Server) {
        self.shared.lock().server = server.port();
    }

    /// Starts or stops closing new connections immediately.
    pub fn refuse(&self, refuses: bool) {
        self.shared.lock().refuses = refuses;
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.shared.lock().closing = true;
        self.cut();
        // Wake the accepting thread, so that it ends.
        let _ = TcpStream::connect(self.address);
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

impl State {
    fn holds(&self) -> bool {
        self.limit.is_some_and(|limit| self.sent >= limit)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits while the relay has stopped forwarding. Returns `None` if the connection was cut.
    fn pass(&self, cuts: u64) -> Option<MutexGuard<'_, State>> {
        let held = |state: &mut State| state.holds() && state.cuts == cuts;
        let state = self.changed.wait_while(self.lock(), held);
        let state = state.unwrap_or_else(PoisonError::into_inner);
        (state.cuts == cuts).then_some(state)
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    let mut pumps = Vec::new();
    for client in listener.incoming().flatten() {
        let mut state = shared.lock();
        if state.closing {
            break;
        }
        if state.refuses {
            continue;
        }
        // If the server is down, close the connection.
        let Ok(server) = TcpStream::connect(("127.0.0.1", state.server)) else {
            continue;
        };
        let cuts = state.cuts;
        for stream in [&client, &server] {
            let _ = stream.set_nodelay(true);
            state.connections.extend(stream.try_clone());
        }
        drop(state);
        let ends = [client.try_clone(), server.try_clone()];
        if let [Ok(to_client), Ok(to_server)] = ends {
            let up = Arc::clone(shared);
            pumps.push(std::thread::spawn(move || {
                pump(&up, cuts, client, to_server, true);
            }));
            let down = Arc::clone(shared);
            pumps.push(std::thread::spawn(move || {
                pump(&down, cuts, server, to_client, false);
            }));
        }
    }
    for pump in pumps {
        let _ = pump.join();
    }
}

/// Forwards one direction of one connection until it ends.
fn pump(shared: &Shared, cuts: u64, mut from: TcpStream, mut to: TcpStream, up: bool) {
    let mut buffer = vec![0; 16 << 10];
    loop {
        let got = match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(got) => got,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        let mut rest = &buffer[..got];
        while !rest.is_empty() {
            let Some(mut state) = shared.pass(cuts) else {
                return;
            };
            let mut some = rest.len();
            if up {
                if let Some(limit) = state.limit {
                    some = some.min((limit - state.sent) as usize);
                }
                state.sent += some as u64;
            }
            drop(state);
            let (now, later) = rest.split_at(some);
            if to.write_all(now).is_err() {
                let _ = from.shutdown(Shutdown::Both);
                return;
            }
            rest = later;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait::until;
    use crate::{Options, Wire, ok};

    #[test]
    fn bytes_after_the_limit_wait_or_are_discarded() {
        let server = Options::new().no_module().start();
        let relay = Relay::to(&server);
        let mut c = Wire::tcp(relay.address.port()).expect("it accepts");
        ok!(c, "SET", "a", "1");
        let request = relay.sent();
        relay.hold_after(request / 2);
        c.try_send(&["SET", "a", "2"]).expect("the command is sent");
        until("half of it is there", || relay.holds());
        assert_eq!(ok!(server.wire(), "GET", "a").text(), "1");
        relay.go_on();
        assert!(c.try_recv().is_ok());
        assert_eq!(ok!(server.wire(), "GET", "a").text(), "2");

        relay.hold_after(request - 1);
        c.try_send(&["SET", "a", "3"]).expect("the command is sent");
        until("most of it is there", || relay.holds());
        relay.cut();
        assert!(c.try_recv().is_err());
        assert_eq!(ok!(server.wire(), "GET", "a").text(), "2");
        let mut c = Wire::tcp(relay.address.port()).expect("it accepts");
        ok!(c, "SET", "a", "4");
        relay.refuse(true);
        let refused = Wire::tcp(relay.address.port());
        assert!(!refused.is_ok_and(|mut c| c.try_send(&["PING"]).is_ok() && c.try_recv().is_ok()));
    }
}
