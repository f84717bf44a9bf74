use std::io;

use super::{Compression, Header, Writer};

/// The `revisit` record of a capture whose payload is already stored.
///
/// A deduplicating crawler writes a `revisit` record instead of the `response` record. This type only
/// computes the size of the record, to estimate what a crawl without deduplication could have saved.
#[derive(Clone, Copy, Debug)]
pub struct Revisit<'a> {
    /// Header of the `response` record.
    pub response: &'a Header,
    /// HTTP status line and header fields of that response.
    pub http_head: &'a [u8],
    /// URL of the original record (`WARC-Refers-To-Target-URI`).
    pub refers_to_uri: &'a [u8],
    /// Date of the original record (`WARC-Refers-To-Date`).
    pub refers_to_date: &'a [u8],
}

impl Revisit<'_> {
    /// Returns the size of the record in a file with this compression, in bytes.
    ///
    /// # Errors
    /// `InvalidInput` when a URL or date contains a line end.
    pub fn size(&self, compression: Compression) -> io::Result<u64> {
        // Fields of the response that a revisit record also has. The block digest of a revisit
        // differs, but it has the same length and is equally incompressible, so the size is right.
        const KEPT: [&str; 8] = [
            "WARC-Record-ID",
            "WARC-Warcinfo-ID",
            "WARC-Concurrent-To",
            "WARC-Target-URI",
            "WARC-Date",
            "WARC-IP-Address",
            "WARC-Block-Digest",
            "WARC-Payload-Digest",
        ];
        let mut fields: Vec<(&str, &[u8])> = vec![
            ("WARC-Type", b"revisit"),
            (
                "WARC-Profile",
                b"http://netpreserve.org/warc/1.1/revisit/identical-payload-digest",
            ),
            ("WARC-Refers-To-Target-URI", self.refers_to_uri),
            ("WARC-Refers-To-Date", self.refers_to_date),
            ("Content-Type", b"application/http;msgtype=response"),
        ];
        fields.extend(
            KEPT.iter()
                .filter_map(|&name| Some((name, self.response.get(name)?))),
        );
        Writer::new(io::sink(), compression).write(&fields, self.http_head)
    }
}
