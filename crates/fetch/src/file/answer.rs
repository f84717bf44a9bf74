//! Responses to requests for a file or a part of it, and checks of their consistency.

use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use http::header::{
    ACCEPT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, HeaderName, HeaderValue, RANGE, RETRY_AFTER,
};
use url::Url;

use super::Policy;
use crate::blocking::paced;
use crate::range::{self, Part, Validators};
use crate::{BodyStream, Error, Net, Request};

/// A usable response: a file, or a part of it.
pub(super) struct Answer {
    /// The URL of the file, after redirects.
    pub(super) url: Url,
    pub(super) validators: Validators,
    /// The size of the file in bytes, if the server states it.
    pub(super) total: Option<u64>,
    /// The server sends the whole file, whether or not it was asked for a part.
    pub(super) is_whole: bool,
    /// Offset of the first byte of the body in the file.
    pub(super) from: u64,
    /// Offset of the end of the body, if the server states it.
    pub(super) end: Option<u64>,
    pub(super) body: BodyStream,
}

impl Answer {
    /// Requests a file, or a range of its bytes (`bytes=0-3`).
    ///
    /// # Errors
    /// [`Error::Status`] for statuses that mean failure, [`Error::Answer`] for an inconsistent response, and the errors
    /// of [`Net::send`].
    pub(super) async fn ask(
        net: &Net,
        url: Url,
        range: Option<&str>,
        policy: &Policy,
    ) -> Result<Answer, Error> {
        let mut request = Request::get(url);
        // Ranges of compressed data would be useless, and the sizes would not be the sizes of the file.
        let identity = HeaderValue::from_static("identity");
        request.headers.insert(ACCEPT_ENCODING, identity);
        if let Some(range) = range {
            let range = HeaderValue::try_from(range);
            let range = range.map_err(|error| Error::Request(error.to_string()))?;
            request.headers.insert(RANGE, range);
        }
        let response = net.send(request, &policy.limits).await?;
        let text = |name: HeaderName| range::field(&response.headers, name);
        if matches!(response.status, 200 | 206)
            && let Some(coding) = range::foreign_coding(&response.headers, &response.url)
        {
            return Err(Error::Answer(format!(
                "it sends the file compressed ({coding}), although the request excluded that"
            )));
        }
        let length: Option<u64> = text(CONTENT_LENGTH).and_then(|length| length.parse().ok());
        let mut answer = Answer {
            url: response.url,
            validators: Validators::of(&response.headers),
            total: length,
            is_whole: true,
            from: 0,
            end: length,
            body: paced(response.body, policy.pace),
        };
        match response.status {
            200 => {}
            206 => {
                let part = part(text(CONTENT_RANGE), length).map_err(Error::Answer)?;
                answer.total = part.total;
                answer.is_whole = false;
                answer.from = part.from;
                answer.end = Some(part.last + 1);
            }
            // An empty file has no satisfiable range.
            416 if range::total(&response.headers) == Some(0) => {
                (answer.total, answer.end) = (Some(0), Some(0));
                answer.body = stream::empty().boxed();
            }
            status => {
                let wait = text(RETRY_AFTER).and_then(|seconds| seconds.parse().ok());
                let wait = wait.map(Duration::from_secs);
                return Err(Error::Status { status, wait });
            }
        }
        Ok(answer)
    }
}

/// Returns the part that a response with the status 206 contains, or the reason why its header is invalid.
fn part(range: Option<String>, length: Option<u64>) -> Result<Part, String> {
    let range = range.ok_or("partial response (206) without a Content-Range header")?;
    let wrong = || format!("its Content-Range is {range:?}");
    let part = Part::parse(&range).ok_or_else(wrong)?;
    match length {
        Some(length) if length != part.last - part.from + 1 => {
            Err(format!("{}, but its Content-Length is {length}", wrong()))
        }
        _ => Ok(part),
    }
}
