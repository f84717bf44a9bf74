//! A connection that returns every reply exactly as received, and macros for commands.

use std::fmt;
use std::io::{BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use crate::words::words;

/// Adds `call`, `ok`, `err` and `send` to a connection type that can parse a line into arguments
/// (`words`).
macro_rules! runs_lines {
    () => {
        /// Runs a line and returns the reply, which may be an error.
        pub fn call(&mut self, line: impl AsRef<str>) -> Reply {
            let words = self.words(line.as_ref());
            self.wire.call(&words)
        }

        /// Runs a line that must succeed.
        #[track_caller]
        pub fn ok(&mut self, line: impl AsRef<str>) -> Reply {
            let words = self.words(line.as_ref());
            self.wire.expect_ok(&words)
        }

        /// Runs a line that must fail, and returns its error line.
        #[track_caller]
        pub fn err(&mut self, line: impl AsRef<str>) -> String {
            let words = self.words(line.as_ref());
            self.wire.expect_error(&words)
        }

        /// Runs a line that must fail. The error must begin with the first word and contain all
        /// other words. Returns the error line.
        #[track_caller]
        pub fn refused(&mut self, line: impl AsRef<str>, words: &str) -> String {
            let reply = self.call(line.as_ref());
            $crate::wire::assert_error(&reply, words, line.as_ref())
        }

        /// Sends a line without reading its reply.
        pub fn send(&mut self, line: impl AsRef<str>) {
            let words = self.words(line.as_ref());
            self.wire.send(&words);
        }
    };
}
pub(crate) use runs_lines;

/// Fails unless a reply is an error that begins with the first word and contains all other words.
/// Without words, accepts any error. Returns the error line.
#[track_caller]
pub fn assert_error(reply: &Reply, words: &str, what: &str) -> String {
    let Reply::Error(line) = reply else {
        panic!("{what}: expected {words}, got {reply:?}");
    };
    let line = String::from_utf8_lossy(line);
    let mut named = words.split_whitespace();
    let code = named.next().unwrap_or_default();
    let begins = code.is_empty() || line.split(' ').next() == Some(code);
    let told = begins && named.all(|word| line.contains(word));
    assert!(told, "{what}: expected {words}, got {line}");
    line.into_owned()
}

/// Time limit for a reply, so that a command that hangs fails the test.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// One argument of a command: text, bytes or a number.
pub trait Word {
    /// Returns the bytes of this argument.
    fn word(&self) -> Vec<u8>;
}

macro_rules! word_as_bytes {
    ($($t:ty),*) => {$(
        impl Word for $t {
            fn word(&self) -> Vec<u8> {
                let bytes: &[u8] = self.as_ref();
                bytes.to_vec()
            }
        }
    )*};
}
word_as_bytes!(str, String, [u8], Vec<u8>);

macro_rules! word_as_number {
    ($($t:ty),*) => {$(
        impl Word for $t {
            fn word(&self) -> Vec<u8> {
                self.to_string().into_bytes()
            }
        }
    )*};
}
word_as_number!(i32, i64, u8, u16, u32, u64, usize);

impl<const N: usize> Word for [u8; N] {
    fn word(&self) -> Vec<u8> {
        self.to_vec()
    }
}

impl<T: Word + ?Sized> Word for &T {
    fn word(&self) -> Vec<u8> {
        (**self).word()
    }
}

/// Runs one command on a [`Wire`] and returns the [`Reply`], which may be an error.
#[macro_export]
macro_rules! cmd {
    ($wire:expr, $($word:expr),+ $(,)?) => {
        $wire.call(&[$($crate::Word::word(&$word)),+])
    };
}

/// Runs one command that must succeed and returns its [`Reply`].
#[macro_export]
macro_rules! ok {
    ($wire:expr, $($word:expr),+ $(,)?) => {
        $wire.expect_ok(&[$($crate::Word::word(&$word)),+])
    };
}

/// Runs one command that must fail and returns its error line, which starts with the code word.
#[macro_export]
macro_rules! err {
    ($wire:expr, $($word:expr),+ $(,)?) => {
        $wire.expect_error(&[$($crate::Word::word(&$word)),+])
    };
}

/// A reply as received. All nulls of RESP2 and RESP3 are [`Reply::Nil`]. A RESP3 map stays a map.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reply {
    /// Null.
    Nil,
    /// A simple string (`+OK`).
    Simple(Vec<u8>),
    /// A bulk or verbatim string.
    Bulk(Vec<u8>),
    /// An error line without the leading `-`.
    Error(Vec<u8>),
    /// An integer.
    Int(i64),
    /// A RESP3 double, as text.
    Double(String),
    /// A RESP3 boolean.
    Bool(bool),
    /// An array.
    Array(Vec<Reply>),
    /// A RESP3 map, in the order of the reply.
    Map(Vec<(Reply, Reply)>),
    /// A RESP3 set.
    Set(Vec<Reply>),
    /// A RESP3 push message.
    Push(Vec<Reply>),
}

/// Creates a bulk string.
pub fn bulk(text: impl AsRef<[u8]>) -> Reply {
    Reply::Bulk(text.as_ref().to_vec())
}

/// Creates a simple string.
pub fn simple(text: &str) -> Reply {
    Reply::Simple(text.as_bytes().to_vec())
}

/// Creates an integer.
pub fn int(n: i64) -> Reply {
    Reply::Int(n)
}

/// Creates a null.
pub fn nil() -> Reply {
    Reply::Nil
}

/// Creates an array.
pub fn array<const N: usize>(items: [Reply; N]) -> Reply {
    Reply::Array(items.into())
}

impl Reply {
    /// Returns true for an error.
    pub fn is_error(&self) -> bool {
        matches!(self, Reply::Error(_))
    }

    /// Returns true for null.
    pub fn is_nil(&self) -> bool {
        *self == Reply::Nil
    }

    /// Returns the integer. Panics if the reply has another type.
    pub fn int(&self) -> i64 {
        match self {
            Reply::Int(n) => *n,
            other => panic!("expected an integer, got {other:?}"),
        }
    }

    /// Returns the bytes of a simple or bulk string. Panics if the reply has another type.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Reply::Bulk(bytes) | Reply::Simple(bytes) => bytes,
            other => panic!("expected a string, got {other:?}"),
        }
    }

    /// Returns a simple or bulk string as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(self.bytes()).into_owned()
    }

    /// Returns the items of an array, set or push message.
    pub fn items(&self) -> &[Reply] {
        match self {
            Reply::Array(items) | Reply::Set(items) | Reply::Push(items) => items,
            other => panic!("expected an array, got {other:?}"),
        }
    }

    /// Returns the items as integers.
    pub fn ints(&self) -> Vec<i64> {
        self.items().iter().map(Reply::int).collect()
    }

    /// Returns the items as text.
    pub fn texts(&self) -> Vec<String> {
        self.items().iter().map(Reply::text).collect()
    }

    /// Returns the pairs of a RESP3 map or a flat array.
    pub fn pairs(&self) -> Vec<(Reply, Reply)> {
        match self {
            Reply::Map(pairs) => pairs.clone(),
            Reply::Array(items) => {
                assert!(items.len() % 2 == 0, "an odd number of items: {self:?}");
                let pairs = items.chunks_exact(2);
                pairs.map(|p| (p[0].clone(), p[1].clone())).collect()
            }
            other => panic!("expected a map, got {other:?}"),
        }
    }

    /// Returns the value of `field` in a map (RESP3) or flat array (RESP2), if it exists.
    pub fn find(&self, field: impl AsRef<[u8]>) -> Option<Reply> {
        let found =
            |key: &Reply| matches!(key, Reply::Bulk(b) | Reply::Simple(b) if b == field.as_ref());
        let mut pairs = self.pairs().into_iter();
        pairs.find(|(key, _)| found(key)).map(|(_, value)| value)
    }

    /// Returns the value of `field` in a map or flat array. Panics if the field does not exist.
    pub fn field(&self, field: impl AsRef<[u8]>) -> Reply {
        let name = String::from_utf8_lossy(field.as_ref()).into_owned();
        self.find(field)
            .unwrap_or_else(|| panic!("no field {name} in {self:?}"))
    }

    /// Converts this reply to the form that a RESP2 client gets.
    pub fn as_resp2(&self) -> Reply {
        let list = |items: &[Reply]| items.iter().map(Reply::as_resp2).collect();
        match self {
            Reply::Map(pairs) => Reply::Array(
                pairs
                    .iter()
                    .flat_map(|(k, v)| [k.as_resp2(), v.as_resp2()])
                    .collect(),
            ),
            Reply::Array(items) | Reply::Set(items) | Reply::Push(items) => {
                Reply::Array(list(items))
            }
            Reply::Double(text) => bulk(text),
            Reply::Bool(b) => int(i64::from(*b)),
            other => other.clone(),
        }
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short = |bytes: &[u8]| {
            let shown = bytes[..bytes.len().min(300)].escape_ascii();
            match bytes.len() {
                0..=300 => format!("\"{shown}\""),
                n => format!("\"{shown}...\" ({n} bytes)"),
            }
        };
        match self {
            Reply::Nil => write!(f, "nil"),
            Reply::Simple(b) => write!(f, "+{}", b.escape_ascii()),
            Reply::Bulk(b) => write!(f, "{}", short(b)),
            Reply::Error(b) => write!(f, "error {}", short(b)),
            Reply::Int(n) => write!(f, "{n}"),
            Reply::Double(text) => write!(f, "double {text}"),
            Reply::Bool(b) => write!(f, "{b}"),
            Reply::Array(items) => f.debug_list().entries(items).finish(),
            Reply::Set(items) => f.debug_set().entries(items).finish(),
            Reply::Push(items) => {
                write!(f, "push ")?;
                f.debug_list().entries(items).finish()
            }
            Reply::Map(pairs) => f.debug_map().entries(pairs.iter().cloned()).finish(),
        }
    }
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    fn set_read_timeout(&self, patience: Duration) {
        let patience = Some(patience.max(Duration::from_micros(1)));
        match self {
            Stream::Tcp(s) => s.set_read_timeout(patience),
            Stream::Unix(s) => s.set_read_timeout(patience),
        }
        .expect("the socket takes a timeout");
    }

    fn set_nonblocking(&self, on: bool) {
        match self {
            Stream::Tcp(s) => s.set_nonblocking(on),
            Stream::Unix(s) => s.set_nonblocking(on),
        }
        .expect("the socket takes the flag");
    }
}

impl Read for Stream {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Stream::Tcp(s) => s.read(buf),
            Stream::Unix(s) => s.read(buf),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        match self {
            Stream::Tcp(s) => s.write(buf),
            Stream::Unix(s) => s.write(buf),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A plain connection to a server, which sends arguments and returns the [`Reply`].
pub struct Wire {
    stream: BufReader<Stream>,
    /// RESP3 push messages that arrived before an awaited reply.
    pushed: Vec<Reply>,
    /// Time limit of a reply.
    timeout: Duration,
}

impl Wire {
    /// Connects to a loopback port.
    ///
    /// # Errors
    /// Fails if no server listens at this address.
    pub fn tcp(port: u16) -> std::io::Result<Wire> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        Ok(Wire::over(Stream::Tcp(stream)))
    }

    /// Connects to a unix socket.
    ///
    /// # Errors
    /// Fails if no server listens at this address.
    pub fn unix(path: &Path) -> std::io::Result<Wire> {
        Ok(Wire::over(Stream::Unix(UnixStream::connect(path)?)))
    }

    fn over(stream: Stream) -> Wire {
        stream.set_read_timeout(TIMEOUT);
        Wire {
            stream: BufReader::with_capacity(64 << 10, stream),
            pushed: Vec::new(),
            timeout: TIMEOUT,
        }
    }

    /// Changes the time limit for replies.
    pub fn within(mut self, timeout: Duration) -> Wire {
        self.stream.get_ref().set_read_timeout(timeout);
        self.timeout = timeout;
        self
    }

    /// Returns an owned second handle of this connection. Neither handle may be waiting for a
    /// reply.
    ///
    /// # Panics
    /// Panics if the connection cannot be cloned.
    pub fn handle(&self) -> Wire {
        let stream = match self.stream.get_ref() {
            Stream::Tcp(s) => s.try_clone().map(Stream::Tcp),
            Stream::Unix(s) => s.try_clone().map(Stream::Unix),
        };
        Wire::over(stream.expect("a second handle")).within(self.timeout)
    }

    /// Switches to RESP3.
    pub fn resp3(mut self) -> Wire {
        self.expect_ok(&["HELLO", "3"]);
        self
    }

    /// Sends a command without reading its reply.
    pub fn send(&mut self, words: &[impl AsRef<[u8]>]) {
        self.try_send(words).expect("the server takes the command");
    }

    /// Sends a command without reading its reply.
    ///
    /// # Errors
    /// Fails if the connection is closed.
    pub fn try_send(&mut self, words: &[impl AsRef<[u8]>]) -> std::io::Result<()> {
        let mut out = Vec::new();
        encode(&mut out, words);
        self.stream.get_mut().write_all(&out)
    }

    /// Sends raw bytes, which may be a part of a command.
    pub fn send_bytes(&mut self, bytes: &[u8]) {
        let sent = self.stream.get_mut().write_all(bytes);
        sent.expect("the server takes the bytes");
    }

    /// Returns the next reply. Keeps push messages that arrive before the reply for
    /// [`Wire::pushes`].
    pub fn recv(&mut self) -> Reply {
        self.try_recv().expect("the server replies")
    }

    /// Returns the next reply.
    ///
    /// # Errors
    /// Fails if the connection is closed, or no reply arrives within the time limit.
    pub fn try_recv(&mut self) -> std::io::Result<Reply> {
        loop {
            match self.parse()? {
                push @ Reply::Push(_) => self.pushed.push(push),
                reply => return Ok(reply),
            }
        }
    }

    /// Returns true if no reply arrives within `patience`, which means that the command is blocked.
    pub fn is_silent_for(&mut self, patience: Duration) -> bool {
        if !self.stream.buffer().is_empty() {
            return false;
        }
        self.stream.get_ref().set_read_timeout(patience);
        let silent = matches!(
            std::io::BufRead::fill_buf(&mut self.stream),
            Err(e) if matches!(e.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut)
        );
        self.stream.get_ref().set_read_timeout(self.timeout);
        silent
    }

    /// Returns true if a reply has arrived or the connection has ended. Does not wait.
    pub fn has_reply(&mut self) -> bool {
        if !self.stream.buffer().is_empty() {
            return true;
        }
        self.stream.get_ref().set_nonblocking(true);
        let read = std::io::BufRead::fill_buf(&mut self.stream).map(<[u8]>::len);
        self.stream.get_ref().set_nonblocking(false);
        !matches!(read, Err(e) if e.kind() == std::io::ErrorKind::WouldBlock)
    }

    /// Sends a command and reads its reply.
    pub fn call(&mut self, words: &[impl AsRef<[u8]>]) -> Reply {
        self.send(words);
        self.try_recv()
            .unwrap_or_else(|e| panic!("no reply to {}: {e}", shown(words)))
    }

    /// Runs a command that must succeed.
    #[track_caller]
    pub fn expect_ok(&mut self, words: &[impl AsRef<[u8]>]) -> Reply {
        let reply = self.call(words);
        assert!(!reply.is_error(), "{} replied {reply:?}", shown(words));
        reply
    }

    /// Runs a command that must fail, and returns its error line.
    #[track_caller]
    pub fn expect_error(&mut self, words: &[impl AsRef<[u8]>]) -> String {
        match self.call(words) {
            Reply::Error(line) => String::from_utf8_lossy(&line).into_owned(),
            reply => panic!("{}: expected an error, got {reply:?}", shown(words)),
        }
    }

    /// Runs many commands in pipelines of a thousand and returns their replies.
    pub fn pipeline<W: AsRef<[u8]>>(
        &mut self,
        commands: impl IntoIterator<Item = Vec<W>>,
    ) -> Vec<Reply> {
        let mut replies = Vec::new();
        let mut commands = commands.into_iter().peekable();
        while commands.peek().is_some() {
            let mut out = Vec::new();
            let mut sent = 0;
            while sent < 1000 && out.len() < 32 << 10 {
                let Some(words) = commands.next() else { break };
                encode(&mut out, &words);
                sent += 1;
            }
            self.stream
                .get_mut()
                .write_all(&out)
                .expect("the server takes the pipeline");
            replies.extend((0..sent).map(|_| self.recv()));
        }
        replies
    }

    /// Parses a line like redis-cli, sends the command and returns the reply.
    ///
    /// # Panics
    /// Panics if the reply is an error.
    #[track_caller]
    pub fn ok_line(&mut self, line: impl AsRef<str>) -> Reply {
        self.expect_ok(&words(line.as_ref()))
    }

    /// Splits `line` at spaces and runs it. Use this for commands whose arguments contain neither
    /// spaces nor binary data.
    #[track_caller]
    pub fn line(&mut self, line: &str) -> Reply {
        let words: Vec<&str> = line.split(' ').collect();
        self.expect_ok(&words)
    }

    /// Returns the push messages received so far. Runs a `PING` first, so that all messages that
    /// the server has sent arrive.
    pub fn pushes(&mut self) -> Vec<Reply> {
        self.expect_ok(&["PING"]);
        std::mem::take(&mut self.pushed)
    }

    /// Returns the next push message (RESP3) or published message (RESP2).
    pub fn next_push(&mut self) -> Reply {
        if !self.pushed.is_empty() {
            return self.pushed.remove(0);
        }
        self.parse().expect("a message comes")
    }

    /// Closes the socket immediately, as if the client had crashed.
    pub fn hang_up(self) {
        let _ = match self.stream.get_ref() {
            Stream::Tcp(s) => s.shutdown(Shutdown::Both),
            Stream::Unix(s) => s.shutdown(Shutdown::Both),
        };
    }

    fn parse(&mut self) -> std::io::Result<Reply> {
        let line = self.read_line()?;
        let (kind, rest) = line.split_first().ok_or_else(|| odd("an empty line"))?;
        let text = || String::from_utf8_lossy(rest).into_owned();
        let number = || text().parse::<i64>().map_err(|_| odd(&text()));
        Ok(match kind {
            b'+' => Reply::Simple(rest.to_vec()),
            b'-' => Reply::Error(rest.to_vec()),
            b':' => Reply::Int(number()?),
            b'$' => match number()? {
                n if n < 0 => Reply::Nil,
                n => Reply::Bulk(self.read_bulk(n as usize)?),
            },
            b'=' => {
                let verbatim = self.read_bulk(number()? as usize)?;
                Reply::Bulk(verbatim[4..].to_vec())
            }
            b'!' => Reply::Error(self.read_bulk(number()? as usize)?),
            b'*' => match number()? {
                n if n < 0 => Reply::Nil,
                n => Reply::Array(self.parse_many(n)?),
            },
            b'~' => Reply::Set(self.parse_many(number()?)?),
            b'>' => Reply::Push(self.parse_many(number()?)?),
            b'%' => {
                let items = self.parse_many(number()? * 2)?;
                Reply::Map(Reply::Array(items).pairs())
            }
            b'_' => Reply::Nil,
            b'#' => Reply::Bool(rest == b"t"),
            b',' => Reply::Double(text()),
            b'(' => Reply::Bulk(rest.to_vec()),
            _ => return Err(odd(&String::from_utf8_lossy(&line))),
        })
    }

    fn parse_many(&mut self, n: i64) -> std::io::Result<Vec<Reply>> {
        (0..n).map(|_| self.parse()).collect()
    }

    fn read_line(&mut self) -> std::io::Result<Vec<u8>> {
        let mut line = Vec::new();
        std::io::BufRead::read_until(&mut self.stream, b'\n', &mut line)?;
        if !line.ends_with(b"\r\n") {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        line.truncate(line.len() - 2);
        Ok(line)
    }

    fn read_bulk(&mut self, len: usize) -> std::io::Result<Vec<u8>> {
        let mut bytes = vec![0; len + 2];
        self.stream.read_exact(&mut bytes)?;
        bytes.truncate(len);
        Ok(bytes)
    }
}

fn odd(what: &str) -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::InvalidData, format!("not RESP: {what}"))
}

fn encode(out: &mut Vec<u8>, words: &[impl AsRef<[u8]>]) {
    out.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        let word = word.as_ref();
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

fn shown(words: &[impl AsRef<[u8]>]) -> String {
    let shown = words.iter().take(20).map(|w| {
        let word = w.as_ref();
        let start = word[..word.len().min(100)].escape_ascii().to_string();
        if word.is_empty() {
            "''".to_owned()
        } else {
            start
        }
    });
    shown.collect::<Vec<_>>().join(" ")
}

/// Runs a command on a connection of the `redis` crate.
///
/// # Errors
/// Returns the errors of the server and of the connection.
pub fn run(
    conn: &mut redis::Connection,
    words: &[impl AsRef<[u8]>],
) -> redis::RedisResult<redis::Value> {
    let mut words = words.iter().map(AsRef::as_ref);
    let mut cmd = redis::Cmd::new();
    for word in words.by_ref() {
        cmd.arg(word);
    }
    cmd.query(conn)
}

/// Returns the error line as the server sent it: the code word and the message.
pub fn error_line(error: &redis::RedisError) -> String {
    [error.code(), error.detail()]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(" ")
}
