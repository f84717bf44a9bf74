//! Fuzzy matching: finds captures of URLs that differ only in volatile parameters.
//!
//! Pages request the same script or response with a different number each time to bypass caches, and links get tracking
//! parameters. If such a URL was not captured, a capture of a URL that differs only in these parameters is returned.

use std::borrow::Cow;
use std::sync::Arc;

use crawlspace_cdx::surt::{self, MatchType};

use super::query::Query;

/// Maximum number of rows read for similar URLs.
const MAX_ROWS: u64 = 100;

/// Returns a urlkey without its volatile parts: cache-busting numbers (`_=1397…`, `cb=…`, and timestamps in
/// milliseconds), `utm_…` and similar parameters, and the numbers in names of JSONP callbacks.
pub(crate) fn reduced(urlkey: &str) -> Cow<'_, str> {
    let Some((before, parameters)) = urlkey.split_once('?') else {
        return Cow::Borrowed(urlkey);
    };
    let named = parameters.split('&').filter(|text| !text.is_empty());
    let left: Vec<_> = named.filter_map(parameter).collect();
    if left.is_empty() {
        Cow::Borrowed(before)
    } else {
        Cow::Owned(format!("{before}?{}", left.join("&")))
    }
}

/// Returns the significant part of a parameter, or `None` if the parameter is volatile.
fn parameter(text: &str) -> Option<Cow<'_, str>> {
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_moment = value.starts_with('1') && (13..=16).contains(&value.len()) && digits(value);
    let against_caches = match name {
        "_" | "cb" | "uncache" => digits(value),
        _ => is_moment && (name.contains("bust") || name.contains("ts")),
    };
    if against_caches || name.starts_with("utm_") || name == "fbclid" {
        return None;
    }
    // Callback names such as jQuery111008_1397… and jsonp1397….
    let callback = ["jquery", "jsonp"].into_iter().find(|begin| {
        let rest = value.strip_prefix(begin);
        rest.is_some_and(|rest| rest.split('_').all(|part| part.is_empty() || digits(part)))
    });
    Some(match callback {
        Some(begin) => Cow::Owned(format!("{name}={begin}")),
        None => Cow::Borrowed(text),
    })
}

/// Returns the queries to try in turn if a query for one URL has no rows: first for the URL without its volatile
/// parameters, then for all URLs that differ in parameters only. Empty if no URL can be similar.
pub(crate) fn similar(query: &Query) -> Vec<Arc<Query>> {
    let asks_for_rows = query.page.is_none() && !query.show_num_pages && !query.show_paged_index;
    // The body of a POST request is part of the key, but not of the URL.
    let exact = surt::range(&query.url, MatchType::Exact).ok();
    let is_one_url = query.match_type == MatchType::Exact && exact.as_ref() == Some(&query.keys);
    let Some(key) = surt::urlkey(&query.url)
        .ok()
        .filter(|_| asks_for_rows && is_one_url)
    else {
        return Vec::new();
    };
    let (place, parameters) = match query.url.split_once('?') {
        Some((place, parameters)) => (place, parameters.split('&').collect()),
        None => (query.url.as_str(), Vec::new()),
    };
    let counts = |text: &&&str| parameter(&text.to_ascii_lowercase()).is_some();
    let left: Vec<&str> = parameters.iter().filter(counts).copied().collect();
    let without = if left.is_empty() {
        place.to_owned()
    } else {
        format!("{place}?{}", left.join("&"))
    };
    let wanted: Arc<str> = reduced(&key).into();
    let asks = [
        (without, MatchType::Exact),
        (format!("{place}?"), MatchType::Prefix),
    ];
    let asks = asks.into_iter().filter_map(|(url, match_type)| {
        let mut similar = Query {
            similar_to: Some(Arc::clone(&wanted)),
            limit: Some(query.limit.unwrap_or(MAX_ROWS).min(MAX_ROWS)),
            ..query.clone()
        };
        similar.aim(url, match_type).ok()?;
        (Some(&similar.keys) != exact.as_ref()).then(|| Arc::new(similar))
    });
    asks.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volatile_parameters_are_removed_from_keys() {
        for (key, less) in [
            ("com,a)/x", "com,a)/x"),
            ("com,a)/x?", "com,a)/x"),
            ("com,a)/x?_=1397", "com,a)/x"),
            ("com,a)/x?a=b&cb=12&uncache=3", "com,a)/x?a=b"),
            ("com,a)/x?utm_medium=mail&utm_source=a", "com,a)/x"),
            ("com,a)/x?a&fbclid=iwar0", "com,a)/x?a"),
            ("com,a)/x?cachebuster=1397000000000", "com,a)/x"),
            (
                "com,a)/x?callback=jquery1110_1397&q=1",
                "com,a)/x?callback=jquery&q=1",
            ),
            ("com,a)/x?callback=jsonp1397", "com,a)/x?callback=jsonp"),
            // Parameters whose values may be significant are kept.
            ("com,a)/x?_=one", "com,a)/x?_=one"),
            ("com,a)/x?v=12", "com,a)/x?v=12"),
            ("com,a)/x?ts=5", "com,a)/x?ts=5"),
            ("com,a)/x?callback=show", "com,a)/x?callback=show"),
            ("com,a)/x?q=jquery_plugin", "com,a)/x?q=jquery_plugin"),
        ] {
            assert_eq!(reduced(key), less, "{key}");
        }
    }

    #[test]
    fn fuzzy_search_tries_the_shortened_url_before_other_parameters() {
        let asked = |text: &str| {
            let pairs: Vec<_> = url::form_urlencoded::parse(text.as_bytes()).collect();
            let pairs = pairs.iter().map(|(name, value)| (&name[..], &value[..]));
            let query = Query::parse(pairs, None).unwrap();
            let urls = similar(&query).into_iter().map(|query| query.url.clone());
            urls.collect::<Vec<_>>()
        };
        assert_eq!(
            asked("url=http://a.com/X?_=1%26B=c"),
            ["http://a.com/X?B=c", "http://a.com/X?"]
        );
        assert_eq!(
            asked("url=http://a.com/x?_=1"),
            ["http://a.com/x", "http://a.com/x?"]
        );
        assert_eq!(asked("url=http://a.com/x"), ["http://a.com/x?"]);
        for none in [
            "url=http://a.com/x*",
            "url=a.com&matchType=host",
            "url=a.com&page=1",
        ] {
            assert!(asked(none).is_empty(), "{none}");
        }
    }
}
