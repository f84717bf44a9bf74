//! A minimal HTTP client for the demo's site, which also extracts links from pages.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(10);

/// A response as received.
pub struct HttpResponse {
    /// Status line and header fields, including the empty line.
    pub head: Vec<u8>,
    /// Body after the empty line.
    pub body: Vec<u8>,
    /// Status code.
    pub status: i32,
}

impl HttpResponse {
    /// Returns a header field.
    pub fn field(&self, name: &str) -> Option<&str> {
        let head = std::str::from_utf8(&self.head).ok()?;
        let mut fields = head.lines().filter_map(|line| line.split_once(':'));
        let (_, value) = fields.find(|(field, _)| field.eq_ignore_ascii_case(name))?;
        Some(value.trim())
    }

    /// Returns the absolute URLs of the page's links.
    pub fn links(&self, base: &str) -> Vec<String> {
        if !self
            .field("Content-Type")
            .is_some_and(|t| t.contains("html"))
        {
            return Vec::new();
        }
        let Some((host, _)) = parts(base) else {
            return Vec::new();
        };
        let page = String::from_utf8_lossy(&self.body);
        let quoted = page.split("href=\"").chain(page.split("src=\""));
        let targets = quoted
            .skip(1)
            .filter_map(|rest| Some(rest.split_once('"')?.0));
        targets
            .filter_map(|target| match target {
                absolute if absolute.starts_with("http://") => Some(absolute.to_owned()),
                path if path.starts_with('/') => Some(format!("http://{host}{path}")),
                _ => None,
            })
            .collect()
    }
}

/// Returns host and path of a URL.
pub fn parts(url: &str) -> Option<(&str, &str)> {
    let rest = url.strip_prefix("http://")?;
    let slash = rest.find('/')?;
    Some(rest.split_at(slash))
}

/// Fetches a URL from the server at this address.
pub fn get(server: SocketAddr, url: &str) -> io::Result<HttpResponse> {
    let invalid = |why: &str| io::Error::new(io::ErrorKind::InvalidData, format!("{url}: {why}"));
    let (host, path) = parts(url).ok_or_else(|| invalid("not a URL"))?;
    let mut connection = TcpStream::connect_timeout(&server, TIMEOUT)?;
    connection.set_read_timeout(Some(TIMEOUT))?;
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: crawlspace-demo\r\nConnection: close\r\n\r\n"
    );
    connection.write_all(request.as_bytes())?;
    let mut head = Vec::new();
    connection.read_to_end(&mut head)?;
    let end = head.windows(4).position(|four| four == b"\r\n\r\n");
    let body = head.split_off(end.ok_or_else(|| invalid("the header has no end"))? + 4);
    let status = head
        .split(|&b| b == b' ')
        .nth(1)
        .and_then(|status| std::str::from_utf8(status).ok()?.parse().ok());
    Ok(HttpResponse {
        status: status.ok_or_else(|| invalid("no status"))?,
        head,
        body,
    })
}
