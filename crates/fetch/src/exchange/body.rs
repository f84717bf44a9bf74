//! The body of a response (RFC 9112, section 6.3).

use bytes::Bytes;

use super::dialogue::{Dialogue, cut_off, wrong};
use crate::Error;
use crawlspace_warc::chunked::{Chunked, Piece};
use crawlspace_warc::http::{Head, Status};

/// A body that is read as it arrives, with its transfer coding removed.
pub struct Incoming {
    dialogue: Dialogue,
    framing: Framing,
    length: Option<u64>,
    is_chunked: bool,
    /// Bytes received so far, including the transfer coding.
    received: u64,
    trailer: Bytes,
}

enum Framing {
    /// Number of bytes still to be received.
    Length(u64),
    Chunked(Chunked),
    /// The body ends when the connection is closed.
    Close,
    Broken(Error),
}

impl Incoming {
    /// Creates the body of a response from its head. `without_body` is set for responses to `HEAD`.
    pub(super) fn new(
        dialogue: Dialogue,
        head: &Head<Status>,
        without_body: bool,
    ) -> Result<Incoming, Error> {
        let length = head.content_length().map_err(|_| {
            wrong("its Content-Length is not a number, or there are several that differ")
        })?;
        let mut is_chunked = false;
        let (framing, length) = if without_body || matches!(head.first.code, 204 | 304) {
            (Framing::Length(0), Some(0))
        } else if is_coded(head)? {
            is_chunked = true;
            (Framing::Chunked(Chunked::default()), None)
        } else if let Some(length) = length {
            if length > dialogue.limits().bytes {
                return Err(too_large(dialogue.limits().bytes));
            }
            (Framing::Length(length), Some(length))
        } else {
            (Framing::Close, None)
        };
        Ok(Incoming {
            dialogue,
            framing,
            length,
            is_chunked,
            received: 0,
            trailer: Bytes::new(),
        })
    }

    /// Returns the length of the body in bytes, if the header announces it.
    pub fn length(&self) -> Option<u64> {
        self.length
    }

    /// Returns true if the body is sent in chunks, which are decoded.
    pub fn is_chunked(&self) -> bool {
        self.is_chunked
    }

    /// Returns the lines of the trailer section, empty until the end of the body was read.
    pub fn trailer(&self) -> &Bytes {
        &self.trailer
    }

    /// Returns the next bytes, at least one, and `None` only at the end.
    ///
    /// # Errors
    /// Fails if the body is truncated or malformed, or exceeds a limit. Later calls return the same
    /// error again.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        let next = self.piece().await;
        if let Err(error) = &next {
            self.framing = Framing::Broken(error.clone());
        }
        next
    }

    async fn piece(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            let buffer = &mut self.dialogue.buffer;
            match &mut self.framing {
                Framing::Broken(error) => return Err(error.clone()),
                Framing::Length(0) => return Ok(None),
                Framing::Length(left) if !buffer.is_empty() => {
                    let most = usize::try_from(*left).unwrap_or(usize::MAX);
                    let bytes = buffer.split_to(buffer.len().min(most)).freeze();
                    *left -= bytes.len() as u64;
                    return Ok(Some(bytes));
                }
                Framing::Close if !buffer.is_empty() => {
                    let bytes = buffer.split().freeze();
                    self.count(bytes.len())?;
                    return Ok(Some(bytes));
                }
                Framing::Length(_) | Framing::Close => {}
                Framing::Chunked(chunked) => {
                    let before = buffer.len();
                    let piece = chunked.next(buffer);
                    let taken = before - buffer.len();
                    match piece.map_err(wrong)? {
                        Piece::Data(bytes) => {
                            self.count(taken)?;
                            return Ok(Some(bytes));
                        }
                        Piece::End => {
                            self.trailer = Bytes::copy_from_slice(chunked.trailer());
                            self.framing = Framing::Length(0);
                            return Ok(None);
                        }
                        Piece::More => self.count(taken)?,
                    }
                }
            }
            if self.dialogue.fill().await? == 0 {
                match self.framing {
                    Framing::Close => self.framing = Framing::Length(0),
                    _ => return Err(cut_off()),
                }
            }
        }
    }

    fn count(&mut self, bytes: usize) -> Result<(), Error> {
        let most = self.dialogue.limits().bytes;
        self.received = self.received.saturating_add(bytes as u64);
        if self.received > most {
            Err(too_large(most))
        } else {
            Ok(())
        }
    }
}

fn too_large(most: u64) -> Error {
    Error::TooLarge(format!("the answer is longer than {most} bytes"))
}

/// Returns true if the body is sent in chunks. Any other transfer coding was not requested and is
/// an error, as the content could not be read.
fn is_coded(head: &Head<Status>) -> Result<bool, Error> {
    let mut codings = head
        .list("Transfer-Encoding")
        .filter(|coding| !coding.eq_ignore_ascii_case(b"identity"));
    match (codings.next(), codings.next()) {
        (None, _) => Ok(false),
        (Some(only), None) if only.eq_ignore_ascii_case(b"chunked") => Ok(true),
        (Some(coding), _) => Err(wrong(format!(
            "it sends the transfer coding {:?}, which was not requested",
            String::from_utf8_lossy(coding)
        ))),
    }
}
