//! Host names and addresses, reversed.

use std::borrow::Cow;
use std::net::Ipv4Addr;

use super::parts::MAX_DIGITS;
use super::{escapes, idna};

/// Appends the labels of the host in reverse, separated by commas. Returns false for an empty host.
pub(super) fn push(host: &[u8], scheme: &[u8], key: &mut Vec<u8>) -> Result<bool, &'static str> {
    if host.is_empty() {
        return Ok(false);
    }
    let host = plain(host);
    let host = host.trim_ascii_dots();
    let address = match host.first() {
        Some(b'0'..=b'9') => address(host)?.map(|address| address.to_string().into_bytes()),
        _ => None,
    };
    let mut name = address.unwrap_or_default();
    if name.is_empty() {
        escapes::push_lower(host, &mut name);
    }
    // A `dns:` record keeps the exact name, with `www.`.
    let name = match scheme {
        b"dns" => &name[..],
        _ => without_www(&name),
    };
    for (i, label) in name.rsplit(|byte| *byte == b'.').enumerate() {
        if i > 0 {
            key.push(b',');
        }
        key.extend_from_slice(label);
    }
    Ok(!name.is_empty())
}

trait Dots {
    fn trim_ascii_dots(&self) -> &[u8];
}

impl Dots for [u8] {
    fn trim_ascii_dots(&self) -> &[u8] {
        let begin = self.iter().position(|byte| *byte != b'.');
        let end = self.iter().rposition(|byte| *byte != b'.');
        match (begin, end) {
            (Some(begin), Some(end)) => self.get(begin..=end).unwrap_or_default(),
            _ => b"",
        }
    }
}

/// Decodes escapes, converts the host to ASCII if IDNA allows it, and replaces each pair of dots by
/// a single dot.
fn plain(host: &[u8]) -> Cow<'_, [u8]> {
    let mut host = escapes::undone(host);
    if !host.is_ascii() {
        let text: String = host.utf8_chunks().map(|chunk| chunk.valid()).collect();
        if let Some(ascii) = idna::to_ascii(&text) {
            host = Cow::Owned(ascii);
        }
    }
    // Host names are too short for a search algorithm with a setup cost.
    if !host.windows(2).any(|two| two == b"..") {
        return host;
    }
    let mut single = Vec::with_capacity(host.len());
    let mut rest = &host[..];
    while let [first, after @ ..] = rest {
        single.push(*first);
        rest = match rest {
            [b'.', b'.', after @ ..] => after,
            _ => after,
        };
    }
    Cow::Owned(single)
}

/// Parses an IPv4 address: a single number, or up to four numbers. Numbers that begin with 0 are octal, and
/// the last number fills the remaining bytes.
fn address(host: &[u8]) -> Result<Option<Ipv4Addr>, &'static str> {
    if host.iter().all(u8::is_ascii_digit) {
        if host.len() > MAX_DIGITS {
            return Err("its host is a number that is too large for an address");
        }
        // Larger numbers are truncated; a leading 0 does not make the number octal.
        let number = host.iter().fold(0_u32, |number, digit| {
            number
                .wrapping_mul(10)
                .wrapping_add(u32::from(digit.wrapping_sub(b'0')))
        });
        return Ok(Some(Ipv4Addr::from(number)));
    }
    Ok(dotted(host))
}

fn dotted(host: &[u8]) -> Option<Ipv4Addr> {
    let octal = host.starts_with(b"0");
    if octal && host.iter().any(|byte| matches!(byte, b'8' | b'9')) {
        return None;
    }
    let mut numbers = [0_u32; 4];
    let mut count = 0;
    for part in host.split(|byte| *byte == b'.') {
        *numbers.get_mut(count)? = number(part)?;
        count += 1;
    }
    let (last, before) = numbers.get(..count)?.split_last()?;
    let mut address = 0_u32;
    for (i, number) in before.iter().enumerate() {
        if *number > 255 {
            return None;
        }
        address |= number << (24 - 8 * i);
    }
    let room = u64::from(u32::MAX) >> (8 * before.len());
    (u64::from(*last) <= room).then(|| Ipv4Addr::from(address | last))
}

fn number(part: &[u8]) -> Option<u32> {
    let base = if part.starts_with(b"0") { 8 } else { 10 };
    let first = part.first()?;
    if !first.is_ascii_digit() {
        return None;
    }
    u32::from_str_radix(std::str::from_utf8(part).ok()?, base).ok()
}

/// Strips `www.`, `www2.` and similar prefixes.
fn without_www(name: &[u8]) -> &[u8] {
    let rest = name.strip_prefix(b"www").unwrap_or_default();
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    match rest.get(digits..) {
        Some([b'.', rest @ ..]) => rest,
        _ => name,
    }
}
