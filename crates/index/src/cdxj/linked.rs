//! Pairs requests with their responses, which are near them in a file.

use std::collections::VecDeque;
use std::io::Read;
use std::rc::Rc;

use crawlspace_cdx::post::{self, MAX_BODY};
use crawlspace_warc::chunked::unchunked;
use crawlspace_warc::http::{Head, is_web};
use crawlspace_warc::{self as warc, Header, Record};

use super::{Output, Row, text};
use crate::Error;

/// Maximum size of a body without a length, in bytes.
const MAX_OPEN_BODY: usize = 8192;

/// Maximum number of captures that are kept until the request of the first one is found, and maximum number of
/// requests that are kept for later captures.
const MAX_PENDING: usize = 16;
/// The last responses and requests of a file, which may belong to records that follow.
#[derive(Default)]
pub(super) struct Pending {
    /// Captures in the order of the file, each with its request if that was found.
    captures: VecDeque<(Identity, Row, Option<Rc<Request>>)>,
    requests: VecDeque<(Identity, Rc<Request>)>,
}

/// The fields that link the records of an HTTP exchange.
#[derive(Default)]
struct Identity {
    uri: Option<Vec<u8>>,
    id: Option<Vec<u8>>,
    concurrent_to: Vec<Vec<u8>>,
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
        if !record.header().target_uri().is_some_and(is_web) {
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
            request.body.shrink_to_fit();
        }
        Ok(request)
    }

    pub(super) fn look_up_url(&self, url: &str) -> String {
        post::append(url, &self.method, &self.body)
    }
}

impl Pending {
    /// Adds a capture. If `may_have_request` is false, its row does not depend on other records.
    pub(super) fn capture(
        &mut self,
        header: &Header,
        row: Row,
        may_have_request: bool,
        out: &mut Output<'_>,
    ) -> Result<(), Error> {
        let identity = if may_have_request {
            Identity::new(header)
        } else {
            Identity::default()
        };
        let mut requests = self.requests.iter();
        let request = requests.find(|(request, _)| request.is_concurrent_to(&identity));
        let request = request.map(|(_, request)| Rc::clone(request));
        self.captures.push_back((identity, row, request));
        self.write(MAX_PENDING, out)
    }

    /// Adds a request, and writes the rows that are complete with it.
    pub(super) fn request(
        &mut self,
        header: &Header,
        request: Request,
        out: &mut Output<'_>,
    ) -> Result<(), Error> {
        let (identity, request) = (Identity::new(header), Rc::new(request));
        for (capture, _, found) in &mut self.captures {
            if found.is_none() && capture.is_concurrent_to(&identity) {
                *found = Some(Rc::clone(&request));
            }
        }
        if identity.is_linked() {
            self.requests.push_back((identity, request));
        }
        if self.requests.len() > MAX_PENDING {
            self.requests.pop_front();
        }
        self.write(MAX_PENDING, out)
    }

    /// Writes all rows.
    pub(super) fn finish(mut self, out: &mut Output<'_>) -> Result<(), Error> {
        self.write(0, out)
    }

    /// Writes the first rows: those that are complete, and those above the limit.
    fn write(&mut self, most: usize, out: &mut Output<'_>) -> Result<(), Error> {
        while let Some((identity, _, request)) = self.captures.front()
            && (request.is_some() || !identity.is_linked() || self.captures.len() > most)
            && let Some((_, row, request)) = self.captures.pop_front()
        {
            let request = request.as_deref();
            out.write(&row, request.filter(|request| !request.method.is_empty()))?;
        }
        Ok(())
    }
}

impl Identity {
    fn new(header: &Header) -> Identity {
        let concurrent_to = header
            .fields()
            .filter(|(name, _)| name.eq_ignore_ascii_case(b"WARC-Concurrent-To"));
        Identity {
            uri: header.target_uri().map(<[u8]>::to_vec),
            id: header.record_id().map(<[u8]>::to_vec),
            concurrent_to: concurrent_to.map(|(_, id)| id.to_vec()).collect(),
        }
    }

    /// Returns true if another record can be concurrent to this one.
    fn is_linked(&self) -> bool {
        self.id.is_some() || !self.concurrent_to.is_empty()
    }

    /// Returns true if one of the two records names the other one, and they have the same URI. The field applies in
    /// both directions (WARC 1.1, section 5.7).
    fn is_concurrent_to(&self, other: &Identity) -> bool {
        let names = |a: &Identity, b: &Identity| {
            b.id.as_ref().is_some_and(|id| a.concurrent_to.contains(id))
        };
        self.uri == other.uri && (names(self, other) || names(other, self))
    }
}
