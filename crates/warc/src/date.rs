//! Dates of `WARC-Date` fields.

use super::decimal;

/// A date in a format of WARC files: at least a year, with any precision up to fractions of a second.
///
/// ```
/// use crawlspace_warc::Date;
/// let date = Date::parse(b"2026-03-19T10:20:15.5Z").unwrap();
/// assert_eq!((&date.digits, &date.fraction[..]), (b"20260319102015", &b"5"[..]));
/// assert_eq!(&Date::parse(b"2026-03").unwrap().digits, b"20260301000000");
/// assert!(Date::parse(b"19 March 2026").is_none());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Date<'a> {
    /// `yyyyMMddHHmmss` of the first second of the date; missing parts have their minimum.
    pub digits: [u8; 14],
    /// Digits of the fraction of the second; may be empty.
    pub fraction: &'a [u8],
    /// Offset of the digits from UTC in minutes, if the date has a zone. Without a zone, the digits are in
    /// UTC.
    pub zone: Option<i32>,
}

/// Format of a complete date, and the values of missing parts.
const FORM: &[u8; 19] = b"0000-01-01T00:00:00";
/// Valid lengths of a date (ISO 28500:2017, section 5.4): it ends after the year, the month, the day, the
/// minute, or the second.
const LENGTHS: [usize; 5] = [4, 7, 10, 16, 19];

impl<'a> Date<'a> {
    /// Parses a date. Returns `None` for any other format. Does not check that the day exists.
    pub fn parse(text: &'a [u8]) -> Option<Date<'a>> {
        let is_of_form = |(byte, form): &(&u8, &u8)| match form {
            b'0' | b'1' => byte.is_ascii_digit(),
            _ => byte == form,
        };
        let length = text.iter().zip(FORM).take_while(is_of_form).count();
        let (given, rest) = text.split_at_checked(length)?;
        let (fraction, zone) = match rest.split_first() {
            Some((b'.', rest)) if length == FORM.len() => {
                let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
                rest.split_at_checked(digits).filter(|_| digits > 0)?
            }
            _ => (&b""[..], rest),
        };
        let zone = match zone {
            b"" => None,
            zone => Some(minutes_ahead(zone)?),
        };
        if !LENGTHS.contains(&length) {
            return None;
        }
        let whole = given.iter().chain(FORM.iter().skip(length));
        let mut digits = [0; 14];
        let only_digits = whole.filter(|byte| byte.is_ascii_digit());
        digits
            .iter_mut()
            .zip(only_digits)
            .for_each(|(to, from)| *to = *from);
        Some(Date {
            digits,
            fraction,
            zone,
        })
    }

    /// Returns the digits in the format of CDX files and dedupe records: 14, or 17 if the date has fractions
    /// of a second. The digits are in the date's own zone.
    pub fn timestamp(&self) -> Vec<u8> {
        let mut digits = self.digits.to_vec();
        if !self.fraction.is_empty() {
            let at = |i: usize| self.fraction.get(i).copied().unwrap_or(b'0');
            digits.extend((0..3).map(at));
        }
        digits
    }
}

/// Parses a zone: `Z`, `+01:00` or `+0100`.
fn minutes_ahead(zone: &[u8]) -> Option<i32> {
    let (sign, digits) = match zone {
        [b'Z' | b'z'] => return Some(0),
        [sign @ (b'+' | b'-'), a, b, b':', c, d] | [sign @ (b'+' | b'-'), a, b, c, d] => {
            (*sign, [*a, *b, *c, *d])
        }
        _ => return None,
    };
    let number = i32::try_from(decimal(&digits)?).ok()?;
    let minutes = number / 100 * 60 + number % 100;
    Some(if sign == b'-' { -minutes } else { minutes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_every_precision_become_digits() {
        for (text, digits) in [
            ("2026-03-19T10:20:15Z", "20260319102015"),
            ("2026-03-19T10:20:15", "20260319102015"),
            ("2026-03-19T10:20:15+01:00", "20260319102015"),
            ("2026-03-19T10:20:15.5Z", "20260319102015500"),
            ("2026-03-19T10:20:15.123456789Z", "20260319102015123"),
            ("2026-03-19T10:20Z", "20260319102000"),
            ("2026-03-19", "20260319000000"),
            ("2026-03", "20260301000000"),
            ("2026", "20260101000000"),
        ] {
            let parsed = Date::parse(text.as_bytes()).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(parsed.timestamp(), digits.as_bytes(), "{text}");
        }
        for (zone, minutes) in [
            ("", None),
            ("Z", Some(0)),
            ("+00:00", Some(0)),
            ("-0130", Some(-90)),
            ("+05:45", Some(345)),
        ] {
            let text = format!("2026-03-19T10:20:15.25{zone}");
            assert_eq!(
                Date::parse(text.as_bytes()).unwrap().zone,
                minutes,
                "{zone}"
            );
        }
        for wrong in [
            "",
            "202",
            "2026-",
            "2026-03-19T",
            "2026-03-19T10Z",
            "2026-03-19T10:20:15.Z",
            "2026-03-19T10:20.5Z",
            "2026-03-19 10:20:15Z",
            "2026-03-19T10:20:15+1:00",
            "2026-03-19T10:20:15Zx",
            "2o26-03-19T10:20:15Z",
        ] {
            assert_eq!(Date::parse(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
