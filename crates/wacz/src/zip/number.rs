//! Parses the little-endian numbers of zip files.

/// Reads numbers from the start of a byte slice.
#[derive(Clone, Copy)]
pub(super) struct Numbers<'a>(pub(super) &'a [u8]);

impl<'a> Numbers<'a> {
    pub(super) fn bytes(&mut self, n: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }
}

/// Returns the extra field with the id `kind` from the extra fields of a header. Bytes after an invalid
/// field are ignored, because some tools write padding after the fields.
pub(super) fn extra_field(extra: &[u8], kind: u16) -> Option<Numbers<'_>> {
    let mut fields = Numbers(extra);
    loop {
        let (found, length) = (fields.u16()?, fields.u16()?);
        let field = fields.bytes(length.into())?;
        if found == kind {
            return Some(Numbers(field));
        }
    }
}

/// Returns the extra fields of a header, except those with the id `kind`.
pub(super) fn without_field(extra: &[u8], kind: u16) -> Vec<u8> {
    let mut kept = Vec::new();
    let mut rest = Numbers(extra);
    loop {
        let before = rest.0;
        let field = (|| {
            let (found, length) = (rest.u16()?, rest.u16()?);
            rest.bytes(length.into())?;
            Some(found)
        })();
        match field {
            Some(found) if found == kind => {}
            Some(_) => kept.extend_from_slice(&before[..before.len() - rest.0.len()]),
            // Keep the trailing bytes that do not form a field.
            None => {
                kept.extend_from_slice(before);
                return kept;
            }
        }
    }
}
