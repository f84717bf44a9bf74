//! Look-up URLs of requests other than `GET` and `HEAD`: the method and the body become part of the
//! query.
//!
//! Indexes store such captures under the urlkey of that URL, so it must match the URL written by indexers of
//! the pywb family byte for byte:
//!
//! | `Content-Type` begins with | query text of the body |
//! |---|---|
//! | `application/x-www-form-urlencoded` | the body, decoded |
//! | `multipart/` | its parts, form-encoded |
//! | `application/json` | its values, form-encoded; empty for invalid JSON |
//! | `text/plain` | as JSON; base64 for invalid JSON |
//! | any other type | base64, as `__wb_post_data` |

mod escape;
pub mod js;
mod json;
mod multipart;

#[cfg(test)]
mod tests;

use escape::{push_base64, push_plus};
use json::Manner;

/// Maximum size of a body that becomes part of the look-up URL, in bytes. A longer body is treated as empty.
pub const MAX_BODY: usize = 4 << 20;
/// Maximum length of the text derived from a body, in characters.
pub(crate) const MAX_APPENDIX: usize = 4096;

/// JSON conversion of pywb 2.10.
const PYWB: Manner = Manner {
    null: "null",
    keeps_empty: true,
    keeps_nameless: false,
    has_floats: false,
};
/// JSON conversion of cdxj-indexer 1.5.0 and wacz 0.6.0.
const CDXJ_INDEXER: Manner = Manner {
    null: "None",
    has_floats: true,
    ..PYWB
};

/// Returns the URL under which a request is looked up. For a `GET` or `HEAD`, it is the URL itself.
///
/// ```
/// use crawlspace_cdx::post::lookup_url;
/// let form = Some("application/x-www-form-urlencoded");
/// assert_eq!(lookup_url("http://a.com/", "POST", form, b"b=c%20d"), "http://a.com/?__wb_method=POST&b=c d");
/// assert_eq!(lookup_url("http://a.com/?x", "DELETE", None, b""), "http://a.com/?x&__wb_method=DELETE");
/// assert_eq!(lookup_url("http://a.com/", "GET", None, b""), "http://a.com/");
/// ```
pub fn lookup_url(url: &str, method: &str, content_type: Option<&str>, body: &[u8]) -> String {
    let method = method.to_ascii_uppercase();
    if url.is_empty() || matches!(&method[..], "GET" | "HEAD") {
        return url.to_owned();
    }
    let mut appendix = String::new();
    if matches!(&method[..], "POST" | "PUT") && !body.is_empty() {
        appendix = self::appendix(content_type.unwrap_or_default(), body, PYWB);
        cut(&mut appendix, MAX_APPENDIX);
    }
    append(url, &method, &appendix)
}

/// Returns the look-up URL of a request as cdxj-indexer 1.5.0 and wacz 0.6.0 write it. The URL differs from
/// pywb's URL if the JSON contains `null` or a number such as `1.0`, or if the body is empty.
///
/// ```
/// use crawlspace_cdx::post::lookup_url_of_indexer;
/// let json = Some("application/json");
/// let found = lookup_url_of_indexer("http://a.com/", "POST", json, br#"{"b": null}"#);
/// assert_eq!(found, "http://a.com/?__wb_method=POST&b=None");
/// ```
pub fn lookup_url_of_indexer(
    url: &str,
    method: &str,
    content_type: Option<&str>,
    body: &[u8],
) -> String {
    append(
        url,
        &method.to_ascii_uppercase(),
        &indexed_body(content_type, body),
    )
}

/// Returns the field `requestBody` of a request as cdxj-indexer 1.5.0 and wacz 0.6.0 write it.
///
/// ```
/// use crawlspace_cdx::post::indexed_body;
/// assert_eq!(indexed_body(Some("application/json"), br#"{"b": [1, null]}"#), "b=1&b.2_=None");
/// ```
pub fn indexed_body(content_type: Option<&str>, body: &[u8]) -> String {
    let mut appendix = appendix(content_type.unwrap_or_default(), body, CDXJ_INDEXER);
    cut(&mut appendix, MAX_APPENDIX);
    appendix
}

/// Returns the look-up URL of a request whose body is already in the form of the CDXJ field `requestBody`.
///
/// ```
/// use crawlspace_cdx::post::append;
/// assert_eq!(append("http://a.com/?x", "POST", "b=c"), "http://a.com/?x&__wb_method=POST&b=c");
/// ```
pub fn append(url: &str, method: &str, appendix: &str) -> String {
    let sign = if url.contains('?') { '&' } else { '?' };
    let end = if appendix.is_empty() { "" } else { "&" };
    format!("{url}{sign}__wb_method={method}{end}{appendix}")
}

/// Decodes form encoding (`application/x-www-form-urlencoded`), where `+` is a space.
pub fn form_decoded(text: &str) -> String {
    escape::undone_plus(text)
}

/// Converts a body to query text; the result may exceed [`MAX_APPENDIX`].
fn appendix(content_type: &str, body: &[u8], manner: Manner) -> String {
    let is = |beginning| content_type.starts_with(beginning);
    if is("application/x-www-form-urlencoded") {
        return match std::str::from_utf8(body) {
            Ok(body) => escape::undone_plus(body),
            Err(_) => data(body),
        };
    }
    if is("multipart/") {
        return match multipart::Form::read(content_type, body) {
            Some(form) => pairs(form),
            None => data(body),
        };
    }
    let is_text = is("text/plain");
    if is_text || is("application/json") {
        return match json::flat(body, manner) {
            Some(values) => pairs(
                values
                    .iter()
                    .map(|(name, value)| (&name[..], value.as_bytes())),
            ),
            None if is_text => data(body),
            None => String::new(),
        };
    }
    data(body)
}

fn data(body: &[u8]) -> String {
    let mut appendix = String::from("__wb_post_data=");
    // Three bytes become four characters, so this many bytes always fill the maximum.
    push_base64(body.get(..MAX_APPENDIX).unwrap_or(body), &mut appendix);
    appendix
}

fn pairs(pairs: impl IntoIterator<Item = (impl AsRef<str>, impl AsRef<[u8]>)>) -> String {
    let mut appendix = String::new();
    for (name, value) in pairs {
        if appendix.len() > MAX_APPENDIX {
            break;
        }
        if !appendix.is_empty() {
            appendix.push('&');
        }
        push_plus(name.as_ref().as_bytes(), &mut appendix);
        appendix.push('=');
        let value = value.as_ref();
        push_plus(value.get(..MAX_APPENDIX).unwrap_or(value), &mut appendix);
    }
    appendix
}

fn cut(appendix: &mut String, most: usize) {
    if let Some((end, _)) = appendix.char_indices().nth(most) {
        appendix.truncate(end);
    }
}
