//! The documented value of each field in the records of a crawl: `waczIndex date url size`.

pub use crawlspace_compact::limits::dedupe::URL_BYTES;
use std::cmp::Ordering;

use crawlspace_host::text::{parse_unsigned, push_number};
use smallvec::SmallVec;

use super::profile::Profile;
use crawlspace_compact::date::{Digits, Moment, to_digits};

/// The original record to which revisits refer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// The WACZ file that contains the record, as an index into `c:<crawl>:wacz`.
    pub wacz_index: u64,
    /// `WARC-Date` of the original, as given: 14 or 17 digits, or ISO 8601.
    pub date: &'a [u8],
    /// `WARC-Target-URI` of the original: any bytes, including spaces.
    pub url: &'a [u8],
    /// Size of the original record, in bytes.
    pub size: u64,
}

/// An original as a single string, `crawl waczIndex date url size`. Most strings fit without an
/// allocation.
pub type OriginalText = SmallVec<[u8; 256]>;

/// Positions of the fields of a record in its value, for callers that keep the value and parse it
/// only once.
#[derive(Clone, Copy, Debug)]
pub struct Parts {
    wacz_index: u64,
    size: u64,
    /// Start of the date, which ends before the space in front of the URL.
    date: usize,
    url: usize,
    url_end: usize,
}

impl Parts {
    /// Parses a value from both ends, so that the URL may contain spaces. Some older crawlers
    /// omitted the size or wrote `NaN`; the size is then 0. Returns `None` if there is no index,
    /// date or URL.
    pub fn of(value: &[u8]) -> Option<Parts> {
        // A WACZ index is short, so search for its end byte by byte.
        let first = value.iter().position(|&b| b == b' ')?;
        let wacz_index = parse_unsigned(&value[..first])?;
        let date = first + 1;
        let url = date + memchr::memchr(b' ', &value[date..])? + 1;
        let rest = &value[url..];
        let (url_end, size) = match memchr::memrchr(b' ', rest) {
            Some(last) => match parse_unsigned(&rest[last + 1..]) {
                Some(size) => (url + last, size),
                None if &rest[last + 1..] == b"NaN" => (url + last, 0),
                None => (value.len(), 0),
            },
            None => (value.len(), 0),
        };
        (date + 1 < url && url < url_end).then_some(Parts {
            wacz_index,
            size,
            date,
            url,
            url_end,
        })
    }

    /// Returns the positions in a value of the documented form with these numbers. `len` is its length. Returns `None`
    /// if the URL is empty.
    #[inline]
    pub fn of_numbers(wacz_index: u64, date_len: usize, size: u64, len: usize) -> Option<Parts> {
        let digits = |n: u64| n.checked_ilog10().unwrap_or(0) as usize + 1;
        let date = digits(wacz_index) + 1;
        let url = date + date_len + 1;
        let url_end = len.checked_sub(digits(size) + 1)?;
        (url < url_end).then_some(Parts {
            wacz_index,
            size,
            date,
            url,
            url_end,
        })
    }

    /// Returns true if the parsed value is exactly the documented form of its record. It suffices
    /// to check that it has a size, because numbers have only one form.
    fn is_documented(&self, value: &[u8]) -> bool {
        let size = value.get(self.url_end + 1);
        size.is_some_and(u8::is_ascii_digit)
    }

    /// Writes the original to a buffer as a single string, and replaces the previous contents. `value` is the value
    /// that was parsed.
    pub fn write_text(&self, crawl: &[u8], value: &[u8], text: &mut OriginalText) {
        text.clear();
        text.extend_from_slice(crawl);
        text.push(b' ');
        if self.is_documented(value) {
            text.extend_from_slice(value);
        } else {
            text.extend_from_slice(&self.record(value).to_value());
        }
    }

    /// Returns the record in the value that was parsed.
    pub fn record<'a>(&self, value: &'a [u8]) -> Record<'a> {
        Record {
            wacz_index: self.wacz_index,
            date: &value[self.date..self.url - 1],
            url: &value[self.url..self.url_end],
            size: self.size,
        }
    }
}

impl<'a> Record<'a> {
    /// Parses a value as [`Parts::of`] does.
    pub fn parse(value: &'a [u8]) -> Option<Record<'a>> {
        Some(Parts::of(value)?.record(value))
    }

    /// Returns the record as this profile stores it. Readers of the Browsertrix profile accept only
    /// dates of digits, and split a value at its spaces. For this profile, the method converts
    /// dates to 14 digits, or to 17 digits if they have a fraction of a second, and replaces spaces
    /// in URLs with `%20`. `room` stores the converted fields.
    pub fn as_stored<'s>(&self, profile: Profile, room: &'s mut Room) -> Record<'s>
    where
        'a: 's,
    {
        let (mut date, mut url) = (self.date, self.url);
        if profile == Profile::Browsertrix {
            if let Some(digits) = to_digits(date) {
                room.date = digits;
                date = &room.date;
            }
            if memchr::memchr(b' ', url).is_some() {
                room.url = without_spaces(url);
                url = &room.url;
            }
        }
        Record { date, url, ..*self }
    }

    /// Returns the documented form of the value.
    pub fn to_value(&self) -> Vec<u8> {
        let mut value = Vec::with_capacity(self.date.len() + self.url.len() + 24);
        self.write(&mut value);
        value
    }

    /// Replaces the contents of a buffer with the documented form of the value.
    pub fn write(&self, value: &mut Vec<u8>) {
        value.clear();
        push_number(value, self.wacz_index);
        value.push(b' ');
        value.extend_from_slice(self.date);
        value.push(b' ');
        value.extend_from_slice(self.url);
        value.push(b' ');
        push_number(value, self.size);
    }
}

/// Returns a URL with `%20` instead of spaces.
fn without_spaces(url: &[u8]) -> Vec<u8> {
    let parts: Vec<&[u8]> = url.split(|&b| b == b' ').collect();
    parts.join(&b"%20"[..])
}

/// Buffers for converted fields of a record.
#[derive(Default)]
pub struct Room {
    date: Digits,
    url: Vec<u8>,
}

/// Number of digits of a date without a fraction of a second.
const SECOND_DIGITS: usize = 14;

/// The capture that a record describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capture<'a> {
    /// The second of the capture's date, in 14 digits. A date in an unknown format differs from any
    /// other date.
    pub second: &'a [u8],
    /// The milliseconds of the capture's date, in three digits; empty if the date has no fraction.
    pub millis: &'a [u8],
    /// The URL, in the form that the profile stores.
    pub url: &'a [u8],
}

impl Capture<'_> {
    /// Returns true if both captures have the same URL and the same second.
    pub fn is_in_second_of(&self, other: &Capture<'_>) -> bool {
        (self.second, self.url) == (other.second, other.url)
    }

    /// Returns true if both are the same capture. Compares their dates at the precision of the
    /// coarser date.
    pub fn is_same(&self, other: &Capture<'_>) -> bool {
        let is_coarse = self.millis.is_empty() || other.millis.is_empty();
        self.is_in_second_of(other) && (is_coarse || self.millis == other.millis)
    }
}

impl<'a> Record<'a> {
    /// Returns the capture that the record describes. Two captures are equal if their dates are
    /// equal, regardless of the date format, and if the profile stores both URLs in the same form.
    pub fn capture<'s>(&self, profile: Profile, room: &'s mut Room) -> Capture<'s>
    where
        'a: 's,
    {
        if let Some(digits) = to_digits(self.date) {
            room.date = digits;
        } else {
            room.date.clear();
        }
        let Record { url, .. } = *self;
        let url = match profile {
            Profile::Browsertrix if memchr::memchr(b' ', url).is_some() => {
                room.url = without_spaces(url);
                &room.url
            }
            _ => url,
        };
        let (second, millis) = match room.date.split_at_checked(SECOND_DIGITS) {
            Some(parts) => parts,
            None => (self.date, &b""[..]),
        };
        Capture {
            second,
            millis,
            url,
        }
    }

    /// Returns true if both records describe the same capture. The second record is then treated as
    /// a retry. Compares dates at the precision of the coarser date, because indexes of packages
    /// contain dates of 14 digits, whereas crawlers store 17 digits.
    pub fn is_same(&self, other: &Record<'_>, profile: Profile) -> bool {
        let (mut mine, mut theirs) = (Room::default(), Room::default());
        let mine = self.capture(profile, &mut mine);
        mine.is_same(&other.capture(profile, &mut theirs))
    }

    /// Compares two records of a hash by their dates, to the millisecond. The earlier one is the
    /// original. A date without a fraction is compared as the end of its second, so that of two
    /// dates of the same capture, the more precise date is the earlier one. If the dates are equal,
    /// compares the other fields, so that only equal records are `Equal`. An invalid date comes
    /// last.
    pub fn cmp_age(&self, other: &Record<'_>) -> Ordering {
        let (mine, theirs) = (Moment::latest(self.date), Moment::latest(other.date));
        let moments = mine
            .is_none()
            .cmp(&theirs.is_none())
            .then(mine.cmp(&theirs));
        moments
            .then_with(|| self.url.cmp(other.url))
            .then_with(|| self.wacz_index.cmp(&other.wacz_index))
            .then_with(|| self.size.cmp(&other.size))
            .then_with(|| self.date.cmp(other.date))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn positions_follow_from_the_numbers_of_a_documented_value() {
        for (wacz, date, url, size) in [
            (0, "20260319102015", "https://e/ with  spaces", 0),
            (10, "2026-03-19T10:20:15.123Z", "u", 9_999_999_999),
        ] {
            let value = format!("{wacz} {date} {url} {size}");
            let parts = Parts::of_numbers(wacz, date.len(), size, value.len()).unwrap();
            let parsed = Parts::of(value.as_bytes()).unwrap();
            assert_eq!(
                parts.record(value.as_bytes()),
                parsed.record(value.as_bytes())
            );
        }
        assert!(Parts::of_numbers(0, 14, 5, "0 20260319102015  5".len()).is_none());
    }

    #[test]
    fn url_with_spaces_round_trips() {
        let record = Record::parse(b"3 20260319102015 http://x/a b 7 c 42").unwrap();
        assert_eq!(record.wacz_index, 3);
        assert_eq!(record.url, b"http://x/a b 7 c");
        assert_eq!(record.size, 42);
    }

    #[test]
    fn only_documented_values_are_returned_unchanged() {
        for (value, is_documented) in [
            ("3 20260319102015 http://x/a b 7 c 42", true),
            ("0 20260319102015 http://x/ 0", true),
            ("0 20260319102015 http://x/", false),
            ("0 20260319102015 http://x/ NaN", false),
            ("0 20260319102015 http://x/ 042", false),
        ] {
            let value = value.as_bytes();
            let parts = Parts::of(value).unwrap();
            assert_eq!(parts.is_documented(value), is_documented);
            assert_eq!(parts.record(value).to_value() == value, is_documented);
        }
    }

    #[test]
    fn value_without_size_counts_as_zero() {
        let record = Record::parse(b"0 20260319102015 http://x/").unwrap();
        assert_eq!((record.url, record.size), (&b"http://x/"[..], 0));
    }

    #[test]
    fn non_numeric_size_counts_as_zero() {
        let record = Record::parse(b"0 20260319102015 http://x/a b NaN").unwrap();
        assert_eq!((record.url, record.size), (&b"http://x/a b"[..], 0));
        let record = Record::parse(b"0 20260319102015 http://x/ NaN 7").unwrap();
        assert_eq!((record.url, record.size), (&b"http://x/ NaN"[..], 7));
        assert_eq!(Record::parse(b"0 20260319102015  NaN"), None);
    }

    #[test]
    fn profile_stores_records_that_its_readers_can_parse() {
        let given = Record {
            wacz_index: 1,
            date: b"2026-03-19T12:20:15.250+02:00",
            url: b"http://x/a b  c",
            size: 7,
        };
        let mut room = Room::default();
        assert_eq!(given.as_stored(Profile::Document, &mut room), given);
        let stored = given.as_stored(Profile::Browsertrix, &mut room).to_value();
        assert_eq!(stored, b"1 20260319102015250 http://x/a%20b%20%20c 7");
    }

    #[test]
    fn captures_are_compared_as_the_profile_stores_them() {
        let record = |date: &'static str, url: &'static str| Record {
            wacz_index: 0,
            date: date.as_bytes(),
            url: url.as_bytes(),
            size: 1,
        };
        let first = record("20260319102015", "http://x/a%20b");
        let spaced = record("20260319102015000", "http://x/a b");
        assert!(first.is_same(&spaced, Profile::Browsertrix));
        assert!(!first.is_same(&spaced, Profile::Document));
        for profile in Profile::ALL {
            for other in [
                record("20260319102016", "http://x/a%20b"),
                record("20260319102015", "http://x/a+b"),
                record("at noon", "http://x/a%20b"),
            ] {
                assert!(!first.is_same(&other, profile));
            }
        }
    }

    #[test]
    fn coarser_of_two_dates_decides_if_a_capture_is_the_same() {
        let record = |date: &'static str| Record {
            wacz_index: 0,
            date: date.as_bytes(),
            url: b"http://x/",
            size: 1,
        };
        for (one, other, is_same) in [
            ("20260319102015", "20260319102015123", true),
            ("2026-03-19T11:20:15+01:00", "20260319102015999", true),
            ("2026-03-19T10:20:15.123456Z", "20260319102015123", true),
            ("20260319102015123", "20260319102015124", false),
            ("2026-03-19T10:20:15.5Z", "20260319102015501", false),
            ("20260319102015", "20260319102014999", false),
            ("in March", "in March", true),
        ] {
            for profile in Profile::ALL {
                let (one, other) = (record(one), record(other));
                assert_eq!(one.is_same(&other, profile), is_same, "{one:?} {other:?}");
                assert_eq!(other.is_same(&one, profile), is_same, "{one:?} {other:?}");
            }
        }
    }

    #[test]
    fn more_precise_date_of_a_second_is_the_earlier_one() {
        let record = |date: &'static str| Record {
            wacz_index: 0,
            date: date.as_bytes(),
            url: b"http://x/",
            size: 1,
        };
        let dates = [
            "20260319102014",
            "20260319102015000",
            "2026-03-19T10:20:15.5Z",
            "20260319102015999",
            "20260319102015",
            "20260319102016000",
            "unknown",
        ];
        for pair in dates.windows(2) {
            let (one, other) = (record(pair[0]), record(pair[1]));
            assert_eq!(one.cmp_age(&other), Ordering::Less, "{pair:?}");
        }
    }

    #[test]
    fn broken_values_are_not_records() {
        for bad in [
            "",
            "0",
            "x 2026 http://x 1",
            "0 2026",
            "0  http://x/ 1",
            "-1 2026 u 1",
        ] {
            assert_eq!(Record::parse(bad.as_bytes()), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn record_reads_back(index in 0..=i64::MAX as u64, url in proptest::collection::vec(any::<u8>(), 1..200), size in 0..=i64::MAX as u64) {
            let record = Record { wacz_index: index, date: b"20260319102015", url: &url, size };
            let value = record.to_value();
            prop_assert_eq!(Record::parse(&value), Some(record));
            prop_assert!(Parts::of(&value).unwrap().is_documented(&value));
        }

        #[test]
        fn parsing_never_panics(value in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Record::parse(&value);
        }
    }
}
