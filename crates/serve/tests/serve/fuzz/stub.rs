//! A web server that answers every request with the same bytes.

use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};

/// It answers one request after the other, until the process ends.
pub struct Stub {
    pub address: SocketAddr,
    answer: Arc<Mutex<Vec<u8>>>,
}

impl Stub {
    pub fn start() -> Stub {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let answer = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::clone(&answer);
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let mut line = String::new();
                let mut input = BufReader::new(stream.try_clone().unwrap());
                while input.read_line(&mut line).is_ok_and(|bytes| bytes > 2) {
                    line.clear();
                }
                let answer = shared.lock().unwrap().clone();
                let _ = stream.write_all(&answer);
                let _ = stream.shutdown(Shutdown::Both);
            }
        });
        Stub { address, answer }
    }

    /// What it answers from now on.
    pub fn answers(&self, bytes: &[u8]) {
        *self.answer.lock().unwrap() = bytes.to_vec();
    }
}
