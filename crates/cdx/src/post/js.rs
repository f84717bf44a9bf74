//! Conversion of bodies to query text as warcio for JavaScript 2.4.11 does it, in its function
//! `postToGetUrl`.

use super::escape::{push_base64, push_form};
use super::json::{self, Manner};
use super::{MAX_APPENDIX, PYWB};

/// JSON conversion of warcio for JavaScript.
const MANNER: Manner = Manner {
    keeps_empty: false,
    keeps_nameless: true,
    ..PYWB
};
/// Maximum length of a value that ArchiveWeb.page keeps, in characters.
const MAX_VALUE: usize = 512;

/// Returns the values that indexes may contain in the field `requestBody` for a body: the value that
/// Browsertrix Crawler and js-wacz write and, if it differs, the value of ArchiveWeb.page, which truncates
/// long values.
///
/// ```
/// use crawlspace_cdx::post::js::appendices;
/// let form = Some("application/x-www-form-urlencoded");
/// assert_eq!(appendices(form, b"b=c+d"), ["b=c+d"]);
/// assert_eq!(appendices(Some("application/json"), br#"{"b": [1, 2]}"#), ["b=1&b.2_=2"]);
/// ```
pub fn appendices(content_type: Option<&str>, body: &[u8]) -> Vec<String> {
    let whole = appendix(content_type.unwrap_or_default(), body);
    let has_long = whole.split('&').any(|pair| pair.len() > MAX_VALUE);
    let short = has_long.then(|| with_short_values(&whole));
    let mut all = vec![cut(whole)];
    all.extend(short);
    all
}

fn appendix(content_type: &str, body: &[u8]) -> String {
    match content_type.split(';').next().unwrap_or_default() {
        "application/x-www-form-urlencoded" => String::from_utf8_lossy(body).into_owned(),
        "application/json" | "text/plain" => {
            json::flat(body, MANNER).map_or_else(String::new, |values| pairs(&values))
        }
        "multipart/form-data" => pairs(&parts(content_type, &String::from_utf8_lossy(body))),
        _ => {
            let mut data = String::from("__wb_post_data=");
            push_base64(body, &mut data);
            data
        }
    }
}

/// Serializes pairs as the URL Standard does (section 5.2).
fn pairs(pairs: &[(String, String)]) -> String {
    let mut text = String::new();
    for (name, value) in pairs {
        if !text.is_empty() {
            text.push('&');
        }
        push_form(name, &mut text);
        text.push('=');
        push_form(value, &mut text);
    }
    text
}

/// Finds the parts of a form whose headers end directly after the name. Returns the name and the first
/// line of each part. If several parts have the same name, only the last one is returned.
fn parts(content_type: &str, body: &str) -> Vec<(String, String)> {
    let boundary = content_type
        .split_once("boundary=")
        .map_or("undefined", |(_, rest)| rest);
    let mut found: Vec<(String, String)> = Vec::new();
    for part in body.split(boundary) {
        let part = part.trim_matches('-').trim();
        let Some((_, rest)) = part.split_once("name=\"") else {
            continue;
        };
        let Some((name, value)) = rest.split_once("\"\r\n\r\n") else {
            continue;
        };
        let value = value.split(['\r', '\n']).next().unwrap_or_default();
        if name.contains('"') || name.is_empty() {
            continue;
        }
        match found.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => value.clone_into(known),
            None => found.push((name.to_owned(), value.to_owned())),
        }
    }
    found
}

/// Truncates the values of a query, and serializes the query again.
fn with_short_values(query: &str) -> String {
    let short = |text: &str| {
        super::form_decoded(text)
            .chars()
            .take(MAX_VALUE)
            .collect::<String>()
    };
    let all: Vec<_> = query
        .split('&')
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(name, value)| (super::form_decoded(name), short(value)))
        .collect();
    pairs(&all)
}

/// Truncates a string to [`MAX_APPENDIX`] UTF-16 code units, in which JavaScript measures lengths.
fn cut(mut text: String) -> String {
    let mut units = 0;
    let end = text.char_indices().find(|(_, c)| {
        units += c.len_utf16();
        units > MAX_APPENDIX
    });
    if let Some((end, _)) = end {
        text.truncate(end);
    }
    text
}
