//! The part of a client's request that is forwarded to the server of a resource.

use bytes::Bytes;
use http::{HeaderMap, Method};

use super::spool::Spooled;
use crawlspace_fetch::exchange::{Body, Outgoing, Version};
use url::Url;

/// Header fields that are forwarded from a plain request. All other fields concern only the client and this server.
const SENT_ON: [&str; 3] = ["Range", "User-Agent", "Content-Type"];
/// Header fields that are forwarded to archives, which are a third party to the client.
const FOR_ARCHIVES: [&str; 2] = ["User-Agent", "Content-Type"];
/// Default `User-Agent`.
const AGENT: &str = concat!("crawlspace/", env!("CARGO_PKG_VERSION"));

/// A request to forward: method, header and body. The URL comes from the row.
#[derive(Clone, Debug)]
pub struct ClientRequest {
    /// Method.
    pub method: Method,
    /// HTTP version.
    pub version: Version,
    /// Header fields, in order.
    pub fields: Vec<(Bytes, Bytes)>,
    /// Body, if there is one.
    pub body: Option<Spooled>,
    /// Forwards all header fields unchanged, because the client posted the request as a message. If
    /// not set, only the fields of a plain request are forwarded.
    pub as_given: bool,
}

impl Default for ClientRequest {
    fn default() -> ClientRequest {
        ClientRequest {
            method: Method::GET,
            version: Version::Http11,
            fields: Vec::new(),
            body: None,
            as_given: false,
        }
    }
}

impl ClientRequest {
    /// Creates the request to forward from a plain request to the resource API: its method, its body, and the fields
    /// `Accept*`, `Range`, `User-Agent` and `Content-Type`.
    pub fn plain(method: Method, headers: &HeaderMap, body: Option<Spooled>) -> ClientRequest {
        let fields = headers
            .iter()
            .filter(|(name, _)| {
                is_accept(name.as_str().as_bytes()) || is_one_of(name.as_str().as_bytes(), &SENT_ON)
            })
            .map(|(name, value)| {
                let name = Bytes::copy_from_slice(name.as_str().as_bytes());
                (name, Bytes::copy_from_slice(value.as_bytes()))
            })
            .collect();
        ClientRequest {
            method,
            fields,
            body,
            ..ClientRequest::default()
        }
    }

    /// Returns the request for the live web.
    pub(super) fn live(&self, url: Url) -> Outgoing {
        let mut fields = self.fields.clone();
        self.complete(&mut fields, "identity");
        self.outgoing(url, fields)
    }

    /// Returns the request for an archive, without header fields that only concern the client and
    /// the original server.
    ///
    /// Set `takes_gzip` for archives that decode a capture for clients that do not accept gzip. The archive then sends
    /// the stored bytes, but the caller must distinguish the compression by the archive from the compression of the
    /// capture.
    pub(super) fn replay(&self, url: Url, takes_gzip: bool) -> Outgoing {
        let kept = |name: &[u8]| {
            (is_accept(name) && !name.eq_ignore_ascii_case(b"Accept-Datetime"))
                || is_one_of(name, &FOR_ARCHIVES)
        };
        let mut fields: Vec<(Bytes, Bytes)> = self.fields.clone();
        fields.retain(|(name, _)| kept(name));
        let encoding = if takes_gzip { "gzip" } else { "identity" };
        self.complete(&mut fields, encoding);
        self.outgoing(url, fields)
    }

    /// Adds the fields that every request needs.
    fn complete(&self, fields: &mut Vec<(Bytes, Bytes)>, encoding: &'static str) {
        let mut add = |name: &'static str, value: &'static str| {
            let is_there = fields
                .iter()
                .any(|(field, _)| field.eq_ignore_ascii_case(name.as_bytes()));
            if !is_there {
                fields.push((
                    Bytes::from_static(name.as_bytes()),
                    Bytes::from_static(value.as_bytes()),
                ));
            }
        };
        if !self.as_given {
            add("User-Agent", AGENT);
            add("Accept", "*/*");
        }
        add("Accept-Encoding", encoding);
    }

    fn outgoing(&self, url: Url, fields: Vec<(Bytes, Bytes)>) -> Outgoing {
        Outgoing {
            method: self.method.clone(),
            url,
            version: self.version,
            fields,
            body: body(self.body.as_ref()),
        }
    }

    /// Returns the head of the request as a message, with the path of the URL as its target.
    pub(super) fn message_head(&self, url: &Url) -> Vec<u8> {
        let target = &url[url::Position::BeforePath..url::Position::AfterQuery];
        let version = match self.version {
            Version::Http10 => "HTTP/1.0",
            Version::Http11 => "HTTP/1.1",
        };
        let mut head = format!("{} {target} {version}\r\n", self.method).into_bytes();
        let length = self.body.as_ref().map(|body| body.length().to_string());
        let length = length
            .iter()
            .map(|length| (&b"Content-Length"[..], length.as_bytes()));
        let fields = self
            .fields
            .iter()
            .map(|(name, value)| (&name[..], &value[..]));
        let fields = fields.filter(|(name, _)| !name.eq_ignore_ascii_case(b"Content-Length"));
        for (name, value) in fields.chain(length) {
            for part in [name, b": ", value, b"\r\n"] {
                head.extend_from_slice(part);
            }
        }
        head.extend_from_slice(b"\r\n");
        head
    }
}

/// Returns spooled bytes as a request body.
pub(super) fn body(spooled: Option<&Spooled>) -> Body {
    use futures_util::StreamExt;
    match spooled {
        None => Body::None,
        Some(spooled) => match spooled.bytes() {
            Some(bytes) => Body::Bytes(bytes.clone()),
            None => {
                let stream = spooled
                    .stream(0)
                    .map(|bytes| bytes.map_err(|error| error.to_string()));
                Body::Stream(spooled.length(), stream.boxed())
            }
        },
    }
}

fn is_accept(name: &[u8]) -> bool {
    let accept = b"Accept";
    name.get(..accept.len())
        .is_some_and(|begin| begin.eq_ignore_ascii_case(accept))
        && matches!(name.get(accept.len()), None | Some(b'-'))
}

fn is_one_of(name: &[u8], names: &[&str]) -> bool {
    names
        .iter()
        .any(|one| name.eq_ignore_ascii_case(one.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(outgoing: &Outgoing) -> Vec<String> {
        let text = |bytes: &Bytes| {
            String::from_utf8(bytes.to_vec())
                .unwrap()
                .to_ascii_lowercase()
        };
        outgoing.fields.iter().map(|(name, _)| text(name)).collect()
    }

    fn url() -> Url {
        Url::parse("http://example.com/a?b").unwrap()
    }

    #[test]
    fn credentials_of_the_client_are_not_forwarded() {
        let mut headers = HeaderMap::new();
        for name in [
            "cookie",
            "authorization",
            "proxy-authorization",
            "host",
            "x-forwarded-for",
            "referer",
            "origin",
            "acceptance",
            "accept",
            "accept-language",
            "accept-encoding",
            "accept-datetime",
            "range",
            "user-agent",
            "content-type",
        ] {
            headers.insert(name, "x".parse().unwrap());
        }
        let request = ClientRequest::plain(Method::GET, &headers, None);
        let mut live = names(&request.live(url()));
        live.sort();
        assert_eq!(
            live,
            [
                "accept",
                "accept-datetime",
                "accept-encoding",
                "accept-language",
                "content-type",
                "range",
                "user-agent"
            ]
        );
        let mut replay = names(&request.replay(url(), false));
        replay.sort();
        assert_eq!(
            replay,
            [
                "accept",
                "accept-encoding",
                "accept-language",
                "content-type",
                "user-agent"
            ]
        );
    }

    #[test]
    fn message_is_sent_unchanged_to_the_live_web_and_without_secrets_to_archives() {
        let field = |name: &'static str, value: &'static str| {
            (
                Bytes::from_static(name.as_bytes()),
                Bytes::from_static(value.as_bytes()),
            )
        };
        let request = ClientRequest {
            fields: vec![
                field("X-A", "1"),
                field("Cookie", "c"),
                field("accept", "x/y"),
                field("Authorization", "a"),
            ],
            as_given: true,
            ..ClientRequest::default()
        };
        assert_eq!(
            names(&request.live(url())),
            [
                "x-a",
                "cookie",
                "accept",
                "authorization",
                "accept-encoding"
            ]
        );
        assert_eq!(
            names(&request.replay(url(), false)),
            ["accept", "accept-encoding"]
        );
        assert_eq!(
            request.message_head(&url()),
            b"GET /a?b HTTP/1.1\r\nX-A: 1\r\nCookie: c\r\naccept: x/y\r\nAuthorization: a\r\n\r\n"
        );
    }

    #[test]
    fn compression_requires_accept_encoding() {
        let request = ClientRequest::default().live(url());
        let encoding = request
            .fields
            .iter()
            .find(|(name, _)| name == "Accept-Encoding");
        assert_eq!(
            encoding.map(|(_, value)| &value[..]),
            Some(&b"identity"[..])
        );
        assert_eq!(names(&request), ["user-agent", "accept", "accept-encoding"]);
        for (takes_gzip, expected) in [(true, "gzip"), (false, "identity")] {
            let request = ClientRequest::default().replay(url(), takes_gzip);
            let encoding = request
                .fields
                .iter()
                .find(|(name, _)| name == "Accept-Encoding");
            assert_eq!(encoding.unwrap().1, expected);
        }
    }
}
