//! A web server that sends what a test says, byte for byte, however wrong it is.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, sleep};
use std::time::Duration;

/// A part of what is sent.
#[derive(Clone, Debug)]
pub enum Part {
    /// These bytes.
    Bytes(Vec<u8>),
    /// These bytes again and again, until the client has had enough.
    Endless(Vec<u8>),
    /// These bytes one by one, and again and again, with a pause before each.
    Drip(Vec<u8>, Duration),
    /// Nothing more, and the connection stays open until the client closes it.
    Silence,
    /// The end of the connection.
    Close,
}

/// What came from a client.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// `GET`.
    pub method: String,
    /// Path and query as they came.
    pub target: String,
    /// The header fields, their names in small letters.
    pub fields: HashMap<String, String>,
    /// The body, of a length that was announced.
    pub body: Vec<u8>,
    /// Which connection of the host it came over, from 0.
    pub connection: usize,
}

impl Asked {
    /// The value of a parameter in the query, unescaped. Empty when there is none.
    pub fn parameter(&self, name: &str) -> String {
        let query = self.target.split_once('?').map_or("", |(_, query)| query);
        let found = query.split('&').find_map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (key == name).then_some(value)
        });
        unescaped(found.unwrap_or_default())
    }
}

type Script = dyn Fn(&Asked) -> Vec<Part> + Send + Sync;

/// Runs a script for every request on a free port of the loopback interface, until it is dropped.
pub struct ScriptedHost {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
    /// Of a host that accepts nothing.
    _deaf: Option<TcpListener>,
}

#[derive(Default)]
struct Shared {
    asked: Mutex<Vec<Asked>>,
    connections: Mutex<Vec<TcpStream>>,
    accepted: AtomicUsize,
    gone: AtomicUsize,
    closing: AtomicBool,
}

impl ScriptedHost {
    /// Begins to serve.
    pub fn start(script: impl Fn(&Asked) -> Vec<Part> + Send + Sync + 'static) -> ScriptedHost {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let address = listener.local_addr().expect("a bound port");
        let shared = Arc::new(Shared::default());
        let script: Arc<Script> = Arc::new(script);
        let of_acceptor = Arc::clone(&shared);
        let acceptor = std::thread::spawn(move || {
            let mut visitors = Vec::new();
            for connection in listener.incoming().flatten() {
                if of_acceptor.closing.load(Ordering::SeqCst) {
                    break;
                }
                let number = of_acceptor.accepted.fetch_add(1, Ordering::SeqCst);
                lock(&of_acceptor.connections).extend(connection.try_clone());
                let (shared, script) = (Arc::clone(&of_acceptor), Arc::clone(&script));
                visitors.push(std::thread::spawn(move || {
                    drop(serve(&connection, number, &shared, &*script));
                    drop(connection.shutdown(Shutdown::Both));
                    shared.gone.fetch_add(1, Ordering::SeqCst);
                }));
            }
            for visitor in visitors {
                drop(visitor.join());
            }
        });
        ScriptedHost {
            address,
            shared,
            acceptor: Some(acceptor),
            _deaf: None,
        }
    }

    /// A host that connections can be made to, and that never takes one.
    pub fn deaf() -> ScriptedHost {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        ScriptedHost {
            address: listener.local_addr().expect("a bound port"),
            shared: Arc::default(),
            acceptor: None,
            _deaf: Some(listener),
        }
    }

    /// The URL of a path.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// The requests so far.
    pub fn asked(&self) -> Vec<Asked> {
        lock(&self.shared.asked).clone()
    }

    /// Number of connections made so far.
    pub fn accepted(&self) -> usize {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    /// Number of connections that are over.
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
        // Wakes the acceptor, which then waits for the others.
        drop(TcpStream::connect(self.address));
        for connection in lock(&self.shared.connections).iter() {
            drop(connection.shutdown(Shutdown::Both));
        }
        drop(acceptor.join());
    }
}

/// An answer as it should be.
pub fn answer(status: u16, fields: &[(&str, &str)], body: impl AsRef<[u8]>) -> Vec<Part> {
    let body = body.as_ref();
    let mut text = format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n", body.len());
    for (name, value) in fields {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str("\r\n");
    vec![Part::Bytes([text.as_bytes(), body].concat())]
}

fn lock<T>(shared: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn serve(
    mut connection: &TcpStream,
    number: usize,
    shared: &Shared,
    script: &Script,
) -> io::Result<()> {
    connection.set_nodelay(true)?;
    let mut input = BufReader::new(connection);
    while let Some(mut asked) = read(&mut input)? {
        asked.connection = number;
        lock(&shared.asked).push(asked.clone());
        for part in script(&asked) {
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
                    let mut rest = [0; 1024];
                    while input.read(&mut rest)? > 0 {}
                    return Ok(());
                }
                Part::Close => return Ok(()),
            }
        }
    }
    Ok(())
}

fn read(input: &mut impl BufRead) -> io::Result<Option<Asked>> {
    let mut line = String::new();
    if input.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split(' ');
    let mut word = || words.next().unwrap_or_default().to_owned();
    let mut asked = Asked {
        method: word(),
        target: word(),
        ..Asked::default()
    };
    loop {
        let mut line = String::new();
        input.read_line(&mut line)?;
        let Some((name, value)) = line.split_once(':') else {
            break;
        };
        let (name, value) = (name.to_ascii_lowercase(), value.trim());
        asked.fields.insert(name, value.to_owned());
    }
    let length = asked
        .fields
        .get("content-length")
        .and_then(|length| length.parse().ok());
    asked.body.resize(length.unwrap_or(0), 0);
    input.read_exact(&mut asked.body)?;
    Ok(Some(asked))
}

fn unescaped(text: &str) -> String {
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
