use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crawlspace_cdx::MAX_LINE;
use crawlspace_fetch::blocking::{Client, Response};
use crawlspace_fetch::file::Policy;
use crawlspace_fetch::source::Limits;
use crawlspace_fetch::{Error, Guard, Net, Request};

/// Maximum pause before a retry, even if `Retry-After` asks for a longer one.
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// Limits of packages, and timeouts and retries of requests to servers.
///
/// ```
/// use crawlspace_wacz::Options;
/// let options = Options { retries: 10, ..Options::default() };
/// assert_eq!(options.line, 1 << 20);
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    /// Maximum length of a line of an index, in bytes. Default: 1 MiB.
    pub line: usize,
    /// Maximum ratio of the decompressed size of an index to its size in the package. The first 16 MiB of decompressed
    /// text are exempt. Default: 200.
    pub ratio: u64,
    /// Maximum decompressed size of one index, in bytes. Default: 100 GiB.
    pub text: u64,
    /// Maximum size of the directory of the zip file, in bytes. Default: 4 MiB, which fits about 40 000 WARC files.
    pub directory: u64,
    /// Maximum size of `datapackage.json` and of `datapackage-digest.json`, in bytes. Default: 4 MiB.
    pub datapackage: u64,
    /// Maximum size of a manifest, in bytes. Default: 64 MiB.
    pub manifest: u64,
    /// Maximum number of bytes of one package that are downloaded to an unnamed file. Default: 100
    /// GiB.
    pub download: u64,
    /// Folder for downloads; `None` for the system's temporary folder (`TMPDIR`).
    pub folder: Option<PathBuf>,
    /// Maximum time without receiving a byte. Default: 30 s.
    pub silence: Duration,
    /// Minimum transfer rate in bytes per second, averaged over each minute. Default: 1024.
    pub pace: u64,
    /// Maximum number of consecutive retries after a broken connection or one of
    /// [`RETRIED_STATUSES`](crawlspace_fetch::RETRIED_STATUSES). Data received so far is kept, and each MiB received
    /// resets the count. Default: 5.
    pub retries: u32,
    /// Maximum pause before the first retry; this maximum doubles with each retry. The actual pause is a random time
    /// between half of the maximum and the maximum. Default: 200 ms.
    pub pause: Duration,
    /// Restricts the addresses of servers, including redirect targets. If `None`, any address is allowed. With a
    /// guard, proxies set in environment variables are ignored.
    pub guard: Option<Guard>,
    /// Network to use for requests instead of the network restricted by `guard`. If this network is set,
    /// `guard` has no effect. Packages must be read on threads of the network's runtime that may block.
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
    /// Sends a request once, within these limits. [`silence`](Options::silence) limits the time until the head of the
    /// response arrives, and then the time of each read of its body.
    ///
    /// # Errors
    /// Fails like [`Client::send`].
    pub fn send(&self, request: Request) -> Result<Response, Error> {
        let policy = self.policy();
        self.client()?.send(request, &policy.limits, policy.pace)
    }

    /// Returns the client for requests to servers.
    pub(super) fn client(&self) -> Result<Client, Error> {
        match &self.net {
            Some(net) => Ok(Client::over(net)),
            None => Client::new(self.guard.as_ref()),
        }
    }

    /// Returns the limits and retries of requests to servers.
    pub(super) fn policy(&self) -> Policy {
        Policy {
            limits: Limits {
                connect: self.silence,
                first: self.silence,
                silence: self.silence,
                bytes: u64::MAX,
                ..Limits::default()
            },
            pace: self.pace,
            retries: self.retries,
            pause: self.pause,
            max_pause: MAX_PAUSE,
            retries_timeouts: true,
        }
    }

    /// Returns options for packages that this process has written.
    pub(super) fn unlimited() -> Options {
        Options {
            directory: u64::MAX,
            datapackage: u64::MAX,
            ..Options::default()
        }
    }
}
