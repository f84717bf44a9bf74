//! Bytes of a record, unpacked when they are a gzip member.

use bytes::{Buf, Bytes};
use flate2::{Decompress, FlushDecompress, Status};

use super::input::Input;
use super::record::LoadError;

/// The plain bytes of a record, and maybe of what follows it.
pub(super) struct Unpacked {
    input: Input,
    packed: Bytes,
    state: MemberState,
}

enum MemberState {
    Unknown,
    Plain,
    Member(Box<Decompress>),
    /// The member has ended; its checksum was right.
    Ended,
}

impl Unpacked {
    /// Unpacks this input, from its beginning.
    pub(super) fn new(input: Input) -> Unpacked {
        Unpacked {
            input,
            packed: Bytes::new(),
            state: MemberState::Unknown,
        }
    }

    /// Whether it is a gzip member, once something was read.
    pub(super) fn is_packed(&self) -> bool {
        matches!(self.state, MemberState::Member(_) | MemberState::Ended)
    }

    /// Appends what comes, `most` bytes at most, and gives their number: 0 when there are no more.
    ///
    /// # Errors
    /// When they cannot be had, or the gzip member is damaged or breaks off.
    pub(super) async fn read(
        &mut self,
        into: &mut Vec<u8>,
        most: usize,
    ) -> Result<usize, LoadError> {
        if most == 0 {
            return Ok(0);
        }
        loop {
            if self.packed.is_empty() && !matches!(self.state, MemberState::Ended) {
                self.packed = self.input.more().await?;
                if self.packed.is_empty() {
                    return match self.state {
                        MemberState::Member(_) => {
                            Err(LoadError::Record("the gzip member breaks off".to_owned()))
                        }
                        _ => Ok(0),
                    };
                }
            }
            match &mut self.state {
                MemberState::Ended => return Ok(0),
                MemberState::Unknown if self.packed.first() == Some(&0x1f) => {
                    self.state = MemberState::Member(Box::new(Decompress::new_gzip(15)));
                }
                MemberState::Unknown => self.state = MemberState::Plain,
                MemberState::Plain => {
                    let n = self.packed.len().min(most);
                    into.extend_from_slice(&self.packed.split_to(n));
                    return Ok(n);
                }
                MemberState::Member(inflate) => {
                    let n = unpack(inflate, &mut self.packed, into, most)?;
                    if let Some(ended) = n.1.then_some(MemberState::Ended) {
                        self.state = ended;
                    }
                    if n.0 > 0 {
                        return Ok(n.0);
                    }
                }
            }
        }
    }
}

/// Unpacks what there is. Gives the number of bytes unpacked, and whether the member has ended.
fn unpack(
    inflate: &mut Decompress,
    packed: &mut Bytes,
    into: &mut Vec<u8>,
    most: usize,
) -> Result<(usize, bool), LoadError> {
    // It fills what a vector has room for, which can be more than was asked for.
    if into.capacity() - into.len() < most {
        into.reserve(most);
    }
    let (had, taken) = (into.len(), inflate.total_in());
    let outcome = inflate.decompress_vec(packed, into, FlushDecompress::None);
    let taken = usize::try_from(inflate.total_in() - taken).unwrap_or(usize::MAX);
    let done = into.len() - had;
    packed.advance(taken.min(packed.len()));
    match outcome {
        Ok(Status::StreamEnd) => Ok((done, true)),
        Ok(_) if done > 0 || taken > 0 => Ok((done, false)),
        Ok(_) => Err(LoadError::Record("the gzip member is damaged".to_owned())),
        Err(error) => Err(LoadError::Record(format!(
            "the gzip member is damaged: {error}"
        ))),
    }
}
