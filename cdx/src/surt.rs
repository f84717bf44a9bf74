//! Urlkeys: URLs in the sort-friendly form (SURT) that indexes are ordered by.

use std::fmt;

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

/// The urlkey of a URL: `http://www.Example.com/a?b` is `com,example)/a?b`.
///
/// # Errors
/// When it is no URL.
pub fn urlkey(url: &str) -> Result<String, BadUrl> {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let at = rest.find(['/', '?']).unwrap_or(rest.len());
    let (host, path) = rest.split_at(at);
    if host.is_empty() {
        return Err(BadUrl(format!("{url:?} has no host")));
    }
    let host = host.to_ascii_lowercase();
    let host = host.strip_prefix("www.").unwrap_or(&host);
    let labels: Vec<&str> = host.rsplit('.').collect();
    let path = if path.is_empty() { "/" } else { path };
    Ok(format!("{}){}", labels.join(","), path.to_ascii_lowercase()))
}

/// The urlkeys of all URLs that match.
///
/// # Errors
/// When it is no URL, or one that cannot be matched so.
pub fn range(url: &str, match_type: MatchType) -> Result<KeyRange, BadUrl> {
    let key = urlkey(url)?;
    let (from, last) = match match_type {
        MatchType::Exact => (format!("{key} "), b'!'),
        MatchType::Prefix => (key, 0),
        MatchType::Host => (format!("{})/", key.split(')').next().unwrap_or(&key)), 0),
        MatchType::Domain => (key.split(')').next().unwrap_or(&key).to_owned(), b'-'),
    };
    let mut to = from.clone().into_bytes();
    match last {
        0 => *to.last_mut().unwrap() += 1,
        b'!' => *to.last_mut().unwrap() = last,
        other => to.push(other),
    }
    Ok(KeyRange {
        from: from.into_bytes(),
        to,
    })
}
