//! A proxy between client and server that cuts connections.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use redis_tests::Server;

/// The moment at which the proxy cuts a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Breaks the connection before the request reaches the server.
    Before,
    /// Breaks the connection after the server has executed the command, before the client gets the
    /// reply.
    After,
}

/// A proxy that cuts connections on which a certain command is sent, a limited number of times. It
/// stops when the test ends.
pub struct Vandal {
    port: u16,
    state: Arc<State>,
}

struct State {
    command: &'static str,
    cut: Cut,
    left: AtomicU32,
    seen: AtomicU32,
}

impl Vandal {
    pub fn of(server: &Server, command: &'static str, cut: Cut, times: u32) -> Vandal {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let vandal = Vandal {
            port: listener.local_addr().unwrap().port(),
            state: Arc::new(State {
                command,
                cut,
                left: AtomicU32::new(times),
                seen: AtomicU32::new(0),
            }),
        };
        let (to, state) = (server.port(), Arc::clone(&vandal.state));
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let state = Arc::clone(&state);
                let server = TcpStream::connect(("127.0.0.1", to));
                // If the server is unreachable, the proxy disconnects the client.
                if let Ok(server) = server {
                    thread::spawn(move || state.forward(&client, &server));
                }
            }
        });
        vandal
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// Returns the number of times that the proxy saw the command.
    pub fn seen(&self) -> u32 {
        self.state.seen.load(Ordering::SeqCst)
    }

    /// Returns true if the proxy has made all requested cuts.
    pub fn is_done(&self) -> bool {
        self.state.left.load(Ordering::SeqCst) == 0
    }
}

impl State {
    fn forward(&self, mut client: &TcpStream, mut server: &TcpStream) {
        let mut replies = server.try_clone().unwrap();
        let mut back = client.try_clone().unwrap();
        let cut = Arc::new(AtomicU32::new(0));
        let is_cut = Arc::clone(&cut);
        let backwards = thread::spawn(move || {
            let mut bytes = [0; 65536];
            while let Ok(n @ 1..) = replies.read(&mut bytes) {
                if is_cut.load(Ordering::SeqCst) == 1 || back.write_all(&bytes[..n]).is_err() {
                    break;
                }
            }
            let _ = back.shutdown(Shutdown::Both);
        });
        let mut bytes = [0; 65536];
        while let Ok(n @ 1..) = client.read(&mut bytes) {
            let name = self.command.as_bytes();
            if bytes[..n].windows(name.len()).any(|part| part == name) {
                self.seen.fetch_add(1, Ordering::SeqCst);
                let less = |left: u32| left.checked_sub(1);
                let left = &self.left;
                if left
                    .fetch_update(Ordering::SeqCst, Ordering::SeqCst, less)
                    .is_ok()
                {
                    if self.cut == Cut::Before {
                        break;
                    }
                    cut.store(1, Ordering::SeqCst);
                }
            }
            if server.write_all(&bytes[..n]).is_err() {
                break;
            }
        }
        let _ = server.shutdown(Shutdown::Both);
        let _ = client.shutdown(Shutdown::Both);
        let _ = backwards.join();
    }
}
