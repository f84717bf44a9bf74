//! Requests, and the connections that they share.

use std::io::{self, Read};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use reqwest::blocking::{Client, Response};
use reqwest::header::{ACCEPT_ENCODING, RANGE};
use reqwest::redirect::Policy;
use url::Url;

use super::answer::Answer;
use super::patience::Pace;
use crate::tls;
use crate::wacz::{Options, Problem};

const REDIRECTS: usize = 10;

/// A client for each length of silence that is borne; it keeps the connections of all packages.
static CLIENTS: Mutex<Vec<(Duration, Client)>> = Mutex::new(Vec::new());

/// Asks for a file, or for the bytes from one to another one, both included.
pub(super) fn send(
    url: &Url,
    range: Option<(u64, u64)>,
    options: &Options,
) -> Result<Answer, Problem> {
    let mut request = web_client(options.silence)?.get(url.clone());
    // Ranges of compressed text would be of no use, and sizes would not be those of the file.
    request = request.header(ACCEPT_ENCODING, "identity");
    if let Some((from, last)) = range {
        request = request.header(RANGE, format!("bytes={from}-{last}"));
    }
    let response = request.send().map_err(|error| refused(&error))?;
    Answer::read(response, options)
}

/// A client for the web that bears so long a silence.
pub(crate) fn web_client(silence: Duration) -> Result<Client, Problem> {
    let mut clients = CLIENTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, client)) = clients.iter().find(|(of, _)| *of == silence) {
        return Ok(client.clone());
    }
    let tls = tls::for_web().map_err(Problem::Connection)?;
    let client = Client::builder()
        .user_agent(concat!("crawlspace/", env!("CARGO_PKG_VERSION")))
        .redirect(Policy::limited(REDIRECTS))
        .referer(false)
        // Of the way to the answer, and then of each read of its body.
        .timeout(silence)
        .tls_backend_preconfigured(tls)
        .build()
        .map_err(|error| refused(&error))?;
    clients.push((silence, client.clone()));
    Ok(client)
}

/// The body of an answer. Its errors are problems.
pub(crate) struct Body {
    response: Response,
    pace: Pace,
}

impl Body {
    pub(crate) fn new(response: Response, options: &Options) -> Body {
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
pub(crate) fn refused(error: &reqwest::Error) -> Problem {
    if error.is_redirect() {
        return Problem::Answer(format!(
            "it sends on to other places, in a circle or more than {REDIRECTS} times"
        ));
    }
    if error.is_builder() {
        let why = format!(
            "it sends on to where nothing can be fetched from ({})",
            innermost(error)
        );
        return Problem::Answer(why);
    }
    if error.is_timeout() {
        return Problem::Connection("the server does not answer".to_owned());
    }
    if let Some(why) = distrust(error) {
        return Problem::Untrusted(why);
    }
    let how = if error.is_connect() {
        "no connection to the server"
    } else {
        "no answer from the server"
    };
    Problem::Connection(format!("{how}: {}", innermost(error)))
}

/// What is wrong with the server's certificate, if that is it.
fn distrust(error: &reqwest::Error) -> Option<String> {
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = cause {
        if let Some(rustls::Error::InvalidCertificate(reason)) = error.downcast_ref() {
            return Some(format!("its certificate is not valid here ({reason})"));
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
