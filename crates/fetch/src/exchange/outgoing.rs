//! Requests in the form in which they are sent.

use bytes::Bytes;
use futures_util::stream::BoxStream;
use http::Method;
use url::Url;

use crate::Error;

/// Fields that belong to a connection and not to the request (RFC 9110, section 7.6.1), and those that describe how
/// the body is transferred.
const HOP_BY_HOP: [&str; 12] = [
    "Connection",
    "Content-Length",
    "Expect",
    "HTTP2-Settings",
    "Keep-Alive",
    "Proxy-Authenticate",
    "Proxy-Authorization",
    "Proxy-Connection",
    "TE",
    "Trailer",
    "Transfer-Encoding",
    "Upgrade",
];

/// A request that is sent once.
pub struct Outgoing {
    /// Any method except `CONNECT` and `TRACE`.
    pub method: Method,
    /// An `http` or `https` URL, which determines the request target and `Host`. A user and password in the
    /// URL are not sent.
    pub url: Url,
    /// The HTTP version of the request line.
    pub version: Version,
    /// Header fields in the order in which they are sent. `Host` and fields that belong to a connection are
    /// removed.
    pub fields: Vec<(Bytes, Bytes)>,
    /// The body.
    pub body: Body,
}

/// The HTTP version of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.0.
    Http10,
    /// HTTP/1.1.
    #[default]
    Http11,
}

/// The body of a request.
#[derive(Default)]
pub enum Body {
    /// No body and no `Content-Length`. An empty body has `Content-Length: 0`.
    #[default]
    None,
    /// A body of these bytes.
    Bytes(Bytes),
    /// A stream and its length in bytes. An error of the stream, or a different length, aborts the request.
    Stream(u64, BoxStream<'static, Result<Bytes, String>>),
}

impl Body {
    /// Returns the length of the body in bytes, if there is one.
    pub fn length(&self) -> Option<u64> {
        match self {
            Body::None => None,
            Body::Bytes(bytes) => Some(bytes.len() as u64),
            Body::Stream(length, _) => Some(*length),
        }
    }
}

/// Returns true if a field of that name always belongs to a connection, even if `Connection` does not list it.
pub(super) fn is_hop_by_hop(name: &[u8]) -> bool {
    HOP_BY_HOP
        .iter()
        .any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
}

/// Returns true if the bytes are a token (RFC 9110, section 5.6.2).
pub fn is_token(bytes: &[u8]) -> bool {
    let is_of_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    !bytes.is_empty() && bytes.iter().all(is_of_token)
}

impl Outgoing {
    /// Serializes the request line and the header fields.
    pub(super) fn head(&self) -> Result<Vec<u8>, Error> {
        let refused = |what: String| Err(Error::Request(what));
        if matches!(self.method, Method::CONNECT | Method::TRACE) {
            return refused(format!(
                "requests with the method {} are not forwarded",
                self.method
            ));
        }
        if !matches!(self.url.scheme(), "http" | "https") {
            return refused(format!(
                "invalid URL {}: only http and https are fetched",
                self.url
            ));
        }
        let Some(host) = self.url.host_str().filter(|host| !host.is_empty()) else {
            return refused(format!("invalid URL {}: it has no host", self.url));
        };
        let mut head = Vec::with_capacity(512);
        let mut push = |parts: &[&[u8]]| {
            for part in parts {
                head.extend_from_slice(part);
            }
            head.extend_from_slice(b"\r\n");
        };
        let query = self
            .url
            .query()
            .map(|query| format!("?{query}"))
            .unwrap_or_default();
        let version = match self.version {
            Version::Http10 => "HTTP/1.0",
            Version::Http11 => "HTTP/1.1",
        };
        let path = match self.url.path() {
            "" => "/",
            path => path,
        };
        push(&[
            self.method.as_str().as_bytes(),
            b" ",
            path.as_bytes(),
            query.as_bytes(),
            b" ",
            version.as_bytes(),
        ]);
        let port = self
            .url
            .port()
            .map(|port| format!(":{port}"))
            .unwrap_or_default();
        push(&[b"Host: ", host.as_bytes(), port.as_bytes()]);
        let named: Vec<&[u8]> = self
            .fields
            .iter()
            .filter(|(name, _)| name.eq_ignore_ascii_case(b"Connection"))
            .flat_map(|(_, value)| value.split(|&byte| byte == b','))
            .map(<[u8]>::trim_ascii)
            .collect();
        for (name, value) in &self.fields {
            let is_named = named.iter().any(|named| named.eq_ignore_ascii_case(name));
            if is_named || is_hop_by_hop(name) || name.eq_ignore_ascii_case(b"Host") {
                continue;
            }
            if !is_token(name) {
                return refused(format!(
                    "invalid header field name {:?}",
                    String::from_utf8_lossy(name)
                ));
            }
            if value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)) {
                return refused(format!(
                    "the header field {} contains a line end",
                    String::from_utf8_lossy(name)
                ));
            }
            push(&[name, b": ", value]);
        }
        if let Some(length) = self.body.length() {
            push(&[b"Content-Length: ", length.to_string().as_bytes()]);
        }
        push(&[b"Connection: close"]);
        push(&[]);
        Ok(head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outgoing(method: &str, url: &str, fields: &[(&'static str, &'static str)]) -> Outgoing {
        let bytes = |text: &'static str| Bytes::from_static(text.as_bytes());
        Outgoing {
            method: Method::from_bytes(method.as_bytes()).unwrap(),
            url: Url::parse(url).unwrap(),
            version: Version::Http11,
            fields: fields
                .iter()
                .map(|(name, value)| (bytes(name), bytes(value)))
                .collect(),
            body: Body::None,
        }
    }

    fn sent(outgoing: Outgoing) -> String {
        String::from_utf8(outgoing.head().unwrap()).unwrap()
    }

    #[test]
    fn request_is_sent_as_given() {
        let request = outgoing(
            "pRoPfInD",
            "http://user:secret@example.com:8080/a%20b?c=d|e#f",
            &[("x-b", "1"), ("X-A", ""), ("x-b", "2"), ("Cookie", "a=b")],
        );
        assert_eq!(
            sent(request),
            "pRoPfInD /a%20b?c=d|e HTTP/1.1\r\nHost: example.com:8080\r\nx-b: 1\r\nX-A: \r\nx-b: 2\r\nCookie: a=b\r\n\
             Connection: close\r\n\r\n"
        );
        let mut request = outgoing("GET", "https://[::1]", &[]);
        request.version = Version::Http10;
        request.body = Body::Bytes(Bytes::new());
        assert_eq!(
            sent(request),
            "GET / HTTP/1.0\r\nHost: [::1]\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
    }

    #[test]
    fn connection_headers_are_not_forwarded() {
        let mut request = outgoing(
            "POST",
            "http://example.com/",
            &[
                ("host", "elsewhere.example"),
                ("connection", "keep-alive, X-Hop"),
                ("x-hop", "1"),
                ("Keep-Alive", "timeout=5"),
                ("transfer-encoding", "chunked"),
                ("content-length", "99"),
                ("Expect", "100-continue"),
                ("Upgrade", "h2c"),
                ("TE", "trailers"),
                ("Proxy-Authorization", "Basic eDp5"),
                ("X-Kept", "1"),
            ],
        );
        request.body = Body::Bytes(Bytes::from_static(b"abc"));
        assert_eq!(
            sent(request),
            "POST / HTTP/1.1\r\nHost: example.com\r\nX-Kept: 1\r\nContent-Length: 3\r\nConnection: close\r\n\r\n"
        );
    }

    #[test]
    fn unsendable_request_is_refused() {
        for request in [
            outgoing("CONNECT", "http://example.com/", &[]),
            outgoing("TRACE", "http://example.com/", &[]),
            outgoing("GET", "ftp://example.com/", &[]),
            outgoing("GET", "data:,x", &[]),
            outgoing("GET", "http://example.com/", &[("a b", "c")]),
            outgoing("GET", "http://example.com/", &[("", "c")]),
            outgoing("GET", "http://example.com/", &[("a", "b\r\nc: d")]),
            outgoing("GET", "http://example.com/", &[("a", "b\nc")]),
            outgoing("GET", "http://example.com/", &[("a", "b\0")]),
        ] {
            assert!(matches!(request.head(), Err(Error::Request(_))));
        }
    }
}
