//! The value that the documents keep for each hash of a crawl: `waczIndex date url size`.

use std::cmp::Ordering;

use crawlspace_host::text::{parse_unsigned, push_number};

use super::date::{Digits, Moment, to_digits};
use super::profile::Profile;

/// Maximum length of a URL, in bytes.
pub const URL_BYTES: usize = 1 << 20;

/// The original record that a revisit refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Which WACZ of the crawl holds it: an index into `c:<crawl>:wacz`.
    pub wacz_index: u64,
    /// `WARC-Date` of the original, as given: 14 or 17 digits, or ISO 8601.
    pub date: &'a [u8],
    /// `WARC-Target-URI` of the original, any bytes, spaces included.
    pub url: &'a [u8],
    /// Bytes of the original record.
    pub size: u64,
}

/// Where the parts of a record stand in its value: for who keeps a value, and has it read once.
#[derive(Clone, Copy, Debug)]
pub struct Parts {
    wacz_index: u64,
    size: u64,
    /// Where the date begins; it ends before the space before the URL.
    date: usize,
    url: usize,
    url_end: usize,
}

impl Parts {
    /// Reads a value from both ends, so that a URL with spaces survives. Values without a size, which
    /// older crawlers wrote, and those with `NaN` in its place count as size 0. `None` when there is no
    /// index, date and URL.
    pub fn of(value: &[u8]) -> Option<Parts> {
        // The index is short.
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

    /// The record in the value that this was read from.
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
    /// Reads a value as [`Parts::of`] does.
    pub fn parse(value: &'a [u8]) -> Option<Record<'a>> {
        Some(Parts::of(value)?.record(value))
    }

    /// The record as this profile stores it. Readers of the browsertrix profile know dates of digits
    /// only, and split a value at its spaces. There a date becomes 14 digits, or 17 when it has a
    /// fraction of a second, and a space in a URL `%20`. `room` holds what had to be written anew.
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
                room.url = url
                    .split(|&b| b == b' ')
                    .collect::<Vec<_>>()
                    .join(&b"%20"[..]);
                url = &room.url;
            }
        }
        Record { date, url, ..*self }
    }

    /// The value as the documents write it.
    pub fn to_value(&self) -> Vec<u8> {
        let mut value = Vec::with_capacity(self.date.len() + self.url.len() + 24);
        self.write(&mut value);
        value
    }

    /// Puts that value into a buffer in place of what is there.
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

/// Room for a record that is written in another way than it was given.
#[derive(Default)]
pub struct Room {
    date: Digits,
    url: Vec<u8>,
}

impl<'a> Record<'a> {
    /// Date and URL of the capture that the record tells of: equal for all spellings of them that the
    /// profile stores as one.
    pub fn capture<'s>(&self, profile: Profile, room: &'s mut Room) -> (&'s [u8], &'s [u8])
    where
        'a: 's,
    {
        let Record { date, url, .. } = self.as_stored(profile, room);
        match (profile, date.strip_suffix(b"000")) {
            (Profile::Browsertrix, Some(seconds)) if seconds.len() == 14 => (seconds, url),
            _ => (date, url),
        }
    }

    /// Whether both tell of the same capture: then the second one is taken for a retry.
    pub fn is_same(&self, other: &Record<'_>, profile: Profile) -> bool {
        let (mut mine, mut theirs) = (Room::default(), Room::default());
        self.capture(profile, &mut mine) == other.capture(profile, &mut theirs)
    }

    /// Which of two records of one hash is the original: the earlier one. The rest of what they
    /// say decides between captures of one moment, so that only equal records are `Equal`. A date
    /// that nobody can read comes last.
    pub fn cmp_age(&self, other: &Record<'_>) -> Ordering {
        let (mine, theirs) = (Moment::of(self.date), Moment::of(other.date));
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
    fn a_url_with_spaces_survives() {
        let record = Record::parse(b"3 20260319102015 http://x/a b 7 c 42").unwrap();
        assert_eq!(record.wacz_index, 3);
        assert_eq!(record.url, b"http://x/a b 7 c");
        assert_eq!(record.size, 42);
    }

    #[test]
    fn a_value_without_size_counts_as_zero() {
        let record = Record::parse(b"0 20260319102015 http://x/").unwrap();
        assert_eq!((record.url, record.size), (&b"http://x/"[..], 0));
    }

    #[test]
    fn a_size_that_is_not_a_number_counts_as_zero() {
        let record = Record::parse(b"0 20260319102015 http://x/a b NaN").unwrap();
        assert_eq!((record.url, record.size), (&b"http://x/a b"[..], 0));
        let record = Record::parse(b"0 20260319102015 http://x/ NaN 7").unwrap();
        assert_eq!((record.url, record.size), (&b"http://x/ NaN"[..], 7));
        assert_eq!(Record::parse(b"0 20260319102015  NaN"), None);
    }

    #[test]
    fn a_profile_stores_what_its_readers_can_read() {
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
        for same in [
            record("20260319102015000", "http://x/a b"),
            record("2026-03-19T10:20:15.000Z", "http://x/a%20b"),
        ] {
            assert!(first.is_same(&same, Profile::Browsertrix));
            assert!(!first.is_same(&same, Profile::Document));
        }
        for other in [
            record("20260319102015001", "http://x/a%20b"),
            record("20260319102015", "http://x/a+b"),
        ] {
            assert!(!first.is_same(&other, Profile::Browsertrix));
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
        fn a_record_reads_back(index in 0..=i64::MAX as u64, url in proptest::collection::vec(any::<u8>(), 1..200), size in 0..=i64::MAX as u64) {
            let record = Record { wacz_index: index, date: b"20260319102015", url: &url, size };
            let value = record.to_value();
            prop_assert_eq!(Record::parse(&value), Some(record));
        }

        #[test]
        fn parsing_never_panics(value in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Record::parse(&value);
        }
    }
}
