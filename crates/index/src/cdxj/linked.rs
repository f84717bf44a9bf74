//! Pairs requests with the responses next to them in a file.

use std::io::Read;

use crawlspace_cdx::post::{self, MAX_BODY};
use crawlspace_warc::chunked::unchunked;
use crawlspace_warc::http::Head;
use crawlspace_warc::{self as warc, Header, Record};

use super::{Output, Row, is_http, text};
use crate::Error;

/// Maximum size of a body without a length, in bytes.
const MAX_OPEN_BODY: usize = 8192;

/// A record that may be one half of an HTTP exchange; empty for any other record.
#[derive(Default)]
pub(super) struct Linked(Option<(Identity, Half)>);

#[derive(Default)]
struct Identity {
    uri: Option<Vec<u8>>,
    id: Option<Vec<u8>>,
    concurrent_to: Option<Vec<u8>>,
}

enum Half {
    Response(Row),
    Request(Request),
}

/// A request that changes the urlkey of its response: `POST` or `PUT`.
pub(super) struct Request {
    /// The method in upper case; empty for any other method.
    pub(super) method: String,
    /// The body in the form of the field `requestBody`.
    pub(super) body: String,
}

impl Request {
    pub(super) fn read<R: Read>(record: &mut Record<'_, R>) -> Result<Request, warc::Error> {
        let mut request = Request {
            method: String::new(),
            body: String::new(),
        };
        if !record.header().target_uri().is_some_and(is_http) {
            return Ok(request);
        }
        let head = record.http_head()?;
        let head = Head::of(&head);
        let method = head.first_line().split(|&byte| byte == b' ').next();
        let method = method.unwrap_or_default().to_ascii_uppercase();
        if !matches!(&method[..], b"POST" | b"PUT") {
            return Ok(request);
        }
        request.method = text(&method);
        let mut body = Vec::new();
        let mut is_too_long = false;
        record.for_each_piece(|piece| {
            is_too_long |= body.len() + piece.len() > MAX_BODY;
            if !is_too_long {
                body.extend_from_slice(piece);
            }
        })?;
        if is_too_long {
            body.clear();
        }
        if head.is_chunked()
            && let Some(plain) = unchunked(&body)
        {
            body = plain;
        }
        // A body of unknown length is not part of the key.
        if let Ok(length) = head.content_length() {
            let length = length.map_or(MAX_OPEN_BODY, |length| {
                usize::try_from(length).unwrap_or(usize::MAX)
            });
            body.truncate(length);
            let media_type = head.get("Content-Type").map(text);
            request.body = post::indexed_body(media_type.as_deref(), &body);
        }
        Ok(request)
    }

    pub(super) fn look_up_url(&self, url: &str) -> String {
        post::append(url, &self.method, &self.body)
    }
}

impl Linked {
    pub(super) fn response(header: &Header, row: Row) -> Linked {
        Linked(Some((Identity::new(header), Half::Response(row))))
    }

    pub(super) fn request(header: &Header, request: Request) -> Linked {
        Linked(Some((Identity::new(header), Half::Request(request))))
    }

    /// Writes the rows of this record and of the previous record as soon as they are complete. Returns the
    /// record that waits for the next record.
    pub(super) fn after(
        self,
        previous: Option<Linked>,
        out: &mut Output<'_>,
    ) -> Result<Option<Linked>, Error> {
        let previous = previous.and_then(|linked| linked.0);
        match (previous, self.0) {
            (Some((first, Half::Response(row))), Some((second, Half::Request(request))))
            | (Some((first, Half::Request(request))), Some((second, Half::Response(row))))
                if first.is_followed_by(&second) =>
            {
                let request = Some(&request).filter(|request| !request.method.is_empty());
                out.write(&row, request)?;
                Ok(None)
            }
            (previous, own) => {
                if let Some((_, Half::Response(row))) = previous {
                    out.write(&row, None)?;
                }
                Ok(own.map(|own| Linked(Some(own))))
            }
        }
    }
}

impl Identity {
    fn new(header: &Header) -> Identity {
        let field = |name| header.get(name).map(<[u8]>::to_vec);
        Identity {
            uri: header.target_uri().map(<[u8]>::to_vec),
            id: field("WARC-Record-ID"),
            concurrent_to: field("WARC-Concurrent-To"),
        }
    }

    fn is_followed_by(&self, next: &Identity) -> bool {
        self.uri == next.uri && next.concurrent_to == self.id && self.id.is_some()
    }
}
