//! Cases of ARC records.

use super::TIME;
use super::records::{Case, Indexed, case, sha1};

/// First record of an ARC file, which describes the file.
pub const DESCRIPTION: &str = "filedesc://a.arc 0.0.0.0 20160102030405 text/plain 75\n1 0 InternetArchive\nURL IP-address Archive-date Content-type Archive-length\n\n";

/// Creates the header line of a record from its URL and the length of its block.
type Line = fn(&str, i64) -> String;

const HTML: &str = "HTTP/1.0 200 OK\r\nContent-Type: text/html\r\n\r\n";

fn first(url: &str, length: i64) -> String {
    format!("{url} 192.0.2.1 {TIME} text/html {length}\n")
}

pub fn cases() -> Vec<Case> {
    let lines: &[(&str, &'static str, Line)] = &[
        ("version 1", "the ARC file format, version 1", first),
        (
            "version 2",
            "the ARC file format, version 2",
            |url, length| format!("{url} 192.0.2.1 {TIME} text/html 200 - - 77 a.arc {length}\n"),
        ),
        (
            "no type",
            "the ARC file format: what has no type",
            |url, length| format!("{url} 192.0.2.1 {TIME} no-type {length}\n"),
        ),
        (
            "a type with a parameter",
            "the Internet Archive in 2004, reported to jwarc",
            |url, length| format!("{url} 192.0.2.1 {TIME} text/html;ISO-8859-1 {length}\n"),
        ),
        (
            "a type with a blank",
            "liveweb, reported to it",
            |url, length| {
                format!("{url} 192.0.2.1 {TIME} text/html, application/x-javascript {length}\n")
            },
        ),
        (
            "an address of IPv6",
            "constructed: an address of IPv6",
            |url, length| format!("{url} 2001:db8::1 {TIME} text/html {length}\n"),
        ),
        (
            "no address",
            "constructed: what came from a proxy",
            |url, length| format!("{url} 0.0.0.0 {TIME} text/html {length}\n"),
        ),
        (
            "a line that ends with CRLF",
            "constructed: a text mode of Windows",
            |url, length| format!("{url} 192.0.2.1 {TIME} text/html {length}\r\n"),
        ),
    ];
    let mut cases: Vec<Case> = lines
        .iter()
        .map(|(name, source, line)| made(name, source, *line, HTML, b"<p>page"))
        .collect();
    for (name, source, end) in [
        ("CRLF", "constructed: a script on Windows", &b"\r\n"[..]),
        (
            "two line ends",
            "proxytrack of HTTrack, reported to it",
            b"\n\n",
        ),
    ] {
        cases.push(Case {
            end,
            ..made(
                &format!("closed by {name}"),
                source,
                first,
                HTML,
                b"<p>page",
            )
        });
    }
    for (name, source, http, payload) in [
        (
            "NCSA 1.5",
            "a file of 1997, reported to warcio",
            "HTTP 200 Document follows\r\nContent-type: text/html\r\n\r\n",
            &b"<p>page"[..],
        ),
        (
            "LF alone",
            "constructed: an old server",
            "HTTP/1.0 200 OK\nContent-Type: text/html\n\n",
            b"<p>page",
        ),
        (
            "bytes that are not text",
            "constructed: a picture",
            HTML,
            b"\x89PNG\r\n\x1a\n\0\xff",
        ),
        (
            "no header of HTTP",
            "HTTP/0.9, reported to webarchive-commons",
            "",
            b"<html><p>one\n\n<p>two\n",
        ),
        ("an empty page", "RFC 9110, 8.6", HTML, b""),
    ] {
        cases.push(made(name, source, first, http, payload));
    }
    let spaces = "http://example.com/lm_form.cfm?no=WEL%20802.02%20(B)";
    cases.push(Case {
        uri: Some(spaces),
        arc: Some(|url, length| first(&url.replace("%20", " "), length)),
        ..made(
            "blanks in the URL",
            "the Internet Archive in 2004, reported to warcio and jwarc",
            first,
            HTML,
            b"<p>page",
        )
    });
    cases.push(Case {
        uri: Some("http://example.com:80/nursery.htm"),
        ..made(
            "a port in the URL",
            "an ARC file of 1997, reported to warcio",
            first,
            HTML,
            b"<p>page",
        )
    });
    // An ARC record at the end of its file, without a line break after it.
    cases.push(Case {
        end: b"",
        ..made(
            "closed by nothing",
            "constructed: the end of a file",
            first,
            HTML,
            b"<p>page",
        )
    });
    cases
}

fn made(name: &str, source: &'static str, line: Line, http: &str, payload: &[u8]) -> Case {
    let is_empty = payload.is_empty();
    Case {
        arc: Some(line),
        block: [http.as_bytes(), payload].concat(),
        end: b"\n",
        right: Some(payload.to_vec()),
        // The digests are added by the server.
        states: [true, true],
        indexed: Some(if is_empty {
            Indexed::Skipped
        } else {
            Indexed::As(sha1(payload))
        }),
        ..case(format!("ARC: {name}"), source)
    }
}
