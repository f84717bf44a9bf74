//! Access rules by URL: which captures of a collection readers get, as pywb's `.aclj` files, `default_access` and
//! `embargo`, and policies and rules of OutbackCDX say.
//!
//! The rule with the longest prefix of a capture's urlkey decides, then the embargo. A capture that cannot be judged
//! is excluded.

mod aclj;
mod normal;
mod outback;

use std::cmp::Reverse;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crawlspace_index::row::Row;
use crawlspace_index::timestamp::Timestamp;

/// Ending of the files with rules.
const EXTENSION: &str = "aclj";
/// Ending of the files with policies and rules of OutbackCDX.
const POLICIES: &str = "json";
/// The parent, or the condition, of a rule that has none.
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
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
    /// Checks that it is one at all: `{}` is one that somebody has not finished writing, and hides nothing or all.
    ///
    /// # Errors
    /// When it has no part above 0.
    pub fn some(self) -> Result<Period, String> {
        if self == Period::default() {
            return Err(
                "the age of captures is 0, write how many years, months, weeks or days".to_owned(),
            );
        }
        Ok(self)
    }

    /// The moment that lies this long after another one, or before it, if `times` is -1; a day that its month does not
    /// have is the last one of it. `None` outside of the years 0 to 9999.
    fn from(self, moment: Timestamp, times: i64) -> Option<Timestamp> {
        let digits = moment.to_string();
        let (year, rest) = digits.split_at_checked(4)?;
        let (month, rest) = rest.split_at_checked(2)?;
        let months = year.parse::<i64>().ok()? * 12 + month.parse::<i64>().ok()? - 1
            + times * (i64::from(self.years) * 12 + i64::from(self.months));
        let (year, month) = (months.div_euclid(12), months.rem_euclid(12) + 1);
        let there = format!("{year:04}{month:02}{rest}");
        let is_year = (0..=9999).contains(&year);
        let there = Timestamp::earliest(there.as_bytes()).filter(|_| is_year)?;
        let days = i64::from(self.weeks) * 7 + i64::from(self.days);
        Timestamp::from_seconds(there.seconds() + times * days * 86_400)
    }
}

/// The captures that an embargo or a rule is about, by their dates.
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
    /// A period after them is not over yet. It differs from [`Dates::Newer`] where months have unlike lengths.
    Within(Period),
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

    /// Whether a capture is among them; also where the bound is beyond the calendar and this hides more.
    fn hold(self, capture: Timestamp, now: Timestamp) -> bool {
        match self {
            Dates::Before(bound) => capture < bound,
            Dates::After(bound) => capture > bound,
            Dates::Older(period) => period.from(now, -1).is_some_and(|bound| capture < bound),
            Dates::Newer(period) => period.from(now, -1).is_none_or(|bound| capture > bound),
            Dates::Within(period) => period.from(capture, 1).is_none_or(|end| now < end),
        }
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
    /// In the order of their keys, of equal ones the prefix first, and then in the order of what decides last.
    rules: Vec<Rule>,
    /// What some of them ask for besides a urlkey.
    conditions: Vec<Condition>,
}

/// A rule about the urlkeys that begin with its key, or about that urlkey alone.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    /// Where its key begins in `keys`.
    begin: u32,
    end: u32,
    /// The rule before it with the same key, or with the longest shorter prefix of it.
    parent: u32,
    condition: u32,
    is_exact: bool,
    access: Access,
}

/// What rules say before embargoes do.
struct Decision<'a> {
    access: Access,
    /// What readers are told.
    message: Option<&'a str>,
    /// No rule says it.
    is_default: bool,
}

impl<'a> Decision<'a> {
    fn of_rule(access: Access, message: Option<&'a str>) -> Decision<'a> {
        Decision {
            access,
            message,
            is_default: false,
        }
    }
}

/// What a rule asks for besides a urlkey.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Condition {
    /// What the date of the capture is among.
    captured: Vec<Dates>,
    /// What the moment of the request is among.
    accessed: Vec<Dates>,
    /// Whether the default holds where the rule does not, and no rule with a shorter key does.
    is_last: bool,
    /// What readers are told of it.
    message: Option<Box<str>>,
}

impl Condition {
    /// Whether the rule holds for a capture at 14 digits; `None` if they are none.
    fn holds(&self, timestamp: &[u8], now: Timestamp) -> Option<bool> {
        let capture = Timestamp::earliest(timestamp)?;
        let is_captured = self.captured.iter().all(|dates| dates.hold(capture, now));
        Some(is_captured && self.accessed.iter().all(|dates| dates.hold(now, now)))
    }
}

/// A rule as it is read.
struct Read {
    key: Vec<u8>,
    is_exact: bool,
    /// Of rules with one key that of the highest number decides; of those with one number the most restrictive.
    order: u32,
    access: Access,
    /// Which of the conditions it has, or [`NONE`].
    condition: u32,
}

impl Rules {
    /// Reads the rules of files, and of the `.aclj` files of folders. Files that end in `.json` are policies and rules of
    /// OutbackCDX, as its access point of the name `point` has them.
    ///
    /// # Errors
    /// Names the file, and the line or rule, that cannot be read or is invalid.
    pub fn read(
        paths: Vec<PathBuf>,
        default: Access,
        embargo: Option<Embargo>,
        point: &str,
    ) -> Result<Rules, String> {
        let mut rules = Rules {
            paths: Vec::new(),
            files: Vec::new(),
            default,
            embargo,
            keys: Vec::new(),
            rules: Vec::new(),
            conditions: Vec::new(),
        };
        let mut read = Vec::new();
        for path in &paths {
            for file in files(path)? {
                let text = fs::read(&file).map_err(|error| unreadable(&file, &error))?;
                let of_file = if is_policies(&file) {
                    outback::read(&text, point, &mut read, &mut rules.conditions)
                        .map_err(|what| format!(": {what}"))
                } else {
                    aclj::read(&text, &mut read, &mut rules.conditions)
                };
                of_file.map_err(|what| format!("{}{what}", file.display()))?;
                if file != *path {
                    rules.files.push(file);
                }
            }
        }
        rules.paths = paths;
        rules.take(read)?;
        Ok(rules)
    }

    /// Returns the files and folders that rules are read from: those paths, and the files in folders.
    pub(crate) fn files_of(paths: &[PathBuf]) -> Vec<PathBuf> {
        // Reading tells why a folder cannot be listed.
        let inside = paths
            .iter()
            .flat_map(|path| files(path).unwrap_or_default());
        let mut all = paths.to_vec();
        all.extend(inside.filter(|file| !paths.contains(file)));
        all
    }

    /// Whether some are of OutbackCDX, and so for an access point.
    pub fn have_policies(&self) -> bool {
        self.paths.iter().any(|path| is_policies(path))
    }

    /// How many rules there are.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Whether there is no rule.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Puts rules in order. Of two with one key and nothing else to tell them apart, the more restrictive one is kept.
    fn take(&mut self, mut read: Vec<Read>) -> Result<(), String> {
        let rank = |one: &Read| (one.is_exact, one.order, Reverse(one.access));
        read.sort_unstable_by(|a, b| a.key.cmp(&b.key).then_with(|| rank(a).cmp(&rank(b))));
        let is_same =
            |a: &Read, b: &Read| (&a.key, a.is_exact, a.order) == (&b.key, b.is_exact, b.order);
        let is_dated = |one: &Read| {
            let condition = self.conditions.get(one.condition as usize);
            condition.is_some_and(|condition| condition.is_last)
        };
        for pair in read.windows(2) {
            if let [a, b] = pair
                && is_same(a, b)
                && (is_dated(a) || is_dated(b))
            {
                let key = String::from_utf8_lossy(&a.key);
                return Err(format!(
                    "there are two access rules with the key {key:?}, and dates in one of them: leave one of them out"
                ));
            }
        }
        read.dedup_by(|a, b| is_same(a, b) && a.condition == NONE && b.condition == NONE);
        self.rules.reserve_exact(read.len());
        // The prefixes of the key before, each a prefix of the next.
        let mut prefixes: Vec<u32> = Vec::new();
        for one in read {
            while let Some(&last) = prefixes.last()
                && !one.key.starts_with(self.key(&self.rules[last as usize]))
            {
                prefixes.pop();
            }
            let before = self.rules.last();
            let same = before
                .filter(|rule| *self.key(rule) == one.key)
                .map(|rule| rule.begin as usize);
            let begin = same.unwrap_or(self.keys.len());
            if same.is_none() {
                self.keys.extend_from_slice(&one.key);
            }
            let (Ok(begin), Ok(end), Ok(index)) = (
                u32::try_from(begin),
                u32::try_from(self.keys.len()),
                u32::try_from(self.rules.len()),
            ) else {
                return Err("access rules have more than 4 GiB of keys".to_owned());
            };
            let parent = match same {
                Some(_) => index - 1,
                None => prefixes.last().copied().unwrap_or(NONE),
            };
            if !one.is_exact {
                prefixes.push(index);
            }
            self.rules.push(Rule {
                begin,
                end,
                parent,
                condition: one.condition,
                is_exact: one.is_exact,
                access: one.access,
            });
        }
        Ok(())
    }

    fn key(&self, rule: &Rule) -> &[u8] {
        &self.keys[rule.begin as usize..rule.end as usize]
    }

    /// How many rules have a key that is not greater than a urlkey. `near` is that number for another urlkey: from the
    /// number for one that sorts shortly before, few keys are compared. `None` compares keys of all rules.
    fn not_after(&self, urlkey: &[u8], near: Option<usize>) -> usize {
        let is_counted = |rule: &Rule| self.key(rule) <= urlkey;
        let (mut begin, mut end) = (0, self.rules.len());
        if let Some(near) = near
            && self.rules[..near].last().is_none_or(is_counted)
        {
            begin = near;
            let mut step = 1;
            while let Some(rule) = self.rules.get(begin + step) {
                if !is_counted(rule) {
                    end = begin + step;
                    break;
                }
                begin += step;
                step *= 2;
            }
        }
        begin + self.rules[begin..end].partition_point(is_counted)
    }

    /// What the rule with the longest key gives that matches and whose condition holds, and its public message; or the
    /// default. A capture whose date is needed and unreadable is excluded. `after` is how many rules have a key that is
    /// not greater than the urlkey.
    fn of(&self, urlkey: &[u8], timestamp: &[u8], now: Timestamp, after: usize) -> Decision<'_> {
        // Every prefix of the urlkey is a prefix of the last key that is not greater.
        let mut next = after.checked_sub(1);
        while let Some(rule) = next.and_then(|index| self.rules.get(index)) {
            next = Some(rule.parent as usize);
            let key = self.key(rule);
            if key != urlkey && (rule.is_exact || !urlkey.starts_with(key)) {
                continue;
            }
            let Some(condition) = self.conditions.get(rule.condition as usize) else {
                return Decision::of_rule(rule.access, None);
            };
            match condition.holds(timestamp, now) {
                None => return Decision::of_rule(Access::Exclude, None),
                Some(true) => {
                    return Decision::of_rule(rule.access, condition.message.as_deref());
                }
                Some(false) if condition.is_last => break,
                Some(false) => {}
            }
        }
        Decision {
            access: self.default,
            message: None,
            is_default: true,
        }
    }

    /// What a rule says of the capture of a urlkey at 14 digits; `None` where only the default holds.
    pub fn rule_for(&self, urlkey: &[u8], timestamp: &[u8], now: Timestamp) -> Option<Access> {
        let found = self.of(urlkey, timestamp, now, self.not_after(urlkey, None));
        (!found.is_default).then_some(found.access)
    }

    /// What readers get now of a capture: [`Access::Allow`], [`Access::Block`] or [`Access::Exclude`]. `near` is kept from
    /// one row of an answer to the next, and is `None` for the first: rows in the order of their urlkeys take less time.
    pub fn access(&self, row: &Row, now: Timestamp, near: &mut Option<usize>) -> Access {
        let after = self.not_after(row.urlkey(), *near);
        *near = Some(after);
        self.verdict_at(row.urlkey(), row.timestamp(), now, after).0
    }

    /// What readers get of the capture of a urlkey at 14 digits, as [`access`](Rules::access) has it, and the public
    /// message of the rule that says so.
    pub fn verdict(
        &self,
        urlkey: &[u8],
        timestamp: &[u8],
        now: Timestamp,
    ) -> (Access, Option<&str>) {
        self.verdict_at(urlkey, timestamp, now, self.not_after(urlkey, None))
    }

    fn verdict_at(
        &self,
        urlkey: &[u8],
        timestamp: &[u8],
        now: Timestamp,
        after: usize,
    ) -> (Access, Option<&str>) {
        let Decision {
            access, message, ..
        } = self.of(urlkey, timestamp, now, after);
        let embargo = match (access, &self.embargo) {
            (Access::AllowIgnoreEmbargo, _) => return (Access::Allow, message),
            (Access::Exclude, _) | (_, None) => return (access, message),
            (_, Some(embargo)) => embargo,
        };
        let Some(capture) = Timestamp::earliest(timestamp) else {
            return (Access::Exclude, None);
        };
        if embargo.dates.hold(capture, now) && embargo.access > Access::Allow {
            (embargo.access, None)
        } else {
            (access, message)
        }
    }
}

fn is_policies(file: &Path) -> bool {
    file.extension().is_some_and(|end| end == POLICIES)
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

/// The number of the last condition.
fn number(conditions: &[Condition]) -> Result<u32, String> {
    let number = u32::try_from(conditions.len().saturating_sub(1));
    number.map_err(|_| "there are too many access rules with dates".to_owned())
}

fn unreadable(path: &Path, error: &std::io::Error) -> String {
    format!("{}: access rules cannot be read: {error}", path.display())
}

#[cfg(test)]
mod tests;
