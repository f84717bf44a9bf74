//! What was fetched goes into a WARC file: the whole response, or, where another record has the same
//! payload already, a revisit record that refers to it.

use std::error::Error;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crawlspace_client::dedupe::{
    Added, Adding, Claim, Index, Original, Revisited, Revisiting, Sequence,
};
use crawlspace_warc::{Compression, Writer};

use crate::http::HttpResponse;

/// If this worker dies with a claim, another one may store the payload after so long.
const CLAIM: Duration = Duration::from_secs(10);
/// How long to wait for another worker that is about to store the payload.
const WAIT: Duration = Duration::from_secs(2);

/// A WARC file, and the index of what all of them hold.
pub struct Archive {
    warc: Writer<File>,
    index: Index,
    crawl: &'static [u8],
    /// Who writes, and how many batches so far: so that what is sent twice counts once.
    writer: String,
    batches: u64,
}

impl Archive {
    /// Begins a WARC file.
    pub fn create(
        file: &Path,
        index: Index,
        crawl: &'static [u8],
    ) -> Result<Archive, Box<dyn Error>> {
        let mut warc = Writer::new(File::create(file)?, Compression::PerRecord);
        let id = record_id();
        warc.write(
            &[
                ("WARC-Type", b"warcinfo"),
                ("WARC-Record-ID", id.as_bytes()),
                ("WARC-Date", date(SystemTime::now()).as_bytes()),
                ("Content-Type", b"application/warc-fields"),
            ],
            b"software: crawlspace demo\r\n",
        )?;
        Ok(Archive {
            warc,
            index,
            crawl,
            writer: id,
            batches: 0,
        })
    }

    /// Stores one answer, whichever way is right.
    pub fn store(&mut self, url: &str, answer: &HttpResponse) -> Result<(), Box<dyn Error>> {
        let digest = format!(
            "sha1:{}",
            base32(&sha1_smol::Sha1::from(&answer.body).digest().bytes())
        );
        let date = date(SystemTime::now());
        let claim = self
            .index
            .claim(self.crawl, digest.as_bytes(), CLAIM, WAIT)?;
        self.batches += 1;
        if let Claim::Known(original) = claim {
            let size = self.write_revisit(url, &date, &digest, answer, &original)?;
            let revisited = Revisited {
                hash: digest.as_bytes(),
                size,
                original: Some(&original),
            };
            let sequence = Some(self.sequence());
            let revisiting = Revisiting {
                sequence,
                ..Revisiting::default()
            };
            self.index.revisit(self.crawl, &revisiting, &[revisited])?;
            return Ok(());
        }
        let size = self.write_response(url, &date, &digest, answer)?;
        let added = Added {
            hash: digest.as_bytes(),
            wacz_index: 0,
            date: date.as_bytes(),
            url: url.as_bytes(),
            size,
        };
        match claim {
            Claim::Yours(token) => self.index.settle(self.crawl, &token, &added)?,
            // The other worker takes its time. A payload that is stored twice does no harm.
            _ => {
                let sequence = Some(self.sequence());
                let adding = Adding {
                    sequence,
                    ..Adding::default()
                };
                self.index.add(self.crawl, &adding, &[added])?;
            }
        }
        Ok(())
    }

    fn sequence(&self) -> Sequence<'_> {
        Sequence {
            writer: self.writer.as_bytes(),
            number: self.batches,
        }
    }

    fn write_response(
        &mut self,
        url: &str,
        date: &str,
        digest: &str,
        answer: &HttpResponse,
    ) -> Result<u64, Box<dyn Error>> {
        let block = [&answer.head[..], &answer.body].concat();
        let size = self.warc.write(
            &[
                ("WARC-Type", b"response"),
                ("WARC-Record-ID", record_id().as_bytes()),
                ("WARC-Target-URI", url.as_bytes()),
                ("WARC-Date", date.as_bytes()),
                ("WARC-Payload-Digest", digest.as_bytes()),
                ("Content-Type", b"application/http;msgtype=response"),
            ],
            &block,
        )?;
        Ok(size)
    }

    fn write_revisit(
        &mut self,
        url: &str,
        date: &str,
        digest: &str,
        answer: &HttpResponse,
        original: &Original,
    ) -> Result<u64, Box<dyn Error>> {
        let size = self.warc.write(
            &[
                ("WARC-Type", b"revisit"),
                ("WARC-Record-ID", record_id().as_bytes()),
                ("WARC-Target-URI", url.as_bytes()),
                ("WARC-Date", date.as_bytes()),
                ("WARC-Payload-Digest", digest.as_bytes()),
                (
                    "WARC-Profile",
                    b"http://netpreserve.org/warc/1.1/revisit/identical-payload-digest",
                ),
                ("WARC-Refers-To-Target-URI", &original.url),
                ("WARC-Refers-To-Date", &original.date),
                ("Content-Type", b"application/http;msgtype=response"),
            ],
            &answer.head,
        )?;
        Ok(size)
    }
}

/// A random UUID (RFC 9562, version 4). The keys of the standard library's hash maps are random numbers.
fn record_id() -> String {
    let random = || RandomState::new().hash_one(());
    let bits = (u128::from(random()) << 64) | u128::from(random());
    let bits = bits & !(0xf << 76) | (4 << 76);
    let bits = bits & !(3 << 62) | (2 << 62);
    let hex = format!("{bits:032x}");
    format!(
        "<urn:uuid:{}-{}-{}-{}-{}>",
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..]
    )
}

/// `2026-03-19T10:20:15Z`: the calendar by Howard Hinnant's `civil_from_days`.
fn date(time: SystemTime) -> String {
    let seconds = time
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    let (days, of_day) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z",
        of_day / 3600,
        of_day / 60 % 60,
        of_day % 60
    )
}

/// RFC 4648 base 32, in which WARC files have their digests. 20 bytes need no padding.
fn base32(bytes: &[u8; 20]) -> String {
    const ALPHABET: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    let groups = bytes.chunks(5).flat_map(|five| {
        let bits = five
            .iter()
            .fold(0u64, |bits, &byte| bits << 8 | u64::from(byte));
        (0..8).rev().map(move |i| (bits >> (5 * i) & 31) as usize)
    });
    groups.map(|digit| char::from(ALPHABET[digit])).collect()
}
