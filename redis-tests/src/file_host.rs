//! A web server for files, which can imitate the defects of the servers from which packages are
//! downloaded.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::scripted_host::{Asked, ScriptedHost};

/// A server for files on a free loopback port. Dropping this value stops the server.
pub struct FileHost {
    host: ScriptedHost,
    shared: Arc<Mutex<Shared>>,
}

/// The behavior of a file's responses. By default, they are correct and support ranges.
#[derive(Clone, Debug)]
pub struct Manners {
    /// True to answer range requests with 206; false to always send the whole file with 200.
    pub ranges: bool,
    /// An error status, and the number of first requests that get it.
    pub failing: Option<(u16, u32)>,
    /// Number of bytes after which the server closes the connection, and the number of first
    /// responses for which it does so.
    pub cut: Option<(u64, u32)>,
    /// Number of bytes of a response after which the server sends no more data and keeps the
    /// connection open.
    pub silent_after: Option<u64>,
    /// Number added to `Content-Length`.
    pub length_lie: i64,
    /// Number added to the first and the last byte position in `Content-Range`.
    pub range_lie: i64,
    /// Number added to the total size in `Content-Range`.
    pub total_lie: i64,
    /// True to send `*` as the total size in `Content-Range`.
    pub unknown_total: bool,
    /// True to omit `Content-Range`.
    pub no_content_range: bool,
    /// True to omit `Content-Length` and send chunks.
    pub chunked: bool,
    /// True to omit both `Content-Length` and chunks. The response ends when the connection closes.
    pub until_closed: bool,
    /// Maximum number of bytes in the response to a range request.
    pub shorter_ranges: Option<u64>,
    /// True to send the file again and again without end.
    pub endless: bool,
    /// `Content-Type`.
    pub content_type: Option<String>,
    /// `ETag`.
    pub etag: Option<String>,
    /// `Last-Modified`.
    pub last_modified: Option<String>,
    /// `Content-Encoding`. The bytes of the file are sent unchanged.
    pub encoding: Option<String>,
    /// Redirects with 302 to this URL.
    pub redirect: Option<String>,
    /// Behavior that replaces this one from the `n`-th request of the file on.
    pub later: Option<(u32, Box<Manners>)>,
}

impl Default for Manners {
    fn default() -> Manners {
        Manners {
            ranges: true,
            failing: None,
            cut: None,
            silent_after: None,
            length_lie: 0,
            range_lie: 0,
            total_lie: 0,
            unknown_total: false,
            no_content_range: false,
            chunked: false,
            until_closed: false,
            shorter_ranges: None,
            endless: false,
            content_type: None,
            etag: None,
            last_modified: None,
            encoding: None,
            redirect: None,
            later: None,
        }
    }
}

/// A request and its response.
#[derive(Clone, Debug)]
pub struct Request {
    /// Method, such as `GET`.
    pub method: String,
    /// Path and query as received.
    pub path: String,
    /// Header fields, their names in lower case.
    pub fields: HashMap<String, String>,
    /// Status of the response.
    pub status: u16,
    /// Bytes of the file that were sent: offset and length.
    pub sent: (u64, u64),
}

#[derive(Default)]
struct Shared {
    files: HashMap<String, File>,
    requests: Vec<Request>,
}

/// The content of a file.
#[derive(Clone)]
enum Content {
    Bytes(Arc<Vec<u8>>),
    /// A file on disk. Requested ranges are read when they are sent.
    Disk(Arc<fs::File>, u64),
}

struct File {
    content: Content,
    manners: Manners,
    asked: u32,
    cuts: u32,
}

impl FileHost {
    /// Starts a server without files.
    pub fn start() -> FileHost {
        FileHost::behind(|asked| Ok(asked.target.clone()))
    }

    /// Starts a server that passes each request to `gate` first. `gate` returns the path to serve,
    /// or the status and text of a refusal.
    pub fn behind(
        gate: impl Fn(&Asked) -> Result<String, (u16, String)> + Send + Sync + 'static,
    ) -> FileHost {
        let shared = Arc::new(Mutex::new(Shared::default()));
        let files = Arc::clone(&shared);
        let host = ScriptedHost::handling(move |asked, connection| {
            Ok(serve(asked, gate(asked), connection, &files))
        });
        FileHost { host, shared }
    }

    /// Stores a file at a path (`/a.wacz`) with a behavior, and resets its request count.
    pub fn put(&self, path: &str, bytes: &[u8], manners: Manners) {
        let file = File {
            content: Content::Bytes(Arc::new(bytes.to_vec())),
            manners,
            asked: 0,
            cuts: 0,
        };
        lock(&self.shared).files.insert(path.to_owned(), file);
    }

    /// Serves a file on disk at a path. The file may have any size.
    ///
    /// # Panics
    /// Panics if the file cannot be read.
    pub fn put_file(&self, path: &str, file: &Path, manners: Manners) {
        let open = fs::File::open(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let size = open.metadata().expect("an open file has a size").len();
        let file = File {
            content: Content::Disk(Arc::new(open), size),
            manners,
            asked: 0,
            cuts: 0,
        };
        lock(&self.shared).files.insert(path.to_owned(), file);
    }

    /// Removes a file.
    pub fn remove(&self, path: &str) {
        lock(&self.shared).files.remove(path);
    }

    /// Returns the URL of a path.
    pub fn url(&self, path: &str) -> String {
        self.host.url(path)
    }

    /// Returns all requests so far.
    pub fn requests(&self) -> Vec<Request> {
        lock(&self.shared).requests.clone()
    }

    /// Returns the requests since the last call.
    pub fn take_requests(&self) -> Vec<Request> {
        std::mem::take(&mut lock(&self.shared).requests)
    }

    /// Returns the number of file bytes sent so far, excluding error responses.
    pub fn sent(&self) -> u64 {
        lock(&self.shared)
            .requests
            .iter()
            .map(|request| request.sent.1)
            .sum()
    }

    /// Returns true if any of the `length` bytes of a file from offset `from` on was ever sent.
    pub fn has_sent(&self, path: &str, from: u64, length: u64) -> bool {
        lock(&self.shared).requests.iter().any(|request| {
            let (start, sent) = request.sent;
            request.path == path && start < from + length && from < start + sent
        })
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Answers a request. Returns true if the connection can take another request.
fn serve(
    asked: &Asked,
    path: Result<String, (u16, String)>,
    connection: &TcpStream,
    shared: &Mutex<Shared>,
) -> bool {
    let answer = match path {
        Ok(path) => Answer::to(asked, &path, shared),
        Err((status, why)) => Answer::refused(status, why),
    };
    // Count the request before sending the response, so that the client always finds it counted.
    let number = {
        let mut shared = lock(shared);
        shared.requests.push(Request {
            method: asked.method.clone(),
            path: asked.target.clone(),
            fields: asked.fields.clone(),
            status: answer.status,
            sent: (answer.from, answer.sent()),
        });
        shared.requests.len() - 1
    };
    answer.send(connection).unwrap_or_else(|Endless(sent)| {
        // The length of an endless response is known only when the client closes it.
        if let Some(request) = lock(shared).requests.get_mut(number) {
            request.sent.1 = sent;
        }
        false
    })
}

struct Answer {
    status: u16,
    fields: Vec<(&'static str, String)>,
    content: Content,
    from: u64,
    length: u64,
    cut: Option<u64>,
    manners: Manners,
}

/// Number of bytes of an endless response that were sent before the client closed the connection.
struct Endless(u64);

impl Answer {
    fn to(asked: &Asked, path: &str, shared: &Mutex<Shared>) -> Answer {
        let mut shared = lock(shared);
        let Some(file) = shared.files.get_mut(path) else {
            return Answer::empty(404);
        };
        file.asked += 1;
        let mut manners = file.manners.clone();
        while let Some((from, later)) = manners.later.take() {
            if file.asked < from {
                break;
            }
            manners = *later;
        }
        match manners.failing {
            Some((status, times)) if file.asked <= times => return Answer::empty(status),
            _ => {}
        }
        if let Some(elsewhere) = &manners.redirect {
            let mut answer = Answer::empty(302);
            answer.fields.push(("Location", elsewhere.clone()));
            return answer;
        }
        let total = file.content.size();
        let mut fields = Vec::new();
        for (name, value) in [
            ("Content-Type", &manners.content_type),
            ("Content-Encoding", &manners.encoding),
            ("ETag", &manners.etag),
            ("Last-Modified", &manners.last_modified),
        ] {
            fields.extend(value.clone().map(|value| (name, value)));
        }
        let range = asked.fields.get("range").filter(|_| manners.ranges);
        let (status, from, mut length) = match range.map(|range| parse_range(range, total)) {
            None => (200, 0, total),
            Some(None) => {
                let mut answer = Answer::empty(416);
                answer
                    .fields
                    .push(("Content-Range", format!("bytes */{total}")));
                return answer;
            }
            Some(Some((from, length))) => (206, from, length),
        };
        if status == 206 {
            length = length.min(manners.shorter_ranges.unwrap_or(u64::MAX));
            let lied = |number: u64| number.wrapping_add_signed(manners.range_lie);
            let total = if manners.unknown_total {
                "*".to_owned()
            } else {
                total.wrapping_add_signed(manners.total_lie).to_string()
            };
            let range = format!("bytes {}-{}/{total}", lied(from), lied(from + length - 1));
            if !manners.no_content_range {
                fields.push(("Content-Range", range));
            }
        }
        if manners.chunked {
            fields.push(("Transfer-Encoding", "chunked".to_owned()));
        } else if !manners.endless && !manners.until_closed {
            let lied = length.wrapping_add_signed(manners.length_lie);
            fields.push(("Content-Length", lied.to_string()));
        }
        let cut = match manners.cut {
            Some((after, times)) if file.cuts < times && after < length => {
                file.cuts += 1;
                Some(after)
            }
            _ => None,
        };
        Answer {
            status,
            fields,
            content: file.content.clone(),
            from,
            length,
            cut,
            manners,
        }
    }

    fn empty(status: u16) -> Answer {
        Answer {
            status,
            fields: vec![("Content-Length", "0".to_owned())],
            content: Content::Bytes(Arc::default()),
            from: 0,
            length: 0,
            cut: None,
            manners: Manners::default(),
        }
    }

    fn refused(status: u16, why: String) -> Answer {
        Answer {
            fields: vec![("Content-Length", why.len().to_string())],
            length: why.len() as u64,
            content: Content::Bytes(Arc::new(why.into_bytes())),
            ..Answer::empty(status)
        }
    }

    /// Returns the number of bytes that will be sent.
    fn sent(&self) -> u64 {
        let most = [self.cut, self.manners.silent_after];
        most.into_iter().flatten().fold(self.length, u64::min)
    }

    /// Sends the response. Returns true if the connection can take another request.
    fn send(&self, mut out: &TcpStream) -> Result<bool, Endless> {
        let head = self
            .fields
            .iter()
            .map(|(name, value)| format!("{name}: {value}\r\n"));
        let head: String = head.collect();
        let mut gone = |bytes: &[u8]| out.write_all(bytes).map_err(|_| Endless(self.length));
        gone(format!("HTTP/1.1 {} X\r\n{head}\r\n", self.status).as_bytes())?;
        let body = &self.content.part(self.from, self.sent())[..];
        if self.manners.endless {
            let mut sent = 0;
            loop {
                out.write_all(body).map_err(|_| Endless(sent))?;
                sent += body.len() as u64;
            }
        }
        if self.manners.chunked {
            for chunk in body.chunks(1000) {
                gone(format!("{:x}\r\n", chunk.len()).as_bytes())?;
                gone(chunk)?;
                gone(b"\r\n")?;
            }
        } else {
            gone(body)?;
        }
        if self.cut.is_some() {
            return Ok(false);
        }
        if self
            .manners
            .silent_after
            .is_some_and(|after| after < self.length)
        {
            // Wait until the client closes the connection or the host is dropped.
            let _ = out.peek(&mut [0]);
            return Ok(false);
        }
        if self.manners.chunked {
            gone(b"0\r\n\r\n")?;
        }
        Ok(!self.manners.until_closed && self.manners.length_lie == 0)
    }
}

impl Content {
    fn size(&self) -> u64 {
        match self {
            Content::Bytes(bytes) => bytes.len() as u64,
            Content::Disk(_, size) => *size,
        }
    }

    fn part(&self, from: u64, length: u64) -> Cow<'_, [u8]> {
        match self {
            Content::Bytes(bytes) => Cow::Borrowed(&bytes[from as usize..][..length as usize]),
            Content::Disk(file, _) => {
                let mut part = vec![0; length as usize];
                file.read_exact_at(&mut part, from)
                    .expect("the file is as long as it was");
                Cow::Owned(part)
            }
        }
    }
}

/// Parses a `Range` field for a file of `total` bytes. Returns offset and length, or `None` if the
/// range is invalid or cannot be satisfied.
pub fn parse_range(range: &str, total: u64) -> Option<(u64, u64)> {
    let (from, to) = range.strip_prefix("bytes=")?.split_once('-')?;
    let from = match from.parse::<u64>() {
        Ok(from) => from,
        Err(_) => {
            let last = to.parse::<u64>().ok()?.min(total);
            return (last > 0).then_some((total - last, last));
        }
    };
    let to = to.parse().unwrap_or(u64::MAX).min(total.checked_sub(1)?);
    (from <= to).then(|| (from, to - from + 1))
}
