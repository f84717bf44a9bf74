//! Requests, and the connections that they share.

use std::fmt;
use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqwest::blocking::{Client, Response};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{ACCEPT_ENCODING, RANGE};
use reqwest::redirect::Policy;
use url::Url;

use super::answer::Answer;
use super::retry::Pace;
use crate::net::{Guard, MAX_REDIRECTS};
use crate::tls;
use crate::wacz::{Options, Problem};

/// A client for each timeout and guard; it keeps the connections of all packages.
static CLIENTS: Mutex<Vec<(Settings, Client)>> = Mutex::new(Vec::new());

/// What clients differ in.
type Settings = (Duration, Option<Guard>);

/// Asks for a file, or for the bytes from one to another one, both included.
pub(super) fn send(
    url: &Url,
    range: Option<(u64, u64)>,
    options: &Options,
) -> Result<Answer, Problem> {
    if let Some(guard) = &options.guard {
        guard.check(url).map_err(Problem::Forbidden)?;
    }
    let mut request = client((options.silence, options.guard.clone()))?.get(url.clone());
    // Ranges of compressed text would be of no use, and sizes would not be those of the file.
    request = request.header(ACCEPT_ENCODING, "identity");
    if let Some((from, last)) = range {
        request = request.header(RANGE, format!("bytes={from}-{last}"));
    }
    let response = request.send().map_err(|error| refused(&error))?;
    Answer::read(response, options)
}

/// A client for the web, which may connect to any address. `silence` is the timeout of an answer and of each read.
///
/// # Errors
/// When TLS cannot be set up.
pub fn web_client(silence: Duration) -> Result<Client, Problem> {
    client((silence, None))
}

fn client(settings: Settings) -> Result<Client, Problem> {
    let mut clients = CLIENTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, client)) = clients.iter().find(|(of, _)| *of == settings) {
        return Ok(client.clone());
    }
    let (silence, guard) = &settings;
    let tls = tls::for_web().map_err(Problem::Connection)?;
    let client = Client::builder()
        .user_agent(concat!("crawlspace/", env!("CARGO_PKG_VERSION")))
        .referer(false)
        // Of the way to the answer, and then of each read of its body.
        .timeout(*silence)
        .tls_backend_preconfigured(tls);
    let client = match guard {
        None => client.redirect(Policy::limited(MAX_REDIRECTS)),
        Some(guard) => client
            .redirect(guarded_redirects(guard.clone()))
            .dns_resolver(Arc::new(Resolver(guard.clone())))
            // A proxy would resolve names itself.
            .no_proxy(),
    };
    let client = client.build().map_err(|error| refused(&error))?;
    clients.push((settings, client.clone()));
    Ok(client)
}

/// Follows redirects, but not to addresses that a guard forbids. Names are the resolver's part.
fn guarded_redirects(guard: Guard) -> Policy {
    let limited = Policy::limited(MAX_REDIRECTS);
    Policy::custom(move |attempt| match guard.check(attempt.url()) {
        Ok(()) => limited.redirect(attempt),
        Err(why) => attempt.error(Forbidden(why)),
    })
}

/// Resolves names to those of their addresses that a guard permits. Connections go to these very addresses.
struct Resolver(Guard);

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let guard = self.0.clone();
        Box::pin(async move {
            let resolved = tokio::task::spawn_blocking(move || -> io::Result<Addrs> {
                let found = (name.as_str(), 0).to_socket_addrs()?;
                let found: Vec<IpAddr> = found.map(|address| address.ip()).collect();
                let permitted = guard.permitted(name.as_str(), &found);
                let permitted = permitted.map_err(|why| io::Error::other(Forbidden(why)))?;
                let with_port = |address| SocketAddr::new(address, 0);
                Ok(Box::new(permitted.into_iter().map(with_port)))
            });
            Ok(resolved.await??)
        })
    }
}

/// Why a guard forbids an address, on its way through errors of the client.
#[derive(Debug)]
struct Forbidden(String);

impl fmt::Display for Forbidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Forbidden {}

/// The body of an answer. Its errors are problems.
pub struct Body {
    response: Response,
    pace: Pace,
}

impl Body {
    /// The body of an answer, which must keep the pace of the options.
    pub fn new(response: Response, options: &Options) -> Body {
        Body {
            response,
            pace: Pace::new(options.pace),
        }
    }
}

impl Read for Body {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self.response.read(into) {
            Ok(n) => {
                self.pace.count(n)?;
                Ok(n)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(error),
            Err(error) => {
                let how = match error
                    .get_ref()
                    .and_then(|inner| inner.downcast_ref::<reqwest::Error>())
                {
                    Some(inner) if inner.is_timeout() => "the server stopped sending".to_owned(),
                    Some(inner) => format!("the connection broke off: {}", innermost(inner)),
                    None => format!("the connection broke off: {error}"),
                };
                Err(Problem::Connection(how).into())
            }
        }
    }
}

/// Why there is no answer.
pub fn refused(error: &reqwest::Error) -> Problem {
    if let Some(Forbidden(why)) = cause(error) {
        return Problem::Forbidden(why.clone());
    }
    if error.is_redirect() {
        return Problem::Answer(format!(
            "it redirects in a cycle, or more than {MAX_REDIRECTS} times"
        ));
    }
    if error.is_builder() {
        let why = format!(
            "it redirects to a URL that cannot be fetched ({})",
            innermost(error)
        );
        return Problem::Answer(why);
    }
    if error.is_timeout() {
        return Problem::Connection("the server does not answer".to_owned());
    }
    if let Some(rustls::Error::InvalidCertificate(reason)) = cause(error) {
        let why = format!("its certificate is not valid here ({reason})");
        return Problem::Untrusted(why);
    }
    let how = if error.is_connect() {
        "no connection to the server"
    } else {
        "no answer from the server"
    };
    Problem::Connection(format!("{how}: {}", innermost(error)))
}

/// The first error of a type among an error and what it comes from.
fn cause<E: std::error::Error + 'static>(error: &reqwest::Error) -> Option<&E> {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        // An error of reading may be another one in disguise, which it does not name as its source.
        cause = match error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref)
        {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    None
}

/// The error at the bottom, which says what happened and does not repeat the URL.
fn innermost(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    let Some(first) = cause.source() else {
        return "unknown".to_owned();
    };
    cause = first;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}
