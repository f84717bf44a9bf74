//! Urlkeys: URLs in the sort-friendly form (SURT) by which indexes are ordered.
//!
//! Indexes are written by other programs, so the keys that this crate computes must match the keys of these
//! programs byte for byte, even in unusual cases. The rules are those of the Internet Archive's
//! canonicalization, as implemented by the tools around pywb.
//!
//! | part | canonicalization |
//! |---|---|
//! | scheme, user, fragment | removed; the scheme is kept if there is no host |
//! | host | decoded, IDNA 2003, IPv4 addresses normalized, lower case, `www.` removed, labels reversed |
//! | port | removed if it is the default of the scheme |
//! | path | decoded, `.`, `..` and `//` resolved, encoded, lower case, session ids and a trailing slash removed |
//! | query | decoded, encoded, lower case, session ids removed, sorted |
//!
//! Every step takes time linear in the length of the URL, for any input.

mod escapes;
mod host;
mod idna;
mod parts;
mod path;
mod query;

#[cfg(test)]
mod tests;

use std::fmt;

use parts::Parts;

/// Match type of a query: exact URL, prefix, host, domain or range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MatchType {
    /// This URL only.
    #[default]
    Exact,
    /// URLs that begin with this URL.
    Prefix,
    /// URLs on the same host.
    Host,
    /// URLs on the same host and its subdomains.
    Domain,
    /// This URL and all URLs after it in urlkey order.
    Range,
}

/// Range of urlkeys that a query matches, as prefixes of lines: `from` inclusive, `to` exclusive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// First urlkey of the range.
    pub from: Vec<u8>,
    /// First urlkey after the range. Empty if the range has no end.
    pub to: Vec<u8>,
}

/// Error: an invalid URL, with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadUrl(pub String);

impl fmt::Display for BadUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadUrl {}

/// Returns the urlkey of a URL.
///
/// ```
/// use crawlspace_cdx::surt::urlkey;
/// let key = |url| urlkey(url).unwrap();
/// assert_eq!(key("http://www.Example.com:80/a/../B/?c=d&A#e"), "com,example)/b?a&c=d");
/// assert_eq!(key("https://b\u{fc}cher.example"), "example,xn--bcher-kva)/");
/// assert_eq!(key("mailto:Someone@example.com"), "mailto:someone@example.com");
/// ```
///
/// # Errors
/// Fails when the URL is invalid: blank, or with an invalid port.
pub fn urlkey(url: &str) -> Result<String, BadUrl> {
    // Indexes write `-` for a capture without a URL.
    if url.is_empty() {
        return Ok("-".to_owned());
    }
    // The first record of an ARC file is not a capture.
    if url.starts_with("filedesc") {
        return Ok(url.to_owned());
    }
    match key_of(url) {
        // A URN is a name, not a location, so any content is valid. Like the indexers, this check is
        // case-sensitive.
        Err(_) if url.starts_with("urn:") => Ok(url.to_owned()),
        key => key,
    }
}

fn key_of(url: &str) -> Result<String, BadUrl> {
    let text = parts::tidy(url.as_bytes());
    let parts = Parts::of(&text).map_err(|why| BadUrl(format!("invalid URL {url:?}: {why}")))?;
    let mut key = Vec::with_capacity(text.len() + 8);
    let has_host = host::push(parts.host, parts.scheme, &mut key)
        .map_err(|why| BadUrl(format!("invalid URL {url:?}: {why}")))?;
    if has_host {
        if let Some(port) = parts.port.filter(|port| !is_default(parts.scheme, *port)) {
            key.extend_from_slice(format!(":{port}").as_bytes());
        }
        key.push(b')');
    } else {
        key.extend_from_slice(parts.scheme);
        key.push(b':');
    }
    let begin = key.len();
    path::push(parts.path, has_host, &mut key);
    let has_path = key.len() > begin;
    let begin = key.len();
    query::push(parts.query, &mut key);
    if key.len() > begin && !has_path {
        key.insert(begin, b'/');
    }
    // Non-ASCII bytes have been escaped.
    String::from_utf8(key).map_err(|_| BadUrl(format!("invalid URL {url:?}")))
}

fn is_default(scheme: &[u8], port: u16) -> bool {
    (port == 80 && scheme.eq_ignore_ascii_case(b"http"))
        || (port == 443 && scheme.eq_ignore_ascii_case(b"https"))
}

/// Returns the range of urlkeys of all matching URLs.
///
/// ```
/// use crawlspace_cdx::surt::{range, MatchType};
/// let keys = range("http://example.com/a", MatchType::Domain).unwrap();
/// assert_eq!((&keys.from[..], &keys.to[..]), (&b"com,example)/"[..], &b"com,example-"[..]));
/// ```
///
/// # Errors
/// Fails when the URL is invalid.
pub fn range(url: &str, match_type: MatchType) -> Result<KeyRange, BadUrl> {
    let mut key = urlkey(url)?;
    let host = |key: &str| {
        let end = key.find(")/").unwrap_or(key.len());
        key.get(..end).unwrap_or_default().to_owned()
    };
    let (from, to) = match match_type {
        // Include the space after the key; otherwise, lines with longer keys that begin with this key
        // would match.
        MatchType::Exact => (format!("{key} "), format!("{key}!").into_bytes()),
        MatchType::Range => (format!("{key} "), Vec::new()),
        MatchType::Prefix => {
            // Canonicalization removes a trailing `/` or `?` from the URL. However, if the URL of a query
            // ends with `/` or `?`, the query selects the URLs below this path.
            for end in ['/', '?'] {
                if url.ends_with(end) && !key.ends_with(end) {
                    key.push(end);
                }
            }
            let to = after(key.as_bytes());
            (key, to)
        }
        MatchType::Host => {
            let host = host(&key);
            (format!("{host})/"), format!("{host}*").into_bytes())
        }
        MatchType::Domain => {
            let host = host(&key);
            let end = if host.contains(',') { ")/" } else { "," };
            (format!("{host}{end}"), format!("{host}-").into_bytes())
        }
    };
    Ok(KeyRange {
        from: from.into_bytes(),
        to,
    })
}

/// Returns the smallest string that sorts after all strings with this prefix.
fn after(beginning: &[u8]) -> Vec<u8> {
    let mut after = beginning.to_vec();
    while let Some(last) = after.pop() {
        if let Some(next) = last.checked_add(1) {
            after.push(next);
            break;
        }
    }
    after
}
