//! Splits URLs with the regular expression of RFC 2396, appendix B, and tolerates malformed URLs from
//! web pages.

use std::borrow::Cow;

use memchr::{memchr, memchr2, memchr3, memrchr};

/// Parts of a URL that matter for its key. Missing parts are empty.
pub(super) struct Parts<'a> {
    /// Scheme as written.
    pub scheme: &'a [u8],
    /// Host without brackets.
    pub host: &'a [u8],
    /// Port; `None` if missing or 0.
    pub port: Option<u16>,
    pub path: &'a [u8],
    pub query: &'a [u8],
}

/// Maximum number of digits of a number. The programs that write indexes fail for more digits.
pub(super) const MAX_DIGITS: usize = 4300;

/// Strips white space around the URL, and line ends and tabs inside.
pub(super) fn tidy(url: &[u8]) -> Cow<'_, [u8]> {
    let blank = |byte: &u8| !matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c);
    let begin = url.iter().position(blank).unwrap_or(url.len());
    let end = url.iter().rposition(blank).map_or(begin, |last| last + 1);
    let url = url.get(begin..end).unwrap_or_default();
    match memchr3(b'\n', b'\r', b'\t', url) {
        None => Cow::Borrowed(url),
        Some(_) => {
            let kept = url
                .iter()
                .filter(|byte| !matches!(byte, b'\n' | b'\r' | b'\t'));
            Cow::Owned(kept.copied().collect())
        }
    }
}

impl<'a> Parts<'a> {
    /// Splits a URL that [`tidy`] returned; the scheme defaults to `http`.
    pub(super) fn of(url: &'a [u8]) -> Result<Parts<'a>, &'static str> {
        if url.is_empty() {
            return Err("it is blank");
        }
        let (scheme, rest) = match scheme(once(url)) {
            Some((scheme, rest)) => match rest.strip_prefix(b"//") {
                Some(rest) => (scheme, Ok(rest)),
                None => (scheme, Err(rest)),
            },
            None => (&b"http"[..], Ok(url)),
        };
        let (authority, rest) = match rest {
            Ok(rest) => rest.split_at(memchr3(b'/', b'?', b'#', rest).unwrap_or(rest.len())),
            Err(rest) => (&b""[..], rest),
        };
        let (mut path, rest) = rest.split_at(memchr2(b'?', b'#', rest).unwrap_or(rest.len()));
        let query = match rest.strip_prefix(b"?") {
            Some(query) => upto(query, memchr(b'#', query)),
            None => b"",
        };
        let (mut host, port) = host_and_port(authority)?;
        if host.is_empty() && !path.is_empty() && scheme.starts_with(b"http") {
            // For example, `http:////example.com/`.
            let slashes = path.iter().take_while(|byte| **byte == b'/').count();
            let rest = path.get(slashes..).unwrap_or_default();
            let end = memchr(b'/', rest);
            host = upto(rest, end);
            path = end.and_then(|end| rest.get(end..)).unwrap_or(b"/");
        }
        Ok(Parts {
            scheme,
            host,
            port,
            path,
            query,
        })
    }
}

fn upto(text: &[u8], end: Option<usize>) -> &[u8] {
    end.and_then(|end| text.get(..end)).unwrap_or(text)
}

fn after(text: &[u8], at: Option<usize>) -> &[u8] {
    at.and_then(|at| text.get(at + 1..)).unwrap_or_default()
}

/// Strips `http://` in front of another scheme.
fn once(mut url: &[u8]) -> &[u8] {
    let without = |url: &'_ [u8]| {
        [&b"http://"[..], b"https://"]
            .into_iter()
            .find(|protocol| url.starts_with(protocol))
            .map(<[u8]>::len)
    };
    while let Some(rest) = without(url).and_then(|length| url.get(length..)) {
        if without(rest).is_none() {
            break;
        }
        url = rest;
    }
    url
}

/// Splits off the scheme and its colon.
fn scheme(url: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = url.iter().position(
        |byte| !matches!(byte, b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'+' | b'.' | b'-'),
    )?;
    let (scheme, rest) = url.split_at(rest);
    let rest = rest.strip_prefix(b":")?;
    scheme
        .first()?
        .is_ascii_alphabetic()
        .then_some((scheme, rest))
}

fn host_and_port(authority: &[u8]) -> Result<(&[u8], Option<u16>), &'static str> {
    let end = authority.iter().rposition(|byte| *byte != b':');
    let authority = authority
        .get(..end.map_or(0, |last| last + 1))
        .unwrap_or_default();
    let place = match memrchr(b'@', authority) {
        Some(at) => after(authority, Some(at)),
        None => authority,
    };
    let (host, port) = match memchr(b'[', place) {
        Some(open) => {
            let inside = after(place, Some(open));
            let close = memchr(b']', inside);
            let behind = after(inside, close);
            (upto(inside, close), after(behind, memchr(b':', behind)))
        }
        None => {
            let colon = memchr(b':', place);
            (upto(place, colon), after(place, colon))
        }
    };
    if port.is_empty() {
        return Ok((host, None));
    }
    let wrong = "its port is not a number from 0 to 65535";
    if port.len() > MAX_DIGITS {
        return Err(wrong);
    }
    let mut number = 0_u16;
    for digit in port {
        if !digit.is_ascii_digit() {
            return Err(wrong);
        }
        let more = number
            .checked_mul(10)
            .and_then(|number| number.checked_add(u16::from(digit - b'0')));
        number = more.ok_or(wrong)?;
    }
    Ok((host, Some(number).filter(|number| *number != 0)))
}
