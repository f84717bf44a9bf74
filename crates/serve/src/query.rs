//! Queries to the index: parsed and validated request parameters.

pub(crate) mod given;

use std::borrow::Cow;
use std::sync::Arc;

use crawlspace_cdx::surt::{self, BadUrl, KeyRange, MatchType};
use crawlspace_cdx::{Collapse, Filter};

use self::given::Given;
use crate::shown::ShownFilter;

use crawlspace_index::Aliases;
use crawlspace_index::sorted::Order;
use crawlspace_index::timestamp::Timestamp;

/// A parsed and validated query.
#[derive(Clone, Debug)]
pub struct Query {
    /// URL with a scheme, without the `*` of a wildcard.
    pub url: String,
    /// Scope of the match.
    pub match_type: MatchType,
    /// Range of urlkeys that match.
    pub keys: KeyRange,
    /// Keys in other forms under which captures may be indexed.
    pub(crate) aliases: Arc<Aliases>,
    /// Start of the time range, inclusive.
    pub from: Option<Timestamp>,
    /// End of the time range, inclusive.
    pub to: Option<Timestamp>,
    /// Order of the answer, with the timestamp of [`Order::Closest`].
    pub order: Order,
    /// Timestamp of `closest`; a shortened timestamp denotes its last second.
    pub closest: Option<Timestamp>,
    /// Maximum number of rows in the answer.
    pub limit: Option<u64>,
    /// Filters on fields of rows.
    pub filters: Vec<RowFilter>,
    /// Filters on values as the Internet Archive's dialect shows them.
    pub(crate) shown_filters: Vec<ShownFilter>,
    /// Filters by tags, evaluated by the tag space.
    pub tag_filters: Vec<String>,
    /// Fields of the answer, in order; a field may be repeated. `None` for all fields.
    pub fields: Option<Vec<String>>,
    /// Format of rows.
    pub output: Output,
    /// `collapse`, in the order of the request, or `collapseToLast`. A row dropped by any of them is dropped.
    pub collapse: Vec<Collapse>,
    /// Makes `collapse` compare values as the Internet Archive's dialect shows them.
    pub(crate) collapse_as_shown: bool,
    /// Keeps the last of the rows with the same value instead of the first.
    pub collapse_to_last: bool,
    /// `collapseTime`: number of timestamp digits to compare, together with the status, as in pywb.
    pub collapse_time: Option<usize>,
    /// Adds `orig.length`, `orig.offset` and `orig.filename` to revisits.
    pub resolve_revisits: bool,
    /// Drops captures that redirect to their own URL.
    pub omit_self_redirects: bool,
    /// Number of rows to skip at the beginning.
    pub offset: u64,
    /// Page number, from 0.
    pub page: Option<u64>,
    /// Page size, in rows or blocks.
    pub page_size: Option<u64>,
    /// Default page size, in rows.
    pub(crate) default_page: u64,
    /// Returns only the number of pages.
    pub show_num_pages: bool,
    /// Returns blocks instead of rows; only for sources with blocks.
    pub show_paged_index: bool,
    /// Selected sources.
    pub sources: Selection,
    /// Access point of the reader.
    pub point: Option<String>,
    /// Omits the source fields from rows.
    pub no_source: bool,
    /// Compresses records in transfer.
    pub compress: bool,
    /// Looks for similar URLs if there are no rows; `None` if the request does not specify it.
    pub fuzzy: Option<bool>,
    /// Keeps only rows whose urlkey equals this urlkey after the removal of volatile parts.
    pub similar_to: Option<Arc<str>>,
    /// Names of parameters without an effect.
    pub ignored: Vec<String>,
}

/// Default page size, in rows.
pub(crate) const PAGE: u64 = 1000;
/// Default page size of sources with blocks, in blocks.
pub(crate) const PAGE_OF_BLOCKS: u64 = 10;
/// Prepends `http://` to a URL without a scheme: `example.com`, `localhost:8080/a`.
pub(crate) fn absolute(url: &str) -> Cow<'_, str> {
    let begin = url.split(['/', '?', '#']).next().unwrap_or_default();
    match begin.split_once(':') {
        Some((_, port)) if port.is_empty() || !port.bytes().all(|byte| byte.is_ascii_digit()) => {
            url.into()
        }
        _ => format!("http://{url}").into(),
    }
}

/// Returns a regular expression in Java's syntax that matches exactly this string.
pub(crate) fn literally(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len() + 4);
    for c in text.chars() {
        if c.is_ascii() && !c.is_ascii_alphanumeric() {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern
}

impl Query {
    /// Parses parameters, in the order of the request. If a parameter is repeated, the last value is used, but the
    /// values of `filter` and `collapse` accumulate. Unknown parameters, which other CDX servers may know, are listed in
    /// [`ignored`](Query::ignored).
    ///
    /// # Errors
    /// Fails if `url` is missing, a parameter is invalid, or an unsupported parameter would change
    /// the rows.
    pub fn parse<'a>(
        parameters: impl IntoIterator<Item = (&'a str, &'a str)>,
        point: Option<&str>,
    ) -> Result<Query, BadQuery> {
        let mut given = Given::default();
        for (name, value) in parameters {
            given.take(name, value);
        }
        given.read(point)
    }

    /// Changes the URL of the query.
    ///
    /// # Errors
    /// Fails if the URL is invalid.
    pub(crate) fn aim(&mut self, url: String, match_type: MatchType) -> Result<(), BadUrl> {
        self.keys = surt::range(&url, match_type)?;
        self.aliases = Arc::new(Aliases::of(&url, match_type));
        self.url = url;
        self.match_type = match_type;
        Ok(())
    }

    /// Creates a query for this URL with default parameters.
    ///
    /// # Errors
    /// Fails if the URL is invalid.
    pub fn of_url(url: &str) -> Result<Query, BadQuery> {
        Query::parse([("url", url)], None)
    }

    /// Returns whether operations of the query need the rows in ascending order, starting with the
    /// first capture. Sources must then be queried in that order.
    pub(crate) fn needs_ascending(&self) -> bool {
        !self.collapse.is_empty() || self.collapse_time.is_some() || self.resolve_revisits
    }

    /// Returns the page size in rows.
    pub(crate) fn rows_of_page(&self) -> u64 {
        self.page_size.unwrap_or(self.default_page)
    }

    /// Returns the number of rows to skip.
    pub(crate) fn skipped(&self) -> u64 {
        let size = self.rows_of_page();
        let before = self.page.unwrap_or(0).saturating_mul(size);
        before.saturating_add(self.offset)
    }

    /// Returns the maximum number of rows, if there is one.
    pub(crate) fn wanted(&self) -> Option<u64> {
        let page = self.page.map(|_| self.rows_of_page());
        [page, self.limit].into_iter().flatten().min()
    }

    /// Returns whether the answer keeps all rows of the sources, up to the limit.
    pub(crate) fn keeps_all(&self) -> bool {
        self.filters.is_empty()
            && self.shown_filters.is_empty()
            && self.tag_filters.is_empty()
            && self.point.is_none()
            && self.similar_to.is_none()
            && !self.omit_self_redirects
            && !self.needs_ascending()
    }
}

/// A filter with its original text, which is sent to servers that support the same syntax.
#[derive(Clone, Debug)]
pub struct RowFilter {
    /// Text of the filter in the request, in pywb's dialect.
    pub text: String,
    /// The parsed filter.
    pub filter: Arc<Filter>,
}

/// Format of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Output {
    /// `urlkey timestamp {json}`.
    #[default]
    Cdxj,
    /// JSON objects, one per line.
    Json,
    /// Values separated by spaces.
    Text,
    /// A TimeMap (RFC 7089, section 5).
    Link,
}

/// Selection of the sources of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Selection {
    /// Every source.
    #[default]
    All,
    /// Selects only the sources with these names.
    Only(Vec<String>),
    /// Selects every source except these.
    Except(Vec<String>),
}

impl Selection {
    /// Parses `sources=`: `a,b` selects these, `!a,b` all except these; `*` and an empty string select all.
    pub(crate) fn parse(names: &str) -> Selection {
        let list = |names: &str| {
            let names = names.split(',').map(str::trim);
            let names = names.filter(|name| !name.is_empty());
            names.map(str::to_owned).collect()
        };
        match names.strip_prefix('!') {
            Some(but) => Selection::Except(list(but)),
            None if names.is_empty() || names == "*" => Selection::All,
            None => Selection::Only(list(names)),
        }
    }

    /// Returns whether the selection includes a source.
    pub(crate) fn includes(&self, name: &str) -> bool {
        match self {
            Selection::All => true,
            Selection::Only(names) => names.iter().any(|one| one == name),
            Selection::Except(names) => !names.iter().any(|one| one == name),
        }
    }
}

/// A missing or invalid parameter. The message names it and says what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadQuery(pub String);

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Query, BadQuery> {
        let pairs: Vec<_> = url::form_urlencoded::parse(text.as_bytes()).collect();
        Query::parse(
            pairs.iter().map(|(name, value)| (&name[..], &value[..])),
            None,
        )
    }

    fn order(text: &str) -> String {
        match parse(text).unwrap().order {
            Order::Ascending => "ascending".to_owned(),
            Order::Descending => "descending".to_owned(),
            Order::Closest(moment) => moment.to_string(),
        }
    }

    #[test]
    fn wildcard_determines_the_match_type() {
        for (text, url, match_type) in [
            ("url=http://a.com/", "http://a.com/", MatchType::Exact),
            ("url=http://a.com/x*", "http://a.com/x", MatchType::Prefix),
            ("url=a.com:80/x", "http://a.com:80/x", MatchType::Exact),
            ("url=dns:a.com", "dns:a.com", MatchType::Exact),
            ("url=*.a.com", "http://a.com", MatchType::Domain),
            ("url=*.a.com/*", "http://a.com", MatchType::Domain),
            (
                "url=http://a.com/x*&matchType=exact",
                "http://a.com/x*",
                MatchType::Exact,
            ),
            (
                "url=http://a.com/x&matchType=host",
                "http://a.com/x",
                MatchType::Host,
            ),
        ] {
            let query = parse(text).unwrap();
            assert_eq!(
                (&query.url[..], query.match_type),
                (url, match_type),
                "{text}"
            );
        }
    }

    #[test]
    fn closest_overrides_the_sort_order() {
        assert_eq!(order("url=a.com"), "ascending");
        assert_eq!(order("url=a.com&closest=2016"), "20161231235959");
        assert_eq!(order("url=a.com&closest=2"), "29991231235959");
        assert_eq!(
            order("url=a.com&sort=reverse&closest=2016"),
            "20161231235959"
        );
        assert_eq!(order("url=a.com&sort=reverse"), "descending");
        assert_eq!(order("url=a.com&sort=closest"), "ascending");
        assert_eq!(order("url=a.com&sort=regular"), "ascending");
        assert_eq!(order("url=a.com&reverse=true"), "descending");
        assert_eq!(order("url=a.com&reverse=false"), "ascending");
    }

    #[test]
    fn timestamps_are_padded() {
        let query = parse("url=a.com&from=201602&to=201602").unwrap();
        assert_eq!(query.from.unwrap().to_string(), "20160201000000");
        assert_eq!(query.to.unwrap().to_string(), "20160229235959");
        assert_eq!(
            parse("url=a.com&to=20").unwrap().to.unwrap().to_string(),
            "20991231235959"
        );
    }

    #[test]
    fn month_and_day_zero_precede_the_first() {
        for (from, to, first, last) in [
            ("10101000000", "2016", "10101001000000", "20161231235959"),
            ("20160000", "20160000", "20160101000000", "20151231235959"),
            ("20160300", "20160300", "20160301000000", "20160229235959"),
            ("201600", "2016000", "20160101000000", "20151231235959"),
            (
                "20160015",
                "20160100120000",
                "20160101000000",
                "20151231235959",
            ),
        ] {
            let query = parse(&format!("url=a.com&from={from}&to={to}")).unwrap();
            let text = |moment: Option<Timestamp>| moment.unwrap().to_string();
            assert_eq!(
                (text(query.from), text(query.to)),
                (first.into(), last.into()),
                "{from} {to}"
            );
        }
        assert_eq!(
            parse("url=a.com&to=00000000")
                .unwrap()
                .to
                .unwrap()
                .to_string(),
            "00000101000000"
        );
    }

    #[test]
    fn limit_zero_means_no_limit_in_ascending_order() {
        for (text, limit) in [
            ("limit=0", None),
            ("limit=0&sort=regular", None),
            ("limit=0&closest=2016", Some(0)),
            ("limit=0&sort=reverse", Some(0)),
            ("limit=1", Some(1)),
        ] {
            assert_eq!(
                parse(&format!("url=a.com&{text}")).unwrap().limit,
                limit,
                "{text}"
            );
        }
    }

    #[test]
    fn tag_filters_are_recognized() {
        let query = parse("url=a.com&filter=status:200&filter=!tag.coll:7&filter=").unwrap();
        assert_eq!(query.tag_filters, ["!tag.coll:7"]);
        assert_eq!(query.filters.len(), 1);
        assert!(!query.keeps_all());
    }

    #[test]
    fn fields_keep_their_order() {
        let fields = parse("url=a.com&fl=url,status,,url").unwrap().fields;
        assert_eq!(fields.unwrap(), ["url", "status", "url"]);
    }

    #[test]
    fn invalid_parameters_are_reported() {
        for (text, name) in [
            ("", "url"),
            ("url=", "url"),
            ("url=a.com&matchType=some", "matchType"),
            ("url=a.com&from=x", "from"),
            ("url=a.com&from=201600x", "from"),
            ("url=a.com&to=20161300", "to"),
            ("url=a.com&to=20161301", "to"),
            ("url=a.com&closest=-1", "closest"),
            ("url=a.com&sort=up", "sort"),
            ("url=a.com&limit=-1", "limit"),
            ("url=a.com&filter=~status:(", "filter"),
            ("url=a.com&output=xml", "output"),
            ("url=a.com&collapse=:", "collapse"),
            ("url=a.com&collapseToLast=:", "collapseToLast"),
            (
                "url=a.com&collapseToLast=digest&collapse=digest",
                "collapse",
            ),
            ("url=a.com&omitSelfRedirects=maybe", "omitSelfRedirects"),
            ("url=a.com&offset=-1", "offset"),
            ("url=a.com&compress=br", "compress"),
            ("url=a.com&nosource=maybe", "nosource"),
            ("url=a.com&allowFuzzy=maybe", "allowFuzzy"),
            ("url=a.com&resumeKey=com%2Ca)/", "resumeKey"),
            ("url=a.com&collapseTime=x", "collapseTime"),
            ("url=a.com&resolveRevisits=maybe", "resolveRevisits"),
            ("url=a.com&page=x", "page"),
            ("url=a.com&pageSize=0", "pageSize"),
        ] {
            let BadQuery(message) = parse(text).unwrap_err();
            assert!(message.starts_with(name), "{text}: {message}");
        }
    }

    #[test]
    fn ineffective_parameters_are_reported_once() {
        let query = parse("url=a.com&colour=blue&colour=red&fastLatest=1&showResumeKey=false");
        assert_eq!(query.unwrap().ignored, ["colour", "fastLatest"]);
        let query = parse("url=a.com&showResumeKey=true&resumeKey=");
        assert_eq!(query.unwrap().ignored, ["showResumeKey"]);
        let many: String = (0..100).map(|n| format!("&x{n}=1")).collect();
        let query = parse(&format!("url=a.com{many}")).unwrap();
        assert_eq!(query.ignored.len(), given::MAX_IGNORED);
        let long = parse(&format!("{}=1&url=a.com", "é".repeat(200))).unwrap();
        assert_eq!(long.ignored, ["é".repeat(given::MAX_IGNORED_NAME)]);
    }

    #[test]
    fn media_type_becomes_a_filter() {
        let query = parse("url=a.com&content_type=text/html&filter=status:200").unwrap();
        let texts: Vec<_> = query.filters.iter().map(|one| &one.text[..]).collect();
        assert_eq!(texts, ["status:200", "=mime:text/html"]);
    }

    #[test]
    fn originals_have_a_scheme() {
        for (url, whole) in [
            ("http://a.com", "http://a.com"),
            ("urn:a:b", "urn:a:b"),
            ("a.com/?b=http://c", "http://a.com/?b=http://c"),
            ("a.com:8080/", "http://a.com:8080/"),
            ("a.com", "http://a.com"),
        ] {
            assert_eq!(absolute(url), whole);
        }
    }

    #[test]
    fn sources_are_included_or_excluded() {
        let of = |text: &str| parse(text).unwrap().sources;
        assert_eq!(of("url=a.com"), Selection::All);
        assert!(of("url=a.com&sources=a,b").includes("b"));
        assert!(!of("url=a.com&sources=a,b").includes("c"));
        assert!(!of("url=a.com&sources=!a,b").includes("b"));
    }
}
