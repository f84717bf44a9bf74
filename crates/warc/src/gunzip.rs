//! Incremental decompression of gzip members (RFC 1952).

use flate2::{Decompress, FlushDecompress, Status};

use super::Problem;

/// First byte of a gzip member.
pub(crate) const MAGIC: u8 = 0x1f;
/// Window size of 32 KiB, the maximum, as a power of two.
const WINDOW: u8 = 15;
/// Maximum number of compressed bytes without any output. No gzip header is that long, so more input without
/// output is treated as damage. Otherwise, such input could be read forever.
const MAX_SILENT: usize = 256 * 1024;

/// Decompresses consecutive gzip members. The checksum of each member is verified at its end.
#[derive(Debug, Default)]
pub struct Gunzip {
    /// State of the open member.
    inflate: Option<Box<Decompress>>,
    /// Number of bytes consumed since the last output.
    silent: usize,
    /// Description of the damage after the bytes decompressed so far.
    damage: Option<String>,
}

/// Result of a decompression step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Number of compressed bytes consumed.
    pub read: usize,
    /// Number of decompressed bytes written.
    pub written: usize,
    /// True at the end of a member; the following compressed bytes belong to another one.
    pub is_end: bool,
}

impl Gunzip {
    /// Decompresses until the input is used up, the output is full, or the member ends. Neither slice may be
    /// empty.
    ///
    /// # Errors
    /// [`Problem::Gzip`] when the data is not gzip, or is damaged.
    pub fn step(&mut self, packed: &[u8], into: &mut [u8]) -> Result<Step, Problem> {
        self.check()?;
        let fresh = || Box::new(Decompress::new_gzip(WINDOW));
        let inflate = self.inflate.get_or_insert_with(fresh);
        let (read, written) = (inflate.total_in(), inflate.total_out());
        let status = inflate.decompress(packed, into, FlushDecompress::None);
        let count = |now: u64, before| usize::try_from(now - before).unwrap_or(usize::MAX);
        let step = Step {
            read: count(inflate.total_in(), read),
            written: count(inflate.total_out(), written),
            is_end: matches!(status, Ok(Status::StreamEnd)),
        };
        self.silent = match step.written {
            0 => self.silent + step.read,
            _ => 0,
        };
        match status {
            Ok(Status::StreamEnd) => (self.inflate, self.silent) = (None, 0),
            Ok(_) if self.silent > MAX_SILENT => {
                self.damage = Some(format!("{MAX_SILENT} bytes decompress to nothing"));
            }
            Ok(_) if step.read == 0 && step.written == 0 => {
                self.damage = Some("decompression does not progress".to_owned());
            }
            Ok(_) => {}
            Err(error) => self.damage = Some(error.to_string()),
        }
        // Return the output before the damage, and report the damage in the next step.
        if step.written == 0 {
            self.check()?;
        }
        Ok(step)
    }

    /// Decompresses up to `most` bytes and appends them.
    ///
    /// # Errors
    /// Fails with the errors of [`Gunzip::step`].
    pub(crate) fn append(
        &mut self,
        packed: &[u8],
        into: &mut Vec<u8>,
        most: usize,
    ) -> Result<Step, Problem> {
        let before = into.len();
        into.resize(before + most, 0);
        let step = self.step(packed, into.get_mut(before..).unwrap_or_default());
        into.truncate(before + step.as_ref().map_or(0, |step| step.written));
        step
    }

    /// Checks for known damage after the bytes decompressed so far.
    ///
    /// # Errors
    /// [`Problem::Gzip`] when the member is damaged.
    pub fn check(&self) -> Result<(), Problem> {
        let damage = self.damage.clone();
        damage.map_or(Ok(()), |damage| Err(Problem::Gzip(damage)))
    }

    /// Returns true while a member is open. The input must not end before the member is complete.
    pub fn is_open(&self) -> bool {
        self.inflate.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endless_gzip_header_is_damage() {
        let mut gunzip = Gunzip::default();
        // A file name follows, which is terminated by a zero.
        let header = [MAGIC, 0x8b, 8, 8, 0, 0, 0, 0, 0, 0];
        let mut into = [0; 16];
        assert_eq!(gunzip.step(&header, &mut into).unwrap().written, 0);
        let name = [b'x'; 1024];
        let mut steps = 0..=MAX_SILENT / name.len();
        let failed = steps.find_map(|_| gunzip.step(&name, &mut into).err());
        assert!(matches!(failed, Some(Problem::Gzip(_))));
        assert!(gunzip.check().is_err());
    }
}
