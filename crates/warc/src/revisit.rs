use std::io;

use super::{Compression, Header, Writer};

/// The `revisit` record that stands for a capture whose payload is stored already.
///
/// A crawler with deduplication writes it instead of the `response` record; this one is only measured,
/// to tell what a crawl without deduplication could have saved.
#[derive(Clone, Copy, Debug)]
pub struct Revisit<'a> {
    /// The header of the `response` record.
    pub response: &'a Header,
    /// The HTTP status line and header fields of that response.
    pub http_head: &'a [u8],
    /// URL of the record that holds the payload (`WARC-Refers-To-Target-URI`).
    pub refers_to_uri: &'a [u8],
    /// Date of that record (`WARC-Refers-To-Date`).
    pub refers_to_date: &'a [u8],
}

impl Revisit<'_> {
    /// The size that the record would have in a file written like that, in bytes.
    ///
    /// # Errors
    /// `InvalidInput` when a URL or date holds a line end.
    pub fn size(&self, compression: Compression) -> io::Result<u64> {
        // The fields of the response that a revisit record has as well. Its block digest is another one,
        // and that of the response is just as long and as incompressible.
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
