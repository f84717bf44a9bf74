//! Parsing of times on the command line.

use std::time::Duration;

use crawlspace_client::frontier::Millis;
use crawlspace_compact::calendar;

/// Parses a time span: `500ms`, `90s`, `15m`, `2h`, `1d`.
pub(crate) fn span(given: &str) -> Result<Duration, String> {
    let digits = given.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let ms = match &given[digits.len()..] {
        "ms" => 1,
        "s" => 1000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err("write a number and a unit: 500ms, 90s, 15m, 2h or 1d".to_owned()),
    };
    let number: u64 = digits
        .parse()
        .map_err(|_| format!("invalid number '{digits}'"))?;
    let whole = number.checked_mul(ms).ok_or("too long")?;
    Ok(Duration::from_millis(whole))
}

/// Parses a point in time: milliseconds since the epoch, or `2026-03-19T10:20:15Z`, optionally without seconds or
/// without time of day.
pub(crate) fn moment(given: &str) -> Result<Millis, String> {
    if !given.is_empty() && given.bytes().all(|b| b.is_ascii_digit()) {
        return given.parse().map_err(|_| "too late".to_owned());
    }
    let wrong = || "write milliseconds since the epoch, or 2026-03-19T10:20:15Z".to_owned();
    let (date, time) = match given.split_once('T') {
        Some((date, time)) => (date, time.strip_suffix('Z').ok_or_else(wrong)?),
        None => (given, "00:00"),
    };
    let numbers = |text: &str, between: char, lengths: &[usize]| -> Option<Vec<u64>> {
        let parts: Vec<&str> = text.split(between).collect();
        let shaped = parts.len() <= lengths.len()
            && parts
                .iter()
                .zip(lengths)
                .all(|(part, &len)| part.len() == len && part.bytes().all(|b| b.is_ascii_digit()));
        shaped.then(|| parts.iter().filter_map(|part| part.parse().ok()).collect())
    };
    let date = numbers(date, '-', &[4, 2, 2]).ok_or_else(wrong)?;
    let time = numbers(time, ':', &[2, 2, 2]).ok_or_else(wrong)?;
    let (&[year, month, day], [hour, minute, rest @ ..]) = (&date[..], &time[..]) else {
        return Err(wrong());
    };
    let second = rest.first().copied().unwrap_or(0);
    let days_to = |month, day| calendar::days(year as i64, month as i64, day as i64) as u64;
    let exists = (1970..=9999).contains(&year)
        && (1..=12).contains(&month)
        && (1..=days_to(month + 1, 1) - days_to(month, 1)).contains(&day)
        && *hour < 24
        && *minute < 60
        && second < 60;
    if !exists {
        return Err("this date or time does not exist".to_owned());
    }
    let days = days_to(month, day);
    Ok((((days * 24 + hour) * 60 + minute) * 60 + second) * 1000)
}

/// Formats a point in time in UTC, to the second.
pub(crate) fn utc(moment: Millis) -> String {
    let seconds = moment / 1000;
    let (days, time) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = calendar::date(days as i64);
    let (hour, minute, second) = (time / 3600, time / 60 % 60, time % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_need_a_unit() {
        assert_eq!(span("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(span("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(span("15m"), span("900s"));
        assert_eq!(span("2h"), span("120min"));
        assert_eq!(span("1d"), span("24h"));
        for wrong in ["", "90", "s", "1w", "-1s", "1.5h", "99999999999999999999d"] {
            assert!(span(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_are_utc() {
        assert_eq!(moment("1700000000000"), Ok(1_700_000_000_000));
        assert_eq!(moment("2023-11-14T22:13:20Z"), Ok(1_700_000_000_000));
        assert_eq!(moment("1970-01-01"), Ok(0));
        assert_eq!(moment("2000-02-29T00:00Z"), Ok(951_782_400_000));
        assert_eq!(moment("2100-03-01"), Ok(4_107_542_400_000));
        for wrong in [
            "",
            "tomorrow",
            "2026-02-29",
            "2100-02-29",
            "2026-13-01",
            "2026-03-19T10:20:15",
            "2026-03-19T24:00Z",
            "2026-3-19",
            "1969-12-31",
            "2026-03-19T10:20:15:01Z",
            "+026-03-19",
        ] {
            assert!(moment(wrong).is_err(), "{wrong}");
        }
        for at in [
            "1970-01-01T00:00:00Z",
            "2000-02-29T23:59:59Z",
            "2023-11-14T22:13:20Z",
            "2100-03-01T00:00:00Z",
            "2036-12-31T12:34:56Z",
        ] {
            assert_eq!(utc(moment(at).unwrap()), at);
        }
    }
}
