//! Parses the raw parameters of a request.

use std::borrow::Cow;
use std::sync::Arc;

use crawlspace_cdx::surt::{self, MatchType};
use crawlspace_cdx::{Collapse, Dialect, Filter, Limits};

use super::{BadQuery, Output, PAGE, Query, RowFilter, Selection, absolute};
use crate::words::words;
use crawlspace_index::Aliases;
use crawlspace_index::sorted::Order;
use crawlspace_index::timestamp::Timestamp;

/// Maximum number of filters of a query.
pub(crate) const MAX_FILTERS: usize = 32;
/// Maximum number of `collapse` parameters in a query.
const MAX_COLLAPSES: usize = 8;
/// Maximum number of listed parameters without an effect, and maximum length of their names, in characters.
pub(crate) const MAX_IGNORED: usize = 20;
pub(crate) const MAX_IGNORED_NAME: usize = 60;
/// Maximum length of a URL, in bytes.
const MAX_URL: usize = 64 * 1024;

/// Limits of regular expressions in requests. Anyone can send requests, so these limits are lower
/// than those for expressions of the operator.
pub(crate) const LIMITS: Limits = Limits {
    pattern_bytes: 4 * 1024,
    compiled_bytes: 1024 * 1024,
};

/// Parameters with a single value. `filter` and `collapse`, which may be repeated, and aliases of these names are
/// handled separately.
const NAMES: [&str; 26] = words(
    "url matchType from to closest sort reverse limit fields fl output collapseToLast collapseTime \
     omitSelfRedirects offset content_type nosource compress allowFuzzy resumeKey resolveRevisits page pageSize \
     showNumPages showPagedIndex sources",
);

/// Raw parameters of a request.
#[derive(Default)]
pub(crate) struct Given<'a> {
    /// Values by name. Requests have few of them, so a list is faster than a hash table.
    values: Vec<(&'static str, &'a str)>,
    filters: Vec<&'a str>,
    collapses: Vec<&'a str>,
    ignored: Vec<String>,
}

impl<'a> Given<'a> {
    pub(crate) fn take(&mut self, name: &str, value: &'a str) {
        let known = match name {
            "filter" => return self.filters.push(value),
            "collapse" | "collapseToFirst" => return self.collapses.push(value),
            // `memento_format` only affects how a TimeMap is written.
            "memento_format" => return,
            "showResumeKey" if switch(name, value) == Ok(false) => return,
            "from_ts" => "from",
            name => name,
        };
        match NAMES.iter().find(|name| **name == known) {
            Some(name) => {
                self.values.retain(|(known, _)| known != name);
                self.values.push((*name, value));
            }
            None => self.ignore(name),
        }
    }

    /// Returns the value of a parameter, which is empty if it is missing.
    fn get(&self, name: &'static str) -> &'a str {
        debug_assert!(NAMES.contains(&name), "{name} is a parameter");
        let given = self.values.iter().find(|(known, _)| *known == name);
        given.map_or("", |(_, value)| *value)
    }

    fn number(&self, name: &'static str) -> Result<Option<u64>, BadQuery> {
        number(name, self.get(name))
    }

    fn switch(&self, name: &'static str) -> Result<bool, BadQuery> {
        switch(name, self.get(name))
    }

    pub(crate) fn ignore(&mut self, name: &str) {
        let name: String = name.chars().take(MAX_IGNORED_NAME).collect();
        if self.ignored.len() < MAX_IGNORED && !self.ignored.contains(&name) {
            self.ignored.push(name);
        }
    }

    pub(crate) fn read(self, point: Option<&str>) -> Result<Query, BadQuery> {
        let (url, match_type) = self.url()?;
        if !self.get("resumeKey").is_empty() {
            return bad(
                "resumeKey: not supported here, and ignoring it would return the same rows again; use page and pageSize",
            );
        }
        let keys = surt::range(&url, match_type).map_err(|why| BadQuery(format!("url: {why}")))?;
        // As in pywb, a shortened timestamp stands for its last second.
        let closest = match self.get("closest") {
            "now" => Some(Timestamp::now()),
            digits => moment("closest", digits, Timestamp::latest)?,
        };
        let (tag_filters, filters) = self.filters()?;
        let order = self.order(closest)?;
        Ok(Query {
            url: absolute(&url).into_owned(),
            match_type,
            aliases: Arc::new(Aliases::of(&url, match_type)),
            keys,
            from: self.from()?,
            to: self.to()?,
            order,
            closest,
            // In pywb, 0 means no limit unless the rows are sorted.
            limit: self
                .number("limit")?
                .filter(|&limit| limit > 0 || order != Order::Ascending),
            filters,
            shown_filters: Vec::new(),
            tag_filters,
            fields: self.fields(),
            output: match self.get("output") {
                "" | "cdxj" => Output::Cdxj,
                "json" => Output::Json,
                "text" | "txt" => Output::Text,
                "link" => Output::Link,
                other => {
                    return bad(format!("output={other}: must be cdxj, json, text or link"));
                }
            },
            collapse: self.collapse()?,
            collapse_as_shown: false,
            collapse_to_last: !self.get("collapseToLast").is_empty(),
            collapse_time: match self.number("collapseTime")? {
                Some(0) | None => None,
                Some(digits) => Some(usize::try_from(digits).unwrap_or(usize::MAX)),
            },
            resolve_revisits: self.switch("resolveRevisits")?,
            omit_self_redirects: self.switch("omitSelfRedirects")?,
            offset: self.number("offset")?.unwrap_or(0),
            page: self.number("page")?,
            page_size: match self.number("pageSize")? {
                Some(0) => return bad("pageSize=0: must be at least 1"),
                size => size,
            },
            default_page: PAGE,
            show_num_pages: self.switch("showNumPages")?,
            show_paged_index: self.switch("showPagedIndex")?,
            sources: Selection::parse(self.get("sources")),
            point: point.map(str::to_owned),
            no_source: self.switch("nosource")?,
            compress: match self.get("compress") {
                "" => false,
                "gzip" => true,
                other => return bad(format!("compress={other}: must be gzip")),
            },
            fuzzy: match self.get("allowFuzzy") {
                "" => None,
                word => Some(switch("allowFuzzy", word)?),
            },
            similar_to: None,
            ignored: self.ignored,
        })
    }

    fn order(&self, closest: Option<Timestamp>) -> Result<Order, BadQuery> {
        let reverse = self.switch("reverse")?;
        Ok(match (closest, self.get("sort")) {
            (_, sort) if !matches!(sort, "" | "default" | "regular" | "closest" | "reverse") => {
                return bad(format!("sort={sort}: must be default, reverse or closest"));
            }
            // As in pywb, `closest` takes precedence over all other orders.
            (Some(closest), _) => Order::Closest(closest),
            (None, "reverse") => Order::Descending,
            (None, _) if reverse => Order::Descending,
            (None, _) => Order::Ascending,
        })
    }

    /// Splits filters into tag filters and all others.
    fn filters(&self) -> Result<(Vec<String>, Vec<RowFilter>), BadQuery> {
        if self.filters.len() > MAX_FILTERS {
            return bad(format!(
                "filter: a request may have at most {MAX_FILTERS} filters"
            ));
        }
        let (mut by_tags, mut others) = (Vec::new(), Vec::new());
        let media = Some(self.get("content_type")).filter(|media| !media.is_empty());
        let media = media.map(|media| format!("=mime:{media}"));
        let texts = self.filters.iter().copied().chain(media.as_deref());
        for text in texts.filter(|text| !text.is_empty()) {
            let filter = Filter::parse(long_name(text).as_bytes(), Dialect::Pywb, LIMITS)
                .map_err(|why| BadQuery(format!("filter={text}: {why}")))?;
            let text = text.to_owned();
            match filter.tag_test() {
                Some(_) => by_tags.push(text),
                None => others.push(RowFilter {
                    text,
                    filter: Arc::new(filter),
                }),
            }
        }
        Ok((by_tags, others))
    }

    fn fields(&self) -> Option<Vec<String>> {
        let names = [self.get("fields"), self.get("fl")]
            .into_iter()
            .find(|names| !names.is_empty())?;
        let names = names.split(',').filter(|name| !name.is_empty());
        Some(names.map(str::to_owned).collect())
    }

    fn collapse(&self) -> Result<Vec<Collapse>, BadQuery> {
        let parsed = |name: &str, field: &str| {
            Collapse::parse(field.as_bytes())
                .map_err(|why| BadQuery(format!("{name}={field}: {why}")))
        };
        let mut firsts = self.collapses.iter().filter(|field| !field.is_empty());
        match self.get("collapseToLast") {
            _ if self.collapses.len() > MAX_COLLAPSES => bad(format!(
                "collapse: a request may have at most {MAX_COLLAPSES} of them"
            )),
            "" => firsts.map(|field| parsed("collapse", field)).collect(),
            last if firsts.next().is_none() => Ok(vec![parsed("collapseToLast", last)?]),
            _ => bad("collapse and collapseToLast exclude each other: leave one of them out"),
        }
    }

    /// Parses `from`. pywb compares timestamps as text, so a month or day of `00` sorts before the
    /// first month or day.
    fn from(&self) -> Result<Option<Timestamp>, BadQuery> {
        let digits = self.get("from");
        let digits = before_zero(digits).unwrap_or(digits);
        moment("from", digits, Timestamp::earliest)
    }

    /// Parses `to`. A month or day of `00` is treated as in [`from`](Given::from).
    fn to(&self) -> Result<Option<Timestamp>, BadQuery> {
        let digits = self.get("to");
        let Some(begin) = before_zero(digits) else {
            return moment("to", digits, Timestamp::latest);
        };
        let begin = moment("to", begin, Timestamp::earliest)?;
        // The year 0 has no predecessor.
        Ok(begin.map(|begin| Timestamp::from_seconds(begin.seconds() - 1).unwrap_or(begin)))
    }

    /// Parses the URL and its scope, which a leading or trailing `*` can set.
    fn url(&self) -> Result<(String, MatchType), BadQuery> {
        let url = self.get("url");
        if url.is_empty() {
            return bad("url is missing: add it, as in ?url=http://example.com/");
        }
        if url.len() > MAX_URL {
            return bad(format!("url is longer than {MAX_URL} bytes"));
        }
        let (url, match_type) = match self.get("matchType") {
            "" => match (url.strip_prefix("*."), url.strip_suffix('*')) {
                (Some(host), _) => (host.strip_suffix("/*").unwrap_or(host), MatchType::Domain),
                (None, Some(beginning)) => (beginning, MatchType::Prefix),
                (None, None) => (url, MatchType::Exact),
            },
            "exact" => (url, MatchType::Exact),
            "prefix" => (url, MatchType::Prefix),
            "host" => (url, MatchType::Host),
            "domain" => (url, MatchType::Domain),
            "range" => (url, MatchType::Range),
            other => {
                return bad(format!(
                    "matchType={other}: must be exact, prefix, host, domain or range"
                ));
            }
        };
        Ok((url.to_owned(), match_type))
    }
}

pub(crate) fn bad<T>(why: impl Into<String>) -> Result<T, BadQuery> {
    Err(BadQuery(why.into()))
}

/// Replaces pywb's one-letter name of a field by the field's full name.
fn long_name(filter: &str) -> Cow<'_, str> {
    let name = filter.trim_start_matches(['!', '=', '~']);
    let signs = &filter[..filter.len() - name.len()];
    let Some((letter, rest)) = name.split_once(':') else {
        return Cow::Borrowed(filter);
    };
    let long = match letter {
        "k" => "urlkey",
        "t" => "timestamp",
        "u" => "url",
        "m" => "mime",
        "s" => "status",
        "d" => "digest",
        "l" => "length",
        "o" => "offset",
        "f" => "filename",
        _ => return Cow::Borrowed(filter),
    };
    Cow::Owned(format!("{signs}{long}:{rest}"))
}

/// Returns the digits before a month or day of `00`, if there is one.
fn before_zero(digits: &str) -> Option<&str> {
    let mut parts = [4, 6].into_iter();
    let at = parts.find(|&at| digits.get(at..at + 2) == Some("00"))?;
    let is_whole = digits.len() <= 14 && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.get(..at).filter(|_| is_whole)
}

/// Parses a timestamp. A year with fewer than 4 digits is padded like a shortened date.
fn moment(
    name: &str,
    digits: &str,
    padded: fn(&[u8]) -> Option<Timestamp>,
) -> Result<Option<Timestamp>, BadQuery> {
    if digits.is_empty() {
        return Ok(None);
    }
    let year = match digits.len() {
        1..=3 => {
            let up = padded(b"2000").is_some_and(|it| it.to_string() != "20000101000000");
            let pad = if up { '9' } else { '0' };
            let missing = std::iter::repeat_n(pad, 4 - digits.len());
            digits.chars().chain(missing).collect()
        }
        _ => digits.to_owned(),
    };
    match padded(year.as_bytes()) {
        Some(moment) => Ok(Some(moment)),
        None => bad(format!(
            "{name}={digits}: invalid date; give 1 to 14 digits of yyyyMMddHHmmss, as in {name}=20160229"
        )),
    }
}

pub(crate) fn number(name: &str, digits: &str) -> Result<Option<u64>, BadQuery> {
    match digits {
        "" => Ok(None),
        _ if digits.bytes().all(|byte| byte.is_ascii_digit()) => match digits.parse() {
            Ok(number) => Ok(Some(number)),
            Err(_) => Ok(Some(u64::MAX)),
        },
        _ => bad(format!("{name}={digits}: must be a number of at least 0")),
    }
}

pub(crate) fn switch(name: &str, word: &str) -> Result<bool, BadQuery> {
    match word.to_ascii_lowercase().as_str() {
        "" | "0" | "false" | "f" | "off" | "no" => Ok(false),
        "1" | "true" | "t" | "on" | "yes" => Ok(true),
        _ => bad(format!("{name}={word}: must be true or false")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letter_names_a_field() {
        for (short, long) in [
            ("m:css", "mime:css"),
            ("!~s:4..", "!~status:4.."),
            ("=u:a:b", "=url:a:b"),
            ("x:y", "x:y"),
            ("mime:m:x", "mime:m:x"),
            ("m", "m"),
            ("", ""),
        ] {
            assert_eq!(long_name(short), long);
        }
    }
}
