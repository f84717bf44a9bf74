//! Access control of OutbackCDX: `{"policies": […], "rules": […]}`, the responses of `/<collection>/access/policies`
//! and `/<collection>/access/rules`.
//!
//! A rule hides captures from access points that its policy does not list. The matching rule with the longest pattern
//! decides; among equal patterns, the one with the highest id.

use std::collections::{HashMap, HashSet};

use crawlspace_cdx::surt::urlkey;
use crawlspace_index::timestamp::Timestamp;
use crawlspace_warc::Date;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::{Access, Condition, Dates, NONE, Period, Read, number};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Export {
    policies: Vec<Policy>,
    rules: Vec<Box<RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Policy {
    id: u64,
    #[serde(rename = "name")]
    _name: Option<IgnoredAny>,
    access_points: HashSet<String>,
}

/// A rule. Fields whose name begins with `_` have no effect, as in OutbackCDX: a rule applies even
/// if it is not `enabled`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Fields {
    id: u64,
    policy_id: u64,
    url_patterns: Vec<String>,
    captured: Option<Range>,
    accessed: Option<Range>,
    period: Option<Period>,
    public_message: Option<Box<str>>,
    #[serde(rename = "enabled")]
    _enabled: Option<IgnoredAny>,
    #[serde(rename = "pinned")]
    _pinned: Option<IgnoredAny>,
    #[serde(rename = "privateComment")]
    _private_comment: Option<IgnoredAny>,
    #[serde(rename = "externalId")]
    _external_id: Option<IgnoredAny>,
    #[serde(rename = "reason")]
    _reason: Option<IgnoredAny>,
    #[serde(rename = "created")]
    _created: Option<IgnoredAny>,
    #[serde(rename = "creator")]
    _creator: Option<IgnoredAny>,
    #[serde(rename = "modified")]
    _modified: Option<IgnoredAny>,
    #[serde(rename = "modifier")]
    _modifier: Option<IgnoredAny>,
}

/// The id of a rule, for error messages.
#[derive(Deserialize)]
struct Id {
    id: u64,
}

/// A range of time after `start` and before `end`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Range {
    start: Option<Moment>,
    end: Option<Moment>,
}

/// A timestamp in the format of either version: ISO 8601, or milliseconds since 1970.
#[derive(Deserialize)]
#[serde(untagged)]
enum Moment {
    Text(String),
    Millis(i64),
}

/// Parses a file for an access point. Conditions of its rules are appended to `conditions`.
///
/// # Errors
/// Fails if a policy or rule is invalid; the message names it.
pub(super) fn read(
    text: &[u8],
    point: &str,
    into: &mut Vec<Read>,
    conditions: &mut Vec<Condition>,
) -> Result<(), String> {
    let export: Export = serde_json::from_slice(text).map_err(|error| {
        format!(
            "invalid policies and rules, write {{\"policies\": [...], \"rules\": [...]}}: {error}"
        )
    })?;
    let mut allows = HashMap::new();
    for Policy {
        id, access_points, ..
    } in export.policies
    {
        if allows.insert(id, access_points.contains(point)).is_some() {
            return Err(format!("there are two policies with the id {id}"));
        }
    }
    let mut rules = Vec::with_capacity(export.rules.len());
    for (index, raw) in export.rules.iter().enumerate() {
        let fields =
            serde_json::from_str::<Fields>(raw.get()).map_err(
                |error| match serde_json::from_str::<Id>(raw.get()) {
                    Ok(Id { id }) => format!("rule {id}: {error}"),
                    Err(_) => format!("rule number {} has no valid id: {error}", index + 1),
                },
            )?;
        rules.push(fields);
    }
    rules.sort_by_key(|rule| rule.id);
    for (order, rule) in (1..).zip(rules) {
        let id = rule.id;
        take(rule, order, &allows, into, conditions)
            .map_err(|what| format!("rule {id}: {what}"))?;
    }
    Ok(())
}

fn take(
    rule: Fields,
    order: u32,
    allows: &HashMap<u64, bool>,
    into: &mut Vec<Read>,
    conditions: &mut Vec<Condition>,
) -> Result<(), String> {
    let is_allowed = allows.get(&rule.policy_id);
    let is_allowed = is_allowed.ok_or_else(|| format!("there is no policy {}", rule.policy_id))?;
    let access = if *is_allowed {
        Access::Allow
    } else {
        Access::Exclude
    };
    let mut captured = dates(rule.captured)?;
    captured.extend(
        rule.period
            .filter(|period| *period != Period::default())
            .map(Dates::Within),
    );
    let accessed = dates(rule.accessed)?;
    let message = rule.public_message.filter(|text| !text.is_empty());
    let mut condition = NONE;
    if !captured.is_empty() || !accessed.is_empty() || message.is_some() {
        conditions.push(Condition {
            captured,
            accessed,
            is_last: false,
            message,
        });
        condition = number(conditions)?;
    }
    if rule.url_patterns.is_empty() {
        return Err("the rule has no urlPatterns".to_owned());
    }
    for pattern in &rule.url_patterns {
        for (key, is_exact) in keys(pattern)? {
            into.push(Read {
                key: key.into_bytes(),
                is_exact,
                order,
                access,
                condition,
            });
        }
    }
    Ok(())
}

/// Returns the keys of a pattern, each with a flag that is true if the key matches a whole urlkey only.
fn keys(pattern: &str) -> Result<Vec<(String, bool)>, String> {
    let invalid = || {
        format!(
            "the URL pattern {pattern:?} is invalid; allowed forms are http://example.com/path, http://example.com/path*, \
             *.example.com and *"
        )
    };
    let (url, is_exact) = match pattern.strip_suffix('*') {
        Some("") => return Ok(vec![(String::new(), false)]),
        Some(url) => (url, false),
        None => (pattern, true),
    };
    if let Some(domain) = pattern.strip_prefix("*.") {
        if domain.is_empty() || domain.contains(['/', '*', ':', '?', '#', '@', ' ']) {
            return Err(invalid());
        }
        // Derive the key of the domain from the key of a host below it. The label of this host comes last in
        // the key.
        let below = urlkey(&format!("http://x.{domain}/")).map_err(|_| invalid())?;
        let domain = below.strip_suffix(",x)/").ok_or_else(invalid)?;
        let keys = [",", ")", ":"].map(|end| (format!("{domain}{end}"), false));
        return Ok(keys.into());
    }
    let scheme = url
        .split_once("://")
        .map(|(scheme, _)| scheme.to_ascii_lowercase());
    if url.contains('*') || !scheme.is_some_and(|scheme| scheme == "http" || scheme == "https") {
        return Err(invalid());
    }
    Ok(vec![(urlkey(url).map_err(|_| invalid())?, is_exact)])
}

fn dates(range: Option<Range>) -> Result<Vec<Dates>, String> {
    let Some(Range { start, end }) = range else {
        return Ok(Vec::new());
    };
    let start = start.map(Moment::read).transpose()?.map(Dates::After);
    let end = end.map(Moment::read).transpose()?.map(Dates::Before);
    Ok(start.into_iter().chain(end).collect())
}

impl Moment {
    fn read(self) -> Result<Timestamp, String> {
        match self {
            Moment::Text(text) => zoned(&text).ok_or_else(|| {
                format!("the date {text:?} is invalid, write 2016-01-02T03:04:05+0000")
            }),
            Moment::Millis(millis) => Timestamp::from_seconds(millis.div_euclid(1000))
                .ok_or_else(|| format!("the date {millis} is outside of the years 0 to 9999")),
        }
    }
}

/// Parses a date with a time zone.
fn zoned(text: &str) -> Option<Timestamp> {
    Date::parse(text.as_bytes())?.zone?;
    Timestamp::from_iso(text.as_bytes())
}
