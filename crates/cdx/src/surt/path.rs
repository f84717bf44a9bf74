//! Paths: resolved, escaped, in lower case, without session ids.

use memchr::{memchr, memmem};

use super::escapes;

/// Appends the path. The path of a URL without a host is opaque text, in which dots and slashes
/// have no meaning.
pub(super) fn push(path: &[u8], has_host: bool, key: &mut Vec<u8>) {
    let begin = key.len();
    if !has_host {
        escapes::push_lower(&escapes::undone(path), key);
    } else if path.is_empty() {
        key.push(b'/');
    } else if is_plain(path) {
        key.extend(path.iter().map(u8::to_ascii_lowercase));
    } else {
        push_resolved(&escapes::undone(path), key);
    }
    remove_session(begin, key);
    if key.len() > begin + 1 && key.ends_with(b"/") {
        key.pop();
    }
}

/// Returns true if the path only needs lower-casing.
fn is_plain(path: &[u8]) -> bool {
    // Both checks scan to the end unconditionally, so that the compiler can vectorize them.
    let escaped = path
        .iter()
        .fold(false, |any, byte| any | escapes::must(*byte));
    let next = path.get(1..).unwrap_or_default();
    let resolves = path.iter().zip(next).fold(false, |any, (byte, next)| {
        any | ((*byte == b'/') & ((*next == b'/') | (*next == b'.')))
    });
    !escaped && !resolves
}

fn push_resolved(path: &[u8], key: &mut Vec<u8>) {
    let mut kept: Vec<&[u8]> = Vec::new();
    for part in path.split(|byte| *byte == b'/').skip(1) {
        match part {
            b"." => {}
            // At the root, the first `..` is kept, and a second `..` removes the first one.
            b".." => {
                if kept.pop().is_none() {
                    kept.push(part);
                }
            }
            _ => kept.push(part),
        }
    }
    key.push(b'/');
    let Some((last, before)) = kept.split_last() else {
        return;
    };
    for part in before.iter().filter(|part| !part.is_empty()) {
        escapes::push_lower(part, key);
        key.push(b'/');
    }
    escapes::push_lower(last, key);
}

/// Removes an ASP.NET session id before the name of a page: `/(s(24 letters or digits))/a.aspx`, or the same
/// without the inner parentheses.
fn remove_session(begin: usize, key: &mut Vec<u8>) {
    let path = key.get(begin..).unwrap_or_default();
    // Search for a parenthesis first: few paths contain one, and searching for one byte needs no
    // preparation.
    if memchr(b'(', path).is_none() || memmem::find(path, b".aspx").is_none() {
        return;
    }
    for length in [units as fn(&[u8]) -> Option<usize>, id] {
        let path = key.get(begin..).unwrap_or_default();
        if let Some((at, length)) = session(path, length) {
            key.drain(begin + at..begin + at + length);
        }
    }
}

/// Returns the position and length of the last session id that is followed by a page. Takes one pass from the
/// right.
fn session(path: &[u8], length: fn(&[u8]) -> Option<usize>) -> Option<(usize, usize)> {
    // Positions of the next two page extensions and the next question mark to the right.
    let (mut page, mut second, mut question) = (usize::MAX, usize::MAX, usize::MAX);
    for at in (0..path.len()).rev() {
        let rest = path.get(at..)?;
        match rest.first()? {
            b'?' => question = at,
            b'.' if rest.starts_with(b".aspx") => (page, second) = (at, page),
            b'/' => {
                let Some(inside) = rest.strip_prefix(b"/(").and_then(length) else {
                    continue;
                };
                let begin = at + 1;
                let length = inside + 3;
                // A name must precede the extension.
                let ending = if page > begin + length { page } else { second };
                if ending != usize::MAX && question > ending {
                    return Some((begin, length));
                }
            }
            _ => {}
        }
    }
    None
}

const ID: usize = 24;

/// Returns the length of `x(id)x(id)…` at the start of `text`, without the closing parenthesis of the
/// session. Returns `None` unless `)/` follows.
fn units(text: &[u8]) -> Option<usize> {
    let is_unit = |unit: &[u8]| match unit {
        [b'a'..=b'z', b'(', id @ .., b')'] => is_id(id),
        _ => false,
    };
    let mut length = 0;
    for unit in text.chunks_exact(ID + 3).take_while(|unit| is_unit(unit)) {
        length += unit.len();
    }
    (length > 0 && text.get(length..)?.starts_with(b")/")).then_some(length)
}

/// Returns the length of an id that is followed by `)/`.
fn id(text: &[u8]) -> Option<usize> {
    (is_id(text.get(..ID)?) && text.get(ID..)?.starts_with(b")/")).then_some(ID)
}

fn is_id(text: &[u8]) -> bool {
    text.len() == ID
        && text
            .iter()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'z'))
}
