//! The texts of URLs that are neither queued nor leased, in the form in which spaces store them.
//!
//! Such a text consists of a varint, an optional key, an optional group id, and the compressed URI. The
//! varint is the number of the symbol table times 4, plus 2 if a key identifies the URL, plus 1 if the id of
//! the group differs from the host. The key and the id are preceded by their lengths.

use crawlspace_compact::number::{Malformed, Reader, put, put_bytes};

use crate::texts::{self, Texts};

const KEY: u64 = 2;
const GROUP: u64 = 1;

/// A URL that is neither queued nor leased.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Its group.
    pub chg: Vec<u8>,
    /// The key that identifies the URL.
    pub key: Option<Vec<u8>>,
    /// Its URI.
    pub uri: Vec<u8>,
}

/// Returns the host of a URI, including the port and the user.
fn host(uri: &[u8]) -> &[u8] {
    let host = texts::host_of(uri);
    let slashes = host.windows(3).position(|three| three == b"://");
    slashes.map_or(b"", |at| &host[at + 3..])
}

impl Ended {
    /// Returns the stored form, which counts as an owner of its symbol table.
    pub(super) fn write(&self, texts: &mut Texts) -> Vec<u8> {
        let table = texts.assign();
        let has_other_name = self.chg.is_empty() || host(&self.uri) != self.chg;
        let mut flags = if has_other_name { GROUP } else { 0 };
        flags |= if self.key.is_some() { KEY } else { 0 };
        let mut bytes = Vec::with_capacity(self.uri.len() / 2 + 16);
        put(&mut bytes, u64::from(table) * 4 + flags);
        if let Some(key) = &self.key {
            put_bytes(&mut bytes, key);
        }
        if has_other_name {
            put_bytes(&mut bytes, &self.chg);
        }
        texts.compress(table, 0, &self.uri, &mut bytes);
        bytes
    }

    /// Reads the stored form.
    ///
    /// # Errors
    /// Fails if the bytes are malformed. A malformed compressed URI does not cause an error, but
    /// results in an arbitrary URI.
    pub(super) fn read(bytes: &[u8], texts: &Texts) -> Result<Ended, Malformed> {
        let mut from = Reader::new(bytes);
        let header = from.number()?;
        let table = u16::try_from(header / 4).map_err(|_| Malformed::NUMBER)?;
        let mut part = |flag| match header & flag {
            0 => Ok(None),
            _ => from.bytes().map(|part| Some(part.to_vec())),
        };
        let (key, chg) = (part(KEY)?, part(GROUP)?);
        let mut uri = Vec::new();
        texts.expand(table, from.rest(), &mut uri);
        let chg = chg.unwrap_or_else(|| host(&uri).to_vec());
        Ok(Ended { chg, key, uri })
    }
}

/// Returns the symbol table of a stored text.
pub(super) fn table_of(bytes: &[u8]) -> Option<u16> {
    let header = Reader::new(bytes).number().ok()?;
    u16::try_from(header / 4).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn text_is_read_as_it_was_written(
            uri in prop_oneof![
                "(https?://(www\\.)?a\\.org(:80)?)?(/[a-z]{0,5}){0,5}".prop_map(String::into_bytes),
                prop::collection::vec(any::<u8>(), 1..50),
            ],
            chg in prop_oneof![
                "(www\\.)?a\\.org(:80)?".prop_map(String::into_bytes),
                prop::collection::vec(any::<u8>(), 0..9),
            ],
            key in proptest::option::of(prop::collection::vec(any::<u8>(), 1..9)),
        ) {
            let mut texts = Texts::default();
            let ended = Ended { chg, key, uri };
            let bytes = ended.write(&mut texts);
            prop_assert_eq!(table_of(&bytes), Some(0));
            prop_assert_eq!(Ended::read(&bytes, &texts), Ok(ended));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = Ended::read(&bytes, &Texts::default());
        }
    }
}
