//! Records on web servers.

use std::sync::Arc;

use http::header::{ACCEPT_ENCODING, CONTENT_RANGE, HeaderValue, RANGE};
use url::Url;

use crate::resource::capture::Extent;
use crate::resource::input::Input;
use crate::resource::record::LoadError;
use crawlspace_fetch::{Net, Request};
use crawlspace_index::source::{Limits, SourceError};

/// Maximum number of bytes to skip before the record if a server ignores the range of a request.
const MAX_SKIPPED: u64 = 64 << 20;

/// Appends a file name to a URL prefix. Special characters in the name are escaped.
///
/// # Errors
/// Fails if the result is not a valid URL.
pub(super) fn below(prefix: &str, name: &str) -> Result<Url, LoadError> {
    let mut text = prefix.to_owned();
    let is_path = !prefix.contains('?');
    let slash = if is_path && !prefix.ends_with('/') {
        "/"
    } else {
        ""
    };
    text.push_str(slash);
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z'
            | b'A'..=b'Z'
            | b'0'..=b'9'
            | b'-'
            | b'.'
            | b'_'
            | b'~'
            | b'/'
            | b':'
            | b'@'
            | b','
            | b'=' => {
                text.push(char::from(byte));
            }
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    Url::parse(&text)
        .map_err(|error| LoadError::Missing(format!("invalid URL of the file: {error}")))
}

/// Requests the part of a file that contains a record.
///
/// # Errors
/// Fails if the server does not send it.
pub(super) async fn part(
    net: &Arc<Net>,
    url: &Url,
    extent: &Extent,
    limits: &Limits,
) -> Result<Input, LoadError> {
    let Extent { offset, length, .. } = *extent;
    let range = match length {
        Some(length) => format!("bytes={offset}-{}", offset.saturating_add(length - 1)),
        None => format!("bytes={offset}-"),
    };
    let mut request = Request::get(url.clone());
    let range =
        HeaderValue::from_str(&range).map_err(|error| LoadError::Request(error.to_string()))?;
    request.headers.insert(RANGE, range);
    request
        .headers
        .insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    let answer = net.send(request, limits).await?;
    let skip = match answer.status {
        206 => {
            let range = answer
                .headers
                .get(CONTENT_RANGE)
                .and_then(|range| range.to_str().ok());
            let from: Option<u64> = range.and_then(first);
            match from {
                Some(from) if from == offset => 0,
                // A range that starts earlier also contains the record.
                Some(from) if from < offset => offset - from,
                _ => {
                    let what = format!("requested bytes from {offset} on, received {range:?}");
                    return Err(SourceError::Answer(what).into());
                }
            }
        }
        200 => offset,
        404 | 410 => return Err(LoadError::Missing("the server does not have it".to_owned())),
        416 => {
            return Err(LoadError::Record(
                "the file ends before the record".to_owned(),
            ));
        }
        status => return Err(SourceError::Status(status).into()),
    };
    if skip > MAX_SKIPPED {
        let what = format!(
            "the server sends the whole file, and the record begins only after {skip} bytes"
        );
        return Err(SourceError::TooLarge(what).into());
    }
    Ok(Input::Net {
        body: answer.body,
        skip,
        left: length,
    })
}

/// Returns the first byte position of a `Content-Range`.
fn first(range: &str) -> Option<u64> {
    let (first, _) = range.trim().strip_prefix("bytes ")?.split_once('-')?;
    first.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_is_part_of_the_path() {
        for (prefix, name, url) in [
            ("http://h/w/", "a b/c.warc.gz", "http://h/w/a%20b/c.warc.gz"),
            ("http://h/w", "a?b#c%d", "http://h/w/a%3Fb%23c%25d"),
            (
                "http://h/get?file=",
                "a/b.warc.gz",
                "http://h/get?file=a/b.warc.gz",
            ),
            ("http://h/get?file=", "a&b", "http://h/get?file=a%26b"),
        ] {
            assert_eq!(below(prefix, name).unwrap().as_str(), url);
        }
    }
}
