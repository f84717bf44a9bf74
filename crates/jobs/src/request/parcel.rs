//! An entry as one stream of bytes: a tar of its manifest and then its files, which is what goes over HTTP.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use tar::{EntryType, Header};

use super::super::{Entry, Error, Manifest};

/// What the manifest is called in it.
pub(super) const MANIFEST: &str = "manifest.json";
/// What the file of an entry that is one is called, whose own name may be too long for a tar.
pub(super) const ONE_FILE: &str = "index.cdx";
/// Everything in a tar begins at a multiple of this.
pub(super) const BLOCK: usize = 512;
/// How much is read at a time.
const PART: usize = 256 * 1024;
/// More than the beginning of a manifest, with its checksum in it.
const BEGINNING: u64 = 128;

/// An entry to be sent: its files are open, so that it is all there until the last byte.
#[derive(Debug)]
pub struct Parcel {
    length: u64,
    /// The next one last.
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

/// A member whose head is sent.
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
    /// When they cannot be opened, or the entry was built anew since it was looked at.
    pub fn of(entry: &Entry) -> Result<Parcel, Error> {
        let manifest = entry.manifest();
        let mut members = Vec::new();
        for (name, path, size) in entry.files() {
            let name = member_name(manifest, name);
            members.push(Member::open(name, &path, Some(size))?);
        }
        // The manifest is looked at when all others are open: they are those that it is about.
        let path = entry.manifest_path();
        let first = Member::open(MANIFEST, &path, None)?;
        first.must_have(&manifest.checksum)?;
        members.push(first);
        // The manifest comes first, and then the files in its order.
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

    /// How many bytes it has.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The next bytes of it; none at its end.
    ///
    /// # Errors
    /// When a file cannot be read, or ends too early: what was sent is to be thrown away.
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

    /// Whether it is the manifest with that checksum.
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

/// What a file of an entry is called in its tar. That of an entry which is a file has the entry's own name.
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
        what: "it was changed while it was to be sent".to_owned(),
    }
}

/// What is missing to a whole block.
pub(super) fn padding(size: u64) -> usize {
    let over = usize::try_from(size % BLOCK as u64).unwrap_or(0);
    (BLOCK - over) % BLOCK
}
