//! Response bodies.

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::stream::{BoxStream, Stream, StreamExt};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;

use crate::resource::record::LoadError;

/// A response body. Dropping it cancels all work for it.
pub(crate) type Body = UnsyncBoxBody<Bytes, Broken>;

/// Error of a response that cannot be completed. The server closes the connection, so that the client notices.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Broken(pub String);

/// Creates a body of known content.
pub(crate) fn whole(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into())
        .map_err(|never| match never {})
        .boxed_unsync()
}

/// Creates a body from a stream of frames.
pub(crate) fn frames(
    frames: impl Stream<Item = Result<Frame<Bytes>, Broken>> + Send + 'static,
) -> Body {
    StreamBody::new(frames).boxed_unsync()
}

/// Creates a body from a stream of bytes. After an error, the server closes the connection, so that the client notices
/// the incomplete body.
pub(crate) fn pieces(pieces: BoxStream<'static, Result<Bytes, LoadError>>) -> Body {
    let span = tracing::Span::current();
    frames(pieces.map(move |piece| match piece {
        Ok(bytes) => Ok(Frame::data(bytes)),
        Err(error) => {
            span.in_scope(|| tracing::warn!(%error, "the rest of a record could not be sent"));
            Err(Broken(error.to_string()))
        }
    }))
}

/// The available part of a stream.
pub(crate) enum Ready<S> {
    /// The whole response.
    All(Vec<u8>),
    /// The available part, and the rest of the stream, which is too large or not available yet.
    More(Vec<u8>, S),
}

/// Reads what a stream has available, up to a little over `most` bytes, so that a small response can have a
/// `Content-Length`.
///
/// # Errors
/// Fails if the stream fails.
pub(crate) fn ready<E, S>(mut stream: S, most: usize) -> Result<Ready<S>, E>
where
    S: Stream<Item = Result<Bytes, E>> + Unpin,
{
    let mut out = Vec::new();
    while out.len() <= most {
        match stream.next().now_or_never() {
            Some(Some(part)) => match part {
                // A first part larger than `most` is returned without copying it.
                Ok(part) if out.is_empty() && part.len() > most => {
                    return Ok(Ready::More(part.into(), stream));
                }
                Ok(part) => out.extend_from_slice(&part),
                Err(error) => return Err(error),
            },
            Some(None) => return Ok(Ready::All(out)),
            None => break,
        }
    }
    Ok(Ready::More(out, stream))
}
