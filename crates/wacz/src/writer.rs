mod blocks;

use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;

use serde::Serialize;
use sha2::{Digest as _, Sha256};

use self::blocks::{Blocks, Order};
use super::package::Required;
use super::reader::sha256_text;
use super::replacement::Replacement;
use super::zip::check_name;
use super::zip::record::{Method, Record, dos_time};
use super::zip::write::{MemberWriter, write_directory};
use super::{Error, Problem};

/// The WACZ version that is written.
const VERSION: &str = "1.1.1";

/// Writes a WACZ file. [`Writer::finish`] moves the file to its final path; until then, an existing
/// file is kept.
///
/// ```
/// use crawlspace_wacz::{Index, Page, Writer};
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("crawl-1.wacz");
/// let mut wacz = Writer::create(&path, "2026-03-19T10:20:15Z")?;
/// wacz.warc("crawl-1.warc.gz", &b"..."[..])?;
/// wacz.index(
///     Index::Blocks(1024),
///     [r#"com,example)/ 20260319102015 {"url": "http://example.com/", "filename": "crawl-1.warc.gz"}"#],
/// )?;
/// wacz.pages(&[Page { url: "http://example.com/", date: "2026-03-19T10:20:15Z", title: None }])?;
/// wacz.finish()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Writer {
    file: String,
    replacement: Replacement,
    out: BufWriter<File>,
    records: Vec<Record>,
    time: u32,
    datapackage: Datapackage,
    has_pages: bool,
}

/// The form of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Index {
    /// Plain text: `indexes/index.cdxj`.
    Plain,
    /// Gzip blocks with this number of lines in `indexes/index.cdx.gz`, and an index of the blocks in
    /// `indexes/index.idx`, so that a look-up decompresses a single block. Other WACZ tools use 1024 lines.
    Blocks(usize),
}

/// An entry page of the package.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Page<'a> {
    /// The URL of the page.
    pub url: &'a str,
    /// The capture date: `2026-03-19T10:20:15Z`.
    #[serde(rename = "ts")]
    pub date: &'a str,
    /// The title. For a page without a title, the URL is used.
    pub title: Option<&'a str>,
}

#[derive(Debug, Serialize)]
struct Datapackage {
    profile: &'static str,
    resources: Vec<Resource>,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    created: String,
    wacz_version: &'static str,
    software: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    relation: Option<Relation>,
}

#[derive(Debug, Serialize)]
struct Resource {
    name: String,
    path: String,
    hash: String,
    bytes: u64,
}

#[derive(Debug, Serialize)]
struct Relation {
    requires: Vec<Required>,
}

#[derive(Serialize)]
struct DatapackageDigest<'a> {
    path: &'static str,
    hash: &'a str,
}

impl Writer {
    /// Creates a package with this creation date (`2026-03-19T10:20:15Z`).
    ///
    /// # Errors
    /// Fails if the folder is not writable.
    pub fn create(path: &Path, created: &str) -> Result<Writer, Error> {
        let file = path.display().to_string();
        let begin = || {
            let replacement = Replacement::of(path)?;
            Ok((replacement.writer()?, replacement))
        };
        let (out, replacement) =
            begin().map_err(|error: io::Error| Error::new(&file, Problem::Io(error)))?;
        Ok(Writer {
            file,
            replacement,
            out,
            records: Vec::new(),
            time: dos_time(created),
            datapackage: Datapackage {
                profile: "data-package",
                resources: Vec::new(),
                title: None,
                created: created.to_owned(),
                wacz_version: VERSION,
                software: concat!("crawlspace ", env!("CARGO_PKG_VERSION")),
                relation: None,
            },
            has_pages: false,
        })
    }

    /// Sets the title of the package.
    pub fn title(&mut self, title: &str) {
        self.datapackage.title = Some(title.to_owned());
    }

    /// Sets the packages that are required to replay revisits in this package.
    pub fn requires(&mut self, required: &[Required]) {
        let requires = required.to_vec();
        self.datapackage.relation = (!requires.is_empty()).then_some(Relation { requires });
    }

    /// Stores a WARC file unchanged, in `archive/`.
    ///
    /// # Errors
    /// Fails if the input cannot be read or the package cannot be written; [`Problem::Refused`] for an invalid or a
    /// duplicate name.
    pub fn warc(&mut self, name: &str, mut input: impl Read) -> Result<(), Error> {
        if name.is_empty() || name.contains('/') {
            let why = "the name of a WARC file must not be empty or contain a slash";
            return Err(Error::of_member(
                &self.file,
                name,
                Problem::Refused(why.to_owned()),
            ));
        }
        self.member(&format!("archive/{name}"), Method::Stored, |out| {
            io::copy(&mut input, out).map(drop).map_err(Problem::Io)
        })
    }

    /// Writes the index from sorted CDXJ lines without line ends.
    ///
    /// # Errors
    /// Fails if the package cannot be written; [`Problem::Refused`] for lines that are invalid or not sorted.
    pub fn index<L: AsRef<[u8]>>(
        &mut self,
        index: Index,
        lines: impl IntoIterator<Item = L>,
    ) -> Result<(), Error> {
        match index {
            Index::Plain => self.member("indexes/index.cdxj", Method::Deflated, |out| {
                let mut order = Order::default();
                for line in lines {
                    order.check(line.as_ref())?;
                    out.write_all(line.as_ref())?;
                    out.write_all(b"\n")?;
                }
                Ok(())
            }),
            Index::Blocks(of) => {
                let name = "index.cdx.gz";
                let mut blocks = Blocks::new(of, name);
                // The content is compressed already, and must be readable by ranges: store it.
                self.member(&format!("indexes/{name}"), Method::Stored, |out| {
                    let mut order = Order::default();
                    for line in lines {
                        order.check(line.as_ref())?;
                        blocks.line(line.as_ref(), out)?;
                    }
                    Ok(blocks.flush(out)?)
                })?;
                let text = blocks.into_index();
                self.member("indexes/index.idx", Method::Deflated, |out| {
                    Ok(out.write_all(&text)?)
                })
            }
        }
    }

    /// Writes the list of pages.
    ///
    /// # Errors
    /// Fails if the package cannot be written, or the list was already written.
    pub fn pages(&mut self, pages: &[Page<'_>]) -> Result<(), Error> {
        self.has_pages = true;
        self.member("pages/pages.jsonl", Method::Deflated, |out| {
            out.write_all(
                b"{\"format\": \"json-pages-1.0\", \"id\": \"pages\", \"title\": \"Pages\"}\n",
            )?;
            for page in pages {
                // Tools that validate the list as a table treat a line without a title as an empty row.
                let page = Page {
                    title: page
                        .title
                        .filter(|title| !title.is_empty())
                        .or(Some(page.url)),
                    ..*page
                };
                serde_json::to_writer(&mut *out, &page).map_err(io::Error::from)?;
                out.write_all(b"\n")?;
            }
            Ok(())
        })
    }

    /// Writes the metadata of the package, and moves the file to its final path.
    ///
    /// # Errors
    /// Fails if the package cannot be written.
    pub fn finish(mut self) -> Result<(), Error> {
        if !self.has_pages {
            self.pages(&[])?;
        }
        let datapackage = pretty(&self.datapackage);
        let hash = sha256_text(&Sha256::digest(&datapackage));
        let digest = pretty(&DatapackageDigest {
            path: "datapackage.json",
            hash: &hash,
        });
        for (name, text) in [
            ("datapackage.json", datapackage),
            ("datapackage-digest.json", digest),
        ] {
            self.member(name, Method::Deflated, |out| Ok(out.write_all(&text)?))?;
        }
        let Writer {
            file,
            replacement,
            mut out,
            records,
            ..
        } = self;
        let done = write_directory(&mut out, &records, b"")
            .and_then(|()| out.stream_position())
            .and_then(|end| out.get_ref().set_len(end))
            .and_then(|()| replacement.commit());
        done.map_err(|error| Error::new(file, Problem::Io(error)))
    }

    /// Writes a member, and records its entry in the datapackage.
    fn member(
        &mut self,
        path: &str,
        method: Method,
        write: impl FnOnce(&mut Hashing<MemberWriter<&mut BufWriter<File>>>) -> Result<(), Problem>,
    ) -> Result<(), Error> {
        let start = self.out.stream_position();
        let written = self.write_member(path, method, write);
        if let (Err(_), Ok(start)) = (&written, start) {
            // Let the next member overwrite the partial member. If seeking fails, writing that member fails
            // as well.
            let _ = self.out.seek(SeekFrom::Start(start));
        }
        written.map_err(|problem| Error::of_member(&self.file, path, problem))
    }

    fn write_member(
        &mut self,
        path: &str,
        method: Method,
        write: impl FnOnce(&mut Hashing<MemberWriter<&mut BufWriter<File>>>) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        check_name(path.as_bytes()).map_err(Problem::Refused)?;
        if self
            .records
            .iter()
            .any(|record| record.name == path.as_bytes())
        {
            return Err(Problem::Refused("it is in the package already".to_owned()));
        }
        let record = Record::new(path, method, self.time);
        let mut out = Hashing {
            out: MemberWriter::new(&mut self.out, record, None)?,
            hash: Sha256::new(),
        };
        write(&mut out)?;
        let (_, record) = out.out.finish()?;
        let resources = &mut self.datapackage.resources;
        let last = path.rsplit('/').next().unwrap_or(path).to_lowercase();
        let is_taken = resources.iter().any(|resource| resource.name == last);
        resources.push(Resource {
            name: if is_taken {
                path.to_lowercase().replace('/', "-")
            } else {
                last
            },
            path: path.to_owned(),
            hash: sha256_text(&out.hash.finalize()),
            bytes: record.size,
        });
        self.records.push(record);
        Ok(())
    }
}

fn pretty(value: &impl Serialize) -> Vec<u8> {
    // Serializing strings and numbers cannot fail.
    serde_json::to_vec_pretty(value).unwrap_or_default()
}

struct Hashing<W> {
    out: W,
    hash: Sha256,
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.out.write(bytes)?;
        self.hash.update(&bytes[..n]);
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
