//! URL templates with `{url}`, `{timestamp}` and `{coll}`.

use std::borrow::Cow;

use crawlspace_index::spelling::as_requested;
use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, utf8_percent_encode};

/// Characters escaped in a query value.
const IN_QUERY: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');
/// Characters escaped in a path: only those that would end the path, since replay servers expect the URL unescaped.
const IN_PATH: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'#')
    .add(b'"')
    .add(b'<')
    .add(b'>')
    .add(b'\\');

/// Error message for a URL that cannot be requested.
pub(super) const NO_STEPS: &str =
    "the URL has . or .. in its path, which would change the path of the archive's URL";

/// Values of placeholders.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Values<'a> {
    /// `{url}`.
    pub url: &'a str,
    /// `{timestamp}`; may be empty.
    pub timestamp: &'a str,
    /// `{coll}`.
    pub collection: &'a str,
}

/// A parsed URL template.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    /// The text before each placeholder, its name, and whether it is in the query.
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
    /// Parses a template. Unknown names in braces are kept.
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

    /// Returns whether the template contains `{url}`.
    pub(crate) fn has_url(&self) -> bool {
        self.parts.iter().any(|(_, name, _)| *name == Name::Url)
    }

    /// Fills in values. Returns `None` if a URL in the path has `.` or `..` components that cannot be resolved.
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

/// Normalizes a URL that becomes part of a path: resolves its dot segments and backslashes, because URL parsers would
/// resolve them in the combined URL. Returns `None` if that is impossible.
fn in_path(url: &str) -> Option<Cow<'_, str>> {
    if !has_steps(url) {
        return Some(url.into());
    }
    let resolved = String::from(as_requested(url)?);
    (!has_steps(&resolved)).then(|| resolved.into())
}

/// Returns whether a path has `.` or `..` components, or characters that may hide them. The fragment counts as part of
/// the path, since its `#` is escaped when the URL becomes part of a path.
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

/// Parameters of a query, including those of a template.
pub(super) struct Parameters {
    /// URL before the query.
    place: String,
    /// Names and escaped values.
    pairs: Vec<(String, String)>,
}

impl Parameters {
    /// Parses the parameters of a URL. An empty `closest=` is removed, since not every server accepts it.
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

    /// Returns whether a parameter exists.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.pairs.iter().any(|(other, _)| other == name)
    }

    /// Adds a parameter, even if it exists.
    pub(crate) fn add(&mut self, name: &str, value: &str) {
        let value = utf8_percent_encode(value, IN_QUERY).to_string();
        self.pairs.push((name.to_owned(), value));
    }

    /// Adds a parameter unless it exists.
    pub(crate) fn add_new(&mut self, name: &str, value: &str) {
        if !self.has(name) {
            self.add(name, value);
        }
    }

    /// Replaces a parameter by an already escaped value.
    pub(crate) fn set_written(&mut self, name: &str, value: &str) {
        self.pairs.retain(|(other, _)| other != name);
        self.pairs.push((name.to_owned(), value.to_owned()));
    }

    /// Returns the URL.
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
    fn values_are_escaped_for_their_position() {
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
    fn url_cannot_leave_its_position() {
        let template = Template::new("http://h/web/{timestamp}id_/{url}");
        let parts = [
            "http://", "a.com", "/", "/", "..", ".", "%2e", "%2E", "\\", "?", "#", "x", "@", "a:",
            "\t", "urn:", ":80",
        ];
        let mut rng = Rng::new("url_cannot_leave_its_position");
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
