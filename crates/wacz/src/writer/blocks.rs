//! Checks the lines of an index, and compresses them in blocks.

use std::io::{self, Write};

use flate2::write::GzEncoder;
use sha2::{Digest as _, Sha256};

use crate::Problem;
use crate::reader::sha256_text;

/// Checks that lines are CDXJ, and sorted.
#[derive(Default)]
pub(super) struct Order {
    before: Vec<u8>,
    number: u64,
}

impl Order {
    pub(super) fn check(&mut self, line: &[u8]) -> Result<(), Problem> {
        self.number += 1;
        let refused = |what: &str| {
            Err(Problem::Refused(format!(
                "line {} of the index {what}",
                self.number
            )))
        };
        if line.contains(&b'\n') || key(line).is_none() {
            return refused("is not a CDXJ line");
        }
        if line < &self.before[..] {
            return refused("sorts before the previous line; sort them (LC_ALL=C sort)");
        }
        self.before.clear();
        self.before.extend_from_slice(line);
        Ok(())
    }
}

/// Returns the `urlkey timestamp` of a line.
fn key(line: &[u8]) -> Option<&[u8]> {
    let mut spaces = line.iter().enumerate().filter(|&(_, &byte)| byte == b' ');
    let second = spaces.nth(1)?.0;
    Some(&line[..second])
}

/// Writes an index in blocks, and builds the index of its blocks.
pub(super) struct Blocks {
    of: usize,
    block: Vec<u8>,
    lines: usize,
    first: Vec<u8>,
    offset: u64,
    index: Vec<u8>,
}

impl Blocks {
    pub(super) fn new(of: usize, name: &str) -> Blocks {
        let header =
            format!("!meta 0 {{\"format\": \"cdxj-gzip-1.0\", \"filename\": \"{name}\"}}\n");
        Blocks {
            of: of.max(1),
            block: Vec::new(),
            lines: 0,
            first: Vec::new(),
            offset: 0,
            index: header.into_bytes(),
        }
    }

    /// Adds a line without its line end.
    pub(super) fn line(&mut self, line: &[u8], out: &mut impl Write) -> io::Result<()> {
        if self.lines == 0 {
            self.first = key(line).unwrap_or_default().to_vec();
        }
        self.block.extend_from_slice(line);
        self.block.push(b'\n');
        self.lines += 1;
        if self.lines == self.of {
            self.flush(out)?;
        }
        Ok(())
    }

    /// Writes the last, incomplete block.
    pub(super) fn flush(&mut self, out: &mut impl Write) -> io::Result<()> {
        if self.lines == 0 {
            return Ok(());
        }
        let mut member = GzEncoder::new(Vec::new(), flate2::Compression::default());
        member.write_all(&self.block)?;
        let member = member.finish()?;
        out.write_all(&member)?;
        self.index.extend_from_slice(&self.first);
        let (offset, length) = (self.offset, member.len());
        let digest = sha256_text(&Sha256::digest(&member));
        writeln!(
            self.index,
            " {{\"offset\": {offset}, \"length\": {length}, \"digest\": \"{digest}\"}}"
        )?;
        self.offset += length as u64;
        self.block.clear();
        self.lines = 0;
        Ok(())
    }

    /// Returns the index of the blocks.
    pub(super) fn into_index(self) -> Vec<u8> {
        self.index
    }
}
