//! Timestamps of captures: 4 to 14 digits of `yyyyMMddHHmmss`, in UTC.

use std::fmt;

use crawlspace_warc::Date;

/// A point in time with a resolution of one second, ordered by time.
///
/// ```
/// use crawlspace_index::timestamp::Timestamp;
/// let year = Timestamp::earliest(b"2016").unwrap();
/// assert_eq!(year.to_string(), "20160101000000");
/// assert_eq!(Timestamp::latest(b"201602").unwrap().to_string(), "20160229235959");
/// assert_eq!(year.http_date(), "Fri, 01 Jan 2016 00:00:00 GMT");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    /// Seconds since 1970.
    seconds: i64,
}

const LOWEST: &[u8; 14] = b"00000101000000";
const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];
// 1 January 1970 was a Thursday.
const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];

impl Timestamp {
    /// Returns the first second that the digits can denote; `None` if they are not a timestamp.
    /// Digits after the 14th, which are fractions of a second, are ignored. A day after the end of
    /// the month, such as 31 February, becomes the last day of the month; month or day 00 becomes
    /// the first.
    pub fn earliest(digits: &[u8]) -> Option<Timestamp> {
        Timestamp::padded(digits, false)
    }

    /// Returns the last second that the digits can denote; `None` if they are not a timestamp.
    pub fn latest(digits: &[u8]) -> Option<Timestamp> {
        Timestamp::padded(digits, true)
    }

    /// Returns the current time.
    pub fn now() -> Timestamp {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let seconds = since.map_or(0, |since| since.as_secs());
        Timestamp {
            seconds: i64::try_from(seconds).unwrap_or(0),
        }
    }

    /// Returns the time `seconds` after the start of 1970, UTC; `None` before the year 0 and after the year 9999.
    pub fn from_seconds(seconds: i64) -> Option<Timestamp> {
        let within =
            Timestamp::padded(b"0000", false)?.seconds..=Timestamp::padded(b"9999", true)?.seconds;
        within.contains(&seconds).then_some(Timestamp { seconds })
    }

    /// Returns the seconds since the start of 1970.
    pub fn seconds(self) -> i64 {
        self.seconds
    }

    fn padded(digits: &[u8], up: bool) -> Option<Timestamp> {
        if !(4..=20).contains(&digits.len()) || !digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let digits = &digits[..digits.len().min(14)];
        let part = |at: usize, lowest: i64, highest: i64| -> Option<i64> {
            let width = if at == 0 { 4 } else { 2 };
            let given = digits.get(at..).unwrap_or(&[]);
            if given.is_empty() {
                return Some(if up { highest } else { lowest });
            }
            // An incomplete digit pair: the first or the last number that begins with the digit.
            let mut number = 0;
            for i in 0..width {
                let digit = match given.get(i) {
                    Some(digit) => i64::from(digit - b'0'),
                    None if up => 9,
                    None => 0,
                };
                number = number * 10 + digit;
            }
            // Zeros mean that the month or day is unknown.
            if given.len() < width || number == 0 {
                Some(number.clamp(lowest, highest))
            } else {
                (lowest..=highest).contains(&number).then_some(number)
            }
        };
        let year = part(0, 0, 9999)?;
        let month = part(4, 1, 12)?;
        // Timestamps are sometimes padded with day 31 in any month.
        let day = part(6, 1, 31)?.min(days_in(year, month));
        let hour = part(8, 0, 23)?;
        let minute = part(10, 0, 59)?;
        let second = part(12, 0, 59)?;
        let seconds = ((days_since_1970(year, month, day) * 24 + hour) * 60 + minute) * 60 + second;
        Some(Timestamp { seconds })
    }

    /// Formats the time for an HTTP header (RFC 9110, section 5.6.7): `Fri, 01 Jan 2016 00:00:00 GMT`.
    pub fn http_date(self) -> String {
        let (year, month, day, hour, minute, second) = self.parts();
        let weekday = DAYS[self.seconds.div_euclid(86400).rem_euclid(7) as usize];
        let month = MONTHS[month as usize - 1];
        format!("{weekday}, {day:02} {month} {year:04} {hour:02}:{minute:02}:{second:02} GMT")
    }

    /// Parses a date of an HTTP header in any of its three forms (RFC 9110, section 5.6.7): `Sun, 06 Nov 1994 08:49:37
    /// GMT`, `Sunday, 06-Nov-94 08:49:37 GMT`, `Sun Nov  6 08:49:37 1994`.
    pub fn from_http_date(text: &str) -> Option<Timestamp> {
        let words = text.trim().split([' ', '-', ':']);
        let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
        // The weekday is ignored: it follows from the date.
        let month_of = |name: &str| {
            let is_it = |month: &&str| month.eq_ignore_ascii_case(name);
            Some(MONTHS.iter().position(is_it)? + 1)
        };
        let (day, month, year, time) = match words[..] {
            [_, month, day, ref time @ .., year]
                if time.len() == 3 && month_of(month).is_some() =>
            {
                (day, month, year, time)
            }
            [_, day, month, year, ref time @ ..] => (day, month, year, time.get(..3)?),
            _ => return None,
        };
        let is_year = matches!(year.len(), 2 | 4) && year.bytes().all(|byte| byte.is_ascii_digit());
        let is_time = time.iter().all(|part| part.len() == 2);
        if !is_year || !is_time || !matches!(day.len(), 1 | 2) {
            return None;
        }
        let month = month_of(month)?;
        let of_year = |year: &str| {
            let digits = format!("{year}{month:02}{day:0>2}{}", time.concat());
            Timestamp::earliest(digits.as_bytes())
        };
        if year.len() == 4 {
            return of_year(year);
        }
        // RFC 9110: a two-digit year is at most 50 years in the future.
        let now = Timestamp::now();
        let (latest, ..) = now.parts();
        let year: i64 = year.parse().ok()?;
        let in_century = (latest + 50) / 100 * 100 + year;
        let year = if in_century > latest + 50 {
            in_century - 100
        } else {
            in_century
        };
        of_year(&year.to_string())
    }

    /// Parses a date in ISO 8601, of any precision and in any time zone: `2016-01-01T01:00:00.5+01:00`.
    pub fn from_iso(text: &[u8]) -> Option<Timestamp> {
        let date = Date::parse(text)?;
        let there = Timestamp::earliest(&date.digits)?;
        Timestamp::from_seconds(there.seconds - i64::from(date.zone.unwrap_or(0)) * 60)
    }

    /// Formats the time like `WARC-Date`: `2016-01-01T00:00:00Z`.
    pub fn iso(self) -> String {
        let (year, month, day, hour, minute, second) = self.parts();
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
    }

    /// Returns the year, month and day (both from 1), hour, minute and second.
    pub(crate) fn parts(self) -> (i64, i64, i64, i64, i64, i64) {
        let days = self.seconds.div_euclid(86400);
        let of_day = self.seconds.rem_euclid(86400);
        let (year, month, day) = date(days);
        (
            year,
            month,
            day,
            of_day / 3600,
            of_day / 60 % 60,
            of_day % 60,
        )
    }
}

impl fmt::Display for Timestamp {
    /// Writes 14 digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day, hour, minute, second) = self.parts();
        write!(
            f,
            "{year:04}{month:02}{day:02}{hour:02}{minute:02}{second:02}"
        )
    }
}

/// Compares two timestamps as times, digit by digit. Missing digits count as the first second that the timestamp can
/// denote.
pub fn compare(a: &[u8], b: &[u8]) -> std::cmp::Ordering {
    if a.len() == b.len() {
        return a.cmp(b);
    }
    let at = |digits: &[u8], i: usize| -> u8 {
        // An incomplete month or day denotes the first one with this digit: 01 for 0, 10 for 1.
        let is_begun = i == digits.len() && matches!(digits.get(4..), Some([.., b'1'..=b'9']));
        let lowest = match LOWEST.get(i) {
            Some(b'1') if !is_begun => b'1',
            _ => b'0',
        };
        digits.get(i).copied().unwrap_or(lowest)
    };
    let longest = a.len().max(b.len());
    (0..longest)
        .map(|i| at(a, i))
        .cmp((0..longest).map(|i| at(b, i)))
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Returns the days since 1970 in the Gregorian calendar, in which 400 years have 146097 days. Years are counted from
/// March, so that the leap day is the last day of a year.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_of_four_centuries_round_trips() {
        let mut days = days_since_1970(1800, 1, 1);
        for year in 1800..2200 {
            for month in 1..=12 {
                for day in 1..=days_in(year, month) {
                    assert_eq!(days_since_1970(year, month, day), days);
                    assert_eq!(date(days), (year, month, day));
                    days += 1;
                }
            }
        }
        assert_eq!(days_since_1970(1970, 1, 1), 0);
    }

    #[test]
    fn missing_digits_mean_the_first_or_last_moment() {
        for (digits, first, last) in [
            ("2016", "20160101000000", "20161231235959"),
            ("201602", "20160201000000", "20160229235959"),
            ("20160", "20160101000000", "20160930235959"),
            ("20161", "20161001000000", "20161231235959"),
            ("2016021", "20160210000000", "20160219235959"),
            ("20160214153", "20160214153000", "20160214153959"),
            ("20160214153012", "20160214153012", "20160214153012"),
            ("20160231", "20160229000000", "20160229235959"),
            ("20160214153012999", "20160214153012", "20160214153012"),
            ("20160000000000", "20160101000000", "20160101000000"),
            ("20160200", "20160201000000", "20160201235959"),
        ] {
            let of = |t: Option<Timestamp>| t.unwrap().to_string();
            assert_eq!(
                of(Timestamp::earliest(digits.as_bytes())),
                first,
                "{digits}"
            );
            assert_eq!(of(Timestamp::latest(digits.as_bytes())), last, "{digits}");
        }
        for wrong in [
            "",
            "201",
            "2016x",
            "20161301",
            "20160232",
            "2016010124",
            "-2016",
        ] {
            assert_eq!(Timestamp::earliest(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn http_dates_round_trip() {
        let moment = Timestamp::earliest(b"19941106084937").unwrap();
        assert_eq!(moment.http_date(), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(
            Timestamp::from_http_date("Sun, 06 Nov 1994 08:49:37 GMT"),
            Some(moment)
        );
        for other in ["Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"] {
            assert_eq!(Timestamp::from_http_date(other), Some(moment), "{other}");
        }
        let year = |text: &str| Timestamp::from_http_date(text).unwrap().to_string();
        assert!(year("Friday, 01-Jan-16 00:00:00 GMT").starts_with("2016"));
        for wrong in [
            "",
            "Sun",
            "Sun, 06 Nov 994 08:49:37 GMT",
            "Sunday, 06-Nov-9x 08:49:37 GMT",
            "Sun, 06 Nix 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 8:49 GMT",
        ] {
            assert_eq!(Timestamp::from_http_date(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn digits_compare_like_times() {
        use std::cmp::Ordering::*;
        assert_eq!(compare(b"2016", b"20160101000000"), Equal);
        assert_eq!(compare(b"2016", b"20160101000001"), Less);
        for digits in [
            "2016",
            "20160",
            "20161",
            "2016020",
            "2016021",
            "20160213",
            "201602130",
            "2016021301",
        ] {
            let first = Timestamp::earliest(digits.as_bytes()).unwrap().to_string();
            assert_eq!(
                compare(digits.as_bytes(), first.as_bytes()),
                Equal,
                "{digits}"
            );
        }
        assert_eq!(compare(b"20170101000000", b"20160101000001"), Greater);
        assert_eq!(compare(b"20160101000000123", b"20160101000000"), Greater);
    }
}
