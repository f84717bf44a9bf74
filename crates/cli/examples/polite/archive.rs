//! Writes fetched pages to a WARC file: the whole response, or, if another record has the same payload
//! already, a revisit record that refers to it.

use std::error::Error;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::time::Duration;

use crawlspace_client::dedupe::{
    Added, Adding, Claim, Index, Original, Revisited, Revisiting, Sequence,
};
use crawlspace_index::timestamp::Timestamp;
use crawlspace_warc::{Compression, Writer};
use redis_tests::archive::collection::sha1_base32;
use redis_tests::with;

use crate::http::HttpResponse;

/// Lease of a claim: if this worker dies, another one may store the payload afterwards.
const CLAIM: Duration = Duration::from_secs(10);
/// Maximum wait for another worker that is about to store the payload.
const WAIT: Duration = Duration::from_secs(2);

/// A WARC file, and the index of the payloads in the WARC files of all workers.
pub struct Archive {
    warc: Writer<File>,
    index: Index,
    crawl: &'static [u8],
    /// Name of the writer and number of its batches: a batch that is sent twice counts once.
    writer: String,
    batches: u64,
}

impl Archive {
    /// Creates a WARC file.
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
                ("WARC-Date", Timestamp::now().iso().as_bytes()),
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

    /// Stores a response as a response or a revisit record.
    pub fn store(&mut self, url: &str, answer: &HttpResponse) -> Result<(), Box<dyn Error>> {
        let digest = format!("sha1:{}", sha1_base32(&answer.body));
        let (date, hash) = (Timestamp::now().iso(), digest.as_bytes());
        let claim = self.index.claim(self.crawl, hash, CLAIM, WAIT)?;
        self.batches += 1;
        if let Claim::Known(original) = claim {
            let size = self.write_revisit(url, &date, &digest, answer, &original)?;
            let original = Some(&original);
            let revisited = Revisited {
                hash,
                size,
                original,
            };
            let sequence = Some(self.sequence());
            let revisiting = with!(Revisiting, sequence);
            self.index.revisit(self.crawl, &revisiting, &[revisited])?;
            return Ok(());
        }
        let size = self.write_response(url, &date, &digest, answer)?;
        let (date, url, wacz_index) = (date.as_bytes(), url.as_bytes(), 0);
        let added = Added::new(hash, wacz_index, date, url, size);
        match claim {
            Claim::Yours(token) => self.index.settle(self.crawl, &token, &added)?,
            // The other worker is slow. Storing a payload twice does no harm.
            _ => {
                let sequence = Some(self.sequence());
                let adding = with!(Adding, sequence);
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

/// Returns a random UUID (RFC 9562, version 4). The keys of the standard library's hash maps serve as random
/// numbers.
fn record_id() -> String {
    let random = || RandomState::new().hash_one(());
    let bits = (u128::from(random()) << 64) | u128::from(random());
    let bits = bits & !(0xf << 76) | (4 << 76);
    let bits = bits & !(3 << 62) | (2 << 62);
    let hex = format!("{bits:032x}");
    let parts = [
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..],
    ];
    format!("<urn:uuid:{}>", parts.join("-"))
}
