//! The gate: access control for everything that leaves a collection.
//!
//! Checks rows, records and payloads of originals in the same way, by the URL and timestamp of the content that is
//! about to be sent. Only this module creates [`Seen`] and [`Released`], and responses contain nothing else.
//!
//! Rules and tags are checked for the key computed from the URL and, if it differs, for the key under which the capture
//! was found; the stricter result applies.

use std::ops::Deref;
use std::sync::Arc;

use crawlspace_cdx::surt::urlkey;
use crawlspace_index::row::Row;
use crawlspace_index::source::Batch;
use crawlspace_index::spelling::{OtherKeys, as_requested, other_keys};
use crawlspace_index::timestamp::Timestamp;
use futures_util::stream::{self, BoxStream, StreamExt};

use crate::access::{Access, AccessError};
use crate::failure::Failure;
use crate::query::Query;
use crate::resource::record::Record;
use crate::resource::revisit::referred::referred_by;
use crate::resource::revisit::response::unnamed;
use crate::rules::{self, Rules};

/// Number of digits of a timestamp with seconds.
const DIGITS: usize = 14;

/// Rows of an answer; the stream ends with an error if the access point cannot be checked.
pub(crate) type Rows = BoxStream<'static, Result<Seen, Failure>>;

/// Rows that the reader may see.
#[derive(Debug, Default)]
pub(crate) struct Seen(Batch);

/// A value that the reader may receive.
pub(crate) struct Released<T>(T);

/// Access control of a collection.
#[derive(Clone)]
pub(crate) struct Gate {
    tags: Option<Access>,
    rules: Option<Arc<Rules>>,
    /// Hidden originals lend their payload to revisits.
    lends: bool,
}

/// The access point and the tag filters of the reader; they determine the tags of captures.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reader<'a> {
    /// The access point.
    pub point: Option<&'a str>,
    /// Tag filters of the query.
    pub tag_filters: &'a [String],
}

/// The reason why content is withheld from a reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Withheld {
    /// Blocked by a rule: the reader may know that it exists.
    Blocked,
    /// Hidden: the reader must not know that it exists.
    Hidden,
    /// The tag space could not be checked.
    Unknown(AccessError),
}

impl Seen {
    /// Wraps rows that already passed the gate, and were stored or reordered since.
    pub(crate) fn again(rows: Batch) -> Seen {
        Seen(rows)
    }

    /// Changes the rows: may remove, mark or reorder them. Rows must not be added.
    pub(crate) fn map(self, change: impl FnOnce(Batch) -> Batch) -> Seen {
        Seen(change(self.0))
    }
}

impl Deref for Seen {
    type Target = [Row];

    fn deref(&self) -> &[Row] {
        &self.0
    }
}

impl<'a> IntoIterator for &'a Seen {
    type Item = &'a Row;
    type IntoIter = std::slice::Iter<'a, Row>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl IntoIterator for Seen {
    type Item = Row;
    type IntoIter = std::vec::IntoIter<Row>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<T> Released<T> {
    /// Returns the released value.
    pub(crate) fn into_inner(self) -> T {
        self.0
    }
}

impl<'a> Reader<'a> {
    /// Returns the reader of a query.
    pub(crate) fn of(query: &'a Query) -> Reader<'a> {
        Reader {
            point: query.point.as_deref(),
            tag_filters: &query.tag_filters,
        }
    }

    fn has_tags(self) -> bool {
        self.point.is_some() || !self.tag_filters.is_empty()
    }
}

impl Gate {
    pub(crate) fn new(tags: Option<Access>, rules: Option<Arc<Rules>>, lends: bool) -> Gate {
        Gate { tags, rules, lends }
    }

    /// Returns whether the collection has a tag space.
    pub(crate) fn has_tags(&self) -> bool {
        self.tags.is_some()
    }

    /// Returns whether the collection has access rules.
    pub(crate) fn has_rules(&self) -> bool {
        self.rules.is_some()
    }

    /// Passes the rows that the reader may see; rows with blocked records are marked, as in pywb. Rows to which tags or
    /// rules apply lose the location of their original, since a location alone cannot be checked.
    pub(crate) fn rows(&self, rows: BoxStream<'static, Batch>, query: &Arc<Query>) -> Rows {
        let tagged: BoxStream<'static, Result<Batch, Failure>> = match &self.tags {
            Some(tags) if Reader::of(query).has_tags() => {
                // Rules of the tag space may apply to the URL of the original.
                let tagged = tagged(rows, tags.clone(), Arc::clone(query));
                tagged.map(|batch| batch.map(without_originals)).boxed()
            }
            _ => rows.map(Ok).boxed(),
        };
        let Some(rules) = self.rules.clone() else {
            return tagged.map(|batch| Ok(Seen(batch?))).boxed();
        };
        let mut near = None;
        let allowed = move |batch: Result<_, _>| {
            let allowed = allowed(batch?, &rules, &mut near);
            Ok(Seen(without_originals(allowed)))
        };
        tagged.map(allowed).boxed()
    }

    /// Passes rows that are blocks of an index. They only pass in a collection without tags and rules, since blocks
    /// cannot be checked.
    pub(crate) fn blocks(&self, rows: BoxStream<'static, Batch>) -> Rows {
        let is_open = self.tags.is_none() && self.rules.is_none();
        let rows = rows.map(move |batch| Ok(Seen(if is_open { batch } else { Batch::new() })));
        rows.boxed()
    }

    /// Returns whether an access rule blocks the record of a row.
    pub(crate) fn blocks_record(&self, row: &Row) -> bool {
        self.verdict_of(row) == rules::Access::Block
    }

    /// Returns the decision of the rules about a row, taking all of its keys into account.
    fn verdict_of(&self, row: &Row) -> rules::Access {
        let now = Timestamp::now();
        let verdict = |rules: &Arc<Rules>| strictest(rules, row, now, &mut None);
        self.rules.as_ref().map_or(rules::Access::Allow, verdict)
    }

    /// Returns the public message of the rule that excludes a capture of a urlkey at a timestamp.
    pub(crate) fn public_message(&self, urlkey: &[u8], moment: Timestamp) -> Option<&str> {
        let timestamp = moment.to_string();
        let rules = self.rules.as_ref()?;
        match rules.verdict(urlkey, timestamp.as_bytes(), Timestamp::now()) {
            (rules::Access::Exclude, message) => message,
            _ => None,
        }
    }

    /// Releases a record that was loaded for a visible row. The record is checked by its own URL and timestamp, which
    /// may differ from those of the row.
    pub(crate) async fn release(
        &self,
        mut record: Record,
        row: &Row,
        is_elsewhere: bool,
        reader: Reader<'_>,
    ) -> Result<Released<Record>, Withheld> {
        if self.tags.is_none() && self.rules.is_none() {
            return Ok(Released(record));
        }
        let Some((sent, is_known)) = sent(row, &record) else {
            return Err(Withheld::Hidden);
        };
        match self.verdict_of(&sent).max(self.verdict_of(row)) {
            rules::Access::Exclude => return Err(Withheld::Hidden),
            rules::Access::Block => return Err(Withheld::Blocked),
            rules::Access::Allow | rules::Access::AllowIgnoreEmbargo => {}
        }
        // Other servers resolve revisits themselves. Originals of local revisits were checked when they were resolved.
        if is_elsewhere && let Some((_, original)) = referred_by(&record) {
            let is_shown = match original {
                Some(original) => self.shows(&original, reader).await,
                None => false,
            };
            if !is_shown && !self.lends {
                return Err(Withheld::Hidden);
            }
            if !is_shown {
                record = unnamed(record).await.map_err(|error| {
                    tracing::info!(%error, "a record of another server cannot be read");
                    Withheld::Hidden
                })?;
            }
        }
        if is_known {
            return Ok(Released(record));
        }
        match self.passes_tags(sent, reader).await {
            Ok(true) => Ok(Released(record)),
            Ok(false) => Err(Withheld::Hidden),
            Err(error) => Err(Withheld::Unknown(error)),
        }
    }

    /// Returns whether the collection lends payloads of hidden originals.
    pub(crate) fn lends_hidden(&self) -> bool {
        self.lends
    }

    /// Returns whether a reader gets the record of a row.
    pub(crate) async fn shows(&self, row: &Row, reader: Reader<'_>) -> bool {
        self.verdict_of(row) <= rules::Access::Allow
            && self.passes_tags(row.clone(), reader).await.unwrap_or(false)
    }

    async fn passes_tags(&self, row: Row, reader: Reader<'_>) -> Result<bool, AccessError> {
        match &self.tags {
            Some(tags) if reader.has_tags() => {
                let left = by_all_keys(tags, reader, vec![row]).await?;
                Ok(!left.is_empty())
            }
            _ => Ok(true),
        }
    }
}

/// Returns the row to check for a record (with the URL and timestamp of the record), and whether that row is the same
/// capture as `row`. If it is, the tags of `row` apply. Returns `None` if the record's URL has no key.
fn sent(row: &Row, record: &Record) -> Option<(Row, bool)> {
    let requested = as_requested(&record.target_uri).map(String::from);
    let key = urlkey(&requested.unwrap_or_else(|| record.target_uri.clone())).ok()?;
    let date = record.date.to_string();
    let OtherKeys { of_url, also, .. } = other_keys(row);
    // The key of a request with a body includes the body, while its record has the URL only.
    let is_of_row = key.as_bytes() == row.urlkey()
        || of_url
            .iter()
            .chain(&also)
            .any(|other| *other == key.as_bytes())
        || urlkey(&row.field("url")).is_ok_and(|own| own == key);
    let key = if is_of_row {
        row.urlkey()
    } else {
        key.as_bytes()
    };
    let digits = row.timestamp();
    let is_same_moment = date
        .as_bytes()
        .starts_with(digits.get(..DIGITS).unwrap_or(digits));
    let is_whole = is_same_moment && digits.len() >= DIGITS;
    let timestamp = if is_whole { digits } else { date.as_bytes() };
    let line = [key, b" ", timestamp, b" ", row.json()].concat();
    let sent = Row::new(line.into())?.made_of(row);
    Some((sent, is_of_row && is_same_moment))
}

/// Returns the strictest decision of the rules about a row over all of its keys. Ignores secondary keys that no rule
/// matches.
fn strictest(rules: &Rules, row: &Row, now: Timestamp, near: &mut Option<usize>) -> rules::Access {
    let others = other_keys(row);
    if others.is_unreadable {
        return rules::Access::Exclude;
    }
    let at = |timestamp: &[u8], own: rules::Access| {
        let of_url = others.of_url.iter();
        let of_url = of_url.map(|key| rules.verdict(key, timestamp, now).0);
        let also = others.also.iter();
        let also = also.filter_map(|key| rules.rule_for(key, timestamp, now));
        of_url.chain(also).fold(own, rules::Access::max)
    };
    let timestamp = row.timestamp();
    let own = at(timestamp, rules.access(row, now, near));
    if timestamp.len() >= DIGITS {
        return own;
    }
    // A shortened timestamp denotes a period, so the end of the period is checked as well.
    let Some(last) = Timestamp::latest(timestamp).map(|last| last.to_string()) else {
        return rules::Access::Exclude;
    };
    let last = last.as_bytes();
    own.max(at(last, rules.verdict(row.urlkey(), last, now).0))
}

/// Removes the location of the original from rows. Rows that cannot be parsed are dropped.
fn without_originals(rows: Batch) -> Batch {
    rows.into_iter().filter_map(Row::without_original).collect()
}

/// Returns the rows that access rules do not exclude.
fn allowed(rows: Batch, rules: &Rules, near: &mut Option<usize>) -> Batch {
    let now = Timestamp::now();
    let allowed = rows
        .into_iter()
        .filter_map(|row| match strictest(rules, &row, now, near) {
            rules::Access::Exclude => None,
            rules::Access::Block => Some(row.with(r#""access": "block""#)),
            rules::Access::Allow | rules::Access::AllowIgnoreEmbargo => Some(row),
        });
    allowed.collect()
}

/// Returns the rows that pass an access point and tag filters.
fn tagged(
    rows: BoxStream<'static, Batch>,
    tags: Access,
    query: Arc<Query>,
) -> BoxStream<'static, Result<Batch, Failure>> {
    let state = Some((rows, false));
    let tagged = stream::unfold(state, move |state| {
        let (tags, query) = (tags.clone(), Arc::clone(&query));
        async move {
            let (mut rows, asked) = state?;
            let reader = Reader::of(&query);
            let passed = match rows.next().await {
                Some(batch) => by_all_keys(&tags, reader, batch).await,
                None if asked => return None,
                None => {
                    let checked = tags.check(reader.point, reader.tag_filters).await;
                    return checked.err().map(|error| (Err(error.into()), None));
                }
            };
            match passed {
                Ok(batch) => Some((Ok(batch), Some((rows, true)))),
                Err(error) => Some((Err(error.into()), None)),
            }
        }
    });
    tagged.boxed()
}

/// Returns the rows that pass under all of their keys. Ignores secondary keys without tags of their own.
async fn by_all_keys(tags: &Access, reader: Reader<'_>, rows: Batch) -> Result<Batch, AccessError> {
    let mut passed = tags.filter(reader.point, reader.tag_filters, rows).await?;
    let (mut asked, mut places) = (Batch::new(), Vec::new());
    let mut named = Vec::new();
    for (place, row) in passed.iter().enumerate() {
        let under = |key: &Vec<u8>| {
            let rest = row.line().get(row.urlkey().len()..).unwrap_or_default();
            Row::new([key, rest].concat().into())
        };
        let OtherKeys { of_url, also, .. } = other_keys(row);
        for other in of_url.iter().filter_map(under) {
            asked.push(other);
            places.push(place);
        }
        named.extend(also.iter().filter_map(under).map(|other| (place, other)));
    }
    if !named.is_empty() {
        let pairs = named
            .iter()
            .flat_map(|(place, other)| [passed.get(*place), Some(other)]);
        let pairs: Batch = pairs.flatten().cloned().collect();
        let all = tags.tags(&pairs).await?;
        for (pair, (place, other)) in all.chunks(2).zip(named) {
            let [own, others] = pair else { continue };
            if others.iter().any(|tag| !own.contains(tag)) {
                asked.push(other);
                places.push(place);
            }
        }
    }
    if asked.is_empty() {
        return Ok(passed);
    }
    let bits = tags
        .passes(reader.point, reader.tag_filters, &asked)
        .await?;
    let mut stays = vec![true; passed.len()];
    for (place, passes) in places.into_iter().zip(bits) {
        if let Some(stays) = stays.get_mut(place) {
            *stays &= passes;
        }
    }
    let mut stays = stays.into_iter();
    passed.retain(|_| stays.next().unwrap_or(false));
    Ok(passed)
}
