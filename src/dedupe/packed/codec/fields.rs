//! Splits the value of a record into fields, if the value has one of the common formats.

use crawlspace_compact::calendar;
use crawlspace_host::text::parse_unsigned;

/// The format of a date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// 14 digits.
    Digits,
    /// 17 digits, the last three of them milliseconds.
    DigitsMillis,
    /// `2026-03-19T10:20:15Z`.
    Iso,
    /// `2026-03-19T10:20:15.123Z`.
    IsoMillis,
}

impl Form {
    /// All formats, in the order of their numbers.
    pub const ALL: [Form; 4] = [Form::Digits, Form::DigitsMillis, Form::Iso, Form::IsoMillis];

    /// Returns true if the format has milliseconds.
    pub fn has_millis(self) -> bool {
        matches!(self, Form::DigitsMillis | Form::IsoMillis)
    }

    /// Returns the number of characters of a date.
    pub fn len(self) -> usize {
        match self {
            Form::Digits => 14,
            Form::DigitsMillis => 17,
            Form::Iso => 20,
            Form::IsoMillis => 24,
        }
    }
}

/// The fields of a value, from which the value can be rebuilt byte for byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields<'a> {
    pub wacz: u64,
    pub form: Form,
    /// Seconds since 1970.
    pub seconds: u32,
    /// Milliseconds, below 1000.
    pub millis: u16,
    pub url: &'a [u8],
    pub size: u64,
}

impl<'a> Fields<'a> {
    /// Parses a value. Returns `None` if the value could not be rebuilt byte for byte.
    pub fn of(value: &'a [u8]) -> Option<Fields<'a>> {
        let first = memchr::memchr(b' ', value)?;
        let wacz = parse_unsigned(&value[..first])?;
        let rest = &value[first + 1..];
        let second = memchr::memchr(b' ', rest)?;
        let (form, seconds, millis) = date(&rest[..second])?;
        let rest = &rest[second + 1..];
        let last = memchr::memrchr(b' ', rest)?;
        let size = parse_unsigned(&rest[last + 1..])?;
        Some(Fields {
            wacz,
            form,
            seconds,
            millis,
            url: &rest[..last],
            size,
        })
    }
}

/// Parses a date before February 2106: its format, seconds since 1970, and milliseconds. Returns
/// `None` for a date that does not exist.
fn date(date: &[u8]) -> Option<(Form, u32, u16)> {
    let form = match *date {
        _ if date.len() == 14 => Form::Digits,
        _ if date.len() == 17 => Form::DigitsMillis,
        [.., b'Z'] if date.len() == 20 => Form::Iso,
        [.., b'Z'] if date.len() == 24 && date[19] == b'.' => Form::IsoMillis,
        _ => return None,
    };
    let mut digits = [0; 14];
    let millis = match form {
        Form::Digits => &[],
        Form::DigitsMillis => &date[14..],
        Form::Iso => &[],
        Form::IsoMillis => &date[20..23],
    };
    if matches!(form, Form::Iso | Form::IsoMillis) {
        if [date[4], date[7], date[10], date[13], date[16]] != *b"--T::" {
            return None;
        }
        for (to, from) in [(0, 0), (2, 2), (4, 5), (6, 8), (8, 11), (10, 14), (12, 17)] {
            digits[to] = date[from];
            digits[to + 1] = date[from + 1];
        }
    } else {
        digits.copy_from_slice(&date[..14]);
    }
    let mut wrong = false;
    for digit in &mut digits {
        *digit = digit.wrapping_sub(b'0');
        wrong |= *digit > 9;
    }
    if wrong {
        return None;
    }
    let two = |at: usize| u32::from(digits[at]) * 10 + u32::from(digits[at + 1]);
    let year = two(0) * 100 + two(2);
    let days = |month, day| calendar::days(year.into(), i64::from(month), i64::from(day)) as u32;
    let (month, day, hour, minute, second) = (two(4), two(6), two(8), two(10), two(12));
    let exists = (1970..2106).contains(&year)
        && (1..=12).contains(&month)
        && (1..=days(month + 1, 1) - days(month, 1)).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60;
    if !exists {
        return None;
    }
    let mut fraction = 0;
    for &digit in millis {
        if !digit.is_ascii_digit() {
            return None;
        }
        fraction = fraction * 10 + u16::from(digit - b'0');
    }
    let seconds = days(month, day) * 86_400 + hour * 3600 + minute * 60 + second;
    Some((form, seconds, fraction))
}

/// The two digits of each number from 0 to 99.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut n = 0;
    while n < 100 {
        pairs[n] = [b'0' + n as u8 / 10, b'0' + n as u8 % 10];
        n += 1;
    }
    pairs
};

/// Maximum length of a date, in bytes.
pub const DATE: usize = 24;

/// Writes a date in its format, and returns its length in bytes.
#[inline]
pub fn write_date(form: Form, seconds: u32, millis: u16, text: &mut [u8; DATE]) -> usize {
    let (days, time) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = calendar::date_after(days);
    let (hour, minute, second) = (time / 3600, time / 60 % 60, time % 60);
    let (iso, millis_at) = match form {
        Form::Digits | Form::DigitsMillis => (0, 14),
        Form::Iso | Form::IsoMillis => (1, 20),
    };
    if iso == 1 {
        *text = *b"0000-00-00T00:00:00.000Z";
    }
    let mut put = |at: usize, n: u32| text[at..at + 2].copy_from_slice(&PAIRS[n as usize % 100]);
    put(0, year / 100);
    put(2, year % 100);
    put(4 + iso, month);
    put(6 + iso * 2, day);
    put(8 + iso * 3, hour);
    put(10 + iso * 4, minute);
    put(12 + iso * 5, second);
    if form.has_millis() {
        put(millis_at + 1, u32::from(millis) % 100);
        text[millis_at] = b'0' + (millis / 100 % 10) as u8;
    }
    if form == Form::Iso {
        text[19] = b'Z';
    }
    form.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_dates_that_round_trip_are_encoded() {
        for good in [
            "20260319102015",
            "20260319102015123",
            "2026-03-19T10:20:15Z",
            "2026-03-19T10:20:15.023Z",
            "20240229000000",
        ] {
            let (form, seconds, millis) = date(good.as_bytes()).unwrap();
            let mut text = [0; DATE];
            let len = write_date(form, seconds, millis, &mut text);
            assert_eq!(std::str::from_utf8(&text[..len]), Ok(good));
        }
        for other in [
            "",
            "2026031910201",
            "20260229102015",
            "20260300102015",
            "20261319102015",
            "20260319242015",
            "20260319106015",
            "20260319102060",
            "19691231235959",
            "21060101000000",
            "2026031910201x",
            "2026031910201512x",
            "2026-03-19t10:20:15Z",
            "2026-03-19T10:20:15z",
            "2026-03-19T10:20:15+00:00",
            "2026-03-19T10:20:15,023Z",
        ] {
            assert_eq!(date(other.as_bytes()), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn date_round_trips(form in 0..4usize, seconds in 0..4_291_747_200u32, millis in 0..1000u16) {
            let form = Form::ALL[form];
            let millis = if form.has_millis() { millis } else { 0 };
            let mut text = [0; DATE];
            let len = write_date(form, seconds, millis, &mut text);
            prop_assert_eq!(date(&text[..len]), Some((form, seconds, millis)));
        }

        #[test]
        fn no_input_causes_a_panic(text in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = Fields::of(&text);
            let _ = date(&text);
        }
    }
}
