//! Responses to requests for a file or a part of it, and checks of their consistency.

use std::time::Duration;

use http::header::{
    ACCEPT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, HeaderMap, HeaderName, HeaderValue, RANGE,
    RETRY_AFTER,
};
use url::Url;

use super::range::{self, Part, Validators};
use super::{Error, Request};

/// A usable response with a body of type `B`.
pub enum Answer<B> {
    /// A part of the file.
    Part {
        /// The part that the body contains.
        part: Part,
        /// The validators of the file.
        validators: Validators,
        /// The body.
        body: B,
    },
    /// The whole file.
    Whole {
        /// The URL of the file, after redirects.
        url: Url,
        /// The body.
        body: B,
        /// The validators of the file.
        validators: Validators,
        /// The size of the file in bytes, if the server states it.
        length: Option<u64>,
    },
    /// The file has no such part.
    NoSuchPart {
        /// The size of the file in bytes, if the server states it.
        total: Option<u64>,
    },
}

/// Creates a request for a file, or for a range of its bytes (`bytes=0-3`).
///
/// # Errors
/// [`Error::Request`] if the range cannot be sent.
pub fn request(url: &Url, range: Option<&str>) -> Result<Request, Error> {
    let mut request = Request::get(url.clone());
    // Ranges of compressed data would be useless, and sizes would not be those of the file.
    let identity = HeaderValue::from_static("identity");
    request.headers.insert(ACCEPT_ENCODING, identity);
    if let Some(range) = range {
        let range = HeaderValue::try_from(range);
        let range = range.map_err(|error| Error::Request(error.to_string()))?;
        request.headers.insert(RANGE, range);
    }
    Ok(request)
}

impl<B> Answer<B> {
    /// Interprets a response: its status, header fields, URL after redirects, and body.
    ///
    /// # Errors
    /// [`Error::Status`] for other statuses than 200, 206 and 416, and [`Error::Answer`] for a response that
    /// contradicts itself.
    pub fn of(status: u16, headers: &HeaderMap, url: Url, body: B) -> Result<Answer<B>, Error> {
        let text = |name: HeaderName| range::field(headers, name);
        let answer = |why: String| Err(Error::Answer(why));
        let validators = Validators::of(headers);
        let range = text(CONTENT_RANGE);
        if matches!(status, 200 | 206)
            && let Some(coding) = range::foreign_coding(headers, &url)
        {
            return answer(format!(
                "it sends the file compressed ({coding}), although the request excluded that"
            ));
        }
        let length = text(CONTENT_LENGTH).and_then(|length| length.parse().ok());
        match status {
            200 => Ok(Answer::Whole {
                url,
                body,
                validators,
                length,
            }),
            206 => {
                let Some(range) = range else {
                    return answer(
                        "it sends a part of the file, and does not say which (Content-Range)"
                            .to_owned(),
                    );
                };
                let Some(part) = Part::parse(&range) else {
                    return answer(format!("its Content-Range is {range:?}"));
                };
                let announced = part.last - part.from + 1;
                if length.is_some_and(|length: u64| length != announced) {
                    return answer(format!(
                        "its Content-Range is {range:?}, which are not {} bytes",
                        length.unwrap_or(0)
                    ));
                }
                Ok(Answer::Part {
                    part,
                    validators,
                    body,
                })
            }
            416 => Ok(Answer::NoSuchPart {
                total: range::total(headers),
            }),
            _ => Err(Error::Status {
                status,
                wait: text(RETRY_AFTER)
                    .and_then(|seconds| seconds.parse().ok())
                    .map(Duration::from_secs),
            }),
        }
    }
}
