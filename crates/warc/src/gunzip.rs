//! Gzip members (RFC 1952), unpacked as they come.

use flate2::{Decompress, FlushDecompress, Status};

use super::Problem;

/// What members begin with.
pub(crate) const MAGIC: u8 = 0x1f;
/// A window of 32 KiB, the largest there is.
const WINDOW: u8 = 15;
/// Number of packed bytes of which nothing may come out. More are no header of a member, but damage that would be read
/// for ever.
const MAX_SILENT: usize = 256 * 1024;

/// Unpacks one member after the other. Each member's checksum is verified where it ends.
#[derive(Debug, Default)]
pub struct Gunzip {
    /// The member that is open.
    inflate: Option<Box<Decompress>>,
    /// Number of bytes that were used since the last one came out.
    silent: usize,
    /// What is wrong behind the bytes that came out.
    damage: Option<String>,
}

/// What a step of unpacking did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Number of packed bytes that were used.
    pub read: usize,
    /// Number of bytes that came out.
    pub written: usize,
    /// The member has ended; what is packed after it is another one.
    pub is_end: bool,
}

impl Gunzip {
    /// Unpacks as many bytes as there are, or as there is room for, up to the end of a member. Both must be at
    /// least one.
    ///
    /// # Errors
    /// [`Problem::Gzip`] when it is no gzip, or damaged.
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
                self.damage = Some(format!("nothing comes out of {MAX_SILENT} bytes"));
            }
            Ok(_) if step.read == 0 && step.written == 0 => {
                self.damage = Some("it does not go on".to_owned());
            }
            Ok(_) => {}
            Err(error) => self.damage = Some(error.to_string()),
        }
        // What came out before the damage is not lost.
        if step.written == 0 {
            self.check()?;
        }
        Ok(step)
    }

    /// Unpacks up to `most` bytes and appends them.
    ///
    /// # Errors
    /// Those of [`Gunzip::step`].
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

    /// Whether what follows the bytes that came out is sound, as far as is known.
    ///
    /// # Errors
    /// [`Problem::Gzip`] when it is not.
    pub fn check(&self) -> Result<(), Problem> {
        let damage = self.damage.clone();
        damage.map_or(Ok(()), |damage| Err(Problem::Gzip(damage)))
    }

    /// Whether a member is open: input must not end there.
    pub fn is_open(&self) -> bool {
        self.inflate.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_without_end_is_damage() {
        let mut gunzip = Gunzip::default();
        // A name follows, and a name ends with a zero.
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
