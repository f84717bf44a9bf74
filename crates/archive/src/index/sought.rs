//! Captures that a query looks for: a range of urlkeys, and where else in an index these captures may lie.
//!
//! An index is sorted by the keys that its maker spelled ([`spelling`](crate::spelling)). Captures of one URL lie under
//! a few known keys. Captures of many URLs may lie anywhere among the keys of their host, in another order.

use std::sync::Arc;

use crawlspace_cdx::post;
use crawlspace_cdx::surt::{KeyRange, MatchType, urlkey};

use super::span::Span;
use crate::spelling::{self, js_request, warcio_js};
use crate::timestamp::Timestamp;

/// Schemes whose URLs are keys as they are in one spelling, and have a host in another one.
const RAW_SCHEMES: [&str; 4] = ["ftp:", "ftps:", "ws:", "wss:"];

/// Keys of other spellings under which captures of a query may lie.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Aliases {
    /// The urlkeys of the query are all keys.
    #[default]
    None,
    /// Keys of one URL.
    One {
        /// The keys, without the urlkey of the query.
        keys: Vec<String>,
        /// The urlkeys of captures that are meant; the first one is that of the query.
        urlkeys: Vec<String>,
    },
    /// Ranges of keys that have all captures of the query, and others.
    Many(Vec<KeyRange>),
}

impl Aliases {
    /// Finds the aliases of a URL.
    pub fn of(url: &str, match_type: MatchType) -> Aliases {
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

    /// Finds the aliases of a request with a body, whose look-up URL is part of its key.
    pub fn of_request(url: &str, method: &str, media: Option<&str>, body: &[u8]) -> Aliases {
        let (mut keys, mut urlkeys) = (Vec::new(), Vec::new());
        let add = |all: &mut Vec<String>, key: Option<String>| {
            if let Some(key) = key.filter(|key| !all.contains(key)) {
                all.push(key);
            }
        };
        let looked_up = post::lookup_url(url, method, media, body);
        add(&mut urlkeys, urlkey(&looked_up).ok());
        // A recorder may have stored the look-up URL itself.
        add(&mut keys, Some(warcio_js(&looked_up)));
        if let Some(none) = post::lookup_url_of_indexer(url, method, media, body) {
            add(&mut urlkeys, urlkey(&none).ok());
            add(&mut keys, urlkey(&none).ok());
        }
        for appendix in post::appendices_of_js(media, body) {
            let (key, own) = js_request(url, method, &appendix);
            add(&mut keys, Some(key));
            add(&mut urlkeys, own);
        }
        let own = urlkeys.first().cloned();
        for key in &urlkeys {
            add(&mut keys, Some(key.clone()));
        }
        keys.retain(|key| Some(key) != own.as_ref());
        Aliases::One { keys, urlkeys }
    }

    /// Finds the aliases of a row: a request with a body is looked up by what the row says of it.
    pub fn of_row(url: &str, key: &str, method: &str, body: &str) -> Aliases {
        let mut keys = spelling::keys(url);
        if !method.is_empty() {
            keys = vec![js_request(url, method, body).0];
        }
        keys.retain(|other| other != key);
        Aliases::One {
            keys,
            urlkeys: vec![key.to_owned()],
        }
    }
}

/// The keys of the URL's host in all spellings, and with `below` those of the hosts below it.
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
            // A name without a host is spelled alike.
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
        // A host with a dot at its end begins with a comma.
        for dot in ["", ","] {
            ranges.push(range(format!("{dot}{host})"), format!("{dot}{host}*")));
            let (name, port) = host.rsplit_once(':').unwrap_or((host, ""));
            if below && port.is_empty() {
                ranges.push(range(format!("{dot}{name},"), format!("{dot}{name}-")));
            }
            if !below {
                // `WWW.` in capitals is a part of the name in one spelling.
                ranges.push(range(format!("{dot}{name},www"), format!("{dot}{name},wwx")));
            }
        }
        if host.matches(':').count() > 1 {
            // An address of IPv6, which one spelling has in brackets.
            ranges.push(range("[".to_owned(), "\\".to_owned()));
        }
    }
    for scheme in RAW_SCHEMES {
        let name = &scheme[..scheme.len() - 1];
        ranges.push(range(scheme.to_owned(), format!("{name};")));
    }
    ranges
}

/// Spans of an index in which captures of a query lie.
#[derive(Debug)]
pub struct Sought {
    /// The span of the urlkeys.
    pub span: Arc<Span>,
    /// Spans of keys in other spellings.
    pub(super) others: Vec<Arc<Span>>,
    /// The urlkeys of captures that are meant; empty where the span says it.
    pub(super) urlkeys: Arc<[Box<[u8]>]>,
}

impl Sought {
    /// Looks for the urlkeys of a range between two moments, and for their aliases.
    pub fn new(
        keys: &KeyRange,
        aliases: &Aliases,
        first: Option<Timestamp>,
        last: Option<Timestamp>,
    ) -> Sought {
        let span_of = |keys: &KeyRange| Arc::new(Span::of(keys, first, last));
        let mut sought = Sought::of(Span::of(keys, first, last));
        match aliases {
            Aliases::None => {}
            Aliases::One { keys, urlkeys } => {
                let exact = |key: &String| KeyRange {
                    from: format!("{key} ").into(),
                    to: format!("{key}!").into(),
                };
                sought.others = keys.iter().map(|key| span_of(&exact(key))).collect();
                sought.urlkeys = urlkeys.iter().map(|key| key.as_bytes().into()).collect();
            }
            Aliases::Many(ranges) => sought.others = ranges.iter().map(span_of).collect(),
        }
        sought
    }

    /// Looks for the lines of a span, as their keys are spelled.
    pub(crate) fn of(span: Span) -> Sought {
        Sought {
            span: Arc::new(span),
            others: Vec::new(),
            urlkeys: Arc::new([]),
        }
    }

    /// Returns whether captures of one URL are meant.
    pub(super) fn is_exact(&self) -> bool {
        !self.urlkeys.is_empty()
    }
}
