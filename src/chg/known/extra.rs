//! Additional data of a queued or leased URL: the URL itself, if a key identifies it, and its payload.

use crawlspace_compact::number::{Reader, put_bytes};

/// Additional data of a URL, beside its record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extra<'a> {
    /// The URL, if a key identifies it.
    pub url: Option<&'a [u8]>,
    /// Payload: bytes from the crawler that are returned with the lease.
    pub payload: Option<&'a [u8]>,
}

impl<'a> Extra<'a> {
    /// Returns the stored form: the URL (empty if there is none) and, if there is a payload, the byte 1 and the
    /// payload. The stored form of an empty value is empty.
    pub fn write(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        if *self == Extra::default() {
            return bytes;
        }
        put_bytes(&mut bytes, self.url.unwrap_or_default());
        if let Some(payload) = self.payload {
            bytes.push(1);
            bytes.extend_from_slice(payload);
        }
        bytes
    }

    /// Reads the stored form. Accepts any bytes, because files and masters may send any bytes.
    pub fn read(bytes: &'a [u8]) -> Extra<'a> {
        let mut from = Reader::new(bytes);
        let url = from.bytes().ok().filter(|url| !url.is_empty());
        let payload = match from.byte() {
            Ok(1) => Some(from.rest()),
            _ => None,
        };
        Extra { url, payload }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn extra_is_read_as_it_was_written(
            url in proptest::option::of(proptest::collection::vec(any::<u8>(), 1..200)),
            payload in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..200)),
        ) {
            let extra = Extra { url: url.as_deref(), payload: payload.as_deref() };
            let bytes = extra.write();
            prop_assert_eq!(Extra::read(&bytes), extra);
        }

        #[test]
        fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let extra = Extra::read(&bytes);
            prop_assert!(extra.url != Some(b""));
        }
    }
}
