//! Composes records from parts.

use bytes::Bytes;
use futures_util::stream::{self, StreamExt};

use super::Payload;
use crate::resource::record::{LoadError, Record};
use crawlspace_index::timestamp::Timestamp;
use crawlspace_warc::{END, Header};

/// Composes a record, and sets the `Content-Length` of its header.
pub(in crate::resource) fn compose(
    header: &mut Header,
    http_head: &[u8],
    payload: Payload,
    target_uri: String,
    date: Timestamp,
) -> Record {
    let content_length = http_head.len() as u64 + payload.length;
    if header.content_length() != content_length || header.get("Content-Length").is_none() {
        header.set_content_length(content_length);
    }
    let mut head =
        Vec::with_capacity(header.raw().len() + http_head.len() + payload.first.len() + END.len());
    head.extend_from_slice(header.raw());
    head.extend_from_slice(http_head);
    let length = head.len() as u64 + payload.length + END.len() as u64;
    let body = match payload.rest {
        None => {
            head.extend_from_slice(&payload.first);
            head.extend_from_slice(END);
            stream::empty().boxed()
        }
        Some(block) => {
            let first = payload.first;
            let first = stream::iter((!first.is_empty()).then_some(Ok(first)));
            let end = stream::iter([Ok(Bytes::from_static(END))]);
            // Stops after an error, so that a failed stream does not end like a complete record.
            first
                .chain(block.pieces())
                .chain(end)
                .scan(false, stop)
                .boxed()
        }
    };
    Record {
        head: head.into(),
        length,
        body,
        target_uri,
        date,
        source: None,
    }
}

type Piece = Result<Bytes, LoadError>;

fn stop(failed: &mut bool, piece: Piece) -> std::future::Ready<Option<Piece>> {
    let over = std::mem::replace(failed, *failed || piece.is_err());
    std::future::ready((!over).then_some(piece))
}
