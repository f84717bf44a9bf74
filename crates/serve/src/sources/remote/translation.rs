//! Translates filters into the dialects of other servers.
//!
//! A filter is sent to a server only if the server keeps at least the rows that this server keeps,
//! because this server applies the filter again.

use crawlspace_cdx::{Field, Format, Line, Read};

use crate::config::Dialect;
use crate::query::{RowFilter, literally};

/// Names of fields: here, in pywb, and in the two other dialects.
const NAMES: [(&[u8], &str, &str); 5] = [
    (b"url", "url", "original"),
    (b"mime", "mime", "mimetype"),
    (b"status", "status", "statuscode"),
    (b"digest", "digest", "digest"),
    (b"timestamp", "timestamp", "timestamp"),
];
/// Values that servers use for a missing value, which is empty here.
const NOTHING: [&str; 2] = ["-", "0"];

/// Translates a filter. Returns `None` if the server may interpret it differently.
pub(super) fn translated(filter: &RowFilter, dialect: Dialect) -> Option<String> {
    let field = filter.filter.field()?;
    let (_, of_pywb, of_others) = NAMES.iter().find(|(name, ..)| *name == field.name())?;
    if !keeps_nothing(filter, field) {
        return None;
    }
    let (negated, rest) = match filter.text.strip_prefix('!') {
        Some(rest) => ("!", rest),
        None => ("", filter.text.as_str()),
    };
    let (operator, rest) = match rest.as_bytes() {
        [b'=' | b'~', ..] => rest.split_at(1),
        _ => ("", rest),
    };
    let (_, value) = rest.split_once(':')?;
    // Java and Python count in characters, and differ in which non-ASCII characters are digits or letters.
    if !value.is_ascii() || value.bytes().any(|byte| byte.is_ascii_control()) {
        return None;
    }
    if dialect == Dialect::Pywb {
        let is_same = operator != "~" || is_simple(value);
        return is_same.then(|| format!("{negated}{operator}{of_pywb}:{value}"));
    }
    match operator {
        "" => Some(format!("~{negated}{of_others}:{value}")),
        "=" => Some(format!("{negated}{of_others}:{}", literally(value))),
        _ => is_simple(value).then(|| format!("{negated}{of_others}:(?:{value}).*")),
    }
}

/// Returns whether the filter treats missing values in the same way on servers: if it keeps them here, it must also
/// keep the values that servers use for missing values.
fn keeps_nothing(filter: &RowFilter, field: &Field) -> bool {
    let keeps = |value: &str| {
        let name = String::from_utf8_lossy(field.name());
        let line = format!("k 2016 {{\"{name}\": \"{value}\"}}");
        match Line::read(line.as_bytes(), Format::Cdxj) {
            Ok(Read::Capture(line)) => filter.filter.passes(&line, &mut |_| false).unwrap_or(false),
            _ => false,
        }
    };
    // A timestamp is never missing.
    *field == Field::Timestamp || !keeps("") || NOTHING.iter().all(|value| keeps(value))
}

/// Returns whether all regex engines agree on a pattern: characters, dots, alternatives, and repeated characters.
fn is_simple(pattern: &str) -> bool {
    let mut can_repeat = false;
    for byte in pattern.bytes() {
        can_repeat = match byte {
            b'*' | b'+' | b'?' if can_repeat => false,
            b'|' => false,
            b'.' | b'/' | b'-' | b'_' | b':' | b',' | b'=' | b'%' | b'~' => true,
            _ if byte.is_ascii_alphanumeric() => true,
            _ => return false,
        };
    }
    true
}

#[cfg(test)]
mod tests {
    use crate::query::Query;

    use super::*;

    fn of(text: &str, dialect: Dialect) -> Option<String> {
        let query = Query::parse([("url", "http://a.com/"), ("filter", text)], None).unwrap();
        translated(&query.filters[0], dialect)
    }

    #[test]
    fn filter_is_translated_for_the_server() {
        use Dialect::{Ia, Outback, Pywb};
        for (text, pywb, others) in [
            ("=status:200", Some("=status:200"), Some("statuscode:200")),
            (
                "!=mime:text/html",
                Some("!=mime:text/html"),
                Some("!mimetype:text\\/html"),
            ),
            ("statuscode:2", Some("status:2"), Some("~statuscode:2")),
            ("!original:a&b", Some("!url:a&b"), Some("~!original:a&b")),
            (
                "~mime:image/.*|video",
                Some("~mime:image/.*|video"),
                Some("mimetype:(?:image/.*|video).*"),
            ),
            ("!~status:[45]..", None, None),
            ("~status:4++", None, None),
            ("~status:*", None, None),
            // A missing status may be "-" on another server.
            ("!status:-", None, None),
            ("!~status:.", None, None),
            ("=status:", None, None),
            (
                "!=status:200",
                Some("!=status:200"),
                Some("!statuscode:200"),
            ),
            ("=languages:eng", None, None),
            ("=filename:a", None, None),
            ("=source:a", None, None),
            ("urlkey:com", None, None),
            ("html", None, None),
            ("url:é", None, None),
        ] {
            // Some of the filters are invalid in a query.
            let is_query = Query::parse([("url", "http://a.com/"), ("filter", text)], None).is_ok();
            if is_query {
                assert_eq!(of(text, Pywb).as_deref(), pywb, "{text}");
                assert_eq!(of(text, Outback).as_deref(), others, "{text}");
                assert_eq!(of(text, Ia).as_deref(), others, "{text}");
            }
        }
    }

    #[test]
    fn translated_filter_keeps_the_same_rows() {
        let dialects = [
            (Dialect::Pywb, crawlspace_cdx::Dialect::Pywb),
            (Dialect::Outback, crawlspace_cdx::Dialect::Outback),
            (Dialect::Ia, crawlspace_cdx::Dialect::Ia),
        ];
        let values = [
            "",
            "-",
            "0",
            "200",
            "2",
            "404",
            "text/html",
            "image/png",
            "a.b",
            "axb",
            "http://a.com/x",
        ];
        let mut sent = 0;
        for operator in ["", "=", "~", "!", "!=", "!~"] {
            for field in ["status", "mime", "url"] {
                for value in [
                    "",
                    "200",
                    "2.",
                    "-",
                    "a.b",
                    "text/html|image",
                    "..+",
                    "0",
                    "http://a.com/",
                ] {
                    let text = format!("{operator}{field}:{value}");
                    let Ok(query) = Query::parse([("url", "a.com"), ("filter", &text)], None)
                    else {
                        continue;
                    };
                    let filter = &query.filters[0];
                    for (dialect, read) in dialects {
                        let Some(there) = translated(filter, dialect) else {
                            continue;
                        };
                        sent += 1;
                        let limits = crawlspace_cdx::Limits::default();
                        let there =
                            crawlspace_cdx::Filter::parse(there.as_bytes(), read, limits).unwrap();
                        for value in values {
                            let passes = |filter: &crawlspace_cdx::Filter, value: &str| {
                                let line = format!("k 2016 {{\"{field}\": \"{value}\"}}");
                                let Ok(Read::Capture(line)) =
                                    Line::read(line.as_bytes(), Format::Cdxj)
                                else {
                                    panic!("{line}");
                                };
                                filter.passes(&line, &mut |_| false).unwrap()
                            };
                            let nothing = ["", "-", "0"].contains(&value);
                            let here = passes(&filter.filter, if nothing { "" } else { value });
                            assert!(
                                !here || passes(&there, value),
                                "{text} {dialect:?} {value:?}"
                            );
                        }
                    }
                }
            }
        }
        assert!(sent > 100, "{sent}");
    }
}
