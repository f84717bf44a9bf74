//! Cases of record headers, and of record types other than responses.

use super::records::{Case, Indexed, PAGE, Rewrite, both, case, sha1, stating};

pub fn cases() -> Vec<Case> {
    let mut cases = headers();
    cases.extend(kinds());
    cases
}

fn headers() -> Vec<Case> {
    let mut cases = Vec::new();
    for (version, source) in [
        ("0.17", "a draft that Heritrix wrote"),
        ("0.18", "a draft that Heritrix wrote"),
        ("1.1", "ISO 28500:2017"),
    ] {
        cases.push(Case {
            version,
            ..case(format!("WARC/{version}"), source)
        });
    }
    let python = "isoformat() of Python";
    for (date, source) in [
        ("2016-01-02T03:04:05.123456Z", "ISO 28500:2017, 5.4"),
        ("2016-01-02T03:04:05.1Z", "ISO 28500:2017, 5.4"),
        ("2016-01-02T03:04:05+00:00", python),
        ("2016-01-02T05:04:05+02:00", python),
        ("2016-01-01T22:34:05-0430", "strftime of C"),
        ("2016-01-02T03:04:05", python),
    ] {
        cases.push(Case {
            date: date.to_owned(),
            fields: both(),
            states: [true, true],
            ..case(format!("date {date}"), source)
        });
    }
    let rewrites: &[(&str, &'static str, Rewrite)] = &[
        ("LF alone", "constructed: a script on Unix", |header| {
            header.replace("\r\n", "\n")
        }),
        (
            "CR CR LF",
            "constructed: a text mode of Windows",
            |header| header.replace("\r\n", "\r\r\n"),
        ),
        (
            "small letters",
            "ISO 28500:2017, 4: names in either case",
            |header| {
                header
                    .replace("WARC-", "warc-")
                    .replace("warc-1.0", "WARC/1.0")
            },
        ),
        ("no blank after the colon", "ISO 28500:2017, 4", |header| {
            header.replace(": ", ":")
        }),
        ("blanks around", "ISO 28500:2017, 4", |header| {
            header.replace(": ", ":  \t")
        }),
        (
            "a blank before the colon",
            "constructed: headers like those of HTTP",
            |header| header.replace(": ", " : "),
        ),
        (
            "brackets",
            "wget since 1.19, reported to nearly all readers",
            |header| {
                header
                    .replace("URI: ", "URI: <")
                    .replace("\r\nWARC-Date", ">\r\nWARC-Date")
            },
        ),
        (
            "a control character",
            "wget 1.17, reported to jwarc",
            |header| header.replace("\r\nWARC-Date", "\r\nX-Note: a\u{1}b\r\nWARC-Date"),
        ),
        ("folded", "ISO 28500:2017, 4", |header| {
            header.replace("\r\nWARC-Date", "\r\nX-Note: a\r\n  b\r\nWARC-Date")
        }),
        (
            "an empty value",
            "constructed: a recorder that does not know it",
            |header| header.replace("\r\nWARC-Date", "\r\nWARC-IP-Address:\r\nWARC-Date"),
        ),
        (
            "fields twice",
            "Nutch of Common Crawl: WARC-Protocol",
            |header| {
                header.replace(
                    "\r\nWARC-Date",
                    "\r\nWARC-Protocol: h2\r\nWARC-Protocol: tls/1.3\r\nWARC-Date",
                )
            },
        ),
        (
            "one length twice",
            "constructed: a header that was copied",
            |header| {
                let length = header
                    .split("\r\n")
                    .find(|line| line.starts_with("Content-Length"))
                    .unwrap();
                header.replace("\r\nWARC-Date", &format!("\r\n{length}\r\nWARC-Date"))
            },
        ),
        (
            "other characters than ASCII",
            "ISO 28500:2017, 4: UTF-8",
            |header| {
                header.replace(
                    "\r\nWARC-Date",
                    "\r\nX-Note: d\u{2019}\u{c9}change\r\nWARC-Date",
                )
            },
        ),
        (
            "no identifier",
            "constructed: a field that must not be missing",
            |header| {
                header
                    .lines()
                    .filter(|line| !line.contains("Record-ID"))
                    .map(|line| format!("{line}\r\n"))
                    .collect()
            },
        ),
        ("the length first", "StormCrawler: any order", |header| {
            let length = header
                .split("\r\n")
                .find(|line| line.starts_with("Content-Length"))
                .unwrap()
                .to_owned();
            let rest = header.replace(&format!("{length}\r\n"), "");
            rest.replacen("\r\n", &format!("\r\n{length}\r\n"), 1)
        }),
        (
            "a type in capitals",
            "ISO 28500:2017, 4: words in either case",
            |header| header.replace("response\r\nWARC-Record", "Response\r\nWARC-Record"),
        ),
        (
            "no media type",
            "reported to warctools and warcio for JavaScript",
            |header| header.replace("Content-Type: application/http; msgtype=response\r\n", ""),
        ),
        (
            "WARC-Truncated",
            "Heritrix and Common Crawl, at their limits",
            |header| header.replace("\r\nWARC-Date", "\r\nWARC-Truncated: length\r\nWARC-Date"),
        ),
    ];
    for (name, source, rewrite) in rewrites {
        cases.push(Case {
            rewrite: *rewrite,
            fields: both(),
            states: [true, true],
            ..case(format!("header: {name}"), source)
        });
    }
    let wrong: &[(&str, &'static str, Rewrite)] = &[
        (
            "a line that is not a field",
            "constructed: two writers in one file",
            |header| header.replace("\r\nWARC-Date", "\r\nno field\r\nWARC-Date"),
        ),
        (
            "a length that is not a number",
            "constructed: a wrong format",
            |header| header.replace("Content-Length: ", "Content-Length: %"),
        ),
        (
            "an unknown version",
            "constructed: a version to come",
            |header| header.replace("WARC/1.0", "WARC/2.0"),
        ),
    ];
    for (name, source, rewrite) in wrong {
        cases.push(Case {
            rewrite: *rewrite,
            fields: both(),
            right: None,
            indexed: Some(Indexed::Unread),
            ..case(format!("header: {name}"), source)
        });
    }
    cases.push(Case {
        rewrite: |header| header.replace("\r\nWARC-Date", "\r\nContent-Length: 7\r\nWARC-Date"),
        fields: both(),
        right: None,
        indexed: Some(Indexed::Unread),
        ..case(
            "header: two lengths that differ",
            "constructed: a header that was copied into another",
        )
    });
    for (uri, source) in [
        (
            "http://example.com/css?family=Open+Sans|Open",
            "WARCreate, reported to it",
        ),
        (
            "http://example.com/\u{2013}1858.jpg",
            "reported to pywb: a URL in UTF-8",
        ),
        (
            "http://example.com/a%20b%zz",
            "constructed: invalid escapes",
        ),
        (
            "HTTP://example.com/Capitals",
            "RFC 3986, 3.1: a scheme in either case",
        ),
        (
            "http://example.com:80/port",
            "an ARC file of 1997, reported to warcio",
        ),
        ("http://example.com/page#part", "constructed: a fragment"),
        ("https://user:pass@example.com/", "RFC 3986, 3.2.1"),
    ] {
        cases.push(Case {
            uri: Some(uri),
            fields: both(),
            states: [true, true],
            ..case(format!("URL {uri}"), source)
        });
    }
    cases
}

/// Returns cases of other record types.
fn kinds() -> Vec<Case> {
    let warcit = "warcit, reported to it: files without the header of HTTP";
    let mut cases = Vec::new();
    for (kind, media, source) in [
        ("resource", Some("text/html"), warcit),
        (
            "resource",
            None,
            "reported to warctools and warcio for JavaScript",
        ),
        ("metadata", Some("application/warc-fields"), "Heritrix"),
        (
            "conversion",
            Some("text/plain"),
            "the text that Common Crawl extracts",
        ),
    ] {
        cases.push(Case {
            kind,
            media,
            block: PAGE.to_vec(),
            fields: stating(sha1(PAGE), sha1(PAGE)),
            states: [true, true],
            indexed: Some(Indexed::Skipped),
            ..case(format!("a {kind} of the type {media:?}"), source)
        });
    }
    for (kind, source) in [
        ("request", "constructed: an index that names the request"),
        ("warcinfo", "constructed: an index that is off by a record"),
        ("x-screenshot", "ISO 28500:2017, 5.5: types to come"),
    ] {
        cases.push(Case {
            kind,
            right: None,
            indexed: Some(Indexed::Skipped),
            ..case(format!("a record of the type {kind}"), source)
        });
    }
    let segment = |number: &str| {
        vec![
            ("WARC-Segment-Number", number.to_owned()),
            ("WARC-Segment-Origin-ID", "<urn:uuid:a>".to_owned()),
        ]
    };
    cases.push(Case {
        kind: "continuation",
        fields: segment("2"),
        right: None,
        indexed: Some(Indexed::Skipped),
        ..case("the second segment of a record", "ISO 28500:2017, 6.9")
    });
    let mut fields = segment("1");
    fields.truncate(1);
    fields.push(("WARC-Payload-Digest", sha1(b"all of the page")));
    cases.push(Case {
        fields,
        right: None,
        ..case(
            "the first segment of a record",
            "ISO 28500:2017, 7: the digest is that of the whole payload",
        )
    });
    cases
}
