//! The queries that both are asked, and where their answers may differ.

use serde::Deserialize;

/// A query, and how the two answers may differ.
pub struct Case {
    /// The collection.
    pub collection: &'static str,
    /// What stands after `index?`.
    pub query: &'static str,
    /// Why the answers may differ.
    pub accepted: Option<Accepted>,
}

/// A difference that is meant.
#[derive(Clone, Copy, Debug, Deserialize)]
pub enum Accepted {
    /// A parameter that cannot be understood is refused with 400 and a JSON `message` (a rule of this API). pywb takes
    /// a default for it, fails with 500, or with 503.
    BadParameter,
    /// Both refuse a parameter with 400 and a JSON `message`, in other words.
    BothRefuse,
    /// An unknown collection is 404 with a JSON `message`. pywb takes it for a folder that may come to be, and
    /// answers with no rows.
    UnknownCollection,
    /// A sort order that nobody knows is refused; pywb takes it for none.
    UnknownSort,
    /// Where nothing is found, pywb looks for similar URLs, by rules for certain web sites and for certain
    /// parameters. Here an exact query is exact.
    Fuzzy,
    /// pywb's parameter `s` is once the status and once the length, and the length wins.
    FieldNamedTwice,
    /// A source that nobody knows is refused; pywb gives no rows.
    UnknownSource,
    /// Half of a number of two digits, as in `2018022`: here it means all that it can be the beginning of, the days
    /// 20 to 29. In pywb it means the 20th as the first, and the 21st as the last.
    HalfNumber,
    /// The number of pages is JSON and says so, where pywb says that it is CDXJ, without `output=json`.
    PagesAreJson,
    /// A TimeMap names the timegate, the TimeMap and the first and last memento (RFC 7089, section 5). pywb's index
    /// lists mementos alone, with the URL of the original in the place of that of the memento.
    TimeMap,
}

/// All cases of `queries.txt`.
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
