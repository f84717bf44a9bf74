//! Captures of a URL in a dedupe index, as rows.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt};

use super::Inner;
use super::questions::Page;
use crate::query::Query;
use crate::source::{Lookup, Rows};
use crawlspace_cdx::surt::MatchType;
use crawlspace_client::Error;
use crawlspace_client::dedupe::Capture;
use crawlspace_index::row::{Row, quote};
use crawlspace_index::sorted::Order;
use crawlspace_index::source::{Batch, SourceError};
use crawlspace_index::timestamp::{Timestamp, compare};
use crawlspace_warc::Date;

/// Page size of the first request if the newest captures are wanted. The first capture may suffice;
/// the second one proves that no other capture has the same timestamp.
const FIRST_PAGE: u64 = 2;
/// Maximum number of captures in a response of the server.
const PAGE: u64 = 10_000;

const EXACT: &str = "a dedupe index supports queries for one URL, not for a prefix";

/// A lookup of a URL's captures, newest first.
pub(super) struct Asking {
    inner: Arc<Inner>,
    urlkey: Vec<u8>,
    /// URL as requested and, if different, in its normal form. The last URL is being looked up.
    urls: Vec<String>,
    /// First page of each URL, and the next page of the current one.
    first: Page,
    page: Page,
    /// True to stop after the first page of each URL.
    is_enough: bool,
    /// Digits of the start of the time range.
    from: Option<String>,
}

impl Asking {
    /// Prepares a lookup.
    ///
    /// # Errors
    /// Fails if the lookup is for more than one URL.
    pub(super) fn new(inner: Arc<Inner>, lookup: &Lookup) -> Result<Asking, SourceError> {
        let query = &lookup.query;
        if query.match_type != MatchType::Exact {
            return Err(SourceError::Unsupported(EXACT.to_owned()));
        }
        let key = &query.keys.from;
        let limit = match (lookup.order, lookup.at_most) {
            (Order::Descending, Some(most)) => most.clamp(1, PAGE),
            (Order::Descending, None) => FIRST_PAGE,
            _ => PAGE,
        };
        let after = query.to.map(|to| Timestamp::from_seconds(to.seconds() + 1));
        let page = Page {
            limit,
            before: after.flatten().map(|after| after.to_string().into_bytes()),
        };
        Ok(Asking {
            inner,
            urlkey: key.strip_suffix(b" ").unwrap_or(key).to_vec(),
            urls: forms(query),
            is_enough: lookup.order == Order::Descending && lookup.at_most == Some(limit),
            first: page.clone(),
            page,
            from: query.from.map(|from| from.to_string()),
        })
    }

    /// Returns the rows, which are requested page by page.
    pub(super) fn rows(self, order: Order) -> Rows {
        let ordered = order == Order::Descending && self.urls.len() == 1;
        let batches = stream::unfold(Some(self), |asking| async move {
            let mut asking = asking?;
            match asking.next().await {
                Ok(Some(batch)) => Some((Ok(batch), Some(asking))),
                Ok(None) => None,
                Err(error) => Some((Err(error), None)),
            }
        });
        Rows::whole(ordered, batches.boxed())
    }

    /// Returns the next rows, or `None` at the end. A batch may be empty.
    async fn next(&mut self) -> Result<Option<Batch>, SourceError> {
        let Some(url) = self.urls.last().cloned() else {
            return Ok(None);
        };
        let answer = self.inner.captures(url.as_bytes(), &self.page).await;
        let answer = answer.unwrap_or_else(|| Ok(Vec::new()));
        let mut captures = answer.map_err(|error| self.failed(&error))?;
        self.inner.note(None);
        let mut is_last = self.is_enough || (captures.len() as u64) < self.page.limit;
        if !is_last {
            self.turn(&mut captures)?;
        }
        let mut batch = Vec::with_capacity(captures.len());
        for capture in &captures {
            let Some(digits) = digits(&capture.date) else {
                continue;
            };
            let from = self.from.as_ref().map(String::as_bytes);
            if from.is_some_and(|from| compare(&digits, from).is_lt()) {
                is_last = true;
                break;
            }
            batch.extend(self.row(&url, &digits, capture));
        }
        if is_last {
            self.urls.pop();
            self.page = self.first.clone();
        }
        Ok(Some(batch))
    }

    /// Proceeds to the next page. Removes the captures with the last timestamp of this page, which may have further
    /// captures; the next page begins with that timestamp.
    fn turn(&mut self, captures: &mut Vec<Capture>) -> Result<(), SourceError> {
        let moments: Vec<_> = captures.iter().map(|one| digits(&one.date)).collect();
        let last = moments.last().cloned().flatten();
        let kept = moments.iter().take_while(|moment| match (moment, &last) {
            (Some(moment), Some(last)) => compare(moment, last).is_ne(),
            (moment, _) => moment.is_some(),
        });
        let kept = kept.count();
        if kept == 0 && self.page.limit >= PAGE {
            let what = format!("more than {PAGE} captures with the same timestamp");
            return Err(SourceError::TooLarge(what));
        }
        captures.truncate(kept);
        if let Some(oldest) = captures.last() {
            self.page.before = Some(oldest.date.clone());
        }
        self.page.limit = PAGE;
        Ok(())
    }

    fn row(&self, url: &str, digits: &[u8], capture: &Capture) -> Option<Row> {
        let size = self.urlkey.len() + url.len() + self.inner.members.len() + 160;
        let mut line = Vec::with_capacity(size);
        line.extend_from_slice(&self.urlkey);
        line.push(b' ');
        line.extend_from_slice(digits);
        line.extend_from_slice(b" {");
        for (name, value) in [
            ("url", url.as_bytes()),
            ("digest", &capture.hash),
            ("length", capture.size.to_string().as_bytes()),
            ("crawl", &capture.crawl),
            ("wacz", capture.filename.as_deref().unwrap_or_default()),
        ] {
            if !value.is_empty() {
                quote(name.as_bytes(), &mut line);
                line.extend_from_slice(b": ");
                quote(value, &mut line);
                line.extend_from_slice(b", ");
            }
        }
        line.extend_from_slice(self.inner.members.as_bytes());
        line.push(b'}');
        Row::new(Bytes::from(line))
    }

    fn failed(&self, error: &Error) -> SourceError {
        let text = format!("{}: {error}", self.inner.shown());
        self.inner.note(Some(text.clone()));
        match error.word() {
            // The server itself refused the request.
            Some(_) => SourceError::Answer(text),
            None => SourceError::Connection(text),
        }
    }
}

/// Returns the forms of a URL under which a crawler may have added it, since an index keeps URLs as given.
fn forms(query: &Query) -> Vec<String> {
    let mut forms = vec![query.url.clone()];
    if let Ok(normal) = url::Url::parse(&query.url)
        && normal.as_str() != query.url
    {
        forms.push(normal.into());
    }
    forms
}

/// Returns up to 17 digits of a record's date, in UTC; `None` if the format is unknown.
fn digits(date: &[u8]) -> Option<Vec<u8>> {
    if date.iter().all(u8::is_ascii_digit) {
        return Timestamp::earliest(date.get(..14)?).map(|_| date[..date.len().min(17)].to_vec());
    }
    let moment = Timestamp::from_iso(date)?.to_string();
    let digits = Date::parse(date)?.timestamp();
    Some([moment.as_bytes(), digits.get(14..)?].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_any_form_become_utc_digits() {
        for (date, expected) in [
            ("20240131235959", Some("20240131235959")),
            ("20240131235959123", Some("20240131235959123")),
            ("2024-01-31T23:59:59Z", Some("20240131235959")),
            ("2024-01-31T23:59:59.5Z", Some("20240131235959500")),
            ("2024-02-01T01:59:59.1234+02:00", Some("20240131235959123")),
            ("2024-01-31T18:29:59-0530", Some("20240131235959")),
            ("2024", None),
            ("20241331235959", None),
            ("yesterday", None),
        ] {
            let found = digits(date.as_bytes());
            assert_eq!(found.as_deref(), expected.map(str::as_bytes), "{date}");
        }
    }

    #[test]
    fn url_is_looked_up_as_given_and_normalized() {
        for (url, expected) in [
            ("http://example.com/", &["http://example.com/"][..]),
            (
                "http://example.com",
                &["http://example.com", "http://example.com/"],
            ),
            (
                "HTTP://Example.com:80/a b",
                &["HTTP://Example.com:80/a b", "http://example.com/a%20b"],
            ),
            ("urn:a", &["urn:a"]),
        ] {
            let query = Query::of_url(url).unwrap();
            assert_eq!(forms(&query), expected, "{url}");
        }
    }
}
