//! Numbers of a zip file, which are little-endian.

/// Bytes that are read from the front.
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

/// The field of that kind among the extra fields of a header. What comes after a damaged one is not looked at: tools
/// pad there.
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

/// The extra fields of a header but those of that kind.
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
            // What is no field comes last, and is kept.
            None => {
                kept.extend_from_slice(before);
                return kept;
            }
        }
    }
}
