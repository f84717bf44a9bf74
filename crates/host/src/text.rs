//! Parses and displays bytes sent by clients.

use std::fmt;
use std::io::Write;

/// Displays bytes from a client in an error or log line. Printable ASCII stays unchanged, all other
/// bytes become `\xNN`, and long values are truncated.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a>(pub &'a [u8]);

/// Maximum number of bytes that are displayed; enough for the usual hashes.
const SHOWN_BYTES: usize = 144;

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for &byte in self.0.iter().take(SHOWN_BYTES) {
            match byte {
                b'\\' => f.write_str("\\\\")?,
                b'\'' => f.write_str("\\'")?,
                0x20..=0x7e => write!(f, "{}", byte as char)?,
                _ => write!(f, "\\x{byte:02x}")?,
            }
        }
        if self.0.len() > SHOWN_BYTES {
            write!(f, "... ({} bytes)", self.0.len())?;
        }
        Ok(())
    }
}

/// Parses an unsigned decimal number in the format that Redis writes. Returns `None` for any other
/// text, and for numbers above `i64::MAX`, because replies and counters are signed.
pub fn parse_unsigned(bytes: &[u8]) -> Option<u64> {
    if bytes.is_empty() || bytes.len() > 19 || (bytes.len() > 1 && bytes[0] == b'0') {
        return None;
    }
    let mut n: u64 = 0;
    for &b in bytes {
        if !b.is_ascii_digit() {
            return None;
        }
        // Any number of nineteen digits fits into a `u64`.
        n = n * 10 + u64::from(b - b'0');
    }
    (n <= i64::MAX as u64).then_some(n)
}

/// Parses a decimal number with an optional minus sign.
pub fn parse_signed(bytes: &[u8]) -> Option<i64> {
    match bytes.strip_prefix(b"-") {
        Some(b"9223372036854775808") => Some(i64::MIN),
        Some(digits) => parse_unsigned(digits).map(|n| -(n as i64)),
        None => parse_unsigned(bytes).map(|n| n as i64),
    }
}

/// Appends a number in decimal.
///
/// # Panics
/// Panics if writing to `text` fails. Writing to memory does not fail.
pub fn push_number(text: &mut impl Write, n: u64) {
    let mut digits = itoa::Buffer::new();
    let written = text.write_all(digits.format(n).as_bytes());
    written.expect("writing to memory does not fail");
}

/// Appends up to six numbers in decimal, separated by spaces, in one write.
///
/// # Panics
/// Panics if there are more numbers, or if writing to `text` fails.
pub fn push_numbers(text: &mut impl Write, numbers: &[u64]) {
    let mut bytes = [b' '; 6 * "18446744073709551615 ".len()];
    let mut end = 0;
    for (i, &n) in numbers.iter().enumerate() {
        let start = end + usize::from(i > 0);
        let mut digits = itoa::Buffer::new();
        let digits = digits.format(n).as_bytes();
        end = start + digits.len();
        bytes[start..end].copy_from_slice(digits);
    }
    let written = text.write_all(&bytes[..end]);
    written.expect("writing to memory does not fail");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_separated_by_spaces() {
        for (numbers, expected) in [
            (&[][..], "a".to_string()),
            (&[7], "a7".to_string()),
            (
                &[u64::MAX; 6],
                format!("a{}", vec![u64::MAX.to_string(); 6].join(" ")),
            ),
        ] {
            let mut text = b"a".to_vec();
            push_numbers(&mut text, numbers);
            assert_eq!(text, expected.as_bytes());
        }
    }

    #[test]
    fn client_bytes_are_escaped_in_errors() {
        assert_eq!(
            Shown(b"a%n\r\n\0\xff'").to_string(),
            r"a%n\x0d\x0a\x00\xff\'"
        );
        let long = Shown(&[b'x'; 200]).to_string();
        assert!(long.ends_with("... (200 bytes)"), "{long}");
    }

    #[test]
    fn numbers_are_parsed_strictly() {
        for bad in [
            "",
            "-1",
            "+1",
            " 1",
            "1 ",
            "01",
            "1e3",
            "9223372036854775808",
            "x",
        ] {
            assert_eq!(parse_unsigned(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(parse_unsigned(b"0"), Some(0));
        assert_eq!(
            parse_unsigned(b"9223372036854775807"),
            Some(i64::MAX as u64)
        );
        assert_eq!(parse_signed(b"-5"), Some(-5));
        assert_eq!(parse_signed(b"--5"), None);
        for (text, n) in [
            ("-9223372036854775807", Some(-i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("-9223372036854775809", None),
            ("9223372036854775808", None),
        ] {
            assert_eq!(parse_signed(text.as_bytes()), n, "{text}");
        }
    }
}
