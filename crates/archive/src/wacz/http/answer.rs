//! What a server answers, and whether that can be true.

use std::time::Duration;

use http::header::{
    ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, ETAG, HeaderName,
    HeaderValue, LAST_MODIFIED, RANGE, RETRY_AFTER,
};
use url::Url;

use crate::net::Request;
use crate::net::blocking::{Body, Response};
use crate::wacz::{Options, Problem};

/// An answer that is of use.
pub(super) enum Answer {
    /// A part of the file.
    Part {
        part: Part,
        validators: Validators,
        body: Body,
    },
    /// The file; how long it is, if the server says so, and which URL it has where it was sent on to.
    Whole {
        url: Url,
        body: Body,
        validators: Validators,
        length: Option<u64>,
    },
    /// The file has no such part; the size that it has.
    NoSuchPart { total: Option<u64> },
}

/// Which part of a file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) from: u64,
    /// The last byte of it.
    pub(super) last: u64,
    pub(super) total: Option<u64>,
}

/// Header fields that tell one version of a file from another (RFC 9110, section 8.8).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Validators {
    tag: Option<String>,
    modified: Option<String>,
}

impl Answer {
    /// Asks for a file, or for the bytes from one to another one, both included.
    pub(super) fn ask(
        url: &Url,
        range: Option<(u64, u64)>,
        options: &Options,
    ) -> Result<Answer, Problem> {
        let mut request = Request::get(url.clone());
        // Ranges of compressed text would be of no use, and sizes would not be those of the file.
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
        let text = |name: HeaderName| -> Option<String> {
            let value = response.headers.get(name)?;
            Some(String::from_utf8_lossy(value.as_bytes()).trim().to_owned())
        };
        let answer = |why: String| Err(Problem::Answer(why));
        let status = response.status;
        let validators = Validators {
            tag: text(ETAG),
            modified: text(LAST_MODIFIED),
        };
        let range = text(CONTENT_RANGE);
        if matches!(status, 200 | 206) {
            let is_packed = response.url.path().ends_with(".gz");
            let is_own = |coding: &str| match coding.to_ascii_lowercase().as_str() {
                "identity" => true,
                // Some servers say it of files that are compressed themselves (`AddEncoding` of Apache).
                "gzip" | "x-gzip" => is_packed,
                _ => false,
            };
            if let Some(coding) = text(CONTENT_ENCODING).filter(|coding| !is_own(coding)) {
                return answer(format!(
                    "it sends the file compressed ({coding}), though it was asked not to"
                ));
            }
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
                total: range.and_then(|range| range.strip_prefix("bytes */")?.parse().ok()),
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

impl Part {
    /// Reads `bytes 0-3/1234`, where the total may be `*`.
    fn parse(range: &str) -> Option<Part> {
        let (unit, range) = range.split_once(' ')?;
        let (range, total) = range.split_once('/')?;
        let (from, last) = range.split_once('-')?;
        let (from, last) = (number(from)?, number(last)?);
        let total = match total {
            "*" => None,
            total => Some(number(total)?),
        };
        let is_sound = unit.eq_ignore_ascii_case("bytes")
            && from <= last
            && total.is_none_or(|total| last < total);
        is_sound.then_some(Part { from, last, total })
    }
}

fn number(digits: &str) -> Option<u64> {
    digits
        .bytes()
        .all(|b| b.is_ascii_digit())
        .then(|| digits.parse().ok())?
}

impl Validators {
    /// How this one differs from the first. What only one of them says is no difference.
    pub(super) fn difference(&self, first: &Validators) -> Option<String> {
        let differs = |name: &str, a: &Option<String>, b: &Option<String>| match (a, b) {
            (Some(now), Some(before)) if now != before => {
                Some(format!("its {name} was {before}, and is {now}"))
            }
            _ => None,
        };
        differs("ETag", &self.tag, &first.tag)
            .or_else(|| differs("Last-Modified", &self.modified, &first.modified))
    }
}

#[cfg(test)]
mod tests {
    use super::Part;

    #[test]
    fn a_content_range_is_what_the_standard_says_or_nothing() {
        let part = |from, last, total| Some(Part { from, last, total });
        assert_eq!(Part::parse("bytes 0-3/10"), part(0, 3, Some(10)));
        assert_eq!(Part::parse("bytes 9-9/10"), part(9, 9, Some(10)));
        assert_eq!(Part::parse("bytes 7-8/*"), part(7, 8, None));
        for wrong in [
            "",
            "bytes",
            "bytes */10",
            "0-3/10",
            "bytes 3-2/10",
            "bytes 0-10/10",
            "bytes 0-3",
            "bytes -3/10",
            "bytes 0-/10",
            "bytes +0-3/10",
            "lines 0-3/10",
            "bytes 0-3/x",
            "bytes 0-99999999999999999999/*",
        ] {
            assert_eq!(Part::parse(wrong), None, "{wrong}");
        }
    }
}
