//! Compresses a body as a single gzip member while it is sent.

use std::io::{self, Write};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::stream::{self, StreamExt};
use http_body_util::BodyStream;
use hyper::body::Frame;

use super::body::{Body, Broken, frames};

/// Returns the compressed body. An error of the original body ends the compressed body with the same error.
pub(crate) fn body(plain: Body) -> Body {
    let data = BodyStream::new(plain);
    let encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let pieces = stream::unfold(Some((data, encoder)), |state| async move {
        let (mut data, mut encoder) = state?;
        loop {
            let written = match data.next().await {
                None => return Some((finished(encoder), None)),
                Some(Ok(frame)) => frame
                    .into_data()
                    .map_or(Ok(()), |data| encoder.write_all(&data)),
                Some(Err(broken)) => return Some((Err(broken), None)),
            };
            if let Err(error) = written {
                return Some((Err(failed(&error)), None));
            }
            let packed = std::mem::take(encoder.get_mut());
            if !packed.is_empty() {
                let frame = Frame::data(Bytes::from(packed));
                return Some((Ok(frame), Some((data, encoder))));
            }
        }
    });
    frames(pieces)
}

fn finished(encoder: GzEncoder<Vec<u8>>) -> Result<Frame<Bytes>, Broken> {
    let packed = encoder.finish().map_err(|error| failed(&error))?;
    Ok(Frame::data(Bytes::from(packed)))
}

fn failed(error: &io::Error) -> Broken {
    Broken(format!("compressing failed: {error}"))
}
