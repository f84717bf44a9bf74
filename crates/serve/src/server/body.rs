//! Bodies of answers.

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::stream::{BoxStream, Stream, StreamExt};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;

use crate::resource::record::LoadError;

/// The body of an answer. Dropping it cancels what is under way for it.
pub(crate) type Body = UnsyncBoxBody<Bytes, Broken>;

/// Error of an answer that cannot go on. Its connection is cut, so that the client sees that it is incomplete.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Broken(pub String);

/// A body that is there.
pub(crate) fn whole(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into())
        .map_err(|never| match never {})
        .boxed_unsync()
}

/// A body whose parts come as they come.
pub(crate) fn frames(
    frames: impl Stream<Item = Result<Frame<Bytes>, Broken>> + Send + 'static,
) -> Body {
    StreamBody::new(frames).boxed_unsync()
}

/// Pieces as they come. A failure cuts the connection, so that the client sees that the answer is incomplete.
pub(crate) fn pieces(pieces: BoxStream<'static, Result<Bytes, LoadError>>) -> Body {
    let span = tracing::Span::current();
    frames(pieces.map(move |piece| match piece {
        Ok(bytes) => Ok(Frame::data(bytes)),
        Err(error) => {
            span.in_scope(|| tracing::warn!(%error, "a record broke off"));
            Err(Broken(error.to_string()))
        }
    }))
}

/// What a stream has ready.
pub(crate) enum Ready<S> {
    /// The whole answer.
    All(Vec<u8>),
    /// More than that is wanted at once, or has to be waited for: this, and then the rest.
    More(Vec<u8>, S),
}

/// Takes what is ready of a stream, until there is more than `most`, so that a small answer can say how long it is.
///
/// # Errors
/// What the stream says.
pub(crate) fn ready<E, S>(mut stream: S, most: usize) -> Result<Ready<S>, E>
where
    S: Stream<Item = Result<Bytes, E>> + Unpin,
{
    let mut out = Vec::new();
    while out.len() <= most {
        match stream.next().now_or_never() {
            Some(Some(part)) => match part {
                // What is there is sent, and the error again when its turn comes, by the stream's own state.
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
