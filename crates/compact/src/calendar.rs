//! Conversion between days since 1970-01-01 and dates of the proleptic Gregorian calendar.

/// Days from 0000-03-01 to 1970-01-01. Years are counted from March, so that the leap day is the
/// last day of a year.
const TO_1970: u32 = 719_468;
/// Days in 400 years.
const ERA: i64 = 146_097;

/// Returns the days from 1970-01-01 to a date. Months count from 1; months and days that are out of
/// range carry over.
pub fn days(year: i64, month: i64, day: i64) -> i64 {
    let months = year * 12 + month - 3;
    let (year, month) = (months.div_euclid(12), months.rem_euclid(12));
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    // Starting in March, month lengths repeat the pattern 31, 30, 31, 30, 31 days.
    year * 365 + leap_days + (month * 153 + 2) / 5 + day - 1 - i64::from(TO_1970)
}

/// Converts the number of days since 1970-01-01, at most 2³⁰, to year, month and day.
#[inline]
pub fn date_after(days: u32) -> (u32, u32, u32) {
    // The unit is a quarter of a day: an average year has 1461 quarters, and a century has 146 097.
    let quarters = (days + TO_1970) * 4 + 3;
    let century = quarters / 146_097;
    let quarters = (quarters % 146_097) | 3;
    let (year, day_of_year) = (century * 100 + quarters / 1461, quarters % 1461 / 4);
    let month = (day_of_year * 5 + 2) / 153;
    let day = day_of_year - (month * 153 + 2) / 5 + 1;
    match month {
        10.. => (year + 1, month - 9, day),
        _ => (year, month + 3, day),
    }
}

/// Converts the number of days since 1970-01-01, which may be negative, to year, month and day.
pub fn date(days: i64) -> (i64, u32, u32) {
    let (year, month, day) = date_after(days.rem_euclid(ERA) as u32);
    (i64::from(year) + 400 * days.div_euclid(ERA), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_days() {
        for (of, date) in [
            (0, (1970, 1, 1)),
            (-1, (1969, 12, 31)),
            (11_016, (2000, 2, 29)),
            (20_531, (2026, 3, 19)),
            (-719_528, (0, 1, 1)),
            (2_932_896, (9999, 12, 31)),
        ] {
            assert_eq!(super::date(of), date);
            assert_eq!(days(date.0, date.1.into(), date.2.into()), of);
        }
        assert_eq!(days(2026, 2, 31), days(2026, 3, 3));
        assert_eq!(days(2026, 13, 0), days(2026, 12, 31));
    }

    #[test]
    fn months_have_their_days() {
        let length = |year, month| days(year, month + 1, 1) - days(year, month, 1);
        for (year, days) in [(2023, 28), (2024, 29), (1900, 28), (2000, 29), (2100, 28)] {
            assert_eq!(length(year, 2), days);
        }
        let all = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        assert!((1..=12).map(|month| length(2026, month)).eq(all));
    }

    #[test]
    fn every_day_follows_the_previous_one() {
        let mut before = date(-1_000_000);
        for of in -999_999..3_000_000 {
            let today = date(of);
            assert!(today > before && (1..=12).contains(&today.1));
            assert_eq!(days(today.0, today.1.into(), today.2.into()), of);
            before = today;
        }
    }

    proptest! {
        /// Consecutive day numbers yield consecutive dates, as in a simple calendar.
        #[test]
        fn days_follow_each_other(year in 0..9999i64, month in 1..=12i64, day in 1..=31i64) {
            let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let last = match month {
                2 => 28 + i64::from(leap),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            let next = match (month, day) {
                _ if day > last => return Ok(()),
                _ if day < last => (year, month, day + 1),
                (12, _) => (year + 1, 1, 1),
                _ => (year, month + 1, 1),
            };
            prop_assert_eq!(days(next.0, next.1, next.2), days(year, month, day) + 1);
        }
    }
}
