//! URLs of a collection on this server, and links to them (RFC 8288).

use std::fmt::Write as _;

use http::HeaderMap;
use http::header::HOST;
use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::query::absolute;
use crawlspace_index::timestamp::Timestamp;

/// Characters that must be escaped in the target or the quoted parameters of a link. Existing escapes are kept.
const IN_LINK: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'<')
    .add(b'>')
    .add(b'\\')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');
const IN_PATH: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Public base URL of a collection, or of one of its access points.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BaseUrl {
    /// Without a trailing slash.
    base: String,
}

impl BaseUrl {
    /// Returns the base URL on a server with the given public URL, if known, or else [as the request names
    /// it](BaseUrl::of).
    pub(crate) fn seen(
        public: Option<&str>,
        headers: &HeaderMap,
        collection: &str,
        point: Option<&str>,
    ) -> BaseUrl {
        match public {
            Some(public) => BaseUrl::at(public.trim_end_matches('/'), collection, point),
            None => BaseUrl::of(headers, collection, point),
        }
    }

    /// Returns the base URL with the request's `Host`. Clients can put anything into it, but get only their own input
    /// back; with an invalid host the URL is relative. Headers of proxies are ignored, since anyone could send them.
    pub(crate) fn of(headers: &HeaderMap, collection: &str, point: Option<&str>) -> BaseUrl {
        let host = headers.get(HOST).and_then(|host| host.to_str().ok());
        let is_name = |host: &&str| {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
            !host.is_empty() && host.bytes().all(plain)
        };
        let origin = host.filter(is_name).map(|host| format!("http://{host}"));
        BaseUrl::at(&origin.unwrap_or_default(), collection, point)
    }

    /// Returns the base URL at this origin, which has no trailing slash: `https://archive.example`.
    pub(crate) fn at(origin: &str, collection: &str, point: Option<&str>) -> BaseUrl {
        let mut base = format!("{origin}/{}", utf8_percent_encode(collection, IN_PATH));
        if let Some(point) = point {
            // Writing text to a string cannot fail.
            let _ = write!(base, "/ap/{}", utf8_percent_encode(point, IN_PATH));
        }
        BaseUrl { base }
    }

    /// Appends a string to the base URL.
    pub(crate) fn with(&self, end: &str) -> String {
        format!("{}{end}", self.base)
    }

    /// Returns the URL of an index query.
    pub(crate) fn index(&self, query: &str) -> String {
        format!(
            "{}/index?{}",
            self.base,
            utf8_percent_encode(query, IN_LINK)
        )
    }

    /// Returns the URL of a resource query.
    pub(crate) fn resource(&self, query: &str) -> String {
        format!("{}/resource?{query}", self.base)
    }

    /// Returns the TimeGate of a URL.
    pub(crate) fn timegate(&self, url: &str) -> String {
        format!("{}/timegate/{}", self.base, in_path(url))
    }

    /// Returns the TimeMap of a URL.
    pub(crate) fn timemap(&self, url: &str) -> String {
        format!("{}/timemap/link/{}", self.base, in_path(url))
    }

    /// Returns the memento of a URL at that time, which is its replay URL.
    pub(crate) fn memento(&self, url: &str, time: Timestamp) -> String {
        format!("{}/{time}id_/{}", self.base, in_path(url))
    }
}

/// Escapes a URL for the end of a path. Its fragment is removed, since clients do not send it.
fn in_path(url: &str) -> String {
    let url = url.split_once('#').map_or(url, |(url, _)| url);
    utf8_percent_encode(url, IN_LINK).to_string()
}

/// Returns the URL after `timegate/` or `timemap/link/` in a path, with the query string that belongs to it.
///
/// Some clients escape the whole URL or omit its scheme, and proxies may collapse its double slash.
pub(crate) fn target(path: &str, query: Option<&str>) -> String {
    let escaped = path.get(..8).is_some_and(|start| {
        let start = start.to_ascii_lowercase();
        start.starts_with("http%3a") || start.starts_with("https%3a")
    });
    let mut url = if escaped {
        percent_encoding::percent_decode_str(path)
            .decode_utf8_lossy()
            .into_owned()
    } else {
        path.to_owned()
    };
    if let Some((scheme, rest)) = url.split_once(":/")
        && (scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https"))
        && !rest.starts_with('/')
    {
        url = format!("{scheme}://{rest}");
    }
    if let Some(query) = query {
        url.push('?');
        url.push_str(query);
    }
    if url.is_empty() {
        url
    } else {
        absolute(&url).into_owned()
    }
}

/// Formats a link: `<url>; rel="…"`.
pub(crate) fn link(url: &str, relation: &str) -> String {
    format!(
        "<{}>; rel=\"{relation}\"",
        utf8_percent_encode(url, IN_LINK)
    )
}

/// Formats a link to a TimeMap with its media type: `<url>; rel="…"; type="…"`.
pub(crate) fn timemap_link(url: &str, relation: &str) -> String {
    format!("{}; type=\"application/link-format\"", link(url, relation))
}

/// Formats a link to a memento with its datetime: `<url>; rel="…"; datetime="…"`.
pub(crate) fn memento_link(url: &str, relation: &str, time: Timestamp) -> String {
    format!("{}; datetime=\"{}\"", link(url, relation), time.http_date())
}

/// Escapes a string for a quoted parameter (RFC 9110, section 5.6.4), in ASCII.
pub(crate) fn quoted(text: &str) -> String {
    utf8_percent_encode(text, IN_LINK).to_string()
}

/// Escapes a string for a header, in ASCII without special characters; URLs stay unchanged.
pub(crate) fn in_header(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'!' | b'#'..=b';' | b'=' | b'?'..=b'[' | b']'..=b'~' => out.push(char::from(byte)),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn links_use_the_host_of_the_request() {
        let base_url = |host: &'static [u8]| {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, HeaderValue::from_bytes(host).unwrap());
            headers.insert("x-forwarded-host", HeaderValue::from_static("evil.example"));
            headers.insert("x-forwarded-proto", HeaderValue::from_static("https"));
            BaseUrl::of(&headers, "a b", Some("p/q")).base
        };
        assert_eq!(
            base_url(b"localhost:8080"),
            "http://localhost:8080/a%20b/ap/p%2Fq"
        );
        assert_eq!(base_url(b"[::1]:8080"), "http://[::1]:8080/a%20b/ap/p%2Fq");
        for wrong in [&b""[..], b"a>b", b"a/b", b"user@a", b"a\xff", b"a b"] {
            assert_eq!(base_url(wrong), "/a%20b/ap/p%2Fq");
        }
        assert_eq!(BaseUrl::of(&HeaderMap::new(), "a", None).base, "/a");
        let public = BaseUrl::seen(Some("https://h/archive/"), &HeaderMap::new(), "a", None);
        assert_eq!(public.base, "https://h/archive/a");
    }

    #[test]
    fn urls_are_escaped_within_urls() {
        let base_url = BaseUrl::at("http://h", "c", None);
        let time = Timestamp::earliest(b"2016").unwrap();
        for (url, written) in [
            ("http://a.com/", "http://a.com/"),
            ("http://a.com/?b=c&d=%20+//", "http://a.com/?b=c&d=%20+//"),
            ("http://a.com/*", "http://a.com/*"),
            (
                "http://a.com/;b,<\"\u{e9}>",
                "http://a.com/;b,%3C%22%C3%A9%3E",
            ),
            ("http://a.com/#x", "http://a.com/"),
            ("http://a.com/%23x?", "http://a.com/%23x?"),
        ] {
            let memento = format!("http://h/c/20160101000000id_/{written}");
            assert_eq!(base_url.memento(url, time), memento);
            assert_eq!(
                base_url.timegate(url),
                format!("http://h/c/timegate/{written}")
            );
            let path = url::Url::parse(&memento).unwrap();
            let (_, path_of_url) = path.path().split_once("id_/").unwrap();
            assert_eq!(target(path_of_url, path.query()), written);
        }
    }

    #[test]
    fn target_is_the_rest_of_the_path() {
        for (path, query, url) in [
            ("http://a.com/b", None, "http://a.com/b"),
            ("http://a.com/b", Some("c=d%20"), "http://a.com/b?c=d%20"),
            ("http:/a.com/b", None, "http://a.com/b"),
            ("https:/a.com", None, "https://a.com"),
            ("HTTP:/a.com/http:/b", None, "HTTP://a.com/http:/b"),
            ("http%3A%2F%2Fa.com%2F%3Fb", None, "http://a.com/?b"),
            ("a.com/%41", Some(""), "http://a.com/%41?"),
            ("", None, ""),
        ] {
            assert_eq!(target(path, query), url);
        }
    }

    #[test]
    fn special_characters_do_not_end_a_link() {
        let time = Timestamp::earliest(b"2016").unwrap();
        assert_eq!(
            memento_link("http://a/>\"\r\n<", "memento", time),
            "<http://a/%3E%22%0D%0A%3C>; rel=\"memento\"; datetime=\"Fri, 01 Jan 2016 00:00:00 GMT\""
        );
        assert_eq!(quoted("a\"b\\c\n"), "a%22b%5Cc%0A");
    }
}
