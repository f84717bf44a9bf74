use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crawlspace_cdx::MAX_LINE;
use crawlspace_fetch::blocking::{self, Response};
use crawlspace_fetch::source::Limits;
use crawlspace_fetch::{Error, Guard, Net, Request};

/// Limits of packages, and timeouts and retries of servers.
///
/// ```
/// use crawlspace_wacz::Options;
/// let options = Options { retries: 10, ..Options::default() };
/// assert_eq!(options.line, 1 << 20);
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    /// Maximum length of a line of an index, in bytes: 1 MiB.
    pub line: usize,
    /// How many times its size in the package the text of an index may have: 200. The first 16 MiB of text are free.
    pub ratio: u64,
    /// The text of one index, in bytes: 100 GiB.
    pub text: u64,
    /// The directory of the zip file, in bytes: 4 MiB, which is some 40 000 WARC files.
    pub directory: u64,
    /// `datapackage.json` and `datapackage-digest.json`, in bytes: 4 MiB.
    pub datapackage: u64,
    /// A manifest, in bytes: 64 MiB.
    pub manifest: u64,
    /// What may be downloaded of one package to a file without a name, in bytes: 100 GiB.
    pub download: u64,
    /// The folder of such files; `None` for the one that the system has for them (`TMPDIR`).
    pub folder: Option<PathBuf>,
    /// How long a server may leave a connection without a byte: 30 s.
    pub silence: Duration,
    /// The least that a server must send, in bytes per second over each minute: 1024.
    pub pace: u64,
    /// Maximum number of retries in a row, after a connection that broke or one of
    /// [`RETRIED_STATUSES`](crawlspace_fetch::RETRIED_STATUSES): 5. What came before is kept, and each MiB received sets the
    /// count to zero.
    pub retries: u32,
    /// The longest pause before the first of them, which doubles with each: 200 ms. Each pause is shortened by up to a
    /// half, at random.
    pub pause: Duration,
    /// Which addresses servers may have, also after redirects. With `None`, any address may be connected to; with a
    /// guard, proxies of the environment are not used.
    pub guard: Option<Guard>,
    /// A way to other servers that is used in place of the one for `guard`, which has no effect then. Packages are read
    /// on threads of its runtime that may wait.
    pub net: Option<Arc<Net>>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            line: MAX_LINE,
            ratio: 200,
            text: 100 << 30,
            directory: 4 << 20,
            datapackage: 4 << 20,
            manifest: 64 << 20,
            download: 100 << 30,
            folder: None,
            silence: Duration::from_secs(30),
            pace: 1024,
            retries: 5,
            pause: Duration::from_millis(200),
            guard: None,
            net: None,
        }
    }
}

impl Options {
    /// Sends a request within these limits, once; the one on time is [`silence`](Options::silence), until the head of
    /// the answer is there and then for each read of its body.
    ///
    /// # Errors
    /// As [`blocking::send`].
    pub fn send(&self, request: Request) -> Result<Response, Error> {
        let limits = Limits {
            connect: self.silence,
            first: self.silence,
            silence: self.silence,
            bytes: u64::MAX,
            ..Limits::default()
        };
        match &self.net {
            Some(net) => blocking::send_over(net, request, &limits, self.pace),
            None => blocking::send(request, self.guard.as_ref(), &limits, self.pace),
        }
    }

    /// For what was written here.
    pub(super) fn unlimited() -> Options {
        Options {
            directory: u64::MAX,
            datapackage: u64::MAX,
            ..Options::default()
        }
    }
}
