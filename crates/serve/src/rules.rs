//! Access rules by URL: pywb's `.aclj` files, `default_access` and `embargo`, and policies and rules of OutbackCDX
//! decide which captures of a collection readers get.
//!
//! The rule with the longest matching prefix of a capture's urlkey is applied first, then the embargo. A capture that
//! cannot be evaluated is excluded.

mod aclj;
mod normal;
mod outback;

use std::cmp::Reverse;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crawlspace_index::row::Row;
use crawlspace_index::timestamp::Timestamp;

/// Extension of files with pywb rules.
const EXTENSION: &str = "aclj";
/// Extension of files with policies and rules of OutbackCDX.
const POLICIES: &str = "json";
/// Marks a rule without parent or without condition.
const NONE: u32 = u32::MAX;

/// Access to a capture, ordered from the least to the most restrictive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// Grants full access, even during an embargo.
    AllowIgnoreEmbargo,
    /// Grants full access.
    Allow,
    /// Shows only the row in the index; the record is refused with status 451 (RFC 7725).
    Block,
    /// Hides the capture completely.
    Exclude,
}

impl Access {
    const ALL: [Access; 4] = [
        Access::Allow,
        Access::Block,
        Access::Exclude,
        Access::AllowIgnoreEmbargo,
    ];

    /// Returns the name in rule files and configurations.
    pub fn name(self) -> &'static str {
        match self {
            Access::AllowIgnoreEmbargo => "allow_ignore_embargo",
            Access::Allow => "allow",
            Access::Block => "block",
            Access::Exclude => "exclude",
        }
    }

    /// Parses a name.
    ///
    /// # Errors
    /// Fails if the name is invalid; the message lists the valid names.
    pub fn parse(name: &str) -> Result<Access, String> {
        let found = Access::ALL.into_iter().find(|one| one.name() == name);
        found.ok_or_else(|| {
            let names = Access::ALL.map(Access::name).join(", ");
            format!("access {name:?} is invalid; allowed values are {names}")
        })
    }
}

/// A calendar period.
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
    /// Checks that the period is not empty. An empty period (`{}`) is probably a mistake, and would
    /// hide all captures or none.
    ///
    /// # Errors
    /// Fails if all parts are 0.
    pub fn some(self) -> Result<Period, String> {
        if self == Period::default() {
            return Err(
                "the age of captures is 0, write how many years, months, weeks or days".to_owned(),
            );
        }
        Ok(self)
    }

    /// Adds the period to a timestamp, or subtracts it if `times` is -1. A day that the month does not have becomes the
    /// month's last day. Returns `None` outside of the years 0 to 9999.
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

/// A condition on dates, for an embargo or a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dates {
    /// Before a timestamp.
    Before(Timestamp),
    /// After a timestamp.
    After(Timestamp),
    /// Older than a period.
    Older(Period),
    /// Newer than a period.
    Newer(Period),
    /// Newer than a period, counted from the capture. Differs from [`Dates::Newer`] because months have different
    /// lengths.
    Within(Period),
}

impl Dates {
    /// Parses a timestamp of 4 to 14 digits. As in pywb, a shortened timestamp denotes its last second.
    ///
    /// # Errors
    /// Fails if the digits are not a valid date.
    pub fn moment(digits: &str) -> Result<Timestamp, String> {
        let moment = Timestamp::latest(digits.as_bytes());
        moment.ok_or_else(|| {
            format!("{digits:?} is invalid, write a date as 4 to 14 digits: 20160102")
        })
    }

    /// Returns whether a capture matches. If the bound is outside of the calendar, returns the result that hides more
    /// captures.
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

/// An embargo: access to captures of certain dates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Embargo {
    /// Condition on the dates of the captures.
    pub dates: Dates,
    /// Access to these captures.
    pub access: Access,
}

/// Access rules of a collection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Files and folders of the rules.
    pub paths: Vec<PathBuf>,
    /// Files in these folders.
    pub files: Vec<PathBuf>,
    /// Access to captures without a rule.
    pub default: Access,
    /// Embargo, if there is one.
    pub embargo: Option<Embargo>,
    /// Concatenated keys of all rules.
    keys: Vec<u8>,
    /// Rules, sorted by key; among equal keys, prefix rules come before exact ones, and the deciding rule comes last.
    rules: Vec<Rule>,
    /// Additional conditions of rules.
    conditions: Vec<Condition>,
}

/// A rule for all urlkeys that start with its key, or only for the urlkey that equals its key.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    /// Start of the key in `keys`.
    begin: u32,
    end: u32,
    /// Index of the previous rule with the same key; otherwise, of the rule whose key is the longest shorter prefix.
    parent: u32,
    condition: u32,
    is_exact: bool,
    access: Access,
}

/// Decision of the rules before the embargo.
struct Decision<'a> {
    access: Access,
    /// Public message for readers.
    message: Option<&'a str>,
    /// Set if no rule matches.
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

/// Condition of a rule in addition to its key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Condition {
    /// Conditions on the date of the capture.
    captured: Vec<Dates>,
    /// Conditions on the time of the request.
    accessed: Vec<Dates>,
    /// True if the default applies when this rule does not apply, instead of a rule with a shorter key.
    is_last: bool,
    /// Public message for readers.
    message: Option<Box<str>>,
}

impl Condition {
    /// Returns whether the rule applies to a capture with a 14-digit timestamp; `None` if the timestamp is invalid.
    fn holds(&self, timestamp: &[u8], now: Timestamp) -> Option<bool> {
        let capture = Timestamp::earliest(timestamp)?;
        let is_captured = self.captured.iter().all(|dates| dates.hold(capture, now));
        Some(is_captured && self.accessed.iter().all(|dates| dates.hold(now, now)))
    }
}

/// A parsed rule.
struct Read {
    key: Vec<u8>,
    is_exact: bool,
    /// Precedence among rules with the same key: the highest number decides; among equal numbers, the most restrictive
    /// rule.
    order: u32,
    access: Access,
    /// Index of the rule's condition, or [`NONE`].
    condition: u32,
}

impl Rules {
    /// Reads rules from files and from the `.aclj` files of folders. Files that end in `.json` contain policies and
    /// rules of OutbackCDX, and are applied for the access point `point`.
    ///
    /// # Errors
    /// Fails if a file or rule cannot be read or is invalid; the message names the file, and the
    /// line or rule.
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

    /// Returns the files and folders that rules are read from: the given paths, and the rule files in folders.
    pub(crate) fn files_of(paths: &[PathBuf]) -> Vec<PathBuf> {
        // An unlistable folder is reported when the rules are read.
        let inside = paths
            .iter()
            .flat_map(|path| files(path).unwrap_or_default());
        let mut all = paths.to_vec();
        all.extend(inside.filter(|file| !paths.contains(file)));
        all
    }

    /// Returns whether some files are from OutbackCDX, and so depend on the access point.
    pub fn have_policies(&self) -> bool {
        self.paths.iter().any(|path| is_policies(path))
    }

    /// Returns the number of rules.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Returns whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Sorts rules. Of two rules that differ only in their access, the more restrictive one is kept.
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
                    "there are two access rules with the key {key:?}, and one of them has dates: remove one of them"
                ));
            }
        }
        read.dedup_by(|a, b| is_same(a, b) && a.condition == NONE && b.condition == NONE);
        self.rules.reserve_exact(read.len());
        // Rules whose keys are prefixes of the previous key, shortest first. Each key is a prefix of the
        // next.
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

    /// Returns the number of rules whose key is not greater than a urlkey. `near` is the same number for a urlkey that
    /// sorts slightly before this urlkey. The search gallops forward from there, or searches all rules if `near` is
    /// `None`.
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

    /// Returns the access and public message of the rule with the longest matching key whose condition holds, or the
    /// default. A capture with an invalid timestamp is excluded if a condition needs its date. `after` is the number of
    /// rules whose key is not greater than the urlkey.
    fn of(&self, urlkey: &[u8], timestamp: &[u8], now: Timestamp, after: usize) -> Decision<'_> {
        // Every prefix of the urlkey is also a prefix of the last key that is not greater than the urlkey.
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

    /// Returns the access that a rule grants to a capture of a urlkey with a 14-digit timestamp; `None` if no rule
    /// matches.
    pub fn rule_for(&self, urlkey: &[u8], timestamp: &[u8], now: Timestamp) -> Option<Access> {
        let found = self.of(urlkey, timestamp, now, self.not_after(urlkey, None));
        (!found.is_default).then_some(found.access)
    }

    /// Returns the current access to a capture: [`Access::Allow`], [`Access::Block`] or [`Access::Exclude`]. `near`
    /// speeds up successive rows that are sorted by urlkey: pass `None` for the first row, and keep the value for the
    /// next one.
    pub fn access(&self, row: &Row, now: Timestamp, near: &mut Option<usize>) -> Access {
        let after = self.not_after(row.urlkey(), *near);
        *near = Some(after);
        self.verdict_at(row.urlkey(), row.timestamp(), now, after).0
    }

    /// Returns the access to a capture of a urlkey with a 14-digit timestamp, like [`access`](Rules::access), and the
    /// public message of the deciding rule.
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

/// Returns the rule files at a path, sorted by name.
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

/// Returns the index of the last condition.
fn number(conditions: &[Condition]) -> Result<u32, String> {
    let number = u32::try_from(conditions.len().saturating_sub(1));
    number.map_err(|_| "there are too many access rules with dates".to_owned())
}

fn unreadable(path: &Path, error: &std::io::Error) -> String {
    format!("{}: access rules cannot be read: {error}", path.display())
}

#[cfg(test)]
mod tests;
