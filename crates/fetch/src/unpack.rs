//! Decompression of gzip bodies (RFC 9110, section 8.4.1.3).

use bytes::{Buf, Bytes};
use crawlspace_warc::gunzip::Gunzip;

/// Maximum size of a decompressed piece, independent of the compression ratio.
const PIECE: usize = 64 << 10;

/// A streaming decompressor. The memory use does not depend on the size of the decompressed data.
#[derive(Default)]
pub(super) struct Unpack {
    gunzip: Gunzip,
    packed: Bytes,
    piece: Vec<u8>,
}

impl Unpack {
    /// Adds compressed bytes. [`next`](Unpack::next) must have consumed the previous bytes.
    pub(crate) fn feed(&mut self, packed: Bytes) {
        self.packed = packed;
    }

    /// Returns the next decompressed piece, or `None` if more input is needed. The error describes
    /// the corruption.
    pub(crate) fn next(&mut self) -> Result<Option<Bytes>, String> {
        self.piece.resize(PIECE, 0);
        let mut done = 0;
        // A body may consist of many gzip members.
        while !self.packed.is_empty() && done < PIECE {
            let room = self.piece.get_mut(done..).unwrap_or_default();
            let step = self.gunzip.step(&self.packed, room);
            let step = step.map_err(|problem| problem.to_string())?;
            self.packed.advance(step.read);
            done += step.written;
        }
        let piece = &self.piece[..done];
        Ok((done > 0).then(|| Bytes::copy_from_slice(piece)))
    }

    /// Returns true if the data is complete at this position.
    pub(crate) fn is_complete(&self) -> bool {
        !self.gunzip.is_open()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use redis_tests::Rng;

    use super::*;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn unpack(packed: &[u8], step: usize) -> Result<Vec<u8>, String> {
        let mut unpack = Unpack::default();
        let mut all = Vec::new();
        for part in packed.chunks(step) {
            unpack.feed(Bytes::copy_from_slice(part));
            while let Some(piece) = unpack.next()? {
                assert!(piece.len() <= PIECE);
                all.extend_from_slice(&piece);
            }
        }
        if unpack.is_complete() {
            Ok(all)
        } else {
            Err("cut".to_owned())
        }
    }

    #[test]
    fn decompression_does_not_depend_on_chunk_boundaries() {
        let mut text = Vec::new();
        for i in 0..40_000 {
            text.extend_from_slice(format!("com,example)/{i} ").as_bytes());
        }
        let mut packed = gzip(&text);
        // Several gzip members, one of them empty.
        packed.extend(gzip(b""));
        packed.extend(gzip(b"the end"));
        text.extend_from_slice(b"the end");
        for step in [1, 7, 4096, packed.len()] {
            assert_eq!(unpack(&packed, step).unwrap(), text, "{step}");
        }
        assert_eq!(unpack(b"", 1).unwrap(), b"");
        assert!(unpack(&packed[..packed.len() - 3], 99).is_err());
    }

    #[test]
    fn random_bytes_are_an_error() {
        let mut rng = Rng::new("unpack::noise");
        for _ in 0..300 {
            let mut noise: Vec<u8> = (0..rng.below(300)).map(|_| rng.bits() as u8).collect();
            if rng.below(2) == 0 {
                let mut packed = gzip(&noise);
                let at = rng.below(packed.len() as u64) as usize;
                packed[at] ^= 1 << rng.below(8);
                noise = packed;
            }
            let _ = unpack(&noise, 50);
        }
    }
}
