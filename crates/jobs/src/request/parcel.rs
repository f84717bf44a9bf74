//! Serializes an entry for HTTP: a tar file of its manifest, followed by its files.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use tar::{EntryType, Header};

use super::super::{Entry, Error, Manifest};

/// The name of the manifest in the tar file.
pub(super) const MANIFEST: &str = "manifest.json";
/// The name of the single file of an entry; the file's own name may be too long for a tar file.
pub(super) const ONE_FILE: &str = "index.cdx";
/// Block size of tar files in bytes.
pub(super) const BLOCK: usize = 512;
/// Size of a part that is sent, in bytes.
const PART: usize = 256 * 1024;
/// Number of bytes at the start of a manifest that include its checksum.
const BEGINNING: u64 = 128;

/// An entry to be sent. The files of the entry are open, so that they stay readable until the last
/// byte.
#[derive(Debug)]
pub struct Parcel {
    length: u64,
    /// The remaining members, in reverse order.
    members: Vec<Member>,
    now: Option<Current>,
    ended: bool,
}

#[derive(Debug)]
struct Member {
    head: Vec<u8>,
    file: File,
    path: PathBuf,
    size: u64,
}

/// A member whose header was sent.
#[derive(Debug)]
struct Current {
    file: File,
    path: PathBuf,
    left: u64,
    padding: usize,
}

impl Parcel {
    /// Opens the files of an entry.
    ///
    /// # Errors
    /// Fails if the files cannot be opened, or the entry was replaced in the meantime.
    pub fn of(entry: &Entry) -> Result<Parcel, Error> {
        let manifest = entry.manifest();
        let mut members = Vec::new();
        for (name, path, size) in entry.files() {
            let name = member_name(manifest, name);
            members.push(Member::open(name, &path, Some(size))?);
        }
        // Check the manifest after all files are open, so that it describes these files.
        let path = entry.manifest_path();
        let first = Member::open(MANIFEST, &path, None)?;
        first.must_have(&manifest.checksum)?;
        members.push(first);
        // The manifest comes first, then the files in its order.
        members.rotate_right(1);
        members.reverse();
        let length = |member: &Member| BLOCK as u64 + member.size + padding(member.size) as u64;
        Ok(Parcel {
            length: members.iter().map(length).sum::<u64>() + 2 * BLOCK as u64,
            members,
            now: None,
            ended: false,
        })
    }

    /// Returns the length of the tar file in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Returns the next part; `None` at the end.
    ///
    /// # Errors
    /// Fails if a file cannot be read, or was truncated; the parts sent so far must be discarded.
    pub fn part(&mut self) -> Result<Option<Vec<u8>>, Error> {
        let mut part = Vec::new();
        while part.len() < PART && !self.ended {
            match &mut self.now {
                None => match self.members.pop() {
                    Some(next) => {
                        part.extend_from_slice(&next.head);
                        self.now = Some(Current {
                            padding: padding(next.size),
                            file: next.file,
                            path: next.path,
                            left: next.size,
                        });
                    }
                    None => {
                        part.resize(part.len() + 2 * BLOCK, 0);
                        self.ended = true;
                    }
                },
                Some(now) if now.left == 0 => {
                    part.resize(part.len() + now.padding, 0);
                    self.now = None;
                }
                Some(now) => now.read(&mut part)?,
            }
        }
        Ok((!part.is_empty()).then_some(part))
    }
}

impl Member {
    fn open(name: &str, path: &Path, size: Option<u64>) -> Result<Member, Error> {
        let file = File::open(path).map_err(Error::io(path, "open"))?;
        let there = file.metadata().map_err(Error::io(path, "open"))?.len();
        let size = size.unwrap_or(there);
        if size != there {
            return Err(changed(path));
        }
        let mut head = Header::new_gnu();
        head.set_path(name).map_err(Error::io(path, "send"))?;
        head.set_entry_type(EntryType::Regular);
        head.set_mode(0o644);
        head.set_size(size);
        head.set_cksum();
        Ok(Member {
            head: head.as_bytes().to_vec(),
            file,
            path: path.to_owned(),
            size,
        })
    }

    /// Checks that this member is the manifest with this checksum.
    fn must_have(&self, checksum: &str) -> Result<(), Error> {
        let mut begin = Vec::new();
        let mut file = &self.file;
        let read = file.take(BEGINNING).read_to_end(&mut begin);
        let back = read.and_then(|_| file.seek(SeekFrom::Start(0)));
        back.map_err(Error::io(&self.path, "read"))?;
        let found = memchr::memmem::find(&begin, checksum.as_bytes());
        if !checksum.is_empty() && found.is_some() {
            Ok(())
        } else {
            Err(changed(&self.path))
        }
    }
}

impl Current {
    fn read(&mut self, part: &mut Vec<u8>) -> Result<(), Error> {
        let wanted = (PART.saturating_sub(part.len()) as u64).min(self.left);
        let read = (&mut self.file).take(wanted).read_to_end(part);
        match read.map_err(Error::io(&self.path, "read"))? as u64 {
            0 => Err(changed(&self.path)),
            read => {
                self.left = self.left.saturating_sub(read);
                Ok(())
            }
        }
    }
}

/// Returns the name of a file in the tar file. If an entry has a single file, that file is named after the entry and
/// gets a fixed name in the tar file.
pub(super) fn member_name<'a>(manifest: &Manifest, name: &'a str) -> &'a str {
    if name == manifest.entry {
        ONE_FILE
    } else {
        name
    }
}

fn changed(path: &Path) -> Error {
    Error::Damaged {
        entry: path.to_owned(),
        what: "it was changed before it was sent".to_owned(),
    }
}

/// Returns the number of bytes that fill up the last block.
pub(super) fn padding(size: u64) -> usize {
    let over = usize::try_from(size % BLOCK as u64).unwrap_or(0);
    (BLOCK - over) % BLOCK
}
