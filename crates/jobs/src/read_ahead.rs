//! Decompresses data on one thread while another thread consumes it.

use std::io::{self, BufRead, Read};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

/// Size of a piece in bytes, and maximum number of pieces that are waiting.
const PIECE: usize = 256 * 1024;
const WAITING: usize = 4;

/// Reads `input` to its end on this thread, and passes the data to `take` on another thread. An error of the input
/// appears at its position in the data.
pub(super) fn read_ahead<T: Send>(
    input: &mut dyn BufRead,
    take: impl FnOnce(&mut dyn BufRead) -> T + Send,
) -> T {
    let (send, pieces) = sync_channel::<io::Result<Vec<u8>>>(WAITING);
    thread::scope(|scope| {
        let taking = scope.spawn(move || {
            take(&mut Pieces {
                pieces,
                piece: Vec::new(),
                at: 0,
            })
        });
        loop {
            let mut piece = Vec::with_capacity(PIECE);
            let read = input.take(PIECE as u64).read_to_end(&mut piece);
            let is_last = !matches!(read, Ok(1..));
            // First send the data that was read before the error.
            let is_cut_off = read.is_err() && !piece.is_empty();
            let sent = match read {
                Err(error) if is_cut_off => {
                    send.send(Ok(piece)).and_then(|()| send.send(Err(error)))
                }
                read => send.send(read.map(|_| piece)),
            };
            if is_last || sent.is_err() {
                break;
            }
        }
        drop(send);
        match taking.join() {
            Ok(taken) => taken,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

struct Pieces {
    pieces: Receiver<io::Result<Vec<u8>>>,
    piece: Vec<u8>,
    at: usize,
}

impl Read for Pieces {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let here = self.fill_buf()?;
        let read = here.len().min(into.len());
        if let (Some(from), Some(to)) = (here.get(..read), into.get_mut(..read)) {
            to.copy_from_slice(from);
        }
        self.consume(read);
        Ok(read)
    }
}

impl BufRead for Pieces {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.at >= self.piece.len() {
            // The sender ends only after it has sent an error, or an empty piece that marks the end.
            self.piece = self.pieces.recv().unwrap_or_else(|_| Ok(Vec::new()))?;
            self.at = 0;
        }
        Ok(&self.piece[self.at..])
    }

    fn consume(&mut self, bytes: usize) {
        self.at += bytes;
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    struct Failing(usize);

    impl Read for Failing {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let read = into.len().min(self.0);
            if read == 0 {
                return Err(io::Error::other("no more"));
            }
            into[..read].fill(b'x');
            self.0 -= read;
            Ok(read)
        }
    }

    #[test]
    fn bytes_arrive_in_order() {
        for length in [0, 1, PIECE - 1, PIECE, PIECE + 1, 10 * PIECE + 7] {
            let bytes: Vec<u8> = (0..length).map(|n| (n / 3) as u8).collect();
            let mut input = &bytes[..];
            let read = read_ahead(&mut input, |input| {
                let mut read = Vec::new();
                input.read_to_end(&mut read).map(|_| read)
            });
            assert_eq!(read.expect("bytes"), bytes);
        }
    }

    #[test]
    fn error_follows_the_bytes_read_before_it() {
        for length in [0, 1, PIECE, 3 * PIECE + 5] {
            let mut input = BufReader::new(Failing(length));
            let (read, error) = read_ahead(&mut input, |input| {
                let mut read = Vec::new();
                let error = input.read_to_end(&mut read).expect_err("an error");
                (read.len(), error.to_string())
            });
            assert_eq!((read, error.as_str()), (length, "no more"));
        }
    }

    #[test]
    fn consumer_may_stop_before_the_end() {
        let first = read_ahead(&mut BufReader::new(Failing(100 * PIECE)), |input| {
            let mut first = [0];
            input.read_exact(&mut first).map(|()| first[0])
        });
        assert_eq!(first.expect("a byte"), b'x');
    }
}
