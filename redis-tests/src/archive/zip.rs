//! Zip files with stored (uncompressed) members, like WACZ files.

use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::Path;

use flate2::Crc;
use flate2::read::DeflateDecoder;

/// Writes members, uncompressed, into a zip file.
///
/// # Panics
/// Panics if the file cannot be written, or exceeds the 4 GiB of zip files without the Zip64
/// extension.
pub fn store_in(path: &Path, members: &[(&str, &[u8])]) {
    let file = File::create(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut file = BufWriter::new(file);
    let written = write(&mut file, members).and_then(|()| file.flush());
    written.unwrap_or_else(|e| panic!("{}: {e}", path.display()));
}

/// Builds a zip file in memory.
pub fn store(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut zip = Vec::new();
    write(&mut zip, members).expect("writing to memory cannot fail");
    zip
}

/// Builds a zip file in memory like a streaming writer: the size and checksum of a member follow
/// its data.
pub fn stream(members: &[(&str, &[u8])]) -> Vec<u8> {
    let (mut zip, mut directory) = (Vec::<u8>::new(), Vec::<u8>::new());
    for (name, bytes) in members {
        let mut crc = Crc::new();
        crc.update(bytes);
        let size = u32::try_from(bytes.len())
            .expect("less than 4 GiB")
            .to_le_bytes();
        let sums = [crc.sum().to_le_bytes(), size, size].concat();
        let at = u32::try_from(zip.len())
            .expect("less than 4 GiB")
            .to_le_bytes();
        // Version, flags (UTF-8 names, data descriptor), method, time, date.
        let mut head = Vec::new();
        for field in [45u16, 1 << 11 | 1 << 3, 0, 0, 1 << 5 | 1] {
            head.extend(field.to_le_bytes());
        }
        let length = (name.len() as u16).to_le_bytes();
        for part in [
            &b"PK\x03\x04"[..],
            &head,
            &[0; 12],
            &length,
            &[0; 2],
            name.as_bytes(),
            bytes,
        ] {
            zip.extend(part);
        }
        for part in [&b"PK\x07\x08"[..], &sums] {
            zip.extend(part);
        }
        for part in [
            &b"PK\x01\x02\x2d\x03"[..],
            &head,
            &sums,
            &length,
            &[0; 12],
            &at,
            name.as_bytes(),
        ] {
            directory.extend(part);
        }
    }
    let start = (zip.len() as u32).to_le_bytes();
    let (count, length) = (
        (members.len() as u16).to_le_bytes(),
        (directory.len() as u32).to_le_bytes(),
    );
    zip.extend(directory);
    for part in [
        &b"PK\x05\x06\0\0\0\0"[..],
        &count,
        &count,
        &length,
        &start,
        &[0; 2],
    ] {
        zip.extend(part);
    }
    zip
}

/// Reads a member of a small zip file.
///
/// # Panics
/// Panics if there is no member of that name, or the file is not a small zip file.
pub fn member(path: &Path, name: &str) -> Vec<u8> {
    let zip = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let number = |at: usize, bytes: usize| {
        let number = zip[at..at + bytes].iter().rev();
        number.fold(0, |sum, byte| sum << 8 | usize::from(*byte))
    };
    let end = memrfind(&zip, b"PK\x05\x06").expect("a zip file has an end record");
    let mut at = number(end + 16, 4);
    while zip[at..].starts_with(b"PK\x01\x02") {
        let [length, extra, comment] = [28, 30, 32].map(|field| number(at + field, 2));
        if zip[at + 46..at + 46 + length] == *name.as_bytes() {
            let (size, header) = (number(at + 20, 4), number(at + 42, 4));
            let begin = header + 30 + number(header + 26, 2) + number(header + 28, 2);
            let packed = &zip[begin..begin + size];
            if number(at + 10, 2) == 0 {
                return packed.to_vec();
            }
            let mut text = Vec::new();
            let read = DeflateDecoder::new(packed).read_to_end(&mut text);
            read.expect("the member is deflated");
            return text;
        }
        at += 46 + length + extra + comment;
    }
    panic!("{}: no member {name}", path.display())
}

fn memrfind(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).rposition(|window| window == what)
}

fn write(file: &mut impl Write, members: &[(&str, &[u8])]) -> std::io::Result<()> {
    let number = |n: usize| u32::try_from(n).expect("less than 4 GiB").to_le_bytes();
    let (mut directory, mut at) = (Vec::new(), 0);
    for (name, bytes) in members {
        let mut crc = Crc::new();
        crc.update(bytes);
        let mut head = Vec::new();
        // Version, flags (UTF-8 names), method, time, date.
        for field in [20u16, 1 << 11, 0, 0, 1 << 5 | 1] {
            head.extend(field.to_le_bytes());
        }
        head.extend(crc.sum().to_le_bytes());
        head.extend(number(bytes.len()));
        head.extend(number(bytes.len()));
        head.extend((name.len() as u16).to_le_bytes());
        head.extend([0; 2]);
        file.write_all(b"PK\x03\x04")?;
        file.write_all(&head)?;
        file.write_all(name.as_bytes())?;
        file.write_all(bytes)?;
        directory.extend(b"PK\x01\x02\x14\x00");
        directory.extend(&head);
        // Comment, disk, attributes.
        directory.extend([0; 10]);
        directory.extend(number(at));
        directory.extend(name.as_bytes());
        at += 4 + head.len() + name.len() + bytes.len();
    }
    file.write_all(&directory)?;
    file.write_all(b"PK\x05\x06\0\0\0\0")?;
    let count = (members.len() as u16).to_le_bytes();
    file.write_all(&[count, count].concat())?;
    file.write_all(&number(directory.len()))?;
    file.write_all(&number(at))?;
    file.write_all(&[0; 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_found_again() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("a.zip");
        store_in(&path, &[("a", &[b'x'; 70_000]), ("dir/b", b"second")]);
        assert_eq!(member(&path, "dir/b"), b"second");
        assert_eq!(member(&path, "a").len(), 70_000);
    }

    #[test]
    fn a_member_lies_where_the_directory_says() {
        let zip = store(&[("a", b"one"), ("dir/b", b"second")]);
        let end = zip.len() - 22;
        assert_eq!(zip[end..end + 4], *b"PK\x05\x06");
        let number = |at: usize| {
            u32::from_le_bytes(zip[at..at + 4].try_into().expect("four bytes")) as usize
        };
        let first = number(end + 16);
        assert_eq!(first + number(end + 12), end);
        assert_eq!(zip[first..first + 4], *b"PK\x01\x02");
        let second = first + 46 + 1;
        let at = number(second + 42);
        assert_eq!(zip[at..at + 4], *b"PK\x03\x04");
        assert!(zip[at..].windows(6).any(|bytes| bytes == b"second"));
    }
}
