//! Dates of records: 14 digits, 17 digits, or ISO 8601.

use smallvec::SmallVec;

use crate::calendar;
pub use crate::limits::dedupe::DATE_BYTES;

/// A date of 14 or 17 digits.
pub type Digits = SmallVec<[u8; 17]>;

/// A point in time, in UTC, parsed from a date. Only the syntax of dates is checked. A nonexistent
/// date such as 31 February is converted by counting days from the start of the month.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    /// Seconds since 1970.
    seconds: i64,
    /// Fraction of the second, in units of the last digit that a date can contain (10⁻¹² seconds).
    fraction: u64,
}

/// 1 January 1900, in seconds since 1970.
const FIRST_SECOND: i64 = -2_208_988_800;

/// Maximum number of digits of a fraction, as limited by [`DATE_BYTES`].
const FRACTION_DIGITS: usize = 12;

/// A millisecond, as a fraction of a second.
const MILLISECOND: u64 = 1_000_000_000;

/// Returns true if a date has one of the formats of crawlers: 14 digits, 17 digits, or ISO 8601 such as
/// `2026-03-19T10:20:15Z` with an optional fraction.
pub fn is_date(date: &[u8]) -> bool {
    Parts::of(date).is_some()
}

/// Converts a date to digits in UTC: to 14 digits, or to 17 if the date has a fraction of a second,
/// which is truncated to milliseconds. A date that already consists of digits stays unchanged.
/// Invalid fields of a UTC date, such as day 31 of February, also stay unchanged. Returns `None` if
/// the date has none of the formats, or if its year in UTC does not have four digits.
pub fn to_digits(date: &[u8]) -> Option<Digits> {
    let parts = Parts::of(date)?;
    let mut digits = Digits::new();
    if parts.offset.is_some() {
        let seconds = Moment::of(date)?.seconds;
        let (year, month, day) = calendar::date(seconds.div_euclid(86_400));
        let time = seconds.rem_euclid(86_400);
        let century = u8::try_from(year.div_euclid(100))
            .ok()
            .filter(|c| *c < 100)?;
        let others = [
            year.rem_euclid(100),
            month.into(),
            day.into(),
            time / 3600,
            time / 60 % 60,
            time % 60,
        ];
        for pair in std::iter::once(century).chain(others.map(|n| n as u8)) {
            digits.extend([b'0' + pair / 10, b'0' + pair % 10]);
        }
    } else {
        digits.extend(parts.fields.into_iter().flatten().copied());
    }
    if !parts.fraction.is_empty() {
        let zeros = std::iter::repeat(&b'0');
        digits.extend(parts.fraction.iter().chain(zeros).take(3).copied());
    }
    Some(digits)
}

impl Moment {
    /// Returns the point in time of a date, or `None` if the date has none of the formats. A date
    /// without a time zone is in UTC.
    pub fn of(date: &[u8]) -> Option<Moment> {
        let parts = Parts::of(date)?;
        let n = |digits: &[u8]| digits.iter().fold(0, |n, c| n * 10 + i64::from(c - b'0'));
        let [year, month, day, hour, minute, second] = parts.fields.map(n);
        let mut fraction = n(parts.fraction) as u64;
        for _ in parts.fraction.len()..FRACTION_DIGITS {
            fraction *= 10;
        }
        let ahead = match parts.offset {
            None => 0,
            Some((sign, hours, minutes)) => {
                let ahead = n(hours) * 3600 + n(minutes) * 60;
                if sign == b'-' { -ahead } else { ahead }
            }
        };
        let time = hour * 3600 + minute * 60 + second;
        Some(Moment {
            seconds: calendar::days(year, month, day) * 86_400 + time - ahead,
            fraction,
        })
    }
}

impl Moment {
    /// Returns the latest point in time that a date can mean: if it has no fraction, the end of its
    /// second.
    pub fn latest(date: &[u8]) -> Option<Moment> {
        let mut moment = Moment::of(date)?;
        if Parts::of(date)?.fraction.is_empty() {
            moment.fraction = u64::MAX;
        } else {
            moment.fraction -= moment.fraction % MILLISECOND;
        }
        Some(moment)
    }

    /// Returns the minute of this point in time, where 1 is the first minute of 1900.
    pub fn minute(self) -> i64 {
        (self.seconds - FIRST_SECOND).div_euclid(60) + 1
    }
}

/// The parts of a date.
struct Parts<'a> {
    /// Year, month, day, hour, minute, second.
    fields: [&'a [u8]; 6],
    /// The digits after the decimal point.
    fraction: &'a [u8],
    /// UTC offset: sign, hours and minutes.
    offset: Option<(u8, &'a [u8], &'a [u8])>,
}

impl<'a> Parts<'a> {
    fn of(date: &'a [u8]) -> Option<Parts<'a>> {
        if date.iter().all(u8::is_ascii_digit) {
            return matches!(date.len(), 14 | 17).then(|| Parts {
                fields: [0..4, 4..6, 6..8, 8..10, 10..12, 12..14].map(|at| &date[at]),
                fraction: &date[14..],
                offset: None,
            });
        }
        // ISO 8601: `YYYY-MM-DDThh:mm:ss`, then a fraction, then `Z` or an offset.
        let shape = b"dddd-dd-ddTdd:dd:dd";
        let (head, mut tail) = date.split_at_checked(shape.len())?;
        let fits = head.iter().zip(shape).all(|(&c, &s)| match s {
            b'd' => c.is_ascii_digit(),
            b'T' => matches!(c, b'T' | b't'),
            _ => c == s,
        });
        if !fits || date.len() > DATE_BYTES {
            return None;
        }
        let mut fraction = &b""[..];
        if let [b'.', rest @ ..] = tail {
            let digits = rest.iter().take_while(|c| c.is_ascii_digit()).count();
            if digits == 0 {
                return None;
            }
            (fraction, tail) = rest.split_at(digits);
        }
        let offset = match tail {
            [] | [b'Z' | b'z'] => None,
            [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2]
                if [h1, h2, m1, m2].into_iter().all(u8::is_ascii_digit) =>
            {
                Some((*sign, &tail[1..3], &tail[4..6]))
            }
            _ => return None,
        };
        Some(Parts {
            fields: [0..4, 5..7, 8..10, 11..13, 14..16, 17..19].map(|at| &head[at]),
            fraction,
            offset,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn dates_are_parsed() {
        for good in [
            "20260319102015",
            "20260319102015123",
            "2026-03-19T10:20:15Z",
            "2026-03-19T10:20:15.123Z",
            "2026-03-19T10:20:15+01:00",
            "2026-03-19T10:20:15",
        ] {
            assert!(is_date(good.as_bytes()), "{good}");
        }
        for bad in [
            "",
            "2026",
            "2026-03-19",
            "20260319 102015",
            "2026-03-19T10:20:15.Z",
            "2026-03-19T10:20:15+1:00",
            "2026-03-19T10:20:15+01:0x",
            "now",
        ] {
            assert!(!is_date(bad.as_bytes()), "{bad}");
        }
    }

    #[test]
    fn all_forms_of_a_date_are_the_same_time() {
        let moment = Moment::of(b"20260319102015").unwrap();
        for same in [
            "20260319102015000",
            "2026-03-19T10:20:15Z",
            "2026-03-19t10:20:15.000z",
            "2026-03-19T10:20:15",
            "2026-03-19T11:20:15+01:00",
            "2026-03-18T23:50:15.0-10:30",
            "2026-03-20T00:20:15.000000+14:00",
        ] {
            assert_eq!(Moment::of(same.as_bytes()), Some(moment), "{same}");
        }
    }

    #[test]
    fn times_are_ordered() {
        let order = [
            "19991231235959",
            "20000101000000",
            "20000228235959999",
            "20000229000000",
            "2000-03-01T00:00:00.00000000001",
            "2000-03-01T00:00:00.0000000001Z",
            "20000301000000001",
            "2000-03-01T01:00:00.001-00:00",
            "2000-02-29T23:00:00.0011-03:00",
            "20001231235959",
            "20010101000000",
            "21000228235959",
            "21000301000000",
        ];
        for pair in order.windows(2) {
            let [before, after] = [0, 1].map(|i| Moment::of(pair[i].as_bytes()).unwrap());
            assert!(before < after, "{pair:?}");
        }
    }

    #[test]
    fn every_date_can_be_written_in_digits() {
        for (date, digits) in [
            ("20260319102015", "20260319102015"),
            ("20260319102015123", "20260319102015123"),
            ("2026-03-19T10:20:15Z", "20260319102015"),
            ("2026-03-19t10:20:15", "20260319102015"),
            ("2026-03-19T10:20:15.1Z", "20260319102015100"),
            ("2026-03-19T10:20:15.1239Z", "20260319102015123"),
            ("2026-01-01T00:20:15.5+00:30", "20251231235015500"),
            ("2024-02-28T23:59:59-00:01", "20240229000059"),
            ("2023-02-28T23:59:59-00:01", "20230301000059"),
            ("2026-02-31T10:20:15Z", "20260231102015"),
            ("0000-01-01T00:00:00+00:00", "00000101000000"),
        ] {
            let given = to_digits(date.as_bytes()).unwrap();
            assert_eq!(std::str::from_utf8(&given), Ok(digits), "{date}");
        }
        for bad in [
            "0000-01-01T00:00:00+00:01",
            "9999-12-31T23:59:59-00:01",
            "now",
        ] {
            assert_eq!(to_digits(bad.as_bytes()), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn no_input_causes_a_panic(date in proptest::collection::vec(any::<u8>(), 0..40)) {
            prop_assert_eq!(is_date(&date), Moment::of(&date).is_some());
            to_digits(&date);
        }

        #[test]
        fn digits_keep_the_time(date in "[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T[0-9]{2}(:[0-9]{2}){2}(\\.[0-9]{1,3})?(Z|[+-][0-9]{2}:[0-9]{2})?") {
            if let Some(digits) = to_digits(date.as_bytes()) {
                prop_assert_eq!(Moment::of(&digits), Moment::of(date.as_bytes()));
                prop_assert_eq!(to_digits(&digits), Some(digits));
            }
        }

        #[test]
        fn times_are_ordered_like_their_digits(
            a in "20[0-9]{2}(0[1-9]|1[0-2])(0[1-9]|1[0-9]|2[0-8])([01][0-9]|2[0-3])([0-5][0-9]){2}[0-9]{3}",
            b in "20[0-9]{2}(0[1-9]|1[0-2])(0[1-9]|1[0-9]|2[0-8])([01][0-9]|2[0-3])([0-5][0-9]){2}[0-9]{3}",
        ) {
            let moment = |date: &str| Moment::of(date.as_bytes()).unwrap();
            prop_assert_eq!(moment(&a).cmp(&moment(&b)), a.cmp(&b));
        }
    }
}
