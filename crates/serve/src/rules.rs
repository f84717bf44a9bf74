//! Access rules by URL: which captures of a collection readers get, as pywb's `.aclj` files, `default_access` and
//! `embargo` say.
//!
//! The rule with the longest prefix of a capture's urlkey decides, then the embargo. A capture that cannot be judged
//! is excluded.

use std::cmp::Reverse;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crawlspace_archive::row::Row;
use crawlspace_archive::timestamp::Timestamp;

/// Ending of a key that is a whole urlkey, and no prefix of others.
const EXACT: &[u8] = b"###";
/// The key that is a prefix of all urlkeys.
const ALL: &[u8] = b"*,";
/// Ending of the files with rules.
const EXTENSION: &str = "aclj";
/// The mark that some editors put before a text in UTF-8.
const BOM: &[u8] = b"\xef\xbb\xbf";
/// How keys are written.
const KEYS: &str = "write com,example)/path for http://example.com/path, com,example, for a domain with all of its hosts, and *, for everything";
/// The parent of a rule that has none.
const NONE: u32 = u32::MAX;

/// What readers get of a capture, from the least to the most restrictive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// All of it, even under an embargo.
    AllowIgnoreEmbargo,
    /// All of it.
    Allow,
    /// Its row in the index; the record is refused with status 451 (RFC 7725).
    Block,
    /// Nothing, as if it did not exist.
    Exclude,
}

impl Access {
    const ALL: [Access; 4] = [
        Access::Allow,
        Access::Block,
        Access::Exclude,
        Access::AllowIgnoreEmbargo,
    ];

    /// Its name in files of rules and in configurations.
    pub fn name(self) -> &'static str {
        match self {
            Access::AllowIgnoreEmbargo => "allow_ignore_embargo",
            Access::Allow => "allow",
            Access::Block => "block",
            Access::Exclude => "exclude",
        }
    }

    /// The access of this name.
    ///
    /// # Errors
    /// Names the invalid one, and those that are allowed.
    pub fn parse(name: &str) -> Result<Access, String> {
        let found = Access::ALL.into_iter().find(|one| one.name() == name);
        found.ok_or_else(|| {
            let names = Access::ALL.map(Access::name).join(", ");
            format!("access {name:?} is invalid, allowed are {names}")
        })
    }
}

/// A length of time in parts of a calendar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Period {
    /// Years.
    pub years: u32,
    /// Months.
    pub months: u32,
    /// Weeks.
    pub weeks: u32,
    /// Days.
    pub days: u32,
}

impl Period {
    /// The moment that lies this long before another; a day that its month does not have is the last one of it. `None`
    /// before the year 0.
    fn before(self, now: Timestamp) -> Option<Timestamp> {
        let digits = now.to_string();
        let (year, rest) = digits.split_at_checked(4)?;
        let (month, rest) = rest.split_at_checked(2)?;
        let months = year.parse::<i64>().ok()? * 12 + month.parse::<i64>().ok()?
            - 1
            - i64::from(self.years) * 12
            - i64::from(self.months);
        let (year, month) = (months.div_euclid(12), months.rem_euclid(12) + 1);
        let there = format!("{year:04}{month:02}{rest}");
        let there = Timestamp::earliest(there.as_bytes()).filter(|_| months >= 0)?;
        let days = i64::from(self.weeks) * 7 + i64::from(self.days);
        Timestamp::from_seconds(there.seconds() - days * 86_400)
    }
}

/// The captures that an embargo is about, by their dates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dates {
    /// Before a moment.
    Before(Timestamp),
    /// After a moment.
    After(Timestamp),
    /// More than a period ago.
    Older(Period),
    /// Less than a period ago.
    Newer(Period),
}

impl Dates {
    /// The moment of 4 to 14 digits: the last second that they can mean, as in pywb.
    ///
    /// # Errors
    /// When they mean none.
    pub fn moment(digits: &str) -> Result<Timestamp, String> {
        let moment = Timestamp::latest(digits.as_bytes());
        moment.ok_or_else(|| {
            format!("{digits:?} is invalid, write a date as 4 to 14 digits: 20160102")
        })
    }
}

/// Captures of some dates, and what readers get of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Embargo {
    /// Of which dates they are.
    pub dates: Dates,
    /// What readers get of them.
    pub access: Access,
}

impl Embargo {
    /// Whether a capture is under the embargo; also where its date, or the bound, is beyond the calendar.
    fn holds(&self, capture: Timestamp, now: Timestamp) -> bool {
        match self.dates {
            Dates::Before(bound) => capture < bound,
            Dates::After(bound) => capture > bound,
            Dates::Older(period) => period.before(now).is_some_and(|bound| capture < bound),
            Dates::Newer(period) => period.before(now).is_none_or(|bound| capture > bound),
        }
    }
}

/// The rules of a collection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Files and folders that they were read from.
    pub paths: Vec<PathBuf>,
    /// The files in these folders.
    pub files: Vec<PathBuf>,
    /// What readers get of captures without a rule.
    pub default: Access,
    /// What captures of some dates are under, if anything.
    pub embargo: Option<Embargo>,
    /// The keys of all rules, one after the other.
    keys: Vec<u8>,
    /// In the order of their keys, of equal ones the prefix first.
    rules: Vec<Rule>,
}

/// A rule about the urlkeys that begin with its key, or about that urlkey alone.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    /// Where its key begins in `keys`.
    begin: u32,
    end: u32,
    /// The rule with the longest shorter prefix of its key.
    parent: u32,
    is_exact: bool,
    access: Access,
}

/// What a rule says in its file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    access: String,
    /// The user that the rule is for.
    user: Option<String>,
    #[serde(rename = "url")]
    _url: Option<String>,
}

/// A rule as it is read: its key, whether it is exact, what it gives.
type Read = (Vec<u8>, bool, Access);

impl Rules {
    /// Reads the rules of files, and of the `.aclj` files of folders.
    ///
    /// # Errors
    /// Names the file and line that cannot be read or is invalid.
    pub fn read(
        paths: Vec<PathBuf>,
        default: Access,
        embargo: Option<Embargo>,
    ) -> Result<Rules, String> {
        let (mut read, mut listed) = (Vec::new(), Vec::new());
        for path in &paths {
            for file in files(path)? {
                let text = fs::read(&file).map_err(|error| unreadable(&file, &error))?;
                let text = text.strip_prefix(BOM).unwrap_or(&text);
                for (number, line) in (1..).zip(text.split(|&byte| byte == b'\n')) {
                    let rule = parse(line.trim_ascii())
                        .map_err(|what| format!("{}:{number}: {what}", file.display()))?;
                    read.extend(rule);
                }
                if file != *path {
                    listed.push(file);
                }
            }
        }
        let mut rules = Rules {
            paths,
            files: listed,
            default,
            embargo,
            keys: Vec::new(),
            rules: Vec::with_capacity(read.len()),
        };
        rules.take(read)?;
        Ok(rules)
    }

    /// How many rules there are.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Whether there is no rule.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Puts rules in order. Of two with one key, the more restrictive one is kept.
    fn take(&mut self, mut read: Vec<Read>) -> Result<(), String> {
        read.sort_unstable_by(|a, b| (&a.0, a.1, Reverse(a.2)).cmp(&(&b.0, b.1, Reverse(b.2))));
        read.dedup_by(|a, b| (&a.0, a.1) == (&b.0, b.1));
        // The prefixes of the key before, each a prefix of the next.
        let mut prefixes: Vec<u32> = Vec::new();
        for (key, is_exact, access) in read {
            while let Some(&last) = prefixes.last()
                && !key.starts_with(self.key(&self.rules[last as usize]))
            {
                prefixes.pop();
            }
            let parent = prefixes.last().copied().unwrap_or(NONE);
            let begin = self.keys.len();
            self.keys.extend_from_slice(&key);
            let (Ok(begin), Ok(end), Ok(index)) = (
                u32::try_from(begin),
                u32::try_from(self.keys.len()),
                u32::try_from(self.rules.len()),
            ) else {
                return Err("access rules have more than 4 GiB of keys".to_owned());
            };
            if !is_exact {
                prefixes.push(index);
            }
            self.rules.push(Rule {
                begin,
                end,
                parent,
                is_exact,
                access,
            });
        }
        Ok(())
    }

    fn key(&self, rule: &Rule) -> &[u8] {
        &self.keys[rule.begin as usize..rule.end as usize]
    }

    /// What the rule with the longest matching key gives, or the default.
    fn of(&self, urlkey: &[u8]) -> Access {
        let after = self.rules.partition_point(|rule| self.key(rule) <= urlkey);
        // Every prefix of the urlkey is a prefix of the last key that is not greater.
        let mut next = after.checked_sub(1);
        while let Some(rule) = next.and_then(|index| self.rules.get(index)) {
            let key = self.key(rule);
            if key == urlkey || !rule.is_exact && urlkey.starts_with(key) {
                return rule.access;
            }
            next = Some(rule.parent as usize);
        }
        self.default
    }

    /// What readers get now of a capture: [`Access::Allow`], [`Access::Block`] or [`Access::Exclude`].
    pub fn access(&self, row: &Row, now: Timestamp) -> Access {
        self.verdict(row.urlkey(), row.timestamp(), now)
    }

    /// What readers get of the capture of a urlkey at 14 digits: as [`access`](Rules::access).
    pub fn verdict(&self, urlkey: &[u8], timestamp: &[u8], now: Timestamp) -> Access {
        let access = self.of(urlkey);
        let embargo = match (access, &self.embargo) {
            (Access::AllowIgnoreEmbargo, _) => return Access::Allow,
            (Access::Exclude, _) | (_, None) => return access,
            (_, Some(embargo)) => embargo,
        };
        let Some(capture) = Timestamp::earliest(timestamp) else {
            return Access::Exclude;
        };
        if embargo.holds(capture, now) && embargo.access > Access::Allow {
            embargo.access
        } else {
            access
        }
    }
}

/// The files with rules at a path, in the order of their names.
fn files(path: &Path) -> Result<Vec<PathBuf>, String> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let entries = fs::read_dir(path).map_err(|error| unreadable(path, &error))?;
    let mut files = Vec::new();
    for entry in entries {
        let file = entry.map_err(|error| unreadable(path, &error))?.path();
        if file.extension().is_some_and(|end| end == EXTENSION) {
            files.push(file);
        }
    }
    files.sort_unstable();
    Ok(files)
}

fn unreadable(path: &Path, error: &std::io::Error) -> String {
    format!("{}: access rules cannot be read: {error}", path.display())
}

/// The rule of a line; `None` for an empty one, and for a rule that is for one user, whom nobody is here.
fn parse(line: &[u8]) -> Result<Option<Read>, String> {
    if line.is_empty() {
        return Ok(None);
    }
    let mut parts = line.splitn(3, |&byte| byte == b' ');
    let (Some(key), Some(b"-"), Some(json)) = (parts.next(), parts.next(), parts.next()) else {
        return Err("invalid rule, write: urlkey - {\"access\": \"block\"}".to_owned());
    };
    let fields: Fields =
        serde_json::from_slice(json).map_err(|error| format!("invalid rule: {error}"))?;
    let access = Access::parse(&fields.access)?;
    let (bare, is_exact) = match key.strip_suffix(EXACT) {
        Some(bare) => (bare, true),
        None => (key, false),
    };
    let is_all = key == ALL;
    if !is_all && let Some(what) = unmatched(bare, is_exact) {
        let key = String::from_utf8_lossy(key);
        return Err(format!("the key {key:?} {what}: {KEYS}"));
    }
    // Without a name it is for all, as in pywb.
    if fields.user.is_some_and(|user| !user.is_empty()) {
        return Ok(None);
    }
    let key = if is_all { Vec::new() } else { bare.to_vec() };
    Ok(Some((key, is_exact, access)))
}

/// Why a key matches no urlkey, or none of those that it is meant for.
fn unmatched(key: &[u8], is_exact: bool) -> Option<&'static str> {
    let is_url = |scheme: &str| {
        let begin = key.get(..scheme.len());
        begin.is_some_and(|begin| begin.eq_ignore_ascii_case(scheme.as_bytes()))
    };
    if is_url("http://") || is_url("https://") {
        return Some("is a URL and matches no urlkey");
    }
    let mut parts = key.splitn(2, |&byte| byte == b')');
    let (host, path) = (parts.next().unwrap_or_default(), parts.next());
    if host.contains(&b'*') || key.ends_with(b"*") {
        return Some("has a *, and keys are beginnings of urlkeys as they are");
    }
    // Urlkeys without a host (dns:example.com, urn:x:y) are as they are.
    let first = host.split(|&byte| byte == b',').next().unwrap_or_default();
    if first.contains(&b':') {
        return None;
    }
    if host.iter().any(u8::is_ascii_uppercase) {
        return Some("has capitals in its host, which urlkeys do not have");
    }
    if host.iter().any(|byte| b"./".contains(byte)) {
        return Some("has a host that is not turned around");
    }
    let has_no_path = is_exact && !path.is_some_and(|path| path.starts_with(b"/"));
    has_no_path.then_some("is one whole urlkey, which has a path")
}

#[cfg(test)]
mod tests;
