//! URLs with `{url}`, `{timestamp}` and `{coll}` in them.

use std::borrow::Cow;

use crawlspace_index::spelling::as_requested;
use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, utf8_percent_encode};

/// What a value in a query must not have as it is.
const IN_QUERY: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');
/// A URL in a path is left as it is, as replay servers expect it, but for what would end the path.
const IN_PATH: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'#')
    .add(b'"')
    .add(b'<')
    .add(b'>')
    .add(b'\\');

/// Why a URL cannot be asked for.
pub(super) const NO_STEPS: &str =
    "the URL has . or .. in its path, which would lead elsewhere in the path of the archive";

/// What is put in.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Values<'a> {
    /// `{url}`.
    pub url: &'a str,
    /// `{timestamp}`; empty when there is none.
    pub timestamp: &'a str,
    /// `{coll}`.
    pub collection: &'a str,
}

/// A URL that values are put into.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    /// What stands before each `{…}`, and its name.
    parts: Vec<(String, Name, bool)>,
    end: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Name {
    Url,
    Timestamp,
    Collection,
}

impl Template {
    /// Reads a template. Braces around an unknown name stay as they are.
    pub(crate) fn new(text: &str) -> Template {
        let mut parts = Vec::new();
        let mut rest = text;
        let mut before = String::new();
        let mut in_query = false;
        while let Some((plain, after)) = rest.split_once('{') {
            before.push_str(plain);
            in_query |= plain.contains('?');
            let named = after.split_once('}').and_then(|(name, after)| {
                let name = match name {
                    "url" => Name::Url,
                    "timestamp" | "closest" => Name::Timestamp,
                    "coll" => Name::Collection,
                    _ => return None,
                };
                Some((name, after))
            });
            match named {
                Some((name, after)) => {
                    parts.push((std::mem::take(&mut before), name, in_query));
                    rest = after;
                }
                None => {
                    before.push('{');
                    rest = after;
                }
            }
        }
        before.push_str(rest);
        Template { parts, end: before }
    }

    /// Whether a URL is put in.
    pub(crate) fn has_url(&self) -> bool {
        self.parts.iter().any(|(_, name, _)| *name == Name::Url)
    }

    /// The URL with these values. `None` where a URL in the path has `.` or `..` that would lead out of the place.
    pub(crate) fn fill(&self, values: Values<'_>) -> Option<String> {
        let mut filled = String::new();
        for (before, name, in_query) in &self.parts {
            filled.push_str(before);
            let (value, in_path) = match name {
                Name::Url if *in_query => (values.url.into(), IN_QUERY),
                Name::Url => (in_path(values.url)?, IN_PATH),
                Name::Timestamp => (values.timestamp.into(), IN_QUERY),
                Name::Collection => (values.collection.into(), IN_QUERY),
            };
            let escaped = if *in_query { IN_QUERY } else { in_path };
            filled.extend(utf8_percent_encode(&value, escaped));
        }
        filled.push_str(&self.end);
        Some(filled)
    }
}

/// The URL as it may stand in a path. Whoever parses the whole resolves dots in it, and takes backslashes for slashes: these
/// are resolved before. `None` where that cannot be done.
fn in_path(url: &str) -> Option<Cow<'_, str>> {
    if !has_steps(url) {
        return Some(url.into());
    }
    let resolved = String::from(as_requested(url)?);
    (!has_steps(&resolved)).then(|| resolved.into())
}

/// Whether a part of a path stands for a folder or the one above it, or backslashes may hide such a part. A fragment is a
/// part of the path that the URL is put into, where its sign is escaped.
fn has_steps(url: &str) -> bool {
    let path = url.split('?').next().unwrap_or_default();
    let is_ignored = |c: char| matches!(c, '\t' | '\n' | '\r');
    path.contains('\\')
        || path.contains(is_ignored)
        || path.split('/').any(|part| {
            let part = part.to_ascii_lowercase().replace("%2e", ".");
            matches!(&*part, "." | "..")
        })
}

/// The parameters of a query, of which some may be there already.
pub(super) struct Parameters {
    /// The URL before the query.
    place: String,
    /// Names and values as they are written.
    pairs: Vec<(String, String)>,
}

impl Parameters {
    /// Those of a URL. Of `closest=` without a moment, which not every server knows what to do with, nothing is left.
    pub(crate) fn of(url: &str) -> Parameters {
        let (place, query) = url.split_once('?').unwrap_or((url, ""));
        let query = query.split('#').next().unwrap_or_default();
        let pairs = query
            .split('&')
            .filter(|pair| !pair.is_empty())
            .map(|pair| {
                let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                (name.to_owned(), value.to_owned())
            });
        let mut parameters = Parameters {
            place: place.to_owned(),
            pairs: pairs.collect(),
        };
        let is_empty = |pair: &(String, String)| pair.0 == "closest" && pair.1.is_empty();
        if parameters.pairs.iter().any(is_empty) {
            let by_closest = ("sort".to_owned(), "closest".to_owned());
            parameters
                .pairs
                .retain(|pair| !is_empty(pair) && *pair != by_closest);
        }
        parameters
    }

    /// Whether there is one of that name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.pairs.iter().any(|(other, _)| other == name)
    }

    /// Adds one, beside any others of that name.
    pub(crate) fn add(&mut self, name: &str, value: &str) {
        let value = utf8_percent_encode(value, IN_QUERY).to_string();
        self.pairs.push((name.to_owned(), value));
    }

    /// Adds one, unless there is one of that name.
    pub(crate) fn add_new(&mut self, name: &str, value: &str) {
        if !self.has(name) {
            self.add(name, value);
        }
    }

    /// Puts one, written as it is, in place of all others of that name.
    pub(crate) fn set_written(&mut self, name: &str, value: &str) {
        self.pairs.retain(|(other, _)| other != name);
        self.pairs.push((name.to_owned(), value.to_owned()));
    }

    /// The URL.
    pub(crate) fn url(&self) -> String {
        let mut url = self.place.clone();
        for (i, (name, value)) in self.pairs.iter().enumerate() {
            url.push(if i == 0 { '?' } else { '&' });
            url.push_str(name);
            url.push('=');
            url.push_str(value);
        }
        url
    }
}

#[cfg(test)]
mod tests {
    use redis_tests::Rng;

    use super::*;

    #[test]
    fn values_are_escaped_as_their_place_needs_it() {
        let values = Values {
            url: "http://a.com/x y?b=c&d=é#e",
            timestamp: "2016",
            collection: "a b",
        };
        for (template, filled) in [
            (
                "http://h/web/{timestamp}id_/{url}",
                "http://h/web/2016id_/http://a.com/x%20y?b=c&d=%C3%A9%23e",
            ),
            (
                "http://h/cdx?url={url}&closest={closest}",
                "http://h/cdx?url=http%3A%2F%2Fa.com%2Fx%20y%3Fb%3Dc%26d%3D%C3%A9%23e&closest=2016",
            ),
            ("http://h/{coll}/{other}/{", "http://h/a%20b/{other}/{"),
            ("http://h/", "http://h/"),
        ] {
            assert_eq!(
                Template::new(template).fill(values).as_deref(),
                Some(filled)
            );
        }
    }

    #[test]
    fn a_url_does_not_lead_out_of_its_place() {
        let template = Template::new("http://h/web/{timestamp}id_/{url}");
        let parts = [
            "http://", "a.com", "/", "/", "..", ".", "%2e", "%2E", "\\", "?", "#", "x", "@", "a:",
            "\t", "urn:", ":80",
        ];
        let mut rng = Rng::new("a_url_does_not_lead_out_of_its_place");
        let mut filled = 0;
        for n in 0..100_000 {
            let mut url = if n % 2 == 0 { "http://a.com/" } else { "" }.to_owned();
            for _ in 0..rng.below(9) {
                url.push_str(rng.pick::<&str>(&parts));
            }
            let values = Values {
                url: &url,
                timestamp: "2016",
                collection: "c",
            };
            let Some(whole) = template.fill(values) else {
                continue;
            };
            filled += 1;
            let parsed = url::Url::parse(&whole).unwrap();
            assert!(
                parsed.as_str().starts_with("http://h/web/2016id_/"),
                "{url:?}: {parsed}"
            );
            // The archive sees the URL that a browser would request.
            if let (true, Some(requested)) = (has_steps(&url), as_requested(&url)) {
                let seen = &parsed.as_str()["http://h/web/2016id_/".len()..];
                let path = |url: &str| url.split('?').next().map(str::to_owned);
                assert_eq!(path(seen), path(requested.as_str()), "{url:?}");
            }
        }
        assert!(filled > 50_000);
        for (url, filled) in [
            (":80a.com#/../..", None),
            (
                "http://a.com/b#/../..",
                Some("http://h/web/2016id_/http://a.com/b"),
            ),
            (
                "http://a.com/b#c",
                Some("http://h/web/2016id_/http://a.com/b%23c"),
            ),
        ] {
            let values = Values {
                url,
                timestamp: "2016",
                collection: "c",
            };
            assert_eq!(template.fill(values).as_deref(), filled, "{url}");
        }
    }

    #[test]
    fn given_parameters_are_kept() {
        let mut parameters = Parameters::of("http://h/cdx?closest=&a=%20&sort=closest&url=x#f");
        parameters.add_new("url", "y");
        parameters.add_new("matchType", "exact");
        parameters.add("filter", "=status:200");
        parameters.set_written("a", "a%2Cb+c");
        assert_eq!(
            parameters.url(),
            "http://h/cdx?url=x&matchType=exact&filter=%3Dstatus%3A200&a=a%2Cb+c"
        );
        assert_eq!(Parameters::of("http://h/cdx").url(), "http://h/cdx");
        let kept = "http://h/cdx?closest=2016&sort=closest";
        assert_eq!(Parameters::of(kept).url(), kept);
    }
}
