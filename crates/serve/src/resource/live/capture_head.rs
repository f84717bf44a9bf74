//! Separates the captured header in an archive's response from the archive's own header.

use url::Url;

use super::header::{ORIGINAL, ended, without_blank_lines};
use crate::words::words;
use crawlspace_warc::http::{Field, Head, Status};

/// Fields to which pywb adds the prefix if they belong to a capture. Without the prefix, they are pywb's own.
const PREFIXED_BY_PYWB: [&str; 27] = words(
    "age alt-svc cache-control connection content-md5 content-security-policy content-security-policy-report-only \
     date etag expires last-modified p3p pragma public-key-pins retry-after server status \
     strict-transport-security tk trailer upgrade upgrade-insecure-requests vary via warning x-frame-options \
     x-xss-protection",
);
/// Fields that describe the content rather than the sender. Archives that prefix all captured
/// fields also send these fields unprefixed, because clients need them.
const OF_CONTENT: [&str; 5] =
    words("content-type content-language content-disposition content-encoding content-range");
/// Fields about the transfer of a body. They apply to one connection, or to one encoding of the body.
const OF_FRAMING: [&str; 3] = ["content-encoding", "content-length", "transfer-encoding"];
/// Fields about the connection to the archive.
const OF_CONNECTION: [&str; 9] = words(
    "connection keep-alive proxy-authenticate proxy-connection te trailer transfer-encoding upgrade alt-svc",
);

/// Returns the original URL in a replay URL: the part after `/20160101000000id_/`.
pub(super) fn original(replay: &str) -> Option<String> {
    let mut rest = replay;
    while let Some((_, after)) = rest.split_once('/') {
        rest = after;
        let Some((moment, url)) = rest.split_once('/') else {
            break;
        };
        let digits = moment.bytes().take_while(u8::is_ascii_digit).count();
        let modifier = moment.get(digits..).unwrap_or_default();
        let is_modifier = modifier.is_empty()
            || modifier
                .strip_suffix('_')
                .is_some_and(|word| word.bytes().all(|byte| byte.is_ascii_lowercase()));
        if !(4..=17).contains(&digits) || !is_modifier {
            continue;
        }
        for scheme in ["http", "https"] {
            let given = url.get(..scheme.len()).unwrap_or_default();
            let Some(after) = url
                .get(scheme.len()..)
                .filter(|_| given.eq_ignore_ascii_case(scheme))
                .and_then(|url| url.strip_prefix(":/"))
            else {
                continue;
            };
            // Some servers collapse the double slash.
            return Some(format!("{scheme}://{}", after.trim_start_matches('/')));
        }
        if url.split('/').next().is_some_and(|host| host.contains('.')) {
            return Some(format!("http://{url}"));
        }
    }
    None
}

/// Reconstructs the captured header from an archive's response. `length` is the body's length, if the response has a
/// body; `is_unpacked` is set if its content coding was decoded.
///
/// Prefixed fields get their original names back. In responses with prefixed fields, unprefixed ones are the archive's
/// own, except for those that it forwards. Fields that describe the body as received stay unchanged; captured fields
/// that contradict them keep their prefix.
pub(super) fn capture_head(
    head: &Head<Status>,
    from: &Url,
    length: Option<u64>,
    is_unpacked: bool,
) -> Vec<u8> {
    let original_names: Vec<String> = head
        .fields()
        .filter_map(|field| Some(lower(own_name(field.name)?)))
        .collect();
    let is_framing = |name: &String| OF_FRAMING.contains(&name.as_str());
    // pywb prefixes only some fields. Other archives prefix all fields, but a capture may have no field that
    // only they prefix.
    let is_all = head.values("X-Archive-Src").next().is_some()
        || !original_names
            .iter()
            .all(|name| is_framing(name) || PREFIXED_BY_PYWB.contains(&name.as_str()));
    let is_wrapped = is_all || !original_names.iter().all(is_framing);
    let text = length.map(|length| length.to_string());
    let mut has_length = false;
    let mut into = head.first_line().to_vec();
    for field in head.fields() {
        if let Some(name) = own_name(field.name) {
            let own = field.line.get(ORIGINAL.len()..).unwrap_or_default();
            let is_true = match lower(name).as_str() {
                "transfer-encoding" | "content-encoding" => false,
                "content-length" => match &text {
                    Some(text) if !has_length && field.value == text.as_bytes() => {
                        has_length = true;
                        true
                    }
                    Some(_) => false,
                    None => true,
                },
                _ => true,
            };
            into.extend_from_slice(if is_true { own } else { field.line });
            continue;
        }
        let name = lower(field.name);
        let is_archives = OF_CONNECTION.contains(&name.as_str())
            || name == "memento-datetime"
            || name.starts_with("x-archive-")
            || (name == "link" && is_of_memento(&field))
            || (name == "content-location" && points_into(&field, from))
            || (name == "content-length" && length.is_some())
            || (name == "content-encoding" && is_unpacked)
            || (is_wrapped
                && name != "content-encoding"
                && (original_names.contains(&name)
                    || if is_all {
                        !OF_CONTENT.contains(&name.as_str()) && name != "location"
                    } else {
                        PREFIXED_BY_PYWB.contains(&name.as_str())
                    }));
        if is_archives {
            continue;
        }
        match captured_location(&name, &field, from) {
            Some(location) => {
                for part in [field.name, b": ", location.as_bytes(), b"\r\n"] {
                    into.extend_from_slice(part);
                }
            }
            None => into.extend_from_slice(field.line),
        }
    }
    if let Some(text) = text.filter(|_| !has_length) {
        into.extend_from_slice(format!("Content-Length: {text}\r\n").as_bytes());
    }
    ended(without_blank_lines(&into))
}

/// Returns a name without the prefix, if it has the prefix and is not empty without it.
fn own_name(name: &[u8]) -> Option<&[u8]> {
    let (prefix, own) = name.split_at_checked(ORIGINAL.len())?;
    (prefix.eq_ignore_ascii_case(ORIGINAL.as_bytes()) && !own.is_empty()).then_some(own)
}

fn lower(name: &[u8]) -> String {
    String::from_utf8_lossy(name).to_ascii_lowercase()
}

/// Returns whether a `Link` has relation types of a memento (RFC 7089, section 2.2.1).
fn is_of_memento(field: &Field<'_>) -> bool {
    let value = lower(field.value);
    value.split(';').any(|parameter| {
        let Some(relations) = parameter.trim_ascii().strip_prefix("rel=") else {
            return false;
        };
        // A comma starts the next link.
        let relations = relations.strip_prefix('"').unwrap_or(relations);
        let end = relations.find(['"', ',']).unwrap_or(relations.len());
        relations
            .get(..end)
            .unwrap_or_default()
            .split_ascii_whitespace()
            .any(|relation| matches!(relation, "original" | "memento" | "timegate" | "timemap"))
    })
}

/// Returns whether a URL is a replay URL of the archive instead of a captured one.
fn points_into(field: &Field<'_>, from: &Url) -> bool {
    let value = String::from_utf8_lossy(field.value);
    match from.join(value.trim_ascii()) {
        Ok(url) => {
            url.host_str() == from.host_str()
                && original(url.as_str()).is_some()
                && value.contains("/")
        }
        Err(_) => false,
    }
}

/// Returns the original target of a captured redirect, if the archive has rewritten it to a replay URL.
fn captured_location(name: &str, field: &Field<'_>, from: &Url) -> Option<String> {
    if name != "location" {
        return None;
    }
    let value = String::from_utf8_lossy(field.value);
    let value = value.trim_ascii();
    // A relative target was not rewritten, and still leads to the right page.
    if !(value.starts_with('/') || value.contains("://")) {
        return None;
    }
    let url = from.join(value).ok()?;
    (url.host_str() == from.host_str()).then(|| original(value))?
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    const FROM: &str = "https://archive.example/web/20160101000000id_/http://example.com/a?b=c";

    fn head(lines: &[&str]) -> Head<Status> {
        let text = format!("{}\r\n\r\n", lines.join("\r\n"));
        Head::new(Bytes::from(text), Status::read).unwrap()
    }

    fn captured(lines: &[&str], length: Option<u64>) -> Vec<String> {
        let text = capture_head(&head(lines), &Url::parse(FROM).unwrap(), length, false);
        let text = String::from_utf8(text).unwrap();
        let text = text.strip_suffix("\r\n\r\n").unwrap();
        text.split("\r\n").map(str::to_owned).collect()
    }

    #[test]
    fn replay_urls_contain_a_url() {
        for (replay, url) in [
            (FROM, Some("http://example.com/a?b=c")),
            (
                "/web/2016/https://example.com/",
                Some("https://example.com/"),
            ),
            (
                "http://a.example/20160101000000if_/https:/example.com/x",
                Some("https://example.com/x"),
            ),
            (
                "http://a.example/20160101000000/HTTP://example.com/x",
                Some("http://example.com/x"),
            ),
            (
                "http://a.example/w/20160101000000/example.com/x",
                Some("http://example.com/x"),
            ),
            ("http://example.com/2016/01/02/post", None),
            ("http://example.com/2016/index", None),
            ("http://example.com/login?to=/http://example.com/", None),
            ("http://example.com/", None),
            ("", None),
        ] {
            assert_eq!(original(replay).as_deref(), url, "{replay}");
        }
    }

    #[test]
    fn header_without_prefixed_fields_is_captured_except_memento_fields() {
        let lines = captured(
            &[
                "HTTP/1.0 200 Fine",
                "Date: Fri, 01 Jan 2016 00:00:00 GMT",
                "Memento-Datetime: Fri, 01 Jan 2016 00:00:00 GMT",
                "Link: <http://example.com/>; rel=\"original\", <http://archive.example/t>; rel=\"timemap\"",
                "Link: </style.css>; rel=preload; as=style",
                "Link: </m>; title=\"x\"; rel=\"first memento\"; datetime=\"x\"",
                "Content-Location: https://archive.example/web/20160101000000/http://example.com/a?b=c",
                "Content-Location: a.en.html",
                "X-Archive-Guessed-Charset: utf-8",
                "Connection: close",
                "Transfer-Encoding: chunked",
                "Set-Cookie: a=b",
                "Content-Encoding: gzip",
            ],
            Some(7),
        );
        assert_eq!(
            lines,
            [
                "HTTP/1.0 200 Fine",
                "Date: Fri, 01 Jan 2016 00:00:00 GMT",
                "Link: </style.css>; rel=preload; as=style",
                "Content-Location: a.en.html",
                "Set-Cookie: a=b",
                "Content-Encoding: gzip",
                "Content-Length: 7"
            ]
        );
    }

    #[test]
    fn unprefixed_fields_belong_to_the_archive_if_all_captured_ones_are_prefixed() {
        let lines = captured(
            &[
                "HTTP/1.1 302 FOUND",
                "server: nginx",
                "date: Sat, 02 Jan 2021 00:00:00 GMT",
                "content-type: text/html",
                "location: https://archive.example/web/20160101000000id_/http://example.com/other",
                "x-archive-orig-server: Apache",
                "x-archive-orig-x-powered-by: PHP",
                "x-archive-orig-content-length: 3",
                "x-archive-orig-transfer-encoding: chunked",
                "X-Archive-Orig-Link: <x>; rel=\"memento\"",
                "set-cookie: archive=1",
                "x-archive-src: a.warc.gz",
                "x-ts: 302",
                "memento-datetime: Fri, 01 Jan 2016 00:00:00 GMT",
            ],
            Some(3),
        );
        assert_eq!(
            lines,
            [
                "HTTP/1.1 302 FOUND",
                "content-type: text/html",
                "location: http://example.com/other",
                "server: Apache",
                "x-powered-by: PHP",
                "content-length: 3",
                "x-archive-orig-transfer-encoding: chunked",
                "Link: <x>; rel=\"memento\"",
            ]
        );
    }

    #[test]
    fn archive_that_prefixes_all_fields_has_no_other_captured_ones() {
        let lines = captured(
            &[
                "HTTP/1.1 200 OK",
                "content-type: text/html",
                "content-security-policy: sandbox",
                "access-control-allow-origin: *",
                "x-archive-src: north",
            ],
            Some(3),
        );
        assert_eq!(
            lines,
            [
                "HTTP/1.1 200 OK",
                "content-type: text/html",
                "Content-Length: 3"
            ]
        );
    }

    #[test]
    fn never_prefixed_fields_are_captured_in_a_mixed_header() {
        let lines = captured(
            &[
                "HTTP/1.1 200 OK",
                "Server: gunicorn",
                "Date: Sat, 02 Jan 2021 00:00:00 GMT",
                "X-Archive-Orig-Date: Fri, 01 Jan 2016 00:00:00 GMT",
                "X-Archive-Orig-Content-Encoding: gzip",
                "X-Archive-Orig-Content-Length: 30",
                "Content-Type: text/plain",
                "X-Powered-By: PHP",
                "Location: /relative",
                "Vary: Prefer",
            ],
            Some(70),
        );
        assert_eq!(
            lines,
            [
                "HTTP/1.1 200 OK",
                "Date: Fri, 01 Jan 2016 00:00:00 GMT",
                "X-Archive-Orig-Content-Encoding: gzip",
                "X-Archive-Orig-Content-Length: 30",
                "Content-Type: text/plain",
                "X-Powered-By: PHP",
                "Location: /relative",
                "Content-Length: 70",
            ]
        );
    }

    #[test]
    fn header_without_a_body_keeps_its_content_length() {
        for line in ["Content-Length: 99", "X-Archive-Orig-Content-Length: 99"] {
            assert_eq!(
                captured(&["HTTP/1.1 200 OK", line], None),
                ["HTTP/1.1 200 OK", "Content-Length: 99"]
            );
        }
    }
}
