//! Look-ups by URL. The records of a URL may be in any shard.

use std::cmp::Reverse;

use crawlspace_compact::calendar;

use super::Sharded;
use crate::dedupe::{Capture, Captures, Urls};
use crate::server::{Error, Steps};

impl<S: Steps> Sharded<S> {
    /// Returns the captures of each URL as [`Index::lookup_urls`](crate::dedupe::Index::lookup_urls) does, from all
    /// shards. The WACZ lists of the home shard take a second round trip.
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Sharded::open("redis://127.0.0.1/", "coll-42", 16)?;
    /// let newest = Captures { limit: Some(1), ..Captures::default() };
    /// let captures = index.lookup_urls(newest, &[b"https://example.com/"])?;
    /// println!("{} captures", captures[0].len());
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`Index::lookup_urls`](crate::dedupe::Index::lookup_urls).
    pub fn lookup_urls(
        &self,
        captures: Captures<'_>,
        urls: &[&[u8]],
    ) -> S::Answer<Vec<Vec<Capture>>> {
        /// Default of `LOOKUPURL … LIMIT`.
        const LIMIT: u64 = 100;
        let limit = captures.limit.unwrap_or(LIMIT) as usize;
        let crawl = captures.crawl.map(<[u8]>::to_vec);
        let before = captures.before.map(<[u8]>::to_vec);
        let urls: Vec<Vec<u8>> = urls.iter().map(|url| url.to_vec()).collect();
        let index = self.clone();
        self.server().run(async move {
            let captures = Captures {
                crawl: crawl.as_deref(),
                limit: Some(limit as u64),
                before: before.as_deref(),
            };
            let names: Vec<&[u8]> = urls.iter().map(Vec::as_slice).collect();
            let shards = index
                .all(|shard| shard.lookup_urls(captures, &names))
                .await?;
            let mut found = vec![Vec::new(); urls.len()];
            for of_shard in shards {
                for (all, part) in found.iter_mut().zip(of_shard) {
                    all.extend(part);
                }
            }
            for all in &mut found {
                // The sort is stable: captures of the same moment stay in the order of the shards.
                all.sort_by_cached_key(|capture| Reverse(moment(&capture.date)));
                all.truncate(limit);
            }
            index.name_files(&mut found).await?;
            Ok(found)
        })
    }

    /// Adds the names of the WACZ files, which only the home shard lists.
    async fn name_files(&self, found: &mut [Vec<Capture>]) -> Result<(), Error> {
        let all = || found.iter().flatten();
        let crawls = all().map(|capture| capture.crawl.clone()).collect();
        let files = self.files(crawls).await?;
        for capture in found.iter_mut().flatten() {
            let at = usize::try_from(capture.wacz_index);
            let listed = files.get(&capture.crawl);
            let file = listed.zip(at.ok()).and_then(|(list, at)| list.get(at));
            capture.filename = file.map(|wacz| wacz.filename.clone());
        }
        Ok(())
    }

    /// Switches the index by URL of all shards on or off, as [`Index::set_urls`](crate::dedupe::Index::set_urls) does.
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Sharded::open("redis://127.0.0.1/", "coll-42", 16)?;
    /// println!("{} records can be found by URL", index.set_urls(true)?.records);
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`Index::set_urls`](crate::dedupe::Index::set_urls).
    pub fn set_urls(&self, on: bool) -> S::Answer<Urls> {
        let index = self.clone();
        self.server().run(async move {
            let shards = index.all(|shard| shard.set_urls(on)).await?;
            let mut sum = Urls {
                urls: if on { "on" } else { "off" }.to_owned(),
                crawls: 0,
                records: 0,
            };
            for urls in shards {
                // Each shard may have a part of each crawl.
                sum.crawls = sum.crawls.max(urls.crawls);
                sum.records += urls.records;
            }
            Ok(sum)
        })
    }
}

/// Returns the seconds since 1970 of a date that the module accepts, and the digits of its fraction.
fn moment(date: &[u8]) -> (i64, Vec<u8>) {
    let number = |digits: &[u8]| {
        let digits = digits.iter().filter(|byte| byte.is_ascii_digit());
        digits.fold(0, |n, byte| n * 10 + i64::from(byte - b'0'))
    };
    let part = |at: std::ops::Range<usize>| number(date.get(at).unwrap_or_default());
    let is_digits = date.iter().all(u8::is_ascii_digit);
    let ([year, month, day, hour, minute, second], rest) = if is_digits {
        let fields = [0..4, 4..6, 6..8, 8..10, 10..12, 12..14];
        (fields.map(part), date.get(14..))
    } else {
        let fields = [0..4, 5..7, 8..10, 11..13, 14..16, 17..19];
        (fields.map(part), date.get(19..))
    };
    let rest = rest.unwrap_or_default();
    let zone = rest.iter().position(|byte| b"+-".contains(byte));
    let (fraction, zone) = rest.split_at(zone.unwrap_or(rest.len()));
    let fraction: Vec<u8> = fraction
        .iter()
        .copied()
        .filter(u8::is_ascii_digit)
        .collect();
    let ahead = match zone.first() {
        None => 0,
        Some(sign) => {
            let ahead = number(zone.get(1..3).unwrap_or_default()) * 60
                + number(zone.get(3..).unwrap_or_default());
            if *sign == b'-' { -ahead } else { ahead }
        }
    };
    let minutes = calendar::days(year, month, day) * 1440 + hour * 60 + minute - ahead;
    let kept = fraction.iter().rposition(|digit| *digit != b'0');
    let fraction = fraction[..kept.map_or(0, |last| last + 1)].to_vec();
    (minutes * 60 + second, fraction)
}

#[cfg(test)]
mod tests {
    use super::moment;

    #[test]
    fn dates_in_all_formats_have_their_order() {
        let in_order: [&[&[u8]]; 5] = [
            &[
                b"20260101000000",
                b"2026-01-01T00:00:00Z",
                b"2026-01-01T01:30:00+01:30",
                b"2025-12-31T23:00:00-0100",
            ],
            &[
                b"20260101000000120",
                b"2026-01-01T00:00:00.12Z",
                b"2026-01-01T00:00:00.120000Z",
            ],
            &[b"20260101000000123", b"2026-01-01T00:00:00.123Z"],
            &[b"20260101000001", b"2026-01-01T00:00:01Z"],
            &[b"20260228235959"],
        ];
        for (position, same) in in_order.iter().enumerate() {
            for date in *same {
                assert_eq!(moment(date), moment(same[0]), "{}", date.escape_ascii());
                if let Some(earlier) = position.checked_sub(1) {
                    assert!(
                        moment(in_order[earlier][0]) < moment(date),
                        "{}",
                        date.escape_ascii()
                    );
                }
            }
        }
    }
}
