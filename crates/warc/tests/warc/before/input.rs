use std::io::{self, BufRead, BufReader, Read};

use flate2::bufread::GzDecoder;

/// The bytes of the file, or those of the gzip member that is being read.
pub(super) enum Input<R: BufRead> {
    Disk(Counting<R>),
    Member(Box<BufReader<GzDecoder<Counting<R>>>>),
    /// While one is turned into the other.
    Moving,
}

impl<R: BufRead> Input<R> {
    /// Bytes of the file that were read so far.
    pub(super) fn offset(&self) -> u64 {
        match self {
            Input::Disk(disk) => disk.count,
            Input::Member(member) => member.get_ref().get_ref().count,
            Input::Moving => 0,
        }
    }

    pub(super) fn open_member(&mut self) {
        *self = match std::mem::replace(self, Input::Moving) {
            Input::Disk(disk) => Input::Member(Box::new(BufReader::new(GzDecoder::new(disk)))),
            other => other,
        };
    }

    pub(super) fn close_member(&mut self) {
        *self = match std::mem::replace(self, Input::Moving) {
            Input::Member(member) => Input::Disk(member.into_inner().into_inner()),
            other => other,
        };
    }
}

impl<R: BufRead> Read for Input<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Input::Disk(disk) => disk.read(into),
            Input::Member(member) => member.read(into),
            Input::Moving => Ok(0),
        }
    }
}

impl<R: BufRead> BufRead for Input<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        match self {
            Input::Disk(disk) => disk.fill_buf(),
            Input::Member(member) => member.fill_buf(),
            Input::Moving => Ok(&[]),
        }
    }

    fn consume(&mut self, n: usize) {
        match self {
            Input::Disk(disk) => disk.consume(n),
            Input::Member(member) => member.consume(n),
            Input::Moving => {}
        }
    }
}

pub(super) struct Counting<R> {
    pub(super) input: R,
    pub(super) count: u64,
}

impl<R: BufRead> Read for Counting<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let n = self.input.read(into)?;
        self.count += n as u64;
        Ok(n)
    }
}

impl<R: BufRead> BufRead for Counting<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.input.fill_buf()
    }

    fn consume(&mut self, n: usize) {
        self.count += n as u64;
        self.input.consume(n);
    }
}
