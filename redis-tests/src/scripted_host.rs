//! A web server that sends exactly the bytes that a test specifies, even if they violate the
//! protocol.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{JoinHandle, sleep};
use std::time::Duration;

/// A part of a response.
#[derive(Clone, Debug)]
pub enum Part {
    /// Sends these bytes.
    Bytes(Vec<u8>),
    /// Sends these bytes again and again until the client closes the connection.
    Endless(Vec<u8>),
    /// Sends these bytes one at a time, again and again, with a pause before each byte.
    Drip(Vec<u8>, Duration),
    /// Sends no more bytes, and keeps the connection open until the client closes it.
    Silence,
    /// Closes the connection.
    Close,
}

/// A request of a client.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// First line and header fields as received, up to the empty line.
    pub head: String,
    /// Method, such as `GET`.
    pub method: String,
    /// Path and query as received.
    pub target: String,
    /// Header fields, their names in lower case.
    pub fields: HashMap<String, String>,
    /// Body, if the request had a `Content-Length`.
    pub body: Vec<u8>,
    /// Number of the connection to this host, from 0.
    pub connection: usize,
}

impl Asked {
    /// Returns the first line.
    pub fn line(&self) -> &str {
        self.head.lines().next().unwrap_or_default()
    }

    /// Returns the value of a header field.
    pub fn field(&self, name: &str) -> Option<&str> {
        let value = self.fields.get(&name.to_ascii_lowercase())?;
        Some(value)
    }

    /// Returns the unescaped value of a query parameter, or an empty string.
    pub fn parameter(&self, name: &str) -> String {
        let query = self.target.split_once('?').map_or("", |(_, query)| query);
        let found = query.split('&').find_map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (key == name).then_some(value)
        });
        unescaped(found.unwrap_or_default())
    }
}

/// A web server on a free loopback port whose responses come from a script. Dropping this value
/// stops the server.
pub struct ScriptedHost {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
    /// Listener of a host that accepts nothing.
    _deaf: Option<TcpListener>,
}

/// Default address of hosts.
const LOCAL: &str = "127.0.0.1";

/// A connection, and the thread that responds to its requests.
type Visitor = (TcpStream, JoinHandle<()>);

#[derive(Default)]
struct Shared {
    asked: Mutex<Vec<Asked>>,
    visitors: Mutex<Vec<Visitor>>,
    accepted: AtomicUsize,
    gone: AtomicUsize,
    closing: AtomicBool,
    has_failed: AtomicBool,
    /// The response to every request, if the host was started with [`ScriptedHost::answering`].
    answer: Mutex<Vec<u8>>,
}

impl ScriptedHost {
    /// Starts a host. For each request, `script` returns the parts of the response.
    pub fn start(script: impl Fn(&Asked) -> Vec<Part> + Send + Sync + 'static) -> ScriptedHost {
        ScriptedHost::handling(move |asked, connection| play(script(asked), connection))
    }

    /// Starts a host like [`start`](ScriptedHost::start), on another loopback address, for programs
    /// that refuse to connect to `127.0.0.1`.
    pub fn start_at(
        host: &str,
        script: impl Fn(&Asked) -> Vec<Part> + Send + Sync + 'static,
    ) -> ScriptedHost {
        let handle = move |asked: &Asked, connection: &TcpStream| play(script(asked), connection);
        ScriptedHost::serving(Arc::default(), host, handle)
    }

    /// Starts a host that responds to each request with these bytes and then closes the connection.
    pub fn answering(bytes: impl Into<Vec<u8>>) -> ScriptedHost {
        let shared = Arc::new(Shared::default());
        let answer = Arc::clone(&shared);
        let host = ScriptedHost::serving(shared, LOCAL, move |_, mut connection| {
            connection.write_all(&lock(&answer.answer))?;
            Ok(false)
        });
        host.answers(bytes);
        host
    }

    /// Sets the response of a host that was started with [`ScriptedHost::answering`].
    pub fn answers(&self, bytes: impl Into<Vec<u8>>) {
        *lock(&self.shared.answer) = bytes.into();
    }

    /// Starts a host. `handle` writes the response to the connection. If `handle` returns `false`,
    /// the host closes the connection.
    pub fn handling(
        handle: impl Fn(&Asked, &TcpStream) -> io::Result<bool> + Send + Sync + 'static,
    ) -> ScriptedHost {
        ScriptedHost::serving(Arc::default(), LOCAL, handle)
    }

    fn serving(
        shared: Arc<Shared>,
        host: &str,
        handle: impl Fn(&Asked, &TcpStream) -> io::Result<bool> + Send + Sync + 'static,
    ) -> ScriptedHost {
        let listener = TcpListener::bind((host, 0)).expect("a free port");
        let address = listener.local_addr().expect("a bound port");
        let (host, handle) = (Arc::clone(&shared), Arc::new(handle));
        let acceptor = std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                if host.closing.load(Ordering::SeqCst) {
                    break;
                }
                let number = host.accepted.fetch_add(1, Ordering::SeqCst);
                let Ok(kept) = connection.try_clone() else {
                    continue;
                };
                let (shared, handle) = (Arc::clone(&host), Arc::clone(&handle));
                let visitor = std::thread::spawn(move || {
                    let _leaving = Leaving(&connection, &shared);
                    // Ignore errors, because a client may disconnect at any time.
                    drop(serve(&connection, number, &shared, &*handle));
                });
                let mut visitors = lock(&host.visitors);
                visitors.retain(|(_, thread)| !thread.is_finished());
                visitors.push((kept, visitor));
            }
        });
        ScriptedHost {
            address,
            shared,
            acceptor: Some(acceptor),
            _deaf: None,
        }
    }

    /// Starts a host that never accepts connections. Clients can connect nevertheless, because the
    /// kernel completes the handshake.
    pub fn deaf() -> ScriptedHost {
        let listener = TcpListener::bind((LOCAL, 0)).expect("a free port");
        ScriptedHost {
            address: listener.local_addr().expect("a bound port"),
            shared: Arc::default(),
            acceptor: None,
            _deaf: Some(listener),
        }
    }

    /// Returns the address on which the host listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL of a path.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Returns the port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Returns the requests so far.
    pub fn asked(&self) -> Vec<Asked> {
        lock(&self.shared.asked).clone()
    }

    /// Discards the recorded requests, because a long test would keep too many.
    pub fn forget(&self) {
        lock(&self.shared.asked).clear();
    }

    /// Returns the number of connections accepted so far.
    pub fn accepted(&self) -> usize {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    /// Returns the number of connections that have ended.
    pub fn gone(&self) -> usize {
        self.shared.gone.load(Ordering::SeqCst)
    }
}

impl Drop for ScriptedHost {
    fn drop(&mut self) {
        let Some(acceptor) = self.acceptor.take() else {
            return;
        };
        self.shared.closing.store(true, Ordering::SeqCst);
        // Wake the acceptor.
        drop(TcpStream::connect(self.address));
        drop(acceptor.join());
        for (connection, thread) in std::mem::take(&mut *lock(&self.shared.visitors)) {
            drop(connection.shutdown(Shutdown::Both));
            drop(thread.join());
        }
        let has_failed = self.shared.has_failed.load(Ordering::SeqCst);
        assert!(
            !has_failed || std::thread::panicking(),
            "a request made the host panic"
        );
    }
}

/// Closes a connection when its thread ends, and counts it as ended.
struct Leaving<'a>(&'a TcpStream, &'a Shared);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        drop(self.0.shutdown(Shutdown::Both));
        self.1.gone.fetch_add(1, Ordering::SeqCst);
        if std::thread::panicking() {
            self.1.has_failed.store(true, Ordering::SeqCst);
        }
    }
}

/// Returns a valid response.
pub fn answer(status: u16, fields: &[(&str, &str)], body: impl AsRef<[u8]>) -> Vec<Part> {
    let body = body.as_ref();
    let mut text = format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n", body.len());
    for (name, value) in fields {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str("\r\n");
    vec![Part::Bytes([text.as_bytes(), body].concat())]
}

/// Returns these bytes, followed by another part.
pub fn then(bytes: impl Into<Vec<u8>>, next: Part) -> Vec<Part> {
    vec![Part::Bytes(bytes.into()), next]
}

/// Returns these bytes, followed by the end of the connection.
pub fn once(bytes: impl Into<Vec<u8>>) -> Vec<Part> {
    then(bytes, Part::Close)
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn serve(
    connection: &TcpStream,
    number: usize,
    shared: &Shared,
    handle: &impl Fn(&Asked, &TcpStream) -> io::Result<bool>,
) -> io::Result<()> {
    connection.set_nodelay(true)?;
    let mut input = BufReader::new(connection);
    while let Some(mut asked) = read(&mut input)? {
        asked.connection = number;
        lock(&shared.asked).push(asked.clone());
        if !handle(&asked, connection)? {
            break;
        }
    }
    Ok(())
}

/// Sends the parts. Returns true if the connection can take another request.
fn play(parts: Vec<Part>, mut connection: &TcpStream) -> io::Result<bool> {
    for part in parts {
        match part {
            Part::Bytes(bytes) => connection.write_all(&bytes)?,
            Part::Endless(bytes) => loop {
                connection.write_all(&bytes)?;
            },
            Part::Drip(bytes, pause) => {
                for byte in bytes.iter().cycle() {
                    sleep(pause);
                    connection.write_all(&[*byte])?;
                }
            }
            Part::Silence => {
                io::copy(&mut connection, &mut io::sink())?;
                return Ok(false);
            }
            Part::Close => return Ok(false),
        }
    }
    Ok(true)
}

fn read(input: &mut impl BufRead) -> io::Result<Option<Asked>> {
    let mut asked = Asked::default();
    if input.read_line(&mut asked.head)? == 0 {
        return Ok(None);
    }
    let mut words = asked.head.split(' ').map(str::to_owned);
    let mut word = || words.next().unwrap_or_default();
    (asked.method, asked.target) = (word(), word());
    loop {
        let mut line = String::new();
        input.read_line(&mut line)?;
        asked.head += &line;
        let Some((name, value)) = line.split_once(':') else {
            break;
        };
        let (name, value) = (name.to_ascii_lowercase(), value.trim());
        asked.fields.insert(name, value.to_owned());
    }
    let length = asked
        .field("content-length")
        .and_then(|length| length.parse().ok());
    asked.body.resize(length.unwrap_or(0), 0);
    input.read_exact(&mut asked.body)?;
    Ok(Some(asked))
}

pub(crate) fn unescaped(text: &str) -> String {
    let mut bytes = text.bytes();
    let mut plain = Vec::new();
    while let Some(byte) = bytes.next() {
        plain.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digits = [bytes.next().unwrap_or(b'0'), bytes.next().unwrap_or(b'0')];
                let digits = std::str::from_utf8(&digits).unwrap_or("0");
                u8::from_str_radix(digits, 16).unwrap_or(b'?')
            }
            other => other,
        });
    }
    String::from_utf8_lossy(&plain).into_owned()
}
