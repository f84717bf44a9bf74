//! What a request to the index asks for.

use std::fmt;
use std::sync::Arc;

use crawlspace_cdx::surt::{KeyRange, MatchType};
use crawlspace_cdx::Filter;

use super::timestamp::Timestamp;

/// The parameters of a query, read and checked once.
#[derive(Clone, Debug)]
pub struct Query {
    /// The URL without the `*` of a wildcard, with a scheme.
    pub url: String,
    /// Which URLs match.
    pub match_type: MatchType,
    /// Their urlkeys.
    pub keys: KeyRange,
    /// The first second that counts.
    pub from: Option<Timestamp>,
    /// The last second that counts.
    pub to: Option<Timestamp>,
    /// The order of the answer; for [`Order::Closest`], the moment.
    pub order: Order,
    /// The moment of `closest`, as it was given: fewer than 14 digits mean the first second.
    pub closest: Option<Timestamp>,
    /// So many rows at most.
    pub limit: Option<u64>,
    /// Filters that rows are read for.
    pub filters: Vec<RowFilter>,
    /// Filters by tags, which a tag space answers.
    pub tag_filters: Vec<String>,
    /// Only these fields, in that order.
    pub fields: Option<Vec<String>>,
    /// How rows are written.
    pub output: Output,
    /// `collapse`: a field, or the first bytes of one.
    pub collapse: Option<String>,
    /// `collapseTime`: so many digits of the timestamp, and the status, as pywb does it.
    pub collapse_time: Option<usize>,
    /// Whether revisits get `orig.length`, `orig.offset` and `orig.filename`.
    pub resolve_revisits: bool,
    /// Which page, from 0.
    pub page: Option<u64>,
    /// How large a page is.
    pub page_size: Option<u64>,
    /// Only the number of pages is wanted.
    pub show_num_pages: bool,
    /// Which sources are asked.
    pub sources: Selection,
    /// The access point.
    pub point: Option<String>,
}

/// A filter and how it was written, for servers that understand it.
#[derive(Clone, Debug)]
pub struct RowFilter {
    /// As in the request, in pywb's dialect.
    pub text: String,
    /// The same, ready for use.
    pub filter: Arc<Filter>,
}

/// The order of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// By urlkey, then time.
    Ascending,
    /// The other way round.
    Descending,
    /// By the distance in time, whatever the urlkey; of two that are as far, that which comes first when ascending.
    Closest(Timestamp),
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
    /// All of them.
    #[default]
    All,
    /// These.
    Only(Vec<String>),
    /// All but these.
    Except(Vec<String>),
}

impl Selection {
    /// Whether a source of that name is asked.
    pub fn includes(&self, name: &str) -> bool {
        match self {
            Selection::All => true,
            Selection::Only(names) => names.iter().any(|one| one == name),
            Selection::Except(names) => !names.iter().any(|one| one == name),
        }
    }
}

/// A parameter is missing or wrong. The text names it and says what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadQuery(pub String);

impl fmt::Display for BadQuery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadQuery {}
