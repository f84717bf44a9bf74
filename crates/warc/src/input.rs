//! The bytes of a file, unpacked where they are gzip members.

use std::io::Read;

use super::arc::LOOK;
use super::gunzip::{Gunzip, MAGIC};
use super::parser::without_padding;
use super::window::Window;
use super::{After, Problem};

/// A file that is read.
pub(super) struct Input<R> {
    file: R,
    /// Bytes of the file that were read and not used.
    raw: Window,
    /// Bytes of the gzip member that were unpacked and not used.
    unpacked: Window,
    member: Member,
    gunzip: Gunzip,
}

/// Where the next bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Member {
    /// In no gzip member.
    None,
    /// In one of which more is to be unpacked.
    Open,
    /// In one of which all was unpacked.
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

    /// How many bytes of the file were used.
    pub(super) fn position(&self) -> u64 {
        self.raw.position()
    }

    /// Looks whether a gzip member begins here. False at the end of the file.
    pub(super) fn open(&mut self) -> Result<bool, Problem> {
        if self.raw.bytes().is_empty() && self.more()? != After::More {
            return Ok(false);
        }
        if self.raw.bytes().first() == Some(&MAGIC) {
            self.member = Member::Open;
        }
        Ok(true)
    }

    /// Leaves the gzip member if nothing more comes in it; its checksum was verified then.
    pub(super) fn close(&mut self) -> Result<bool, Problem> {
        // As much as tells whether another record begins there.
        while self.bytes().len() < LOOK {
            match self.more() {
                Ok(After::More) => {}
                Ok(After::Member | After::File) => break,
                // What is wrong is an error of the record that begins there.
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

    /// What is there to be used.
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

    /// Reads or unpacks more, and tells what comes after it.
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
