//! pywb's access rules: lines of a key, `-`, and JSON.

use serde::Deserialize;

use super::normal::normal_key;
use super::{Access, Condition, Dates, NONE, Period, Read, number};

/// Suffix of a key that matches a whole urlkey only.
const EXACT: &[u8] = b"###";
/// Key that matches all urlkeys.
const ALL: &[u8] = b"*,";
/// Byte order mark that some editors write at the start of UTF-8 files.
const BOM: &[u8] = b"\xef\xbb\xbf";
/// Hint for error messages: how to write keys.
const KEYS: &str = "write com,example)/path for http://example.com/path, com,example, for a domain with all of its hosts, and *, for everything";

/// JSON of a rule.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    access: String,
    /// User to whom the rule applies.
    user: Option<String>,
    #[serde(rename = "url")]
    _url: Option<String>,
    before: Option<String>,
    after: Option<String>,
    older: Option<Period>,
    newer: Option<Period>,
}

impl Fields {
    /// Returns the date condition of the rule, if it has one.
    fn dates(&self) -> Result<Option<Dates>, String> {
        let moment = |digits: &Option<String>| digits.as_deref().map(Dates::moment).transpose();
        let dates = [
            moment(&self.before)?.map(Dates::Before),
            moment(&self.after)?.map(Dates::After),
            self.older.map(Period::some).transpose()?.map(Dates::Older),
            self.newer.map(Period::some).transpose()?.map(Dates::Newer),
        ];
        let mut dates = dates.into_iter().flatten();
        match (dates.next(), dates.next()) {
            (dates, None) => Ok(dates),
            _ => Err("a rule has at most one of before, after, older and newer".to_owned()),
        }
    }
}

/// Parses the lines of a file. Conditions of its rules are appended to `conditions`.
///
/// # Errors
/// Fails if a line is invalid; the message begins with its number after a colon.
pub(super) fn read(
    text: &[u8],
    rules: &mut Vec<Read>,
    conditions: &mut Vec<Condition>,
) -> Result<(), String> {
    let text = text.strip_prefix(BOM).unwrap_or(text);
    for (number, line) in (1..).zip(text.split(|&byte| byte == b'\n')) {
        let rule = parse(line.trim_ascii(), conditions);
        rules.extend(rule.map_err(|what| format!(":{number}: {what}"))?);
    }
    Ok(())
}

/// Parses a line. Returns `None` for an empty line, and for a rule of a specific user, since users are not
/// supported.
fn parse(line: &[u8], conditions: &mut Vec<Condition>) -> Result<Option<Read>, String> {
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
    if !is_all && let Some(normal) = normal_key(bare, is_exact) {
        let exact = if is_exact { "###" } else { "" };
        let (key, normal) = (String::from_utf8_lossy(key), format!("{normal}{exact}"));
        return Err(format!(
            "the key {key:?} matches no capture, because urlkeys are normalized: write {normal:?}"
        ));
    }
    // As in pywb, an empty user name means all users.
    if fields.user.as_ref().is_some_and(|user| !user.is_empty()) {
        return Ok(None);
    }
    let condition = match fields.dates()? {
        Some(dates) => {
            conditions.push(Condition {
                captured: vec![dates],
                is_last: true,
                ..Condition::default()
            });
            number(conditions)?
        }
        None => NONE,
    };
    let key = if is_all { Vec::new() } else { bare.to_vec() };
    Ok(Some(Read {
        key,
        is_exact,
        order: 0,
        access,
        condition,
    }))
}

/// Returns the reason why a key matches no urlkey, or other urlkeys than the intended ones.
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
        return Some("contains a *, but keys are literal prefixes of urlkeys");
    }
    // Urlkeys without a host (dns:example.com, urn:x:y) have no special form.
    let first = host.split(|&byte| byte == b',').next().unwrap_or_default();
    if first.contains(&b':') {
        return None;
    }
    if host.iter().any(u8::is_ascii_uppercase) {
        return Some("has capital letters in its host, but urlkeys have none");
    }
    if host.iter().any(|byte| b"./".contains(byte)) {
        return Some("has a host whose labels are not in reverse order");
    }
    let has_no_path = is_exact && !path.is_some_and(|path| path.starts_with(b"/"));
    has_no_path.then_some(
        "is an exact urlkey without a path, so it matches nothing: every urlkey has a path",
    )
}
