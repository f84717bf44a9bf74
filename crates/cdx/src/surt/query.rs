//! Queries: escaped, in lower case, without session ids, sorted.

use memchr::{memchr, memmem, memrchr, memrchr_iter};

use super::escapes;

/// Appends the query with its question mark, unless it is empty after removing session ids.
pub(super) fn push(query: &[u8], key: &mut Vec<u8>) {
    if query.is_empty() {
        return;
    }
    key.push(b'?');
    let begin = key.len();
    escapes::push_lower(&escapes::undone(query), key);
    remove_sessions(begin, key);
    sort(begin, key);
    if key.len() == begin {
        key.pop();
    }
}

/// Returns the start and end of a match in a query.
type Find = fn(&[u8]) -> Option<(usize, usize)>;

/// Removes the last session id of each kind, with the `&` after the id. Text before the name, including a
/// `&`, is kept.
fn remove_sessions(begin: usize, key: &mut Vec<u8>) {
    let kinds: [Find; 5] = [
        |query| named(query, b"jsessionid"),
        |query| named(query, b"phpsessid"),
        |query| named(query, b"sid"),
        asp,
        coldfusion,
    ];
    // The names of all kinds of session ids contain this string.
    let mut query = key.get(begin..).unwrap_or_default();
    if memmem::find(query, b"id").is_none() {
        return;
    }
    for find in kinds {
        if let Some((from, to)) = find(query) {
            let ampersand = usize::from(query.get(to) == Some(&b'&'));
            key.drain(begin + from..begin + to + ampersand);
            query = key.get(begin..).unwrap_or_default();
        }
    }
}

/// Returns true at the end of a parameter.
fn ends(rest: Option<&[u8]>) -> bool {
    matches!(rest, Some([] | [b'&', ..]))
}

/// Finds `name=` followed by 32 letters or digits.
fn named(query: &[u8], name: &[u8]) -> Option<(usize, usize)> {
    memrchr_iter(b'=', query).find_map(|equals| {
        let (before, rest) = query.split_at(equals);
        let before = before.strip_suffix(name)?;
        let found = rest.get(1..33)?.iter().all(u8::is_ascii_alphanumeric) && ends(rest.get(33..));
        found.then_some((before.len(), equals + 33))
    })
}

/// Finds `aspsessionid` and 8 letters, followed by `=` and 24 letters.
fn asp(query: &[u8]) -> Option<(usize, usize)> {
    memrchr_iter(b'=', query).find_map(|equals| {
        let (before, rest) = query.split_at(equals);
        let (name, letters) = before.split_at(before.len().checked_sub(8)?);
        let before = name.strip_suffix(b"aspsessionid")?;
        let mut letters = letters.iter().chain(rest.get(1..25)?);
        let found = letters.all(u8::is_ascii_alphabetic) && ends(rest.get(25..));
        found.then_some((before.len(), equals + 25))
    })
}

/// Finds `cfid=…&cftoken=…`, both with a value.
fn coldfusion(query: &[u8]) -> Option<(usize, usize)> {
    const TOKEN: &[u8] = b"&cftoken=";
    memmem::rfind(query, TOKEN)?;
    let mut end = query.len();
    loop {
        let at = memmem::rfind(query.get(..end)?, TOKEN)?;
        let value = query.get(at + TOKEN.len()..)?;
        let length = memchr(b'&', value).unwrap_or(value.len());
        let begin = memrchr(b'&', query.get(..at)?).map_or(0, |before| before + 1);
        // The value has at least one byte.
        let name = memmem::rfind(query.get(begin..at.saturating_sub(1).max(begin))?, b"cfid=");
        match name {
            Some(name) if length > 0 => {
                return Some((begin + name, at + TOKEN.len() + length));
            }
            _ => end = at,
        }
    }
}

/// Sorts the parameters by name, then by value; a parameter without `=` sorts first.
fn sort(begin: usize, key: &mut Vec<u8>) {
    let query = key.get(begin..).unwrap_or_default();
    let parameters = || query.split(|byte| *byte == b'&');
    if parameters().is_sorted_by_key(name_and_value) {
        return;
    }
    let mut sorted: Vec<&[u8]> = parameters().collect();
    sorted.sort_by_key(|parameter| name_and_value(parameter));
    let sorted = sorted.join(&b'&');
    key.truncate(begin);
    key.extend_from_slice(&sorted);
}

fn name_and_value(parameter: &[u8]) -> (&[u8], Option<&[u8]>) {
    match memchr(b'=', parameter) {
        Some(equals) => (
            parameter.get(..equals).unwrap_or_default(),
            parameter.get(equals + 1..),
        ),
        None => (parameter, None),
    }
}
