//! Urlkeys: URLs in the sort-friendly form (SURT) that indexes are ordered by.
//!
//! Indexes are written by other programs, so a key made here must be theirs to the byte, odd cases included: the
//! rules are those of the Internet Archive's canonicalisation as the tools around pywb apply it.
//!
//! | part | what happens to it |
//! |---|---|
//! | scheme, user, fragment | left out; the scheme stays where there is no host |
//! | host | unescaped, IDNA 2003, IPv4 addresses in every notation, lower case, without `www.`, reversed |
//! | port | left out when it is that of the scheme |
//! | path | unescaped, `.`, `..` and `//` resolved, escaped, lower case, without session ids and a slash at its end |
//! | query | unescaped, escaped, lower case, without session ids, sorted |
//!
//! Every step takes time in proportion to the length of the URL, whatever is in it.

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

/// Which URLs a query is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MatchType {
    /// This URL.
    #[default]
    Exact,
    /// Those that begin with it.
    Prefix,
    /// Those of its host.
    Host,
    /// Those of its host, and of the hosts below.
    Domain,
    /// This URL, and all that come after it in the order of urlkeys.
    Range,
}

/// The urlkeys that a query is about, as beginnings of lines: from one on, up to but without another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// The first.
    pub from: Vec<u8>,
    /// The first after them. Empty when there is none.
    pub to: Vec<u8>,
}

/// A text that is no URL, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadUrl(pub String);

impl fmt::Display for BadUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadUrl {}

/// The urlkey of a URL.
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
/// When it is no URL: blank, or with a port that is none.
pub fn urlkey(url: &str) -> Result<String, BadUrl> {
    // What indexes have for a capture without a URL.
    if url.is_empty() {
        return Ok("-".to_owned());
    }
    // The first record of an ARC file, which is no capture.
    if url.starts_with("filedesc") {
        return Ok(url.to_owned());
    }
    match key_of(url) {
        // A name, not a location: nothing in it has to make sense.
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
    // Whatever is not ASCII was escaped.
    String::from_utf8(key).map_err(|_| BadUrl(format!("invalid URL {url:?}")))
}

fn is_default(scheme: &[u8], port: u16) -> bool {
    (port == 80 && scheme.eq_ignore_ascii_case(b"http"))
        || (port == 443 && scheme.eq_ignore_ascii_case(b"https"))
}

/// The urlkeys of all URLs that match.
///
/// ```
/// use crawlspace_cdx::surt::{range, MatchType};
/// let keys = range("http://example.com/a", MatchType::Domain).unwrap();
/// assert_eq!((&keys.from[..], &keys.to[..]), (&b"com,example)/"[..], &b"com,example-"[..]));
/// ```
///
/// # Errors
/// When it is no URL.
pub fn range(url: &str, match_type: MatchType) -> Result<KeyRange, BadUrl> {
    let mut key = urlkey(url)?;
    let host = |key: &str| {
        let end = key.find(")/").unwrap_or(key.len());
        key.get(..end).unwrap_or_default().to_owned()
    };
    let (from, to) = match match_type {
        // Up to the space after it: lines begin with the key, and longer keys begin with it too.
        MatchType::Exact => (format!("{key} "), format!("{key}!").into_bytes()),
        MatchType::Range => (format!("{key} "), Vec::new()),
        MatchType::Prefix => {
            // Keys lose these at their end, but who asks with one means what is below it.
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

/// The first text after all that begin with this one.
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
