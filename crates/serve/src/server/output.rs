//! Formats rows as text, and creates responses with rows or errors.

use std::collections::HashSet;
use std::sync::LazyLock;

use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt};
use http::header::{
    CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, TRAILER, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, Response, StatusCode};
use hyper::body::Frame;
use memchr::memmem::Finder;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::body::{Body, Broken, Ready, frames, ready, whole};
use super::reply::{fresh, message};
use crate::access::AccessError;
use crate::collection::Rows;
use crate::failure::Failure;
use crate::group::Report;
use crate::query::{BadQuery, Output, Query};
use crate::reason::Reason;
use crawlspace_cdx::Field;
use crawlspace_index::row::{self, Row, quote};

/// Header fields that list the sources missing from an answer. The second name is pywb's.
const MISSING: [HeaderName; 2] = [
    HeaderName::from_static("source-errors"),
    HeaderName::from_static("reserrors"),
];
/// Header field that lists the request parameters without an effect.
const IGNORED: HeaderName = HeaderName::from_static("ignored-parameters");
const IN_NAME: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.');
/// Maximum size of a response that is buffered to send its `Content-Length`, in bytes.
const MAX_BUFFERED: usize = 64 * 1024;
/// `Retry-After` of a request that was refused because a resource of this server is exhausted, in seconds.
const RETRY_SECONDS: u64 = 10;

/// Writes rows in one of the formats with a line per row.
#[derive(Clone, Debug)]
pub(crate) struct Writer {
    output: Output,
    fields: Option<Vec<String>>,
    /// Omits the source fields from rows.
    no_source: bool,
}

/// Fields that describe the source of a row.
const SOURCE: [&str; 3] = ["source", "source-coll", "source_type"];

impl Writer {
    /// Creates a writer of that format. If `fields` are given, only these are written, in that order; JSON has each of
    /// them once.
    pub(crate) fn new(output: Output, mut fields: Option<Vec<String>>) -> Writer {
        if let (Some(fields), true) = (&mut fields, output != Output::Text) {
            let mut seen = HashSet::new();
            fields.retain(|name| seen.insert(name.clone()));
        }
        Writer {
            output,
            fields,
            no_source: false,
        }
    }

    /// Sets whether the source fields are omitted.
    pub(crate) fn without_source(self, no_source: bool) -> Writer {
        Writer { no_source, ..self }
    }

    /// Returns the media type of the output.
    pub(crate) fn media(&self) -> &'static str {
        match self.output {
            Output::Cdxj => "text/x-cdxj",
            Output::Json => "text/x-ndjson",
            Output::Text => "text/plain",
            Output::Link => "application/link-format",
        }
    }

    /// Appends a row and a line break. A row with invalid JSON is omitted if its JSON has to be parsed.
    pub(crate) fn write(&self, row: &Row, into: &mut Vec<u8>) {
        let is_as_stored =
            self.fields.is_none() && !self.no_source && !has_numeric_status(row.json());
        match self.output {
            Output::Cdxj if is_as_stored => {
                if row::is_utf8(row.line()) {
                    into.extend_from_slice(row.line());
                } else {
                    into.extend_from_slice(String::from_utf8_lossy(row.line()).as_bytes());
                }
                into.push(b'\n');
            }
            Output::Json if is_as_stored && !names_itself(row.json()) => {
                into.extend_from_slice(b"{\"urlkey\": ");
                quote(row.urlkey(), into);
                into.extend_from_slice(b", \"timestamp\": ");
                quote(row.timestamp(), into);
                let body = row.json().get(1..).unwrap_or_default();
                if !body.trim_ascii_start().starts_with(b"}") {
                    into.extend_from_slice(b", ");
                }
                into.extend_from_slice(body);
                into.push(b'\n');
            }
            _ => {
                if let Some(text) = self.rewritten(row) {
                    into.extend_from_slice(text.as_bytes());
                    into.push(b'\n');
                }
            }
        }
    }

    fn rewritten(&self, row: &Row) -> Option<String> {
        let key = String::from_utf8_lossy(row.urlkey());
        let time = String::from_utf8_lossy(row.timestamp());
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let mut all = vec![
            ("urlkey".into(), quoted(&key)),
            ("timestamp".into(), quoted(&time)),
        ];
        let members = row::members(row.json())?;
        let own = |name: &str| name == "urlkey" || name == "timestamp";
        let is_left_out = |name: &str| self.no_source && SOURCE.contains(&name);
        let members = members
            .into_iter()
            .filter(|(name, _)| !own(name) && !is_left_out(name));
        all.extend(members.map(|(name, value)| {
            let value = value.get();
            let is_number = name == "status" && is_integer(value);
            let value = if is_number {
                quoted(value)
            } else {
                value.to_owned()
            };
            (name, value)
        }));

        let chosen = self.fields.as_ref().map(|fields| {
            let chosen = fields.iter().map(|name| {
                let field = Field::named(name.as_bytes());
                // If a member is repeated, the last value is used.
                let found = all
                    .iter()
                    .rev()
                    .find(|(one, _)| Field::named(one.as_bytes()) == field);
                (&name[..], found.map(|(_, value)| &value[..]))
            });
            chosen.collect::<Vec<_>>()
        });
        if self.output == Output::Text {
            let plain =
                |value: &str| match serde_json::from_str::<&serde_json::value::RawValue>(value) {
                    Ok(value) if value.get() != "null" => {
                        row::text(value).replace(['\r', '\n'], " ")
                    }
                    _ => "-".to_owned(),
                };
            let values: Vec<String> = match chosen {
                Some(chosen) => chosen
                    .iter()
                    .map(|(_, value)| value.map_or("-".to_owned(), plain))
                    .collect(),
                None => all.iter().map(|(_, value)| plain(value)).collect(),
            };
            return Some(values.join(" "));
        }
        let mut members = String::new();
        match chosen {
            Some(chosen) => {
                for (name, value) in chosen {
                    // In CDXJ these columns come before the JSON.
                    let leads = self.output == Output::Cdxj && own(name);
                    if let (Some(value), false) = (value, leads) {
                        row::written(name, value, &mut members);
                    }
                }
            }
            None => {
                let skipped = if self.output == Output::Json { 0 } else { 2 };
                for (name, value) in all.iter().skip(skipped) {
                    row::written(name, value, &mut members);
                }
            }
        }
        Some(match self.output {
            Output::Json => format!("{{{members}}}"),
            _ => format!("{key} {time} {{{members}}}"),
        })
    }
}

/// Returns whether the JSON may have a numeric status, which the writer converts to a string, as pywb does.
fn has_numeric_status(json: &[u8]) -> bool {
    static NAME: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"status\""));
    NAME.find_iter(json).any(|at| {
        let mut value = json[at + NAME.needle().len()..].iter();
        let first = value.find(|byte| !matches!(byte, b' ' | b'\t' | b':'));
        first.is_some_and(|&byte| byte == b'-' || byte.is_ascii_digit())
    })
}

fn is_integer(json: &str) -> bool {
    let digits = json.strip_prefix('-').unwrap_or(json);
    digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns whether the JSON repeats the columns before it.
fn names_itself(json: &[u8]) -> bool {
    static NAMES: LazyLock<[Finder<'static>; 2]> =
        LazyLock::new(|| [b"\"urlkey\"" as &[u8], b"\"timestamp\""].map(Finder::new));
    NAMES.iter().any(|name| name.find(json).is_some())
}

/// Returns a response with one row per line.
pub(crate) fn rows_as_text(rows: Rows, writer: Writer, report: &Report) -> Response<Body> {
    let media = writer.media();
    respond(text(rows, writer), media, report)
}

/// Formats rows as text.
fn text(rows: Rows, writer: Writer) -> BoxStream<'static, Result<Bytes, Failure>> {
    let lines = rows.map(move |batch| {
        let batch = batch?;
        let mut out = Vec::with_capacity(batch.iter().map(|row| row.line().len() + 32).sum());
        batch.iter().for_each(|row| writer.write(row, &mut out));
        Ok(Bytes::from(out))
    });
    lines.boxed()
}

/// Returns a response that streams text. Sources that fail after the head was sent are listed in its trailer.
pub(crate) fn respond(
    text: BoxStream<'static, Result<Bytes, Failure>>,
    media: &'static str,
    report: &Report,
) -> Response<Body> {
    let (body, streams) = match ready(text, MAX_BUFFERED) {
        Err(failure) => return refusal(&failure),
        Ok(Ready::All(bytes)) => (whole(bytes), false),
        Ok(Ready::More(first, rest)) => (streamed(first, rest, report), true),
    };
    let mut response = with_errors(Response::new(body), report);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if streams {
        headers.insert(
            TRAILER,
            HeaderValue::from_static("Source-Errors, ResErrors"),
        );
    }
    response
}

fn streamed(
    first: Vec<u8>,
    rest: BoxStream<'static, Result<Bytes, Failure>>,
    report: &Report,
) -> Body {
    let first = (!first.is_empty()).then(|| Ok(Frame::data(Bytes::from(first))));
    let rest = rest.map(|part| match part {
        Ok(bytes) => Ok(Frame::data(bytes)),
        Err(failure) => Err(Broken(failure.to_string())),
    });
    let (reported, report) = (report.len(), report.clone());
    let last = stream::once(async move {
        let value = report.header(reported)?;
        let value = HeaderValue::from_str(&value).ok()?;
        let trailers = HeaderMap::from_iter(MISSING.map(|name| (name, value.clone())));
        Some(Ok(Frame::trailers(trailers)))
    });
    let last = last.filter_map(|trailers| async { trailers });
    frames(stream::iter(first).chain(rest).chain(last))
}

/// Adds the missing sources to a response. If there are any, caches must not store the response.
pub(crate) fn with_errors(response: Response<Body>, report: &Report) -> Response<Body> {
    let value = report.header(0);
    let Some(value) = value.and_then(|value| HeaderValue::from_str(&value).ok()) else {
        return response;
    };
    let mut response = fresh(response);
    let headers = response.headers_mut();
    headers.extend(MISSING.map(|name| (name, value.clone())));
    response
}

/// Adds the parameters without an effect, in `Ignored-Parameters`.
pub(crate) fn with_ignored(mut response: Response<Body>, query: &Query) -> Response<Body> {
    if !query.ignored.is_empty() {
        let names = query
            .ignored
            .iter()
            .map(|name| utf8_percent_encode(name, IN_NAME).to_string());
        let names = names.collect::<Vec<_>>().join(", ");
        if let Ok(names) = HeaderValue::from_str(&names) {
            response.headers_mut().insert(IGNORED, names);
        }
    }
    response
}

/// Returns the response for a failure.
pub(crate) fn refusal(failure: &Failure) -> Response<Body> {
    let mut response = message(status_of(failure), &failure.to_string());
    if response.status() == StatusCode::SERVICE_UNAVAILABLE {
        let seconds = HeaderValue::from(RETRY_SECONDS);
        response.headers_mut().insert(RETRY_AFTER, seconds);
    }
    if response.status().is_server_error() {
        fresh(response)
    } else {
        response
    }
}

/// Returns the HTTP status for a failure.
pub(crate) fn status_of(failure: &Failure) -> StatusCode {
    match failure {
        Failure::Query(BadQuery(_)) | Failure::TooMany | Failure::TooMuch => {
            StatusCode::BAD_REQUEST
        }
        Failure::Access(AccessError::Query(_)) => StatusCode::BAD_REQUEST,
        Failure::Access(AccessError::NoPoint(_)) => StatusCode::NOT_FOUND,
        Failure::Access(AccessError::Unavailable(_)) => StatusCode::SERVICE_UNAVAILABLE,
        Failure::Busy => StatusCode::SERVICE_UNAVAILABLE,
        Failure::Unanswered(sources) if sources.any(Reason::Busy) => {
            StatusCode::SERVICE_UNAVAILABLE
        }
        Failure::Unanswered(sources) if sources.all(Reason::Timeout) => StatusCode::GATEWAY_TIMEOUT,
        Failure::Unanswered(_) => StatusCode::BAD_GATEWAY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(output: Output, fields: &str, line: &str) -> String {
        let fields = (!fields.is_empty()).then(|| fields.split(',').map(str::to_owned).collect());
        let mut out = Vec::new();
        let row = Row::new(Bytes::copy_from_slice(line.as_bytes())).unwrap();
        Writer::new(output, fields).write(&row, &mut out);
        String::from_utf8(out).unwrap()
    }

    const LINE: &str = r#"com,a)/ 2016 {"url": "http://a.com/", "status": "200", "x": null}"#;

    #[test]
    fn each_format_has_its_own_syntax() {
        assert_eq!(written(Output::Cdxj, "", LINE), format!("{LINE}\n"));
        assert_eq!(
            written(Output::Json, "", LINE),
            "{\"urlkey\": \"com,a)/\", \"timestamp\": \"2016\", \"url\": \"http://a.com/\", \"status\": \"200\", \"x\": null}\n"
        );
        assert_eq!(
            written(Output::Text, "", LINE),
            "com,a)/ 2016 http://a.com/ 200 -\n"
        );
        assert_eq!(
            written(Output::Json, "", "k 2016 {}"),
            "{\"urlkey\": \"k\", \"timestamp\": \"2016\"}\n"
        );
    }

    #[test]
    fn only_requested_fields_are_written_in_their_order() {
        assert_eq!(
            written(Output::Cdxj, "timestamp,statuscode,url,nothing", LINE),
            "com,a)/ 2016 {\"statuscode\": \"200\", \"url\": \"http://a.com/\"}\n"
        );
        assert_eq!(
            written(Output::Json, "timestamp,urlkey", LINE),
            "{\"timestamp\": \"2016\", \"urlkey\": \"com,a)/\"}\n"
        );
        assert_eq!(
            written(Output::Text, "url,nothing,timestamp", LINE),
            "http://a.com/ - 2016\n"
        );
        assert_eq!(
            written(Output::Text, "url,url", LINE),
            "http://a.com/ http://a.com/\n"
        );
        assert_eq!(
            written(Output::Json, "url,timestamp,url", LINE),
            "{\"url\": \"http://a.com/\", \"timestamp\": \"2016\"}\n"
        );
    }

    #[test]
    fn status_is_a_string() {
        for (value, expected) in [
            ("200", "\"200\""),
            ("-1", "\"-1\""),
            ("2.5", "2.5"),
            ("null", "null"),
            ("\"200\"", "\"200\""),
        ] {
            let line = format!("k 2016 {{\"x\": \"status\", \"status\" : {value}, \"length\": 7}}");
            let object = format!("\"x\": \"status\", \"status\": {expected}, \"length\": 7}}\n");
            let same = |text: String| text.replace("\" :", "\":");
            let cdxj = same(written(Output::Cdxj, "", &line));
            assert_eq!(cdxj, format!("k 2016 {{{object}"), "{value}");
            let json = same(written(Output::Json, "", &line));
            let head = "{\"urlkey\": \"k\", \"timestamp\": \"2016\", ";
            assert_eq!(json, format!("{head}{object}"), "{value}");
        }
    }

    #[test]
    fn urlkeys_are_written_in_utf_8() {
        let row = Row::new(Bytes::from_static(b"com,a)/\xe9 2016 {\"a\": \"b\"}")).unwrap();
        for (output, expected) in [
            (Output::Cdxj, "com,a)/\u{fffd} 2016 {\"a\": \"b\"}\n"),
            (
                Output::Json,
                "{\"urlkey\": \"com,a)/\u{fffd}\", \"timestamp\": \"2016\", \"a\": \"b\"}\n",
            ),
            (Output::Text, "com,a)/\u{fffd} 2016 b\n"),
        ] {
            let mut out = Vec::new();
            Writer::new(output, None).write(&row, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }

    #[test]
    fn nosource_omits_the_source_field() {
        let line = r#"k 2016 {"a": "b", "source": "s", "source-coll": "s", "source_type": "file"}"#;
        let row = Row::new(Bytes::from_static(line.as_bytes())).unwrap();
        for (output, expected) in [
            (Output::Cdxj, "k 2016 {\"a\": \"b\"}\n"),
            (
                Output::Json,
                "{\"urlkey\": \"k\", \"timestamp\": \"2016\", \"a\": \"b\"}\n",
            ),
            (Output::Text, "k 2016 b\n"),
        ] {
            let mut out = Vec::new();
            let writer = Writer::new(output, None).without_source(true);
            writer.write(&row, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }

    #[test]
    fn repeated_members_are_written_once() {
        let line = r#"k 2016 {"urlkey": "other", "timestamp": "1999", "a": "b\nc"}"#;
        assert_eq!(
            written(Output::Json, "", line),
            "{\"urlkey\": \"k\", \"timestamp\": \"2016\", \"a\": \"b\\nc\"}\n"
        );
        assert_eq!(written(Output::Text, "", line), "k 2016 b c\n");
    }
}
