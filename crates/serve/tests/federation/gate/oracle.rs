//! Oracle: decides from rules, URL and timestamp alone what a reader may get.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::LazyLock;

use crawlspace_index::timestamp::Timestamp;
use redis_tests::Rng;

/// Kinds of sources.
pub const SOURCES: [&str; 8] = [
    "file", "package", "zipnum", "redis", "cdx", "memento", "upstream", "live",
];
/// Kinds of rules.
pub const RULES: [&str; 11] = [
    "exclude", "block", "after", "before", "dates", "default", "staff", "member", "public",
    "point", "none",
];
/// Paths of responses, followed by those of revisits.
pub const PATHS: [&str; 11] = [
    "/open",
    "/law",
    "/secret",
    "/secret/deep",
    "/open/~user",
    "/",
    "/open/again",
    "/open/again/two",
    "/open/again/three",
    "/law/again",
    "/secret/again",
];
const RESPONSES: usize = 6;
/// Years of stored captures, followed by the year of live captures.
const YEARS: [&str; 5] = ["2014", "2016", "2018", "2020", "2030"];
const STORED: usize = 4;
const LIVE: usize = STORED;

/// Seed of the stored captures and of the sources' behaviour.
static SALT: LazyLock<u64> = LazyLock::new(|| Rng::new("the world of the gate").bits());

/// A capture, or a substitute for one. Each has a unique timestamp, from which its URL can be inferred.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Capture {
    path: usize,
    year: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Shown,
    Blocked,
    Hidden,
}

/// The way in which a revisit names its original.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reference {
    /// The record names the URL and date.
    Named,
    /// The row has file and offset, and the record names the URL and date.
    InRow,
    /// The row has file and offset, while the record names the URL and date of a capture that all readers may see.
    Lying,
    /// The record names the URL and date, with the profile "not modified".
    Unmodified,
}

/// The content sent for a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    pub record: Capture,
    /// Capture whose payload is sent.
    pub payload: Capture,
    /// Set if that capture is hidden: it lends its payload, but must not be named.
    pub is_hidden: bool,
}

pub fn is_local(source: &str) -> bool {
    matches!(source, "file" | "package" | "zipnum" | "redis")
}

/// Returns the captures of a path that a source of the given kind has.
pub fn captures(source: &str, path: usize) -> impl Iterator<Item = Capture> + Clone {
    let years = if source == "live" {
        LIVE..LIVE + 1
    } else {
        0..STORED
    };
    years.map(move |year| Capture { path, year })
}

/// Returns all stored captures.
pub fn stored() -> impl Iterator<Item = Capture> {
    (0..PATHS.len()).flat_map(|path| captures("file", path))
}

impl fmt::Debug for Capture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.path(), YEARS[self.year])
    }
}

impl Capture {
    /// Returns the live capture of a path.
    pub fn live(path: usize) -> Capture {
        Capture { path, year: LIVE }
    }

    /// Returns the capture with a 14-digit timestamp.
    pub fn of_moment(moment: &str) -> Option<Capture> {
        let year = YEARS.iter().position(|year| moment.starts_with(year))?;
        let path = moment.get(4..)?.strip_prefix("01010000")?.parse().ok()?;
        (path < PATHS.len()).then_some(Capture { path, year })
    }

    pub fn path(self) -> &'static str {
        PATHS[self.path]
    }

    pub fn moment(self) -> String {
        format!("{}01010000{:02}", YEARS[self.year], self.path)
    }

    pub fn http_date(self) -> String {
        let moment = Timestamp::earliest(self.moment().as_bytes());
        moment.unwrap().http_date()
    }

    /// Returns the payload, if the capture is a response.
    pub fn text(self) -> String {
        format!("capture of {} at {}.", self.path(), self.moment())
    }

    /// Derives a deterministic pseudo-random number from the capture and a label.
    fn draw(self, word: &str) -> usize {
        let place = (self.path * YEARS.len() + self.year) as u64;
        let bytes = word.bytes().map(u64::from);
        let seed = bytes.fold(*SALT ^ place, |seed, byte| Rng::seeded(seed ^ byte).bits());
        (Rng::seeded(seed).bits() >> 32) as usize
    }

    /// Returns the original of a revisit, and how the revisit names it.
    pub fn original(self) -> Option<(Capture, Reference)> {
        if self.path < RESPONSES || self.year == LIVE {
            return None;
        }
        let of = |number: usize| Capture {
            path: number % RESPONSES,
            year: number / RESPONSES % STORED,
        };
        let first = self.draw("original");
        let mut all = (first..).map(of);
        let original = all.find(|one| sent("file", *one).is_some()).unwrap();
        let reference = match self.draw("reference") % 4 {
            0 => Reference::Named,
            1 => Reference::InRow,
            2 => Reference::Lying,
            _ => Reference::Unmodified,
        };
        Some((original, reference))
    }

    /// Returns another capture of the same path.
    pub fn other(self) -> Capture {
        let year = (self.year + 1 + self.draw("other") % 3) % STORED;
        Capture { year, ..self }
    }

    /// Returns a capture of another path.
    pub fn elsewhere(self) -> Capture {
        let path = (self.path + 1) % RESPONSES;
        Capture { path, ..self }
    }
}

/// Draws how a source of the given kind reacts to a request for the record of a row.
pub fn deed(source: &str, row: Capture) -> usize {
    row.draw(if is_local(source) { "file" } else { source }) % 6
}

/// Returns the capture that a source of the given kind sends for a row; `None` if it sends no record of the
/// URL.
pub fn sent(source: &str, row: Capture) -> Option<Capture> {
    match (source, deed(source, row)) {
        ("live", _) => Some(row),
        // The file has another record at the location of the row.
        (_, 5) if is_local(source) => (row.path >= RESPONSES).then_some(row),
        _ if is_local(source) => Some(row),
        (_, 0 | 1) => Some(row),
        (_, 2) | ("memento" | "cdx", 3) => Some(row.other()),
        ("cdx", 4) => Some(row),
        _ => None,
    }
}

/// Returns which parts of a capture a reader may see.
pub fn verdict(rules: &str, capture: Capture) -> Verdict {
    let (path, moment) = (capture.path(), &*capture.moment());
    let hidden = match rules {
        "exclude" => path.starts_with("/secret") && !path.starts_with("/secret/deep"),
        "block" if path.starts_with("/law") => return Verdict::Blocked,
        "after" => moment > "20161231235959",
        "before" => moment < "20170101000000",
        "dates" => path.starts_with("/secret") && moment < "20170101000000",
        "default" => !path.starts_with("/open"),
        "staff" => path.starts_with("/secret"),
        "public" | "point" => path.starts_with("/law") && moment > "20170101000000",
        _ => false,
    };
    if hidden {
        Verdict::Hidden
    } else {
        Verdict::Shown
    }
}

/// A request.
#[derive(Clone, Debug)]
pub struct Case {
    pub source: &'static str,
    pub rules: &'static str,
    /// Sets `hidden_originals: lend` in the collection.
    pub lends: bool,
    pub door: &'static str,
    pub path: usize,
    /// Requested timestamp.
    pub moment: Capture,
}

impl Case {
    pub fn collection(&self) -> String {
        collection(self.source, self.rules, self.lends)
    }

    pub fn verdict(&self, capture: Capture) -> Verdict {
        verdict(self.rules, capture)
    }

    fn is_shown(&self, capture: Capture) -> bool {
        self.verdict(capture) == Verdict::Shown
    }

    /// Returns all rows, visible or not.
    pub fn rows(&self) -> Vec<Capture> {
        let paths = match self.door {
            "prefix" => 0..PATHS.len(),
            _ => self.path..self.path + 1,
        };
        let captures = paths.flat_map(|path| captures(self.source, path));
        captures.collect()
    }

    /// Returns the content sent for a record; `None` if its original is hidden or missing.
    fn record(&self, record: Capture) -> Option<Sent> {
        let has_revisits = is_local(self.source) || self.source == "upstream";
        let Some((original, reference)) = record.original().filter(|_| has_revisits) else {
            return Some(Sent {
                record,
                payload: record,
                is_hidden: false,
            });
        };
        let sent = |payload: Capture| Sent {
            record,
            payload,
            is_hidden: !self.is_shown(payload),
        };
        let may_be_sent = |sent: &Sent| self.lends || !sent.is_hidden;
        if reference != Reference::Unmodified || !is_local(self.source) {
            return Some(sent(original)).filter(may_be_sent);
        }
        // The original of "not modified" is the closest earlier capture.
        let before = (0..=original.year).rev();
        let before = before.map(|year| Capture { year, ..original });
        let mut before = before.filter(|one| self::sent(self.source, *one).is_some());
        before.by_ref().map(sent).find(may_be_sent)
    }

    /// Returns the expected status and content of the response to a request for a record.
    pub fn expected(&self) -> (u16, Option<Sent>) {
        let mut rows = self.rows();
        let seconds = |capture: &Capture| {
            let moment = Timestamp::earliest(capture.moment().as_bytes());
            moment.unwrap().seconds()
        };
        rows.sort_by_key(|row| (seconds(row) - seconds(&self.moment)).abs());
        for row in rows {
            match self.verdict(row) {
                Verdict::Hidden => continue,
                Verdict::Blocked => return (451, None),
                Verdict::Shown => {}
            }
            let Some(record) = sent(self.source, row) else {
                continue;
            };
            match self.verdict(record) {
                Verdict::Hidden => continue,
                Verdict::Blocked => return (451, None),
                Verdict::Shown => {}
            }
            if let Some(sent) = self.record(record) {
                return (self.status(row), Some(sent));
            }
        }
        (404, None)
    }

    /// Returns the status of the response with the record of a row.
    fn status(&self, row: Capture) -> u16 {
        match (self.source, self.door, deed(self.source, row)) {
            ("live", "raw", 4) => 302,
            ("live", "raw", 5) => 404,
            _ => 200,
        }
    }

    /// Returns whether rules hide anything from the reader.
    pub fn hides(&self) -> bool {
        let is_hidden = |capture: Capture| self.verdict(capture) == Verdict::Hidden;
        self.rows().into_iter().any(|row| {
            let sent = sent(self.source, row).into_iter();
            let original = sent.clone().filter_map(Capture::original);
            let all = sent.chain(original.map(|(original, _)| original));
            is_hidden(row) || all.into_iter().any(is_hidden)
        })
    }
}

pub fn collection(source: &str, rules: &str, lends: bool) -> String {
    let lends = if lends { "-lend" } else { "" };
    format!("{source}-{rules}{lends}")
}

/// Returns the captures whose timestamp occurs in `text`, as digits, in ISO 8601 or in HTTP's format. A
/// timestamp of today denotes the live capture of `path`.
pub fn told(text: &str, path: usize) -> BTreeSet<Capture> {
    let bytes = text.as_bytes();
    let mut told = BTreeSet::new();
    let mut tell = |moment: &str| {
        let is_of_today = moment > "2021" && moment < "2030";
        told.extend(if is_of_today {
            Some(Capture::live(path))
        } else {
            Capture::of_moment(moment)
        });
    };
    let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    for at in 0..bytes.len() {
        if !is_digit(at) || at > 0 && is_digit(at - 1) {
            continue;
        }
        let run = (at..).take_while(|at| is_digit(*at)).count();
        if run == 14 {
            tell(&text[at..at + run]);
        }
        if run == 4 && bytes.get(at + 10) == Some(&b'T') {
            let digits = bytes[at..]
                .iter()
                .take(19)
                .filter(|byte| byte.is_ascii_digit());
            tell(&digits.map(|byte| char::from(*byte)).collect::<String>());
        }
    }
    for (end, _) in text.match_indices(" GMT") {
        let date = end
            .checked_sub(25)
            .and_then(|begin| text.get(begin..end + 4));
        if let Some(moment) = date.and_then(Timestamp::from_http_date) {
            tell(&moment.to_string());
        }
    }
    told
}
