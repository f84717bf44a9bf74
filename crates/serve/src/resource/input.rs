//! Reads bytes from an offset of a local file, a server or another record.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;

use super::open_files::OpenFile;
use super::record::LoadError;
use crawlspace_fetch::BodyStream;
use crawlspace_warc::Source;

/// Size of the first read of a record of unknown length, and maximum size of a read, in bytes.
const FIRST_READ: u64 = 16 * 1024;
const MAX_READ: u64 = 256 * 1024;

/// A sequential source of bytes.
pub(super) enum Input {
    /// A local file.
    File {
        /// The file.
        file: Arc<OpenFile>,
        /// Offset of the next read.
        at: u64,
        /// End of the range, if known.
        end: Option<u64>,
        /// Size of the next read, in bytes.
        step: u64,
    },
    /// A record from a source other than a file.
    Record(BoxStream<'static, Result<Bytes, LoadError>>),
    /// A response of a server.
    Net {
        /// Body of the response.
        body: BodyStream,
        /// Number of bytes to skip at the beginning.
        skip: u64,
        /// Number of remaining bytes, if known.
        left: Option<u64>,
    },
}

impl Input {
    /// Creates an input for a range of a file.
    pub(super) fn file(file: Arc<OpenFile>, at: u64, length: Option<u64>) -> Input {
        Input::File {
            file,
            at,
            end: length.map(|length| at.saturating_add(length)),
            step: length.unwrap_or(FIRST_READ).min(MAX_READ),
        }
    }
}

impl Source for Input {
    type Error = LoadError;

    fn is_end_of_range(&self) -> bool {
        match self {
            Input::File { at, end, .. } => end.is_some_and(|end| *at >= end),
            Input::Record(_) => false,
            Input::Net { left, .. } => *left == Some(0),
        }
    }

    async fn more(&mut self) -> Result<Bytes, LoadError> {
        match self {
            Input::File {
                file,
                at,
                end,
                step,
            } => {
                let left = end.map_or(u64::MAX, |end| end.saturating_sub(*at));
                let size = usize::try_from((*step).min(left)).unwrap_or(usize::MAX);
                if size == 0 {
                    return Ok(Bytes::new());
                }
                let bytes = file.read(*at, size).await?;
                *at = at.saturating_add(bytes.len() as u64);
                *step = (*step).saturating_mul(4).clamp(FIRST_READ, MAX_READ);
                Ok(bytes)
            }
            Input::Record(body) => loop {
                match body.next().await.transpose()? {
                    None => return Ok(Bytes::new()),
                    Some(bytes) if bytes.is_empty() => {}
                    Some(bytes) => return Ok(bytes),
                }
            },
            Input::Net { body, skip, left } => loop {
                if *left == Some(0) {
                    return Ok(Bytes::new());
                }
                let Some(bytes) = body.next().await else {
                    return Ok(Bytes::new());
                };
                let mut bytes = bytes?;
                let skipped = usize::try_from(*skip)
                    .unwrap_or(usize::MAX)
                    .min(bytes.len());
                let mut bytes = bytes.split_off(skipped);
                *skip -= skipped as u64;
                if let Some(left) = left {
                    bytes.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
                    *left -= bytes.len() as u64;
                }
                if !bytes.is_empty() {
                    return Ok(bytes);
                }
            },
        }
    }
}
