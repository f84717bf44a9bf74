//! A capture and its data in an index.

use crate::archive::capture::base32;

/// One capture.
#[derive(Clone, Debug)]
pub struct Capture {
    /// The URL as it was requested.
    pub url: String,
    /// The sort key in the index (urlkey).
    pub key: String,
    /// 14 digits.
    pub timestamp: String,
    /// The HTTP status.
    pub status: u16,
    /// The media type.
    pub mime: &'static str,
    /// The digest of the payload: SHA-1 in base32.
    pub digest: String,
    /// Target of a redirect.
    pub location: Option<String>,
    /// Body of a POST request.
    pub posted: Option<String>,
    /// The body as received. A revisit has the same payload as its original, but does not store it.
    pub payload: Vec<u8>,
    /// HTTP header fields with the encoding of the body.
    pub encoding: &'static [&'static str],
    /// URL and timestamp of the capture to which a revisit refers.
    pub original: Option<(String, String)>,
    /// Position of the capture's record.
    pub place: Place,
}

/// The position of a record.
#[derive(Clone, Debug, Default)]
pub struct Place {
    /// The name of the file.
    pub file: String,
    /// Number of bytes before the record.
    pub offset: u64,
    /// Size of the record in the file.
    pub length: u64,
}

impl Capture {
    /// Returns true if another record contains the payload.
    pub fn is_revisit(&self) -> bool {
        self.original.is_some()
    }

    /// Returns the media type for the index.
    pub fn indexed_mime(&self) -> &'static str {
        if self.is_revisit() {
            "warc/revisit"
        } else {
            self.mime
        }
    }

    /// Returns the HTTP header, including the empty line at its end.
    pub fn http_head(&self) -> String {
        let reason = match self.status {
            200 => "OK",
            301 => "Moved Permanently",
            302 => "Found",
            404 => "Not Found",
            _ => "Something Else",
        };
        let mut head = format!(
            "HTTP/1.1 {} {reason}\r\nServer: made-up\r\nContent-Type: {}\r\n",
            self.status, self.mime
        );
        if let Some(location) = &self.location {
            head.push_str(&format!("Location: {location}\r\n"));
        }
        for field in self.encoding {
            head.push_str(&format!("{field}\r\n"));
        }
        if !self.encoding.contains(&"Transfer-Encoding: chunked") {
            head.push_str(&format!("Content-Length: {}\r\n", self.payload.len()));
        }
        head.push_str("\r\n");
        head
    }
}

/// Returns a SHA-1 digest as web archives write it.
pub fn sha1_base32(bytes: &[u8]) -> String {
    base32(&sha1_smol::Sha1::from(bytes).digest().to_string())
}

/// Returns the urlkey of a URL. Supports only the simple URLs that this module generates. The host
/// is reversed without `www.`, letters are lower case, a trailing slash is removed, and the parts
/// of the query are sorted.
pub fn urlkey(url: &str) -> String {
    let url = url.to_lowercase();
    let rest = url.split_once("://").map_or(&url[..], |(_, rest)| rest);
    let (rest, query) = match rest.split_once('?') {
        Some((rest, query)) => (rest, Some(query)),
        None => (rest, None),
    };
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (host, port) = match host.split_once(':') {
        Some((host, port)) => (host, format!(":{port}")),
        None => (host, String::new()),
    };
    let host = host.trim_start_matches("www.");
    let mut labels: Vec<&str> = host.split('.').collect();
    labels.reverse();
    let mut key = format!("{}{port})/{}", labels.join(","), path.trim_end_matches('/'));
    if let Some(query) = query {
        let mut parts: Vec<&str> = query.split('&').collect();
        parts.sort_unstable();
        key.push('?');
        key.push_str(&parts.join("&"));
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_of_the_convention() {
        for (url, key) in [
            ("http://www.Example.com", "com,example)/"),
            ("https://a.b.example.org/X/y/", "org,example,b,a)/x/y"),
            ("http://example.com/?b=2&a=1", "com,example)/?a=1&b=2"),
            ("http://example.com:8080/", "com,example:8080)/"),
            ("http://192.0.2.7/x", "7,2,0,192)/x"),
        ] {
            assert_eq!(urlkey(url), key, "{url}");
        }
        assert_eq!(sha1_base32(b""), "3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ");
    }
}
