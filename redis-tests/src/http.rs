//! A plain HTTP/1.1 client that sends requests and returns responses byte for byte, without
//! redirects, decompression or retries.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A response.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// Status.
    pub status: u16,
    /// Header fields in order, their names in lower case.
    pub fields: Vec<(String, String)>,
    /// Body, without the transfer coding.
    pub body: Vec<u8>,
    /// Trailer fields of a chunked body.
    pub trailers: Vec<(String, String)>,
}

impl Answer {
    /// Returns the first header field of this name.
    pub fn field(&self, name: &str) -> Option<&str> {
        value_of(&self.fields, name)
    }

    /// Returns a trailer field.
    pub fn trailer(&self, name: &str) -> Option<&str> {
        value_of(&self.trailers, name)
    }

    /// Returns `Content-Type` without its parameters.
    pub fn media_type(&self) -> &str {
        let whole = self.field("content-type").unwrap_or_default();
        whole.split(';').next().unwrap_or_default().trim()
    }

    /// Returns the body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

fn value_of<'a>(fields: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let found = fields
        .iter()
        .find(|(one, _)| one.eq_ignore_ascii_case(name));
    found.map(|(_, value)| &value[..])
}

/// A connection that stays open for more requests.
pub struct Connection {
    address: SocketAddr,
    stream: BufReader<TcpStream>,
}

impl Connection {
    /// Connects. Reads time out after one minute.
    ///
    /// # Errors
    /// Fails if the connection fails.
    pub fn open(address: SocketAddr) -> io::Result<Connection> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        Ok(Connection {
            address,
            stream: BufReader::with_capacity(64 << 10, stream),
        })
    }

    /// Sends a request and reads the whole response. Adds `Host`, and `Content-Length` if there is
    /// a body.
    ///
    /// # Errors
    /// Fails if the connection breaks or the response is not HTTP.
    pub fn ask(
        &mut self,
        method: &str,
        target: &str,
        fields: &[(&str, &str)],
        body: &[u8],
    ) -> io::Result<Answer> {
        self.send(method, target, fields, body)?;
        self.answer(method == "HEAD")
    }

    /// Reads the whole response. The response to `HEAD` has no body.
    ///
    /// # Errors
    /// Fails if the connection breaks or the response is not HTTP.
    pub fn answer(&mut self, without_body: bool) -> io::Result<Answer> {
        let (mut answer, how) = self.head(without_body)?;
        match how {
            Framing::None => {}
            Framing::Length(length) => {
                answer.body = vec![0; length];
                self.stream.read_exact(&mut answer.body)?;
            }
            Framing::Chunks => self.chunks(&mut answer)?,
            Framing::Close => _ = self.stream.read_to_end(&mut answer.body)?,
        }
        Ok(answer)
    }

    /// Sends a request without reading the response.
    ///
    /// # Errors
    /// Fails if the connection breaks.
    pub fn send(
        &mut self,
        method: &str,
        target: &str,
        fields: &[(&str, &str)],
        body: &[u8],
    ) -> io::Result<()> {
        let mut request = format!("{method} {target} HTTP/1.1\r\nHost: {}\r\n", self.address);
        for (name, value) in fields {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        if !body.is_empty() {
            request.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        request.push_str("\r\n");
        let mut bytes = request.into_bytes();
        bytes.extend_from_slice(body);
        self.stream.get_mut().write_all(&bytes)
    }

    /// Waits for the first byte of the response.
    ///
    /// # Errors
    /// Fails if the connection breaks.
    pub fn first_byte(&mut self) -> io::Result<()> {
        if self.stream.fill_buf()?.is_empty() {
            Err(io::ErrorKind::UnexpectedEof.into())
        } else {
            Ok(())
        }
    }

    fn head(&mut self, without_body: bool) -> io::Result<(Answer, Framing)> {
        let line = self.line()?;
        let status = line.split(' ').nth(1).and_then(|word| word.parse().ok());
        let Some(status) = status.filter(|_| line.starts_with("HTTP/1.")) else {
            return Err(wrong(format!("not a status line: {line:?}")));
        };
        let answer = Answer {
            status,
            fields: self.fields()?,
            ..Answer::default()
        };
        let chunked = answer
            .field("transfer-encoding")
            .is_some_and(|value| value.ends_with("chunked"));
        let length = answer.field("content-length").map(str::parse);
        let how = match length {
            _ if without_body || matches!(status, 204 | 304) => Framing::None,
            _ if chunked => Framing::Chunks,
            Some(Ok(length)) => Framing::Length(length),
            Some(Err(_)) => return Err(wrong("a strange Content-Length".into())),
            None => Framing::Close,
        };
        Ok((answer, how))
    }

    fn chunks(&mut self, answer: &mut Answer) -> io::Result<()> {
        loop {
            let line = self.line()?;
            let digits = line.split(';').next().unwrap_or_default().trim();
            let size = usize::from_str_radix(digits, 16)
                .map_err(|_| wrong(format!("not a chunk size: {line:?}")))?;
            if size == 0 {
                answer.trailers = self.fields()?;
                return Ok(());
            }
            let from = answer.body.len();
            answer.body.resize(from + size, 0);
            self.stream.read_exact(&mut answer.body[from..])?;
            if !self.line()?.is_empty() {
                return Err(wrong("a chunk is longer than its size".into()));
            }
        }
    }

    fn fields(&mut self) -> io::Result<Vec<(String, String)>> {
        let mut fields = Vec::new();
        loop {
            let line = self.line()?;
            if line.is_empty() {
                return Ok(fields);
            }
            let (name, value) = line
                .split_once(':')
                .ok_or_else(|| wrong(format!("not a header field: {line:?}")))?;
            fields.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = Vec::new();
        self.stream.read_until(b'\n', &mut line)?;
        match line.strip_suffix(b"\r\n") {
            Some(line) => Ok(String::from_utf8_lossy(line).into_owned()),
            None => Err(wrong(format!(
                "the connection ended within a line: {:?}",
                String::from_utf8_lossy(&line)
            ))),
        }
    }
}

/// The marker for the end of a body.
enum Framing {
    None,
    Length(usize),
    Chunks,
    Close,
}

fn wrong(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// Sends one request over a new connection.
///
/// # Errors
/// Fails if the connection breaks or the response is not HTTP.
pub fn ask(
    address: SocketAddr,
    method: &str,
    target: &str,
    fields: &[(&str, &str)],
    body: &[u8],
) -> io::Result<Answer> {
    let mut all = fields.to_vec();
    all.push(("Connection", "close"));
    Connection::open(address)?.ask(method, target, &all, body)
}

/// Sends one GET request over a new connection.
///
/// # Panics
/// Panics if there is no response.
pub fn get(address: SocketAddr, target: &str) -> Answer {
    ask(address, "GET", target, &[], b"").unwrap_or_else(|why| panic!("{address}{target}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn answered(bytes: &'static [u8]) -> io::Result<Answer> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let address = listener.local_addr()?;
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let mut request = [0; 1024];
            let _ = stream.read(&mut request);
            stream.write_all(bytes).expect("the client reads");
        });
        let answer = ask(address, "GET", "/x", &[], b"");
        server.join().expect("the server ends");
        answer
    }

    #[test]
    fn bodies_of_every_framing_are_read() -> io::Result<()> {
        let answer = answered(
            b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Type: a/b; c=d\r\n\r\nabcXX",
        )?;
        assert_eq!(
            (answer.status, answer.media_type(), &answer.text()[..]),
            (200, "a/b", "abc")
        );
        let answer = answered(b"HTTP/1.1 404 No\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x\r\nde\r\n0\r\nA: b\r\n\r\n")?;
        assert_eq!(
            (answer.status, &answer.text()[..], answer.trailer("a")),
            (404, "abcde", Some("b"))
        );
        assert_eq!(answered(b"HTTP/1.0 200 OK\r\n\r\nabc")?.text(), "abc");
        assert_eq!(
            answered(b"HTTP/1.1 304 Same\r\nContent-Length: 9\r\n\r\n")?.text(),
            ""
        );
        for broken in [
            &b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab"[..],
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
            b"HTTP/1.1 200 OK\r\nA",
            b"",
        ] {
            assert!(answered(broken).is_err(), "{}", broken.escape_ascii());
        }
        Ok(())
    }
}
