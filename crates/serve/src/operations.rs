//! Operations on rows between the sources and the answer.
//!
//! The order is pywb's: resolve revisits, filter, restrict the time range, collapse. Operations that depend on
//! neighbouring captures see rows in ascending order of time; sorting and the limit follow.

use std::collections::HashMap;
use std::sync::Arc;

use crawlspace_cdx::{Collapse, Field, Line, surt};
use url::Url;

use super::fuzzy;
use super::memory::{Full, PIECE, Reservation};
use super::shown;
use crate::query::{Query, RowFilter, absolute};
use crawlspace_index::row::{self, Row};
use crawlspace_index::sorted::Order;
use crawlspace_index::source::Batch;
use crawlspace_index::timestamp::{self, Timestamp};

/// Maximum number of originals cached to resolve later revisits. Revisits of further payloads stay
/// unresolved.
const MAX_ORIGINALS: usize = 100_000;
/// Maximum number of rows that are sorted.
pub(crate) const SORTED: usize = 250_000;

/// Operations of a query, applied to each row in ascending order of time.
pub(crate) struct Operations {
    query: Arc<Query>,
    originals: Option<OriginalsByDigest>,
    clamp: Option<(String, String)>,
    collapse_time: Option<CollapseTime>,
    collapse: Vec<Collapse>,
    /// The last row so far among those with the same value, if `collapseToLast` is set.
    held: Option<Row>,
}

impl Operations {
    /// Returns the operations of a query, or `None` if there are none.
    pub(crate) fn of(query: &Arc<Query>) -> Option<Operations> {
        let clamped = query.resolve_revisits && (query.from.is_some() || query.to.is_some());
        let passes_all = query.filters.is_empty()
            && query.shown_filters.is_empty()
            && query.similar_to.is_none()
            && !query.omit_self_redirects
            && !query.needs_ascending();
        if passes_all {
            return None;
        }
        let text = |moment: Option<Timestamp>, otherwise: &str| {
            moment.map_or_else(|| otherwise.to_owned(), |moment| moment.to_string())
        };
        Some(Operations {
            originals: query.resolve_revisits.then(OriginalsByDigest::default),
            clamp: clamped.then(|| (text(query.from, "0000"), text(query.to, "99991231235959"))),
            collapse_time: query
                .collapse_time
                .map(|digits| CollapseTime { digits, last: None }),
            collapse: query.collapse.clone(),
            held: None,
            query: Arc::clone(query),
        })
    }

    /// Returns the rows that pass. Rows with invalid JSON are dropped.
    pub(crate) fn apply(&mut self, batch: Batch) -> Batch {
        batch.into_iter().filter_map(|row| self.row(row)).collect()
    }

    /// Returns the row that is still held back, if there is one.
    pub(crate) fn finish(&mut self) -> Batch {
        self.held.take().into_iter().collect()
    }

    fn row(&mut self, row: Row) -> Option<Row> {
        let similar = self.query.similar_to.as_deref();
        if similar.is_some_and(|key| fuzzy::reduced(&String::from_utf8_lossy(row.urlkey())) != key)
        {
            return None;
        }
        let row = match &self.originals {
            Some(_) => row.with(NO_ORIGINAL),
            None => row,
        };
        let line = row.capture()?;
        let originals = self.originals.as_mut();
        let resolved = originals.and_then(|originals| originals.resolve(&row, &line));
        let line = match &resolved {
            Some(resolved) => resolved.capture()?,
            None => line,
        };
        // Tag filters were applied by the gate.
        let passes = |one: &RowFilter| one.filter.passes(&line, &mut |_| false).unwrap_or(false);
        if !self.query.filters.iter().all(passes) {
            return None;
        }
        if !shown::passes(&line, &self.query.shown_filters) {
            return None;
        }
        if self.query.omit_self_redirects && leads_to_itself(&line) {
            return None;
        }
        if let Some((from, to)) = &self.clamp {
            let time = row.timestamp();
            let seconds = &time[..time.len().min(14)];
            if timestamp::compare(seconds, from.as_bytes()).is_lt()
                || timestamp::compare(seconds, to.as_bytes()).is_gt()
            {
                return None;
            }
        }
        if let Some(collapse) = &mut self.collapse_time {
            let status = line.field(&Field::Status).unwrap_or_default();
            if !collapse.is_new(row.timestamp(), &status) {
                return None;
            }
        }
        let as_shown = self.query.collapse_as_shown;
        let is_new = self.collapse.iter_mut().all(|collapse| {
            if as_shown {
                let value = shown::value(&line, collapse.field());
                collapse.is_new_value(&value)
            } else {
                collapse.is_new(&line).unwrap_or(true)
            }
        });
        drop(line);
        let row = resolved.unwrap_or(row);
        if !self.query.collapse_to_last {
            return is_new.then_some(row);
        }
        let before = self.held.replace(row);
        before.filter(|_| is_new)
    }
}

/// Returns whether the row's capture redirects to its own URL.
pub(crate) fn is_self_redirect(row: &Row) -> bool {
    memchr::memmem::find(row.json(), b"\"redirect").is_some()
        && row.capture().is_some_and(|line| leads_to_itself(&line))
}

/// Returns whether a capture redirects to its own URL, judged by urlkeys and the redirect field of the row.
fn leads_to_itself(line: &Line<'_>) -> bool {
    let value = |field: Field| line.field(&field).unwrap_or_default();
    let (url, to) = (value(Field::Url), value(Field::Redirect));
    if to.is_empty() || *to == *b"-" {
        return false;
    }
    let [url, to] = [url, to].map(|text| String::from_utf8_lossy(&text).into_owned());
    let to = Url::parse(&absolute(&url)).and_then(|url| url.join(&to));
    let key = to.ok().and_then(|to| surt::urlkey(to.as_str()).ok());
    key.is_some_and(|key| key.as_bytes() == &value(Field::Urlkey)[..])
}

/// Keeps the first of successive captures with the same time span and status.
struct CollapseTime {
    /// Number of leading timestamp digits that identify a time span.
    digits: usize,
    /// Time span and status of the previous capture.
    last: Option<(Vec<u8>, Vec<u8>)>,
}

impl CollapseTime {
    fn is_new(&mut self, time: &[u8], status: &[u8]) -> bool {
        let span = &time[..time.len().min(self.digits)];
        let same = |(t, s): &(Vec<u8>, Vec<u8>)| t == span && s == status;
        if self.last.as_ref().is_some_and(same) {
            return false;
        }
        self.last = Some((span.to_vec(), status.to_vec()));
        true
    }
}

/// Locations of payloads by digest.
#[derive(Default)]
struct OriginalsByDigest {
    known: HashMap<Box<[u8]>, Original>,
    kept: Reservation,
}

/// Fields that revisits take over from their original.
const TAKEN_OVER: [Field; 5] = [
    Field::Length,
    Field::Offset,
    Field::Filename,
    Field::Mime,
    Field::Status,
];

/// Values of [`TAKEN_OVER`], in a single allocation.
struct Original {
    values: Box<str>,
    ends: [u32; TAKEN_OVER.len()],
}

impl Original {
    /// Overhead of an entry in addition to its values and digest, in bytes. The hash table doubles
    /// when it is full.
    const SIZE: usize = 3 * size_of::<(Box<[u8]>, Original)>() + 2 * PIECE;

    fn of(line: &Line<'_>) -> Original {
        let mut values = String::new();
        let ends = TAKEN_OVER.map(|field| {
            let value = line.field(&field).unwrap_or_default();
            values.push_str(&String::from_utf8_lossy(&value));
            u32::try_from(values.len()).unwrap_or(u32::MAX)
        });
        Original {
            values: values.into(),
            ends,
        }
    }

    /// Returns the values of [`TAKEN_OVER`], in that order.
    fn values(&self) -> [&str; TAKEN_OVER.len()] {
        let mut begin = 0;
        self.ends.map(|end| {
            let value = self.values.get(begin..end as usize).unwrap_or_default();
            begin = end as usize;
            value
        })
    }
}

impl OriginalsByDigest {
    /// Adds `orig.length`, `orig.offset`, `orig.filename`, media type and status to a revisit whose
    /// original is an earlier row. Returns `None` for any other row. `line` is `row` with
    /// [`NO_ORIGINAL`] at its end.
    fn resolve(&mut self, row: &Row, line: &Line<'_>) -> Option<Row> {
        let value = |field: Field| line.field(&field).unwrap_or_default();
        let digest = value(Field::Digest);
        if digest.is_empty() || &digest[..] == b"-" {
            return None;
        }
        if !is_revisit(line) {
            if self.known.len() < MAX_ORIGINALS && !self.known.contains_key(&digest[..]) {
                let original = Original::of(line);
                let size = Original::SIZE + digest.len() + original.values.len();
                if self.kept.bytes(size).is_ok() {
                    self.known.insert(digest[..].into(), original);
                }
            }
            return None;
        }
        let [length, offset, filename, mime, status] = self.known.get(&digest[..])?.values();
        let mut members = String::new();
        let own = line.members();
        for (name, written) in own.iter().take(own.len() - ADDED) {
            match Field::named(name.as_bytes()) {
                Field::Mime => row::member(name, mime, &mut members),
                Field::Status => row::member(name, status, &mut members),
                _ => row::written(name, written, &mut members),
            }
        }
        for (name, value) in [
            ("orig.length", length),
            ("orig.offset", offset),
            ("orig.filename", filename),
        ] {
            let value = if value.is_empty() { "-" } else { value };
            row::member(name, value, &mut members);
        }
        let key = String::from_utf8_lossy(row.urlkey());
        let time = String::from_utf8_lossy(row.timestamp());
        row::build(&key, &time, &members).map(|built| built.made_of(row))
    }
}

/// JSON members of a row without an original; their number is `ADDED`.
const NO_ORIGINAL: &str = r#""orig.length": "-", "orig.offset": "-", "orig.filename": "-""#;
const ADDED: usize = 3;

/// Returns whether a capture is a revisit, whose payload is in another capture.
pub(crate) fn is_revisit(line: &Line<'_>) -> bool {
    let value = |field: Field| line.field(&field).unwrap_or_default();
    &value(Field::Mime)[..] == b"warc/revisit" || &value(Field::Filename)[..] == b"-"
}

/// Collects rows in ascending order and sorts them into another order.
pub(crate) struct Reorder {
    order: Order,
    /// Maximum number of rows in the answer.
    most: usize,
    rows: Vec<Row>,
    kept: Reservation,
}

/// The reason why rows cannot be sorted.
#[derive(Debug)]
pub(crate) enum Unsorted {
    /// There are more rows than the server sorts.
    TooMany,
    /// The memory limit is exceeded.
    Full,
}

impl From<Full> for Unsorted {
    fn from(_: Full) -> Unsorted {
        Unsorted::Full
    }
}

impl Reorder {
    /// Creates a sorter for a query whose rows arrive in ascending order but are wanted in another order.
    pub(crate) fn new(order: Order, limit: Option<u64>) -> Reorder {
        let most = limit.and_then(|limit| usize::try_from(limit).ok());
        Reorder {
            order,
            most: most.unwrap_or(usize::MAX),
            rows: Vec::new(),
            kept: Reservation::default(),
        }
    }

    /// Adds rows.
    ///
    /// # Errors
    /// Fails if there are too many rows, or the memory limit is exceeded.
    pub(crate) fn take(&mut self, batch: Batch) -> Result<(), Unsorted> {
        self.rows.extend(self.kept.rows(&batch)?);
        // Sort from time to time, so that the rows beyond the limit can be dropped.
        if self.rows.len() / 2 > self.most.max(1024) {
            self.settle();
            let mut kept = Reservation::default();
            self.rows = kept.rows(&self.rows)?;
            self.kept = kept;
        }
        if self.rows.len() > SORTED {
            Err(Unsorted::TooMany)
        } else {
            Ok(())
        }
    }

    fn settle(&mut self) {
        let order = self.order;
        self.rows.sort_by(|a, b| order.compare(a, b));
        self.rows.truncate(self.most);
    }

    /// Returns the sorted rows, and their memory reservation.
    pub(crate) fn finish(mut self) -> (Batch, Reservation) {
        self.settle();
        (self.rows, self.kept)
    }
}

#[cfg(test)]
mod tests;
