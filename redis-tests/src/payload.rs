//! Parses and builds `DUMP` payloads of module keys.

/// Computes the Jones CRC-64, which Redis appends to a dump.
pub fn crc64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |crc: u64, &byte| {
        (crc >> 8) ^ CRC64[usize::from(crc as u8 ^ byte)]
    })
}

/// The effect of each byte on a checksum.
static CRC64: [u64; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u64;
        let mut bit = 0;
        while bit < 8 {
            // The polynomial ad93d23594c935a9, bit-reversed.
            crc = (crc >> 1) ^ (0x95ac_9329_ac4b_c9b5 & (crc & 1).wrapping_neg());
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

/// Replaces the checksum at the end of a payload with the correct one.
pub fn sealed(mut payload: Vec<u8>) -> Vec<u8> {
    let end = payload.len() - 8;
    let crc = crc64(&payload[..end]);
    payload[end..].copy_from_slice(&crc.to_le_bytes());
    payload
}

/// A dumped value of a type that the module defines: a list of chunks. Before each chunk, a flag
/// announces it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload {
    /// Name and version of the type, as Redis writes them.
    pub kind: [u8; 10],
    /// Chunks of the value.
    pub chunks: Vec<Vec<u8>>,
    /// Version of the RDB format.
    version: [u8; 2],
}

/// Opcodes that Redis writes before each value of a module.
const UNSIGNED: u8 = 2;
const STRING: u8 = 5;
const END: u8 = 0;

impl Payload {
    /// Parses a dump. The server must not compress strings (`rdbcompression no`).
    ///
    /// # Panics
    /// Panics if the dump has another format.
    pub fn of(dump: &[u8]) -> Payload {
        let (dump, _) = dump.split_at(dump.len() - 8);
        let (mut rest, version) = dump.split_at(dump.len() - 2);
        let mut take = |len: usize| {
            let (taken, left) = rest.split_at(len);
            rest = left;
            taken
        };
        let kind = take(10).try_into().expect("ten bytes");
        let mut chunks = Vec::new();
        loop {
            assert_eq!(take(1), [UNSIGNED], "a mark");
            if take(1) == [0] {
                break;
            }
            assert_eq!(take(1), [STRING], "a chunk");
            let first = take(1)[0];
            let len = match first >> 6 {
                0 => usize::from(first & 63),
                1 => usize::from(first & 63) << 8 | usize::from(take(1)[0]),
                _ => {
                    assert_eq!(first, 0x80, "a length of four bytes");
                    u32::from_be_bytes(take(4).try_into().expect("four bytes")) as usize
                }
            };
            chunks.push(take(len).to_vec());
        }
        assert_eq!(take(1), [END], "the end");
        assert!(rest.is_empty(), "trailing bytes");
        Payload {
            kind,
            chunks,
            version: version.try_into().expect("two bytes"),
        }
    }

    /// Encodes the payload as a dump with a correct checksum.
    pub fn dump(&self) -> Vec<u8> {
        let mut dump = self.kind.to_vec();
        for chunk in &self.chunks {
            dump.extend([UNSIGNED, 1, STRING, 0x80]);
            dump.extend((chunk.len() as u32).to_be_bytes());
            dump.extend(chunk);
        }
        dump.extend([UNSIGNED, 0, END]);
        dump.extend(self.version);
        dump.extend([0; 8]);
        sealed(dump)
    }

    /// Changes the version of the type. The version is at most 1023.
    pub fn of_version(mut self, version: u16) -> Payload {
        let low = u16::from_be_bytes([self.kind[8], self.kind[9]]);
        let [high, low] = (low & !0x3ff | version & 0x3ff).to_be_bytes();
        self.kind[8] = high;
        self.kind[9] = low;
        self
    }
}
