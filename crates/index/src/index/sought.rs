//! The captures that a query looks for: a range of urlkeys, and the other keys of an index that may hold them.
//!
//! An index is sorted by keys in the form that its writer uses ([`spelling`](crate::spelling)).
//! Captures of one URL are under a few known keys. Captures of many URLs may be anywhere among the keys
//! of their host, in another order.

use std::sync::{Arc, OnceLock};

use crawlspace_cdx::post;
use crawlspace_cdx::surt::{KeyRange, MatchType, urlkey};

use super::span::Span;
use crate::spelling::{self, js_request, js_stored, warcio_js};
use crate::timestamp::Timestamp;

/// Schemes whose URLs are keys unchanged in one form, and have their hosts reversed in another form.
const RAW_SCHEMES: [&str; 4] = ["ftp:", "ftps:", "ws:", "wss:"];

/// Keys in other forms that may hold captures of a query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Aliases {
    /// Captures are found only under the urlkeys of the query.
    #[default]
    None,
    /// The keys of a URL, computed when they are first needed.
    Of {
        /// The URL.
        url: String,
        /// Selects the URLs that match.
        match_type: MatchType,
    },
    /// The keys of one URL.
    One {
        /// The keys, except the urlkey of the query.
        keys: Vec<String>,
        /// The urlkeys of the wanted captures; the first urlkey is that of the query.
        urlkeys: Vec<String>,
    },
    /// Ranges of keys that contain all captures of the query, among other captures.
    Many(Vec<KeyRange>),
}

impl Aliases {
    /// Creates the aliases of a URL, computed when they are first needed.
    pub fn of(url: &str, match_type: MatchType) -> Aliases {
        Aliases::Of {
            url: url.to_owned(),
            match_type,
        }
    }

    /// Computes the aliases of a URL.
    fn found(url: &str, match_type: MatchType) -> Aliases {
        match match_type {
            MatchType::Exact => {
                let mut keys = spelling::keys(url);
                if keys.is_empty() {
                    return Aliases::None;
                }
                let urlkeys = vec![keys.remove(0)];
                Aliases::One { keys, urlkeys }
            }
            MatchType::Range => Aliases::Many(vec![KeyRange {
                from: Vec::new(),
                to: Vec::new(),
            }]),
            MatchType::Prefix | MatchType::Host | MatchType::Domain => {
                Aliases::Many(ranges(url, match_type == MatchType::Domain))
            }
        }
    }

    /// Computes the aliases of a request with a body, whose look-up URL is part of its key.
    pub fn of_request(url: &str, method: &str, media: Option<&str>, body: &[u8]) -> Aliases {
        let (mut keys, mut urlkeys) = (Vec::new(), Vec::new());
        let add = |all: &mut Vec<String>, key: Option<String>| {
            if let Some(key) = key.filter(|key| !all.contains(key)) {
                all.push(key);
            }
        };
        let looked_up = post::lookup_url(url, method, media, body);
        add(&mut urlkeys, urlkey(&looked_up).ok());
        // A recorder may have stored the look-up URL as the URL.
        add(&mut keys, Some(warcio_js(&looked_up)));
        let indexed = post::lookup_url_of_indexer(url, method, media, body);
        add(&mut urlkeys, urlkey(&indexed).ok());
        for appendix in post::js::appendices(media, body) {
            let (key, own) = js_request(url, method, &appendix);
            add(&mut urlkeys, own);
            // Another program derives the same key from a different body (`a+b` in JSON), so a line
            // may have this key.
            add(&mut urlkeys, Some(key));
            add(&mut urlkeys, js_stored(url, method, &appendix));
        }
        let own = urlkeys.first().cloned();
        for key in &urlkeys {
            add(&mut keys, Some(key.clone()));
        }
        keys.retain(|key| Some(key) != own.as_ref());
        Aliases::One { keys, urlkeys }
    }

    /// Computes the aliases of a row. For a request with a body, the method and the body of the row are part of the
    /// key.
    pub fn of_row(url: &str, key: &str, method: &str, body: &str) -> Aliases {
        let mut keys = spelling::keys(url);
        if !method.is_empty() {
            keys = vec![js_request(url, method, body).0];
            keys.extend(js_stored(url, method, body).filter(|key| *key != keys[0]));
        }
        keys.retain(|other| other != key);
        Aliases::One {
            keys,
            urlkeys: vec![key.to_owned()],
        }
    }
}

/// Returns the key ranges of the URL's host in all forms; with `below`, also those of its subdomains.
fn ranges(url: &str, below: bool) -> Vec<KeyRange> {
    let range = |from: String, to: String| KeyRange {
        from: from.into(),
        to: to.into(),
    };
    let mut hosts: Vec<String> = Vec::new();
    let mut ranges = Vec::new();
    for spelling in &spelling::SPELLINGS {
        let Some(key) = (spelling.key)(url) else {
            continue;
        };
        match key.split_once(')') {
            Some((host, _)) if !hosts.iter().any(|one| one == host) => hosts.push(host.to_owned()),
            Some(_) => {}
            // A name without a host has the same key in all forms.
            None => {
                let end = key.find(':').unwrap_or(key.len());
                ranges.push(range(key[..end].to_owned(), format!("{};", &key[..end])));
            }
        }
    }
    if hosts.is_empty() {
        return ranges;
    }
    for host in &hosts {
        // The key of a host with a trailing dot begins with a comma.
        for dot in ["", ","] {
            ranges.push(range(format!("{dot}{host})"), format!("{dot}{host}*")));
            let (name, port) = host.rsplit_once(':').unwrap_or((host, ""));
            if below && port.is_empty() {
                ranges.push(range(format!("{dot}{name},"), format!("{dot}{name}-")));
            }
            if !below {
                // One form keeps `WWW.` in capitals as a part of the name.
                ranges.push(range(
                    format!("{dot}{name},www"),
                    format!("{dot}{name},wwx"),
                ));
            }
        }
        if host.matches(':').count() > 1 {
            // One form has IPv6 addresses in brackets.
            ranges.push(range("[".to_owned(), "\\".to_owned()));
        }
    }
    for scheme in RAW_SCHEMES {
        let name = &scheme[..scheme.len() - 1];
        ranges.push(range(scheme.to_owned(), format!("{name};")));
    }
    // A URL with the scheme in capitals is used as the key unchanged.
    ranges.push(range("H".to_owned(), "I".to_owned()));
    ranges
}

/// The spans of an index that contain the captures of a query.
#[derive(Debug)]
pub struct Sought {
    /// The span of the urlkeys.
    pub span: Arc<Span>,
    urlkeys: OnceLock<Arc<[Box<[u8]>]>>,
    aliases: Arc<Aliases>,
    moments: (Option<Timestamp>, Option<Timestamp>),
    others: OnceLock<Vec<Arc<Span>>>,
}

impl Sought {
    /// Looks for a range of urlkeys between two times, and for their aliases.
    pub fn new(
        keys: &KeyRange,
        aliases: &Arc<Aliases>,
        first: Option<Timestamp>,
        last: Option<Timestamp>,
    ) -> Sought {
        let mut sought = Sought::of(Span::of(keys, first, last));
        sought.moments = (first, last);
        sought.aliases = Arc::clone(aliases);
        sought
    }

    /// Looks for the lines of a span, under their keys as written.
    pub(crate) fn of(span: Span) -> Sought {
        Sought {
            span: Arc::new(span),
            urlkeys: OnceLock::new(),
            aliases: Arc::default(),
            moments: (None, None),
            others: OnceLock::new(),
        }
    }

    /// Returns the urlkeys of the wanted captures; empty if the span alone decides.
    pub(super) fn urlkeys(&self) -> &Arc<[Box<[u8]>]> {
        self.urlkeys.get_or_init(|| match &*self.aliases {
            Aliases::One { urlkeys, .. } => {
                urlkeys.iter().map(|key| key.as_bytes().into()).collect()
            }
            Aliases::Of { .. } if self.is_exact() => Arc::new([self.own_key().into()]),
            Aliases::None | Aliases::Of { .. } | Aliases::Many(_) => Arc::new([]),
        })
    }

    /// Returns the urlkey at which the span begins, without a timestamp.
    fn own_key(&self) -> &[u8] {
        let from = &self.span.from;
        memchr::memchr(b' ', from).map_or(from, |end| &from[..end])
    }

    /// Returns the spans of the keys in other forms.
    pub(super) fn others(&self) -> &[Arc<Span>] {
        let (first, last) = self.moments;
        let span_of = |keys: &KeyRange| Arc::new(Span::of(keys, first, last));
        let spans = |aliases: &Aliases| match aliases {
            Aliases::One { keys, .. } => {
                let exact = |key: &String| KeyRange {
                    from: [key.as_bytes(), b" "].concat(),
                    to: [key.as_bytes(), b"!"].concat(),
                };
                keys.iter().map(|key| span_of(&exact(key))).collect()
            }
            Aliases::Many(ranges) => ranges.iter().map(span_of).collect(),
            Aliases::None | Aliases::Of { .. } => Vec::new(),
        };
        self.others.get_or_init(|| match &*self.aliases {
            Aliases::Of { url, match_type } => {
                let own = std::str::from_utf8(self.own_key()).ok();
                let own = own.filter(|_| self.is_exact());
                match own.and_then(|own| spelling::others_of_plain(url, own)) {
                    Some(other) => spans(&Aliases::One {
                        keys: other.into_iter().collect(),
                        urlkeys: Vec::new(),
                    }),
                    None => spans(&Aliases::found(url, *match_type)),
                }
            }
            aliases => spans(aliases),
        })
    }

    /// Returns whether all wanted captures have the same urlkey, or the span alone decides.
    pub(super) fn is_one_key(&self) -> bool {
        !matches!(&*self.aliases, Aliases::One { urlkeys, .. } if urlkeys.len() > 1)
    }

    /// Returns whether the query is about one URL.
    pub(super) fn is_exact(&self) -> bool {
        match &*self.aliases {
            Aliases::One { urlkeys, .. } => !urlkeys.is_empty(),
            Aliases::Of { match_type, .. } => *match_type == MatchType::Exact,
            Aliases::None | Aliases::Many(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request (method, URL, media type, body, and whether the body is in base64) and the keys of
    /// its capture in warcio.js 2.4.11, in cdxj-indexer 1.5.0, and in look-ups of pywb 2.10. The
    /// cases omit methods that an indexer ignores, and values whose text depends on the programming
    /// language.
    type Request = (
        String,
        String,
        Option<String>,
        String,
        bool,
        Option<String>,
        Option<String>,
        Option<String>,
    );

    #[test]
    fn requests_with_a_body_are_searched_under_all_key_formats() {
        let text = include_str!("sought/requests.json");
        let requests: Vec<Request> = serde_json::from_str(text).unwrap();
        assert!(requests.len() > 200);
        for (method, url, media, body, is_base64, js, cdxj, pywb) in requests {
            let bytes = if is_base64 {
                data_encoding::BASE64.decode(body.as_bytes()).unwrap()
            } else {
                body.clone().into_bytes()
            };
            let found = Aliases::of_request(&url, &method, media.as_deref(), &bytes);
            let Aliases::One { keys, urlkeys } = found else {
                panic!("{url}: aliases of one URL");
            };
            for key in [js, cdxj, pywb].into_iter().flatten() {
                let is_found = keys.contains(&key) || urlkeys.first() == Some(&key);
                assert!(is_found, "{method} {url} {media:?} {body:?}: {key:?}");
            }
        }
    }

    #[test]
    fn range_of_a_host_covers_its_keys_in_all_spellings() {
        for (url, key) in [
            ("http://example.com/a/", "com,example)//a/b"),
            ("http://example.com/", ",com,example)/"),
            ("http://example.com/", "ftp://example.com/f"),
            ("http://example.com/", "com,example,www)/"),
            ("http://example.com/", "HTTP://EXAMPLE.com/"),
            ("http://[::1]:8080/", "[::1]:8080)/x"),
            ("urn:pageinfo:http://a.com/", "urn:pageinfo:http://a.com/b/"),
        ] {
            let Aliases::Many(ranges) = Aliases::found(url, MatchType::Prefix) else {
                panic!("{url}: aliases of many URLs");
            };
            let key = key.as_bytes();
            let has = |range: &KeyRange| key >= &range.from[..] && key < &range.to[..];
            assert!(ranges.iter().any(has), "{url}: {ranges:?}");
        }
    }
}
