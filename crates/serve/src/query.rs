//! What a request to the index asks for.

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

/// The parameters of a query, read and checked once.
#[derive(Clone, Debug)]
pub struct Query {
    /// The URL without the `*` of a wildcard, with a scheme.
    pub url: String,
    /// Which URLs match.
    pub match_type: MatchType,
    /// Their urlkeys.
    pub keys: KeyRange,
    /// Keys of other spellings under which their captures may lie.
    pub(crate) aliases: Arc<Aliases>,
    /// The first second that counts.
    pub from: Option<Timestamp>,
    /// The last second that counts.
    pub to: Option<Timestamp>,
    /// The order of the answer; for [`Order::Closest`], the moment.
    pub order: Order,
    /// The moment of `closest`: of fewer than 14 digits, the last second that is meant.
    pub closest: Option<Timestamp>,
    /// Maximum number of rows in the answer.
    pub limit: Option<u64>,
    /// Filters that rows are read for.
    pub filters: Vec<RowFilter>,
    /// Filters that a row is read for as the Internet Archive's dialect shows it.
    pub(crate) shown_filters: Vec<ShownFilter>,
    /// Filters by tags, which a tag space answers.
    pub tag_filters: Vec<String>,
    /// Only these fields, in that order; a field may be there more than once.
    pub fields: Option<Vec<String>>,
    /// How rows are written.
    pub output: Output,
    /// `collapse`, in the order of the request, or `collapseToLast`. A row that one of them drops is dropped.
    pub collapse: Vec<Collapse>,
    /// Compares values for `collapse` as the Internet Archive's dialect shows them.
    pub(crate) collapse_as_shown: bool,
    /// Whether of rows with the same value the last one stays, not the first.
    pub collapse_to_last: bool,
    /// `collapseTime`: the number of digits of the timestamp that are compared, with the status, as pywb does it.
    pub collapse_time: Option<usize>,
    /// Whether revisits get `orig.length`, `orig.offset` and `orig.filename`.
    pub resolve_revisits: bool,
    /// Whether captures that only lead to their own URL are left out.
    pub omit_self_redirects: bool,
    /// How many rows are left out at the beginning.
    pub offset: u64,
    /// Which page, from 0.
    pub page: Option<u64>,
    /// How large a page is.
    pub page_size: Option<u64>,
    /// How many rows a page has where nothing is said and pages are of rows.
    pub(crate) default_page: u64,
    /// Only the number of pages is wanted.
    pub show_num_pages: bool,
    /// Gives blocks with rows in place of rows; for sources that have blocks.
    pub show_paged_index: bool,
    /// Which sources are asked.
    pub sources: Selection,
    /// The access point.
    pub point: Option<String>,
    /// Whether rows do not say where they come from.
    pub no_source: bool,
    /// Whether a record is compressed on its way.
    pub compress: bool,
    /// Whether similar URLs are looked for when there is no row; `None` when that is not said.
    pub fuzzy: Option<bool>,
    /// Only rows whose urlkey is this one when what differs between similar URLs is left out of it.
    pub similar_to: Option<Arc<str>>,
    /// Parameters without an effect, by their names.
    pub ignored: Vec<String>,
}

/// How many rows a page has, unless it is said.
pub(crate) const PAGE: u64 = 1000;
/// How many blocks it has, of a source that is made of blocks.
pub(crate) const PAGE_OF_BLOCKS: u64 = 10;
/// The URL with `http://` before it, when it has no scheme: `example.com`, `localhost:8080/a`.
pub(crate) fn absolute(url: &str) -> Cow<'_, str> {
    let begin = url.split(['/', '?', '#']).next().unwrap_or_default();
    match begin.split_once(':') {
        Some((_, port)) if port.is_empty() || !port.bytes().all(|byte| byte.is_ascii_digit()) => {
            url.into()
        }
        _ => format!("http://{url}").into(),
    }
}

/// Writes a regular expression, in Java's syntax, that matches exactly this text.
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
    /// Reads parameters, in the order of the request. Of a parameter that is there more than once the last one counts;
    /// `filter` and `collapse` all count. Unknown ones are named in [`ignored`](Query::ignored), since other servers of this kind have more.
    ///
    /// # Errors
    /// When `url` is missing, a parameter is wrong, or one is there that asks for other rows than it would get.
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

    /// Makes the query one about other URLs.
    ///
    /// # Errors
    /// When it is no URL.
    pub(crate) fn aim(&mut self, url: String, match_type: MatchType) -> Result<(), BadUrl> {
        self.keys = surt::range(&url, match_type)?;
        self.aliases = Arc::new(Aliases::of(&url, match_type));
        self.url = url;
        self.match_type = match_type;
        Ok(())
    }

    /// The query for this URL, with nothing else said.
    ///
    /// # Errors
    /// When it is no URL.
    pub fn of_url(url: &str) -> Result<Query, BadQuery> {
        Query::parse([("url", url)], None)
    }

    /// Whether what sources give is put into another order, or needs all of it to be seen from the first capture on:
    /// then sources are asked for rows in ascending order.
    pub(crate) fn needs_ascending(&self) -> bool {
        !self.collapse.is_empty() || self.collapse_time.is_some() || self.resolve_revisits
    }

    /// How many rows a page has, where pages are of rows.
    pub(crate) fn rows_of_page(&self) -> u64 {
        self.page_size.unwrap_or(self.default_page)
    }

    /// How many rows are left out before the first one.
    pub(crate) fn skipped(&self) -> u64 {
        let size = self.rows_of_page();
        let before = self.page.unwrap_or(0).saturating_mul(size);
        before.saturating_add(self.offset)
    }

    /// How many rows there are at most.
    pub(crate) fn wanted(&self) -> Option<u64> {
        let page = self.page.map(|_| self.rows_of_page());
        [page, self.limit].into_iter().flatten().min()
    }

    /// Whether every row that a source gives is a row of the answer, until there are enough.
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

/// A filter and how it was written, for servers that understand it.
#[derive(Clone, Debug)]
pub struct RowFilter {
    /// A filter of the request, in pywb's dialect.
    pub text: String,
    /// The parsed filter.
    pub filter: Arc<Filter>,
}

/// How rows are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Output {
    /// `urlkey timestamp {json}`.
    #[default]
    Cdxj,
    /// A JSON object a line.
    Json,
    /// Values, with spaces between them.
    Text,
    /// A TimeMap (RFC 7089, section 5).
    Link,
}

/// Which sources of a group are asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Selection {
    /// All sources.
    #[default]
    All,
    /// The sources of these names.
    Only(Vec<String>),
    /// All but these.
    Except(Vec<String>),
}

impl Selection {
    /// Reads `sources=`: `a,b` are these, `!a,b` all but these, `*` and nothing are all.
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

    /// Whether a source of that name is asked.
    pub(crate) fn includes(&self, name: &str) -> bool {
        match self {
            Selection::All => true,
            Selection::Only(names) => names.iter().any(|one| one == name),
            Selection::Except(names) => !names.iter().any(|one| one == name),
        }
    }
}

/// A parameter is missing or wrong. The text names it and says what to do.
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
    fn a_star_says_what_matches() {
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
    fn closest_asks_for_that_order_whatever_else_is_said() {
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
    fn moments_are_padded() {
        let query = parse("url=a.com&from=201602&to=201602").unwrap();
        assert_eq!(query.from.unwrap().to_string(), "20160201000000");
        assert_eq!(query.to.unwrap().to_string(), "20160229235959");
        assert_eq!(
            parse("url=a.com&to=20").unwrap().to.unwrap().to_string(),
            "20991231235959"
        );
    }

    #[test]
    fn months_and_days_of_zero_are_before_the_first() {
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
    fn a_limit_of_zero_is_none_in_ascending_order() {
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
    fn tags_are_told_from_other_filters() {
        let query = parse("url=a.com&filter=status:200&filter=!tag.coll:7&filter=").unwrap();
        assert_eq!(query.tag_filters, ["!tag.coll:7"]);
        assert_eq!(query.filters.len(), 1);
        assert!(!query.keeps_all());
    }

    #[test]
    fn fields_stay_as_they_are_listed() {
        let fields = parse("url=a.com&fl=url,status,,url").unwrap().fields;
        assert_eq!(fields.unwrap(), ["url", "status", "url"]);
    }

    #[test]
    fn what_is_wrong_is_named() {
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
    fn what_has_no_effect_is_named_once() {
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
    fn a_media_type_is_a_filter() {
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
    fn sources_are_some_or_all_but_some() {
        let of = |text: &str| parse(text).unwrap().sources;
        assert_eq!(of("url=a.com"), Selection::All);
        assert!(of("url=a.com&sources=a,b").includes("b"));
        assert!(!of("url=a.com&sources=a,b").includes("c"));
        assert!(!of("url=a.com&sources=!a,b").includes("b"));
    }
}
