//! The load generator. The generator encodes requests in advance and does little work to count
//! replies, so that the results measure the server and not the generator.

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use redis_tests::Server;

use crate::machine::cpu_seconds;

/// A part of a reply.
#[derive(Debug)]
pub enum Item<'a> {
    /// A bulk string.
    Bulk(&'a [u8]),
    /// An integer.
    Int(i64),
    /// Null.
    Nil,
    /// The header of an array, a simple string, or any other part.
    Other,
}

/// A connection that reads replies part by part, without copying them.
pub struct Connection {
    socket: File,
    buffer: Vec<u8>,
    from: usize,
    to: usize,
    /// Number of parts of the current reply that have not arrived yet.
    open: usize,
}

impl Connection {
    /// Connects over the unix socket.
    pub fn unix(server: &Server) -> Connection {
        Connection::over(unix(server))
    }

    /// Connects over the unix socket in non-blocking mode, for [`Connection::read_some`] and
    /// [`Connection::send_some`].
    pub fn nonblocking(server: &Server) -> Connection {
        let stream = unix(server);
        let set = stream.set_nonblocking(true);
        set.expect("a socket can be non-blocking");
        Connection::over(stream)
    }

    /// Connects over loopback TCP, like a crawler on another machine.
    pub fn tcp(server: &Server) -> Connection {
        let stream = TcpStream::connect(("127.0.0.1", server.port())).expect("the server accepts");
        stream.set_nodelay(true).expect("a TCP socket has nodelay");
        Connection::over(stream)
    }

    fn over(socket: impl Into<OwnedFd>) -> Connection {
        Connection {
            socket: File::from(socket.into()),
            buffer: vec![0; 256 << 10],
            from: 0,
            to: 0,
            open: 0,
        }
    }

    /// Sends encoded requests.
    pub fn send(&mut self, bytes: &[u8]) {
        let sent = self.socket.write_all(bytes);
        sent.expect("the server takes requests");
    }

    /// Reads `replies` complete replies and passes their parts to `see`.
    ///
    /// # Panics
    /// Panics if a reply is an error, because errors must not be measured.
    pub fn read(&mut self, mut replies: usize, mut see: impl FnMut(Item)) {
        while replies > 0 {
            replies -= self.consume(replies, &mut see);
            if replies > 0 {
                self.fill();
            }
        }
    }

    /// Reads available data without waiting, on a non-blocking socket. Returns the number of
    /// complete replies.
    pub fn read_some(&mut self, mut see: impl FnMut(Item)) -> usize {
        let mut replies = 0;
        while self.try_fill() > 0 {
            replies += self.consume(usize::MAX, &mut see);
        }
        replies
    }

    /// Sends as much as the socket accepts without waiting. Returns the number of bytes.
    pub fn send_some(&mut self, bytes: &[u8]) -> usize {
        would_block_is_0(self.socket.write(bytes))
    }

    /// Returns the file descriptor of the socket.
    pub fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// Consumes up to `most` replies from the buffer.
    fn consume(&mut self, most: usize, see: &mut impl FnMut(Item)) -> usize {
        let mut replies = 0;
        while replies < most {
            let Some((item, len, more)) = item(&self.buffer[self.from..self.to]) else {
                break;
            };
            self.open = self.open.max(1) - 1 + more;
            see(item);
            self.from += len;
            replies += usize::from(self.open == 0);
        }
        replies
    }

    fn fill(&mut self) {
        let got = self.receive().expect("the server replies");
        assert!(got > 0, "the server closed the connection");
    }

    fn try_fill(&mut self) -> usize {
        let got = self.receive();
        assert!(!matches!(got, Ok(0)), "the server closed the connection");
        would_block_is_0(got)
    }

    fn receive(&mut self) -> std::io::Result<usize> {
        if self.from > 0 {
            // Move the data only when necessary, because a reply of 100 MB arrives in many parts.
            self.buffer.copy_within(self.from..self.to, 0);
            self.to -= self.from;
            self.from = 0;
        }
        if self.to == self.buffer.len() {
            self.buffer.resize(2 * self.to, 0);
        }
        let got = self.socket.read(&mut self.buffer[self.to..])?;
        self.to += got;
        Ok(got)
    }
}

fn unix(server: &Server) -> UnixStream {
    UnixStream::connect(server.unix_path()).expect("the server accepts")
}

fn would_block_is_0(outcome: std::io::Result<usize>) -> usize {
    match outcome {
        Ok(n) => n,
        Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => 0,
        Err(e) => panic!("the connection broke: {e}"),
    }
}

/// Parses the first part in `bytes` if it is complete: the item, its length, and the number of
/// parts that follow it.
fn item(bytes: &[u8]) -> Option<(Item<'_>, usize, usize)> {
    let kind = *bytes.first()?;
    let mut number = 0i64;
    let mut end = 1;
    while *bytes.get(end)? != b'\r' {
        number = number.wrapping_mul(10) + i64::from(bytes[end].wrapping_sub(b'0'));
        end += 1;
    }
    let line = end + 2;
    if bytes.len() < line {
        return None;
    }
    let negative = bytes[1] == b'-';
    match kind {
        b'$' | b'*' if negative => Some((Item::Nil, line, 0)),
        b'$' => {
            let whole = line + number as usize + 2;
            let body = bytes.get(line..whole)?;
            Some((Item::Bulk(&body[..number as usize]), whole, 0))
        }
        b'*' => Some((Item::Other, line, number as usize)),
        b':' if negative => Some((Item::Int(i64::MIN), line, 0)),
        b':' => Some((Item::Int(number), line, 0)),
        b'+' => Some((Item::Other, line, 0)),
        _ => panic!("the server returned: {}", bytes[..end].escape_ascii()),
    }
}

/// Appends one request to `out`.
pub fn encode(out: &mut Vec<u8>, words: &[&[u8]]) {
    let head = |kind: u8, n: usize, out: &mut Vec<u8>| {
        out.push(kind);
        let _ = write!(out, "{n}\r\n");
    };
    head(b'*', words.len(), out);
    for word in words {
        head(b'$', word.len(), out);
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

/// Appends a request, given as arguments separated by spaces. `''` is an empty argument.
pub fn line(out: &mut Vec<u8>, line: &str) {
    encode(out, &words(line).map(str::as_bytes).collect::<Vec<_>>());
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    let empty = |word| if word == "''" { "" } else { word };
    line.split(' ').map(empty)
}

/// A client that waits for the reply to each command.
pub struct Client {
    connection: Connection,
    request: Vec<u8>,
    /// Number of round trips so far.
    pub trips: u64,
}

/// The parts of a reply.
#[derive(Default)]
pub struct Pieces {
    /// Strings of the reply.
    pub texts: Vec<String>,
    /// Integers of the reply.
    pub ints: Vec<i64>,
}

impl Client {
    /// Creates a client over this connection.
    pub fn over(connection: Connection) -> Client {
        Client {
            connection,
            request: Vec::new(),
            trips: 0,
        }
    }

    /// Connects over the unix socket.
    pub fn unix(server: &Server) -> Client {
        Client::over(Connection::unix(server))
    }

    /// Runs a command, given as arguments separated by spaces. `''` is an empty argument.
    pub fn line(&mut self, line: &str) -> Pieces {
        self.ask(words(line))
    }

    /// Sends a command without reading its reply, which [`Client::read`] returns.
    pub fn send(&mut self, words: &str) {
        self.request.clear();
        line(&mut self.request, words);
        self.connection.send(&self.request);
    }

    /// Runs a command with these arguments.
    pub fn ask<'a>(&mut self, words: impl IntoIterator<Item = &'a str>) -> Pieces {
        let words: Vec<&[u8]> = words.into_iter().map(str::as_bytes).collect();
        self.request.clear();
        encode(&mut self.request, &words);
        self.connection.send(&self.request);
        self.trips += 1;
        self.read()
    }

    /// Sends encoded requests without waiting for replies in between, and passes each reply to
    /// `see`.
    pub fn pipeline(&mut self, requests: &[u8], replies: usize, mut see: impl FnMut(Pieces)) {
        self.connection.send(requests);
        (0..replies).for_each(|_| see(self.read()));
    }

    /// Reads the next reply.
    pub fn read(&mut self) -> Pieces {
        let mut pieces = Pieces::default();
        self.connection.read(1, |item| match item {
            Item::Bulk(bytes) => pieces
                .texts
                .push(String::from_utf8_lossy(bytes).into_owned()),
            Item::Int(n) => pieces.ints.push(n),
            _ => (),
        });
        pieces
    }
}

/// Sends requests in blocks of about 32 kB and reads their replies.
pub struct Feeder {
    connection: Connection,
    out: Vec<u8>,
    waiting: usize,
}

impl Feeder {
    /// Connects to this server over its unix socket.
    pub fn new(server: &Server) -> Feeder {
        Feeder {
            connection: Connection::unix(server),
            out: Vec::new(),
            waiting: 0,
        }
    }

    /// Adds a request.
    pub fn request(&mut self, words: &[&[u8]]) {
        encode(&mut self.out, words);
        self.sent();
    }

    /// Adds a request, given as arguments separated by spaces.
    pub fn line(&mut self, words: &str) {
        line(&mut self.out, words);
        self.sent();
    }

    /// Adds a request that consists of the space-separated arguments in `head` and of `more`.
    pub fn request_with(&mut self, head: &str, more: &[impl AsRef<str>]) {
        let more = more.iter().map(AsRef::as_ref);
        let words: Vec<&[u8]> = words(head).chain(more).map(str::as_bytes).collect();
        self.request(&words);
    }

    fn sent(&mut self) {
        self.waiting += 1;
        if self.out.len() > 32 << 10 {
            self.finish();
        }
    }

    /// Sends the remaining requests and waits for all replies.
    pub fn finish(&mut self) {
        self.connection.send(&self.out);
        self.connection.read(self.waiting, |_| ());
        self.out.clear();
        self.waiting = 0;
    }
}

/// Requests that are encoded in advance, in batches. A batch is sent as a whole.
#[derive(Default)]
pub struct Batches {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    /// Number of requests per batch.
    pub depth: usize,
    /// Weight of each request: 1, or its number of hashes.
    pub weight: usize,
}

impl Batches {
    /// Creates `count` batches of `depth` requests. `request` writes each request.
    pub fn new(count: usize, depth: usize, mut request: impl FnMut(&mut Vec<u8>)) -> Batches {
        let mut batches = Batches {
            depth,
            weight: 1,
            ..Batches::default()
        };
        for _ in 0..count {
            for _ in 0..depth {
                request(&mut batches.bytes);
            }
            batches.ends.push(batches.bytes.len());
        }
        batches
    }

    /// Counts each request as `weight` requests.
    pub fn weighing(mut self, weight: usize) -> Batches {
        self.weight = weight;
        self
    }

    /// Returns the number of batches.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns a batch. Numbers beyond the last batch start again at the first.
    pub fn batch(&self, number: usize) -> &[u8] {
        let i = number % self.ends.len();
        let from = if i == 0 { 0 } else { self.ends[i - 1] };
        &self.bytes[from..self.ends[i]]
    }
}

/// The results of a run that kept the server busy.
#[derive(Clone, Copy, Debug)]
pub struct Throughput {
    /// Requests per second, multiplied by their weight.
    pub rate: f64,
    /// Processor use of the server, as a fraction of one core.
    pub busy: f64,
    /// Number of null replies.
    pub nils: u64,
}

/// Number of connections that keep the server busy: while the generator reads one batch, the server
/// processes other batches.
const CONNECTIONS: usize = 8;

/// Sends batches over several connections for `span`. Each connection has one batch in progress.
pub fn saturate(server: &Server, batches: &Batches, span: Duration, first: usize) -> Throughput {
    let connect = |_| Connection::unix(server);
    let mut connections: Vec<Connection> = (0..CONNECTIONS).map(connect).collect();
    let mut next = first;
    let mut nils = 0;
    let mut requests = 0;
    let watch = Watch::start(server);
    for connection in &mut connections {
        connection.send(batches.batch(next));
        next += 1;
    }
    let mut under_way = connections.len();
    while under_way > 0 {
        for connection in &mut connections[..] {
            if under_way == 0 {
                break;
            }
            connection.read(batches.depth, |item| {
                nils += u64::from(matches!(item, Item::Nil));
            });
            requests += batches.depth;
            if watch.elapsed() < span && under_way == CONNECTIONS {
                connection.send(batches.batch(next));
                next += 1;
            } else {
                under_way -= 1;
            }
        }
    }
    watch.stop(requests * batches.weight, nils)
}

/// A stopwatch that also measures the CPU time of the server.
pub struct Watch {
    pid: u32,
    cpu: f64,
    start: Instant,
}

impl Watch {
    /// Starts the stopwatch.
    pub fn start(server: &Server) -> Watch {
        Watch {
            pid: server.pid(),
            cpu: cpu_seconds(server.pid()),
            start: Instant::now(),
        }
    }

    /// Returns the time since the start.
    pub fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// Stops the stopwatch after this number of requests with replies.
    pub fn stop(self, requests: usize, nils: u64) -> Throughput {
        let elapsed = self.elapsed().as_secs_f64();
        Throughput {
            rate: requests as f64 / elapsed,
            busy: (cpu_seconds(self.pid) - self.cpu) / elapsed,
            nils,
        }
    }
}

/// Returns the total size of the server's append-only files in bytes.
pub fn appended(server: &Server) -> u64 {
    let folder = std::fs::read_dir(server.dir().join("appendonlydir"));
    let files = folder.into_iter().flatten().flatten();
    files
        .filter_map(|file| Some(file.metadata().ok()?.len()))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use redis_tests::Options;

    #[test]
    fn pieces_are_taken_only_when_they_are_whole() {
        let reply = b"*3\r\n$3\r\nabc\r\n:-12\r\n$-1\r\n";
        assert!(matches!(item(reply), Some((Item::Other, 4, 3))));
        let first = item(&reply[4..]);
        assert!(matches!(first, Some((Item::Bulk(b"abc"), 9, 0))));
        assert!(matches!(item(b"$-1\r\n"), Some((Item::Nil, 5, 0))));
        assert!(matches!(item(b":42\r\n"), Some((Item::Int(42), 5, 0))));
        for cut in 0..9 {
            let piece = item(&reply[4..4 + cut]);
            assert!(piece.is_none(), "{cut} bytes are not a complete part");
        }
    }

    #[test]
    fn every_request_of_a_saturating_run_is_counted() {
        let server = Options::new().no_module().start();
        redis_tests::ok!(server.wire(), "HSET", "h", "f", "v");
        let mut n = 0;
        let batches = Batches::new(10, 4, |out| {
            n += 1;
            line(out, ["HGET h f", "HGET h unknown"][n % 2]);
        });
        let run = saturate(&server, &batches, Duration::from_millis(50), 3);
        let asked = server.info("cmdstat_hget").unwrap_or_default();
        let calls = asked.strip_prefix("calls=");
        let calls = calls.and_then(|s| s.split(',').next()?.parse().ok());
        let calls: u64 = calls.expect("HGET was called");
        assert_eq!(run.nils * 2, calls, "{asked}");
        assert!(run.rate > 0.0);
    }
}
