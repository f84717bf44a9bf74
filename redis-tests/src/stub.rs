//! A server that sends what it is told to, byte for byte.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// A request, as it came.
#[derive(Clone, Debug)]
pub struct Asked {
    /// From the first line to the empty line after the fields.
    pub head: String,
    /// As many bytes as `Content-Length` says.
    pub body: Vec<u8>,
}

impl Asked {
    /// The first line.
    pub fn line(&self) -> &str {
        self.head.lines().next().unwrap_or_default()
    }

    /// The path and query.
    pub fn target(&self) -> &str {
        self.line().split(' ').nth(1).unwrap_or_default()
    }

    /// The value of a field.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (field, value) = line.split_once(": ")?;
            field.eq_ignore_ascii_case(name).then_some(value)
        })
    }
}

/// The server. Dropping it ends it.
pub struct Stub {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
    ends: Arc<AtomicBool>,
    accepting: Option<JoinHandle<()>>,
}

impl Stub {
    /// Starts one that handles each request with `answer`, and closes the connection after that.
    pub fn start(answer: impl Fn(&Asked, &mut TcpStream) + Send + Sync + 'static) -> Stub {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let ends = Arc::new(AtomicBool::new(false));
        let (all, end, answer) = (Arc::clone(&asked), Arc::clone(&ends), Arc::new(answer));
        let accepting = std::thread::spawn(move || {
            let mut handling = Vec::new();
            for stream in listener.incoming() {
                if end.load(Ordering::SeqCst) {
                    break;
                }
                let (all, answer) = (Arc::clone(&all), Arc::clone(&answer));
                handling.push(std::thread::spawn(move || {
                    let mut stream = stream.unwrap();
                    stream.set_nodelay(true).unwrap();
                    if let Some(asked) = read_request(&mut stream) {
                        all.lock().unwrap().push(asked.clone());
                        answer(&asked, &mut stream);
                    }
                }));
            }
            for thread in handling {
                thread.join().expect("the stub must not fail");
            }
        });
        Stub {
            address,
            asked,
            ends,
            accepting: Some(accepting),
        }
    }

    /// Starts one that answers each request with these bytes.
    pub fn answering(bytes: impl Into<Vec<u8>>) -> Stub {
        let bytes = bytes.into();
        Stub::start(move |_, stream| send(stream, &bytes))
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL of a path that begins with a slash.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// What it was asked.
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

impl Drop for Stub {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::SeqCst);
        // So that it notices.
        let _ = TcpStream::connect(self.address);
        let joined = self.accepting.take().map(JoinHandle::join);
        if !std::thread::panicking() {
            joined.unwrap().expect("the stub must not fail");
        }
    }
}

/// Sends bytes, unless nobody wants them.
pub fn send(stream: &mut TcpStream, bytes: &[u8]) {
    let _ = stream.write_all(bytes);
}

/// Sends bytes for ever: until nobody wants them.
pub fn send_for_ever(stream: &mut TcpStream, bytes: &[u8]) {
    while stream.write_all(bytes).is_ok() {}
}

/// Says nothing more, and waits until the other end has enough.
pub fn be_silent(stream: &mut TcpStream) {
    let _ = stream.read(&mut [0]);
}

fn read_request(stream: &mut TcpStream) -> Option<Asked> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
        match stream.read(&mut buffer) {
            Ok(n) if n > 0 => bytes.extend_from_slice(&buffer[..n]),
            _ => return None,
        }
    };
    let body = bytes.split_off(end);
    let mut asked = Asked {
        head: String::from_utf8_lossy(&bytes).into_owned(),
        body,
    };
    let length = asked
        .field("Content-Length")
        .map_or(0, |length| length.parse().unwrap());
    while asked.body.len() < length {
        match stream.read(&mut buffer) {
            Ok(n) if n > 0 => asked.body.extend_from_slice(&buffer[..n]),
            _ => break,
        }
    }
    Some(asked)
}
