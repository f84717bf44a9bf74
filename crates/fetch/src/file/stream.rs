//! Parts of files that are received piece by piece.

use std::sync::Arc;

use bytes::{Buf, Bytes};
use flate2::Crc;
use futures_util::stream::{self, StreamExt};

use super::answer::Answer;
use super::retry::Retries;
use super::{MAX_WHOLE, RemoteFile, wrong};
use crate::range::Validators;
use crate::{BodyStream, Error};

/// A part of a file that is received piece by piece. A broken connection is resumed where it broke.
///
/// Every response is compared with the first response. A file that changes during reading is an error, and so
/// is an inconsistent response.
pub(super) struct Stream {
    file: Arc<RemoteFile>,
    pub(super) validators: Validators,
    /// The size of the file, if known.
    size: Option<u64>,
    at: u64,
    /// The end of the part, if known. Only the end of a whole file can be unknown.
    pub(super) end: Option<u64>,
    /// The checksum of the bytes received so far. Only used for a whole file: after the connection broke, the server
    /// may send the file from its beginning again.
    received: Option<Crc>,
    answer: Option<Current>,
    retries: Retries,
}

/// The response being read.
struct Current {
    body: BodyStream,
    /// Number of bytes until the end, if known.
    left: Option<u64>,
    /// True if the server sends more bytes than requested, which are not read.
    is_longer: bool,
}

fn broken() -> Error {
    Error::Connection("connection lost".to_owned())
}

impl Stream {
    /// Creates a stream of a part of a file of known size. The first read sends the request.
    pub(super) fn new(
        file: &Arc<RemoteFile>,
        (size, validators): (u64, Validators),
        from: u64,
        end: u64,
    ) -> Stream {
        Stream {
            file: Arc::clone(file),
            validators,
            size: Some(size),
            at: from,
            end: Some(end),
            received: None,
            answer: None,
            retries: Retries::new(&file.policy),
        }
    }

    /// Creates a stream of a response that has begun.
    pub(super) fn begun(file: &Arc<RemoteFile>, answer: Answer) -> Stream {
        Stream {
            size: answer.total,
            end: answer.end,
            received: answer.is_whole.then(Crc::new),
            answer: Some(Current {
                body: answer.body,
                left: answer.end.map(|end| end - answer.from),
                is_longer: false,
            }),
            ..Stream::new(file, (0, answer.validators), answer.from, 0)
        }
    }

    /// Returns true if the server sends the whole file, whether or not it was asked for a part.
    pub(super) fn is_whole(&self) -> bool {
        self.received.is_some()
    }

    /// Returns the pieces that are not empty.
    pub(super) fn pieces(self) -> BodyStream {
        stream::try_unfold(self, async |mut stream| {
            let piece = stream.next().await?;
            Ok(piece.map(|piece| (piece, stream)))
        })
        .boxed()
    }

    async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        while self.end != Some(self.at) {
            match self.attempt().await {
                Ok(Some(piece)) if piece.is_empty() => {}
                Err(error) => {
                    self.answer = None;
                    self.retries.pause_after(error).await?;
                }
                piece => return piece,
            }
        }
        Ok(None)
    }

    async fn attempt(&mut self) -> Result<Option<Bytes>, Error> {
        let answer = match &mut self.answer {
            Some(answer) => answer,
            None => {
                let answer = self.ask().await?;
                self.answer.insert(answer)
            }
        };
        let Some(mut piece) = answer.body.next().await.transpose()? else {
            return match answer.left {
                Some(_) => Err(broken()),
                None => {
                    self.end = Some(self.at);
                    Ok(None)
                }
            };
        };
        if let Some(left) = &mut answer.left {
            let has_more = piece.len() as u64 > *left;
            piece.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
            *left -= piece.len() as u64;
            if *left == 0 {
                // Read the end of the response, so that the connection can be reused. An error at this point
                // does no harm.
                if !answer.is_longer
                    && (has_more || matches!(answer.body.next().await, Some(Ok(_))))
                {
                    return Err(wrong("it sends more than the part that it announced"));
                }
                self.answer = None;
            }
        }
        self.at += piece.len() as u64;
        self.retries.progress(piece.len());
        if let Some(received) = &mut self.received {
            received.update(&piece);
        }
        Ok(Some(piece))
    }

    /// Requests all remaining bytes. A server may send fewer bytes.
    async fn ask(&mut self) -> Result<Current, Error> {
        let range = self.end.map(|end| format!("bytes={}-{}", self.at, end - 1));
        let answer = self.file.ask_once(range.as_deref()).await;
        let mut answer = answer.map_err(|error| match error {
            Error::Status { status: 416, .. } => Error::Changed("it has become shorter".to_owned()),
            error => error,
        })?;
        let sizes = self.size.zip(answer.total);
        let size = sizes.filter(|(before, now)| before != now);
        let size = size.map(|(before, now)| format!("it had {before} bytes, and has {now}"));
        if let Some(how) = answer.validators.difference(&self.validators).or(size) {
            return Err(Error::Changed(how));
        }
        if !answer.is_whole {
            let (end, wanted) = (answer.end.unwrap_or(u64::MAX), self.end.unwrap_or(u64::MAX));
            if answer.from != self.at || end > wanted {
                return Err(Error::Answer(format!(
                    "requested bytes {} to {}, received {} to {}",
                    self.at,
                    wanted - 1,
                    answer.from,
                    end - 1
                )));
            }
        } else if self.is_whole() || self.size.is_some_and(|size| size <= MAX_WHOLE) {
            answer.body = self.skip(answer.body).await?;
        } else {
            // Several servers may share this host name.
            let why = "the server no longer supports range requests";
            return Err(Error::Connection(why.to_owned()));
        }
        let end = answer.end.filter(|_| !answer.is_whole).or(self.end);
        Ok(Current {
            body: answer.body,
            left: end.map(|end| end - self.at),
            is_longer: answer.is_whole && self.end != self.size,
        })
    }

    /// Skips the beginning of a response with the whole file. If the beginning was read before, it must be unchanged.
    async fn skip(&mut self, mut body: BodyStream) -> Result<BodyStream, Error> {
        let mut left = self.at;
        let mut skipped = Crc::new();
        while left > 0 {
            let mut piece = body.next().await.transpose()?.ok_or_else(broken)?;
            let n = piece.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            skipped.update(&piece[..n]);
            left -= n as u64;
            piece.advance(n);
            if !piece.is_empty() {
                body = stream::iter([Ok(piece)]).chain(body).boxed();
            }
        }
        match &self.received {
            Some(received) if received.sum() != skipped.sum() => Err(Error::Changed(format!(
                "its first {} bytes have changed",
                self.at
            ))),
            _ => Ok(body),
        }
    }
}
