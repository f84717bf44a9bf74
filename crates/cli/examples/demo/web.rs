//! A minimal web server for a crawler, on a free port of the loopback interface. It logs its visits.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::site::Site;

/// A web server that serves one site until the process exits.
pub struct WebServer {
    address: SocketAddr,
    state: Arc<Mutex<ProxyState>>,
}

struct ProxyState {
    site: Site,
    /// The next request for this path is refused.
    refused: Option<String>,
    visits: Vec<Visit>,
}

/// A request as the server saw it. The client sent it before `begun`, and had not received all of the
/// response at `ended`, so the real pause between two visits is at least as long as the pause measured here.
#[derive(Clone, Debug)]
pub struct Visit {
    /// Host name in the request.
    pub host: String,
    /// Path in the request.
    pub path: String,
    /// Time at which the request was read.
    pub begun: Instant,
    /// Time just before the response is sent.
    pub ended: Instant,
    /// Status of the response.
    pub status: u16,
}

impl WebServer {
    /// Starts the server.
    pub fn start(site: Site) -> io::Result<WebServer> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let state = ProxyState {
            site,
            refused: None,
            visits: Vec::new(),
        };
        let web = WebServer {
            address: listener.local_addr()?,
            state: Arc::new(Mutex::new(state)),
        };
        let state = Arc::clone(&web.state);
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let state = Arc::clone(&state);
                // A client that disconnects early is not an error.
                std::thread::spawn(move || answer(&connection, &state));
            }
        });
        Ok(web)
    }

    /// Returns the address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL for a user or wget.
    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Switches to another edition of the site.
    pub fn serve(&self, site: Site) {
        lock(&self.state).site = site;
    }

    /// Refuses the next request for this path, as an overloaded server would.
    pub fn refuse_once(&self, path: &str) {
        lock(&self.state).refused = Some(path.to_owned());
    }

    /// Returns all visits in order.
    pub fn visits(&self) -> Vec<Visit> {
        lock(&self.state).visits.clone()
    }
}

fn lock(state: &Mutex<ProxyState>) -> MutexGuard<'_, ProxyState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn answer(connection: &TcpStream, state: &Mutex<ProxyState>) -> io::Result<()> {
    connection.set_read_timeout(Some(Duration::from_secs(10)))?;
    let mut request = String::new();
    let mut reader = BufReader::new(connection);
    reader.read_line(&mut request)?;
    let begun = Instant::now();
    let mut host = String::new();
    let mut line = String::new();
    while reader.read_line(&mut line)? > 2 {
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("Host")
        {
            host = value.trim().to_owned();
        }
        line.clear();
    }
    let path = request.split(' ').nth(1).unwrap_or_default();
    let (status, media_type, payload) = {
        let mut state = lock(state);
        if state.refused.as_deref() == Some(path) {
            state.refused = None;
            let sorry = b"Too much to do.\n".to_vec();
            (
                "503 Service Unavailable\r\nRetry-After: 1",
                "text/plain",
                sorry,
            )
        } else if let Some(file) = state.site.get(path) {
            ("200 OK", file.media_type, file.payload.clone())
        } else {
            let sorry = b"There is no such page.\n".to_vec();
            ("404 Not Found", "text/plain", sorry)
        }
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {media_type}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        payload.len()
    );
    let mut out = connection;
    out.write_all(head.as_bytes())?;
    lock(state).visits.push(Visit {
        host,
        path: path.to_owned(),
        begun,
        ended: Instant::now(),
        status: status[..3].parse().unwrap_or_default(),
    });
    out.write_all(&payload)
}
