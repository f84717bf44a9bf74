//! Gzip members as text.

use std::io::Read as _;

use flate2::bufread::MultiGzDecoder;

/// Maximum size of a block, compressed or not, in bytes. 3000 lines are about a megabyte.
pub(crate) const MAX_BLOCK: u64 = 32 << 20;

/// Why there is no text.
#[derive(Debug)]
pub(crate) enum Unfit {
    /// It would have more than [`MAX_BLOCK`] bytes.
    TooLarge,
    /// What was read are no whole members.
    Broken(String),
}

/// Appends the text of one or more members, of which nothing may be missing.
pub(crate) fn inflate(packed: &[u8], text: &mut Vec<u8>) -> Result<(), Unfit> {
    let before = text.len();
    let mut members = MultiGzDecoder::new(packed).take(MAX_BLOCK + 1);
    members
        .read_to_end(text)
        .map_err(|error| Unfit::Broken(error.to_string()))?;
    if (text.len() - before) as u64 > MAX_BLOCK {
        Err(Unfit::TooLarge)
    } else {
        Ok(())
    }
}
