//! Input bytes of a file, with gzip members decompressed.

use std::io::Read;

use super::arc::LOOK;
use super::gunzip::{Gunzip, MAGIC};
use super::parser::without_padding;
use super::window::Window;
use super::{After, Problem};

/// A file that is being read.
pub(super) struct Input<R> {
    file: R,
    /// Bytes read from the file but not yet consumed.
    raw: Window,
    /// Decompressed bytes of the gzip member that are not yet consumed.
    unpacked: Window,
    member: Member,
    gunzip: Gunzip,
}

/// State of the current gzip member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Member {
    /// Outside of gzip members.
    None,
    /// Inside a member that has more bytes to decompress.
    Open,
    /// Inside a member that is fully decompressed.
    Ended,
}

impl<R: Read> Input<R> {
    pub(super) fn new(file: R) -> Input<R> {
        Input {
            file,
            raw: Window::default(),
            unpacked: Window::default(),
            member: Member::None,
            gunzip: Gunzip::default(),
        }
    }

    pub(super) fn is_in_member(&self) -> bool {
        self.member != Member::None
    }

    /// Returns the number of bytes of the file that have been consumed.
    pub(super) fn position(&self) -> u64 {
        self.raw.position()
    }

    /// Opens a gzip member if one begins here. Returns false at the end of the file.
    pub(super) fn open(&mut self) -> Result<bool, Problem> {
        if self.raw.bytes().is_empty() && self.more()? != After::More {
            return Ok(false);
        }
        if self.raw.bytes().first() == Some(&MAGIC) {
            self.member = Member::Open;
        }
        Ok(true)
    }

    /// Leaves the gzip member if all of its bytes were decompressed and its checksum was verified. Returns
    /// true at the end of the member.
    pub(super) fn close(&mut self) -> Result<bool, Problem> {
        // Read enough bytes to tell whether another record begins.
        while self.bytes().len() < LOOK {
            match self.more() {
                Ok(After::More) => {}
                Ok(After::Member | After::Range | After::File) => break,
                // The error belongs to the next record, and is returned when that record is read.
                Err(_) if !self.bytes().is_empty() => break,
                Err(problem) => return Err(problem),
            }
            self.consume(self.bytes().len() - without_padding(self.bytes()).len());
        }
        let is_end = self.bytes().is_empty();
        if is_end {
            self.member = Member::None;
        }
        Ok(is_end)
    }

    /// Returns the available bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        match self.member {
            Member::None => self.raw.bytes(),
            Member::Open | Member::Ended => self.unpacked.bytes(),
        }
    }

    pub(super) fn consume(&mut self, bytes: usize) {
        match self.member {
            Member::None => self.raw.consume(bytes),
            Member::Open | Member::Ended => self.unpacked.consume(bytes),
        }
    }

    /// Reads or decompresses more bytes. Returns whether more bytes, the end of the member or the end of the
    /// file follow.
    pub(super) fn more(&mut self) -> Result<After, Problem> {
        while self.member != Member::Ended {
            self.gunzip.check()?;
            let in_member = self.member == Member::Open;
            if !in_member || self.raw.bytes().is_empty() {
                let is_end = self.raw.fill(&mut self.file)? == 0;
                match (is_end, in_member) {
                    (true, true) => return Err(Problem::Truncated),
                    (true, false) => return Ok(After::File),
                    (false, false) => return Ok(After::More),
                    (false, true) => {}
                }
            }
            let step = self.gunzip.step(self.raw.bytes(), self.unpacked.room())?;
            self.raw.consume(step.read);
            self.unpacked.grow(step.written);
            if step.is_end {
                self.member = Member::Ended;
            }
            if step.written > 0 {
                return Ok(After::More);
            }
        }
        Ok(After::Member)
    }
}
