//! Parses queries in the dialect of the Internet Archive's CDX server.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::sync::Arc;

use crawlspace_cdx::surt::MatchType;
use crawlspace_cdx::{Dialect, Field, Filter};
use crawlspace_index::row::Row;
use crawlspace_index::shortest;
use crawlspace_index::sorted::Order;
use crawlspace_index::timestamp::{Timestamp, compare};
use data_encoding::BASE64URL_NOPAD;

use crate::operations::SORTED;
use crate::query::given::{Given, LIMITS, MAX_FILTERS, bad, number, switch};
use crate::query::{BadQuery, Query, literally};
use crate::shown::{FIELDS, FilterSubject, ShownFilter};

/// Default number of rows of a page. All rows before a page are read, so pages should be few and large.
const PAGE: u64 = 50_000;

/// A parsed query: the rows wanted from the collection, and their layout.
#[derive(Clone, Debug)]
pub(crate) struct WaybackQuery {
    /// Query to the collection.
    pub query: Query,
    /// Layout of the rows.
    pub layout: Layout,
}

/// Layout of the rows of an answer.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    /// Set if rows are read in descending order and written in ascending order.
    pub is_reversed: bool,
    /// Maximum number of rows written, if limited.
    pub limit: Option<u64>,
    /// Columns of a row, with their names in the answer.
    pub columns: Vec<(String, Field)>,
    /// Writes a JSON array of arrays.
    pub json: bool,
    /// Writes the column names as the first array.
    pub is_named: bool,
    /// Ends the answer with a resume key if there are more rows.
    pub show_resume_key: bool,
    /// Rows up to this one are skipped.
    pub after: Option<ResumeKey>,
}

impl WaybackQuery {
    /// Parses parameters, in the order of the request; `columns` are the default columns of a row. If a
    /// parameter is repeated, the last value is used, but the values of `filter` and `collapse` accumulate. Parameters
    /// without an effect are listed in the query's `ignored`.
    ///
    /// # Errors
    /// Fails if `url` is missing, or a parameter is invalid or excludes another one.
    pub(crate) fn parse<'a>(
        parameters: impl IntoIterator<Item = (&'a str, &'a str)>,
        point: Option<&str>,
        columns: &[&str],
    ) -> Result<WaybackQuery, BadQuery> {
        let (mut given, mut filters) = (Given::default(), Vec::new());
        let (mut limit, mut output, mut fields) = ("", "", "");
        let (mut show, mut after) = ("", "");
        for (name, value) in parameters {
            match name {
                "limit" => limit = value,
                "output" => output = value,
                "fl" | "fields" => fields = value,
                "filter" if is_tag(value) => given.take(name, value),
                "filter" => filters.push(value),
                "showResumeKey" => show = value,
                "resumeKey" => after = value,
                // Ignore these parameters: responses are never compressed, and the last rows are always found
                // quickly.
                "gzip" | "fastLatest" => {}
                "resolveRevisits" if switch(name, value) == Ok(false) => {}
                "resolveRevisits" | "nosource" | "showPagedIndex" => given.ignore(name),
                _ => given.take(name, value),
            }
        }
        let mut read = WaybackQuery {
            query: given.read(point)?,
            layout: Layout {
                is_reversed: false,
                limit: None,
                columns: named(fields, columns)?,
                json: match output {
                    "" | "text" | "txt" | "cdx" => false,
                    "json" => true,
                    other => return bad(format!("output={other}: must be text or json")),
                },
                is_named: true,
                show_resume_key: switch("showResumeKey", show)?,
                after: None,
            },
        };
        read.query.shown_filters = shown(&filters)?;
        read.query.collapse_as_shown = true;
        read.query.default_page = PAGE;
        match limit.strip_prefix('-') {
            Some(_) if !after.is_empty() => {
                return bad(
                    "resumeKey: does not work with a negative limit; leave one of them out",
                );
            }
            Some(digits) => read.take_last(number("limit", digits)?)?,
            None => read.take_first(number("limit", limit)?, after)?,
        }
        Ok(read)
    }

    /// Limits the answer to the first rows, or those after a resume key.
    fn take_first(&mut self, limit: Option<u64>, after: &str) -> Result<(), BadQuery> {
        self.layout.limit = limit;
        self.query.limit = limit;
        let can_resume = self.query.order == Order::Ascending && self.query.page.is_none();
        if !after.is_empty() && !can_resume {
            return bad(
                "resumeKey: works only in ascending order and without page; leave out sort, closest, reverse and page",
            );
        }
        self.layout.show_resume_key &= can_resume;
        if !self.layout.show_resume_key && after.is_empty() {
            return Ok(());
        }
        // One row beyond the limit shows whether there are more.
        self.query.limit = limit.map(|limit| limit.saturating_add(1));
        if !after.is_empty() {
            let key = ResumeKey::parse(after).ok_or_else(|| {
                BadQuery(format!(
                    "resumeKey={after}: invalid key; send the key at the end of the previous answer"
                ))
            })?;
            self.query.limit = None;
            // The offset was already applied before the resume key was issued.
            self.query.offset = 0;
            key.narrow(&mut self.query);
            self.layout.after = Some(key);
        }
        Ok(())
    }

    /// Limits the answer to the last rows.
    fn take_last(&mut self, limit: Option<u64>) -> Result<(), BadQuery> {
        let query = &mut self.query;
        if query.order != Order::Ascending || query.page.is_some() || query.offset > 0 {
            return bad(
                "limit: a negative limit needs rows in ascending order, and excludes page and offset",
            );
        }
        let most = SORTED as u64;
        match limit {
            Some(limit) if (1..=most).contains(&limit) => {
                (query.limit, self.layout.limit) = (Some(limit), Some(limit));
            }
            _ => {
                return bad(format!(
                    "limit: a negative limit must be from -1 to -{most}"
                ));
            }
        }
        query.order = Order::Descending;
        (self.layout.is_reversed, self.layout.show_resume_key) = (true, false);
        Ok(())
    }
}

fn is_tag(filter: &str) -> bool {
    let bare = filter.strip_prefix('!').unwrap_or(filter);
    bare.starts_with("tag:") || bare.starts_with("tag.")
}

fn named(fields: &str, columns: &[&str]) -> Result<Vec<(String, Field)>, BadQuery> {
    if fields.is_empty() {
        let all = columns.iter();
        let all = all.map(|name| ((*name).to_owned(), Field::named(name.as_bytes())));
        return Ok(all.collect());
    }
    let names = fields.split(',').filter(|name| !name.is_empty());
    let column = |name: &str| match Field::named(name.as_bytes()) {
        field if field.is_plausible() => Ok((name.to_owned(), field)),
        _ => bad(format!("fl={name}: unknown field")),
    };
    names.map(column).collect()
}

/// Converts a filter with one of pywb's prefixes to the Internet Archive's syntax: `=field:text` and `!=field:text` to
/// regular expressions, `!~` to `~!`.
fn as_ia(filter: &str) -> Cow<'_, str> {
    if let Some(rest) = filter.strip_prefix("!~") {
        return Cow::Owned(format!("~!{rest}"));
    }
    let (negated, rest) = match filter.strip_prefix('!') {
        Some(rest) => ("!", rest),
        None => ("", filter),
    };
    let exact = rest.strip_prefix('=').filter(|rest| !is_tag(rest));
    match exact.and_then(|rest| rest.split_once(':')) {
        Some((field, text)) => Cow::Owned(format!("{negated}{field}:{}", literally(text))),
        None => Cow::Borrowed(filter),
    }
}

fn shown(filters: &[&str]) -> Result<Vec<ShownFilter>, BadQuery> {
    if filters.len() > MAX_FILTERS {
        return bad(format!(
            "filter: a request may have at most {MAX_FILTERS} filters"
        ));
    }
    let given = filters.iter().filter(|text| !text.is_empty());
    let read = given.map(|text| {
        let filter = Filter::parse(as_ia(text).as_bytes(), Dialect::Ia, LIMITS)
            .map_err(|why| BadQuery(format!("filter={text}: {why}")))?;
        let reads = match (filter.field(), filter.column()) {
            (_, Some(number)) if number < FIELDS.len() => FilterSubject::Column(number),
            (Some(field), _) => match FIELDS.iter().position(|shown| shown == field) {
                Some(number) => FilterSubject::Column(number),
                None if field.is_plausible() => FilterSubject::Row,
                None => FilterSubject::Shown,
            },
            _ => FilterSubject::Shown,
        };
        Ok(ShownFilter {
            filter: Arc::new(filter),
            reads,
        })
    });
    read.collect()
}

/// The row after which an answer resumes. It is still found if rows before it were added or removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResumeKey {
    urlkey: Vec<u8>,
    timestamp: Vec<u8>,
    /// Identifies the row among those with the same urlkey and timestamp.
    mark: Mark,
    /// Number of rows of that timestamp with this mark, up to and including the row; at least 1.
    count: u32,
}

/// Identifies rows with the same urlkey and timestamp: length and checksum of the line.
type Mark = (u32, u32);

fn mark(row: &Row) -> Mark {
    let mut checksum = flate2::Crc::new();
    checksum.update(row.line());
    let length = u32::try_from(row.line().len()).unwrap_or(u32::MAX);
    (length, checksum.sum())
}

/// Number of bytes of a key before its urlkey.
const NUMBERS: usize = 12;

impl ResumeKey {
    /// Parses a key that [`text`](ResumeKey::text) wrote.
    fn parse(text: &str) -> Option<ResumeKey> {
        let bytes = BASE64URL_NOPAD.decode(text.as_bytes()).ok()?;
        let (numbers, place) = bytes.split_at_checked(NUMBERS)?;
        let mut numbers = numbers.chunks_exact(4).map(|chunk| {
            let bytes = <[u8; 4]>::try_from(chunk).ok()?;
            Some(u32::from_le_bytes(bytes))
        });
        let space = memchr::memchr(b' ', place)?;
        let (urlkey, timestamp) = (&place[..space], &place[space + 1..]);
        Timestamp::earliest(timestamp.get(..14).unwrap_or(timestamp))?;
        Some(ResumeKey {
            mark: (numbers.next()??, numbers.next()??),
            count: numbers.next()??.max(1),
            urlkey: urlkey.to_vec(),
            timestamp: timestamp.to_vec(),
        })
    }

    /// Returns the key for clients, in characters that URLs need not escape.
    pub(crate) fn text(&self) -> String {
        let (length, checksum) = self.mark;
        let mut bytes = Vec::with_capacity(NUMBERS + self.urlkey.len() + 21);
        for number in [length, checksum, self.count] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&self.urlkey);
        bytes.push(b' ');
        bytes.extend_from_slice(&self.timestamp);
        BASE64URL_NOPAD.encode(&bytes)
    }

    /// Restricts the query to the row's timestamp and later, so that sources need not read earlier rows.
    fn narrow(&self, query: &mut Query) {
        if query.match_type == MatchType::Exact {
            let digits = self.timestamp.get(..14).unwrap_or(&self.timestamp);
            let moment = Timestamp::earliest(digits);
            if query.keys.from == [&self.urlkey[..], b" "].concat() {
                query.from = query.from.max(moment);
            }
        } else {
            let own = [&self.urlkey[..], b" ", shortest(&self.timestamp)].concat();
            let from = &mut query.keys.from;
            if own > *from {
                *from = own;
            }
        }
    }
}

/// Tracks the rows of an answer to create its resume key, and skips rows up to the previous key.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress {
    /// Rows up to this one are skipped; `None` once it has been passed.
    after: Option<ResumeKey>,
    /// The last row, and the marks of all rows so far with its urlkey and timestamp.
    last: Option<Row>,
    marks: Vec<Mark>,
}

impl Progress {
    /// Creates a tracker that skips rows up to the key.
    pub(crate) fn after(after: Option<ResumeKey>) -> Progress {
        Progress {
            after,
            ..Progress::default()
        }
    }

    /// Returns whether the next row belongs to the answer.
    pub(crate) fn admits(&mut self, row: &Row) -> bool {
        let Some(after) = &self.after else {
            return true;
        };
        let by_key = row.urlkey().cmp(&after.urlkey);
        match by_key.then_with(|| compare(row.timestamp(), &after.timestamp)) {
            Ordering::Less => false,
            Ordering::Equal => {
                let (mark, count) = (after.mark, after.count);
                self.note(row);
                let alike = self.marks.iter().filter(|other| **other == mark).count();
                if self.marks.last() == Some(&mark) && alike >= count as usize {
                    self.after = None;
                }
                false
            }
            Ordering::Greater => {
                self.after = None;
                true
            }
        }
    }

    /// Records a row of the answer.
    pub(crate) fn note(&mut self, row: &Row) {
        let same = self.last.as_ref().is_some_and(|last| {
            last.urlkey() == row.urlkey() && compare(last.timestamp(), row.timestamp()).is_eq()
        });
        if !same {
            self.marks.clear();
        }
        self.marks.push(mark(row));
        self.last = Some(row.clone());
    }

    /// Returns the key of the last recorded row.
    pub(crate) fn key(&self) -> Option<ResumeKey> {
        let (row, mark) = (self.last.as_ref()?, *self.marks.last()?);
        let count = self.marks.iter().filter(|other| **other == mark).count();
        Some(ResumeKey {
            urlkey: row.urlkey().to_vec(),
            timestamp: row.timestamp().to_vec(),
            mark,
            count: u32::try_from(count).unwrap_or(u32::MAX),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn parse(text: &str) -> Result<WaybackQuery, BadQuery> {
        let pairs: Vec<_> = url::form_urlencoded::parse(text.as_bytes()).collect();
        WaybackQuery::parse(
            pairs.iter().map(|(name, value)| (&name[..], &value[..])),
            None,
            &crate::shown::COLUMNS,
        )
    }

    fn row(line: &str) -> Row {
        Row::new(Bytes::copy_from_slice(line.as_bytes())).unwrap()
    }

    #[test]
    fn answer_can_be_resumed_after_any_row() {
        let all: Vec<Row> = [
            "a 20160101000000 {\"n\": 1}",
            "a 20160101000000 {\"n\": 2}",
            "a 20160101000000 {\"n\": 1}",
            "a 20160101000000 {\"n\": 1}",
            "a 20170101000000 {\"n\": 1}",
            "b 20160101000000 {\"n\": 1}",
        ]
        .map(row)
        .to_vec();
        for limit in 1..=all.len() {
            let (mut found, mut after) = (Vec::new(), None);
            loop {
                let (mut progress, mut page) = (Progress::after(after), Vec::new());
                for row in &all {
                    if progress.admits(row) && page.len() < limit {
                        progress.note(row);
                        page.push(row.clone());
                    }
                }
                if page.is_empty() {
                    break;
                }
                found.extend(page);
                let text = progress.key().unwrap().text();
                after = ResumeKey::parse(&text);
                assert!(after.is_some());
            }
            assert_eq!(found, all, "{limit} at a time");
        }
    }

    #[test]
    fn resume_key_of_a_removed_row_continues_at_the_next_time() {
        let mut before = Progress::default();
        before.note(&row("a 2016 {\"n\": 1}"));
        let mut progress = Progress::after(before.key());
        for (line, admitted) in [
            ("a 2015 {}", false),
            ("a 20160101000000 {\"n\": 2}", false),
            ("a 20160101000001 {\"n\": 1}", true),
            ("a 20160101000001 {\"n\": 1}", true),
        ] {
            assert_eq!(progress.admits(&row(line)), admitted, "{line}");
        }
    }

    #[test]
    fn invalid_parameters_are_reported() {
        for (text, name) in [
            ("", "url"),
            ("url=a.com&output=cdxj", "output"),
            ("url=a.com&limit=x", "limit"),
            ("url=a.com&limit=-x", "limit"),
            ("url=a.com&limit=-0", "limit"),
            ("url=a.com&limit=-", "limit"),
            ("url=a.com&limit=-250001", "limit"),
            ("url=a.com&limit=-1&sort=reverse", "limit"),
            ("url=a.com&limit=-1&page=1", "limit"),
            ("url=a.com&limit=-1&offset=1", "limit"),
            ("url=a.com&filter=statuscode:(", "filter"),
            ("url=a.com&filter=99:1", "filter"),
            ("url=a.com&fl=a%20b", "fl"),
            ("url=a.com&collapse=digest&collapse=:", "collapse"),
            (
                "url=a.com&collapse=digest&collapseToLast=urlkey",
                "collapse",
            ),
            ("url=a.com&resumeKey=com", "resumeKey"),
            ("url=a.com&resumeKey=com&limit=-1", "resumeKey"),
            ("url=a.com&resumeKey=com&sort=reverse", "resumeKey"),
            (
                "url=a.com&resumeKey=com&sort=closest&closest=2024",
                "resumeKey",
            ),
            ("url=a.com&resumeKey=com&page=0", "resumeKey"),
            ("url=a.com&showResumeKey=maybe", "showResumeKey"),
        ] {
            let BadQuery(message) = parse(text).unwrap_err();
            assert!(message.starts_with(name), "{text}: {message}");
        }
    }

    #[test]
    fn parameters_are_parsed() {
        let read = parse(
            "url=a.com&limit=-3&fl=timestamp,digest&gzip=false&fastLatest=true&resolveRevisits=true",
        );
        let read = read.unwrap();
        assert_eq!(
            (read.query.limit, read.query.order),
            (Some(3), Order::Descending)
        );
        assert_eq!(read.layout.columns[1], ("digest".to_owned(), Field::Digest));
        assert_eq!(read.query.ignored, ["resolveRevisits"]);
        let read = parse("url=a.com&limit=5&showResumeKey=true").unwrap();
        assert_eq!((read.layout.limit, read.query.limit), (Some(5), Some(6)));
        for text in [
            "sort=closest&closest=2024&limit=1",
            "sort=reverse&limit=1",
            "page=0&limit=1",
            "limit=-1",
        ] {
            let read = parse(&format!("url=a.com&showResumeKey=true&{text}")).unwrap();
            assert!(!read.layout.show_resume_key, "{text}");
            assert_eq!(read.query.limit, Some(1), "{text}");
        }
        let read =
            parse("url=a.com&filter=!mimetype:warc/revisit&filter=offset:7&filter=4:200").unwrap();
        let reads = read.query.shown_filters.iter().map(|one| one.reads);
        let [mime, status] = [3, 4].map(FilterSubject::Column);
        assert_eq!(
            reads.collect::<Vec<_>>(),
            [mime, FilterSubject::Row, status]
        );
        for text in [
            "filter=2024.*",
            "filter=!~=x:2024",
            "filter=8:200",
            "filter==2024",
        ] {
            let read = parse(&format!("url=a.com&{text}")).unwrap();
            assert_eq!(
                read.query.shown_filters[0].reads,
                FilterSubject::Shown,
                "{text}"
            );
        }
    }

    #[test]
    fn prefixes_of_pywb_are_parsed() {
        for (filter, ia) in [
            ("=statuscode:200", "statuscode:200"),
            ("!=mimetype:text/html", "!mimetype:text\\/html"),
            ("=original:é.x:y", "original:é\\.x\\:y"),
            ("=4:200", "4:200"),
            ("!~original:a.b", "~!original:a.b"),
            ("~original:a.b", "~original:a.b"),
            ("!original:a.b", "!original:a.b"),
            ("=2024", "=2024"),
            // Unsupported filters.
            ("!=tag.coll:7", "!=tag.coll:7"),
        ] {
            assert_eq!(as_ia(filter), ia, "{filter}");
        }
    }

    #[test]
    fn resume_key_narrows_the_query() {
        let mut progress = Progress::default();
        progress.note(&row("com,a)/x 20160101000000 {}"));
        let key = progress.key().unwrap().text();
        let read = parse(&format!("url=http://a.com/*&limit=2&resumeKey={key}")).unwrap();
        assert_eq!(read.query.keys.from, b"com,a)/x 2016");
        let read = parse(&format!(
            "url=http://a.com/x&from=2015&limit=2&resumeKey={key}"
        ))
        .unwrap();
        assert_eq!(read.query.from.unwrap().to_string(), "20160101000000");
        let read = parse(&format!("url=http://a.com/y&limit=2&resumeKey={key}")).unwrap();
        assert_eq!(read.query.from, None);
    }
}
