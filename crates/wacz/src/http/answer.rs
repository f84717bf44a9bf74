//! Responses of a server, and checks of their consistency.

use std::time::Duration;

use http::header::{
    ACCEPT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, HeaderName, HeaderValue, RANGE, RETRY_AFTER,
};
use url::Url;

use crate::{Options, Problem};
use crawlspace_fetch::Request;
use crawlspace_fetch::blocking::{Body, Response};
use crawlspace_fetch::range::{self, Part, Validators};

/// A usable response.
pub(super) enum Answer {
    /// A part of the file.
    Part {
        part: Part,
        validators: Validators,
        body: Body,
    },
    /// The whole file, with its length if the server states it, and its URL after redirects.
    Whole {
        url: Url,
        body: Body,
        validators: Validators,
        length: Option<u64>,
    },
    /// The file has no such part; the size of the file, if stated.
    NoSuchPart { total: Option<u64> },
}

impl Answer {
    /// Requests a file, or a range of its bytes, with both ends included.
    pub(super) fn ask(
        url: &Url,
        range: Option<(u64, u64)>,
        options: &Options,
    ) -> Result<Answer, Problem> {
        let mut request = Request::get(url.clone());
        // Ranges of compressed data would be useless, and sizes would not be those of the file.
        let identity = HeaderValue::from_static("identity");
        request.headers.insert(ACCEPT_ENCODING, identity);
        if let Some((from, last)) = range {
            let range = HeaderValue::try_from(format!("bytes={from}-{last}"));
            let range = range.map_err(|error| Problem::Refused(error.to_string()))?;
            request.headers.insert(RANGE, range);
        }
        Answer::of(options.send(request)?)
    }

    fn of(response: Response) -> Result<Answer, Problem> {
        let text = |name: HeaderName| range::field(&response.headers, name);
        let answer = |why: String| Err(Problem::Answer(why));
        let status = response.status;
        let validators = Validators::of(&response.headers);
        let range = text(CONTENT_RANGE);
        if matches!(status, 200 | 206)
            && let Some(coding) = range::foreign_coding(&response.headers, &response.url)
        {
            return answer(format!(
                "it sends the file compressed ({coding}), although the request excluded that"
            ));
        }
        let length = text(CONTENT_LENGTH).and_then(|length| length.parse().ok());
        match status {
            200 => Ok(Answer::Whole {
                url: response.url,
                body: response.body,
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
                    body: response.body,
                })
            }
            416 => Ok(Answer::NoSuchPart {
                total: range::total(&response.headers),
            }),
            _ => Err(Problem::Status {
                status,
                wait: text(RETRY_AFTER)
                    .and_then(|seconds| seconds.parse().ok())
                    .map(Duration::from_secs),
            }),
        }
    }
}
