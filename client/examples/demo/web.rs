//! A web server that is just enough for wget, on a free port of the loopback interface.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::site::Site;

/// Serves one site until the process ends.
pub struct WebServer {
    address: SocketAddr,
    site: Arc<Mutex<Site>>,
}

impl WebServer {
    /// Begins to serve.
    pub fn start(site: Site) -> io::Result<WebServer> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let web = WebServer {
            address: listener.local_addr()?,
            site: Arc::new(Mutex::new(site)),
        };
        let site = Arc::clone(&web.site);
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let site = Arc::clone(&site);
                // A client that goes away in the middle is its own business.
                std::thread::spawn(move || answer(&connection, &site));
            }
        });
        Ok(web)
    }

    /// Where it is.
    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Serves another edition from now on.
    pub fn serve(&self, site: Site) {
        *self.site.lock().unwrap_or_else(PoisonError::into_inner) = site;
    }
}

fn answer(connection: &TcpStream, site: &Mutex<Site>) -> io::Result<()> {
    connection.set_read_timeout(Some(Duration::from_secs(10)))?;
    let mut request = String::new();
    let mut reader = BufReader::new(connection);
    reader.read_line(&mut request)?;
    let mut line = String::new();
    while reader.read_line(&mut line)? > 2 {
        line.clear();
    }
    let path = request.split(' ').nth(1).unwrap_or_default();
    let file = site
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .get(path)
        .cloned();
    let (status, media_type, payload) = match file {
        Some(file) => ("200 OK", file.media_type, file.payload),
        None => (
            "404 Not Found",
            "text/plain",
            b"There is no such page.\n".to_vec(),
        ),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {media_type}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        payload.len()
    );
    let mut out = connection;
    out.write_all(head.as_bytes())?;
    out.write_all(&payload)
}
