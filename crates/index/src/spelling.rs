//! Forms of urlkeys: the programs that write indexes canonicalize some URLs differently.
//!
//! Crawlspace gives a capture one urlkey: the [`urlkey`] of its URL. Other programs write some keys in
//! another form, so an index may contain a capture under another key. In this crate, a *spelling*
//! is such a form of urlkeys. [`SPELLINGS`] lists the supported forms; [`keys`] returns all keys that
//! may hold captures of a URL, and [`canonical`] returns the urlkey of a line.

use std::borrow::Cow;
use std::sync::LazyLock;

use crawlspace_cdx::post::{append, form_decoded};
use crawlspace_cdx::surt::urlkey;
use memchr::memmem::Finder;
use serde::Deserialize;
use url::Url;

use crate::row::Row;

/// The form of the urlkeys that a family of programs writes.
pub struct Spelling {
    /// The programs that write this form.
    pub programs: &'static str,
    /// Returns the key of a URL; `None` if the program has no key for it.
    pub key: fn(&str) -> Option<String>,
    /// The definition of the form.
    pub source: &'static str,
}

/// The supported forms. The first element is the form of Crawlspace.
pub static SPELLINGS: [Spelling; 2] = [
    Spelling {
        programs: "pywb, cdxj-indexer, wacz, OutbackCDX",
        key: |url| urlkey(url).ok(),
        source: "Python package surt 0.3.1, surt.surt()",
    },
    Spelling {
        programs: "warcio for JavaScript, Browsertrix Crawler, ArchiveWeb.page, js-wacz",
        key: |url| Some(warcio_js(url)),
        source: "npm package warcio 2.4.11, getSurt()",
    },
];

/// Returns the key of a URL in the form of warcio.js: the host as the URL Standard parses it, reversed,
/// the path in lower case, and the parameters sorted as text. For a URL that is not HTTP, the key is
/// the URL itself.
pub fn warcio_js(url: &str) -> String {
    spelled_by_js(url).unwrap_or_else(|| url.to_owned())
}

fn spelled_by_js(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once(':')?;
    if !matches!(scheme, "http" | "https") {
        return None;
    }
    // The regular expression of warcio.js is applied before the URL is put into lower case.
    let rest = match rest.strip_prefix("//www") {
        Some(named) => match named
            .trim_start_matches(|c: char| c.is_ascii_digit())
            .strip_prefix('.')
        {
            Some(host) => format!("//{host}"),
            None => rest.to_owned(),
        },
        None => rest.to_owned(),
    };
    let url = Url::parse(&format!("{scheme}:{rest}").to_lowercase()).ok()?;
    let mut key = String::with_capacity(url.as_str().len() + 8);
    for (n, label) in url.host_str()?.rsplit('.').enumerate() {
        if n > 0 {
            key.push(',');
        }
        key.push_str(label);
    }
    if let Some(port) = url.port() {
        key.push_str(&format!(":{port}"));
    }
    key.push(')');
    key.push_str(url.path());
    if let Some(query) = url.query().filter(|query| !query.is_empty()) {
        let mut parameters: Vec<&str> = query.split('&').collect();
        parameters.sort_unstable();
        key.push('?');
        key.push_str(&parameters.join("&"));
    }
    Some(key)
}

/// Returns the keys that may hold captures of a URL, without duplicates, [`urlkey`] first.
///
/// URLs with the same urlkey may have several keys in other forms. The result includes the keys of
/// these variants of the URL: with and without a slash at the end of the path, with a plain and with an
/// escaped tilde, and with escapes in upper and in lower case (warcio.js adds escapes in upper case).
///
/// ```
/// use crawlspace_index::spelling::keys;
/// assert_eq!(keys("http://example.com/a/?b"), ["com,example)/a?b", "com,example)/a/?b"]);
/// assert_eq!(keys("http://example.com/"), ["com,example)/"]);
/// ```
pub fn keys(url: &str) -> Vec<String> {
    if let Ok(own) = urlkey(url)
        && let Some(others) = others_of_plain(url, &own)
    {
        return std::iter::once(own).chain(others).collect();
    }
    keys_of_any(url)
}

/// Returns the keys of a URL other than its urlkey, `own`, if they can be derived from `own` without
/// parsing the URL; `None` for a URL with characters that one of the forms changes.
///
/// Nearly all URLs are plain, and parsing a URL costs as much as looking it up.
pub(crate) fn others_of_plain(url: &str, own: &str) -> Option<Option<String>> {
    let (_, rest) = url
        .split_once("://")
        .filter(|(scheme, _)| matches!(*scheme, "http" | "https"))?;
    let (host, path_and_query) = rest.split_at(rest.find('/')?);
    let (name, path_and_query_of_key) = own.split_once(')')?;
    let is_plain_byte = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.');
    // In a canonical key, a name that is as long as the host consists of the labels of the host.
    let is_plain = host.bytes().all(is_plain_byte)
        && host.len() == name.len()
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && is_canonical(own.as_bytes())
        && path_and_query
            .bytes()
            .all(|byte| is_plain_byte(byte) || b"/_?&=,:;".contains(&byte));
    if !is_plain {
        return None;
    }
    let end = path_and_query.find('?').unwrap_or(path_and_query.len());
    let (path, query) = path_and_query.split_at(end);
    let bare = path.strip_suffix('/').unwrap_or(path);
    // One form has parameters sorted as text, another form has them sorted by name.
    if !query.get(1..).unwrap_or_default().split('&').is_sorted() {
        return None;
    }
    let own_path = if bare.is_empty() { "/" } else { bare };
    if path_and_query_of_key.strip_prefix(own_path) != Some(query) {
        return None;
    }
    let is_root = bare.is_empty();
    Some((!is_root).then(|| [name, ")", bare, "/", query].concat()))
}

fn keys_of_any(url: &str) -> Vec<String> {
    let end = url.find(['?', '#']).unwrap_or(url.len());
    let (path, rest) = url.split_at(end);
    let other = match path.strip_suffix('/') {
        Some(path) => format!("{path}{rest}"),
        None => format!("{path}/{rest}"),
    };
    let mut keys: Vec<String> = Vec::with_capacity(3);
    let mut add = |key: Option<String>| {
        if let Some(key) = key.filter(|key| !keys.contains(key)) {
            keys.push(key);
        }
    };
    for spelling in &SPELLINGS {
        for url in [url, &other] {
            add((spelling.key)(url));
        }
    }
    for url in [url, &other] {
        let key = warcio_js(url);
        let lower = with_escapes(&key, char::to_ascii_lowercase);
        let upper = with_escapes(&key, char::to_ascii_uppercase);
        for key in [Some(key), lower, upper].into_iter().flatten() {
            let plain = key.replace("%7e", "~").replace("%7E", "~");
            let escaped = plain.replace('~', "%7e");
            for key in [key, plain, escaped] {
                add(Some(key));
            }
        }
    }
    keys
}

/// Changes the case of the escapes in a key; `None` if there are no escapes.
fn with_escapes(key: &str, change: fn(&char) -> char) -> Option<String> {
    let mut left = 0;
    key.contains('%').then(|| {
        key.chars()
            .map(|c| {
                left = if c == '%' { 2 } else { left };
                if c == '%' || left == 0 {
                    return c;
                }
                left -= 1;
                change(&c)
            })
            .collect()
    })
}

/// Returns the urlkey of a line: the urlkey of its URL if the key of the line is a known form of that
/// urlkey; otherwise the key of the line.
///
/// ```
/// use crawlspace_index::spelling::canonical;
/// let json = br#"{"url": "http://example.com/a/"}"#;
/// assert_eq!(&canonical(b"com,example)/a/", json)[..], b"com,example)/a");
/// assert_eq!(&canonical(b"com,other)/a/", json)[..], b"com,other)/a/");
/// ```
pub fn canonical<'a>(key: &'a [u8], rest: &[u8]) -> Cow<'a, [u8]> {
    if is_canonical(key) && !is_peculiar(rest) {
        return Cow::Borrowed(key);
    }
    match respelled(key, rest) {
        Some(other) if other.as_bytes() != key => Cow::Owned(other.into_bytes()),
        _ => Cow::Borrowed(key),
    }
}

/// The fields of a line that identify the request: URL, method and body.
#[derive(Deserialize)]
struct About<'a> {
    #[serde(borrow)]
    url: Cow<'a, str>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default, rename = "requestBody")]
    body: Option<Cow<'a, str>>,
}

/// Returns the urlkey of a line whose key may differ from it; `None` if the key does not have a known form.
#[cold]
fn respelled(key: &[u8], rest: &[u8]) -> Option<String> {
    let about: About<'_> = if rest.starts_with(b"{") {
        serde_json::from_slice(rest).ok()?
    } else {
        let column = rest.split(|byte| *byte == b' ').next()?;
        About {
            url: String::from_utf8_lossy(column),
            method: None,
            body: None,
        }
    };
    let key = std::str::from_utf8(key).ok()?;
    let is_own = |url: &str| urlkey(url).is_ok_and(|own| own == key);
    if let Some(method) = about.method.as_deref().filter(|method| *method != "GET") {
        let body = about.body.as_deref().unwrap_or_default();
        let sent = append(&about.url, method, body);
        if is_own(&sent) {
            return None;
        }
        let (js, own) = js_request(&about.url, method, body);
        if key == js {
            return own;
        }
    }
    if key == warcio_js(&about.url) {
        return urlkey(&about.url).ok();
    }
    None
}

/// Returns the URL that clients request for a URL: as the URL Standard parses it, without a fragment and without
/// credentials. Returns `None` unless the URL is an HTTP URL with a host.
///
/// ```
/// use crawlspace_index::spelling::as_requested;
/// let requested = as_requested("HTTP://me:secret@Example.com:80/a/../b c#top").unwrap();
/// assert_eq!(requested.as_str(), "http://example.com/b%20c");
/// ```
pub fn as_requested(url: &str) -> Option<Url> {
    let mut url = Url::parse(url).ok()?;
    let is_web = matches!(url.scheme(), "http" | "https") && url.has_host();
    if !is_web || url.set_username("").is_err() || url.set_password(None).is_err() {
        return None;
    }
    url.set_fragment(None);
    Some(url)
}

/// The keys of a row other than its urlkey.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OtherKeys {
    /// The urlkeys of its URL, as written and as requested. These urlkeys identify the captured
    /// resource.
    pub of_url: Vec<Vec<u8>>,
    /// Keys that also refer to the capture: the keys in the index, and for a request with a body the key of the URL
    /// without the body.
    pub also: Vec<Vec<u8>>,
    /// True if the JSON of the row is invalid. The URL of the row is then unknown.
    pub is_unreadable: bool,
}

/// Returns the keys of a row that differ from its urlkey.
///
/// Access rules and tags are checked for each of them. Nearly all rows have none, which is detected without parsing the
/// URL.
pub fn other_keys(row: &Row) -> OtherKeys {
    let mut keys = OtherKeys::default();
    if !row.is_respelled() && is_plainly_of(row.urlkey(), row.json()) {
        return keys;
    }
    let add = |key: Option<String>, into: &mut Vec<Vec<u8>>| {
        let other = key
            .map(String::into_bytes)
            .filter(|key| key != row.urlkey() && !key.contains(&b' '));
        if let Some(key) = other.filter(|key| !into.contains(key)) {
            into.push(key);
        }
    };
    if row.capture().is_none() {
        keys.is_unreadable = true;
        return keys;
    }
    let url = row.field("url");
    add(urlkey(&url).ok(), &mut keys.of_url);
    let requested = as_requested(&url).and_then(|url| urlkey(url.as_str()).ok());
    add(requested, &mut keys.of_url);
    // The urlkey of a request with a body is more specific than the key of its URL.
    let is_of = |key: &Vec<u8>| row.urlkey().starts_with(key);
    let has_body = memchr::memmem::find(row.urlkey(), b"__wb_method=").is_some();
    if has_body && keys.of_url.iter().all(is_of) {
        keys.also = std::mem::take(&mut keys.of_url);
    }
    if row.is_respelled() {
        let method = row.field("method");
        if !method.is_empty() && method != "GET" {
            let body = row.field("requestBody");
            add(Some(js_request(&url, &method, &body).0), &mut keys.also);
            add(js_stored(&url, &method, &body), &mut keys.also);
        }
        add(Some(warcio_js(&url)), &mut keys.also);
    }
    keys
}

/// Returns whether a key is certainly the urlkey of the URL in the JSON of a row. Returns false if the URL
/// would have to be parsed to decide this.
fn is_plainly_of(key: &[u8], json: &[u8]) -> bool {
    static NAMES: LazyLock<[Finder<'static>; 2]> =
        LazyLock::new(|| [b"\"url\"" as &[u8], b"\"original\""].map(Finder::new));
    // If the first member is the URL, other places where the name appears do not matter.
    let url = json
        .strip_prefix(b"{\"url\":")
        .and_then(|rest| rest.trim_ascii_start().strip_prefix(b"\"http"));
    let Some(url) = url else {
        return false;
    };
    let Some(end) = memchr::memchr(b'"', url) else {
        return false;
    };
    // Without escapes, no other member can have one of these names.
    let has_other = NAMES.iter().any(|name| name.find(&url[end..]).is_some());
    if has_other || memchr::memchr(b'\\', json).is_some() {
        return false;
    }
    let url = &url[..end];
    let url = url.strip_prefix(b"s").unwrap_or(url);
    let Some(url) = url.strip_prefix(b"://") else {
        return false;
    };
    let Some(slash) = memchr::memchr(b'/', url) else {
        return false;
    };
    let (host, path_and_query) = url.split_at(slash);
    let host = host.strip_prefix(b"www.").unwrap_or(host);
    let name = key.get(..host.len()).unwrap_or_default();
    let path_of_key = key.get(host.len()..).unwrap_or_default();
    path_of_key.strip_prefix(b")") == Some(path_and_query)
        && is_canonical(key)
        && is_reversed(host, name)
}

/// Returns whether a name consists of the labels of a host in reverse order, separated by commas.
fn is_reversed(host: &[u8], name: &[u8]) -> bool {
    let mut left = name;
    for label in host.rsplit(|byte| *byte == b'.') {
        let Some(rest) = left.strip_prefix(label) else {
            return false;
        };
        left = match rest {
            [] => rest,
            [b',', rest @ ..] => rest,
            _ => return false,
        };
    }
    left.is_empty() && host.len() == name.len()
}

/// Returns the key of a request with a body in the form of warcio.js, and its urlkey. `body` is the
/// value of the field `requestBody`.
pub(crate) fn js_request(url: &str, method: &str, body: &str) -> (String, Option<String>) {
    let own = urlkey(&append(url, method, &form_decoded(body)));
    (warcio_js(&js_sent(url, method, body)), own.ok())
}

/// Returns the key of a request with a body in the form of ArchiveWeb.page: the key of the URL as a
/// browser writes it.
pub(crate) fn js_stored(url: &str, method: &str, body: &str) -> Option<String> {
    let stored = Url::parse(&js_sent(url, method, body)).ok()?;
    Some(warcio_js(stored.as_str()))
}

/// Returns the URL that warcio.js derives from a request with a body.
fn js_sent(url: &str, method: &str, body: &str) -> String {
    let decoded = uri_decoded(body);
    let mut sent = append(url, method, &decoded);
    if decoded.is_empty() {
        // warcio.js also writes the `&` before an empty body.
        sent.push('&');
    }
    sent
}

/// Decodes escapes like `decodeURI` of ECMAScript (ECMA-262, section 19.2.6.1): escapes of reserved
/// characters are kept, and a string with an invalid escape becomes empty.
fn uri_decoded(text: &str) -> String {
    fn decoded(text: &str) -> Option<String> {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find('%') {
            out.push_str(&rest[..at]);
            rest = &rest[at..];
            let byte = |n: usize| u8::from_str_radix(rest.get(3 * n + 1..3 * n + 3)?, 16).ok();
            let first = byte(0)?;
            let length = match first {
                0..=0x7f => 1,
                0xc2..=0xdf => 2,
                0xe0..=0xef => 3,
                0xf0..=0xf4 => 4,
                _ => return None,
            };
            let mut bytes = Vec::with_capacity(length);
            for n in 0..length {
                if rest.as_bytes().get(3 * n) != Some(&b'%') {
                    return None;
                }
                bytes.push(byte(n)?);
            }
            let (escaped, after) = rest.split_at(3 * length);
            let text = std::str::from_utf8(&bytes).ok()?;
            out.push_str(if b";/?:@&=+$,#".contains(&first) {
                escaped
            } else {
                text
            });
            rest = after;
        }
        out.push_str(rest);
        Some(out)
    }
    decoded(text).unwrap_or_default()
}

/// Returns whether a key certainly is the same in all forms, because no form changes any of its
/// characters.
fn is_canonical(key: &[u8]) -> bool {
    let Some(end) = memchr::memchr(b')', key) else {
        return false;
    };
    let (host, rest) = key.split_at(end);
    let Some(path_and_query) = rest.get(1..).filter(|rest| rest.starts_with(b"/")) else {
        return false;
    };
    is_plain_host(host) && {
        let end = memchr::memchr(b'?', path_and_query).unwrap_or(path_and_query.len());
        let (path, query) = path_and_query.split_at(end);
        is_plain_path(path) && is_plain_query(query)
    }
}

fn is_plain_host(host: &[u8]) -> bool {
    static PUNYCODE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"xn--"));
    let name = memchr::memchr(b':', host).map_or(host, |colon| &host[..colon]);
    let (mut letters, mut last) = (false, b',');
    for byte in name {
        let plain = matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_')
            || (*byte == b',' && last != b',');
        if !plain {
            return false;
        }
        letters |= byte.is_ascii_lowercase();
        last = *byte;
    }
    let label = name.rsplit(|byte| *byte == b',').next().unwrap_or_default();
    let port = &host[name.len()..];
    letters
        && last != b','
        && PUNYCODE.find(name).is_none()
        // The regular expression that removes `www` is case-sensitive.
        && !label.strip_prefix(b"www").is_some_and(|rest| rest.iter().all(u8::is_ascii_digit))
        && port.iter().skip(1).all(u8::is_ascii_digit)
        && port != b":0"
}

fn is_plain_path(path: &[u8]) -> bool {
    let mut last = 0;
    for byte in path {
        let plain = matches!(byte, 0x21..=0x7e)
            && !matches!(byte, b'%' | b'A'..=b'Z' | b'(' | b'\\')
            && !(last == b'/' && matches!(byte, b'/' | b'.'));
        if !plain {
            return false;
        }
        last = *byte;
    }
    path.len() == 1 || last != b'/'
}

fn is_plain_query(query: &[u8]) -> bool {
    static SESSION: LazyLock<[Finder<'static>; 3]> =
        LazyLock::new(|| [b"sid=" as &[u8], b"sessionid", b"cfid="].map(Finder::new));
    let Some((_, query)) = query.split_first() else {
        return true;
    };
    let plain = |byte: &u8| matches!(byte, 0x21..=0x7e) && !matches!(byte, b'%' | b'A'..=b'Z');
    !query.is_empty()
        && query.iter().all(plain)
        && SESSION.iter().all(|session| session.find(query).is_none())
        && {
            let parameters = query.split(|byte| *byte == b'&');
            parameters.is_sorted_by_key(|one| {
                let mut parts = one.splitn(2, |byte| *byte == b'=');
                (parts.next(), parts.next())
            })
        }
}

/// Returns whether the URL of a line may have another key although the key of the line looks canonical: URLs with
/// backslashes, with `..` segments, or not in ASCII, and requests with a body.
fn is_peculiar(rest: &[u8]) -> bool {
    static SIGNS: LazyLock<[Finder<'static>; 2]> =
        LazyLock::new(|| [b"/.." as &[u8], b"\"method\""].map(Finder::new));
    memchr::memchr(b'\\', rest).is_some()
        || !rest.is_ascii()
        || SIGNS.iter().any(|sign| sign.find(rest).is_some())
}

#[cfg(test)]
mod tests {
    use redis_tests::Rng;

    use super::*;

    /// Returns URLs, with their keys by warcio.js 2.4.11 and by the Python package surt 0.3.1.
    fn vectors() -> Vec<(String, String, Option<String>)> {
        serde_json::from_str(include_str!("spelling/keys.json")).unwrap()
    }

    #[test]
    fn keys_equal_those_of_the_indexers() {
        let mut wrong = Vec::new();
        for (url, js, surt) in vectors() {
            if warcio_js(&url) != js {
                wrong.push(format!("js: {url:?}: {:?}, not {js:?}", warcio_js(&url)));
            }
            if surt.is_some() && urlkey(&url).ok() != surt {
                wrong.push(format!("surt: {url:?}: {:?}, not {surt:?}", urlkey(&url)));
            }
        }
        assert!(
            wrong.is_empty(),
            "{} differ:\n{}",
            wrong.len(),
            wrong.join("\n")
        );
    }

    #[test]
    fn keys_of_plain_urls_equal_the_general_case() {
        let hosts =
            "http:// https:// HTTP:// ftp:// www. www2. example a 0x1 xn--a . .. :80 com 1 @";
        let paths = "/ / / // /. ~ %7e %41 A ; jsessionid=1 , : - _ # \\";
        let queries = "? ? & & a=1 b = id= id2= sid=";
        let all = [hosts, paths, queries].join(" ");
        let parts: Vec<&str> = all.split(' ').collect();
        let mut rng = Rng::new("keys_of_plain_urls_equal_the_general_case");
        let mut plain = 0;
        for n in 0..60_000 {
            let mut url = String::new();
            if n % 2 == 0 {
                url.push_str("http://example.com/");
            }
            for _ in 0..1 + rng.below(7) {
                url.push_str(rng.pick::<&str>(&parts));
            }
            if let Ok(own) = urlkey(&url)
                && let Some(other) = others_of_plain(&url, &own)
            {
                plain += 1;
                let keys: Vec<String> = std::iter::once(own).chain(other).collect();
                assert_eq!(keys, keys_of_any(&url), "{url:?}");
            }
        }
        assert!(plain > 2_000, "{plain}");
    }

    #[test]
    fn other_keys_of_a_row_are_derived_from_its_url() {
        let mut hidden = 0;
        for (url, js, _) in vectors() {
            let Ok(own) = urlkey(&url) else { continue };
            let json = serde_json::json!({ "url": url, "mime": "text/html" });
            for key in [&own, "com,example)/", "com,example)/a", &js] {
                if key.contains(' ') {
                    continue;
                }
                let row = Row::new(format!("{key} 2020 {json}").into()).unwrap();
                let requested = as_requested(&url).and_then(|url| urlkey(url.as_str()).ok());
                let mut expected = vec![own.clone().into_bytes()];
                expected.extend(requested.map(String::into_bytes));
                expected.dedup();
                expected.retain(|other| other != key.as_bytes());
                assert_eq!(other_keys(&row).of_url, expected, "{url:?} under {key:?}");
                hidden += usize::from(!expected.is_empty());
            }
            let row = Row::new(format!("{own} 2020 {json}").into()).unwrap();
            let row = row.read_from(0, true);
            let has_js = other_keys(&row).also.contains(&js.clone().into_bytes());
            assert!(has_js || js == own || js.contains(' '), "{url:?}");
        }
        assert!(hidden > 500);
        for json in [
            r#"{"url": "http://example.com/a", "url": "http://hidden.com/"}"#,
            r#"{"url": "http://example.com/a", "\u0075rl": "http://hidden.com/"}"#,
            r#"{"x": {"url": "http://example.com/a"}, "original": "http://hidden.com/"}"#,
        ] {
            let row = Row::new(format!("com,example)/a 2020 {json}").into()).unwrap();
            let shown = row.field("url");
            let key = urlkey(&shown).map_or_else(|_| Vec::new(), String::into_bytes);
            let is_own = key == row.urlkey();
            assert!(
                is_own || key.is_empty() || other_keys(&row).of_url.contains(&key),
                "{json}: {shown}"
            );
        }
    }

    #[test]
    fn keys_of_equivalent_urls_match() {
        for (url, stored) in [
            ("http://example.com/~user", "http://example.com/%7Euser"),
            ("http://example.com/%7euser", "http://example.com/~user/"),
            ("http://example.com/\u{e9}", "http://example.com/%C3%A9"),
            ("http://example.com/%c3%a9?a", "http://example.com/\u{e9}?a"),
        ] {
            let keys = keys(url);
            assert!(keys.contains(&warcio_js(stored)), "{url}: {keys:?}");
            assert_eq!(keys[0], urlkey(url).unwrap());
        }
    }

    #[test]
    fn line_of_any_indexer_gets_the_urlkey_of_its_url() {
        let mut wrong = Vec::new();
        for (url, js, surt) in vectors() {
            let Ok(own) = urlkey(&url) else { continue };
            let json = serde_json::json!({ "url": url }).to_string();
            for key in [Some(&js), Some(&own), surt.as_ref()].into_iter().flatten() {
                if key.contains(' ') {
                    continue;
                }
                let found = canonical(key.as_bytes(), json.as_bytes());
                if *found != *own.as_bytes() {
                    let found = String::from_utf8_lossy(&found);
                    wrong.push(format!("{url:?} under {key:?}: {found:?}, not {own:?}"));
                }
            }
        }
        assert!(
            wrong.is_empty(),
            "{} differ:\n{}",
            wrong.len(),
            wrong.join("\n")
        );
    }
}
