//! Records that are counted in the second stage, cached in memory between the stages up to a limit.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::package::Package;
use crawlspace_index::capture::Capture;

/// Maximum number of bytes cached per package, and in total.
const MAX_CACHED: (usize, usize) = (16 << 20, 48 << 20);

/// Size of the records, in bytes, at which a group of packages is complete.
const MAX_GROUP: usize = 64 << 10;

/// A record that can be counted only once every original is in the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Deferred {
    pub hash: Vec<u8>,
    pub size: u64,
    /// Identity of a response among the responses of its crawl with the same hash; `None` for a revisit.
    pub response: Option<Identity>,
}

/// Compact form of a response's date and URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    /// The digits of the date: 14, or 17 with milliseconds.
    date: u64,
    url: u64,
}

/// Smallest number with 15 digits: dates from here on have milliseconds.
const MILLISECONDS: u64 = 100_000_000_000_000;

impl Identity {
    /// Returns true if both can be the same record. Crawlers write milliseconds to an index, and seconds to CDX files:
    /// if one date has only seconds, the seconds are compared.
    pub(crate) fn is_same(self, other: Identity) -> bool {
        let seconds = |date| {
            if date < MILLISECONDS {
                date
            } else {
                date / 1000
            }
        };
        let is_coarse = self.date < MILLISECONDS || other.date < MILLISECONDS;
        let is_same_date = if is_coarse {
            seconds(self.date) == seconds(other.date)
        } else {
            self.date == other.date
        };
        is_same_date && self.url == other.url
    }

    /// Creates the identity, which is equal for all forms in which an index writes date and URL.
    pub(crate) fn of(date: &[u8], url: &[u8]) -> Identity {
        let digits = date.iter().filter(|byte| byte.is_ascii_digit());
        let date = digits.fold(0u64, |sum, digit| {
            sum.wrapping_mul(10).wrapping_add(u64::from(digit - b'0'))
        });
        let mut hasher = DefaultHasher::new();
        for byte in url {
            match byte {
                b' ' => hasher.write(b"%20"),
                other => hasher.write(&[*other]),
            }
        }
        Identity {
            date,
            url: hasher.finish(),
        }
    }
}

impl Deferred {
    /// Returns the record to defer: a revisit, or a response that is larger than `above`, if set.
    pub(crate) fn of(capture: &Capture<'_>, above: Option<u64>) -> Option<Deferred> {
        match capture {
            Capture::Revisit { hash, size } => Some(Deferred {
                hash: hash.to_vec(),
                size: *size,
                response: None,
            }),
            Capture::Response {
                hash,
                date,
                url,
                size,
            } if above.is_some_and(|above| *size > above) => Some(Deferred {
                hash: hash.to_vec(),
                size: *size,
                response: Some(Identity::of(date, url)),
            }),
            _ => None,
        }
    }
}

/// Deferred records of one package, in the order of its index.
pub(super) struct Records {
    /// `None` if there are too many to cache.
    bytes: Option<Vec<u8>>,
    is_empty: bool,
}

impl Default for Records {
    fn default() -> Records {
        Records {
            bytes: Some(Vec::new()),
            is_empty: true,
        }
    }
}

impl Records {
    pub(crate) fn is_empty(&self) -> bool {
        self.is_empty
    }

    pub(crate) fn push(&mut self, record: &Deferred) {
        self.is_empty = false;
        if let Some(bytes) = &mut self.bytes {
            // A hash has 16 to 256 bytes.
            bytes.push((record.hash.len() - 1) as u8);
            bytes.extend_from_slice(&record.hash);
            bytes.extend_from_slice(&record.size.to_le_bytes());
            bytes.push(u8::from(record.response.is_some()));
            if let Some(Identity { date, url }) = record.response {
                bytes.extend_from_slice(&date.to_le_bytes());
                bytes.extend_from_slice(&url.to_le_bytes());
            }
            if bytes.len() > MAX_CACHED.0 {
                self.bytes = None;
            }
        }
    }

    pub(crate) fn for_each<E>(
        bytes: &[u8],
        mut each: impl FnMut(Deferred) -> Result<(), E>,
    ) -> Result<(), E> {
        fn number(rest: &mut &[u8]) -> u64 {
            let (number, more) = rest.split_at(8);
            *rest = more;
            u64::from_le_bytes(number.try_into().expect("eight bytes"))
        }
        let mut rest = bytes;
        while let Some((&length, more)) = rest.split_first() {
            let (hash, more) = more.split_at(usize::from(length) + 1);
            rest = more;
            let size = number(&mut rest);
            let is_response = rest[0] == 1;
            rest = &rest[1..];
            let response = is_response.then(|| Identity {
                date: number(&mut rest),
                url: number(&mut rest),
            });
            each(Deferred {
                hash: hash.to_vec(),
                size,
                response,
            })?;
        }
        Ok(())
    }
}

/// Cache of deferred records, which need not be read again.
#[derive(Default)]
pub(super) struct RecordCache(Mutex<Packages>);

#[derive(Default)]
struct Packages {
    records: HashMap<String, Vec<u8>>,
    bytes: usize,
    /// Packages queued for the second stage, with their queue entries.
    queued: VecDeque<(Box<Package>, Vec<u8>)>,
    /// Packages that could not be counted in a group.
    singles: VecDeque<(Box<Package>, Vec<u8>)>,
}

impl RecordCache {
    pub(crate) fn put(&self, name: &str, records: Records) {
        let mut packages = self.packages();
        if let Some(bytes) = records.bytes
            && packages.bytes + bytes.len() <= MAX_CACHED.1
        {
            packages.bytes += bytes.len();
            packages.records.insert(name.to_owned(), bytes);
        }
    }

    /// Marks a package as queued, if its records are cached.
    pub(crate) fn queued(&self, package: &Package, item: &[u8]) {
        let mut packages = self.packages();
        if packages.records.contains_key(&package.name) {
            let package = Box::new(package.clone());
            packages.queued.push_back((package, item.to_vec()));
        }
    }

    /// Returns up to `most` packages that are queued and were not returned before, with their records, which stay in
    /// the cache. Packages with too many records for a group are returned by [`RecordCache::next`].
    pub(crate) fn group(&self, most: usize) -> Vec<(Box<Package>, Vec<u8>, Vec<u8>)> {
        let mut packages = self.packages();
        let mut group = Vec::new();
        let mut bytes = 0;
        while group.len() < most && bytes < MAX_GROUP {
            let Some((package, item)) = packages.queued.pop_front() else {
                break;
            };
            match packages.records.get(&package.name) {
                Some(records) if records.len() <= MAX_GROUP => {
                    let records = records.clone();
                    bytes += records.len();
                    group.push((package, item, records));
                }
                Some(_) => packages.singles.push_back((package, item)),
                None => {}
            }
        }
        group
    }

    /// Puts packages back into the cache for the next group.
    pub(crate) fn again(&self, group: Vec<(Box<Package>, Vec<u8>, Vec<u8>)>) {
        let mut packages = self.packages();
        for (package, item, _) in group.into_iter().rev() {
            packages.queued.push_front((package, item));
        }
    }

    /// Puts back a package that must be counted on its own.
    pub(crate) fn give_back(&self, package: Box<Package>, item: Vec<u8>) {
        self.packages().singles.push_back((package, item));
    }

    /// Takes a package that must be counted on its own.
    pub(crate) fn next(&self) -> Option<(Box<Package>, Vec<u8>)> {
        self.packages().singles.pop_front()
    }

    pub(crate) fn take(&self, name: &str) -> Option<Vec<u8>> {
        let mut packages = self.packages();
        let bytes = packages.records.remove(name)?;
        packages.bytes -= bytes.len();
        Some(bytes)
    }

    fn packages(&self) -> MutexGuard<'_, Packages> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_compared_to_their_common_precision() {
        let of = |date: &str| Identity::of(date.as_bytes(), b"https://example.org/");
        let seconds = of("20260319102015");
        assert!(seconds.is_same(of("20260319102015123")));
        assert!(of("20260319102015123").is_same(seconds));
        assert!(!of("20260319102016123").is_same(seconds));
        assert!(!of("20260319102015123").is_same(of("20260319102015124")));
        assert!(!seconds.is_same(Identity::of(b"20260319102015", b"https://example.org/b")));
    }

    #[test]
    fn kept_records_read_back() {
        let identity = Identity::of(b"20260319102015", b"https://example.org/");
        let made: Vec<Deferred> = [(16, None), (256, Some(identity)), (71, None)]
            .into_iter()
            .enumerate()
            .map(|(i, (length, response))| Deferred {
                hash: vec![b'a' + i as u8; length],
                size: i as u64 * 1_000_000_007,
                response,
            })
            .collect();
        let mut records = Records::default();
        assert!(records.is_empty());
        for record in &made {
            records.push(record);
        }
        assert!(!records.is_empty());
        let kept = RecordCache::default();
        kept.put("a.wacz", records);
        let bytes = kept.take("a.wacz").expect("it was put there");
        let mut back = Vec::new();
        let read = Records::for_each(&bytes, |record| {
            back.push(record);
            Ok::<(), ()>(())
        });
        assert_eq!((read, back), (Ok(()), made));
        assert!(kept.take("a.wacz").is_none());
    }

    #[test]
    fn number_of_kept_records_is_limited() {
        let kept = RecordCache::default();
        let mut records = Records::default();
        let record = Deferred {
            hash: vec![b'a'; 71],
            size: 1,
            response: None,
        };
        for _ in 0..MAX_CACHED.0 / 80 + 1 {
            records.push(&record);
        }
        assert!(!records.is_empty());
        kept.put("large.wacz", records);
        assert!(kept.take("large.wacz").is_none());
    }

    #[test]
    fn response_matches_in_all_spellings_of_an_index() {
        let stored = Identity::of(b"20260319102015123", b"https://e/a%20b");
        assert_eq!(
            Identity::of(b"2026-03-19T10:20:15.123Z", b"https://e/a b"),
            stored
        );
        assert_ne!(Identity::of(b"20260319102015123", b"https://e/a"), stored);
        assert_ne!(Identity::of(b"20260319102015", b"https://e/a b"), stored);
    }
}
