//! Builds zip files byte by byte. Therefore, reader and writer cannot share a mistake, and tests can falsify any
//! byte.

use redis_tests::but;
use std::io::Write;

/// A member and its metadata.
#[derive(Clone)]
pub struct Part {
    pub name: Vec<u8>,
    pub flags: u16,
    pub method: u16,
    pub crc: u32,
    /// Data as stored.
    pub data: Vec<u8>,
    /// Sizes in the directory and in the local header.
    pub compressed: u64,
    pub size: u64,
    /// Name and method in the local header, if they differ.
    pub local_name: Option<Vec<u8>>,
    pub local_method: Option<u16>,
    /// True if checksum and sizes follow the data.
    pub descriptor: bool,
    /// True if sizes and offset are written as zip64 fields.
    pub zip64: bool,
    /// Offset in the directory, if it is falsified.
    pub place: Option<u64>,
}

impl Part {
    pub fn stored(name: &str, text: &[u8]) -> Part {
        Part {
            name: name.as_bytes().to_vec(),
            flags: 0,
            method: 0,
            crc: crc32(text),
            data: text.to_vec(),
            compressed: text.len() as u64,
            size: text.len() as u64,
            local_name: None,
            local_method: None,
            descriptor: false,
            zip64: false,
            place: None,
        }
    }

    pub fn deflated(name: &str, text: &[u8]) -> Part {
        let data = deflate(text);
        but!(Part::stored(name, text), method: 8, compressed: data.len() as u64, data)
    }

    fn sizes(&self) -> Vec<u8> {
        if self.zip64 {
            return [u32::MAX.to_le_bytes(); 2].concat();
        }
        [
            (self.compressed as u32).to_le_bytes(),
            (self.size as u32).to_le_bytes(),
        ]
        .concat()
    }

    fn local(&self) -> Vec<u8> {
        let name = self.local_name.as_ref().unwrap_or(&self.name);
        let method = self.local_method.unwrap_or(self.method);
        let flags = self.flags | u16::from(self.descriptor) << 3;
        let mut bytes = b"PK\x03\x04\x14\0".to_vec();
        bytes.extend([flags.to_le_bytes(), method.to_le_bytes()].concat());
        bytes.extend([0; 4]);
        let extra = if self.zip64 {
            [
                &[1, 0, 16, 0][..],
                &self.size.to_le_bytes(),
                &self.compressed.to_le_bytes(),
            ]
            .concat()
        } else {
            Vec::new()
        };
        if self.descriptor {
            bytes.extend([0; 12]);
        } else {
            bytes.extend(self.crc.to_le_bytes());
            bytes.extend(self.sizes());
        }
        bytes.extend((name.len() as u16).to_le_bytes());
        bytes.extend((extra.len() as u16).to_le_bytes());
        bytes.extend(name);
        bytes.extend(extra);
        bytes.extend(&self.data);
        if self.descriptor {
            bytes.extend(b"PK\x07\x08");
            bytes.extend(self.crc.to_le_bytes());
            bytes.extend(self.sizes());
        }
        bytes
    }

    fn central(&self, place: u64) -> Vec<u8> {
        let place = self.place.unwrap_or(place);
        let flags = self.flags | u16::from(self.descriptor) << 3;
        let extra = if self.zip64 {
            let numbers = [self.size, self.compressed, place]
                .map(u64::to_le_bytes)
                .concat();
            [&[1, 0, 24, 0][..], &numbers].concat()
        } else {
            Vec::new()
        };
        let mut bytes = b"PK\x01\x02\x14\x03\x14\0".to_vec();
        bytes.extend([flags.to_le_bytes(), self.method.to_le_bytes()].concat());
        bytes.extend([0; 4]);
        bytes.extend(self.crc.to_le_bytes());
        bytes.extend(self.sizes());
        bytes.extend((self.name.len() as u16).to_le_bytes());
        bytes.extend((extra.len() as u16).to_le_bytes());
        bytes.extend([0; 10]);
        bytes.extend(if self.zip64 { u32::MAX } else { place as u32 }.to_le_bytes());
        bytes.extend(&self.name);
        bytes.extend(extra);
        bytes
    }
}

/// The end record of a zip file, and its values.
#[derive(Clone, Default)]
pub struct Ending {
    pub comment: Vec<u8>,
    /// True if the zip64 records precede the end record.
    pub zip64: bool,
    /// Falsified numbers.
    pub entries: Option<u64>,
    pub length: Option<u64>,
    pub start: Option<u64>,
    /// Number of bytes that will be inserted before the zip64 record.
    pub gap: u64,
}

/// Builds a zip file of these members.
pub fn zip(parts: &[Part]) -> Vec<u8> {
    zip_with(parts, &Ending::default())
}

pub fn zip_with(parts: &[Part], ending: &Ending) -> Vec<u8> {
    let mut file = Vec::new();
    let mut directory = Vec::new();
    for part in parts {
        directory.extend(part.central(file.len() as u64));
        file.extend(part.local());
    }
    let start = ending.start.unwrap_or(file.len() as u64);
    let length = ending.length.unwrap_or(directory.len() as u64);
    let entries = ending.entries.unwrap_or(parts.len() as u64);
    file.extend(directory);
    if ending.zip64 {
        let at = file.len() as u64 + ending.gap;
        file.extend(b"PK\x06\x06");
        file.extend(44_u64.to_le_bytes());
        file.extend([45, 3, 45, 0]);
        file.extend([0; 8]);
        file.extend(
            [entries, entries, length, start]
                .map(u64::to_le_bytes)
                .concat(),
        );
        file.extend(b"PK\x06\x07\0\0\0\0");
        file.extend(at.to_le_bytes());
        file.extend(1_u32.to_le_bytes());
        file.extend(b"PK\x05\x06\0\0\0\0");
        file.extend([0xff; 12]);
    } else {
        file.extend(b"PK\x05\x06\0\0\0\0");
        file.extend([(entries as u16).to_le_bytes(); 2].concat());
        file.extend([(length as u32).to_le_bytes(), (start as u32).to_le_bytes()].concat());
    }
    file.extend((ending.comment.len() as u16).to_le_bytes());
    file.extend(&ending.comment);
    file
}

pub fn deflate(text: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::new(6));
    out.write_all(text).unwrap();
    out.finish().unwrap()
}

pub fn gzip(text: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(6));
    out.write_all(text).unwrap();
    out.finish().unwrap()
}

pub fn crc32(text: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(text);
    crc.sum()
}
