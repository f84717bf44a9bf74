//! Queries to both servers, and the accepted differences between their answers.

use serde::Deserialize;

/// A query, and the accepted difference between the two answers.
pub struct Case {
    /// The collection.
    pub collection: &'static str,
    /// Query string after `index?`.
    pub query: &'static str,
    /// Reason why the answers may differ.
    pub accepted: Option<Accepted>,
}

/// An accepted difference.
#[derive(Clone, Copy, Debug, Deserialize)]
pub enum Accepted {
    /// An invalid parameter is refused with 400 and a JSON `message` (a rule of this API). pywb uses a default, or
    /// fails with 500 or 503.
    BadParameter,
    /// Both refuse a parameter with 400 and a JSON `message`, but the messages differ.
    BothRefuse,
    /// An unknown collection is 404 with a JSON `message`. pywb treats it as a folder that may appear later, and
    /// returns no rows.
    UnknownCollection,
    /// An unknown sort order is refused; pywb ignores it.
    UnknownSort,
    /// Queries without results: pywb then looks for similar URLs, by rules for certain web sites and parameters.
    /// Crawlspace returns no other URLs for an exact query.
    Fuzzy,
    /// pywb's parameter `s` stands for both status and length, and the length wins.
    FieldNamedTwice,
    /// An unknown source is refused; pywb returns no rows.
    UnknownSource,
    /// A timestamp that ends within a two-digit number, such as `2018022`: here it denotes all days that start with the
    /// last digit, 20 to 29. In pywb, it denotes the 20th as a start, and the 21st as an end.
    HalfNumber,
    /// Without `output=json`, the number of pages is still sent as JSON, with the media type of JSON; pywb
    /// labels the same body as CDXJ.
    PagesAreJson,
    /// A TimeMap contains links to the TimeGate, the TimeMap and the first and last memento (RFC 7089, section 5).
    /// pywb's index lists only mementos, with the original's URL instead of the memento's.
    TimeMap,
}

/// Returns all cases of `queries.txt`.
pub fn cases() -> Vec<Case> {
    let lines = include_str!("queries.txt").lines();
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let case = |line: &'static str| {
        let (collection, rest) = line.split_once(" ?").unwrap_or_else(|| panic!("{line:?}"));
        let mut words = rest.split(' ');
        let query = words.next().unwrap_or_default();
        let accepted = words
            .next()
            .map(|name| serde_json::from_value(name.into()).expect(line));
        Case {
            collection,
            query,
            accepted,
        }
    };
    lines.map(case).collect()
}
