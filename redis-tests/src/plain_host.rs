//! A server that has only the commands that Redis, Kvrocks and Dragonfly share.

use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crate::server::Server;
use crate::wire::{Reply, Wire};

/// Commands that the proxy accepts.
const ACCEPTED: [&str; 20] = [
    "AUTH", "CLIENT", "ECHO", "EXISTS", "GET", "HELLO", "HGET", "HGETALL", "HLEN", "HMGET",
    "HSCAN", "INFO", "LLEN", "LRANGE", "PING", "SCAN", "SELECT", "SMEMBERS", "SSCAN", "TYPE",
];

/// A proxy in front of a server that refuses all other commands, including writes, scripts and module commands.
///
/// Its cursors are strings, as in some versions of Kvrocks, and are valid only on the connection that received them. A
/// client that resumes a scan over another connection gets an error. It can break connections at a given reply of
/// `HSCAN`.
pub struct PlainHost {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    server: u16,
    closing: AtomicBool,
    /// Number of `HSCAN` replies until the connection breaks, and the number between later breaks.
    left: AtomicI64,
    every: AtomicI64,
    breaks: AtomicU64,
    refused: Mutex<Vec<String>>,
}

impl PlainHost {
    /// Starts the proxy in front of this server.
    ///
    /// # Panics
    /// Panics if there is no free port.
    pub fn before(server: &Server) -> PlainHost {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let address = listener.local_addr().expect("a bound port");
        let shared = Arc::new(Shared {
            server: server.port(),
            closing: AtomicBool::new(false),
            left: AtomicI64::new(i64::MAX),
            every: AtomicI64::new(i64::MAX),
            breaks: AtomicU64::new(0),
            refused: Mutex::default(),
        });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if accepting.closing.load(Ordering::Relaxed) {
                    break;
                }
                let shared = Arc::clone(&accepting);
                thread::spawn(move || serve(&shared, client));
            }
        });
        PlainHost { address, shared }
    }

    /// Returns `redis://127.0.0.1:<port>/`.
    pub fn url(&self) -> String {
        format!("redis://{}/", self.address)
    }

    /// Breaks the connection instead of every `n`-th reply of `HSCAN`.
    pub fn break_every(&self, n: i64) {
        self.shared.left.store(n, Ordering::Relaxed);
        self.shared.every.store(n, Ordering::Relaxed);
    }

    /// Returns the number of broken connections.
    pub fn breaks(&self) -> u64 {
        self.shared.breaks.load(Ordering::Relaxed)
    }

    /// Returns the commands that were refused.
    pub fn refused(&self) -> Vec<String> {
        let refused = self.shared.refused.lock();
        refused.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for PlainHost {
    fn drop(&mut self) {
        self.shared.closing.store(true, Ordering::Relaxed);
        // Wake the accepting thread, so that it ends.
        let _ = TcpStream::connect(self.address);
    }
}

/// Serves one client until it or the server closes the connection.
fn serve(shared: &Shared, client: TcpStream) {
    let Ok(mut server) = Wire::tcp(shared.server) else {
        return;
    };
    let _ = client.set_nodelay(true);
    let Ok(mut out) = client.try_clone() else {
        return;
    };
    let mut requests = BufReader::new(client);
    let mut cursors: Vec<Vec<u8>> = vec![b"0".to_vec()];
    while let Some(mut words) = request(&mut requests) {
        let name = String::from_utf8_lossy(&words[0]).to_uppercase();
        if !ACCEPTED.contains(&&name[..]) {
            let mut refused = shared
                .refused
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            refused.push(name.clone());
            drop(refused);
            let refusal = format!("-ERR unknown command '{name}'\r\n");
            if out.write_all(refusal.as_bytes()).is_err() {
                return;
            }
            continue;
        }
        let cursor = match &name[..] {
            "SCAN" => Some(1),
            "HSCAN" | "SSCAN" => Some(2),
            _ => None,
        };
        if let Some(word) = cursor.and_then(|at| words.get_mut(at)) {
            if !cursors.contains(word) {
                let _ = out.write_all(b"-ERR this cursor belongs to another connection\r\n");
                continue;
            }
            *word = word.strip_prefix(b"_").unwrap_or(word).to_vec();
        }
        if server.try_send(&words).is_err() {
            return;
        }
        let Ok(mut reply) = server.try_recv() else {
            return;
        };
        if name == "HSCAN" && shared.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            let every = shared.every.load(Ordering::Relaxed);
            shared.left.store(every, Ordering::Relaxed);
            shared.breaks.fetch_add(1, Ordering::Relaxed);
            let _ = out.shutdown(Shutdown::Both);
            return;
        }
        if let (Some(_), Reply::Array(parts)) = (cursor, &mut reply)
            && let Some(Reply::Bulk(next)) = parts.first_mut()
            && next != b"0"
        {
            next.insert(0, b'_');
            cursors.push(next.clone());
        }
        let mut bytes = Vec::new();
        encode(&reply, &mut bytes);
        if out.write_all(&bytes).is_err() {
            return;
        }
    }
}

/// Reads a request; `None` at the end of the connection.
fn request(from: &mut impl BufRead) -> Option<Vec<Vec<u8>>> {
    let count = number(from, '*')?;
    let mut words = Vec::with_capacity(count);
    for _ in 0..count {
        let mut word = vec![0; number(from, '$')? + 2];
        from.read_exact(&mut word).ok()?;
        word.truncate(word.len() - 2);
        words.push(word);
    }
    (!words.is_empty()).then_some(words)
}

fn number(from: &mut impl BufRead, mark: char) -> Option<usize> {
    let mut line = String::new();
    from.read_line(&mut line).ok()?;
    line.strip_prefix(mark)?.trim_end().parse().ok()
}

/// Writes a reply in RESP2.
fn encode(reply: &Reply, out: &mut Vec<u8>) {
    let mut line = |mark: u8, text: &[u8]| {
        out.push(mark);
        out.extend_from_slice(text);
        out.extend_from_slice(b"\r\n");
    };
    match reply {
        Reply::Nil => line(b'$', b"-1"),
        Reply::Simple(text) => line(b'+', text),
        Reply::Error(text) => line(b'-', text),
        Reply::Int(n) => line(b':', n.to_string().as_bytes()),
        Reply::Bulk(bytes) => {
            line(b'$', bytes.len().to_string().as_bytes());
            out.extend_from_slice(bytes);
            out.extend_from_slice(b"\r\n");
        }
        Reply::Array(items) | Reply::Set(items) | Reply::Push(items) => {
            line(b'*', items.len().to_string().as_bytes());
            items.iter().for_each(|item| encode(item, out));
        }
        other => encode(&other.as_resp2(), out),
    }
}
