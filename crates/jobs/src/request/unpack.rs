//! Unpacks the tar file of an entry while it is received. The input is untrusted: each part is verified.

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use tar::{EntryType, Header};
use xxhash_rust::xxh3::Xxh3;

use super::super::{Error, FileSum, Manifest, Work};
use super::failure::Failure;
use super::parcel::{BLOCK, MANIFEST, member_name, padding};

/// Maximum size of a manifest, in bytes.
const MAX_MANIFEST: u64 = 64 << 20;
/// Maximum ratio of the decompressed size of a file to its compressed size.
const RATIO: u64 = 200;
/// Number of decompressed bytes that are allowed regardless of the ratio.
const FREE: u64 = 16 << 20;
const BUFFER: usize = 128 * 1024;

/// A tar file that is being read.
pub(super) struct Tar<'a, R> {
    input: Input<R>,
    work: &'a Work,
}

/// The bytes from a server, and the reason if they ended too early.
struct Input<R> {
    bytes: R,
    broken: Option<String>,
    work: Work,
}

impl<'a, R: Read> Tar<'a, R> {
    /// Reads the manifest, which comes first.
    pub(super) fn begin(bytes: R, work: &'a Work) -> Result<(Tar<'a, R>, Manifest), Failure> {
        let input = Input {
            bytes,
            broken: None,
            work: work.clone(),
        };
        let mut tar = Tar { input, work };
        let size = tar.head(MANIFEST)?;
        if size > MAX_MANIFEST {
            return Err(Failure::answer(format!(
                "its manifest has {size} bytes, the maximum is {MAX_MANIFEST}"
            )));
        }
        let mut text = Vec::new();
        let read = (&mut tar.input).take(size).read_to_end(&mut text);
        tar.whole(read.map(|read| read as u64), size)?;
        tar.skip_padding(size)?;
        let manifest =
            Manifest::parse(&text).map_err(|wrong| Failure::answer(wrong.to_string()))?;
        Ok((tar, manifest))
    }

    /// Copies the next file unchanged.
    pub(super) fn copy(
        &mut self,
        manifest: &Manifest,
        sum: &FileSum,
        to: Option<(&Path, File)>,
    ) -> Result<(), Failure> {
        let mut output = Output::new(to);
        self.member(manifest, sum, |input, work| {
            pass(input, work, None, |part| output.write(part))
        })?;
        output.finish()
    }

    /// Decompresses the next file, which is gzipped.
    pub(super) fn unzip(
        &mut self,
        manifest: &Manifest,
        sum: &FileSum,
        to: (&Path, File),
    ) -> Result<(), Failure> {
        if sum.size == 0 {
            return self.copy(manifest, sum, Some(to));
        }
        let mut output = Output::new(Some(to));
        let most = sum.size.saturating_mul(RATIO).saturating_add(FREE);
        self.member(manifest, sum, |input, work| {
            let mut text = MultiGzDecoder::new(io::BufReader::with_capacity(BUFFER, &mut *input));
            pass(&mut text, work, Some(most), |part| output.write(part))?;
            // Reject data after the end of the gzip stream.
            pass(input, work, Some(0), |_| Ok(()))
        })?;
        output.finish()
    }

    /// Checks that no data follows the last file.
    pub(super) fn end(&mut self) -> Result<(), Failure> {
        for _ in 0..2 {
            if self.block()?.iter().any(|byte| *byte != 0) {
                return Err(Failure::answer(
                    "the tar contains files that its manifest does not list",
                ));
            }
        }
        // Zero padding of the last record of the tar file.
        let mut rest = [0; BLOCK];
        for _ in 0..64 {
            match self.input.read(&mut rest) {
                Ok(0) => return Ok(()),
                Ok(read) if rest.iter().take(read).all(|byte| *byte == 0) => {}
                Ok(_) => return Err(Failure::answer("there are bytes after the end of the tar")),
                Err(error) => return Err(Failure::broken(error.to_string())),
            }
        }
        Err(Failure::answer("the end of the tar is missing"))
    }

    /// Reads a file: its header, its content through `take`, and verifies size and checksum.
    fn member(
        &mut self,
        manifest: &Manifest,
        sum: &FileSum,
        take: impl FnOnce(&mut Summed<'_, R>, &Work) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let name = member_name(manifest, &sum.name);
        let size = self.head(name)?;
        if size != sum.size {
            let expected = sum.size;
            return Err(Failure::answer(format!(
                "{name} has {size} bytes in the tar, but {expected} in the manifest"
            )));
        }
        let mut summed = Summed {
            input: &mut self.input,
            left: size,
            hash: Xxh3::new(),
        };
        let taken = take(&mut summed, self.work);
        let (left, hash) = (summed.left, summed.hash);
        if let Some(why) = self.input.broken.take() {
            return Err(Failure::broken(why));
        }
        taken.map_err(|failure| failure.about(name))?;
        let found = format!("{:032x}", hash.digest128());
        if left != 0 || found != sum.xxh128 {
            let expected = &sum.xxh128;
            return Err(Failure::answer(format!(
                "the checksum of {name} is {found}, but {expected} in the manifest"
            )));
        }
        self.skip_padding(size)
    }

    /// Reads the header of a regular file with this name, and returns the size of the file.
    fn head(&mut self, name: &str) -> Result<u64, Failure> {
        let block = self.block()?;
        let header = Header::from_byte_slice(&block);
        let sum = header.cksum();
        // The sum of all bytes of the header, with the checksum field counted as blanks.
        let blank = |at: usize| (148..156).contains(&at);
        let bytes = block.iter().enumerate();
        let found: u32 = bytes
            .map(|(at, byte)| u32::from(if blank(at) { b' ' } else { *byte }))
            .sum();
        if sum.ok() != Some(found) {
            return Err(Failure::answer(format!(
                "the tar header of {name} is missing or damaged"
            )));
        }
        let is_named = *header.path_bytes() == *name.as_bytes();
        if !is_named || header.entry_type() != EntryType::Regular {
            let other = String::from_utf8_lossy(&header.path_bytes()).into_owned();
            return Err(Failure::answer(format!(
                "the tar has {other:?} where the file {name} was expected"
            )));
        }
        let size = header.entry_size();
        size.map_err(|_| Failure::answer(format!("{name} has no size in the tar")))
    }

    fn block(&mut self) -> Result<[u8; BLOCK], Failure> {
        let mut block = [0; BLOCK];
        let read = self.input.read_exact(&mut block);
        self.whole(read.map(|()| 0), 0)?;
        Ok(block)
    }

    fn skip_padding(&mut self, size: u64) -> Result<(), Failure> {
        let padding = padding(size) as u64;
        let skipped = io::copy(&mut (&mut self.input).take(padding), &mut io::sink());
        self.whole(skipped, padding)
    }

    /// Checks that the expected number of bytes was read.
    fn whole(&mut self, read: io::Result<u64>, expected: u64) -> Result<(), Failure> {
        match (self.input.broken.take(), read) {
            (Some(why), _) => Err(Failure::broken(why)),
            (None, Ok(read)) if read == expected => Ok(()),
            (None, Ok(_)) => Err(Failure::broken(CUT_OFF.to_owned())),
            (None, Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(Failure::broken(CUT_OFF.to_owned()))
            }
            (None, Err(error)) => Err(Failure::broken(error.to_string())),
        }
    }
}

const CUT_OFF: &str = "the response ends before the end of the tar";

impl<R: Read> Read for Input<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.bytes.read(into);
        match &read {
            // Cancellation is checked where the bytes are written.
            Ok(read) => _ = self.work.advance(*read as u64),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => self.broken = Some(error.to_string()),
        }
        read
    }
}

/// The bytes of a member, which are hashed while they are read.
struct Summed<'a, R> {
    input: &'a mut Input<R>,
    left: u64,
    hash: Xxh3,
}

impl<R: Read> Read for Summed<'_, R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.input.take(self.left).read(into)?;
        if read == 0 && self.left > 0 && !into.is_empty() {
            self.input.broken = Some(CUT_OFF.to_owned());
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left = self.left.saturating_sub(read as u64);
        self.hash.update(&into[..read]);
        Ok(read)
    }
}

/// Passes the content of an input to `give`, up to `most` bytes.
fn pass(
    mut input: impl Read,
    work: &Work,
    most: Option<u64>,
    mut give: impl FnMut(&[u8]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut buffer = vec![0; BUFFER];
    let mut count: u64 = 0;
    loop {
        let read = match input.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(Failure::answer(format!("it is not gzip: {error}"))),
        };
        count = count.saturating_add(read as u64);
        if most.is_some_and(|most| count > most) {
            return Err(Failure::answer(format!(
                "it unpacks to more than {} bytes",
                most.unwrap_or(0)
            )));
        }
        work.check()?;
        give(&buffer[..read])?;
    }
}

/// An output file; `None` to discard the bytes.
struct Output<'a>(Option<(&'a Path, BufWriter<File>)>);

impl<'a> Output<'a> {
    fn new(to: Option<(&'a Path, File)>) -> Output<'a> {
        Output(to.map(|(path, file)| (path, BufWriter::with_capacity(BUFFER, file))))
    }

    fn write(&mut self, part: &[u8]) -> Result<(), Failure> {
        match &mut self.0 {
            Some((path, file)) => Ok(file.write_all(part).map_err(Error::io(path, "write"))?),
            None => Ok(()),
        }
    }

    fn finish(self) -> Result<(), Failure> {
        match self.0 {
            Some((path, mut file)) => Ok(file.flush().map_err(Error::io(path, "write"))?),
            None => Ok(()),
        }
    }
}
